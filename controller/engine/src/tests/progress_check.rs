//! The waits of rows and the times when they began, and the events about no progress.

use std::time::Duration;

use super::bed::{Bed, node, template, under};
use crate::view::{ResourceView, RowFilter};
use crate::{Options, Request};

fn said(bed: &Bed) -> Vec<&str> {
    let reasons = bed.tables.reasons.iter().map(String::as_str);
    reasons.filter(|reason| reason.starts_with("no progress")).collect()
}

fn pass(bed: &mut Bed, seconds: u64) {
    for _ in 0..seconds {
        bed.pass(Duration::from_secs(1));
    }
}

#[test]
fn each_says_its_phase_and_since_when() {
    let mut bed = Bed::new(2);
    bed.disconnect(&node(1));
    let source = template("a: x=1 node=node-0\n b: x=1 node=node-1\n c: x=1 | a b\n d: x=1 | c");
    bed.create(under(source, "c: {hooks: pre-create}")).unwrap();
    pass(&mut bed, 10);
    let phases = |bed: &Bed| {
        let rows = bed.resources().into_iter();
        rows.map(|row| format!("{} {} {}", row.name, row.phase, row.phase_seconds)).collect::<Vec<_>>()
    };
    assert_eq!(phases(&bed), ["a queued 10", "b node_away 10", "c waiting 10", "d waiting 10"]);
    assert_eq!(bed.resource("c").waits_for, ["a", "b"]);
    bed.connect(&node(1));
    bed.run_at(&node(0), 0);
    bed.run_at(&node(1), 0);
    pass(&mut bed, 5);
    assert_eq!(phases(&bed), ["a  0", "b  0", "c hook 5", "d waiting 15"]);
}

#[test]
fn what_is_cleaned_up_waits_for_those_that_need_it() {
    let mut bed = Bed::new(1);
    bed.create(template("a: !x=1\n b: y=@a.!x\n c: x=1 | b")).unwrap();
    bed.idle();
    let waits = |bed: &Bed| {
        let rows = bed.resources().into_iter().filter(|row| row.phase == "waiting");
        rows.map(|row| format!("{} {}", row.name, row.waits_for.join(" "))).collect::<Vec<_>>()
    };
    bed.update(template("a: !x=2\n b: y=@a.!x\n c: x=1 | b")).unwrap();
    assert_eq!(
        waits(&bed),
        ["b a", "c b", "a a b"],
        "the old a waits for the new one and for b, which has the old still"
    );
    bed.run_at(&node(0), 0);
    assert_eq!(waits(&bed), ["c b", "a b"]);
    bed.idle();
    bed.delete().unwrap();
    assert_eq!(waits(&bed), ["a b", "b c"]);
    bed.run_at(&node(0), 0);
    assert_eq!(waits(&bed), ["a b"]);
}

#[test]
fn a_progress_check_names_the_waits_less_and_less_often() {
    let mut bed = Bed::new(2);
    bed.disconnect(&node(1));
    bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-1\n c: x=1 node=nobody\n d: x=1 | b"))
        .unwrap();
    pass(&mut bed, 50);
    bed.run_at(&node(0), 0);
    pass(&mut bed, 59);
    assert!(said(&bed).is_empty(), "a moved");
    pass(&mut bed, 1);
    let waits = "b (node_away on node-1), c (node_away on nobody)";
    assert_eq!(said(&bed), [format!("no progress for 60 s: {waits}")]);
    pass(&mut bed, 119);
    assert_eq!(said(&bed).len(), 1);
    pass(&mut bed, 1);
    assert_eq!(said(&bed)[1], format!("no progress for 180 s: {waits}"));
    bed.connect(&node(1));
    bed.idle();
    pass(&mut bed, 60);
    assert_eq!(said(&bed)[2..], ["no progress for 60 s: c (node_away on nobody)"], "sooner again");
    pass(&mut bed, 12_000);
    let seconds: Vec<&str> = said(&bed)[3..].iter().map(|said| said.split(' ').nth(3).unwrap()).collect();
    assert_eq!(seconds, ["180", "420", "900", "1860", "3780", "7380", "10980"]);
    bed.restart();
    let before = said(&bed).len();
    pass(&mut bed, 60);
    assert_eq!(said(&bed).len(), before + 1);
}

#[test]
fn many_are_named_once_and_what_has_ended_is_quiet() {
    let mut bed = Bed::new(0);
    let lines: String = (10..22).map(|i| format!("r{i}: x=1\n")).collect();
    bed.create(under(template(&lines), "r10: {hooks: pre-create}")).unwrap();
    pass(&mut bed, 60);
    let [once] = said(&bed)[..] else { panic!("{:?}", said(&bed)) };
    assert!(once.starts_with("no progress for 60 s: r10 (node_away: no node has joined"), "{once}");
    assert!(once.ends_with("r19 (node_away: no node has joined that could have it) and 2 more"), "{once}");
    bed.cancel().unwrap();
    assert!(bed.engine.poll_timeout().is_none(), "nothing is waited for");
    bed.join(&node(0));
    bed.connect(&node(0));
    bed.update(template("a: x=1")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert!(bed.engine.poll_timeout().is_none());
    bed.update(template("a: x=1 fail=update")).unwrap();
    bed.fail_next(&node(0), true);
    assert_eq!(bed.status(), "UPDATE_FAILED");
    pass(&mut bed, 200);
    assert_eq!(said(&bed).len(), 1);
}

#[test]
fn a_node_that_never_joined_is_named_with_the_nearest_one() {
    let mut bed = Bed::new(1);
    let options = Options { timeout: Duration::from_secs(10), ..super::bed::options() };
    let source = template("a: x=1 node=node-9\n b: x=1 node=elsewhere.example.org");
    bed.ask(Request::Create { name: super::bed::stack(), source, options }).unwrap();
    pass(&mut bed, 10);
    assert_eq!(
        bed.view().unwrap().status_reason,
        "timed out after 10 s; missing nodes: elsewhere.example.org (never joined), node-9 (never joined; did you mean \
         node-0?)"
    );
}

#[test]
fn pages_are_the_whole_list_however_long_they_are() {
    let mut bed = Bed::new(1);
    let rows = |value: u32| (10..30).map(|at| format!("r{at}: !x={value}\n")).collect::<String>();
    bed.create(template(&rows(1))).unwrap();
    bed.idle();
    // Each row has a replacement, and all old rows still exist.
    bed.update(template(&rows(2))).unwrap();
    for all in [false, true] {
        let which = RowFilter { all, ..RowFilter::default() };
        let mut whole: Vec<ResourceView> =
            bed.engine.view().resource_views(&super::bed::stack(), all).unwrap();
        whole.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(whole.len(), if all { 40 } else { 20 });
        for most in [1, 7, 20, 100] {
            let (mut paged, mut pages) = (Vec::<ResourceView>::new(), 0);
            loop {
                let after = paged.last().map(|row| row.name.clone());
                let page = bed
                    .engine
                    .view()
                    .resource_page(&super::bed::stack(), &which, after.as_deref(), most)
                    .unwrap();
                // A page never splits rows of one name.
                assert!(page.len() <= most + 1, "{} rows", page.len());
                if page.is_empty() {
                    break;
                }
                pages += 1;
                paged.extend(page);
            }
            assert_eq!(paged, whole, "{most} at a time, {pages} pages");
        }
    }
    let named = |name: &str| bed.engine.view().resource_named(&super::bed::stack(), name, true).unwrap();
    let row = named("r15").unwrap();
    assert_eq!(named(&row.physical_id).unwrap(), row);
    assert_eq!(named("r99"), None);
    let failed = RowFilter { all: true, status: Some("FAILED".to_owned()), ..RowFilter::default() };
    assert_eq!(bed.engine.view().resource_page(&super::bed::stack(), &failed, None, 10).unwrap(), []);
}

#[test]
fn rows_that_wait_are_found_though_nothing_is_done_on_them() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-0 | a\n c: x=1 node=node-0")).unwrap();
    let busy = RowFilter { all: true, busy: true, ..RowFilter::default() };
    let names = |bed: &Bed| -> Vec<(String, String)> {
        let page = bed.engine.view().resource_page(&super::bed::stack(), &busy, None, 10).unwrap();
        page.into_iter().map(|row| (row.name, row.waits_for.join(","))).collect()
    };
    let of = |name: &str, needs: &str| (name.to_owned(), needs.to_owned());
    assert_eq!(names(&bed), [of("a", ""), of("b", "a"), of("c", "")]);
    bed.idle();
    assert_eq!(names(&bed), []);
}

#[test]
fn a_large_graph_is_grouped_by_type_even_if_little_is_running() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-0 | a\n c: x=1 node=node-0")).unwrap();
    bed.idle();
    bed.update(template("a: x=1 node=node-0\n b: x=1 node=node-0 | a\n c: x=2 node=node-0")).unwrap();
    let of = |most| bed.engine.view().graph_within(&super::bed::stack(), most).unwrap();
    let (whole, by_type) = (of(10), of(2));
    assert!(!whole.by_type && whole.nodes.len() >= 3, "{whole:?}");
    assert!(by_type.by_type && by_type.nodes.len() == 1, "{by_type:?}");
    assert_eq!(by_type.nodes[0].status, "IN_PROGRESS");
    assert_eq!(by_type.edges, []);
}
