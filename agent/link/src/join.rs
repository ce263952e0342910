//! Joining a site with a token, and renewing the node's certificate. `identity.rs` says when that is due.
//!
//! Absent: whether a token lets a server join, and how fast (`controller/engine/src/node/join_token.rs`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_broker::{Trust, client_config};
use muster_shared::join::relayed::Joiner;
use muster_shared::join::{
    self, Address, BrokerAccess, JoinAnswer, JoinError, JoinRequest, JoinToken, NewNode,
};
use muster_shared::seal::SealSecret;
use muster_shared::time::utc;
use muster_shared::{NodeId, SiteId, topic};
use rcgen::{CertificateParams, KeyPair};
use thiserror::Error;
use tokio::net::lookup_host;
use tokio::time::{Instant, sleep, timeout};

use crate::broker::ThroughBroker;
use crate::connection::{LinkError, Mqtt, Peer, greet};
use crate::identity::Identity;
use crate::tls::{self, Root};

/// For the controller's answer: it asks its own store.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// A broker may lose the request or the answer, so it is asked so often in that time.
const ASKS: u32 = 3;
/// Servers behind one address join one after the other; each takes a fraction of a second, a broken one 10 s.
const TURN_WITHIN: Duration = Duration::from_secs(60);
/// Before a server asks again that was told to, at least, and how much later it may be.
const LATER_MIN: Duration = Duration::from_millis(100);
const LATER_SPREAD: Duration = Duration::from_secs(1);
/// Between two looks whether it is our turn.
const TURN_PAUSE: Duration = Duration::from_millis(250);

/// The reason why this server is not a node.
#[derive(Debug, Error)]
pub enum EnrolError {
    /// The token is too old.
    #[error(
        "the join token has expired: it ended {}, and this server's clock says {}; make another with 'muster node token', or \
         set the clock if it is wrong", utc(*ended), utc(*now)
    )]
    Expired {
        /// Seconds since 1970.
        ended: u64,
        /// Seconds since 1970, by this server's clock.
        now: u64,
    },
    /// The controller says no.
    #[error("the controller refuses: {0}")]
    Refused(String),
    #[error("{reason}: the token ends before it would be this server's turn")]
    Later {
        /// As the controller says it.
        reason: String,
        /// When to ask again.
        after: Duration,
    },
    /// The controller does not answer.
    #[error("the controller does not answer: it is busy, or not of this version")]
    Silent,
    /// The controller answers for someone else.
    #[error("the controller's answer is for another node or site")]
    WrongAnswer,
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Not understood.
    #[error("the controller's answer is not understood: {0}")]
    Answer(#[from] JoinError),
    /// Keys cannot be made.
    #[error("cannot make keys: {0}")]
    Keys(#[from] rcgen::Error),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Makes keys and asks for a certificate, again and again while the token's rate has others join first. `waits` is told each
/// time, with the reason and how long. Nothing is written.
///
/// # Errors
/// [`EnrolError`]
pub async fn join(
    token: &JoinToken,
    name: NodeId,
    waits: impl FnMut(&str, Duration),
) -> Result<Identity, EnrolError> {
    enrol(token, name, JoinRequest::Join, waits).await
}

/// As [`join`], for a node of another site: it takes nobody's place.
///
/// # Errors
/// [`EnrolError`]
pub async fn change_site(
    token: &JoinToken,
    name: NodeId,
    waits: impl FnMut(&str, Duration),
) -> Result<Identity, EnrolError> {
    enrol(token, name, JoinRequest::Move, waits).await
}

async fn enrol(
    token: &JoinToken,
    name: NodeId,
    request_of: fn(NewNode) -> JoinRequest,
    mut waits: impl FnMut(&str, Duration),
) -> Result<Identity, EnrolError> {
    check_expiry(token)?;
    let (key, csr_der) = request()?;
    let seal_secret = tls::random()?;
    let ask = request_of(NewNode {
        token_id: token.id,
        secret: token.secret.clone(),
        name: name.clone(),
        csr_der,
        seal_public: SealSecret::from_bytes(seal_secret).public(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    let site = Site {
        id: &token.site,
        addresses: &token.addresses,
        root: Root::Fingerprint(token.ca_fingerprint),
        broker: token.broker.as_ref(),
    };
    let granted = loop {
        match site.ask_for(&ask).await {
            Err(EnrolError::Later { reason, after }) if now() + after.as_secs() < token.expires => {
                let [early] = tls::random()?;
                // Nodes that were told the same time do not come at the same time.
                let after = after.max(LATER_MIN) + LATER_SPREAD * u32::from(early) / u32::from(u8::MAX);
                waits(&reason, after);
                sleep(after).await;
            }
            other => break other?,
        }
    };
    if granted.node != name
        || granted.site != token.site
        || join::fingerprint(&granted.ca_der) != token.ca_fingerprint
        || token.broker.as_ref().is_some_and(|broker| broker.controller_seal != granted.controller_seal)
    {
        return Err(EnrolError::WrongAnswer);
    }
    Ok(Identity {
        site: granted.site,
        node: granted.node,
        addresses: token.addresses.clone(),
        ca_der: granted.ca_der,
        certificate_der: granted.certificate_der,
        key_der: key.serialize_der(),
        seal_secret,
        controller_seal: granted.controller_seal,
        issued: now(),
        not_after: granted.not_after,
        broker: token.broker.clone(),
    })
}

/// The same node with a new certificate, against proof of its sealing key.
///
/// # Errors
/// [`EnrolError`]
pub async fn renew(identity: Identity) -> Result<Identity, EnrolError> {
    let (key, csr_der) = request()?;
    let ask = join::renewal(&identity.seal(), identity.node.clone(), tls::random()?, &csr_der)?;
    let site = Site {
        id: &identity.site,
        addresses: &identity.addresses,
        root: Root::Certificate(identity.ca_der.clone()),
        broker: identity.broker.as_ref(),
    };
    let granted = site.ask_for(&ask).await?;
    if granted.node != identity.node || granted.site != identity.site {
        return Err(EnrolError::WrongAnswer);
    }
    Ok(Identity {
        certificate_der: granted.certificate_der,
        key_der: key.serialize_der(),
        issued: now(),
        not_after: granted.not_after,
        ..identity
    })
}

/// Checks whether the node could join: the error makes it impossible, the warnings do not.
pub async fn check(token: &JoinToken, name: &NodeId) -> (Vec<String>, Result<(), EnrolError>) {
    let mut warnings = Vec::new();
    match timeout(ANSWER_WITHIN, lookup_host((name.as_str(), 0))).await {
        Ok(Ok(numbers)) => {
            let numbers: Vec<IpAddr> = numbers.map(|number| number.ip()).collect();
            if numbers.iter().any(IpAddr::is_loopback) {
                warnings.push(format!(
                    "{name} resolves to a loopback address: other servers will not find this one by that name"
                ));
            }
        }
        Ok(Err(_)) | Err(_) => {
            warnings
                .push(format!("{name} does not resolve: other servers will not find this one by that name"));
        }
    }
    (warnings, reach(token).await)
}

async fn reach(token: &JoinToken) -> Result<(), EnrolError> {
    check_expiry(token)?;
    let site = Site {
        id: &token.site,
        addresses: &token.addresses,
        root: Root::Fingerprint(token.ca_fingerprint),
        broker: token.broker.as_ref(),
    };
    greet_in_turn(&site.joiner()?).await?;
    Ok(())
}

fn check_expiry(token: &JoinToken) -> Result<(), EnrolError> {
    match now() {
        now if now >= token.expires => Err(EnrolError::Expired { ended: token.expires, now }),
        _ => Ok(()),
    }
}

fn request() -> Result<(KeyPair, Vec<u8>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let csr = CertificateParams::default().serialize_request(&key)?.der().to_vec();
    Ok((key, csr))
}

struct Granted {
    certificate_der: Vec<u8>,
    ca_der: Vec<u8>,
    controller_seal: muster_shared::seal::SealPublic,
    site: SiteId,
    node: NodeId,
    not_after: u64,
}

/// The site to ask.
struct Site<'a> {
    id: &'a SiteId,
    addresses: &'a [Address],
    root: Root,
    broker: Option<&'a BrokerAccess>,
}

impl Site<'_> {
    async fn ask_for(&self, ask: &JoinRequest) -> Result<Granted, EnrolError> {
        let peer = self.joiner()?;
        let mut mqtt = greet_in_turn(&peer).await?;
        let answer = match self.broker {
            None => {
                let answer = exchange(&mut mqtt, &peer, ask.encode(), 1, |payload| Some(payload.to_vec()));
                JoinAnswer::decode(&answer.await?)?
            }
            Some(broker) => {
                let joiner = Joiner::new(self.id, &peer.id, &broker.controller_seal, tls::random()?)?;
                let request = joiner.request(ask, tls::random()?)?;
                // Anybody may publish there, so what is not the controller's is not looked at.
                exchange(&mut mqtt, &peer, request, ASKS, |payload| joiner.answer(payload).ok()).await?
            }
        };
        match answer {
            JoinAnswer::Granted { certificate_der, ca_der, controller_seal, site, node, not_after } => {
                Ok(Granted { certificate_der, ca_der, controller_seal, site, node, not_after })
            }
            JoinAnswer::Refused { reason } => Err(EnrolError::Refused(reason)),
            JoinAnswer::Later { reason, after } => {
                Err(EnrolError::Later { reason, after: Duration::from_millis(after.into()) })
            }
        }
    }

    /// A client without a certificate.
    fn joiner(&self) -> Result<Peer, EnrolError> {
        let nonce = format!("{:032x}", u128::from_le_bytes(tls::random()?));
        let (tls, addresses) = match self.broker {
            None => (tls::client(self.root.clone(), None)?, self.addresses),
            Some(broker) => {
                (client_config(Trust::Broker(broker.ca_fingerprint), None)?, &broker.join_addresses[..])
            }
        };
        Ok(Peer {
            down: topic::join_answer(self.id, &nonce),
            up: topic::join_request(self.id, &nonce),
            id: nonce,
            tls: Arc::new(tls),
            addresses: addresses.to_vec(),
            broker: self.broker.map(ThroughBroker::joiner),
        })
    }
}

/// Sends a request, so often, until something comes that is an answer.
async fn exchange<T>(
    mqtt: &mut Mqtt,
    peer: &Peer,
    request: Vec<u8>,
    asks: u32,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<T, EnrolError> {
    for _ in 0..asks {
        if !mqtt.publish(&peer.up, request.clone()) {
            return Err(LinkError::Closed.into());
        }
        let answer = async {
            loop {
                if let Some(answer) = read(&mqtt.payload().await?) {
                    return Ok(answer);
                }
            }
        };
        if let Ok(answer) = timeout(ANSWER_WITHIN / asks, answer).await {
            return answer;
        }
    }
    Err(EnrolError::Silent)
}

/// Waits while other servers behind the same address are joining.
async fn greet_in_turn(peer: &Peer) -> Result<Mqtt, LinkError> {
    let give_up = Instant::now() + TURN_WITHIN;
    loop {
        match greet(peer).await {
            Ok((mqtt, _)) => return Ok(mqtt),
            Err(error) if error.is_busy() && Instant::now() < give_up => sleep(TURN_PAUSE).await,
            Err(error) => return Err(error),
        }
    }
}
