//! Software configs and deployments, as far as a template and its values go.

use std::collections::BTreeMap;

use muster_shared::model::{
    Action, Content, Deployment, DeploymentAction, DeploymentGroup, HookConfig, OnDelete, OnInterrupt, Spec,
};
use serde_json::{Value, json};

use crate::{
    Desired, Kind, NoResources, Site, SoftwareConfig, Tree, VirtualResource, parse, spec, spec_within,
};

/// Has one config, under the id `c`.
struct One(Result<SoftwareConfig, String>);

impl Site for One {
    fn config(&self, id: &str) -> Result<SoftwareConfig, String> {
        assert_eq!(id, "c");
        self.0.clone()
    }

    fn stack(&self) -> String {
        "web/7".into()
    }

    fn resource(&self) -> &str {
        "setup"
    }
}

fn config(kind: Kind, properties: &Value) -> SoftwareConfig {
    match spec(kind, properties) {
        Ok(Desired::Virtual(VirtualResource::Config(config))) => config,
        other => panic!("{properties}: {other:?}"),
    }
}

fn deployed(kind: Kind, config: SoftwareConfig, more: &Value) -> Result<Spec, String> {
    let mut properties = json!({"server": "web-1", "config": "c"});
    properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    match spec_within(kind, &properties, &One(Ok(config))) {
        Ok(Desired::Node(spec)) => Ok(spec),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

fn deployment(config: SoftwareConfig, more: &Value) -> Deployment {
    match deployed(Kind::SoftwareDeployment, config, more) {
        Ok(Spec::Deployment(deployment)) => deployment,
        other => panic!("{other:?}"),
    }
}

fn text(deployment: &Deployment, action: Action) -> Option<String> {
    deployment.step(action).map(|step| match &step.config {
        Content::Inline(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        Content::Stored { .. } => panic!("stored"),
    })
}

fn script(more: Value) -> SoftwareConfig {
    let mut properties = json!({"group": "script", "config": "#!/bin/sh\n"});
    properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config(Kind::SoftwareConfig, &properties)
}

#[test]
fn inputs_become_an_environment() {
    let config = script(json!({
        "inputs": [{"name": "given", "type": "String", "default": "x"}, {"name": "default", "default": [1, "a"]},
            {"name": "nothing"}, {"name": "replaces", "replace_on_change": true}],
        "outputs": [{"name": "result"}, {"name": "wrong", "error_output": true}],
    }));
    let values = json!({"given": "as is: $HOME", "more": {"b": [1, 2]}, "flag": true, "number": 5});
    let one = deployment(config, &json!({"input_values": values, "timeout": 5, "on_interrupt": "fail"}));
    let wanted = [
        ("deploy_resource_name", "setup"),
        ("deploy_server_id", "web-1"),
        ("deploy_signal_transport", "CFN_SIGNAL"),
        ("deploy_stack_id", "web/7"),
        ("default", "[1, \"a\"]"),
        ("flag", "true"),
        ("given", "as is: $HOME"),
        ("more", "{\"b\": [1, 2]}"),
        ("nothing", ""),
        ("number", "5"),
        ("replaces", ""),
    ];
    let wanted: BTreeMap<String, String> =
        wanted.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    assert_eq!(one.inputs, wanted);
    assert_eq!((one.timeout, one.on_interrupt, &*one.name), (5, OnInterrupt::Fail, "setup"));
    assert_eq!(one.replace_on.iter().collect::<Vec<_>>(), ["replaces"]);
    let outputs: Vec<_> = one.outputs.iter().map(|output| (&*output.name, output.error_output)).collect();
    assert_eq!(outputs, [("result", false), ("wrong", true)]);
    let heat = deployment(script(json!({})), &json!({"signal_transport": "ZAQAR_SIGNAL", "name": "mine"}));
    assert_eq!((&*heat.inputs["deploy_signal_transport"], &*heat.name), ("ZAQAR_SIGNAL", "mine"));
}

fn hooked(deployment: &Deployment, action: Action) -> HookConfig {
    assert_eq!(deployment.step(action).unwrap().group, DeploymentGroup::Hook);
    HookConfig::read(text(deployment, action).unwrap().as_bytes()).unwrap()
}

#[test]
fn a_foreign_group_is_given_all_as_heats_agents_do() {
    let config = config(
        Kind::SoftwareConfig,
        &json!({"group": "Own::puppet", "config": "{not json", "options": {"tags": ["a"]}, "inputs": [
            {"name": "ports", "type": "Json", "default": [80]}, {"name": "flag", "type": "String"},
            {"name": "nothing"}, {"name": "replaces", "replace_on_change": true}]}),
    );
    let shown = Desired::Virtual(VirtualResource::Config(config.clone()));
    assert_eq!(shown.virtual_resource().unwrap().properties()["inputs"][0]["type"], "Json");
    let values = json!({"flag": true, "more": {"b": [1, null]}, "number": 5});
    let one = deployment(config, &json!({"input_values": values}));
    let hook = hooked(&one, Action::Update);
    assert_eq!((&*hook.group, &hook.config), ("Own::puppet", &json!("{not json")));
    assert_eq!(Value::Object(hook.options), json!({"tags": ["a"]}));
    let inputs: BTreeMap<&str, (&str, &Value)> =
        hook.inputs.iter().map(|input| (&*input.name, (&*input.kind, &input.value))).collect();
    for (name, kind, value) in [
        ("deploy_resource_name", "String", json!("setup")),
        ("deploy_stack_id", "String", json!("web/7")),
        ("flag", "String", json!("True")),
        ("more", "String", json!("{'b': [1, None]}")),
        ("nothing", "String", json!("None")),
        ("number", "String", json!("5")),
        ("ports", "Json", json!([80])),
    ] {
        assert_eq!(inputs[name], (kind, &value), "{name}");
    }
    // The job has inputs once; a change of this one is seen in them.
    assert_eq!(one.inputs.keys().collect::<Vec<_>>(), ["replaces"]);
}

#[test]
fn documents_and_components_reach_hooks_too() {
    let structured = config(
        Kind::StructuredConfig,
        &json!({"group": "hiera", "config": {"datafiles": {"a": {"port": {"get_input": "port"}}}}}),
    );
    let Spec::Deployment(one) =
        deployed(Kind::StructuredDeployment, structured, &json!({"input_values": {"port": 80}})).unwrap()
    else {
        panic!("no deployment");
    };
    assert_eq!(hooked(&one, Action::Create).config, json!({"datafiles": {"a": {"port": 80}}}));
    let component = config(
        Kind::SoftwareComponent,
        &json!({"inputs": [{"name": "ports", "type": "CommaDelimitedList"}], "configs": [
            {"actions": ["CREATE"], "tool": "script", "config": "install"},
            {"actions": ["UPDATE", "DELETE"], "tool": "ansible", "config": "- hosts: all"}]}),
    );
    let of = deployment(component, &json!({"input_values": {"ports": [80]}}));
    assert_eq!((text(&of, Action::Create).unwrap().as_str(), &*of.inputs["ports"]), ("install", "[80]"));
    let hook = hooked(&of, Action::Delete);
    let ports = hook.inputs.iter().find(|input| input.name == "ports").unwrap();
    assert_eq!(
        (&hook.config, &*ports.kind, &ports.value),
        (&json!("- hosts: all"), "CommaDelimitedList", &json!([80]))
    );
}

#[test]
fn a_config_of_any_group_may_be_there_for_nothing() {
    let text = "heat_template_version: 2018-08-31
resources:
  a: {type: OS::Heat::SoftwareConfig, properties: {group: no-such-group, config: x}}
  b: {type: OS::Heat::StructuredConfig, properties: {group: kolla_config, config: {a: 1}}}
  c: {type: OS::Heat::SoftwareComponent, properties: {configs: [{tool: salt, config: x}]}}
";
    parse("t", text, &BTreeMap::new()).unwrap();
}

#[test]
fn actions_choose_what_runs() {
    let one = deployment(script(json!({})), &json!({}));
    assert_eq!(one.steps[0].actions, [DeploymentAction::Create, DeploymentAction::Update]);
    assert_eq!(
        (text(&one, Action::Create).as_deref(), text(&one, Action::Delete)),
        (Some("#!/bin/sh\n"), None)
    );
    let late = deployment(script(json!({})), &json!({"actions": ["DELETE", "SUSPEND", "RESUME"]}));
    assert_eq!((text(&late, Action::Create), text(&late, Action::Delete).is_some()), (None, true));
    let never = deployment(script(json!({})), &json!({"actions": ["SUSPEND"]}));
    assert!(never.steps.is_empty());
    let component = config(
        Kind::SoftwareComponent,
        &json!({"configs": [
            {"actions": ["CREATE"], "tool": "script", "config": "install"},
            {"actions": ["UPDATE", "RESUME"], "tool": "json-file", "config": "{\"/etc/a.json\": {}}"},
            {"actions": ["DELETE"], "tool": "script", "config": "remove"}]}),
    );
    let of = deployment(component, &json!({"actions": ["SUSPEND"]}));
    let texts = [Action::Create, Action::Update, Action::Delete].map(|action| text(&of, action).unwrap());
    assert_eq!(texts, ["install", "{\"/etc/a.json\":{}}", "remove"]);
    assert_eq!(of.step(Action::Update).unwrap().group, DeploymentGroup::JsonFile);
}

#[test]
fn a_structured_deployment_puts_its_inputs_in() {
    let structured = config(
        Kind::StructuredConfig,
        &json!({"group": "apply-config", "inputs": [{"name": "port", "default": 80}], "config": {
            "port": {"get_input": "port"}, "hosts": [{"get_input": "hosts"}, "b"], "none": {"get_input": "none"},
            "two": {"get_input": "port", "x": 1}}}),
    );
    let with = |more: &Value| match deployed(Kind::StructuredDeployment, structured.clone(), more)? {
        Spec::Deployment(deployment) => Ok(text(&deployment, Action::Create).unwrap()),
        other => panic!("{other:?}"),
    };
    let shown = |text: Result<String, String>| -> Value { serde_json::from_str(&text.unwrap()).unwrap() };
    assert_eq!(
        shown(with(&json!({"input_values": {"hosts": {"a": true}}}))),
        json!({"port": 80, "hosts": [{"a": true}, "b"], "none": null, "two": {"get_input": "port", "x": 1}})
    );
    let strict = json!({"input_values": {"hosts": 1}, "input_values_validate": "STRICT"});
    let error = with(&strict).unwrap_err();
    assert_eq!(error, "input_values: its config asks for the input 'none', which has no value");
    assert_eq!(shown(with(&json!({"input_key": "x"})))["port"], json!({"get_input": "port"}));
    // A software deployment leaves them as they are.
    let plain = deployment(structured.clone(), &json!({}));
    assert!(text(&plain, Action::Create).unwrap().contains("get_input"));

    let asks =
        json!({"config": {"now": {"get_input": "deploy_action"}, "on": {"get_input": "deploy_server_id"}}});
    let asks = config(Kind::StructuredConfig, &asks);
    let Ok(Spec::Deployment(both)) = deployed(Kind::StructuredDeployment, asks, &json!({})) else { panic!() };
    let texts = [Action::Create, Action::Update].map(|action| text(&both, action).unwrap());
    assert_eq!(texts, ["{\"now\":\"CREATE\",\"on\":\"web-1\"}", "{\"now\":\"UPDATE\",\"on\":\"web-1\"}"]);
}

#[test]
fn the_group_os_net_config_is_a_network() {
    let document = json!({"network_config": [{"type": "interface", "name": "eth1", "use_dhcp": false}]});
    let as_text = json!({"group": "os-net-config", "config": document.to_string()});
    let as_map = json!({"group": "os-net-config", "config": document});
    let nested = json!({"group": "os-net-config", "config": {"os_net_config": document}});
    for (kind, given) in [
        (Kind::SoftwareConfig, as_text),
        (Kind::StructuredConfig, as_map.clone()),
        (Kind::StructuredConfig, nested),
    ] {
        match deployed(Kind::StructuredDeployment, config(kind, &given), &json!({})) {
            Ok(Spec::Network(network)) => {
                assert_eq!(network.document, document.to_string());
                assert_eq!(network.on_delete, OnDelete::Keep, "Heat does nothing on delete");
            }
            other => panic!("{other:?}"),
        }
    }
    let all = json!({"actions": ["CREATE", "UPDATE", "DELETE"]});
    match deployed(Kind::SoftwareDeployment, config(Kind::StructuredConfig, &as_map), &all) {
        Ok(Spec::Network(network)) => assert_eq!(network.on_delete, OnDelete::Restore),
        other => panic!("{other:?}"),
    }
    for (given, more, message) in [
        (json!([{"type": "interface"}]), json!({}), "its config: "),
        (
            document,
            json!({"actions": ["CREATE"]}),
            "actions: the group os-net-config wants CREATE and UPDATE",
        ),
    ] {
        let config = config(Kind::StructuredConfig, &json!({"group": "os-net-config", "config": given}));
        let error = deployed(Kind::SoftwareDeployment, config, &more).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn what_no_run_can_be_given_is_refused() {
    for (given, more, message) in [
        (json!({"outputs": [{"name": "a/b"}]}), json!({}), "output 'a/b' cannot be part of a file's name"),
        (
            json!({"outputs": [{"name": "deploy_stdout"}]}),
            json!({}),
            "output 'deploy_stdout' is declared twice",
        ),
        (json!({}), json!({"input_values": {"a=b": 1}}), "input 'a=b' cannot be an environment variable"),
        (json!({"config": "x".repeat(200_000)}), json!({}), "are 200"),
        (json!({"group": "json-file", "config": "- a"}), json!({}), "is no map in JSON"),
        (json!({"group": "apply-config", "config": "[]"}), json!({}), "it is another value"),
    ] {
        let error = deployed(Kind::SoftwareDeployment, script(given), &more).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    let gone = One(Err("there is none".into()));
    let error = spec_within(Kind::SoftwareDeployment, &json!({"server": "web-1", "config": "c"}), &gone);
    assert_eq!(error.unwrap_err().to_string(), "config: there is none");
}

#[test]
fn faults_of_configs_and_deployments_have_their_place() {
    let text = r"heat_template_version: 2018-08-31
resources:
  a: {type: OS::Heat::SoftwareConfig, properties: {group: [ansible]}}
  b: {type: OS::Heat::StructuredConfig, properties: {group: script, outputs: [{name: x, kind: y}]}}
  c: {type: OS::Heat::SoftwareComponent, properties: {configs: [{tool: os-net-config}, {tool: script, actions: [BOOT]}]}}
  d: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: e}, server: web-1, signal_transport: SMOKE}}
  e: {type: OS::Heat::SoftwareConfig, properties: {group: script, outputs: [{name: result}]}}
  e2: {type: OS::Heat::StructuredConfig, properties: {config: {a: {get_input: x}, b: {get_imput: x}}}}
  f: {type: OS::Heat::StructuredDeploymentGroup, properties: {servers: {x: 'a b'}, timeout: 0}}
outputs:
  right: {value: {get_attr: [d, result]}}
  also: {value: {get_attr: [d, deploy_status_code]}}
  wrong: {value: {get_attr: [d, results]}}
";
    let errors = parse("t", text, &BTreeMap::new()).unwrap_err().to_string();
    for wanted in [
        "t:3:59: resources.a.properties.group: want the name of a group",
        "resources.b.properties.group: a script is text: take an OS::Heat::SoftwareConfig",
        "resources.b.properties.outputs[0]: unknown key 'kind'",
        "resources.c.properties.configs[0].tool: os-net-config is no tool of a component",
        "resources.d.properties.signal_transport: unknown: 'SMOKE'",
        "resources.f.properties.servers.x: ",
        "resources.f.properties.timeout: want a whole number from 1 to 82800",
        "outputs.wrong.value.get_attr: its config declares no output 'results'; did you mean 'result'?",
    ] {
        assert!(errors.contains(wanted), "{wanted}\n{errors}");
    }
    assert!(!errors.contains("outputs.right") && !errors.contains("outputs.also"), "{errors}");
}

#[test]
fn a_group_has_a_deployment_for_each_server() {
    let text = r"heat_template_version: 2018-08-31
resources:
  c: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: 'true'}}
  g:
    type: OS::Heat::SoftwareDeploymentGroup
    properties: {config: {get_resource: c}, servers: {one: web-1, two: web-2}, input_values: {a: b}}
";
    let template = parse("t", text, &BTreeMap::new()).unwrap();
    let parameters = template.bind(&BTreeMap::new()).unwrap();
    let tree =
        Tree::new(template.into(), parameters.into(), &crate::Environment::default(), &BTreeMap::new());
    let tree = tree.unwrap().with(&NoResources).unwrap();
    let names: Vec<_> = (0..tree.len()).map(|at| (tree.name(at).to_owned(), tree.kind(at))).collect();
    let member = Kind::SoftwareDeployment;
    let wanted = [
        ("c", Kind::SoftwareConfig),
        ("g", Kind::SoftwareDeploymentGroup),
        ("g/one", member),
        ("g/two", member),
    ];
    assert_eq!(names, wanted.map(|(name, kind)| (name.to_owned(), kind)));
    struct Ids;
    impl crate::References for Ids {
        fn resource_id(&self, index: u32) -> Option<String> {
            Some(format!("id-{index}"))
        }
        fn attribute(&self, index: u32, name: &str) -> Option<Value> {
            Some(json!(format!("{name} of {index}")))
        }
    }
    assert_eq!(
        tree.render(3, &Ids).unwrap(),
        json!({"server": "web-2", "config": "id-0", "input_values": {"a": "b"}})
    );
    assert_eq!(tree.requires(3), [0]);
    assert_eq!(tree.requires(1), [0, 2, 3]);
}
