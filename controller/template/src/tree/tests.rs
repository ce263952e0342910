//! Trees by table: what there is, what needs what, what values come to, and what is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{CurrentResources, NoResources, Removed, Tree};
use crate::{DriftPolicy, Environment, EnvironmentFile, Kind, Limits, References, parse_in};

mod addresses;
mod conditions;
mod groups;
mod random;
mod sets;
mod tripleo;

/// A tree of a root template with files beside it and an environment.
fn grown(root: &str, files: &[(&str, &str)], environment: &str) -> Result<Tree, String> {
    given(root, files, environment, json!({}))
}

fn given(root: &str, files: &[(&str, &str)], environment: &str, values: Value) -> Result<Tree, String> {
    let files: BTreeMap<String, String> =
        files.iter().map(|(key, text)| ((*key).to_owned(), templated(text))).collect();
    let environment = Environment::parse([EnvironmentFile { name: "e", key: "e", text: environment }])
        .map_err(|errors| errors.to_string())?;
    let maps = |kind: &str| environment.maps(kind);
    let template = parse_in("root", &templated(root), &files, Limits::TEXT, &maps);
    let template = template.map_err(|errors| errors.to_string())?;
    let values = values.as_object().unwrap().clone().into_iter().collect();
    let parameters = template.bind_with(&environment, &values).map_err(|errors| errors.to_string())?;
    Tree::new(Arc::new(template), Arc::new(parameters), &environment, &files)
        .map_err(|errors| errors.to_string())
}

/// As in Heat: `parameter_defaults` take the place of a default of a nested template, and of no other.
#[test]
fn a_forbidden_default_counts_where_no_environment_replaces_it() {
    let own = "parameters:\n  p: {type: string, default: abc, constraints: [{length: {max: 2}}]}\n";
    let root = "resources:\n  a: {type: nested.yaml}\n  b: {type: nested.yaml, properties: {p: x}}\n";
    let expanded =
        |root: &str, environment: &str| grown(root, &[("nested.yaml", own)], environment).map(drop);
    let wrong = |file: &str| format!("{file}:3:30: parameters.p.default: want at most 2 characters, got 3");
    let given = "parameter_defaults: {p: yz}";
    assert_eq!(expanded(root, given), Ok(()));
    // A mistake is told once, however many stacks are made of its template.
    assert_eq!(expanded(root, ""), Err(wrong("nested.yaml")));
    assert_eq!(expanded(own, given), Err(wrong("root")));
}

fn templated(text: &str) -> String {
    format!("heat_template_version: 2018-08-31\n{text}")
}

/// `name type < needs`, one a line.
fn shown(tree: &Tree) -> Vec<String> {
    let line = |index: usize| {
        let kind = tree.type_name(index).map_or(tree.kind(index).name(), |name| name);
        let needs: Vec<&str> = tree.requires(index).iter().map(|at| tree.name(*at as usize)).collect();
        format!("{} {kind} < {}", tree.name(index), needs.join(" "))
    };
    (0..tree.len()).map(line).collect()
}

/// Everything is made: an attribute is what the properties say, an id is the path.
struct Made<'a>(&'a Tree);

impl References for Made<'_> {
    fn resource_id(&self, index: u32) -> Option<String> {
        Some(format!("id-of-{}", self.0.name(index as usize)))
    }

    fn is_ready(&self, _: u32) -> bool {
        true
    }

    fn attribute(&self, index: u32, name: &str) -> Option<Value> {
        let properties = self.0.render(index as usize, self).ok()?;
        let spec = crate::spec(self.0.kind(index as usize), &properties).ok()?;
        spec.attribute(name)
    }
}

fn outputs(tree: &Tree) -> Value {
    let outputs = tree.outputs().iter().enumerate();
    let each = |(at, output): (usize, &crate::Output)| {
        let value = tree.render_output(at, &Made(tree));
        (output.key.to_string(), value.unwrap_or_else(|error| json!(error.to_string())))
    };
    Value::Object(outputs.map(each).collect())
}

fn property(tree: &Tree, path: &str, name: &str) -> Value {
    let index = tree.index_of(path).unwrap_or_else(|| panic!("no {path}: {:?}", shown(tree)));
    tree.render(index, &Made(tree)).unwrap_or_else(|error| panic!("{error}"))[name].clone()
}

const SERVER: &str = "parameters: {name: {type: string}, mtu: {type: number, default: 1500}}\n\
    resources:\n  \
      disk: {type: OS::Heat::Value, properties: {value: {get_param: mtu}}}\n  \
      host: {type: Muster::Dummy, properties: {values: {n: {get_param: name}, d: {get_attr: [disk, value]}}}}\n\
    outputs:\n  \
      name: {value: {get_attr: [host, n]}}\n  \
      disk: {value: {get_attr: [disk, value]}}\n  \
      OS::stack_id: {value: {get_resource: host}}\n";

#[test]
fn a_plain_template_is_its_own_tree() {
    let tree =
        grown("resources: {a: {type: OS::Heat::None}, b: {type: OS::Heat::None, depends_on: a}}", &[], "{}");
    let tree = tree.unwrap();
    assert!(tree.grown.is_none());
    assert_eq!(shown(&tree), ["a OS::Heat::None < ", "b OS::Heat::None < a"]);
}

#[test]
fn a_template_stands_for_what_is_in_it() {
    let root = "parameters: {p: {type: string, default: x}}\n\
        resources:\n  \
          first: {type: OS::Heat::Value, properties: {value: 9000}}\n  \
          web: {type: sub/server.yaml, properties: {name: {list_join: ['-', [web, {get_param: p}]]}, mtu: {get_attr: [first, value]}}}\n  \
          after: {type: Muster::Dummy, properties: {values: {of: {get_attr: [web, name]}, id: {get_resource: web}}}}\n\
        outputs: {name: {value: {get_attr: [web, name]}}, disk: {value: {get_attr: [web, disk]}}, all: {value: {get_attr: [web, outputs, name]}}, inner: {value: {get_attr: [web, resource.host, n]}}, id: {value: {get_attr: [web, resource.host]}}}";
    let tree = grown(root, &[("sub/server.yaml", SERVER)], "{}").unwrap();
    assert_eq!(
        shown(&tree),
        [
            "after Muster::Dummy < web",
            "first OS::Heat::Value < ",
            "web sub/server.yaml < first web/disk web/host",
            "web/disk OS::Heat::Value < first",
            "web/host Muster::Dummy < first web/disk",
        ]
    );
    assert_eq!(property(&tree, "web/host", "values"), json!({"n": "web-x", "d": 9000}));
    assert_eq!(property(&tree, "after", "values"), json!({"of": "web-x", "id": "id-of-web/host"}));
    assert_eq!(
        outputs(&tree),
        json!({"name": "web-x", "disk": 9000, "all": "web-x", "inner": "web-x", "id": "id-of-web/host"})
    );
}

#[test]
fn relative_names_are_from_where_they_stand() {
    let outer = "resources: {in: {type: b/inner.yaml}}";
    let inner = "resources: {x: {type: ../other.yaml}}";
    let other = "resources: {y: {type: OS::Heat::None}}";
    let files = [("a/outer.yaml", outer), ("a/b/inner.yaml", inner), ("a/other.yaml", other)];
    let tree = grown("resources: {o: {type: a/outer.yaml}}", &files, "{}").unwrap();
    assert!(tree.index_of("o/in/x/y").is_some());
}

#[test]
fn a_registry_says_what_types_are() {
    let root = "resources:\n  \
          a: {type: Site::Server, properties: {name: a}}\n  \
          b: {type: Site::Server, properties: {values: {v: 1}}}\n  \
          c: {type: Site::Nothing, properties: {whatever: 1}}\n  \
          d: {type: Muster::Dummy}\n";
    let environment = "resource_registry: {'Site::Server': server.yaml, 'Site::Nothing': OS::Heat::None, \
        Muster::Dummy: dummy.yaml, resources: {b: {'Site::Server': Muster::Dummy}}}";
    // In the template that stands for a type, the type is itself.
    let dummy = "parameters: {values: {type: json, default: {}}}\nresources: {real: {type: Muster::Dummy}}";
    let server = "parameters: {name: {type: string}}\nresources: {v: {type: OS::Heat::Value, properties: {value: {get_param: name}}}}";
    let tree = grown(root, &[("server.yaml", server), ("dummy.yaml", dummy)], environment).unwrap();
    assert_eq!(
        shown(&tree),
        [
            "a Site::Server < a/v",
            "a/v OS::Heat::Value < ",
            "b Site::Server < b/real",
            "b/real Muster::Dummy < ",
            "c Site::Nothing < ",
            "d Muster::Dummy < d/real",
            "d/real Muster::Dummy < ",
        ]
    );
}

#[test]
fn parameters_come_from_what_is_given_then_defaults() {
    let nested = "parameters: {p: {type: number, default: 1}, h: {type: string, hidden: true, default: s3cret}}\n\
        resources: {v: {type: OS::Heat::Value, properties: {value: [{get_param: p}, {get_param: h}]}}}";
    for (properties, environment, wanted) in [
        ("{}", "{}", json!([1, "s3cret"])),
        ("{}", "parameter_defaults: {p: '2'}", json!([2, "s3cret"])),
        ("{p: '3'}", "parameter_defaults: {p: 2}", json!([3, "s3cret"])),
        // As in Heat, null is what is empty of the type, and not what was not given.
        ("{p: null}", "{}", json!([0, "s3cret"])),
        ("{p: null, h: hush}", "parameter_defaults: {p: 2}", json!([0, "hush"])),
        ("{h: hush}", "{}", json!([1, "hush"])),
    ] {
        let root = format!("resources: {{n: {{type: n.yaml, properties: {properties}}}}}");
        let tree = grown(&root, &[("n.yaml", nested)], environment).unwrap();
        assert_eq!(property(&tree, "n/v", "value"), wanted);
        let secret = wanted[1].as_str().unwrap();
        assert_eq!(tree.without_hidden(&format!("it is {secret}.")), "it is ******.");
    }
}

#[test]
fn what_is_wrong_is_said_where_it_is_written() {
    let nested = "parameters: {p: {type: number}}\n\
        resources: {v: {type: OS::Heat::RandomString, properties: {length: {get_param: p}}}}\noutputs: {o: {value: 1}}";
    let cyclic = "resources: {again: {type: c.yaml}}";
    for (root, wanted) in [
        (
            "resources: {n: {type: n.yaml}}",
            "root:2:13: resources.n: 'n.yaml' needs the parameter 'p', which has no default",
        ),
        (
            "resources: {n: {type: n.yaml, properties: {p: many}}}",
            "root:2:47: resources.n.properties.p: want a number, got text",
        ),
        (
            "resources: {n: {type: n.yaml, properties: {p: 1, pp: 2}}}",
            "root:2:54: resources.n.properties.pp: 'n.yaml' has no parameter 'pp'; did you mean 'p'?",
        ),
        (
            "resources: {n: {type: m.yaml}}",
            "root:2:13: resources.n: the template 'm.yaml' was not given with this one; did you mean 'c.yaml'?",
        ),
        (
            "resources: {n: {type: c.yaml}}",
            "c.yaml:2:13: resources.again: templates are nested in a cycle: c.yaml -> c.yaml",
        ),
        (
            "resources: {n: {type: w.yaml}}",
            "w.yaml:2:1: resource: unknown section 'resource'; did you mean 'resources'?",
        ),
        (
            "resources: {n: {type: OS::Heat::Stack}}",
            "root:2:23: resources.n.type: OS::Heat::Stack is not supported, for its template is a text of another \
             site: name the template's file as the type",
        ),
        (
            "resources: {n: {type: OS::Nova::Server}, m: {type: OS::TripleO::Task}}",
            "root:2:23: resources.n.type: unknown resource type 'OS::Nova::Server'; what only a cloud has is mapped to a \
             template or to OS::Heat::None by 'resource_registry' in an environment",
        ),
        (
            "resources: {n: {type: OS::Nova::Server}, m: {type: OS::TripleO::Task}}",
            "root:2:52: resources.m.type: unknown resource type 'OS::TripleO::Task'; give the environment whose \
             'resource_registry' says what it is",
        ),
        (
            "resources: {n: {type: OS::Neutron::Pool}}",
            "root:2:23: resources.n.type: unknown resource type 'OS::Neutron::Pool'; did you mean 'OS::Neutron::Port'? \
             Or: what only a cloud has is mapped to a template or to OS::Heat::None",
        ),
        (
            "resources: {n: {type: Site::Server}}",
            "root:2:23: resources.n.type: unknown resource type 'Site::Server'; 'muster type list' has all types, and \
             'resource_registry' in an environment may say what others are",
        ),
        (
            "resources: {g: {type: OS::Heat::ResourceGroup, properties: {count: -1, resource_def: {type: OS::Heat::None}}}}",
            "root:2:68: resources.g.properties.count: want a whole number from 0 to 1000000",
        ),
        (
            "resources: {g: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: OS::Heat::Nothing}}}}",
            "root:2:75: resources.g.properties.resource_def.properties: unknown resource type 'OS::Heat::Nothing'; did \
             you mean 'OS::Heat::None'?",
        ),
        (
            "resources: {g: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: OS::Heat::ResourceGroup, \
             properties: {cuont: 2, resource_def: {type: OS::Heat::None}}}}}}",
            "resources.g.properties.resource_def.properties.cuont: OS::Heat::ResourceGroup has no property 'cuont'; did \
             you mean 'count'?",
        ),
        (
            "resources: {g: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: Muster::Dummy, properties: {value: 1}}}}}",
            "root:2:110: resources.g.properties.resource_def.properties.value: Muster::Dummy has no property 'value'; did \
             you mean 'values'?",
        ),
    ] {
        let files = [("n.yaml", nested), ("c.yaml", cyclic), ("w.yaml", "resource: {}")];
        let said = grown(root, &files, "{}").err().unwrap_or_default();
        assert!(said.lines().any(|line| line.contains(wanted)), "{root}\n  said   {said}\n  wanted {wanted}");
    }
    let root =
        "resources: {n: {type: n.yaml, properties: {p: 1}}}\noutputs: {x: {value: {get_attr: [n, oo]}}}";
    let tree = grown(root, &[("n.yaml", nested)], "{}").unwrap();
    assert_eq!(
        outputs(&tree)["x"],
        "root:3:22: outputs.x.value.get_attr: 'n.yaml' has no output 'oo'; did you mean 'o'?"
    );
}

/// As Heat's code has it; `2013-05-23` has paths too.
#[test]
fn a_path_of_an_attribute_leads_nowhere() {
    let nested = "outputs: {o: {value: {here: [a, b], none: null, empty: '', text: abc}}}";
    let root = "resources: {n: {type: n.yaml}}\noutputs:\n";
    for (path, wanted) in [
        ("here, 1", json!("b")),
        ("here, -1", json!("b")),
        ("here, 2", json!(null)),
        ("here, key", json!(null)),
        ("gone, and, more", json!(null)),
        ("none, key", json!(null)),
        ("empty, 0", json!(null)),
        ("text, key", json!(null)),
        (
            "text, 0",
            json!(
                "root:4:14: outputs.x.value.get_attr: the attribute 'o' of 'n' is text here, it has no '0'"
            ),
        ),
    ] {
        let root = format!("{root}  x: {{value: {{get_attr: [n, o, {path}]}}}}");
        let tree = grown(&root, &[("n.yaml", nested)], "{}").unwrap();
        assert_eq!(outputs(&tree)["x"], wanted, "{path}");
    }
    let members = "resources: {g: {type: OS::Heat::ResourceChain, properties: {resources: [n.yaml, m.yaml]}}}\n\
        outputs: {x: {value: {get_attr: [g, o, here]}}}";
    let tree = grown(members, &[("n.yaml", nested), ("m.yaml", "outputs: {o: {value: {}}}")], "{}").unwrap();
    assert_eq!(outputs(&tree)["x"], json!([["a", "b"], null]));
    let first = "heat_template_version: 2013-05-23\nresources: {v: {type: OS::Heat::Value, properties: {value: [a]}}}\n\
        outputs: {o: {value: {get_attr: [v, value, 0]}}}";
    crate::parse("t", first, &BTreeMap::new()).unwrap();
}

/// A former name in Heat is the same type, and an environment may map it.
#[test]
fn former_names_of_types() {
    for name in ["OS::Heat::SoftwareDeployments", "OS::Heat::StructuredDeployments"] {
        let config = if name.contains("Software") { "Software" } else { "Structured" };
        let root = format!(
            "resources:\n  c: {{type: OS::Heat::{config}Config}}\n  \
             g: {{type: {name}, properties: {{config: {{get_resource: c}}, servers: {{a: web-1, b: web-2}}}}}}"
        );
        let tree = grown(&root, &[], "{}").unwrap();
        let wanted = ["c OS::Heat::XConfig < ", "g OS::Heat::XDeploymentGroup < c g/a g/b"]
            .into_iter()
            .chain(["g/a OS::Heat::XDeployment < c", "g/b OS::Heat::XDeployment < c"])
            .map(|line| line.replace('X', config));
        assert!(shown(&tree).into_iter().eq(wanted), "{:?}", shown(&tree));
        let mapped = grown(&root, &[], &format!("resource_registry: {{'{name}': OS::Heat::None}}")).unwrap();
        assert_eq!(mapped.len(), 2);
    }
}

#[test]
fn definitions_change_with_what_they_are_made_of() {
    let nested = |size: &str, output: &str| {
        format!(
            "parameters: {{p: {{type: string, default: d}}, q: {{type: string, default: d}}}}\n\
             resources: {{a: {{type: OS::Heat::Value, properties: {{value: [{{get_param: p}}, {size}]}}}}, \
             b: {{type: OS::Heat::Value, properties: {{value: {{get_param: q}}}}}}}}\noutputs: {{o: {{value: {output}}}}}"
        )
    };
    let definitions = |root: &str, nested: &str| {
        let tree = grown(root, &[("n.yaml", nested)], "{}").unwrap();
        let each = |index: usize| (tree.name(index).to_owned(), tree.definition(index));
        (0..tree.len()).map(each).collect::<BTreeMap<String, u128>>()
    };
    let root = |properties: &str, more: &str| {
        format!(
            "resources: {{n: {{type: n.yaml, properties: {properties}{more}}}, z: {{type: OS::Heat::None}}}}"
        )
    };
    let before = definitions(&root("{p: x}", ""), &nested("1", "1"));
    for (properties, more, size, output, changed) in [
        ("{p: x}", "", "1", "1", vec![]),
        ("{p: y}", "", "1", "1", vec!["n", "n/a"]),
        ("{p: x, q: x}", "", "1", "1", vec!["n", "n/b"]),
        ("{p: x, q: d}", "", "1", "1", vec![]),
        ("{p: x}", "", "2", "1", vec!["n/a"]),
        ("{p: x}", "", "1", "2", vec!["n"]),
        ("{p: x}", ", depends_on: z", "1", "1", vec!["n", "n/a", "n/b"]),
    ] {
        let after = definitions(&root(properties, more), &nested(size, output));
        let differs: Vec<&str> =
            after.iter().filter(|(name, of)| before[*name] != **of).map(|(name, _)| &**name).collect();
        assert_eq!(differs, changed, "{properties} {more} {size} {output}");
    }
}

#[test]
fn what_is_retained_or_external() {
    let nested = "parameters: {id: {type: string}}\nresources: {a: {type: Muster::Dummy, external_id: {get_param: id}}, b: {type: Muster::Dummy}}";
    let tree = grown(
        "resources: {n: {type: n.yaml, deletion_policy: retain, properties: {id: there}}, m: {type: n.yaml, properties: {id: x}}}",
        &[("n.yaml", nested)],
        "{}",
    )
    .unwrap();
    let at = |name: &str| tree.index_of(name).unwrap();
    assert_eq!(tree.external_id(at("n/a")).unwrap().as_deref(), Some("there"));
    assert!(tree.is_external(at("n/a")) && !tree.is_external(at("n/b")) && !tree.is_external(at("n")));
    assert!(tree.retains(at("n/b")) && tree.retains(at("n")) && !tree.retains(at("m/b")));
}

#[test]
fn a_drift_policy_holds_for_nested_resources_and_nothing_more() {
    let nested = "resources: {a: {type: Muster::Dummy, drift_policy: ignore}, b: {type: Muster::Dummy}}";
    let of = |policy: &str| {
        let root = format!(
            "resources: {{n: {{type: n.yaml{policy}}}, g: {{type: OS::Heat::ResourceGroup{policy}, \
             properties: {{count: 1, resource_def: {{type: Muster::Dummy}}}}}}, m: {{type: n.yaml}}}}"
        );
        grown(&root, &[("n.yaml", nested)], "{}").unwrap()
    };
    let (tree, other) = (of(", drift_policy: correct"), of(", drift_policy: report"));
    let policy = |name: &str| tree.drift_policy(tree.index_of(name).unwrap());
    let wanted = [
        ("n/a", Some(DriftPolicy::Ignore)),
        ("n/b", Some(DriftPolicy::Correct)),
        ("g/0", Some(DriftPolicy::Correct)),
        ("m/a", Some(DriftPolicy::Ignore)),
        ("m/b", None),
    ];
    for (name, wanted) in wanted {
        assert_eq!(policy(name), wanted, "{name}");
        let index = tree.index_of(name).unwrap();
        let same = tree.definition(index) == other.definition(index);
        assert_eq!(same, policy(name) != Some(DriftPolicy::Correct), "{name} is another if its policy is");
    }
}

#[test]
fn depth_and_passing_on_are_bounded() {
    let files: Vec<(String, String)> = (0..12)
        .map(|n| (format!("{n}.yaml"), format!("resources: {{r: {{type: {}.yaml}}}}", n + 1)))
        .chain([("12.yaml".to_owned(), "resources: {r: {type: OS::Heat::None}}".to_owned())])
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(key, text)| (&**key, &**text)).collect();
    assert!(grown("resources: {r: {type: 3.yaml}}", &files, "{}").is_ok());
    let said = grown("resources: {r: {type: 0.yaml}}", &files, "{}").unwrap_err();
    assert!(said.contains("nested at most 10 deep"), "{said}");
    // Each hands on what the one before has.
    let pass = "parameters: {p: {type: string, default: x}}\noutputs: {o: {value: {get_param: p}}}";
    let chain = |count: usize| {
        let one = |n: usize| match n {
            0 => "r0: {type: pass.yaml}".to_owned(),
            n => format!("r{n}: {{type: pass.yaml, properties: {{p: {{get_attr: [r{}, o]}}}}}}", n - 1),
        };
        let all: Vec<String> = (0..count).map(one).collect();
        format!(
            "resources: {{{}}}\noutputs: {{o: {{value: {{get_attr: [r{}, o]}}}}}}",
            all.join(", "),
            count - 1
        )
    };
    let tree = grown(&chain(15), &[("pass.yaml", pass)], "{}").unwrap();
    assert_eq!(outputs(&tree)["o"], "x");
    let said = grown(&chain(3000), &[("pass.yaml", pass)], "{}").unwrap_err();
    assert!(said.contains("passes through more than"), "{said}");
}

#[test]
fn what_is_there_counts_where_it_is_asked_for() {
    struct There;
    impl CurrentResources for There {
        fn reference(&self, path: &str) -> Option<String> {
            Some(format!("id-{path}"))
        }
        fn attribute(&self, path: &str, name: &str) -> Option<Value> {
            (path == "n" && name == "value").then(|| json!(2))
        }
        fn removed(&self, _: &str) -> Removed {
            Removed::from([("0".into(), None)])
        }
        fn is_there(&self, _: &str) -> bool {
            true
        }
    }
    let root = "resources: {n: {type: OS::Heat::Value, properties: {value: 3}}, \
        g: {type: OS::Heat::ResourceGroup, properties: {count: {get_attr: [n, value]}, resource_def: {type: OS::Heat::None}}}, \
        after: {type: OS::Heat::Value, properties: {value: {get_attr: [g, refs]}}}}";
    let tree = grown(root, &[], "{}").unwrap();
    assert_eq!(
        shown(&tree),
        ["after OS::Heat::Value < g", "g OS::Heat::ResourceGroup < n", "n OS::Heat::Value < "]
    );
    let at = tree.index_of("g").unwrap();
    assert_eq!(tree.is_as_expanded(at, &Made(&tree)), Ok(false));
    assert_eq!(tree.is_as_expanded(at, &super::Unknown), Ok(true), "nobody can tell");
    let tree = tree.with(&There).unwrap();
    let names: Vec<&str> = (0..tree.len()).map(|index| tree.name(index)).collect();
    assert_eq!(names, ["after", "g", "g/1", "g/2", "n"], "as it was known, and without what was removed");
    assert_eq!(
        tree.is_as_expanded(tree.index_of("g/1").unwrap(), &Made(&tree)),
        Ok(false),
        "now there are three"
    );
    assert!(tree.with(&NoResources).unwrap().index_of("g/1").is_none());
}
