//! The arrows between our crates, and what the pure ones never reach, as ARCHITECTURE.md has them.
//!
//! Crates that a crate needs to be built count, through however many crates in between; crates that only its tests need
//! do not. A name in the table that no crate has fails, so that a misspelt one never passes for kept; so does a crate
//! of ours that the table does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A row: the others of ours that a crate may name, and the crates it may not reach.
struct Rule {
    name: &'static str,
    may: &'static [&'static str],
    never: &'static [&'static str],
}

/// Sockets, threads of a runtime, databases, protocols, the kernel, chance: whoever reaches none of these is pure.
const SHELL: &[&str] = &[
    "tokio",
    "mio",
    "socket2",
    "rumqttc",
    "rustls",
    "rusqlite",
    "tokio-postgres",
    "axum",
    "hyper",
    "nix",
    "rtnetlink",
    "zbus",
    "time",
    "tracing-subscriber",
    "config",
    "clap",
    "getrandom",
    "rand",
];

/// The crates that answer clients ask the API's router, and nothing else.
const FACE: &[&str] = &[
    "rusqlite",
    "tokio-postgres",
    "rumqttc",
    "rustls",
    "nix",
    "clap",
    "config",
    "rtnetlink",
    "zbus",
    "rcgen",
    "time",
];

const TABLE: &[Rule] = &[
    Rule { name: "muster-shared", may: &[], never: SHELL },
    Rule {
        name: "muster-tls",
        may: &["muster-shared"],
        never: &[
            "rumqttc",
            "tokio",
            "rusqlite",
            "axum",
            "hyper",
            "clap",
            "config",
            "rtnetlink",
            "zbus",
            "rcgen",
            "time",
        ],
    },
    Rule {
        name: "muster-broker",
        may: &["muster-shared", "muster-tls"],
        never: &["rusqlite", "axum", "hyper", "clap", "config", "rtnetlink", "zbus", "rcgen", "time"],
    },
    Rule { name: "muster-yaml", may: &[], never: SHELL },
    Rule { name: "muster-net-import", may: &["muster-shared"], never: SHELL },
    Rule {
        name: "muster-heat-import",
        may: &["muster-shared", "muster-intent", "muster-template"],
        never: SHELL,
    },
    Rule { name: "muster-template", may: &["muster-shared", "muster-intent"], never: SHELL },
    Rule { name: "muster-api", may: &["muster-shared"], never: SHELL },
    Rule { name: "muster-front", may: &["muster-shared", "muster-api"], never: FACE },
    Rule { name: "muster-picture", may: &["muster-shared", "muster-api"], never: SHELL },
    Rule {
        name: "muster-console",
        may: &["muster-shared", "muster-api", "muster-picture", "muster-front"],
        never: FACE,
    },
    Rule { name: "muster-onos-api", may: &["muster-shared", "muster-api", "muster-front"], never: FACE },
    Rule {
        name: "muster-heat-api",
        may: &["muster-shared", "muster-api", "muster-template", "muster-front"],
        never: FACE,
    },
    Rule {
        name: "muster-engine",
        may: &["muster-shared", "muster-intent", "muster-template", "muster-flow", "muster-api"],
        never: SHELL,
    },
    Rule {
        name: "muster-flow",
        may: &["muster-shared", "muster-intent", "muster-template", "muster-api"],
        never: SHELL,
    },
    Rule { name: "muster-intent", may: &["muster-shared"], never: SHELL },
    Rule { name: "muster-agent-core", may: &["muster-shared"], never: SHELL },
    Rule {
        name: "muster-host",
        may: &["muster-shared"],
        never: &[
            "rumqttc",
            "rustls",
            "rusqlite",
            "tokio-postgres",
            "axum",
            "hyper",
            "saphyr-parser",
            "clap",
            "config",
        ],
    },
    Rule {
        name: "muster-agent-link",
        may: &["muster-shared", "muster-broker"],
        never: &["rusqlite", "tokio-postgres", "axum", "hyper", "clap", "config", "rtnetlink", "zbus"],
    },
    Rule {
        name: "muster-agent",
        may: &["muster-shared", "muster-yaml", "muster-agent-core", "muster-agent-link", "muster-host"],
        never: &["rusqlite", "tokio-postgres", "axum", "hyper"],
    },
    Rule {
        name: "muster-controller",
        may: &[
            "muster-shared",
            "muster-broker",
            "muster-intent",
            "muster-template",
            "muster-engine",
            "muster-flow",
            "muster-api",
            "muster-picture",
            "muster-front",
            "muster-console",
            "muster-onos-api",
            "muster-heat-api",
        ],
        never: &["rtnetlink", "netlink-packet-route", "zbus"],
    },
    Rule {
        name: "muster-cli",
        may: &[
            "muster-shared",
            "muster-yaml",
            "muster-template",
            "muster-tls",
            "muster-api",
            "muster-net-import",
            "muster-heat-import",
            "muster-picture",
        ],
        never: &["rumqttc", "rusqlite", "tokio-postgres", "axum", "rtnetlink", "zbus"],
    },
    Rule {
        name: "muster-testbed",
        may: &[],
        never: &["tokio", "rumqttc", "rusqlite", "tokio-postgres", "axum"],
    },
    Rule {
        name: "muster-tests",
        may: &[
            "muster-shared",
            "muster-broker",
            "muster-template",
            "muster-testbed",
            "muster-api",
            "muster-engine",
            "muster-flow",
            "muster-controller",
            "muster-agent-core",
            "muster-agent-link",
            "muster-host",
            "muster-intent",
        ],
        never: &[],
    },
];

/// Crates by name, each with the names of those it needs directly to be built.
#[derive(Default)]
struct Graph {
    ours: BTreeSet<String>,
    needs: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// From what `cargo metadata` prints. Two versions of one crate are one here, so nothing is missed.
    fn read(metadata: &Value) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let names: BTreeMap<String, String> = list(&metadata["packages"])
            .iter()
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect();
        let mut graph = Self {
            ours: list(&metadata["workspace_members"]).iter().map(|id| names[&text(id)].clone()).collect(),
            needs: BTreeMap::new(),
        };
        for node in list(&metadata["resolve"]["nodes"]) {
            let needs = graph.needs.entry(names[&text(&node["id"])].clone()).or_default();
            for dependency in list(&node["deps"]) {
                // `null` is a normal dependency, `build` one of its build script.
                if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev") {
                    needs.insert(names[&text(&dependency["pkg"])].clone());
                }
            }
        }
        graph
    }

    /// From what `cargo tree --prefix depth` prints of one crate.
    fn of_tree(printed: &str) -> Self {
        let mut graph = Self::default();
        let mut above: Vec<&str> = Vec::new();
        for line in printed.lines().filter(|line| !line.is_empty()) {
            let name = line.trim_start_matches(|c: char| c.is_ascii_digit());
            let depth = line[..line.len() - name.len()].parse().expect("each line begins with its depth");
            let name = name.split(' ').next().expect("a line has a name");
            above.truncate(depth);
            if let Some(parent) = above.last() {
                graph.needs.entry((*parent).to_owned()).or_default().insert(name.to_owned());
            }
            above.push(name);
        }
        graph
    }

    /// The way from one crate to another, if there is one.
    fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut seen = BTreeSet::from([from]);
        let mut open = vec![vec![from.to_owned()]];
        while let Some(way) = open.pop() {
            let last = way.last().expect("a way has at least its beginning").clone();
            if last == to {
                return Some(way);
            }
            for next in self.needs.get(&last).into_iter().flatten() {
                if seen.insert(next) {
                    open.push(way.iter().chain([next]).cloned().collect());
                }
            }
        }
        None
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("cargo prints names and ids as text").to_owned()
}

/// The faults, a line each. `graph` has the features that all crates ask for together; `alone` has those of one crate
/// and
/// what it needs, and is asked where that makes a difference: openidconnect gives the controller's rand_core a getrandom
/// that no pure crate asks for.
fn check(table: &[Rule], graph: &Graph, alone: impl Fn(&str) -> Graph) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in graph.ours.iter().filter(|name| !table.iter().any(|rule| rule.name == **name)) {
        wrong.push(format!("{name} has no row in the table"));
    }
    for rule in table {
        for name in [rule.name].iter().chain(rule.may).filter(|name| !graph.ours.contains(**name)) {
            wrong.push(format!("{name}, in the row of {}, is no crate of ours: misspelt?", rule.name));
        }
        for name in rule.never.iter().filter(|name| !graph.needs.contains_key(**name)) {
            wrong.push(format!("{name}, in the row of {}, is no crate in Cargo.lock: misspelt?", rule.name));
        }
        let needs = graph.needs.get(rule.name).into_iter().flatten();
        for name in needs.filter(|name| graph.ours.contains(*name) && !rule.may.contains(&name.as_str())) {
            wrong.push(format!("{} may not depend on {name}", rule.name));
        }
        let reached: Vec<&str> =
            rule.never.iter().copied().filter(|name| graph.way(rule.name, name).is_some()).collect();
        if reached.is_empty() {
            continue;
        }
        let alone = alone(rule.name);
        for way in reached.into_iter().filter_map(|name| alone.way(rule.name, name)) {
            wrong.push(format!("{} may not reach {}", rule.name, way[1..].join(" → ")));
        }
    }
    wrong
}

/// Cargo, in the workspace.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    cargo
}

fn metadata(arguments: &[&str]) -> Value {
    let output = cargo()
        .args(["metadata", "--format-version=1", "--locked"])
        .args(arguments)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

#[test]
fn our_crates_keep_to_the_table() {
    let host = Command::new("rustc").arg("-vV").output().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let graph = Graph::read(&metadata(&["--filter-platform", host]));
    let wrong = check(TABLE, &graph, |name| {
        let output = cargo()
            .args(["tree", "--locked", "--edges=normal,build", "--prefix=depth", "--package", name])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Graph::of_tree(str::from_utf8(&output.stdout).unwrap())
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The calls and types that clippy keeps out of a pure crate.
const BANNED: [&str; 5] = [
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::sleep",
    "std::collections::HashMap",
    "std::collections::HashSet",
];
const NO_WILDCARDS: &str = "#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]";

/// The gaps in the fence of a pure crate in the folder.
fn open_fence(folder: &Path) -> Vec<String> {
    // As clippy looks for it: here, then in each folder above.
    let file = folder.ancestors().map(|above| above.join("clippy.toml")).find(|file| file.exists());
    let bans = file.map(|file| fs::read_to_string(file).expect("the file is there")).unwrap_or_default();
    let root = fs::read_to_string(folder.join("src/lib.rs")).unwrap_or_default();
    let missing = BANNED.iter().filter(|path| !bans.contains(&format!("path = \"{path}\"")));
    missing
        .map(|path| format!("clippy.toml does not ban {path}"))
        .chain((!root.contains(NO_WILDCARDS)).then(|| format!("src/lib.rs lacks {NO_WILDCARDS}")))
        .collect()
}

#[test]
fn pure_crates_are_fenced() {
    let packages = metadata(&["--no-deps"]);
    let folder = |name: &str| {
        let package =
            packages["packages"].as_array().unwrap().iter().find(|package| package["name"] == *name);
        PathBuf::from(text(&package.unwrap()["manifest_path"])).parent().unwrap().to_owned()
    };
    let pure = TABLE.iter().filter(|rule| rule.never == SHELL);
    let open: Vec<String> = pure
        .flat_map(|rule| {
            open_fence(&folder(rule.name)).into_iter().map(move |what| format!("{}: {what}", rule.name))
        })
        .collect();
    assert!(open.is_empty(), "{}", open.join("\n"));
    assert_eq!(
        open_fence(&folder("muster-testbed")).len(),
        BANNED.len(),
        "the root's file bans sleep, and the lint is missing"
    );
}

/// `a → b → tokio`, and c alone; only a's tests need c.
fn small() -> Graph {
    let dependency = |id: &str, kind: Value| serde_json::json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
    Graph::read(&serde_json::json!({
        "packages": [
            {"id": "0", "name": "a"}, {"id": "1", "name": "b"}, {"id": "2", "name": "c"}, {"id": "3", "name": "tokio"},
        ],
        "workspace_members": ["0", "1", "2"],
        "resolve": {"nodes": [
            {"id": "0", "deps": [dependency("1", Value::Null), dependency("2", "dev".into())]},
            {"id": "1", "deps": [dependency("3", "build".into())]},
            {"id": "2", "deps": []},
            {"id": "3", "deps": []},
        ]},
    }))
}

#[test]
fn the_check_finds_what_it_is_for() {
    let b = || Rule { name: "b", may: &[], never: &[] };
    let c = || Rule { name: "c", may: &[], never: &["tokio"] };
    let of_a = |may, never| check(&[Rule { name: "a", may, never }, b(), c()], &small(), |_| small());
    assert_eq!(of_a(&["b"], &[]), [""; 0]);
    assert_eq!(of_a(&[], &[]), ["a may not depend on b"]);
    assert_eq!(of_a(&["b"], &["tokio"]), ["a may not reach b → tokio"]);
    assert_eq!(of_a(&["b", "d"], &[]), ["d, in the row of a, is no crate of ours: misspelt?"]);
    assert_eq!(of_a(&["b"], &["tokyo"]), ["tokyo, in the row of a, is no crate in Cargo.lock: misspelt?"]);
    let without_a = check(&[b(), c()], &small(), |_| small());
    assert_eq!(without_a, ["a has no row in the table"]);
    let misspelt = Rule { name: "bb", may: &[], never: &[] };
    let wrong = check(&[Rule { name: "a", may: &["b"], never: &[] }, misspelt, c()], &small(), |_| small());
    assert_eq!(wrong, ["b has no row in the table", "bb, in the row of bb, is no crate of ours: misspelt?"]);
}

#[test]
fn a_feature_of_other_crates_is_no_arrow() {
    let a = || [Rule { name: "a", may: &["b"], never: &["tokio"] }];
    let without = |wrong: Vec<String>| -> Vec<String> {
        wrong.into_iter().filter(|what| !what.ends_with("has no row in the table")).collect()
    };
    let alone = |printed: &'static str| {
        without(check(&a(), &small(), |name| {
            assert_eq!(name, "a");
            Graph::of_tree(printed)
        }))
    };
    assert_eq!(alone("0a v1.0.0 (/a)\n1b v1.0.0\n1d v1.0.0\n"), [""; 0]);
    let by_d = alone("0a v1.0.0 (/a)\n1b v1.0.0\n2e v1.0.0\n1d v1.0.0\n2tokio v1.0.0 (*)\n");
    assert_eq!(by_d, ["a may not reach d → tokio"]);
}
