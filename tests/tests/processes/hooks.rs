//! Deployments whose group is a hook of the server: heat-agents' own, and others that misbehave.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use muster_testbed::eventually;
use muster_tests::site::{Agent, HeatAgents, Site};
use serde_json::{Value, json};

/// A node with a stack `s` of one deployment `run`.
struct HookedNode {
    site: Site,
    agent: Agent,
}

impl HookedNode {
    fn new() -> Self {
        let site = Site::start();
        let agent = site.join("web-1");
        Self { site, agent }
    }

    fn path(&self, name: &str) -> String {
        self.agent.file(name).display().to_string()
    }

    /// A deployment of a config with these properties.
    fn template(&self, config: &Value, deployment: &Value, kind: &str) -> String {
        let mut properties = json!({"config": {"get_resource": "config"}, "server": "web-1"});
        properties.as_object_mut().unwrap().extend(deployment.as_object().unwrap().clone());
        let mut template = json!({
            "heat_template_version": "2018-08-31",
            "parameters": {"colour": {"type": "string", "default": "hunter2", "hidden": true}},
            "resources": {
                "config": {"type": format!("OS::Heat::{kind}Config"), "properties": config},
                "run": {"type": format!("OS::Heat::{kind}Deployment"), "properties": properties},
            },
            "outputs": {
                "said": {"value": {"get_attr": ["run", "deploy_stdout"]}},
            },
        });
        if !config["outputs"].is_null() {
            template["outputs"]["result"] = json!({"value": {"get_attr": ["run", "result"]}});
        }
        self.site.file(&template.to_string())
    }

    /// Creates or updates the stack, which must end well; what its outputs are.
    fn ok(&self, action: &str, template: &str, more: &[&str]) -> String {
        self.site.ok(&[&["stack", action, "s", "-t", template, "--wait"], more].concat());
        self.site.json(&["stack", "outputs", "s"]).to_string()
    }

    /// The same, and it must fail; why it did.
    fn fails(&self, action: &str, template: &str, more: &[&str]) -> String {
        self.site.muster(&[&["stack", action, "s", "-t", template, "--wait"], more].concat()).expect(1);
        self.site.ok(&["stack", "failures", "s"])
    }

    fn lines(&self) -> String {
        self.agent.content("lines").unwrap_or_default()
    }
}

#[test]
fn ansibles_hook_runs_a_playbook_once_for_each_change() {
    let (node, agents) = (HookedNode::new(), HeatAgents::installed());
    let (work, outputs, home) = (node.path("work"), node.path("outputs"), node.path("home"));
    let program = agents.program("ansible-playbook").display().to_string();
    agents.give(
        &node.agent,
        "ansible",
        &[
            ("HEAT_ANSIBLE_WORKING", &work),
            ("HEAT_ANSIBLE_OUTPUTS", &outputs),
            ("HEAT_ANSIBLE_CMD", &program),
            ("ANSIBLE_HOME", &home),
            ("ANSIBLE_NOCOLOR", "1"),
        ],
    );
    let play = json!([{
        "hosts": "localhost", "connection": "local", "gather_facts": false,
        "tasks": [
            {"tags": "wanted", "shell": format!("echo '{{{{ deploy_action }}}} {{{{ colour }}}} {{{{ ports }}}}' >>{}", node.path("lines"))},
            {"tags": "wanted", "copy": {"dest": "{{ heat_outputs_path }}.result", "content": "blue"}},
            {"shell": format!("echo unwanted >>{}", node.path("lines"))},
            {"tags": "wanted", "fail": {"msg": "no such colour"}, "when": "colour == 'ultramarine'"},
        ],
    }]);
    let config = json!({
        "group": "ansible", "config": play.to_string(), "options": {"tags": "wanted"},
        "inputs": [{"name": "colour"}, {"name": "ports", "type": "Json"}], "outputs": [{"name": "result"}],
    });
    let values = json!({"colour": {"get_param": "colour"}, "ports": [80, 443]});
    let template = node.template(&config, &json!({"input_values": values}), "Software");
    let told = node.ok("create", &template, &[]);
    assert_eq!(node.lines(), "CREATE hunter2 [80, 443]\n");
    assert!(told.contains("blue") && told.contains("PLAY RECAP"), "{told}");

    for _ in 0..2 {
        node.ok("update", &template, &["-P", "colour=green"]);
    }
    assert_eq!(node.lines(), "CREATE hunter2 [80, 443]\nUPDATE green [80, 443]\n");
    // Ansible tells errors on standard output alone. The agent's log has none of them, and no input.
    let reason = node.fails("update", &template, &["-P", "colour=ultramarine"]);
    assert!(reason.contains("the hook 'ansible' ended with status 2"), "{reason}");
    assert!(reason.contains("no such colour"), "{reason}");
    let log = node.agent.daemon.log();
    assert!(log.contains("ended with status 2") && !log.contains("no such colour"), "{log}");
    for text in [&log, &reason, &node.site.controller.log()] {
        assert!(!text.contains("ultramarine") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn hieras_hook_writes_the_data_of_its_config() {
    let (node, agents) = (HookedNode::new(), HeatAgents::installed());
    let (data, config) = (node.path("hieradata"), node.path("hiera.yaml"));
    let variables = [("HEAT_PUPPET_HIERA_DATADIR", &*data), ("HEAT_HIERA_CONFIG", &*config)];
    agents.give(&node.agent, "hiera", &variables);
    let wanted = json!({
        "group": "hiera", "inputs": [{"name": "port", "type": "Number"}],
        "config": {"hierarchy": ["all"], "datafiles": {"all": {"web::port": {"get_input": "port"}, "list": [1, null]}}},
    });
    node.ok("create", &node.template(&wanted, &json!({"input_values": {"port": 80}}), "Structured"), &[]);
    let written: Value = serde_json::from_str(&node.agent.content("hieradata/all.json").unwrap()).unwrap();
    assert_eq!(written, json!({"web::port": 80, "list": [1, null]}));
    assert!(node.agent.content("hiera.yaml").unwrap().ends_with(":hierarchy:\n  - all\n"));
}

/// With the tool, and the options, of heat-agents' own tests.
#[test]
fn the_hooks_of_puppet_and_docker_are_given_what_they_ask_for() {
    let (node, agents) = (HookedNode::new(), HeatAgents::installed());
    let tool = agents.fake_tool();
    let seen = node.path("seen.json");
    let response =
        json!({"stdout": "puppet success", "stderr": "thing happened", "returncode": 2}).to_string();
    let [work, outputs, log, data] = ["work", "outputs", "log", "data"].map(|name| node.path(name));
    agents.give(
        &node.agent,
        "puppet",
        &[
            ("HEAT_PUPPET_WORKING", &work),
            ("HEAT_PUPPET_OUTPUTS", &outputs),
            ("HEAT_PUPPET_LOGDIR", &log),
            ("HEAT_PUPPET_HIERA_DATADIR", &data),
            ("HEAT_PUPPET_CMD", &tool),
            ("TEST_STATE_PATH", &seen),
            ("TEST_RESPONSE", &response),
        ],
    );
    let config = json!({
        "group": "puppet", "config": "the puppet script", "options": {"enable_hiera": true, "enable_facter": true},
        "inputs": [{"name": "foo"}, {"name": "flag"}],
    });
    let values = json!({"input_values": {"foo": "bar", "flag": true}, "name": "fake_resource_name"});
    let told = node.ok("create", &node.template(&config, &values, "Software"), &[]);
    assert!(told.contains("puppet success"), "{told}");
    let seen: Value = serde_json::from_str(&node.agent.content("seen.json").unwrap()).unwrap();
    assert_eq!((&seen["args"][1], &seen["env"]["FACTER_foo"]), (&json!("apply"), &json!("bar")));
    assert_eq!(seen["env"]["FACTER_flag"], "True");
    assert_eq!(seen["env"]["FACTER_deploy_action"], "CREATE");
    let hiera: Value =
        serde_json::from_str(&node.agent.content("data/heat_config_fake_resource_name.json").unwrap())
            .unwrap();
    assert_eq!(hiera["foo"], "bar");
    node.site.ok(&["stack", "delete", "s", "--wait"]);

    // The hook prints what docker prints, and its answer after that.
    let calls =
        json!([{"returncode": 1}, {"stdout": "4c5d\n", "stderr": "no such image", "returncode": 125}]);
    let (calls, seen) = (calls.to_string(), node.path("docker.json"));
    let variables = [("HEAT_DOCKER_CMD", &*tool), ("TEST_STATE_PATH", &*seen), ("TEST_RESPONSE", &*calls)];
    agents.give(&node.agent, "docker-cmd", &variables);
    let config = json!({"group": "docker-cmd", "config": {"db": {"image": "xxx", "privileged": false}}});
    let reason = node.fails("create", &node.template(&config, &json!({}), "Structured"), &[]);
    for part in ["the hook 'docker-cmd' ended with status 125", "no such image"] {
        assert!(reason.contains(part), "{reason}");
    }
    let seen: Value = serde_json::from_str(&node.agent.content("docker.json_1").unwrap()).unwrap();
    let arguments = seen["args"].as_array().unwrap();
    assert!(arguments.contains(&json!("deploy_resource_name=run")), "{arguments:?}");
}

/// With the inputs of heat-agents' own tests, and a `chef-client` that writes down what it is given.
#[test]
fn the_hook_of_chef_hands_over_attributes_and_run_list() {
    let (node, agents) = (HookedNode::new(), HeatAgents::installed());
    let [work, outputs, bin] = ["work", "outputs", "bin"].map(|name| node.path(name));
    fs::create_dir_all(&bin).unwrap();
    let client = node.agent.file("bin/chef-client");
    let text = format!(
        "#!/bin/sh\necho \"$@\" >{0}/arguments\ncp \"$3\" {0}/client.rb\ncp \"$5\" {0}/node.json\n\
         printf blue >\"$heat_outputs_path.result\"\necho chef success\n",
        node.agent.root.display()
    );
    fs::write(&client, text).unwrap();
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let variables = [("HEAT_CHEF_WORKING", &*work), ("HEAT_CHEF_OUTPUTS", &*outputs), ("PATH", &*path)];
    agents.give(&node.agent, "chef", &variables);
    let config = json!({
        "group": "chef", "config": "[\"recipe[apache]\"]", "options": {"kitchen_path": "/opt/heat/chef/kitchen"},
        "inputs": [{"name": "fooval", "type": "Json"}, {"name": "barval", "type": "Json"}, {"name": "environment"}],
        "outputs": [{"name": "result"}],
    });
    let values = json!({"fooval": {"bar": "baz"}, "barval": {"foo": "biff"}, "environment": "production"});
    let told = node.ok("create", &node.template(&config, &json!({"input_values": values}), "Software"), &[]);
    assert!(told.contains("chef success") && told.contains("blue"), "{told}");
    let arguments = node.agent.content("arguments").unwrap();
    assert!(arguments.starts_with(&format!("-z --config {work}/client.rb -j {work}/node/")), "{arguments}");
    let attributes: Value = serde_json::from_str(&node.agent.content("node.json").unwrap()).unwrap();
    let wanted = json!({"fooval": {"bar": "baz"}, "barval": {"foo": "biff"}, "run_list": ["recipe[apache]"]});
    assert_eq!(attributes, wanted);
    let client = node.agent.content("client.rb").unwrap();
    assert!(client.contains("cookbook_path '/opt/heat/chef/kitchen/cookbooks'"), "{client}");
    assert!(client.contains("environment 'production'"), "{client}");
}

/// With the tool, and the configs, of heat-agents' own tests.
#[test]
fn the_hooks_of_cfn_init_and_compose_get_their_config() {
    let (node, agents) = (HookedNode::new(), HeatAgents::installed());
    let tool = agents.fake_tool();
    let [work, metadata] = ["work", "metadata"].map(|name| node.path(name));
    let seen = ["cfn", "compose"].map(|name| node.path(&format!("{name}.json")));
    let response = json!({"stdout": "tool success", "stderr": "thing happened"}).to_string();
    let [cfn, compose] =
        seen.each_ref().map(|seen| [("TEST_STATE_PATH", seen.as_str()), ("TEST_RESPONSE", &*response)]);
    let arguments = |name: &str| {
        let seen: Value = serde_json::from_str(&node.agent.content(name).unwrap()).unwrap();
        seen["args"].clone()
    };

    let own = [("HEAT_CFN_INIT_LAST_METADATA_DIR", &*metadata), ("HEAT_CFN_INIT_CMD", &*tool)];
    agents.give(&node.agent, "cfn-init", &[&own[..], &cfn].concat());
    let config = json!({"group": "cfn-init", "config": {"foo": "bar"}});
    let told = node.ok("create", &node.template(&config, &json!({}), "Structured"), &[]);
    assert!(told.contains("tool success"), "{told}");
    let written: Value =
        serde_json::from_str(&node.agent.content("metadata/last_metadata").unwrap()).unwrap();
    assert_eq!(written, json!({"AWS::CloudFormation::Init": {"foo": "bar"}}));
    assert_eq!(arguments("cfn.json"), json!([tool]));
    node.site.ok(&["stack", "delete", "s", "--wait"]);

    let own = [("HEAT_DOCKER_COMPOSE_WORKING", &*work), ("HEAT_DOCKER_COMPOSE_CMD", &*tool)];
    agents.give(&node.agent, "docker-compose", &[&own[..], &compose].concat());
    let files =
        "[{'file_name': './common.env', 'content': 'xxxxx'}, {'file_name': './test.env', 'content': 'yyyy'}]";
    let config = json!({
        "group": "docker-compose", "inputs": [{"name": "env_files", "default": files}],
        "config": {"web": {"name": "x", "env_file": ["./common.env", "./prod.env"]}},
    });
    let told = node.ok("create", &node.template(&config, &json!({"name": "abcdef001"}), "Structured"), &[]);
    assert!(told.contains("tool success"), "{told}");
    assert_eq!(node.agent.content("work/abcdef001/common.env").as_deref(), Some("xxxxx"));
    assert_eq!(node.agent.content("work/abcdef001/test.env"), None);
    assert_eq!(arguments("compose.json"), json!([tool, "up", "-d", "--no-build"]));
}

#[test]
fn a_server_without_a_hook_fails_alone_and_says_where_it_looked() {
    let node = HookedNode::new();
    let config = json!({"group": "kolla_config", "config": "x"});
    let template = node.template(&config, &json!({}), "Software");
    node.site.ok(&["stack", "validate", "-t", &template]);
    let reason = node.fails("create", &template, &[]);
    let wanted = format!("looked for {}", node.path("hooks/kolla_config"));
    assert!(
        reason.contains("group 'kolla_config': there is no hook") && reason.contains(&wanted),
        "{reason}"
    );
    node.agent.hook("kolla_config", "#!/bin/sh\necho '{\"deploy_stdout\": \"it is well\"}'\n");
    let told = node.ok("update", &template, &[]);
    assert!(told.contains("it is well"), "{told}");
}

#[test]
fn a_hook_that_runs_while_its_agent_is_killed_runs_once() {
    let mut node = HookedNode::new();
    let hook = format!(
        "#!/bin/sh
echo begun >>{0}/lines
while ! [ -e {0}/go ] && [ -d {0} ]; do sleep 0.02; done
echo '{{\"result\": \"late\"}}'
",
        node.agent.root.display()
    );
    node.agent.hook("own", &hook);
    let config = json!({"group": "own", "config": "x", "outputs": [{"name": "result"}]});
    node.site.ok(&["stack", "create", "s", "-t", &node.template(&config, &json!({}), "Software")]);
    eventually("the hook runs", || Some(()).filter(|()| node.lines() == "begun\n"));
    node.agent.daemon.kill();
    fs::write(node.agent.file("go"), "").unwrap();
    node.agent.daemon.restart();
    let told = eventually("the hook's answer is there", || {
        Some(node.site.json(&["stack", "outputs", "s"]).to_string()).filter(|told| told.contains("late"))
    });
    assert_eq!(node.lines(), "begun\n", "{told}");
}
