//! Users with roles work from another machine; whoever has no token, a wrong one, or too small a role is refused, and
//! the audit tells who asked.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use muster_api::route::Operation;
use muster_api::user::Role;
use muster_shared::user_token::UserToken;
use muster_testbed::{Namespace, Running, command, eventually};
use muster_tests::site::{Agent, Place, Site, binary, template_of_a_file};
use serde_json::{Value, json};

use crate::desk::Desk;

const TEMPLATE: &str = "heat_template_version: 2018-08-31\noutputs: {said: {value: hello}}\n";

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

/// No file below holds the text.
fn is_nowhere(text: &str, folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            is_nowhere(text, &path);
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            let found = bytes.windows(text.len()).any(|part| part == text.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

#[test]
fn users_with_roles_work_from_another_machine() {
    let mut site = Site::in_namespace();
    let url = format!("https://{}:8443", Namespace::HUB);
    let hub = Namespace::HUB;
    site.configure(&format!("[controller]\napi = '{hub}:8443'\naddresses = ['{hub}:8883']\n"));
    site.kill();
    site.restart();
    let machine = site.hub().server(9);
    let token = |name: &str, role: &str| -> String {
        site.ok(&["user", "create", name, "--role", role]).trim().to_owned()
    };
    let (anna, vera, ada) = (token("anna", "operator"), token("vera", "viewer"), token("ada", "admin"));
    site.muster(&["user", "create", "anna", "--role", "viewer"]).refused(1, &["anna", "muster user revoke"]);
    site.muster(&["user", "create", "Anna", "--role", "viewer"]).refused(2, &["Anna", "lower-case"]);
    site.muster(&["user", "create", "x", "--role", "king"]).refused(2, &["operator"]);

    // An operator changes stacks.
    let desk = Desk::new(&machine, &site, "anna");
    desk.muster(&["--url", &url, "status"]).refused(2, &["muster login"]);
    desk.muster(&["login", &url, "--token-file", &desk.file("token", &anna)]).expect(0);
    assert_eq!(desk.json(&["context", "list"])[0]["user"], "anna");
    let template = desk.file("web.yaml", TEMPLATE);
    desk.muster(&["stack", "create", "web", "-t", &template, "--wait"]).expect(0);
    assert_eq!(names(&desk.json(&["stack", "list"])), ["web"]);
    let events = desk.json(&["stack", "events", "web"]);
    assert_eq!(events[0]["actor"], "anna");
    desk.muster(&["user", "list"]).refused(1, &["needs role admin"]);
    desk.muster(&["user", "create", "mallory", "--role", "admin"]).refused(1, &["needs role admin"]);

    // Another client knows the CA and the name.
    let mut curl = command(Some(&machine), "curl");
    curl.args([
        "-sf",
        "--cacert",
        site.ca().to_str().unwrap(),
        "-H",
        &format!("Authorization: Bearer {anna}"),
    ]);
    curl.arg(format!("{url}/v1/status"));
    let status = Running::start(curl).finish().expect(0);
    assert!(status.stdout.contains("\"role\":\"active\""), "{}", status.stdout);

    // A viewer sees them.
    let viewer = Desk::new(&machine, &site, "vera");
    viewer.muster_with(&[("MUSTER_TOKEN", &vera)], &["login", &url]).expect(0);
    assert_eq!(names(&viewer.json(&["stack", "list"])), ["web"]);
    viewer.muster(&["stack", "delete", "web"]).refused(1, &["needs role operator", "vera"]);
    viewer.muster(&["node", "token", "--name", "web-1"]).refused(1, &["needs role operator"]);
    // A template of one's own would meet the stack's values, the hidden ones as well.
    viewer.muster(&["stack", "preview", "web", "-t", &template]).refused(1, &["needs role operator"]);
    assert_eq!(names(&viewer.json(&["stack", "list"])), ["web"], "nothing was changed");

    // A stack's files may hold secrets: a viewer is told their names.
    desk.file("site.key", "a key of the site");
    let with_file = TEMPLATE.replace("hello", "{get_file: site.key}");
    let with_file = desk.file("with-file.yaml", &with_file);
    desk.muster(&["stack", "create", "with-file", "-t", &with_file, "--wait"]).expect(0);
    for (desk, content) in [(&desk, "a key of the site"), (&viewer, "******")] {
        let shown = desk.json(&["stack", "template", "with-file"]);
        let contents: Vec<&Value> = shown["files"].as_object().unwrap().values().collect();
        assert_eq!(contents, [content], "{shown}");
    }
    desk.muster(&["stack", "delete", "with-file", "--wait"]).expect(0);

    // An admin makes users from there, and revokes them.
    let admin = Desk::new(&machine, &site, "ada");
    admin.muster_with(&[("MUSTER_TOKEN", &ada)], &["login", &url]).expect(0);
    let eve = admin.muster(&["user", "create", "eve", "--role", "operator", "--ttl", "1h"]).expect(0).stdout;
    assert_eq!(names(&admin.json(&["user", "list"])), ["ada", "anna", "eve", "vera"]);
    let third = Desk::new(&machine, &site, "eve");
    third.muster_with(&[("MUSTER_TOKEN", &eve)], &["--url", &url, "stack", "list"]).expect(0);
    admin.muster(&["user", "revoke", "eve"]).expect(0);
    admin.muster(&["user", "revoke", "eve"]).refused(1, &["no user 'eve'"]);
    third
        .muster_with(&[("MUSTER_TOKEN", &eve)], &["--url", &url, "stack", "list"])
        .refused(1, &["unknown or revoked"]);
    third
        .muster_with(&[("MUSTER_TOKEN", "x")], &["--url", &url, "stack", "list"])
        .refused(2, &["no user's token"]);

    // A token of another site does not speak to this one.
    let mut other = Site::start();
    other.configure("[controller]\napi = '127.0.0.1:0'\n");
    other.kill();
    other.restart();
    let foreign = other.ok(&["user", "create", "anna", "--role", "admin"]);
    third
        .muster_with(&[("MUSTER_TOKEN", &foreign)], &["--url", &url, "stack", "list"])
        .refused(4, &["not the controller that the token is for"]);

    // Who logs out has no token on that machine any more.
    viewer.muster(&["context", "remove", "10.77.0.1:8443"]).expect(0);
    assert_eq!(viewer.json(&["context", "list"]), serde_json::json!([]));

    // Tokens count after a restart as before. The store knows none of them.
    site.kill();
    site.restart();
    // The socket is there a moment before the address.
    eventually("the API's address is back", || (desk.muster(&["stack", "list"]).status == 0).then_some(()));
    desk.muster(&["stack", "delete", "web", "--wait"]).expect(0);
    let rows = site.json(&["audit"]);
    let told = |actor: &str, action: &str| {
        let of = |row: &&Value| row["actor"] == actor && row["action"] == action;
        let row = rows.as_array().unwrap().iter().find(of);
        row.unwrap_or_else(|| panic!("no '{action}' of {actor}: {rows:#}"))
    };
    assert_eq!(told("anna", "stack create")["from"], "10.77.0.9");
    assert_eq!(told("anna", "stack delete")["result"], "ok");
    assert_eq!(told("vera", "DeleteStack")["target"], "/v1/stacks/web");
    let refused = told("vera", "DeleteStack")["result"].as_str().unwrap();
    assert!(refused.starts_with("refused: needs role operator"), "{refused}");
    assert_eq!(told("ada", "user create")["target"], "eve");
    let refused = told("unknown (eve)", "ListStacks")["result"].as_str().unwrap();
    assert!(refused.contains("unknown or revoked"), "{refused}");
    let secret = anna.rsplit('.').next().unwrap();
    is_nowhere(secret, site.database().parent().unwrap());
    assert!(!site.controller.log().contains(secret));
}

/// Others' stacks and nodes are neither seen nor changed.
#[test]
fn a_user_with_a_scope_works_on_that_part() {
    let mut site = Site::in_namespace();
    let (hub, url) = (Namespace::HUB, format!("https://{}:8443", Namespace::HUB));
    site.configure(&format!("[controller]\napi = '{hub}:8443'\naddresses = ['{hub}:8883']\n"));
    site.kill();
    site.restart();
    let (one, two) = (site.hub().server(2), site.hub().server(3));
    let place = |server| Place { namespace: Some(server), ..Place::default() };
    let (mine, other) = (site.join_at("web-1", place(&one)), site.join_at("web-2", place(&two)));
    site.ok(&["node", "label", "web-1", "rack=r1"]);
    let template = |agent: &Agent| site.file(&template_of_a_file(&agent.name, &agent.file("motd")));
    let (on_mine, on_other) = (template(&mine), template(&other));
    site.ok(&["stack", "create", "web-others", "-t", &on_other, "-P", "text=others", "--wait"]);
    let token = |rest: &[&str]| site.ok(&[&["user", "create"], rest].concat()).trim().to_owned();
    let ben = token(&["ben", "--role", "operator", "--scope", "rack=r1", "--stacks", "web-*"]);
    site.muster(&["user", "create", "x", "--role", "admin", "--scope", "a=b"]).refused(2, &["--scope"]);
    site.muster(&["user", "create", "x", "--role", "viewer", "--scope", "a"]).refused(2, &["k=v"]);
    site.muster(&["user", "create", "x", "--role", "viewer", "--stacks", "a b"]).refused(2, &["--stacks"]);
    let listed = site.json(&["user", "list"]);
    assert_eq!((&listed[0]["scope"], &listed[0]["stacks"]), (&json!("rack=r1"), &json!("web-*")));

    let machine = site.hub().server(9);
    let desk = Desk::new(&machine, &site, "ben");
    desk.muster(&["login", &url, "--token-file", &desk.file("token", &ben)]).expect(0);
    assert_eq!(names(&desk.json(&["node", "list"])), ["web-1"]);
    assert_eq!(names(&desk.json(&["stack", "list"])), Vec::<&str>::new());
    let create = |name: &str, template: &str| {
        desk.muster(&[
            "stack",
            "create",
            name,
            "-t",
            &desk.file("t.yaml", &fs::read_to_string(template).unwrap()),
            "-P",
            "text=mine",
            "--wait",
        ])
    };
    create("web-mine", &on_other).refused(1, &["web-2", "rack=r1"]);
    create("db", &on_mine).refused(1, &["'db' is outside your scope", "stacks web-*"]);
    create("web-mine", &on_mine).expect(0);
    assert_eq!(names(&desk.json(&["stack", "list"])), ["web-mine"]);
    desk.muster(&["stack", "show", "web-others"]).refused(1, &["outside your scope"]);
    desk.muster(&["stack", "delete", "web-others"]).refused(1, &["outside your scope"]);
    desk.muster(&["node", "show", "web-2"]).refused(1, &["outside your scope"]);
    desk.muster(&["node", "maintenance", "web-2", "on"]).refused(1, &["outside your scope"]);
    desk.muster(&["node", "remove", "web-1"]).refused(1, &["all of the site"]);
    desk.muster(&["intent", "list"]).refused(1, &["all of the site"]);
    desk.muster(&["audit"]).refused(1, &["all of the site"]);
    desk.muster(&["status"]).expect(0);

    // The stack stays in the rack, also where an admin updates it, and after a restart.
    site.kill();
    site.restart();
    site.muster(&["stack", "update", "web-mine", "-t", &on_other, "-P", "text=mine"])
        .refused(1, &["web-2", "rack=r1"]);
    desk.muster(&["stack", "delete", "web-mine", "--wait"]).expect(0);
    assert_eq!(mine.content("motd"), None);
    let rows = site.json(&["audit", "--user", "ben"]);
    let refused = |target: &str| {
        let mut rows = rows.as_array().unwrap().iter();
        rows.any(|row| row["target"] == target && row["result"].as_str().unwrap().starts_with("refused:"))
    };
    assert!(refused("db") && refused("/v1/stacks/web-others") && refused("/v1/nodes/web-2"), "{rows:#}");
}

/// Every request of the API needs a token that counts, but those that say what the API is; and its role.
#[test]
fn without_a_token_there_is_nothing_to_see() {
    let mut site = Site::in_namespace();
    site.configure(&format!("[controller]\napi = '{}:8443'\n", Namespace::HUB));
    site.kill();
    site.restart();
    let machine = site.hub().server(9);
    let token = |name: &str, role: &str, ttl: &str| {
        site.ok(&["user", "create", name, "--role", role, "--ttl", ttl]).trim().to_owned()
    };
    let ca_fingerprint = token("vera", "viewer", "1h").parse::<UserToken>().unwrap().ca_fingerprint;
    let unknown = UserToken { name: "vera".to_owned(), ca_fingerprint, secret: [7; 32] }.to_string();
    let expired = token("eve", "admin", "1s");
    let bearer = |token: &str| format!("authorization: Bearer {token}");
    let ask = |requests: &[(&str, &str, &str)]| -> Vec<String> {
        let mut curl = command(Some(&machine), "curl");
        for (number, (method, path, header)) in requests.iter().enumerate() {
            if number > 0 {
                curl.arg("--next");
            }
            curl.args(["-sk", "-o", "/dev/null", "-w", "%{http_code}\n", "-X", method, "-H", header]);
            curl.arg(format!("https://{}:8443{path}", Namespace::HUB));
        }
        let statuses = Running::start(curl).finish().expect(0).stdout;
        statuses.lines().map(str::to_owned).collect()
    };
    eventually("a token expires", || {
        (ask(&[("GET", "/v1/status", &bearer(&expired))]) == ["401"]).then_some(())
    });
    let users = [("vic", Role::Viewer), ("otto", Role::Operator), ("ada", Role::Admin)];
    let users = users.map(|(name, role)| (bearer(&token(name, role.as_str(), "1h")), role));
    // Nothing in a path below is in this part of the site.
    let part = ["user", "create", "part", "--role", "operator", "--scope", "rack=r1", "--stacks", "web-*"];
    let part = bearer(site.ok(&part).trim());
    let strangers = [
        "x: y".to_owned(),
        "authorization: Basic cm9vdDo=".to_owned(),
        bearer("muster-user.anna.AAAA"),
        bearer(&unknown),
        bearer(&expired),
    ];
    let mut open = Vec::new();
    for (operation, route) in muster_api::route::ROUTES {
        let (method, path) =
            (format!("{:?}", route.method).to_uppercase(), route.path.replace(['{', '}'], ""));
        let headers = strangers.iter().chain(users.iter().map(|(header, _)| header)).chain([&part]);
        let requests: Vec<_> = headers.map(|header| (&*method, &*path, &**header)).collect();
        let statuses = ask(&requests);
        let (of_strangers, of_users) = statuses.split_at(strangers.len());
        if of_strangers.iter().any(|status| status != "401") {
            open.push(format!("{operation:?}"));
            continue;
        }
        let is_refused = of_users[users.len()] == "403";
        // Without a node it is of the whole network.
        let is_for_parts = route.for_parts && *operation != Operation::ShowTopology;
        assert_eq!(is_refused, !is_for_parts, "{operation:?} for a part of the site");
        for ((_, role), status) in users.iter().zip(of_users) {
            assert_ne!(status, "401", "{operation:?} {role:?}");
            assert_eq!(status == "403", *role < route.role, "{operation:?} {role:?}: {status}");
        }
    }
    let logins = ["ShowLogin", "LogIn", "BeginInBrowser", "BeginOnDevice"];
    assert_eq!(open, [&logins[..], &["ShowVersion", "Describe"]].concat());
}

/// A standby that takes over must not end because an address is not its machine's yet.
#[test]
fn an_address_that_cannot_be_had_yet_is_waited_for() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", taken.local_addr().unwrap());
    let mut site = Site::start();
    site.muster(&["user", "create", "anna", "--role", "viewer"]).refused(1, &["controller.api"]);
    site.configure(&format!("[controller]\napi = '{}'\n", taken.local_addr().unwrap()));
    site.kill();
    site.restart();
    let token = site.ok(&["user", "create", "anna", "--role", "viewer"]);
    eventually("it says so", || site.controller.log().contains("and tries again").then_some(()));
    drop(taken);
    let home = site.path().join("home");
    fs::create_dir(&home).unwrap();
    let stacks = || {
        let mut muster = command(None, binary("muster"));
        muster.env("HOME", &home).env("MUSTER_TOKEN", &token).env_remove("XDG_CONFIG_HOME");
        muster.args(["--url", &url, "stack", "list"]);
        Running::start(muster).finish()
    };
    eventually("it is there", || (stacks().status == 0).then_some(()));
}
