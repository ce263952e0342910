//! The values of hidden parameters are where they are needed, and nowhere else: not in the controller's files, whatever
//! ends it, not in logs, not in what operators see.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_testbed::{Namespace, Running, eventually};
use muster_tests::site::{Agent, OneServer, Site, binary};

/// In every secret of these tests.
const MARKER: &str = "mArKeR";

const PARAMETERS: &str = "heat_template_version: 2018-08-31
parameters:
  password: {type: string, hidden: true}
  pin: {type: number, hidden: true}
  account: {type: json, hidden: true}
";

fn environment(site: &Site, n: u8) -> String {
    site.file(&format!(
        "parameters:\n  password: {MARKER}-password-{n}\n  pin: 27182818{n}\n  \
         account: {{user: root, tokens: [{MARKER}-token-{n}]}}\n"
    ))
}

/// A secret address, and what is left of a text with one.
const ADDRESS: &str = "192.0.2.181";

fn holds_marker(text: &str) -> bool {
    text.contains(MARKER) || text.contains("27182818") || text.contains(ADDRESS)
}

/// Panics if the marker is in the text; with the place, and with what was asked for.
fn assert_without_marker(said: &str) {
    let found = [MARKER, "27182818", ADDRESS].iter().filter_map(|secret| said.find(secret)).min();
    let Some(at) = found else { return };
    let from = said[..at].rfind("\n$ ").unwrap_or(0);
    panic!("{}", &said[from..said.len().min(at + 200)]);
}

/// The regular files below, and the directories.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(below(&path)) } else { found.push(path) }
    }
    found
}

fn files_with_marker(folder: &Path) -> Vec<PathBuf> {
    let is_in = |path: &PathBuf| {
        path.is_file() && holds_marker(&String::from_utf8_lossy(&fs::read(path).unwrap_or_default()))
    };
    below(folder).into_iter().filter(is_in).collect()
}

fn data(site: &Site) -> PathBuf {
    site.database().parent().unwrap().to_owned()
}

/// The answer of the API, as it is sent.
fn get(site: &Site, path: &str) -> String {
    let mut stream = UnixStream::connect(site.path().join("api.sock")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Logs say all there is to say.
fn say_everything(site: &mut Site, agent: &mut Agent) {
    let settings = "[log]\nlevel = \"trace\"\n";
    site.configure(settings);
    fs::write(site.path().join("agent.toml"), settings).unwrap();
    site.kill();
    site.restart();
    agent.daemon.restart();
    site.until_node(&agent.name, "online");
}

/// Resources that get secrets in every way there is, and one whose job fails by one.
fn template(site: &Site, agent: &Agent) -> String {
    // Large: it is fetched.
    fs::write(site.path().join("large.txt"), format!("password = PW\n{}", "0123456789\n".repeat(9000)))
        .unwrap();
    let (small, large, other) = (agent.file("small"), agent.file("large"), agent.file("other"));
    site.file(&format!(
        "{PARAMETERS}resources:
  small:
    type: Muster::File
    properties:
      node: web-1
      path: {}
      content: {{str_replace: {{template: 'password = PW, pin = PIN', params: {{PW: {{get_param: password}}, PIN: {{get_param: pin}}}}}}}}
  large:
    type: Muster::File
    properties:
      node: web-1
      path: {}
      content: {{str_replace: {{template: {{get_file: large.txt}}, params: {{PW: {{get_param: password}}}}}}}}
  dummy:
    type: Muster::Dummy
    properties:
      node: web-1
      values: {{token: {{get_param: [account, tokens, 0]}}, pin: {{get_param: pin}}}}
  wrong:
    type: Muster::File
    properties: {{node: web-1, path: {}, content: x, owner: {{get_param: password}}}}
outputs:
  text: {{value: {{list_join: [' ', [the, {{get_attr: [dummy, token]}}, {{get_param: password}}]]}}}}
  all: {{value: {{get_param: account}}}}
  pin: {{value: {{get_param: pin}}}}
",
        small.display(),
        large.display(),
        other.display()
    ))
}

#[test]
fn a_secret_is_on_its_node_and_nowhere_else() {
    let mut site = Site::start();
    let mut web1 = site.join("web-1");
    say_everything(&mut site, &mut web1);
    let (source, first, second) = (template(&site, &web1), environment(&site, 1), environment(&site, 2));
    let mut said = String::new();
    let mut muster = |site: &Site, arguments: &[&str]| {
        let ran = site.muster(arguments);
        said += &format!("$ {arguments:?}\n{}{}\n", ran.stdout, ran.stderr);
        ran
    };
    muster(&site, &["stack", "create", "s", "-t", &source, "-e", &first, "--wait"])
        .refused(1, &["wrong", "******"]);
    assert!(web1.content("small").unwrap().contains(&format!("{MARKER}-password-1, pin = 271828181")));
    assert!(web1.content("large").unwrap().starts_with(&format!("password = {MARKER}-password-1\n")));
    // Looked at in every way, before and after others have changed it and a revision with other values was tried.
    for round in 0..2 {
        for arguments in [
            &["stack", "show", "s", "-o", "json"][..],
            &["stack", "list", "-o", "json"],
            &["stack", "outputs", "s", "-o", "json"],
            &["stack", "events", "s", "-o", "json"],
            &["stack", "failures", "s"],
            &["stack", "revisions", "s", "-o", "json"],
            &["stack", "template", "s"],
            &["resource", "list", "s", "-o", "json"],
            &["resource", "show", "s", "small", "-o", "json"],
            &["resource", "show", "s", "dummy", "-o", "json"],
            &["resource", "show", "s", "wrong", "-o", "json"],
            &["node", "show", "web-1", "-o", "json"],
            &["stack", "preview", "s", "-t", &source, "-e", &second],
            &["stack", "preview", "s", "-t", &source, "-e", &second, "-o", "json"],
        ] {
            let ran = muster(&site, arguments);
            assert!(ran.status == 0 || arguments[1] == "preview", "{arguments:?}: {}", ran.stderr);
        }
        if round == 0 {
            fs::write(web1.file("small"), "somebody was here").unwrap();
            muster(&site, &["stack", "check", "s", "--wait"]);
            muster(&site, &["stack", "update", "s", "-t", &source, "-e", &second, "--wait"]);
        }
    }
    // What cannot be accepted is refused without it.
    for (properties, parameters) in [
        ("path: {get_param: password}, content: x", ""),
        ("path: /x, content: x, mode: {get_param: password}", ""),
        ("path: /x, content: x, on_delete: {get_param: password}", ""),
        ("path: /x, content: x, owner: {get_param: [account, mArKeR-key]}", ""),
        ("path: /x, content: x", "pin: mArKeR-is-no-number"),
        ("path: /x, content: x", "account: '{mArKeR'"),
    ] {
        let bad = site.file(&format!(
            "{PARAMETERS}resources:\n  a: {{type: Muster::File, properties: {{node: web-1, {properties}}}}}\n"
        ));
        let more = site.file(&format!("parameters: {{{parameters}}}\n"));
        let ran = site.muster(&["stack", "create", "bad", "-t", &bad, "-e", &first, "-e", &more]);
        let shown = format!("{}{}", ran.stdout, ran.stderr).replace("mArKeR-key", "");
        assert_eq!(ran.status, 2, "{properties} {parameters}: {shown}");
        said += &shown;
    }
    for path in ["/metrics", "/v1/stacks/s", "/v1/stacks/s/graph", "/v1/stacks/s/resources", "/v1/nodes"] {
        said += &get(&site, path);
    }
    assert_without_marker(&said);
    assert!(said.contains("******"));
    for (name, log) in [("controller", site.controller.log()), ("agent", web1.daemon.log())] {
        let found = log.lines().find(|line| holds_marker(line));
        assert_eq!(found, None, "in the log of the {name}");
        assert!(log.contains(if name == "agent" { "INFO" } else { "DEBUG" }), "{name}: {log}");
    }
    for process in [site.controller.id(), web1.daemon.id()] {
        for what in ["cmdline", "environ"] {
            let text = fs::read(format!("/proc/{process}/{what}")).unwrap();
            assert!(!holds_marker(&String::from_utf8_lossy(&text)), "{what}");
        }
    }
    assert_eq!(files_with_marker(&data(&site)), Vec::<PathBuf>::new());
    site.kill();
    assert_eq!(files_with_marker(&data(&site)), Vec::<PathBuf>::new(), "after a crash");
    // A node knows what it was told; nobody else there does. Its files stand still from here on.
    web1.daemon.kill();
    let folders = files_with_marker(&web1.state);
    assert!(folders.iter().all(|file| file.starts_with(web1.state.join("ledger"))), "{folders:?}");
    for path in below(&web1.state) {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
}

/// A network of the address plan, a network document, and deployments, all with secrets in them.
fn networks(agent: &Agent) -> String {
    format!(
        "heat_template_version: wallaby
parameters:
  password: {{type: string, hidden: true}}
  address: {{type: string, hidden: true}}
resources:
  net: {{type: OS::Neutron::Net, properties: {{name: {{get_param: password}}}}}}
  subnet: {{type: OS::Neutron::Subnet, properties: {{network: {{get_resource: net}}, cidr: 192.0.2.0/24, name: {{get_param: password}}}}}}
  port:
    type: OS::Neutron::Port
    depends_on: subnet
    properties:
      network: {{get_resource: net}}
      name: {{get_param: password}}
      device_id: {{get_param: password}}
      fixed_ips: [{{ip_address: {{get_param: address}}}}]
  taken:
    type: OS::Neutron::Port
    depends_on: port
    properties: {{network: {{get_resource: net}}, fixed_ips: [{{ip_address: {{get_param: address}}}}]}}
  links:
    type: Muster::NetworkConfig
    properties:
      node: web-1
      network_config:
      - type: interface
        name: mk0
        addresses: [{{ip_netmask: {{list_join: ['/', [{{get_attr: [port, fixed_ips, 0, ip_address]}}, '24']]}}}}]
        routes: [{{ip_netmask: 203.0.113.0/24, next_hop: {{get_param: address}}, route_options: 'metric 27'}}]
  script:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{{name: pw}}, {{name: status}}]
      outputs: [{{name: told}}]
      config:
        str_replace:
          params: {{PASSWORD: {{get_param: password}}}}
          template: |
            #!/bin/sh
            echo \"$pw PASSWORD\" | tee \"$heat_outputs_path.told\" '{}'
            echo \"$pw PASSWORD\" >&2
            exit $status
  good:
    type: OS::Heat::SoftwareDeployment
    properties: {{config: {{get_resource: script}}, server: web-1, input_values: {{pw: {{get_param: password}}, status: 0}}}}
  bad:
    type: OS::Heat::SoftwareDeployment
    depends_on: good
    properties: {{config: {{get_resource: script}}, server: web-1, input_values: {{pw: {{get_param: password}}, status: 7}}}}
  document:
    type: OS::Heat::StructuredDeployment
    properties: {{config: {{get_resource: structure}}, server: web-1, input_values: {{pw: {{get_param: password}}}}}}
  structure:
    type: OS::Heat::StructuredConfig
    properties: {{group: apply-config, config: {{deep: {{pw: {{get_input: pw}}, of: {{get_param: password}}}}}}}}
outputs:
  port: {{value: [{{get_attr: [port, fixed_ips]}}, {{get_attr: [port, name]}}, {{get_attr: [port, device_id]}}]}}
  told: {{value: [{{get_attr: [good, told]}}, {{get_attr: [good, deploy_stdout]}}, {{get_attr: [good, deploy_stderr]}}]}}
  script: {{value: {{get_attr: [script, config]}}}}
",
        agent.file("told").display()
    )
}

#[test]
fn networks_ports_and_runs_tell_nobody_a_secret() {
    let (one, peer) = (OneServer::new(), Namespace::new());
    one.server.link("mk0", &peer, "mk0");
    let mut web1 = one.join();
    let OneServer { mut site, server } = one;
    say_everything(&mut site, &mut web1);
    let source = site.file(&networks(&web1));
    let values =
        |n: u8| site.file(&format!("parameters: {{password: {MARKER}-password-{n}, address: {ADDRESS}}}\n"));
    let (first, second) = (values(1), values(2));
    let mut said = String::new();
    let mut muster = |site: &Site, arguments: &[&str]| {
        let ran = site.muster(arguments);
        said += &format!("$ {arguments:?}\n{}{}\n", ran.stdout, ran.stderr);
        ran
    };
    for (verb, values) in [("create", &first), ("update", &second)] {
        muster(&site, &["stack", verb, "n", "-t", &source, "-e", values, "--wait"])
            .refused(1, &["bad", "taken"]);
        // It is where it belongs.
        assert!(server.ip("-4 address show dev mk0").contains(ADDRESS));
        let n = if verb == "create" { 1 } else { 2 };
        let told = format!("{MARKER}-password-{n} {MARKER}-password-{n}\n");
        assert_eq!(web1.content("told").unwrap(), told);
        let listed = muster(&site, &["resource", "list", "n", "-o", "json"]).stdout;
        let rows: serde_json::Value = serde_json::from_str(&listed).unwrap();
        for row in rows.as_array().unwrap() {
            let wanted =
                if ["bad", "taken"].contains(&row["name"].as_str().unwrap()) { "FAILED" } else { "COMPLETE" };
            assert_eq!(row["status"], wanted, "{row}");
            let name = row["name"].as_str().unwrap();
            muster(&site, &["resource", "show", "n", name, "-o", "json"]).expect(0);
        }
        for arguments in [
            &["stack", "show", "n", "-o", "json"][..],
            &["stack", "outputs", "n", "-o", "json"],
            &["stack", "events", "n", "-o", "json"],
            &["stack", "failures", "n", "-o", "json"],
            &["stack", "template", "n"],
            &["stack", "preview", "n", "-t", &source, "-e", &second, "-o", "json"],
            &["node", "show", "web-1", "-o", "json"],
        ] {
            muster(&site, arguments);
        }
    }
    // Without what fails: outputs are what they are then, and what the agent finds later is said as well.
    let good = fs::read_to_string(&source).unwrap().replace("status: 7", "status: 0");
    let (before, after) = good.split_once("  taken:\n").unwrap();
    let good = site.file(&format!("{before}  links:\n{}", after.split_once("  links:\n").unwrap().1));
    muster(&site, &["stack", "update", "n", "-t", &good, "-e", &second, "--wait"]).expect(0);
    let outputs = muster(&site, &["stack", "outputs", "n", "-o", "json"]).stdout;
    assert!(outputs.matches("******").count() >= 8, "{outputs}");
    server.ip(&format!("address del {ADDRESS}/24 dev mk0"));
    muster(&site, &["stack", "check", "n", "--wait"]);
    muster(&site, &["resource", "show", "n", "links", "-o", "json"]).expect(0);
    muster(&site, &["stack", "events", "n", "-o", "json"]).expect(0);
    // A rule, which waits for its bridge: in the database as well.
    let rule = site.file(
        "heat_template_version: wallaby
parameters:
  password: {type: string, hidden: true}
  address: {type: string, hidden: true}
resources:
  rule:
    type: Muster::FlowRule
    properties: {device: web-1/none0, priority: 7, selector: {eth_type: 0x0800, ipv4_dst: {get_param: address}}, treatment: []}
",
    );
    muster(&site, &["stack", "create", "f", "-t", &rule, "-e", &second]).expect(0);
    let listed = ["flow", "list", "web-1/none0", "-o", "json"];
    eventually("the rule is in the table", || {
        site.muster(&listed).stdout.contains("PENDING_ADD").then_some(())
    });
    assert!(muster(&site, &listed).stdout.contains("******"));
    muster(&site, &["resource", "show", "f", "rule", "-o", "json"]).expect(0);
    // What cannot be accepted is refused without it.
    for (more, resource) in [
        ("", "type: Muster::FlowRule, properties: {device: web-1/br0, priority: {get_param: password}}"),
        (
            "",
            "type: Muster::FlowRule, properties: {device: web-1/br0, priority: 1, selector: {eth_type: {get_param: password}}}",
        ),
        ("", "type: Muster::FlowRule, properties: {device: {get_param: password}, priority: 1}"),
        (
            "",
            "type: Muster::NetworkConfig, properties: {node: web-1, network_config: [{type: {get_param: password}, name: mk0}]}",
        ),
        (
            "",
            "type: Muster::NetworkConfig, properties: {node: web-1, network_config: [{type: interface, name: mk0, addresses: [{ip_netmask: {get_param: password}}]}]}",
        ),
        (
            "",
            "type: OS::Neutron::Subnet, properties: {network: x, cidr: {get_param: address}, gateway_ip: {get_param: password}}",
        ),
        (
            "",
            "type: OS::Heat::SoftwareConfig, properties: {inputs: [{name: x, type: {get_param: password}}]}",
        ),
        ("", "type: OS::Heat::SoftwareDeployment, properties: {server: {get_param: [account, x]}}"),
        (
            "conditions: {c: {yaql: {expression: $.data.x, data: {x: {get_param: password}}}}}\n",
            "type: OS::Heat::None, condition: c",
        ),
        (
            "conditions: {c: {equals: [{get_param: [account, x, 0]}, 1]}}\n",
            "type: OS::Heat::None, condition: c",
        ),
    ] {
        let bad = site.file(&format!(
            "heat_template_version: wallaby\nparameters:\n  password: {{type: string, hidden: true}}\n  \
             address: {{type: string, hidden: true}}\n  account: {{type: json, hidden: true, default: {{x: mArKeR-x}}}}\n\
             {more}resources: {{a: {{{resource}}}}}\n"
        ));
        let ran = site.muster(&["stack", "create", "bad", "-t", &bad, "-e", &first]);
        assert_eq!(ran.status, 2, "{resource}: {}{}", ran.stdout, ran.stderr);
        said += &format!("\n$ {resource}\n{}{}", ran.stdout, ran.stderr);
    }
    for constraint in [
        "allowed_pattern: '[0-9]+'",
        "allowed_values: [a, b]",
        "length: {max: 3}",
        "custom_constraint: ip_addr",
    ] {
        let bad = site.file(&format!(
            "heat_template_version: wallaby\nparameters:\n  address: {{type: string, hidden: true}}\n  \
             password: {{type: string, hidden: true, constraints: [{{{constraint}}}]}}\n"
        ));
        let ran = site.muster(&["stack", "create", "bad", "-t", &bad, "-e", &first]);
        assert_eq!(ran.status, 2, "{constraint}: {}{}", ran.stdout, ran.stderr);
        said += &format!("\n$ {constraint}\n{}{}", ran.stdout, ran.stderr);
    }
    assert_without_marker(&said);
    let log = site.controller.log();
    assert_eq!(log.lines().find(|line| holds_marker(line)), None, "in the log of the controller");
    // An agent says what it does to links: their addresses are things of the node, as paths are.
    let log = web1.daemon.log();
    assert_eq!(log.lines().find(|line| line.contains(MARKER)), None, "in the log of the agent");
    assert_eq!(files_with_marker(&data(&site)), Vec::<PathBuf>::new());
    site.kill();
    assert_eq!(files_with_marker(&data(&site)), Vec::<PathBuf>::new(), "after a crash");
}

fn controller(site: &Site, verb: &[&str]) -> Running {
    let mut command = Command::new(binary("muster-controller"));
    command.arg("--config").arg(site.path().join("controller.toml")).arg("--data-dir").arg(data(site));
    command.args(verb);
    Running::start(command)
}

#[test]
fn the_controller_needs_its_key_and_a_new_key_keeps_all_data() {
    let mut site = Site::start();
    let web1 = site.join("web-1");
    let (source, values) = (template(&site, &web1), environment(&site, 1));
    site.muster(&["stack", "create", "s", "-t", &source, "-e", &values, "--wait"]).refused(1, &["wrong"]);
    let backup = site.path().join("backup");
    controller(&site, &["backup", backup.to_str().unwrap()]).finish().expect(0);
    assert!(!holds_marker(&String::from_utf8_lossy(&fs::read(&backup).unwrap())));
    controller(&site, &["rekey"]).finish().refused(1, &["stop the controller", "another controller"]);
    site.kill();

    let key = data(&site).join("secrets.key");
    let kept = fs::read_to_string(&key).unwrap();
    assert!(!String::from_utf8_lossy(&fs::read(&backup).unwrap()).contains(kept.trim()));
    let refused = |wanted: &str| {
        controller(&site, &["--listen", "127.0.0.1:0"]).finish().refused(1, &["secrets.key", wanted]);
    };
    fs::remove_file(&key).unwrap();
    refused("is not there");
    assert!(!key.exists());
    fs::write(&key, kept.replace(['0', '1'], "2")).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    refused("sealed with");
    fs::write(&key, &kept).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    refused("0644");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();

    controller(&site, &["rekey"]).finish().expect(0);
    assert_ne!(fs::read_to_string(&key).unwrap(), kept);
    site.restart();
    let shown = site.ok(&["stack", "template", "s"]);
    assert!(shown.contains("password = PW"), "{shown}");
    let audit = site.json(&["audit"]);
    let row = audit.as_array().unwrap().iter().find(|row| row["action"] == "rekey").unwrap();
    let (from, what) = (row["from"].as_str().unwrap(), row["what"].as_str().unwrap());
    assert!(from.starts_with("host ") && what.starts_with("key ") && what.contains(", was "), "{row}");
    // The values of before are still known, and large contents are there for who asks.
    fs::remove_file(web1.file("large")).unwrap();
    let mended = fs::read_to_string(&source).unwrap().replace(", owner: {get_param: password}", "");
    let mended = site.file(&mended);
    site.until_node("web-1", "online");
    site.ok(&["stack", "update", "s", "-t", &mended, "--existing", "--wait"]);
    eventually("the file is back", || {
        site.muster(&["stack", "check", "s", "--wait"]);
        site.muster(&["stack", "update", "s", "--existing", "--wait"]);
        web1.content("large").filter(|text| text.starts_with(&format!("password = {MARKER}-password-1\n")))
    });
    fs::write(&key, &kept).unwrap();
    site.kill();
    controller(&site, &["--listen", "127.0.0.1:0"]).finish().refused(1, &["secrets.key", "sealed with"]);
}
