//! Expands a `for_each`: one member for each node that its selector matches, and the set itself, which stands
//! for all of them.
//!
//! ```text
//!   a[n1] ◀── b[n1]      `depends_on: a`: by node, N edges
//!   a[n2] ◀── b[n2]
//!     ▲ ▲
//!     └─┴── a ◀── c      everybody else, `scope: all` and `get_attr`: the set is a barrier, N edges and one each
//! ```
//!
//! Absent: which nodes match now (`controller/engine/src/stack/follow.rs`), and the pace of a change through the members
//! (`controller/engine/src/rollout/machine.rs`).

use std::sync::Arc;

use muster_shared::model::Spec;

use super::super::parts::{Below, Body, SetParts};
use super::super::value::want_text;
use super::{Expander, Found, Frame, ResourceForm, Step, Surroundings, number};
use crate::digest;
use crate::error::Errors;
use crate::expression::{Call, Expr, ExprKind};
use crate::for_each::selector;
use crate::render::RenderError;
use crate::rollout::Rollout;
use crate::types::Kind;

/// The most values that the members of a set have of whole other sets, all together: each member gets its own
/// map, and a second suffices for a million.
const MAPPED_MAX: usize = 1_000_000;

/// The settings of a `for_each`, once its parameters are known.
struct SetDefinition {
    selector: Box<str>,
    nodes: Vec<Arc<str>>,
    rollout: Option<Rollout>,
}

impl Expander<'_> {
    /// `pairs` are other sets, of which each member needs the one on its own node.
    pub(super) fn set(
        &mut self,
        index: u32,
        found: Found,
        definition: u128,
        pairs: &[u32],
        inside: &Surroundings,
        frame: &Frame<'_>,
    ) -> Step<()> {
        let Found { what, shown } = found;
        let ResourceForm::Plain(kind) = what else {
            return self.wrong(
                index,
                None,
                "what a template stands for is not for one node: no for_each makes it",
            );
        };
        if kind.node_property().is_none() {
            let message = format!("{} is not for one node: no for_each makes it", kind.name());
            return self.wrong(index, None, &message);
        }
        let name = Arc::clone(&self.parts.instances[index as usize].name);
        let SetDefinition { selector, nodes, rollout } = self.said(index, &name)?;
        let instance = &mut self.parts.instances[index as usize];
        (instance.kind, instance.type_name) = (Kind::Set, Some(Arc::clone(&shown)));
        (instance.pause, instance.follows) = (inside.pause, inside.follows);
        let below = number(self.parts.sets.len());
        instance.below = Below::Set(below);
        let mut members = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let member = [&*name, "[", node, "]"].concat();
            members.push(self.instance(member.into(), kind, Body::Each { of: index })?);
        }
        let selected = digest::of_bytes(selector.as_bytes());
        self.parts.sets.push(SetParts {
            index,
            selector,
            members: members.clone().into(),
            rollout,
            source: digest::of_all([definition, inside.digest]),
        });
        let mut partners: Vec<u32> = Vec::with_capacity(pairs.len());
        for (member, node) in members.iter().zip(&nodes) {
            partners.clear();
            partners.extend(pairs.iter().filter_map(|pair| self.parts.member_of(*pair, node)));
            let path = Arc::clone(&self.parts.instances[*member as usize].name);
            let own = [definition, digest::of_bytes(path.as_bytes()), self.digest_of_names(&partners)];
            let requires = inside.requires.iter().chain(&partners).copied().collect();
            let around = Surroundings { requires, ..inside.clone() };
            let instance = &mut self.parts.instances[*member as usize];
            (instance.retain, instance.drift_policy) = (inside.retain, inside.drift_policy);
            let found = Found { what: ResourceForm::Plain(kind), shown: Arc::clone(&shown) };
            self.fill(*member, found, digest::of_all(own), inside.digest, &around, frame)?;
        }
        let names = self.digest_of_names(&members);
        self.parts.instances[index as usize].definition = digest::of_all([3, names, inside.digest, selected]);
        members.extend_from_slice(&inside.requires);
        self.set_requires(index, members)
    }

    /// Bounds maps of whole sets in the properties of another set, which grow with the square of the fleet.
    pub(super) fn check_maps(&self) -> Step<()> {
        for set in &self.parts.sets {
            let (scope, at, _) = self.parts.written(set.index);
            let mut whole = Vec::new();
            let scope = &self.parts.scopes[scope as usize];
            whole_ones(&scope.template.resources[at].properties, &mut whole);
            for other in whole.into_iter().map(|resource| scope.map[resource as usize]) {
                let Some(instance) = self.parts.instances.get(other as usize) else { continue };
                let Below::Set(below) = instance.below else { continue };
                let (all, each) = (set.members.len(), self.parts.sets[below as usize].members.len());
                if all.saturating_mul(each) > MAPPED_MAX {
                    let name = &instance.name;
                    let message = format!(
                        "each of {all} members would have a map of all {each} of {name}, over the limit of {MAPPED_MAX} values: ask \
                         for one member's, as {{get_attr: [{name}, ATTRIBUTE, {{get_node: name}}]}} does, or make one text of \
                         the map in an OS::Heat::Value and use that"
                    );
                    return self.wrong(set.index, None, &message);
                }
            }
        }
        Ok(())
    }

    fn said(&self, index: u32, name: &str) -> Step<SetDefinition> {
        let known = self.known;
        let (said, _) = self.with_context(|context| {
            let (scope, at, _) = context.parts.written(index);
            let template = &context.parts.scopes[scope as usize].template;
            let resource = &template.resources[at];
            let Some(for_each) = resource.for_each() else {
                return Err(context.said_of(index, None, "no for_each"));
            };
            let within = context.within(scope);
            let place = ["resources", &resource.name, "for_each", "nodes"];
            let wrong = |message: String| template.failed(for_each.nodes.at, &place, message);
            let text = template.rendered(&for_each.nodes, &within, &within, &place)?;
            let text = want_text(&text).map_err(wrong)?;
            let meant = selector(text).map_err(wrong)?;
            let place = ["resources", &resource.name, "rollout"];
            let rollout = match &for_each.rollout {
                Some(expr) => {
                    let value = template.rendered(expr, &within, &within, &place)?;
                    Rollout::read(&value).map_err(|message| template.failed(expr.at, &place, message))?
                }
                None => None,
            };
            let mut nodes = known.nodes(name, &meant);
            nodes.sort_unstable();
            nodes.dedup();
            Ok(SetDefinition { selector: text.into(), nodes, rollout })
        });
        said.map_err(|error: RenderError| Errors(vec![error.into()]))
    }
}

/// Resources whose whole set is used, instead of one member.
fn whole_ones(expr: &Expr, found: &mut Vec<u32>) {
    match &expr.kind {
        ExprKind::List(items) => items.iter().for_each(|item| whole_ones(item, found)),
        ExprKind::Map(entries) => entries.iter().for_each(|entry| whole_ones(&entry.value, found)),
        ExprKind::Call(call) => {
            if let Call::GetResource { resource } = &**call {
                found.push(*resource);
            } else if let Call::GetAttr { resource, attribute, path } = &**call
                && path.is_empty()
                // The states of all members are one text.
                && **attribute != *Spec::STATE
            {
                found.push(*resource);
            }
            call.operands().into_iter().for_each(|(_, operand)| whole_ones(operand, found));
        }
        ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(_) | ExprKind::Invalid => {}
    }
}
