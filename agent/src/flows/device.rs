//! The task of one device: keeps a connection to its switch, executes the machine's requests there, and reports
//! events. Decides whether a missing entry has ended by its timeout.
//!
//! Absent: when a device is compared (`agent/core/src/flow/repair_switch.rs`), and which entries are equal
//! (`agent/host/src/openflow/compare.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::future::ready;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use muster_agent_core::{
    Compared, DivergentForms, ENDED_MAX, Extraneous, FlowInput, NotApplied, Op, Repaired, TableEntry,
};
use muster_host::openflow::{self, Event, Lost, Outcome};
use muster_shared::model::flow::{
    Bridge, DeviceName, Entry, FOREIGN_MAX, FOREIGN_PAGE, FlowId, FlowRefusal, Packed,
};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep_until};

use super::bridge_or_filter::{self, Switch, chain};
use super::entries::{Change, Manner, Table};
use crate::flow_log::wall_clock;

/// The pause between attempts to reach a switch that was there a moment ago: its restart takes about a
/// second …
const AGAIN_SOON: Duration = Duration::from_millis(100);
/// … this many times; afterwards the pause is this long, also for a switch that could not be compared.
const SOON_TRIES: u32 = 100;
const AGAIN: Duration = Duration::from_secs(2);
/// The most entries that the switch refuses one by one in a repair; the rest waits for the next one.
const REFUSALS_MAX: usize = 64;

/// A request to the device's task.
pub enum Command {
    Apply {
        number: u64,
        ops: Arc<Vec<Op>>,
        kept: Arc<Vec<TableEntry>>,
        file: Rc<File>,
        again: bool,
        take_over: bool,
    },
    Compare {
        number: u64,
        kept: Arc<Vec<TableEntry>>,
        odd: Arc<DivergentForms>,
        file: Rc<File>,
        stamps: Rc<BTreeMap<FlowId, u64>>,
        filled: Option<u64>,
    },
    Repair {
        number: u64,
        put: Vec<TableEntry>,
        remove: Vec<Extraneous>,
        file: Rc<File>,
    },
    Cancel {
        number: u64,
    },
    Filled,
    Count {
        number: u64,
    },
    Foreign {
        number: u64,
    },
}

impl Command {
    /// The number of work that can be cancelled.
    fn work(&self) -> Option<u64> {
        match self {
            Command::Apply { number, .. }
            | Command::Compare { number, .. }
            | Command::Repair { number, .. } => Some(*number),
            // These are always answered.
            Command::Count { .. } | Command::Foreign { .. } => None,
            Command::Cancel { .. } | Command::Filled => None,
        }
    }
}

/// An event of a device.
pub enum DeviceEvent {
    Input(FlowInput),
    /// The device was filled after this start of the switch.
    Filled(u64),
}

struct Task {
    bridge: Bridge,
    commands: Receiver<Command>,
    waiting: VecDeque<Command>,
    tell: Sender<(Bridge, DeviceEvent)>,
    known: SwitchObservation,
}

/// The task's knowledge of the switch.
#[derive(Default)]
struct SwitchObservation {
    /// The number of the last comparison over this connection: since then, the switch has reported all ends.
    compared: Option<u64>,
    /// The number of ends reported since then.
    ended: usize,
    /// The extraneous rules of that comparison.
    extraneous: Vec<bridge_or_filter::Extraneous>,
    unsayable: BTreeMap<FlowId, Arc<str>>,
    /// A change was never answered: groups and meters of it may exist, which carry no cookie.
    is_unsure: bool,
}

impl SwitchObservation {
    /// Over a new connection.
    fn begin(&mut self) {
        *self = Self { is_unsure: self.is_unsure, ..Self::default() };
    }

    /// Whether entries may have ended unreported, or more than the machine remembers.
    fn may_have_missed_ends(&self) -> bool {
        self.compared.is_none() || self.ended >= ENDED_MAX
    }
}

/// Runs until it is aborted.
pub async fn watch(
    name: DeviceName,
    rundir: PathBuf,
    commands: Receiver<Command>,
    tell: Sender<(Bridge, DeviceEvent)>,
) {
    let (waiting, known) = Default::default();
    let bridge = name.bridge.clone();
    let mut task = Task { bridge, commands, waiting, tell, known };
    let (mut tries, mut is_told) = (0, false);
    loop {
        let reason = match Switch::connect(&rundir, &name).await {
            Ok(mut switch) => {
                is_told = false;
                task.known.begin();
                task.say(FlowInput::Back).await;
                let reason = task.serve(&mut switch).await;
                // A switch that answers and then sends nonsense would be asked for its whole state ten times
                // a second.
                tries = if task.known.compared.is_some() { 0 } else { SOON_TRIES };
                reason
            }
            Err(reason) => reason,
        };
        if !std::mem::replace(&mut is_told, true) {
            task.say(FlowInput::Gone { reason: reason.clone() }).await;
        }
        tries += 1;
        let wait = if tries < SOON_TRIES { AGAIN_SOON } else { AGAIN };
        if !task.wait(Instant::now() + wait, &reason).await {
            return;
        }
    }
}

/// Answers one question, over a separate connection.
pub async fn ask_once(
    name: DeviceName,
    rundir: PathBuf,
    command: Command,
    tell: Sender<(Bridge, DeviceEvent)>,
) {
    let answer = match Switch::connect(&rundir, &name).await {
        Ok(mut switch) => match command {
            Command::Count { number } => count(&mut switch, number).await,
            Command::Foreign { number } => foreign(&mut switch, number).await,
            other => unanswerable(other, "not a question").into_iter().collect(),
        },
        Err(reason) => unanswerable(command, &reason).into_iter().collect(),
    };
    for input in answer {
        // The driver ends first only when the agent does.
        let _ = tell.send((name.bridge.clone(), DeviceEvent::Input(input))).await;
    }
}

/// The answer where there is no switch.
pub fn unanswerable(command: Command, reason: &str) -> Option<FlowInput> {
    let reason = reason.to_owned();
    match command {
        Command::Apply { number, .. } => {
            Some(FlowInput::Applied { number, result: Err(NotApplied::Gone { reason }) })
        }
        Command::Compare { number, .. } => Some(FlowInput::Compared { number, result: Err(reason) }),
        Command::Repair { number, .. } => Some(FlowInput::Repaired { number, result: Err(reason) }),
        Command::Cancel { .. } | Command::Filled => None,
        Command::Count { number } => {
            Some(FlowInput::Counted { number, entries: Vec::new(), tables: Vec::new(), last: true })
        }
        Command::Foreign { number } => Some(FlowInput::Foreigners { number, rules: Vec::new(), last: true }),
    }
}

impl Task {
    async fn say(&self, input: FlowInput) {
        let _ = self.tell.send((self.bridge.clone(), DeviceEvent::Input(input))).await;
    }

    /// Waits until the next attempt. Returns false if nobody needs the task any more.
    async fn wait(&mut self, until: Instant, reason: &str) -> bool {
        while let Some(command) = self.waiting.pop_front() {
            if let Some(answer) = unanswerable(command, reason) {
                self.say(answer).await;
            }
        }
        loop {
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => if let Some(answer) = unanswerable(command, reason) {
                        self.say(answer).await;
                        // The machine needs the state of the switch once more.
                        self.say(FlowInput::Gone { reason: reason.to_owned() }).await;
                    },
                    None => return false,
                },
                () = sleep_until(until) => return true,
            }
        }
    }

    /// Serves until the switch is gone. Returns the reason.
    async fn serve(&mut self, switch: &mut Switch) -> String {
        loop {
            let command = match self.waiting.pop_front() {
                Some(command) => Some(command),
                None => tokio::select! {
                    biased;
                    command = self.commands.recv() => command,
                    event = switch.event() => match event {
                        Event::Changed { .. } => {
                            self.say(FlowInput::Hint).await;
                            continue;
                        }
                        Event::Removed { id, .. } => {
                            let mut ids = switch.take_ended();
                            ids.push(id);
                            self.known.ended += ids.len();
                            self.say(FlowInput::Ended { ids }).await;
                            continue;
                        }
                        Event::Gone(lost) => return chain(&lost),
                    },
                },
            };
            let Some(command) = command else { return "the agent ends".into() };
            let done = self.interruptible(switch, command).await;
            muster_host::sys::give_back_memory();
            if let Err(lost) = done {
                return chain(&lost);
            }
        }
    }

    /// Executes a command, unless it is cancelled; further commands wait meanwhile.
    async fn interruptible(&mut self, switch: &mut Switch, command: Command) -> Result<(), Lost> {
        let Self { bridge, commands, waiting, tell, known } = self;
        if let Command::Cancel { number } = command {
            known.compared.take_if(|compared| *compared == number);
            return Ok(());
        }
        let under_way = command.work();
        let work = work(switch, command, known);
        tokio::pin!(work);
        let (inputs, lost) = loop {
            tokio::select! {
                done = &mut work => break done,
                Some(command) = commands.recv(), if waiting.len() < super::COMMANDS_MAX => match command {
                    Command::Cancel { number } if under_way == Some(number) => return Ok(()),
                    Command::Cancel { number } if waiting.iter().any(|it| it.work() == Some(number)) => {
                        waiting.retain(|it| it.work() != Some(number));
                    }
                    // Also cancels of work that is already answered.
                    other => waiting.push_back(other),
                },
            }
        };
        for said in inputs {
            let _ = tell.send((bridge.clone(), said)).await;
        }
        lost
    }
}

async fn work(
    switch: &mut Switch,
    command: Command,
    known: &mut SwitchObservation,
) -> (Vec<DeviceEvent>, Result<(), Lost>) {
    let inputs = |inputs: Vec<FlowInput>| inputs.into_iter().map(DeviceEvent::Input).collect::<Vec<_>>();
    match command {
        Command::Apply { number, ops, kept, file, again, take_over } => {
            let again = std::mem::replace(&mut known.is_unsure, true) || again;
            let change = Change::new(ops, kept, Manner::Batch { again, take_over }, file);
            let (inputs_said, lost) = apply(switch, number, change).await;
            known.is_unsure = lost.is_err();
            (inputs(inputs_said), lost)
        }
        Command::Compare { number, kept, odd, file, stamps, filled } => {
            let table = Table::new(kept, odd, Rc::clone(&file)).map_err(Lost::Kept);
            let compared = match table {
                Ok(table) => compare(switch, &table, &file, &stamps, filled, known).await,
                Err(lost) => Err(lost),
            };
            match compared {
                Ok((compared, ended)) => {
                    (known.compared, known.ended) = (Some(number), ended.len());
                    let mut said = vec![FlowInput::Compared { number, result: Ok(compared) }];
                    // The next comparison finds entries that ended after this one looked at them.
                    said.extend((!ended.is_empty()).then_some(FlowInput::Ended { ids: ended }));
                    (inputs(said), Ok(()))
                }
                Err(lost) => (
                    inputs(vec![FlowInput::Compared { number, result: Err(chain(&lost)) }]),
                    unless_kept(lost),
                ),
            }
        }
        Command::Repair { number, put, remove, file } => {
            match repair(switch, put, &remove, file, known).await {
                Ok(repaired) => (inputs(vec![FlowInput::Repaired { number, result: Ok(repaired) }]), Ok(())),
                Err(lost) => (
                    inputs(vec![FlowInput::Repaired { number, result: Err(chain(&lost)) }]),
                    unless_kept(lost),
                ),
            }
        }
        // The command may refer to an earlier start of the switch.
        Command::Filled if known.compared.is_none() => (Vec::new(), Ok(())),
        Command::Filled => (vec![DeviceEvent::Filled(switch.instance())], Ok(())),
        Command::Cancel { .. } => (Vec::new(), Ok(())),
        Command::Count { number } => (inputs(count(switch, number).await), Ok(())),
        Command::Foreign { number } => (inputs(foreign(switch, number).await), Ok(())),
    }
}

/// An error of our own disk does not end the connection.
fn unless_kept(lost: Lost) -> Result<(), Lost> {
    if matches!(lost, Lost::Kept(_)) { Ok(()) } else { Err(lost) }
}

async fn apply(switch: &mut Switch, number: u64, mut change: Change) -> (Vec<FlowInput>, Result<(), Lost>) {
    match switch.apply(&mut change, ready(Ok(()))).await {
        Ok(Outcome::Applied(applied)) => {
            let odd = applied.odd.into_iter().map(|(id, form)| (id, form.0)).collect();
            let mut inputs = vec![FlowInput::Applied { number, result: Ok(odd) }];
            // Others removed entries, or their timeouts were short: a comparison tells which.
            inputs.extend((!applied.missing.is_empty()).then_some(FlowInput::Hint));
            (inputs, Ok(()))
        }
        Ok(Outcome::Refused(refusal)) => {
            let openflow::Refusal { id, reason, permanent } = refusal;
            let refused = FlowRefusal { id, reason, permanent };
            (vec![FlowInput::Applied { number, result: Err(NotApplied::Refused(refused)) }], Ok(()))
        }
        Err(lost @ Lost::Kept(_)) => {
            let refused = FlowRefusal { id: None, reason: chain(&lost), permanent: false };
            (vec![FlowInput::Applied { number, result: Err(NotApplied::Refused(refused)) }], Ok(()))
        }
        Err(lost) => (
            vec![FlowInput::Applied { number, result: Err(NotApplied::Gone { reason: chain(&lost) }) }],
            Err(lost),
        ),
    }
}

/// Compares, and also reports entries that ended meanwhile.
async fn compare(
    switch: &mut Switch,
    table: &Table,
    file: &Rc<File>,
    stamps: &BTreeMap<FlowId, u64>,
    filled: Option<u64>,
    known: &mut SwitchObservation,
) -> Result<(Compared, Vec<FlowId>), Lost> {
    let found = switch.compare(table).await?;
    let said = switch.take_ended();
    let is_said: BTreeSet<FlowId> = said.iter().copied().collect();
    // Once the task listens, the switch reports every end; any other missing entry was removed by others.
    let may_be_unheard = known.may_have_missed_ends() && filled == Some(switch.instance());
    let (mut ended, mut missing) = (Vec::new(), Vec::new());
    for id in found.missing {
        let has_ended = match (stamps.get(&id), table.kept(id)) {
            _ if is_said.contains(&id) => true,
            (Some(at), Some(kept)) => may_be_unheard || has_run_out(file, kept, *at),
            (_, _) => false,
        };
        if has_ended { ended.push(id) } else { missing.push(id) }
    }
    // They are put with the others, and fail with their reasons.
    missing.extend(found.unsayable.iter().map(|(id, _)| *id));
    missing.sort_unstable();
    known.unsayable = found.unsayable.into_iter().collect();
    known.extraneous = found.extraneous;
    let named = (0u32..).take(known.extraneous.len()).map(|n| Extraneous(n.to_le_bytes().into()));
    let compared = Compared {
        missing,
        ended,
        altered: found.altered.into_iter().map(|(id, _)| id).collect(),
        extraneous: named.collect(),
        more: found.more_extraneous,
        foreign: found.foreign,
    };
    Ok((compared, said))
}

/// The hard timeout is over, by the wall clock.
fn has_run_out(file: &Rc<File>, kept: &TableEntry, put_at: u64) -> bool {
    let mut reader = super::entries::Reader::forward(Rc::clone(file));
    let packed = reader.read(kept.at, kept.length);
    match packed.ok().and_then(|packed| Packed::read(packed).ok()) {
        Some(Entry::Rule(rule)) if rule.hard_timeout != 0 => {
            wall_clock() >= put_at + u64::from(rule.hard_timeout)
        }
        _ => false,
    }
}

async fn repair(
    switch: &mut Switch,
    put: Vec<TableEntry>,
    remove: &[Extraneous],
    file: Rc<File>,
    known: &SwitchObservation,
) -> Result<Repaired, Lost> {
    let SwitchObservation { extraneous, unsayable, .. } = known;
    let place = |name: &Extraneous| Some(u32::from_le_bytes(name.0[..].try_into().ok()?) as usize);
    let wanted = remove.iter().filter_map(place).filter_map(|at| extraneous.get(at).cloned());
    let wanted: Vec<_> = wanted.collect();
    if !wanted.is_empty()
        && let Some(reason) = switch.strip(&wanted).await?
    {
        tracing::warn!(reason, "not all that nobody asked for can be removed");
    }
    let mut repaired = Repaired::default();
    let mut left = Vec::with_capacity(put.len());
    for TableEntry { id, digest, at, length, .. } in put {
        match unsayable.get(&id) {
            Some(reason) => repaired.failed.push((id, reason.to_string())),
            None => left.push(Op { id, digest, at, length, put: true }),
        }
    }
    while !left.is_empty() {
        let ops = Arc::new(std::mem::take(&mut left));
        let change = Change::new(Arc::clone(&ops), Arc::default(), Manner::Repair, Rc::clone(&file));
        let mut change = change;
        match switch.apply(&mut change, ready(Ok(()))).await? {
            Outcome::Applied(applied) => {
                repaired.odd.extend(applied.odd.into_iter().map(|(id, form)| (id, form.0)));
            }
            Outcome::Refused(refusal) => {
                let bad = refusal.id.filter(|_| repaired.failed.len() < REFUSALS_MAX + unsayable.len());
                let (bad, rest): (Vec<Op>, Vec<Op>) =
                    ops.iter().partition(|op| bad.is_none_or(|id| op.id == id));
                // A repair ends even if the refused entry is not among those of the repair.
                let rest = if bad.is_empty() { Vec::new() } else { rest };
                let failed = if bad.is_empty() { ops.to_vec() } else { bad };
                repaired.failed.extend(failed.iter().map(|op| (op.id, refusal.reason.clone())));
                left = rest;
            }
        }
    }
    Ok(repaired)
}

async fn count(switch: &mut Switch, number: u64) -> Vec<FlowInput> {
    let mut pages = Vec::new();
    let tables = switch.stats(&mut |page| pages.push(page)).await.unwrap_or_default();
    let counted = |entries| FlowInput::Counted { number, entries, tables: Vec::new(), last: false };
    let mut inputs: Vec<_> = pages.into_iter().map(counted).collect();
    inputs.push(FlowInput::Counted { number, entries: Vec::new(), tables, last: true });
    inputs
}

async fn foreign(switch: &mut Switch, number: u64) -> Vec<FlowInput> {
    let rules = switch.foreign(FOREIGN_MAX).await.unwrap_or_default();
    let page = |rules: &[_]| FlowInput::Foreigners { number, rules: rules.to_vec(), last: false };
    let mut inputs: Vec<_> = rules.chunks(FOREIGN_PAGE).map(page).collect();
    inputs.push(FlowInput::Foreigners { number, rules: Vec::new(), last: true });
    inputs
}
