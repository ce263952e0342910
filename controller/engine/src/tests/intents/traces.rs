//! Traces of packets, and what they prove of intents.

use muster_api::trace::{IntentProof, TraceView, Verdict};
use muster_shared::model::flow::{Entry, FlowUp, Packet, TraceStep};
use serde_json::json;

use super::*;
use crate::Limits;
use crate::tests::bed::stack;

/// The pause between two turns in the background.
const TURN: Duration = Duration::from_secs(5);
/// An agent has not answered by then.
const LATE: Duration = Duration::from_secs(11);

fn packet(address: u128) -> Packet {
    Packet::from_fields([(Field::EthType, 0x800), (Field::Ipv4Dst, address)]).unwrap()
}

fn traced(ring: &mut Ring, from: usize, address: u128) -> TraceView {
    let request = Request::Trace { from: at(from), packet: packet(address) };
    let Ok(Answer::Traced(view)) = ring.bed.ask(request) else { panic!("no trace") };
    *view
}

fn verified(ring: &mut Ring, key: &str) -> IntentProof {
    let Ok(Answer::Proved(proof)) = ring.bed.ask(Request::VerifyIntent { key: key.into() }) else {
        panic!("no proof")
    };
    *proof
}

/// Takes the rule of an intent off a device behind Muster's back, and returns it.
fn steal(ring: &mut Ring, index: usize) -> (FlowId, Packed) {
    let host = ring.bed.hosts.get_mut(&node(index)).unwrap();
    let device = host.flows.devices.get_mut(&device(index).bridge).unwrap();
    let (id, (packed, _)) = device.entries.pop_first().unwrap();
    (id, packed)
}

fn give_back(ring: &mut Ring, index: usize, (id, packed): (FlowId, Packed)) {
    let host = ring.bed.hosts.get_mut(&node(index)).unwrap();
    let device = host.flows.devices.get_mut(&device(index).bridge).unwrap();
    device.entries.insert(id, (packed, muster_shared::model::flow::EntryState::Present));
}

#[test]
fn each_hop_names_its_rule_and_its_intent() {
    let mut ring = Ring::new(5);
    ring.submit("one", 0, 2).unwrap();
    let view = traced(&mut ring, 0, 1);
    assert!(view.delivered);
    let hops: Vec<_> =
        view.hops.iter().map(|hop| (hop.hop, hop.after, &*hop.device, &*hop.in_port)).collect();
    assert_eq!(
        hops,
        [(1, None, "node-0/br0", "h"), (2, Some(1), "node-1/br0", "p0"), (3, Some(2), "node-2/br0", "p1")]
    );
    let rules = ring.bed.engine.view().intent("one").unwrap().rules;
    for (hop, (device, packed)) in view.hops.iter().zip(rules) {
        let [rule] = &hop.rules[..] else { panic!("{hop:?}") };
        assert_eq!(rule.id, Some(packed.unpack().id(&device).to_string()));
        assert_eq!((rule.owner.as_deref(), rule.intent.as_deref()), (Some("intent one"), Some("one")));
    }
    let [end] = &view.ends[..] else { panic!("{:?}", view.ends) };
    let at = end.at.as_ref().unwrap();
    assert_eq!((end.hop, &*at.device, &*at.port), (3, "node-2/br0", "h"));
    assert_eq!(json!(end.packet), json!({"eth_type": 0x800, "ipv4_dst": "0.0.0.1"}));
    assert_eq!(ring.bed.engine.view().leftovers().iter().find(|(what, _)| what.contains("trace")), None);

    let lost = traced(&mut ring, 0, 2);
    assert!(!lost.delivered);
    assert_eq!(lost.ends[0].why, "no rule of table 0 on node-0/br0 takes it");
    assert_eq!(lost.hops[0].rules[0].id, None);
}

#[test]
fn a_port_that_does_not_exist_is_refused() {
    let mut ring = Ring::new(3);
    let mut refused = |device: &str, port: &str| {
        let from = ConnectPoint { device: device.parse().unwrap(), port: port.into() };
        ring.bed.ask(Request::Trace { from, packet: packet(1) }).unwrap_err().to_string()
    };
    assert!(refused("node-9/br0", "h").starts_with("no node 'node-9' has joined"));
    assert_eq!(refused("node-0/br1", "h"), "node-0 has no bridge 'br1'; did you mean 'br0'?");
    assert!(refused("node-0/br0", "p9").starts_with("node-0/br0 has no port 'p9'; did you mean 'p"));
    assert!(refused("node-0/nftables", "h").starts_with("nftables has no trace"));
}

/// Each with how it comes to that, and what the operator reads.
#[test]
fn a_switch_that_cannot_be_asked_ends_the_trace() {
    type Case = (&'static str, fn(&mut Ring), &'static str);
    let cases: [Case; 3] = [
        ("away", |ring| ring.bed.disconnect(&node(1)), "its agent is not connected"),
        (
            "older",
            |ring| {
                ring.bed.disconnect(&node(1));
                ring.bed.hosts.get_mut(&node(1)).unwrap().is_old = true;
                ring.bed.connect(&node(1));
                ring.tell(1);
            },
            "node-1 runs muster-agent t, a trace needs 0.2.0: upgrade the agent",
        ),
        (
            "refusing",
            |ring| ring.bed.hosts.get_mut(&node(1)).unwrap().flows.trace_error = Some("no socket".into()),
            "no socket",
        ),
    ];
    for (name, change, why) in cases {
        let mut ring = Ring::new(5);
        ring.submit("one", 0, 2).unwrap();
        change(&mut ring);
        let view = traced(&mut ring, 0, 1);
        assert_eq!(view.ends[0].why, format!("node-1/br0 could not be asked: {why}"), "{name}");
        let proof = verified(&mut ring, "one");
        assert_eq!(proof.verdict, Verdict::Unknown, "{name}");
        assert!(proof.reason.ends_with(why), "{name}: {}", proof.reason);
    }
}

#[test]
fn a_trace_waits_for_a_silent_agent_only_for_a_limited_time() {
    let mut ring = Ring::new(5);
    ring.submit("one", 0, 2).unwrap();
    ring.bed.hosts.get_mut(&node(1)).unwrap().flows.silent = true;
    let request = || Request::Trace { from: at(0), packet: packet(1) };
    let late = ring.bed.put(request());
    assert!(!ring.bed.answers.contains_key(&late));
    ring.bed.pass(LATE);
    let Some(Ok(Answer::Traced(view))) = ring.bed.answers.remove(&late) else { panic!("it is over") };
    assert!(view.ends[0].why.ends_with("its agent has not answered within 10 s"));
    let cut_off = ring.bed.put(request());
    ring.bed.disconnect(&node(1));
    let Some(Ok(Answer::Traced(view))) = ring.bed.answers.remove(&cut_off) else { panic!("it is over") };
    assert!(view.ends[0].why.ends_with("its agent was disconnected"));
}

#[test]
fn traces_under_way_are_bounded_and_a_node_has_few_questions() {
    let mut ring = Ring::new(3);
    ring.bed.hosts.get_mut(&node(0)).unwrap().flows.silent = true;
    let request = || Request::Trace { from: at(0), packet: packet(1) };
    let ids: Vec<u64> = (0..32).map(|_| ring.bed.put(request())).collect();
    assert_eq!(ring.bed.hosts[&node(0)].flows.asked.len(), 4);
    assert!(matches!(ring.bed.ask(request()), Err(Refusal::Later { .. })));
    assert!(ids.iter().all(|id| !ring.bed.answers.contains_key(id)));
    ring.bed.hosts.get_mut(&node(0)).unwrap().flows.silent = false;
    ring.bed.pass(LATE);
    assert!(ids.iter().all(|id| ring.bed.answers.contains_key(id)), "the others were asked, and answered");
}

#[test]
fn a_trace_holds_its_place_no_longer_than_its_time() {
    let mut ring = Ring::new(3);
    ring.bed.hosts.get_mut(&node(0)).unwrap().flows.silent = true;
    let request = || Request::Trace { from: at(0), packet: packet(1) };
    let ids: Vec<u64> = (0..32).map(|_| ring.bed.put(request())).collect();
    // Four at a time, each ten seconds: the last ones would be asked after seventy.
    (0..7).for_each(|_| ring.bed.pass(LATE));
    for (at, id) in ids.iter().enumerate() {
        let Some(Ok(Answer::Traced(view))) = ring.bed.answers.remove(id) else { panic!("{at} is over") };
        let why = if at < 24 { "within 10 s" } else { "the trace has taken 60 s" };
        assert!(view.ends[0].why.ends_with(why), "{at}: {}", view.ends[0].why);
    }
}

#[test]
fn a_trace_ignores_answers_of_other_nodes_and_unasked_ones() {
    let mut ring = Ring::new(3);
    ring.bed.hosts.get_mut(&node(0)).unwrap().flows.silent = true;
    let id = ring.bed.put(Request::Trace { from: at(0), packet: packet(1) });
    let number = ring.bed.hosts[&node(0)].flows.last_asked;
    let bridge = device(0).bridge;
    let out = TraceStep::Output { bridge: bridge.clone(), port: "h".into(), packet: packet(1) };
    let answer =
        |number| Up::Flow(FlowUp::Traced { device: bridge.clone(), number, result: Ok(vec![out.clone()]) });
    ring.bed.receive(&node(1), answer(number));
    ring.bed.receive(&node(0), answer(number + 1));
    assert!(!ring.bed.answers.contains_key(&id));
    ring.bed.receive(&node(0), answer(number));
    assert!(ring.bed.answers.contains_key(&id));
    ring.bed.receive(&node(0), answer(number));
}

#[test]
fn an_intent_is_verified() {
    let mut ring = Ring::new(5);
    ring.submit("one", 0, 2).unwrap();
    let proof = verified(&mut ring, "one");
    assert_eq!((proof.verdict, proof.tried, &*proof.reason), (Verdict::Ok, 1, ""));
    let way = proof.trace.expect("the way of a packet that arrives is shown as well");
    let devices: Vec<&str> = way.hops.iter().map(|hop| &*hop.device).collect();
    assert_eq!((way.delivered, &devices[..]), (true, &["node-0/br0", "node-1/br0", "node-2/br0"][..]));
    let stolen = steal(&mut ring, 1);
    let proof = verified(&mut ring, "one");
    assert_eq!(proof.verdict, Verdict::Broken);
    let why = "packets from node-0/br0 port h do not arrive at node-2/br0 port h: no rule of table 0 on node-1/br0 takes it";
    assert_eq!(proof.reason, why);
    assert_eq!(proof.trace.map(|trace| trace.hops.len()), Some(2));
    give_back(&mut ring, 1, stolen);
    assert_eq!(verified(&mut ring, "one").verdict, Verdict::Ok);
    ring.withdraw("one").unwrap();
    let proof = verified(&mut ring, "one");
    assert_eq!((proof.verdict, &*proof.reason), (Verdict::Unknown, "it is WITHDRAWN, not INSTALLED"));
    let unknown = ring.bed.ask(Request::VerifyIntent { key: "two".into() }).unwrap_err();
    assert!(matches!(unknown, Refusal::NotFound(_)));
}

fn background(size: usize) -> Ring {
    let limits = Limits { verify_every: Some(TURN), ..Limits::default() };
    let mut ring = Ring { bed: Bed::with(size, limits), size, cut: Vec::new() };
    (0..size).for_each(|index| ring.tell(index));
    ring
}

#[test]
fn a_broken_intent_is_reported_once_and_again_when_it_recovers() {
    let mut ring = background(5);
    assert_eq!(
        ring.bed.engine.poll_timeout().map(|(_, why)| why).filter(|why| why.contains("verified")),
        None
    );
    ring.submit("one", 0, 2).unwrap();
    ring.submit("two", 3, 4).unwrap();
    let turns = |ring: &mut Ring, count: usize| {
        (0..count).for_each(|_| ring.bed.pass(TURN));
        std::mem::take(&mut ring.bed.warnings)
    };
    assert_eq!(turns(&mut ring, 4), [""; 0]);
    let stolen = steal(&mut ring, 1);
    // Found and looked at again, which takes a round and a turn.
    let told = turns(&mut ring, 3);
    let [told] = &told[..] else { panic!("{told:?}") };
    assert!(
        told.starts_with("intent one: it is INSTALLED, and its rules are ADDED, but packets from"),
        "{told}"
    );
    let broken = ring.bed.engine.view().broken_intent("one").unwrap();
    assert!(broken.ends_with("no rule of table 0 on node-1/br0 takes it"), "{broken}");
    let view = ring.bed.engine.view();
    assert_eq!(view.broken_intent_count(), 1);
    assert_eq!(view.intent_summary("one").unwrap().broken, Some(broken));
    let counts: Vec<_> = view.intent_counts().into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counts, [("INSTALLED", 2)]);
    assert_eq!(turns(&mut ring, 6), [""; 0], "once");
    // Nothing is known while an agent is away.
    ring.bed.disconnect(&node(4));
    ring.bed.disconnect(&node(1));
    assert_eq!(turns(&mut ring, 6), [""; 0]);
    ring.bed.connect(&node(4));
    ring.bed.connect(&node(1));
    [1, 4].into_iter().for_each(|index| ring.tell(index));
    ring.bed.warnings.clear();
    give_back(&mut ring, 1, stolen);
    assert_eq!(turns(&mut ring, 6), ["intent one: packets of it arrive again"]);
    assert_eq!(ring.bed.engine.view().broken_intent("one"), None);
    assert_eq!(ring.bed.engine.view().broken_intent_count(), 0);
}

#[test]
fn a_path_that_is_broken_for_one_look_is_not_told() {
    let mut ring = background(3);
    ring.submit("one", 0, 1).unwrap();
    let stolen = steal(&mut ring, 1);
    ring.bed.pass(TURN);
    give_back(&mut ring, 1, stolen);
    (0..4).for_each(|_| ring.bed.pass(TURN));
    assert_eq!(ring.bed.warnings, [""; 0]);
}

#[test]
fn the_stack_of_an_intent_has_the_event() {
    let mut ring = background(4);
    let text = "  way:\n    type: Muster::Intent\n    properties: {key: k, type: point_to_point, \
                from: {device: node-0/br0, port: h}, to: {device: node-1/br0, port: h}, selector: {eth_type: 0x0800}}\n";
    ring.bed.create(stacks::template(text)).unwrap();
    assert_eq!(ring.bed.status(), "CREATE_COMPLETE");
    let _stolen = steal(&mut ring, 1);
    (0..2).for_each(|_| ring.bed.pass(TURN));
    let reasons = ring.bed.tables.reasons.iter().filter(|reason| reason.contains("do not arrive"));
    assert_eq!(reasons.count(), 1, "{:?} of {}", ring.bed.tables.reasons, stack());
    // An intent that is gone is forgotten, and nothing is due any more.
    ring.bed.delete().unwrap();
    ring.bed.idle();
    ring.bed.pass(TURN);
    let due = ring.bed.engine.poll_timeout().map(|(_, why)| why);
    assert!(due.is_none_or(|why| !why.contains("verified")), "{due:?}");
}

#[test]
fn values_behind_a_hidden_parameter_are_masked() {
    let mut ring = Ring::new(3);
    let text = "heat_template_version: 2018-08-31\nparameters:\n  mac: {type: string, hidden: true, default: '52:54:00:12:34:56'}\n\
                resources:\n  rule:\n    type: Muster::FlowRule\n    properties: {device: node-0/br0, priority: 5, \
                selector: {in_port: h}, treatment: [{set_eth_dst: {get_param: mac}}, {output: p1}]}\n";
    let source =
        crate::SourceText { name: "t".into(), template: text.into(), ..crate::SourceText::default() };
    ring.bed.create(crate::tests::bed::parse(source)).unwrap();
    assert_eq!(ring.bed.status(), "CREATE_COMPLETE");
    let view = traced(&mut ring, 0, 1);
    assert_eq!(
        json!(view.hops[1].packet),
        json!({"eth_dst": "******", "eth_type": 0x800, "ipv4_dst": "0.0.0.1"})
    );
    assert!(!format!("{view:?}").contains("12:34:56"));
    let entries = &ring.bed.hosts[&node(0)].flows.devices[&device(0).bridge].entries;
    assert!(entries.values().any(|(packed, _)| matches!(packed.unpack(), Entry::Rule(_))), "it is there");
}
