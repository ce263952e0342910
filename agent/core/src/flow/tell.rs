//! What the controller hears of flow tables: states, and the answers to its questions.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::Up;
use muster_shared::model::flow::{
    BUCKETS, Bridge, ENTRIES_PAGE, FlowAsk, FlowBatch, FlowCounters, FlowRefusal, FlowState, FlowUp,
    ForeignRule, STATES_MAX, SwitchState, TableCounters, bucket_of,
};

use super::{Device, FlowEffect, Switch};
use crate::agent::Agent;

/// Between messages of what changed by itself; how a batch ended is said at once.
const SPACING: Duration = Duration::from_millis(250);
/// Questions that the host is at: a controller asks for one at a time.
const ASKS_MAX: usize = 16;

/// What is to be said, and to whom answers go.
#[derive(Debug, Default)]
pub(super) struct Telling {
    /// Say how all devices stand.
    pub(super) all: bool,
    /// Not before.
    rest_until: MonoTime,
    /// Something waits for that.
    waits: bool,
    /// Questions to the host, of this connection.
    asks: BTreeMap<(Bridge, u64), Question>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Count,
    Foreign,
}

impl Telling {
    pub(super) fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        self.waits.then_some((self.rest_until, "telling how flow tables stand"))
    }
}

impl Device {
    fn state(&self, bridge: &Bridge) -> FlowState {
        let (switch, absent) = match &self.switch {
            Switch::Unknown => (SwitchState::Absent, "it was not looked at yet"),
            Switch::Gone { reason } => (SwitchState::Absent, reason.as_str()),
            Switch::Back { filled: false } => (SwitchState::Filling, ""),
            Switch::Back { filled: true } => (SwitchState::Watched, ""),
        };
        let reason = if absent.is_empty() { &self.watching.reason } else { absent };
        FlowState {
            device: bridge.clone(),
            decided: self.decided,
            refused: self.refused.clone(),
            root: self.table.sums().root(),
            entries: u32::try_from(self.table.len()).unwrap_or(u32::MAX),
            wrong: self.table.wrong(),
            foreign: self.watching.foreign,
            switch,
            reason: reason.to_owned(),
        }
    }
}

impl Agent {
    /// The controller listens: it is told how all stands.
    pub(crate) fn flows_greeted(&mut self) {
        self.flows.telling.all = true;
        self.flows.telling.asks.clear();
        self.flows.devices.values_mut().for_each(|device| device.told = None);
    }

    /// Says what has changed, as often as that may be said.
    pub(super) fn tell_flows(&mut self) {
        if !self.connection.is_open() || self.is_stopping {
            return;
        }
        let (now, telling) = (self.now, &mut self.flows.telling);
        let complete = std::mem::take(&mut telling.all);
        // A list without a table says that it is forgotten: so it is said only then.
        let is_whole = self.flows.devices.values().all(|device| !device.is_leaving());
        let may_speak = now >= telling.rest_until;
        telling.waits = false;
        let mut states = Vec::new();
        for (bridge, device) in &mut self.flows.devices {
            let is_left_out = device.forgotten && !device.asked || device.is_leaving();
            if is_left_out || !(complete || device.changed || device.asked) {
                continue;
            }
            let state = device.state(bridge);
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
            self.say(FlowUp::States { states, complete: complete && is_whole });
        }
    }

    /// Of a device that there is no place for.
    pub(super) fn tell_refusal(&mut self, batch: &FlowBatch, refused: FlowRefusal) {
        let state = FlowState {
            device: batch.device.clone(),
            decided: batch.generation,
            refused: Some(refused),
            root: 0,
            entries: 0,
            wrong: 0,
            foreign: 0,
            switch: SwitchState::Absent,
            reason: String::new(),
        };
        self.say(FlowUp::States { states: vec![state], complete: false });
    }

    fn say(&mut self, up: FlowUp) {
        self.effects.send(Up::Flow(up));
    }

    pub(super) fn flow_ask(&mut self, bridge: &Bridge, number: u64, ask: FlowAsk) {
        match ask {
            FlowAsk::Buckets => {
                let device = self.told_device(bridge);
                let sums = device.map_or_else(|| vec![0; BUCKETS], |it| it.table.sums().all().to_vec());
                self.say(FlowUp::Buckets { device: bridge.clone(), number, sums });
            }
            FlowAsk::Entries(buckets) => self.tell_entries(bridge, number, &buckets),
            FlowAsk::Stats => self.ask_host(bridge, number, Question::Count),
            FlowAsk::Foreign => self.ask_host(bridge, number, Question::Foreign),
            FlowAsk::Look => self.flow_look(bridge),
        }
    }

    /// One that is being forgotten is answered for as if it were.
    fn told_device(&self, bridge: &Bridge) -> Option<&Device> {
        self.flows.devices.get(bridge).filter(|device| device.forgetting.is_none())
    }

    fn tell_entries(&mut self, bridge: &Bridge, number: u64, buckets: &[u16]) {
        let is_asked = |bucket: usize| buckets.binary_search_by_key(&bucket, |it| usize::from(*it)).is_ok();
        let table = self.told_device(bridge).map(|device| device.table.kept()).unwrap_or_default();
        let mut asked = table.iter().filter(|it| is_asked(bucket_of(it.id))).peekable();
        loop {
            let page = asked.by_ref().take(ENTRIES_PAGE);
            let entries: Vec<_> = page.map(|it| (it.id, it.digest, it.state)).collect();
            let last = asked.peek().is_none();
            self.say(FlowUp::Entries { device: bridge.clone(), number, entries, last });
            if last {
                break;
            }
        }
    }

    fn ask_host(&mut self, bridge: &Bridge, number: u64, kind: Question) {
        if self.flows.telling.asks.len() >= ASKS_MAX {
            return self
                .effects
                .warn(format!("{ASKS_MAX} questions about flow tables wait already: one is dropped"));
        }
        self.flows.telling.asks.insert((bridge.clone(), number), kind);
        let effect = match kind {
            Question::Count => FlowEffect::Count { number },
            Question::Foreign => FlowEffect::Foreign { number },
        };
        self.flow_effect(bridge, effect);
    }

    /// Whether this page of an answer is still wanted.
    fn is_wanted(&mut self, bridge: &Bridge, number: u64, kind: Question, last: bool) -> bool {
        let key = (bridge.clone(), number);
        let is_wanted = self.flows.telling.asks.get(&key) == Some(&kind);
        if is_wanted && last {
            self.flows.telling.asks.remove(&key);
        }
        is_wanted && self.connection.is_open()
    }

    pub(super) fn flow_counted(
        &mut self,
        bridge: &Bridge,
        number: u64,
        entries: Vec<FlowCounters>,
        tables: Vec<TableCounters>,
        last: bool,
    ) {
        if self.is_wanted(bridge, number, Question::Count, last) {
            self.say(FlowUp::Stats { device: bridge.clone(), number, entries, tables, last });
        }
    }

    pub(super) fn flow_foreigners(
        &mut self,
        bridge: &Bridge,
        number: u64,
        rules: Vec<ForeignRule>,
        last: bool,
    ) {
        if self.is_wanted(bridge, number, Question::Foreign, last) {
            self.say(FlowUp::Foreign { device: bridge.clone(), number, rules, last });
        }
    }

    /// Compares now; the state is said once nothing is due any more.
    fn flow_look(&mut self, bridge: &Bridge) {
        let now = self.now;
        match self.device(bridge) {
            Some(device) if device.is_back() => {
                device.watching.compare_now(now);
                device.looking = true;
            }
            Some(device) => device.asked = true,
            None => self.flows.telling.all = true,
        }
    }
}
