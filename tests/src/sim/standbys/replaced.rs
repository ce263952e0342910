//! The process of a controller whose lease another one has taken: it hung, or did not reach the database, and goes on
//! with what waited for it until its keeper sees that the lease is gone.

use std::collections::VecDeque;

use muster_controller::driver::Turns;
use muster_engine::{NewToken, Request};
use muster_shared::MonoTime;
use muster_shared::join::TokenSecret;

use super::super::controller::Inlet;
use super::super::outbox::SimOutbox;
use super::super::store::SimStore;
use super::super::world::{Event, World};
use super::Step;

/// Milliseconds between two of its turns.
const EVERY: (u64, u64) = (10, 20_000);

pub(super) struct Replaced {
    turns: Turns<SimStore, SimOutbox>,
    started: MonoTime,
    inbox: VecDeque<Inlet>,
}

impl World {
    /// Another controller has taken the lease of this one, whose process is still there.
    pub(super) fn is_replaced(&mut self, at: usize) {
        let (started, inbox) = (self.controller.started(), self.controller.takes_inbox());
        let Some(turns) = self.controller_is_left_alone() else { return };
        let controller = &mut self.standbys.controllers[at];
        controller.replaced = Some(Box::new(Replaced { turns, started, inbox }));
        let (life, name) = (controller.life, controller.me.name.clone());
        self.note(|_| format!("{name} was replaced"));
        let after = self.standbys.dice.millis(EVERY.0, EVERY.1);
        self.later(after, Event::Keeper(at, life, Step::GoesOn));
    }

    /// Lets the replaced process take what waited for it, and asks it for a token. Checks that none of it counts.
    pub(super) fn replaced_goes_on(&mut self, at: usize) {
        let Some(mut replaced) = self.standbys.controllers[at].replaced.take() else { return };
        let now = MonoTime(self.now.since(replaced.started));
        let turns = &mut replaced.turns;
        for inlet in replaced.inbox.drain(..) {
            match inlet {
                Inlet::Connected { node, connection } => turns.connected(now, node, connection),
                Inlet::Disconnected { node, connection } => turns.disconnected(now, node, connection),
                Inlet::Received { node, connection, messages } => {
                    turns.received(now, &node, connection, messages);
                }
                Inlet::Asks(_) => {}
            }
        }
        let token = NewToken {
            id: *b"replaced",
            secret_hash: TokenSecret([9; 16]).digest(),
            expires: u64::MAX,
            uses: 1,
            name: Some("nobody".into()),
            labels: [].into(),
            rate: None,
        };
        if !turns.is_busy() {
            drop(turns.request(now, None, Request::NewToken { token, wall: 0 }));
        }
        turns.wake(now);
        let leaving = self.shared.borrow().leaving.len();
        let told = turns.turn_over(now);
        let is_refused = turns.read_only().is_some();
        {
            let shared = &mut *self.shared.borrow_mut();
            shared.lease.is_silent = false;
            shared.counts.add("standby a controller that was replaced goes on");
            if shared.leaving.len() != leaving {
                shared.violate("a controller that was replaced spoke".to_owned());
            }
            if told.answers.iter().any(|(_, answer)| answer.is_ok()) {
                shared.violate("a controller that was replaced answered".to_owned());
            }
            if is_refused {
                shared.counts.add("standby a commit of a controller that was replaced is refused");
            }
        }
        let controller = &mut self.standbys.controllers[at];
        controller.replaced = Some(replaced);
        let life = controller.life;
        let after = self.standbys.dice.millis(EVERY.0, EVERY.1);
        self.later(after, Event::Keeper(at, life, Step::GoesOn));
    }
}
