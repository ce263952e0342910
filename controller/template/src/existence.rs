//! The resources that a template has once its parameters are known, and the needs of each then.
//!
//! Absent: whether a condition is true (`render/condition.rs`), and its syntax (`function/condition.rs`).

use std::collections::BTreeSet;

use crate::bind::{Parameters, Values};
use crate::check_properties;
use crate::digest;
use crate::error::{Error, Errors, Path, Sink};
use crate::expression::{Call, Entry, Expr, ExprKind};
use crate::render::RenderError;
use crate::resolve::{cycle, report_cycle};
use crate::template::{Condition, Template};

impl Template {
    /// Whether the resource exists: its condition holds, or it has none.
    ///
    /// # Errors
    /// [`RenderError::Failed`] if the condition is neither true nor false, or unknown before the stack has
    /// a name.
    pub fn exists(&self, index: usize, parameters: &Parameters) -> Result<bool, RenderError> {
        self.is_there(index, parameters)
    }

    pub(crate) fn is_there(&self, index: usize, parameters: &dyn Values) -> Result<bool, RenderError> {
        let resource = &self.resources[index];
        match resource.condition() {
            None => Ok(true),
            Some(condition) => self.holds(condition, parameters, &["resources", &resource.name, "condition"]),
        }
    }

    /// Indexes of all resources that this one needs: through the branches that conditions choose, without
    /// absent resources. Sorted, unique.
    ///
    /// # Errors
    /// As [`Template::exists`].
    pub(crate) fn requirements(
        &self,
        index: usize,
        parameters: &dyn Values,
    ) -> Result<Vec<u32>, RenderError> {
        let resource = &self.resources[index];
        let mut found = if resource.branches {
            let mut found = resource.depends_on.to_vec();
            let place = ["resources", &resource.name, "properties"];
            self.references(&resource.properties, parameters, &place, &mut found)?;
            found.sort_unstable();
            found.dedup();
            found
        } else {
            resource.requires.to_vec()
        };
        let mut failed = None;
        found.retain(|required| {
            self.is_there(*required as usize, parameters).unwrap_or_else(|error| {
                failed.get_or_insert(error);
                true
            })
        });
        failed.map_or(Ok(found), Err)
    }

    fn references(
        &self,
        expr: &Expr,
        parameters: &dyn Values,
        place: &[&str],
        found: &mut Vec<u32>,
    ) -> Result<(), RenderError> {
        match &expr.kind {
            ExprKind::List(items) => {
                items.iter().try_for_each(|item| self.references(item, parameters, place, found))
            }
            ExprKind::Map(entries) => {
                entries.iter().try_for_each(|entry| self.references(&entry.value, parameters, place, found))
            }
            ExprKind::Call(call) => {
                if let Call::If { condition, values } = &**call {
                    let chosen = usize::from(!self.holds(condition, parameters, place)?);
                    values
                        .get(chosen)
                        .map_or(Ok(()), |value| self.references(value, parameters, place, found))
                } else {
                    if let Call::GetResource { resource } | Call::GetAttr { resource, .. } = &**call {
                        found.push(*resource);
                    }
                    call.operands()
                        .into_iter()
                        .try_for_each(|(_, operand)| self.references(operand, parameters, place, found))
                }
            }
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::Text(_)
            | ExprKind::Invalid => Ok(()),
        }
    }

    /// Runs the checks that were postponed until the resource was known to exist.
    fn check_late(&self, index: usize, errors: &mut Sink) {
        let resource = &self.resources[index];
        if resource.condition().is_none() {
            return;
        }
        let mut path = Path::default();
        for key in ["resources", &*resource.name, "properties"] {
            path.key(key);
        }
        let is_set = resource.for_each().is_some();
        check_properties::names(&resource.properties, errors, &mut path);
        check_properties::all(resource.kind, &resource.properties, resource.at, is_set, errors, &mut path);
    }

    /// The template without the resources whose condition does not hold: references to them give null, and no
    /// resource needs them. Each remaining resource needs those that its chosen branches name.
    ///
    /// # Errors
    /// Errors of conditions, and resources that need each other in a cycle.
    pub fn pruned(mut self, parameters: &Parameters) -> Result<Self, Errors> {
        if !self.conditional {
            return Ok(self);
        }
        let mut errors = Sink::new(&self.file);
        let mut kept: Vec<Option<u32>> = Vec::with_capacity(self.resources.len());
        let mut requirements: Vec<Vec<u32>> = Vec::with_capacity(self.resources.len());
        let mut count = 0;
        for index in 0..self.resources.len() {
            let exists = self.is_there(index, parameters).unwrap_or_else(|error| take(&mut errors, error));
            kept.push(exists.then_some(count));
            if exists {
                count += 1;
                self.check_late(index, &mut errors);
                let needed = self.requirements(index, parameters);
                requirements.push(needed.unwrap_or_else(|error| take(&mut errors, error)));
            }
        }
        if !errors.is_empty() {
            return Err(errors.into_errors());
        }
        let names: Vec<Box<str>> = self.resources.iter().map(|resource| resource.name.clone()).collect();
        let mut resources = std::mem::take(&mut self.resources);
        let mut index = 0;
        resources.retain(|_| {
            index += 1;
            kept[index - 1].is_some()
        });
        for (resource, needed) in resources.iter_mut().zip(requirements) {
            let place = |index: &u32| kept[*index as usize];
            resource.requires = needed.iter().filter_map(place).collect();
            resource.depends_on = resource.depends_on.iter().filter_map(place).collect();
            if let Some(for_each) = resource.beside.as_mut().and_then(|beside| beside.for_each.as_mut()) {
                for_each.pairs = for_each.pairs.iter().filter_map(place).collect();
            }
            let mut absent = BTreeSet::new();
            renumber(&mut resource.properties, &kept, &mut absent);
            if !absent.is_empty() {
                // Without these resources the definition is a different one.
                let absent = absent.iter().map(|index| &*names[*index as usize]);
                resource.digest = digest::without(resource.digest, absent);
            }
        }
        for output in &mut self.outputs {
            renumber(&mut output.value, &kept, &mut BTreeSet::new());
        }
        if let Some(cycle) = cycle::find(resources.len(), |index| &resources[index].requires) {
            report_cycle(&mut errors, &cycle, |index| (&resources[index].name, resources[index].at));
            return Err(errors.into_errors());
        }
        self.names = digest::names_digest(resources.iter().map(|resource| &*resource.name));
        self.resources = resources;
        Ok(self)
    }

    /// Whether a condition of the section holds.
    pub(crate) fn decide(&self, condition: &Condition, parameters: &Parameters) -> Result<bool, Error> {
        let place = ["conditions", &condition.name];
        self.holds(&condition.value, parameters, &place).map_err(Error::from)
    }
}

fn take<T: Default>(errors: &mut Sink, error: RenderError) -> T {
    errors.take(error.into());
    T::default()
}

/// Gives references to resources their new numbers; references to absent ones become null, and are recorded.
fn renumber(expr: &mut Expr, kept: &[Option<u32>], absent: &mut BTreeSet<u32>) {
    match &mut expr.kind {
        ExprKind::List(items) => items.iter_mut().for_each(|item| renumber(item, kept, absent)),
        ExprKind::Map(entries) => {
            entries.iter_mut().for_each(|Entry { value, .. }| renumber(value, kept, absent));
        }
        ExprKind::Call(call) => {
            if let Call::GetResource { resource } | Call::GetAttr { resource, .. } = &mut **call {
                match kept[*resource as usize] {
                    Some(index) => *resource = index,
                    None => {
                        absent.insert(*resource);
                        expr.kind = ExprKind::Null;
                        return;
                    }
                }
            }
            call.operands_mut().into_iter().for_each(|(_, operand)| renumber(operand, kept, absent));
        }
        ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(_) | ExprKind::Invalid => {}
    }
}
