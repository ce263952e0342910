//! Resources for each node of a fleet.

use serde_json::json;

use super::*;
use crate::{Selector, Share};

/// Nodes with their labels, of which nothing else is known.
struct Fleet(&'static [(&'static str, &'static str)]);

impl CurrentResources for Fleet {
    fn reference(&self, _: &str) -> Option<String> {
        None
    }

    fn attribute(&self, _: &str, _: &str) -> Option<Value> {
        None
    }

    fn removed(&self, _: &str) -> Removed {
        Removed::new()
    }

    fn is_there(&self, _: &str) -> bool {
        false
    }

    fn nodes(&self, _: &str, selector: &Selector) -> Vec<Arc<str>> {
        let labels = |text: &str| {
            let pair =
                |pair: &str| pair.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            text.split(' ').filter_map(pair).collect()
        };
        let meant = self.0.iter().filter(|(_, text)| selector.matches(&labels(text), None));
        meant.map(|(name, _)| (*name).into()).collect()
    }
}

const FLEET: Fleet = Fleet(&[("web-2", "role=web"), ("db", "role=db"), ("web-1", "role=web zone=b")]);

fn over(fleet: &Fleet, root: &str) -> Result<Tree, String> {
    grown(root, &[], "{}")?.with(fleet).map_err(|errors| errors.to_string())
}

fn dummy(name: &str, selector: &str, more: &str) -> String {
    format!("  {name}: {{type: Muster::Dummy, for_each: {{nodes: '{selector}'}}{more}}}\n")
}

#[test]
fn there_is_one_for_each_node() {
    let all =
        ["resources:\n", &dummy("a", "role=web", ", properties: {values: {me: {get_node: name}}}")].concat();
    let tree = over(&FLEET, &all).unwrap();
    assert_eq!(
        shown(&tree),
        ["a Muster::Dummy < a[web-1] a[web-2]", "a[web-1] Muster::Dummy < ", "a[web-2] Muster::Dummy < "]
    );
    assert_eq!(property(&tree, "a[web-2]", "node"), json!("web-2"));
    assert_eq!(property(&tree, "a[web-2]", "values"), json!({"me": "web-2"}));
    assert_eq!(tree.kind(0), Kind::Set);
    assert_eq!((tree.set_of(0), tree.set_of(2)), (None, Some(0)));
    let set = tree.sets().next().unwrap();
    assert_eq!((set.name(), set.selector(), set.members()), ("a", "role=web", &[1, 2][..]));
    assert!(tree.looks_at_what_is_there() && !tree.asks_nodes(1));
    // Without a fleet, as before a controller has looked, and where nobody is meant.
    for none in [over(&Fleet(&[]), &all).unwrap(), grown(&all, &[], "{}").unwrap()] {
        assert_eq!(shown(&none), ["a Muster::Dummy < "]);
    }
}

#[test]
fn two_sets_are_paired_by_node_and_everybody_else_waits_for_all() {
    let root = [
        "resources:\n  base: {type: OS::Heat::None}\n",
        &dummy("a", "role", ", depends_on: base"),
        &dummy("b", "role=web", ", depends_on: [a, base]"),
        &dummy("c", "role=web", ", depends_on: [{resource: a, scope: all}, {resource: b}]"),
        &dummy("d", "role=web", ", depends_on: a, properties: {values: {all: {get_attr: [b, n]}}}"),
        "  end: {type: OS::Heat::None, depends_on: b}\n",
    ];
    let tree = over(&FLEET, &root.concat()).unwrap();
    assert_eq!(
        shown(&tree),
        [
            "a Muster::Dummy < a[db] a[web-1] a[web-2] base",
            "a[db] Muster::Dummy < base",
            "a[web-1] Muster::Dummy < base",
            "a[web-2] Muster::Dummy < base",
            "b Muster::Dummy < b[web-1] b[web-2] base",
            "b[web-1] Muster::Dummy < a[web-1] base",
            "b[web-2] Muster::Dummy < a[web-2] base",
            "base OS::Heat::None < ",
            "c Muster::Dummy < a c[web-1] c[web-2]",
            "c[web-1] Muster::Dummy < a b[web-1]",
            "c[web-2] Muster::Dummy < a b[web-2]",
            "d Muster::Dummy < b d[web-1] d[web-2]",
            "d[web-1] Muster::Dummy < a[web-1] b",
            "d[web-2] Muster::Dummy < a[web-2] b",
            "end OS::Heat::None < b",
        ]
    );
    // A node that comes touches nobody else's definition; a partner that comes does that of its own.
    let wider =
        over(&Fleet(&[("web-2", "role=web"), ("db", "role=web"), ("web-1", "role=web")]), &root.concat());
    let wider = wider.unwrap();
    let same = |name: &str| {
        let of = |tree: &Tree| tree.definition(tree.index_of(name).unwrap());
        of(&tree) == of(&wider)
    };
    for (name, wanted) in [("b[web-1]", true), ("c[web-2]", true), ("b", false), ("a", true), ("a[db]", true)]
    {
        assert_eq!(same(name), wanted, "{name}");
    }
    let pairs = |selector: &str| {
        let root =
            ["resources:\n", &dummy("a", selector, ""), &dummy("b", "role", ", depends_on: a")].concat();
        let tree = over(&FLEET, &root).unwrap();
        let definition = |name: &str| tree.definition(tree.index_of(name).unwrap());
        (definition("b[web-1]"), definition("b[db]"))
    };
    assert_eq!(pairs("role=web").0, pairs("role").0);
    assert_ne!(pairs("role=web").1, pairs("role").1);
}

#[test]
fn attributes_are_maps_by_node() {
    let root = [
        "resources:\n",
        &dummy("a", "role=web", ", properties: {values: {me: {get_node: name}}}"),
        &dummy("b", "role", ", properties: {values: {one: {get_attr: [a, me, {get_node: name}]}}}"),
        "outputs:\n  map: {value: {get_attr: [a, me]}}\n  one: {value: {get_attr: [a, me, web-2]}}\n  none: {value: {get_attr: [a, me, db]}}\n  ids: {value: {get_resource: a}}\n",
    ];
    let tree = over(&FLEET, &root.concat()).unwrap();
    assert_eq!(
        outputs(&tree),
        json!({"map": {"web-1": "web-1", "web-2": "web-2"}, "one": "web-2", "none": null,
            "ids": {"web-1": "id-of-a[web-1]", "web-2": "id-of-a[web-2]"}})
    );
    assert_eq!(property(&tree, "b[web-1]", "values"), json!({"one": "web-1"}));
    assert_eq!(property(&tree, "b[db]", "values"), json!({"one": null}));
}

#[test]
fn a_unit_restarts_for_the_file_of_its_own_node() {
    let root = "resources:\n  \
        f: {type: Muster::File, for_each: {nodes: zone}, properties: {path: /etc/x, content: {get_node: name}}}\n  \
        u: {type: Muster::Unit, for_each: {nodes: role=web}, properties: {name: x.service, restart_on: [f]}}\n";
    let tree = over(&FLEET, root).unwrap();
    assert_eq!(
        shown(&tree)[2..],
        [
            "u Muster::Unit < u[web-1] u[web-2]",
            "u[web-1] Muster::Unit < f[web-1]",
            "u[web-2] Muster::Unit < "
        ]
    );
    let states = |node: &str| property(&tree, &format!("u[{node}]"), "restart_on");
    assert_ne!(states("web-1"), json!([""]));
    assert_eq!(states("web-2"), json!([""]));
}

#[test]
fn selectors_and_rollouts_follow_from_parameters() {
    let root = "parameters: {s: {type: string, default: role=db}, b: {type: string, default: 50%}}\n\
        resources: {a: {type: Muster::Dummy, for_each: {nodes: {get_param: s}}, rollout: {batch: {get_param: b}, canary: 1}}}\n";
    let tree = over(&FLEET, root).unwrap();
    let set = tree.sets().next().unwrap();
    assert_eq!((set.selector(), set.members().len()), ("role=db", 1));
    assert_eq!(set.rollout().unwrap().batch, Share::Percent(50));
    for (values, wanted) in [
        (json!({"s": "role=web,"}), "resources.a.for_each.nodes"),
        (json!({"s": "fact.cpus>1"}), "for_each selects by labels"),
        (json!({"b": "0"}), "resources.a.rollout: batch: want at least 1"),
    ] {
        let error = given(root, &[], "{}", values.clone()).unwrap_err();
        assert!(error.contains(wanted), "{values}: {error}");
    }
}

#[test]
fn what_else_is_said_of_a_resource_is_said_of_each() {
    let root = "parameters: {c: {type: boolean, default: true}}\n\
        conditions: {c: {get_param: c}}\n\
        resources:\n  \
          a: {type: Muster::Dummy, condition: c, for_each: {nodes: role=web}, deletion_policy: retain}\n  \
          b: {type: Muster::Dummy, for_each: {nodes: role=web}, depends_on: a}\n";
    let tree = over(&FLEET, root).unwrap();
    assert!(tree.retains(tree.index_of("a[web-1]").unwrap()));
    assert!(shown(&tree).contains(&"b[web-1] Muster::Dummy < a[web-1]".to_owned()));
    let without = given(root, &[], "{}", json!({"c": false})).unwrap().with(&FLEET).unwrap();
    assert_eq!(without.len(), 3);
    assert!(shown(&without).contains(&"b[web-1] Muster::Dummy < ".to_owned()));
    // In a nested stack, too, by the whole path; and by what an environment says of the resource's name.
    let nested = "resources: {a: {type: Muster::Dummy, for_each: {nodes: role=db}}}";
    let tree = grown(
        "resources: {n: {type: sub.yaml}, e: {type: OS::Heat::None, depends_on: n}}",
        &[("sub.yaml", nested)],
        "{}",
    );
    let tree = tree.unwrap().with(&FLEET).unwrap();
    assert!(tree.index_of("n/a[db]").is_some());
    assert!(shown(&tree).contains(&"n sub.yaml < n/a".to_owned()), "{:?}", shown(&tree));
    let file = EnvironmentFile {
        name: "e",
        key: "e",
        text: "resource_registry: {resources: {a: {hooks: pre-update}, 'b*': {hooks: pre-create}}}",
    };
    let policies = Environment::parse([file]).unwrap();
    for (name, hook, wanted) in [
        ("a[web-1]", crate::Hook::PreUpdate, true),
        ("b[web-1]", crate::Hook::PreCreate, true),
        ("ab[web-1]", crate::Hook::PreUpdate, false),
    ] {
        assert_eq!(policies.policies().of(name).waits_at(hook), wanted, "{name}");
    }
}

#[test]
fn what_no_for_each_makes() {
    let of = |more: &str| format!("resources:\n  z: {{type: OS::Heat::None}}\n  a: {{{more}}}\n");
    let set = "for_each: {nodes: role=web}";
    for (text, wanted) in [
        ("type: Muster::Dummy, for_each: role=web".to_owned(), "want {nodes: SELECTOR}, got text"),
        ("type: Muster::Dummy, for_each: {}".to_owned(), "for_each needs 'nodes'"),
        ("type: Muster::Dummy, for_each: {node: x}".to_owned(), "unknown key 'node'; known is nodes"),
        (
            "type: Muster::Dummy, for_each: {nodes: [a]}".to_owned(),
            "want a selector such as role=web, got a list",
        ),
        (
            "type: Muster::Dummy, for_each: {nodes: 'role=web,'}".to_owned(),
            "root:4:46: resources.a.for_each.nodes: '' is not a selector: want k=v",
        ),
        ("type: Muster::Dummy, for_each: {nodes: fact.cpus>1}".to_owned(), "for_each selects by labels"),
        ("type: Muster::Dummy, for_each: {nodes: {get_attr: [z, x]}}".to_owned(), "follows from parameters"),
        (
            format!("type: Muster::Dummy, {set}, properties: {{node: x}}"),
            "'node' is what for_each gives: leave it out",
        ),
        (
            format!("type: OS::Heat::SoftwareDeployment, {set}, properties: {{server: x, config: c}}"),
            "'server' is what for_each gives",
        ),
        (format!("type: Muster::File, {set}"), "Muster::File needs the property 'path'"),
        (
            format!("type: OS::Heat::Value, {set}, properties: {{value: 1}}"),
            "OS::Heat::Value is not for one node",
        ),
        (format!("type: Muster::FlowRule, {set}"), "Muster::FlowRule is not for one node"),
        (format!("type: sub.yaml, {set}"), "what another template stands for is not for one node"),
        (format!("type: Muster::Dummy, {set}, external_id: x"), "leave out external_id or for_each"),
        (
            "type: Muster::Dummy, rollout: {batch: 1}".to_owned(),
            "only a resource with a for_each has a rollout",
        ),
        (
            format!("type: Muster::Dummy, {set}, rollout: {{batch: none}}"),
            "resources.a.rollout: batch: want a whole number",
        ),
        (format!("type: Muster::Dummy, {set}, depends_on: a"), "dependency cycle: a -> a"),
        (
            format!("type: Muster::Dummy, {set}, depends_on: {{resource: z, scope: some}}"),
            "unknown scope 'some'; known are all, node",
        ),
        (format!("type: Muster::Dummy, {set}, depends_on: {{scope: all}}"), "got no 'resource'"),
        (
            format!("type: Muster::Dummy, {set}, depends_on: [{{resource: z, of: all}}]"),
            "unknown key 'of' of a dependency",
        ),
        ("type: Muster::Dummy, properties: {values: {a: {get_node: name}}}".to_owned(), "this is not in one"),
        (
            format!("type: Muster::Dummy, {set}, properties: {{values: {{a: {{get_node: nam}}}}}}"),
            "unknown fact 'nam'",
        ),
        (format!("type: Muster::Dummy, {set}, update_policy: {{}}"), "only an OS::Heat::ResourceGroup"),
    ] {
        let error = grown(&of(&text), &[("sub.yaml", "resources: {}")], "{}").err();
        let error = error.unwrap_or_else(|| panic!("{text} is taken"));
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

/// So many nodes, all of them alike.
struct Alike(usize);

impl CurrentResources for Alike {
    fn reference(&self, _: &str) -> Option<String> {
        None
    }

    fn attribute(&self, _: &str, _: &str) -> Option<Value> {
        None
    }

    fn removed(&self, _: &str) -> Removed {
        Removed::new()
    }

    fn is_there(&self, _: &str) -> bool {
        false
    }

    fn nodes(&self, _: &str, _: &Selector) -> Vec<Arc<str>> {
        (0..self.0).map(|n| format!("n{n}").into()).collect()
    }
}

#[test]
fn a_map_of_all_for_each_of_all_has_a_bound() {
    let of = |what: &str| {
        let b = dummy("b", "", &format!(", properties: {{values: {{of: {what}}}}}"));
        [
            "resources:\n  v: {type: OS::Heat::Value, properties: {value: {get_attr: [a, x]}}}\n",
            &dummy("a", "", ""),
            &b,
        ]
        .concat()
    };
    let grow = |what: &str, nodes: usize| {
        grown(&of(what), &[], "{}")
            .unwrap()
            .with(&Alike(nodes))
            .map(drop)
            .map_err(|errors| errors.to_string())
    };
    for (what, nodes, is_refused) in [
        ("{get_attr: [a, x]}", 1000, false),
        ("{get_attr: [a, x]}", 1001, true),
        ("{list_join: [',', {get_attr: [a, x]}]}", 1001, true),
        ("{get_resource: a}", 1001, true),
        ("{get_attr: [a, x, {get_node: name}]}", 1001, false),
        ("{get_attr: [v, value]}", 1001, false),
    ] {
        let grown = grow(what, nodes);
        assert_eq!(grown.is_err(), is_refused, "{what} {nodes}: {grown:?}");
        if let Err(error) = grown {
            assert!(
                error.contains("resources.b: each of 1001 members would have a map of all 1001 of a"),
                "{error}"
            );
        }
    }
}
