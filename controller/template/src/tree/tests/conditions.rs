//! Conditions in nested stacks.

use serde_json::json;

use super::*;

const NESTED: &str = "parameters: {go: {type: boolean, default: true}, p: {type: string, default: x}}\n\
    conditions: {stop: {not: {get_param: go}}}\n\
    resources:\n  \
      a: {type: OS::Heat::Value, condition: {get_param: go}, properties: {value: 1}}\n  \
      b: {type: OS::Heat::Value, properties: {value: {if: [stop, none, {get_attr: [a, value]}]}}}\n\
    outputs: {o: {value: {get_attr: [b, value]}}, a: {condition: stop, value: there}}";

#[test]
fn a_condition_decides_what_is_in_a_nested_stack() {
    for (given, names, value, output) in [
        ("{}", "n n/a n/b", json!(1), json!(null)),
        ("{go: true}", "n n/a n/b", json!(1), json!(null)),
        ("{go: false}", "n n/b", json!("none"), json!("there")),
    ] {
        let root = format!(
            "resources: {{n: {{type: n.yaml, properties: {given}}}}}\n\
             outputs: {{o: {{value: {{get_attr: [n, o]}}}}, a: {{value: {{get_attr: [n, a]}}}}}}"
        );
        let tree = grown(&root, &[("n.yaml", NESTED)], "{}").unwrap();
        let there: Vec<&str> = (0..tree.len()).map(|index| tree.name(index)).collect();
        assert_eq!(there.join(" "), names, "{given}");
        assert_eq!(outputs(&tree), json!({"o": value, "a": output}), "{given}");
    }
}

#[test]
fn a_condition_that_is_known_later() {
    let root = "resources: {v: {type: OS::Heat::Value, properties: {value: true}}, \
        n: {type: n.yaml, properties: {go: {get_attr: [v, value]}}}}";
    let tree = grown(root, &[("n.yaml", NESTED)], "{}").unwrap();
    let there: Vec<&str> = (0..tree.len()).map(|index| tree.name(index)).collect();
    assert_eq!(there, ["n", "n/b", "v"]);
    assert_eq!(tree.is_as_expanded(tree.index_of("n/b").unwrap(), &Made(&tree)), Ok(false));
}

#[test]
fn a_condition_of_the_root_leaves_a_nested_stack_out() {
    let root = |on: bool| {
        format!(
            "conditions: {{c: {on}}}\nresources: {{n: {{type: n.yaml, condition: c}}, z: {{type: OS::Heat::Value, \
             properties: {{value: {{if: [c, {{get_attr: [n, o]}}, 0]}}}}}}}}"
        )
    };
    assert_eq!(grown(&root(true), &[("n.yaml", NESTED)], "{}").unwrap().len(), 4);
    assert_eq!(grown(&root(false), &[("n.yaml", NESTED)], "{}").unwrap().len(), 1);
}

#[test]
fn constraints_hold_for_what_a_nested_stack_is_given() {
    let nested = "parameters: {p: {type: number, constraints: [{range: {max: 3}}]}}";
    let said =
        grown("resources: {n: {type: n.yaml, properties: {p: 4}}}", &[("n.yaml", nested)], "{}").unwrap_err();
    assert!(said.starts_with("root:2:47: resources.n.properties.p: "), "{said}");
}

/// Only the values of present resources may still change.
#[test]
fn wrong_values_of_present_resources_are_not_known_yet() {
    struct Many;
    impl CurrentResources for Many {
        fn reference(&self, _: &str) -> Option<String> {
            None
        }
        fn attribute(&self, path: &str, _: &str) -> Option<Value> {
            (path == "v").then(|| json!("many"))
        }
        fn removed(&self, _: &str) -> Removed {
            Removed::new()
        }
        fn is_there(&self, _: &str) -> bool {
            true
        }
    }
    let outer = "parameters: {p: {type: string}}\nresources: {n: {type: n.yaml, properties: {a: {get_param: p}, b: {get_param: p}}}}";
    let nested = "parameters: {a: {type: number}, b: {type: number}, c: {type: number, default: 1}}\n\
        resources: {g: {type: OS::Heat::ResourceGroup, properties: {count: {get_param: a}, resource_def: {type: OS::Heat::None}}}}";
    let files = [("outer.yaml", outer), ("n.yaml", nested)];
    let root = |kind: &str, given: &str| {
        format!(
            "resources: {{v: {{type: OS::Heat::Value, properties: {{value: 2}}}}, n: {{type: {kind}, properties: {{{given}}}}}}}"
        )
    };
    let attribute = "{get_attr: [v, value]}";
    for given in [
        root("outer.yaml", &format!("p: {attribute}")),
        root("n.yaml", &format!("a: {attribute}, b: {attribute}")),
    ] {
        let tree = grown(&given, &files, "{}").unwrap().with(&Many).unwrap();
        let group = (0..tree.len()).find(|at| tree.kind(*at) == Kind::Group).unwrap();
        assert_eq!(tree.is_as_expanded(group, &Made(&tree)), Ok(false), "{given}");
    }
    let said = grown(&root("n.yaml", &format!("a: {attribute}, b: 1, c: x")), &files, "{}").unwrap_err();
    assert!(said.contains("resources.n.properties.c: want a number"), "{said}");
}

/// As in Heat, nobody looks at what is not there.
#[test]
fn a_resource_that_a_condition_leaves_out_may_be_wrong() {
    let group = |given: &str| format!("OS::Heat::ResourceGroup, condition: c, properties: {{{given}}}");
    let made = |root: &str, files: &[(&str, &str)]| {
        let named = crate::StackNames { name: "web".into(), id: "7".into() };
        grown(root, files, "{}")?.of_stack(named).map_err(|errors| errors.to_string())
    };
    for (resource, wanted) in [
        (
            "OS::Nova::Server, condition: c, properties: {flavor: small}".to_owned(),
            "unknown resource type 'OS::Nova::Server'",
        ),
        (group("count: -1, resource_def: {type: OS::Heat::None}"), "want a whole number from 0 to"),
        (group("resource_definition: {type: OS::Heat::None}"), "has no property 'resource_definition'"),
        (
            group("count: 1, resource_def: {type: OS::Nova::Server}"),
            "unknown resource type 'OS::Nova::Server'",
        ),
        (
            "OS::Heat::ResourceChain, condition: c, properties: {resources: 7}".to_owned(),
            "resources.n.properties.resources: ",
        ),
        ("OS::Heat::SoftwareDeploymentGroup, condition: c".to_owned(), "needs the property 'servers'"),
        ("Muster::File, condition: c, properties: {paths: /srv/a}".to_owned(), "has no property 'paths'"),
        (
            "OS::Heat::Value, condition: c, properties: {value: [{get_param: gone}]}".to_owned(),
            "resources.n.properties.value[0].get_param: there is no parameter 'gone'",
        ),
        (
            "OS::Heat::Value, condition: c, properties: {value: {list_join: [',', [{get_attr: [m, value]}]]}}".to_owned(),
            "resources.n.properties.value.list_join[1][0].get_attr: there is no resource 'm'",
        ),
        (
            "OS::Heat::Value, condition: c, properties: {value: {if: [lost, 1, 2]}}".to_owned(),
            "resources.n.properties.value.if[0]: there is no condition 'lost'",
        ),
    ] {
        let root = |on: bool| format!("conditions: {{c: {on}}}\nresources: {{n: {{type: {resource}}}}}");
        let within = "resources: {s: {type: n.yaml}}";
        assert_eq!(made(&root(false), &[]).unwrap().len(), 0, "{resource}");
        assert_eq!(made(within, &[("n.yaml", &root(false))]).unwrap().len(), 1, "{resource}");
        for said in [made(&root(true), &[]), made(within, &[("n.yaml", &root(true))])] {
            let said = said.unwrap_err();
            assert!(said.contains(wanted), "{resource}\n  said   {said}\n  wanted {wanted}");
        }
    }
}

#[test]
fn an_unknown_type_that_a_condition_leaves_out_is_warned_of() {
    let root = "conditions: {c: false}\nresources: {n: {type: OS::Heat::Valeu, condition: c}}";
    let warned = grown(root, &[], "{}").unwrap().warnings();
    let wanted = "root:3:23: resources.n.type: where the condition holds: unknown resource type 'OS::Heat::Valeu'; did \
                  you mean 'OS::Heat::Value'?";
    assert_eq!(warned, [wanted]);
}
