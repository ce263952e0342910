//! A client without a certificate asks for one: with a token, or with proof of a node's key.

use std::sync::Arc;

use bytes::Bytes;
use muster_shared::NodeId;
use muster_shared::join::{self, JoinAnswer, JoinRequest};
use muster_shared::seal::SealPublic;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Shared;
use super::contents::Room;
use super::outbound::Outbound;
use super::reason::{Reason, Refusal};
use super::session::{Inbox, Pending};
use crate::link::{JoinAsk, JoinGrant, LinkEvent, NotJoined};
use crate::pki::ProvenKey;

/// Takes one request and answers it.
pub struct JoinInbox {
    pub shared: Arc<Shared>,
    pub outbound: Arc<Outbound<Vec<u8>>>,
    pub asked: bool,
}

impl Inbox for JoinInbox {
    type Queued = Vec<u8>;

    fn receive(&mut self, payload: Bytes) -> Result<Option<Pending>, Refusal> {
        if std::mem::replace(&mut self.asked, true) {
            return Err(Refusal::new(Reason::QuotaExceeded, "one request per connection"));
        }
        let (shared, outbound) = (Arc::clone(&self.shared), Arc::clone(&self.outbound));
        Ok(Some(Box::pin(async move {
            let answer = answer(&shared, &payload).await.unwrap_or_else(JoinAnswer::refused);
            if let JoinAnswer::Refused { reason } = &answer
                && let Some(missed) = shared.refusals.tell()
            {
                tracing::warn!(%reason, missed, "joining refused");
            }
            outbound.push(vec![answer.encode()]);
            Ok(())
        })))
    }

    fn next(&mut self, queue: &Outbound<Vec<u8>>) -> Option<(Bytes, Option<Room>)> {
        queue.pop().map(|(answer, room)| (answer.into(), room))
    }
}

async fn answer(shared: &Shared, payload: &[u8]) -> Result<JoinAnswer, String> {
    // The signing request is checked first: a bad one must not use a token up.
    match JoinRequest::decode(payload).map_err(|error| error.to_string())? {
        JoinRequest::Join { token_id, secret, name, csr_der, seal_public, agent_version } => {
            let key = shared.pki.prove(&csr_der).map_err(|error| error.to_string())?;
            if !seal_public.is_sound() {
                return Err("the sealing key is weak: everybody could open what it seals".into());
            }
            let ask = JoinAsk { token_id, secret, name: name.clone(), seal_public, agent_version };
            match shared.ask(|reply| LinkEvent::Join { ask, reply }).await.ok_or(BUSY)? {
                Ok(JoinGrant) => {}
                Err(NotJoined { reason, after: Some(after) }) => return Ok(JoinAnswer::later(reason, after)),
                Err(NotJoined { reason, after: None }) => return Err(reason),
            }
            grant(shared, name, &key, &seal_public)
        }
        JoinRequest::Renew { node, packet } => {
            // A client that cannot prove the key learns nothing about the node, not even whether it exists.
            let refused =
                || format!("not proved to be {node}: if it has lost its key, join again with a token");
            let seal_public = shared.keys.get(&node).ok_or_else(refused)?;
            let seal = shared.pki.seal(&node, &seal_public);
            let csr_der = join::open_renewal(&seal, &packet).map_err(|_| refused())?;
            let key = shared.pki.prove(&csr_der).map_err(|error| error.to_string())?;
            grant(shared, node, &key, &seal_public)
        }
    }
}

const BUSY: &str = "the controller is busy: try again";

fn grant(shared: &Shared, node: NodeId, key: &ProvenKey, seal: &SealPublic) -> Result<JoinAnswer, String> {
    let issued = shared.pki.issue(&node, key, seal).map_err(|error| {
        tracing::error!(%node, %error, "cannot make a certificate");
        "the controller cannot make a certificate: its log says why".to_owned()
    })?;
    tracing::info!(%node, not_after = issued.not_after, "certificate issued");
    Ok(JoinAnswer::Granted {
        certificate_der: issued.der,
        ca_der: shared.pki.ca_der().to_vec(),
        controller_seal: shared.pki.seal_public(),
        site: shared.pki.site().clone(),
        node,
        not_after: issued.not_after,
    })
}

impl Shared {
    /// Asks the driver; `None` if no answer comes in time.
    pub(super) async fn ask<T>(&self, event: impl FnOnce(oneshot::Sender<T>) -> LinkEvent) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.feed.ask(event(reply));
        timeout(self.limits.answer, answer).await.ok()?.ok()
    }
}
