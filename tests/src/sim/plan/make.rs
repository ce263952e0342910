//! Makes plans at random: names, places and values are few, so that they meet.

mod each;
mod tree;

pub use tree::SHARED;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use muster_engine::Hook;
use muster_intent::intent::{Constraints, Intent};
use muster_shared::model::OnDelete;
use muster_shared::model::flow::{Action, Entry, Instruction, Packed};

use super::super::dice::Dice;
use super::super::flow::{self, MANAGEMENT, Manner, OTHER};
use super::super::load::Load;
use super::super::network::Fabric;
use super::{
    CONFIG, CUTTING, Group, HANDLE, HIDDEN, Member, Plan, Resource, Runs, Script, Value, Virtual, What,
};

/// Returns the same rule with another treatment.
fn turned(packed: &Packed) -> Packed {
    let Entry::Rule(mut rule) = packed.unpack() else { return packed.clone() };
    rule.treatment.insert(0, Instruction::Do(Action::SetQueue(1)));
    rule.treatment.truncate(2);
    flow::packed(&Entry::Rule(rule))
}

/// A file that is on every server.
pub const FOUND: (&str, &str, u32) = ("/etc/found", "found", 0o600);

/// The external resource of a stack, on a node that no other stack has one on if there are enough nodes.
fn external(stack: usize) -> Resource {
    let (path, content, mode) = FOUND;
    Resource {
        node: Some(format!("node-{stack}")),
        depends_on: BTreeSet::new(),
        what: What::File {
            path: path.into(),
            content: Value::Text(content.into()),
            size: 0,
            mode,
            on_delete: OnDelete::Restore,
        },
        retain: false,
        external: Some(format!("found-{stack}")),
        on: None,
        each: None,
    }
}

/// Returns a group of many things on one server, of which none needs another.
fn many(count: u64, node: &str) -> Group {
    let member = Member::Dummy { node: node.to_owned(), value: Value::Text("one of many".into()) };
    Group {
        chain: None,
        count: Value::Text(count.to_string()),
        by_parameter: false,
        removed: BTreeSet::new(),
        removed_things: BTreeSet::new(),
        appends: true,
        batches: None,
        member,
    }
}

/// The source of plans.
pub struct Maker {
    dice: Dice,
    /// The dice for sets, which each node has once.
    fleet: Dice,
    /// Plans have sets.
    pub sets: bool,
    /// The dice for drift policies.
    policies: Dice,
    /// Plans have drift policies.
    pub drift: bool,
    /// The load of the site: contents, and how long jobs take.
    pub load: Load,
    /// Some take so long that those behind them would once have counted as lost.
    has_long_jobs: bool,
    made: u64,
    nodes: Vec<String>,
    /// The newest plan, by stack number.
    newest: BTreeMap<usize, Plan>,
    /// The network that links and intents are of.
    pub fabric: Rc<Fabric>,
}

/// The longest job, in milliseconds: several times what an older agent is given to answer.
const LONG_JOB: u64 = 1_200_000;
/// A run in so many has such.
const LONG_JOBS_IN: u64 = 5;

/// Names are few, so that rows are found again.
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
/// Resources that never change their type.
const FIXED: [&str; 3] = ["x", "y", "z"];
/// The name of the resource for a link of the network.
const LINK: &str = "l";
const INTENT: &str = "i";
/// Things of which there are many on one server.
const MANY: &str = "m";
/// Packets of stacks' intents are for addresses of their own.
const OWN_ADDRESS: usize = 100;
const LINKS: [&str; 4] = ["eth1", "eth2", "eth3", "eth4"];
/// A size that a job does not carry itself.
const LARGE: usize = 70_000;

/// The demands on a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Anything goes.
    Any,
    /// The plan can be carried out.
    Sound,
}

impl Maker {
    /// Makes a source of plans for these nodes.
    pub fn new(seed: u64, nodes: Vec<String>) -> Self {
        Self {
            dice: Dice::new(seed, "plans"),
            fleet: Dice::new(seed, "sets"),
            sets: false,
            policies: Dice::new(seed, "drift policies"),
            drift: false,
            load: Load::none(),
            has_long_jobs: seed.is_multiple_of(LONG_JOBS_IN),
            made: 0,
            nodes,
            newest: BTreeMap::new(),
            fabric: Rc::default(),
        }
    }

    /// The newest plan of stack number `stack` with one thing changed in one resource, if there is one: what needs
    /// that resource has to follow, and nothing else.
    pub fn change(&mut self, stack: usize) -> Option<Plan> {
        let mut plan = self.newest.get(&stack)?.clone();
        let names: Vec<String> =
            plan.resources.keys().filter(|it| !FIXED.contains(&&***it)).cloned().collect();
        let name = self.dice.pick(&names);
        let value = Value::Text(format!("w{}", self.dice.below(1000)));
        let resource = plan.resources.get_mut(name)?;
        self.changes_selector(resource);
        match &mut resource.what {
            What::Dummy { values, .. } => drop(values.insert("k".to_owned(), value)),
            What::File { content, .. } => *content = value,
            What::Network { links, .. } => {
                links.values_mut().for_each(|mtu| *mtu = if *mtu == CUTTING { 1400 } else { *mtu });
                links.values_mut().take(1).for_each(|mtu| *mtu = 2900 - *mtu);
            }
            What::Hostname { number, .. } => *number += 1,
            What::Flows { entries, .. } => {
                entries.retain(|_, packed| !flow::cuts(packed) && !flow::is_bad(packed));
                entries.values_mut().for_each(|packed| *packed = turned(packed));
                if entries.is_empty() {
                    return None;
                }
            }
            What::Script(script) => script.input = value,
            What::Virtual(here) => here.change()?,
            What::Group(group) => group.change()?,
            What::Nested(inner) => inner.value = value,
        }
        if self.drift {
            plan.redraw_a_policy(&mut self.policies);
        }
        self.made += 1;
        plan.name = format!("plan-{}", self.made);
        self.newest.insert(stack, plan.clone());
        Some(plan)
    }

    /// A new plan for stack number `stack`.
    pub fn make(&mut self, stack: usize, mood: Mood) -> Plan {
        self.made += 1;
        let mut names = NAMES.to_vec();
        for i in (1..names.len()).rev() {
            names.swap(i, self.dice.index(i + 1));
        }
        names.truncate(1 + self.dice.index(NAMES.len()));
        let mut plan = Plan {
            name: format!("plan-{}", self.made),
            hidden: format!("{HIDDEN}{}-{}", self.made, self.dice.below(1000)),
            ..Plan::default()
        };
        let mut taken = BTreeSet::new();
        self.network_of(stack, mood, &mut plan);
        if self.dice.below(3) > 0 {
            let config = Virtual::Config(format!("c{}", self.dice.below(2)));
            plan.resources.insert(CONFIG.to_owned(), Resource::of(What::Virtual(config)));
        }
        if self.dice.one_in(2) {
            plan.resources.insert(HANDLE.to_owned(), Resource::of(What::Virtual(Virtual::Handle)));
        }
        if self.sets {
            self.first_sets(stack, mood, &mut plan);
        }
        for (at, name) in names.iter().enumerate() {
            let mut resource = self.resource(stack, mood, &plan, &names[..at], &mut taken);
            // Whether the members are ports is unknown when the template is read.
            if resource.what.is_group_of_ports() && plan.resources.contains_key("z") {
                resource.depends_on.insert("z".to_owned());
            }
            plan.resources.insert((*name).to_owned(), resource);
        }
        if self.sets {
            self.last_sets(stack, mood, &mut plan, &names);
        }
        if let Some(count) = self.load.crowd() {
            plan.resources.insert(MANY.into(), Resource::of(What::Group(many(count, &self.nodes[0]))));
        }
        let external = external(stack);
        let is_there = external.node.as_ref().is_some_and(|node| self.nodes.contains(node));
        if self.dice.one_in(6) && is_there {
            plan.resources.insert("x".to_owned(), external);
        }
        if !self.fabric.devices.is_empty() {
            self.intents(stack, mood, &mut plan);
        }
        if mood == Mood::Any && self.dice.one_in(5) {
            self.environment(&mut plan);
        }
        plan.own_types = self.dice.one_in(4);
        if self.drift {
            plan.draw_policies(&mut self.policies);
        }
        self.newest.insert(stack, plan.clone());
        plan
    }

    /// A sound one in which nobody waits for signals.
    pub fn make_without_handle(&mut self, stack: usize) -> Plan {
        loop {
            let plan = self.make(stack, Mood::Sound);
            if !plan.resources.contains_key(HANDLE) {
                return plan;
            }
        }
    }

    /// Each stack says what one cable is like, and has an intent.
    fn intents(&mut self, stack: usize, mood: Mood, plan: &mut Plan) {
        if stack < self.fabric.cables.len() && self.dice.below(3) > 0 {
            let (ends, millis) = (Box::new(self.fabric.link(stack, 0)), 1 + self.dice.below(3));
            plan.resources.insert(LINK.into(), Resource::of(What::Virtual(Virtual::Link { ends, millis })));
        }
        if self.dice.one_in(2) {
            return;
        }
        let fabric = Rc::clone(&self.fabric);
        let mut wish = fabric.wish(&mut self.dice, OWN_ADDRESS + stack, false);
        let timeout = if mood == Mood::Any { *self.dice.pick(&[3, 30, 120]) } else { 600 };
        if mood == Mood::Sound {
            // Nothing that others, or the network, could be in the way of.
            let Constraints { vlan, protection, partial_failure, .. } = wish.intent.constraints;
            let constraints = Constraints { vlan, protection, partial_failure, ..Constraints::default() };
            wish.intent = Arc::new(Intent { constraints, ..(*wish.intent).clone() });
        }
        let key = format!("s{stack}-own");
        let mut resource = Resource::of(What::Virtual(Virtual::Intent { key, wish, timeout }));
        if plan.resources.contains_key(LINK) && self.dice.one_in(2) {
            resource.depends_on.insert(LINK.into());
        }
        plan.resources.insert(INTENT.into(), resource);
    }

    fn environment(&mut self, plan: &mut Plan) {
        let names: Vec<String> =
            plan.resources.keys().filter(|it| !FIXED[1..].contains(&&***it)).cloned().collect();
        for _ in 0..1 + self.dice.below(2) {
            let hook = *self.dice.pick(&Hook::ALL);
            plan.hooks.entry(self.dice.pick(&names).clone()).or_default().push(hook);
        }
        plan.hooks.values_mut().for_each(|hooks| {
            hooks.sort();
            hooks.dedup();
        });
        if self.dice.one_in(3) {
            let action = *self.dice.pick(&["update", "replace"]);
            plan.restricted.insert(self.dice.pick(&names).clone(), action);
        }
    }

    fn resource(
        &mut self,
        stack: usize,
        mood: Mood,
        plan: &Plan,
        earlier: &[&str],
        taken: &mut BTreeSet<String>,
    ) -> Resource {
        let mut depends_on = BTreeSet::new();
        for name in earlier {
            if self.dice.one_in(4) {
                depends_on.insert((*name).to_owned());
            }
        }
        // Few at a time, so that they meet.
        let few = 3 + self.dice.index(8);
        let few = if self.load.is_wide { self.nodes.len() } else { self.nodes.len().min(few) };
        let mut node = self.nodes[self.dice.index(few)].clone();
        if mood == Mood::Any && self.dice.one_in(60) {
            node = format!("ghost-{}", self.dice.below(2));
        }
        if self.dice.one_in(6) {
            let (what, node) = self.flows(stack, mood, &node, taken);
            let retain = self.dice.one_in(20);
            return Resource {
                node: Some(node),
                depends_on,
                what,
                retain,
                external: None,
                on: None,
                each: None,
            };
        }
        // Also what is not there: nothing but an order refers to it.
        let on = self.dice.one_in(6).then(|| self.dice.one_in(2));
        if self.dice.one_in(4) {
            let what = self.tree(mood, plan, earlier, &node, (stack, earlier.len()));
            let retain = self.dice.one_in(20);
            return Resource { node: None, depends_on, what, retain, external: None, on, each: None };
        }
        if plan.resources.contains_key(CONFIG) && self.dice.one_in(4) {
            let what = self.script(plan, earlier);
            let retain = self.dice.one_in(20);
            return Resource { node: Some(node), depends_on, what, retain, external: None, on, each: None };
        }
        let what = match self.dice.below(10) {
            0..5 => self.dummy(mood, plan, earlier),
            5..9 => self.file(stack, mood, plan, earlier, &node, taken),
            // A server has one name, so that each stack has a server to name.
            _ if node == format!("node-{stack}") && taken.insert(format!("{node} name")) => self.hostname(),
            _ => self.network(stack, mood, &node, taken),
        };
        let anywhere = matches!(what, What::Dummy { .. }) && self.dice.one_in(10);
        let retain = self.dice.one_in(20);
        Resource {
            node: (!anywhere).then_some(node),
            depends_on,
            what,
            retain,
            external: None,
            on,
            each: None,
        }
    }

    fn value(&mut self, plan: &Plan, earlier: &[&str]) -> Value {
        if earlier.is_empty() || self.dice.below(3) > 0 {
            return match self.dice.below(6) {
                0 => Value::Hidden,
                _ => Value::Text(format!("v{}", self.dice.below(4))),
            };
        }
        let of = (*self.dice.pick(earlier)).to_owned();
        if !plan.resources[&of].is_there() {
            return Value::Text("v9".into());
        }
        match &plan.resources[&of].what {
            What::Virtual(Virtual::Value(_) | Virtual::Random { .. }) => Value::Attribute(of, "value".into()),
            What::Virtual(Virtual::Port { .. }) => Value::Address(of),
            What::Group(group) => Value::All(of, group.attribute().into()),
            What::Nested(_) if self.dice.one_in(2) => Value::Attribute(of, "o".into()),
            What::Dummy { values, .. } if !values.is_empty() => {
                let keys: Vec<&String> = values.keys().collect();
                let key = (*self.dice.pick(&keys)).clone();
                if self.dice.one_in(2) { Value::Id(of) } else { Value::Attribute(of, key) }
            }
            What::Script(Script { runs: Runs::AsUsual | Runs::ToTheEnd, .. }) if self.dice.below(3) > 0 => {
                let name = *self.dice.pick(&["o", "deploy_stdout"]);
                Value::Attribute(of, name.into())
            }
            What::File { .. } if self.dice.one_in(2) => Value::Attribute(of, "path".into()),
            What::Hostname { .. } if self.dice.one_in(2) => Value::Attribute(of, "hostname".into()),
            What::Dummy { .. }
            | What::File { .. }
            | What::Network { .. }
            | What::Hostname { .. }
            | What::Script(_)
            | What::Virtual(_)
            | What::Nested(_)
            | What::Flows { .. } => Value::Id(of),
        }
    }

    fn dummy(&mut self, mood: Mood, plan: &Plan, earlier: &[&str]) -> What {
        let mut values = BTreeMap::new();
        for key in ["k", "l", "!r", "n", "t"] {
            if self.dice.below(3) > 0 {
                let value = match key {
                    // A value that others count and decide by.
                    "n" => Value::Text(self.dice.below(4).to_string()),
                    "t" => Value::Text(self.dice.one_in(2).to_string()),
                    // A change that replaces the resource is rarer.
                    "!r" => Value::Text(format!("r{}", self.dice.below(2))),
                    _ => self.value(plan, earlier),
                };
                values.insert(key.to_owned(), value);
            }
        }
        let fail = (mood == Mood::Any && self.dice.one_in(15))
            .then(|| *self.dice.pick(&["create", "update", "delete", "true"]));
        let longest = if self.has_long_jobs && self.dice.one_in(3) { LONG_JOB } else { 20_000 };
        let millis = if self.dice.one_in(5) { 1 + self.dice.below(longest) } else { 0 };
        let millis = self.load.job().unwrap_or(millis);
        What::Dummy { values, millis, fail }
    }

    fn file(
        &mut self,
        stack: usize,
        mood: Mood,
        plan: &Plan,
        earlier: &[&str],
        node: &str,
        taken: &mut BTreeSet<String>,
    ) -> What {
        let mut path = format!("/etc/s{stack}-{}", self.dice.below(5));
        if mood == Mood::Any && self.dice.one_in(12) {
            path = format!("/etc/shared-{}", self.dice.below(2));
        }
        let mut further = 0;
        while !(taken.insert(format!("{node} {path}")) || mood == Mood::Any && self.dice.one_in(40)) {
            path = format!("/etc/s{stack}-more-{further}");
            further += 1;
        }
        let content = self.value(plan, earlier);
        let size = if self.dice.one_in(12) { LARGE + self.dice.index(200_000) } else { 0 };
        What::File {
            path,
            content,
            size: self.load.content().unwrap_or(size),
            mode: *self.dice.pick(&[0o644, 0o600, 0o640]),
            on_delete: if self.dice.one_in(10) { OnDelete::Keep } else { OnDelete::Restore },
        }
    }

    fn script(&mut self, plan: &Plan, earlier: &[&str]) -> What {
        What::Script(Script {
            input: self.value(plan, earlier),
            again: self.dice.below(2),
            millis: if self.dice.one_in(2) { self.dice.below(20_000) } else { 0 },
            runs: match self.dice.below(10) {
                0..5 => Runs::AsUsual,
                5..9 => Runs::ToTheEnd,
                _ => Runs::Once,
            },
            fails: self.dice.one_in(2),
        })
    }

    fn network(&mut self, stack: usize, mood: Mood, node: &str, taken: &mut BTreeSet<String>) -> What {
        let mut links = BTreeMap::new();
        for link in LINKS {
            let link = format!("{link}{stack}");
            if self.dice.one_in(2) && taken.insert(format!("{node} link {link}")) {
                links.insert(link, 1400 + u32::try_from(self.dice.below(5)).unwrap_or_default());
            }
        }
        if mood == Mood::Any && self.dice.one_in(5) {
            links.values_mut().take(1).for_each(|mtu| *mtu = CUTTING);
        }
        let on_delete = if self.dice.one_in(10) { OnDelete::Keep } else { OnDelete::Restore };
        What::Network { links, on_delete }
    }

    fn flows(
        &mut self,
        stack: usize,
        mood: Mood,
        node: &str,
        taken: &mut BTreeSet<String>,
    ) -> (What, String) {
        let bridge = if self.dice.one_in(2) { MANAGEMENT } else { OTHER };
        let device = flow::device(node, bridge);
        // Each stack has a table of its own, with what may be left to operators, and one without; once in a while it
        // has rules where operators have theirs.
        let own = if mood == Mood::Any { 1 } else { 101 } + u8::try_from(stack % 100).unwrap_or_default();
        let manner = if mood == Mood::Any { Manner::Any } else { Manner::Sound };
        let mut entries = BTreeMap::new();
        for _ in 0..*self.dice.pick(&[1, 1, 2, 5]) {
            let table = if mood == Mood::Any && self.dice.one_in(8) { 0 } else { own };
            let entry = Entry::Rule(flow::rule(&mut self.dice, table, manner));
            let id = entry.id(&device);
            if taken.insert(format!("{node} flow {id}")) {
                entries.insert(id, flow::packed(&entry));
            }
        }
        if mood == Mood::Any && bridge == MANAGEMENT && self.dice.one_in(15) {
            let entry = flow::cutting();
            entries.insert(entry.id(&device), flow::packed(&entry));
        }
        (What::Flows { device, entries }, node.to_owned())
    }

    fn hostname(&mut self) -> What {
        let number = 1 + u32::try_from(self.dice.below(3)).unwrap_or_default();
        let on_delete = if self.dice.one_in(10) { OnDelete::Keep } else { OnDelete::Restore };
        What::Hostname { number, on_delete }
    }
}
