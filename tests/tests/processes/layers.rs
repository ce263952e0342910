//! A stack of layers over several agents, and what must be true of it at any time and in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use muster_testbed::{eventually, look_closely};
use muster_tests::site::{Agent, Site};
use serde_json::Value;

/// Layers of the stack; each waits for the one before.
const LAYERS: usize = 5;
/// Files in a layer, on the agents in turn.
const WIDTH: usize = 4;
/// The number of files.
pub const FILES: usize = LAYERS * WIDTH;

/// The stack, over some agents.
pub struct Layers {
    /// Each node's own directory.
    roots: Vec<PathBuf>,
    template: String,
}

impl Layers {
    /// The files say `version`; between two layers is a dummy that takes a moment.
    pub fn new(site: &Site, agents: &[Agent]) -> Self {
        let mut text = String::from(
            "heat_template_version: 2018-08-31\nparameters:\n  version: {type: string}\nresources:\n",
        );
        for layer in 0..LAYERS {
            let needs =
                if layer == 0 { String::new() } else { format!("    depends_on: pause{}\n", layer - 1) };
            for column in 0..WIDTH {
                let agent = &agents[column % agents.len()];
                let file = format!("f{layer}-{column}");
                let (node, path) = (&agent.name, agent.file(&file));
                let content = format!(
                    "{{str_replace: {{template: \"VERSION {file}\\n\", params: {{VERSION: {{get_param: version}}}}}}}}"
                );
                write!(
                    text,
                    "  {file}:\n    type: Muster::File\n{needs}    properties: {{node: {node}, path: {}, content: {content}}}\n",
                    path.display()
                )
                .unwrap();
            }
            let node = &agents[layer % agents.len()].name;
            let below: Vec<String> = (0..WIDTH).map(|column| format!("f{layer}-{column}")).collect();
            write!(
                text,
                "  pause{layer}:\n    type: Muster::Dummy\n    depends_on: [{}]\n    properties: {{node: {node}, seconds: 0.1, \
                 values: {{version: {{get_param: version}}}}}}\n",
                below.join(", ")
            )
            .unwrap();
        }
        let roots = agents.iter().map(|agent| agent.root.clone()).collect();
        Self { roots, template: site.file(&text) }
    }

    /// The template's file.
    pub fn template(&self) -> &str {
        &self.template
    }

    fn files(&self) -> impl Iterator<Item = (String, PathBuf)> {
        (0..FILES).map(|number| {
            let (layer, column) = (number / WIDTH, number % WIDTH);
            let file = format!("f{layer}-{column}");
            let path = self.roots[column % self.roots.len()].join(&file);
            (file, path)
        })
    }

    /// The number of files that say this version now.
    pub fn count(&self, version: &str) -> usize {
        let says = |(file, path): &(String, PathBuf)| {
            fs::read_to_string(path).ok() == Some(format!("{version} {file}\n"))
        };
        self.files().filter(says).count()
    }

    /// Waits until `count` files say this version.
    pub fn until(&self, version: &str, count: usize) {
        let has_come = look_closely(|| (self.count(version) >= count).then_some(()));
        assert!(has_come.is_some(), "never have {count} files said {version}");
    }

    /// Reality is the template, and each name stands for one thing only.
    pub fn verify(&self, site: &Site, stack: &str, version: &str) {
        assert_eq!(self.count(version), FILES, "files that say {version}");
        let rows = site.json(&["resource", "list", stack, "--all"]);
        let mut names = BTreeSet::new();
        for row in rows.as_array().unwrap() {
            assert_eq!((&row["status"], &row["observed"]), (&"COMPLETE".into(), &"in_sync".into()), "{row}");
            assert!(names.insert(row["name"].as_str().unwrap().to_owned()), "two rows for {}", row["name"]);
        }
        assert_eq!(names.len(), FILES + LAYERS);
        for name in &names {
            assert_eq!(site.physical_ids(stack, name).len(), 1, "physical ids of {name}");
        }
        assert_eq!(self.everything().len(), FILES, "files in all");
    }

    /// Nothing is left of it, but what was there before; its events are kept for a while.
    pub fn verify_gone(&self, site: &Site, stack: &str, before: &BTreeMap<PathBuf, String>) {
        site.muster(&["stack", "show", stack]).refused(1, &[stack]);
        assert_eq!(&self.everything(), before);
        for table in ["resources", "graph", "revisions", "contents"] {
            assert_eq!(site.query(&format!("SELECT count(*) FROM {table}")), [["0"]], "{table}");
        }
    }

    /// The contents of the nodes' directories.
    fn everything(&self) -> BTreeMap<PathBuf, String> {
        let entries = self.roots.iter().flat_map(|root| fs::read_dir(root).unwrap());
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
    }

    /// Records what the files say from now on.
    pub fn watch(&self) -> History {
        History::of(self.files().map(|(_, path)| path).collect())
    }
}

/// Waits until the stack's operation has ended; it must be COMPLETE.
pub fn until_complete(site: &Site, stack: &str) -> Value {
    let view = eventually(&format!("{stack} has ended"), || {
        let view = site.json(&["stack", "show", stack]);
        (view["status"] != "IN_PROGRESS").then_some(view)
    });
    assert_eq!(view["status"], "COMPLETE", "{view}");
    view
}

/// The versions of each file in turn, as far as a reader that never rests could see.
pub struct History {
    stop: Sender<()>,
    reader: JoinHandle<BTreeMap<PathBuf, Vec<String>>>,
    /// Whether the reader has looked at every file once.
    began: Arc<AtomicBool>,
}

impl History {
    fn of(paths: Vec<PathBuf>) -> Self {
        let (stop, stopped) = channel();
        let began = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&began);
        let reader = std::thread::spawn(move || {
            let mut seen: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
            loop {
                for path in &paths {
                    let says = fs::read_to_string(path).unwrap_or_else(|_| "nothing".to_owned());
                    let list = seen.entry(path.clone()).or_default();
                    if list.last() != Some(&says) {
                        list.push(says);
                    }
                }
                flag.store(true, Ordering::Release);
                if stopped.recv_timeout(Duration::from_millis(2)) != Err(RecvTimeoutError::Timeout) {
                    return seen;
                }
            }
        });
        let history = Self { stop, reader, began };
        eventually("the reader has begun", || history.began.load(Ordering::Acquire).then_some(()));
        history
    }

    /// Each file went through `order` from left to right and never back; each step is the first word of a content.
    /// Part of a content is none of them.
    pub fn verify(self, order: &[&str]) {
        drop(self.stop);
        for (path, list) in self.reader.join().unwrap() {
            let mut at = 0;
            for content in &list {
                let word = content.split_whitespace().next().unwrap_or("empty");
                let step = order[at..].iter().position(|step| *step == word);
                at += step
                    .unwrap_or_else(|| panic!("{}: {list:?} is not in the order {order:?}", path.display()));
                let whole = word == "nothing" || word == "before" || content.ends_with('\n');
                assert!(whole, "{}: part of a content in {list:?}", path.display());
            }
        }
    }
}
