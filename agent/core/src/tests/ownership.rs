//! Resources take files over from each other, with crashes and a disk that refuses. In the end each file is as it was
//! before Muster.

use std::collections::BTreeMap;

use muster_shared::model::{Action, Down, Job, Spec};
use proptest::prelude::*;

use super::node::{Node, again, failed, id, job, plain};
use crate::{Before, Entry, Found};

const RESOURCES: u128 = 4;
const PATHS: u128 = 2;

#[derive(Clone, Debug)]
enum Step {
    Want { n: u128, path: u128 },
    Delete { n: u128 },
    Check { n: u128 },
    Withdraw { n: u128 },
    Work { fails: bool },
    FailWrite,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..RESOURCES, 0..PATHS).prop_map(|(n, path)| Step::Want { n, path }),
        2 => (0..RESOURCES).prop_map(|n| Step::Delete { n }),
        1 => (0..RESOURCES).prop_map(|n| Step::Check { n }),
        1 => (0..RESOURCES).prop_map(|n| Step::Withdraw { n }),
        12 => prop::bool::weighted(0.2).prop_map(|fails| Step::Work { fails }),
        1 => Just(Step::FailWrite),
        2 => Just(Step::Crash),
    ]
}

/// A controller that keeps to one path per resource, and a host with two files.
struct Site {
    bed: Node,
    files: BTreeMap<String, Vec<u8>>,
    /// The newest job of each resource; like the controller, it is sent again until it is done.
    newest: BTreeMap<u128, Job>,
    number: u64,
}

fn original(path: &str) -> Vec<u8> {
    format!("{path} before Muster").into_bytes()
}

impl Site {
    fn new() -> Self {
        let mut bed = Node::online();
        bed.disk_is_quick = false;
        let files = (0..PATHS).map(|path| format!("/{path}")).map(|path| (path.clone(), original(&path)));
        Self { bed, files: files.collect(), newest: BTreeMap::new(), number: 0 }
    }

    fn send(&mut self, n: u128, action: Action, spec: Spec) {
        self.number += 1;
        let job = job(n, self.number, action, spec);
        self.newest.insert(n, job.clone());
        self.bed.job(&job);
    }

    fn want(&mut self, n: u128, path: u128) {
        // Another path is another thing: a controller makes another resource for it.
        let spec = self.newest.get(&n).map_or_else(|| plain(&format!("/{path}")), |job| job.spec.clone());
        self.send(n, Action::Create, spec);
    }

    fn delete(&mut self, n: u128) {
        if let Some(job) = self.newest.get(&n) {
            let spec = job.spec.clone();
            self.send(n, Action::Delete, spec);
        }
    }

    /// Checks an applied resource; the controller's check fails for others without asking the node.
    fn check(&mut self, n: u128) {
        let stands = |entry: &Entry| entry.resource == id(n) && entry.applied.is_some();
        if self.bed.agent.entries().any(stands) {
            let spec = self.newest[&n].spec.clone();
            self.send(n, Action::Check, spec);
        }
    }

    /// Does one write, one look and one job.
    fn work(&mut self, fails: bool) {
        self.bed.write_one();
        if let Some((key, known)) = self.bed.captures.first().cloned() {
            let n = key.resource.0.as_u128();
            let Spec::File(file) = &self.newest[&n].spec else { unreachable!("only files here") };
            let before =
                known.into_iter().next().unwrap_or_else(|| Before::new(self.files[&file.path].clone()));
            let text = String::from_utf8(before.written().to_vec()).expect("the texts of this test");
            self.bed.captured(n, if fails { Err(failed("no")) } else { Ok(&text) });
        }
        if let Some((job, before)) = self.bed.runs.first().cloned() {
            let Spec::File(file) = &job.spec else { unreachable!("only files here") };
            let content = match (job.action, before) {
                (Action::Delete, before) => before.expect("there is something to restore").written().to_vec(),
                (Action::Create | Action::Update | Action::Adopt, _) => b"Muster's".to_vec(),
                (Action::Check | Action::Retain, _) => unreachable!("the host is not touched"),
            };
            if !fails {
                self.files.insert(file.path.clone(), content);
            }
            self.bed.ran(job.resource.0.as_u128(), if fails { Err(failed("no")) } else { Ok(()) });
        }
        if let Some(job) = self.bed.checks.first() {
            let differs = Found::Differs { missing: false, reason: "content".into() };
            self.bed.checked(job.resource.0.as_u128(), if fails { differs } else { Found::AsDesired });
        }
        for report in self.bed.reports() {
            self.bed.down(Down::Acknowledge(report.key));
        }
    }

    fn crash(mut self) -> Self {
        self.bed = self.bed.crash();
        self.bed.disk_is_quick = false;
        self.bed.greet();
        self
    }

    /// Deletes all resources in this order; each job is sent again until it is done.
    fn end(mut self, order: &[u128]) {
        for &n in order {
            self.delete(n);
        }
        for attempt in 1..20 {
            for &n in order {
                if let Some(job) = self.newest.get(&n) {
                    self.bed.job(&again(job, attempt));
                }
            }
            for _ in 0..40 {
                self.work(false);
            }
        }
        for (path, content) in &self.files {
            assert_eq!(*content, original(path), "{path}");
        }
        let left = self.bed.agent.entries().find(|entry| !entry.is_tombstone());
        assert_eq!(left, None);
    }
}

fn play(steps: Vec<Step>, order: &[u128]) {
    let mut site = Site::new();
    for step in steps {
        match step {
            Step::Want { n, path } => site.want(n, path),
            Step::Delete { n } => site.delete(n),
            Step::Check { n } => site.check(n),
            Step::Withdraw { n } => {
                if let Some(job) = site.newest.get(&n) {
                    let (resource, generation) = (job.resource, job.generation);
                    site.bed.down(Down::Withdraw { resource, generation });
                }
            }
            Step::Work { fails } => site.work(fails),
            Step::FailWrite => site.bed.fail_one(),
            Step::Crash => site = site.crash(),
        }
    }
    site.end(order);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_there_before_comes_back(
        steps in prop::collection::vec(step(), 1..60),
        order in Just((0..RESOURCES).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        play(steps, &order);
    }
}
