//! `docs/network.md` says of each object type and option what becomes of it; this holds it to the code.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use muster_shared::model::network::NetworkDocument;
use muster_shared::model::network::support::{Support, of_option, of_type};

const BEGIN: &str = "<!-- types and options: made by the test `the_table_is_what_the_code_does` -->\n";
const END: &str = "<!-- end -->\n";

/// A line for each type, and below each way that options are treated.
fn table() -> String {
    let mut text = String::from(
        "| type | options that are applied | taken, and change nothing | refused |\n|---|---|---|---|\n",
    );
    let mut refused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut notes: BTreeMap<String, &str> = BTreeMap::new();
    for (kind, options) in NetworkDocument::types() {
        if let Support::Refused(why) = of_type(kind) {
            refused.entry(why).or_default().push(kind);
            continue;
        }
        let (mut applied, mut inert, mut out) = (Vec::new(), Vec::new(), Vec::new());
        for option in options {
            match of_option(kind, option) {
                Support::Applied => applied.push(format!("`{option}`")),
                Support::Inert(why) => {
                    inert.push(format!("`{option}`"));
                    notes.insert(format!("`{option}`"), why);
                }
                Support::Only(value, hint) => {
                    let value = if value.is_empty() { "empty" } else { value };
                    inert.push(format!("`{option}`: {value}"));
                    notes.insert(format!("`{option}` other than {value}"), hint);
                }
                Support::Refused(why) => {
                    out.push(format!("`{option}`"));
                    notes.insert(format!("`{option}`, where it is refused"), why);
                }
            }
        }
        let line =
            [applied, inert, out].map(|cell| if cell.is_empty() { "–".to_owned() } else { cell.join(" ") });
        writeln!(text, "| `{kind}` | {} |", line.join(" | ")).unwrap();
    }
    text.push_str("\nRefused by name, before anything changes:\n\n| type | why |\n|---|---|\n");
    for (why, kinds) in refused {
        let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
        writeln!(text, "| {} | {why} |", kinds.join(" ")).unwrap();
    }
    text.push_str(
        "\nWhy options change nothing or are refused:\n\n| option | why, or what instead |\n|---|---|\n",
    );
    for (option, why) in notes {
        writeln!(text, "| {option} | {why} |").unwrap();
    }
    text
}

#[test]
fn the_table_is_what_the_code_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/network.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (_, behind) = document.split_once(BEGIN).expect("the table's beginning is marked");
    let (written, _) = behind.split_once(END).expect("the table's end is marked");
    let wanted = table();
    assert!(written == wanted, "docs/network.md says something else; between the marks belongs:\n{wanted}");
}
