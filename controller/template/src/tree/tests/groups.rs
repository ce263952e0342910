//! Groups and chains.

use serde_json::json;

use super::*;

fn names(tree: &Tree) -> String {
    (0..tree.len()).map(|index| tree.name(index)).collect::<Vec<_>>().join(" ")
}

#[test]
fn members_are_made_of_one_definition() {
    let root = "parameters: {n: {type: number, default: 3}}\n\
        resources:\n  \
          base: {type: OS::Heat::None}\n  \
          g: {type: OS::Heat::ResourceGroup, depends_on: base, properties: {count: {get_param: n}, resource_def: {type: server.yaml, properties: {name: 'web-%index%'}}}}\n  \
          p: {type: OS::Heat::ResourceGroup, properties: {count: 2, index_var: '<i>', resource_def: {type: Muster::Dummy, properties: {values: {'%index%': '<i>%index%<i>'}}}}}\n\
        outputs:\n  \
          names: {value: {get_attr: [g, name]}}\n  \
          refs: {value: {get_attr: [g, refs]}}\n  \
          second: {value: {get_attr: [g, refs, 1]}}\n  \
          map: {value: {get_attr: [g, refs_map]}}\n  \
          attributes: {value: {get_attr: [g, attributes, name]}}\n  \
          one: {value: {get_attr: [g, resource.2.name]}}\n  \
          id: {value: {get_attr: [g, resource.2]}}\n  \
          inner: {value: {get_attr: [g, resource.0.resource.host.n]}}\n  \
          removed: {value: {get_attr: [g, removed_rsrc_list]}}\n  \
          deep: {value: {get_attr: [g, outputs, name]}}\n";
    let tree = grown(root, &[("server.yaml", SERVER)], "{}").unwrap();
    let all = shown(&tree);
    assert!(all.contains(&"g OS::Heat::ResourceGroup < base g/0 g/1 g/2".to_owned()), "{all:#?}");
    assert!(all.contains(&"g/1 server.yaml < base g/1/disk g/1/host".to_owned()), "{all:#?}");
    assert!(all.contains(&"g/1/host Muster::Dummy < base g/1/disk".to_owned()), "{all:#?}");
    assert_eq!(property(&tree, "p/1", "values"), json!({"%index%": "1%index%1"}));
    let id = |n: usize| format!("id-of-g/{n}/host");
    assert_eq!(
        outputs(&tree),
        json!({
            "names": ["web-0", "web-1", "web-2"], "refs": [id(0), id(1), id(2)], "second": id(1),
            "map": {"0": id(0), "1": id(1), "2": id(2)},
            "attributes": {"0": "web-0", "1": "web-1", "2": "web-2"}, "one": "web-2", "id": id(2),
            "inner": "web-0", "removed": [], "deep": ["web-0", "web-1", "web-2"],
        })
    );
    let none = given(root, &[("server.yaml", SERVER)], "{}", json!({"n": 0})).unwrap();
    assert_eq!((outputs(&none)["names"].clone(), names(&none)), (json!([]), "base g p p/0 p/1".into()));
}

#[test]
fn an_index_chooses_from_lists_and_maps() {
    let root = "parameters:\n  \
          names: {type: comma_delimited_list, default: 'a,b'}\n  \
          sizes: {type: json, default: {web-0: {cpu: 1}, web-1: {cpu: 2}}}\n\
        resources:\n  \
          v: {type: OS::Heat::Value, properties: {value: {'0': x, '1': y}}}\n  \
          g: {type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {type: Muster::Dummy, properties: {values: {\
            name: {get_param: [names, '%index%']}, size: {get_param: [sizes, 'web-%index%', cpu]}, of: {get_attr: [v, value, '%index%']}}}}}}\n  \
          n: {type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {type: member.yaml, properties: {name: {get_param: [names, '%index%']}}}}}\n  \
          o: {type: OS::Heat::ResourceGroup, properties: {count: 2, index_var: '<o>', resource_def: {type: OS::Heat::ResourceGroup, \
            properties: {count: 2, resource_def: {type: Muster::Dummy, properties: {values: {\
              outer: {get_param: [names, '<o>']}, inner: {get_param: [names, '%index%']}}}}}}}}\n";
    let member = "parameters: {name: {type: string}, names: {type: json, default: {'%index%': own}}}\n\
        resources: {d: {type: Muster::Dummy, properties: {values: {name: {get_param: name}, own: {get_param: [names, '%index%']}}}}}\n";
    let tree = grown(root, &[("member.yaml", member)], "{}").unwrap();
    for (at, name, size, of) in [("0", "a", 1, "x"), ("1", "b", 2, "y")] {
        let values = property(&tree, &format!("g/{at}"), "values");
        assert_eq!(values, json!({"name": name, "size": size, "of": of}));
        // In the member's template the text is its own.
        let values = property(&tree, &format!("n/{at}/d"), "values");
        assert_eq!(values, json!({"name": name, "own": "own"}));
    }
    assert_eq!(property(&tree, "o/0/1", "values"), json!({"outer": "a", "inner": "b"}));
    let short = given(root, &[("member.yaml", member)], "{}", json!({"names": "a"}));
    let said = short.unwrap_err().to_string();
    assert!(said.contains("get_param: the parameter 'names' has no '1'"), "{said}");
}

#[test]
fn members_are_removed_by_name_and_listed_by_number() {
    let root = |count: usize, policies: &str| {
        format!(
            "resources: {{g: {{type: OS::Heat::ResourceGroup, properties: {{count: {count}, removal_policies: {policies}, \
             resource_def: {{type: OS::Heat::None}}}}}}}}\noutputs: {{removed: {{value: {{get_attr: [g, removed_rsrc_list]}}}}}}"
        )
    };
    for (policies, wanted, removed) in [
        ("[]", "g g/0 g/1 g/2", json!([])),
        ("[{resource_list: ['0']}]", "g g/1 g/2 g/3", json!(["0"])),
        ("[{resource_list: [1]}, {resource_list: ['2', '7']}]", "g g/0 g/3 g/4", json!(["1", "2", "7"])),
    ] {
        let tree = grown(&root(3, policies), &[], "{}").unwrap();
        assert_eq!((names(&tree).as_str(), outputs(&tree)["removed"].clone()), (wanted, removed));
    }
    let tree = grown(&root(12, "[]"), &[], "{}").unwrap();
    let group = &tree.grown.as_ref().unwrap().parts.groups[0];
    let named: Vec<&str> = group.members.iter().map(|member| tree.name(*member as usize)).collect();
    assert_eq!(named, (0..12).map(|n| format!("g/{n}")).collect::<Vec<_>>());
}

#[test]
fn groups_of_groups() {
    let root = "resources: {g: {type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {type: OS::Heat::ResourceGroup, \
        properties: {count: 3, index_var: '%in%', resource_def: {type: Muster::Dummy, properties: {values: {v: '%index%.%in%'}}}}}}}}\n\
        outputs: {all: {value: {get_attr: [g, v]}}}";
    let tree = grown(root, &[], "{}").unwrap();
    assert_eq!(tree.len(), 1 + 2 + 6);
    assert_eq!(outputs(&tree)["all"], json!([["0.0", "0.1", "0.2"], ["1.0", "1.1", "1.2"]]));
    assert_eq!(shown(&tree)[1], "g/0 OS::Heat::ResourceGroup < g/0/0 g/0/1 g/0/2");
}

#[test]
fn groups_of_groups_of_groups_are_bounded() {
    let group = |inner: &str| {
        format!("{{type: OS::Heat::ResourceGroup, properties: {{count: 1500, resource_def: {inner}}}}}")
    };
    let root = format!("resources: {{g: {}}}", group(&group(&group("{type: OS::Heat::None}"))));
    let said = grown(&root, &[], "{}").unwrap_err();
    assert!(said.contains("at most 2000000 resources"), "{said}");
    let many = "resources: {g: {type: OS::Heat::ResourceGroup, update_policy: {batch_create: {max_batch_size: 10000}}, \
        properties: {count: 20000, resource_def: {type: OS::Heat::None}}}}";
    let said = grown(many, &[], "{}").unwrap_err();
    assert!(said.contains("batches smaller"), "{said}");
}

/// Whether there was anything before.
struct Batches(bool);

impl CurrentResources for Batches {
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
        self.0
    }
}

#[test]
fn batches_are_one_after_the_other() {
    let root = |policy: &str| {
        format!(
            "resources: {{g: {{type: OS::Heat::ResourceGroup, update_policy: {policy}, properties: {{count: 5, \
             resource_def: {{type: OS::Heat::None}}}}}}}}"
        )
    };
    let needs = |policy: &str, there: bool| {
        let tree = grown(&root(policy), &[], "{}").unwrap().with(&Batches(there)).unwrap();
        let of = |n: usize| {
            let needs = tree.requires(tree.index_of(&format!("g/{n}")).unwrap());
            needs.iter().map(|at| tree.name(*at as usize).trim_start_matches("g/")).collect::<String>()
        };
        (0..5).map(of).collect::<Vec<_>>().join(",")
    };
    for (policy, created, updated) in [
        ("{}", ",,,,", ",,,,"),
        ("{batch_create: {max_batch_size: 2}}", ",,01,01,23", ",,,,"),
        ("{rolling_update: {max_batch_size: 3}}", ",,,,", ",,,012,012"),
        ("{rolling_update: {max_batch_size: 3, min_in_service: 4}}", ",,,,", ",0,1,2,3"),
        ("{batch_create: {}, rolling_update: {max_batch_size: 9}}", ",0,1,2,3", ",,,,"),
    ] {
        assert_eq!(
            (needs(policy, false).as_str(), needs(policy, true).as_str()),
            (created, updated),
            "{policy}"
        );
    }
    let same = |there: bool| {
        let tree = grown(&root("{rolling_update: {}}"), &[], "{}").unwrap().with(&Batches(there)).unwrap();
        (0..tree.len()).map(|index| tree.definition(index)).collect::<Vec<_>>()
    };
    assert_eq!(same(false), same(true), "the order of batches is nobody's definition");
    for (policy, wanted) in [
        ("{rolling_update: {pause_time: -1}}", "pause_time: want seconds, from 0 to 86400"),
        ("{rolling_update: {pause_time: [5]}}", "pause_time: want seconds, got a list"),
        ("{rolling: {}}", "unknown policy 'rolling'"),
        ("{batch_create: {max_batch_size: 0}}", "want at least 1"),
        ("{batch_create: {size: 1}}", "unknown key 'size'"),
    ] {
        let said = grown(&root(policy), &[], "{}").unwrap_err();
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_nested_stack_is_told_the_metadata_of_its_resource() {
    let inner = "resources: {v: {type: OS::Heat::Value, properties: {value: [{resource_facade: metadata}, \
        {resource_facade: deletion_policy}, {resource_facade: update_policy}]}}}\n\
        outputs: {all: {value: {get_attr: [v, value]}}}";
    let root = "parameters: {role: {type: string, default: web}}\nresources:\n  \
        first: {type: OS::Heat::Value, properties: {value: 7}}\n  \
        own: {type: inner.yaml, deletion_policy: retain, metadata: {role: {get_param: role}, n: [{get_attr: [first, value]}]}}\n  \
        none: {type: inner.yaml, metadata: null}\n  \
        g: {type: OS::Heat::ResourceGroup, update_policy: {batch_create: {}}, metadata: {of: the group}, \
        properties: {count: 1, resource_def: {type: inner.yaml, metadata: {of: {get_param: role}}}}}\n\
        outputs:\n  own: {value: {get_attr: [own, all]}}\n  none: {value: {get_attr: [none, all]}}\n  \
        g: {value: {get_attr: [g, all]}}";
    let tree = grown(root, &[("inner.yaml", inner)], "{}").unwrap();
    let outputs = outputs(&tree);
    assert_eq!(outputs["own"], json!([{"role": "web", "n": [7]}, "Retain", {}]));
    assert_eq!(outputs["none"], json!([{}, "Delete", {}]));
    assert_eq!(outputs["g"], json!([[{"of": "web"}, "Delete", {}]]));
    assert!(shown(&tree).contains(&"own/v OS::Heat::Value < first".to_owned()), "{:?}", shown(&tree));
    let at = |text: &str| {
        let tree = grown(text, &[("inner.yaml", inner)], "{}").unwrap();
        tree.definition(tree.index_of("own/v").unwrap())
    };
    assert_ne!(at(root), at(&root.replace("default: web", "default: db")), "it is changed by it");
    let wrong = root.replace("{get_param: role}, n", "{get_param: rol}, n");
    let said = grown(&wrong, &[("inner.yaml", inner)], "{}").unwrap_err();
    assert!(
        said.contains("resources.own.metadata.role.get_param") && said.contains("did you mean 'role'?"),
        "{said}"
    );
}

#[test]
fn a_chain_is_made_in_turn_or_at_once() {
    let root = |concurrent: &str| {
        format!(
            "resources: {{c: {{type: OS::Heat::ResourceChain, properties: {{{concurrent}resources: [Muster::Dummy, d.yaml, \
             OS::Heat::None], resource_properties: {{values: {{v: 7}}}}}}}}}}\n\
             outputs: {{refs: {{value: {{get_attr: [c, refs]}}}}, v: {{value: {{get_attr: [c, v]}}}}, map: {{value: {{get_attr: [c, attributes, v]}}}}}}"
        )
    };
    let nested = "parameters: {values: {type: json}}\nresources: {x: {type: OS::Heat::None}}\noutputs: {v: {value: {get_param: [values, v]}}}";
    let tree = grown(&root(""), &[("d.yaml", nested)], "{}").unwrap();
    assert_eq!(
        shown(&tree),
        [
            "c OS::Heat::ResourceChain < c/0 c/1 c/2",
            "c/0 Muster::Dummy < ",
            "c/1 d.yaml < c/0 c/1/x",
            "c/1/x OS::Heat::None < c/0",
            "c/2 OS::Heat::None < c/1",
        ]
    );
    let wanted = json!({"refs": ["id-of-c/0", "id-of-c/1", "id-of-c/2"], "v": ["7", 7, null], "map": {"0": "7", "1": 7, "2": null}});
    assert_eq!(outputs(&tree), wanted);
    let tree = grown(&root("concurrent: true, "), &[("d.yaml", nested)], "{}").unwrap();
    assert_eq!(shown(&tree)[4], "c/2 OS::Heat::None < ");
}

#[test]
fn a_member_is_the_same_whatever_the_count_is() {
    let definitions = |count: usize, value: &str, order: &str| {
        let root = format!(
            "parameters: {{n: {{type: number, default: {count}}}, v: {{type: string, default: {value}}}}}\n\
             resources: {{z: {{type: OS::Heat::None}}, g: {{type: OS::Heat::ResourceGroup{order}, properties: {{count: {{get_param: n}}, \
             resource_def: {{type: Muster::Dummy, properties: {{values: {{v: {{get_param: v}}}}}}}}}}}}}}"
        );
        let tree = grown(&root, &[], "{}").unwrap();
        (0..tree.len()).map(|at| (tree.name(at).to_owned(), tree.definition(at))).collect::<BTreeMap<_, _>>()
    };
    let before = definitions(3, "x", "");
    for (count, value, order, same) in [
        (3, "x", "", "g g/0 g/1 g/2 z"),
        (4, "x", "", "g/0 g/1 g/2 z"),
        (2, "x", "", "g/0 g/1 z"),
        (3, "y", "", "g z"),
        (3, "x", ", depends_on: z", "z"),
    ] {
        let after = definitions(count, value, order);
        let kept: Vec<&str> = after
            .iter()
            .filter(|(name, of)| before.get(*name) == Some(of))
            .map(|(name, _)| &**name)
            .collect();
        assert_eq!(kept.join(" "), same, "{count} {value} {order}");
    }
}
