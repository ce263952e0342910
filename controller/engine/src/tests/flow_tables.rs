//! Flow tables: requests of operators, answers of devices, and messages lost in between.

use std::time::Duration;

use muster_flow::{DeviceView, FlowOp, FlowOperationView, FlowWrite};
use muster_shared::model::Up;
use muster_shared::model::flow::{
    Action, Bridge, Criterion, DeviceName, Entry, EntryState, Field, FlowId, Instruction, Output, Packed,
    Rule,
};
use muster_shared::{Epoch, Generation};

use super::bed::{Bed, node};
use crate::{Answer, Refusal, Request};

pub fn device(index: usize) -> DeviceName {
    DeviceName { node: node(index), bridge: "br0".parse().unwrap() }
}

/// A rule that sends packets for 10.0.n/24 to a table.
pub fn rule(n: u16, table: u8) -> Entry {
    let value = |field, value: u128, mask| Criterion::Field { field, value, mask };
    Entry::Rule(Rule {
        table: 0,
        priority: 100,
        selector: vec![
            value(Field::EthType, 0x800, None),
            value(Field::Ipv4Dst, 0x0a00_0000 | u128::from(n) << 8, Some(0xffff_ff00)),
        ],
        treatment: match table {
            0 => vec![Instruction::Do(Action::Output(Output::Normal))],
            table => vec![Instruction::GotoTable(table)],
        },
        idle_timeout: 0,
        hard_timeout: 0,
    })
}

pub fn id(device: &DeviceName, n: u16) -> FlowId {
    rule(n, 0).id(device)
}

pub fn put(device: &DeviceName, entry: &Entry) -> FlowOp {
    let packed = Packed::new(entry).unwrap();
    FlowOp::Put { id: entry.id(device), digest: packed.digest(), packed }
}

pub fn write(device: &DeviceName, entries: &[Entry]) -> FlowWrite {
    FlowWrite { device: device.clone(), ops: entries.iter().map(|entry| put(device, entry)).collect() }
}

impl Bed {
    pub fn apply(&mut self, stages: Vec<Vec<FlowWrite>>) -> Result<u64, Refusal> {
        match self.ask(Request::ApplyFlows { stages, confirm_timeout: None, application: None })? {
            Answer::Flows { operation, .. } => Ok(operation),
            other => panic!("{other:?}"),
        }
    }

    pub fn apply_rules(&mut self, device: &DeviceName, entries: &[Entry]) -> u64 {
        self.apply(vec![vec![write(device, entries)]]).unwrap()
    }

    pub fn remove_rules(&mut self, device: &DeviceName, ids: &[FlowId]) -> u64 {
        let request =
            Request::DeleteFlows { device: device.clone(), ids: ids.to_vec(), confirm_timeout: None };
        match self.ask(request).unwrap() {
            Answer::Flows { operation, .. } => operation,
            other => panic!("{other:?}"),
        }
    }

    pub fn operation(&self, id: u64) -> FlowOperationView {
        self.engine.view().flows().operation(id).unwrap()
    }

    pub fn ended(&self, id: u64) -> String {
        let view = self.operation(id);
        let errors = view.errors.iter().map(|error| error.error.as_str());
        [view.state.as_str()].into_iter().chain(errors).collect::<Vec<_>>().join(": ")
    }

    /// Number of entries by state: `ADDED 2, FAILED 1`
    pub fn standings(&self, device: &DeviceName) -> String {
        let rows = self.engine.view().flows().rows(device, None).unwrap().sorted().rows;
        let mut counts = std::collections::BTreeMap::new();
        for row in rows {
            *counts.entry(row.standing.as_str()).or_insert(0) += 1;
        }
        let counts: Vec<String> =
            counts.into_iter().map(|(state, count)| format!("{state} {count}")).collect();
        counts.join(", ")
    }

    pub fn device_view(&self, device: &DeviceName) -> DeviceView {
        self.engine.view().flows().device(device).unwrap()
    }

    pub fn hold(&mut self, index: usize, held: bool) {
        self.hosts.get_mut(&node(index)).unwrap().flows.held = held;
    }

    /// Runs the batches that wait at a node.
    pub fn decide(&mut self, index: usize) {
        for up in self.hosts.get_mut(&node(index)).unwrap().flows.run() {
            self.receive(&node(index), up);
        }
    }

    pub fn bad(&mut self, device: &DeviceName, n: u16, permanent: bool) {
        let host = self.hosts.get_mut(&device.node).unwrap();
        host.flows.bad.insert(id(device, n), ("no such port".into(), permanent));
    }

    /// The agent reports the state of a device.
    pub fn say(&mut self, device: &DeviceName) {
        let state = self.hosts[&device.node].flows.state(&device.bridge);
        self.receive(&device.node, state);
    }

    /// Ids of the entries on a device.
    pub fn on_device(&self, device: &DeviceName) -> Vec<FlowId> {
        let known = self.hosts[&device.node].flows.devices.get(&device.bridge);
        known.map(|known| known.entries.keys().copied().collect()).unwrap_or_default()
    }

    pub fn equal(&self, device: &DeviceName) -> bool {
        let rows = self.engine.view().flows().rows(device, None).unwrap().sorted().rows;
        let known = &self.hosts[&device.node].flows.devices[&device.bridge].entries;
        let ours: Vec<_> = rows
            .iter()
            .filter(|row| row.standing.as_str() == "ADDED")
            .map(|row| (row.id, row.packed.clone()))
            .collect();
        let theirs: Vec<_> = known
            .iter()
            .filter(|(_, (_, state))| *state == EntryState::Present)
            .map(|(id, (packed, _))| (*id, packed.clone()))
            .collect();
        ours == theirs
    }
}

#[test]
fn rules_are_added_and_removed() {
    let (mut bed, d) = (Bed::new(1), device(0));
    let operation = bed.apply_rules(&d, &[rule(1, 0), rule(2, 0)]);
    assert_eq!(bed.ended(operation), "COMPLETE");
    assert_eq!(bed.standings(&d), "ADDED 2");
    assert!(bed.equal(&d));
    let operation = bed.remove_rules(&d, &[id(&d, 1)]);
    assert_eq!(bed.ended(operation), "COMPLETE");
    assert_eq!((bed.standings(&d).as_str(), bed.on_device(&d)), ("ADDED 1", vec![id(&d, 2)]));
    assert_eq!(bed.tables.flows.entries.len(), 1, "the store forgets it too");
    bed.restart();
    assert_eq!(bed.standings(&d), "ADDED 1");
    assert_eq!(bed.ended(operation), "COMPLETE", "an operation outlives a restart");
}

#[test]
fn what_is_so_already_is_not_sent() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 0)]);
    let again = bed.apply_rules(&d, &[rule(1, 0)]);
    assert_eq!((bed.ended(again).as_str(), bed.hosts[&node(0)].flows.ran), ("COMPLETE", 1));
    assert_eq!(bed.operation(again).done, 1);
}

#[test]
fn one_batch_is_in_flight_and_the_last_writer_wins() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.hold(0, true);
    let first = bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    let second = bed.apply_rules(&d, &[rule(1, 2), rule(3, 2)]);
    let third = bed.apply_rules(&d, &[rule(1, 3)]);
    assert_eq!(bed.hosts[&node(0)].flows.waiting.len(), 1);
    assert_eq!(bed.standings(&d), "PENDING_ADD 3");
    bed.decide(0);
    assert_eq!(bed.ended(first), "COMPLETE");
    assert_eq!(bed.standings(&d), "ADDED 1, PENDING_ADD 2");
    bed.decide(0);
    assert_eq!((bed.ended(second), bed.ended(third)), ("COMPLETE".into(), "COMPLETE".into()));
    assert!(bed.equal(&d));
    assert_eq!(bed.hosts[&node(0)].flows.ran, 2, "two were merged");
    let rows = bed.engine.view().flows().rows(&d, None).unwrap().sorted().rows;
    let first = rows.iter().find(|row| row.id == id(&d, 1)).unwrap();
    assert_eq!(first.packed.unpack(), rule(1, 3));
}

#[test]
fn a_refused_flow_operation_fails_alone_and_is_undone() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1), rule(4, 1)]);
    bed.bad(&d, 2, true);
    bed.hold(0, true);
    bed.apply_rules(&d, &[rule(9, 1)]);
    let bad = bed.apply(vec![vec![write(&d, &[rule(1, 7), rule(2, 7), rule(3, 7)])]]).unwrap();
    let good = bed.apply_rules(&d, &[rule(5, 1)]);
    let gone = bed.remove_rules(&d, &[id(&d, 4)]);
    for _ in 0..3 {
        bed.decide(0);
    }
    assert_eq!(bed.ended(bad), "FAILED: no such port");
    assert_eq!(bed.operation(bad).errors[0].id, Some(id(&d, 2).to_string()));
    assert_eq!((bed.ended(good), bed.ended(gone)), ("COMPLETE".into(), "COMPLETE".into()));
    assert_eq!(bed.standings(&d), "ADDED 3, FAILED 2");
    assert!(bed.equal(&d));
    let rows = bed.engine.view().flows().rows(&d, None).unwrap().sorted().rows;
    assert_eq!(rows.iter().find(|row| row.id == id(&d, 1)).unwrap().packed.unpack(), rule(1, 1));
    assert_eq!(rows.iter().find(|row| row.id == id(&d, 2)).unwrap().error.as_deref(), Some("no such port"));
    bed.restart();
    assert_eq!(bed.standings(&d), "ADDED 3, FAILED 2");
    bed.connect(&d.node);
    let cleared = bed.remove_rules(&d, &[id(&d, 2), id(&d, 3)]);
    assert_eq!((bed.ended(cleared).as_str(), bed.standings(&d).as_str()), ("COMPLETE", "ADDED 3"));
    assert_eq!(bed.tables.flows.entries.len(), 3);
}

#[test]
fn a_newer_write_over_a_refused_one_goes_on() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1)]);
    bed.bad(&d, 2, true);
    bed.hold(0, true);
    let bad = bed.apply_rules(&d, &[rule(1, 2), rule(2, 2)]);
    let newer = bed.apply_rules(&d, &[rule(1, 3)]);
    bed.decide(0);
    assert_eq!(bed.ended(bad), "FAILED: no such port");
    bed.decide(0);
    assert_eq!((bed.ended(newer).as_str(), bed.standings(&d).as_str()), ("COMPLETE", "ADDED 1, FAILED 1"));
    assert!(bed.equal(&d));
}

#[test]
fn a_refused_put_does_not_revive_an_already_removed_rule() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1)]);
    bed.hold(0, true);
    bed.remove_rules(&d, &[id(&d, 1)]);
    bed.bad(&d, 1, true);
    let again = bed.apply_rules(&d, &[rule(1, 2)]);
    bed.decide(0);
    bed.decide(0);
    assert_eq!((bed.ended(again).as_str(), bed.standings(&d).as_str()), ("FAILED: no such port", "FAILED 1"));
    assert!(bed.on_device(&d).is_empty());
}

#[test]
fn a_rule_of_a_refused_write_stays_for_a_later_write() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(4, 1)]);
    bed.bad(&d, 2, true);
    bed.hold(0, true);
    let bad = bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    let good = bed.apply_rules(&d, &[rule(1, 1), rule(3, 1)]);
    for _ in 0..3 {
        bed.decide(0);
    }
    assert_eq!(bed.ended(bad), "FAILED: no such port");
    assert_eq!((bed.ended(good).as_str(), bed.standings(&d).as_str()), ("COMPLETE", "ADDED 3, FAILED 1"));
    assert!(bed.equal(&d));
}

#[test]
fn a_refusal_that_names_none_is_narrowed_down() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.bad(&d, 2, true);
    bed.hosts.get_mut(&node(0)).unwrap().flows.blame_none_above = Some(0);
    bed.hold(0, true);
    bed.apply_rules(&d, &[rule(9, 1)]);
    let good = bed.apply_rules(&d, &[rule(1, 1)]);
    let bad = bed.apply_rules(&d, &[rule(2, 1)]);
    let last = bed.apply_rules(&d, &[rule(3, 1)]);
    for _ in 0..8 {
        bed.decide(0);
    }
    assert_eq!(
        [good, bad, last].map(|operation| bed.ended(operation)),
        ["COMPLETE", "FAILED: no such port", "COMPLETE"]
    );
    assert!(bed.equal(&d));
}

#[test]
fn a_search_for_the_refused_rule_adds_no_outdated_version() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.bad(&d, 2, true);
    bed.hosts.get_mut(&node(0)).unwrap().flows.blame_none_above = Some(0);
    bed.hold(0, true);
    bed.apply_rules(&d, &[rule(9, 1)]);
    let older = bed.apply_rules(&d, &[rule(1, 1), rule(3, 1)]);
    let newer = bed.apply_rules(&d, &[rule(1, 2), rule(2, 1)]);
    let last = bed.apply_rules(&d, &[rule(4, 1)]);
    for _ in 0..8 {
        bed.decide(0);
    }
    // The refusal does not say which of the two is to blame.
    assert!(
        [older, newer].iter().all(|it| bed.ended(*it).starts_with("FAILED: no such port; which of these"))
    );
    assert_eq!(bed.ended(last), "COMPLETE");
    assert_eq!(bed.standings(&d), "ADDED 2, FAILED 3");
    assert!(bed.equal(&d));
}

#[test]
fn what_is_refused_for_now_is_tried_again_and_fails_in_the_end() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.bad(&d, 1, false);
    let operation = bed.apply_rules(&d, &[rule(1, 1)]);
    assert_eq!((bed.ended(operation).as_str(), bed.standings(&d).as_str()), ("IN_PROGRESS", "PENDING_ADD 1"));
    for _ in 0..5 {
        bed.pass(Duration::from_secs(60));
    }
    assert_eq!(
        (bed.ended(operation).as_str(), bed.standings(&d).as_str()),
        ("FAILED: no such port", "FAILED 1")
    );
    assert_eq!(bed.hosts[&node(0)].flows.refusals, 4, "limits.retries and the first");
}

#[test]
fn stages_begin_one_after_the_other_and_a_failing_one_stops() {
    let mut bed = Bed::new(2);
    let (a, b) = (device(0), device(1));
    bed.hold(1, true);
    let stages = vec![
        vec![write(&a, &[rule(1, 1)]), write(&b, &[rule(1, 1)])],
        vec![write(&a, &[rule(2, 1)])],
        vec![write(&b, &[rule(3, 1)])],
    ];
    let operation = bed.apply(stages).unwrap();
    assert_eq!((bed.operation(operation).stage, bed.on_device(&a).len()), (1, 1), "b has not answered");
    bed.restart();
    bed.connect(&node(0));
    bed.connect(&node(1));
    bed.bad(&a, 2, true);
    bed.decide(1);
    assert_eq!(bed.ended(operation), "FAILED: no such port");
    let view = bed.operation(operation);
    assert_eq!((view.stage, view.stages, view.done, view.total), (2, 3, 2, 4));
    assert_eq!((bed.standings(&a).as_str(), bed.standings(&b).as_str()), ("ADDED 1, FAILED 1", "ADDED 1"));
}

#[test]
fn what_is_refused_for_the_fault_of_another_says_so() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.bad(&d, 2, true);
    bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    for restarts in [false, true] {
        if restarts {
            bed.restart();
        }
        let rows = bed.engine.view().flows().rows(&d, None).unwrap().rows;
        let why = |n| rows.iter().find(|row| row.id == id(&d, n)).unwrap().error.clone().unwrap();
        assert_eq!(why(2), "no such port");
        assert_eq!(why(1), format!("refused together with rule {}: no such port", id(&d, 2)));
    }
}

/// A rule that was free may have another owner by the time its stage begins.
#[test]
fn a_stage_that_cannot_begin_says_on_which_device() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.hold(0, true);
    let operation = bed.apply(vec![vec![write(&d, &[rule(1, 1)])], vec![write(&d, &[rule(2, 1)])]]).unwrap();
    bed.create(super::bed::flows("a: node-0/br0 2")).unwrap();
    bed.hold(0, false);
    bed.decide(0);
    bed.idle();
    let view = bed.operation(operation);
    assert_eq!((view.state.as_str(), view.errors[0].device.as_str()), ("FAILED", "node-0/br0"));
    assert!(view.errors[0].error.contains("resource a of stack s"), "{:?}", view.errors);
}

#[test]
fn a_node_that_never_joined_is_waited_for() {
    let mut bed = Bed::new(1);
    let d = DeviceName { node: "node-9".parse().unwrap(), bridge: "br0".parse().unwrap() };
    let request = Request::ApplyFlows {
        stages: vec![vec![write(&d, &[rule(1, 1)])]],
        confirm_timeout: None,
        application: None,
    };
    let Answer::Flows { operation, warnings, .. } = bed.ask(request).unwrap() else { panic!("flows") };
    assert_eq!(warnings, ["node node-9 has never joined and is waited for; did you mean node-0?"]);
    assert_eq!((bed.ended(operation).as_str(), bed.standings(&d).as_str()), ("IN_PROGRESS", "PENDING_ADD 1"));
    bed.restart();
    bed.join(&d.node);
    bed.connect(&d.node);
    assert_eq!(bed.ended(operation), "COMPLETE");
    assert!(bed.equal(&d));
}

#[test]
fn a_batch_in_flight_over_a_restart_is_known_by_its_outcome() {
    for lost in [false, true] {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.hold(0, true);
        let operation = bed.apply_rules(&d, &[rule(1, 1)]);
        if lost {
            bed.hosts.get_mut(&node(0)).unwrap().flows.waiting.clear();
        } else {
            bed.hosts.get_mut(&node(0)).unwrap().flows.run();
        }
        bed.restart();
        assert_eq!(bed.standings(&d), "PENDING_ADD 1");
        bed.hold(0, false);
        bed.connect(&node(0));
        assert_eq!((bed.ended(operation).as_str(), bed.standings(&d).as_str()), ("COMPLETE", "ADDED 1"));
        assert_eq!(bed.hosts[&node(0)].flows.ran, 1, "sent again only if it was lost");
    }
}

#[test]
fn a_batch_that_was_lost_on_its_way_is_said_again() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.hold(0, true);
    let operation = bed.apply_rules(&d, &[rule(1, 1)]);
    bed.hosts.get_mut(&node(0)).unwrap().flows.waiting.clear();
    bed.hold(0, false);
    bed.pass(Duration::from_secs(59));
    assert_eq!(bed.ended(operation), "IN_PROGRESS");
    bed.pass(Duration::from_secs(2));
    assert_eq!((bed.ended(operation).as_str(), bed.standings(&d).as_str()), ("COMPLETE", "ADDED 1"));
}

#[test]
fn a_refusal_while_the_controller_was_down_counts() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1)]);
    bed.hold(0, true);
    bed.bad(&d, 2, true);
    let operation = bed.apply_rules(&d, &[rule(1, 2), rule(2, 2)]);
    bed.hosts.get_mut(&node(0)).unwrap().flows.run();
    bed.restart();
    bed.connect(&node(0));
    assert_eq!(bed.ended(operation), "FAILED: no such port");
    assert_eq!(bed.standings(&d), "ADDED 1, FAILED 1");
    assert!(bed.equal(&d));
}

#[test]
fn a_large_batch_is_fetched() {
    let (mut bed, d) = (Bed::new(1), device(0));
    let rules: Vec<Entry> = (0..8000).map(|n| rule(n, 1)).collect();
    let operation = bed.apply_rules(&d, &rules);
    assert_eq!((bed.ended(operation).as_str(), bed.on_device(&d).len()), ("COMPLETE", 8000));
    assert!(bed.equal(&d));
}

#[test]
fn lost_or_altered_rules_are_resent_and_unowned_ones_removed() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1), rule(2, 1), rule(3, 1)]);
    let entries = &mut bed.hosts.get_mut(&node(0)).unwrap().flows.devices.get_mut(&d.bridge).unwrap().entries;
    entries.remove(&id(&d, 1));
    entries.get_mut(&id(&d, 2)).unwrap().0 = Packed::new(&rule(2, 9)).unwrap();
    entries.insert(id(&d, 7), (Packed::new(&rule(7, 1)).unwrap(), EntryState::Present));
    bed.say(&d);
    assert!(bed.equal(&d));
    assert_eq!((bed.standings(&d).as_str(), bed.on_device(&d).len()), ("ADDED 3", 3));
    let view = bed.device_view(&d);
    assert_eq!((view.reconciliations, view.repaired), (1, 3));
}

/// An entry recovers while the controller asks about it, and another one has ended meanwhile.
#[test]
fn what_changes_while_it_is_compared_is_compared_again() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    let flows = &mut bed.hosts.get_mut(&node(0)).unwrap().flows;
    flows.devices.get_mut(&d.bridge).unwrap().entries.get_mut(&id(&d, 1)).unwrap().1 = EntryState::Wrong;
    flows.meanwhile = vec![(id(&d, 1), EntryState::Present), (id(&d, 2), EntryState::Expired)];
    bed.say(&d);
    assert!(bed.equal(&d), "{}", bed.standings(&d));
}

#[test]
fn an_agent_that_lost_everything_is_filled_again() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    bed.disconnect(&node(0));
    bed.hosts.get_mut(&node(0)).unwrap().flows.devices.clear();
    bed.connect(&node(0));
    assert!(bed.equal(&d));
    assert_eq!(bed.on_device(&d).len(), 2);
}

#[test]
fn a_repair_that_is_refused_waits_longer_each_time() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    bed.bad(&d, 1, true);
    let flows = &mut bed.hosts.get_mut(&node(0)).unwrap().flows;
    flows.devices.get_mut(&d.bridge).unwrap().entries.remove(&id(&d, 1));
    bed.say(&d);
    for _ in 0..20 {
        bed.pass(Duration::from_secs(1));
        bed.say(&d);
    }
    assert_eq!(bed.standings(&d), "ADDED 1, PENDING_ADD 1");
    let row = bed.engine.view().flows().row(&d, id(&d, 1)).unwrap().rows.remove(0);
    assert_eq!(row.error.as_deref(), Some("no such port"));
    let refusals = bed.hosts[&node(0)].flows.refusals;
    assert!((2..10).contains(&refusals), "{refusals}");
    bed.hosts.get_mut(&node(0)).unwrap().flows.bad.clear();
    bed.pass(Duration::from_secs(400));
    bed.say(&d);
    assert!(bed.equal(&d), "{}", bed.standings(&d));
}

#[test]
fn a_restored_store_rises_above_its_agents() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1)]);
    let later = Generation { epoch: Epoch(40), number: 7 };
    bed.disconnect(&node(0));
    {
        let known = bed.hosts.get_mut(&node(0)).unwrap().flows.devices.get_mut(&d.bridge).unwrap();
        known.decided = later;
        known.entries.insert(id(&d, 5), (Packed::new(&rule(5, 1)).unwrap(), EntryState::Present));
    }
    bed.connect(&node(0));
    assert!(bed.engine.traversals.jobs.graph.ctx.epoch() > Epoch(40));
    assert!(bed.equal(&d));
    let unknown: Bridge = "br9".parse().unwrap();
    let entries = [(id(&d, 5), (Packed::new(&rule(5, 1)).unwrap(), EntryState::Present))].into();
    let stray = super::flow_host::FlowDevice { entries, decided: later, ..Default::default() };
    bed.hosts.get_mut(&node(0)).unwrap().flows.devices.insert(unknown.clone(), stray);
    bed.say(&DeviceName { node: node(0), bridge: unknown.clone() });
    let left = &bed.hosts[&node(0)].flows.devices[&unknown].entries;
    assert!(left.is_empty(), "a rule of ours without an entry in a table");
}

#[test]
fn a_generation_that_no_controller_gives_is_not_believed() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1)]);
    bed.hosts.get_mut(&node(0)).unwrap().flows.devices.get_mut(&d.bridge).unwrap().decided =
        Generation { epoch: Epoch(u32::MAX), number: 1 };
    bed.say(&d);
    assert!(bed.engine.traversals.jobs.graph.ctx.epoch() < Epoch(1000));
}

#[test]
fn answers_of_nobody_and_of_hostile_agents_change_nothing() {
    use muster_shared::model::flow::FlowUp;
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1)]);
    let bridge = d.bridge.clone();
    let entries = vec![(id(&d, 1), 7, EntryState::Wrong)];
    for message in [
        FlowUp::Buckets { device: bridge.clone(), number: 99, sums: vec![1; 3] },
        FlowUp::Entries { device: bridge.clone(), number: 99, entries, last: true },
        FlowUp::Stats {
            device: bridge.clone(),
            number: 9,
            entries: Vec::new(),
            tables: Vec::new(),
            last: true,
        },
        FlowUp::Foreign { device: "other".parse().unwrap(), number: 1, rules: Vec::new(), last: true },
    ] {
        bed.receive(&node(0), Up::Flow(message));
    }
    assert!(bed.equal(&d));
    assert_eq!(bed.standings(&d), "ADDED 1");
}
