//! What a `for_each` comes to: one member for each node that its selector means, and the set itself, which stands for
//! all of them.
//!
//! ```text
//!   a[n1] ◀── b[n1]      `depends_on: a`: by node, N edges
//!   a[n2] ◀── b[n2]
//!     ▲ ▲
//!     └─┴── a ◀── c      everybody else, `scope: all` and `get_attr`: the set is a barrier, N edges and one each
//! ```

use std::sync::Arc;

use super::super::parts::{Below, Body, SetParts};
use super::super::value::want_text;
use super::{Around, Expander, Found, Frame, Step, What, number};
use crate::digest;
use crate::error::Errors;
use crate::render::RenderError;
use crate::rollout::Rollout;
use crate::sets::selector;
use crate::types::Kind;

/// What a `for_each` says, once its parameters are known.
struct Said {
    selector: Box<str>,
    nodes: Vec<Arc<str>>,
    rollout: Option<Rollout>,
}

impl Expander<'_> {
    /// `pairs` are other sets of which each member needs that of its own node.
    pub(super) fn set(
        &mut self,
        index: u32,
        found: Found,
        definition: u128,
        pairs: &[u32],
        inside: &Around,
        frame: &Frame<'_>,
    ) -> Step<()> {
        let Found { what, shown } = found;
        let What::Plain(kind) = what else {
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
        let Said { selector, nodes, rollout } = self.said(index, &name)?;
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
            let around = Around { requires, ..inside.clone() };
            let instance = &mut self.parts.instances[*member as usize];
            (instance.retain, instance.drift_policy) = (inside.retain, inside.drift_policy);
            let found = Found { what: What::Plain(kind), shown: Arc::clone(&shown) };
            self.fill(*member, found, digest::of_all(own), inside.digest, &around, frame)?;
        }
        let names = self.digest_of_names(&members);
        self.parts.instances[index as usize].definition = digest::of_all([3, names, inside.digest, selected]);
        members.extend_from_slice(&inside.requires);
        self.set_requires(index, members)
    }

    fn said(&self, index: u32, name: &str) -> Step<Said> {
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
            Ok(Said { selector: text.into(), nodes, rollout })
        });
        said.map_err(|error: RenderError| Errors(vec![error.into()]))
    }
}
