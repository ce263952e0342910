//! Joining and renewing through a broker, which must neither read a token's secret nor answer for the controller.
//!
//! ```text
//!   request  = joiner's key (32) · nonce (24) · sealed( 1 · JoinRequest )     on topic::join_request
//!   answer   =                     nonce (24) · sealed( 2 · JoinAnswer )      on topic::join_answer
//! ```
//!
//! The joiner makes a key for this request alone, and knows the controller's from its token or its identity. The
//! seal is for the nonce in the topic, so an answer fits no other request. The controller need not know the joiner's
//! key: the token in the request says whether it may join.

use super::{JOIN_MAX, JoinAnswer, JoinError, JoinRequest, is_nonce};
use crate::seal::{Nonce, Seal, SealPublic, SealSecret};
use crate::{NodeId, SiteId};

/// The largest payload: a request or an answer, and what is around it.
pub const RELAYED_MAX: usize = 32 + 24 + 16 + 1 + JOIN_MAX;
/// The kinds of contents of a seal.
const REQUEST: u8 = 1;
const ANSWER: u8 = 2;

/// The joiner's end of one request.
pub struct Joiner {
    key: SealPublic,
    seal: Seal,
}

impl Joiner {
    /// For the nonce of the join topics; `random` makes the key of this request.
    ///
    /// # Errors
    /// [`JoinError::Malformed`] if that is no nonce.
    pub fn new(
        site: &SiteId,
        nonce: &str,
        controller: &SealPublic,
        random: [u8; 32],
    ) -> Result<Self, JoinError> {
        let secret = SealSecret::from_bytes(random);
        let seal = Seal::new(&secret, controller, site, &name(nonce)?);
        Ok(Self { key: secret.public(), seal })
    }

    /// The payload to publish. `nonce` is fresh and random.
    ///
    /// # Errors
    /// [`JoinError::Seal`] for an unsound key of the controller.
    pub fn request(&self, request: &JoinRequest, nonce: Nonce) -> Result<Vec<u8>, JoinError> {
        let sealed = seal(&self.seal, REQUEST, &nonce, &request.encode())?;
        Ok([&self.key.0[..], &sealed].concat())
    }

    /// Opens the controller's answer.
    ///
    /// # Errors
    /// [`JoinError`]: it is not the controller's, or not for this request.
    pub fn answer(&self, payload: &[u8]) -> Result<JoinAnswer, JoinError> {
        JoinAnswer::decode(&open(&self.seal, ANSWER, payload)?)
    }
}

/// The controller's end of one request.
pub struct Request {
    seal: Seal,
    body: Vec<u8>,
}

impl Request {
    /// Opens a joiner's request from the topic with this nonce.
    ///
    /// # Errors
    /// [`JoinError`]: it was not made for this controller and this topic.
    pub fn open(mine: &SealSecret, site: &SiteId, nonce: &str, payload: &[u8]) -> Result<Self, JoinError> {
        if payload.len() > RELAYED_MAX {
            return Err(JoinError::Malformed);
        }
        let (key, sealed) = payload.split_first_chunk().ok_or(JoinError::Malformed)?;
        let seal = Seal::new(mine, &SealPublic(*key), site, &name(nonce)?);
        let body = open(&seal, REQUEST, sealed)?;
        Ok(Self { seal, body })
    }

    /// The bytes of a [`JoinRequest`].
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The payload of the answer. `nonce` is fresh and random.
    ///
    /// # Errors
    /// [`JoinError::Seal`]: only for an unsound key, with which nothing opened.
    pub fn answer(&self, answer: &JoinAnswer, nonce: Nonce) -> Result<Vec<u8>, JoinError> {
        seal(&self.seal, ANSWER, &nonce, &answer.encode())
    }
}

/// A nonce has the form of a name, which the seal is for.
fn name(nonce: &str) -> Result<NodeId, JoinError> {
    nonce.parse().ok().filter(|_| is_nonce(nonce)).ok_or(JoinError::Malformed)
}

fn seal(seal: &Seal, kind: u8, nonce: &Nonce, body: &[u8]) -> Result<Vec<u8>, JoinError> {
    let sealed = seal.seal(nonce, &[&[kind], body].concat()).map_err(|_| JoinError::Seal)?;
    Ok([&nonce[..], &sealed].concat())
}

fn open(seal: &Seal, kind: u8, payload: &[u8]) -> Result<Vec<u8>, JoinError> {
    let (nonce, sealed) = payload.split_first_chunk().ok_or(JoinError::Malformed)?;
    let body = seal.open(nonce, sealed).map_err(|_| JoinError::Seal)?;
    match body.split_first() {
        Some((found, rest)) if *found == kind => Ok(rest.to_vec()),
        _ => Err(JoinError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NewNode, TokenId, TokenSecret};
    use super::*;

    const NONCE: &str = "0123456789abcdef0123456789abcdef";

    fn site() -> SiteId {
        "lab".parse().unwrap()
    }

    fn join() -> JoinRequest {
        JoinRequest::Join(NewNode {
            token_id: TokenId([1; 8]),
            secret: TokenSecret([0x5e; 16]),
            name: "web-1".parse().unwrap(),
            csr_der: vec![0x30],
            seal_public: SealPublic([7; 32]),
            agent_version: "0.1.0".into(),
        })
    }

    #[test]
    fn a_request_and_its_answer_pass() {
        let controller = SealSecret::from_bytes([1; 32]);
        let joiner = Joiner::new(&site(), NONCE, &controller.public(), [2; 32]).unwrap();
        let payload = joiner.request(&join(), [3; 24]).unwrap();
        assert!(!payload.windows(16).any(|bytes| bytes == [0x5e; 16]), "the secret is not to be read");
        let request = Request::open(&controller, &site(), NONCE, &payload).unwrap();
        assert_eq!(JoinRequest::decode(request.body()), Ok(join()));
        let answer = request.answer(&JoinAnswer::refused("no"), [4; 24]).unwrap();
        assert_eq!(joiner.answer(&answer), Ok(JoinAnswer::refused("no")));
    }

    #[test]
    fn whatever_differs_does_not_open() {
        let controller = SealSecret::from_bytes([1; 32]);
        let joiner = Joiner::new(&site(), NONCE, &controller.public(), [2; 32]).unwrap();
        let payload = joiner.request(&join(), [3; 24]).unwrap();
        let refused = |mine: &SealSecret, site: &SiteId, nonce: &str, payload: &[u8]| {
            Request::open(mine, site, nonce, payload).err()
        };
        let other = "f".repeat(32);
        assert_eq!(refused(&controller, &site(), &other, &payload), Some(JoinError::Seal));
        assert_eq!(refused(&controller, &"lab2".parse().unwrap(), NONCE, &payload), Some(JoinError::Seal));
        assert_eq!(
            refused(&SealSecret::from_bytes([9; 32]), &site(), NONCE, &payload),
            Some(JoinError::Seal)
        );
        for nonce in ["", "web-1", "ABCDEFGH", &"a".repeat(33)] {
            assert_eq!(refused(&controller, &site(), nonce, &payload), Some(JoinError::Malformed), "{nonce}");
        }
        for end in 0..payload.len() {
            assert!(refused(&controller, &site(), NONCE, &payload[..end]).is_some(), "up to {end}");
        }
        // A request that is sent back is no answer, and another request's answer neither.
        assert_eq!(joiner.answer(&payload[32..]), Err(JoinError::Malformed));
        let again = Joiner::new(&site(), NONCE, &controller.public(), [6; 32]).unwrap();
        let request = Request::open(&controller, &site(), NONCE, &payload).unwrap();
        let answer = request.answer(&JoinAnswer::refused("no"), [4; 24]).unwrap();
        assert_eq!(again.answer(&answer), Err(JoinError::Seal));
    }
}
