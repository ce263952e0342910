//! What the controller itself sees to: no node has it, no job makes it.

use muster_intent::host::{Host, HostId};
use muster_intent::manager::Wish;
use muster_intent::topology::{ConnectPoint, LinkTraits};
use muster_shared::NodeId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::address::{Net, Port, Subnet};
use crate::config::SoftwareConfig;
use crate::intent_file::{point_json, seconds, wish_json};

/// Desired state of a resource of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Here {
    /// Stands for all that is below it: a nested stack, a group, a chain.
    Whole,
    /// `OS::Heat::None`: nothing.
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
    /// `OS::Heat::SoftwareConfig` and what is like it
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
        /// The key, of which the site has one.
        key: Box<str>,
        wish: Wish,
        /// Seconds to be installed in.
        timeout: u32,
    },
    /// `Muster::TopologyHost`
    Host(TopologyHost),
    /// `OS::Heat::DeployedServer`: the node that it was found to be. It stays that one, also when that is removed.
    Bound(NodeId),
}

/// A host that is where somebody says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyHost {
    /// What it is known by.
    pub mac: HostId,
    pub host: Host,
}

/// A link that is there because somebody says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyLink {
    /// From where.
    pub from: ConnectPoint,
    /// To where.
    pub to: ConnectPoint,
    /// Packets go both ways.
    pub bidirectional: bool,
    /// What is said of it, in either direction.
    pub traits: LinkTraits,
}

/// How a random text is made; another way makes another text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RandomString {
    pub length: u16,
    /// Characters to draw from, each with how many of it there are at least. Never empty, nor is one of them.
    pub sources: Vec<(String, u16)>,
    /// Means nothing but that it was changed.
    pub salt: Option<String>,
}

/// Signals that are waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitCondition {
    /// The id of its handle.
    pub handle: String,
    pub timeout: u32,
    /// How many of them say SUCCESS.
    pub count: u32,
}

/// For trying out what others do when something happens to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestResource {
    /// The attribute `output`.
    pub value: String,
    /// It cannot be made or changed.
    pub fail: bool,
    /// Any change replaces it.
    pub update_replace: bool,
    /// A change to this value replaces it.
    pub update_replace_value: String,
}

/// How long the actions of a [`TestResource`] take, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestTimes {
    /// To be made.
    pub create: u32,
    /// To be changed.
    pub update: u32,
    /// To go.
    pub delete: u32,
}

impl Here {
    /// What it is if it is a test resource, and how long its actions take.
    pub fn test(&self) -> Option<(&TestResource, TestTimes)> {
        match self {
            Here::Test(test) => Some((test, TestTimes::default())),
            Here::SlowTest(test, times) => Some((test, *times)),
            Here::Whole
            | Here::None
            | Here::Value(_)
            | Here::Random(_)
            | Here::Server(_)
            | Here::Bound(_)
            | Here::Net(_)
            | Here::Subnet(_)
            | Here::Port(_)
            | Here::Config(_)
            | Here::WaitHandle
            | Here::Wait(_)
            | Here::Link(_)
            | Here::Host(_)
            | Here::Intent { .. } => None,
        }
    }

    /// Whether another takes its place when it becomes `next`.
    pub(crate) fn needs_replacement(&self, next: &Here) -> bool {
        if let (Some((old, _)), Some((new, _))) = (self.test(), next.test()) {
            let valued = !new.update_replace_value.is_empty() && new.value == new.update_replace_value;
            return old != new && (new.update_replace || valued);
        }
        match (self, next) {
            (Here::Whole, Here::Whole) | (Here::None, Here::None) | (Here::Value(_), Here::Value(_)) => false,
            (Here::Random(old), Here::Random(new)) => old != new,
            (Here::Server(old) | Here::Bound(old), Here::Server(new) | Here::Bound(new)) => old != new,
            (Here::Net(_), Here::Net(_))
            | (Here::Subnet(_), Here::Subnet(_))
            | (Here::WaitHandle, Here::WaitHandle) => false,
            // In place: deployments find it under the id they know.
            (Here::Config(_), Here::Config(_)) => false,
            (Here::Wait(old), Here::Wait(new)) => old.handle != new.handle || old.timeout != new.timeout,
            (Here::Port(old), Here::Port(new)) => old.network != new.network,
            (Here::Host(old), Here::Host(new)) => old.mac != new.mac,
            (Here::Link(old), Here::Link(new)) => old.from != new.from || old.to != new.to,
            (Here::Intent { key: old, .. }, Here::Intent { key: new, .. }) => old != new,
            (
                Here::Whole
                | Here::None
                | Here::Value(_)
                | Here::Random(_)
                | Here::Test(_)
                | Here::SlowTest(..)
                | Here::Server(_)
                | Here::Bound(_)
                | Here::Net(_)
                | Here::Subnet(_)
                | Here::Port(_)
                | Here::Config(_)
                | Here::WaitHandle
                | Here::Wait(_)
                | Here::Link(_)
                | Here::Host(_)
                | Here::Intent { .. },
                _,
            ) => true,
        }
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<Value> {
        match (self, name) {
            (Here::None, _) => Some(Value::Null),
            (Here::Value(json), "value") => serde_json::from_str(json).ok(),
            (Here::Test(test) | Here::SlowTest(test, _), "output") => Some(json!(test.value)),
            (Here::Server(node) | Here::Bound(node), "name") => Some(json!(node.as_str())),
            (Here::Net(net), name) => net.attribute(name),
            (Here::Subnet(subnet), name) => subnet.attribute(name),
            (Here::Port(port), name) => port.attribute(name),
            (Here::Config(config), name) => config.attribute(name),
            (Here::Intent { key, .. }, "key") => Some(json!(key)),
            (Here::Host(host), "mac") => Some(json!(host.mac.to_string())),
            (
                Here::Whole
                | Here::Value(_)
                | Here::Random(_)
                | Here::Test(_)
                | Here::SlowTest(..)
                | Here::Server(_)
                | Here::Bound(_)
                | Here::WaitHandle
                | Here::Wait(_)
                | Here::Link(_)
                | Here::Host(_)
                | Here::Intent { .. },
                _,
            ) => None,
        }
    }

    pub(crate) fn properties(&self) -> Map<String, Value> {
        let mut all = Map::new();
        let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
        match self {
            Here::Whole | Here::None | Here::WaitHandle => {}
            Here::Value(json) => put("value", serde_json::from_str(json).unwrap_or_default()),
            Here::Random(random) => {
                put("length", json!(random.length));
                let shown = |(text, min): &(String, u16)| json!({"sequence": text, "min": min});
                put("character_sequences", random.sources.iter().map(shown).collect());
                if let Some(salt) = &random.salt {
                    put("salt", json!(salt));
                }
            }
            Here::Test(test) | Here::SlowTest(test, _) => {
                put("value", json!(test.value));
                put("fail", json!(test.fail));
                put("update_replace", json!(test.update_replace));
                put("update_replace_value", json!(test.update_replace_value));
                if let Here::SlowTest(_, times) = self {
                    let seconds = |millis: u32| json!(f64::from(millis) / 1000.0);
                    let TestTimes { create, update, delete } = *times;
                    let times = json!({"create": seconds(create), "update": seconds(update), "delete": seconds(delete)});
                    put("action_wait_secs", times);
                }
            }
            Here::Server(node) | Here::Bound(node) => put("name", json!(node.as_str())),
            Here::Wait(wait) => {
                put("handle", json!(wait.handle));
                put("timeout", json!(wait.timeout));
                put("count", json!(wait.count));
            }
            Here::Link(link) => return link.properties(),
            Here::Host(TopologyHost { mac, host }) => {
                put("mac", json!(mac.to_string()));
                put("location", point_json(&host.location));
                put("addresses", json!(host.addresses));
            }
            Here::Intent { key, wish, timeout } => {
                put("key", json!(key));
                put("timeout", json!(timeout));
                all.extend(wish_json(&wish.intent, wish.group.as_deref()));
            }
            Here::Net(net) => return net.properties(),
            Here::Subnet(subnet) => return subnet.properties(),
            Here::Port(port) => return port.properties(),
            Here::Config(config) => return config.properties(),
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
    /// Makes a text. `draw` gives a number below the one it is given, each as likely as any other.
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
