//! Answers a client without a certificate: it joins with a token, or renews its certificate with proof of the node's
//! key.
//!
//! Absent: whether a token is good for the server (`controller/engine/src/node/join_token.rs`), and how long a certificate is
//! valid (`pki.rs`).

use std::time::Duration;

use muster_shared::NodeId;
use muster_shared::join::{self, JoinAnswer, JoinRequest, NewNode};
use muster_shared::seal::SealPublic;

use super::nodes::Nodes;
use super::{JoinAsk, JoinGrant, LinkEvent, NotJoined};
use crate::pki::ProvenKey;

/// The pause before a server asks again that the driver has not answered. It asks with the same keys: should the driver take
/// up both requests, the second one changes nothing.
const BUSY_PAUSE: Duration = Duration::from_secs(5);

/// Answers the bytes of a [`JoinRequest`].
pub(super) async fn answer(nodes: &Nodes, request: &[u8]) -> JoinAnswer {
    let answer = granted(nodes, request).await.unwrap_or_else(JoinAnswer::refused);
    if let JoinAnswer::Refused { reason } = &answer
        && let Some(missed) = nodes.refusals.tell()
    {
        tracing::warn!(%reason, missed, "joining refused");
    }
    answer
}

async fn granted(nodes: &Nodes, request: &[u8]) -> Result<JoinAnswer, String> {
    match JoinRequest::decode(request).map_err(|error| error.to_string())? {
        JoinRequest::Join(new) => join(nodes, new, false).await,
        JoinRequest::Move(new) => join(nodes, new, true).await,
        JoinRequest::Renew { node, packet } => {
            // A client that cannot prove the key learns nothing about the node, not even whether it exists.
            let refused =
                || format!("not proved to be {node}: if it has lost its key, join again with a token");
            let seal_public = nodes.common.admitted.key(&node).ok_or_else(refused)?;
            let seal = nodes.pki.seal(&node, &seal_public);
            let csr_der = join::open_renewal(&seal, &packet).map_err(|_| refused())?;
            let key = nodes.pki.prove(&csr_der).map_err(|error| error.to_string())?;
            grant(nodes, node, &key, &seal_public)
        }
    }
}

async fn join(nodes: &Nodes, new: NewNode, moves: bool) -> Result<JoinAnswer, String> {
    let NewNode { token_id, secret, name, csr_der, seal_public, agent_version } = new;
    // The signing request is checked first: a bad one must not use a token up.
    let key = nodes.pki.prove(&csr_der).map_err(|error| error.to_string())?;
    if !seal_public.is_sound() {
        return Err("the sealing key is weak: everybody could open what it seals".into());
    }
    let ask = JoinAsk { token_id, secret, name: name.clone(), seal_public, agent_version, moves };
    match nodes.ask(|reply| LinkEvent::Join { ask, reply }).await {
        Some(Ok(JoinGrant)) => grant(nodes, name, &key, &seal_public),
        Some(Err(NotJoined { reason, after: Some(after) })) => Ok(JoinAnswer::later(reason, after)),
        Some(Err(NotJoined { reason, after: None })) => Err(reason),
        None => Ok(JoinAnswer::later("the controller is busy, or waits for its database", BUSY_PAUSE)),
    }
}

fn grant(nodes: &Nodes, node: NodeId, key: &ProvenKey, seal: &SealPublic) -> Result<JoinAnswer, String> {
    let issued = nodes.pki.issue(&node, key, seal).map_err(|error| {
        tracing::error!(%node, %error, "cannot make a certificate");
        "the controller cannot make a certificate: its log says why".to_owned()
    })?;
    tracing::info!(%node, not_after = issued.not_after, "certificate issued");
    Ok(JoinAnswer::Granted {
        certificate_der: issued.der,
        ca_der: nodes.pki.ca_der().to_vec(),
        controller_seal: nodes.pki.seal_public(),
        site: nodes.pki.site().clone(),
        node,
        not_after: issued.not_after,
    })
}
