mod mapping;
mod strategies;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Environment, Hook, Limits, Restriction, parse};

const TEMPLATE: &str = "heat_template_version: 2018-08-31
parameters:
  greeting: {type: string, default: hello}
  count: {type: number}
  secret: {type: string, hidden: true, default: ''}
";

fn environment(texts: &[&str]) -> Result<Environment, String> {
    let names: Vec<String> = (1..=texts.len()).map(|n| format!("e{n}")).collect();
    let named = names.iter().map(String::as_str).zip(texts.iter().copied());
    Environment::parse::<(&str, &str)>(named).map_err(|errors| errors.to_string())
}

fn bound(texts: &[&str], given: &[(&str, Value)]) -> Result<Value, String> {
    let template = parse("t", TEMPLATE, &BTreeMap::new()).unwrap();
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let parameters = template.bind_with(&environment(texts)?, &given);
    Ok(json!(parameters.map_err(|errors| errors.to_string())?))
}

#[test]
fn what_is_nearer_to_the_operator_counts() {
    let low = "parameter_defaults: {greeting: low, count: 1, of_another_template: x}";
    let high = "parameters: {greeting: high}";
    let higher = "parameters: {greeting: higher, count: '3'}";
    for (texts, given, greeting, count) in [
        (&[low][..], &[][..], "low", 1),
        (&[low, high], &[], "high", 1),
        (&[high, low], &[], "high", 1),
        (&[low, high, higher], &[], "higher", 3),
        (&[higher, high], &[], "high", 3),
        (&[low, high, higher], &[("greeting", json!("given"))], "given", 3),
        (&["parameters: {count: 2}"], &[], "hello", 2),
        (&["parameter_defaults: {count: 1}", "parameter_defaults: {count: 2}"], &[], "hello", 2),
        (&["parameters: {count: 2, greeting: ~}"], &[], "hello", 2),
        (&["{\"parameters\": {\"count\": 2}}"], &[], "hello", 2),
        (&["# nothing", "", "parameters:\n", low], &[], "low", 1),
    ] {
        let wanted = json!({"count": count, "greeting": greeting, "secret": ""});
        assert_eq!(bound(texts, given), Ok(wanted), "{texts:?} {given:?}");
    }
}

#[test]
fn functions_are_data() {
    let text = "parameters: {count: 1, greeting: {get_param: count}}";
    // As in Heat, a string that is given a map is Python's text of it.
    let wanted = json!({"count": 1, "greeting": "{'get_param': 'count'}", "secret": ""});
    assert_eq!(bound(&[text], &[]), Ok(wanted));
    let why = bound(&["parameters: {count: {get_param: greeting}}"], &[]).unwrap_err();
    assert_eq!(why, "e1:1:21: parameters.count: want a number, got a map");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, wanted) in [
        (
            "parameters: {count: 1, greting: x}",
            "e1:1:33: parameters.greting: unknown parameter 'greting'; did you mean 'greeting'?",
        ),
        ("parameters:\n  count: many", "e1:2:10: parameters.count: want a number, got text"),
        ("parameter_defaults:\n  count: [1]", "e1:2:10: parameter_defaults.count: want a number, got a list"),
        ("parameters: [a]", "e1:1:13: parameters: want a map, got a list"),
        ("paramters: {}", "e1:1:1: paramters: unknown section 'paramters'; did you mean 'parameters'?"),
        (
            "event_sinks: [{type: zaqar-queue, target: myqueue, ttl: 1200}]",
            "e1:1:1: event_sinks: the section 'event_sinks' is not supported: events are had with 'muster stack events --follow'",
        ),
        (
            "encrypted_param_names: [secret]",
            "e1:1:1: encrypted_param_names: the section 'encrypted_param_names' is not supported: a template says which of its parameters are secret: 'hidden: true'",
        ),
        ("[a]", "e1:1:1: an environment is a map of sections; this is something else"),
        ("{}\n---\n{}", "e1:2:1: an environment is one document; a second one begins here"),
        (
            "resource_registry: {resorces: {}}",
            "e1:1:21: resource_registry.resorces: unknown key 'resorces'; did you mean 'resources'?",
        ),
        (
            "resource_registry: {web: web.yaml}",
            "e1:1:21: resource_registry.web: 'web' is no type, which has '::' in it; beside types there are resources, base_url",
        ),
        (
            "resource_registry: {web.yaml: web2.yaml}",
            "e1:1:21: resource_registry.web.yaml: a template's file stands for itself: map the type that names it",
        ),
        (
            "resource_registry: {'A::B': web}",
            "e1:1:29: resource_registry.A::B: want a type such as OS::Heat::None, or a template's file ending in .yaml or .template, got 'web'",
        ),
        (
            "resource_registry: {'A::B': [web.yaml]}",
            "e1:1:29: resource_registry.A::B: want a type such as OS::Heat::None, or a template's file ending in .yaml or .template, got a list",
        ),
        (
            "resource_registry: {'A::B': 'C::*'}",
            "e1:1:29: resource_registry.A::B: a '*' stands at the end of both types, or of the first alone",
        ),
        (
            "resource_registry: {base_url: [a]}",
            "e1:1:31: resource_registry.base_url: want a folder, or the URL of one, got a list",
        ),
        (
            "parameter_merge_strategies: {default: merg}",
            "e1:1:39: parameter_merge_strategies.default: unknown strategy 'merg'; did you mean 'merge'?",
        ),
        (
            "parameter_merge_strategies: {a: [merge]}",
            "e1:1:33: parameter_merge_strategies.a: want the name of a strategy, got a list",
        ),
        (
            "resource_registry: {resources: [a]}",
            "e1:1:32: resource_registry.resources: want a map of resources, got a list",
        ),
        (
            "resource_registry: {resources: {a: pre-create}}",
            "e1:1:36: resource_registry.resources.a: want a map of hooks, restricted_actions, types, and resources nested in this one, got text",
        ),
        (
            "resource_registry: {resources: {a: {hook: pre-create}}}",
            "e1:1:37: resource_registry.resources.a.hook: unknown key 'hook'; did you mean 'hooks'?",
        ),
        (
            "resource_registry: {resources: {a: {hooks: pre-creat}}}",
            "e1:1:44: resource_registry.resources.a.hooks: unknown 'pre-creat'; did you mean 'pre-create'?",
        ),
        (
            "resource_registry: {resources: {a: {hooks: [1]}}}",
            "e1:1:45: resource_registry.resources.a.hooks: want pre-create, post-create, pre-update, post-update, pre-delete, post-delete, got a number",
        ),
        (
            "resource_registry: {resources: {a: {restricted_actions: delete}}}",
            "e1:1:57: resource_registry.resources.a.restricted_actions: unknown 'delete'; known are update, replace",
        ),
        (
            "resource_registry: {resources: {'a[0]': {}}}",
            "e1:1:33: resource_registry.resources.a[0]: want a resource's name of 1 to 255 characters, or a pattern in which '*' stands for any characters; '?', '[', ']' and '/' are not supported, and what is nested in a resource is a map in its map",
        ),
        (
            "resource_registry: {resources: {a: {b: {hook: pre-create}}}}",
            "e1:1:41: resource_registry.resources.a.b.hook: unknown key 'hook'; did you mean 'hooks'?",
        ),
    ] {
        let why = bound(
            &[text],
            &[("count", json!(1))].into_iter().filter(|_| !text.contains("count:")).collect::<Vec<_>>(),
        );
        assert_eq!(why.err().as_deref(), Some(wanted), "{text}");
    }
}

#[test]
fn errors_of_several_files_name_each() {
    let why = bound(&["parameters: {b: 1}", "parameters: {a: 1}"], &[]).unwrap_err();
    assert_eq!(
        why,
        "t:4:3: parameters.count: this parameter must be given, for it has no default: -P count=VALUE, or in an environment \
         (-e FILE)\n\
         e1:1:17: parameters.b: unknown parameter 'b'\n\
         e2:1:17: parameters.a: unknown parameter 'a'"
    );
    let why = environment(&["a: 1", "b: 1"]).err().unwrap();
    assert_eq!(why.lines().map(|line| &line[..2]).collect::<Vec<_>>(), ["e1", "e2"]);
    let many = vec!["{}"; Limits::ENVIRONMENTS + 1];
    assert!(environment(&many).err().unwrap().contains("at most 100 environments"));
}

#[test]
fn what_is_missing_is_counted_with_the_environment() {
    let template = parse("t", TEMPLATE, &BTreeMap::new()).unwrap();
    let missing = |texts| template.missing_parameters(&environment(texts).unwrap(), &BTreeMap::new());
    assert_eq!(missing(&[]), ["count"]);
    assert!(missing(&["parameter_defaults: {count: 1}"]).is_empty());
}

#[test]
fn resources_are_named_or_matched() {
    let of = |hooks: &str| format!("resource_registry: {{resources: {hooks}}}");
    let first =
        of("{web-*: {hooks: [pre-create, post-delete]}, web-1: {restricted_actions: replace}, '*': {}}");
    let second =
        of("{web-1: {hooks: pre-update}, db: {hooks: pre-delete, restricted_actions: [update, replace]}}");
    let third = of("{db: {hooks: []}}");
    let all = environment(&[&first, &second, &third]).unwrap();
    for (name, hooks, restricted) in [
        ("web-1", &[Hook::PreCreate, Hook::PreUpdate, Hook::PostDelete][..], &[Restriction::Replace][..]),
        ("web-2", &[Hook::PreCreate, Hook::PostDelete], &[]),
        ("db", &[], &[Restriction::Update, Restriction::Replace]),
        ("other", &[], &[]),
    ] {
        let policy = all.policies().of(name);
        let waits: Vec<Hook> = Hook::ALL.into_iter().filter(|hook| policy.waits_at(*hook)).collect();
        let refuses: Vec<_> = Restriction::ALL.into_iter().filter(|r| policy.restricts(*r)).collect();
        assert_eq!((&*waits, &*refuses), (hooks, restricted), "{name}");
    }
    assert_eq!(all.policies().named().collect::<Vec<_>>(), ["db", "web-1"]);
    assert_eq!(Environment::default().policies().of("db"), crate::Policy::default());
}

/// Heat's examples, with what its guide says of them.
#[test]
fn policies_of_what_is_nested() {
    let all = environment(&["
resource_registry:
  resources:
    my_server:
      'OS::DBInstance': file:///home/mine/all_my_cool_templates/db.yaml
      restricted_actions: replace
      hooks: pre-create
    nested_stack:
      nested_resource:
        hooks: pre-update
        restricted_actions: update
      another_resource:
        hooks: [pre-create, pre-update]
        restricted_actions: [update, replace]
    servers: {'*': {config: {hooks: pre-delete}}, '0': {config: {hooks: post-create}}}
    '*_server': {hooks: pre-create}
"])
    .unwrap();
    for (name, hooks, restricted) in [
        ("my_server", &[Hook::PreCreate][..], &[Restriction::Replace][..]),
        ("app_server", &[Hook::PreCreate], &[]),
        ("database_server", &[Hook::PreCreate], &[]),
        ("server", &[], &[]),
        ("app_network", &[], &[]),
        ("nested_stack", &[], &[]),
        ("nested_stack/nested_resource", &[Hook::PreUpdate], &[Restriction::Update]),
        (
            "nested_stack/another_resource",
            &[Hook::PreCreate, Hook::PreUpdate],
            &[Restriction::Update, Restriction::Replace],
        ),
        ("nested_resource", &[], &[]),
        ("nested_stack/app_server", &[], &[]),
        ("servers/0/config", &[Hook::PostCreate, Hook::PreDelete], &[]),
        ("servers/17/config", &[Hook::PreDelete], &[]),
        ("servers/17", &[], &[]),
        ("servers/17/config/x", &[], &[]),
    ] {
        let policy = all.policies().of(name);
        let waits: Vec<Hook> = Hook::ALL.into_iter().filter(|hook| policy.waits_at(*hook)).collect();
        let refuses: Vec<_> = Restriction::ALL.into_iter().filter(|r| policy.restricts(*r)).collect();
        assert_eq!((&*waits, &*refuses), (hooks, restricted), "{name}");
    }
    assert_eq!(all.policies().named().collect::<Vec<_>>(), ["my_server", "nested_stack", "servers"]);
}

#[test]
fn patterns_are_bounded() {
    let many: String =
        (0..=Limits::PATTERNS).map(|n| format!("    a{n}*: {{hooks: pre-create}}\n")).collect();
    let text = format!("resource_registry:\n  resources:\n{many}");
    assert!(environment(&[&text]).err().unwrap().contains("at most 1000 patterns"));
}

/// As in Heat, whose parser is PyYAML: TripleO's own registries rely on it.
#[test]
fn of_a_key_given_twice_the_last_counts() {
    let text = "parameters: {count: 1}\nparameter_defaults: {count: 5}\nparameters:\n  count: 2\n  count: 3\n\
        resource_registry:\n  A::B: one.yaml\n  A::B: OS::Heat::None\n";
    let environment = Environment::parse([("e", text)]).expect("it is read");
    let warnings: Vec<String> = environment.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "e:3:1: the section 'parameters' is given twice, and this one counts; the first is at 1:1",
            "e:5:3: parameters.count: 'count' is given twice, and this one counts; the first is at 4:3",
            "e:8:3: resource_registry.A::B: 'A::B' is given twice, and this one counts; the first is at 7:3",
        ]
    );
    assert!(environment.mentions().next().is_none(), "one.yaml is not asked for");
    assert_eq!(bound(&[text], &[]).expect("it is bound").get("count"), Some(&json!(3)));
}
