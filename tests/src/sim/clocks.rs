//! Clocks that are set: that of the controller's machine and those of servers jump forward and back, by minutes and by
//! years. What goes by time goes on: waits end neither early nor late, breakers neither open nor close for it, and a join
//! token lives no longer than the jump itself makes it.
//!
//! Absent: certificates, which the link looks at and no machine; a boot of the controller's machine, after which the clock
//! counts.

use std::time::Duration;

use muster_controller::store::{Machine as Server, SteadyClock};
use muster_engine::record::{ResourceRecord, Status};
use muster_engine::{Answer, JoinAsk, NewToken, Refusal, Request};
use muster_shared::MonoTime;
use muster_shared::join::TokenSecret;
use muster_shared::model::Up;
use muster_template::{Desired, Kind as ResourceKind, VirtualResource};

use super::dice::Dice;
use super::fault::Kind;
use super::store::brief;
use super::world::{Event, World};

/// Seconds of the wall clock when a run begins, where nobody sets it.
const WALL: i64 = 1_700_000_000;
/// The seconds by which clocks are set, forward or back.
const JUMPS: [i64; 6] = [20, 400, 3700, 86_400, 30 * 86_400, 10 * 365 * 86_400];
/// Milliseconds between two jumps.
const EVERY: (u64, u64) = (5000, 180_000);
/// Milliseconds between two looks at tokens and at who waits.
const LOOKS: (u64, u64) = (1000, 60_000);
/// A condition may wait so much longer than it says: the controller ends, its disk is full, and it waits after its start.
const LATE_MAX: Duration = Duration::from_secs(900);
/// Tokens that somebody holds.
const HELD_MAX: usize = 4;
/// Off by more than this, a server's clock is named.
const SLACK: u64 = 300;

/// A join token for a name that nobody has, so that who shows it learns whether it still counts.
#[derive(Clone, Debug)]
struct Held {
    id: [u8; 8],
    secret: TokenSecret,
    made: MonoTime,
    ahead: i64,
    lives: u64,
}

/// The clock of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Seconds that it is ahead.
    ahead: i64,
    /// The time that its agent told last.
    told: Option<i64>,
    /// The last reading: by how much it was ahead of the time, and of the controller's clock.
    read: Option<(i64, i64)>,
}

/// The clock of the controller's machine, and those of servers.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// Whether clocks are set in this run.
    pub is_on: bool,
    dice: Dice,
    /// The seconds by which the controller's clock is ahead.
    ahead: i64,
    /// The record of the clock in the database.
    kept: Option<String>,
    steady: Option<SteadyClock>,
    held: Vec<Held>,
    made: u64,
}

impl Default for Clocks {
    fn default() -> Self {
        Self::new(0, false)
    }
}

impl Clocks {
    /// The clocks of a run.
    pub fn new(seed: u64, is_on: bool) -> Self {
        let dice = Dice::new(seed, "clocks");
        Self { is_on, dice, ahead: 0, kept: None, steady: None, held: Vec::new(), made: 0 }
    }

    /// Seconds that the controller's clock shows.
    pub fn wall(&self, now: MonoTime) -> u64 {
        self.server(now).clock.unsigned_abs()
    }

    fn server(&self, now: MonoTime) -> Server {
        let up = i64::try_from(now.0.as_secs()).unwrap_or(i64::MAX);
        Server { boot: "one".into(), up, clock: WALL + up + self.ahead }
    }

    /// The database is opened, and takes the kept time if it `takes` anything.
    pub fn opens(&mut self, now: MonoTime, takes: bool) {
        let (steady, text) = SteadyClock::of(self.kept.as_deref(), &self.server(now));
        self.steady = Some(steady);
        if takes {
            self.kept = Some(text);
        }
    }

    /// The time by which the database counts; none: nobody sets clocks, and it counts by time itself.
    pub fn steady(&self, now: MonoTime) -> Option<i64> {
        self.steady.filter(|_| self.is_on).map(|steady| steady.at(&self.server(now)))
    }

    /// The message that goes along with this one, as the agent's driver has it.
    pub fn beside(&self, said: &Up, clock: &mut Clock) -> Option<Up> {
        let is_due = match said {
            Up::Jobs(_) | Up::Ledger { last: true, .. } => true,
            Up::Heartbeat { .. } => clock.told != Some(clock.ahead),
            _ => false,
        };
        (self.is_on && is_due).then(|| {
            clock.told = Some(clock.ahead);
            Up::Clock { unix: 0, ahead: 0 }
        })
    }

    fn jump(&mut self) -> i64 {
        let jump = *self.dice.pick(&JUMPS) + i64::try_from(self.dice.below(60)).unwrap_or_default();
        if self.dice.one_in(2) { jump } else { -jump }
    }
}

impl World {
    /// Plans the first jump of a clock, and the first look at tokens.
    pub fn clocks_begin(&mut self) {
        self.later(Duration::from_secs(8), Event::ClockJumps);
        self.later(Duration::from_secs(9), Event::LooksAtTokens);
    }

    pub fn clock_jumps(&mut self) {
        if !self.faults.on {
            return;
        }
        let (at, of_controller, next, jump) = {
            let clocks = &mut self.shared.borrow_mut().clocks;
            let next = clocks.dice.millis(EVERY.0, EVERY.1);
            (clocks.dice.index(self.machines.len()), clocks.dice.one_in(2), next, clocks.jump())
        };
        self.later(next, Event::ClockJumps);
        let whom = if of_controller { "controller".to_owned() } else { self.machines[at].name.to_string() };
        if !self.faults.happens(self.now, Kind::ClockJumps, &whom) {
            return;
        }
        self.note(|_| format!("FAULT the clock of {whom} is set by {jump} s"));
        // Never before 1970, and never by more than some decades in all.
        let set = |ahead: i64| if (ahead + jump).abs() < WALL { ahead + jump } else { 0 };
        if of_controller {
            let clocks = &mut self.shared.borrow_mut().clocks;
            clocks.ahead = set(clocks.ahead);
        } else {
            self.machines[at].clock.ahead = set(self.machines[at].clock.ahead);
        }
    }

    /// Puts the difference of the clocks into messages, as the link reads it.
    pub fn reads_clocks(&mut self, at: usize, messages: &mut [Up]) {
        let ours = self.shared.borrow().clocks.ahead;
        let clock = &mut self.machines[at].clock;
        for message in messages {
            if let Up::Clock { ahead, .. } = message {
                *ahead = clock.ahead - ours;
                clock.read = Some((clock.ahead, *ahead));
            }
        }
    }

    /// A server whose clock was off when that was said last is named, and no other; what it is set by is said.
    pub fn clocks_are_named(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let site = self.controller.turns.as_ref()?.view();
        let machines = self.machines.iter().filter(|machine| !machine.scrapped && machine.is_online());
        machines.filter(|_| shared.clocks.is_on).find_map(|machine| {
            let named = site.node_named(&machine.name)?.view.clock_off_s;
            let Clock { ahead, read, .. } = machine.clock;
            let Some((of, off)) = read else { return Some(format!("{} never said the time", machine.name)) };
            let is_right = of == ahead && named.is_some() == (off.unsigned_abs() > SLACK);
            (!is_right).then(|| {
                format!(
                    "the clock of {} is {ahead} s ahead; {read:?} was said, {named:?} is shown",
                    machine.name
                )
            })
        })
    }

    /// Whether tokens that somebody holds still count, and whether anybody waits for too long.
    pub fn looks_at_tokens(&mut self) {
        let late = self.waits_too_long();
        late.into_iter().for_each(|late| self.violate(late));
        if self.operators.done {
            return;
        }
        let next = self.shared.borrow_mut().clocks.dice.millis(LOOKS.0, LOOKS.1);
        self.later(next, Event::LooksAtTokens);
        if !self.can_be_asked() {
            return;
        }
        let (many, one_in_two) = {
            let clocks = &mut self.shared.borrow_mut().clocks;
            (clocks.held.len(), clocks.dice.one_in(2))
        };
        if many == 0 || many < HELD_MAX && one_in_two { self.makes_a_token() } else { self.shows_a_token() }
    }

    fn makes_a_token(&mut self) {
        let (held, wall) = {
            let clocks = &mut self.shared.borrow_mut().clocks;
            clocks.made += 1;
            let mut id = clocks.made.to_be_bytes();
            id[0] = 1; // those that servers join with are others
            let lives = *clocks.dice.pick(&[10, 60, 600]);
            let secret = TokenSecret([7; 16]);
            let held = Held { id, secret, made: self.now, ahead: clocks.ahead, lives };
            (held, clocks.wall(self.now))
        };
        let token = NewToken {
            id: held.id,
            secret_hash: held.secret.digest(),
            expires: wall + held.lives,
            uses: 1,
            name: Some("nobody".into()),
            labels: [].into(),
            rate: None,
        };
        if matches!(self.tries("token", Request::NewToken { token, wall }), Some(Ok(Answer::Done))) {
            self.shared.borrow_mut().clocks.held.push(held);
        }
    }

    /// Shows a token under a name that it is not for: the refusal says whether it would count.
    fn shows_a_token(&mut self) {
        let (held, wall, ahead) = {
            let clocks = &mut self.shared.borrow_mut().clocks;
            let at = clocks.dice.index(clocks.held.len());
            (clocks.held[at].clone(), clocks.wall(self.now), clocks.ahead)
        };
        let ask = JoinAsk {
            token_id: held.id,
            secret: held.secret.clone(),
            name: "somebody".parse().expect("a name of letters"),
            seal_public: self.machines[0].key,
            agent_version: "1.0.0".into(),
            moves: false,
            wall,
        };
        let why = match self.tries("join as another", Request::Join(ask)) {
            Some(Err(Refusal::Conflict(why))) => why,
            Some(Ok(_)) => return self.violate("a token for one name was good for another".into()),
            Some(Err(_)) | None => return,
        };
        let counts = why.contains("the join token is for");
        let lived = i64::try_from(self.now.since(held.made).as_secs()).unwrap_or(i64::MAX);
        let (lives, jumped) = (i64::try_from(held.lives).unwrap_or(i64::MAX), held.ahead - ahead);
        let wrong = (counts && lived > lives + jumped + 1).then(|| {
            format!("a token for {lives} s counts after {lived} s, and the clock was set by {} s", -jumped)
        });
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
        let shared = &mut *self.shared.borrow_mut();
        if counts {
            shared.counts.add("clocks token counts");
        } else {
            shared.counts.add("clocks token has expired");
            shared.clocks.held.retain(|other| other.id != held.id);
        }
    }

    /// Operators revoke all join tokens that are still held.
    pub fn tokens_are_revoked(&mut self) {
        let held = std::mem::take(&mut self.shared.borrow_mut().clocks.held);
        for held in held {
            drop(self.tries("token-revoke", Request::RevokeToken { id: held.id }));
        }
    }

    /// A condition that should have failed by now.
    fn waits_too_long(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let waits = |row: &&ResourceRecord| {
            row.kind == ResourceKind::WaitCondition
                && row.progress.status == Some(Status::InProgress)
                && row.progress.waited.is_some()
        };
        shared.tables.rows.values().filter(waits).find_map(|row| {
            let Desired::Virtual(VirtualResource::Wait(wait)) = row.spec.as_ref()?.unpack() else {
                return None;
            };
            let since = shared.signals.waits_since(row)?;
            let waited = self.now.since(since);
            let most = Duration::from_secs(wait.timeout.into()) + LATE_MAX;
            (waited > most).then(|| format!("{} waits for {} s already", brief(row), waited.as_secs()))
        })
    }
}
