//! What people and programs are told of types: `muster type show`. It stands beside the code that reads the properties,
//! and a test holds it to that code.

use serde_json::{Value, json};

use super::{Kind, Property, PropertyError};

/// What the values of a property are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyType {
    /// Anything.
    Any,
    /// True or false.
    Boolean,
    /// A whole number.
    Integer,
    /// A list.
    List,
    /// A map.
    Map,
    /// Any number.
    Number,
    /// Text.
    String,
}

/// What a value must be beside its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// Nothing that can be said shortly.
    None,
    /// Not less and not more.
    Range(u64, u64),
    /// One of these.
    OneOf(&'static [&'static str]),
    /// For people.
    Text(&'static str),
}

impl PropertyType {
    /// Heat's names for them.
    pub fn as_str(self) -> &'static str {
        match self {
            PropertyType::Any => "any",
            PropertyType::Boolean => "boolean",
            PropertyType::Integer => "integer",
            PropertyType::List => "list",
            PropertyType::Map => "map",
            PropertyType::Number => "number",
            PropertyType::String => "string",
        }
    }
}

impl Property {
    pub(super) const fn required(name: &'static str, check: fn(&Value) -> Result<(), PropertyError>) -> Self {
        Self {
            name,
            required: true,
            check,
            kind: PropertyType::Any,
            about: "",
            default: "",
            constraint: Constraint::None,
            replaces: "",
        }
    }

    pub(super) const fn optional(name: &'static str, check: fn(&Value) -> Result<(), PropertyError>) -> Self {
        Self { required: false, ..Self::required(name, check) }
    }

    /// Its type, and what it is.
    pub(super) const fn is(mut self, kind: PropertyType, about: &'static str) -> Self {
        self.kind = kind;
        self.about = about;
        self
    }

    /// What holds where it is not given, as JSON.
    pub(super) const fn default(mut self, value: &'static str) -> Self {
        self.default = value;
        self
    }

    pub(super) const fn range(mut self, least: u64, most: u64) -> Self {
        self.constraint = Constraint::Range(least, most);
        self
    }

    pub(super) const fn one_of(mut self, words: &'static [&'static str]) -> Self {
        self.constraint = Constraint::OneOf(words);
        self
    }

    pub(super) const fn limits(mut self, text: &'static str) -> Self {
        self.constraint = Constraint::Text(text);
        self
    }

    /// Changing it makes another thing, which takes the place of this one.
    pub(super) const fn replaces(self) -> Self {
        self.replaces_where("always")
    }

    /// The same for some changes of it.
    pub(super) const fn replaces_where(mut self, which: &'static str) -> Self {
        self.replaces = which;
        self
    }

    /// The default as a value; none where there is none, or no simple one.
    pub fn default_value(&self) -> Option<Value> {
        serde_json::from_str(self.default).ok()
    }

    fn schema(&self) -> Value {
        let constraint = match self.constraint {
            Constraint::None => Value::Null,
            Constraint::Range(least, most) => json!({"range": {"min": least, "max": most}}),
            Constraint::OneOf(words) => json!({"allowed_values": words}),
            Constraint::Text(text) => json!({"description": text}),
        };
        let on_update = match self.replaces {
            "" => "in place".to_owned(),
            "always" => "replaced".to_owned(),
            which => format!("in place; replaced where {which}"),
        };
        json!({
            "name": self.name,
            "type": self.kind.as_str(),
            "required": self.required,
            "default": self.default_value(),
            "constraint": constraint,
            "on_update": on_update,
            "description": self.about,
        })
    }
}

impl Kind {
    /// The type as a document: properties and attributes with all that is known of them.
    pub fn schema(self) -> Value {
        let properties: Vec<Value> = self.properties().iter().map(Property::schema).collect();
        let attribute = |name: &&str| json!({"name": name, "description": self.attribute_about(name)});
        let attributes: Vec<Value> = self.attributes().unwrap_or_default().iter().map(attribute).collect();
        json!({
            "name": self.name(),
            "description": self.about(),
            "properties": properties,
            "attributes": attributes,
            "other_attributes": self.other_attributes(),
        })
    }

    /// In a line, what it is.
    pub fn about(self) -> &'static str {
        match self {
            Kind::Dummy => "makes nothing real: for tests, demonstrations and order",
            Kind::File => "a regular file on a node",
            Kind::FlowGroup => "a group of treatments on a bridge, which flow rules send packets to",
            Kind::FlowMeter => "a bound on the rate of packets on a bridge, which flow rules name",
            Kind::FlowRule => "one flow rule of a bridge",
            Kind::FlowTable => "many flow rules of a bridge",
            Kind::Hostname => "the name of a node, in the kernel and in /etc/hostname",
            Kind::Intent => "connectivity through the bridges of the site, which finds its way by itself",
            Kind::TopologyHost => "a host, and the port of a bridge that it is at",
            Kind::TopologyLink => "a link between ports of two bridges",
            Kind::User => "a user of the node: number, groups, home, shell, password's hash, keys",
            Kind::UnixGroup => "a group of the node's users",
            Kind::Package => "a package of the node's distribution, by apt or dnf",
            Kind::Sysctl => "a setting of the kernel, now and at boot",
            Kind::Unit => "a unit of systemd: its file or drop-ins, whether it is enabled, and that it runs",
            Kind::Chain => "one resource of each type of a list, with the same properties",
            Kind::DeployedServer => "a node under its name, for templates that were made for Heat",
            Kind::Group => "many resources of one definition",
            Kind::Set => "one resource for each node that a selector means",
            Kind::Nested => "another template, as a stack in this one",
            Kind::None => "nothing, whatever its properties are; each attribute is null",
            Kind::RandomString => "a random text, which stays over updates",
            Kind::SoftwareComponent => "what deployments do, for each action apart",
            Kind::SoftwareConfig => "what deployments do: a script, or a document as text",
            Kind::SoftwareDeployment => "a software config on a node",
            Kind::SoftwareDeploymentGroup => "a software config on many nodes",
            Kind::StructuredConfig => "what deployments do: a document",
            Kind::StructuredDeployment => "a document on a node, with inputs in it",
            Kind::StructuredDeploymentGroup => "a document on many nodes, with inputs in it",
            Kind::TestResource => "makes nothing real: for what Heat's tests do",
            Kind::Value => "a value under a name",
            Kind::WaitCondition => "waits until signals have come to its handle",
            Kind::WaitConditionHandle => "takes signals, which a wait condition waits for",
            Kind::Net => "a network of the site's address plan",
            Kind::Port => "addresses of a network, nobody else's for as long as it is there",
            Kind::Subnet => "a range of a network, from which ports get addresses",
            Kind::NetworkConfig => "the network of a node, as a list of os-net-config objects",
        }
    }

    /// What an attribute is; empty for a name that is none.
    pub fn attribute_about(self, attribute: &str) -> &'static str {
        match (self, attribute) {
            (Kind::File, "path") => "where the file is",
            (Kind::FlowRule | Kind::FlowGroup | Kind::FlowMeter | Kind::FlowTable, "device") => {
                "the bridge, NODE/BRIDGE"
            }
            (Kind::FlowRule | Kind::FlowGroup | Kind::FlowMeter, "id") => {
                "its id, as 'muster flow list' has it"
            }
            (Kind::FlowRule | Kind::FlowGroup | Kind::FlowMeter | Kind::FlowTable, "ids") => {
                "the ids of all its entries, in order"
            }
            (Kind::Hostname, "hostname") => "the name",
            (Kind::TopologyHost, "mac") => "its MAC address, as intents name it",
            (Kind::Intent, "key") => "its key, as 'muster intent list' has it",
            (Kind::Package | Kind::Unit | Kind::User | Kind::UnixGroup, "name") => "the name",
            (Kind::User, "uid") | (Kind::UnixGroup, "gid") => "the number that it has",
            (Kind::Package, "version") => "the version that is there; empty where none is",
            (Kind::Sysctl, "value") => "the value, as it was given",
            (Kind::DeployedServer, "name") => "the name of the node, as get_resource has it",
            (Kind::RandomString, "value") => "the text, as get_resource has it",
            (Kind::TestResource, "output") => "the property 'value'",
            (Kind::SoftwareComponent | Kind::SoftwareConfig | Kind::StructuredConfig, "config") => {
                "the property 'config'; of a component a map with 'configs'"
            }
            (Kind::Value, "value") => "the value",
            (Kind::WaitCondition, "data") => "what signals brought, as JSON text: the data of each by its id",
            (Kind::WaitConditionHandle, "endpoint") => "where in the API signals are sent to",
            (Kind::Port, "fixed_ips") => "its addresses: maps with subnet_id and ip_address",
            (Kind::Port, "subnets") => "what its addresses are of: maps with id, name, cidr, gateway_ip, …",
            (Kind::Port | Kind::Subnet, "network_id") => "the id of its network, or as it was given",
            (Kind::Port, "network") => "its network: a map with id, name and subnets",
            (Kind::Port | Kind::Net, "status") => "ACTIVE",
            (Kind::Port | Kind::Net, "admin_state_up") => "true",
            (Kind::Subnet, "ip_version") => "4 or 6",
            (Kind::Subnet, "allocation_pools") => "maps with start and end",
            (Kind::Subnet, "gateway_ip") => "what routes from it; null where nothing does",
            (Kind::Net | Kind::Port | Kind::Subnet, _) if self.property(attribute).is_ok() => "the property",
            _ => "",
        }
    }

    /// Attributes whose names are in the properties' values, in a line.
    fn other_attributes(self) -> &'static str {
        match self {
            Kind::Dummy => "each key of 'values', with its value",
            Kind::SoftwareDeployment | Kind::StructuredDeployment => {
                "each output of the config, deploy_stdout, deploy_stderr and deploy_status_code: null where the run told \
                 nothing of it"
            }
            Kind::SoftwareDeploymentGroup | Kind::StructuredDeploymentGroup => {
                "each output of the config, deploy_stdouts, deploy_stderrs and deploy_status_codes: maps with the value of \
                 each member; refs, refs_map, attributes (with the name of one), resource.NAME or \
                 resource.NAME.ATTRIBUTE of a member"
            }
            Kind::None => "any name, which is null",
            Kind::Group => {
                "refs, refs_map, removed_rsrc_list, attributes (with the name of one), resource.NAME or \
                 resource.NAME.ATTRIBUTE of a member, and any other name: the list of that of all members"
            }
            Kind::Chain => {
                "refs, refs_map, attributes (with the name of one), resource.NAME or resource.NAME.ATTRIBUTE of a \
                 member, and any other name: the list of that of all members"
            }
            Kind::Nested => {
                "each output, outputs, and resource.NAME or resource.NAME.ATTRIBUTE of what is in it"
            }
            _ => "",
        }
    }
}
