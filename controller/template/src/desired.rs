//! The rendered desired state of a resource: on a node, in a flow table, or a virtual resource. Decides whether a
//! change replaces the resource, as far as the types do not (`shared/src/model/types.rs`, `virtual_resource.rs`).
//!
//! Absent: the choice between an update, a replacement and nothing (`controller/engine/src/row/needed.rs`),
//! and who owns a claim (`controller/engine/src/claim.rs`).

use muster_shared::model::flow::{DeviceName, FlowId, Packed};
use muster_shared::model::{Claim, ClaimKind, Spec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::virtual_resource::VirtualResource;

/// The desired state of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Desired {
    /// A state on a node: a job carries it to the agent.
    Node(Spec),
    /// Entries in the flow table of a device.
    Flows(FlowSet),
    /// A state that the controller itself realises.
    Virtual(VirtualResource),
}

/// The entries of one resource for a device: one (`Muster::FlowRule`) or many (`Muster::FlowTable`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSet {
    pub device: DeviceName,
    /// In the order of the template; each takes a different place.
    pub entries: Vec<Packed>,
    /// Seconds until a change that could cut the node off is undone; `None`: the change is not guarded.
    pub confirm_timeout: Option<u32>,
    /// The treatment of foreign rules on the device, if this resource gives it.
    pub foreign: Option<ForeignPolicy>,
}

/// The treatment of rules on a device that did not come from Muster. They are never removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForeignPolicy {
    /// Foreign rules are counted.
    #[default]
    Leave,
    /// Foreign rules are listed with ours.
    Show,
    /// Foreign rules that flow files can express become ours, owned by the operator.
    Import,
}

impl Desired {
    /// The part of the state for an agent.
    pub fn spec(&self) -> Option<&Spec> {
        match self {
            Desired::Node(spec) => Some(spec),
            Desired::Flows(_) | Desired::Virtual(_) => None,
        }
    }

    /// The part of the state that the controller itself realises.
    pub fn virtual_resource(&self) -> Option<&VirtualResource> {
        match self {
            Desired::Virtual(resource) => Some(resource),
            Desired::Node(_) | Desired::Flows(_) => None,
        }
    }

    /// The claims on the node.
    pub fn claims(&self) -> Vec<Claim> {
        match self {
            Desired::Node(spec) => spec.claims(),
            Desired::Flows(set) => set.claims(),
            Desired::Virtual(_) => Vec::new(),
        }
    }

    /// Whether a resource in state `self` must be replaced to become `next`.
    pub fn needs_replacement(&self, next: &Desired) -> bool {
        match (self, next) {
            (Desired::Node(old), Desired::Node(new)) => old.needs_replacement(new),
            (Desired::Flows(old), Desired::Flows(new)) => old.device != new.device,
            (Desired::Virtual(old), Desired::Virtual(new)) => old.needs_replacement(new),
            (Desired::Node(_) | Desired::Flows(_) | Desired::Virtual(_), _) => true,
        }
    }

    /// An attribute that follows from the desired state itself.
    pub fn attribute(&self, name: &str) -> Option<Value> {
        match self {
            Desired::Node(spec) => spec.attribute(name),
            Desired::Flows(set) => match name {
                "id" if set.entries.len() == 1 => set.ids().first().map(|id| json!(id.to_string())),
                "ids" => Some(set.ids().iter().map(FlowId::to_string).collect()),
                "device" => Some(json!(set.device.to_string())),
                _ => None,
            },
            Desired::Virtual(resource) => resource.attribute(name),
        }
    }

    /// Property → value, for people who compare two states.
    pub fn properties(&self) -> Map<String, Value> {
        match self {
            Desired::Node(spec) => spec.properties(),
            Desired::Flows(set) => set.properties(),
            Desired::Virtual(resource) => resource.properties(),
        }
    }
}

impl From<Spec> for Desired {
    fn from(spec: Spec) -> Self {
        Desired::Node(spec)
    }
}

impl FlowSet {
    /// The ids of its entries, in order.
    pub fn ids(&self) -> Vec<FlowId> {
        self.entries.iter().map(|packed| packed.unpack().id(&self.device)).collect()
    }

    fn claims(&self) -> Vec<Claim> {
        let key = |id: FlowId| format!("{} {id}", self.device.bridge);
        self.ids().into_iter().map(|id| Claim { kind: ClaimKind::Flow, key: key(id) }).collect()
    }

    fn properties(&self) -> Map<String, Value> {
        let mut all = Map::from_iter([("device".to_owned(), json!(self.device.to_string()))]);
        match self.entries.as_slice() {
            [one] => all.extend(one.unpack().to_json()),
            many => {
                let rules = many.iter().map(|packed| Value::Object(packed.unpack().to_json())).collect();
                all.insert("rules".into(), rules);
            }
        }
        if let Some(policy) = self.foreign {
            all.insert("foreign".into(), json!(policy.as_str()));
        }
        all.insert("confirm_timeout".into(), json!(self.confirm_timeout.unwrap_or(0)));
        all
    }
}

impl ForeignPolicy {
    /// The word in templates.
    pub fn as_str(self) -> &'static str {
        match self {
            ForeignPolicy::Leave => "leave",
            ForeignPolicy::Show => "show",
            ForeignPolicy::Import => "import",
        }
    }

    /// The inverse of [`ForeignPolicy::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Leave, Self::Show, Self::Import].into_iter().find(|policy| policy.as_str() == name)
    }
}
