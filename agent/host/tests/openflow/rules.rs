//! Rules: what is put is there, what others do is seen and corrected, what is refused changes nothing.

use muster_host::net::Hold;
use muster_host::openflow::{Event, Lost, Outcome, Timeout};
use muster_shared::model::flow::{
    Action, Criterion, Ct, Entry, Field, Instruction, Output, Packed, Port, Rule,
};

use crate::server::NetworkServer;
use crate::table::{Batch, Table, id, put};
use crate::{bridge, ofctl, with_switch, with_switch_in};

pub fn rule(priority: u16, selector: &[(Field, u128)], treatment: &[Action]) -> Rule {
    let mut selector: Vec<Criterion> = selector
        .iter()
        .map(|(field, value)| Criterion::Field { field: *field, value: *value, mask: None })
        .collect();
    selector.sort_unstable_by_key(Criterion::order);
    let treatment = treatment.iter().cloned().map(Instruction::Do).collect();
    Rule { table: 0, priority, selector, treatment, idle_timeout: 0, hard_timeout: 0 }
}

pub fn to(port: &str) -> Action {
    Action::Output(Output::Port(Port::Named(port.into())))
}

const IP: (Field, u128) = (Field::EthType, 0x800);

/// A rule for each of `count` addresses.
fn many(count: u16, port: &str) -> Vec<Entry> {
    let one =
        |n: u16| Entry::Rule(rule(100, &[IP, (Field::Ipv4Dst, 0x0a00_0000 + u128::from(n))], &[to(port)]));
    (0..count).map(one).collect()
}

#[test]
fn what_is_put_is_there_and_what_is_removed_is_not() {
    let server = bridge();
    with_switch(&server, async |switch| {
        let mut table = Table::default();
        let rules = many(5000, "p1");
        let applied = table.apply(switch, &rules, &[]).await.unwrap();
        assert_eq!(applied, Default::default());
        let found = switch.compare(&table).await.unwrap();
        assert!(found.is_equal() && found.unsayable.is_empty() && found.foreign == 0, "{found:?}");
        // Changed and removed at once: so few among so many that they are read back one by one.
        let applied = table.apply(switch, &many(300, "p2"), &rules[2500..]).await.unwrap();
        assert_eq!(applied, Default::default());
        assert!(switch.compare(&table).await.unwrap().is_equal());
        assert_eq!(ofctl(&server, "dump-flows", "").matches("output:2").count(), 300);
        let mut counters = Vec::new();
        let tables = switch.stats(&mut |page| counters.extend(page)).await.unwrap();
        assert_eq!((counters.len(), tables[0].table, tables[0].active), (2500, 0, 2500));
    });
}

#[test]
fn what_others_do_is_seen_and_put_right() {
    let server = bridge();
    with_switch(&server, async |switch| {
        let mut table = Table::default();
        let rules = many(8, "p1");
        table.apply(switch, &rules, &[]).await.unwrap();
        ofctl(&server, "add-flow", "priority=5,actions=NORMAL");
        assert!(matches!(switch.event().await, Event::Changed { foreign_only: true }));
        ofctl(&server, "--strict del-flows".split(' ').next_back().unwrap(), "ip,nw_dst=10.0.0.1");
        assert!(matches!(switch.event().await, Event::Changed { foreign_only: false }));
        ofctl(&server, "mod-flows", "ip,nw_dst=10.0.0.2,actions=drop");
        // In the place of one of ours, under another cookie.
        ofctl(&server, "add-flow", "priority=100,ip,nw_dst=10.0.0.3,actions=drop");
        ofctl(&server, "add-flow", &format!("cookie={:#x},priority=9,actions=drop", id(&rules[0]).0));
        ofctl(&server, "add-flow", "cookie=0x4d55000000000001,table=3,actions=drop");
        while let Event::Changed { foreign_only: true } = switch.event().await {}
        let found = table.repair(switch).await.unwrap();
        let mut missing = vec![id(&rules[1]), id(&rules[3])];
        missing.sort();
        assert_eq!(found.missing, missing);
        assert_eq!(found.altered.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id(&rules[2])]);
        assert_eq!((found.extraneous.len(), found.foreign), (2, 2));
        let found = switch.compare(&table).await.unwrap();
        assert!(found.is_equal() && found.foreign == 1, "{found:?}");
    });
}

#[test]
fn a_bad_rule_among_many_is_named_and_nothing_is_applied() {
    let server = bridge();
    with_switch(&server, async |switch| {
        let mut rules = many(10_000, "p1");
        let Entry::Rule(bad) = &mut rules[6_000] else { unreachable!() };
        // The switch alone can know that: the port is not in the selector's packets.
        bad.treatment = vec![Instruction::Do(Action::Group(77))];
        let bad = id(&rules[6_000]);
        let refusal = Table::default().apply(switch, &rules, &[]).await.unwrap_err();
        assert_eq!(refusal.id, Some(bad), "{refusal:?}");
        assert!(refusal.reason.contains("OFPBAC_BAD_OUT_GROUP"), "{refusal:?}");
        assert_eq!(
            ofctl(&server, "dump-flows", "").lines().filter(|line| line.contains("actions")).count(),
            0
        );
        // A port that is not there is known before.
        let refusal = Table::default().apply(switch, &many(3, "p9"), &[]).await.unwrap_err();
        assert_eq!(refusal.reason, "the bridge has no port p9");
        assert!(!refusal.permanent && refusal.id.is_some());
        // The port comes, and the connection knows.
        server.ovs("add-port br0 p9 -- set interface p9 type=internal");
        assert!(matches!(switch.event().await, Event::Changed { .. }));
        Table::default().apply(switch, &many(3, "p9"), &[]).await.unwrap();
    });
}

#[test]
fn a_change_that_cannot_be_made_durable_is_not_made() {
    let server = bridge();
    with_switch(&server, async |switch| {
        let outcome = switch.apply(&mut put(&many(3, "p1")), async { Err("disk full".to_owned()) }).await;
        let Outcome::Refused(refusal) = outcome.unwrap() else { panic!("applied") };
        assert_eq!((refusal.reason.as_str(), refusal.permanent), ("disk full", false));
        assert!(!ofctl(&server, "dump-flows", "").contains("actions"));
    });
}

#[test]
fn a_place_of_others_is_not_taken() {
    let server = bridge();
    ofctl(&server, "add-flow", "priority=100,ip,nw_dst=10.0.0.3,actions=NORMAL");
    with_switch(&server, async |switch| {
        let refusal = Table::default().apply(switch, &many(8, "p1"), &[]).await.unwrap_err();
        assert_eq!(refusal.id, Some(id(&many(8, "p1")[3])));
        assert!(refusal.permanent && refusal.reason.contains("not Muster's"), "{refusal:?}");
        // One that came later, and one that went.
        ofctl(&server, "del-flows", "ip,nw_dst=10.0.0.3");
        ofctl(&server, "add-flow", "priority=100,ip,nw_dst=10.0.0.4,actions=NORMAL");
        assert!(matches!(switch.event().await, Event::Changed { foreign_only: true }));
        let refusal = Table::default().apply(switch, &many(8, "p1"), &[]).await.unwrap_err();
        assert_eq!(refusal.id, Some(id(&many(8, "p1")[4])));
        Table::default().apply(switch, &many(4, "p1"), &[]).await.unwrap();
        let foreign = switch.foreign(10).await.unwrap();
        let said = foreign[0].entry.as_ref().map(Packed::unpack);
        assert_eq!(
            said,
            Some(Entry::Rule(rule(
                100,
                &[IP, (Field::Ipv4Dst, 0x0a00_0004)],
                &[Action::Output(Output::Normal)]
            )))
        );
    });
}

#[test]
fn a_rule_of_others_that_is_what_is_wanted_becomes_ours() {
    let server = bridge();
    let theirs = |n: u32| format!("cookie=0x7,priority=100,ip,nw_dst=10.0.0.{n},actions=output:1");
    ofctl(&server, "add-flow", &theirs(3));
    with_switch(&server, async |switch| {
        let wanted = many(8, "p1");
        let mut table = Table::default();
        // Another one is in the way: nothing is taken.
        ofctl(&server, "add-flow", "priority=100,ip,nw_dst=10.0.0.5,actions=drop");
        let refusal = Table::default().apply(switch, &wanted, &[]).await.unwrap_err();
        assert_eq!(refusal.id, Some(id(&wanted[5])));
        assert_eq!(ofctl(&server, "dump-flows", "cookie=0x7/-1").matches("output:").count(), 1);
        // One that was there before, and one that came since and was not read.
        ofctl(&server, "del-flows", "ip,nw_dst=10.0.0.5");
        ofctl(&server, "add-flow", &theirs(4));
        assert!(matches!(switch.event().await, Event::Changed { foreign_only: true }));
        table.apply(switch, &wanted, &[]).await.unwrap();
        assert_eq!(ofctl(&server, "dump-flows", "cookie=0x7/-1").matches("output:").count(), 0);
        let found = switch.compare(&table).await.unwrap();
        assert!(found.is_equal() && found.foreign == 0, "{found:?}");
        // They are ours as any other: changed, removed, put again.
        table.apply(switch, &many(8, "p2"), &[]).await.unwrap();
        table.apply(switch, &[], &wanted[3..5]).await.unwrap();
        table.apply(switch, &many(8, "p1"), &[]).await.unwrap();
        assert!(switch.compare(&table).await.unwrap().is_equal());
    });
}

/// The undoing of a change removes the rules that it put, and with them what was somebody else's before.
#[test]
fn a_change_that_may_be_undone_takes_over_nothing() {
    let server = bridge();
    ofctl(&server, "add-flow", "cookie=0x7,priority=100,ip,nw_dst=10.0.0.3,actions=output:1");
    with_switch(&server, async |switch| {
        let wanted = many(8, "p1");
        let mut batch = put(&wanted);
        batch.guarded = true;
        let Outcome::Refused(refusal) = switch.apply(&mut batch, std::future::ready(Ok(()))).await.unwrap()
        else {
            panic!("it was taken over");
        };
        assert_eq!(refusal.id, Some(id(&wanted[3])));
        assert!(refusal.reason.contains("import it first"), "{}", refusal.reason);
        assert_eq!(ofctl(&server, "dump-flows", "").matches("output:").count(), 1);
    });
}

#[test]
fn a_rule_that_ends_by_itself_is_told() {
    let server = bridge();
    with_switch(&server, async |switch| {
        let (mut idle, mut hard) = (rule(1, &[], &[]), rule(2, &[], &[]));
        (idle.idle_timeout, hard.hard_timeout) = (1, 1);
        let rules = [Entry::Rule(idle), Entry::Rule(hard)];
        let mut table = Table::default();
        assert_eq!(table.apply(switch, &rules, &[]).await.unwrap(), Default::default());
        let mut ended = Vec::new();
        while ended.len() < 2 {
            match switch.event().await {
                Event::Removed { id, timeout } => ended.push((id, timeout)),
                other => panic!("{other:?}"),
            }
        }
        ended.sort_by_key(|(_, timeout)| *timeout as u8);
        assert_eq!(ended, [(id(&rules[0]), Timeout::Idle), (id(&rules[1]), Timeout::Hard)]);
        for (_, present, _) in table.entries.values_mut() {
            *present = false;
        }
        assert!(switch.compare(&table).await.unwrap().is_equal());
    });
}

#[test]
fn a_switch_that_is_started_anew_is_another_and_empty() {
    let mut server = bridge();
    let mut table = Table::default();
    let rundir = server.rundir().to_owned();
    let before = with_switch_in(&rundir, async |switch| {
        table.apply(switch, &many(5, "p1"), &[]).await.unwrap();
        let instance = switch.instance();
        server.stop_switch();
        loop {
            match switch.event().await {
                Event::Gone(Lost::Broken(_)) => break instance,
                Event::Changed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    });
    server.start_switch();
    server.ovs("set bridge br0 external_ids:waited=for");
    with_switch(&server, async |switch| {
        assert_ne!(switch.instance(), before);
        assert_eq!(table.repair(switch).await.unwrap().missing.len(), 5);
        assert!(switch.compare(&table).await.unwrap().is_equal());
    });
}

#[test]
fn a_switch_that_waits_for_flow_tables_is_filled_and_released() {
    let mut server = bridge();
    let mut table = Table::default();
    with_switch(&server, async |switch| table.apply(switch, &many(5, "p1"), &[]).await.unwrap());
    let hold = |server: &NetworkServer| server.inside(async |network| network.hold_flows().await.unwrap());
    assert_eq!(hold(&server), Hold::Ours);
    server.stop_switch();
    server.start_switch();
    server.ovs("set bridge br0 external_ids:waited=for");
    with_switch(&server, async |switch| {
        assert_eq!(table.repair(switch).await.unwrap().missing.len(), 5);
        assert!(switch.compare(&table).await.unwrap().is_equal());
    });
    server.inside(async |network| network.release_flows(true).await.unwrap());
    assert!(!server.ovs("get Open_vSwitch . other_config").contains("restore"));
    assert_eq!(hold(&server), Hold::Ours);
    with_switch(&server, async |switch| assert!(switch.compare(&table).await.unwrap().is_equal()));
}

#[test]
fn a_bridge_that_is_not_there_or_speaks_another_version_says_so() {
    let server = bridge();
    server.ovs("set bridge br0 protocols=OpenFlow10,OpenFlow13");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for (device, wanted) in [("web-1/br0", "add OpenFlow14"), ("web-1/br9", "cannot reach bridge br9")] {
            let lost = muster_host::openflow::Switch::connect(server.rundir(), &device.parse().unwrap())
                .await
                .unwrap_err();
            assert!(lost.to_string().contains(wanted), "{lost}");
        }
    });
}

#[test]
fn every_form_comes_back_as_it_was_sent() {
    let server = bridge();
    let masked = |field, value, mask| Criterion::Field { field, value, mask: Some(mask) };
    let set = |field, value, mask| Action::Set { field, value, mask };
    let ct = |ct| rule(9, &[IP], &[Action::Ct(ct)]);
    let mut connections =
        ct(Ct { commit: true, force: true, zone: 7, table: Some(3), mark: Some((5, Some(0xff))) });
    connections.selector.push(masked(Field::CtState, 0x22, 0x22));
    connections.selector.sort_unstable_by_key(Criterion::order);
    let mut all = vec![
        connections,
        ct(Ct { commit: true, mark: Some((9, None)), ..Ct::default() }),
        rule(
            8,
            &[
                (Field::EthType, 0x86dd),
                (Field::IpProto, 58),
                (Field::Icmpv6Type, 135),
                (Field::Icmpv6Code, 0),
                (Field::Ipv6NdTarget, 1 << 100),
                (Field::Ipv6NdSll, 5),
            ],
            &[
                set(Field::Ipv6Src, 5 << 64, Some(0xffff_ffff << 64)),
                set(Field::EthDst, 0x0200_0000_0001, Some(0xff00_0000_00ff)),
            ],
        ),
        rule(
            7,
            &[(Field::EthType, 0x86dd), (Field::Ipv6Flabel, 5), (Field::IpDscp, 3), (Field::IpEcn, 1)],
            &[set(Field::Ipv6Flabel, 9, None)],
        ),
        rule(
            6,
            &[(Field::VlanVid, 0x1005), (Field::VlanPcp, 3)],
            &[
                Action::PopVlan,
                Action::PushVlan(0x88a8),
                set(Field::VlanVid, 0x1007, None),
                set(Field::VlanPcp, 2, None),
            ],
        ),
        rule(
            5,
            &[(Field::VlanVid, 0)],
            &[Action::PushVlan(0x8100), set(Field::VlanVid, 0x1000, None), Action::SetQueue(3), to("p1")],
        ),
        rule(
            4,
            &[(Field::EthType, 0x8847), (Field::MplsLabel, 70), (Field::MplsTc, 1), (Field::MplsBos, 1)],
            &[Action::DecMplsTtl, Action::PopMpls(0x800)],
        ),
        rule(
            3,
            &[IP, (Field::IpProto, 6), (Field::TcpFlags, 0x12)],
            &[Action::DecTtl, Action::PushMpls(0x8847), set(Field::MplsLabel, 7, None)],
        ),
        rule(
            2,
            &[
                (Field::EthType, 0x806),
                (Field::ArpOp, 1),
                (Field::ArpSpa, 9),
                (Field::ArpTpa, 8),
                (Field::ArpSha, 7),
                (Field::ArpTha, 6),
            ],
            &[
                set(Field::ArpSha, 9, None),
                set(Field::ArpOp, 2, None),
                Action::Output(Output::InPort),
                Action::Output(Output::All),
                Action::Output(Output::Flood),
                Action::Output(Output::Controller),
            ],
        ),
        rule(
            1,
            &[(Field::Metadata, 5), (Field::TunnelId, 6), (Field::Reg15, 1)],
            &[set(Field::TunnelId, 7, None), set(Field::Metadata, 0xf0, Some(0xff0)), Action::Resubmit(5)],
        ),
    ];
    all[9].selector.push(masked(Field::VlanVid, 0x1000, 0x1000));
    all[9].selector.sort_unstable_by_key(Criterion::order);
    all[9].selector.insert(0, Criterion::InPort(Port::Local));
    let mut last = rule(0, &[], &[Action::Output(Output::Port(Port::Local))]);
    last.treatment.extend([
        Instruction::ClearActions,
        Instruction::WriteActions(vec![to("p2"), set(Field::EthSrc, 5, None)]),
        Instruction::WriteMetadata { value: 5, mask: Some(15) },
        Instruction::GotoTable(9),
    ]);
    all.push(last);
    let all: Vec<Entry> = all.into_iter().map(Entry::Rule).collect();
    with_switch(&server, async |switch| {
        let mut table = Table::default();
        for entry in &all {
            let applied = table.apply(switch, std::slice::from_ref(entry), &[]).await;
            assert_eq!(applied, Ok(Default::default()), "{entry:?}");
        }
        assert!(switch.compare(&table).await.unwrap().is_equal());
        // Others' rules are said in our words: the same ones.
        let mut forgotten = Batch::default();
        forgotten.ops = table.entries.keys().map(|id| (*id, None, true)).collect();
        switch.apply(&mut forgotten, async { Ok(()) }).await.unwrap();
        for entry in &all {
            let mut foreign = put(std::slice::from_ref(entry));
            foreign.ops[0].0 = muster_shared::model::flow::FlowId(7);
            switch.apply(&mut foreign, async { Ok(()) }).await.unwrap();
        }
        let foreign = switch.foreign(100).await.unwrap();
        let mut said: Vec<_> =
            foreign.iter().map(|rule| rule.entry.as_ref().map(|entry| id(&entry.unpack()))).collect();
        let mut wanted: Vec<_> = all.iter().map(|entry| Some(id(entry))).collect();
        said.sort();
        wanted.sort();
        assert_eq!(said, wanted);
    });
}
