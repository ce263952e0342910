//! The parts of a tree, while it grows and afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::bind::Parameters;
use crate::drift_policy::DriftPolicy;
use crate::environment::Environment;
use crate::rollout::Rollout;
use crate::selector::Selector;
use crate::template::Template;
use crate::types::Kind;

/// The index that stands for none.
pub(super) const NONE: u32 = u32::MAX;

/// The stacks and their resources.
pub(super) struct Parts {
    /// The parameters of the root.
    pub parameters: Arc<Parameters>,
    pub environment: Arc<Environment>,
    /// The root first.
    pub scopes: Vec<Scope>,
    /// In the order of discovery while the tree grows, then by name.
    pub instances: Vec<Instance>,
    /// Groups and chains.
    pub groups: Vec<Group>,
    /// Batches that begin some time after the one before is done.
    pub pauses: Vec<Pause>,
    /// The results of all `for_each`.
    pub sets: Vec<SetParts>,
}

/// The result of a `for_each`.
pub(super) struct SetParts {
    /// The instance that stands for the whole set.
    pub index: u32,
    pub selector: Box<str>,
    /// Members in the order of their nodes' names.
    pub members: Box<[u32]>,
    pub rollout: Option<Rollout>,
    /// The digest of the members' source, without their nodes.
    pub source: u128,
}

/// A stack: a template with its instances.
pub(super) struct Scope {
    pub template: Arc<Template>,
    /// The instance that is this stack; [`NONE`] for the root.
    pub stands: u32,
    /// The instance of each of the template's resources; [`NONE`]: the resource does not exist.
    pub map: Box<[u32]>,
    /// Other resources decide which resources exist.
    pub late: bool,
}

pub(super) struct Instance {
    pub name: Arc<str>,
    pub kind: Kind,
    /// The type that operators see, if it differs from the kind's name.
    pub type_name: Option<Arc<str>>,
    pub body: Body,
    /// Sorted, unique.
    pub requires: Box<[u32]>,
    pub definition: u128,
    pub retain: bool,
    /// The policy of the resource, or of the innermost enclosing one with a policy.
    pub drift_policy: Option<DriftPolicy>,
    /// The instance, or an enclosing one, begins after another batch.
    pub follows: bool,
    pub below: Below,
    /// The innermost of [`Parts::pauses`] around the instance; [`NONE`] if there is none.
    pub pause: u32,
}

/// Between two batches of a group.
#[derive(Debug)]
pub struct Pause {
    /// The path of the first member of the waiting batch, which identifies the batch.
    pub batch: Arc<str>,
    /// The members of the batch before, by place.
    pub before: Box<[u32]>,
    /// The pause after these are done.
    pub time: Duration,
}

/// The place of a resource's properties.
#[derive(Clone, Copy)]
pub(super) enum Body {
    /// In a template.
    Own { scope: u32, resource: u32 },
    /// In the `resource_def` of a group.
    Member { of: u32 },
    /// In the `resource_properties` of a chain.
    Link { of: u32 },
    /// In the properties of a group of deployments, with one server for each member.
    Deployed { of: u32 },
    /// At the resource with the `for_each`; the node is in the instance's name.
    Each { of: u32 },
}

/// The resources that an instance stands for.
#[derive(Clone, Copy)]
pub(super) enum Below {
    Nothing,
    Scope(u32),
    Group(u32),
    Set(u32),
}

/// The result of a group or chain.
pub(super) struct Group {
    pub index_var: Box<str>,
    /// Members in their own order, which is not that of their paths.
    pub members: Box<[u32]>,
    /// Names that are not given again.
    pub removed: Removed,
    /// The digest of the inputs of the decision; `None`: they could not be known, and there are no
    /// members yet.
    pub seen: Option<u128>,
    /// The inputs depend on other resources.
    pub late: bool,
}

impl Parts {
    /// The last part of a path.
    pub fn own_name(&self, index: u32) -> &str {
        let name = &*self.instances[index as usize].name;
        name.rsplit_once('/').map_or(name, |(_, own)| own)
    }

    /// The stack whose template contains a resource, its index there, and the path from its properties to
    /// those of the instance.
    pub fn written(&self, index: u32) -> (u32, usize, Vec<&'static str>) {
        let mut way = Vec::new();
        let mut at = index;
        loop {
            match self.instances[at as usize].body {
                Body::Own { scope, resource } => {
                    way.reverse();
                    return (scope, resource as usize, way);
                }
                Body::Member { of } => {
                    way.extend(["properties", "resource_def"]);
                    at = of;
                }
                Body::Link { of } => {
                    way.push("resource_properties");
                    at = of;
                }
                Body::Deployed { of } | Body::Each { of } => at = of,
            }
        }
    }

    /// The instance that encloses this one, or [`NONE`].
    pub fn enclosing(&self, index: u32) -> u32 {
        match self.instances[index as usize].body {
            Body::Own { scope, .. } => self.scopes[scope as usize].stands,
            Body::Member { of } | Body::Link { of } | Body::Deployed { of } | Body::Each { of } => of,
        }
    }

    /// The node that a member of a set is for.
    pub fn own_node(&self, index: u32) -> &str {
        let name = &*self.instances[index as usize].name;
        // No node's name has a bracket.
        name.rsplit_once('[').and_then(|(_, node)| node.strip_suffix(']')).unwrap_or_default()
    }

    /// The member of a set for a node; `set` is the instance that stands for the set.
    pub fn member_of(&self, set: u32, node: &str) -> Option<u32> {
        let Below::Set(below) = self.instances[set as usize].below else { return None };
        let members = &self.sets[below as usize].members;
        let at = members.binary_search_by(|member| self.own_node(*member).cmp(node)).ok()?;
        Some(members[at])
    }

    /// Sorts by name: places replace the numbers given while the tree grew.
    pub fn sort(&mut self) {
        let count = self.instances.len();
        let mut order: Vec<u32> = (0..).take(count).collect();
        order
            .sort_unstable_by(|a, b| self.instances[*a as usize].name.cmp(&self.instances[*b as usize].name));
        let mut place = vec![0; count];
        for (at, number) in (0u32..).zip(&order) {
            place[*number as usize] = at;
        }
        let put = |index: &mut u32| {
            if *index != NONE {
                *index = place[*index as usize];
            }
        };
        for scope in &mut self.scopes {
            put(&mut scope.stands);
            scope.map.iter_mut().for_each(put);
        }
        for group in &mut self.groups {
            group.members.iter_mut().for_each(put);
        }
        for set in &mut self.sets {
            put(&mut set.index);
            set.members.iter_mut().for_each(put);
        }
        for pause in &mut self.pauses {
            pause.before.iter_mut().for_each(put);
        }
        let mut old: Vec<Option<Instance>> =
            std::mem::take(&mut self.instances).into_iter().map(Some).collect();
        self.instances = order.iter().filter_map(|number| old[*number as usize].take()).collect();
        for instance in &mut self.instances {
            instance.requires.iter_mut().for_each(put);
            instance.requires.sort_unstable();
            match &mut instance.body {
                Body::Own { .. } => {}
                Body::Member { of } | Body::Link { of } | Body::Deployed { of } | Body::Each { of } => {
                    put(of)
                }
            }
        }
    }

    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.instances.binary_search_by(|instance| (*instance.name).cmp(name)).ok()
    }
}

/// Names that a group has given up, each with the reference that removed the member, if there was one.
pub type Removed = BTreeMap<String, Option<String>>;

/// The present resources, by path, for a growing tree.
pub trait CurrentResources {
    /// The value of `get_resource`.
    fn reference(&self, path: &str) -> Option<String>;
    /// The value of `get_attr`.
    fn attribute(&self, path: &str, name: &str) -> Option<serde_json::Value>;
    /// The names that a group has given up.
    fn removed(&self, path: &str) -> Removed;
    /// The members of a group, by their names in the group. They stay while the count is unknown.
    fn members(&self, path: &str) -> Vec<String> {
        let _ = path;
        Vec::new()
    }
    /// Whether there is anything under that path.
    fn is_there(&self, path: &str) -> bool;
    /// The names of the nodes that a selector matches, for the set under that path.
    fn nodes(&self, path: &str, selector: &Selector) -> Vec<Arc<str>> {
        let _ = (path, selector);
        Vec::new()
    }
}

/// Nothing is known.
#[derive(Clone, Copy, Debug)]
pub struct NoResources;

impl CurrentResources for NoResources {
    fn reference(&self, _: &str) -> Option<String> {
        None
    }

    fn attribute(&self, _: &str, _: &str) -> Option<serde_json::Value> {
        None
    }

    fn removed(&self, _: &str) -> Removed {
        Removed::new()
    }

    fn is_there(&self, _: &str) -> bool {
        false
    }
}

/// Templates by key, each read once.
pub(super) struct Library<'a> {
    pub files: &'a BTreeMap<String, String>,
    pub environment: &'a Environment,
    pub templates: BTreeMap<String, Arc<Template>>,
}
