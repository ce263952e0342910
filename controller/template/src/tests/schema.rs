//! The schema says of types what the code does.

use serde_json::{Map, Value, json};

use crate::types::{Constraint, PropertyType};
use crate::{ConfigBody, ConfigGroup, Desired, Kind, PropertyError, Site, SoftwareConfig, node, spec_within};

/// Has a script under each id.
struct Scripts;

impl Site for Scripts {
    fn config(&self, id: &str) -> Result<SoftwareConfig, String> {
        let body = ConfigBody::Text(ConfigGroup::Script, id.to_owned());
        Ok(SoftwareConfig { body, inputs: Vec::new(), outputs: Vec::new(), options: None })
    }

    fn stack(&self) -> String {
        "stack/1".into()
    }

    fn resource(&self) -> &str {
        "deployment"
    }
}

fn spec(kind: Kind, properties: &Value) -> Result<Desired, PropertyError> {
    spec_within(kind, properties, &Scripts)
}

/// A valid resource of the type, with nothing that need not be given; and for each property that is neither a
/// range nor a list of words two more values, which differ from it and from each other.
pub(super) fn sample(kind: Kind) -> (Value, Value) {
    let device = json!(["web-2/br0", "web-1/br1"]);
    match kind {
        Kind::Dummy => (json!({}), json!({"values": [{"!a": "1"}, {"!a": "2"}], "node": ["web-1", "web-2"]})),
        Kind::File => (
            json!({"node": "web-1", "path": "/etc/motd", "content": "hi"}),
            json!({"node": ["web-2", "web-3"], "path": ["/etc/issue", "/srv/x"], "content": ["ho", ""],
                "mode": ["0600", "0755"], "owner": ["root", "0"], "group": ["root", "0"]}),
        ),
        Kind::Hostname => (
            json!({"node": "web-1", "hostname": "a.example"}),
            json!({"node": ["web-2", "web-3"], "hostname": ["b", "c.example"]}),
        ),
        Kind::User => (
            json!({"node": "web-1", "name": "web"}),
            json!({"node": ["web-2", "web-3"], "name": ["a", "b"], "group": ["web", "root"],
                "groups": [["a"], ["b"]], "home": ["/srv/a", "/srv/b"], "shell": ["/bin/sh", "/bin/bash"],
                "comment": ["a", "b"], "system": [true, false], "password_hash": ["$6$a$b", "$6$a$c"],
                "authorized_keys": [["a"], ["b"]], "locked": [true, false]}),
        ),
        Kind::TopologyHost => (
            json!({"mac": "52:54:00:00:00:01", "location": point("web-1/br0", "h")}),
            json!({"mac": ["52:54:00:00:00:02", "52:54:00:00:00:AB"], "location": [point("web-1/br0", "g"), point("web-2/br0", "h")],
                "addresses": [["10.0.0.1"], ["10.0.0.1", "2001:db8::1"]]}),
        ),
        Kind::TopologyLink => (
            json!({"from": point("web-1/br0", "p1"), "to": point("web-2/br0", "p1")}),
            json!({"from": [point("web-3/br0", "p1"), point("web-1/br0", "p2")],
                "to": [point("web-3/br0", "p1"), point("web-2/br0", "p2")], "annotations": [{"type": "fibre"}, {"a": 1}],
                "bidirectional": [false, "TRUE"], "latency": [0.01, "1"]}),
        ),
        Kind::Intent => (
            json!({"key": "a", "type": "point_to_point", "from": point("web-1/br0", "h"), "to": point("web-2/br0", "h")}),
            json!({"key": ["b", "c"], "from": [point("web-3/br0", "h"), [point("web-1/br0", "g")]],
                "to": [point("web-3/br0", "h"), [point("web-2/br0", "g")]], "links": [[], []],
                "selector": [{"eth_type": 2048}, {"vlan_vid": 5}], "constraints": [["protection"], [{"bandwidth": 5}]],
                "treatment": [[{"set_queue": 1}], [{"push_vlan": 33024}]]}),
        ),
        Kind::UnixGroup => (
            json!({"node": "web-1", "name": "web"}),
            json!({"node": ["web-2", "web-3"], "name": ["a", "b"], "members": [["a"], ["b"]],
                "system": [true, false]}),
        ),
        Kind::Package => (
            json!({"node": "web-1", "name": "nginx"}),
            json!({"node": ["web-2", "web-3"], "name": ["g++", "python3.11"], "version": ["1.0-1", "1:2~rc1"],
                "held": [true, false]}),
        ),
        Kind::Sysctl => (
            json!({"node": "web-1", "key": "net.ipv4.ip_forward", "value": "1"}),
            json!({"node": ["web-2", "web-3"], "key": ["a.b", "c.d"], "value": ["0", "2"]}),
        ),
        Kind::Timezone => (
            json!({"node": "web-1", "timezone": "UTC"}),
            json!({"node": ["web-2", "web-3"], "timezone": ["Europe/Berlin", "Etc/GMT+5"]}),
        ),
        Kind::Unit => (
            json!({"node": "web-1", "name": "web.service"}),
            json!({"node": ["web-2", "web-3"], "name": ["a.service", "b.timer"], "content": ["", "[Service]"],
                "drop_ins": [{"a": ""}, {"a": "[Unit]"}], "enabled": [true, false], "masked": [true, false],
                "restart_on": [["1"], ["2"]], "reload_on": [["1"], ["2"]]}),
        ),
        Kind::NetworkConfig => (
            json!({"node": "web-1", "network_config": []}),
            json!({"node": ["web-2", "web-3"], "mapping": [{"nic1": "eth0"}, {"nic1": "eth1"}],
                "network_config": [[{"type": "interface", "name": "eth0"}], [{"type": "interface", "name": "eth1"}]],
                "fallback_config": [[{"type": "interface", "name": "eth0"}], [{"type": "interface", "name": "eth1"}]]}),
        ),
        Kind::Chain
        | Kind::Group
        | Kind::Nested
        | Kind::Set
        | Kind::None
        | Kind::SoftwareDeploymentGroup
        | Kind::StructuredDeploymentGroup => (json!({}), json!({})),
        Kind::SoftwareConfig => {
            (json!({}), config(json!({"config": ["#!/bin/sh", "true"], "group": ["script", "ansible"]})))
        }
        Kind::StructuredConfig => {
            (json!({}), config(json!({"config": [{"a": 1}, {"a": 2}], "group": ["json-file", "hiera"]})))
        }
        Kind::SoftwareComponent => {
            let part = |text: &str| json!([{"tool": "script", "actions": ["CREATE"], "config": text}]);
            (json!({"configs": []}), config(json!({"configs": [part("true"), part("false")]})))
        }
        Kind::SoftwareDeployment => (json!({"server": "web-1"}), deployment(json!({}))),
        Kind::StructuredDeployment => {
            (json!({"server": "web-1"}), deployment(json!({"input_key": ["get_input", "get_it"]})))
        }
        Kind::CloudConfig => (json!({}), json!({"cloud_config": [{"a": 1}, {"a": 2}]})),
        Kind::MultipartMime => (
            json!({}),
            json!({"group": ["a", "b"], "parts": [[{"config": "a"}], [{"config": "b", "type": "multipart"}]]}),
        ),
        Kind::DeployedServer => (
            json!({"name": "web-1"}),
            json!({"name": ["web-2", "web-3"], "metadata": [{}, {"a": 1}],
                "deployment_swift_data": [{"container": "a"}, {"object": "b"}],
                "software_config_transport": ["POLL_TEMP_URL", "ZAQAR_MESSAGE"]}),
        ),
        Kind::RandomString => (
            json!({}),
            json!({"character_classes": [[{"class": "digits"}], [{"class": "letters", "min": 2}]],
                "character_sequences": [[{"sequence": "ab"}], [{"sequence": "abc"}]], "salt": ["a", "b"]}),
        ),
        Kind::TestResource => (
            json!({}),
            json!({"action_wait_secs": [{"create": 0}, {"update": 0}], "attr_wait_secs": [0, "0"], "wait_secs": [0, "0", -1, 2.5],
                "client_name": ["a", "b"], "constraint_prop_secs": [0, "0"], "entity_name": ["a", "b"],
                "fail": [true, false], "update_replace": [true, false], "update_replace_value": ["a", "b"],
                "value": ["a", "b"]}),
        ),
        Kind::WaitCondition => (
            json!({"handle": "h", "timeout": 60}),
            json!({"handle": ["i", "j"], "timeout": [61, "62"], "count": [2, "3"]}),
        ),
        Kind::WaitConditionHandle => (json!({}), json!({"signal_transport": ["CFN_SIGNAL", "HEAT_SIGNAL"]})),
        Kind::Value => (json!({"value": "1"}), json!({"value": [1, [2]]})),
        Kind::Net => {
            (json!({}), cloud(json!({"name": ["a", "b"], "dns_domain": ["a.", "b."], "mtu": [1500, 9000]})))
        }
        Kind::Subnet => (
            json!({"network": "ctlplane", "cidr": "10.0.0.0/24"}),
            cloud(json!({"network": ["a", "b"], "cidr": ["10.1.0.0/24", "fd00::/64"], "name": ["a", "b"],
                "allocation_pools": [[{"start": "10.0.0.9", "end": "10.0.0.9"}], [{"start": "10.0.0.7", "end": "10.0.0.9"}]],
                "dns_nameservers": [["10.0.0.2"], ["10.0.0.3"]], "enable_dhcp": [false, "off"], "gateway_ip": ["", "10.0.0.9"],
                "host_routes": [[{"destination": "10.2.0.0/24", "nexthop": "10.0.0.2"}], []], "ip_version": [4, "4"],
                "ipv6_address_mode": ["slaac", ""], "ipv6_ra_mode": ["slaac", ""], "segment": ["a", "b"]})),
        ),
        Kind::Port => (
            json!({"network": "ctlplane"}),
            cloud(
                json!({"network": ["a", "b"], "name": ["a", "b"], "mac_address": ["a", "b"], "device_id": ["a", "b"],
                "device_owner": ["a", "b"], "fixed_ips": [[{"subnet": "a"}], [{"ip_address": "10.0.0.9"}]],
                "allowed_address_pairs": [[], [1]], "binding:vnic_type": ["a", "b"], "dns_name": ["a", "b"],
                "replacement_policy": ["AUTO", ""], "security_groups": [[], ["a"]]}),
            ),
        ),
        Kind::FlowRule => (
            json!({"device": "web-1/br0", "priority": 1}),
            json!({"device": device, "guard": [false, "FALSE"], "selector": [{"in_port": "eth0"}, {"in_port": "eth1"}],
                "treatment": [[{"output": "eth0"}], [{"output": "eth1"}]]}),
        ),
        Kind::FlowTable => (
            json!({"device": "web-1/br0", "rules": []}),
            json!({"device": device, "guard": [false, "FALSE"], "rules": [[{"priority": 1}], [{"priority": 2}]]}),
        ),
        Kind::FlowGroup => (
            json!({"device": "web-1/br0", "group": 1, "type": "all", "buckets": []}),
            json!({"device": device, "guard": [false, "FALSE"],
                "buckets": [[{"treatment": [{"output": "eth0"}]}], [{"treatment": [{"output": "eth1"}]}]]}),
        ),
        Kind::FlowMeter => (
            json!({"device": "web-1/br0", "meter": 1, "bands": [{"rate": 1}]}),
            json!({"device": device, "guard": [false, "FALSE"], "bands": [[{"rate": 2}], [{"rate": 3}]]}),
        ),
    }
}

fn point(device: &str, port: &str) -> Value {
    json!({"device": device, "port": port})
}

/// With what all configs have.
fn config(mut more: Value) -> Value {
    let all = json!({"group": ["puppet", "hiera"], "inputs": [[{"name": "a"}], [{"name": "b", "default": 1}]], "options": [{}, {"a": 1}],
        "outputs": [[{"name": "a"}], [{"name": "b", "error_output": true}]]});
    more.as_object_mut().unwrap().extend(all.as_object().unwrap().clone());
    more
}

/// With what all deployments have.
fn deployment(mut more: Value) -> Value {
    let all = json!({"actions": [["CREATE"], ["DELETE", "RESUME"]], "config": ["true", "false"], "name": ["a", "b"],
        "input_values": [{"a": 1}, {"a": [2]}], "server": ["web-2", "web-3"]});
    more.as_object_mut().unwrap().extend(all.as_object().unwrap().clone());
    more
}

/// With what means nothing, of all types of Neutron.
fn cloud(mut more: Value) -> Value {
    let nothing = json!({"admin_state_up": [true, false], "port_security_enabled": [true, false], "shared": [true, false],
        "qos_policy": ["a", "b"], "tags": [[], ["a"]], "tenant_id": ["a", "b"], "value_specs": [{}, {"a": 1}]});
    more.as_object_mut().unwrap().extend(nothing.as_object().unwrap().clone());
    more
}

/// The sample with other values of some properties.
pub(super) fn with(sample: &Value, changes: &[(&str, Value)]) -> Value {
    let mut map: Map<String, Value> = sample.as_object().unwrap().clone();
    map.extend(changes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Value::Object(map)
}

fn desired(kind: Kind, properties: &Value) -> Desired {
    spec(kind, properties).unwrap_or_else(|error| panic!("{kind} {properties}: {error}"))
}

#[test]
fn everything_is_described() {
    for kind in Kind::ALL {
        assert!(!kind.about().is_empty(), "{kind}");
        for property in kind.properties() {
            assert!(!property.about.is_empty(), "{kind} {}", property.name);
            let takes_all = kind == Kind::Value && property.name == "value";
            assert_eq!(property.kind == PropertyType::Any, takes_all, "{kind} {}", property.name);
            assert!(!property.required || property.default.is_empty(), "{kind} {}", property.name);
            assert_eq!(
                property.default_value().is_some(),
                !property.default.is_empty(),
                "{kind} {}",
                property.name
            );
        }
        let attributes = kind.attributes().unwrap_or_default();
        assert!(attributes.is_sorted() && attributes.iter().all(|(_, about)| !about.is_empty()), "{kind}");
        let names: Vec<&str> = kind.properties().iter().map(|property| property.name).collect();
        assert!(names.is_sorted(), "{names:?}");
    }
}

#[test]
fn what_must_be_given_must_be_given() {
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_whole()) {
        let (sample, _) = sample(kind);
        desired(kind, &sample);
        let given: Vec<&String> = sample.as_object().unwrap().keys().collect();
        let required: Vec<&str> = kind
            .properties()
            .iter()
            .filter(|property| property.required)
            .map(|property| property.name)
            .collect();
        assert_eq!(given, required.iter().collect::<Vec<_>>(), "{kind}");
        // Null is as good a value as any, and this is where that is left out.
        for name in required.into_iter().filter(|_| kind != Kind::Value) {
            let mut less = sample.clone();
            less.as_object_mut().unwrap().remove(name);
            let why = spec(kind, &less).unwrap_err();
            assert_eq!(why.path, name, "{kind}: {why}");
        }
    }
}

/// A default is what holds where nothing is given.
#[test]
fn defaults_change_nothing() {
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_whole()) {
        let (sample, _) = sample(kind);
        for property in kind.properties() {
            if let Some(default) = property.default_value() {
                let given = with(&sample, &[(property.name, default)]);
                assert_eq!(desired(kind, &given), desired(kind, &sample), "{kind} {}", property.name);
            }
        }
    }
}

#[test]
fn bounds_are_those_of_the_code() {
    let refused = |property: &crate::types::Property, value: Value| (property.check)(&value).is_err();
    for kind in Kind::ALL {
        for property in kind.properties() {
            match property.constraint {
                Constraint::Range(least, most) => {
                    for (value, wrong) in [(least, false), (most, false), (most + 1, true)] {
                        assert_eq!(
                            refused(property, json!(value)),
                            wrong,
                            "{kind} {} {value}",
                            property.name
                        );
                    }
                    let below = i64::try_from(least).unwrap() - 1;
                    assert!(refused(property, json!(below)), "{kind} {} {below}", property.name);
                }
                Constraint::OneOf(words) => {
                    for word in words {
                        assert!(!refused(property, json!(word)), "{kind} {} {word}", property.name);
                    }
                    assert!(refused(property, json!("nonsense")), "{kind} {}", property.name);
                }
                Constraint::Text(_) | Constraint::None => {}
            }
            if property.kind == PropertyType::Any {
                continue;
            }
            // A value of another type is refused; text may be read as something else.
            let wrong = match property.kind {
                PropertyType::List | PropertyType::Map => json!(1),
                _ => json!([{"a": 1}]),
            };
            assert!(refused(property, wrong), "{kind} {}", property.name);
        }
    }
}

/// Each property is changed alone: it makes another thing, or not, as it is told.
#[test]
fn what_replaces_is_told() {
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_whole()) {
        let (sample, values) = sample(kind);
        for property in kind.properties() {
            let [first, second] = match property.constraint {
                Constraint::Range(least, most) => [json!(least + 1), json!(most)],
                Constraint::OneOf(words) => [json!(words[0]), json!(words[1])],
                _ => [0, 1].map(|index| values[property.name][index].clone()),
            };
            assert!(!first.is_null(), "{kind} {}: the sample has no values for it", property.name);
            let [old, new] = [first, second].map(|value| with(&sample, &[(property.name, value)]));
            let moved = !kind.is_virtual() && node(&old).unwrap() != node(&new).unwrap();
            let replaced = desired(kind, &old).needs_replacement(&desired(kind, &new)) || moved;
            assert_eq!(replaced, !property.replaces.is_empty(), "{kind} {}", property.name);
        }
    }
}

#[test]
fn a_type_as_a_document() {
    let schema = json!(Kind::File.schema());
    let path = schema["properties"].as_array().unwrap().iter().find(|it| it["name"] == "path").unwrap();
    assert_eq!(
        *path,
        json!({"name": "path", "type": "string", "required": true, "default": null, "on_update": "replaced",
            "constraint": {"description": "absolute and in its shortest form"}, "description": "where it is"})
    );
    assert_eq!(schema["attributes"], json!([{"name": "path", "description": "where the file is"}]));
    let seconds = &json!(Kind::Dummy.schema())["properties"][2];
    assert_eq!(
        (&seconds["default"], &seconds["constraint"]),
        (&json!(0), &json!({"range": {"min": 0, "max": 86400}}))
    );
}

/// The nearest name is said for a property of every type that is misspelt.
#[test]
fn the_nearest_property_is_named() {
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_whole()) {
        for property in kind.properties() {
            let name = property.name;
            let misspelt = format!("{}x{}", &name[..1], &name[1..]);
            let why = spec(kind, &json!({misspelt.clone(): 1})).unwrap_err().to_string();
            let wanted = format!("{kind} has no property '{misspelt}'; did you mean '{name}'?");
            assert!(why.contains(&wanted), "{why}");
        }
    }
}
