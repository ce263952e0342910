//! What a tree is made of, as it grows and when it is grown.

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

/// In place of an index: nothing.
pub(super) const NONE: u32 = u32::MAX;

/// All stacks and all that is in them.
pub(super) struct Parts {
    /// The root's.
    pub parameters: Arc<Parameters>,
    pub environment: Arc<Environment>,
    /// The root first.
    pub scopes: Vec<Scope>,
    /// In the order they were found while the tree grows, then by name.
    pub instances: Vec<Instance>,
    /// Groups and chains.
    pub groups: Vec<Group>,
    /// Batches that do not begin at once when the one before is done.
    pub pauses: Vec<Pause>,
    /// What each `for_each` came to.
    pub sets: Vec<SetParts>,
}

/// What a `for_each` came to.
pub(super) struct SetParts {
    /// What stands for all of it.
    pub index: u32,
    pub selector: Box<str>,
    /// In the order of their nodes' names.
    pub members: Box<[u32]>,
    pub rollout: Option<Rollout>,
    /// Of what each member is made of, but for its node.
    pub source: u128,
}

/// A stack: a template with what stands for it.
pub(super) struct Scope {
    pub template: Arc<Template>,
    /// The instance that is this stack; [`NONE`]: it is the root.
    pub stands: u32,
    /// The instance of each of the template's resources; [`NONE`]: it does not exist.
    pub map: Box<[u32]>,
    /// Other resources decide which resources exist.
    pub late: bool,
}

pub(super) struct Instance {
    pub name: Arc<str>,
    pub kind: Kind,
    /// As operators see its type, where that is not the kind's name.
    pub type_name: Option<Arc<str>>,
    pub body: Body,
    /// Sorted, unique.
    pub requires: Box<[u32]>,
    pub definition: u128,
    pub retain: bool,
    /// Of the resource, or of the innermost that it is in and that says it.
    pub drift_policy: Option<DriftPolicy>,
    /// The instance, or one that it is in, begins after another batch.
    pub follows: bool,
    pub below: Below,
    /// The innermost of [`Parts::pauses`] that it is in; [`NONE`]: of none.
    pub pause: u32,
}

/// Between two batches of a group.
#[derive(Debug)]
pub struct Pause {
    /// The path of the first member of the batch that waits: what the batch is known by.
    pub batch: Arc<str>,
    /// By place: the members of the batch before.
    pub before: Box<[u32]>,
    /// How long after these are done.
    pub time: Duration,
}

/// Where a resource's properties are written.
#[derive(Clone, Copy)]
pub(super) enum Body {
    /// In a template.
    Own { scope: u32, resource: u32 },
    /// In the `resource_def` of a group.
    Member { of: u32 },
    /// In the `resource_properties` of a chain.
    Link { of: u32 },
    /// In the properties of a group of deployments, which has a server for each.
    Deployed { of: u32 },
    /// Where the resource with the `for_each` is; its node is in its name.
    Each { of: u32 },
}

/// What a resource stands for.
#[derive(Clone, Copy)]
pub(super) enum Below {
    Nothing,
    Scope(u32),
    Group(u32),
    Set(u32),
}

/// What a group or chain came to.
pub(super) struct Group {
    pub index_var: Box<str>,
    /// In their order, which is not that of their paths.
    pub members: Box<[u32]>,
    /// Names that are not given again.
    pub removed: Removed,
    /// Digest of what was decided on; none: it could not be known, and there are no members yet.
    pub seen: Option<u128>,
    /// What was decided on follows from other resources.
    pub late: bool,
}

impl Parts {
    /// The last part of a path.
    pub fn own_name(&self, index: u32) -> &str {
        let name = &*self.instances[index as usize].name;
        name.rsplit_once('/').map_or(name, |(_, own)| own)
    }

    /// The stack whose template a resource is written in, its index there, and the way from its properties to those of the
    /// instance.
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

    /// The instance that encloses this one; [`NONE`]: none.
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

    /// What a set has for a node; `set` stands for all of it.
    pub fn member_of(&self, set: u32, node: &str) -> Option<u32> {
        let Below::Set(below) = self.instances[set as usize].below else { return None };
        let members = &self.sets[below as usize].members;
        let at = members.binary_search_by(|member| self.own_node(*member).cmp(node)).ok()?;
        Some(members[at])
    }

    /// By name: places take the place of the numbers given while the tree grew.
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

/// Names that a group has given up, each with what referred to the member if it was removed by that.
pub type Removed = BTreeMap<String, Option<String>>;

/// What is known of resources while a tree grows, by path: as they are now, whatever becomes of them.
pub trait CurrentResources {
    /// What `get_resource` would give.
    fn reference(&self, path: &str) -> Option<String>;
    /// What `get_attr` would give.
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
    /// The names of the nodes that a selector means, for the set under that path.
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
