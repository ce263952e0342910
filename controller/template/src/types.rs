//! Resource types of this build: one list, with the properties of each in a template.
//!
//! A type with objects on nodes is a file of `muster-shared` (`model/types`), which reads its properties;
//! here it is one line. Each other type is a file below.
//!
//! Absent: what a type with objects on nodes says of itself (`shared/src/model/types.rs`), and what an agent does for a
//! type (`agent/host/src/types.rs`).

#[macro_use]
mod list;

mod cloud_init;
mod config;
mod deployment;
mod flow;
mod group;
mod heat;
mod intent;
mod neutron;
mod schema;
mod unit;
pub(crate) mod unknown;
mod wait;

use std::borrow::Cow;

use muster_shared::NodeId;
use muster_shared::model::{self, Spec, TemplateType};
use muster_shared::property::{self as value, RenderedProperties, describe};
pub use muster_shared::property::{Constraint, Property, PropertyError, PropertyType};
use serde_json::Value;

use crate::desired::{Desired, FlowSet};
use crate::error::{cut, suggestion};
use crate::function;
use crate::virtual_resource::VirtualResource;
pub use deployment::Site;
pub(crate) use flow::check_flow_rule;
pub use schema::{AttributeSchema, ConstraintSchema, PropertySchema, TypeSchema};
pub(crate) use unit::refer;
pub use wait::SIGNALS_MAX;
pub(crate) use wait::refused_attribute;

// By name; types without a name in templates are last.
kinds! {
    Dummy => TypeInfo::on_node::<model::Dummy>(),
    File => TypeInfo::on_node::<model::File>(),
    FlowGroup => flow::GROUP,
    FlowMeter => flow::METER,
    FlowRule => flow::RULE,
    FlowTable => flow::TABLE,
    UnixGroup => TypeInfo::on_node::<model::Group>(),
    Hostname => TypeInfo::on_node::<model::Hostname>(),
    Intent => intent::INTENT,
    NetworkConfig => TypeInfo::on_node::<model::NetworkConfig>(),
    Package => TypeInfo::on_node::<model::Package>(),
    Sysctl => TypeInfo::on_node::<model::Sysctl>(),
    Timezone => TypeInfo::on_node::<model::Timezone>(),
    TopologyHost => intent::HOST,
    TopologyLink => intent::LINK,
    Unit => TypeInfo::on_node::<model::Unit>(),
    User => TypeInfo::on_node::<model::User>(),
    CloudConfig => cloud_init::CLOUD_CONFIG,
    DeployedServer => heat::SERVER,
    MultipartMime => cloud_init::MULTIPART,
    None => heat::NONE,
    RandomString => heat::RANDOM,
    Chain => group::CHAIN,
    Group => group::GROUP,
    SoftwareComponent => config::COMPONENT,
    SoftwareConfig => config::SOFTWARE,
    SoftwareDeployment => deployment::SOFTWARE,
    SoftwareDeploymentGroup => deployment::SOFTWARE_GROUP,
    StructuredConfig => config::STRUCTURED,
    StructuredDeployment => deployment::STRUCTURED,
    StructuredDeploymentGroup => deployment::STRUCTURED_GROUP,
    TestResource => heat::TEST,
    Value => heat::VALUE,
    WaitCondition => wait::CONDITION,
    WaitConditionHandle => wait::HANDLE,
    Net => neutron::NET,
    Port => neutron::PORT,
    Subnet => neutron::SUBNET,
    ;
    Nested => group::NESTED,
    Set => group::SET,
}

/// Former names that Heat still accepts, and their types.
pub(crate) const FORMER: [(&str, Kind); 2] = [
    ("OS::Heat::SoftwareDeployments", Kind::SoftwareDeploymentGroup),
    ("OS::Heat::StructuredDeployments", Kind::StructuredDeploymentGroup),
];

/// Former names of properties that Heat still accepts: the type, the former name, today's.
pub(crate) const FORMER_PROPERTIES: [(Kind, &str, &str); 2] =
    [(Kind::Port, "network_id", "network"), (Kind::Subnet, "network_id", "network")];

/// The property of a type that accepts any.
static ANY: Property = Property::optional("*", |_| Ok(()));

type Read<T> = Result<T, PropertyError>;

/// The description of a type.
struct TypeInfo {
    name: &'static str,
    about: &'static str,
    properties: &'static [Property],
    /// Name and description.
    attributes: &'static [(&'static str, &'static str)],
    /// Attributes whose names depend on values, described in one line.
    other_attributes: &'static str,
    /// Drift is corrected by default.
    is_corrected: bool,
    place: Place,
}

/// The maker of a type's objects, and the way from rendered properties to the desired state.
#[derive(Clone, Copy)]
enum Place {
    /// An agent, on the resource's node.
    Node(fn(&RenderedProperties<'_>) -> Read<Spec>),
    /// An agent, which runs a software config of the site.
    Deployment(fn(&RenderedProperties<'_>, &dyn Site) -> Read<Spec>),
    /// The flow table of a device.
    Device(fn(&RenderedProperties<'_>) -> Read<FlowSet>),
    /// The controller itself.
    Controller(fn(&RenderedProperties<'_>) -> Read<VirtualResource>),
    /// The resources below, for which this one stands.
    Whole,
}

impl TypeInfo {
    const fn on_node<T: TemplateType>() -> Self
    where
        Spec: From<T>,
    {
        Self {
            name: T::NAME,
            about: T::ABOUT,
            properties: T::PROPERTIES,
            attributes: T::ATTRIBUTES,
            other_attributes: T::OTHER_ATTRIBUTES,
            is_corrected: T::IS_CORRECTED,
            place: Place::Node(|given| T::read(given).map(Spec::from)),
        }
    }

    const fn new(
        name: &'static str,
        about: &'static str,
        properties: &'static [Property],
        place: Place,
    ) -> Self {
        Self { name, about, properties, attributes: &[], other_attributes: "", is_corrected: false, place }
    }

    const fn attributes(mut self, attributes: &'static [(&'static str, &'static str)]) -> Self {
        self.attributes = attributes;
        self
    }

    const fn other_attributes(mut self, about: &'static str) -> Self {
        self.other_attributes = about;
        self
    }
}

/// Desired state from rendered properties, where there is no software config.
pub fn spec(kind: Kind, properties: &Value) -> Result<Desired, PropertyError> {
    spec_within(kind, properties, &deployment::Nowhere)
}

/// Checks rendered properties one by one.
pub fn check_values(kind: Kind, properties: &Value) -> Result<(), PropertyError> {
    let properties = with_todays_names(kind, properties);
    known(kind, &properties).and_then(|given| check_each(kind, &given)).map_err(with_function)
}

/// Desired state from rendered properties.
pub fn spec_within(kind: Kind, properties: &Value, site: &dyn Site) -> Result<Desired, PropertyError> {
    desired(kind, properties, site).map_err(with_function)
}

fn desired(kind: Kind, properties: &Value, site: &dyn Site) -> Read<Desired> {
    let properties = &*with_todays_names(kind, properties);
    match kind.info().place {
        Place::Whole => Ok(Desired::Virtual(VirtualResource::Whole)),
        Place::Controller(read) => {
            let given = known(kind, properties)?;
            check_each(kind, &given)?;
            read(&given).map(Desired::Virtual)
        }
        Place::Device(read) => read(&known(kind, properties)?).map(Desired::Flows),
        Place::Deployment(read) => read(&known(kind, properties)?, site).map(Desired::Node),
        Place::Node(read) => {
            let given = known(kind, properties)?;
            given.get("node", value::node)?;
            let spec = read(&given)?;
            // Other required properties were checked while they were read.
            for property in kind.properties().iter().filter(|property| property.required) {
                given.required(property.name, |_| Ok(()))?;
            }
            Ok(Desired::Node(spec))
        }
    }
}

/// Properties under the names that they have today.
fn with_todays_names(kind: Kind, properties: &Value) -> Cow<'_, Value> {
    let mut properties = Cow::Borrowed(properties);
    for (_, former, name) in FORMER_PROPERTIES.iter().filter(|(of, ..)| *of == kind) {
        if properties.get(former).is_some()
            && properties.get(name).is_none_or(Value::is_null)
            && let Value::Object(map) = properties.to_mut()
            && let Some(value) = map.remove(*former)
        {
            map.insert((*name).to_owned(), value);
        }
    }
    properties
}

fn known(kind: Kind, properties: &Value) -> Read<RenderedProperties<'_>> {
    let Value::Object(given) = properties else {
        return Err(PropertyError::new(format!("want a map of properties, got {}", describe(properties))));
    };
    for name in given.keys() {
        kind.property(name).map_err(PropertyError::new)?;
    }
    Ok(RenderedProperties(given))
}

fn check_each(kind: Kind, given: &RenderedProperties<'_>) -> Read<()> {
    kind.properties().iter().try_for_each(|property| given.get(property.name, property.check).map(drop))
}

/// A map with one key in an unexpected place is most often a misspelt function: the error suggests that.
pub(crate) fn with_function(mut error: PropertyError) -> PropertyError {
    if let Some(key) = error.lone_key.take() {
        let near = function::suggest(&key);
        error.message.push_str(&format!("; unknown function '{}'{near}", cut(&key)));
    }
    error
}

/// The node that rendered properties name; `None` if any node will do.
pub fn node(properties: &Value) -> Result<Option<NodeId>, PropertyError> {
    let Value::Object(given) = properties else { return Ok(None) };
    let given = RenderedProperties(given);
    for name in ["node", "server"] {
        if let Some(node) = given.get(name, value::node).map_err(with_function)? {
            return Ok(Some(node));
        }
    }
    // A device is on a node.
    let device = given.get(flow::DEVICE, flow::device).map_err(with_function)?;
    Ok(device.map(|device| device.node))
}

impl Kind {
    /// The name in templates.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// A description of one line.
    pub fn about(self) -> &'static str {
        self.info().about
    }

    pub fn properties(self) -> &'static [Property] {
        self.info().properties
    }

    /// The attributes for `get_attr`: name and description; `None` if names depend on values.
    pub fn attributes(self) -> Option<&'static [(&'static str, &'static str)]> {
        let info = self.info();
        info.other_attributes.is_empty().then_some(info.attributes)
    }

    /// The type of that name, or of that former name.
    pub fn from_name(name: &str) -> Option<Kind> {
        let former = || FORMER.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        Self::ALL.into_iter().find(|kind| kind.name() == name).or_else(former)
    }

    /// The type of that name, also for stored names of nested stacks of which only the kind is known.
    pub fn from_kept(name: &str) -> Option<Kind> {
        let nameless = || [Kind::Nested, Kind::Set].into_iter().find(|kind| kind.name() == name);
        Self::from_name(name).or_else(nameless)
    }

    /// Whether the type stands for the resources below it.
    pub fn is_whole(self) -> bool {
        matches!(self.info().place, Place::Whole)
    }

    /// The property that names the node, for types with objects on a node.
    pub fn node_property(self) -> Option<&'static str> {
        match self.info().place {
            Place::Node(_) => Some("node"),
            Place::Deployment(_) => Some("server"),
            Place::Device(_) | Place::Controller(_) | Place::Whole => None,
        }
    }

    /// Runs a software config on a node.
    pub fn is_deployment(self) -> bool {
        matches!(self.info().place, Place::Deployment(_))
    }

    /// Whether the type is one deployment on each of many nodes.
    pub fn is_deployment_group(self) -> bool {
        matches!(self, Kind::SoftwareDeploymentGroup | Kind::StructuredDeploymentGroup)
    }

    /// Whether the controller itself realises the type, without a node.
    pub fn is_virtual(self) -> bool {
        matches!(self.info().place, Place::Controller(_) | Place::Whole)
    }

    /// Whether a resource can be compared with its server before anything is made, so that it can be adopted. What a
    /// script or a flow rule would do cannot.
    pub fn is_adoptable(self) -> bool {
        match self.info().place {
            Place::Node(_) | Place::Whole => true,
            Place::Controller(_) => self != Kind::Intent,
            Place::Deployment(_) | Place::Device(_) => false,
        }
    }

    /// Whether drift is corrected by default.
    pub(crate) fn is_corrected(self) -> bool {
        self.info().is_corrected
    }

    /// The property of that name, or an error.
    pub(crate) fn property(self, name: &str) -> Result<&'static Property, String> {
        if matches!(self, Kind::Nested | Kind::None | Kind::Set) {
            return Ok(&ANY);
        }
        let known = self.properties();
        let former = FORMER_PROPERTIES.iter().find(|(kind, former, _)| (*kind, *former) == (self, name));
        let today = former.map_or(name, |(_, _, today)| today);
        known.iter().find(|property| property.name == today).ok_or_else(|| {
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
