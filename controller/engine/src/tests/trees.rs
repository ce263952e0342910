//! Nested stacks, groups and chains as one graph: made, changed, interrupted and removed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::bed::{Bed, node, options, parse, stack};
use crate::{Options, Request, Source, SourceText};

fn templated(text: &str) -> String {
    format!("heat_template_version: 2018-08-31\n{text}\n")
}

pub fn source(root: &str, files: &[(&str, &str)]) -> Source {
    parse(text(root, files))
}

fn text(root: &str, files: &[(&str, &str)]) -> SourceText {
    let files: BTreeMap<String, String> =
        files.iter().map(|(key, text)| ((*key).to_owned(), templated(text))).collect();
    SourceText { name: "t".into(), template: templated(root), files, ..SourceText::default() }
}

const SERVER: &str = "parameters: {name: {type: string}, size: {type: number, default: 1}}\n\
    resources:\n  \
      disk: {type: OS::Heat::Value, properties: {value: {get_param: size}}}\n  \
      host: {type: Muster::Dummy, properties: {node: node-0, values: {name: {get_param: name}, disk: {get_attr: [disk, value]}}}}\n\
    outputs: {name: {value: {get_attr: [host, name]}}, disk: {value: {get_attr: [host, disk]}}}";

fn group(count: &str, more: &str) -> Source {
    let root = format!(
        "resources:\n  \
          first: {{type: Muster::Dummy, properties: {{node: node-0, values: {{count: 2}}}}}}\n  \
          g: {{type: OS::Heat::ResourceGroup, depends_on: first{more}, properties: {{count: {count}, resource_def: {{type: server.yaml, properties: {{name: 'web%index%'}}}}}}}}\n  \
          last: {{type: Muster::Dummy, properties: {{node: node-0, values: {{all: {{list_join: [',', {{get_attr: [g, name]}}]}}}}}}}}\n\
         outputs: {{names: {{value: {{get_attr: [g, name]}}}}}}"
    );
    source(&root, &[("server.yaml", SERVER)])
}

fn names(bed: &Bed) -> Vec<String> {
    bed.resources().iter().map(|row| row.name.clone()).collect()
}

fn output(bed: &Bed) -> serde_json::Value {
    bed.view().unwrap().outputs[0].value.clone()
}

fn is_clean(bed: &Bed) -> bool {
    bed.tables.rows.is_empty() && bed.tables.edges.is_empty() && bed.engine.poll_timeout().is_none()
}

#[test]
fn a_group_of_nested_stacks_lives_and_goes() {
    let mut bed = Bed::new(1);
    bed.create(group("2", "")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert_eq!(bed.ran, ["Create first", "Create g/0/host", "Create g/1/host", "Create last"]);
    assert_eq!(output(&bed), json!(["web0", "web1"]));
    assert_eq!(
        names(&bed),
        ["first", "g", "g/0", "g/0/disk", "g/0/host", "g/1", "g/1/disk", "g/1/host", "last"]
    );
    let kinds: Vec<String> = bed.resources().into_iter().map(|row| row.kind).collect();
    assert_eq!(kinds[1..4], ["OS::Heat::ResourceGroup", "server.yaml", "OS::Heat::Value"]);
    assert_eq!(bed.resource("g/0").requires, ["first", "g/0/disk", "g/0/host"]);
    // The cost of an update follows from the change.
    bed.ran.clear();
    bed.update(group("3", "")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), output(&bed)), ("UPDATE_COMPLETE", json!(["web0", "web1", "web2"])));
    assert_eq!(bed.ran, ["Create g/2/host", "Update last"]);
    bed.ran.clear();
    bed.restart();
    bed.connect(&node(0));
    assert_eq!(bed.resource("g/0").kind, "server.yaml", "also after a restart");
    bed.update(group("1", "")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    let mut ran = bed.ran.clone();
    ran.sort();
    assert_eq!(ran, ["Delete g/1/host", "Delete g/2/host", "Update last"]);
    bed.check().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CHECK_COMPLETE");
    bed.rollback(Some(1)).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), output(&bed)), ("ROLLBACK_COMPLETE", json!(["web0", "web1"])));
    bed.ran.clear();
    bed.delete().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "gone");
    assert_eq!(
        (bed.ran.first().unwrap().as_str(), bed.ran.last().unwrap().as_str()),
        ("Delete last", "Delete first")
    );
    assert!(is_clean(&bed));
}

#[test]
fn a_change_inside_touches_what_it_is_of() {
    let with = |size: &str| {
        let root = format!(
            "resources:\n  a: {{type: server.yaml, properties: {{name: x, size: {size}}}}}\n  b: {{type: server.yaml, properties: {{name: y}}}}\n  \
             c: {{type: Muster::Dummy, properties: {{node: node-0, values: {{d: {{get_attr: [a, disk]}}}}}}}}\n"
        );
        source(&root, &[("server.yaml", SERVER)])
    };
    let mut bed = Bed::new(1);
    bed.create(with("1")).unwrap();
    bed.idle();
    bed.ran.clear();
    let view = bed.engine.view().preview(&stack(), &with("2"), None, &options()).unwrap();
    let changed: Vec<String> = view
        .resources
        .iter()
        .filter(|row| row.change != "unchanged")
        .map(|row| format!("{} {} {}", row.name, row.kind, row.change))
        .collect();
    assert_eq!(
        changed,
        ["a/disk OS::Heat::Value update", "a/host Muster::Dummy update", "c Muster::Dummy update"]
    );
    bed.update(with("2")).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Update a/host", "Update c"]);
    bed.unhealthy("b/host").unwrap();
    bed.ran.clear();
    bed.update(with("2")).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Create b/host", "Delete b/host"]);
}

#[test]
fn a_count_that_is_known_later() {
    let with = |count: &str| {
        let root = format!(
            "resources:\n  \
              n: {{type: Muster::Dummy, properties: {{node: node-0, values: {{count: {count}}}}}}}\n  \
              g: {{type: OS::Heat::ResourceGroup, properties: {{count: {{get_attr: [n, count]}}, resource_def: {{type: server.yaml, properties: {{name: 'w%index%'}}}}}}}}\n  \
              z: {{type: Muster::Dummy, properties: {{node: node-0, values: {{all: {{list_join: [',', {{get_attr: [g, name]}}]}}}}}}}}\n\
             outputs: {{names: {{value: {{get_attr: [g, name]}}}}}}"
        );
        source(&root, &[("server.yaml", SERVER)])
    };
    for dies in [false, true] {
        let mut bed = Bed::new(1);
        bed.create(with("2")).unwrap();
        assert_eq!(names(&bed), ["g", "n", "z"], "until it is known its node stands for it");
        bed.dying = dies;
        bed.run_at(&node(0), 0);
        if dies {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.idle();
        assert_eq!((bed.status().as_str(), output(&bed)), ("CREATE_COMPLETE", json!(["w0", "w1"])));
        let traversal = bed.view().unwrap().traversal;
        bed.ran.clear();
        bed.update(with("3")).unwrap();
        bed.idle();
        assert_eq!((bed.status().as_str(), output(&bed)), ("UPDATE_COMPLETE", json!(["w0", "w1", "w2"])));
        assert_eq!(bed.ran, ["Update n", "Create g/2/host", "Update z"]);
        assert_eq!(bed.view().unwrap().traversal, traversal + 1, "one operation");
        bed.ran.clear();
        bed.update(with("1")).unwrap();
        bed.restart();
        bed.connect(&node(0));
        bed.idle();
        assert_eq!((bed.status().as_str(), output(&bed)), ("UPDATE_COMPLETE", json!(["w0"])));
        bed.ran.clear();
        bed.update(with("1")).unwrap();
        assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_COMPLETE", 0), "nothing changed");
        bed.update(with("many")).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_FAILED");
        assert!(bed.view().unwrap().status_reason.contains("want a whole number"), "{:?}", bed.view());
        bed.update(with("0")).unwrap();
        bed.idle();
        assert_eq!((bed.status().as_str(), output(&bed)), ("UPDATE_COMPLETE", json!([])));
        bed.delete().unwrap();
        bed.idle();
        assert!(is_clean(&bed));
    }
}

#[test]
fn failed_and_cleared_rows_stay_so_when_a_count_becomes_known() {
    let root = "resources:\n  \
          bad: {type: OS::Heat::TestResource, properties: {fail: true}}\n  \
          n: {type: Muster::Dummy, properties: {node: node-0, values: {count: 2}}}\n  \
          g: {type: OS::Heat::ResourceGroup, properties: {count: {get_attr: [n, count]}, resource_def: {type: Muster::Dummy, properties: {node: node-0, values: {v: '%index%'}}}}}";
    let mut bed = Bed::new(1);
    bed.create(source(root, &[])).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert_eq!(bed.ran, ["Create n", "Create g/0", "Create g/1"], "what can go on does");
    let failed = bed.tables.events.iter().filter(|event| *event == "bad CREATE_FAILED").count();
    assert_eq!(failed, 1);
    bed.delete().unwrap();
    bed.idle();
    assert!(is_clean(&bed));
}

#[test]
fn batches_go_one_after_the_other_and_stop_where_one_fails() {
    let with = |fail: &str| {
        let root = format!(
            "resources: {{g: {{type: OS::Heat::ResourceGroup, update_policy: {{rolling_update: {{max_batch_size: 2}}, batch_create: {{max_batch_size: 1}}}}, \
             properties: {{count: 4, resource_def: {{type: Muster::Dummy, properties: {{node: node-0, {fail} values: {{v: '%index%'}}}}}}}}}}}}"
        );
        source(&root, &[])
    };
    let mut bed = Bed::new(1);
    bed.create(with("")).unwrap();
    assert_eq!(bed.hosts[&node(0)].queue.len(), 1);
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.len()), ("CREATE_COMPLETE", 4));
    bed.ran.clear();
    bed.update(with("fail: update,")).unwrap();
    assert_eq!(bed.hosts[&node(0)].queue.len(), 2, "the batches of an update");
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_FAILED");
    assert!(bed.ran.iter().all(|job| job == "Update g/0" || job == "Update g/1"), "{:?}", bed.ran);
}

/// A group of four nested stacks of two, in batches of two with a pause of 30.5 s.
fn paused(v: u32, more: &str) -> Source {
    let root = format!(
        "resources: {{g: {{type: OS::Heat::ResourceGroup, update_policy: {{rolling_update: {{max_batch_size: 2, pause_time: 30.5}}, \
         batch_create: {{max_batch_size: 2, pause_time: '30'}}}}, \
         properties: {{count: 4, resource_def: {{type: m.yaml, properties: {{v: {v}, n: '%index%'}}}}}}}}{more}}}"
    );
    let member = "parameters: {v: {type: number}, n: {type: string}}\nresources:\n  \
        a: {type: Muster::Dummy, properties: {node: node-0, values: {v: {get_param: v}}}}\n  \
        b: {type: Muster::Dummy, depends_on: a, properties: {node: node-0, values: {v: {get_param: v}}}}";
    source(&root, &[("m.yaml", member)])
}

fn ran(bed: &mut Bed) -> String {
    bed.idle();
    std::mem::take(&mut bed.ran)
        .iter()
        .map(|job| job.rsplit("g/").next().unwrap_or(job).to_owned() + " ")
        .collect()
}

/// The first member's node is away until the stack has timed out.
#[test]
fn no_further_batch_begins_when_the_time_is_over() {
    let member =
        |v: u32| format!("{{type: Muster::Dummy, properties: {{node: node-%index%, values: {{v: '{v}'}}}}}}");
    let group = |v: u32, policy: &str| {
        let member = member(v);
        format!(
            "{{type: OS::Heat::ResourceGroup, properties: {{count: 3, resource_def: {member}}}, \
             update_policy: {{rolling_update: {{max_batch_size: 1{policy}}}}}}}"
        )
    };
    let chain = |v: u32, _: &str| {
        let properties = format!("{{node: node-0, values: {{v: '{v}'}}}}");
        format!(
            "{{type: OS::Heat::ResourceChain, properties: {{resources: [Muster::Dummy, Muster::Dummy], \
             resource_properties: {properties}}}}}"
        )
    };
    type Kind<'k> = &'k dyn Fn(u32, &str) -> String;
    let cases: [(Kind<'_>, &str, &str, &str); 3] = [
        (&group, "", "UPDATE_FAILED", "Update g/0"),
        (&group, ", pause_time: 5", "UPDATE_FAILED", "Update g/0"),
        // Without batches, the branch of a node that returns is finished.
        (&chain, "", "UPDATE_COMPLETE", "Update g/0 Update g/1"),
    ];
    for (kind, policy, status, ran) in cases {
        for restarts in [false, true] {
            let of = |v: u32| {
                let template =
                    format!("heat_template_version: 2018-08-31\nresources: {{g: {}}}\n", kind(v, policy));
                parse(SourceText { name: "t".into(), template, ..SourceText::default() })
            };
            let mut bed = Bed::new(3);
            bed.create(of(1)).unwrap();
            bed.idle();
            assert_eq!(bed.status(), "CREATE_COMPLETE");
            bed.disconnect(&node(0));
            bed.ran.clear();
            let options = Options { timeout: Duration::from_secs(60), ..options() };
            bed.ask(Request::Update { name: stack(), source: of(2), options }).unwrap();
            bed.pass(Duration::from_secs(60));
            let timed_out = bed.view().unwrap().status_reason;
            assert_eq!(timed_out, "timed out after 60 s; missing nodes: node-0");
            if restarts {
                bed.restart();
            }
            for at in 0..3 {
                bed.connect(&node(at));
            }
            bed.idle();
            bed.pass(Duration::from_secs(60));
            bed.idle();
            assert_eq!((&*bed.status(), bed.ran.join(" ").as_str()), (status, ran), "{policy} {restarts}");
            if status == "UPDATE_FAILED" {
                assert_eq!(bed.view().unwrap().status_reason, timed_out);
                assert_eq!((&*bed.resource("g/1").phase, &*bed.resource("g/2").phase), ("", ""));
            }
            // The next operation goes on from that state.
            bed.update(of(2)).unwrap();
            bed.idle();
            bed.pass(Duration::from_secs(10));
            bed.idle();
            bed.pass(Duration::from_secs(10));
            bed.idle();
            assert_eq!(bed.status(), "UPDATE_COMPLETE", "{policy}");
        }
    }
}

/// The second member's node is away until the stack has timed out: its batch has begun.
#[test]
fn a_batch_that_began_in_time_goes_on_after_a_restart() {
    let group = |v: u32| {
        source(
            &format!(
                "resources: {{g: {{type: OS::Heat::ResourceGroup, update_policy: {{rolling_update: {{max_batch_size: 1}}}}, \
                 properties: {{count: 3, resource_def: {{type: Muster::Dummy, properties: {{node: node-%index%, values: {{v: '{v}'}}}}}}}}}}}}"
            ),
            &[],
        )
    };
    for restarts in 0..3 {
        let mut bed = Bed::new(3);
        bed.create(group(1)).unwrap();
        bed.idle();
        bed.disconnect(&node(1));
        let options = Options { timeout: Duration::from_secs(60), ..options() };
        bed.ask(Request::Update { name: stack(), source: group(2), options }).unwrap();
        bed.idle();
        bed.pass(Duration::from_secs(60));
        assert_eq!(bed.view().unwrap().status_reason, "timed out after 60 s; missing nodes: node-1");
        bed.ran.clear();
        (0..restarts).for_each(|_| bed.restart());
        (0..3).for_each(|at| bed.connect(&node(at)));
        bed.idle();
        assert_eq!(bed.ran, ["Update g/1"], "{restarts}");
    }
}

#[test]
fn a_batch_begins_some_time_after_the_one_before() {
    const FIRST: &str = "0/a 1/a 0/b 1/b ";
    const SECOND: &str = "2/a 3/a 2/b 3/b ";
    let seconds = Duration::from_secs;
    let mut bed = Bed::new(1);
    bed.create(paused(1, "")).unwrap();
    assert_eq!(ran(&mut bed), FIRST);
    bed.pass(seconds(29));
    assert_eq!(ran(&mut bed), "");
    let row = bed.resource("g/2/a");
    assert_eq!((&*row.phase, row.phase_seconds, &*row.status), ("pause", 29, "INIT"));
    assert_eq!(row.status_reason, "its batch begins in 1 s");
    assert_eq!(bed.resource("g/2/b").phase, "waiting");
    bed.pass(seconds(1));
    assert_eq!((ran(&mut bed).as_str(), bed.status().as_str()), (SECOND, "CREATE_COMPLETE"));
    type Happens = fn(&mut Bed);
    let what_happens: [(&str, Happens, Duration, &str, &str); 6] = [
        ("nothing", |_| {}, Duration::from_millis(20_500), SECOND, "UPDATE_COMPLETE"),
        ("a restart", |bed| again(bed, 10), Duration::from_millis(20_500), SECOND, "UPDATE_COMPLETE"),
        (
            "the time is not over after it",
            |bed| again(bed, 10),
            Duration::from_millis(20_499),
            "",
            "UPDATE_IN_PROGRESS",
        ),
        (
            "the same update",
            |bed| drop(bed.update(paused(7, "")).unwrap()),
            seconds(0),
            SECOND,
            "UPDATE_COMPLETE",
        ),
        ("a cancel", |bed| drop(bed.cancel().unwrap()), seconds(99), "", "UPDATE_FAILED"),
        (
            "it goes",
            |bed| drop(bed.delete().unwrap()),
            seconds(99),
            "2/b 3/b 2/a 3/a 0/b 1/b 0/a 1/a ",
            "gone",
        ),
    ];
    for (what, happens, time, wanted, status) in what_happens {
        let mut bed = Bed::new(1);
        bed.create(paused(1, "")).unwrap();
        bed.idle();
        bed.pass(seconds(30));
        bed.idle();
        bed.ran.clear();
        bed.update(paused(7, "")).unwrap();
        assert_eq!(ran(&mut bed), FIRST, "{what}");
        bed.pass(seconds(10));
        happens(&mut bed);
        bed.pass(time);
        assert_eq!((ran(&mut bed).as_str(), bed.status().as_str()), (wanted, status), "{what}");
        let waits = bed.tables.rows.values().filter(|row| row.progress.waited.is_some()).count();
        assert_eq!(waits, if status == "UPDATE_IN_PROGRESS" { 2 } else { 0 }, "{what}");
    }
    // If a batch changes nothing, no member waits. Resources beside the group do not wait either.
    bed.update(paused(1, ", z: {type: Muster::Dummy, depends_on: g, properties: {node: node-0}}")).unwrap();
    bed.idle();
    assert_eq!(
        (bed.ran.as_slice(), bed.status().as_str()),
        (&["Create z".to_owned()][..], "UPDATE_COMPLETE")
    );
    bed.ran.clear();
    // A member that failed before waits as well, also over a restart.
    bed.update(paused(2, "")).unwrap();
    bed.idle();
    bed.pass(seconds(31));
    bed.fail_next(&node(0), true);
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_FAILED");
    bed.update(paused(3, "")).unwrap();
    bed.idle();
    bed.ran.clear();
    again(&mut bed, 3);
    assert_eq!((ran(&mut bed).as_str(), bed.status().as_str()), ("", "UPDATE_IN_PROGRESS"));
    bed.pass(Duration::from_millis(27_500));
    let wanted = (SECOND.to_owned() + "Delete z ", "UPDATE_COMPLETE".to_owned());
    assert_eq!((ran(&mut bed), bed.status()), wanted);
}

/// A restart after the rows have waited for this many seconds.
fn again(bed: &mut Bed, waited: u64) {
    for row in bed.tables.rows.values_mut() {
        row.progress.waited = row.progress.waited.map(|_| Duration::from_secs(waited));
    }
    bed.restart();
    bed.connect(&node(0));
}

#[test]
fn removed_members_never_come_back() {
    let with = |count: usize, policies: &str| {
        let root = format!(
            "resources: {{g: {{type: OS::Heat::ResourceGroup, properties: {{count: {count}, removal_policies_mode: {}, removal_policies: {}, \
             resource_def: {{type: Muster::Dummy, properties: {{node: node-0}}}}}}}}}}",
            if policies.starts_with('u') { "update" } else { "append" },
            policies.trim_start_matches('u')
        );
        source(&root, &[])
    };
    let mut bed = Bed::new(1);
    let steps = [
        (3, "[]", "g g/0 g/1 g/2"),
        (3, "[{resource_list: ['1']}]", "g g/0 g/2 g/3"),
        (3, "[]", "g g/0 g/2 g/3"),
        (4, "[{resource_list: ['0']}]", "g g/2 g/3 g/4 g/5"),
        (2, "u[]", "g g/0 g/1"),
    ];
    for (at, (count, policies, wanted)) in steps.into_iter().enumerate() {
        match at {
            0 => bed.create(with(count, policies)).unwrap(),
            _ => bed.update(with(count, policies)).unwrap(),
        };
        bed.idle();
        assert_eq!(names(&bed).join(" "), wanted, "{policies}");
        bed.restart();
        bed.connect(&node(0));
    }
    // The same holds for a group that is made again.
    bed.update(with(2, "[{resource_list: ['0']}]")).unwrap();
    bed.idle();
    bed.unhealthy("g").unwrap();
    for count in [2, 3] {
        bed.update(with(count, "[]")).unwrap();
        bed.idle();
        assert_eq!(names(&bed).join(" "), ["g g/1 g/2", "g g/1 g/2 g/3"][count - 2]);
    }
    bed.update(with(2, "u[]")).unwrap();
    bed.idle();
    // A member can be removed by its physical id.
    let id = bed.resource("g/0").physical_id;
    bed.update(with(2, &format!("[{{resource_list: ['{id}']}}]"))).unwrap();
    bed.idle();
    assert_eq!(names(&bed).join(" "), "g g/1 g/2");
}

#[test]
fn what_is_removed_by_reference_stays_so_while_that_is_said() {
    let with = |count: usize, listed: &str, value: u8| {
        let root = format!(
            "resources:\n  \
              n: {{type: Muster::Dummy, properties: {{node: node-0, values: {{count: {count}, v: {value}}}}}}}\n  \
              g: {{type: OS::Heat::ResourceGroup, properties: {{count: {{get_attr: [n, count]}}, removal_policies_mode: update, \
             removal_policies: [{{resource_list: [{listed}]}}], resource_def: {{type: Muster::Dummy, properties: {{node: node-0}}}}}}}}"
        );
        source(&root, &[])
    };
    // When the operation goes on after a restart, or is laid out again for a count that became
    // known, the member that the reference means may be gone.
    for (count, restarts) in [(2, false), (2, true), (3, false), (3, true)] {
        let mut bed = Bed::new(1);
        bed.create(with(2, "", 0)).unwrap();
        bed.idle();
        let listed = format!("'{}'", bed.resource("g/0").physical_id);
        let wanted = if count == 2 { "g g/1 g/2 n" } else { "g g/1 g/2 g/3 n" };
        bed.update(with(count, &listed, 0)).unwrap();
        if restarts {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.idle();
        assert_eq!((bed.status().as_str(), &*names(&bed).join(" ")), ("UPDATE_COMPLETE", wanted));
        bed.update(with(count, &listed, 1)).unwrap();
        bed.idle();
        assert_eq!(names(&bed).join(" "), wanted, "nothing else was said of it");
        bed.update(with(2, "", 1)).unwrap();
        bed.idle();
        assert_eq!(names(&bed).join(" "), "g g/0 g/1 n");
    }
}

#[test]
fn what_is_removed_by_reference_is_found_also_on_its_way_out() {
    let group = |count: usize, listed: &str| {
        let root = format!(
            "resources: {{g: {{type: OS::Heat::ResourceGroup, properties: {{count: {count}, removal_policies: [{{resource_list: [{listed}]}}], \
             resource_def: {{type: Muster::Dummy, properties: {{node: node-0}}}}}}}}}}"
        );
        source(&root, &[])
    };
    let single = source("resources: {g: {type: Muster::Dummy, properties: {node: node-1}}}", &[]);
    let mut bed = Bed::new(2);
    bed.create(group(2, "")).unwrap();
    bed.idle();
    let listed = format!("'{}'", bed.resource("g/0").physical_id);
    // The group has another type now. Its members wait for their server to be deleted.
    bed.disconnect(&node(0));
    bed.update(single).unwrap();
    bed.idle();
    bed.update(group(2, &listed)).unwrap();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), &*names(&bed).join(" ")), ("UPDATE_COMPLETE", "g g/1 g/2"));
}

#[test]
fn a_removal_policy_survives_a_crash_as_the_count_becomes_known() {
    let with = |policies: &str| {
        let root = format!(
            "resources:\n  \
              n: {{type: Muster::Dummy, properties: {{node: node-0, values: {{count: 2}}}}}}\n  \
              g: {{type: OS::Heat::ResourceGroup, properties: {{count: {{get_attr: [n, count]}}, removal_policies: {policies}, \
             resource_def: {{type: Muster::Dummy, properties: {{node: node-0}}}}}}}}"
        );
        source(&root, &[])
    };
    let mut bed = Bed::new(1);
    bed.create(with("[{resource_list: ['0']}]")).unwrap();
    bed.dying = true;
    bed.run_at(&node(0), 0);
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(names(&bed).join(" "), "g g/1 g/2 n");
    bed.update(with("[]")).unwrap();
    bed.idle();
    assert_eq!(names(&bed).join(" "), "g g/1 g/2 n");
}

#[test]
fn hidden_values_of_nested_stacks_are_masked() {
    let nested = "parameters: {password: {type: string, hidden: true}}\n\
        resources: {d: {type: Muster::Dummy, properties: {node: node-0, values: {p: {get_param: password}}}}}\n\
        outputs: {it: {value: {get_attr: [d, p]}}}";
    let root = "resources: {n: {type: n.yaml, properties: {password: hunter2}}}\noutputs: {o: {value: {get_attr: [n, it]}}}";
    let mut bed = Bed::new(1);
    let source = source(root, &[("n.yaml", nested)]);
    let view = bed.engine.view().preview(&stack(), &source, None, &options()).unwrap();
    assert!(!format!("{view:?}").contains("hunter2"));
    bed.create(source).unwrap();
    bed.idle();
    assert_eq!(output(&bed), "******");
}

#[test]
fn a_nested_stack_that_fails_is_rolled_back_with_the_rest() {
    let nested = |fail: &str| {
        format!(
            "resources: {{d: {{type: Muster::Dummy, properties: {{node: node-0, {fail}values: {{'!v': 1}}}}}}}}"
        )
    };
    let root = "resources: {n: {type: n.yaml}, g: {type: OS::Heat::ResourceChain, properties: {resources: [n.yaml, n.yaml]}}}";
    let mut bed = Bed::new(1);
    bed.create(source(root, &[("n.yaml", &nested(""))])).unwrap();
    bed.idle();
    assert_eq!(bed.ran.len(), 3);
    bed.ask(Request::Update {
        name: stack(),
        source: source(root, &[("n.yaml", &nested("fail: update, "))]),
        options: Options { rollback: true, ..options() },
    })
    .unwrap();
    bed.idle();
    assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
}

#[test]
fn a_condition_inside_that_is_known_later() {
    let nested = "parameters: {go: {type: boolean}}\nresources: {d: {type: Muster::Dummy, condition: {get_param: go}, properties: {node: node-0}}}";
    let with = |on: &str| {
        let root = format!(
            "resources:\n  v: {{type: Muster::Dummy, properties: {{node: node-0, values: {{go: '{on}'}}}}}}\n  \
             n: {{type: n.yaml, properties: {{go: {{get_attr: [v, go]}}}}}}"
        );
        source(&root, &[("n.yaml", nested)])
    };
    let mut bed = Bed::new(1);
    for (at, (on, wanted)) in
        [("true", "n n/d v"), ("false", "n v"), ("true", "n n/d v")].into_iter().enumerate()
    {
        match at {
            0 => bed.create(with(on)).unwrap(),
            _ => bed.update(with(on)).unwrap(),
        };
        bed.idle();
        assert_eq!(names(&bed).join(" "), wanted);
        assert!(bed.status().ends_with("_COMPLETE"), "{:?}", bed.view());
    }
    bed.delete().unwrap();
    bed.idle();
    assert!(is_clean(&bed));
}

/// A nested stack whose count is that of `first`.
fn counted(first: &str, count: &str) -> Source {
    let root = format!(
        "resources:\n  \
          first: {{{first}}}\n  \
          g: {{type: inner.yaml, properties: {{n: {count}}}}}"
    );
    let inner = "parameters: {n: {type: number}}\n\
        resources:\n  \
          all: {type: OS::Heat::ResourceGroup, properties: {count: {get_param: n}, resource_def: {type: OS::Heat::None}}}";
    source(&root, &[("inner.yaml", inner)])
}

/// The count comes from a resource that is replaced by one of another type with the same name, or
/// from one whose value becomes a number.
#[test]
fn a_count_is_not_taken_from_what_goes() {
    for first in [
        "type: OS::Heat::RandomString, properties: {length: 5, character_classes: [{class: lowercase, min: 5}]}",
        "type: OS::Heat::Value, properties: {value: many}",
    ] {
        let mut bed = Bed::new(1);
        bed.create(counted(first, "1")).unwrap();
        let second = "type: OS::Heat::Value, properties: {value: '2'}";
        bed.update(counted(second, "{get_attr: [first, value]}")).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_COMPLETE", "{first}");
        assert!(names(&bed).contains(&"g/all/1".to_owned()), "{:?}", names(&bed));
    }
}

#[test]
fn a_wrong_count_fails_its_resources_until_an_update() {
    let with = |count: &str| {
        let first = format!("type: Muster::Dummy, properties: {{node: node-0, values: {{n: {count}}}}}");
        counted(&first, "{get_attr: [first, n]}")
    };
    let mut bed = Bed::new(1);
    bed.create(with("2")).unwrap();
    bed.idle();
    bed.update(with("many")).unwrap();
    bed.idle();
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_FAILED");
    assert!(bed.view().unwrap().status_reason.contains("n: want a number, got text"), "{:?}", bed.view());
    bed.update(with("3")).unwrap();
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE", "{:?}", bed.view());
    assert!(names(&bed).contains(&"g/all/2".to_owned()), "{:?}", names(&bed));
}
