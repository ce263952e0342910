//! `docs/reference/compatibility.md`: how much of what others bring Muster takes, counted from what the tests of each
//! hold. Other tests check that the counts are true; this one checks that the page has them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use muster_tests::site::heatclient_tests::{OLDER_COMMAND, READING, STACKS};
use serde_json::Value;

use super::conformance::root;

/// The words that make a command of OpenStack's client.
const WORDS: [&str; 27] = [
    "abandon",
    "build",
    "cancel",
    "check",
    "config",
    "create",
    "delete",
    "deployment",
    "environment",
    "event",
    "failures",
    "file",
    "function",
    "info",
    "list",
    "mark",
    "metadata",
    "output",
    "resource",
    "service",
    "show",
    "signal",
    "template",
    "type",
    "unhealthy",
    "update",
    "validate",
];

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

/// The rows of a page's table behind this heading, without head and rule.
fn rows(file: &str, heading: &str) -> Vec<Vec<String>> {
    let text = read(file);
    let (_, text) = text.split_once(heading).unwrap();
    let table =
        text.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    table.skip(2).map(cells).collect()
}

fn table(out: &mut String, head: &str, rows: &[Vec<String>]) {
    let columns = head.split(" | ").count();
    writeln!(out, "| {head} |\n|{}", "---|".repeat(columns)).unwrap();
    rows.iter().for_each(|row| writeln!(out, "| {} |", row.join(" | ")).unwrap());
}

fn heat(out: &mut String) {
    let recorded: Value = serde_json::from_str(&read("tests/oracle/recorded.json")).unwrap();
    let differences = read("tests/oracle/differences.txt");
    let mut different: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for line in differences.lines() {
        let mut columns = line.split('\t');
        let (how, shown) = (columns.next().unwrap(), columns.next().unwrap());
        let of = match shown {
            shown if ["root ", "nested ", "value "].iter().any(|start| shown.starts_with(start)) => {
                "coercions"
            }
            shown if shown.starts_with("heat_template_version") => "documents",
            _ => "expressions",
        };
        *different.entry(of).or_default().entry(how).or_default() += 1;
    }
    let row = |(key, shown): (&str, &str)| {
        let all = recorded[key].as_array().unwrap().len();
        let of = |how: &str| different.get(key).and_then(|it| it.get(how)).copied().unwrap_or_default();
        let counts = ["another value", "refused by Heat", "refused here"].map(of);
        assert_eq!(
            counts.iter().sum::<usize>(),
            different.get(key).map_or(0, |it| it.values().sum()),
            "{key}"
        );
        let same = all - counts.iter().sum::<usize>();
        let numbers = [all, same].into_iter().chain(counts).map(|count| count.to_string());
        std::iter::once(shown.to_owned()).chain(numbers).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = [
        ("expressions", "expressions: functions, yaql, scalars of YAML"),
        ("coercions", "values of parameters and properties"),
        ("documents", "whole templates"),
    ]
    .map(row)
    .into();
    writeln!(out, "\n## Heat's language\nA real Heat {} has answered them (`tests/oracle/record`); `values_are_those_of_heat` compares, and",
        recorded["heat"].as_str().unwrap()).unwrap();
    out.push_str("`tests/oracle/differences.txt` lists what differs. [hot.md](../hot.md) is the manual.\n\n");
    table(out, "what | asked | as Heat | another value | refused by Heat alone | refused here alone", &rows);
}

fn openstack(out: &mut String) {
    let source = read("tests/tests/processes/heat_api.rs");
    let mut commands = BTreeSet::new();
    for start in ["\"stack\", ", "\"orchestration\", ", "\"software\", "] {
        for (at, _) in source.match_indices(start) {
            let list = source[at..].split([']', ')']).next().unwrap();
            let words = list.split(',').map(|word| word.trim().trim_matches('"'));
            let mut command: Vec<&str> = vec![start.trim_matches(['"', ',', ' '])];
            command.extend(words.skip(1).take_while(|word| WORDS.contains(word)));
            if command.len() > 1 {
                commands.insert(command.join(" "));
            }
        }
    }
    let shown: Vec<String> = commands.iter().map(|command| format!("`{command}`")).collect();
    writeln!(
        out,
        "\n## OpenStack's client\n{} commands of the unchanged `openstack` command are in a session that is a test\n\
         (`the_openstack_client_works_as_it_is`): {}.\n[heat-api.md](../heat-api.md) is the manual.\n",
        commands.len(),
        shown.join(", ")
    )
    .unwrap();
    let rows = [
        ("`openstack`, only reading", &READING),
        ("`openstack`, stacks", &STACKS),
        ("`heat`, only reading", &OLDER_COMMAND),
    ];
    let rows = rows.map(|(what, tests)| {
        let refused: Vec<String> = tests.refused.iter().map(|(name, _)| format!("`{name}`")).collect();
        let all = tests.passed + refused.len();
        vec![what.to_owned(), all.to_string(), tests.passed.to_string(), refused.join(", ")]
    });
    let tests = [&READING, &STACKS, &OLDER_COMMAND];
    let passed: usize = tests.iter().map(|tests| tests.passed).sum();
    let all = passed + tests.iter().map(|tests| tests.refused.len()).sum::<usize>();
    let said = format!("of which {all} need no internet: {passed} pass");
    assert!(read("docs/heat-api.md").contains(&said), "docs/heat-api.md does not say '{said}'");
    out.push_str(
        "Of python-heatclient's own functional tests (`heat_functional.rs`) those fail that use templates in CloudFormation's\n\
         form, snapshots or suspended stacks.\n\n",
    );
    table(out, "tests of | run | pass | refused by name", &rows);
}

fn onos(out: &mut String) {
    let text = read("docs/conformance/onos-json.md");
    let mut sections: Vec<Vec<String>> = text
        .split("\n## ")
        .skip(1)
        .filter_map(|section| {
            let (name, rest) = section.split_once('\n')?;
            let (counts, _) = rest.split_once(" are said.")?;
            let (said, all) = counts.rsplit('\n').next()?.split_once(" of ")?;
            Some(vec![name.to_lowercase(), all.to_owned(), said.to_owned()])
        })
        .collect();
    assert_eq!(sections.len(), 4);
    let counts = rows("docs/conformance/onos-documents.md", "## Counts");
    let all = counts.last().unwrap();
    sections.push(vec!["documents of its tests and examples".to_owned(), all[1].clone(), all[2].clone()]);
    out.push_str(
        "\n## ONOS's documents\n[Word by word](../conformance/onos-json.md), and \
         [document by document](../conformance/onos-documents.md); the rest is refused by name.\n\n",
    );
    table(out, "what | in ONOS's JSON | taken", &sections);
}

fn networks(out: &mut String) {
    let rows = rows("docs/conformance/os-net-config.md", "## Counts");
    out.push_str("\n## os-net-config's documents\n[Each of them](../conformance/os-net-config.md), of its samples and unit tests.\n\n");
    table(
        out,
        "from | documents | planned | refused by name | os-net-config refuses it too | refused here alone",
        &rows,
    );
    // As tests/net-import/record counts: refused, all of it said, nothing of it, a part of it.
    let mut counts: BTreeMap<String, [usize; 5]> = BTreeMap::new();
    for line in read("docs/conformance/net-import.tsv").lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let count = counts.entry(columns[0].to_owned()).or_default();
        count[0] += 1;
        count[match (columns[2], columns[3]) {
            ("-", _) => 4,
            (_, "") => 1,
            ("0", _) => 3,
            _ => 2,
        }] += 1;
    }
    let rows: Vec<Vec<String>> = counts
        .into_iter()
        .map(|(project, counts)| std::iter::once(project).chain(counts.map(|it| it.to_string())).collect())
        .collect();
    assert_eq!(rows.len(), 2);
    out.push_str("\n## netplan's and nmstate's example files\n[Each of them](../conformance/net-import.tsv), by `muster net import`.\n\n");
    table(out, "project | files | all of it said | a part left out | nothing of it said | refused", &rows);
}

/// The trees of TripleO, and each environment that they ship, added alone.
fn overclouds(out: &mut String) {
    let mut trees: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    for line in read("tests/overcloud/environments.tsv").lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let counts = trees.entry(columns[0].to_owned()).or_default();
        let at = match columns[2] {
            "missing" => 2,
            "refused" => 3,
            resources => {
                assert!(resources.parse::<usize>().is_ok(), "{line}");
                1
            }
        };
        counts[0] += 1;
        counts[at] += 1;
    }
    out.push_str(
        "\n## TripleO's overclouds\nWhole, unpatched, for servers that are installed: each of these trees validates \
         (`overclouds_validate_as_they_are_shipped`), and of the\nenvironments that it ships, each added alone, so many do. \
         Each is made on ten simulated servers, and its outputs are those that a real Heat gave\n\
         (`the_overcloud_of_2023_is_made_and_updated` and others, `tests/overcloud/record`). \
         [from-tripleo.md](../from-tripleo.md) is the way, and says what is refused.\n\n",
    );
    let shown = |(tree, counts): (String, [usize; 4])| -> Vec<String> {
        let outputs = outputs_of_heat(&tree);
        std::iter::once(tree).chain(counts.map(|count| count.to_string())).chain([outputs]).collect()
    };
    let rows: Vec<Vec<String>> = trees.into_iter().map(shown).collect();
    table(
        out,
        "tree | environments | validate | name files that upstream lacks | refused | outputs compared with Heat's",
        &rows,
    );
}

/// The number of outputs that a real Heat gave to that overcloud.
fn outputs_of_heat(tree: &str) -> String {
    let recorded = root().join(format!("tests/overcloud/outputs/{tree}.json.xz"));
    let unpacked = Command::new("xz").arg("-dc").arg(&recorded).output().unwrap();
    assert!(unpacked.status.success(), "{}", recorded.display());
    let outputs: BTreeMap<String, Value> = serde_json::from_slice(&unpacked.stdout).unwrap();
    outputs.len().to_string()
}

#[test]
fn the_page_of_compatibility_has_the_counts() {
    let path = root().join("docs/reference/compatibility.md");
    let mut text = String::from(
        "# Compatibility in figures\n\nHow much of what comes from Heat, TripleO, ONOS, os-net-config, netplan and nmstate Muster \
         takes as it is.\n`MUSTER_WRITE_DOCUMENTS=1 cargo nextest run -p muster-tests compatibility` makes this page from \
         what other\ntests hold; they fail when a count is no longer true.\n",
    );
    heat(&mut text);
    overclouds(&mut text);
    openstack(&mut text);
    onos(&mut text);
    networks(&mut text);
    if std::env::var_os("MUSTER_WRITE_DOCUMENTS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let is_new = fs::read_to_string(&path).is_ok_and(|written| written == text);
    assert!(is_new, "docs/reference/compatibility.md is stale: MUSTER_WRITE_DOCUMENTS=1 makes it anew");
}
