//! Random graphs that are changed at any moment, with nodes that come and go and controllers that
//! are killed.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::bed::{Bed, files, node, options, parse, stack, template, under};
use crate::{Hook, Limits, Options, Request, Source, SourceText};

/// Number of cases. A long run sets more: `PROPTEST_CASES=20000 cargo test -p muster-engine`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// Up to ten resources. Each needs some of those before it, in a random order of names. Returns
/// those on nodes.
fn graph(dice: &mut Dice) -> (Source, Vec<(String, Vec<String>)>) {
    let mut names: Vec<String> = ('a'..='j').map(String::from).collect();
    for i in (1..names.len()).rev() {
        names.swap(i, dice.roll(i + 1));
    }
    names.truncate(1 + dice.roll(10));
    let mut lines = String::new();
    let (mut expected, mut here): (Vec<(String, Vec<String>)>, _) = (Vec::new(), BTreeSet::new());
    for (at, name) in names.iter().enumerate() {
        let needs: Vec<String> = names[..at].iter().filter(|_| dice.roll(3) == 0).cloned().collect();
        let forced = if dice.roll(3) == 0 { "!" } else { "" };
        let value = dice.roll(3);
        // One in four is a virtual resource, which no node ever sees.
        let is_here = dice.roll(4) == 0;
        let what = match is_here {
            true => format!("here {forced}v={value}"),
            false => format!("{forced}v={value} node=node-{}", dice.roll(2)),
        };
        lines.push_str(&format!("{name}: {what} | {}\n", needs.join(" ")));
        if is_here {
            here.insert(name.clone());
        } else {
            expected.push((name.clone(), needs));
        }
    }
    for (_, needs) in &mut expected {
        needs.retain(|need| !here.contains(need));
    }
    (template(&lines), expected)
}

/// Up to eight resources whose values come from others: their attributes and their ids.
pub fn graph_with_references(dice: &mut Dice) -> Source {
    let mut text = String::from("heat_template_version: 2018-08-31\nresources:\n");
    let names: Vec<&str> =
        ["a", "b", "c", "d", "e", "f", "g", "h"].into_iter().filter(|_| dice.roll(4) > 0).collect();
    for (at, name) in names.iter().enumerate() {
        let forced = if dice.roll(3) == 0 { "!" } else { "" };
        let value = match (dice.roll(4), at) {
            (0, 1..) => format!("{{get_resource: {}}}", names[dice.roll(at)]),
            // Every resource has the value 'v'.
            (1, 1..) => format!("{{get_attr: [{}, v]}}", names[dice.roll(at)]),
            _ => dice.roll(3).to_string(),
        };
        let place = ["", "node: node-0, ", "node: node-1, "][dice.roll(3)];
        text.push_str(&format!(
            "  {name}: {{type: Muster::Dummy, properties: {{{place}values: {{v: {value}, '{forced}w': {}}}}}}}\n",
            dice.roll(2)
        ));
    }
    parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })
}

fn names(bed: &Bed) -> Vec<String> {
    bed.reality().into_iter().map(|(name, _)| name).collect()
}

fn settle(bed: &mut Bed) {
    let away = |bed: &Bed| {
        let host = bed.hosts.iter().find(|(_, host)| host.connection.is_none());
        host.map(|(name, _)| name.clone())
    };
    while let Some(host) = away(bed) {
        bring_back(bed, &host);
    }
    let running = |bed: &Bed| {
        let host = bed.hosts.iter().find(|(_, host)| !host.running.is_empty());
        host.map(|(name, _)| name.clone())
    };
    while let Some(host) = running(bed) {
        bed.end(&host);
    }
    bed.idle();
    // A failed clean-up is tried again when its node connects.
    for host in bed.hosts.keys().cloned().collect::<Vec<_>>() {
        if !bed.lost(&host).is_empty() {
            bed.disconnect(&host);
            bed.connect(&host);
        }
    }
    bed.idle();
    while bed.clear_all() {
        bed.idle();
    }
}

/// Random policies of an environment for some of the files.
fn policies(dice: &mut Dice) -> String {
    let mut rules = String::new();
    for name in ["a", "b", "c", "'*'"] {
        let hook = Hook::ALL[dice.roll(6)].as_str();
        rules.push_str(&match dice.roll(5) {
            0 | 1 => format!("{name}: {{hooks: {hook}}}, "),
            2 => format!("{name}: {{restricted_actions: {}}}, ", ["update", "replace"][dice.roll(2)]),
            _ => String::new(),
        });
    }
    rules
}

/// Connects a node, which joins again first if necessary.
fn bring_back(bed: &mut Bed, host: &muster_shared::NodeId) {
    if ["none", "lost", "revoked"].contains(&&*bed.node_state(host)) {
        bed.rejoin(host);
    }
    bed.connect(host);
}

/// An operator revokes or removes a node, or brings it back.
fn operate(bed: &mut Bed, dice: &mut Dice, host: &muster_shared::NodeId) {
    match dice.roll(3) {
        0 => drop(bed.ask(Request::RevokeNode { node: host.clone() })),
        1 => drop(bed.ask(Request::RemoveNode { node: host.clone() })),
        _ => bring_back(bed, host),
    }
}

/// A host's first job begins, or the one that began first ends.
fn begin_or_end(bed: &mut Bed, host: &muster_shared::NodeId, begin: bool) {
    match begin {
        true if !bed.hosts[host].queue.is_empty() => bed.begin(host),
        false if !bed.hosts[host].running.is_empty() => bed.end(host),
        _ => {}
    }
}

proptest! {
    // A failing seed is printed, and is added to what_once_failed(). There is no file of seeds.
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Without disturbance: each resource is made after its needs, every one is reached, all are
    /// deleted in reverse order, and nothing is left.
    #[test]
    fn order_is_kept(seed: u64) {
        let mut dice = Dice(seed);
        let (source, expected) = graph(&mut dice);
        let mut bed = Bed::new(2);
        bed.create(source).unwrap();
        while let Some(host) = pick(&mut bed, &mut dice) {
            let at = dice.roll(bed.hosts[&host].queue.len());
            bed.run_at(&host, at);
            let there: BTreeSet<String> = names(&bed).into_iter().collect();
            for (name, needs) in &expected {
                prop_assert!(!there.contains(name) || needs.iter().all(|need| there.contains(need)), "{name} too early");
            }
        }
        prop_assert_eq!(bed.status(), "CREATE_COMPLETE");
        prop_assert_eq!(names(&bed).len(), expected.len());
        bed.delete().unwrap();
        while let Some(host) = pick(&mut bed, &mut dice) {
            let at = dice.roll(bed.hosts[&host].queue.len());
            bed.run_at(&host, at);
            let there: BTreeSet<String> = names(&bed).into_iter().collect();
            for (name, needs) in &expected {
                prop_assert!(!there.contains(name) || needs.iter().all(|need| there.contains(need)), "{name} left behind");
            }
        }
        prop_assert_eq!(bed.status(), "gone");
        prop_assert!(bed.reality().is_empty() && bed.tables.rows.is_empty());
    }

    /// With disturbance at any moment: in the end things are as in the last revision, and none is
    /// forgotten or doubled.
    #[test]
    fn whatever_happens_reality_is_the_last_revision(seed: u64) {
        graphs_come_and_go(seed, MANY)?;
    }

    /// Nested stacks and groups whose size follows from others, with disturbance at any moment: in
    /// the end things are as in the last revision, and all of them can be deleted.
    #[test]
    fn whatever_happens_a_tree_is_the_last_revision(seed: u64) {
        trees_come_and_go(seed, MANY)?;
    }

    /// As above, with so few rows in a turn that operators, nodes and restarts come between the
    /// slices of an operation.
    #[test]
    fn whatever_comes_between_slices_reality_is_the_last_revision(seed: u64, rows in 1_usize..4) {
        graphs_come_and_go(seed, rows)?;
        trees_come_and_go(seed, rows)?;
    }

    /// Files that swap, hand over and leave their paths, jobs that fail, nodes that lose all their
    /// things, stacks that are deleted and made again: in the end the disk is as in the last
    /// revision, and nothing unowned is left.
    #[test]
    fn whatever_happens_the_disk_is_the_last_revision(seed: u64) {
        files_come_and_go(seed, disturb_in_any_way)?;
    }
}

/// More rows in a turn than any test has.
const MANY: usize = 10_000;

fn bed_with_rows_per_turn(nodes: usize, rows_per_turn: usize) -> Bed {
    let mut bed = Bed::with(nodes, Limits { rows_per_turn, ..Limits::default() });
    bed.lazy = true;
    bed
}

fn graphs_come_and_go(seed: u64, rows_per_turn: usize) -> Result<(), TestCaseError> {
    let mut dice = Dice(seed);
    let mut bed = bed_with_rows_per_turn(2, rows_per_turn);
    let (source, mut expected) = graph(&mut dice);
    bed.create(source.clone()).unwrap();
    let mut latest = source;
    for _ in 0..dice.roll(30) {
        match dice.roll(18) {
            14 => {
                let host = node(dice.roll(2));
                operate(&mut bed, &mut dice, &host);
            }
            0 => {
                let (source, next) = graph(&mut dice);
                bed.update(source.clone()).unwrap();
                (latest, expected) = (source, next);
            }
            6 => drop(bed.cancel()),      // refused where nothing is IN_PROGRESS
            15 | 16 => drop(bed.check()), // and these where something is
            17 => drop(bed.unhealthy(["a", "b", "c"][dice.roll(3)])),
            7 | 8 => {
                let host = node(dice.roll(2));
                begin_or_end(&mut bed, &host, dice.roll(2) == 0);
            }
            1 => bed.restart(),
            2 => bed.disconnect(&node(dice.roll(2))),
            3 => {
                let host = node(dice.roll(2));
                bed.disconnect(&host);
                bed.connect(&host);
            }
            4 => {
                // An agent restarts: jobs it had only in its queue come again after its Hello.
                let host = node(dice.roll(2));
                bed.disconnect(&host);
                bed.hosts.get_mut(&host).unwrap().queue.clear();
            }
            5 => {
                // The controller dies after its commit and before its effects.
                bed.dying = true;
                if let Some(host) = pick(&mut bed, &mut dice) {
                    bed.run_at(&host, 0);
                }
                bed.restart();
            }
            _ => {
                if let Some(host) = pick(&mut bed, &mut dice) {
                    let at = dice.roll(bed.hosts[&host].queue.len());
                    bed.run_at(&host, at);
                }
            }
        }
        let there = names(&bed);
        prop_assert!(
            !there.iter().any(|name| name.starts_with("forgotten")),
            "a thing without a row: {there:?}"
        );
        bed.is_loaded_as_it_is();
    }
    settle(&mut bed);
    let failed = |bed: &Bed| bed.resources().iter().any(|row| row.status == "FAILED");
    let cancelled = bed.view().is_some_and(|view| view.status_reason == "cancelled");
    if cancelled || bed.status() == "CHECK_FAILED" || failed(&bed) {
        bed.update(latest).unwrap();
        settle(&mut bed);
    }
    prop_assert!(
        bed.status().ends_with("_COMPLETE"),
        "{} {:?} {:#?}",
        bed.status(),
        bed.view(),
        bed.resources()
    );
    let mut wanted: Vec<String> = expected.iter().map(|(name, _)| name.clone()).collect();
    wanted.sort();
    prop_assert_eq!(names(&bed), wanted);
    prop_assert!(bed.resources().iter().all(|row| row.observed == "in_sync" && row.phase.is_empty()));
    let before = bed.ran.len();
    bed.restart();
    settle(&mut bed);
    prop_assert_eq!(bed.ran.len(), before, "a restart of a settled site does nothing");
    bed.delete().unwrap();
    settle(&mut bed);
    prop_assert!(bed.engine.view().stack_view(&stack()).is_none());
    prop_assert!(bed.reality().is_empty() && bed.tables.rows.is_empty() && bed.tables.contents.is_empty());
    Ok(())
}

/// Nested stacks, chains and groups, and the things that nodes must have. Some counts are known
/// only once another resource is made.
fn nest(dice: &mut Dice) -> (Source, Vec<String>) {
    let inner = dice.roll(3);
    let server = format!(
        "parameters: {{p: {{type: string, default: x}}}}\nresources:\n  \
           v: {{type: OS::Heat::Value, properties: {{value: [{{get_param: p}}, {inner}]}}}}\n  \
           d: {{type: Muster::Dummy, properties: {{node: node-1, values: {{v: {{get_attr: [v, value, 0]}}}}}}}}\n\
         outputs: {{o: {{value: {{get_attr: [d, v]}}}}}}"
    );
    let (count, late) = (dice.roll(4), dice.roll(2) == 0);
    let asked = if late { "{get_attr: [n, count]}".to_owned() } else { count.to_string() };
    let forced = if dice.roll(3) == 0 { "!" } else { "" };
    let definition = match dice.roll(3) {
        0 => "{type: server.yaml, properties: {p: 'i%index%'}}",
        1 => "{type: server.yaml, properties: {p: {get_attr: [n, count]}}}",
        _ => "{type: Muster::Dummy, properties: {node: node-0, values: {i: '%index%'}}}",
    };
    let suffix = if definition.contains("server") { "/d" } else { "" };
    let policy =
        ["", ", update_policy: {rolling_update: {max_batch_size: 1}, batch_create: {max_batch_size: 2}}"]
            [dice.roll(2)];
    let mut lines = vec![
        format!(
            "n: {{type: Muster::Dummy, properties: {{node: node-0, values: {{count: {count}, '{forced}f': {}}}}}}}",
            dice.roll(2)
        ),
        format!(
            "g: {{type: OS::Heat::ResourceGroup{policy}, properties: {{count: {asked}, resource_def: {definition}}}}}"
        ),
    ];
    let mut wanted = vec!["n".to_owned()];
    wanted.extend((0..count).map(|at| format!("g/{at}{suffix}")));
    if dice.roll(2) == 0 {
        let p = ["a", "{get_attr: [n, count]}", "{get_resource: n}"][dice.roll(3)];
        lines.push(format!("s: {{type: server.yaml, properties: {{p: {p}}}}}"));
        wanted.push("s/d".to_owned());
    }
    if dice.roll(2) == 0 {
        lines.push(
            "c: {type: OS::Heat::ResourceChain, properties: {resources: [server.yaml, server.yaml]}}".into(),
        );
        wanted.extend(["c/0/d".to_owned(), "c/1/d".to_owned()]);
    }
    if dice.roll(2) == 0 {
        lines.push(
            "z: {type: Muster::Dummy, properties: {values: {all: {list_join: [',', {get_attr: [g, refs]}]}}}}".into(),
        );
        wanted.push("z".to_owned());
    }
    wanted.sort();
    let root = format!("resources:\n  {}", lines.join("\n  "));
    (super::trees::source(&root, &[("server.yaml", &server)]), wanted)
}

fn trees_come_and_go(seed: u64, rows_per_turn: usize) -> Result<(), TestCaseError> {
    let mut dice = Dice(seed);
    let mut bed = bed_with_rows_per_turn(2, rows_per_turn);
    bed.create(nest(&mut dice).0).unwrap();
    for step in 0..dice.roll(25) {
        let host = node(dice.roll(2));
        match dice.roll(14) {
            0 | 1 => drop(bed.update(nest(&mut dice).0)),
            2 => drop(bed.rollback(None)),
            3 => bed.restart(),
            4 => bed.disconnect(&host),
            5 => {
                bed.dying = true;
                if let Some(host) = pick(&mut bed, &mut dice) {
                    bed.run_at(&host, 0);
                }
                bed.restart();
            }
            6 => drop(bed.cancel()),
            7 => bed.fail_next(&host, dice.roll(2) == 0),
            8 => drop(bed.check()),
            9 => drop(bed.unhealthy(["n", "g/0", "s", "s/v"][dice.roll(4)])),
            _ => {
                if bed.hosts[&host].connection.is_none() {
                    bed.connect(&host);
                }
                if let Some(host) = pick(&mut bed, &mut dice) {
                    let at = dice.roll(bed.hosts[&host].queue.len());
                    bed.run_at(&host, at);
                }
            }
        }
        let there = names(&bed);
        prop_assert!(
            !there.iter().any(|name| name.starts_with("forgotten")),
            "a thing without a row: {there:?}"
        );
        bed.is_loaded_as_it_is_at(step);
    }
    settle(&mut bed);
    let (source, wanted) = nest(&mut dice);
    bed.update(source.clone()).unwrap();
    settle(&mut bed);
    prop_assert!(
        bed.status().ends_with("_COMPLETE"),
        "{} {:?} {:#?}",
        bed.status(),
        bed.view(),
        bed.resources()
    );
    prop_assert_eq!(names(&bed), wanted);
    let mut rows: Vec<String> = bed.resources().into_iter().map(|row| row.name).collect();
    rows.sort();
    rows.dedup();
    prop_assert_eq!(rows.len(), bed.resources().len());
    prop_assert!(bed.resources().iter().all(|row| row.observed == "in_sync" && row.phase.is_empty()));
    let before = bed.ran.len();
    bed.restart();
    settle(&mut bed);
    bed.update(source).unwrap();
    settle(&mut bed);
    prop_assert_eq!(
        (bed.ran.len(), bed.status()),
        (before, "UPDATE_COMPLETE".to_owned()),
        "nothing has changed"
    );
    bed.delete().unwrap();
    settle(&mut bed);
    prop_assert_eq!(bed.status(), "gone");
    prop_assert!(bed.tables.rows.is_empty() && bed.tables.edges.is_empty());
    prop_assert!(bed.engine.poll_timeout().is_none(), "a timer for nothing");
    Ok(())
}

/// Seeds that once failed.
#[test]
fn what_once_failed() {
    for seed in [16_065_722_576_162_717_154, 11_328_772_647_999_336_370, 1_212_163_386_786_329_735] {
        files_come_and_go(seed, disturb).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    files_come_and_go(1_493_301_245_882_187_789, disturb_in_any_way).expect("a check beside a hook");
    files_come_and_go(11_744_166_735_476_576_433, disturb_in_any_way)
        .expect("two jobs of one path at a time");
    for seed in [11_718_325_506_864_118_528, 17_284_550_278_682_662_899] {
        graphs_come_and_go(seed, MANY).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    graphs_come_and_go(13_051_320_172_870_652_071, 3).expect("jobs that were never sent, after a restart");
}

fn files_come_and_go(seed: u64, disturb: fn(&mut Bed, &mut Dice)) -> Result<(), TestCaseError> {
    let mut dice = Dice(seed);
    let narrow = |dice: &mut Dice| if dice.roll(2) == 0 { 1 + dice.roll(3) } else { 1000 };
    let (per_node, per_stack) = (narrow(&mut dice), narrow(&mut dice));
    let mut bed = Bed::with(
        1,
        Limits { in_flight_per_node: per_node, in_flight_per_stack: per_stack, ..Limits::default() },
    );
    bed.create(paths(&mut dice).0).unwrap();
    for step in 0..dice.roll(40) {
        disturb(&mut bed, &mut dice);
        // Where jobs wait for room, a start decides later about those that were never sent.
        if per_node.min(per_stack) > 10 {
            bed.is_loaded_as_it_is_at(step);
        }
    }
    settle(&mut bed);
    let (source, wanted) = paths(&mut dice);
    match bed.status().as_str() {
        "gone" => drop(bed.create(source).unwrap()),
        status if status.starts_with("DELETE") => {
            bed.delete().unwrap();
            settle(&mut bed);
            bed.create(source).unwrap();
        }
        _ => drop(bed.update(source).unwrap()),
    }
    settle(&mut bed);
    prop_assert!(
        bed.status().ends_with("_COMPLETE"),
        "{} {:?} {:#?}",
        bed.status(),
        bed.view(),
        bed.resources()
    );
    prop_assert_eq!(bed.disk(), wanted);
    bed.delete().unwrap();
    settle(&mut bed);
    prop_assert_eq!(bed.status(), "gone");
    prop_assert!(bed.disk().is_empty() && bed.tables.rows.is_empty() && bed.tables.edges.is_empty());
    prop_assert!(bed.tables.contents.is_empty(), "a content nobody needs");
    prop_assert!(bed.engine.traversals.jobs.claims.owners().next().is_none(), "a claim of nobody");
    prop_assert!(bed.engine.poll_timeout().is_none(), "a timer for nothing");
    Ok(())
}

/// Up to six files on some of seven paths, and the resulting disk.
fn paths(dice: &mut Dice) -> (Source, Vec<String>) {
    let mut free: Vec<usize> = (1..8).collect();
    let (mut lines, mut wanted) = (String::new(), Vec::new());
    let mut earlier: Vec<&str> = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        if dice.roll(4) == 0 {
            continue;
        }
        let path = free.remove(dice.roll(free.len()));
        // One in three contents is too large for a job.
        let content = ["x", "y", "z"][dice.roll(3)].repeat(if dice.roll(3) == 0 { 70_000 } else { 1 });
        let needs: Vec<&str> = earlier.iter().filter(|_| dice.roll(3) == 0).copied().collect();
        lines.push_str(&format!("{name}: /{path} {content} | {}\n", needs.join(" ")));
        let shown = match content.len() {
            1 => content,
            _ => muster_shared::model::ContentDigest::of(content.as_bytes()).to_string(),
        };
        wanted.push(format!("/{path} {shown}"));
        earlier.insert(dice.roll(earlier.len() + 1), name);
    }
    wanted.sort();
    (files(&lines), wanted)
}

fn disturb_in_any_way(bed: &mut Bed, dice: &mut Dice) {
    let host = node(0);
    match dice.roll(44) {
        0 => drop(bed.cancel()),
        33..=36 => {
            let source = under(paths(dice).0, &policies(dice));
            let (rollback, delete_first) = (dice.roll(3) == 0, dice.roll(3) == 0);
            let options = Options { rollback, delete_first, ..options() };
            drop(bed.ask(Request::Update { name: stack(), source, options })); // refused while there is none
        }
        37..=40 => drop(bed.clear_all()),
        41 | 42 => drop(bed.check()),
        43 => drop(bed.unhealthy(["a", "b", "c"][dice.roll(3)])),
        30.. => operate(bed, dice, &host),
        1..=5 => begin_or_end(bed, &host, dice.roll(2) == 0),
        _ => disturb(bed, dice),
    }
}

/// Rolls the dice as when the seeds above were found, so they stay valid.
fn disturb(bed: &mut Bed, dice: &mut Dice) {
    let host = node(0);
    match dice.roll(20) {
        0 | 1 if bed.status() == "gone" => drop(bed.create(paths(dice).0).unwrap()),
        0 | 1 => drop(bed.update(paths(dice).0)), // refused while it is being deleted
        2 => drop(bed.rollback(None)),
        3 => drop(bed.delete()),
        4 => bed.restart(),
        5 => bed.disconnect(&host),
        6 => {
            bed.disconnect(&host);
            bed.hosts.get_mut(&host).unwrap().queue.clear();
            bed.connect(&host);
        }
        7 => {
            bed.dying = true;
            bed.run_at(&host, 0);
            bed.restart();
        }
        8 => {
            // A new server joins under the name.
            bed.disconnect(&host);
            *bed.hosts.get_mut(&host).unwrap() = super::host::Host::default();
            bed.rejoin(&host);
            bed.connect(&host);
        }
        9 => bed.fail_next(&host, dice.roll(2) == 0),
        10 => bed.pass(std::time::Duration::from_secs(5)),
        _ if bed.hosts[&host].connection.is_none() && dice.roll(3) == 0 => bed.connect(&host),
        _ => {
            if let Some(host) = pick(bed, dice) {
                let at = dice.roll(bed.hosts[&host].queue.len());
                bed.run_at(&host, at);
            }
        }
    }
}

/// A connected host that has something to do.
fn pick(bed: &mut Bed, dice: &mut Dice) -> Option<muster_shared::NodeId> {
    let busy: Vec<_> = bed
        .hosts
        .iter()
        .filter(|(_, host)| host.connection.is_some() && !host.queue.is_empty())
        .map(|(name, _)| name.clone())
        .collect();
    (!busy.is_empty()).then(|| busy[dice.roll(busy.len())].clone())
}
