//! Random fleets: labels that come and go, nodes that leave and return, changes that fail, restarts at every moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_shared::model::{Drift, DriftState, Up};
use proptest::prelude::*;

use super::bed::{Bed, node, stack};
use super::trees::source;
use crate::record::ResourceRecord;
use crate::{CALM, Request, RolloutAction, Source};

/// Number of cases. A long run sets more: `PROPTEST_CASES=20000 cargo test -p muster-engine`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
}

const NODES: usize = 5;
const LABELS: [&str; 2] = ["role", "zone"];

#[derive(Clone, Debug)]
enum Step {
    /// Sets or removes the label of a node.
    Label(usize, usize, bool),
    Update(u8, usize, bool),
    Run(usize),
    Fail(usize),
    /// Changes one of a node's things behind its agent's back.
    Drift(usize, usize),
    Away(usize),
    Back(usize),
    Pass(u64),
    Restart,
    Steer(RolloutAction),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..NODES, 0..LABELS.len(), any::<bool>()).prop_map(|(n, label, has)| Step::Label(n, label, has)),
        2 => (0u8..3, 0..LABELS.len(), any::<bool>()).prop_map(|(v, label, rolls)| Step::Update(v, label, rolls)),
        8 => (0..NODES).prop_map(Step::Run),
        1 => (0..NODES).prop_map(Step::Fail),
        1 => (0..NODES, 0usize..3).prop_map(|(n, which)| Step::Drift(n, which)),
        1 => (0..NODES).prop_map(Step::Away),
        2 => (0..NODES).prop_map(Step::Back),
        2 => prop_oneof![4 => 1u64..20, 1 => Just(CALM.as_secs())].prop_map(Step::Pass),
        1 => Just(Step::Restart),
        1 => prop_oneof![Just(RolloutAction::Pause), Just(RolloutAction::Resume), Just(RolloutAction::Promote)].prop_map(Step::Steer),
    ];
    prop::collection::vec(step, 0..80)
}

fn of(value: u8, label: usize, rolls: bool) -> Source {
    let rollout = if rolls { ", rollout: {batch: 2, pause: 5, canary: 1, max_failures: 1}" } else { "" };
    let label = LABELS[label];
    source(
        &format!(
            "resources:\n  \
              a: {{type: Muster::Dummy, drift_policy: correct, for_each: {{nodes: role}}{rollout}, properties: {{values: {{me: {{get_node: name}}, v: {value}}}}}}}\n  \
              b: {{type: Muster::Dummy, drift_policy: correct, for_each: {{nodes: {label}}}, depends_on: a, properties: {{values: {{v: {value}}}}}}}\n  \
              c: {{type: Muster::Dummy, drift_policy: correct, for_each: {{nodes: zone}}, depends_on: {{resource: b, scope: all}}, properties: {{values: {{n: {{get_attr: [a, v, {{get_node: name}}]}}}}}}}}\n"
        ),
        &[],
    )
}

fn drift(bed: &mut Bed, n: usize, which: usize) {
    let held = |row: &&ResourceRecord| row.node == Some(node(n)) && row.progress.held.is_some();
    let Some(row) = bed.tables.rows.values().filter(held).nth(which) else { return };
    let (resource, generation) = (row.physical, row.progress.held.expect("it was chosen for that"));
    let drift = Drift { resource, generation, state: DriftState::Drifted, reason: "v is 7".into() };
    bed.receive(&node(n), Up::Drift(vec![drift]));
}

type Things = Vec<(String, BTreeMap<String, String>)>;

fn wanted(labels: &[BTreeSet<usize>], value: u8, label: usize) -> Things {
    let mut wanted = Things::new();
    for (n, labels) in labels.iter().enumerate() {
        let values =
            |pairs: &[(&str, String)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        let (name, v) = (node(n), value.to_string());
        if labels.contains(&0) {
            wanted.push((format!("a[{name}]"), values(&[("me", name.to_string()), ("v", v.clone())])));
        }
        if labels.contains(&label) {
            wanted.push((format!("b[{name}]"), values(&[("v", v.clone())])));
        }
        if labels.contains(&1) {
            let n = if labels.contains(&0) { values(&[("n", v)]) } else { values(&[]) };
            wanted.push((format!("c[{name}]"), n));
        }
    }
    wanted.sort();
    wanted
}

/// Things by name, without empty values.
fn reality(bed: &Bed) -> Things {
    bed.reality()
        .into_iter()
        .map(|(name, mut values)| {
            values.retain(|_, value| !value.is_empty() && value != "null");
            (name, values)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// After the steps and one more operation, each matching node has its members, no other node
    /// has any, and no job is left.
    #[test]
    fn each_node_that_is_meant_has_its_own(steps in steps()) {
        let mut bed = Bed::new(NODES);
        let mut labels: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); NODES];
        let (mut value, mut label) = (0, 0);
        bed.create(of(value, label, false)).unwrap();
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Label(n, which, has) => {
                    match has {
                        true => labels[n].insert(which),
                        false => labels[n].remove(&which),
                    };
                    let change = BTreeMap::from([(LABELS[which].to_owned(), has.then(|| "x".to_owned()))]);
                    bed.ask(Request::LabelNode { node: node(n), labels: change }).unwrap();
                }
                Step::Update(v, which, rolls) => {
                    if bed.update(of(v, which, rolls)).is_ok() {
                        (value, label) = (v, which);
                    }
                }
                Step::Run(n) => drop(bed.run_at(&node(n), 0)),
                Step::Fail(n) => bed.fail_next(&node(n), true),
                Step::Drift(n, which) => drift(&mut bed, n, which),
                Step::Away(n) => bed.disconnect(&node(n)),
                Step::Back(n) => bed.connect(&node(n)),
                Step::Pass(seconds) => bed.pass(Duration::from_secs(seconds)),
                Step::Restart => {
                    bed.restart();
                    bed.read();
                }
                Step::Steer(action) => {
                    let request = Request::Rollout { name: stack(), action, resource: None };
                    let _perhaps_there_is_none = bed.ask(request);
                }
            }
            bed.read();
            bed.is_loaded_as_it_is_at(at);
        }
        (0..NODES).for_each(|n| bed.connect(&node(n)));
        let resume = Request::Rollout { name: stack(), action: RolloutAction::Resume, resource: None };
        let _perhaps_none_is_paused = bed.ask(resume);
        for round in 0..2 {
            for _ in 0..20 {
                bed.read();
                bed.idle();
                bed.pass(Duration::from_secs(10));
            }
            if round == 1 {
                let status = bed.status();
                prop_assert!(status.ends_with("_COMPLETE"), "{status}: {:?}", bed.view().map(|view| view.status_reason));
            }
            // This also holds without an operation after the last label.
            if bed.status().ends_with("_COMPLETE") {
                prop_assert_eq!(reality(&bed), wanted(&labels, value, label), "{}", round);
            }
            if round == 0 {
                bed.update(of(value, label, false)).unwrap();
            }
        }
        bed.ran.clear();
        bed.restart();
        (0..NODES).for_each(|n| bed.connect(&node(n)));
        bed.pass(Duration::from_secs(2));
        bed.read();
        bed.idle();
        prop_assert_eq!(std::mem::take(&mut bed.ran), Vec::<String>::new());
    }
}
