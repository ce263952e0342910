//! Several sites in one database: each has its own nodes, stacks and keys, and a controller is active for some of them and
//! stands by for others.

use std::fs;
use std::net::TcpStream;

use muster_testbed::{Postgres, Ran, Running, command, eventually, port};
use muster_tests::site::{Agent, Controllers, Site, binary, template_of_a_file};

/// Creates or updates the stack `web` with the agent's file, in the site of this name.
fn apply(site: &Site, name: &str, agent: &Agent, verb: &str, text: &str) {
    site.in_site(name, |site| {
        let template = site.file(&template_of_a_file(&agent.name, &agent.file("motd")));
        let parameter = format!("text={text}");
        site.ok(&["stack", verb, "web", "-t", &template, "-P", &parameter, "--wait"]);
    });
    assert_eq!(agent.content("motd").as_deref(), Some(text));
}

/// The controller that is active for a site, as this one sees it.
fn active(site: &Site, name: &str) -> Option<String> {
    let status = site.status()?;
    let sites = status["sites"].as_array()?;
    let found = sites.iter().find(|it| it["name"] == name)?;
    Some(found["active"].as_str()?.to_owned())
}

fn until_active(site: &Site, name: &str, controller: &str) {
    eventually(&format!("{controller} is active for {name}"), || {
        (active(site, name)? == controller).then_some(())
    });
    site.in_site(name, |site| eventually("it says so", || site.status()));
}

/// The address for the users of the further site of this number.
fn api_of(site: &Site, number: usize) -> String {
    let settings = fs::read_to_string(site.path().join("controller.toml")).unwrap();
    let settings: toml::Table = toml::from_str(&settings).unwrap();
    settings["sites"][number]["api"].as_str().unwrap().to_owned()
}

#[test]
fn sites_of_one_database_know_nothing_of_each_other() {
    let server = Postgres::start();
    server.create("fleet");
    let mut controllers = Controllers::of_sites(&[server.url("fleet")], &["hall-b"]);
    let site = &controllers.all[0];
    let web1 = site.join("web-1");
    let web2 = site.in_site("hall-b", |site| site.join("web-2"));
    for (name, agent) in [("default", &web1), ("hall-b", &web2)] {
        apply(site, name, agent, "create", "one");
        let listed = site.in_site(name, |site| site.json(&["node", "list"]));
        assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (1, &agent.name.as_str().into()));
    }
    let id = |name: &str| site.in_site(name, |site| site.status().unwrap()["site"].clone());
    assert_ne!(id("default"), id("hall-b"));
    let shown = site.ok(&["status"]);
    assert!(shown.contains("default active on c1") && shown.contains("hall-b active on c1"), "{shown}");
    site.muster(&["--site", "hall-c", "node", "list"])
        .refused(1, &["there is no site 'hall-c' here: this controller has default, hall-b"]);

    // What another site's nodes hold is nothing to this one.
    site.in_site("hall-b", |site| site.ok(&["stack", "delete", "web", "--wait"]));
    assert_eq!((web2.content("motd"), web1.content("motd").as_deref()), (None, Some("one")));
    controllers.all[0].kill();
    controllers.all[0].restart();
    let site = &controllers.all[0];
    for (name, agent, verb) in [("default", &web1, "update"), ("hall-b", &web2, "create")] {
        until_active(site, name, "c1");
        site.in_site(name, |site| site.until_node(&agent.name, "online"));
        apply(site, name, agent, verb, "two");
    }

    // From one to the other, by one command.
    site.in_site("hall-b", |site| {
        site.ok(&["stack", "delete", "web", "--wait"]);
        site.ok(&["node", "move", "web-2", "--site", "default"]);
        assert_eq!(site.node_state("web-2"), None);
    });
    site.until_node("web-2", "online");
}

#[test]
fn users_of_a_site_log_in_at_its_own_address() {
    let server = Postgres::start();
    server.create("fleet");
    let mut controllers = Controllers::of_sites(&[server.url("fleet")], &["hall-b"]);
    let site = &mut controllers.all[0];
    let own = format!("127.0.0.1:{}", port());
    site.configure(&format!("[controller]\napi = '{own}'\n"));
    site.kill();
    site.restart();
    let hall = api_of(site, 0);
    let template = site.file("heat_template_version: 2018-08-31\n");
    let token = |name: &str, stack: &str| {
        site.in_site(name, |site| {
            eventually("it answers", || site.status());
            site.ok(&["stack", "create", stack, "-t", &template, "--wait"]);
            site.ok(&["user", "create", "anna", "--role", "viewer"]).trim().to_owned()
        })
    };
    let (here, there) = (token("default", "here"), token("hall-b", "there"));
    let muster = |address: &str, token: &str| -> Ran {
        let mut muster = command(None, binary("muster"));
        muster.env_remove("MUSTER_CA").env("MUSTER_TOKEN", token);
        muster.args(["--url", &format!("https://{address}"), "stack", "list", "-o", "json"]);
        Running::start(muster).finish()
    };
    for (address, token, stack) in [(&own, &here, "here"), (&hall, &there, "there")] {
        let stacks: serde_json::Value =
            serde_json::from_str(&muster(address, token).expect(0).stdout).unwrap();
        assert_eq!((stacks.as_array().unwrap().len(), &stacks[0]["name"]), (1, &stack.into()));
    }
    muster(&hall, &here).refused(4, &["certificate"]);

    // Whatever a request says, it is for the address's own site.
    let curl = |address: &str, arguments: &[&str]| {
        let mut curl = command(None, "curl");
        curl.args(["-s", "-k", "-o", "/dev/null", "-w", "%{http_code}"]).args(&arguments[1..]);
        curl.arg(format!("https://{address}{}", arguments[0]));
        Running::start(curl).finish().expect(0).stdout
    };
    let [here, there] = [here, there].map(|token| format!("authorization: Bearer {token}"));
    for (address, header, token, status) in [
        (&own, "muster-site: default", &here, "200"),
        (&own, "muster-site: hall-b", &there, "200"),
        (&own, "muster-site: hall-b", &here, "401"),
        (&hall, "muster-site: hall-b", &there, "200"),
        (&hall, "muster-site: default", &here, "404"),
        (&hall, "muster-site: ../..", &there, "400"),
    ] {
        let heard = curl(address, &["/v1/stacks", "-H", header, "-H", token]);
        assert_eq!(heard, status, "{address} {header}");
    }
    assert_eq!(curl(&hall, &["/console/login"]), "200");
}

#[test]
fn controllers_share_sites_as_they_join_and_die() {
    let server = Postgres::start();
    server.create("fleet");
    let url = server.url("fleet");
    let mut controllers = Controllers::of_sites(std::slice::from_ref(&url), &["hall-b", "hall-c"]);
    let first = &controllers.all[0];
    let (web1, web3) = (first.join("web-1"), first.in_site("hall-c", |site| site.join("web-3")));
    apply(first, "default", &web1, "create", "one");
    apply(first, "hall-c", &web3, "create", "one");

    // Of three sites the second controller gets one: the last.
    controllers.add(&url);
    let [first, second] = &controllers.all[..] else { panic!("two controllers") };
    until_active(second, "hall-c", "c2");
    for name in ["default", "hall-b"] {
        assert_eq!(active(second, name).as_deref(), Some("c1"), "{name}");
    }
    second.in_site("hall-c", |site| site.until_node("web-3", "online"));
    apply(second, "hall-c", &web3, "update", "two");
    apply(first, "default", &web1, "update", "two");
    first.in_site("hall-c", |site| {
        site.muster(&["stack", "list"]).refused(1, &["c1 stands by: c2 is active since", "ask there"]);
    });

    // By hand, and it stays: the one that has its share asks for no more.
    let users = |site: &Site| TcpStream::connect(&*api_of(site, 0));
    eventually("hall-b's users come to c1", || users(first).ok());
    users(second).unwrap_err();
    let handed = first.controller(&url, &["hand-over", "--site", "hall-b", "--to", "c2"]).expect(0);
    assert_eq!(handed.stdout, "c2\n");
    until_active(second, "hall-b", "c2");
    eventually("hall-b's users come to c2", || users(second).ok());
    eventually("they come to c1 no more", || users(first).err());
    first.controller(&url, &["hand-over", "--site", "hall-d"]).refused(2, &["there is no site 'hall-d'"]);

    controllers.all[1].kill();
    let first = &controllers.all[0];
    for name in ["hall-b", "hall-c"] {
        until_active(first, name, "c1");
    }
    first.in_site("hall-c", |site| site.until_node("web-3", "online"));
    apply(first, "hall-c", &web3, "update", "three");
    apply(first, "default", &web1, "update", "three");
}

#[test]
fn settings_that_cannot_be_are_refused_before_anything_runs() {
    let server = Postgres::start();
    server.create("fleet");
    let controllers = Controllers::of_sites(&[server.url("fleet")], &["hall-b"]);
    let site = &controllers.all[0];
    let file = format!("sqlite:{}", site.path().join("none.db").display());
    site.controller(&file, &["--check-config"]).refused(2, &["holds one site: several need PostgreSQL"]);
    site.controller(&file, &[]).refused(1, &["holds one site: several need PostgreSQL"]);
    site.controller(&server.url("fleet"), &["--site", "hall-b"]).refused(2, &["--site is for commands"]);
    site.controller(&server.url("fleet"), &["--check-config"]).expect(0);
}
