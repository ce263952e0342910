//! The first steps of an operator: token, join, create, look, update, delete.

use std::collections::BTreeMap;
use std::fs;

use muster_testbed::eventually;
use muster_tests::site::Site;

const TEMPLATE: &str = r#"
heat_template_version: 2018-08-31
description: Two servers
parameters:
  greeting: {type: string, default: hello}
  port: {type: number, default: 80}
resources:
  thing:
    type: Muster::Dummy
    properties: {node: web-1, values: {a: "1", port: {get_param: port}}}
  one:
    type: Muster::File
    properties:
      node: web-1
      path: ROOT1/motd
      content: {get_param: greeting}
      mode: "0640"
    depends_on: thing
  other:
    type: Muster::File
    properties:
      node: web-2
      path: ROOT2/conf
      content: {str_replace: {template: "listen PORT of ID\n", params: {PORT: {get_attr: [thing, port]}, ID: {get_resource: thing}}}}
outputs:
  where: {value: {get_attr: [one, path]}, description: the message}
  ports: {value: {list_join: [",", [{get_attr: [thing, port]}, "443"]]}}
"#;

#[test]
fn from_token_to_delete() {
    let site = Site::start();
    let (web1, web2) = (site.join("web-1"), site.join("web-2"));
    fs::write(web1.file("motd"), "before\n").unwrap();
    let text =
        TEMPLATE.replace("ROOT1", web1.root.to_str().unwrap()).replace("ROOT2", web2.root.to_str().unwrap());
    let template = site.file(&text);

    let nodes = site.json(&["node", "list"]);
    let names: Vec<_> = nodes.as_array().unwrap().iter().map(|node| node["name"].clone()).collect();
    assert_eq!(names, ["web-1", "web-2"]);
    assert_eq!(site.json(&["node", "tokens"]), serde_json::json!([]));

    let view = site.json(&["stack", "create", "web", "-t", &template, "--wait"]);
    assert_eq!((&view["action"], &view["status"]), (&"CREATE".into(), &"COMPLETE".into()), "{view}");
    assert_eq!(web1.content("motd").unwrap(), "hello");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(web1.file("motd")).unwrap().permissions());
    assert_eq!(mode & 0o7777, 0o640);
    let thing = site.resource("web", "thing");
    let id = thing["physical_id"].as_str().unwrap();
    assert_eq!(web2.content("conf").unwrap(), format!("listen 80 of {id}\n"));

    let created = rows(&site);
    assert_eq!(created.len(), 3);
    let outputs = site.json(&["stack", "outputs", "web"]);
    let value =
        |key: &str| outputs.as_array().unwrap().iter().find(|o| o["key"] == key).unwrap()["value"].clone();
    assert_eq!(value("where"), web1.file("motd").to_str().unwrap());
    assert_eq!(value("ports"), "80,443");

    // Only what depends on the parameter gets a job, and so a new generation.
    site.ok(&["stack", "update", "web", "-t", &template, "-P", "greeting=hi", "--wait"]);
    assert_eq!(web1.content("motd").unwrap(), "hi");
    let updated = rows(&site);
    for (name, (physical, generation)) in &created {
        assert_eq!(&updated[name].0, physical, "{name}");
        assert_eq!(
            updated[name].1 != *generation,
            name == "one",
            "{name}: {generation}, then {}",
            updated[name].1
        );
    }
    assert_eq!(site.json(&["stack", "show", "web"])["parameters"]["greeting"], "hi");

    // A parameter that is not given keeps its value only with --existing.
    site.ok(&["stack", "update", "web", "--existing", "-P", "port=8080", "--wait"]);
    assert_eq!(web1.content("motd").unwrap(), "hi");
    assert_eq!(web2.content("conf").unwrap(), format!("listen 8080 of {id}\n"));
    assert_eq!(site.ok(&["stack", "template", "web"]), text);

    let events = site.json(&["stack", "events", "web"]);
    let events = events.as_array().unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event["number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|two| two[0] < two[1]), "{numbers:?}");
    for (action, status) in [("CREATE", "IN_PROGRESS"), ("CREATE", "COMPLETE"), ("UPDATE", "COMPLETE")] {
        let found = events.iter().any(|event| event["action"] == action && event["status"] == status);
        assert!(found, "no {action} {status} in {events:?}");
    }

    site.ok(&["stack", "delete", "web", "--wait"]);
    assert_eq!(web1.content("motd").unwrap(), "before\n");
    assert_eq!(web2.listing(), [""; 0]);
    assert_eq!(site.json(&["stack", "list"]), serde_json::json!([]));
    // Its events stay for a while: they tell how it ended.
    for table in ["resources", "graph", "revisions"] {
        assert_eq!(site.query(&format!("SELECT count(*) FROM {table}")), [["0"]], "{table}");
    }
}

#[test]
fn a_failure_spares_other_branches_and_a_fixed_template_heals() {
    let site = Site::start();
    let web1 = site.join("web-1");
    let template = |fail: bool| {
        site.file(&format!(
            "heat_template_version: 2018-08-31\nresources:\n  \
             bad: {{type: Muster::Dummy, properties: {{node: web-1, fail: {fail}}}}}\n  \
             after: {{type: Muster::Dummy, depends_on: bad, properties: {{node: web-1}}}}\n  \
             beside: {{type: Muster::File, properties: {{node: web-1, path: {}, content: x}}}}\n",
            web1.file("x").display()
        ))
    };
    site.muster(&["stack", "create", "s", "-t", &template(true), "--wait"])
        .refused(1, &["CREATE FAILED", "bad"]);
    assert_eq!(web1.content("x").unwrap(), "x");
    assert_eq!(site.resource("s", "after")["status"], "INIT");
    site.ok(&["stack", "update", "s", "-t", &template(false), "--wait"]);
    assert_eq!(site.resource("s", "after")["status"], "COMPLETE");
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(web1.listing(), [""; 0]);
}

#[test]
fn the_graph_of_a_stack_in_progress_is_a_query_away() {
    let site = Site::start();
    let _web1 = site.join("web-1");
    let template = site.file(
        "heat_template_version: 2018-08-31\nparameters: {time: {type: number, default: 3600}}\nresources:\n  \
         first: {type: Muster::Dummy, properties: {node: web-1}}\n  \
         slow: {type: Muster::Dummy, depends_on: first, properties: {node: web-1, seconds: {get_param: time}}}\n  \
         last: {type: Muster::Dummy, depends_on: slow, properties: {node: web-1}}\n",
    );
    site.ok(&["stack", "create", "s", "-t", &template]);
    eventually("slow is running", || (site.resource("s", "slow")["phase"] == "running").then_some(()));
    let row = |name: &str| site.resource("s", name)["id"].as_str().unwrap().to_owned();
    let (first, slow, last) = (row("first"), row("slow"), row("last"));
    let stack = site.json(&["stack", "show", "s"])["id"].as_str().unwrap().to_owned();
    let mut wanted = [
        [&first, &slow, &stack, "0", "1"].map(ToString::to_string),
        [&slow, &last, &stack, "0", "0"].map(ToString::to_string),
        [&last, "", &stack, "0", "0"].map(ToString::to_string),
    ];
    wanted.sort();
    let mut rows = site
        .query("SELECT resource_id, needed_by, stack_id, retry_count, observed_ready FROM resource_graph");
    rows.sort();
    assert_eq!(rows, wanted);
    assert_eq!(site.query("SELECT * FROM resource_graph")[0].len(), 5);
    site.ok(&["stack", "update", "s", "-t", &template, "-P", "time=0", "--wait"]);
    site.ok(&["stack", "delete", "s", "--wait"]);
}

#[test]
fn hundreds_of_files_arrive_on_two_servers() {
    const FILES: usize = 400;
    let site = Site::start();
    let agents = [site.join("web-1"), site.join("web-2")];
    let mut text =
        String::from("heat_template_version: 2018-08-31\nparameters: {v: {type: string}}\nresources:\n");
    for number in 0..FILES {
        let agent = &agents[number % 2];
        let path = agent.file(&format!("f{number}"));
        text += &format!(
            "  f{number}: {{type: Muster::File, properties: {{node: {}, path: {}, content: {{get_param: v}}}}}}\n",
            agent.name,
            path.display()
        );
    }
    let template = site.file(&text);
    for (verb, version) in [("create", "1"), ("update", "2")] {
        site.ok(&["stack", verb, "s", "-t", &template, "-P", &format!("v={version}"), "--wait"]);
        for number in 0..FILES {
            assert_eq!(
                agents[number % 2].content(&format!("f{number}")).as_deref(),
                Some(version),
                "f{number}"
            );
        }
    }
    assert_eq!(site.json(&["node", "show", "web-2"])["resources"], FILES / 2);
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert!(agents.iter().all(|agent| agent.listing().is_empty()));
}

#[test]
fn daemons_end_when_told_to_and_go_on_later() {
    let mut site = Site::start();
    let mut web1 = site.join("web-1");
    let template = site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  \
         slow: {{type: Muster::Dummy, properties: {{node: web-1, seconds: 1}}}}\n  \
         file: {{type: Muster::File, depends_on: slow, properties: {{node: web-1, path: {}, content: x}}}}\n",
        web1.file("x").display()
    ));
    site.ok(&["stack", "create", "s", "-t", &template]);
    eventually("it has begun", || web1.daemon.log().contains(" job ").then_some(()));
    assert!(web1.daemon.stop().success(), "{}", web1.daemon.log());
    site.until_node("web-1", "offline");
    assert!(site.controller.stop().success(), "{}", site.controller.log());
    site.restart();
    web1.daemon.restart();
    eventually("the file is there", || web1.content("x"));
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(web1.listing(), [""; 0]);
}

/// Physical id and generation by name.
fn rows(site: &Site) -> BTreeMap<String, (String, String)> {
    let list = site.json(&["resource", "list", "web"]);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let row =
        |row: &serde_json::Value| (text(&row["name"]), (text(&row["physical_id"]), text(&row["generation"])));
    list.as_array().unwrap().iter().map(row).collect()
}
