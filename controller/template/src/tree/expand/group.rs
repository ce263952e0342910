//! Opens groups and chains: an instance for each member, and the order of members and batches.
//!
//! Absent: how many members there are, and of which type (`tree/group_members.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::super::group_members::{Batches, Decided, batches, decide, decide_all_but_count};
use super::super::parts::{Below, Body, Group, Pause};
use super::super::value::source;
use super::{Expander, Frame, Step, Surroundings, joined, number};
use crate::digest::{self, NamesOf, names_digest};
use crate::error::Errors;
use crate::expression::{Call, Expr, ExprKind};
use crate::render::RenderError;
use crate::types::Kind;

impl Expander<'_> {
    pub(super) fn group(
        &mut self,
        index: u32,
        definition: u128,
        inside: &Surroundings,
        frame: &Frame<'_>,
    ) -> Step<()> {
        let (first, late) = self.with_context(|context| decide(context, index));
        self.late |= late;
        let name = Arc::clone(&self.parts.instances[index as usize].name);
        let (decided, is_known) = match first {
            Ok(decided) => (Some(decided), true),
            // A later attempt may succeed.
            Err(RenderError::NotYet { .. } | RenderError::UnknownNode { .. }) => {
                (self.decide_but_count(index, &name), false)
            }
            Err(_) if late => (self.decide_but_count(index, &name), false),
            Err(error) => return Err(Errors(vec![error.into()])),
        };
        let policy = if self.known.is_there(&name) { "rolling_update" } else { "batch_create" };
        let count = decided.as_ref().map_or(0, |decided| decided.count);
        let (batches, _) = self.with_context(|context| batches(context, index, count, policy));
        let batches = batches.map_err(|error| Errors(vec![error.into()]))?;
        let (names, removed) = match &decided {
            Some(decided) if is_known => decided.names(&name, self.known),
            Some(_) => (self.known.members(&name), self.known.removed(&name)),
            None => (Vec::new(), self.known.removed(&name)),
        };
        let kind = self.parts.instances[index as usize].kind;
        let body = if kind == Kind::Chain {
            Body::Link { of: index }
        } else if kind.is_deployment_group() {
            Body::Deployed { of: index }
        } else {
            Body::Member { of: index }
        };
        let mut members = Vec::with_capacity(names.len());
        for own in &names {
            members.push(self.instance(joined(&name, own), Kind::None, body)?);
        }
        let index_var = decided.as_ref().map(|decided| decided.index_var.clone()).unwrap_or_default();
        let seen = decided.as_ref().filter(|_| is_known).map(Decided::digest);
        let removed_digest = names_digest(removed.keys().map(String::as_str));
        let group = Group { index_var, members: members.clone().into(), removed, seen, late };
        self.parts.instances[index as usize].below = Below::Group(number(self.parts.groups.len()));
        self.parts.groups.push(group);
        if let Some(decided) = decided {
            let source = self.source_digest(index, definition, body);
            self.members(&members, &decided, source, batches, inside, frame)?;
        }
        let names = self.digest_of_names(&members);
        let needs = inside.digest;
        self.parts.instances[index as usize].definition = digest::of_all([2, names, needs, removed_digest]);
        members.extend_from_slice(&inside.requires);
        self.set_requires(index, members)
    }

    /// The decision without a known count: the existing members stay.
    fn decide_but_count(&self, index: u32, name: &str) -> Option<Decided> {
        let count = self.known.members(name).len();
        self.with_context(|context| decide_all_but_count(context, index, count)).0.ok()
    }

    fn members(
        &mut self,
        members: &[u32],
        decided: &Decided,
        source: u128,
        batches: Option<Batches>,
        inside: &Surroundings,
        frame: &Frame<'_>,
    ) -> Step<()> {
        // The type of a group without members is checked too.
        let mut current = inside.pause;
        let in_turn = Batches { size: 1, pause: Duration::ZERO };
        let batches = if decided.in_turn { Some(in_turn) } else { batches };
        for (at, member) in members.iter().enumerate() {
            let kind = decided.types.get(at).or(decided.types.first()).map_or("", String::as_str);
            let path = Arc::clone(&self.parts.instances[*member as usize].name);
            let found = self.find_type(*member, kind, &path, frame)?;
            let definition = digest::of_all([
                source,
                digest::of_bytes(path.as_bytes()),
                digest::of_bytes(kind.as_bytes()),
            ]);
            let own;
            let inside = match batches {
                Some(Batches { size, pause }) if at >= size => {
                    let first = (at / size - 1) * size;
                    let before = &members[first..first + size];
                    if !pause.is_zero() && at % size == 0 {
                        let (batch, before) = (Arc::clone(&path), before.into());
                        current = number(self.parts.pauses.len());
                        self.parts.pauses.push(Pause { batch, before, time: pause });
                    }
                    let requires = inside.requires.iter().chain(before).copied().collect();
                    // Consecutive links of a chain are no batches.
                    let follows = inside.follows || !decided.in_turn;
                    own = Surroundings { requires, pause: current, follows, ..inside.clone() };
                    &own
                }
                _ => inside,
            };
            let instance = &mut self.parts.instances[*member as usize];
            (instance.retain, instance.drift_policy) = (inside.retain, inside.drift_policy);
            let before = self.errors.len();
            self.fill(*member, found, definition, inside.digest, inside, frame)?;
            if self.errors.len() > before {
                return Ok(()); // the others would say the same
            }
        }
        Ok(())
    }

    /// The digest of the common source of a group's members: its definition, and the values in it.
    fn source_digest(&self, index: u32, definition: u128, body: Body) -> u128 {
        let (scope, at, mut way) = self.parts.written(index);
        match body {
            Body::Own { .. } | Body::Deployed { .. } | Body::Each { .. } => {}
            Body::Member { .. } => way.push("resource_def"),
            Body::Link { .. } => way.push("resource_properties"),
        }
        let template = &self.parts.scopes[scope as usize].template;
        let Some(expr) = source(template, at, &way) else { return definition };
        let digests = &self.digests[scope as usize];
        let parameters: Vec<&str> = template.parameters.iter().map(|known| &*known.name).collect();
        let resources: Vec<&str> = template.resources.iter().map(|resource| &*resource.name).collect();
        let names = NamesOf {
            parameters: &parameters,
            conditions: &template.conditions,
            resources: &resources,
            files: &template.files,
        };
        let (mut used, mut conditions) = (BTreeSet::new(), BTreeSet::new());
        used_in(expr, &mut used, &mut conditions);
        let values = used.into_iter().map(|parameter| digests[parameter as usize]);
        let conditions: Vec<u32> = conditions.into_iter().collect();
        let truth = self.truth(scope, &conditions);
        digest::of_all(std::iter::once(digest::of_expr(expr, &names)).chain(values).chain(truth))
    }
}

/// The parameters and conditions that an expression asks for.
fn used_in(expr: &Expr, parameters: &mut BTreeSet<u32>, conditions: &mut BTreeSet<u32>) {
    match &expr.kind {
        ExprKind::List(items) => items.iter().for_each(|item| used_in(item, parameters, conditions)),
        ExprKind::Map(entries) => {
            entries.iter().for_each(|entry| used_in(&entry.value, parameters, conditions));
        }
        ExprKind::Call(call) => {
            if let Call::GetParam { parameter, .. } = &**call {
                parameters.insert(*parameter);
            } else if let Call::Condition { condition } = &**call {
                conditions.insert(*condition);
            }
            for (_, operand) in call.operands() {
                used_in(operand, parameters, conditions);
            }
        }
        ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(_) | ExprKind::Invalid => {}
    }
}
