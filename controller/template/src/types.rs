//! Resource types of this build: their properties, their attributes, and the desired state they describe.
//!
//! One set of readers serves twice: on literals while a template is parsed, and on rendered properties. Null stands for
//! what is not known or not given; inside a value readers let it pass.

mod account;
mod config;
mod deployment;
mod dummy;
mod file;
mod flow;
mod group;
mod heat;
mod hostname;
mod intent;
mod network;
mod neutron;
mod package;
mod schema;
mod sysctl;
mod unit;
mod value;
mod wait;

use muster_shared::NodeId;
use muster_shared::model::Spec;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::desired::Desired;
use crate::error::{cut, suggestion};
use crate::expression::describe;
use crate::here::Here;
use crate::render::Step;
pub use deployment::Site;
pub(crate) use flow::has_null;
pub use schema::{Constraint, PropertyType};
pub(crate) use unit::refer;
pub(crate) use value::confirm_timeout;
pub use wait::SIGNALS_MAX;
pub(crate) use wait::refused_attribute;

/// The types a template may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `OS::Heat::ResourceChain`
    Chain,
    /// `OS::Heat::DeployedServer`
    DeployedServer,
    /// `Muster::Dummy`
    Dummy,
    /// `Muster::File`
    File,
    /// `Muster::FlowGroup`
    FlowGroup,
    /// `Muster::FlowMeter`
    FlowMeter,
    /// `Muster::FlowRule`
    FlowRule,
    /// `Muster::FlowTable`
    FlowTable,
    /// `OS::Heat::ResourceGroup`
    Group,
    /// All that a `for_each` makes of one resource; no type of its own.
    Set,
    /// `Muster::Hostname`
    Hostname,
    /// `Muster::Intent`
    Intent,
    /// `Muster::NetworkConfig`
    NetworkConfig,
    /// `OS::Neutron::Net`
    Net,
    /// Another template, or what an environment makes of the type: named by the resource.
    Nested,
    /// `OS::Heat::None`
    None,
    /// `Muster::Package`
    Package,
    /// `OS::Neutron::Port`
    Port,
    /// `OS::Heat::RandomString`
    RandomString,
    /// `OS::Neutron::Subnet`
    Subnet,
    /// `OS::Heat::SoftwareComponent`
    SoftwareComponent,
    /// `OS::Heat::SoftwareConfig`
    SoftwareConfig,
    /// `OS::Heat::SoftwareDeployment`
    SoftwareDeployment,
    /// `OS::Heat::SoftwareDeploymentGroup`
    SoftwareDeploymentGroup,
    /// `OS::Heat::StructuredConfig`
    StructuredConfig,
    /// `OS::Heat::StructuredDeployment`
    StructuredDeployment,
    /// `OS::Heat::StructuredDeploymentGroup`
    StructuredDeploymentGroup,
    /// `OS::Heat::TestResource`
    TestResource,
    /// `Muster::TopologyHost`
    TopologyHost,
    /// `Muster::TopologyLink`
    TopologyLink,
    /// `Muster::Sysctl`
    Sysctl,
    /// `Muster::Group`
    UnixGroup,
    /// `Muster::User`
    User,
    /// `Muster::Unit`
    Unit,
    /// `OS::Heat::Value`
    Value,
    /// `OS::Heat::WaitCondition`
    WaitCondition,
    /// `OS::Heat::WaitConditionHandle`
    WaitConditionHandle,
}

/// Of a type that takes whatever it is given.
static ANY: Property = Property::optional("*", |_| Ok(()));

/// Names of before that Heat still takes, and what they stand for.
const FORMER: [(&str, Kind); 2] = [
    ("OS::Heat::SoftwareDeployments", Kind::SoftwareDeploymentGroup),
    ("OS::Heat::StructuredDeployments", Kind::StructuredDeploymentGroup),
];

/// What a nested stack is where only the kind is known.
const NESTED: &str = "a template";
/// What stands for all members of a `for_each`, where only the kind is known.
const SET: &str = "for_each";

/// One property of a type.
#[derive(Debug)]
pub struct Property {
    /// Its key.
    pub name: &'static str,
    /// Whether it must be given.
    pub required: bool,
    pub(crate) check: fn(&Value) -> Result<(), PropertyError>,
    /// What its values are.
    pub kind: PropertyType,
    /// In a line, what it is.
    pub about: &'static str,
    /// What holds where it is not given, as JSON; empty: nothing, or nothing that can be said so.
    pub default: &'static str,
    /// What its values must be beside their type.
    pub constraint: Constraint,
    /// Which changes of it put another thing in the place of this one: empty for none, `always`, or in words.
    pub replaces: &'static str,
}

/// A value that a property does not take.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {message}")]
pub struct PropertyError {
    /// Below `properties`, such as `network_config[0].type`.
    pub path: String,
    /// What is wrong and what is wanted.
    pub message: String,
    pub(crate) steps: Vec<Step>,
}

/// Desired state from rendered properties, where there is no software config.
pub fn spec(kind: Kind, properties: &Value) -> Result<Desired, PropertyError> {
    spec_within(kind, properties, &deployment::Nowhere)
}

/// What can be said of rendered properties one by one.
pub fn check_values(kind: Kind, properties: &Value) -> Result<(), PropertyError> {
    let given = Given(known_names(kind, properties)?);
    kind.properties().iter().try_for_each(|property| given.get(property.name, property.check).map(drop))
}

fn known_names(kind: Kind, properties: &Value) -> Result<&Map<String, Value>, PropertyError> {
    let Value::Object(given) = properties else {
        return Err(PropertyError::new(format!("want a map of properties, got {}", describe(properties))));
    };
    for name in given.keys() {
        kind.property(name).map_err(PropertyError::new)?;
    }
    Ok(given)
}

/// Desired state from rendered properties.
pub fn spec_within(kind: Kind, properties: &Value, site: &dyn Site) -> Result<Desired, PropertyError> {
    if kind.is_whole() {
        return Ok(Desired::Here(Here::Whole));
    }
    let properties = Given(known_names(kind, properties)?);
    if kind.is_here() {
        for property in kind.properties() {
            properties.get(property.name, property.check)?;
        }
        return match kind {
            Kind::SoftwareComponent => config::component(&properties).map(Here::Config),
            Kind::SoftwareConfig => config::software(&properties).map(Here::Config),
            Kind::StructuredConfig => config::structured(&properties).map(Here::Config),
            Kind::Value => heat::value(&properties),
            Kind::Net => neutron::net(&properties),
            Kind::Subnet => neutron::subnet(&properties),
            Kind::Port => neutron::port(&properties),
            Kind::RandomString => heat::random(&properties),
            Kind::TestResource => heat::test(&properties),
            Kind::DeployedServer => heat::deployed_server(&properties),
            Kind::WaitCondition => wait::condition(&properties),
            Kind::WaitConditionHandle => Ok(Here::WaitHandle),
            Kind::Intent => intent::intent(&properties),
            Kind::TopologyHost => intent::host(&properties),
            Kind::TopologyLink => intent::link(&properties),
            _ => Ok(Here::None),
        }
        .map(Desired::Here);
    }
    properties.get("node", value::node)?;
    let spec = match kind {
        Kind::SoftwareDeployment | Kind::StructuredDeployment => deployment::spec(kind, &properties, site)?,
        Kind::Dummy => Spec::Dummy(dummy::spec(&properties)?),
        Kind::File => Spec::File(file::spec(&properties)?),
        Kind::Hostname => Spec::Hostname(hostname::spec(&properties)?),
        Kind::NetworkConfig => Spec::Network(network::spec(&properties)?),
        Kind::Package => Spec::Package(package::spec(&properties)?),
        Kind::User => Spec::User(account::user(&properties)?),
        Kind::UnixGroup => Spec::Group(account::group(&properties)?),
        Kind::Sysctl => Spec::Sysctl(sysctl::spec(&properties)?),
        Kind::Unit => Spec::Unit(unit::spec(&properties)?),
        Kind::FlowGroup | Kind::FlowMeter | Kind::FlowRule => {
            return flow::one(kind, &properties).map(Desired::Flows);
        }
        Kind::FlowTable => return flow::table(&properties).map(Desired::Flows),
        Kind::Chain
        | Kind::DeployedServer
        | Kind::Group
        | Kind::Intent
        | Kind::Nested
        | Kind::Net
        | Kind::None
        | Kind::Port
        | Kind::RandomString
        | Kind::Set
        | Kind::SoftwareComponent
        | Kind::SoftwareConfig
        | Kind::SoftwareDeploymentGroup
        | Kind::StructuredConfig
        | Kind::StructuredDeploymentGroup
        | Kind::Subnet
        | Kind::TestResource
        | Kind::TopologyHost
        | Kind::TopologyLink
        | Kind::Value
        | Kind::WaitCondition
        | Kind::WaitConditionHandle => return Ok(Desired::Here(Here::None)),
    };
    for property in kind.properties().iter().filter(|property| property.required) {
        properties.required(property.name, |_| Ok(()))?;
    }
    Ok(Desired::Node(spec))
}

/// The node that rendered properties name; `None` where any node will do.
pub fn node(properties: &Value) -> Result<Option<NodeId>, PropertyError> {
    match properties {
        Value::Object(given) => {
            let given = Given(given);
            if let Some(node) = given.get("node", value::node)? {
                return Ok(Some(node));
            }
            if let Some(server) = given.get("server", deployment::server)? {
                return Ok(Some(server));
            }
            // A device is on a node.
            Ok(given.get(flow::DEVICE, flow::device)?.map(|device| device.node))
        }
        _ => Ok(None),
    }
}

impl Kind {
    /// All of them, by name.
    pub const ALL: [Kind; 35] = [
        Kind::Dummy,
        Kind::File,
        Kind::FlowGroup,
        Kind::FlowMeter,
        Kind::FlowRule,
        Kind::FlowTable,
        Kind::UnixGroup,
        Kind::Hostname,
        Kind::Intent,
        Kind::NetworkConfig,
        Kind::Package,
        Kind::Sysctl,
        Kind::TopologyHost,
        Kind::TopologyLink,
        Kind::Unit,
        Kind::User,
        Kind::DeployedServer,
        Kind::None,
        Kind::RandomString,
        Kind::Chain,
        Kind::Group,
        Kind::SoftwareComponent,
        Kind::SoftwareConfig,
        Kind::SoftwareDeployment,
        Kind::SoftwareDeploymentGroup,
        Kind::StructuredConfig,
        Kind::StructuredDeployment,
        Kind::StructuredDeploymentGroup,
        Kind::TestResource,
        Kind::Value,
        Kind::WaitCondition,
        Kind::WaitConditionHandle,
        Kind::Net,
        Kind::Port,
        Kind::Subnet,
    ];

    /// As written in templates.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Dummy => "Muster::Dummy",
            Kind::File => "Muster::File",
            Kind::FlowGroup => "Muster::FlowGroup",
            Kind::FlowMeter => "Muster::FlowMeter",
            Kind::FlowRule => "Muster::FlowRule",
            Kind::FlowTable => "Muster::FlowTable",
            Kind::Hostname => "Muster::Hostname",
            Kind::Intent => "Muster::Intent",
            Kind::TopologyHost => "Muster::TopologyHost",
            Kind::TopologyLink => "Muster::TopologyLink",
            Kind::NetworkConfig => "Muster::NetworkConfig",
            Kind::Package => "Muster::Package",
            Kind::User => "Muster::User",
            Kind::UnixGroup => "Muster::Group",
            Kind::Sysctl => "Muster::Sysctl",
            Kind::Unit => "Muster::Unit",
            Kind::Chain => "OS::Heat::ResourceChain",
            Kind::DeployedServer => "OS::Heat::DeployedServer",
            Kind::Group => "OS::Heat::ResourceGroup",
            Kind::Nested => NESTED,
            Kind::Set => SET,
            Kind::None => "OS::Heat::None",
            Kind::RandomString => "OS::Heat::RandomString",
            Kind::SoftwareComponent => "OS::Heat::SoftwareComponent",
            Kind::SoftwareConfig => "OS::Heat::SoftwareConfig",
            Kind::SoftwareDeployment => "OS::Heat::SoftwareDeployment",
            Kind::SoftwareDeploymentGroup => "OS::Heat::SoftwareDeploymentGroup",
            Kind::StructuredConfig => "OS::Heat::StructuredConfig",
            Kind::StructuredDeployment => "OS::Heat::StructuredDeployment",
            Kind::StructuredDeploymentGroup => "OS::Heat::StructuredDeploymentGroup",
            Kind::TestResource => "OS::Heat::TestResource",
            Kind::Value => "OS::Heat::Value",
            Kind::WaitCondition => "OS::Heat::WaitCondition",
            Kind::WaitConditionHandle => "OS::Heat::WaitConditionHandle",
            Kind::Net => "OS::Neutron::Net",
            Kind::Port => "OS::Neutron::Port",
            Kind::Subnet => "OS::Neutron::Subnet",
        }
    }

    /// The type of that name, or of that former name.
    pub fn from_name(name: &str) -> Option<Kind> {
        let former = || FORMER.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        Self::ALL.into_iter().find(|kind| kind.name() == name).or_else(former)
    }

    /// The type of that name, and what a nested stack is named where only the kind is known.
    pub fn from_kept(name: &str) -> Option<Kind> {
        match name {
            NESTED => Some(Kind::Nested),
            SET => Some(Kind::Set),
            _ => Self::from_name(name),
        }
    }

    /// Stands for what is below it.
    pub fn is_whole(self) -> bool {
        matches!(self, Kind::Chain | Kind::Group | Kind::Nested | Kind::Set) || self.is_deployment_group()
    }

    /// The property that says on which node it is, of types that are on one.
    pub fn node_property(self) -> Option<&'static str> {
        match self {
            kind if kind.is_deployment() => Some("server"),
            Kind::FlowGroup | Kind::FlowMeter | Kind::FlowRule | Kind::FlowTable => None,
            kind if kind.is_here() => None,
            _ => Some("node"),
        }
    }

    /// Runs a software config on a node.
    pub fn is_deployment(self) -> bool {
        matches!(self, Kind::SoftwareDeployment | Kind::StructuredDeployment)
    }

    /// One deployment on each of many nodes.
    pub fn is_deployment_group(self) -> bool {
        matches!(self, Kind::SoftwareDeploymentGroup | Kind::StructuredDeploymentGroup)
    }

    /// The controller itself sees to it: it is on no node.
    pub fn is_here(self) -> bool {
        match self {
            Kind::Chain
            | Kind::DeployedServer
            | Kind::Group
            | Kind::Intent
            | Kind::Nested
            | Kind::Net
            | Kind::None
            | Kind::Port
            | Kind::RandomString
            | Kind::Set
            | Kind::SoftwareComponent
            | Kind::SoftwareConfig
            | Kind::SoftwareDeploymentGroup
            | Kind::StructuredConfig
            | Kind::StructuredDeploymentGroup
            | Kind::Subnet
            | Kind::TestResource
            | Kind::TopologyHost
            | Kind::TopologyLink
            | Kind::Value
            | Kind::WaitCondition
            | Kind::WaitConditionHandle => true,
            Kind::Dummy
            | Kind::File
            | Kind::FlowGroup
            | Kind::FlowMeter
            | Kind::FlowRule
            | Kind::FlowTable
            | Kind::Hostname
            | Kind::NetworkConfig
            | Kind::Package
            | Kind::SoftwareDeployment
            | Kind::StructuredDeployment
            | Kind::Sysctl
            | Kind::Unit
            | Kind::UnixGroup
            | Kind::User => false,
        }
    }

    /// All properties it takes.
    pub fn properties(self) -> &'static [Property] {
        match self {
            Kind::Dummy => &dummy::PROPERTIES,
            Kind::File => &file::PROPERTIES,
            Kind::FlowGroup => &flow::GROUP_PROPERTIES,
            Kind::FlowMeter => &flow::METER_PROPERTIES,
            Kind::FlowRule => &flow::RULE_PROPERTIES,
            Kind::FlowTable => &flow::TABLE_PROPERTIES,
            Kind::Hostname => &hostname::PROPERTIES,
            Kind::Intent => &intent::INTENT_PROPERTIES,
            Kind::TopologyHost => &intent::HOST_PROPERTIES,
            Kind::TopologyLink => &intent::LINK_PROPERTIES,
            Kind::Package => &package::PROPERTIES,
            Kind::User => &account::USER_PROPERTIES,
            Kind::UnixGroup => &account::GROUP_PROPERTIES,
            Kind::Sysctl => &sysctl::PROPERTIES,
            Kind::Unit => &unit::PROPERTIES,
            Kind::NetworkConfig => &network::PROPERTIES,
            Kind::Chain => &group::CHAIN_PROPERTIES,
            Kind::DeployedServer => &heat::SERVER_PROPERTIES,
            Kind::Group => &group::GROUP_PROPERTIES,
            // Whatever the template or nobody takes.
            Kind::Nested | Kind::None | Kind::Set => &[],
            Kind::RandomString => &heat::RANDOM_PROPERTIES,
            Kind::SoftwareComponent => &config::COMPONENT_PROPERTIES,
            Kind::SoftwareConfig => &config::SOFTWARE_PROPERTIES,
            Kind::SoftwareDeployment => &deployment::SOFTWARE_PROPERTIES,
            Kind::SoftwareDeploymentGroup => &deployment::SOFTWARE_GROUP_PROPERTIES,
            Kind::StructuredConfig => &config::STRUCTURED_PROPERTIES,
            Kind::StructuredDeployment => &deployment::STRUCTURED_PROPERTIES,
            Kind::StructuredDeploymentGroup => &deployment::STRUCTURED_GROUP_PROPERTIES,
            Kind::TestResource => &heat::TEST_PROPERTIES,
            Kind::Value => &heat::VALUE_PROPERTIES,
            Kind::WaitCondition => &wait::CONDITION_PROPERTIES,
            Kind::WaitConditionHandle => &wait::HANDLE_PROPERTIES,
            Kind::Net => &neutron::NET_PROPERTIES,
            Kind::Port => &neutron::PORT_PROPERTIES,
            Kind::Subnet => &neutron::SUBNET_PROPERTIES,
        }
    }

    /// Names that `get_attr` takes; `None` where they are not known before values are.
    pub fn attributes(self) -> Option<&'static [&'static str]> {
        match self {
            Kind::Dummy | Kind::Chain | Kind::Group | Kind::Nested | Kind::None | Kind::Set => None,
            // Outputs of their config.
            Kind::SoftwareDeployment
            | Kind::SoftwareDeploymentGroup
            | Kind::StructuredDeployment
            | Kind::StructuredDeploymentGroup => None,
            Kind::SoftwareComponent | Kind::SoftwareConfig | Kind::StructuredConfig => Some(&["config"]),
            Kind::File => Some(&["path"]),
            Kind::FlowGroup | Kind::FlowMeter | Kind::FlowRule => Some(&["device", "id", "ids"]),
            Kind::FlowTable => Some(&["device", "ids"]),
            Kind::Hostname => Some(&["hostname"]),
            Kind::Intent => Some(&["key"]),
            Kind::Package => Some(&["name", "version"]),
            Kind::User => Some(&["name", "uid"]),
            Kind::UnixGroup => Some(&["gid", "name"]),
            Kind::Sysctl => Some(&["value"]),
            Kind::Unit => Some(&["name"]),
            Kind::NetworkConfig | Kind::TopologyLink => Some(&[]),
            Kind::TopologyHost => Some(&["mac"]),
            Kind::DeployedServer => Some(&["name"]),
            Kind::RandomString | Kind::Value => Some(&["value"]),
            Kind::TestResource => Some(&["output"]),
            Kind::WaitCondition => Some(&["data"]),
            Kind::WaitConditionHandle => Some(&["endpoint"]),
            Kind::Net => Some(&["admin_state_up", "name", "status"]),
            Kind::Port => Some(&[
                "admin_state_up",
                "device_id",
                "device_owner",
                "fixed_ips",
                "mac_address",
                "name",
                "network",
                "network_id",
                "status",
                "subnets",
            ]),
            Kind::Subnet => Some(&[
                "allocation_pools",
                "cidr",
                "dns_nameservers",
                "enable_dhcp",
                "gateway_ip",
                "host_routes",
                "ip_version",
                "name",
                "network_id",
            ]),
        }
    }

    /// The property of that name, or what to say about it.
    pub(crate) fn property(self, name: &str) -> Result<&'static Property, String> {
        if matches!(self, Kind::Nested | Kind::None | Kind::Set) {
            return Ok(&ANY);
        }
        let known = self.properties();
        known.iter().find(|property| property.name == name).ok_or_else(|| {
            let near = suggestion(name, known.iter().map(|property| property.name));
            format!("{} has no property '{}'{near}", self.name(), cut(name))
        })
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl PropertyError {
    fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into(), steps: Vec::new() }
    }

    fn within(mut self, step: Step) -> Self {
        self.steps.insert(0, step);
        self.path.clear();
        for step in &self.steps {
            step.push(&mut self.path);
        }
        self
    }

    /// Below a path as text: `[0].members[1].name`.
    fn within_path(mut self, path: &str) -> Self {
        let keys = path.split('.').flat_map(|part| part.split('[')).filter(|part| !part.is_empty());
        self.steps = keys
            .map(|part| match part.strip_suffix(']').and_then(|index| index.parse().ok()) {
                Some(index) => Step::Item(index),
                None => Step::Key(part.into()),
            })
            .collect();
        self.path = path.to_owned();
        self
    }

    fn within_key(self, key: &str) -> Self {
        self.within(Step::Key(key.into()))
    }
}

/// Rendered properties of one resource.
struct Given<'a>(&'a Map<String, Value>);

impl Given<'_> {
    fn get<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Value) -> Result<T, PropertyError>,
    ) -> Result<Option<T>, PropertyError> {
        let value = self.0.get(name).filter(|value| !value.is_null());
        value.map(read).transpose().map_err(|error| error.within_key(name))
    }

    fn required<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Value) -> Result<T, PropertyError>,
    ) -> Result<T, PropertyError> {
        self.get(name, read)?
            .ok_or_else(|| PropertyError::new("this property must be given").within_key(name))
    }
}
