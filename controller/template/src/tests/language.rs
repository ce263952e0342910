//! The language, row by row.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::ResourceTable;
use crate::{Environment, Kind, RenderError, node, parse, referenced_files, spec};

fn output(value: &str) -> Result<Value, String> {
    let text = format!("heat_template_version: 2018-08-31\noutputs: {{o: {{value: {value}}}}}\n");
    let none = BTreeMap::new();
    let template = parse("t", &text, &none).map_err(|errors| errors.to_string())?;
    let parameters = template.bind(&BTreeMap::new()).map_err(|errors| errors.to_string())?;
    template
        .render_output(0, &parameters, &ResourceTable(&template, &BTreeMap::new()))
        .map_err(|error| error.to_string())
}

#[test]
fn scalars() {
    for (text, value) in [
        ("5", json!(5)),
        ("-5", json!(-5)),
        ("+5", json!(5)),
        ("0x0800", json!(2048)),
        ("0o17", json!("0o17")),
        ("1.5", json!(1.5)),
        (".5", json!(0.5)),
        ("1e3", json!("1e3")),
        ("1.0e+3", json!(1000.0)),
        ("18446744073709551615", json!(u64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("0", json!(0)),
        ("0644", json!(420)),
        ("'0644'", json!("0644")),
        ("0x", json!("0x")),
        ("1.2.3", json!("1.2.3")),
        ("10.0.0.1", json!("10.0.0.1")),
        ("12:30:45", json!(45045)),
        ("1e", json!("1e")),
        (".", json!(".")),
        (".inf", json!(".inf")),
        ("2018-08-31", json!("2018-08-31")),
        ("true", json!(true)),
        ("False", json!(false)),
        ("yes", json!(true)),
        ("no", json!(false)),
        ("~", json!(null)),
        ("null", json!(null)),
        ("'5'", json!("5")),
        ("\"true\"", json!("true")),
        ("!!str 5", json!("5")),
        ("!!int 5", json!(5)),
    ] {
        assert_eq!(output(text), Ok(value), "{text}");
    }
    for (text, message) in [
        ("99999999999999999999999", "too large; quote it"),
        ("0xfffffffffffffffff", "too large"),
        ("1.0e+999", "too large"),
        ("!!int x", "the tag '!!int'"),
        ("!vault x", "the tag '!vault' is not supported"),
        ("!!python/object x", "is not supported here"),
    ] {
        let error = output(text).unwrap_err();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn replacing_text_as_heat_does() {
    for (template, params, value) in [
        ("'a b'", "{a: b, b: a}", "b a"),
        ("foobar foo", "{foo: X, foobar: Y}", "Y X"),
        // The longest key is looked for first, wherever it is: Heat's order.
        ("abcd", "{ab: X, bcd: Y}", "aY"),
        ("x", "{x: xx}", "xx"),
        ("n b t f", "{n: 5, b: 1.5, t: true, f: ~}", "5 1.5 True "),
        ("x", "{x: {b: [1, two], a: {c: null}}}", "{\"a\": {\"c\": null}, \"b\": [1, \"two\"]}"),
        ("none", "{}", "none"),
        ("''", "{a: b}", ""),
    ] {
        let value_of = output(&format!("{{str_replace: {{template: {template}, params: {params}}}}}"));
        assert_eq!(value_of, Ok(json!(value)), "{template} {params}");
    }
}

#[test]
fn joining_lists_as_heat_does() {
    for (argument, value) in [
        ("[', ', [a, b]]", "a, b"),
        ("['', [a], [b, c]]", "abc"),
        ("['-', [1, true, ~, {a: b}]]", "1-True--{\"a\": \"b\"}"),
        ("['-', []]", ""),
        ("['-', [], ~, [x]]", "x"),
    ] {
        assert_eq!(output(&format!("{{list_join: {argument}}}")), Ok(json!(value)), "{argument}");
    }
}

#[test]
fn parameters_are_converted_by_type() {
    use crate::ParameterType::{Boolean, CommaDelimitedList, Json, Number, String};
    for (kind, given, value) in [
        (String, json!("a"), Some(json!("a"))),
        (String, json!(5), Some(json!("5"))),
        (String, json!(true), Some(json!("True"))),
        (String, json!([1]), None),
        (String, json!({"a": 1}), None),
        (String, json!(null), None),
        (Number, json!(5), Some(json!(5))),
        (Number, json!("5"), Some(json!(5))),
        (Number, json!(" -1.5 "), Some(json!(-1.5))),
        (Number, json!("007"), Some(json!(7))),
        (Number, json!("five"), None),
        (Number, json!(""), None),
        (Number, json!(true), Some(json!(true))),
        (Number, json!([true]), None),
        (Json, json!({"a": 1}), Some(json!({"a": 1}))),
        (Json, json!("[1, {\"a\": null}]"), Some(json!([1, {"a": null}]))),
        (Json, json!("5"), Some(json!(5))),
        (Json, json!(""), Some(json!(""))),
        (Json, json!("null"), Some(json!(null))),
        (Json, json!("{"), None),
        (Json, json!(5), Some(json!(5))),
        (CommaDelimitedList, json!("a, b ,c"), Some(json!(["a", " b ", "c"]))),
        (CommaDelimitedList, json!(""), Some(json!([]))),
        (CommaDelimitedList, json!(["a", 5]), Some(json!(["a", "5"]))),
        (
            CommaDelimitedList,
            json!([null, true, ["a"], {"b": null}]),
            Some(json!(["None", "True", "['a']", "{'b': None}"])),
        ),
        (CommaDelimitedList, json!(5), Some(json!(["5"]))),
        (CommaDelimitedList, json!({"a": 1}), None),
        (Boolean, json!(false), Some(json!(false))),
        (Boolean, json!("Yes"), Some(json!(true))),
        (Boolean, json!("off"), Some(json!(false))),
        (Boolean, json!(1), Some(json!(true))),
        (Boolean, json!("maybe"), None),
        (Boolean, json!([]), None),
    ] {
        assert_eq!(kind.convert(&given).ok(), value, "{kind:?} {given}");
    }
}

#[test]
fn binding_names_what_is_missing_and_what_is_unknown() {
    let text = "heat_template_version: 2018-08-31\nparameters:\n  greeting: {type: string}\n  secret: {type: string, hidden: true, default: s3cret}\n  count: {type: number}\n";
    let template = parse("t.yaml", text, &BTreeMap::new()).unwrap();
    assert_eq!(template.required_parameters(), ["count", "greeting"]);
    let given = BTreeMap::from([("greting".to_owned(), json!("hi")), ("count".to_owned(), json!("many"))]);
    let errors = template.bind(&given).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "t.yaml: parameters: unknown parameter 'greting'; did you mean 'greeting'?\n\
         t.yaml:3:3: parameters.greeting: this parameter must be given, for it has no default: -P greeting=VALUE, or in an \
         environment (-e FILE)\n\
         -P count: want a number, got text (t.yaml:5:3)"
    );
    let given = BTreeMap::from([("greeting".to_owned(), json!("hi")), ("count".to_owned(), json!("3"))]);
    let parameters = template.bind(&given).unwrap();
    assert_eq!(json!(parameters.masked()), json!({"count": 3, "greeting": "hi", "secret": "******"}));
    assert_eq!(json!(parameters), json!({"count": 3, "greeting": "hi", "secret": "s3cret"}));
    assert!(!format!("{parameters:?}").contains("s3cret"));
}

#[test]
fn what_is_not_known_yet_is_no_failure() {
    let text = "heat_template_version: 2018-08-31\nresources:\n  a: {type: Muster::Dummy}\n  b:\n    type: Muster::Dummy\n    properties: {node: n-1, values: {id: {get_resource: a}}}\n  c:\n    type: Muster::Dummy\n    properties: {node: {get_attr: [a, where]}}\n";
    let template = parse("t", text, &BTreeMap::new()).unwrap();
    let parameters = template.bind(&BTreeMap::new()).unwrap();
    let (nothing, a) = (BTreeMap::new(), u32::try_from(template.index_of("a").unwrap()).unwrap());
    let unknown = ResourceTable(&template, &nothing);
    let not_yet = RenderError::NotYet { resource: "a".into(), index: a };
    let (b, c) = (template.index_of("b").unwrap(), template.index_of("c").unwrap());
    assert_eq!(template.render(b, &parameters, &unknown), Err(not_yet.clone()));
    assert_eq!(template.render_property(b, "node", &parameters, &unknown), Ok(Some(json!("n-1"))));
    assert_eq!(template.render_property(b, "fail", &parameters, &unknown), Ok(None));
    assert_eq!(template.render_property(c, "node", &parameters, &unknown), Err(not_yet));
    let ready = BTreeMap::from([("a".to_owned(), BTreeMap::new())]);
    let error = template.render(c, &parameters, &ResourceTable(&template, &ready)).unwrap_err().to_string();
    assert_eq!(
        error,
        "t:9:24: resources.c.properties.node.get_attr: the resource 'a' has no attribute 'where'"
    );
}

#[test]
fn later_errors_have_their_place_too() {
    let text = "heat_template_version: 2018-08-31\nparameters:\n  p: {type: string}\nresources:\n  f:\n    type: Muster::File\n    properties:\n      node: web-1\n      content: ''\n      path: {get_param: p}\n";
    let template = parse("t", text, &BTreeMap::new()).unwrap();
    let parameters = template.bind(&BTreeMap::from([("p".to_owned(), json!("etc"))])).unwrap();
    let properties = template.render(0, &parameters, &ResourceTable(&template, &BTreeMap::new())).unwrap();
    let error = spec(Kind::File, &properties).unwrap_err();
    assert_eq!(
        template.property_error(0, &error).to_string(),
        "t:10:13: resources.f.properties.path: the path 'etc' is not absolute"
    );
    assert_eq!(template.error(0, None, "taken").to_string(), "t:5:3: resources.f: taken");
    assert_eq!(template.error(0, Some("mode"), "odd").to_string(), "t:5:3: resources.f.properties.mode: odd");
}

#[test]
fn files_are_listed_without_their_contents() {
    let text = "heat_template_version: 2018-08-31\noutputs: {o: {value: [{get_file: b.sh}, {get_file: a/b}, {get_file: b.sh}]}}\n";
    let files: Vec<String> = referenced_files("t", text).unwrap().into_iter().collect();
    assert_eq!(files, ["a/b", "b.sh"]);
    assert!(referenced_files("t", "a: [").is_err());
}

#[test]
fn specs_from_properties() {
    use crate::Desired;
    use muster_shared::model::{Content, OnDelete, Spec};
    let given = json!({"node": "web-1", "path": "/etc/motd", "content": 5, "mode": "0600", "owner": 0});
    let Ok(Desired::Node(Spec::File(file))) = spec(Kind::File, &given) else {
        panic!("{:?}", spec(Kind::File, &given))
    };
    assert_eq!((file.path.as_str(), file.mode, file.owner.as_deref()), ("/etc/motd", 0o600, Some("0")));
    assert_eq!((file.content, file.on_delete), (Content::Inline(b"5".to_vec()), OnDelete::Restore));
    assert_eq!(node(&given).unwrap().unwrap().as_str(), "web-1");
    assert_eq!(node(&json!({})), Ok(None));

    let given = json!({"values": {"a": 1, "b": null}, "seconds": 0.25, "fail": "update"});
    let Ok(Desired::Node(Spec::Dummy(dummy))) = spec(Kind::Dummy, &given) else {
        panic!("{:?}", spec(Kind::Dummy, &given))
    };
    assert_eq!((dummy.milliseconds, dummy.values["a"].as_str(), dummy.values["b"].as_str()), (250, "1", ""));

    let object = json!({"type": "interface", "name": "nic1", "addresses": [{"ip_netmask": "10.0.0.1/24"}], "use_dhcp": false});
    let given = json!({"node": "n", "network_config": [object], "mapping": {"nic1": "eth0"}, "confirm_timeout": "30"});
    let Ok(Desired::Node(Spec::Network(network))) = spec(Kind::NetworkConfig, &given) else {
        panic!("{:?}", spec(Kind::NetworkConfig, &given))
    };
    assert_eq!((network.confirm_timeout, network.mapping["nic1"].as_str()), (30, "eth0"));

    let list = json!([object]);
    let whole = json!({"network_config": list, "fallback_config": list});
    for (config, fallback) in
        [(&list, Some(&list)), (&json!({"network_config": list}), Some(&list)), (&whole, None)]
    {
        let mut given = json!({"node": "n", "network_config": config, "mapping": {"nic1": "eth0"}});
        given["fallback_config"] = json!(fallback);
        let Ok(Desired::Node(Spec::Network(network))) = spec(Kind::NetworkConfig, &given) else {
            panic!("{:?}", spec(Kind::NetworkConfig, &given))
        };
        assert_eq!(serde_json::from_str::<Value>(&network.document).unwrap(), whole);
        let keys: Vec<_> = Spec::Network(network).claims().into_iter().map(|claim| claim.key).collect();
        assert_eq!(keys, ["eth0"]);
    }
}

#[test]
fn properties_that_are_refused() {
    let file = |name: &str, value: Value| {
        let mut given = json!({"node": "web-1", "path": "/etc/motd", "content": ""});
        given[name] = value;
        (Kind::File, given)
    };
    let dummy = |name: &str, value: Value| (Kind::Dummy, json!({ name: value }));
    let network = |fallback: Value| {
        (Kind::NetworkConfig, json!({"node": "n", "network_config": [], "fallback_config": fallback}))
    };
    for ((kind, given), message) in [
        (file("path", json!("etc/motd")), "path: the path 'etc/motd' is not absolute"),
        (file("path", json!("/etc/../motd")), "not in its shortest form"),
        (file("path", json!("/etc//motd")), "not in its shortest form"),
        (file("path", json!("/etc/")), "names a directory"),
        (file("path", json!("/")), "names a directory"),
        (file("path", json!("/a\0b")), "zero byte"),
        (file("path", json!(format!("/{}", "a".repeat(256)))), "more than 255 bytes"),
        (file("path", json!("/etc/hostname")), "take Muster::Hostname"),
        (file("path", json!(null)), "path: this property must be given"),
        (file("content", json!([1])), "content: want text, got a list"),
        (file("mode", json!(644)), "octal text in quotes such as \"0644\", got the number 644"),
        (file("mode", json!("0888")), "octal mode"),
        (file("mode", json!("17777")), "octal mode"),
        (file("mode", json!("+644")), "octal mode"),
        (file("owner", json!("a b")), "not a name or number"),
        (file("node", json!("Web_1")), "is not a node name"),
        (file("on_delete", json!("restor")), "did you mean 'restore'?"),
        (file("contents", json!("")), "no property 'contents'; did you mean 'content'?"),
        (network(json!([{"type": "interface"}])), "fallback_config[0].name: is missing"),
        (network(json!([1, 2, 3])), "fallback_config: at most 2 objects are taken"),
        (dummy("values", json!({"a": ["x"]})), "values.a: want text, got a list"),
        (
            dummy("values", json!({"a": {"get_parm": "x"}})),
            "unknown function 'get_parm'; did you mean 'get_param'?",
        ),
        (dummy("seconds", json!(-1)), "want seconds from 0 to"),
        (dummy("seconds", json!("NaN")), "want seconds from 0 to"),
        (dummy("fail", json!("creat")), "did you mean 'create'?"),
    ] {
        let error = spec(kind, &given).unwrap_err().to_string();
        assert!(error.contains(message), "{given}: {error}");
    }
}

#[test]
fn a_definition_differs_where_the_ownership_does() {
    let digest = |keys: &str, id: &str| {
        let text = format!(
            "heat_template_version: 2018-08-31\nparameters: {{id: {{type: string, default: {id}}}}}\n\
             resources: {{a: {{type: Muster::Dummy, {keys}}}}}\n"
        );
        let template = parse("t", &text, &BTreeMap::new()).unwrap();
        let parameters = template.bind(&BTreeMap::new()).unwrap();
        template.resources[0].definition_digest(&parameters)
    };
    let plain = digest("", "x");
    assert_eq!(digest("deletion_policy: delete", "x"), plain, "the default, said aloud");
    let all = [
        plain,
        digest("deletion_policy: retain", "x"),
        digest("external_id: x", "x"),
        digest("external_id: x, deletion_policy: retain", "x"),
        digest("external_id: {get_param: id}", "x"),
        digest("external_id: {get_param: id}", "y"),
        digest("properties: {values: {external_id: x}}", "x"),
    ];
    let different: std::collections::BTreeSet<u128> = all.into_iter().collect();
    assert_eq!(different.len(), all.len());
}

#[test]
fn what_is_wrong_with_a_secret_is_said_without_it() {
    for kind in ["number", "boolean", "json"] {
        let text = format!(
            "heat_template_version: 2018-08-31\nparameters:\n  pin: {{type: {kind}, hidden: true}}\nresources: {}\n",
            "{}"
        );
        let template = parse("t.yaml", &text, &BTreeMap::new()).unwrap();
        let given = [("pin".to_owned(), Value::from("hunter22"))].into();
        let error = template.bind(&given).unwrap_err().to_string();
        assert!(error.contains("pin") && !error.contains("hunter22"), "{error}");
        let environment = Environment::parse([("e.yaml", "parameters: {pin: hunter22}\n")]).unwrap();
        let error = template.bind_with(&environment, &BTreeMap::new()).unwrap_err().to_string();
        assert!(error.contains("e.yaml") && !error.contains("hunter22"), "{error}");
    }
}

#[test]
fn what_is_no_template_says_what_one_looks_like() {
    let said = |text: &str| parse("t", text, &BTreeMap::new()).unwrap_err().to_string();
    assert_eq!(
        said("- a\n"),
        "t:1:1: a template is a map of sections; this is something else; its first line is 'heat_template_version: \
         2018-08-31', then comes 'resources:'"
    );
    let indented = said("heat_template_version: 2018-08-31\nresources:\n    a: {type: x}\n   b: {type: x}\n");
    assert!(indented.contains("is this line, or the one above, indented by more or less"), "{indented}");
}

/// YAML 1.1 makes 420 of `0644`, as Heat reads it; a mode is what is written.
#[test]
fn the_mode_of_a_file_is_as_it_is_written() {
    let read = |mode: &str| {
        let text = format!(
            "heat_template_version: 2018-08-31\nresources:\n  f: {{type: Muster::File, properties: {{path: /f, content: x, \
             node: n, mode: {mode}}}}}\n"
        );
        let template = parse("t", &text, &BTreeMap::new()).map_err(|errors| errors.to_string())?;
        let parameters = template.bind(&BTreeMap::new()).map_err(|errors| errors.to_string())?;
        template.render(0, &parameters, &crate::render::Unknown).map_err(|error| error.to_string())
    };
    for (mode, wanted) in [("0644", "0644"), ("0o644", "0o644"), ("'0644'", "0644"), ("04755", "04755")] {
        let made = read(mode).expect(mode);
        assert_eq!(made["mode"], wanted, "{mode}");
        assert!(spec(Kind::File, &made).is_ok(), "{mode}");
    }
    // An ambiguous mode is refused.
    for mode in ["644", "420", "!!int 0644"] {
        let said = read(mode).expect_err(mode);
        assert!(said.contains("want octal text in quotes such as \"0644\", got the number"), "{said}");
    }
}

#[test]
fn of_what_is_given_twice_the_last_counts() {
    let text = "heat_template_version: 2018-08-31\noutputs:\n  o: {value: 1}\nresources:\n  a: {type: Muster::Dummy}\n  \
                a: {type: OS::Heat::None}\noutputs:\n  o: {value: 2, value: {x: {get_param: none}, x: 3}}\n";
    let template = parse("t", text, &BTreeMap::new()).map_err(|errors| errors.to_string());
    let template = template.expect("the last of each is right");
    assert_eq!((template.resources.len(), template.resources[0].kind), (1, Kind::None));
    let parameters = template.bind(&BTreeMap::new()).expect("nothing is asked for");
    let value = template.render_output(0, &parameters, &crate::render::Unknown);
    assert_eq!(value, Ok(json!({"x": 3})));
    let warnings: Vec<String> = template.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert_eq!(
        warnings[0],
        "t:6:3: resources.a: 'a' is given twice, and this one counts; the first is at 5:3"
    );
}

/// A text that looks like a MAC address, a time or a code may be a number.
#[test]
fn numbers_of_base_8_and_60_are_warned_of() {
    let text = "heat_template_version: 2018-08-31\noutputs:\n  o: {value: {a: 10:20:30:40:50:01, b: 0042, c: 0o42, mode: 0755, d: '0042', \
                e: 52:54:00:aa:bb:cc, f: 0x42}}\n";
    let template = parse("t", text, &BTreeMap::new()).expect("it is read");
    let warnings: Vec<String> = template.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "t:3:18: outputs.o.value.a: this is the number 8041827001 in YAML 1.1, as Heat reads it; quote it if text is meant",
            "t:3:40: outputs.o.value.b: this is the number 34 in YAML 1.1, as Heat reads it; quote it if text is meant",
        ]
    );
}
