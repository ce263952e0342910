//! Desired state of one resource, rendered: what a job carries and what the ledger remembers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::account::{Group, User};
use super::deployment::Deployment;
use super::package::Package;
use super::sysctl::Sysctl;
use super::unit::Unit;

/// What is to be done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Make it; it has not been applied by this resource before.
    Create,
    /// Bring it to a new desired state, in place.
    Update,
    /// Take it away, and put back what was there before.
    Delete,
    /// Compare what is there with the desired state; nothing changes, neither there nor in the ledger's last state.
    Check,
    /// Forget the resource and leave what is there.
    Retain,
}

/// Desired state by resource type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spec {
    /// `Muster::Dummy`
    Dummy(Dummy),
    /// `Muster::File`
    File(File),
    /// `Muster::NetworkConfig`
    Network(NetworkConfig),
    /// `Muster::Hostname`
    Hostname(Hostname),
    /// `OS::Heat::SoftwareDeployment` and what is like it
    Deployment(Deployment),
    /// `Muster::Unit`
    Unit(Unit),
    /// `Muster::Sysctl`
    Sysctl(Sysctl),
    /// `Muster::Package`
    Package(Package),
    /// `Muster::User`
    User(User),
    /// `Muster::Group`
    Group(Group),
}

/// `Muster::Dummy`: makes nothing real; for tests, demonstrations and ordering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dummy {
    /// Kept by the agent; each is an attribute. A changed key that begins with `!` forces a replacement.
    pub values: BTreeMap<String, String>,
    /// How long applying takes, in milliseconds.
    pub milliseconds: u64,
    /// Which actions fail.
    pub fail: Option<FailOn>,
}

/// When a dummy fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailOn {
    /// Every action.
    Any,
    /// One action.
    Action(Action),
}

/// `Muster::File`: a regular file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Absolute, normalised path.
    pub path: String,
    /// What is in it.
    pub content: Content,
    /// Permission bits, at most 0o7777.
    pub mode: u32,
    /// User name or number; the agent's own user if absent.
    pub owner: Option<String>,
    /// Group name or number; the agent's own group if absent.
    pub group: Option<String>,
    /// What a delete leaves behind.
    pub on_delete: OnDelete,
}

/// BLAKE3 of a content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContentDigest(pub [u8; 32]);

/// Content of a file, in the job or, where it is larger than [`Content::INLINE_MAX`], fetched in chunks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// In the job itself.
    Inline(Vec<u8>),
    /// Asked for by digest, chunk by chunk, and verified.
    Stored {
        /// BLAKE3 of the whole.
        digest: ContentDigest,
        /// Bytes.
        size: u64,
    },
}

/// What is left when a resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDelete {
    /// What was there before Muster is put back; nothing, if there was nothing.
    #[default]
    Restore,
    /// What Muster made stays.
    Keep,
}

/// `Muster::NetworkConfig`: a document in os-net-config's format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkConfig {
    /// The list of os-net-config objects, as JSON text.
    pub document: String,
    /// `nicN` or another alias → interface name or MAC address.
    pub mapping: BTreeMap<String, String>,
    /// Seconds until an unconfirmed change is taken back.
    pub confirm_timeout: u32,
    /// What a delete leaves behind.
    pub on_delete: OnDelete,
}

/// `Muster::Hostname`: the name that the kernel and `/etc/hostname` have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hostname {
    /// As [`check_hostname`](super::check_hostname) takes it.
    pub hostname: String,
    /// Seconds until an unconfirmed change is taken back.
    pub confirm_timeout: u32,
    /// What a delete leaves behind.
    pub on_delete: OnDelete,
}

/// What a resource owns on its node. One owner in the whole site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The kind of thing.
    pub kind: ClaimKind,
    /// Its name within the kind.
    pub key: String,
}

/// Kinds of things that are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClaimKind {
    /// A path in the file system.
    File,
    /// A network interface or bridge.
    Link,
    /// The node's own name; there is one, whose key is [`Hostname::CLAIM`].
    Hostname,
    /// The node's DNS settings; there is one set of them, whose key is `dns`.
    Resolver,
    /// A place in a flow table; its key is the bridge and the id.
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
}

/// Jobs of one lane run one after the other; lanes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Addresses, links, bridges, the host name.
    Network,
    /// Files and services.
    Service,
    /// Packages: apt and dnf let one at a time change anything, which takes minutes.
    Package,
    /// Software deployments: one after the other as in Heat, and nothing else waits for a long script.
    Deployment,
}

impl Lane {
    /// All of them.
    pub const ALL: [Lane; 4] = [Lane::Network, Lane::Service, Lane::Package, Lane::Deployment];
}

impl Content {
    /// Larger contents are fetched: a job with one must fit a message of 256 KiB.
    pub const INLINE_MAX: usize = 64 * 1024;

    /// Bytes of the whole content.
    pub fn size(&self) -> u64 {
        match self {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Stored { size, .. } => *size,
        }
    }
}

impl ContentDigest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

/// Content may be secret: only its size is shown.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.size())
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
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
        })
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

impl Action {
    /// Brings the thing to its desired state.
    pub fn applies(self) -> bool {
        match self {
            Action::Create | Action::Update => true,
            Action::Delete | Action::Check | Action::Retain => false,
        }
    }

    /// The resource is gone afterwards, with its thing or without.
    pub fn removes(self) -> bool {
        match self {
            Action::Delete | Action::Retain => true,
            Action::Create | Action::Update | Action::Check => false,
        }
    }
}

impl Spec {
    /// Its type as templates name it. Of deployments all that is known here is that they are some.
    pub fn type_name(&self) -> &'static str {
        match self {
            Spec::Dummy(_) => "Muster::Dummy",
            Spec::File(_) => "Muster::File",
            Spec::Network(_) => "Muster::NetworkConfig",
            Spec::Hostname(_) => "Muster::Hostname",
            Spec::Deployment(_) => "OS::Heat::SoftwareDeployment",
            Spec::Unit(_) => "Muster::Unit",
            Spec::Sysctl(_) => "Muster::Sysctl",
            Spec::Package(_) => "Muster::Package",
            Spec::User(_) => "Muster::User",
            Spec::Group(_) => "Muster::Group",
        }
    }

    /// Whether a job of it may be ended while it runs; another is left to end, for half of it would be worse.
    pub fn is_interruptible(&self) -> bool {
        // Of a script too: to run again after a crash is one thing, to be killed with a package manager in the middle another.
        matches!(self, Spec::Dummy(_))
    }

    /// Of what can cut the node off: how long a change may take until the controller was reached anew. It is kept only
    /// then.
    pub fn confirm_within(&self) -> Option<Duration> {
        match self {
            Spec::Network(network) => Some(Duration::from_secs(network.confirm_timeout.into())),
            Spec::Hostname(hostname) => Some(Duration::from_secs(hostname.confirm_timeout.into())),
            Spec::Dummy(_)
            | Spec::File(_)
            | Spec::Deployment(_)
            | Spec::Unit(_)
            | Spec::Sysctl(_)
            | Spec::Package(_)
            | Spec::User(_)
            | Spec::Group(_) => None,
        }
    }

    /// Which lane its jobs run in.
    pub fn lane(&self) -> Lane {
        match self {
            Spec::Network(_) | Spec::Hostname(_) => Lane::Network,
            Spec::Dummy(_)
            | Spec::File(_)
            | Spec::Unit(_)
            | Spec::Sysctl(_)
            | Spec::User(_)
            | Spec::Group(_) => Lane::Service,
            Spec::Package(_) => Lane::Package,
            Spec::Deployment(_) => Lane::Deployment,
        }
    }

    /// What it owns on its node.
    pub fn claims(&self) -> Vec<Claim> {
        match self {
            // What a script touches, nobody knows.
            Spec::Dummy(_) | Spec::Deployment(_) => Vec::new(),
            Spec::Unit(unit) => unit.claims(),
            Spec::Sysctl(sysctl) => vec![Claim { kind: ClaimKind::Sysctl, key: sysctl.key.clone() }],
            Spec::User(user) => vec![Claim { kind: ClaimKind::User, key: user.name.clone() }],
            Spec::Group(group) => vec![Claim { kind: ClaimKind::Group, key: group.name.clone() }],
            Spec::Package(package) => vec![Claim { kind: ClaimKind::Package, key: package.name.clone() }],
            Spec::File(file) => vec![Claim { kind: ClaimKind::File, key: file.path.clone() }],
            Spec::Network(network) => network.claims(),
            Spec::Hostname(_) => vec![Claim { kind: ClaimKind::Hostname, key: Hostname::CLAIM.into() }],
        }
    }

    /// Whether a resource in state `self` must be replaced to become `next`, because a property changed that
    /// makes it another thing.
    pub fn needs_replacement(&self, next: &Spec) -> bool {
        match (self, next) {
            (Spec::Dummy(old), Spec::Dummy(new)) => {
                let forced = |dummy: &Dummy| -> BTreeMap<String, String> {
                    dummy
                        .values
                        .iter()
                        .filter(|(k, _)| k.starts_with('!'))
                        .map(|(k, v)| (k.clone(), v.clone()))
                        .collect()
                };
                forced(old) != forced(new)
            }
            (Spec::File(old), Spec::File(new)) => old.path != new.path,
            (Spec::Deployment(old), Spec::Deployment(new)) => old.needs_replacement(new),
            (Spec::Unit(old), Spec::Unit(new)) => old.name != new.name,
            (Spec::Sysctl(old), Spec::Sysctl(new)) => old.key != new.key,
            (Spec::Package(old), Spec::Package(new)) => old.name != new.name,
            (Spec::User(old), Spec::User(new)) => old.name != new.name,
            (Spec::Group(old), Spec::Group(new)) => old.name != new.name,
            (Spec::Network(_), Spec::Network(_)) | (Spec::Hostname(_), Spec::Hostname(_)) => false,
            (_, _) => true,
        }
    }

    /// The attribute that is another value for every other desired state, of any type: what `restart_on` is made of. It
    /// is a digest of contents that may be secret, so no template may name it, and nobody is shown it.
    pub const STATE: &str = "muster:state";

    /// An attribute that follows from the desired state itself.
    pub fn attribute(&self, name: &str) -> Option<Value> {
        if name == Self::STATE {
            let bytes = postcard::to_stdvec(self).expect("a desired state has no map of unknown length");
            return Some(Value::String(ContentDigest::of(&bytes).to_string()));
        }
        match self {
            Spec::Dummy(dummy) => dummy.values.get(name).map(|v| Value::String(v.clone())),
            Spec::File(file) => match name {
                "path" => Some(Value::String(file.path.clone())),
                _ => None,
            },
            Spec::Hostname(hostname) => match name {
                "hostname" => Some(Value::String(hostname.hostname.clone())),
                _ => None,
            },
            Spec::Sysctl(sysctl) => match name {
                "value" => Some(Value::String(sysctl.value.clone())),
                _ => None,
            },
            Spec::Unit(unit) => match name {
                "name" => Some(Value::String(unit.name.clone())),
                _ => None,
            },
            // Which number or version is there, only the node knows.
            Spec::User(user) => match name {
                "name" => Some(Value::String(user.name.clone())),
                _ => None,
            },
            Spec::Group(group) => match name {
                "name" => Some(Value::String(group.name.clone())),
                _ => None,
            },
            Spec::Package(package) => match name {
                "name" => Some(Value::String(package.name.clone())),
                _ => None,
            },
            Spec::Network(_) | Spec::Deployment(_) => None,
        }
    }
}

impl Hostname {
    /// The key of the one thing that is claimed.
    pub const CLAIM: &str = "/etc/hostname";
}

impl NetworkConfig {
    fn claims(&self) -> Vec<Claim> {
        let mut names = Vec::new();
        let mut has_dns = false;
        if let Ok(document) = serde_json::from_str::<Value>(&self.document) {
            collect_names(&document, &mut names, &mut has_dns);
        }
        let mut claims: Vec<Claim> = names
            .into_iter()
            .map(|name| Claim {
                kind: ClaimKind::Link,
                key: self.mapping.get(&name).cloned().unwrap_or(name),
            })
            .chain(has_dns.then(|| Claim { kind: ClaimKind::Resolver, key: "dns".into() }))
            .collect();
        claims.sort();
        claims.dedup();
        claims
    }
}

/// Every object's `name`, members included, and whether there are DNS settings; a `vlan` without a name is `vlan<ID>`, as os-net-config names it.
fn collect_names(value: &Value, names: &mut Vec<String>, has_dns: &mut bool) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, names, has_dns)),
        Value::Object(object) => {
            *has_dns |= ["dns_servers", "domain"].iter().any(|option| object.contains_key(*option));
            match (object.get("name"), object.get("vlan_id")) {
                (Some(Value::String(name)), _) => names.push(name.clone()),
                (None, Some(id)) => names.push(format!("vlan{id}")),
                _ => {}
            }
            for key in ["members", "network_config", "fallback_config"] {
                if let Some(inner) = object.get(key) {
                    collect_names(inner, names, has_dns);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_document_claims_its_links_and_the_resolver_it_sets() {
        let config = |document: &str| NetworkConfig {
            document: document.into(),
            mapping: BTreeMap::from([("nic1".to_owned(), "eth1".to_owned())]),
            confirm_timeout: 60,
            on_delete: OnDelete::Restore,
        };
        let claims = |document: &str| -> Vec<String> {
            Spec::Network(config(document)).claims().iter().map(Claim::to_string).collect()
        };
        assert_eq!(
            claims(r#"[{"type":"ovs_bridge","name":"br-ex","members":[{"name":"nic1"},{"vlan_id":20}]}]"#),
            ["link br-ex", "link eth1", "link vlan20"]
        );
        assert_eq!(
            claims(
                r#"{"network_config":[{"name":"eth0","dns_servers":["192.0.2.53"]}],"fallback_config":[{"name":"eth2"}]}"#
            ),
            ["link eth0", "link eth2", "resolver dns"]
        );
        assert_eq!(claims(r#"[{"name":"eth0","domain":"example.org"}]"#), ["link eth0", "resolver dns"]);
        assert!(claims("not JSON").is_empty());
    }
}
