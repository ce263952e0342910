//! Netplan's and nmstate's own example files: what becomes of each is in `docs/conformance/net-import.tsv`.
//!
//! Absent: the files, since netplan's are under the GPL. `tests/net-import/record` writes them among the samples
//! beside the repository, or where `MUSTER_SAMPLES` says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::{Imported, Malformed, netplan, nmstate};

fn samples() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples");
    std::env::var_os("MUSTER_SAMPLES").map_or(beside, PathBuf::from).join("net-import/documents.json")
}

/// A file's row, as `tests/net-import/record` writes it.
fn row(project: &str, path: &str, text: &str) -> String {
    let import = |value: Value| match project {
        "netplan" => netplan(vec![value]),
        _ => nmstate(&value),
    };
    let refused = |why: String| format!("{project}\t{path}\t-\tFILE:{why}");
    let imported: Result<Imported, Malformed> = match muster_yaml::parse(text) {
        Ok(value) => import(value),
        Err(error) => return refused(error.to_string()),
    };
    match imported {
        Ok(Imported { document, left_out }) => {
            let sections = document.as_object().unwrap().values();
            let objects: usize = sections.map(|section| section.as_array().unwrap().len()).sum();
            format!("{project}\t{path}\t{objects}\t{}", left_out.join("; "))
        }
        Err(error) => refused(format!(" {error}")),
    }
}

#[test]
fn example_files_become_what_is_recorded() {
    let Ok(written) = std::fs::read(samples()) else {
        println!("0 example files ran: there is no {}", samples().display());
        return;
    };
    let files: Vec<Value> = serde_json::from_slice(&written).unwrap();
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance/net-import.tsv");
    let rows = std::fs::read_to_string(rows).unwrap();
    let recorded: BTreeSet<String> = rows.lines().skip(1).map(str::to_owned).collect();
    let of = |file: &Value| {
        let part = |key: &str| file[key].as_str().unwrap().to_owned();
        row(&part("project"), &part("path"), &part("text"))
    };
    let now: BTreeSet<String> = files.iter().map(of).collect();
    let differ: Vec<&String> = recorded.symmetric_difference(&now).collect();
    assert!(differ.is_empty(), "tests/net-import/record writes these rows anew: {differ:#?}");
    println!("{} example files ran", files.len());
}

/// Puts a value at a place such as `interfaces[0].mtu`; maps and lists on the way are made.
fn put(root: &mut Value, place: &str, value: Value) {
    // The one key with a dot.
    let place = place.replace("802.1x", "802_1x");
    let mut at = root;
    for word in place.split('.') {
        let (key, index) = match word.split_once('[') {
            Some((key, index)) => (key, index.strip_suffix(']').unwrap().parse::<usize>().ok()),
            None => (word, None),
        };
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[key.replace("802_1x", "802.1x")];
        if let Some(index) = index {
            if !at.is_array() {
                *at = json!([]);
            }
            let list = at.as_array_mut().unwrap();
            while list.len() <= index {
                list.push(json!({"name": format!("l{}", list.len())}));
            }
            at = &mut list[index];
        }
    }
    *at = value;
}

/// Whether a file with nothing but this at that place has this line among what is left out.
fn is_left_out(project: &str, place: &str, why: &str) -> bool {
    let line = format!("{place}: {why}");
    let has = |imported: Result<Imported, Malformed>| imported.is_ok_and(|it| it.left_out.contains(&line));
    let value = if why.ends_with("such link") { json!({}) } else { json!(true) };
    let mut file = json!({});
    if project == "netplan" {
        put(&mut file, place, value);
        if let Some((vlan, _)) = place.strip_prefix("network.vlans.").and_then(|rest| rest.split_once('.')) {
            put(&mut file, &format!("network.vlans.{vlan}.id"), json!(7));
        }
        return has(netplan(vec![file]));
    }
    let Some((interface, _)) = place.split_once(']').filter(|(start, _)| start.starts_with("interfaces"))
    else {
        put(&mut file, "interfaces[0].name", json!("eth0"));
        put(&mut file, place, value);
        return has(nmstate(&file));
    };
    if let Some(kind) = why.strip_prefix("a network document ").filter(|_| !why.ends_with("such setting")) {
        let (verb, kind) = kind.split_once(" no ").unwrap();
        let state = if verb == "removes" { "absent" } else { "up" };
        put(&mut file, place, json!({"name": "l", "type": kind, "state": state}));
        return has(nmstate(&file));
    }
    // The row does not tell the interface's type.
    ["ethernet", "bond", "linux-bridge", "ovs-bridge", "ovs-interface", "vlan"].into_iter().any(|kind| {
        let mut file = json!({});
        put(&mut file, &format!("{interface}].type"), json!(kind));
        put(&mut file, &format!("{interface}].name"), json!("l"));
        match kind {
            "bond" => put(&mut file, &format!("{interface}].link-aggregation.mode"), json!("active-backup")),
            "vlan" => put(&mut file, &format!("{interface}].vlan.id"), json!(7)),
            _ => {}
        }
        put(&mut file, place, value.clone());
        has(nmstate(&file))
    })
}

/// The recorded rows tell where a file has what no document says: that must be so still. Runs without the files.
#[test]
fn what_is_recorded_as_left_out_is_left_out() {
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance/net-import.tsv");
    let rows = std::fs::read_to_string(rows).unwrap();
    let (mut checked, mut said) = (0, Vec::new());
    for row in rows.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        for (place, why) in columns[3].split("; ").filter_map(|line| line.split_once(": ")) {
            let starts = ["a network document has no ", "a network document removes no "];
            if !starts.iter().any(|start| why.starts_with(start))
                || why.contains(" of type ")
                || why.contains(" in state ")
            {
                continue;
            }
            checked += 1;
            if !is_left_out(columns[0], place, why) {
                said.push(format!("{} {}: {place}: {why}", columns[0], columns[1]));
            }
        }
    }
    assert!(said.is_empty(), "tests/net-import/record writes these rows anew: {said:#?}");
    assert!(checked > 60, "{checked} places were checked");
}

#[test]
fn a_row_tells_what_becomes_of_a_file() {
    for (project, text, wanted) in [
        ("netplan", "network: {ethernets: {eth0: {}}}", "netplan\tf\t1\t"),
        (
            "nmstate",
            "interfaces: [{name: v, type: vrf}, {name: b, type: bond, state: absent}]",
            "nmstate\tf\t1\tinterfaces[0]: a network document has no vrf",
        ),
        ("nmstate", "{}", "nmstate\tf\t-\tFILE: interfaces: is missing: this is not a state of nmstate"),
        (
            "netplan",
            "a: &x 1\nb: *x\n",
            "netplan\tf\t-\tFILE:2:4: anchors and aliases are not supported here",
        ),
    ] {
        assert_eq!(row(project, "f", text), wanted);
    }
}
