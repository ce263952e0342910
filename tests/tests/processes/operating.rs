//! The work of an operator on an existing stack: looks whether it is as desired, keeps a thing, compares what others
//! own, and stops what takes too long.

use std::fs;

use muster_testbed::eventually;
use muster_tests::site::{Agent, Link, Site};
use serde_json::json;

/// Lines of resources.
fn template(site: &Site, resources: &[String]) -> String {
    site.file(&format!("heat_template_version: 2018-08-31\nresources:\n  {}\n", resources.join("\n  ")))
}

fn file(name: &str, agent: &Agent, keys: &str) -> String {
    let (node, path) = (&agent.name, agent.file(name));
    format!(
        "{name}: {{type: Muster::File, {keys}properties: {{node: {node}, path: {}, content: hello}}}}",
        path.display()
    )
}

#[test]
fn a_check_finds_what_others_changed_and_an_update_mends_it() {
    let site = Site::start();
    let (web1, web2) = (site.join("web-1"), site.join("web-2"));
    let left = "drift_policy: report, ";
    let source = template(&site, &[file("motd", &web1, left), file("conf", &web2, left)]);
    site.ok(&["stack", "create", "web", "-t", &source, "--wait"]);
    site.ok(&["stack", "check", "web", "--wait"]);
    let view = site.json(&["stack", "show", "web"]);
    assert_eq!(
        (&view["action"], &view["status"], &view["revision"]),
        (&"CHECK".into(), &"COMPLETE".into(), &1.into())
    );

    fs::write(web1.file("motd"), "hullo").unwrap();
    fs::remove_file(web2.file("conf")).unwrap();
    site.muster(&["stack", "check", "web", "--wait"])
        .refused(1, &["CHECK FAILED", "motd", "its content differs"]);
    for (name, observed) in [("motd", "drifted"), ("conf", "missing")] {
        let row = site.resource("web", name);
        assert_eq!((&row["action"], &row["status"]), (&"CHECK".into(), &"FAILED".into()), "{row}");
        assert_eq!(row["observed"], observed, "{row}");
    }
    assert_eq!(
        (web1.content("motd").as_deref(), web2.listing().len()),
        (Some("hullo"), 0),
        "nothing is changed"
    );
    site.ok(&["stack", "update", "web", "-t", &source, "--wait"]);
    assert_eq!(
        (web1.content("motd").as_deref(), web2.content("conf").as_deref()),
        (Some("hello"), Some("hello"))
    );
    site.ok(&["stack", "check", "web", "--wait"]);

    let old = site.resource("web", "motd")["physical_id"].clone();
    site.ok(&["resource", "unhealthy", "web", "motd"]);
    site.muster(&["stack", "check", "web", "--wait"]).refused(1, &["marked unhealthy by an operator"]);
    site.ok(&["stack", "update", "web", "-t", &source, "--wait"]);
    assert_ne!(site.resource("web", "motd")["physical_id"], old);
    assert_eq!(web1.content("motd").as_deref(), Some("hello"));
    site.ok(&["stack", "delete", "web", "--wait"]);
    assert!(web1.listing().is_empty() && web2.listing().is_empty());
}

#[test]
fn what_is_retained_or_external_outlives_the_stack() {
    let mut site = Site::start();
    let web1 = site.join("web-1");
    fs::write(web1.file("mine"), "hello").unwrap();
    fs::set_permissions(web1.file("mine"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    fs::write(web1.file("kept"), "before").unwrap();
    let resources = [
        file("kept", &web1, "deletion_policy: retain, "),
        file("mine", &web1, "external_id: theirs-7, "),
        "id: {type: Muster::Dummy, properties: {node: web-1, values: {of: {get_resource: mine}}}}".to_owned(),
    ];
    site.ok(&["stack", "create", "web", "-t", &template(&site, &resources), "--wait"]);
    assert_eq!(web1.content("kept").as_deref(), Some("hello"));
    assert_eq!(site.resource("web", "mine")["physical_id"], "theirs-7");
    site.ok(&["stack", "check", "web", "--wait"]);

    let moved = file("mine", &web1, "external_id: another, ");
    site.muster(&["stack", "update", "web", "-t", &template(&site, &[moved])])
        .refused(2, &["external_id of resource mine", "take the resource out of the template"]);
    let wrong = resources[0].replace("retain", "retian");
    site.muster(&["stack", "update", "web", "-t", &template(&site, &[wrong])])
        .refused(2, &["deletion_policy", "did you mean 'retain'?"]);

    site.kill();
    site.restart();
    site.until_node("web-1", "online");
    assert_eq!(site.resource("web", "mine")["physical_id"], "theirs-7");
    site.ok(&["stack", "delete", "web", "--wait"]);
    assert_eq!(web1.listing(), ["kept", "mine"]);
    assert_eq!(
        (web1.content("kept").as_deref(), web1.content("mine").as_deref()),
        (Some("hello"), Some("hello"))
    );
    // What was left is nobody's: the next one finds it as it would find any file.
    site.ok(&["stack", "create", "web", "-t", &template(&site, &[file("kept", &web1, "")]), "--wait"]);
    site.ok(&["stack", "delete", "web", "--wait"]);
    assert_eq!(web1.content("kept").as_deref(), Some("hello"));
}

#[test]
fn a_cancelled_slow_create_is_continued_by_the_next_update() {
    let mut site = Site::start();
    let web1 = site.join("web-1");
    let slow = |seconds: u32| {
        let resources = [
            file("first", &web1, ""),
            format!(
                "slow: {{type: Muster::Dummy, depends_on: first, properties: {{node: web-1, seconds: {seconds}}}}}"
            ),
            file("last", &web1, "depends_on: slow, "),
        ];
        template(&site, &resources)
    };
    let (hour, moment) = (slow(3600), slow(0));
    site.ok(&["stack", "create", "web", "-t", &hour]);
    eventually("it runs", || (site.resource("web", "slow")["phase"] == "running").then_some(()));
    site.ok(&["stack", "cancel", "web"]);
    let view = site.json(&["stack", "show", "web"]);
    assert_eq!((&view["status"], &view["status_reason"]), (&"FAILED".into(), &"cancelled".into()));
    site.muster(&["stack", "cancel", "web"]).refused(1, &["CREATE_FAILED"]);
    eventually("it is interrupted", || {
        let row = site.resource("web", "slow");
        (row["status_reason"] == "interrupted: a cancel or a newer operation withdrew its job").then_some(())
    });
    site.kill();
    site.restart();
    site.until_node("web-1", "online");
    assert_eq!(web1.listing(), ["first"], "nothing of it is taken up again");
    assert_eq!(site.json(&["stack", "show", "web"])["status_reason"], "cancelled");
    site.ok(&["stack", "update", "web", "-t", &moment, "--wait"]);
    assert_eq!(web1.listing(), ["first", "last"]);
    site.ok(&["stack", "delete", "web", "--wait"]);
    assert!(web1.listing().is_empty());
}

#[test]
fn the_site_at_a_glance() {
    let site = Site::start();
    let _web1 = site.join("web-1");
    site.until_node("web-1", "online");
    let status = site.json(&["status"]);
    assert_eq!((&status["role"], &status["restored"]), (&json!("active"), &json!(false)));
    let link = match Link::wanted() {
        Link::Direct => "direct",
        Link::Embedded => "embedded",
        Link::Mosquitto | Link::Rmqtt => "mqtts://127.0.0.1:",
    };
    assert!(status["link"].as_str().unwrap().starts_with(link), "{status}");
    assert_eq!(
        status["agents"],
        json!({"online": 1, "offline": 0, "maintenance": 0, "conflict": 0, "disk_full": 0})
    );
    assert_eq!(status["waiting"], json!({"restore": 0, "hooks": 0, "approvals": 0}));
    assert_eq!(status["store"], format!("sqlite:{}", site.database().display()));
    assert!(status["epoch"].is_u64() && status["read_only"].is_null(), "{status}");
    let said = site.ok(&["status"]);
    assert!(said.contains("agents      1 online\n") && said.contains("for you     nothing\n"), "{said}");
}
