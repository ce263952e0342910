//! Groups and meters: with the rules that use them, in one change.

use muster_host::openflow::Event;
use muster_shared::model::flow::{
    Action, Band, Entry, FlowCounters, Group, GroupBucket, GroupKind, Instruction, Meter, Port,
};

use crate::rules::{rule, to};
use crate::table::{Table, id};
use crate::{bridge, ofctl, with_switch};

fn group(number: u32, kind: GroupKind, ports: &[&str]) -> Entry {
    let bucket = |port: &&str| GroupBucket {
        weight: if kind == GroupKind::Select { 3 } else { 0 },
        watch_port: (kind == GroupKind::FastFailover).then(|| Port::Named((*port).into())),
        treatment: vec![to(port)],
    };
    Entry::Group(Group { number, kind, buckets: ports.iter().map(bucket).collect() })
}

fn meter(number: u32, rate: u32) -> Entry {
    let bands = vec![Band { rate, burst: 0, dscp_remark: None }];
    Entry::Meter(Meter { number, packets: false, bands })
}

fn using(priority: u16, group: u32, meter: u32) -> Entry {
    let mut rule = rule(priority, &[], &[Action::Group(group)]);
    rule.treatment.insert(0, Instruction::Meter(meter));
    Entry::Rule(rule)
}

#[test]
fn groups_and_meters_precede_their_rules_and_are_removed_after() {
    let server = bridge();
    with_switch(&server, async |switch| {
        let mut table = Table::default();
        // In the wrong order, on purpose.
        let mut marks = meter(2, 500);
        let Entry::Meter(inner) = &mut marks else { unreachable!() };
        inner.packets = true;
        inner.bands[0].burst = 70;
        inner.bands.push(Band { rate: 900, burst: 80, dscp_remark: None });
        let entries = [
            using(5, 1, 1),
            meter(1, 1000),
            marks,
            group(1, GroupKind::All, &["p1", "p2"]),
            group(2, GroupKind::Select, &["p1", "p2"]),
            group(3, GroupKind::Indirect, &["p3"]),
            group(4, GroupKind::FastFailover, &["p1", "p2"]),
            using(6, 4, 2),
        ];
        let applied = table.apply(switch, &entries, &[]).await.unwrap();
        let odd: Vec<_> =
            entries.iter().filter(|entry| applied.odd.iter().any(|(odd, _)| *odd == id(entry))).collect();
        assert_eq!((odd, applied.missing), (vec![], vec![]));
        assert!(switch.compare(&table).await.unwrap().is_equal());
        let mut counted: Vec<FlowCounters> = Vec::new();
        switch.stats(&mut |page| counted.extend(page)).await.unwrap();
        let mut counted: Vec<_> = counted.iter().map(|counters| counters.id).collect();
        let mut all: Vec<_> = entries.iter().map(id).collect();
        counted.sort();
        all.sort();
        assert_eq!(counted, all);
        // Changed in place, while rules use them.
        let changed = [group(1, GroupKind::All, &["p3"]), meter(1, 2000)];
        assert_eq!(table.apply(switch, &changed, &[]).await.unwrap(), Default::default());
        assert!(switch.compare(&table).await.unwrap().is_equal());
        // A group that goes takes its rules along: so the rule is moved in the same change.
        let moved = [using(5, 2, 2)];
        let gone = [group(1, GroupKind::All, &["p3"]), meter(1, 2000)];
        assert_eq!(table.apply(switch, &moved, &gone).await.unwrap(), Default::default());
        assert!(switch.compare(&table).await.unwrap().is_equal());
        assert!(!ofctl(&server, "dump-groups", "").contains("group_id=1,"));
        assert!(!ofctl(&server, "dump-meters", "").contains("meter=1 "));
    });
}

#[test]
fn a_refused_change_leaves_meters_as_they_were() {
    let server = bridge();
    with_switch(&server, async |switch| {
        let mut table = Table::default();
        table.apply(switch, &[meter(1, 1000)], &[]).await.unwrap();
        let before = ofctl(&server, "dump-meters", "");
        let bad = [meter(1, 7), meter(2, 8), group(1, GroupKind::All, &["p1"]), using(5, 99, 1)];
        let refusal = table.apply(switch, &bad, &[]).await.unwrap_err();
        assert_eq!(refusal.id, Some(id(&bad[3])));
        assert_eq!(ofctl(&server, "dump-meters", ""), before);
        assert!(!ofctl(&server, "dump-groups", "").contains("group_id"));
        assert!(!ofctl(&server, "dump-flows", "").contains("actions"));
        assert!(switch.compare(&table).await.unwrap().is_equal());
    });
}

#[test]
fn a_number_of_others_is_not_taken_and_ours_is_put_right() {
    let server = bridge();
    ofctl(&server, "add-group", "group_id=1,type=all,bucket=output:1");
    ofctl(&server, "add-meter", "meter=1,kbps,band=type=drop,rate=5");
    with_switch(&server, async |switch| {
        let mut table = Table::default();
        for (entry, word) in [(group(1, GroupKind::All, &["p1"]), "group 1 is"), (meter(1, 5), "meter 1 is")]
        {
            let refusal = table.apply(switch, std::slice::from_ref(&entry), &[]).await.unwrap_err();
            assert_eq!(refusal.id, Some(id(&entry)));
            assert!(refusal.permanent && refusal.reason.starts_with(word), "{refusal:?}");
        }
        let ours = [group(2, GroupKind::All, &["p1"]), meter(2, 5), using(1, 2, 2)];
        table.apply(switch, &ours, &[]).await.unwrap();
        ofctl(&server, "mod-group", "group_id=2,type=all,bucket=output:2");
        assert!(matches!(switch.event().await, Event::Changed { foreign_only: false }));
        ofctl(&server, "del-meters", "meter=2");
        while let Event::Changed { foreign_only: true } = switch.event().await {}
        let found = table.repair(switch).await.unwrap();
        assert_eq!(found.altered.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id(&ours[0])]);
        assert_eq!(found.missing.len(), 2, "{found:?}");
        assert!(switch.compare(&table).await.unwrap().is_equal());
    });
}
