//! Decides when the states of flow tables are reported to the controller, and answers its questions.
//!
//! Absent: what the controller makes of a report (`controller/flow/src/device_report.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::flow::{
    BUCKETS, Bridge, ENTRIES_PAGE, FlowAsk, FlowState, FlowUp, STATES_MAX, SwitchState, TraceQuestion,
    bucket_of,
};
use muster_shared::wire::CONTROLLER_READS_ENTRY;

use super::{Device, FlowEffect, Flows, Switch, Turn, bounded};
use crate::face::Effect;

/// The least time between reports of spontaneous changes; a batch's end is reported at once.
const SPACING: Duration = Duration::from_millis(250);
/// Questions that the host works on: a controller asks one at a time.
const ASKS_MAX: usize = 16;

/// Reports that are due, and where answers of the host go.
#[derive(Debug, Default)]
pub(super) struct FlowReports {
    /// Report the states of all devices.
    pub(super) all: bool,
    /// The controller reads which entry a reason is about.
    names_entries: bool,
    /// No report before this time.
    rest_until: MonoTime,
    /// A report waits for `rest_until`.
    waits: bool,
    /// Questions to the host, of this connection.
    asks: BTreeMap<(Bridge, u64), Question>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Count,
    Foreign,
    Trace,
}

impl FlowReports {
    pub(super) fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        self.waits.then_some((self.rest_until, "telling how flow tables stand"))
    }

    fn ask_host(
        &mut self,
        bridge: &Bridge,
        number: u64,
        kind: Question,
        effect: FlowEffect,
        turn: &mut Turn,
    ) {
        if self.asks.len() >= ASKS_MAX {
            let warning = format!("{ASKS_MAX} questions about flow tables wait already: one is dropped");
            return turn.effects.warn(warning);
        }
        self.asks.insert((bridge.clone(), number), kind);
        turn.effects.push(Effect::Flow { device: bridge.clone(), effect });
    }

    /// Asks the switch what it would do with a packet. The controller asks a few at a time.
    fn trace(&mut self, bridge: &Bridge, number: u64, question: Box<TraceQuestion>, turn: &mut Turn) {
        if self.asks.len() >= ASKS_MAX {
            let result = Err(format!("{ASKS_MAX} questions about flow tables wait already"));
            return turn.say(FlowUp::Traced { device: bridge.clone(), number, result });
        }
        self.ask_host(bridge, number, Question::Trace, FlowEffect::Trace { number, question }, turn);
    }

    /// Whether this page of an answer is still wanted.
    pub(super) fn is_wanted(
        &mut self,
        bridge: &Bridge,
        number: u64,
        kind: Question,
        last: bool,
        turn: &Turn,
    ) -> bool {
        let key = (bridge.clone(), number);
        let is_wanted = self.asks.get(&key) == Some(&kind);
        if is_wanted && last {
            self.asks.remove(&key);
        }
        is_wanted && turn.connection.is_open()
    }
}

impl Device {
    fn state(&self) -> FlowState {
        let (switch, absent) = match &self.switch {
            Switch::Unknown => (SwitchState::Absent, "it was not looked at yet"),
            Switch::Gone { reason } => (SwitchState::Absent, reason.as_str()),
            Switch::Back { filled: false } => (SwitchState::Filling, ""),
            Switch::Back { filled: true } => (SwitchState::Watched, ""),
        };
        let (reason, entry) = match absent.is_empty() {
            true => (self.watching.reason.as_str(), self.watching.wrong),
            false => (absent, None),
        };
        FlowState {
            device: self.bridge.clone(),
            decided: self.decided,
            refused: self.refused.clone(),
            root: self.table.sums().root(),
            entries: u32::try_from(self.table.len()).unwrap_or(u32::MAX),
            wrong: self.table.wrong(),
            foreign: self.watching.foreign,
            switch,
            reason: reason.to_owned(),
            entry,
        }
    }
}

impl Flows {
    /// The controller listens: reports the states of all devices. The controller reads so many
    /// additions, as in [`Welcome::reads`](muster_shared::model::Welcome::reads).
    pub(crate) fn greeted(&mut self, reads: u32) {
        self.telling.all = true;
        self.telling.names_entries = reads >= CONTROLLER_READS_ENTRY;
        self.telling.asks.clear();
        self.devices.values_mut().for_each(|device| device.told = None);
    }

    /// Reports changes, as often as the spacing allows.
    pub(super) fn tell(&mut self, turn: &mut Turn) {
        if !turn.connection.is_open() || turn.is_stopping {
            return;
        }
        let (now, telling) = (turn.now, &mut self.telling);
        let complete = std::mem::take(&mut telling.all);
        // A list without a table says that the table is forgotten, so the list must be complete.
        let is_whole = self.devices.values().all(|device| !device.is_leaving());
        let may_speak = now >= telling.rest_until;
        telling.waits = false;
        let mut states = Vec::new();
        for device in self.devices.values_mut() {
            let is_left_out = device.forgotten && !device.asked || device.is_leaving();
            if is_left_out || !(complete || device.changed || device.asked) {
                continue;
            }
            let mut state = device.state();
            if !telling.names_entries {
                state = FlowState { reason: bounded(state.named_reason()), entry: None, ..state };
            }
            let is_news = device.told.as_ref() != Some(&state);
            if complete || device.asked || is_news && may_speak {
                (device.asked, device.changed) = (false, false);
                device.told = Some(state.clone());
                states.push(state);
            } else if is_news {
                telling.waits = true;
            } else {
                device.changed = false;
            }
        }
        if complete && is_whole || !states.is_empty() {
            telling.rest_until = now + SPACING;
            debug_assert!(states.len() <= STATES_MAX, "there are fewer devices");
            turn.say(FlowUp::States { states, complete: complete && is_whole });
        }
    }

    pub(super) fn ask(&mut self, bridge: &Bridge, number: u64, ask: FlowAsk, turn: &mut Turn) {
        match ask {
            FlowAsk::Buckets => {
                let device = self.told_device(bridge);
                let sums = device.map_or_else(|| vec![0; BUCKETS], |it| it.table.sums().all().to_vec());
                turn.say(FlowUp::Buckets { device: bridge.clone(), number, sums });
            }
            FlowAsk::Entries(buckets) => self.tell_entries(bridge, number, &buckets, turn),
            FlowAsk::Stats => {
                self.telling.ask_host(bridge, number, Question::Count, FlowEffect::Count { number }, turn);
            }
            FlowAsk::Foreign => {
                let effect = FlowEffect::Foreign { number };
                self.telling.ask_host(bridge, number, Question::Foreign, effect, turn);
            }
            FlowAsk::Look => self.look(bridge, turn.now),
            FlowAsk::Trace(question) => self.telling.trace(bridge, number, question, turn),
        }
    }

    /// A device that is being forgotten is reported as absent.
    fn told_device(&self, bridge: &Bridge) -> Option<&Device> {
        self.devices.get(bridge).filter(|device| device.forgetting.is_none())
    }

    fn tell_entries(&self, bridge: &Bridge, number: u64, buckets: &[u16], turn: &mut Turn) {
        let is_asked = |bucket: usize| buckets.binary_search_by_key(&bucket, |it| usize::from(*it)).is_ok();
        let table = self.told_device(bridge).map(|device| device.table.kept()).unwrap_or_default();
        let mut asked = table.iter().filter(|it| is_asked(bucket_of(it.id))).peekable();
        loop {
            let page = asked.by_ref().take(ENTRIES_PAGE);
            let entries: Vec<_> = page.map(|it| (it.id, it.digest, it.state)).collect();
            let last = asked.peek().is_none();
            turn.say(FlowUp::Entries { device: bridge.clone(), number, entries, last });
            if last {
                break;
            }
        }
    }

    /// Compares now; the state is reported once no comparison is due.
    fn look(&mut self, bridge: &Bridge, now: MonoTime) {
        match self.devices.get_mut(bridge) {
            Some(device) if device.is_back() => {
                device.watching.compare_now(now);
                device.looking = true;
            }
            Some(device) => device.asked = true,
            None => self.telling.all = true,
        }
    }
}
