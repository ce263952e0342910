//! Clients of OpenStack's Heat work with a site as they are: a session of the unchanged `openstack` client, over loopback and
//! over TLS; and whoever has no token, a foreign id or a hostile request is refused.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use muster_testbed::{Daemon, Namespace, Ran, Running, eventually, port};
use muster_tests::site::{OpenstackClient, Site};
use serde_json::{Value, json};

const INNER: &str = "heat_template_version: 2018-08-31
parameters: {value: {type: string}}
resources:
  inner: {type: OS::Heat::TestResource, properties: {value: {get_param: value}}}
";
/// Waits for a signal.
const PLAIN: &str = "\
heat_template_version: 2018-08-31
parameters: {word: {type: string, default: default}}
outputs: {word: {value: {get_param: word}}}
";
const WAITS: &str = "heat_template_version: 2018-08-31
resources:
  handle: {type: OS::Heat::WaitConditionHandle}
  wait: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: handle}, timeout: 3600}}
";
/// The same with others, which wait anew.
const WAITS_AGAIN: &str = "heat_template_version: 2018-08-31
resources:
  second: {type: OS::Heat::WaitConditionHandle}
  wait_again: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: second}, timeout: 3600}}
";
/// Fails in what a group contains.
const FAILS: &str = "heat_template_version: 2018-08-31
resources:
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: 1
      resource_def: {type: OS::Heat::TestResource, properties: {fail: true}}
";

/// A site with Heat's API at this port of loopback, and these settings.
pub(crate) fn site(settings: &str) -> (Site, u16) {
    let mut site = Site::start();
    let port = port();
    site.configure(&format!("[controller]\nheat_api = '127.0.0.1:{port}'\n{settings}\n"));
    site.kill();
    site.restart();
    eventually("Heat's API is there", || TcpStream::connect(("127.0.0.1", port)).ok());
    (site, port)
}

pub(crate) fn token(site: &Site, name: &str, role: &str) -> String {
    site.ok(&["user", "create", name, "--role", role]).trim().to_owned()
}

/// A file of the client's.
fn file(site: &Site, name: &str, text: &str) -> PathBuf {
    let path = site.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn column<'v>(rows: &'v Value, name: &str) -> Vec<&'v str> {
    rows.as_array().unwrap().iter().map(|row| row[name].as_str().unwrap()).collect()
}

#[test]
fn the_openstack_client_works_as_it_is() {
    let (site, port) = site("");
    let agent = site.join("web-1");
    let motd = agent.file("motd");
    let (anna, endpoint) = (token(&site, "anna", "operator"), format!("http://127.0.0.1:{port}/v1/any"));
    let heat = OpenstackClient::new(
        None,
        site.path(),
        &[("OS_AUTH_TYPE", "admin_token"), ("OS_ENDPOINT", &endpoint), ("OS_TOKEN", &anna)],
    );
    file(&site, "inner.yaml", INNER);
    file(&site, "site.yaml", "parameter_defaults: {text: from the environment}\n");
    let template = format!(
        "heat_template_version: 2018-08-31
description: a site of one server
parameters: {{text: {{type: string}}}}
resources:
  motd:
    type: Muster::File
    properties: {{node: web-1, path: {}, content: {{get_param: text}}}}
  config: {{type: OS::Heat::SoftwareConfig, properties: {{group: script, config: \"#!/bin/sh\\nexit 0\\n\"}}}}
  run:
    type: OS::Heat::SoftwareDeployment
    properties: {{config: {{get_resource: config}}, server: web-1}}
  group:
    type: OS::Heat::ResourceGroup
    depends_on: motd
    properties: {{count: 2, resource_def: {{type: inner.yaml, properties: {{value: {{get_param: text}}}}}}}}
outputs:
  said: {{value: {{get_param: text}}, description: what was said}}
",
        motd.display()
    );
    file(&site, "web.yaml", &template);

    // Before there is a stack.
    let valid = heat.json(&["orchestration", "template", "validate", "-t", "web.yaml", "-e", "site.yaml"]);
    assert_eq!(valid["Parameters"]["text"]["Type"], "String", "{valid}");
    let build = heat.ok(&["orchestration", "build", "info"]);
    assert!(build.contains(&format!("muster {}", env!("CARGO_PKG_VERSION"))), "{build}");
    assert_eq!(column(&heat.json(&["orchestration", "service", "list"]), "Status"), ["up"]);
    assert!(
        heat.ok(&["stack", "create", "web", "-t", "web.yaml", "-e", "site.yaml", "--dry-run"])
            .contains("motd")
    );
    assert!(!motd.exists(), "nothing was done");

    // Create, look, update.
    let created =
        heat.ok(&["stack", "create", "web", "-t", "web.yaml", "-e", "site.yaml", "--wait", "--poll", "1"]);
    assert!(created.contains("CREATE_COMPLETE"), "{created}");
    assert_eq!(fs::read_to_string(&motd).unwrap(), "from the environment");
    let list = heat.json(&["stack", "list"]);
    assert_eq!(
        (column(&list, "Stack Name"), column(&list, "Stack Status")),
        (vec!["web"], vec!["CREATE_COMPLETE"])
    );
    let id = column(&list, "ID")[0].to_owned();
    let by_id = heat.json(&["stack", "show", &id]);
    assert_eq!(
        (&by_id["stack_name"], &by_id["description"]),
        (&json!("web"), &json!("a site of one server"))
    );
    let mut follow =
        Daemon::start("follow", heat.command(&["stack", "event", "list", "web", "--follow"]), site.path());
    eventually("events are followed", || follow.log().contains("CREATE_COMPLETE").then_some(()));
    let changed = ["stack", "update", "web", "--existing", "--parameter", "text=changed"];
    let preview = heat.json(&[&changed[..], &["--dry-run"]].concat());
    assert_eq!(
        (column(&preview["updated"], "resource_name"), &preview["deleted"]),
        (vec!["group", "motd"], &json!([]))
    );
    heat.ok(&[&changed[..], &["--wait"]].concat());
    assert_eq!(fs::read_to_string(&motd).unwrap(), "changed");
    eventually("the follower sees it", || follow.log().contains("UPDATE_COMPLETE").then_some(()));
    follow.kill();
    heat.ok(&["stack", "check", "web", "--wait"]);
    assert_eq!(heat.json(&["stack", "show", "web"])["stack_status"], "CHECK_COMPLETE");

    // A parameter goes back to its default.
    file(&site, "plain.yaml", PLAIN);
    heat.ok(&["stack", "create", "plain", "-t", "plain.yaml", "--parameter", "word=own", "--wait"]);
    let word = || heat.json(&["stack", "output", "show", "plain", "word"])["output_value"].clone();
    assert_eq!(word(), "own");
    heat.ok(&["stack", "update", "plain", "--existing", "--clear-parameter", "word", "--wait"]);
    assert_eq!(word(), "default");
    heat.ok(&["stack", "delete", "plain", "--wait", "-y"]);

    // What it is made of.
    assert_eq!(
        column(&heat.json(&["stack", "resource", "list", "web"]), "resource_name"),
        ["config", "group", "motd", "run"]
    );
    let all = heat.json(&["stack", "resource", "list", "web", "-n", "5"]);
    assert_eq!(column(&all, "stack_name").iter().filter(|name| **name == "web-group-1").count(), 1, "{all}");
    assert_eq!(heat.json(&["stack", "resource", "show", "web", "motd"])["required_by"], json!(["group"]));
    let deployments = heat.json(&["software", "deployment", "list"]);
    assert_eq!(
        (column(&deployments, "server_id"), column(&deployments, "status")),
        (vec!["web-1"], vec!["COMPLETE"])
    );
    let outputs = heat.ok(&["stack", "output", "show", "web", "--all"]);
    assert!(outputs.contains("changed") && outputs.contains("what was said"), "{outputs}");
    assert!(heat.ok(&["stack", "template", "show", "web"]).contains("type: Muster::File"));
    assert!(heat.ok(&["stack", "file", "list", "web"]).contains("inner.yaml"));
    assert!(heat.ok(&["stack", "failures", "list", "web"]).is_empty());
    let suspended = heat.run(&["stack", "suspend", "web"]).expect(1);
    assert!(suspended.stderr.contains("muster node maintenance"), "{suspended:?}");

    // What fails in a nested stack is found.
    file(&site, "fails.yaml", FAILS);
    heat.run(&["stack", "create", "bad", "-t", "fails.yaml", "--wait", "--poll", "1"]).expect(1);
    let failures = heat.ok(&["stack", "failures", "list", "bad"]);
    assert!(failures.contains("bad.group.0:") && failures.contains("CREATE_FAILED"), "{failures}");

    // Signals, and an update that is cancelled.
    file(&site, "waits.yaml", WAITS);
    heat.ok(&["stack", "create", "waits", "-t", "waits.yaml"]);
    heat.ok(&["stack", "resource", "signal", "waits", "handle", "--data", "{\"id\": \"1\"}"]);
    let status = |wanted: &str| {
        eventually(&format!("waits is {wanted}"), || {
            let view = site.json(&["stack", "show", "waits"]);
            (format!("{}_{}", view["action"].as_str()?, view["status"].as_str()?) == wanted).then_some(())
        });
    };
    status("CREATE_COMPLETE");
    file(&site, "second.yaml", WAITS_AGAIN);
    heat.ok(&["stack", "update", "waits", "-t", "second.yaml"]);
    heat.ok(&["stack", "cancel", "waits"]);
    status("ROLLBACK_COMPLETE");

    heat.ok(&["stack", "delete", "--wait", "-y", "web", "bad", "waits"]);
    assert_eq!(heat.json(&["stack", "list"]), json!([]));
    assert!(!motd.exists());
    let audit = site.json(&["audit", "--user", "anna"]);
    let actions = column(&audit, "action");
    for action in ["stack create", "stack update", "stack check", "stack rollback", "stack delete"] {
        assert!(actions.contains(&action), "{action}: {actions:?}");
    }
}

#[test]
fn over_the_network_heat_has_tls_and_users() {
    let mut site = Site::in_namespace();
    let hub = Namespace::HUB;
    site.configure(&format!("[controller]\nheat_api = '{hub}:8004'\naddresses = ['{hub}:8883']\n"));
    site.kill();
    site.restart();
    let (anna, vera) = (token(&site, "anna", "operator"), token(&site, "vera", "viewer"));
    let machine = site.hub().server(9);
    let ca = site.ca().display().to_string();
    let endpoint = format!("https://{hub}:8004/v1/any");
    let common = [("OS_ENDPOINT", &*endpoint), ("OS_CACERT", &*ca)];
    let anyone = OpenstackClient::new(Some(&machine), site.path(), &[]);
    let client = |more: &[(&str, &str)]| anyone.with(&[&common, more].concat());
    file(&site, "empty.yaml", "heat_template_version: 2018-08-31\n");

    let basic = client(&[("OS_AUTH_TYPE", "http_basic"), ("OS_USERNAME", "anna"), ("OS_PASSWORD", &anna)]);
    eventually("Heat's API is there", || (basic.run(&["stack", "list"]).status == 0).then_some(()));
    basic.ok(&["stack", "create", "web", "-t", "empty.yaml", "--wait", "--poll", "1"]);
    let viewer = client(&[("OS_AUTH_TYPE", "admin_token"), ("OS_TOKEN", &vera)]);
    assert_eq!(column(&viewer.json(&["stack", "list"]), "Stack Name"), ["web"]);
    let refused = viewer.run(&["stack", "create", "other", "-t", "empty.yaml"]).expect(1);
    assert!(refused.stderr.contains("needs role operator"), "{refused:?}");

    for (how, wanted) in [
        (&[("OS_AUTH_TYPE", "none")][..], "needs a user's token"),
        (&[("OS_AUTH_TYPE", "admin_token"), ("OS_TOKEN", "gAAAAABk")], "no user's token"),
        (
            &[("OS_AUTH_TYPE", "http_basic"), ("OS_USERNAME", "vera"), ("OS_PASSWORD", &anna)],
            "not for that user",
        ),
    ] {
        let refused = client(how).run(&["stack", "list"]).expect(1);
        assert!(refused.stderr.contains(wanted), "{how:?}: {refused:?}");
    }
    site.ok(&["user", "revoke", "anna"]);
    let refused = basic.run(&["stack", "list"]).expect(1);
    assert!(refused.stderr.contains("unknown or revoked"), "{refused:?}");
}

/// Asks with curl, which sends a path as it is.
fn curl(arguments: &[&str]) -> Ran {
    let mut curl = Command::new("curl");
    curl.args(["-s", "--path-as-is", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20"])
        .args(arguments);
    Running::start(curl).finish()
}

#[test]
fn hostile_requests_to_heat_change_nothing() {
    let (site, port) = site("heat_api_without_token = 'viewer'");
    site.ok(&["stack", "create", "web", "-t", &site.file("heat_template_version: 2018-08-31\n"), "--wait"]);
    let anna = token(&site, "anna", "operator");
    let (url, with_token) = (format!("http://127.0.0.1:{port}"), format!("X-Auth-Token: {anna}"));
    let before = (site.json(&["stack", "list"]), site.json(&["user", "list"]));
    let status = |arguments: &[&str], path: &str| {
        let url = format!("{url}{path}");
        curl(&[arguments, &[&url]].concat()).expect(0).stdout
    };

    // Without a token: so much as the operator allowed, and only from this machine.
    let client = OpenstackClient::new(
        None,
        site.path(),
        &[("OS_AUTH_TYPE", "none"), ("OS_ENDPOINT", &format!("{url}/v1/any"))],
    );
    assert_eq!(column(&client.json(&["stack", "list"]), "Stack Name"), ["web"]);
    let refused = client.run(&["stack", "delete", "-y", "web"]).expect(1);
    assert!(refused.stdout.contains("Forbidden"), "{refused:?}");
    for header in ["Host: evil.example.org", "Origin: https://evil.example.org", "Sec-Fetch-Site: cross-site"]
    {
        assert_eq!(status(&["-H", header], "/v1/any/stacks"), "401", "{header}");
    }

    // Paths lead nowhere else, and ids of others to nothing.
    for path in [
        "/v1/users",
        "/v1/any/users",
        "//v1/users",
        "/v1/any/../users",
        "/v1/any/stacks/../../users",
        "/v1/any/stacks/..%2f..%2fv1%2fusers",
        "/v1/any/stacks/..%2fusers/00000000-0001-8000-8000-000000000000",
        "/v1/any/stacks/web%00",
        "/v1/any/stacks/web/2",
        "/v1/any/stacks/web/00000000-0002-8000-8000-000000000000",
        "/v1/any/stacks/web/2f6cdd8a-4d0e-4bd5-8a4c-1cfb5a4a1a5e/resources",
        "/v1/any/stacks/2f6cdd8a-4d0e-4bd5-8a4c-1cfb5a4a1a5e",
        "/v1/any/software_deployments/..%2f..%2fusers",
    ] {
        let answer = status(&["-H", &with_token], path);
        assert_eq!(answer, "404", "{path}");
    }
    assert_eq!(status(&["-H", &with_token], "/v1/any/stacks/%ff"), "400");
    let foreign = "/v1/any/stacks/web/00000000-0002-8000-8000-000000000000";
    assert_eq!(status(&["-H", &with_token, "-X", "DELETE"], foreign), "404");

    // Too large, announced and not; no address is fetched.
    let large = file(&site, "large", &format!("{{\"stack_name\": \"{}\"}}", "a".repeat(17 << 20)));
    let large = format!("@{}", large.display());
    let stacks = "/v1/any/stacks";
    assert_eq!(status(&["-H", &with_token, "-H", "Expect:", "--data-binary", &large], stacks), "413");
    let chunked =
        ["-H", &with_token, "-H", "Expect:", "-H", "Transfer-Encoding: chunked", "--data-binary", &large];
    assert_eq!(status(&chunked, stacks), "413");
    let fetch = format!("{{\"stack_name\": \"x\", \"template_url\": \"{url}/\"}}");
    assert_eq!(status(&["-H", &with_token, "--data-binary", &fetch], stacks), "400");

    // Those who send slowly, more than are worked on at a time, are in nobody's way.
    let mut slow: Vec<TcpStream> = (0..16)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let head = "POST /v1/any/stacks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 16000000\r\n";
            write!(stream, "{head}x-auth-token: {anna}\r\n\r\n{{").unwrap();
            stream
        })
        .collect();
    file(&site, "empty.yaml", "heat_template_version: 2018-08-31\n");
    let body = "{\"template\": {\"heat_template_version\": \"2018-08-31\"}}";
    assert_eq!(status(&["-H", &with_token, "--data-binary", body], "/v1/any/validate"), "200");
    for stream in &mut slow {
        stream.set_nonblocking(true).unwrap();
        assert!(stream.read(&mut [0]).is_err(), "it still waits");
    }
    assert_eq!((site.json(&["stack", "list"]), site.json(&["user", "list"])), before);
}
