//! Software deployments on a server: what their scripts get and tell, and how often they run, whoever is killed when.

use std::fs;
use std::path::PathBuf;

use muster_tests::testbed::{Agent, Site, eventually};
use serde_json::Value;

struct Bed {
    site: Site,
    agent: Agent,
}

impl Bed {
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

    /// Of the script that hangs, and of what watches over it.
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
fn a_script_runs_once_for_each_change_and_what_it_tells_comes_back() {
    let bed = Bed::new();
    let template =
        bed.template("printf %s \"$colour!\" >$heat_outputs_path.result; echo said; echo oops >&2", "");
    bed.site.ok(&["stack", "create", "s", "-t", &template, "--wait"]);
    assert_eq!(bed.lines(), "CREATE blue\n");
    let outputs = bed.site.json(&["stack", "outputs", "s"]);
    let outputs = outputs.to_string();
    assert!(outputs.contains("said"), "{outputs}");
    bed.update(&template, "red");
    bed.until("COMPLETE");
    bed.update(&template, "red");
    bed.until("COMPLETE");
    assert_eq!(bed.lines(), "CREATE blue\nUPDATE red\n", "what did not change does not run");
    bed.site.ok(&["stack", "check", "s", "--wait"]);
    bed.site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(bed.lines(), "CREATE blue\nUPDATE red\nDELETE red\n");
    assert_eq!(bed.runs(), 0, "nothing of a run is left");
}

#[test]
fn a_script_that_fails_has_run_once_and_its_errors_are_told_and_not_logged() {
    let bed = Bed::new();
    let template = bed.template("echo \"the colour is $colour\" >&2; echo no room >&2; exit 3", "");
    bed.site
        .muster(&["stack", "create", "s", "-t", &template, "-P", "colour=ultramarine", "--wait"])
        .expect(1);
    let failures = bed.site.ok(&["stack", "failures", "s"]);
    for part in ["the script ended with status 3", "no room"] {
        assert!(failures.contains(part), "{failures}");
    }
    assert_eq!(bed.lines(), "CREATE ultramarine\n");
    let log = bed.agent.daemon.log();
    assert!(log.contains("the script ended with status 3") && !log.contains("no room"), "{log}");
    for text in [&log, &failures, &bed.site.controller.log()] {
        assert!(!text.contains("ultramarine"), "{text}");
    }
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_all_that_it_started() {
    let bed = Bed::new();
    let script = format!("setsid sleep 600 &\necho $! >{}\n{}", bed.path("other"), bed.hangs());
    let template = bed.template(&script, "timeout: 1");
    bed.site.muster(&["stack", "create", "s", "-t", &template, "--wait"]).expect(1);
    assert!(bed.site.ok(&["stack", "failures", "s"]).contains("took longer than 1 s"));
    let other: u32 = bed.agent.content("other").unwrap().trim().parse().unwrap();
    for pid in bed.pids().into_iter().chain([other]) {
        assert!(!is_there(pid), "{pid}");
    }
}

#[test]
fn a_script_that_a_power_cut_ends_in_the_middle_runs_again_or_fails_as_it_says() {
    for (policy, lines, status) in [("rerun", 2, "COMPLETE"), ("fail", 1, "FAILED")] {
        let mut bed = Bed::new();
        let template = bed.template(&bed.hangs(), &format!("on_interrupt: {policy}"));
        bed.site.ok(&["stack", "create", "s", "-t", &template]);
        let [script, supervisor] = bed.pids();
        bed.agent.daemon.kill();
        kill(&[supervisor, script]);
        bed.go();
        bed.agent.daemon.restart();
        let stack = bed.until(status);
        assert_eq!(bed.lines(), "CREATE blue\n".repeat(lines), "{policy}: {stack}");
        if policy == "fail" {
            assert!(bed.site.ok(&["stack", "failures", "s"]).contains("was interrupted"));
        }
    }
}

#[test]
fn an_agent_that_is_killed_before_it_can_report_finds_what_its_script_came_to() {
    let mut bed = Bed::new();
    let template = bed
        .template(&format!("{}\necho whole >$heat_outputs_path.result", bed.hangs()), "on_interrupt: fail");
    bed.site.ok(&["stack", "create", "s", "-t", &template]);
    let [script, supervisor] = bed.pids();
    bed.agent.daemon.kill();
    assert!(is_there(script), "it does not end with the agent");
    bed.go();
    eventually("the script has ended", || (!is_there(script) && !is_there(supervisor)).then_some(()));
    bed.agent.daemon.restart();
    bed.until("COMPLETE");
    assert_eq!(bed.lines(), "CREATE blue\n");
    assert!(bed.site.json(&["stack", "outputs", "s"]).to_string().contains("whole"));
    eventually("nothing of the run is left", || (bed.runs() == 0).then_some(()));
}

#[test]
fn an_agent_that_is_started_again_waits_for_the_script_that_runs() {
    let mut bed = Bed::new();
    let template = bed.template(&bed.hangs(), "on_interrupt: fail");
    bed.site.ok(&["stack", "create", "s", "-t", &template]);
    let [script, _] = bed.pids();
    bed.agent.daemon.kill();
    bed.agent.daemon.restart();
    bed.site.until_node("web-1", "online");
    assert!(is_there(script));
    bed.go();
    bed.until("COMPLETE");
    assert_eq!(bed.lines(), "CREATE blue\n");
}

#[test]
fn files_do_not_wait_for_a_script() {
    let bed = Bed::new();
    let slow = bed.template(&bed.hangs(), "");
    bed.site.ok(&["stack", "create", "s", "-t", &slow]);
    bed.pids();
    let file = bed.site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  motd:\n    type: Muster::File\n    properties: {{node: web-1, path: {}, content: hello}}\n",
        bed.path("motd")
    ));
    bed.site.ok(&["stack", "create", "files", "-t", &file, "--wait"]);
    assert_eq!(bed.agent.content("motd").as_deref(), Some("hello"));
    assert_eq!(bed.stack()["status"], "IN_PROGRESS");
    bed.go();
    bed.until("COMPLETE");
}

#[test]
fn a_newer_change_or_a_cancel_leaves_a_script_to_end() {
    for operation in ["update", "cancel"] {
        let bed = Bed::new();
        let hangs = format!("{}\necho whole >>{}", bed.hangs(), bed.path("lines"));
        bed.site.ok(&["stack", "create", "s", "-t", &bed.template(&hangs, "")]);
        bed.pids();
        match operation {
            "update" => bed.update(&bed.template("true", ""), "red"),
            _ => drop(bed.site.ok(&["stack", "cancel", "s"])),
        }
        // Sent over the same connection after what takes the script's job back.
        let path = bed.path("other");
        let other = format!(
            "heat_template_version: 2018-08-31
resources: {{other: {{type: Muster::File, properties: {{node: web-1, path: {path}, content: x}}}}}}"
        );
        bed.site.ok(&["stack", "create", "other", "-t", &bed.site.file(&other), "--wait"]);
        assert_eq!(bed.lines(), "CREATE blue\n", "{operation}");
        bed.go();
        if operation == "update" {
            bed.until("COMPLETE");
            let lines = bed.lines();
            assert!(lines.starts_with("CREATE blue\nwhole\n") && lines.ends_with(" red\n"), "{lines}");
        } else {
            bed.until("FAILED");
            eventually("the script ends", || (bed.lines() == "CREATE blue\nwhole\n").then_some(()));
        }
    }
}

#[test]
fn documents_are_delivered_and_taken_back() {
    let bed = Bed::new();
    let path = |name| PathBuf::from(bed.path(name));
    fs::write(path("there.json"), "mine").unwrap();
    let template = bed.site.file(&format!(
        "heat_template_version: 2018-08-31
resources:
  json: {{type: OS::Heat::StructuredConfig, properties: {{group: json-file, config: {{{there}: {{colour: {{input: colour}}}}}}}}}}
  apply: {{type: OS::Heat::StructuredConfig, properties: {{group: apply-config, config: {{ctlplane: {{colour: {{input: colour}}}}}}}}}}
  write: {{type: OS::Heat::StructuredDeployment, properties: {{config: {{get_resource: json}}, server: web-1, input_key: input, input_values: {{colour: blue}}}}}}
  deliver: {{type: OS::Heat::StructuredDeployment, properties: {{config: {{get_resource: apply}}, server: web-1, input_key: input, input_values: {{colour: green}}}}}}
",
        there = bed.path("there.json")
    ));
    bed.site.ok(&["stack", "create", "s", "-t", &template, "--wait"]);
    assert_eq!(fs::read_to_string(path("there.json")).unwrap(), "{\n    \"colour\": \"blue\"\n}");
    let delivered = || fs::read_dir(bed.agent.state.join("apply-config")).unwrap().count();
    assert_eq!(delivered(), 1);
    bed.site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(fs::read_to_string(path("there.json")).unwrap(), "mine");
    assert_eq!(delivered(), 0);
}
