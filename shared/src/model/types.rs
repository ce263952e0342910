//! Resource types on nodes: each is a file below, and one line of the list here. In the agent, each is a file
//! of `muster-host` that implements the trait `Resource`. A type's file decides its properties, claims and
//! lane, whether its change can cut the node off, and whether its drift is corrected by default.
//!
//! Absent: types that the controller itself realises (`controller/template/src/virtual_resource.rs`), and the
//! notation of software configs and flow rules in templates (`controller/template/src/types.rs`).

#[macro_use]
mod list;

mod account;
mod deployment;
mod dummy;
mod file;
mod group;
mod hook;
mod hostname;
mod network_config;
mod package;
mod sysctl;
mod timezone;
mod unit;
mod user;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::spec::{Claim, Content, ContentDigest, Lane};
use crate::property::{Property, PropertyError, RenderedProperties};

pub use account::{AccountError, PasswordHash};
pub use deployment::{
    DEPLOY_ACTION, DEPLOY_STATUS_CODE, DEPLOY_STDERR, DEPLOY_STDOUT, DEPLOYMENT_ATTRIBUTE_MAX,
    DEPLOYMENT_ATTRIBUTES_MAX, DEPLOYMENT_MAX, DEPLOYMENT_TIMEOUT_MAX, Deployment, DeploymentAction,
    DeploymentError, DeploymentGroup, DeploymentOutput, DeploymentStep, OnInterrupt,
};
pub use dummy::{Dummy, FailOn};
pub use file::File;
pub use group::Group;
pub use hook::{HookConfig, HookInput, INPUT_TYPE};
pub use hostname::{HOSTNAME_MAX, Hostname, HostnameError, check_hostname};
pub use network_config::NetworkConfig;
pub use package::{PACKAGE_BACK, Package, PackageError, Presence};
pub use sysctl::{Sysctl, SysctlError};
pub use timezone::{Timezone, TimezoneError};
pub use unit::{UNIT_FOLDER, Unit, UnitActive, UnitError};
pub use user::User;

// The types in the order of their introduction: a job, a ledger and a store identify a type by its position,
// so a new type comes last. The type after `as` is the wire form, if it differs from the serde form. The number
// after `since` is what an agent must read to know the type, as in `wire::READS`.
resource_types! {
    Dummy(Dummy),
    File(File),
    Network(NetworkConfig),
    Hostname(Hostname),
    Deployment(Deployment as deployment::Wire),
    Unit(Unit as unit::Wire),
    Sysctl(Sysctl),
    Package(Package),
    User(User),
    Group(Group),
    Timezone(Timezone) since 2,
}

/// Kinds of claimed objects, in the order of their introduction, like the types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClaimKind {
    /// A path in the file system.
    File,
    /// A network interface or bridge.
    Link,
    /// The node's own name; the only key is [`Hostname::CLAIM`].
    Hostname,
    /// The node's DNS settings; the only key is `dns`.
    Resolver,
    /// A place in a flow table; the key is the bridge and the id.
    Flow,
    /// A unit of systemd.
    Unit,
    /// A setting of the kernel.
    Sysctl,
    /// A package of the distribution.
    Package,
    /// A user of the server.
    User,
    /// A group of the server.
    Group,
    /// The server's time zone; the only key is [`Timezone::CLAIM`].
    Timezone,
}

impl fmt::Display for ClaimKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClaimKind::File => "file",
            ClaimKind::Link => "link",
            ClaimKind::Hostname => "host name",
            ClaimKind::Resolver => "resolver",
            ClaimKind::Flow => "flow",
            ClaimKind::Unit => "unit",
            ClaimKind::Sysctl => "kernel setting",
            ClaimKind::Package => "package",
            ClaimKind::User => "user",
            ClaimKind::Group => "group",
            ClaimKind::Timezone => "time zone",
        })
    }
}

/// The name and description of a type whose properties are its desired state.
pub trait TemplateType: Sized {
    /// The name in templates.
    const NAME: &'static str;
    /// A description of one line.
    const ABOUT: &'static str;
    /// The properties of the type, by name.
    const PROPERTIES: &'static [Property];
    /// The attributes for `get_attr`: name and description.
    const ATTRIBUTES: &'static [(&'static str, &'static str)];
    /// Attributes whose names are in the properties' values, described in one line.
    const OTHER_ATTRIBUTES: &'static str = "";
    /// Whether drift is corrected by default: only if that is cheap, and nothing else depends on the moment.
    const IS_CORRECTED: bool = false;

    /// Desired state from rendered properties.
    ///
    /// # Errors
    /// A property is missing or wrong.
    fn read(given: &RenderedProperties<'_>) -> Result<Self, PropertyError>;
}

/// Operations on a desired state of any type.
pub trait DesiredState {
    /// The type's name in templates. For a deployment it is a general name.
    fn type_name(&self) -> &'static str;

    /// The name by which an operator finds the object on its server: its path, unit or package; may be empty.
    fn key(&self) -> Cow<'_, str>;

    /// The claims of the resource on its node.
    fn claims(&self) -> Vec<Claim>;

    /// Property → value, as in a template, for people who compare two states. Null is left out.
    fn properties(&self) -> Value;

    /// An attribute that follows from the desired state itself; only the node knows the others.
    fn attribute(&self, name: &str) -> Option<Value>;

    /// Checks a state from outside, which may break what templates were checked for.
    ///
    /// # Errors
    /// The field that is out of bounds.
    fn check_bounds(&self) -> Result<(), &'static str>;

    /// Whether changing this state to `next` requires a replacement, because it is another object.
    fn needs_replacement(&self, next: &Self) -> bool
    where
        Self: Sized,
    {
        self.key() != next.key()
    }

    /// The lane in which its jobs run.
    fn lane(&self) -> Lane {
        Lane::Service
    }

    /// The wire form that an agent must read for the contents of this state, beyond its type, as in
    /// [`READS`](crate::wire::READS).
    fn reads_for_content(&self) -> u32 {
        0
    }

    /// For states that can cut the node off: how long a change may take until the agent has reached the
    /// controller again. Otherwise the change is undone.
    fn confirm_within(&self) -> Option<Duration> {
        None
    }

    /// The time that the state itself requires for a job, beyond the time of every job.
    fn own_time(&self) -> Duration {
        self.confirm_within().unwrap_or_default()
    }

    /// Whether a running job may be interrupted; other jobs run to their end, since half of one would
    /// be worse.
    fn is_interruptible(&self) -> bool {
        false
    }

    /// Whether the agent can delete the resource by its own ledger.
    fn is_removable(&self) -> bool {
        true
    }

    /// Content that is fetched if it is large.
    fn content(&self) -> Option<&Content> {
        None
    }

    /// The same, to be replaced.
    fn content_mut(&mut self) -> Option<&mut Content> {
        None
    }

    /// Removes parts that the host does not need once the state is applied, and secrets that the next job
    /// sends again.
    fn strip(&mut self) {}

    /// The approximate memory of the state in bytes, in addition to a fixed part.
    fn weight(&self) -> usize {
        self.key().len()
    }
}

impl Spec {
    /// An attribute of any type, with a different value for each desired state; `restart_on` uses it. Its
    /// value is a digest of contents that may be secret, so no template may name it and no view shows it.
    pub const STATE: &str = "muster:state";

    /// An attribute that follows from the desired state itself.
    pub fn attribute(&self, name: &str) -> Option<Value> {
        if name == Self::STATE {
            let bytes = postcard::to_stdvec(self).expect("a desired state has no map of unknown length");
            return Some(Value::String(ContentDigest::of(&bytes).to_string()));
        }
        (**self).attribute(name)
    }

    /// Property → value. Absent properties without a default are left out.
    pub fn properties(&self) -> Map<String, Value> {
        let Value::Object(map) = (**self).properties() else { return Map::new() };
        map.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }
}

fn at_most(field: &'static str, size: usize, max: usize) -> Result<(), &'static str> {
    if size <= max { Ok(()) } else { Err(field) }
}

/// Checks a map from outside. A job must fit its message, so these bounds only keep one field from
/// filling it.
pub(crate) fn map_in_bounds(field: &'static str, map: &BTreeMap<String, String>) -> Result<(), &'static str> {
    const ENTRIES_MAX: usize = 1024;
    const KEY_MAX: usize = 1024;
    const VALUE_MAX: usize = 64 * 1024;
    at_most(field, map.len(), ENTRIES_MAX)?;
    map.iter().try_for_each(|(key, value)| {
        at_most(field, key.len(), KEY_MAX)?;
        at_most(field, value.len(), VALUE_MAX)
    })
}

#[cfg(test)]
mod tests;
