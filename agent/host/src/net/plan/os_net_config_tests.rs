//! The documents of os-net-config's samples and unit tests: each is planned, or refused by name.
//! `tests/os-net-config/record` records them; docs/conformance/os-net-config.md, which this test makes, has each with
//! what became of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use muster_shared::model::network::{LinkName, NetworkDocument, ObjectKind, Problem};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::snapshot::Snapshot;
use super::super::state::State;
use super::super::wanted::Target;
use super::plan;

/// The number of documents that are planned. A change may only make it more.
const PLANNED: usize = 62;
/// The number of documents that are refused though os-net-config takes them, and not by name. A change may only make
/// it fewer.
const INVALID_HERE_ALONE: usize = 8;

#[derive(Deserialize)]
struct Recorded {
    source: String,
    licence: String,
    documents: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    file: String,
    test: String,
    document: Value,
    /// os-net-config's own schema takes it.
    valid: bool,
}

/// The verdict about a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Planned(usize),
    ByName(String),
    Invalid(String),
}

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn recorded() -> Recorded {
    let text = std::fs::read_to_string(tree().join("tests/os-net-config/documents.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A server with the NICs that the document names, where `nicN` is `ethN`, and an empty switch.
fn server(document: &NetworkDocument) -> (BTreeMap<String, LinkName>, State) {
    let mut names = BTreeSet::new();
    for object in document.all() {
        if let ObjectKind::Interface { .. } = object.kind {
            names.insert(object.name.to_string());
        }
        if let ObjectKind::Vlan { device: Some(device), .. } = &object.kind {
            names.insert(device.to_string());
        }
    }
    let number = |name: &str| name.strip_prefix("nic").and_then(|number| number.parse::<u32>().ok());
    let aliases: BTreeMap<String, LinkName> = names
        .iter()
        .filter_map(|name| Some((name.clone(), LinkName::new(&format!("eth{}", number(name)?)).ok()?)))
        .collect();
    let made: BTreeSet<&str> = document
        .all()
        .filter(|object| !matches!(object.kind, ObjectKind::Interface { .. }))
        .map(|object| object.name.as_str())
        .collect();
    let nics = names.iter().filter(|name| !made.contains(name.as_str()));
    let nics = nics.map(|name| aliases.get(name).map_or(name.as_str(), LinkName::as_str));
    let links: serde_json::Map<String, Value> = nics
        .enumerate()
        .map(|(at, name)| {
            let mac = format!("52:54:00:00:00:{:02x}", at + 1);
            (name.to_owned(), json!({"index": at + 2, "kind": "", "mtu": 1500, "up": true, "mac": mac}))
        })
        .collect();
    (aliases, serde_json::from_value(json!({"links": links, "ovs": {}})).unwrap())
}

fn verdict(entry: &Entry) -> Verdict {
    let document = match NetworkDocument::parse(&entry.document) {
        Ok(document) => document,
        Err(error) => {
            let text = error.to_string();
            return match error.problem {
                Problem::Unsupported { .. } => Verdict::ByName(text),
                _ => Verdict::Invalid(text),
            };
        }
    };
    let (aliases, state) = server(&document);
    let document = match document.with_names(&aliases) {
        Ok(document) => document,
        Err(error) => return Verdict::Invalid(error.to_string()),
    };
    let mut before = Snapshot::default();
    before.extend(document.link_names().map(LinkName::as_str), &state);
    let target = Target::new(&document, &before, &state, Some("netdev"));
    match plan(&target, &state) {
        Ok(steps) => Verdict::Planned(steps.len()),
        Err(error) => Verdict::Invalid(error.to_string()),
    }
}

/// Each document with what becomes of it.
fn page(recorded: &Recorded, verdicts: &[Verdict]) -> String {
    let mut out = format!(
        "# os-net-config's documents, one by one\n\n\
        The documents of the samples and unit tests of {}\n\
        (licence {}), and what becomes of each. A document is planned for a\n\
        server with the NICs that it names and an empty Open vSwitch, or refused with its place before anything\n\
        changes. [network.md](../network.md#object-types) says what each type and option is.\n\n\
        `tests/os-net-config/record` records them again. This page is made by a test of theirs:\n\
        `MUSTER_WRITE_DOCUMENTS=1 cargo nextest run -p muster-host os_net_config`.\n\n\
        ## Counts\n",
        recorded.source, recorded.licence
    );
    out.push_str("| from | documents | planned | refused by name | os-net-config refuses it too | refused here alone |\n");
    out.push_str("|---|---|---|---|---|---|\n");
    let mut counts: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
    for (entry, verdict) in recorded.documents.iter().zip(verdicts) {
        let column = match verdict {
            Verdict::Planned(_) => 1,
            Verdict::ByName(_) => 2,
            Verdict::Invalid(_) if !entry.valid => 3,
            Verdict::Invalid(_) => 4,
        };
        for from in [from(entry), "all"] {
            let row = counts.entry(from).or_default();
            row[0] += 1;
            row[column] += 1;
        }
    }
    // "all" comes last.
    let (all, each): (Vec<_>, Vec<_>) = counts.into_iter().partition(|(from, _)| *from == "all");
    for (from, counts) in each.into_iter().chain(all) {
        let cells: Vec<String> = counts.iter().map(ToString::to_string).collect();
        writeln!(out, "| {from} | {} |", cells.join(" | ")).unwrap();
    }
    out.push_str("\n## Documents\n| from | test | what becomes of it |\n|---|---|---|\n");
    for (entry, verdict) in recorded.documents.iter().zip(verdicts) {
        let text = match verdict {
            Verdict::Planned(steps) => format!("planned, {steps} steps"),
            Verdict::ByName(why) => format!("refused by name: {why}"),
            Verdict::Invalid(why) if !entry.valid => format!("refused, by os-net-config too: {why}"),
            Verdict::Invalid(why) => format!("refused: {why}"),
        };
        let test = if entry.test.is_empty() { entry.file.rsplit('/').next().unwrap() } else { &entry.test };
        writeln!(out, "| {} | {test} | {} |", from(entry), text.replace('|', "\\|")).unwrap();
    }
    out
}

fn from(entry: &Entry) -> &str {
    if entry.test.is_empty() { "samples" } else { entry.file.rsplit('/').next().unwrap() }
}

#[test]
fn each_is_planned_or_refused_by_name() {
    let recorded = recorded();
    assert!(recorded.documents.len() >= 190, "the documents are there");
    let verdicts: Vec<Verdict> = recorded.documents.iter().map(verdict).collect();
    let page = page(&recorded, &verdicts);
    let file = tree().join("docs/conformance/os-net-config.md");
    if std::env::var_os("MUSTER_WRITE_DOCUMENTS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    assert_eq!(
        page,
        std::fs::read_to_string(&file).unwrap_or_default(),
        "MUSTER_WRITE_DOCUMENTS=1 cargo nextest run -p muster-host os_net_config"
    );
    let count = |is: &dyn Fn(&Entry, &Verdict) -> bool| {
        recorded.documents.iter().zip(&verdicts).filter(|(entry, verdict)| is(entry, verdict)).count()
    };
    assert_eq!(count(&|_, verdict| matches!(verdict, Verdict::Planned(_))), PLANNED, "it may only improve");
    let alone = count(&|entry, verdict| entry.valid && matches!(verdict, Verdict::Invalid(_)));
    assert_eq!(alone, INVALID_HERE_ALONE, "it may only improve");
    // Documents that os-net-config itself refuses are refused.
    assert_eq!(count(&|entry, verdict| !entry.valid && matches!(verdict, Verdict::Planned(_))), 0);
}
