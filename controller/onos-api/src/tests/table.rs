//! `docs/conformance/onos-json.md`, made of the tables that decide.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::criterion::{CRITERIA, Meaning};
use crate::intent::TYPES;
use crate::{constraint, instruction};

const HEAD: &str = "# ONOS's JSON, word by word

Criteria, instructions, constraints and intents that ONOS reads from JSON (opennetworkinglab/onos dd5172e5a6,
`core/common/src/main/java/org/onosproject/codec/impl`), and what each is here. [onos-api.md](../onos-api.md) is the
manual. What has no word is refused by name, with its place in the document, and changes nothing.

This page is made of the tables in `controller/onos-api/src` by their test:
`MUSTER_WRITE_DOCUMENTS=1 cargo nextest run -p muster-onos-api table`.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut section = |title: &str, rows: Vec<(String, Result<String, &str>)>| {
        let said = rows.iter().filter(|(_, meaning)| meaning.is_ok()).count();
        write!(page, "\n## {title}\n{said} of {} are said.\n\n| ONOS | here |\n|---|---|\n", rows.len())
            .unwrap();
        for (name, meaning) in rows {
            match meaning {
                Ok(word) => writeln!(page, "| {name} | `{word}` |").unwrap(),
                Err(why) => writeln!(page, "| {name} | refused: {why} |").unwrap(),
            }
        }
    };
    let criterion = |(name, meaning): &(&str, Meaning)| {
        let meaning = match *meaning {
            Meaning::InPort => Ok("in_port".to_owned()),
            Meaning::Field { field, mask: None, .. } => Ok(field.name().to_owned()),
            Meaning::Field { field, mask: Some(_), .. } => Ok(format!("{}: VALUE/MASK", field.name())),
            Meaning::Refused(why) => Err(why),
        };
        ((*name).to_owned(), meaning)
    };
    section("Criteria", CRITERIA.iter().map(criterion).collect());
    let whole = |kind: &str, subtype: &str| format!("{kind} {subtype}").trim_end().to_owned();
    let said = instruction::said().map(|(kind, subtype, word)| (whole(kind, subtype), Ok(word)));
    let refused = instruction::REFUSED.iter().map(|(kind, subtype, why)| (whole(kind, subtype), Err(*why)));
    section("Instructions", said.chain(refused).collect());
    let said = constraint::SAID.iter().map(|(name, word)| ((*name).to_owned(), Ok((*word).to_owned())));
    let always = [(constraint::ALWAYS.to_owned(), Ok("nothing: every intent keeps to it".to_owned()))];
    let refused = constraint::REFUSED.iter().map(|(name, why)| ((*name).to_owned(), Err(*why)));
    section("Constraints", said.chain(always).chain(refused).collect());
    let intents = TYPES.iter().take(4).map(|(onos, own, _)| ((*onos).to_owned(), Ok((*own).to_owned())));
    section("Intents", intents.collect());
    page
}

#[test]
fn the_table_of_onoss_words_is_as_the_code_has_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance/onos-json.md");
    if std::env::var_os("MUSTER_WRITE_DOCUMENTS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert!(written == page(), "run MUSTER_WRITE_DOCUMENTS=1 cargo nextest run -p muster-onos-api table");
}
