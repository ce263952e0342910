//! Our reading of os-net-config's schema beside that of a validator of JSON Schema, over documents made from the schema
//! itself: each type with what it must have and with all that it can have, and each option with values of all kinds.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use muster_shared::model::network::NetworkDocument;
use serde_json::{Map, Value, json};

use super::conformance::{samples, yaml};

/// The reason, and whether this option's value shows it.
type Difference = (&'static str, fn(&str, &Value) -> bool);

/// Values about which the two differ on purpose.
const DIFFERENCES: [Difference; 5] = [
    (
        "an integer may be written as text: a template's parameters arrive so, and os-net-config only warns",
        |_, value| any(value, &|value| value.as_str().is_some_and(|text| text.parse::<i64>().is_ok())),
    ),
    ("dns_servers and domain may be null: a parameter that was left empty", |option, value| {
        matches!(option, "dns_servers" | "domain") && value.is_null()
    }),
    ("domain may be empty text, for the same reason", |option, value| option == "domain" && value == ""),
    ("the schema's pattern takes any character between the numbers of an IPv4 address", |_, value| {
        any(value, &|value| value.as_str().is_some_and(|text| text.starts_with("192a0")))
    }),
    ("a number of an IPv4 address has no leading zero: some read it as octal", |_, value| {
        any(value, &|value| value.as_str().is_some_and(|text| text.starts_with("010.")))
    }),
];

fn any(value: &Value, is: &dyn Fn(&Value) -> bool) -> bool {
    is(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| any(item, is)),
            Value::Object(map) => map.values().any(|item| any(item, is)),
            _ => false,
        }
}

/// Values of all kinds: of each, some option takes some.
pub fn palette() -> Vec<Value> {
    let mut values = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(7),
        json!(1.0),
        json!(1.5),
        json!([]),
        json!({}),
        json!([null]),
        json!([[]]),
        json!({"get_param": "X"}),
        json!({"get_input": "X"}),
        json!({"get_param": 1}),
        json!({"get_param": "X", "get_input": "Y"}),
        json!({"nic1": "eth0"}),
        json!({"get_attr": ["a"]}),
    ];
    let words = [
        "",
        " ",
        "7",
        "x",
        "true",
        "YES",
        "off",
        "maybe",
        "self",
        "standalone",
        "secure",
        "vxlan",
        "gre",
        "geneve",
        "legacy",
        "switchdev",
        "smfs",
        "dmfs",
        "auto",
        "enable",
        "disabled",
        "00:11:22:33:44:55",
        "00-11-22-33-44-55",
        "00:11:22:33:44",
        "g0:11:22:33:44:55",
        "192.0.2.1",
        "192.0.2.256",
        "192a0b2c1",
        "010.0.0.1",
        "2001:db8::1",
        "::",
        "::ffff:192.0.2.1",
        "1:2:3:4:5:6:7:8:9",
        "192.0.2.1/24",
        "192.0.2.1/33",
        "192.0.2.1/024",
        "192a0b2c1/24",
        "2001:db8::1/64",
        "2001:db8::1/129",
        "a.example",
        "a..b",
        ".a",
        ".",
        "a=b",
        "a=b c=d",
        "a=bc=d",
        "other_config:x=y ",
        "a=",
        "=b",
        "a=b=c",
        "1a=b",
        "a b=c d=e:f",
        "a=b;c",
        "a=b, c=d",
        "mode=active-backup",
    ];
    values.extend(words.map(|word| json!(word)));
    values.extend(words.map(|word| json!([word])));
    values.push(json!("a".repeat(64)));
    values.push(json!(format!("{}.b", "a".repeat(64))));
    values.push(json!(format!("{}.b", "a".repeat(63))));
    values.push(json!("a.".repeat(127) + "a"));
    values.push(json!("a.".repeat(128)));
    let entry = |more: Value| {
        let mut entry = json!({"next_hop": "192.0.2.1"});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([entry])
    };
    values.extend([
        json!([{"ip_netmask": "192.0.2.1/24"}]),
        json!([{"ip_netmask": "192.0.2.1"}]),
        json!([{"ip_netmask": {"get_param": "X"}}]),
        json!([{"ip_netmask": {"list_join": ["/", ["192.0.2.1", 24]]}}]),
        json!([{"ip_netmask": {"list_join": ["/", [{"get_param": "X"}, {"get_param": "Y"}]]}}]),
        json!([{"ip_netmask": {"list_join": [",", []]}}]),
        json!([{"ip_netmask": {"list_join": []}}]),
        json!([{"ip_netmask": {"list_join": "x"}}]),
        json!([{"ip_netmask": {"list_join": [], "x": 1}}]),
        json!([{"ip_netmask": "192.0.2.1/24", "x": 1}]),
        json!([{}]),
        json!([{"rule": "table 5"}]),
        json!([{"rule": "table 5", "comment": "x"}]),
        json!([{"rule": 5}]),
        json!([{"rule": "x", "remark": "y"}]),
        json!([{"comment": "x"}]),
        json!([{"priority": 1, "protocol": 2}]),
        json!([{"priority": 1, "protocol": 2, "selector": 3}]),
        json!([{"priority": 1}]),
        json!({"dscp2prio": []}),
        json!({"dscp2prio": [{"priority": 1, "protocol": 2}], "device": "eth0", "x": 1}),
        json!({"dscp2prio": [{"priority": "x", "protocol": 2}]}),
        json!({"device": "eth0"}),
        entry(json!({"default": true})),
        entry(json!({"default": "maybe"})),
        entry(json!({"default": true, "nexthop": "192.0.2.2"})),
        entry(json!({"ip_netmask": "192.0.2.0/24"})),
        entry(
            json!({"destination": "2001:db8::/32", "metric": 5, "table": "x", "route_options": "metric 1"}),
        ),
        entry(json!({"destination": "192.0.2.0/24", "ip_netmask": "192.0.2.0/24"})),
        entry(json!({"default": false, "destination": "192.0.2.0/24", "ip_netmask": "192.0.2.0/24"})),
        entry(json!({"default": true, "table": 5})),
        entry(json!({"default": true, "table": []})),
        entry(json!({"default": true, "metric": "x"})),
        entry(json!({"default": true, "x": 1})),
        entry(json!({})),
        json!([{"default": true}]),
        json!([{"default": true, "nexthop": "self"}]),
        json!([{"default": true, "next_hop": "192.0.2.1/24"}]),
        json!([{"default": true, "next_hop": {"get_param": "X"}}]),
    ]);
    values
}

struct Bench {
    definitions: Value,
    whole: Validator,
    ran: usize,
    met: BTreeSet<&'static str>,
    /// Type → the least that it takes.
    least: BTreeMap<String, Map<String, Value>>,
}

impl Bench {
    fn new(schema: &Value) -> Self {
        let whole = jsonschema::validator_for(schema).unwrap();
        Self {
            definitions: schema["definitions"].clone(),
            whole,
            ran: 0,
            met: BTreeSet::new(),
            least: BTreeMap::new(),
        }
    }

    /// The validator of one definition.
    fn validator(&self, of: &Value) -> Validator {
        let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": self.definitions, "allOf": [of]});
        jsonschema::validator_for(&schema).unwrap()
    }

    /// Both say the same, or the difference is a known one of that option's value.
    fn compare(&mut self, document: &Value, option: &str, value: &Value) {
        self.ran += 1;
        let (ours, theirs) = (check(document), self.whole.is_valid(document));
        if ours.is_ok() == theirs {
            return;
        }
        let known = DIFFERENCES.iter().find(|(_, is)| is(option, value)).map(|(why, _)| *why);
        match known {
            Some(why) => drop(self.met.insert(why)),
            None => panic!("{document}: the schema takes it: {theirs}, we: {ours:?}"),
        }
    }

    /// A value that the schema takes for `property`.
    fn sample(&self, property: &Value, palette: &[Value]) -> Value {
        let validator = self.validator(property);
        let fits = |value: &&Value| validator.is_valid(value);
        let fit = palette.iter().rev().filter(|value| !value.is_null()).find(fits).cloned();
        let members = || {
            let found = self.least.values().flat_map(|least| [1, 2].map(|n| json!(vec![least.clone(); n])));
            found.into_iter().find(|value| validator.is_valid(value))
        };
        fit.or_else(members).unwrap_or_else(|| panic!("nothing of the palette is a {property}"))
    }
}

fn check(document: &Value) -> Result<(), String> {
    NetworkDocument::check_schema(document.as_array().unwrap()).map_err(|error| error.to_string())
}

#[test]
fn our_verdict_is_the_schemas() {
    let Ok(text) = std::fs::read_to_string(samples().join("schema.yaml")) else {
        println!("0 documents compared: there is no {}", samples().join("schema.yaml").display());
        return;
    };
    let mut schema = yaml(&text);
    // Python's way to say that case does not count; JSON Schema has none.
    let pattern = &mut schema["definitions"]["bool_or_param"]["oneOf"][1]["pattern"];
    let letters = pattern.as_str().unwrap().strip_prefix("(?i)").unwrap().chars();
    let both = |c: char| if c.is_alphabetic() { format!("[{c}{}]", c.to_uppercase()) } else { c.to_string() };
    *pattern = Value::String(letters.map(both).collect());
    let mut bench = Bench::new(&schema);
    let mut names: Vec<String> = schema["items"]["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["$ref"].as_str().unwrap().trim_start_matches("#/definitions/").to_owned())
        .collect();
    assert_eq!(names.len(), 28);
    // An object with members needs theirs first.
    let in_members =
        |name: &String| bench.definitions[name]["required"].as_array().unwrap().contains(&json!("members"));
    names.sort_by_key(|name| (in_members(name), name.contains("bond")));
    let palette = palette();
    let (mut options, mut full) = (0, BTreeMap::new());
    for name in &names {
        let definition = bench.definitions[name].clone();
        let properties = definition["properties"].as_object().unwrap();
        let samples: BTreeMap<&String, Value> = properties
            .iter()
            .map(|(option, property)| (option, bench.sample_of(name, option, property, &palette)))
            .collect();
        let required: BTreeSet<&str> = definition["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|option| option.as_str().unwrap())
            .collect();
        let of_required = samples.iter().filter(|(option, _)| required.contains(option.as_str()));
        let least: Map<String, Value> =
            of_required.map(|(option, value)| ((*option).clone(), value.clone())).collect();
        let most: Map<String, Value> =
            samples.iter().map(|(option, value)| ((*option).clone(), value.clone())).collect();
        for document in [&least, &most] {
            assert!(bench.whole.is_valid(&json!([document])), "{name}: {}", json!(document));
            bench.compare(&json!([document]), "", &Value::Null);
        }
        bench.least.insert(name.clone(), least.clone());
        full.insert(name.clone(), most);
        for option in &required {
            let mut without = least.clone();
            without.remove(*option);
            bench.compare(&json!([without]), "", &Value::Null);
        }
        let mut more = least.clone();
        more.insert("xyzzy".to_owned(), json!(1));
        bench.compare(&json!([more]), "", &Value::Null);
    }
    let of_others: Vec<Value> =
        bench.least.values().chain(full.values()).map(|object| json!([object])).collect();
    for name in &names {
        let least = bench.least[name].clone();
        let known: BTreeSet<String> =
            bench.least.keys().flat_map(|other| properties_of(&bench.definitions, other)).collect();
        for option in known {
            options += usize::from(properties_of(&bench.definitions, name).contains(&option));
            // Where it is unknown one value says so; where it is not, all kinds are tried.
            let most = if properties_of(&bench.definitions, name).contains(&option) { usize::MAX } else { 1 };
            let members = of_others.iter().filter(|_| option == "members");
            for value in palette.iter().chain(members).take(most) {
                let mut document = least.clone();
                document.insert(option.clone(), value.clone());
                bench.compare(&json!([document]), &option, value);
            }
        }
    }
    let (interface, removal) = (json!(bench.least["interface"]), json!(bench.least["remove_net_device"]));
    for document in [
        json!([interface, removal]),
        json!([removal, removal]),
        json!([interface, interface]),
        json!([1]),
        json!([{"type": 1}]),
        json!([{"type": "x"}]),
        json!([{}]),
    ] {
        bench.compare(&document, "", &Value::Null);
    }
    let never: Vec<&str> =
        DIFFERENCES.iter().map(|(why, _)| *why).filter(|why| !bench.met.contains(why)).collect();
    assert_eq!(never, Vec::<&str>::new(), "these differences are none");
    println!(
        "{} documents compared, of {} types with {options} options; differences:",
        bench.ran,
        names.len()
    );
    bench.met.iter().for_each(|why| println!("- {why}"));
    // An empty document is applied: the changes of an older one are undone.
    assert!(check(&json!([])).is_ok() && !bench.whole.is_valid(&json!([])));
}

impl Bench {
    fn sample_of(&self, name: &str, option: &str, property: &Value, palette: &[Value]) -> Value {
        let text = |of: &[&str]| of.contains(&option).then(|| json!(option));
        match option {
            "type" => property["enum"][0].clone(),
            "remove_type" => json!("vlan"),
            _ if property["$ref"] == "#/definitions/string_or_param" => {
                json!(format!("{}-{option}", &name[..3]))
            }
            _ => text(&["rule"]).unwrap_or_else(|| self.sample(property, palette)),
        }
    }
}

fn properties_of(definitions: &Value, name: &str) -> BTreeSet<String> {
    definitions[name]["properties"].as_object().unwrap().keys().cloned().collect()
}
