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

/// The part of `salt` that heat-agents' hook uses, as files below a directory of Python's: a minion's configuration, and a caller
/// that fills in `{{ opts['…'] }}` and knows one state.
const SALT: [(&str, &str); 5] = [
    ("salt/__init__.py", ""),
    ("salt/exceptions.py", "class SaltInvocationError(Exception):\n    pass\n"),
    (
        "salt/config.py",
        "import yaml\n\ndef minion_config(path):\n    with open(path) as f:\n        return yaml.safe_load(f)\n",
    ),
    ("salt/cli/__init__.py", ""),
    (
        "salt/cli/caller.py",
        r#"import os
import re

import yaml


class Caller:
    def __init__(self, opts):
        self.opts = opts

    @classmethod
    def factory(cls, opts):
        assert (opts['file_client'], opts['fun']) == ('local', 'state.sls'), opts
        return cls(opts)

    def call(self):
        name, = self.opts['arg']
        with open(os.path.join(self.opts['file_roots']['base'][0], name + '.sls')) as f:
            text = re.sub(r"{{ opts\['(\w+)'\] }}", lambda m: str(self.opts[m.group(1)]), f.read())
        with open(os.path.join(self.opts['cachedir'], 'calls'), 'a') as f:
            f.write(self.opts['deploy_action'] + '\n')
        made, retcode = {}, 0
        for key, states in yaml.safe_load(text).items():
            (state, arguments), = states.items()
            if state == 'environ.setenv':
                values = {k: v for argument in arguments for k, v in argument.items()}
                made[key] = {'result': True, 'changes': values['value']}
            else:
                retcode = 2
                made[key] = {'result': False, 'comment': 'State %s was not found in SLS' % state}
        return {'return': made, 'retcode': retcode}
"#,
    ),
];

/// What `docker` is to heat-agents' hook: one image, and the containers of any pod that is asked for.
const DOCKER: [(&str, &str); 1] = [(
    "docker.py",
    r#"import io
import json
import sys

TEXT = sys.stdin.read()
sys.stdin = io.StringIO(TEXT)
ASKED = json.loads(TEXT)


class Client:
    def __init__(self, base_url):
        assert base_url == 'unix:///run/other.sock', base_url

    def version(self):
        return {'ApiVersion': '1.3.0'}

    def images(self):
        return [{'RepoTags': ['kollaglue/fedora-rdo-rabbitmq:latest', 'other:1']}]

    def containers(self):
        pod = ASKED['id'].replace('-', '')[:15]
        names = [container['name'] for container in ASKED['config']['containers']]
        return [{'Names': ['/k8s_%s.dac8ccce_%s_default' % (name, pod)]} for name in names]
"#,
)];

/// Modules of Python that stand for those which a hook needs and the tests do not install; the directory they are in.
fn modules(agent: &Agent, files: &[(&str, &str)]) -> String {
    let place = agent.file("python");
    for (name, text) in files {
        let file = place.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    place.display().to_string()
}

/// With the states of heat-agents' own tests, which skip them: Salt is not installed.
#[test]
fn the_hook_of_salt_calls_its_state_with_the_inputs() {
    let (node, agents) = (HookedNode::new(), HeatAgents::installed());
    let [work, cache, minion] = ["work", "cache", "minion"].map(|name| node.path(name));
    fs::create_dir_all(&cache).unwrap();
    fs::write(&minion, format!("cachedir: {cache}\nlog_level: DEBUG\n")).unwrap();
    let python = modules(&node.agent, &SALT);
    let variables =
        [("HEAT_SALT_WORKING", &*work), ("SALT_MINION_CONFIG", &*minion), ("PYTHONPATH", &*python)];
    agents.give(&node.agent, "salt", &variables);
    let state = "testit:\n  environ.setenv:\n  - name: does_not_matter\n  - value:\n      \
        foo: {{ opts['fooval'] }}\n      bar: {{ opts['barval'] }}\n";
    let config = |state: &str| json!({"group": "salt", "config": state, "inputs": [{"name": "fooval"}, {"name": "barval"}]});
    let values = json!({"input_values": {"fooval": "bar", "barval": "foo"}});
    let template = node.template(&config(state), &values, "Software");
    for action in ["create", "update"] {
        let told = node.ok(action, &template, &[]);
        for part in ["testit", "foo: bar", "bar: foo", "result: true"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
    // What has not changed is not called again.
    assert_eq!(node.agent.content("cache/calls").as_deref(), Some("CREATE\n"));

    let failing = config("failure:\n  test.echo:\n  - text: I don't work\n");
    let reason = node.fails("update", &node.template(&failing, &values, "Software"), &[]);
    assert!(reason.contains("the hook 'salt' ended with status 2"), "{reason}");
    assert!(reason.contains("test.echo was not found in SLS"), "{reason}");
    assert_eq!(node.agent.content("cache/calls").as_deref(), Some("CREATE\nUPDATE\n"));
}

/// With a pod of heat-agents' own tests. The hook waits for images and containers that something else makes.
#[test]
fn the_hook_of_kubelet_waits_for_images_and_containers() {
    let (node, agents) = (HookedNode::new(), HeatAgents::installed());
    let python = modules(&node.agent, &DOCKER);
    let variables = [("DOCKER_HOST", "unix:///run/other.sock"), ("PYTHONPATH", &*python)];
    agents.give(&node.agent, "kubelet", &variables);
    let config = |image: &str, seconds: u32| {
        json!({
            "group": "kubelet", "options": {"poll_period": 0, "images_timeout": seconds},
            "config": {
                "version": "v1beta2", "volumes": [{"name": "mariadb-data"}],
                "containers": [{
                    "image": image, "name": "rabbitmq", "ports": [{"containerPort": 5672, "hostPort": 5672}],
                }],
            },
        })
    };
    let there = node.template(&config("kollaglue/fedora-rdo-rabbitmq", 600), &json!({}), "Structured");
    let told = node.ok("create", &there, &[]);
    for part in [
        "Connected to version 1.3.0",
        "Found image: kollaglue/fedora-rdo-rabbitmq:latest",
        "matches: /k8s_rabbitmq.",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }

    let absent = node.template(&config("kollaglue/fedora-rdo-heat-engine", 0), &json!({}), "Structured");
    let reason = node.fails("update", &absent, &[]);
    assert!(reason.contains("the hook 'kubelet' ended with status 1"), "{reason}");
    assert!(reason.contains("matching images: kollaglue/fedora-rdo-heat-engine:"), "{reason}");
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
