//! Documents that were given on this server: from the socket to the machine, and the answer back.
//!
//! Absent: the socket (`local_socket.rs`), whether a document is taken (`agent/core/src/jobs/local_document.rs`), and
//! whether it is kept (`agent/core/src/jobs/confirm.rs`).

use std::time::Duration;

use muster_agent_core::{Before, Input, Retry, RunError};
use muster_shared::model::{NetworkConfig, OnDelete, Outcome, ReportKey};
use tokio::sync::oneshot;

use super::Driver;
use crate::cli::CONFIRM_WITHIN_MAX;
use crate::link_state::SharedLinkState;
use crate::local_socket::{Answer, Listener, PendingRequest, Request};
use crate::net::local::Local;
use crate::state_dir::StateDir;

/// Time beyond the time to confirm, for the work before the change, such as reading a large network.
const BESIDES: Duration = Duration::from_secs(60);

/// The listener for local documents, and the waiting clients.
pub(super) struct Locals {
    listener: Option<Listener>,
    confirm_timeout: u32,
    waiting: Option<oneshot::Sender<Answer>>,
    /// The change has changed something.
    changed: bool,
    not_back: bool,
}

impl Locals {
    pub(super) fn open(state: &StateDir, confirm_timeout: u32, link_state: SharedLinkState) -> Self {
        let listener = Listener::open(state.path(), link_state).inspect_err(|error| {
            let path = state.path().display();
            tracing::warn!(%path, %error, "documents cannot be given to this agent on its server");
        });
        Self { listener: listener.ok(), confirm_timeout, waiting: None, changed: false, not_back: false }
    }

    pub(super) async fn given(&mut self) -> PendingRequest {
        match &mut self.listener {
            Some(listener) => listener.given().await,
            None => std::future::pending().await,
        }
    }

    /// A run of it has ended.
    pub(super) fn ran(&mut self, key: ReportKey, touched: bool) {
        if key.resource.is_local() {
            self.changed = touched;
        }
    }

    /// The restore failed; the fallback may follow.
    pub(super) fn restored(&mut self, key: ReportKey, result: &Result<(), String>) {
        if key.resource.is_local() {
            self.not_back = result.is_err();
        }
    }
}

impl Driver {
    pub(super) fn given(&mut self, given: PendingRequest) {
        let PendingRequest { request: Request { document, mapping, confirm_timeout }, answer } = given;
        if self.locals.waiting.as_ref().is_some_and(|waiting| !waiting.is_closed()) {
            let reason = "another document that was given on this server is being applied: try again when it has ended";
            // The client may be gone.
            let _ = answer.send(Answer::Failed { reason: reason.into(), not_back: false });
            return;
        }
        let confirm_timeout = confirm_timeout.unwrap_or(self.locals.confirm_timeout);
        let most = u32::try_from(CONFIRM_WITHIN_MAX).unwrap_or(u32::MAX);
        let confirm_timeout = confirm_timeout.clamp(1, most);
        tracing::info!(confirm_timeout, "a network document was given on this server");
        let after = Local::read(self.state.path()).map_or(0, |local| local.after);
        (self.locals.changed, self.locals.not_back) = (false, false);
        self.locals.waiting = Some(answer);
        let config = NetworkConfig { document, mapping, confirm_timeout, on_delete: OnDelete::Restore };
        let timeout = Duration::from_secs(confirm_timeout.into()) + BESIDES;
        self.inbox.push_back(Input::Local { config, timeout, after });
    }

    /// The state before Muster as recorded by 'net apply', while no agent ran here.
    ///
    /// # Errors
    /// The record cannot be read.
    pub(super) fn known_locally(&self, key: ReportKey, known: Vec<Before>) -> Result<Vec<Before>, RunError> {
        if !key.resource.is_local() || !known.is_empty() {
            return Ok(known);
        }
        let failed = |reason: String| RunError { reason, retry: Retry::Never };
        let local = Local::read(self.state.path()).map_err(|error| failed(format!("{error:#}")))?;
        if local.undo.is_some() {
            let reason = "an earlier 'net apply' was neither kept nor restored: stop the agent, then run 'muster-agent \
                          net boot'";
            return Err(failed(reason.into()));
        }
        let snapshot = local.snapshot().map_err(|error| failed(format!("{error:#}")))?;
        snapshot.iter().map(crate::host::encoded).collect()
    }

    pub(super) fn local_ended(&mut self, outcome: Outcome) {
        let answer = match outcome {
            Outcome::Done(_) => {
                // The recorded document is older than the one in force now.
                if let Err(error) = Local::forget(self.state.path()) {
                    tracing::warn!(%error, "cannot drop what 'net apply' wrote down");
                }
                tracing::info!("the document given on this server is kept");
                Answer::Kept { changed: self.locals.changed }
            }
            Outcome::Failed { reason, .. } | Outcome::NoRoom { reason } => {
                tracing::warn!("the document given on this server is not in force: {reason}");
                Answer::Failed { reason, not_back: self.locals.not_back }
            }
            other @ (Outcome::Differs { .. } | Outcome::Superseded { .. } | Outcome::Withdrawn) => {
                Answer::Failed { reason: format!("{other:?}"), not_back: false }
            }
        };
        if let Some(waiting) = self.locals.waiting.take() {
            // The client may be gone: the outcome is in the log.
            let _ = waiting.send(answer);
        }
    }
}
