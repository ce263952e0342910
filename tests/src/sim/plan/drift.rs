//! Drift policies in plans: some resources have one, which updates change.

use std::collections::BTreeMap;

use muster_template::{DriftPolicy, Kind};
use serde_json::{Map, Value as Json, json};

use super::super::dice::Dice;
use super::{Plan, What};

/// The policies by the name of the resource, which may be a group or a nested stack.
pub type Policies = BTreeMap<String, DriftPolicy>;

impl What {
    /// Returns whether the resource, or anything inside it, has something on a server.
    fn may_drift(&self) -> bool {
        !matches!(self, What::Virtual(_) | What::Flows { .. })
    }
}

impl Plan {
    /// Returns the drift policy of the resource with this path.
    pub fn drift_policy(&self, path: &str, kind: Kind) -> DriftPolicy {
        let outermost = path.split(['/', '[']).next().unwrap_or(path);
        let is_external = self.resources.get(path).is_some_and(|resource| resource.external.is_some());
        match self.policies.get(outermost).copied() {
            Some(DriftPolicy::Ignore) => DriftPolicy::Ignore,
            _ if is_external => DriftPolicy::Report,
            Some(policy) => policy,
            None => DriftPolicy::of_kind(kind),
        }
    }

    /// Whether updates of what is at this path are forbidden.
    pub fn must_not_be_updated(&self, path: &str) -> bool {
        let of = |name: &str| self.restricted.get(name) == Some(&"update");
        of(path) || of(path.split(['/', '[']).next().unwrap_or(path))
    }

    /// Writes the policies into the template.
    pub(super) fn say_policies(&self, resources: &mut Map<String, Json>) {
        for (name, policy) in &self.policies {
            if let Some(resource) = resources.get_mut(name) {
                resource["drift_policy"] = json!(policy.as_str());
            }
        }
    }

    /// Draws policies for some of the resources.
    pub(super) fn draw_policies(&mut self, dice: &mut Dice) {
        for (name, resource) in &self.resources {
            let policy = *dice.pick(&[
                Some(DriftPolicy::Correct),
                Some(DriftPolicy::Correct),
                Some(DriftPolicy::Report),
                Some(DriftPolicy::Ignore),
                None,
                None,
            ]);
            if let Some(policy) = policy.filter(|_| resource.what.may_drift()) {
                self.policies.insert(name.clone(), policy);
            }
        }
    }

    /// Once in a while one of them is another.
    pub(super) fn redraw_a_policy(&mut self, dice: &mut Dice) {
        let names: Vec<&String> =
            self.resources.iter().filter(|(_, it)| it.what.may_drift()).map(|(name, _)| name).collect();
        if names.is_empty() || !dice.one_in(3) {
            return;
        }
        let name = (*dice.pick(&names)).clone();
        self.policies.insert(name, *dice.pick(&DriftPolicy::ALL));
    }
}
