//! Every expression once: names become indexes, and what each resource uses is noted. Decides what each resource needs,
//! and where a function may stand.
//!
//! Absent: in which order resources are made (`controller/engine/src/traversal/walk.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::Spec;

use super::placement::{self, Placement};
use super::{Table, finish_conditions, needs, order};
use crate::Limits;
use crate::build::Names;
use crate::check_properties;
use crate::error::{Path, Place, Sink, cut, suggestion, suggestion_or_all};
use crate::expression::{Call, Expr, ExprKind, Part};
use crate::files::TemplateFiles;
use crate::function_list;
use crate::parse::{DraftCondition, DraftResource};
use crate::template::{Condition, Output};
use crate::types::Kind;
use crate::version::Version;

/// The references of one resource or condition, by index; sorted and unique.
#[derive(Default)]
pub(super) struct Uses {
    pub depends_on: Vec<u32>,
    pub requires: Vec<u32>,
    /// The members of `requires` that no condition can take away.
    pub certain: Vec<u32>,
    pub parameters: Vec<u32>,
    pub conditions: Vec<u32>,
    /// The expression contains an `if`.
    pub branches: bool,
    pub pseudo: bool,
    pub facade: bool,
    /// The expression names what is not there.
    pub absent: bool,
    /// The expression uses a property of a node.
    pub nodes: bool,
    /// Sets of which this one needs the member for the same node.
    pub pairs: Vec<u32>,
    /// Sets that are needed as a whole.
    pub wholes: Vec<u32>,
}

/// The same for a resource, kept small: each resource has one.
pub(super) struct Used {
    pub depends_on: Box<[u32]>,
    pub requires: Box<[u32]>,
    pub certain: Box<[u32]>,
    pub parameters: Box<[u32]>,
    pub conditions: Box<[u32]>,
    pub branches: bool,
    pub pseudo: bool,
    pub facade: bool,
    pub nodes: bool,
}

/// The position of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Value,
    /// A value in a condition, such as one of two compared values.
    Compared,
    Condition,
}

pub(super) struct Resolver<'a> {
    pub errors: Sink,
    pub path: Path,
    pub version: Option<Version>,
    pub parameters: Table<'a>,
    pub conditions: Table<'a>,
    pub resources: Table<'a>,
    pub files: &'a Names,
    pub given: &'a TemplateFiles<'a>,
    pub kinds: &'a [Option<Kind>],
    /// Attributes of deployments whose config is in the template.
    pub declared: &'a BTreeMap<u32, BTreeSet<String>>,
    /// Branches of `if` that the walk is in.
    pub branches: usize,
    /// The walk is where what is not there is an error only if it is used: in a condition, an output, or the properties
    /// of a resource with a condition.
    pub lazily: bool,
    /// Warnings about names that are not there, and need not be: place, path, message.
    pub warnings: Vec<(Place, String, String)>,
    /// Properties of nodes are allowed: only the content of a resource depends on them.
    pub may_ask_nodes: bool,
    /// Whether each resource has a `for_each`.
    pub sets: &'a [bool],
    /// The walk is in the properties of a resource with a `for_each`.
    pub in_set: bool,
    /// The resource that the walk is in.
    pub own: u32,
    /// The property that chooses a node, where the walk is among a resource's properties.
    pub choosing: Option<&'static str>,
    /// The walk is in that property.
    pub chooses: bool,
    pub placement: Placement,
}

impl Used {
    /// Adds dependencies that the template does not express.
    pub fn needs_too(&mut self, needs: &[u32]) {
        for list in [&mut self.depends_on, &mut self.requires, &mut self.certain] {
            let mut all = [list, needs].concat();
            all.sort_unstable();
            all.dedup();
            *list = all.into();
        }
    }
}

impl Resolver<'_> {
    pub fn conditions(&mut self, mut drafts: Vec<DraftCondition>) -> Vec<Condition> {
        let mut uses: Vec<Uses> = Vec::with_capacity(drafts.len());
        for draft in &mut drafts {
            let mut one = Uses::default();
            let before = self.path.key("conditions");
            self.path.key(&draft.name);
            self.lazily = true;
            self.expr(&mut draft.value, Position::Condition, &mut one);
            self.lazily = false;
            self.path.leave(before);
            one.sort();
            uses.push(one);
        }
        match order(&drafts, &uses, &mut self.errors) {
            Some(order) => finish_conditions(drafts, uses, &order),
            None => Vec::new(), // an error; nobody looks at them
        }
    }

    pub fn resource(&mut self, name: &str, resource: &mut DraftResource) -> Used {
        let mut uses = Uses::default();
        let before = self.path.key("resources");
        self.path.key(name);
        let inner = self.path.key("depends_on");
        let whole = resource.beside.as_ref().map(|beside| &*beside.whole).unwrap_or_default();
        for &(number, at) in &resource.depends_on {
            if let Some(index) = self.report(at, self.resources.index(number, "resource")) {
                uses.depends_on.push(index);
                uses.require(index, false);
                let list = if whole.contains(&number) { &mut uses.wholes } else { &mut uses.pairs };
                list.push(index);
            }
        }
        self.path.leave(inner);
        self.for_each(resource, &mut uses);
        if let Some(id) = resource.beside.as_mut().and_then(|beside| beside.external_id.as_mut()) {
            let inner = self.path.key("external_id");
            self.expr(id, Position::Value, &mut uses);
            self.path.leave(inner);
        }
        if let Some(policy) = resource.beside.as_mut().and_then(|beside| beside.deletion_policy.as_mut()) {
            let inner = self.path.key("deletion_policy");
            self.expr(policy, Position::Value, &mut uses);
            self.path.leave(inner);
        }
        if let Some(condition) = resource.beside.as_mut().and_then(|beside| beside.condition.as_mut()) {
            let inner = self.path.key("condition");
            // A condition decides whether a resource exists, not its content.
            let mut deciding = Uses::default();
            self.expr(condition, Position::Condition, &mut deciding);
            uses.pseudo |= deciding.pseudo;
            self.path.leave(inner);
        }
        if let Some(policy) = resource.beside.as_mut().and_then(|beside| beside.update_policy.as_mut()) {
            let inner = self.path.key("update_policy");
            let has_one =
                |kind: Kind| matches!(kind, Kind::Group | Kind::Nested) || kind.is_deployment_group();
            if resource.kind.is_some_and(|kind| !has_one(kind)) {
                let message =
                    "only an OS::Heat::ResourceGroup or a group of deployments has an update_policy";
                self.errors.push(policy.at, self.path.as_str(), message);
            }
            self.expr(policy, Position::Value, &mut uses);
            self.path.leave(inner);
        }
        if let Some(metadata) = resource.beside.as_mut().and_then(|beside| beside.metadata.as_mut()) {
            let inner = self.path.key("metadata");
            self.expr(metadata, Position::Value, &mut uses);
            self.path.leave(inner);
        }
        self.path.key("properties");
        let is_conditional = resource.is_conditional();
        let is_set = resource.beside.as_ref().is_some_and(|beside| beside.for_each.is_some());
        // As in Heat, the properties of a resource whose condition does not hold are not checked: the tree, which knows
        // the conditions, checks the others.
        if let Some(kind) = resource.kind.filter(|_| !is_conditional) {
            let (errors, path) = (&mut self.errors, &mut self.path);
            check_properties::all(kind, &resource.properties, resource.at, is_set, errors, path);
        }
        self.may_ask_nodes = resource.kind.is_none_or(|kind| !kind.is_whole());
        self.in_set = is_set;
        self.choosing = resource.kind.and_then(placement::property);
        self.lazily = is_conditional;
        self.expr(&mut resource.properties, Position::Value, &mut uses);
        self.lazily = false;
        (self.may_ask_nodes, self.in_set, self.choosing) = (false, false, None);
        self.path.leave(before);
        uses.sort();
        if let Some(beside) = &mut resource.beside {
            if let Some(for_each) = &mut beside.for_each {
                let pairs = uses.pairs.iter().copied();
                let pairs = pairs.filter(|index| self.sets[*index as usize] && !uses.wholes.contains(index));
                for_each.pairs = pairs.collect();
            }
            beside.whole =
                uses.wholes.iter().copied().filter(|index| uses.depends_on.contains(index)).collect();
        }
        if is_conditional {
            uses.certain.clear(); // it may not be there
        }
        let Uses { depends_on, requires, certain, parameters, conditions, .. } = uses;
        let Uses { branches, pseudo, facade, nodes, .. } = uses;
        let [depends_on, requires, certain, parameters, conditions] =
            [depends_on, requires, certain, parameters, conditions].map(Vec::into_boxed_slice);
        Used { depends_on, requires, certain, parameters, conditions, branches, pseudo, facade, nodes }
    }

    /// The nodes, and the order of the rollout, follow from parameters alone.
    fn for_each(&mut self, resource: &mut DraftResource, uses: &mut Uses) {
        let (kind, type_at) = (resource.kind, resource.type_at);
        let Some(beside) = &mut resource.beside else { return };
        let is_external = beside.external_id.is_some();
        let Some(for_each) = &mut beside.for_each else { return };
        let before = self.path.key("for_each");
        if let Some(kind) = kind.filter(|kind| kind.node_property().is_none()) {
            let message = format!("{} is not for one node: no for_each makes it", shown(kind));
            self.errors.push(type_at, self.path.as_str(), message);
        }
        if is_external {
            let message = "one external_id is not the id of many things: leave out external_id or for_each";
            self.errors.push(for_each.at, self.path.as_str(), message);
        }
        let (nodes, rollout) = (&mut for_each.nodes, for_each.rollout.as_mut());
        for (key, expr) in [("nodes", Some(nodes)), ("rollout", rollout)] {
            let Some(expr) = expr else { continue };
            if key == "rollout" {
                self.path.leave(before);
            }
            let inner = self.path.key(key);
            let mut deciding = Uses::default();
            self.expr(expr, Position::Value, &mut deciding);
            if !deciding.requires.is_empty() {
                let message =
                    format!("'{key}' of a for_each follows from parameters, and not from resources");
                self.errors.push(expr.at, self.path.as_str(), message);
            }
            uses.pseudo |= deciding.pseudo;
            uses.facade |= deciding.facade;
            self.path.leave(inner);
        }
        self.path.leave(before);
    }

    pub fn output(&mut self, output: &mut Output) -> Uses {
        let mut uses = Uses::default();
        let before = self.path.key("outputs");
        self.path.key(&output.key);
        if let Some(condition) = &mut output.condition {
            let inner = self.path.key("condition");
            self.expr(condition, Position::Condition, &mut uses);
            self.path.leave(inner);
        }
        self.path.key("value");
        self.lazily = true;
        self.expr(&mut output.value, Position::Value, &mut uses);
        self.lazily = false;
        self.path.leave(before);
        uses
    }

    fn report<T>(&mut self, at: Place, found: Result<T, String>) -> Option<T> {
        found.map_err(|message| self.errors.push(at, self.path.as_str(), message)).ok()
    }

    fn expr(&mut self, expr: &mut Expr, position: Position, uses: &mut Uses) {
        let at = expr.at;
        match &mut expr.kind {
            ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(_) => {}
            ExprKind::Invalid => {}
            ExprKind::List(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    let before = self.path.item(i);
                    self.expr(item, position, uses);
                    self.path.leave(before);
                }
            }
            ExprKind::Map(entries) => {
                let (choosing, chooses) = (self.choosing.take(), self.chooses);
                for entry in entries {
                    let before = self.path.key(&entry.key);
                    self.chooses = chooses || choosing == Some(&*entry.key);
                    self.expr(&mut entry.value, position, uses);
                    self.path.leave(before);
                }
                (self.choosing, self.chooses) = (choosing, chooses);
            }
            ExprKind::Call(call) => {
                if (self.lazily || self.branches > 0)
                    && let Some((function, message)) = self.absent(call, position)
                {
                    if self.warnings.len() < Limits::ERRORS {
                        self.warnings.push((at, self.path.as_str().to_owned(), message.clone()));
                    }
                    uses.absent = true;
                    **call = Call::Absent { function, message: message.into() };
                    return;
                }
                if let Call::Condition { condition } = &mut **call {
                    if let Some(index) = self.report(at, self.conditions.index(*condition, "condition")) {
                        *condition = index;
                        uses.conditions.push(index);
                    }
                    return;
                }
                let before = self.path.key(call.name());
                self.call(at, call, position, uses);
                self.operands(call, position, uses);
                self.path.leave(before);
            }
        }
    }

    /// The error of a call that names what is not there.
    fn absent(&self, call: &Call, position: Position) -> Option<(&'static str, String)> {
        let name = call.name();
        let (function, found) = if let Call::GetParam { parameter, .. } = call {
            (name, self.parameters.index(*parameter, "parameter"))
        } else if let Call::GetResource { resource } | Call::GetAttr { resource, .. } = call
            && position == Position::Value
        {
            (name, self.resources.index(*resource, "resource"))
        } else if let Call::Condition { condition } = call {
            ("", self.conditions.index(*condition, "condition"))
        } else {
            return None;
        };
        found.err().map(|message| (function, message))
    }

    /// Records the references of the call itself, and checks that it is allowed here.
    fn call(&mut self, at: Place, call: &mut Call, position: Position, uses: &mut Uses) {
        if !self.may_stand(at, call, position) {
            return;
        }
        match call {
            Call::GetParam { parameter, .. } => {
                if let Some(index) = self.report(at, self.parameters.index(*parameter, "parameter")) {
                    *parameter = index;
                    uses.parameters.push(index);
                }
            }
            Call::GetResource { resource } => {
                self.target(at, resource, uses);
            }
            Call::GetAttr { resource, attribute, .. } => {
                let wholes = uses.wholes.len();
                if let Some(kind) = self.target(at, resource, uses) {
                    self.attribute(at, kind, *resource, attribute);
                }
                // A unit restarts for the file on its own node.
                if self.in_set && attribute.as_ref() == Spec::STATE {
                    let others = uses.wholes.drain(wholes..);
                    uses.pairs.extend(others);
                }
            }
            Call::GetFile { file } => self.file(at, *file),
            Call::GetNode { parts } if parts.len() == 1 && !self.in_set => {
                let message = "'get_node' with a fact alone asks the node of a for_each, and this is not in one; want [NODE, FACT, KEY, …]";
                self.errors.push(at, self.path.as_str(), message);
            }
            // The name of the own node does not depend on facts.
            Call::GetNode { parts } if is_own_name(parts) => {}
            Call::GetNode { .. } if !self.may_ask_nodes => {
                let message = "'get_node' stands in the properties of a resource that is made itself, and not in \
                     outputs, groups and what a nested stack is given: write it where it is used, or as the value of an \
                     OS::Heat::Value and name that";
                self.errors.push(at, self.path.as_str(), message);
            }
            Call::GetNode { parts } if self.chooses && is_fact(parts) => {
                self.errors.push(at, self.path.as_str(), placement::REFUSED);
            }
            Call::GetNode { parts } => {
                uses.nodes = true;
                if is_fact(parts) {
                    self.placement.asks_for_fact(self.own);
                }
            }
            Call::Pseudo(_) => uses.pseudo = true,
            Call::Facade(_) => uses.facade = true,
            Call::If { .. } => uses.branches = true,
            Call::StrReplace { .. }
            | Call::ListJoin { .. }
            | Call::Repeat { .. }
            | Call::Plain { .. }
            | Call::Yaql { .. }
            | Call::Condition { .. }
            | Call::Absent { .. }
            | Call::Logic { .. } => {}
        }
    }

    fn operands(&mut self, call: &mut Call, position: Position, uses: &mut Uses) {
        let is_if = matches!(call, Call::If { .. });
        let is_logic = matches!(call, Call::Logic { .. });
        for (part, operand) in call.operands_mut() {
            let before = part.enter(&mut self.path);
            let inner = match (position, part) {
                _ if is_logic => Position::Condition,
                (Position::Value, Part::Item(0)) if is_if => Position::Condition,
                (Position::Value, _) => Position::Value,
                (Position::Compared | Position::Condition, _) => Position::Compared,
            };
            let branch = usize::from(is_if && !matches!(part, Part::Item(0)));
            self.branches += branch;
            self.expr(operand, inner, uses);
            self.branches -= branch;
            self.path.leave(before);
        }
    }

    /// Whether the function is allowed there, in this version; if not, the error is reported.
    fn may_stand(&mut self, at: Place, call: &Call, position: Position) -> bool {
        let name = call.name();
        let Some(function) = function_list::find(name) else { return true };
        let since = match position {
            Position::Value => function.since,
            Position::Compared | Position::Condition => function.in_conditions,
        };
        let Some(since) = since else {
            let known = function_list::functions().iter().filter(|known| known.in_conditions.is_some());
            let known: Vec<&str> = known.map(|known| known.name).collect();
            let message = format!("a condition cannot use '{name}'; it may use {}", known.join(", "));
            self.errors.push(at, self.path.as_str(), message);
            return false;
        };
        let Some(version) = self.version else { return true };
        let (what, since) = if since > version {
            let place = if position == Position::Value { "" } else { " in a condition" };
            (format!("the function '{name}'{place}"), since)
        } else if matches!(call, Call::If { values, .. } if values.len() == 1) {
            ("'if' without a third item".to_owned(), Version::Wallaby)
        } else if matches!(call, Call::ListJoin { lists, .. } if lists.len() > 1) {
            ("'list_join' of several lists".to_owned(), Version::Liberty)
        } else if matches!(call, Call::Repeat { permutations: false, .. }) {
            ("'permutations' of 'repeat'".to_owned(), Version::Pike)
        } else {
            return true;
        };
        if since > version {
            self.errors.push(at, self.path.as_str(), needs(&what, since, version));
        }
        since <= version
    }

    fn file(&mut self, at: Place, file: u32) {
        let name = &self.files[file as usize];
        if !self.given.contains_key(name) {
            let near = suggestion(name, self.given.keys().map(String::as_str));
            let message = format!("the file '{}' was not given with the template{near}", cut(name));
            self.errors.push(at, self.path.as_str(), message);
        }
    }

    fn target(&mut self, at: Place, resource: &mut u32, uses: &mut Uses) -> Option<Kind> {
        let index = self.report(at, self.resources.index(*resource, "resource"))?;
        *resource = index;
        uses.require(index, self.branches > 0);
        uses.wholes.push(index);
        let kind = self.kinds.get(self.own as usize).copied().flatten();
        self.placement.refers(at, self.own, kind, index, self.chooses);
        self.kinds[index as usize]
    }

    fn attribute(&mut self, at: Place, kind: Kind, resource: u32, attribute: &str) {
        if attribute == Spec::STATE {
            let flows = [Kind::FlowGroup, Kind::FlowMeter, Kind::FlowRule, Kind::FlowTable];
            if (kind.is_virtual() && !kind.is_whole()) || flows.contains(&kind) {
                let name = kind.name();
                let message =
                    format!("a unit cannot be restarted or reloaded for {name}, which is no thing on a node");
                self.errors.push(at, self.path.as_str(), message);
            }
            return;
        }
        // A group also has `resource.NAME` for a member.
        let is_inside = kind.is_whole() && attribute.starts_with("resource.");
        if let Some(known) = self.declared.get(&resource).filter(|_| !is_inside) {
            if !known.contains(attribute) {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let near = suggestion_or_all(attribute, &known);
                let message = format!("its config declares no output '{}'{near}", cut(attribute));
                self.errors.push(at, self.path.as_str(), message);
            }
            return;
        }
        let Some(known) = kind.attributes() else { return };
        let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        if known.contains(&attribute) {
            return;
        }
        let message = if known.is_empty() {
            format!("{} has no attributes", kind.name())
        } else if let Some(why) = crate::types::refused_attribute(kind, attribute) {
            format!("the attribute '{attribute}' of {} is not supported: {why}", kind.name())
        } else {
            let near = suggestion_or_all(attribute, &known);
            format!("{} has no attribute '{}'{near}", kind.name(), cut(attribute))
        };
        self.errors.push(at, self.path.as_str(), message);
    }
}

/// Whether the value is a fact, which comes from the server; names and labels come from the site.
fn is_fact(parts: &[Expr]) -> bool {
    let asked = if let [fact] = parts { Some(fact) } else { parts.get(1) };
    !asked.is_some_and(
        |asked| matches!(&asked.kind, ExprKind::Text(fact) if matches!(&**fact, "name" | "labels")),
    )
}

/// `{get_node: name}`
fn is_own_name(parts: &[Expr]) -> bool {
    matches!(parts, [Expr { kind: ExprKind::Text(fact), .. }] if &**fact == "name")
}

fn shown(kind: Kind) -> &'static str {
    if kind == Kind::Nested { "what another template stands for" } else { kind.name() }
}

impl Uses {
    fn require(&mut self, resource: u32, perhaps: bool) {
        self.requires.push(resource);
        if !perhaps {
            self.certain.push(resource);
        }
    }

    fn sort(&mut self) {
        let Self { depends_on, requires, certain, parameters, conditions, pairs, wholes, .. } = self;
        for list in [depends_on, requires, certain, parameters, conditions, pairs, wholes] {
            list.sort_unstable();
            list.dedup();
        }
    }
}
