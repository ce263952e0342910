//! Network documents given on the server itself: guarded like the controller's, with the outcome
//! reported locally.
//!
//! There is at most one such document. Its ledger entry has a resource of its own ([`ResourceId::LOCAL`]), so
//! that commit-confirm, boot and take-over work as for any other resource. A resource of the controller that
//! claims the same link takes it over. The reverse is refused, since the controller takes precedence.
//!
//! Absent: how a document comes to the agent (`agent/src/local_socket.rs`), and a server without a running agent
//! (`agent/src/net/local.rs`). Absent too: the controller's view. The document is in no list, digest or report;
//! its drift is logged on the server.

use std::time::Duration;

use muster_shared::model::{Action, Job, NetworkConfig, Outcome, Spec};
use muster_shared::{Attempt, Epoch, Generation, ResourceId};

use super::{Jobs, Turn};
use crate::face::Effect;

impl Jobs {
    /// [`Input::Local`](crate::Input::Local)
    pub(crate) fn local(&mut self, config: NetworkConfig, timeout: Duration, after: u64, turn: &mut Turn) {
        let refused = |reason: String| Effect::LocalEnded(Outcome::Failed { reason, permanent: true });
        if turn.is_stopping {
            return turn.effects.push(refused("the agent is stopping".into()));
        }
        let resource = ResourceId::LOCAL;
        let entry = self.ledger.get(resource);
        if self.runs.contains_key(&resource) || entry.is_some_and(|entry| entry.current.is_some()) {
            let reason = "another document that was given on this server is being applied: try again when it has ended";
            return turn.effects.push(refused(reason.into()));
        }
        let exists = entry.is_some_and(|entry| entry.applied.is_some());
        let newest = entry.and_then(|entry| entry.newest()).map_or(0, |(key, _)| key.generation.number);
        let spec = Spec::Network(config);
        if let Some((other, claim)) = self.ledger.owners_of(&spec.claims(), resource) {
            let reason = format!(
                "the {claim} belongs to resource {other} of the controller: change it there ('muster resource list' of \
                 its stack names it), or leave it out here"
            );
            return turn.effects.push(refused(reason));
        }
        self.accept(
            Job {
                resource,
                // Epoch 0 belongs to no controller, so this generation is older than any of a controller.
                generation: Generation { epoch: Epoch(0), number: newest.max(after) + 1 },
                attempt: Attempt(0),
                action: if exists { Action::Update } else { Action::Create },
                timeout,
                spec,
            },
            turn,
        );
    }
}
