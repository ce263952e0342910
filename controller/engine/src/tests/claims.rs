//! Owners of paths, through renames, swaps, failures and restarts.

use muster_shared::model::Job;

use super::bed::{Bed, files, node, options, stack};
use crate::{Refusal, Request};

fn ask_other(bed: &mut Bed, lines: &str) -> Result<crate::Answer, Refusal> {
    let source = files(lines);
    bed.ask(Request::Create { name: "other".parse().unwrap(), source, options: options() })
}

#[test]
fn a_job_that_never_began_leaves_no_claim_behind() {
    let mut bed = Bed::new(1);
    bed.disconnect(&node(0));
    bed.create(files("a: /x")).unwrap();
    bed.delete().unwrap();
    assert_eq!(bed.status(), "gone");
    ask_other(&mut bed, "b: /x").unwrap();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.disk(), ["/x hello"]);
}

/// A file's path goes to another resource, whose job is never sent, and then to none.
#[test]
fn a_job_that_never_began_gives_its_claim_back() {
    for restarts in [false, true] {
        let mut bed = Bed::new(1);
        bed.create(files("a: /x one")).unwrap();
        bed.idle();
        bed.disconnect(&node(0));
        bed.update(files("b: /x two")).unwrap();
        bed.update(files("c: /z")).unwrap();
        if restarts {
            bed.restart();
        }
        bed.is_loaded_as_it_is();
        let refused = ask_other(&mut bed, "c: /x");
        assert!(matches!(refused, Err(Refusal::Conflict(_))), "{refused:?}");
        bed.connect(&node(0));
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.disk()), ("UPDATE_COMPLETE", vec!["/z hello".to_owned()]));
    }
}

/// Two files swap their paths. One has changed when the operator goes back, and the job of the other
/// one for that is cancelled unsent: the file on its path is not its own.
#[test]
fn a_file_that_another_one_overwrote_is_written_again() {
    let before = "a: /x one\n b: /y two\n c: /z";
    let mut bed = Bed::new(1);
    bed.create(files(before)).unwrap();
    bed.idle();
    bed.lazy = true;
    bed.update(files("a: /y one\n b: /x two | c\n c: /z other")).unwrap();
    let host = node(0);
    let takes = |job: &Job| job.spec.claims().iter().any(|claim| claim.key == "/y");
    let at = bed.hosts[&host].queue.iter().position(takes).unwrap();
    bed.run_at(&host, at);
    bed.disconnect(&host);
    bed.update(files(before)).unwrap();
    bed.cancel().unwrap();
    bed.update(files(before)).unwrap();
    bed.connect(&host);
    bed.lazy = false;
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_eq!(bed.disk(), ["/x one", "/y two", "/z hello"]);
}

#[test]
fn two_files_swap_their_paths_in_one_update() {
    for needs in ["", "| a", "| c"] {
        let mut bed = Bed::new(1);
        bed.create(files(&format!("a: /x one\n b: /y two {needs}\n c: /z"))).unwrap();
        bed.idle();
        bed.update(files(&format!("a: /y one\n b: /x two {needs}\n c: /z"))).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_COMPLETE", "{needs} {:?}", bed.view());
        assert_eq!(bed.disk(), ["/x two", "/y one", "/z hello"], "{needs}");
        bed.restart();
        let refused = ask_other(&mut bed, "b: /y");
        assert!(matches!(refused, Err(Refusal::Conflict(_))), "{refused:?}");
        bed.connect(&node(0));
        bed.delete().unwrap();
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.disk().len()), ("gone", 0));
    }
}

#[test]
fn a_new_resource_takes_a_path_that_another_one_leaves() {
    let mut bed = Bed::new(1);
    bed.create(files("m: /x\n n: /y")).unwrap();
    bed.idle();
    bed.update(files("a: /y\n b: /1\n m: /x\n n: /2")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_eq!(bed.disk(), ["/1 hello", "/2 hello", "/x hello", "/y hello"]);
}

#[test]
fn what_stays_where_it_is_keeps_its_path_also_when_it_changes() {
    let mut bed = Bed::new(1);
    bed.create(files("m: /x one")).unwrap();
    bed.idle();
    let Err(Refusal::Conflict(why)) = bed.update(files("a: /x two\n m: /x two")) else { panic!("refused") };
    assert!(why.contains("both claim file /x"), "{why}");
    assert_eq!(bed.disk(), ["/x one"]);
}

#[test]
fn a_restart_sends_no_job_of_a_row_that_gave_its_path_away() {
    let mut bed = Bed::new(1);
    bed.create(files("a: /x one")).unwrap();
    bed.idle();
    bed.update(files("a: /x two")).unwrap();
    // The job was sent and lost on its way. Then another resource takes the path.
    bed.hosts.get_mut(&node(0)).unwrap().queue.clear();
    bed.disconnect(&node(0));
    bed.update(files("b: /x three")).unwrap();
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_eq!(bed.disk(), ["/x three"]);
    assert!(!bed.ran.contains(&"Update a".to_owned()), "{:?}", bed.ran);
}

#[test]
fn contents_are_kept_as_long_as_they_are_needed_and_no_longer() {
    let big = |letter: &str| format!("a: /x {}", letter.repeat(100_000));
    let mut bed = Bed::new(1);
    bed.create(files(&big("a"))).unwrap();
    bed.idle();
    assert_eq!(bed.tables.contents.len(), 1);
    // One job fails for good, one is withdrawn, one succeeds.
    bed.update(files(&big("b"))).unwrap();
    bed.fail_next(&node(0), true);
    assert_eq!(bed.status(), "UPDATE_FAILED");
    bed.disconnect(&node(0));
    bed.update(files(&big("c"))).unwrap();
    bed.update(files(&big("d"))).unwrap();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_eq!(bed.tables.contents.len(), 1);
    bed.delete().unwrap();
    bed.idle();
    assert!(bed.tables.contents.is_empty());
    assert!(bed.engine.view().stack_view(&stack()).is_none());
}
