//! The move to another site. The driver joins it, while the agent goes on at the present one, and then changes over.
//!
//! ```text
//!   Settled ── Move ──▶ Joining ── Joined ──▶ Changing ── SiteChanged ──▶ Left
//!      ▲  └ refused       │ failed, cut off      │ failed
//!      └──────────────────┴──────────────────────┘
//! ```
//!
//! The present site is told of every end but one: where the connection is lost after the change is on disk. Where it
//! is lost before, the agent stays, for that site could not know that it went.
//!
//! Absent: what keeps a node here (`Agent::may_leave`, `agent.rs`), the join and the record of the change
//! (`agent/src/driver/moving.rs`), and the controller's part (`controller/engine/src/node/moving.rs`).

use muster_shared::SiteId;
use muster_shared::join::JoinToken;
use muster_shared::model::{MoveOutcome, Up};

use crate::effects::Effects;
use crate::face::Effect;

/// The stage of a move to another site.
#[derive(Debug, Default)]
pub(crate) enum Moving {
    #[default]
    Settled,
    /// The driver joins the other site.
    Joining { number: u64, to: SiteId },
    /// The driver records that the node belongs to the other site. Nothing new may begin here.
    Changing { to: SiteId },
    /// The node belongs to the other site. This machine only ends.
    Left,
}

impl Moving {
    /// The present site's controller asks for a move. `may_leave` says what keeps the node here.
    pub(crate) fn ask(
        &mut self,
        token: Box<JoinToken>,
        may_leave: Result<(), String>,
        effects: &mut Effects,
    ) {
        if let Moving::Joining { to, .. } = self {
            return stay(format!("it moves to site '{to}' already"), effects);
        }
        if let Err(reason) = may_leave {
            return stay(reason, effects);
        }
        let number = effects.number();
        *self = Moving::Joining { number, to: token.site.clone() };
        effects.push(Effect::Join { number, token });
    }

    /// The driver has joined the other site, or has not. Work may have started here meanwhile.
    pub(crate) fn joined(
        &mut self,
        number: u64,
        joined: Result<(), String>,
        may_leave: Result<(), String>,
        effects: &mut Effects,
    ) {
        let to = match self {
            Moving::Joining { number: awaited, to } if *awaited == number => to.clone(),
            Moving::Settled | Moving::Joining { .. } | Moving::Changing { .. } | Moving::Left => return,
        };
        *self = Moving::Settled;
        match (joined, may_leave) {
            (Ok(()), Ok(())) => {
                *self = Moving::Changing { to };
                effects.push(Effect::ChangeSite { number });
            }
            (Ok(()), Err(reason)) => stay(in_vain(&reason, &to), effects),
            (Err(reason), _) => stay(reason, effects),
        }
    }

    /// The change is on disk, or was refused.
    pub(crate) fn changed(&mut self, changed: Result<(), String>, effects: &mut Effects) {
        let Moving::Changing { to } = self else { return };
        match changed {
            Ok(()) => {
                *self = Moving::Left;
                effects.send(Up::Moved(MoveOutcome::Left));
            }
            Err(reason) => {
                stay(in_vain(&reason, to), effects);
                *self = Moving::Settled;
            }
        }
    }

    /// The connection is lost. A change on its way to disk goes on.
    pub(crate) fn disconnected(&mut self, effects: &mut Effects) {
        if let Moving::Joining { to, .. } = self {
            effects.warn(format!(
                "this node stays, and does not move to site '{to}': the connection to the controller was lost meanwhile"
            ));
            *self = Moving::Settled;
        }
    }

    /// The agent takes nothing more from the site's controller.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Moving::Changing { .. } | Moving::Left)
    }
}

/// The reason of a failure after the join: the other site has a node that never comes.
fn in_vain(reason: &str, to: &SiteId) -> String {
    format!("{reason}; it has joined site '{to}' already: remove it there before you try again")
}

fn stay(reason: String, effects: &mut Effects) {
    effects.warn(format!("this node does not move to another site: {reason}"));
    effects.send(Up::Moved(MoveOutcome::Stays { reason }));
}
