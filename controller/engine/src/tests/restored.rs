//! A store that is older than what agents know: nothing vanishes, nothing runs again, all of it is listed.

use super::bed::{Bed, node, template};
use crate::restored::RestoredRecord;
use crate::{HeldView, Request, Verdict};

/// A site whose store is as it was before `since`, with agents that have done it.
fn restored(before: &str, since: impl FnOnce(&mut Bed)) -> Bed {
    let mut bed = Bed::new(1);
    bed.create(template(before)).unwrap();
    bed.idle();
    let backup = bed.tables.clone();
    since(&mut bed);
    bed.idle();
    bed.tables = backup;
    bed.tables.restored = Some(RestoredRecord::fresh());
    bed.ran.clear();
    bed.restart();
    assert!(bed.engine.site_view().restored);
    bed.connect(&node(0));
    bed.idle();
    bed
}

fn held(bed: &Bed) -> Vec<HeldView> {
    bed.engine.held_views(None)
}

fn states(bed: &Bed) -> Vec<String> {
    let mut states: Vec<String> = held(bed)
        .into_iter()
        .map(|view| format!("{} {}", view.resource.unwrap_or_default(), view.state))
        .collect();
    states.sort();
    states
}

fn decide(
    bed: &mut Bed,
    verdict: Verdict,
    ids: Option<Vec<String>>,
) -> Result<crate::Answer, crate::Refusal> {
    let answer = bed.ask(Request::Restored { verdict, ids });
    bed.idle();
    answer
}

#[test]
fn a_backup_that_misses_nothing_ends_by_itself() {
    let bed = restored("a: x=1", |_| {});
    assert!(!bed.engine.site_view().restored);
    assert_eq!(bed.tables.restored, None, "and that is durable");
}

#[test]
fn what_the_backup_does_not_know_stays_and_is_listed() {
    let mut bed = restored("a: x=1\ngone: x=1", |bed| {
        bed.update(template("a: x=2\nnew: x=1")).unwrap();
    });
    assert_eq!(states(&bed), [" unknown", "a newer", "gone deleted"]);
    assert!(bed.ran.is_empty(), "{:?}", bed.ran);
    let site = bed.engine.site_view();
    assert_eq!((site.restored, site.waiting.restore), (true, 3));
    assert!(bed.tables.reasons.iter().any(|reason| reason.contains("older than node")));
    assert!(bed.warnings.iter().any(|warning| warning.contains("muster restore list")));
    // The list is durable, and a node that comes again changes nothing.
    bed.restart();
    assert_eq!(states(&bed).len(), 3);
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((states(&bed).len(), bed.ran.len()), (3, 0));
}

#[test]
fn adopted_things_stay_until_the_next_update() {
    let mut bed = restored("a: x=1\ngone: x=1", |bed| {
        bed.update(template("a: x=2\nnew: x=1")).unwrap();
    });
    let unknown = decide(&mut bed, Verdict::Adopt, Some(vec!["nothing".into()]));
    assert!(unknown.unwrap_err().to_string().contains("restore list"));
    decide(&mut bed, Verdict::Adopt, None).unwrap();
    assert!(bed.ran.is_empty() && !bed.engine.site_view().restored);
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.idle();
    assert!(bed.ran.is_empty(), "{:?}", bed.ran);
    bed.update(template("a: x=1\ngone: x=1")).unwrap();
    bed.idle();
    assert_eq!(bed.ran.len(), 2, "{:?}", bed.ran);
}

#[test]
fn removed_things_become_what_the_store_says() {
    let mut bed = restored("a: x=1\ngone: x=1", |bed| {
        bed.update(template("a: x=2")).unwrap();
    });
    decide(&mut bed, Verdict::Remove, None).unwrap();
    assert!(!bed.engine.site_view().restored);
    assert_eq!(bed.ran.len(), 2, "{:?}", bed.ran);
    assert_eq!(bed.resource("a").observed, "in_sync");
}

#[test]
fn a_thing_without_a_row_is_not_removed_blindly() {
    let mut bed = restored("a: x=1", |bed| {
        bed.update(template("a: x=2\nnew: x=1")).unwrap();
    });
    assert!(decide(&mut bed, Verdict::Remove, None).is_err());
    assert_eq!((states(&bed).len(), bed.ran.len()), (2, 0), "all or nothing");
}

#[test]
fn an_update_decides_what_it_names() {
    let mut bed = restored("a: x=1", |bed| {
        bed.update(template("a: x=2")).unwrap();
    });
    assert_eq!(states(&bed), ["a newer"]);
    bed.update(template("a: x=1")).unwrap();
    bed.idle();
    assert_eq!((bed.ran.len(), bed.status().as_str()), (1, "UPDATE_COMPLETE"));
    assert!(!bed.engine.site_view().restored);
}
