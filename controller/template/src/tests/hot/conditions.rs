//! Conditions: what they are made of, and what they decide.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{bound, gives, says, template, value_of};
use crate::tests::ResourceTable;
use crate::{RenderError, StackNames, parse};

/// The value of a condition.
fn holds(condition: &str) -> Result<bool, String> {
    let rest = format!("conditions: {{c: {condition}, aye: true, nay: false}}");
    let value = value_of("wallaby", &rest, "{if: [c, 1, 0]}")?;
    Ok(value == json!(1))
}

#[test]
fn conditions_of_heats_documentation() {
    for (condition, wanted) in [
        ("true", true),
        ("{get_param: 'on'}", true),
        ("{get_param: 'off'}", false),
        ("{equals: [{get_param: which}, short]}", true),
        ("{equals: [{get_param: which}, long]}", false),
        ("{equals: [{get_param: [site, dns, 0]}, 10.0.0.53]}", true),
        ("{equals: [1, 1.0]}", true),
        ("{equals: [true, 1]}", true),
        ("{equals: ['1', 1]}", false),
        ("{equals: [{a: [1]}, {a: [1.0]}]}", true),
        ("{equals: [null, '']}", false),
        ("{not: {equals: [{get_param: which}, short]}}", false),
        ("{not: true}", false),
        ("{not: nay}", true),
        ("{and: [aye, {not: nay}]}", true),
        ("{and: [aye, {equals: [a, b]}, aye]}", false),
        ("{or: [nay, {equals: [a, a]}]}", true),
        ("{or: [nay, nay, {and: [aye, nay]}]}", false),
        ("{contains: [b, {get_param: list}]}", true),
        ("{contains: [neutron, {get_param: list}]}", false),
        ("{yaql: {expression: '$.data.services.contains(a)', data: {services: {get_param: list}}}}", true),
        ("{equals: [{get_param: OS::stack_name}, web]}", true),
    ] {
        assert_eq!(holds(condition), Ok(wanted), "{condition}");
    }
}

#[test]
fn conditions_that_are_refused() {
    for (condition, wanted) in [
        (
            "{get_attr: [a, x]}",
            "conditions.c.get_attr: a condition cannot use 'get_attr'; it may use and, contains, equals, get_param, not, or, yaql",
        ),
        (
            "{get_resource: a}",
            "conditions.c.get_resource: a condition cannot use 'get_resource'; it may use and, contains, equals, get_param, not, or, yaql",
        ),
        (
            "{equals: [{get_file: f.txt}, a]}",
            "conditions.c.equals[0].get_file: a condition cannot use 'get_file'; it may use and, contains, equals, get_param, not, or, yaql",
        ),
        (
            "{if: [aye, true, false]}",
            "conditions.c.if: a condition cannot use 'if'; it may use and, contains, equals, get_param, not, or, yaql",
        ),
        ("{not: ay}", "conditions.c.not: there is no condition 'ay'; did you mean 'aye'?"),
        ("{and: [aye]}", "conditions.c.and: 'and' wants at least two conditions"),
        ("{or: aye}", "conditions.c.or: want a list of conditions, got text"),
        (
            "{not: null}",
            "conditions.c.not: want the name of a condition, true, false or a function, got nothing",
        ),
        ("[aye]", "conditions.c: want the name of a condition, true, false or a function, got a list"),
        ("5", "conditions.c: want the name of a condition, true, false or a function, got a number"),
        ("{equals: [a]}", "conditions.c.equals: want [VALUE, VALUE], got too few items"),
        ("{equals: a}", "conditions.c.equals: want [VALUE, VALUE], got text"),
        ("{get_param: text}", "conditions.c.get_param: want true or false, got text"),
        (
            "{and: [aye, {get_param: number}]}",
            "conditions.c.and[1].get_param: want true or false, got a number",
        ),
        ("c", "conditions.c: conditions refer to each other: c -> c"),
    ] {
        let error = holds(condition).unwrap_err();
        assert_eq!(error.split_once(": ").unwrap().1, wanted, "{condition}");
    }
    let rest = "conditions: {a: b, b: {not: c}, c: {or: [a, d]}, d: true}";
    assert_eq!(
        template("wallaby", rest).unwrap_err(),
        "t:10:14: conditions.a: conditions refer to each other: a -> b -> c -> a"
    );
}

#[test]
fn a_thousand_conditions_need_no_stack() {
    let chain = |count: usize| {
        let later = (1..count).map(|i| format!(", c{i:04}: {{not: c{:04}}}", i - 1));
        format!("conditions: {{c0000: true{}}}", later.collect::<String>())
    };
    assert_eq!(value_of("wallaby", &chain(1000), "{if: [c0999, 1, 0]}"), Ok(json!(0)));
    let error = template("wallaby", &chain(1001)).unwrap_err();
    assert!(error.ends_with("conditions: at most 1000 conditions are taken"), "{error}");
}

#[test]
fn if_chooses() {
    gives(&[
        ("{if: [true, a, b]}", json!("a")),
        ("{if: [{equals: [{get_param: which}, long]}, a, b]}", json!("b")),
        ("{if: [{get_param: 'on'}, {if: [{get_param: 'off'}, 1, 2]}, 3]}", json!(2)),
        // The branch that is not chosen is not looked at.
        ("{if: [{get_param: 'on'}, a, {get_param: [site, absent]}]}", json!("a")),
        ("{if: [true, null, b]}", json!(null)),
    ]);
    says(&[
        ("{if: [true]}", ".if: want [CONDITION, VALUE, OTHERWISE], got too few items"),
        ("{if: [true, 1, 2, 3]}", ".if: want [CONDITION, VALUE, OTHERWISE], got too many items"),
        ("{if: x}", ".if: want [CONDITION, VALUE, OTHERWISE], got text"),
        ("{if: [absent, 1, 2]}", ".if[0]: there is no condition 'absent'"),
        ("{if: [{get_param: text}, 1, 2]}", ".if[0].get_param: want true or false, got text"),
        (
            "{if: [{get_attr: [a, b]}, 1, 2]}",
            ".if[0].get_attr: a condition cannot use 'get_attr'; it may use and, contains, equals, get_param, not, or, yaql",
        ),
        ("{if: [{and: [true]}, 1, 2]}", ".if[0].and: 'and' wants at least two conditions"),
        ("{if: [{equals: [{or: x}, 1]}, 1, 2]}", ".if[0].equals[0].or: want a list of conditions, got text"),
    ]);
}

#[test]
fn what_makes_a_condition_is_data_elsewhere() {
    gives(&[
        ("{equals: [1, {get_param: which}]}", json!({"equals": [1, "short"]})),
        ("[{not: true}, {and: x}]", json!([{"not": true}, {"and": "x"}])),
        ("{or: [absent, {equals: [a, b]}]}", json!({"or": ["absent", {"equals": ["a", "b"]}]})),
        ("{if: [{or: [{equals: [a, b]}, {not: false}]}, {or: [a]}, b]}", json!({"or": ["a"]})),
        ("{if: [{equals: [{not: true}, false]}, a, b]}", json!("a")),
    ]);
}

#[test]
fn if_without_a_third_item_leaves_out() {
    gives(&[
        ("[a, {if: [{get_param: 'off'}, b]}, c]", json!(["a", "c"])),
        ("[a, {if: [{get_param: 'on'}, b]}, c]", json!(["a", "b", "c"])),
        ("{a: 1, b: {if: [{get_param: 'off'}, 2]}}", json!({"a": 1})),
        ("{b: {if: [{get_param: 'on'}, {if: [{get_param: 'off'}, 2]}]}}", json!({})),
        ("{if: [{get_param: 'off'}, 2]}", json!(null)),
        ("{list_concat: [[a], {if: [{get_param: 'off'}, [b]]}]}", json!(["a"])),
    ]);
}

const CONDITIONAL: &str = "
parameters:
  prod: {type: boolean, default: false}
  also: {type: boolean, default: true}
conditions:
  is_prod: {get_param: prod}
  is_named: {equals: [{get_param: OS::stack_name}, web]}
resources:
  volume: {type: Muster::Dummy, condition: is_prod, properties: {values: {v: '1'}}}
  named: {type: Muster::Dummy, condition: is_named}
  user:
    type: Muster::Dummy
    depends_on: [volume, named]
    properties:
      values:
        id: {get_resource: volume}
        v: {get_attr: [volume, v, deeper]}
        w: {list_join: ['-', [x, {get_attr: [volume, v]}]]}
  chooser:
    type: Muster::Dummy
    properties: {values: {v: {if: [is_prod, {get_resource: volume}, {get_resource: user}]}}}
  inline: {type: Muster::Dummy, condition: {and: [{not: is_prod}, {get_param: also}]}}
outputs:
  v: {value: {get_attr: [user, v]}, condition: is_prod}
  gone: {value: {get_resource: volume}}
";

fn pruned(prod: bool) -> (crate::Template, crate::Parameters) {
    let text = format!("heat_template_version: wallaby{CONDITIONAL}");
    let template = parse("t", &text, &BTreeMap::new()).unwrap();
    assert!(template.is_conditional() && template.asks_for_stack());
    let parameters = bound(&template, &[("prod", json!(prod))]).unwrap();
    (template.pruned(&parameters).unwrap(), parameters)
}

fn shape(template: &crate::Template) -> Vec<(String, Vec<String>)> {
    let name = |index: &u32| template.resources[*index as usize].name.to_string();
    let row = |resource: &crate::Resource| {
        (resource.name.to_string(), resource.requires.iter().map(name).collect())
    };
    template.resources.iter().map(row).collect()
}

#[test]
fn a_resource_whose_condition_is_false_does_not_exist() {
    let (without, parameters) = pruned(false);
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        shape(&without),
        [
            ("chooser".to_owned(), list(&["user"])),
            ("inline".to_owned(), list(&[])),
            ("named".to_owned(), list(&[])),
            ("user".to_owned(), list(&["named"])),
        ]
    );
    let nothing = BTreeMap::new();
    let user = without.index_of("user").unwrap();
    let rendered = without.render(user, &parameters, &ResourceTable(&without, &nothing)).unwrap();
    assert_eq!(rendered, json!({"values": {"id": null, "v": null, "w": "x-"}}));
    let output = |index| without.render_output(index, &parameters, &ResourceTable(&without, &nothing));
    assert_eq!((output(0), output(1)), (Ok(Value::Null), Ok(Value::Null)));

    let (with, parameters) = pruned(true);
    assert_eq!(
        shape(&with),
        [
            ("chooser".to_owned(), list(&["volume"])),
            ("named".to_owned(), list(&[])),
            ("user".to_owned(), list(&["named", "volume"])),
            ("volume".to_owned(), list(&[])),
        ]
    );
    let user = with.index_of("user").unwrap();
    let waits = with.render(user, &parameters, &ResourceTable(&with, &nothing)).unwrap_err();
    assert!(matches!(waits, RenderError::NotYet { resource, .. } if &*resource == "volume"));
}

#[test]
fn before_it_is_pruned_a_template_says_what_there_is() {
    let text = format!("heat_template_version: wallaby{CONDITIONAL}");
    let template = parse("t", &text, &BTreeMap::new()).unwrap();
    let parameters = bound(&template, &[]).unwrap();
    let index = |name: &str| template.index_of(name).unwrap();
    assert_eq!(template.exists(index("volume"), &parameters), Ok(false));
    assert_eq!(template.exists(index("named"), &parameters), Ok(true));
    let user = u32::try_from(index("user")).unwrap();
    assert_eq!(template.requirements(index("chooser"), &parameters), Ok(vec![user]));
    let nothing = BTreeMap::new();
    let rendered = template.render(index("user"), &parameters, &ResourceTable(&template, &nothing)).unwrap();
    assert_eq!(rendered["values"]["id"], json!(null));
    // Without a name it is not known whether there is one.
    let unnamed = template.bind(&BTreeMap::new()).unwrap();
    let error = template.exists(index("named"), &unnamed).unwrap_err().to_string();
    assert_eq!(error, "t:10:43: resources.named.condition: this is not known before the stack has a name");
}

#[test]
fn digests_follow_conditions() {
    let digests = |template: &crate::Template, parameters: &crate::Parameters| {
        let digest = |name: &str| {
            template.index_of(name).map(|index| template.resources[index].definition_digest(parameters))
        };
        ["user", "chooser", "named"].map(digest)
    };
    let (without, off) = pruned(false);
    let (with, on) = pruned(true);
    let (a, b) = (digests(&without, &off), digests(&with, &on));
    assert_ne!(a[0], b[0], "it refers to what is there and what is not");
    assert_ne!(a[1], b[1], "another branch is chosen");
    assert_eq!(a[2], b[2]);
    let text = format!("heat_template_version: wallaby{CONDITIONAL}");
    let template = parse("t", &text, &BTreeMap::new()).unwrap();
    let parameters = bound(&template, &[("also", json!(false))]).unwrap();
    let other = template.pruned(&parameters).unwrap();
    assert_eq!(digests(&other, &parameters), a, "a parameter that only decides of another resource");
}

#[test]
fn cycles_are_of_chosen_branches() {
    let text = |condition: &str| {
        format!(
            "heat_template_version: wallaby
parameters: {{p: {{type: boolean, default: true}}}}
conditions: {{c: {{get_param: p}}}}
resources:
  a: {{type: Muster::Dummy, properties: {{values: {{v: {{if: [c, {{get_resource: b}}, x]}}}}}}}}
  b: {{type: Muster::Dummy, properties: {{values: {{v: {{if: [{condition}, {{get_resource: a}}, x]}}}}}}}}
"
        )
    };
    let pruned = |text: &str| {
        let template = parse("t", text, &BTreeMap::new()).unwrap();
        let parameters = template.bind(&BTreeMap::new()).unwrap();
        template.pruned(&parameters).map(|template| shape(&template)).map_err(|errors| errors.to_string())
    };
    assert!(pruned(&text("{not: c}")).is_ok());
    assert_eq!(pruned(&text("c")).unwrap_err(), "t:5:3: resources.a: dependency cycle: a -> b -> a");
}

#[test]
fn properties_are_looked_at_where_the_condition_holds() {
    let text = "heat_template_version: wallaby
parameters: {go: {type: boolean}}
conditions: {go: {get_param: go}}
resources:
  a: {type: OS::Heat::SoftwareConfig, condition: go, properties: {group: [x]}}
  b: {type: Muster::File, condition: {get_param: go}, properties: {node: web-1, path: x, colour: red}}
";
    let whole = "  c: {type: OS::Heat::SoftwareDeploymentGroup, condition: go, properties: {servers: {x: web-1}, colour: red}}
  g: {type: OS::Heat::ResourceGroup, properties: {count: 0, resource_def: {type: Muster::Dummy}}}
";
    for text in [text.to_owned(), format!("{text}{whole}")] {
        let template = std::sync::Arc::new(parse("t", &text, &BTreeMap::new()).unwrap());
        let tree = |on: bool| {
            let parameters = template.bind(&[("go".to_owned(), json!(on))].into()).unwrap();
            let (environment, files) = (crate::Environment::default(), BTreeMap::new());
            let tree = crate::Tree::new(template.clone(), parameters.into(), &environment, &files);
            let named = StackNames { name: "web".into(), id: "7".into() };
            tree.and_then(|tree| tree.of_stack(named)).map_err(|errors| errors.to_string())
        };
        let kept = tree(false).unwrap();
        assert_eq!(kept.len(), text.matches("  g:").count());
        let errors = tree(true).err().unwrap();
        for wanted in [
            "resources.a.properties.group: want the name of a group",
            "resources.b.properties.colour: Muster::File has no property 'colour'",
            "resources.b.properties.path: ",
        ] {
            assert!(errors.contains(wanted), "{wanted}\n{errors}");
        }
        let of_group = errors.contains(
            "resources.c.properties.colour: OS::Heat::SoftwareDeploymentGroup has no property 'colour'",
        );
        assert_eq!(of_group, text.contains("  c:"), "{errors}");
        assert!(errors.starts_with("t:5:"), "{errors}");
    }
}

/// As in Heat, what is not there is an error only where it is used: TripleO's own overcloud has such conditions.
#[test]
fn what_nobody_uses_may_name_what_is_not_there() {
    let rest = "conditions: {bad: {equals: [{get_param: gone}, a]}, worse: {not: bad}, worst: {and: [{get_param: 'off'}, lost]}, good: true}
resources:
  a: {type: OS::Heat::Value, properties: {value: {if: [good, 1, {get_attr: [none, x]}]}}}
outputs:
  a: {value: {if: [good, 1, {get_param: gone}]}}
  b: {value: {get_param: gone}}
  c: {value: {if: [worse, 1, 2]}}
  d: {value: {get_resource: none}}
  e: {value: {if: [worst, 1, 2]}}
";
    let template = template("wallaby", rest).expect("it is read");
    assert_eq!(template.warnings.len(), 6, "{:?}", template.warnings);
    let parameters = bound(&template, &[]).expect("no value is missing");
    let output = |index| {
        template.render_output(index, &parameters, &crate::render::Unknown).map_err(|error| error.to_string())
    };
    assert_eq!(output(0), Ok(json!(1)));
    assert_eq!(output(4), Ok(json!(2)), "the first of both decides");
    for (index, wanted) in [
        (1, "outputs.b.value.get_param: there is no parameter 'gone'"),
        (2, "conditions.bad.equals[0].get_param: there is no parameter 'gone'"),
        (3, "outputs.d.value.get_resource: there is no resource 'none'"),
    ] {
        let error = output(index).expect_err(wanted);
        assert!(error.ends_with(wanted), "{error}");
    }
    // Used for a resource, it is an error before anything is made.
    let used = rest.replace("type: OS::Heat::Value,", "type: OS::Heat::Value, condition: worse,");
    let template = super::template("wallaby", &used).expect("it is read");
    let parameters = bound(&template, &[]).expect("no value is missing");
    let error = template.pruned(&parameters).expect_err("a condition of a resource is used").to_string();
    assert!(error.contains("conditions.bad.equals[0].get_param: there is no parameter 'gone'"), "{error}");
}
