//! Virtual resources: a visit realises them in the controller itself, without a node and without a job.
//!
//! ```text
//!   visit ─▶ Todo::Realise ─▶ realise ─┬────────────────────────────────▶ made    the row is ready
//!                                      └─▶ it waits for signals or time ─▶ made
//!   clean-up ─▶ Todo::Unmake ─▶ unmake ─▶ it may wait for time ─▶ unmade    the row goes
//! ```
//!
//! One turn of the engine makes, changes or removes such a row, so the store never holds one half done. Rows that wait
//! for signals or take their time are the exception (`traversal/signal.rs`, `traversal/waiting_rows.rs`). What a link,
//! host or intent declares is in `intent/row.rs`.
//!
//! Absent: their properties, and which change needs a replacement (`controller/template/src/virtual_resource.rs`).

use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::Action;
use muster_template::{Desired, Kind, RandomString, VirtualResource};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::engine::Engine;
use crate::graph::Graph;
use crate::jobs::Jobs;
use crate::record::{Observation, PackedSpec};
use crate::row::{Row, Slot};
use crate::todo::Todo;
use crate::traversal::waiting_rows::SIGNALS_GRACE;
use crate::traversals::Traversals;

/// The reason of a test resource with `fail`.
const TOLD_TO_FAIL: &str = "told to fail";
/// The attribute that holds a random text.
const VALUE: &str = "value";
/// The attribute with the API path that signals a handle.
const ENDPOINT: &str = "endpoint";

/// The characters that stand for themselves in a segment of a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl Row {
    /// The value of `get_resource`. As in Heat, some types give something else than their id.
    pub(crate) fn reference(&self) -> String {
        let own = if self.kind == Kind::RandomString {
            self.attributes.get(VALUE).cloned()
        } else if self.kind == Kind::DeployedServer {
            let name = self.spec().and_then(|spec| spec.unpack().attribute("name"));
            name.and_then(|name| name.as_str().map(str::to_owned))
        } else {
            None
        };
        own.unwrap_or_else(|| self.shown_id())
    }
}

impl Engine {
    /// Makes or changes a virtual resource at once.
    pub(crate) fn realise(&mut self, slot: Slot, kind: Kind, action: Action, spec: PackedSpec) {
        self.graph_mut().not_failed(slot);
        self.graph_mut().job_begins(slot);
        self.traversals.let_go(slot);
        let desired = spec.unpack();
        let (fails, random) = match desired.virtual_resource() {
            Some(VirtualResource::Random(random)) => (false, Some(random)),
            Some(resource) => (resource.test().is_some_and(|(test, _)| test.fail), None),
            None => (false, None),
        };
        let declared = self.wanted_virtual(slot, &spec);
        let planned = match declared.and_then(|()| self.traversals.put_in_plan(slot, &desired)) {
            Ok(planned) => planned,
            Err(reason) => {
                let reason = self.traversals.shown_of_plan(slot, &reason);
                self.graph_mut().rows[slot].refuse_virtual(kind, action);
                self.graph_mut().row_changed(slot, true);
                return self.traversals.jobs.fail_row(slot, reason);
            }
        };
        let still = self.graph().rows[slot].pauses_still(&spec);
        let known = self.graph().rows[slot].attributes.contains_key(VALUE);
        let text = random.filter(|_| !known).map(|random| self.graph().draw(slot, random));
        let row = &mut self.graph_mut().rows[slot];
        row.realise(kind, action, spec);
        if let Some(text) = text {
            row.set_attributes([(VALUE.to_owned(), text)].into());
        }
        if let Some(planned) = planned {
            row.set_attributes(planned.into_iter().collect());
        }
        self.graph_mut().place(slot, None);
        self.traversals.look_for_server(slot);
        if matches!(kind, Kind::Net | Kind::Subnet) {
            self.traversals.hide_in_plan(slot);
        }
        if kind == Kind::Port {
            self.traversals.hide_of_port(slot);
        }
        let takes = time_of(&desired, action);
        if !takes.is_zero() {
            self.traversals.jobs.observe(slot, Observation::Unknown);
            return self.graph_mut().pause(slot, action, takes, still.then_some(Duration::ZERO));
        }
        if fails {
            self.graph_mut().row_changed(slot, true);
            return self.traversals.jobs.fail_row(slot, TOLD_TO_FAIL.into());
        }
        match desired.virtual_resource() {
            Some(VirtualResource::Wait(wait)) => {
                self.traversals.jobs.observe(slot, Observation::Unknown);
                self.graph_mut().pause(
                    slot,
                    action,
                    Duration::from_secs(wait.timeout.into()),
                    still.then_some(SIGNALS_GRACE),
                );
                self.traversals.jobs.look_at_signals(slot);
            }
            Some(VirtualResource::Intent { timeout, .. }) => {
                self.traversals.jobs.observe(slot, Observation::Unknown);
                let time = Duration::from_secs((*timeout).into());
                self.graph_mut().pause(slot, action, time, still.then_some(SIGNALS_GRACE));
            }
            Some(VirtualResource::WaitHandle) => {
                let row = &self.graph().rows[slot];
                let stack = self.graph().stacks.get(&row.stack).map_or("?", |stack| stack.name.as_str());
                let endpoint =
                    format!("/v1/stacks/{stack}/resources/{}/signal", utf8_percent_encode(&row.name, PLAIN));
                self.graph_mut().rows[slot].add_attribute(ENDPOINT, endpoint);
                self.traversals.jobs.made(slot);
            }
            _ => self.traversals.jobs.made(slot),
        }
    }

    /// A row that waits for time to pass has done so.
    pub(crate) fn time_has_passed(&mut self, slot: Slot) {
        if self.graph().rows[slot].kind == Kind::Intent {
            return self.intent_failed(slot);
        }
        let spec = self.graph().rows[slot].spec().map(PackedSpec::unpack);
        let test = spec.as_ref().and_then(Desired::virtual_resource).and_then(VirtualResource::test);
        let fails = test.is_some_and(|(test, _)| test.fail);
        match self.graph().rows[slot].is_going() {
            true => self.traversals.unmade(slot),
            false if fails => self.traversals.jobs.fail_row(slot, TOLD_TO_FAIL.into()),
            false => {
                self.graph_mut().end_pause(slot);
                self.traversals.jobs.made(slot);
            }
        }
    }

    /// Removes a virtual resource, at once or after the time that its spec states.
    pub(crate) fn unmake(&mut self, slot: Slot) {
        let row = &self.graph().rows[slot];
        if row.pauses() && row.is_going() {
            return;
        }
        let (farewell, spec) = (row.farewell(), row.spec().cloned());
        let kind = row.kind;
        let takes = if kind == Kind::Intent {
            self.withdraw_intent(slot, farewell).unwrap_or_default()
        } else {
            spec.as_ref().map_or(Duration::ZERO, |spec| time_of(&spec.unpack(), farewell))
        };
        if !takes.is_zero() {
            let row = &self.graph().rows[slot];
            let still = spec.is_some_and(|spec| row.pauses_still(&spec));
            self.graph_mut().not_failed(slot);
            self.graph_mut().job_begins(slot);
            self.graph_mut().rows[slot].clear_reason();
            if kind == Kind::Intent {
                // The intent is being withdrawn, so its state is unknown to a revision that wants
                // it again.
                self.traversals.jobs.observe(slot, Observation::Unknown);
            }
            return self.graph_mut().pause(slot, farewell, takes, still.then_some(Duration::ZERO));
        }
        self.retract_link_and_host(slot);
        self.traversals.unmade(slot);
    }

    /// The timer of a row that waits.
    pub(crate) fn pause_due(&mut self, slot: Slot, due: MonoTime) {
        let Some(row) = self.graph().rows.get(slot) else { return };
        let Some(pause) = row.details().pause.filter(|pause| pause.due == Some(due)) else { return };
        if pause.of_batch {
            self.graph_mut().end_pause(slot);
            self.graph_mut().ctx.agenda.push_back(Todo::Visit(slot));
        } else if row.kind == Kind::WaitCondition {
            self.traversals.jobs.signals_are_late(slot);
        } else {
            self.time_has_passed(slot);
        }
    }
}

impl Jobs {
    /// The virtual resource is as desired.
    pub(crate) fn made(&mut self, slot: Slot) {
        let row = &mut self.graph.rows[slot];
        row.be_made();
        let stack = row.stack;
        self.observe(slot, Observation::InSync);
        self.graph.row_changed(slot, true);
        self.graph.event(stack, Some(slot));
        self.graph.job_ended(slot);
        if !self.graph.waits_after(slot) {
            self.row_ready(slot);
        }
    }
}

impl Traversals {
    /// The virtual resource is removed.
    pub(crate) fn unmade(&mut self, slot: Slot) {
        self.jobs.graph.end_pause(slot);
        self.jobs.graph.job_begins(slot);
        if let Err(reason) = self.take_out_of_plan(slot) {
            let reason = self.shown_of_plan(slot, &reason);
            let row = &mut self.jobs.graph.rows[slot];
            row.refuse(row.farewell());
            return self.jobs.fail_row(slot, reason);
        }
        let row = &mut self.jobs.graph.rows[slot];
        row.be_unmade();
        let stack = row.stack;
        self.jobs.graph.row_changed(slot, true);
        self.jobs.graph.event(stack, Some(slot));
        self.jobs.graph.not_failed(slot); // it may have been needed when it was to go before
        self.jobs.graph.ctx.agenda.push_back(Todo::Visit(slot));
    }
}

impl Graph {
    /// A random text that cannot be foreseen, from the row's own stream of random bytes.
    fn draw(&self, slot: Slot, random: &RandomString) -> String {
        let mut bytes = self.ctx.ids.stream(b"random string", self.rows[slot].id);
        random.generate(|below| {
            let below = below as u64;
            // Every answer gets the same share of numbers. A number above the last whole share is
            // drawn again.
            let fair = u64::MAX - u64::MAX % below;
            loop {
                let mut number = [0; 8];
                bytes.fill(&mut number);
                let number = u64::from_le_bytes(number);
                if number < fair {
                    return usize::try_from(number % below).unwrap_or_default();
                }
            }
        })
    }
}

/// The time that an action of a virtual resource takes.
fn time_of(desired: &Desired, action: Action) -> Duration {
    let times = desired
        .virtual_resource()
        .and_then(VirtualResource::test)
        .map(|(_, times)| times)
        .unwrap_or_default();
    let millis = match action {
        Action::Create => times.create,
        Action::Update => times.update,
        Action::Delete => times.delete,
        Action::Retain | Action::Check | Action::Adopt => 0,
    };
    Duration::from_millis(millis.into())
}
