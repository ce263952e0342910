//! Functions over references, lists and maps.

use serde_json::json;

use super::{gives, says, value, value_of};
use crate::render::Unresolved;

#[test]
fn get_param_follows_paths() {
    gives(&[
        ("{get_param: text}", json!("some text")),
        ("{get_param: number}", json!(3)),
        ("{get_param: list}", json!(["a", "b", "c"])),
        ("{get_param: [list, 1]}", json!("b")),
        ("{get_param: [list, '1']}", json!("b")),
        ("{get_param: [site, dns, 0]}", json!("10.0.0.53")),
        ("{get_param: [site, name, short]}", json!("lab")),
        ("{get_param: [site, name, {get_param: which}]}", json!("lab")),
        ("{get_param: [site, dns]}", json!(["10.0.0.53", "10.0.1.53"])),
        ("{get_param: [site, none]}", json!(null)),
        ("{get_param: [list, -1]}", json!("c")),
        ("{get_param: [site]}", value("{get_param: site}").unwrap()),
        // Heat's code: a path that leads nowhere
        ("{get_param: [site, name, shrt]}", json!("")),
        ("{get_param: [site, nothing, at, all, 0]}", json!("")),
        ("{get_param: [site, none, key]}", json!("")),
        ("{get_param: [site, dns, key]}", json!("")),
        ("{get_param: [site, {get_param: [site, none]}]}", json!("")),
        ("{get_param: [list, 3]}", json!("")),
        ("{get_param: [list, -4]}", json!("")),
        ("{get_param: [number, 0]}", json!("")),
        ("{get_param: [text, key]}", json!("")),
        ("{if: [{equals: [{get_param: [site, KernelArgs]}, '']}, none, some]}", json!("none")),
    ]);
    says(&[
        ("{get_param: txt}", ".get_param: there is no parameter 'txt'; did you mean 'text'?"),
        ("{get_param: [site, [name]]}", ".get_param: want a key or an index, got a list"),
        ("{get_param: [text, 0]}", ".get_param: the parameter 'text' is text here, it has no '0'"),
        ("{get_param: []}", ".get_param: want [PARAMETER, KEY, …], got an empty list"),
    ]);
}

#[test]
fn pseudo_parameters_come_from_the_stack() {
    gives(&[
        ("{get_param: OS::stack_name}", json!("web")),
        ("{get_param: 'OS::stack_id'}", json!("7")),
        ("{list_join: ['-', [{get_param: OS::stack_name}, volume]]}", json!("web-volume")),
    ]);
    says(&[
        (
            "{get_param: OS::project_id}",
            ".get_param: the parameter 'OS::project_id' is not supported: there are no projects here",
        ),
        (
            "{get_param: OS::stack_nam}",
            ".get_param: there is no parameter 'OS::stack_nam'; did you mean 'OS::stack_name'?",
        ),
        (
            "{get_param: [OS::stack_name, 0]}",
            ".get_param: the parameter 'OS::stack_name' is text; it has no keys",
        ),
    ]);
}

#[test]
fn get_file_gives_the_content() {
    gives(&[("{get_file: f.txt}", json!("content of f"))]);
    says(&[(
        "{get_file: g.txt}",
        ".get_file: the file 'g.txt' was not given with the template; did you mean 'f.txt'?",
    )]);
}

#[test]
fn get_node_asks_for_facts() {
    use crate::render::References;

    struct Web;
    impl References for Web {
        fn resource_id(&self, _: u32) -> Option<String> {
            None
        }
        fn attribute(&self, _: u32, _: &str) -> Option<serde_json::Value> {
            None
        }
        fn of_node(&self, node: &str, path: &[String]) -> Result<Option<serde_json::Value>, Unresolved> {
            Ok((node == "web-1").then(|| json!(path.join("/"))))
        }
    }
    let rendered = |value: &str| {
        let text = format!(
            "heat_template_version: 2013-05-23\nparameters:\n  node: {{type: string, default: web-1}}\n\
             resources:\n  a: {{type: Muster::Dummy, properties: {{values: {{x: {value}}}}}}}\n"
        );
        let template = crate::parse("t", &text, &Default::default()).map_err(|errors| errors.to_string())?;
        let parameters = template.bind(&Default::default()).map_err(|errors| errors.to_string())?;
        template.render(0, &parameters, &Web).map_err(|error| error.to_string())
    };
    for (value, wanted) in [
        ("{get_node: [web-1, os, id]}", "os/id"),
        ("{get_node: [{get_param: node}, links, eth0.7, mac]}", "links/eth0.7/mac"),
        ("{get_node: [web-1, {list_join: ['', [o, s]]}, id]}", "os/id"),
        ("{get_node: [web-1, addresses, 0]}", "unknown fact 'addresses'"),
        ("{get_node: [web-1, memry]}", "unknown fact 'memry'; did you mean 'memory'?"),
        ("{get_node: [web-1]}", "too few items"),
        ("{get_node: name}", "want [NODE, FACT, KEY, …]"),
        ("{get_node: [web-2, os, id]}", "waits for the facts of the node 'web-2'"),
        ("{get_node: [web-1, os, [id]]}", "want a key or an index"),
    ] {
        match rendered(value) {
            Ok(properties) => assert_eq!(properties["values"]["x"], wanted, "{value}"),
            Err(error) => assert!(error.contains(wanted), "{value}: {error}"),
        }
    }
    let elsewhere = [
        "outputs: {o: {value: {get_node: [web-1, os, id]}}}",
        "conditions: {c: {equals: [{get_node: [web-1, os, id]}, debian]}}",
        "resources: {g: {type: OS::Heat::ResourceGroup, properties: {count: {get_node: [web-1, cpus]}, resource_def: {type: Muster::Dummy}}}}",
        "resources: {n: {type: n.yaml, properties: {p: {get_node: [web-1, cpus]}}}}",
    ];
    for text in elsewhere {
        let text = format!("heat_template_version: 2018-08-31\n{text}\n");
        let error = crate::parse("t", &text, &Default::default()).unwrap_err().to_string();
        assert!(error.contains("get_node"), "{text}: {error}");
    }
}

/// Whether a fact chooses a node, in the property itself or by way of another resource.
#[test]
fn a_fact_chooses_no_node() {
    let fact = "{get_node: [web-7, hostname]}";
    let value = format!("v: {{type: OS::Heat::Value, properties: {{value: {fact}}}}}");
    let file = |node: &str| {
        format!("f: {{type: Muster::File, properties: {{path: /etc/a, content: a, node: {node}}}}}")
    };
    let rule = "r: {type: Muster::FlowRule, properties: {priority: 1, selector: {}, treatment: [], device: ";
    for (resources, path) in [
        (file(fact), "f.properties.node.get_node"),
        (file("{list_join: ['.', [{get_node: [web-7, {get_param: p}]}, example.org]]}"), "node.list_join"),
        (
            format!("s: {{type: OS::Heat::DeployedServer, properties: {{name: {fact}}}}}"),
            "s.properties.name.get_node",
        ),
        (format!("{rule}{{list_join: [/, [{fact}, br0]]}}}}}}"), "r.properties.device.list_join"),
        (
            format!("d: {{type: OS::Heat::SoftwareDeployment, properties: {{config: c, server: {fact}}}}}"),
            "d.properties.server.get_node",
        ),
        (format!("{value}, {}", file("{get_attr: [v, value]}")), "f.properties.node: 'v' passes a fact on"),
        (
            format!(
                "{value}, w: {{type: OS::Heat::Value, properties: {{value: {{get_attr: [v, value]}}}}}}, {}",
                file("{get_attr: [w, value]}")
            ),
            "f.properties.node: 'w' passes a fact on",
        ),
        // Names and labels are the site's, and content is not a place.
        (file("{get_node: [web-7, name]}"), ""),
        (file("{get_node: [web-7, labels, partner]}"), ""),
        (
            format!(
                "{value}, f: {{type: Muster::File, properties: {{path: /etc/a, content: {{get_attr: [v, value]}}, node: web-1}}}}"
            ),
            "",
        ),
        (
            format!(
                "s: {{type: OS::Heat::DeployedServer, properties: {{name: web-1}}}}, {}",
                file("{get_resource: s}")
            ),
            "",
        ),
    ] {
        let text = format!(
            "heat_template_version: 2018-08-31\nparameters: {{p: {{type: string, default: hostname}}}}\n\
             resources: {{{resources}}}\n"
        );
        let said = crate::parse("t", &text, &Default::default())
            .map_or_else(|errors| errors.to_string(), |_| String::new());
        assert_eq!(said.contains("does not choose a node"), !path.is_empty(), "{resources}: {said}");
        assert!(said.contains(path), "{resources}: {said}");
    }
}

#[test]
fn list_concat_and_filter() {
    gives(&[
        // Heat's documentation
        ("{list_concat: [[v1, v2], [v3, v4]]}", json!(["v1", "v2", "v3", "v4"])),
        ("{list_concat_unique: [[v1, v2], [v2, v3]]}", json!(["v1", "v2", "v3"])),
        ("{filter: [[3], [1, 2, 3]]}", json!([1, 2])),
        // Heat's code
        ("{list_concat: [[v1], null, []]}", json!(["v1"])),
        ("{list_concat_unique: [[a, b, a]]}", json!(["a", "b"])),
        ("{list_concat_unique: [[1, 1.0, '1', {a: 1}], [{a: 1.0}]]}", json!([1, "1", {"a": 1}])),
        ("{list_concat: []}", json!([])),
        ("{list_concat: [{get_param: list}, [d]]}", json!(["a", "b", "c", "d"])),
        ("{filter: [[b, {x: 1}], {list_concat: [{get_param: list}, [{x: 1}]]}]}", json!(["a", "c"])),
        ("{filter: [null, [1]]}", json!([1])),
        ("{filter: [[1], null]}", json!(null)),
    ]);
    says(&[
        ("{list_concat: [[1], x]}", ".list_concat[1]: want a list, got text"),
        ("{list_concat: [{get_param: text}]}", ".list_concat[0]: want a list, got text"),
        ("{list_concat: x}", ".list_concat: want a list of lists, got text"),
        ("{list_concat_unique: [{get_param: site}]}", ".list_concat_unique[0]: want a list, got a map"),
        ("{filter: [1, [1]]}", ".filter[0]: want a list of values, got a number"),
        ("{filter: [[1], x]}", ".filter[1]: want a list to filter, got text"),
        ("{filter: [{get_param: list}]}", ".filter: want [VALUES, LIST], got too few items"),
    ]);
}

#[test]
fn map_merge_and_map_replace() {
    gives(&[
        // Heat's documentation
        ("{map_merge: [{k1: v1, k2: v2}, {k1: v2}]}", json!({"k1": "v2", "k2": "v2"})),
        ("{map_merge: []}", json!({})),
        (
            "{map_replace: [{k1: v1, k2: v2}, {keys: {k1: K1}, values: {v2: V2}}]}",
            json!({"K1": "v1", "k2": "V2"}),
        ),
        // Heat's code
        ("{map_merge: [null, {a: 1}, {b: {get_param: number}}]}", json!({"a": 1, "b": 3})),
        (
            "{map_merge: {repeat: {template: {k%: v}, for_each: {'%': [1, 2]}}}}",
            json!({"k1": "v", "k2": "v"}),
        ),
        ("{map_replace: [{a: 1}, {}]}", json!({"a": 1})),
        ("{map_replace: [{a: 1}, {keys: {a: a}}]}", json!({"a": 1})),
        ("{map_replace: [{a: [1], b: 5}, {values: {'5': five}}]}", json!({"a": [1], "b": 5})),
        ("{map_replace: [{a: [1], b: '5'}, {values: {'5': five}}]}", json!({"a": [1], "b": "five"})),
        ("{map_replace: [{a: x}, {keys: {a: {get_param: text}}}]}", json!({"some text": "x"})),
        ("{map_replace: [null, {keys: {a: b}}]}", json!({})),
    ]);
    says(&[
        ("{map_merge: [{a: 1}, x]}", ".map_merge[1]: want a map, got text"),
        ("{map_merge: [{get_param: list}]}", ".map_merge[0]: want a map, got a list"),
        ("{map_merge: {a: 1}}", ".map_merge: want a list of maps, got a map"),
        (
            "{map_replace: [{a: 1, b: 2}, {keys: {a: b}}]}",
            ".map_replace[1]: the key 'a' cannot become 'b': there is such a key",
        ),
        (
            "{map_replace: [{a: 1, b: 2}, {keys: {a: x, b: x}}]}",
            ".map_replace[1]: the key 'b' cannot become 'x': there is such a key",
        ),
        (
            "{map_replace: [{a: 1}, {key: {a: b}}]}",
            ".map_replace[1]: unknown key 'key' of map_replace; did you mean 'keys'?",
        ),
        ("{map_replace: [{a: 1}]}", ".map_replace: want [MAP, {keys: …, values: …}], got too few items"),
    ]);
}

#[test]
fn repeat_over_lists() {
    gives(&[
        // Heat's documentation
        (
            "{repeat: {for_each: {<%port%>: ['80', '443']}, template: {protocol: tcp, port_range_min: <%port%>}}}",
            json!([
                {"protocol": "tcp", "port_range_min": "80"},
                {"protocol": "tcp", "port_range_min": "443"}
            ]),
        ),
        (
            "{repeat: {for_each: {<%port%>: ['80', '443'], <%protocol%>: [tcp, udp]}, template: '<%protocol%>/<%port%>'}}",
            json!(["tcp/80", "udp/80", "tcp/443", "udp/443"]),
        ),
        (
            "{repeat: {for_each: {<%sub%>: [sub1, sub2], <%net%>: [net1, net2]}, template: {subnet: <%sub%>, network: <%net%>}, permutations: false}}",
            json!([{"subnet": "sub1", "network": "net1"}, {"subnet": "sub2", "network": "net2"}]),
        ),
        // Heat's code
        ("{repeat: {for_each: {x: {b: 1, a: 2}}, template: x}}", json!(["a", "b"])),
        ("{repeat: {for_each: {x: null}, template: x}}", json!([])),
        ("{repeat: {for_each: {x: []}, template: x}}", json!([])),
        (
            "{repeat: {for_each: {x: {get_param: list}}, template: {k-x: [x, 5, null]}}}",
            json!([
                {"k-a": ["a", 5, null]}, {"k-b": ["b", 5, null]}, {"k-c": ["c", 5, null]}
            ]),
        ),
        // The order is the text's, and what was put in is looked at again for the next one.
        ("{repeat: {for_each: {z: [y], y: [1]}, template: z}}", json!(["1"])),
        // Beyond Heat, which takes texts alone
        (
            "{repeat: {for_each: {x: [1, {a: 2}]}, template: [x, 'n x']}}",
            json!([
                [1, "n 1"], [{"a": 2}, "n {\"a\": 2}"]
            ]),
        ),
    ]);
    says(&[
        ("{repeat: {template: x}}", ".repeat: repeat wants both 'template' and 'for_each'"),
        ("{repeat: [x]}", ".repeat: want {template: …, for_each: …}, got a list"),
        (
            "{repeat: {for_each: {x: a}, template: x}}",
            ".repeat.for_each.x: want a list or a map to repeat over, got text",
        ),
        (
            "{repeat: {for_each: {x: {get_param: text}}, template: x}}",
            ".repeat.for_each.x: want a list or a map to repeat over, got text",
        ),
        (
            "{repeat: {for_each: {x: {get_param: site}}, template: x, permutations: false}}",
            ".repeat.for_each.x: want a list to repeat over, got a map",
        ),
        (
            "{repeat: {for_each: {x: [1], y: [1, 2]}, template: x, permutations: false}}",
            ".repeat.for_each: without permutations all lists have one length; 'x' has 1 items, another 2",
        ),
        (
            "{repeat: {for_each: {x: [1]}, template: x, permutations: 1}}",
            ".repeat: want true or false as 'permutations', got a number",
        ),
        (
            "{repeat: {for_each: {x: [1]}, templat: x}}",
            ".repeat: unknown key 'templat' of repeat; did you mean 'template'?",
        ),
    ]
    .map(|(text, wanted)| (text, wanted)));
}

#[test]
fn contains_looks_in_lists_and_texts() {
    gives(&[
        // Heat's documentation
        ("{contains: [v1, [v1, v2, v3]]}", json!(true)),
        ("{contains: [v4, [v1, v2, v3]]}", json!(false)),
        ("{contains: [b, {get_param: list}]}", json!(true)),
        ("{contains: [ext, {get_param: text}]}", json!(true)),
        ("{contains: [{a: 1}, [{a: 1.0}]]}", json!(true)),
        ("{contains: [1, ['1']]}", json!(false)),
    ]);
    says(&[
        ("{contains: [a]}", ".contains: want [VALUE, LIST], got too few items"),
        ("{contains: [a, {b: 1}]}", ".contains[1]: want a list to look in, got a map"),
        ("{contains: [1, {get_param: text}]}", ".contains[0]: only text can be in a text, got a number"),
    ]);
}

#[test]
fn digest_of_texts() {
    // As `hashlib` gives them for "hello"
    gives(&[
        ("{digest: [md5, hello]}", json!("5d41402abc4b2a76b9719d911017c592")),
        ("{digest: [sha1, hello]}", json!("aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d")),
        ("{digest: [sha224, hello]}", json!("ea09ae9cc6768c50fcee903ed054556e5bfc8347907f12598aa24193")),
        (
            "{digest: [SHA256, hello]}",
            json!("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"),
        ),
        (
            "{digest: [sha384, hello]}",
            json!(
                "59e1748777448c69de6b800d7a33bbfb9ff1b463e44354c3553bcdb9c666fa90125a3c79f90397bdf5f6a13de828684f"
            ),
        ),
        (
            "{digest: [sha512, hello]}",
            json!(
                "9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca72323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043"
            ),
        ),
    ]);
    says(&[
        ("{digest: [md4, hello]}", ".digest[0]: unknown algorithm 'md4'; did you mean 'md5'?"),
        ("{digest: [md5, 5]}", ".digest[1]: want text to digest, got a number"),
        ("{digest: [md5]}", ".digest: want [ALGORITHM, TEXT], got too few items"),
        ("{digest: [md5, {get_param: list}]}", ".digest[1]: want text to digest, got a list"),
    ]);
}

#[test]
fn get_attr_follows_paths() {
    let rest = "resources: {a: {type: Muster::Dummy}}";
    // Fixtures test references to resources; this is about the form.
    for (text, wanted) in [
        (
            "{get_attr: [a]}",
            ".get_attr: want [RESOURCE, ATTRIBUTE, KEY, …]: all attributes at once are not given, name one",
        ),
        ("{get_attr: []}", ".get_attr: want [RESOURCE, ATTRIBUTE, KEY, …], got too few items"),
        ("{get_attr: a}", ".get_attr: want [RESOURCE, ATTRIBUTE, KEY, …], got text"),
        ("{get_attr: [b, x]}", ".get_attr: there is no resource 'b'; did you mean 'a'?"),
        ("{get_resource: [a]}", ".get_resource: want the name of a resource, got a list"),
    ] {
        let error = value_of("wallaby", rest, text).unwrap_err();
        assert_eq!(error.rsplit_once("outputs.o.value").unwrap().1, wanted, "{text}");
    }
}

#[test]
fn functions_of_cfn_are_refused_with_what_to_write() {
    for (name, instead) in [
        ("Ref", "write get_resource or get_param"),
        ("Fn::GetAtt", "write get_attr"),
        ("Fn::Select", "write get_param or get_attr with a path"),
        ("Fn::Join", "write list_join"),
        ("Fn::Split", "write str_split"),
        ("Fn::Replace", "write str_replace"),
        ("Fn::If", "write if"),
        ("Fn::Equals", "write equals"),
        ("Fn::ResourceFacade", "write resource_facade"),
        ("Fn::FindInMap", "write get_param with a path into a parameter of type json"),
        ("Fn::GetAZs", "there are no availability zones here"),
        ("Fn::Base64", "HOT has none for it: write the text as it is"),
        ("Fn::MemberListToMap", "HOT has none for it: write a map"),
    ] {
        let error = value(&format!("{{'{name}': [a, b]}}")).unwrap_err();
        assert_eq!(
            error,
            format!("t:11:23: outputs.o.value: the function '{name}' is not supported; {instead}")
        );
    }
    says(&[("{Fn::Transform: x}", ": unknown function 'Fn::Transform'")]);
}

#[test]
fn data_with_keys_like_functions_is_data() {
    gives(&[
        ("{id: x}", json!({"id": "x"})),
        ("{on: x}", json!({"true": "x"})),
        ("{'on': x}", json!({"on": "x"})),
        ("{filters: [a]}", json!({"filters": ["a"]})),
        ("{digits: 5}", json!({"digits": 5})),
        ("{get_attr: subnet, cidr}", json!({"get_attr": "subnet", "cidr": null})),
        ("{str_replce: {get_param: text}}", json!({"str_replce": "some text"})),
        ("{get_params: x}", json!({"get_params": "x"})),
        ("{'get_param:Ceph': x}", json!({"get_param:Ceph": "x"})),
        ("{str_split: [a, b], x: {get_param: text}}", json!({"str_split": ["a", "b"], "x": "some text"})),
        ("{get_attr: , get_param: }", json!({"get_attr": null, "get_param": null})),
        ("{get_file: {get_param: text}, b: , c}", json!({"get_file": "some text", "b": null, "c": null})),
        (
            "{name: x, filter: y, if: z, not: 1, contains: 2}",
            json!({
                "name": "x", "filter": "y", "if": "z", "not": 1, "contains": 2
            }),
        ),
    ]);
}

/// As in Heat, a map that only looks like a function is data; Heat says nothing.
#[test]
fn data_that_looks_like_a_function_is_warned_of() {
    let warned = |value: &str| -> Vec<String> {
        let text = format!("heat_template_version: wallaby\noutputs: {{o: {{value: {value}}}}}\n");
        let template = crate::parse("t", &text, &Default::default()).expect(value);
        template.warnings.iter().map(|warning| warning.message.clone()).collect()
    };
    for (value, wanted) in [
        (
            "{str_replce: x}",
            "'str_replce' is no function, so this is data, as in Heat; did you mean 'str_replace'?",
        ),
        ("{get_url: x}", "'get_url' is no function, so this is data, as in Heat"),
        (
            "{x: 1, str_split: [a, b]}",
            "'str_split' is a function only where it is the only key of its map; this is data, as in Heat",
        ),
    ] {
        assert_eq!(warned(value), [wanted], "{value}");
    }
    for value in ["{get_attr: a, b}", "{get_input: x}", "{id: x}", "{digits: 5}", "{equals: [1, 1], x: 2}"] {
        assert_eq!(warned(value), [""; 0], "{value}");
    }
}
