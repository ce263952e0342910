//! Units that are restarted for resources that they depend on.

use std::time::Duration;

use muster_shared::model::DriftState;

use super::bed::{Bed, node, options, parse, stack};
use super::drift::says;
use crate::{Request, Source, SourceText};

fn template(content: &str, other: &str, units: &str) -> Source {
    let text = format!(
        "heat_template_version: 2018-08-31\nresources:\n  \
         conf: {{type: Muster::File, properties: {{node: node-0, path: /etc/a.conf, content: {content}}}}}\n  \
         other: {{type: Muster::File, properties: {{node: node-0, path: /etc/b.conf, content: {other}}}}}\n  \
         {units}\n"
    );
    parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })
}

const RESTARTED: &str = "web: {type: Muster::Unit, properties: {node: node-0, name: web.service, active: started, restart_on: [conf]}}";
const RELOADED: &str = "web: {type: Muster::Unit, properties: {node: node-0, name: web.service, active: started, reload_on: [conf]}}";
const ORDERED: &str = "web: {type: Muster::Unit, properties: {node: node-0, name: web.service, active: started}, depends_on: conf}";

#[test]
fn a_change_of_what_a_unit_is_restarted_on_is_a_job_of_the_unit() {
    for (units, after) in [
        (RESTARTED, vec!["Update conf", "Update web"]),
        (RELOADED, vec!["Update conf", "Update web"]),
        (ORDERED, vec!["Update conf"]),
    ] {
        let mut bed = Bed::new(1);
        bed.create(template("a", "a", units)).unwrap();
        bed.idle();
        let made: Vec<&str> =
            bed.ran.iter().map(String::as_str).filter(|ran| !ran.ends_with("other")).collect();
        assert_eq!(made, ["Create conf", "Create web"], "and in this order");
        bed.ran.clear();
        bed.update(template("a", "b", units)).unwrap();
        bed.idle();
        assert_eq!(bed.ran, ["Update other"], "which is no reason");
        bed.ran.clear();
        bed.update(template("b", "b", units)).unwrap();
        bed.idle();
        assert_eq!(bed.ran, after);
        bed.ran.clear();
        bed.update(template("b", "b", units)).unwrap();
        bed.idle();
        assert!(bed.ran.is_empty());
    }
}

fn made(source: Source) -> Bed {
    let mut bed = Bed::new(1);
    bed.create(source).unwrap();
    bed.idle();
    bed.ran.clear();
    bed
}

fn ran(bed: &mut Bed) -> Vec<String> {
    bed.idle();
    std::mem::take(&mut bed.ran)
}

/// Changes that a preview shows.
fn changes(bed: &Bed, source: &Source) -> Vec<String> {
    let view = bed.engine.view().preview(&stack(), source, None, &options()).unwrap();
    let changed = view.resources.into_iter().filter(|row| row.change != "unchanged");
    changed.map(|row| format!("{} {}", row.name, row.change)).collect()
}

/// The thing drifts on its server, an hour after the last time.
fn drifts(bed: &mut Bed, name: &str) {
    bed.pass(Duration::from_secs(3600));
    bed.idle();
    says(bed, name, DriftState::Drifted, "its content is another");
}

#[test]
fn a_correction_restarts_the_units_that_a_change_would_restart() {
    let group = "grp: {type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {type: Muster::File, properties: {node: node-0, path: /etc/g.%index%, content: a}}}}\n  \
                 web: {type: Muster::Unit, properties: {node: node-0, name: web.service, active: started, restart_on: [grp], reload_on: [conf]}}";
    let reports = RESTARTED.replace("web: {", "web: {drift_policy: report, ");
    for (units, changed, after) in [
        (RESTARTED, "conf", vec!["Update conf", "Update web"]),
        (RESTARTED, "other", vec!["Update other"]),
        (RELOADED, "conf", vec!["Update conf", "Update web"]),
        (ORDERED, "conf", vec!["Update conf"]),
        (group, "grp/1", vec!["Update grp/1", "Update web"]),
        (group, "conf", vec!["Update conf", "Update web"]),
        (reports.as_str(), "conf", vec!["Update conf"]),
    ] {
        let mut bed = made(template("a", "a", units));
        for restarted in [false, true] {
            if restarted {
                bed.restart();
                bed.connect(&node(0));
            }
            drifts(&mut bed, changed);
            assert_eq!(ran(&mut bed), after, "{units} {changed}");
            assert_eq!(bed.status(), "CREATE_COMPLETE");
        }
        if units == reports {
            continue;
        }
        // An update finds no change.
        assert!(changes(&bed, &template("a", "a", units)).is_empty(), "{units}");
        bed.update(template("a", "a", units)).unwrap();
        assert!(ran(&mut bed).is_empty(), "{units}");
        bed.update(template("a", "b", units)).unwrap();
        assert_eq!(ran(&mut bed), ["Update other"]);
        let web = "web: {type: Muster::Unit, properties: {node: node-0, name: web.service, active: started, enabled: true, ";
        let changes = units.replace(
            "web: {type: Muster::Unit, properties: {node: node-0, name: web.service, active: started, ",
            web,
        );
        if changes != units {
            bed.update(template("a", "b", &changes)).unwrap();
            assert_eq!(ran(&mut bed), ["Update web"]);
            drifts(&mut bed, changed);
            assert_eq!(ran(&mut bed), after, "its own change is no reason to forget whom it names");
        }
    }
}

fn web(bed: &mut Bed, index: usize) {
    let labels = [("role".to_owned(), Some("web".to_owned()))].into();
    bed.ask(Request::LabelNode { node: node(index), labels }).unwrap();
}

/// A file for each node, and a unit that is restarted for it.
fn each(more: &str) -> Source {
    let each = "for_each: {nodes: role=web}";
    let text = format!(
        "heat_template_version: 2018-08-31\nresources:\n  f: {{type: Muster::File, {each}, properties: {{path: /etc/motd, \
         content: a}}}}\n  u: {{type: Muster::Unit, {each}{more}, properties: {{name: web.service, active: started, restart_on: [f]}}}}\n"
    );
    parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })
}

/// The unit's needs: its own file, or the files of all nodes. With the latter, a new node visits
/// all units.
const BARRIERS: [&str; 2] = ["", ", depends_on: {resource: f, scope: all}"];

/// A stack with two members. Drift of the one on node-0 has just been corrected.
fn corrected(more: &str) -> Bed {
    let mut bed = Bed::new(3);
    (0..2).for_each(|index| web(&mut bed, index));
    bed.create(each(more)).unwrap();
    bed.idle();
    bed.pass(Duration::from_secs(60));
    bed.ran.clear();
    drifts(&mut bed, "f[node-0]");
    bed
}

fn maintain(bed: &mut Bed, on: bool) {
    bed.ask(Request::Maintenance { node: node(0), on }).unwrap();
}

#[test]
fn a_unit_is_restarted_for_what_was_corrected_on_its_own_node() {
    let mut bed = corrected("");
    assert_eq!(ran(&mut bed), ["Update f[node-0]", "Update u[node-0]"]);
}

#[test]
fn a_restart_that_failed_is_not_tried_again_because_of_nodes() {
    for more in BARRIERS {
        for (meanwhile, restarted) in [(false, false), (false, true), (true, false), (true, true)] {
            // A restarted controller withdraws a job that waits for others. The job then belongs to
            // the operation.
            if meanwhile && restarted && !more.is_empty() {
                continue;
            }
            let mut bed = corrected(more);
            bed.run_at(&node(0), 0);
            // The node joins before the unit restart has ended, or after it.
            if meanwhile {
                web(&mut bed, 2);
            }
            if restarted {
                bed.restart();
                (0..3).for_each(|index| bed.connect(&node(index)));
            }
            bed.fail_next(&node(0), true);
            if !meanwhile {
                web(&mut bed, 2);
            }
            bed.ran.clear();
            let came = ["Create f[node-2]", "Create u[node-2]"];
            assert_eq!(ran(&mut bed), came, "{more} {meanwhile} {restarted}");
            assert_eq!(bed.status(), "UPDATE_COMPLETE", "{more} {meanwhile} {restarted}");
            let unit = bed.resource("u[node-0]");
            assert_eq!((unit.status.as_str(), unit.status_reason.as_str()), ("FAILED", "refused"));
            // A later correction does not restart it either.
            drifts(&mut bed, "f[node-0]");
            assert_eq!(ran(&mut bed), ["Update f[node-0]"]);
            bed.ask(Request::LabelNode { node: node(2), labels: [("role".to_owned(), None)].into() })
                .unwrap();
            let mut gone = ran(&mut bed);
            gone.sort();
            assert_eq!(gone, ["Delete f[node-2]", "Delete u[node-2]"]);
            assert_eq!(
                (bed.status(), bed.resource("u[node-0]").status),
                ("UPDATE_COMPLETE".into(), "FAILED".into())
            );
            bed.update(each(more)).unwrap();
            assert_eq!(ran(&mut bed), ["Update u[node-0]"], "somebody asks for it");
            assert_eq!(bed.resource("u[node-0]").status, "COMPLETE");
        }
    }
}

#[test]
fn an_owed_unit_restart_awaits_its_node_and_blocks_no_operation() {
    for more in BARRIERS {
        for (away, restarted) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut bed = corrected(more);
            maintain(&mut bed, true);
            bed.run_at(&node(0), 0);
            if away {
                bed.disconnect(&node(0));
                maintain(&mut bed, false);
            }
            if restarted {
                bed.restart();
                (usize::from(away)..3).for_each(|index| bed.connect(&node(index)));
            }
            assert_eq!(bed.resource("u[node-0]").status, "COMPLETE", "{more} {away} {restarted}");
            bed.ran.clear();
            web(&mut bed, 2);
            assert_eq!(ran(&mut bed), ["Create f[node-2]", "Create u[node-2]"]);
            assert_eq!(bed.status(), "UPDATE_COMPLETE", "{more} {away} {restarted}");
            match away {
                true => bed.connect(&node(0)),
                false => maintain(&mut bed, false),
            }
            assert_eq!(ran(&mut bed), ["Update u[node-0]"], "{more} {away} {restarted}");
        }
    }
}

#[test]
fn a_correction_taken_over_by_an_operation_restarts_its_units() {
    let with = |node: &str| {
        let other = format!("x: {{type: Muster::Dummy, properties: {{node: {node}}}}}");
        template("a", "a", &format!("{RESTARTED}\n  {other}"))
    };
    for restarted in [false, true] {
        let mut bed = made(with("node-0"));
        drifts(&mut bed, "conf");
        bed.begin(&node(0));
        bed.update(with("nobody")).unwrap();
        if restarted {
            bed.restart();
            bed.connect(&node(0));
        }
        bed.end(&node(0));
        bed.idle();
        assert!(bed.ran.contains(&"Update web".to_owned()), "{:?}", bed.ran);
        bed.ran.clear();
        bed.update(with("node-0")).unwrap();
        assert!(!ran(&mut bed).contains(&"Update web".to_owned()));
    }
}

#[test]
fn a_restart_that_fails_is_told_and_tried_again_by_an_update() {
    let mut bed = made(template("a", "a", RESTARTED));
    drifts(&mut bed, "conf");
    bed.run_at(&node(0), 0);
    bed.tables.reasons.clear();
    bed.fail_next(&node(0), true);
    assert_eq!((bed.status().as_str(), bed.resource("web").status.as_str()), ("CREATE_COMPLETE", "FAILED"));
    bed.ran.clear();
    assert_eq!(changes(&bed, &template("a", "a", RESTARTED)), ["web update"]);
    bed.update(template("a", "a", RESTARTED)).unwrap();
    assert_eq!(ran(&mut bed), ["Update web"]);
    assert_eq!(bed.resource("web").status, "COMPLETE");
}

#[test]
fn a_name_that_json_writes_otherwise_is_found() {
    let quoted = RESTARTED.replace("[conf]", r#"['co"nf é']"#);
    let named = format!(
        "'co\"nf é': {{type: Muster::File, properties: {{node: node-0, path: /etc/c.conf, content: a}}}}\n  {quoted}"
    );
    let mut bed = made(template("a", "a", &named));
    drifts(&mut bed, "co\"nf é");
    assert_eq!(ran(&mut bed), ["Update co\"nf é", "Update web"]);
}
