//! Software deployments on a server: what their scripts get and tell, and how often they run, whoever is killed when.

use std::fs;
use std::path::PathBuf;

use muster_testbed::eventually;
use muster_tests::site::{Agent, Site};
use serde_json::Value;

/// A node with a stack `s` of one deployment, whose script leaves a line for each run.
struct ScriptedNode {
    site: Site,
    agent: Agent,
}

impl ScriptedNode {
    fn new() -> Self {
        let site = Site::start();
        let agent = site.join("web-1");
        Self { site, agent }
    }

    fn path(&self, name: &str) -> String {
        self.agent.file(name).display().to_string()
    }

    /// A deployment, for all actions, whose script leaves a line for each run.
    fn template(&self, script: &str, options: &str) -> String {
        let begin = format!("echo \"$deploy_action $colour\" >>{}", self.path("lines"));
        let script =
            [&begin, script].map(|part| format!("        {}", part.replace('\n', "\n        "))).join("\n");
        self.site.file(&format!(
            "heat_template_version: 2018-08-31
parameters: {{colour: {{type: string, default: blue, hidden: true}}}}
resources:
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{{name: colour}}]
      outputs: [{{name: result}}]
      config: |
        #!/bin/sh
{script}
  run:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {{get_resource: config}}
      server: web-1
      actions: [CREATE, UPDATE, DELETE]
      input_values: {{colour: {{get_param: colour}}}}
      {options}
outputs:
  result: {{value: {{get_attr: [run, result]}}}}
  said: {{value: {{get_attr: [run, deploy_stdout]}}}}
"
        ))
    }

    /// A script that hangs until the test says go, or is gone.
    fn hangs(&self) -> String {
        format!(
            "echo $$ $PPID >{0}/pids.new; mv {0}/pids.new {0}/pids
while [ ! -e {0}/go ] && [ -d {0} ]; do sleep 0.02; done",
            self.agent.root.display()
        )
    }

    fn lines(&self) -> String {
        self.agent.content("lines").unwrap_or_default()
    }

    /// The process ids of the script that hangs, and of its supervisor.
    fn pids(&self) -> [u32; 2] {
        let pids = eventually("the script runs", || self.agent.content("pids"));
        let pids: Vec<u32> = pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        pids.try_into().unwrap()
    }

    fn go(&self) {
        fs::write(self.agent.file("go"), "").unwrap();
    }

    fn update(&self, template: &str, colour: &str) {
        let parameter = format!("colour={colour}");
        self.site.ok(&["stack", "update", "s", "-t", template, "-P", &parameter]);
    }

    fn stack(&self) -> Value {
        self.site.json(&["stack", "show", "s"])
    }

    fn until(&self, status: &str) -> Value {
        eventually(&format!("the stack is {status}"), || {
            Some(self.stack()).filter(|stack| stack["status"] == status)
        })
    }

    fn runs(&self) -> usize {
        fs::read_dir(self.agent.state.join("runs")).unwrap().count()
    }
}

fn is_there(pid: u32) -> bool {
    // One that has ended and that nobody has asked after yet has no memory.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| !arguments.is_empty())
}

fn kill(pids: &[u32]) {
    for pid in pids {
        assert!(
            std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success()
        );
    }
    eventually("they are gone", || pids.iter().all(|pid| !is_there(*pid)).then_some(()));
}

#[test]
fn a_script_runs_once_per_change_and_its_output_comes_back() {
    let scripted = ScriptedNode::new();
    let template =
        scripted.template("printf %s \"$colour!\" >$heat_outputs_path.result; echo said; echo oops >&2", "");
    scripted.site.ok(&["stack", "create", "s", "-t", &template, "--wait"]);
    assert_eq!(scripted.lines(), "CREATE blue\n");
    let outputs = scripted.site.json(&["stack", "outputs", "s"]);
    let outputs = outputs.to_string();
    assert!(outputs.contains("said"), "{outputs}");
    scripted.update(&template, "red");
    scripted.until("COMPLETE");
    scripted.update(&template, "red");
    scripted.until("COMPLETE");
    assert_eq!(scripted.lines(), "CREATE blue\nUPDATE red\n", "what did not change does not run");
    scripted.site.ok(&["stack", "check", "s", "--wait"]);
    scripted.site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(scripted.lines(), "CREATE blue\nUPDATE red\nDELETE red\n");
    eventually("nothing of a run is left", || (scripted.runs() == 0).then_some(()));
}

#[test]
fn a_failed_script_runs_once_and_its_errors_are_told_not_logged() {
    let scripted = ScriptedNode::new();
    let template = scripted.template("echo \"the colour is $colour\" >&2; echo no room >&2; exit 3", "");
    scripted
        .site
        .muster(&["stack", "create", "s", "-t", &template, "-P", "colour=ultramarine", "--wait"])
        .expect(1);
    let failures = scripted.site.ok(&["stack", "failures", "s"]);
    for part in ["the script ended with status 3", "no room"] {
        assert!(failures.contains(part), "{failures}");
    }
    assert_eq!(scripted.lines(), "CREATE ultramarine\n");
    let log = scripted.agent.daemon.log();
    assert!(log.contains("the script ended with status 3") && !log.contains("no room"), "{log}");
    for text in [&log, &failures, &scripted.site.controller.log()] {
        assert!(!text.contains("ultramarine"), "{text}");
    }
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_all_that_it_started() {
    let scripted = ScriptedNode::new();
    let script = format!("setsid sleep 600 &\necho $! >{}\n{}", scripted.path("other"), scripted.hangs());
    // Time enough to begin all that is to be ended.
    let template = scripted.template(&script, "timeout: 10");
    scripted.site.muster(&["stack", "create", "s", "-t", &template, "--wait"]).expect(1);
    assert!(scripted.site.ok(&["stack", "failures", "s"]).contains("took longer than 10 s"));
    let other: u32 = scripted.agent.content("other").unwrap().trim().parse().unwrap();
    for pid in scripted.pids().into_iter().chain([other]) {
        assert!(!is_there(pid), "{pid}");
    }
}

#[test]
fn a_script_cut_by_a_power_failure_reruns_or_fails_by_policy() {
    for (policy, lines, status) in [("rerun", 2, "COMPLETE"), ("fail", 1, "FAILED")] {
        let mut scripted = ScriptedNode::new();
        let template = scripted.template(&scripted.hangs(), &format!("on_interrupt: {policy}"));
        scripted.site.ok(&["stack", "create", "s", "-t", &template]);
        let [script, supervisor] = scripted.pids();
        scripted.agent.daemon.kill();
        kill(&[supervisor, script]);
        scripted.go();
        scripted.agent.daemon.restart();
        let stack = scripted.until(status);
        assert_eq!(scripted.lines(), "CREATE blue\n".repeat(lines), "{policy}: {stack}");
        if policy == "fail" {
            assert!(scripted.site.ok(&["stack", "failures", "s"]).contains("was interrupted"));
        }
    }
}

#[test]
fn an_agent_killed_before_its_report_finds_the_scripts_result() {
    let mut scripted = ScriptedNode::new();
    let template = scripted.template(
        &format!("{}\necho whole >$heat_outputs_path.result", scripted.hangs()),
        "on_interrupt: fail",
    );
    scripted.site.ok(&["stack", "create", "s", "-t", &template]);
    let [script, supervisor] = scripted.pids();
    scripted.agent.daemon.kill();
    assert!(is_there(script), "it does not end with the agent");
    scripted.go();
    eventually("the script has ended", || (!is_there(script) && !is_there(supervisor)).then_some(()));
    scripted.agent.daemon.restart();
    scripted.until("COMPLETE");
    assert_eq!(scripted.lines(), "CREATE blue\n");
    assert!(scripted.site.json(&["stack", "outputs", "s"]).to_string().contains("whole"));
    eventually("nothing of the run is left", || (scripted.runs() == 0).then_some(()));
}

#[test]
fn a_restarted_agent_waits_for_the_script_that_runs() {
    let mut scripted = ScriptedNode::new();
    let template = scripted.template(&scripted.hangs(), "on_interrupt: fail");
    scripted.site.ok(&["stack", "create", "s", "-t", &template]);
    let [script, _] = scripted.pids();
    scripted.agent.daemon.kill();
    scripted.agent.daemon.restart();
    scripted.site.until_node("web-1", "online");
    assert!(is_there(script));
    scripted.go();
    scripted.until("COMPLETE");
    assert_eq!(scripted.lines(), "CREATE blue\n");
}

#[test]
fn files_do_not_wait_for_a_script() {
    let scripted = ScriptedNode::new();
    let slow = scripted.template(&scripted.hangs(), "");
    scripted.site.ok(&["stack", "create", "s", "-t", &slow]);
    scripted.pids();
    let file = scripted.site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  motd:\n    type: Muster::File\n    properties: {{node: web-1, path: {}, content: hello}}\n",
        scripted.path("motd")
    ));
    scripted.site.ok(&["stack", "create", "files", "-t", &file, "--wait"]);
    assert_eq!(scripted.agent.content("motd").as_deref(), Some("hello"));
    assert_eq!(scripted.stack()["status"], "IN_PROGRESS");
    scripted.go();
    scripted.until("COMPLETE");
}

#[test]
fn a_newer_change_or_a_cancel_leaves_a_script_to_end() {
    for operation in ["update", "cancel"] {
        let scripted = ScriptedNode::new();
        let hangs = format!("{}\necho whole >>{}", scripted.hangs(), scripted.path("lines"));
        scripted.site.ok(&["stack", "create", "s", "-t", &scripted.template(&hangs, "")]);
        scripted.pids();
        match operation {
            "update" => scripted.update(&scripted.template("true", ""), "red"),
            _ => drop(scripted.site.ok(&["stack", "cancel", "s"])),
        }
        // Sent over the same connection after what withdraws the script's job.
        let path = scripted.path("other");
        let other = format!(
            "heat_template_version: 2018-08-31
resources: {{other: {{type: Muster::File, properties: {{node: web-1, path: {path}, content: x}}}}}}"
        );
        scripted.site.ok(&["stack", "create", "other", "-t", &scripted.site.file(&other), "--wait"]);
        assert_eq!(scripted.lines(), "CREATE blue\n", "{operation}");
        scripted.go();
        if operation == "update" {
            scripted.until("COMPLETE");
            let lines = scripted.lines();
            assert!(lines.starts_with("CREATE blue\nwhole\n") && lines.ends_with(" red\n"), "{lines}");
        } else {
            scripted.until("FAILED");
            eventually("the script ends", || (scripted.lines() == "CREATE blue\nwhole\n").then_some(()));
        }
    }
}

#[test]
fn documents_are_delivered_and_taken_back() {
    let scripted = ScriptedNode::new();
    let path = |name| PathBuf::from(scripted.path(name));
    fs::write(path("there.json"), "mine").unwrap();
    let template = scripted.site.file(&format!(
        "heat_template_version: 2018-08-31
resources:
  json: {{type: OS::Heat::StructuredConfig, properties: {{group: json-file, config: {{{there}: {{colour: {{input: colour}}}}}}}}}}
  apply: {{type: OS::Heat::StructuredConfig, properties: {{group: apply-config, config: {{ctlplane: {{colour: {{input: colour}}}}}}}}}}
  write: {{type: OS::Heat::StructuredDeployment, properties: {{config: {{get_resource: json}}, server: web-1, input_key: input, input_values: {{colour: blue}}}}}}
  deliver: {{type: OS::Heat::StructuredDeployment, properties: {{config: {{get_resource: apply}}, server: web-1, input_key: input, input_values: {{colour: green}}}}}}
",
        there = scripted.path("there.json")
    ));
    scripted.site.ok(&["stack", "create", "s", "-t", &template, "--wait"]);
    assert_eq!(fs::read_to_string(path("there.json")).unwrap(), "{\n    \"colour\": \"blue\"\n}");
    let delivered = || fs::read_dir(scripted.agent.state.join("apply-config")).unwrap().count();
    assert_eq!(delivered(), 1);
    scripted.site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(fs::read_to_string(path("there.json")).unwrap(), "mine");
    assert_eq!(delivered(), 0);
}
