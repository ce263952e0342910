//! Units that are restarted for what they depend on.

use super::bed::{Bed, parse};
use crate::{Source, SourceText};

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
