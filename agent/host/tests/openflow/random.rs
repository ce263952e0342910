//! Random rules on a real switch: each comes back in the form it was sent, and the switch does with packets what the
//! table says, by the word of `ofproto/trace` and of a small interpreter here.

use std::collections::BTreeMap;
use std::process::Command;

use muster_shared::model::flow::{
    Action, Criterion, Ct, Entry, Field, FieldKind, Instruction, Output, Port, Rule,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::server::NetworkServer;
use crate::table::{Table, id};
use crate::{bridge, with_switch};

const PORTS: [&str; 3] = ["p1", "p2", "p3"];
const TABLES: u8 = 3;

/// The matches and the settable fields of a kind of packet.
struct Kind {
    fixed: &'static [(Field, u128)],
    fields: &'static [Field],
}

const ALWAYS: [Field; 9] = [
    Field::Reg0,
    Field::Reg15,
    Field::Metadata,
    Field::TunnelId,
    Field::EthDst,
    Field::EthSrc,
    Field::CtState,
    Field::CtZone,
    Field::CtMark,
];
const KINDS: [Kind; 10] = [
    Kind { fixed: &[], fields: &[] },
    Kind { fixed: &[(Field::VlanVid, 0x1007)], fields: &[Field::VlanPcp] },
    Kind {
        fixed: &[(Field::EthType, 0x800), (Field::IpProto, 6)],
        fields: &[
            Field::Ipv4Src,
            Field::Ipv4Dst,
            Field::TcpSrc,
            Field::TcpDst,
            Field::TcpFlags,
            Field::IpDscp,
            Field::IpEcn,
        ],
    },
    Kind {
        fixed: &[(Field::EthType, 0x800), (Field::IpProto, 17)],
        fields: &[Field::Ipv4Src, Field::Ipv4Dst, Field::UdpSrc, Field::UdpDst],
    },
    Kind {
        fixed: &[(Field::EthType, 0x86dd), (Field::IpProto, 132)],
        fields: &[Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Flabel, Field::SctpSrc, Field::SctpDst],
    },
    Kind {
        fixed: &[(Field::EthType, 0x800), (Field::IpProto, 1)],
        fields: &[Field::Icmpv4Type, Field::Icmpv4Code],
    },
    Kind {
        fixed: &[(Field::EthType, 0x86dd), (Field::IpProto, 58)],
        fields: &[Field::Icmpv6Type, Field::Icmpv6Code, Field::Ipv6Src],
    },
    Kind {
        fixed: &[
            (Field::EthType, 0x86dd),
            (Field::IpProto, 58),
            (Field::Icmpv6Type, 135),
            (Field::Icmpv6Code, 0),
        ],
        fields: &[Field::Ipv6NdTarget, Field::Ipv6NdSll],
    },
    Kind {
        fixed: &[(Field::EthType, 0x806)],
        fields: &[Field::ArpOp, Field::ArpSpa, Field::ArpTpa, Field::ArpSha, Field::ArpTha],
    },
    Kind { fixed: &[(Field::EthType, 0x8847)], fields: &[Field::MplsLabel, Field::MplsTc, Field::MplsBos] },
];
const NOT_SET: [Field; 8] = [
    Field::CtState,
    Field::CtZone,
    Field::CtMark,
    Field::MplsBos,
    Field::TcpFlags,
    Field::Icmpv6Type,
    Field::Icmpv6Code,
    // Its mask is another field's.
    Field::VlanPcp,
];

fn value_of(field: Field) -> BoxedStrategy<(u128, Option<u128>)> {
    let all = match field.kind() {
        // The bits that every version knows; the switch forbids some together.
        FieldKind::CtState => 0b10_0011,
        _ => field.all_bits(),
    };
    let value = any::<u128>().prop_map(move |value| value & all);
    if !field.is_maskable() || field.kind() == FieldKind::Vlan {
        let bound = if field == Field::ArpOp { 255 } else { all };
        return value.prop_map(move |value| (value & bound, None)).boxed();
    }
    let is_state = field.kind() == FieldKind::CtState;
    (value, any::<u128>(), any::<bool>())
        .prop_map(move |(value, mask, whole)| {
            // est and new without trk make no sense to a switch.
            let (value, mask) = if is_state { (value | 0x20, mask | 0x20) } else { (value, mask) };
            let mask = mask & all;
            match whole && !is_state || mask == 0 || mask == field.all_bits() {
                true => (value, None),
                false => (value & mask, Some(mask)),
            }
        })
        .boxed()
}

fn criterion(field: Field) -> impl Strategy<Value = Criterion> {
    value_of(field).prop_map(move |(value, mask)| Criterion::Field { field, value, mask })
}

fn port() -> impl Strategy<Value = Port> {
    prop_oneof![Just(Port::Local), (0..3usize).prop_map(|n| Port::Named(PORTS[n].into()))]
}

fn action(fields: Vec<Field>, table: u8) -> BoxedStrategy<Action> {
    let settable: Vec<Field> = fields.into_iter().filter(|field| !NOT_SET.contains(field)).collect();
    let set = prop::sample::select(settable).prop_flat_map(|field| {
        value_of(field).prop_map(move |(value, mask)| Action::Set { field, value, mask })
    });
    let ct = (
        any::<bool>(),
        any::<bool>(),
        any::<u16>(),
        any::<bool>(),
        prop::option::of((any::<u32>(), any::<u32>())),
    )
        .prop_map(move |(commit, force, zone, look_up, mark)| {
            let mark = mark.filter(|(_, mask)| commit && *mask != 0).map(|(value, mask)| match mask {
                u32::MAX => (value, None),
                mask => (value & mask, Some(mask)),
            });
            Action::Ct(Ct { commit, force: commit && force, zone, table: look_up.then_some(table + 1), mark })
        });
    let output = prop_oneof![
        port().prop_map(Output::Port),
        Just(Output::InPort),
        Just(Output::Normal),
        Just(Output::All),
        Just(Output::Flood),
        Just(Output::Controller)
    ];
    prop_oneof![
        3 => set,
        2 => output.prop_map(Action::Output),
        1 => any::<u32>().prop_map(Action::SetQueue),
        1 => (table + 1..TABLES + 2).prop_map(Action::Resubmit),
        1 => ct,
        1 => Just(Action::PushVlan(0x8100)),
    ]
    .boxed()
}

/// Any rule that a switch takes.
fn any_rule() -> impl Strategy<Value = Rule> {
    (0..KINDS.len(), 0..TABLES, 1u16..1000).prop_flat_map(|(kind, table, priority)| {
        let Kind { fixed, fields } = &KINDS[kind];
        let own: Vec<Field> = ALWAYS.iter().chain(*fields).copied().collect();
        let has_ct =
            fixed.iter().any(|(field, value)| *field == Field::EthType && matches!(value, 0x800 | 0x86dd));
        let chosen = prop::sample::subsequence(own.clone(), 0..4)
            .prop_flat_map(|fields| fields.into_iter().map(criterion).collect::<Vec<_>>());
        let actions = prop::collection::vec(action(own, table), 0..5);
        let metadata = prop::option::of((any::<u64>(), any::<u64>()));
        let end = (prop::option::of(port()), metadata, any::<bool>());
        let timeouts = (prop::option::of(1000u16..), prop::option::of(1000u16..));
        (prop::option::of(port()), chosen, actions, end, timeouts).prop_map(
            move |(in_port, mut selector, actions, (later, metadata, goes_on), (idle, hard))| {
                let fixed = fixed.iter().map(|(field, value)| Criterion::Field {
                    field: *field,
                    value: *value,
                    mask: None,
                });
                selector.extend(fixed);
                selector.extend(in_port.map(Criterion::InPort));
                selector.sort_by_key(Criterion::order);
                selector.dedup_by_key(|criterion| criterion.order());
                let mut treatment: Vec<Instruction> = actions
                    .into_iter()
                    .filter(|action| has_ct || !matches!(action, Action::Ct(_)))
                    .map(Instruction::Do)
                    .collect();
                if let Some(port) = later {
                    treatment.push(Instruction::ClearActions);
                    treatment.push(Instruction::WriteActions(vec![Action::Output(Output::Port(port))]));
                }
                if let Some((value, mask)) = metadata.filter(|(_, mask)| *mask != 0) {
                    let mask = (mask != u64::MAX).then_some(mask);
                    treatment
                        .push(Instruction::WriteMetadata { value: value & mask.unwrap_or(u64::MAX), mask });
                }
                if goes_on {
                    treatment.push(Instruction::GotoTable(table + 1));
                }
                let (idle_timeout, hard_timeout) = (idle.unwrap_or(0), hard.unwrap_or(0));
                Rule { table, priority, selector, treatment, idle_timeout, hard_timeout }
            },
        )
    })
}

/// Draws from a strategy with the seed of the runner: the same rules in every run.
fn draw<T>(runner: &mut TestRunner, strategy: &impl Strategy<Value = T>) -> T {
    strategy.new_tree(runner).unwrap().current()
}

/// The same rules and packets in every run.
fn runner() -> TestRunner {
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(Config::default(), random)
}

#[test]
fn any_rule_comes_back_as_it_was_sent() {
    const DRAWN: usize = 2_000;
    let server = bridge();
    let mut runner = runner();
    with_switch(&server, async |switch| {
        let mut table = Table::default();
        let mut refused = 0;
        for _ in 0..DRAWN {
            let entry = Entry::Rule(draw(&mut runner, &any_rule()));
            match table.apply(switch, std::slice::from_ref(&entry), &[]).await {
                Ok(applied) => assert_eq!(applied, Default::default(), "{entry:?}"),
                // Some treatments no switch takes: they are named, and change nothing.
                Err(refusal) => {
                    assert_eq!(refusal.id, Some(id(&entry)));
                    assert!(refusal.reason.contains("OFPB"), "{refusal:?}: {entry:?}");
                    refused += 1;
                }
            }
        }
        assert!(refused * 10 < DRAWN, "{refused} refused");
        let found = switch.compare(&table).await.unwrap();
        assert!(found.is_equal() && found.unsayable.is_empty(), "{found:?}");
    });
}

/// The fields that rules of the second test match and set.
const PACKET: [Field; 6] =
    [Field::Ipv4Src, Field::Ipv4Dst, Field::TcpSrc, Field::TcpDst, Field::Reg0, Field::Metadata];

/// Few values, so that rules meet packets.
fn narrow(field: Field) -> impl Strategy<Value = (u128, Option<u128>)> {
    (0u128..4, prop::option::of(1u128..4)).prop_map(move |(value, mask)| match mask {
        Some(mask) if field.is_maskable() => (value & mask, Some(mask)),
        _ => (value, None),
    })
}

fn narrow_rule(priority: u16) -> impl Strategy<Value = Rule> {
    let criterion =
        |field: Field| narrow(field).prop_map(move |(value, mask)| Criterion::Field { field, value, mask });
    let selector = prop::sample::subsequence(PACKET.to_vec(), 0..3)
        .prop_flat_map(move |fields| fields.into_iter().map(criterion).collect::<Vec<_>>());
    (prop::option::weighted(0.2, port()), selector, 0..TABLES).prop_flat_map(
        move |(in_port, mut selector, table)| {
            let tcp = [(Field::EthType, 0x800), (Field::IpProto, 6)];
            selector.extend(tcp.map(|(field, value)| Criterion::Field { field, value, mask: None }));
            selector.extend(in_port.map(Criterion::InPort));
            selector.sort_by_key(Criterion::order);
            // Metadata is written by an instruction.
            let set = prop::sample::select(PACKET[..5].to_vec()).prop_flat_map(|field| {
                narrow(field).prop_map(move |(value, mask)| Action::Set { field, value, mask })
            });
            let output = prop_oneof![4 => port().prop_map(Output::Port), 1 => Just(Output::InPort)];
            let action = prop_oneof![
                2 => set,
                2 => output.prop_map(Action::Output),
                1 => (table + 1..TABLES + 1).prop_map(Action::Resubmit),
            ];
            let later = (any::<bool>(), prop::option::of(port()), prop::option::of((0u64..4, 1u64..4)));
            (prop::collection::vec(action, 0..4), later, any::<bool>()).prop_map(
                move |(actions, (clear, later, metadata), goes_on)| {
                    let mut treatment: Vec<Instruction> = actions.into_iter().map(Instruction::Do).collect();
                    treatment.extend(clear.then_some(Instruction::ClearActions));
                    let write = |port| Instruction::WriteActions(vec![Action::Output(Output::Port(port))]);
                    treatment.extend(later.map(write));
                    let metadata = metadata.map(|(value, mask)| Instruction::WriteMetadata {
                        value: value & mask,
                        mask: Some(mask),
                    });
                    treatment.extend(metadata);
                    treatment.extend(goes_on.then_some(Instruction::GotoTable(table + 1)));
                    let selector = selector.clone();
                    Rule { table, priority, selector, treatment, idle_timeout: 0, hard_timeout: 0 }
                },
            )
        },
    )
}

/// A packet on its way through the tables.
struct Packet {
    in_port: Port,
    fields: BTreeMap<Field, u128>,
    outputs: Vec<Port>,
    /// The action set, of which only the last output counts.
    later: Option<Port>,
}

impl Packet {
    fn matches(&self, criterion: &Criterion) -> bool {
        match criterion {
            Criterion::InPort(port) => *port == self.in_port,
            Criterion::Field { field, value, mask } => {
                self.fields.get(field).copied().unwrap_or(0) & mask.unwrap_or(field.all_bits()) == *value
            }
        }
    }

    fn set(&mut self, field: Field, value: u128, mask: Option<u128>) {
        let mask = mask.unwrap_or(field.all_bits());
        let before = self.fields.entry(field).or_default();
        *before = *before & !mask | value;
    }

    fn act(&mut self, rules: &[Rule], action: &Action) {
        match action {
            Action::Output(Output::InPort) => self.outputs.push(self.in_port.clone()),
            // A packet does not go back by being sent to the port it came from.
            Action::Output(Output::Port(port)) if *port != self.in_port => self.outputs.push(port.clone()),
            Action::Output(_) => {}
            Action::Resubmit(table) => self.look_up(rules, *table),
            Action::Set { field, value, mask } => self.set(*field, *value, *mask),
            other => panic!("not in these rules: {other:?}"),
        }
    }

    fn look_up(&mut self, rules: &[Rule], table: u8) {
        let fits = |rule: &&Rule| rule.table == table && rule.selector.iter().all(|one| self.matches(one));
        let Some(rule) = rules.iter().filter(fits).max_by_key(|rule| rule.priority) else { return };
        for instruction in &rule.treatment {
            match instruction {
                Instruction::Do(action) => self.act(rules, action),
                Instruction::ClearActions => self.later = None,
                Instruction::WriteActions(actions) => match &actions[..] {
                    [Action::Output(Output::Port(port))] => self.later = Some(port.clone()),
                    other => panic!("not in these rules: {other:?}"),
                },
                Instruction::WriteMetadata { value, mask } => {
                    self.set(Field::Metadata, (*value).into(), mask.map(u128::from));
                }
                Instruction::GotoTable(table) => self.look_up(rules, *table),
                Instruction::Meter(_) => panic!("not in these rules"),
            }
        }
    }
}

fn name(port: &Port) -> String {
    match port {
        Port::Local => "br0".to_owned(),
        Port::Named(name) => name.to_string(),
    }
}

/// The ports that the switch says it would send the packet to, in order.
fn traced(server: &NetworkServer, packet: &Packet) -> Vec<String> {
    let control =
        std::fs::read_dir(server.rundir()).unwrap().map(|entry| entry.unwrap().path()).find(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("ovs-vswitchd.") && name.ends_with(".ctl")
        });
    let field = |field| packet.fields.get(&field).copied().unwrap_or(0);
    let address = |wanted| std::net::Ipv4Addr::from_bits(u32::try_from(field(wanted)).unwrap());
    let flow = format!(
        "in_port={},tcp,nw_src={},nw_dst={},tp_src={},tp_dst={}",
        name(&packet.in_port),
        address(Field::Ipv4Src),
        address(Field::Ipv4Dst),
        field(Field::TcpSrc),
        field(Field::TcpDst)
    );
    let output = Command::new("ovs-appctl")
        .arg("-t")
        .arg(control.unwrap())
        .args(["ofproto/trace", "--names", "br0", &flow])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let actions = text.lines().find_map(|line| line.strip_prefix("Datapath actions: "));
    let actions = actions.unwrap_or_else(|| panic!("{text}"));
    let ports = ["br0", "p1", "p2", "p3"];
    actions.split(',').filter(|word| ports.contains(word)).map(str::to_owned).collect()
}

#[test]
fn the_switch_does_with_packets_what_the_table_says() {
    const RULES: u16 = 80;
    const PACKETS: usize = 150;
    let server = bridge();
    let mut runner = runner();
    let mut sent_somewhere = 0;
    let rules: Vec<Rule> = (1..=RULES).map(|priority| draw(&mut runner, &narrow_rule(priority))).collect();
    let entries: Vec<Entry> = rules.iter().cloned().map(Entry::Rule).collect();
    with_switch(&server, async |switch| {
        let mut table = Table::default();
        assert_eq!(table.apply(switch, &entries, &[]).await.unwrap(), Default::default());
    });
    for _ in 0..PACKETS {
        let values = draw(&mut runner, &(port(), [0u128..4, 0..4, 0..4, 0..4]));
        let mut fields: BTreeMap<Field, u128> = PACKET.into_iter().zip(values.1).collect();
        fields.extend([(Field::EthType, 0x800), (Field::IpProto, 6)]);
        let mut packet = Packet { in_port: values.0, fields, outputs: Vec::new(), later: None };
        let traced = traced(&server, &packet);
        packet.look_up(&rules, 0);
        if let Some(port) = packet.later.take() {
            packet.act(&rules, &Action::Output(Output::Port(port)));
        }
        let wanted: Vec<String> = packet.outputs.iter().map(name).collect();
        assert_eq!(traced, wanted, "{:?} {:?}", packet.in_port, packet.fields);
        sent_somewhere += usize::from(!wanted.is_empty());
    }
    assert!(sent_somewhere * 4 > PACKETS, "the rules send next to nothing anywhere: {sent_somewhere}");
}
