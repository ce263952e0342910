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
