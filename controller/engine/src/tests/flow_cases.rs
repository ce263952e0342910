//! ONOS's cases of flow rules, rebuilt: each test is named after its model in `FlowRuleManagerTest`
//! or `ECFlowRuleStoreTest`. Cases that ONOS never tested follow. Where ONOS expects something
//! else, a comment says what and why.

use std::time::Duration;

use muster_shared::model::flow::{Entry, EntryState, FlowId, ForeignRule, Packed};
use muster_template::ForeignPolicy;

use super::bed::{Bed, flows, node};
use super::flow_tables::{device, id, rule, write};
use crate::{Answer, Refusal, Request};

fn three(bed: &mut Bed) {
    bed.apply_rules(&device(0), &[rule(1, 1), rule(2, 1), rule(3, 1)]);
}

fn standing(bed: &Bed, n: u16) -> &'static str {
    let d = device(0);
    bed.engine.view().flows().standing(&d, id(&d, n)).map_or("none", muster_flow::FlowStanding::as_str)
}

fn lose(bed: &mut Bed, n: u16) {
    let d = device(0);
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.flows.devices.get_mut(&d.bridge).unwrap().entries.remove(&id(&d, n));
}

fn purge(bed: &mut Bed, forget: bool) -> Result<Answer, Refusal> {
    bed.ask(Request::PurgeFlows { device: device(0), forget, confirm_timeout: None })
}

mod flow_rule_manager {
    use super::*;

    #[test]
    fn get_flow_entries() {
        let mut bed = Bed::new(1);
        let Err(Refusal::NotFound(_)) = bed.engine.view().flows().rows(&device(0), None) else {
            panic!("none yet")
        };
        bed.apply_rules(&device(0), &[rule(1, 1), rule(2, 1)]);
        assert_eq!(bed.standings(&device(0)), "ADDED 2");
        // The device reports its rules again: nothing follows.
        bed.say(&device(0));
        assert_eq!((bed.standings(&device(0)).as_str(), bed.hosts[&node(0)].flows.ran), ("ADDED 2", 1));
    }

    #[test]
    fn apply_flow_rules() {
        let mut bed = Bed::new(1);
        bed.hold(0, true);
        three(&mut bed);
        assert_eq!(bed.standings(&device(0)), "PENDING_ADD 3");
    }

    #[test]
    fn purge_flow_rules() {
        let mut bed = Bed::new(1);
        three(&mut bed);
        let Ok(Answer::Flows { operation, rules: 3, .. }) = purge(&mut bed, false) else { panic!("purged") };
        assert_eq!(bed.ended(operation), "COMPLETE");
        assert!(bed.on_device(&device(0)).is_empty());
        assert_eq!(bed.standings(&device(0)), "");
    }

    #[test]
    fn remove_flow_rules() {
        let (mut bed, d) = (Bed::new(1), device(0));
        three(&mut bed);
        bed.hold(0, true);
        bed.remove_rules(&d, &[id(&d, 1), id(&d, 2)]);
        assert_eq!(bed.standings(&d), "ADDED 1, PENDING_REMOVE 2");
        bed.remove_rules(&d, &[id(&d, 1), id(&d, 2)]);
        assert_eq!(bed.standings(&d), "ADDED 1, PENDING_REMOVE 2", "twice is as once");
        // If the first removal had been refused, the second would still be pending.
        bed.decide(0);
        bed.decide(0);
        assert_eq!(bed.standings(&d), "ADDED 1");
    }

    #[test]
    fn flow_removed() {
        let (mut bed, d) = (Bed::new(1), device(0));
        three(&mut bed);
        // A wanted rule that was removed on the device is added again.
        lose(&mut bed, 1);
        bed.say(&d);
        assert_eq!((standing(&bed, 1), bed.on_device(&d).len()), ("ADDED", 3));
        // A rule that is being removed, and is gone already, is removed once.
        bed.hold(0, true);
        bed.remove_rules(&d, &[id(&d, 2)]);
        lose(&mut bed, 2);
        bed.say(&d);
        assert_eq!(standing(&bed, 2), "PENDING_REMOVE");
        bed.decide(0);
        assert_eq!((standing(&bed, 2), bed.on_device(&d).len()), ("none", 2));
    }

    /// In ONOS each poll asks for the third rule again, and the store keeps it as ADDED meanwhile
    /// (a defect).
    #[test]
    fn flow_metrics_ask_for_what_is_missing() {
        let (mut bed, d) = (Bed::new(1), device(0));
        three(&mut bed);
        bed.hold(0, true);
        lose(&mut bed, 3);
        bed.say(&d);
        assert_eq!(bed.standings(&d), "ADDED 2, PENDING_ADD 1");
        let row = bed.engine.view().flows().row(&d, id(&d, 3)).unwrap().rows.remove(0);
        assert_eq!(row.error.as_deref(), Some("the device had lost it"));
        bed.decide(0);
        assert_eq!(bed.standings(&d), "ADDED 3");
    }

    #[test]
    fn extraneous_flow() {
        let (mut bed, d) = (Bed::new(1), device(0));
        three(&mut bed);
        let host = bed.hosts.get_mut(&node(0)).unwrap();
        let entries = &mut host.flows.devices.get_mut(&d.bridge).unwrap().entries;
        entries.insert(id(&d, 9), (Packed::new(&rule(9, 1)).unwrap(), EntryState::Present));
        bed.say(&d);
        assert_eq!((bed.standings(&d).as_str(), bed.on_device(&d).len()), ("ADDED 3", 3));
    }

    #[test]
    fn flow_missing_remove() {
        let (mut bed, d) = (Bed::new(1), device(0));
        three(&mut bed);
        bed.disconnect(&node(0));
        let operation = bed.remove_rules(&d, &[id(&d, 3)]);
        lose(&mut bed, 3);
        assert_eq!(bed.standings(&d), "ADDED 2, PENDING_REMOVE 1");
        bed.connect(&node(0));
        assert_eq!((bed.ended(operation).as_str(), bed.standings(&d).as_str()), ("COMPLETE", "ADDED 2"));
    }

    /// ONOS's applications are owners here. The rules of a stack go with it, and no others.
    #[test]
    fn remove_by_app_id() {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.apply_rules(&d, &[rule(1, 1)]);
        bed.create(flows("a: node-0/br0 2 3")).unwrap();
        bed.delete().unwrap();
        assert_eq!(bed.on_device(&d), [id(&d, 1)]);
    }

    /// In ONOS a fallback polls devices whose driver cannot report. Here every agent sends a digest
    /// with its heartbeat.
    #[test]
    fn fallback_basics_flow_removed_extra_flow_and_poll() {
        let (mut bed, d) = (Bed::new(1), device(0));
        three(&mut bed);
        lose(&mut bed, 1);
        let host = bed.hosts.get_mut(&node(0)).unwrap();
        let entries = &mut host.flows.devices.get_mut(&d.bridge).unwrap().entries;
        entries.insert(id(&d, 9), (Packed::new(&rule(9, 1)).unwrap(), EntryState::Present));
        assert!(!bed.equal(&d));
        bed.say(&d);
        assert!(bed.equal(&d));
    }
}

mod ec_flow_rule_store {
    use super::*;

    #[test]
    fn empty_store() {
        let bed = Bed::new(1);
        assert!(bed.engine.view().flows().devices().is_empty());
    }

    #[test]
    fn store_batch() {
        let mut bed = Bed::new(1);
        bed.disconnect(&node(0));
        bed.apply_rules(&device(0), &[rule(1, 1)]);
        assert_eq!(bed.standings(&device(0)), "PENDING_ADD 1");
        assert_eq!(bed.tables.flows.entries.len(), 1, "it is durable");
    }

    #[test]
    fn add_flow_and_its_statistics() {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.apply_rules(&d, &[rule(1, 1)]);
        assert_eq!(bed.standings(&d), "ADDED 1");
        bed.ask(Request::FlowStats { device: d.clone() }).unwrap();
        let stats = bed.engine.view().flows().stats(&d).unwrap();
        assert_eq!((stats.tables.len(), stats.owners[0].packets, stats.owners[0].bytes), (1, 2, 100));
        let row = bed.engine.view().flows().rows(&d, None).unwrap().sorted().rows.remove(0);
        assert_eq!(row.counters.map(|it| (it.packets, it.duration)), Some((2, 7)));
        // A second request at once does not read the device again.
        bed.ask(Request::FlowStats { device: d.clone() }).unwrap();
        assert_eq!(bed.hosts[&node(0)].flows.asked.len(), 1);
        bed.pass(Duration::from_secs(2));
        bed.ask(Request::FlowStats { device: d }).unwrap();
        assert_eq!(bed.hosts[&node(0)].flows.asked.len(), 2);
    }

    #[test]
    fn counters_are_sampled_no_faster_than_a_device_reports_them() {
        let mut bed = Bed::new(2);
        for index in 0..2 {
            bed.apply_rules(&device(index), &[rule(1, 1)]);
        }
        for _ in 0..5 {
            bed.ask(Request::SampleFlows).unwrap();
        }
        let asked = |bed: &Bed| bed.hosts.values().map(|host| host.flows.asked.len()).sum::<usize>();
        assert_eq!(asked(&bed), 2);
        let metrics = bed.engine.view().flows().metrics(20);
        assert!(metrics.iter().all(|(_, stats)| stats.owners[0].packets == 2));
        bed.pass(Duration::from_secs(2));
        bed.ask(Request::SampleFlows).unwrap();
        assert_eq!(asked(&bed), 4);
    }

    #[test]
    fn remove_flow() {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
        bed.remove_rules(&d, &[id(&d, 1)]);
        assert_eq!(bed.standings(&d), "ADDED 1");
    }

    #[test]
    fn purge_flow_of_a_device() {
        let mut bed = Bed::new(2);
        bed.apply_rules(&device(0), &[rule(1, 1), rule(2, 1)]);
        bed.apply_rules(&device(1), &[rule(1, 1)]);
        purge(&mut bed, true).unwrap();
        assert!(bed.engine.view().flows().rows(&device(0), None).is_err(), "its table is forgotten");
        assert_eq!(bed.standings(&device(1)), "ADDED 1");
        assert!(bed.tables.flows.entries.keys().all(|(of, _)| *of == 1));
        bed.restart();
        assert_eq!(bed.engine.view().flows().devices().len(), 1);
    }

    /// Purges the rules of one owner on one device. Rules of other owners and on other devices stay.
    #[test]
    fn purge_flow_of_a_device_and_an_app() {
        let mut bed = Bed::new(2);
        bed.create(flows("a: node-0/br0 7")).unwrap();
        bed.apply_rules(&device(0), &[rule(1, 1)]);
        bed.apply_rules(&device(1), &[rule(1, 1)]);
        purge(&mut bed, false).unwrap();
        assert_eq!(bed.on_device(&device(0)), [id(&device(0), 7)]);
        assert_eq!(bed.standings(&device(1)), "ADDED 1");
        let Err(Refusal::Conflict(why)) = purge(&mut bed, true) else { panic!("a stack has rules there") };
        assert!(why.contains("resource a of stack s"), "{why}");
    }
}

mod never_tested_there {
    use super::*;

    /// Nothing is purged when a device or its node is away: the table waits for it.
    #[test]
    fn purge_on_disconnection_never() {
        let (mut bed, d) = (Bed::new(1), device(0));
        three(&mut bed);
        bed.disconnect(&node(0));
        bed.pass(Duration::from_secs(7 * 86_400));
        assert_eq!(bed.standings(&d), "ADDED 3");
        bed.restart();
        bed.connect(&node(0));
        assert_eq!(
            (bed.standings(&d).as_str(), bed.hosts[&node(0)].flows.ran),
            ("ADDED 3", 1),
            "nothing was sent"
        );
    }

    #[test]
    fn import_of_foreign_rules() {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.apply_rules(&d, &[rule(1, 1)]);
        let stranger = |cookie, entry: Option<Entry>| ForeignRule {
            cookie,
            text: "priority=5,ip actions=NORMAL".into(),
            entry: entry.map(|entry| Packed::new(&entry).unwrap()),
        };
        let host = bed.hosts.get_mut(&node(0)).unwrap();
        host.flows.devices.get_mut(&d.bridge).unwrap().foreign =
            vec![stranger(0, Some(rule(5, 2))), stranger(7, None)];
        let reconcile = |foreign| Request::ReconcileFlows { device: device(0), foreign };
        bed.ask(reconcile(None)).unwrap();
        assert_eq!(
            (bed.device_view(&d).foreign, bed.standings(&d).as_str()),
            (2, "ADDED 1"),
            "left, and counted"
        );
        bed.ask(reconcile(Some(ForeignPolicy::Show))).unwrap();
        assert_eq!(bed.engine.view().flows().rows(&d, None).unwrap().foreign.len(), 2);
        assert_eq!(bed.standings(&d), "ADDED 1", "shown, and not ours");
        bed.ask(reconcile(Some(ForeignPolicy::Import))).unwrap();
        assert_eq!(bed.standings(&d), "ADDED 2");
        assert!(bed.on_device(&d).contains(&id(&d, 5)));
        bed.restart();
        assert_eq!(bed.device_view(&d).foreign_policy, "import");
    }

    #[test]
    fn an_import_that_fails_says_why() {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.create(flows("a: node-0/br0 1")).unwrap();
        let stranger = |n| ForeignRule {
            cookie: 0,
            text: String::new(),
            entry: Some(Packed::new(&rule(n, 2)).unwrap()),
        };
        let import = || Request::ReconcileFlows { device: device(0), foreign: Some(ForeignPolicy::Import) };
        let said = |bed: &Bed| bed.device_view(&device(0)).import_error;
        let strangers = |bed: &mut Bed, numbers: &[u16]| {
            let host = bed.hosts.get_mut(&node(0)).unwrap();
            host.flows.devices.get_mut(&device(0).bridge).unwrap().foreign =
                numbers.iter().map(|n| stranger(*n)).collect();
        };
        // The device refuses the rule. Once it accepts the rule, a new request succeeds.
        strangers(&mut bed, &[5]);
        bed.bad(&d, 5, true);
        bed.ask(import()).unwrap();
        assert!(
            said(&bed).contains("no such port") && said(&bed).contains(&id(&d, 5).to_string()),
            "{}",
            said(&bed)
        );
        bed.hosts.get_mut(&node(0)).unwrap().flows.bad.clear();
        bed.ask(import()).unwrap();
        assert_eq!((said(&bed).as_str(), bed.standings(&d).as_str()), ("", "ADDED 2"));
        // The request is refused before it starts.
        bed.hold(0, true);
        for n in 100..1124 {
            bed.apply_rules(&d, &[rule(n, 1)]);
        }
        strangers(&mut bed, &[7]);
        bed.ask(import()).unwrap();
        assert!(said(&bed).contains("1024 changes that wait"), "{}", said(&bed));
        bed.ask(Request::ReconcileFlows { device: device(0), foreign: Some(ForeignPolicy::Leave) }).unwrap();
        assert_eq!(said(&bed), "");
    }

    #[test]
    fn a_policy_for_a_node_that_nobody_knows_makes_no_device() {
        let mut bed = Bed::new(1);
        let device = "node-7/br0".parse().unwrap();
        let show = Request::ReconcileFlows { device, foreign: Some(ForeignPolicy::Show) };
        let Err(Refusal::NotFound(why)) = bed.ask(show) else { panic!("refused") };
        assert!(why.contains("no node 'node-7'"), "{why}");
        assert!(bed.engine.view().flows().devices().is_empty() && bed.tables.flows.devices.is_empty());
    }

    #[test]
    fn a_purge_of_a_node_that_is_away_names_the_other_way() {
        let mut bed = Bed::new(1);
        three(&mut bed);
        bed.disconnect(&node(0));
        let Ok(Answer::Flows { warnings, .. }) = purge(&mut bed, false) else { panic!("purged") };
        assert_eq!(warnings[0], "node node-0 is away and is waited for");
        assert!(warnings.iter().any(|it| it.contains("purge --forget node-0/br0")), "{warnings:?}");
        bed.connect(&node(0));
        let Ok(Answer::Flows { warnings, .. }) = purge(&mut bed, false) else { panic!("purged") };
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    /// A rule that ended by its hard timeout stays gone, over restarts of either side, until a new request.
    #[test]
    fn hard_timeout_is_final() {
        let (mut bed, d) = (Bed::new(1), device(0));
        three(&mut bed);
        let host = bed.hosts.get_mut(&node(0)).unwrap();
        host.flows.devices.get_mut(&d.bridge).unwrap().entries.get_mut(&id(&d, 1)).unwrap().1 =
            EntryState::Expired;
        bed.say(&d);
        assert_eq!((bed.standings(&d).as_str(), bed.hosts[&node(0)].flows.ran), ("ADDED 2, EXPIRED 1", 1));
        bed.restart();
        bed.connect(&node(0));
        assert_eq!((standing(&bed, 1), bed.hosts[&node(0)].flows.ran), ("EXPIRED", 1));
        // An agent that forgot the expiry does not add the rule again.
        bed.disconnect(&node(0));
        bed.hosts.get_mut(&node(0)).unwrap().flows.devices.clear();
        bed.connect(&node(0));
        assert_eq!((standing(&bed, 1), bed.on_device(&d).len()), ("EXPIRED", 2));
        bed.apply_rules(&d, &[rule(1, 1)]);
        assert_eq!((standing(&bed, 1), bed.on_device(&d).len()), ("ADDED", 3));
    }

    /// In ONOS the next stage begins even if this one failed.
    #[test]
    fn stages_with_failure() {
        let mut bed = Bed::new(2);
        bed.bad(&device(1), 1, true);
        let stages = vec![
            vec![write(&device(0), &[rule(1, 1)]), write(&device(1), &[rule(1, 1), rule(2, 1)])],
            vec![write(&device(0), &[rule(2, 1)])],
        ];
        let operation = bed.apply(stages).unwrap();
        let view = bed.operation(operation);
        assert_eq!((view.state.as_str(), view.stage, view.done), ("FAILED", 1, 1));
        assert_eq!(
            (view.errors[0].device.as_str(), view.errors[0].error.as_str()),
            ("node-1/br0", "no such port")
        );
        assert_eq!(bed.standings(&device(0)), "ADDED 1", "what the other device has done stands");
        assert!(bed.on_device(&device(1)).is_empty(), "all or nothing on each device");
    }

    /// Batches of one device keep their order. ONOS needs a stripe key for that.
    #[test]
    fn contradicting_updates_end_as_the_last_one_says() {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.hold(0, true);
        for n in 0..40 {
            match n % 3 {
                0 => drop(bed.apply_rules(&d, &[rule(1, 1 + n)])),
                1 => drop(bed.remove_rules(&d, &[id(&d, 1)])),
                _ => bed.decide(0),
            }
        }
        for _ in 0..3 {
            bed.decide(0);
        }
        assert_eq!(bed.standings(&d), "ADDED 1");
        let known = &bed.hosts[&node(0)].flows.devices[&d.bridge].entries;
        assert_eq!(known.values().next().unwrap().0.unpack(), rule(1, 40));
    }

    #[test]
    fn a_thousand_waiting_changes_are_the_bound() {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.disconnect(&node(0));
        for n in 0..1024u16 {
            bed.apply_rules(&d, &[rule(1, u8::try_from(n % 200).unwrap() + 1)]);
        }
        let Err(Refusal::Conflict(why)) = bed.apply(vec![vec![write(&d, &[rule(1, 250)])]]) else {
            panic!("refused")
        };
        assert!(why.contains("1024 changes that wait"), "{why}");
        bed.connect(&node(0));
        assert!(bed.equal(&d));
    }

    #[test]
    fn ids_that_collide_are_refused() {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.apply_rules(&d, &[rule(1, 1)]);
        let packed = Packed::new(&rule(2, 1)).unwrap();
        let op = muster_flow::FlowOp::Put { id: id(&d, 1), digest: packed.digest(), packed };
        let stage = vec![muster_flow::FlowWrite { device: d.clone(), ops: vec![op] }];
        let Err(Refusal::Conflict(why)) = bed.apply(vec![stage]) else { panic!("refused") };
        assert!(why.contains("have the same id"), "{why}");
        let _: FlowId = id(&d, 1);
    }
}
