//! Virtual resources: the desired state of what the controller itself realises, without a node and without a job.
//! Decides which changes replace one.
//!
//! Absent: how it is realised (`controller/engine/src/traversal/virtual_resource.rs`), and the properties in a template
//! (`types/heat.rs`).

use muster_intent::host::{Host, HostId};
use muster_intent::manager::Wish;
use muster_intent::topology::{ConnectPoint, LinkTraits};
use muster_shared::NodeId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::address::{Net, Port, Subnet};
use crate::config::SoftwareConfig;
use crate::intent_file::{point_json, seconds, wish_json};

/// Desired state of a virtual resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VirtualResource {
    /// A nested stack, a group or a chain: ready when all its members are.
    Whole,
    /// `OS::Heat::None`
    None,
    /// `OS::Heat::Value`: a value under a name, as JSON.
    Value(String),
    /// `OS::Heat::RandomString`
    Random(RandomString),
    /// `OS::Heat::TestResource`
    Test(TestResource),
    /// `OS::Heat::DeployedServer`: the full or short name of a node that has not joined yet.
    Server(NodeId),
    /// `OS::Neutron::Net`
    Net(Net),
    /// `OS::Neutron::Subnet`
    Subnet(Subnet),
    /// `OS::Neutron::Port`
    Port(Port),
    /// `OS::Heat::SoftwareConfig` and similar types.
    Config(SoftwareConfig),
    /// `OS::Heat::WaitConditionHandle`: signals are sent to it.
    WaitHandle,
    /// `OS::Heat::WaitCondition`
    Wait(WaitCondition),
    /// `OS::Heat::TestResource` that takes its time.
    SlowTest(TestResource, TestTimes),
    /// `Muster::TopologyLink`
    Link(TopologyLink),
    /// `Muster::Intent`
    Intent {
        /// The key, unique in the site.
        key: Box<str>,
        wish: Wish,
        /// Seconds to be installed in.
        timeout: u32,
    },
    /// `Muster::TopologyHost`
    Host(TopologyHost),
    /// `OS::Heat::DeployedServer`: the node found for its name. The resource keeps that node, also after the
    /// node's removal.
    Bound(NodeId),
    /// `OS::Heat::DeployedServer`: a name that no node can have.
    Stranger(String),
    /// `OS::Neutron::Net` with tags, which are in the attribute `network` of its ports.
    TaggedNet(Net, Vec<String>),
}

/// A host at a place that a template declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyHost {
    pub mac: HostId,
    pub host: Host,
}

/// A link that a template declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyLink {
    pub from: ConnectPoint,
    pub to: ConnectPoint,
    /// Packets go both ways.
    pub bidirectional: bool,
    /// Cost and capacity, the same in either direction.
    pub traits: LinkTraits,
}

/// The recipe of a random text. Any change of it makes another text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RandomString {
    pub length: u16,
    /// Character sets to draw from, each with its least count. Neither the list nor a set is empty.
    pub sources: Vec<(String, u16)>,
    /// A change of it makes another text.
    pub salt: Option<String>,
}

/// A wait for signals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitCondition {
    /// The id of the `OS::Heat::WaitConditionHandle`.
    pub handle: String,
    /// The timeout in seconds.
    pub timeout: u32,
    /// Signals with SUCCESS that are needed.
    pub count: u32,
}

/// `OS::Heat::TestResource`: takes time, fails or is replaced as its properties say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestResource {
    /// The attribute `output`.
    pub value: String,
    /// Making and changing it fail.
    pub fail: bool,
    /// Any change replaces it.
    pub update_replace: bool,
    /// A change to this value replaces it.
    pub update_replace_value: String,
}

/// The duration of the actions of a [`TestResource`], in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestTimes {
    pub create: u32,
    pub update: u32,
    pub delete: u32,
}

impl VirtualResource {
    /// The test resource, if this is one, and the duration of its actions.
    pub fn test(&self) -> Option<(&TestResource, TestTimes)> {
        match self {
            VirtualResource::Test(test) => Some((test, TestTimes::default())),
            VirtualResource::SlowTest(test, times) => Some((test, *times)),
            VirtualResource::Whole
            | VirtualResource::None
            | VirtualResource::Value(_)
            | VirtualResource::Random(_)
            | VirtualResource::Server(_)
            | VirtualResource::Bound(_)
            | VirtualResource::Stranger(_)
            | VirtualResource::Net(_)
            | VirtualResource::TaggedNet(..)
            | VirtualResource::Subnet(_)
            | VirtualResource::Port(_)
            | VirtualResource::Config(_)
            | VirtualResource::WaitHandle
            | VirtualResource::Wait(_)
            | VirtualResource::Link(_)
            | VirtualResource::Host(_)
            | VirtualResource::Intent { .. } => None,
        }
    }

    /// The network, if this is one, and its tags.
    pub fn net(&self) -> Option<(&Net, &[String])> {
        if let VirtualResource::Net(net) = self {
            return Some((net, &[]));
        }
        let VirtualResource::TaggedNet(net, tags) = self else { return None };
        Some((net, tags))
    }

    /// Whether an update to `next` replaces the resource.
    pub(crate) fn needs_replacement(&self, next: &VirtualResource) -> bool {
        if let (Some((old, _)), Some((new, _))) = (self.test(), next.test()) {
            let valued = !new.update_replace_value.is_empty() && new.value == new.update_replace_value;
            return old != new && (new.update_replace || valued);
        }
        match (self, next) {
            (VirtualResource::Whole, VirtualResource::Whole)
            | (VirtualResource::None, VirtualResource::None)
            | (VirtualResource::Value(_), VirtualResource::Value(_)) => false,
            (VirtualResource::Random(old), VirtualResource::Random(new)) => old != new,
            (
                VirtualResource::Server(old) | VirtualResource::Bound(old),
                VirtualResource::Server(new) | VirtualResource::Bound(new),
            ) => old != new,
            (VirtualResource::Stranger(old), VirtualResource::Stranger(new)) => old != new,
            (
                VirtualResource::Net(_) | VirtualResource::TaggedNet(..),
                VirtualResource::Net(_) | VirtualResource::TaggedNet(..),
            )
            | (VirtualResource::Subnet(_), VirtualResource::Subnet(_))
            | (VirtualResource::WaitHandle, VirtualResource::WaitHandle) => false,
            // In place: deployments refer to a config by its id.
            (VirtualResource::Config(_), VirtualResource::Config(_)) => false,
            (VirtualResource::Wait(old), VirtualResource::Wait(new)) => {
                old.handle != new.handle || old.timeout != new.timeout
            }
            (VirtualResource::Port(old), VirtualResource::Port(new)) => old.network != new.network,
            (VirtualResource::Host(old), VirtualResource::Host(new)) => old.mac != new.mac,
            (VirtualResource::Link(old), VirtualResource::Link(new)) => {
                old.from != new.from || old.to != new.to
            }
            (VirtualResource::Intent { key: old, .. }, VirtualResource::Intent { key: new, .. }) => {
                old != new
            }
            (
                VirtualResource::Whole
                | VirtualResource::None
                | VirtualResource::Value(_)
                | VirtualResource::Random(_)
                | VirtualResource::Test(_)
                | VirtualResource::SlowTest(..)
                | VirtualResource::Server(_)
                | VirtualResource::Bound(_)
                | VirtualResource::Stranger(_)
                | VirtualResource::Net(_)
                | VirtualResource::TaggedNet(..)
                | VirtualResource::Subnet(_)
                | VirtualResource::Port(_)
                | VirtualResource::Config(_)
                | VirtualResource::WaitHandle
                | VirtualResource::Wait(_)
                | VirtualResource::Link(_)
                | VirtualResource::Host(_)
                | VirtualResource::Intent { .. },
                _,
            ) => true,
        }
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<Value> {
        match (self, name) {
            (VirtualResource::None, _) => Some(Value::Null),
            (VirtualResource::Value(json), "value") => serde_json::from_str(json).ok(),
            (VirtualResource::Test(test) | VirtualResource::SlowTest(test, _), "output") => {
                Some(json!(test.value))
            }
            (VirtualResource::Server(node) | VirtualResource::Bound(node), "name") => {
                Some(json!(node.as_str()))
            }
            (VirtualResource::Stranger(name), "name") => Some(json!(name)),
            (
                VirtualResource::Server(_) | VirtualResource::Bound(_) | VirtualResource::Stranger(_),
                "os_collect_config",
            ) => Some(json!({})),
            (VirtualResource::Net(net), name) => net.attribute(name, &[]),
            (VirtualResource::TaggedNet(net, tags), name) => net.attribute(name, tags),
            (VirtualResource::Subnet(subnet), name) => subnet.attribute(name),
            (VirtualResource::Port(port), name) => port.attribute(name),
            (VirtualResource::Config(config), name) => config.attribute(name),
            (VirtualResource::Intent { key, .. }, "key") => Some(json!(key)),
            (VirtualResource::Host(host), "mac") => Some(json!(host.mac.to_string())),
            (
                VirtualResource::Whole
                | VirtualResource::Value(_)
                | VirtualResource::Random(_)
                | VirtualResource::Test(_)
                | VirtualResource::SlowTest(..)
                | VirtualResource::Server(_)
                | VirtualResource::Bound(_)
                | VirtualResource::Stranger(_)
                | VirtualResource::WaitHandle
                | VirtualResource::Wait(_)
                | VirtualResource::Link(_)
                | VirtualResource::Host(_)
                | VirtualResource::Intent { .. },
                _,
            ) => None,
        }
    }

    pub(crate) fn properties(&self) -> Map<String, Value> {
        let mut all = Map::new();
        let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
        match self {
            VirtualResource::Whole | VirtualResource::None | VirtualResource::WaitHandle => {}
            VirtualResource::Value(json) => put("value", serde_json::from_str(json).unwrap_or_default()),
            VirtualResource::Random(random) => {
                put("length", json!(random.length));
                let shown = |(text, min): &(String, u16)| json!({"sequence": text, "min": min});
                put("character_sequences", random.sources.iter().map(shown).collect());
                if let Some(salt) = &random.salt {
                    put("salt", json!(salt));
                }
            }
            VirtualResource::Test(test) | VirtualResource::SlowTest(test, _) => {
                put("value", json!(test.value));
                put("fail", json!(test.fail));
                put("update_replace", json!(test.update_replace));
                put("update_replace_value", json!(test.update_replace_value));
                if let VirtualResource::SlowTest(_, times) = self {
                    let seconds = |millis: u32| json!(f64::from(millis) / 1000.0);
                    let TestTimes { create, update, delete } = *times;
                    let times = json!({"create": seconds(create), "update": seconds(update), "delete": seconds(delete)});
                    put("action_wait_secs", times);
                }
            }
            VirtualResource::Server(node) | VirtualResource::Bound(node) => put("name", json!(node.as_str())),
            VirtualResource::Stranger(name) => put("name", json!(name)),
            VirtualResource::Wait(wait) => {
                put("handle", json!(wait.handle));
                put("timeout", json!(wait.timeout));
                put("count", json!(wait.count));
            }
            VirtualResource::Link(link) => return link.properties(),
            VirtualResource::Host(TopologyHost { mac, host }) => {
                put("mac", json!(mac.to_string()));
                put("location", point_json(&host.location));
                put("addresses", json!(host.addresses));
            }
            VirtualResource::Intent { key, wish, timeout } => {
                put("key", json!(key));
                put("timeout", json!(timeout));
                all.extend(wish_json(&wish.intent, wish.group.as_deref()));
            }
            VirtualResource::Net(net) => return net.properties(),
            VirtualResource::TaggedNet(net, tags) => {
                all = net.properties();
                all.insert("tags".to_owned(), json!(tags));
            }
            VirtualResource::Subnet(subnet) => return subnet.properties(),
            VirtualResource::Port(port) => return port.properties(),
            VirtualResource::Config(config) => return config.properties(),
        }
        all
    }
}

impl TopologyLink {
    fn properties(&self) -> Map<String, Value> {
        let LinkTraits { cost, bandwidth, latency, annotations } = &self.traits;
        let mut all = Map::from_iter([
            ("from".to_owned(), point_json(&self.from)),
            ("to".to_owned(), point_json(&self.to)),
            ("bidirectional".to_owned(), json!(self.bidirectional)),
            ("cost".to_owned(), json!(cost)),
            ("annotations".to_owned(), json!(annotations)),
        ]);
        all.extend(bandwidth.map(|bits| ("bandwidth".to_owned(), json!(bits))));
        all.extend(latency.map(|nanoseconds| ("latency".to_owned(), json!(seconds(nanoseconds)))));
        all
    }
}

impl RandomString {
    /// Makes a text. `draw(n)` returns a uniformly distributed number below `n`.
    pub fn generate(&self, mut draw: impl FnMut(usize) -> usize) -> String {
        let sources: Vec<Vec<char>> = self.sources.iter().map(|(text, _)| text.chars().collect()).collect();
        let mut text: Vec<char> = Vec::with_capacity(self.length.into());
        for (source, (_, least)) in sources.iter().zip(&self.sources) {
            text.extend((0..*least).map(|_| source[draw(source.len())]));
        }
        while text.len() < self.length.into() {
            let source = &sources[draw(sources.len())];
            text.push(source[draw(source.len())]);
        }
        for last in (1..text.len()).rev() {
            text.swap(last, draw(last + 1));
        }
        text.into_iter().collect()
    }
}
