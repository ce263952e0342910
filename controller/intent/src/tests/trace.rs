//! Traces over fake switches, and what they prove of an intent.

use std::collections::BTreeMap;

use muster_shared::model::flow::{Bridge, Packed, Packet, Rule, TraceStep};

use super::*;
use crate::compile::Compiler;
use crate::host::{Host, HostId};
use crate::path_search::Trees;
use crate::proof::promises;
use crate::reservations::{Holder, Ledger};
use crate::trace::{DEPTH_MAX, Fate as End, HOPS_MAX, STEPS_MAX, Trace};

/// Switches that do the same with each packet of a port.
#[derive(Default)]
struct Switches {
    by_port: BTreeMap<ConnectPoint, Vec<TraceStep>>,
    /// Others hold a rule for a port.
    rules: BTreeMap<ConnectPoint, Rule>,
    /// Nodes that do not answer.
    away: Vec<String>,
}

impl Switches {
    /// Each line is `s1:h1 > s2 h2`: what comes in by a port leaves by others; `s1:h1 > !why` is refused,
    /// `s1:h1 > ?action` is unclear, `s1:h1 > *` goes to a controller, and `s1:h1 >` is dropped.
    fn of(lines: &[&str]) -> Self {
        let step = |bridge: &str, word: &str| {
            let bridge = bridge.parse().unwrap();
            match word.split_at(1) {
                ("!", why) => TraceStep::Refused { bridge, why: why.into() },
                ("?", action) => TraceStep::Unclear { bridge, action: action.into() },
                ("*", _) => TraceStep::Controller { bridge },
                _ => TraceStep::Output { bridge, port: word.into(), packet: Packet::default() },
            }
        };
        let of = |line: &&str| {
            let (from, to) = line.split_once('>').unwrap();
            let rule = rule_of(&"br0".parse().unwrap());
            let steps = to.split_whitespace().map(|word| step("br0", word));
            (at(from.trim()), [rule].into_iter().chain(steps).collect())
        };
        Self { by_port: lines.iter().map(of).collect(), ..Self::default() }
    }

    /// Switches that hold these rules, one for each port.
    fn holding(topology: &Topology, entries: &[(DeviceNo, Entry)]) -> Self {
        let mut rules = BTreeMap::new();
        for (device, entry) in entries {
            let Entry::Rule(rule) = entry else { continue };
            let port = rule.selector.iter().find_map(|criterion| match criterion {
                Criterion::InPort(Port::Named(port)) => Some(port.clone()),
                _ => None,
            });
            let device = topology.device_name(*device).clone();
            rules.insert(ConnectPoint { device, port: port.unwrap() }, rule.clone());
        }
        Self { rules, ..Self::default() }
    }

    fn steps(&self, at: &ConnectPoint, mut packet: Packet) -> Vec<TraceStep> {
        let bridge = at.device.bridge.clone();
        let Some(rule) = self.rules.get(at) else {
            let miss = vec![TraceStep::Miss { bridge, table: 0 }];
            return self.by_port.get(at).cloned().unwrap_or(miss);
        };
        let mut steps = vec![rule_of(&bridge)];
        for instruction in &rule.treatment {
            match instruction {
                Instruction::Do(Action::Output(Output::Port(Port::Named(port)))) => {
                    let (bridge, port, packet) = (bridge.clone(), port.clone(), packet.clone());
                    steps.push(TraceStep::Output { bridge, port, packet });
                }
                Instruction::Do(action) => assert!(packet.apply(action)),
                other => panic!("{other:?}"),
            }
        }
        steps
    }

    fn run(&self, topology: &Topology, mut trace: Trace) -> Trace {
        while let Some(question) = trace.next_question() {
            let at = ConnectPoint { device: question.device.clone(), port: question.question.in_port };
            let answer = match self.away.contains(&at.device.node.to_string()) {
                true => Err("it is away".to_owned()),
                false => Ok(self.steps(&at, question.question.packet)),
            };
            trace.answered(topology, question.hop, answer);
        }
        assert!(trace.is_over());
        trace
    }
}

fn rule_of(bridge: &Bridge) -> TraceStep {
    TraceStep::Rule { bridge: bridge.clone(), table: 0, cookie: 1, matches: String::new() }
}

/// The ends as text: where copies arrive, and why others do not.
fn ends(trace: &Trace) -> Vec<String> {
    let text = |fate: &End| match fate {
        End::Delivered { at, .. } => at.to_string(),
        End::Lost(loss) => loss.to_string(),
    };
    trace.ends().iter().map(|end| text(&end.fate)).collect()
}

#[test]
fn a_packet_is_followed_to_its_ends() {
    let table: [(&[&str], &[&str]); 13] = [
        (&["s1:h1 > h2"], &["s1/br0 port h2"]),
        (&["s1:h1 > s2", "s2:s1 > h1"], &["s2/br0 port h1"]),
        (&["s1:h1 > s2 h2", "s2:s1 > s3", "s3:s2 > h1"], &["s1/br0 port h2", "s3/br0 port h1"]),
        (&[], &["no rule of table 0 on s1/br0 takes it"]),
        (&["s1:h1 > s2"], &["no rule of table 0 on s2/br0 takes it"]),
        (&["s1:h1 > s2", "s2:s1 >"], &["a rule on s2/br0 drops it"]),
        (&["s1:h1 > !no"], &["s1/br0 does not send it on: no"]),
        (&["s1:h1 > *"], &["s1/br0 sends it to an OpenFlow controller, and nowhere else"]),
        (&["s1:h1 > * h2"], &["s1/br0 port h2"]),
        (&["s1:h1 > ?encap h2"], &["s1/br0 changes it in a way that a trace does not follow: encap"]),
        (
            &["s1:h1 > s2", "s2:s1 > s3", "s3:s2 > s1", "s1:s3 > s2"],
            &["it comes to s2/br0 port s1 again: it runs in a circle"],
        ),
        // Both copies come to the same port: one is followed.
        (&["s1:h1 > s2 s3", "s2:s1 > s3", "s3:s1 > h1", "s3:s2 > h1"], &["s3/br0 port h1", "s3/br0 port h1"]),
        (&["s1:h1 > unheard-of"], &["s1/br0 port unheard-of"]),
    ];
    let topology = network("s1-s2 s2-s3 s3-s1");
    for (lines, expected) in table {
        let trace = Switches::of(lines).run(&topology, Trace::new(at("s1:h1"), Packet::default()));
        assert_eq!(ends(&trace), expected, "{lines:?}");
    }
}

#[test]
fn a_packet_is_lost_where_the_network_ends() {
    let lines = &["s1:h1 > s2", "s2:s1 > h1"];
    let follow = |topology: &Topology, away: &[&str]| {
        let mut switches = Switches::of(lines);
        switches.away = away.iter().map(|it| (*it).to_owned()).collect();
        ends(&switches.run(topology, Trace::new(at("s1:h1"), Packet::default())))
    };
    let mut topology = network("s1-s2");
    assert_eq!(follow(&topology, &["s2"]), ["s2/br0 could not be asked: it is away"]);
    topology.set_port(&at("s2:h1"), false).unwrap();
    assert_eq!(follow(&topology, &[]), ["s2/br0 port h1 is down"]);
    topology.set_port(&at("s2:s1"), false).unwrap();
    let passes = "nothing passes over the link from s1/br0 port s2 to s2/br0 port s1";
    assert_eq!(follow(&topology, &[]), [passes]);
}

#[test]
fn a_trace_has_bounds() {
    let line: Vec<String> = (0..100).map(|n| format!("s{n}-s{}", n + 1)).collect();
    let rules: Vec<String> = (1..100).map(|n| format!("s{n}:s{} > s{}", n - 1, n + 1)).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let start = Trace::new(at("s1:s0"), Packet::default());
    let trace = Switches::of(&rules).run(&network(&line.join(" ")), start);
    assert_eq!(trace.hops().len(), DEPTH_MAX);
    assert_eq!(ends(&trace), ["it passes more than 64 switches"]);

    let star: Vec<String> = (1..=HOPS_MAX).map(|n| format!("s0-s{n}")).collect();
    let all: String = (1..=HOPS_MAX).map(|n| format!(" s{n}")).collect();
    let start = Trace::new(at("s0:h1"), Packet::default());
    let trace = Switches::of(&[&format!("s0:h1 >{all}")]).run(&network(&star.join(" ")), start);
    assert_eq!(trace.hops().len(), HOPS_MAX);
    assert!(ends(&trace).contains(&"it has more than 256 copies".to_owned()));

    // Switches that tell as much as an answer may have.
    let many: Vec<String> = (1..=20).map(|n| format!("s{n}:s0 >{}", " out".repeat(255))).collect();
    let first = format!("s0:h1 >{}", (1..=20).map(|n| format!(" s{n}")).collect::<String>());
    let rules: Vec<&str> = [&*first].into_iter().chain(many.iter().map(String::as_str)).collect();
    let star: Vec<String> = (1..=20).map(|n| format!("s0-s{n}")).collect();
    let trace =
        Switches::of(&rules).run(&network(&star.join(" ")), Trace::new(at("s0:h1"), Packet::default()));
    assert!(trace.ends().len() <= STEPS_MAX);
    assert!(ends(&trace).contains(&"switches do more than 4096 things with it".to_owned()));
}

type Rules = Vec<(DeviceNo, Entry)>;

/// Compiles an intent, and says of each promise whether its rules keep it.
fn verified(topology: &Topology, intent: &Intent, spoil: impl Fn(&mut Rules)) -> Vec<Result<(), String>> {
    let (ledger, mut trees) = (Ledger::default(), Trees::default());
    let mut compiler = Compiler { topology, ledger: &ledger, trees: &mut trees };
    let made = compiler.compile(intent, "it", &Holder::Intent("it".into()), 1).unwrap();
    let mut entries = made.entries;
    let packed = |(device, entry): &(DeviceNo, Entry)| {
        (topology.device_name(*device).clone(), Packed::new(entry).unwrap())
    };
    let rules: Vec<_> = entries.iter().map(packed).collect();
    spoil(&mut entries);
    let switches = Switches::holding(topology, &entries);
    let judged = promises(topology, intent, &rules).into_iter().map(|promise| {
        let trace = switches.run(topology, promise.trace());
        promise.judge(&trace).map_err(|broken| broken.to_string())
    });
    judged.collect()
}

fn points(texts: &[&str]) -> Vec<ConnectPoint> {
    texts.iter().map(|text| at(text)).collect()
}

#[test]
fn rules_as_compiled_keep_every_promise() {
    let mut topology = network("s1-s2 s2-s3 s3-s1 s3-s4");
    let host = |octet, location: &str| {
        (HostId::new([2, 0, 0, 0, 0, octet]).unwrap(), Host { location: at(location), addresses: Vec::new() })
    };
    let hosts = [host(1, "s1:h1"), host(2, "s4:h1")];
    for (id, host) in hosts.clone() {
        topology.declare_host(id, Some(host)).unwrap();
    }
    let links = [("s1:s2", "s2:s1"), ("s1:s3", "s3:s1")].map(|(from, to)| (at(from), at(to))).to_vec();
    let kinds = [
        (Kind::PointToPoint { from: at("s1:h1"), to: at("s4:h1") }, 1),
        (Kind::SinglePointToMultiPoint { from: at("s1:h1"), to: points(&["s2:h1", "s3:h1", "s4:h2"]) }, 1),
        (Kind::MultiPointToSinglePoint { from: points(&["s1:h1", "s2:h1", "s4:h2"]), to: at("s3:h1") }, 3),
        (Kind::HostToHost { one: hosts[0].0, two: hosts[1].0 }, 2),
        (
            Kind::LinkCollection {
                links,
                from: points(&["s1:h1", "s2:h2"]),
                to: points(&["s2:h1", "s3:h1"]),
            },
            2,
        ),
    ];
    for (kind, promised) in kinds {
        let treatment = vec![Action::Set { field: Field::EthDst, value: 7, mask: None }];
        let intent = Intent { kind, treatment, ..from_to("s1:h1", "s4:h1", Constraints::default()) };
        assert_eq!(verified(&topology, &intent, |_| {}), vec![Ok(()); promised], "{intent:?}");
    }
}

#[test]
fn a_tag_of_the_intents_own_comes_off_again() {
    let topology = network("s1-s2 s2-s3");
    let intent = from_to("s1:h1", "s3:h1", Constraints { vlan: true, ..Constraints::default() });
    assert_eq!(verified(&topology, &intent, |_| {}), [Ok(())]);
    let tagged = |mut intent: Intent| {
        intent.selector.push(Criterion::Field { field: Field::VlanVid, value: 0x1005, mask: None });
        intent
    };
    assert_eq!(verified(&topology, &tagged(intent), |_| {}), [Ok(())]);
}

#[test]
fn what_is_not_as_promised_is_found() {
    let topology = network("s1-s2 s2-s3");
    let intent = from_to("s1:h1", "s3:h1", Constraints::default());
    let judge = |spoil: &dyn Fn(&mut Rules)| verified(&topology, &intent, spoil).remove(0).unwrap_err();
    let treat = |entries: &mut Rules, at: usize, treatment: Vec<Instruction>| {
        let Entry::Rule(rule) = &mut entries[at].1 else { panic!("a rule") };
        rule.treatment = treatment;
    };
    let to = |port: &str| Instruction::Do(Action::Output(Output::Port(Port::Named(port.into()))));
    let last = "packets from s1/br0 port h1 do not arrive at s3/br0 port h1";
    assert_eq!(
        judge(&|entries| drop(entries.remove(1))),
        format!("{last}: no rule of table 0 on s2/br0 takes it")
    );
    assert_eq!(judge(&|entries| treat(entries, 2, vec![])), format!("{last}: a rule on s3/br0 drops it"));
    assert_eq!(judge(&|entries| treat(entries, 2, vec![to("h2")])), format!("{last}, but at s3/br0 port h2"));
    assert_eq!(
        judge(&|entries| treat(entries, 2, vec![to("h1"), to("h2")])),
        "packets from s1/br0 port h1 also arrive at s3/br0 port h2"
    );
    let set = Instruction::Do(Action::Set { field: Field::EthDst, value: 7, mask: None });
    assert_eq!(
        judge(&|entries| treat(entries, 2, vec![set.clone(), to("h1")])),
        "packets from s1/br0 port h1 arrive at s3/br0 port h1 with another 'eth_dst'"
    );
}

#[test]
fn points_that_are_not_connected_are_promised_nothing() {
    let topology = network("s1-s2 s3-s4");
    let partial = Constraints { partial_failure: true, ..Constraints::default() };
    let kinds = [
        Kind::SinglePointToMultiPoint { from: at("s1:h1"), to: points(&["s2:h1", "s3:h1"]) },
        Kind::MultiPointToSinglePoint { from: points(&["s2:h1", "s3:h1"]), to: at("s1:h1") },
    ];
    for kind in kinds {
        let intent = Intent { kind, ..from_to("s1:h1", "s2:h1", partial.clone()) };
        assert_eq!(verified(&topology, &intent, |_| {}), [Ok(())]);
    }
}
