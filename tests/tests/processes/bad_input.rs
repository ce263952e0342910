//! Mistakes of operators and strangers: a clear error with its place, nothing changed, nothing hung.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use muster_testbed::{PATIENCE, Running, eventually};
use muster_tests::site::{Place, Site};

use crate::layers::until_complete;

/// A template of these resources.
fn template(resources: &str) -> String {
    format!("heat_template_version: 2018-08-31\nresources:\n{resources}")
}

#[test]
fn a_bad_template_is_refused_with_its_place() {
    let site = Site::start();
    let file = "x: {type: Muster::File, properties: {node: web-1, path: /x, content: x}}";
    for (text, wanted) in [
        ("heat_template_version: 2018-08-31\nresources: {x: [\n".to_owned(), ":3:1"),
        ("resources: {}\n".to_owned(), "heat_template_version"),
        (template("  x: {type: Muster::Fil, properties: {}}\n"), ":3:13: resources.x.type: "),
        (template("  x: {type: Muster::Fil, properties: {}}\n"), "Muster::File"),
        (
            template("  x: {type: Muster::Dummy, properties: {sconds: 1}}\n"),
            ":3:41: resources.x.properties.sconds: ",
        ),
        (template("  x: {type: Muster::Dummy, properties: {seconds: {get_parm: a}}}\n"), "get_param"),
        (template("  x: {type: Muster::Dummy, properties: {seconds: {get_param: a}}}\n"), "'a'"),
        (template("  x: {type: Muster::Dummy, depends_on: y}\n"), "'y'"),
        (
            template(
                "  a: {type: Muster::Dummy, depends_on: b}\n  b: {type: Muster::Dummy, depends_on: c}\n  c: {type: Muster::Dummy, depends_on: a}\n",
            ),
            "a -> b -> c -> a",
        ),
        (template("  x: {type: Muster::File, properties: {node: web-1, path: x, content: x}}\n"), "absolute"),
        (
            template(
                "  x: {type: Muster::File, properties: {node: web-1, path: /x, content: {get_file: no.txt}}}\n",
            ),
            "no.txt",
        ),
        (
            template(
                "  x:\n    type: Muster::NetworkConfig\n    properties:\n      node: web-1\n      network_config: [{type: ovs_brige, name: br0}]\n",
            ),
            ":7:24: resources.x.properties.network_config[0]: unknown type 'ovs_brige'; did you mean 'ovs_bridge'?",
        ),
        (
            template(
                "  x:\n    type: Muster::NetworkConfig\n    properties:\n      node: web-1\n      network_config: [{type: ib_interface, name: ib0}]\n",
            ),
            "ib_interface",
        ),
    ] {
        let path = site.file(&text);
        let place = format!("error: {path}");
        site.muster(&["stack", "create", "s", "-t", &path]).refused(2, &[&place, wanted]);
    }
    let twice = site.file(&template(&format!("  {file}\n  y{}\n", &file[1..])));
    site.muster(&["stack", "create", "s", "-t", &twice])
        .refused(1, &["resources x and y", "file /x", "web-1"]);
    assert_eq!(site.json(&["stack", "list"]), serde_json::json!([]));
    site.muster(&["stack", "create", "s", "-t", "/nowhere.yaml"]).refused(2, &["/nowhere.yaml"]);
    let path = site.file("heat_template_version: 2018-08-31\nparameters: {n: {type: number}}\n");
    site.muster(&["stack", "create", "s", "-t", &path]).refused(2, &["parameters.n"]);
    site.muster(&["stack", "create", "s", "-t", &path, "-P", "n=x"])
        .refused(2, &["error: -P n: want a number", &path]);
    site.muster(&["stack", "create", "s", "-t", &path, "-P", "m=1"]).refused(2, &["'m'"]);
    site.muster(&["stack", "create", "no spaces", "-t", &path, "-P", "n=1"]).refused(2, &["no spaces"]);
    assert_eq!(site.query("SELECT count(*) FROM stacks"), [["0"]]);
}

#[test]
fn a_bad_update_leaves_the_stack_as_it_was() {
    let site = Site::start();
    let web1 = site.join("web-1");
    let file = |name: &str, path: &str, content: &str| {
        let path = web1.file(path);
        format!(
            "  {name}: {{type: Muster::File, properties: {{node: web-1, path: {}, content: {content}}}}}\n",
            path.display()
        )
    };
    let good = site.file(&template(&file("a", "a", "x")));
    site.ok(&["stack", "create", "s", "-t", &good, "--wait"]);
    let before = site.json(&["stack", "show", "s"]);

    site.muster(&["stack", "create", "s", "-t", &good]).refused(1, &["stack 's' exists already"]);
    let twice = site.file(&template(&(file("a", "a", "x") + &file("b", "a", "y"))));
    site.muster(&["stack", "update", "s", "-t", &twice])
        .refused(1, &["resource b", "resource a of stack s", "web-1"]);
    let other = site.file(&template(&file("other", "a", "y")));
    site.muster(&["stack", "create", "t", "-t", &other])
        .refused(1, &["resource other", "resource a of stack s", "web-1"]);
    let bad = site.file(&template("  a: {type: Muster::Nothing}\n"));
    site.muster(&["stack", "update", "s", "-t", &bad]).refused(2, &["resources.a.type"]);
    site.muster(&["stack", "update", "nobody", "-t", &good]).refused(1, &["no stack 'nobody'"]);
    site.muster(&["stack", "delete", "nobody"]).refused(1, &["no stack 'nobody'"]);
    site.muster(&["stack", "show", "nobody"]).refused(1, &["no stack 'nobody'"]);
    assert_eq!(site.json(&["stack", "show", "s"]), before);
    assert_eq!(web1.content("a").as_deref(), Some("x"));

    // A row that takes over the path of one that is dropped is no second claim.
    site.ok(&["stack", "update", "s", "-t", &other, "--wait"]);
    assert_eq!(web1.content("a").as_deref(), Some("y"));
    site.ok(&["stack", "create", "t", "-t", &site.file(&template(&file("b", "b", "z"))), "--wait"]);
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(web1.listing(), ["b"]);
}

#[test]
fn a_file_in_a_missing_directory_fails_with_that_reason() {
    let site = Site::start();
    let web1 = site.join("web-1");
    let path = web1.file("missing/file");
    let text = format!(
        "  x: {{type: Muster::File, properties: {{node: web-1, path: {}, content: x}}}}\n",
        path.display()
    );
    let waited = site.muster(&["stack", "create", "s", "-t", &site.file(&template(&text)), "--wait"]);
    waited.refused(1, &["CREATE FAILED", "directory", web1.file("missing").to_str().unwrap()]);
    let row = site.resource("s", "x");
    assert_eq!(row["status"], "FAILED", "{row}");
    assert!(row["status_reason"].as_str().unwrap().contains("directory"), "{row}");
    assert_eq!(web1.listing(), [""; 0]);
    site.ok(&["stack", "delete", "s", "--wait"]);
}

#[test]
fn a_stack_in_deletion_refuses_updates_and_a_wait_times_out() {
    let site = Site::start();
    let mut web1 = site.join("web-1");
    let slow = site.file(&template("  x: {type: Muster::Dummy, properties: {node: web-1, seconds: 3}}\n"));
    let ran = site.muster(&["stack", "create", "short", "-t", &slow, "--wait", "--timeout", "1"]);
    ran.refused(3, &["timed out after 1 s; not ended: x ("]);
    // Its own timeout is no part of this: a delete that has timed out may be followed by an update.
    site.ok(&["stack", "create", "s", "-t", &slow]);
    web1.daemon.kill();
    site.until_node("web-1", "offline");
    site.muster(&["stack", "delete", "s", "--wait", "--timeout", "1"])
        .refused(3, &["has not ended within 1 s"]);
    site.ok(&["stack", "delete", "s"]);
    let ran = site.muster(&["stack", "update", "s", "-t", &slow]);
    ran.refused(1, &["deleted"]);
    web1.daemon.restart();
    let gone = || site.muster(&["stack", "show", "s"]).status != 0;
    eventually("it is deleted", || gone().then_some(()));
}

#[test]
fn tokens_are_good_for_what_they_say_only() {
    let site = Site::start();
    let token = |arguments: &[&str]| site.ok(&[&["node", "token"], arguments].concat()).trim().to_owned();
    let refused = |name: &str, token: &str, wanted: &str| {
        let state = Some(site.path().join(format!("{name}.refused")));
        let mut agent = site.agent(name, token, Place { state, ..Place::default() });
        let status = eventually("the agent gives up", || agent.daemon.ended());
        let log = agent.daemon.log();
        assert!(!status.success() && log.contains("error: ") && log.contains(wanted), "{status}: {log}");
        assert_eq!(site.node_state(name), None);
    };
    let bound = token(&["--name", "db-1", "--label", "role=db"]);
    refused("web-1", &bound, "db-1");
    let pattern = token(&["--name", "db-*"]);
    refused("web-2", &pattern, "db-*");
    let used = token(&["--any-name"]);
    let one = site.agent("one", &used, Place::default());
    site.until_node("one", "online");
    refused("two", &used, "token");
    let short = token(&["--any-name", "--ttl", "1s"]);
    eventually("it has expired", || {
        (site.json(&["node", "tokens"]).as_array().unwrap().len() == 2 || expired(&site)).then_some(())
    });
    refused("late", &short, "expired");
    let revoked = site.json(&["node", "token", "--any-name"]);
    site.ok(&["node", "token-revoke", revoked["id"].as_str().unwrap()]);
    refused("three", revoked["token"].as_str().unwrap(), "token");
    let mut damaged = token(&["--any-name"]);
    damaged.truncate(damaged.len() - 3);
    refused("four", &damaged, "damaged");
    refused("five", "nonsense", "not a join token");
    // A name that is taken is joined again only with a token for that name.
    refused_again(&site, &token(&["--any-name"]));
    let db = site.agent("db-1", &bound, Place::default());
    site.until_node("db-1", "online");
    let labels = &site.json(&["node", "show", "db-1"])["labels"];
    assert_eq!(labels, &serde_json::json!({"role": "db"}));
    drop((one, db));
}

/// The newest token's time is over.
fn expired(site: &Site) -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let latest = site.query("SELECT min(expires) FROM tokens");
    latest[0][0].parse::<u64>().is_ok_and(|expires| expires < now)
}

fn refused_again(site: &Site, token: &str) {
    let state = Some(site.path().join("one.again"));
    let mut agent = site.agent("one", token, Place { state, ..Place::default() });
    eventually("the agent gives up", || agent.daemon.ended());
    assert!(agent.daemon.log().contains("error: "), "{}", agent.daemon.log());
    assert_eq!(site.node_state("one").as_deref(), Some("online"));
}

#[test]
fn strangers_on_the_port_do_not_disturb_a_neighbour() {
    let site = Site::start();
    let web1 = site.join("web-1");
    let address = site.address().to_owned();
    // Says nothing, for as long as the test.
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let mut noise = Vec::new();
    for seed in 0..20_u64 {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let byte = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed) >> 32) as u8;
        let mut bytes: Vec<u8> = (seed..seed + 100_000).map(byte).collect();
        if seed % 2 == 0 {
            // The head of a TLS handshake of the largest size, then nonsense.
            bytes[..6].copy_from_slice(&[22, 3, 1, 64, 0, 1]);
        }
        // The other side may close in the middle of it.
        let _ = stream.write_all(&bytes);
        noise.push(stream);
    }
    let text = format!(
        "  x: {{type: Muster::File, properties: {{node: web-1, path: {}, content: x}}}}\n",
        web1.file("x").display()
    );
    site.ok(&["stack", "create", "s", "-t", &site.file(&template(&text)), "--wait"]);
    assert_eq!(web1.content("x").as_deref(), Some("x"));
    for mut stream in noise {
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::WouldBlock, "a stranger's connection stays open")
            }
        }
    }
    drop(silent);
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(site.node_state("web-1").as_deref(), Some("online"));
}

#[test]
fn a_controller_that_is_not_there_is_exit_code_4() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("unix://{}/api.sock", folder.path().display());
    let muster = |arguments: &[&str]| {
        let mut command = Command::new(muster_tests::site::binary("muster"));
        command.args(["--url", &url]).args(arguments);
        Running::start(command).finish()
    };
    for arguments in [
        &["node", "list"][..],
        &["stack", "list"],
        &["node", "token", "--any-name"],
        &["stack", "delete", "s", "--wait"],
    ] {
        muster(arguments).refused(4, &["api.sock"]);
    }
    let path = folder.path().join("t.yaml");
    std::fs::write(&path, template("  x: {type: Muster::Dummy}\n")).unwrap();
    muster(&["stack", "create", "s", "-t", path.to_str().unwrap()]).refused(4, &["api.sock"]);
    // A template is checked without it.
    muster(&["stack", "validate", "-t", path.to_str().unwrap()]).expect(0);
    muster(&["stack", "nonsense"]).expect(2);
}

#[test]
fn a_second_controller_on_one_data_directory_is_refused() {
    let site = Site::start();
    let mut command = Command::new(muster_tests::site::binary("muster-controller"));
    command.arg("--config").arg(site.path().join("controller.toml")).args(["--listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(site.database().parent().unwrap());
    command.arg("--api-socket").arg(site.path().join("second.sock"));
    Running::start(command).finish().refused(1, &["another controller uses"]);
    site.ok(&["node", "list"]);
    let slow = site.file(&template("  x: {type: Muster::Dummy}\n"));
    let _any = site.join("web-1");
    site.ok(&["stack", "create", "s", "-t", &slow]);
    until_complete(&site, "s");
}
