//! The layers of the pure machines: within each, modules call down only, as ARCHITECTURE.md says of the engine.
//!
//! The compiler keeps a layer from calling up, for it does not have what is above. It does not keep two files of one layer
//! from calling each other; this does. Calls are `self.NAME(` in an `impl` of the layer, found as text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A crate's sources, and its layers with the largest circle of files that call each other.
const TABLE: &[(&str, &[(&str, usize)])] = &[
    (
        "controller/engine/src",
        // The proof of an intent begins traces, and traces tell it when they are over.
        &[("Engine", 2), ("Traversals", 1), ("Jobs", 1), ("Graph", 1), ("Context", 1), ("View", 1)],
    ),
    // Work on an intent sets when the manager looks at it again.
    ("controller/intent/src", &[("Manager", 2)]),
    ("agent/core/src", &[("Agent", 1)]),
    ("agent/core/src/jobs", &[("Jobs", 1)]),
    ("agent/core/src/flow", &[("Device", 3)]),
];

/// The methods of a layer: the module of each, and the names that each module calls.
#[derive(Default)]
struct Layer {
    of: BTreeMap<String, String>,
    calls: BTreeMap<String, BTreeSet<String>>,
}

impl Layer {
    /// Takes in what a module's text has of the layer called `name`.
    fn read(&mut self, name: &str, module: &str, text: &str) {
        let heads = [format!("impl {name} {{"), format!("impl {name}<'_> {{")];
        let mut is_in = false;
        for line in text.lines() {
            match line {
                "}" => is_in = false,
                _ if heads.iter().any(|head| head == line) => is_in = true,
                _ if !is_in => continue,
                _ => {}
            }
            let words = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' ')).unwrap_or_default();
            if let Some((_, rest)) = words.split_once("fn ") {
                self.of.insert(name_in(rest), module.to_owned());
            }
            for (at, _) in line.match_indices("self.") {
                let rest = &line[at + "self.".len()..];
                let called = name_in(rest);
                if rest[called.len()..].starts_with('(') {
                    self.calls.entry(module.to_owned()).or_default().insert(called);
                }
            }
        }
    }

    /// Modules that each module calls, others alone.
    fn arrows(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let to = |module: &str, called: &String| {
            self.of.get(called).map(String::as_str).filter(|other| *other != module)
        };
        let modules = self.calls.iter();
        modules
            .map(|(module, called)| {
                (module.as_str(), called.iter().filter_map(|it| to(module, it)).collect())
            })
            .collect()
    }

    /// The largest set of modules each of which leads to each other.
    fn largest_circle(&self) -> BTreeSet<&str> {
        let arrows = self.arrows();
        let all: BTreeMap<&str, BTreeSet<&str>> =
            arrows.keys().map(|module| (*module, reached(&arrows, module))).collect();
        let mut largest = BTreeSet::new();
        for (module, leads) in &all {
            let is_mutual = |other: &&str| all.get(other).is_some_and(|it| it.contains(module));
            let circle: BTreeSet<&str> = leads.iter().copied().filter(is_mutual).chain([*module]).collect();
            if circle.len() > largest.len() {
                largest = circle;
            }
        }
        largest
    }
}

/// The modules to which a module leads.
fn reached<'l>(arrows: &BTreeMap<&'l str, BTreeSet<&'l str>>, from: &str) -> BTreeSet<&'l str> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = arrows.get(from).into_iter().flatten().copied().collect();
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(arrows.get(module).into_iter().flatten());
        }
    }
    seen
}

/// The name that a text begins with.
fn name_in(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Product files below a folder, with their text up to their own tests.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder of sources")
        .map(|it| it.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_tests {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") && !is_tests {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            found.push((path, product.to_owned()));
        }
    }
}

#[test]
fn modules_of_a_layer_call_down_only() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for (sources_of, layers) in TABLE {
        let folder = root.join(sources_of);
        let mut files = Vec::new();
        sources(&folder, &mut files);
        for (name, most) in *layers {
            let mut layer = Layer::default();
            for (path, text) in &files {
                let inside = path.strip_prefix(&folder).unwrap();
                layer.read(name, &inside.with_extension("").to_string_lossy(), text);
            }
            assert!(!layer.of.is_empty(), "{sources_of} has no impl of {name}: misspelt?");
            let circle = layer.largest_circle();
            assert!(
                circle.len() <= *most,
                "modules of {name} call each other: {circle:?}, want at most {most}"
            );
        }
    }
}

#[test]
fn a_circle_is_found() {
    let mut layer = Layer::default();
    layer.read(
        "Jobs",
        "a",
        "impl Jobs {\n    pub(crate) fn one(&mut self) {\n        self.two();\n    }\n}\n",
    );
    layer.read(
        "Jobs",
        "b",
        "impl Jobs {\n    fn two(&self) {\n        self.three(1); self.rows.one();\n    }\n}\n",
    );
    layer.read("Jobs", "c", "impl Jobs {\n    fn three(&self) {}\n}\nimpl Graph {\n    fn four(&self) {\n        self.one();\n    }\n}\n");
    assert_eq!(layer.largest_circle().len(), 1);
    layer.read("Jobs", "c", "impl Jobs {\n    fn five(&self) {\n        self.one();\n    }\n}\n");
    assert_eq!(layer.largest_circle(), ["a", "b", "c"].into());
}
