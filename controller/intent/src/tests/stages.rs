use muster_shared::model::flow::Rule;

use super::*;
use crate::compile::Compiler;
use crate::path_search::Trees;
use crate::reservations::{Holder, Ledger};
use crate::stages::stages;

fn entries(topology: &Topology, intent: &Intent) -> Vec<(DeviceNo, Entry)> {
    let (ledger, mut trees) = (Ledger::default(), Trees::default());
    let mut compiler = Compiler { topology, ledger: &ledger, trees: &mut trees };
    compiler.compile(intent, "key", &Holder::Intent("key".into()), 1).expect("a path").entries
}

#[test]
fn the_same_is_nothing_to_do() {
    let topology = network("a-b b-c");
    let made = entries(&topology, &from_to("a:h1", "c:h1", Constraints::default()));
    assert_eq!(stages(&topology, &made, &[], &made), Vec::<Vec<Step>>::new());
    assert_eq!(stages(&topology, &[], &[], &made).len(), 1);
    assert_eq!(stages(&topology, &made, &[], &[]).len(), 1);
}

#[test]
fn what_is_new_comes_first_then_what_changes_then_what_goes() {
    let topology = network("a-b b-d a-c=2 c-d=2");
    let device = |name: &str| at(&format!("{name}:h1")).device;
    let old = entries(&topology, &from_to("a:h1", "d:h1", Constraints::default()));
    let around = Constraints { obstacles: [device("b")].into(), ..Constraints::default() };
    let new = entries(&topology, &from_to("a:h1", "d:h1", around));
    let found = stages(&topology, &old, &[], &new);
    let shown: Vec<Vec<String>> = found
        .iter()
        .map(|stage| {
            let one = |step: &Step| match step {
                Step::Put(device, _) => format!("+{}", topology.device_name(*device).node),
                Step::Remove(device, _) => format!("-{}", topology.device_name(*device).node),
            };
            stage.iter().map(one).collect()
        })
        .collect();
    assert_eq!(shown, [vec!["+d", "+c"], vec!["+a"], vec!["-b", "-d"]]);
}

#[test]
fn a_rule_that_takes_over_packets_comes_as_the_old_one_goes() {
    let topology = network("a-b b-c");
    let of = |priority, vlan| {
        let constraints = Constraints { vlan, ..Constraints::default() };
        entries(&topology, &Intent { priority, ..from_to("a:h1", "c:h1", constraints) })
    };
    let sizes =
        |old: &[_], new: &[_]| stages(&topology, old, &[], new).iter().map(Vec::len).collect::<Vec<_>>();
    // Each bridge changes both rules in one write: the intent must not be INSTALLED while the rule
    // of higher priority is still there.
    assert_eq!(sizes(&of(101, false), &of(100, false)), [6]);
    assert_eq!(sizes(&of(100, false), &of(101, false)), [6]);
    // Tagged and untagged packets are different packets: the new path is laid before the first
    // bridge changes.
    assert_eq!(sizes(&of(100, false), &of(100, true)), [2, 1, 2]);
}

/// The entries of a path laid by hand, from the first bridge over others to the last. No compiler
/// would take such paths.
fn lay(topology: &Topology, from: &str, over: &str, to: &str) -> Vec<(DeviceNo, Entry)> {
    let bridge = |point: &str| point.split(':').next().unwrap_or_default().to_owned();
    let bridges: Vec<String> =
        std::iter::once(bridge(from)).chain(over.split(' ').map(str::to_owned)).chain([bridge(to)]).collect();
    let hop = |two: &[String]| {
        let (from, to) = topology.ends(link(topology, &two[0], &two[1]));
        (topology.point(from), topology.point(to))
    };
    let links = bridges.windows(2).map(hop).collect();
    let kind = Kind::LinkCollection { links, from: vec![at(from)], to: vec![at(to)] };
    entries(topology, &Intent { kind, ..from_to(from, to, Constraints::default()) })
}

#[test]
fn changes_that_could_lead_round_go_from_the_last_device_back() {
    // The old path is a b c d, and the new one c d a b. If a rule of b or d changed alone, packets
    // would go in a circle.
    let topology = network("a-b b-c c-d d-a s-a s-c b-t d-t");
    let old = lay(&topology, "s:h1", "a b c d", "t:h1");
    let new = lay(&topology, "s:h1", "c d a b", "t:h1");
    let found = stages(&topology, &old, &[], &new);
    let mut plane = Plane(old);
    assert_eq!(plane.walk(&topology, &at("s:h1")), Fate::Out(["t:h1".to_owned()].into()));
    assert!(found.len() > 3, "{found:?}");
    for stage in found {
        for step in stage {
            plane.apply(&step);
            assert_eq!(plane.walk(&topology, &at("s:h1")), Fate::Out(["t:h1".to_owned()].into()), "{step:?}");
        }
    }
}

/// Checks that no packet goes in a circle, with the devices of a stage in either order.
fn none_goes_round(topology: &Topology, old: &[(DeviceNo, Entry)], stages: &[Vec<Step>]) {
    for is_reversed in [false, true] {
        let mut plane = Plane(old.to_vec());
        for mut stage in stages.iter().cloned() {
            if is_reversed {
                stage.reverse();
            }
            for step in stage {
                plane.apply(&step);
                assert_ne!(plane.walk(topology, &at("s:h1")), Fate::Round, "{step:?}");
            }
        }
    }
}

/// The controller has restarted, and the agents that know the cable between b and c are away.
#[test]
fn a_cable_that_no_agent_has_told_of_counts() {
    let whole = network("a-b b-c c-d d-a s-a s-c b-t d-t");
    let old = lay(&whole, "s:h1", "a b c d", "t:h1");
    let mut topology = network("a-b c-d d-a s-a s-c b-t d-t");
    for point in ["b:c", "c:b"] {
        up(&mut topology, &at(point));
    }
    let new = lay(&topology, "s:h1", "c d a b", "t:h1");
    let found = stages(&topology, &old, &[], &new);
    none_goes_round(&whole, &old, &found);
}

#[test]
fn a_cable_that_failed_may_be_whole_again_halfway() {
    let mut topology = network("a-b b-c c-d d-a s-a s-c b-t d-t");
    let old = lay(&topology, "s:h1", "a b c d", "t:h1");
    let new = lay(&topology, "s:h1", "c d a b", "t:h1");
    let cable = [("b", "c"), ("c", "b")].map(|(one, other)| link(&topology, one, other));
    let ends = cable.map(|link| <[_; 2]>::from(topology.ends(link)).map(|port| topology.point(port)));
    for (link, [from, to]) in cable.into_iter().zip(&ends) {
        topology.hear(from, to).expect("it was declared");
        topology.retract(link);
        topology.miss(link);
    }
    let found = stages(&topology, &old, &[], &new);
    for [from, to] in &ends {
        topology.hear(from, to).expect("it was there before");
    }
    none_goes_round(&topology, &old, &found);
}

#[test]
fn a_rule_left_behind_goes_before_the_one_below_it_counts() {
    let topology = network("a-b");
    let made = |to: &str, priority| {
        entries(&topology, &Intent { priority, ..from_to("a:h1", to, Constraints::default()) })
    };
    let (old, new) = (made("a:h2", 101), made("b:h1", 100));
    // Both the wanted rules and the former ones are there, and the former ones take the packets.
    let both: Vec<(DeviceNo, Entry)> = old.iter().chain(&new).cloned().collect();
    let stages = stages(&topology, &both, &[], &new);
    let [stage] = &stages[..] else { panic!("{stages:?}") };
    assert!(stage.iter().any(|step| matches!(step, Step::Remove(..))), "{stage:?}");
    assert!(
        stage.iter().any(|step| matches!(step, Step::Put(..))),
        "whoever only takes away waits for nobody: {stage:?}"
    );
}

#[test]
fn what_is_new_waits_where_packets_come_already() {
    let topology = network("a-b b-c c-d d-e e-a");
    let old = lay(&topology, "d:h1", "c b a", "e:h2");
    let new = lay(&topology, "a:h1", "e d", "c:h1");
    // The move is halfway: packets from a go over e to d, which has no rule for them yet. c would
    // send them back to a.
    let node = |(device, _): &(DeviceNo, Entry)| topology.device_name(*device).node.to_string();
    let before = old.iter().filter(|it| node(it) != "e");
    let first = new.iter().filter(|it| ["a", "e"].contains(&node(it).as_str()));
    let halfway: Vec<(DeviceNo, Entry)> = before.chain(first).cloned().collect();
    let mut plane = Plane(halfway.clone());
    assert_eq!(plane.walk(&topology, &at("a:h1")), Fate::Lost("d".into()));
    for stage in stages(&topology, &halfway, &[], &new) {
        for step in stage {
            plane.apply(&step);
            for from in ["a:h1", "d:h1"] {
                assert_ne!(plane.walk(&topology, &at(from)), Fate::Round, "{step:?}");
            }
        }
    }
    assert_eq!(plane.walk(&topology, &at("a:h1")), Fate::Out(["c:h1".to_owned()].into()));
}

#[test]
fn a_group_changes_after_what_it_leads_to_is_there() {
    let topology = network("s-b b-t s-c=2 c-t=2 s-d=3 d-t=3 b-e=5 e-t=5 x-y");
    let safe = |constraints| {
        entries(&topology, &from_to("s:h1", "t:h1", Constraints { protection: true, ..constraints }))
    };
    let old = safe(Constraints::default());
    let obstacle_links = [(at("b:t"), at("t:b"))].into();
    let obstacles = [at("c:h1").device].into();
    let new = safe(Constraints { obstacle_links, obstacles, ..Constraints::default() });
    // Open writes could send packets in a circle elsewhere. Then the changes go one after the other.
    let loops = ["x:y", "y:x"].map(|point| {
        let (device, port) = (topology.device(&at(point).device).expect("a device"), at(point).of_rule());
        let back = Instruction::Do(Action::Output(Output::Port(port.clone())));
        let rule = Entry::from_json(&serde_json::json!({"priority": 1})).expect("a rule");
        let Entry::Rule(rule) = rule else { panic!("{rule:?}") };
        (device, Entry::Rule(Rule { selector: vec![Criterion::InPort(port)], treatment: vec![back], ..rule }))
    });
    let stages = stages(&topology, &old, &loops, &new);
    let stage_of = |is: &dyn Fn(&Entry) -> bool, node: &str| {
        let has = |step: &Step| matches!(step, Step::Put(device, entry) if is(entry) && topology.device_name(*device).node.as_str() == node);
        stages.iter().position(|stage| stage.iter().any(has))
    };
    let group = stage_of(&|entry| matches!(entry, Entry::Group(_)), "s").expect("the group changes");
    let rule = stage_of(&|entry| matches!(entry, Entry::Rule(_)), "d").expect("d is new");
    assert!(rule < group, "{stages:?}");
}
