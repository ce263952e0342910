//! The JSON Schema that editors get: it takes what the parser takes, and knows every name.

use jsonschema::Validator;
use muster_shared::model::network::NetworkDocument;
use muster_shared::model::network::support::{Support, of_option, of_type};
use serde_json::{Value, json};

use super::schema::palette;

pub fn validator() -> Validator {
    let schema = NetworkDocument::json_schema();
    assert!(jsonschema::meta::is_valid(&schema));
    jsonschema::validator_for(&schema).unwrap()
}

/// A document with an object of this type that has what it must have, and the way to that object.
fn least(kind: &str) -> (Value, &'static str) {
    let within =
        |member: Value| (json!([{"type": "ovs_bridge", "name": "br0", "members": [member]}]), "/0/members/0");
    let member = json!({"type": "interface", "name": "eth0"});
    match kind {
        "interface" => (json!([member]), "/0"),
        "vlan" => (json!([{"type": "vlan", "vlan_id": 5, "device": "eth0"}]), "/0"),
        "ovs_bridge" | "linux_tap" => (json!([{"type": kind, "name": "x0"}]), "/0"),
        "linux_bridge" | "linux_bond" | "team" => {
            (json!([{"type": kind, "name": "x0", "members": [member]}]), "/0")
        }
        "route_table" => (json!([{"type": "route_table", "name": "blue", "table_id": 7}]), "/0"),
        "ovs_bond" => {
            let other = json!({"type": "interface", "name": "eth1"});
            within(json!({"type": kind, "name": "x0", "members": [member, other]}))
        }
        "ovs_patch_port" => within(json!({"type": kind, "name": "x0", "bridge_name": "br0", "peer": "x1"})),
        "ovs_tunnel" => within(json!({"type": kind, "name": "x0", "tunnel_type": "vxlan"})),
        "remove_net_device" => (json!([{"remove_name": "eth0", "remove_type": "interface"}]), "/0"),
        other => panic!("{other} needs a sample"),
    }
}

#[test]
fn what_the_parser_takes_is_valid() {
    let validator = validator();
    let is_taken = |document: &Value| NetworkDocument::parse(document).is_ok();
    let mut taken = 0;
    let mut compare = |document: &Value| {
        if is_taken(document) {
            taken += 1;
            let errors: Vec<String> =
                validator.iter_errors(document).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{document}: {errors:?}");
        }
    };
    let supported = NetworkDocument::types();
    let supported = supported.iter().filter(|(kind, _)| !matches!(of_type(kind), Support::Refused(_)));
    for (kind, options) in supported {
        let (document, place) = least(kind);
        assert!(is_taken(&document), "{document}");
        compare(&document);
        for option in options {
            for value in palette() {
                let mut document = document.clone();
                document.pointer_mut(place).unwrap()[*option] = value;
                compare(&document);
            }
        }
    }
    for document in [
        json!({"network_config": least("vlan").0, "fallback_config": least("interface").0}),
        json!({"network_config": [], "minimum_config": least("ovs_tunnel").0}),
        json!({"remove_config": least("remove_net_device").0}),
        json!([]),
    ] {
        assert!(is_taken(&document), "{document}");
        compare(&document);
    }
    assert!(taken > 300, "{taken}");
}

#[test]
fn typing_errors_are_found() {
    let validator = validator();
    let refused = |document: &Value| assert!(!validator.is_valid(document), "{document}");
    for (kind, options) in NetworkDocument::types() {
        if let Support::Refused(_) = of_type(kind) {
            refused(&json!([{"type": kind}]));
            continue;
        }
        let (document, place) = least(kind);
        let with = |option: &str, value: Value| {
            let mut document = document.clone();
            document.pointer_mut(place).unwrap()[option] = value;
            document
        };
        if kind != "remove_net_device" {
            refused(&with("type", json!(format!("{kind}x"))));
        }
        for option in options {
            refused(&with(&format!("{option}x"), json!("1")));
            if let Support::Refused(_) = of_option(kind, option) {
                refused(&with(option, json!("1")));
            }
        }
        for required in document.pointer(place).unwrap().as_object().unwrap().keys() {
            let mut document = document.clone();
            document.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(required);
            if NetworkDocument::check_schema(document.as_array().unwrap()).is_err() {
                refused(&document);
            }
        }
    }
    for document in [
        json!({"network_confg": []}),
        json!({"fallback_config": []}),
        json!("network_config"),
        json!([{"type": "linux_bridge", "name": "br0", "members": [{"type": "ovs_bond", "name": "b", "members": []}]}]),
        json!([{"type": "interface", "name": "eth0", "addresses": [{"ip_netmask": "192.0.2.1"}]}]),
        json!([{"type": "interface", "name": "eth0", "use_dhcp": "maybe"}]),
        json!([{"type": "interface", "name": "eth0", "mtu": "large"}]),
        json!([{"type": "interface", "name": "eth0", "routes": [{"default": true}]}]),
        json!([{"type": "ovs_bridge", "name": "br0", "ovs_fail_mode": "safe"}]),
    ] {
        assert!(NetworkDocument::parse(&document).is_err(), "{document}");
        refused(&document);
    }
}
