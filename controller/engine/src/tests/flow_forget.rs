//! Forgotten tables: rules on the device stay, whichever messages are lost.

use std::time::Duration;

use muster_flow::FlowWrite;
use muster_shared::model::Up;
use muster_shared::model::flow::{DeviceName, FlowState, FlowUp, SwitchState};

use super::bed::{Bed, flows, node};
use super::flow_host::FlowDevice;
use super::flow_tables::{device, id, put, rule, write};
use crate::{Input, Request};

fn forget(bed: &mut Bed, device: &DeviceName) {
    bed.ask(Request::PurgeFlows { device: device.clone(), forget: true, confirm_timeout: None }).unwrap();
}

/// Gives the agent its table back, as if the message to forget had been lost.
fn still_has(bed: &mut Bed, device: &DeviceName, table: FlowDevice) {
    bed.hosts.get_mut(&device.node).unwrap().flows.devices.insert(device.bridge.clone(), table);
}

fn take(bed: &mut Bed, device: &DeviceName) -> FlowDevice {
    bed.hosts.get_mut(&device.node).unwrap().flows.devices.remove(&device.bridge).unwrap()
}

#[test]
fn a_state_that_crosses_a_forget_order_removes_nothing() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    let state = bed.hosts[&node(0)].flows.state(&d.bridge);
    let batches = bed.hosts[&node(0)].flows.ran;
    forget(&mut bed, &d);
    bed.receive(&node(0), state);
    assert!(bed.engine.view().flows().devices().is_empty(), "it is not made anew");
    let flows = &bed.hosts[&node(0)].flows;
    assert_eq!((flows.ran, flows.asked.len()), (batches, 0));
}

#[test]
fn an_agent_that_was_not_told_to_forget_is_told_when_it_is_back() {
    for restarts in [false, true] {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
        bed.disconnect(&node(0));
        forget(&mut bed, &d);
        if restarts {
            bed.restart();
        }
        assert_eq!(bed.tables.flows.forgotten.len(), 1);
        let batches = bed.hosts[&node(0)].flows.ran;
        bed.connect(&node(0));
        let flows = &bed.hosts[&node(0)].flows;
        assert!(flows.devices.is_empty(), "told to forget");
        assert_eq!(flows.ran, batches, "and not to remove");
        assert!(bed.engine.view().flows().devices().is_empty());
        bed.disconnect(&node(0));
        bed.connect(&node(0));
        assert!(bed.tables.flows.forgotten.is_empty(), "once it has none, that is remembered no more");
    }
}

#[test]
fn a_forget_order_lost_with_its_connection_is_sent_again() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    let table = take(&mut bed, &d);
    forget(&mut bed, &d);
    still_has(&mut bed, &d, table);
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    assert!(bed.hosts[&node(0)].flows.devices.is_empty());
    assert_eq!((bed.hosts[&node(0)].flows.ran, bed.engine.view().flows().devices().len()), (1, 0));
}

/// The agent's disk was full: the agent still has the table, and reports it with every heartbeat.
#[test]
fn an_agent_that_could_not_forget_is_told_again() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    let state = bed.hosts[&node(0)].flows.state(&d.bridge);
    let table = take(&mut bed, &d);
    forget(&mut bed, &d);
    still_has(&mut bed, &d, table);
    bed.receive(&node(0), state.clone());
    assert_eq!(bed.hosts[&node(0)].flows.devices.len(), 1, "not at once: it would be told for ever");
    bed.pass(Duration::from_secs(60));
    bed.receive(&node(0), state);
    assert!(bed.hosts[&node(0)].flows.devices.is_empty());
}

#[test]
fn a_table_that_is_made_after_one_was_forgotten_is_another() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    bed.disconnect(&node(0));
    forget(&mut bed, &d);
    let operation = bed.apply_rules(&d, &[rule(3, 1)]);
    bed.connect(&node(0));
    assert_eq!(bed.ended(operation), "COMPLETE");
    assert_eq!(bed.on_device(&d), [id(&d, 3)], "the others are in no table of the agent");
    assert!(bed.tables.flows.forgotten.is_empty());
    assert!(bed.equal(&d));
}

#[test]
fn a_reused_number_survives_the_removal_of_its_former_device() {
    let (mut bed, a, b) = (Bed::new(2), device(0), device(1));
    bed.apply_rules(&a, &[rule(1, 1)]);
    let ops = vec![put(&b, &rule(5, 1))];
    // One turn takes several requests before the driver asks for its changes.
    for (id, request) in [
        (901, Request::PurgeFlows { device: a.clone(), forget: true, confirm_timeout: None }),
        (
            902,
            Request::ApplyFlows {
                stages: vec![vec![FlowWrite { device: b.clone(), ops }]],
                confirm_timeout: None,
                application: None,
            },
        ),
    ] {
        bed.engine.handle(bed.now, Input::Request { id, request: Box::new(request) });
    }
    bed.input(Input::Timeout);
    bed.restart();
    bed.connect(&node(1));
    assert_eq!((bed.standings(&b).as_str(), bed.on_device(&b).len()), ("ADDED 1", 1));
    bed.apply(vec![vec![write(&a, &[rule(1, 1)])]]).unwrap();
    assert_eq!(bed.tables.flows.devices.keys().collect::<Vec<_>>(), [&0, &1], "and is used then");
}

#[test]
fn names_that_nobody_knows_are_not_remembered() {
    let mut bed = Bed::new(1);
    bed.apply_rules(&device(0), &[rule(1, 1)]);
    bed.greet_without_tables(&node(0));
    for n in 0..1000 {
        let state = FlowState {
            device: format!("b{n}").parse().unwrap(),
            decided: Default::default(),
            refused: None,
            root: 0,
            entries: 0,
            wrong: 0,
            foreign: 0,
            switch: SwitchState::Absent,
            reason: String::new(),
            entry: None,
        };
        bed.receive(&node(0), Up::Flow(FlowUp::States { states: vec![state], complete: false }));
    }
    assert!(bed.engine.flows.leftovers().contains(&("tables named by a greeting", 0)));
}

#[test]
fn rules_of_a_node_that_never_returns_can_be_forgotten() {
    let (mut bed, d) = (Bed::new(2), device(0));
    bed.create(flows("a: node-0/br0 1 2\n b: node-1/br0 3")).unwrap();
    let purge = Request::PurgeFlows { device: device(1), forget: true, confirm_timeout: None };
    let refusal = bed.ask(purge).map(drop).unwrap_err().to_string();
    assert!(refusal.ends_with("a table is forgotten when no stack has rules in it"), "{refusal}");
    bed.remove(&node(0));
    bed.delete().unwrap();
    let delete = Request::DeleteFlows { device: d.clone(), ids: vec![id(&d, 1)], confirm_timeout: None };
    let refusal = bed.ask(delete).map(drop).unwrap_err().to_string();
    assert_eq!(
        refusal,
        format!(
            "rule {} on node-0/br0 belongs to resource a of a removed node, which cleans it up when it is back; if it \
             never is: 'muster flow purge --forget node-0/br0'",
            id(&d, 1)
        )
    );
    forget(&mut bed, &d);
    assert!(bed.engine.view().flows().devices().iter().all(|view| view.device != "node-0/br0"));
    bed.restart();
    assert!(bed.tables.flows.entries.keys().all(|(number, _)| *number != 0));
}
