//! The commands with which operators look at existing stacks, and work on their parts.

use serde_json::{Value, json};

use crate::controller::{Act, Controller};
use crate::talking::{error, stack, view};
use crate::{muster, outcome};

/// Arguments, the controller's answer; what it is asked and what is printed.
#[test]
fn nodes_and_resources_are_acted_on() {
    let lost = json!([{"stack": "web", "resource": "motd", "type": "Muster::File", "physical_id": "p1", "node": "web-1", "reason": ""}]);
    let node = json!({"name": "web-1", "state": "online", "labels": {"role": "web"}, "agent_version": "1", "last_seen": null,
        "resources": 1, "drifted": 0, "lost": [], "lost_total": 0});
    let told = "MAC address 52:54:00:00:00:02 is claimed by web-1 at web-1/br0:h and by web-2 at web-2/br0:h";
    let mut claims = node.clone();
    claims["mac_conflicts"] = json!([told]);
    let mut claims_too = claims.clone();
    claims_too["name"] = json!("web-2");
    for (arguments, answer) in
        [("node list", json!([claims, claims_too])), ("node show web-1", claims.clone())]
    {
        let controller = Controller::with(vec![Act::Answer(200, answer), Act::Answer(200, json!({}))]);
        let (code, stdout, _) = outcome(muster(arguments).args(["--url", &controller.url()]));
        assert_eq!((code, stdout.matches(told).count()), (Some(0), 1), "{stdout}");
    }
    let mut late = node.clone();
    late["clock_off_s"] = json!(-7500);
    for (arguments, answer, wanted) in [
        (
            "node list",
            json!([late]),
            "\nclock: web-1 is 2 h 5 min behind the controller's clock: set the one",
        ),
        (
            "node show web-1",
            late.clone(),
            "clock          2 h 5 min behind the controller's clock: set the one",
        ),
        ("node list -o json", json!([late]), "\"clock_off_s\": -7500"),
    ] {
        let controller = Controller::with(vec![Act::Answer(200, answer), Act::Answer(200, json!({}))]);
        let (code, stdout, _) = outcome(muster(arguments).args(["--url", &controller.url()]));
        assert!(code == Some(0) && stdout.contains(wanted), "{stdout}");
    }
    let mut gone = node.clone();
    (gone["state"], gone["lost"], gone["lost_total"]) = (json!("lost"), lost.clone(), json!(2));
    let row = json!({"name": "motd"});
    for (arguments, answer, request, wanted) in [
        (
            "node label web-1 role=web old-",
            node.clone(),
            r#"PATCH /v1/nodes/web-1 {"labels":{"old":null,"role":"web"}}"#,
            "web-1: role=web\n",
        ),
        (
            "node revoke web-1",
            node,
            "POST /v1/nodes/web-1/revoke",
            "web-1 is cut off; it joins again with a token for its name: muster node token --name web-1\n",
        ),
        (
            "node remove web-1",
            json!({"name": "web-1", "lost": [], "lost_total": 0}),
            "DELETE /v1/nodes/web-1",
            "web-1 is removed; nothing was left behind on it\n",
        ),
        (
            "node remove web-1",
            json!({"name": "web-1", "lost": lost, "lost_total": 1}),
            "DELETE /v1/nodes/web-1",
            "web-1 is removed; 1 resource may be left on it, cleaned up first should it join again:\n\
             STACK  RESOURCE  TYPE          PHYSICAL ID  REASON\nweb    motd      Muster::File  p1           -\n",
        ),
        (
            "node move web-1 --token muster1-x",
            json!({"name": "web-1", "site": "lab-b"}),
            r#"POST /v1/nodes/web-1/move {"token":"muster1-x"}"#,
            "web-1 belongs to site 'lab-b' now\n",
        ),
        (
            "node show web-1",
            gone,
            "GET /v1/nodes/web-1",
            "name           web-1\nstate          lost\nlabels         role=web\nagent_version  1\nlast_seen      -\n\
             resources      1\ndrifted        0\nlost_total     2\n\n\
             May be left on it; cleaned up first when it comes again:\n\
             STACK  RESOURCE  TYPE          PHYSICAL ID  REASON\nweb    motd      Muster::File  p1           -\nand 1 more\n",
        ),
        (
            "node facts web-1",
            json!({"name": "web-1", "age": 0.5, "os": {"id": "debian"}, "disks": [], "links": [{"name": "eth0", "kind": "", "driver": "e1000",
                "pci_address": "0000:00:03.0", "up": true, "carrier": false, "speed": null, "mtu": 1500, "mac": "02:00:00:00:00:01",
                "addresses": ["10.0.0.1/24"], "neighbours": [{"system_name": "leaf-1", "port_id": "e7", "vlan": 100}],
                "rx": {"bytes": 1, "dropped": 0, "errors": 0, "packets": 1},
                "tx": {"bytes": 0, "dropped": 0, "errors": 0, "packets": 0}}]}),
            "GET /v1/nodes/web-1/facts",
            "name  web-1\nage   0.5\nos    id=debian\n\n\
             LINK  KIND  MASTER  LOWER  DRIVER  PCI           UP    CARRIER  SPEED  MTU   MAC                ADDRESSES    \
             RX                                    TX\n\
             eth0  -     -       -      e1000   0000:00:03.0  true  false    -      1500  02:00:00:00:00:01  10.0.0.1/24  \
             bytes=1,dropped=0,errors=0,packets=1  bytes=0,dropped=0,errors=0,packets=0\n\n\
             LINK  NEIGHBOUR  PORT  DESCRIPTION  VLAN  CHASSIS  MANAGEMENT\n\
             eth0  leaf-1     e7    -            100   -        -\n",
        ),
        (
            "node drift web-1",
            json!([{"node": "web-1", "stack": "s", "resource": "net", "observed": "drifted", "policy": "correct",
                    "phase": "queued", "corrections": 5, "breaker": "open", "reason": "drifted: eth0 is down"}]),
            "GET /v1/drift?node=web-1",
            "NODE   STACK  RESOURCE  OBSERVED  POLICY   PHASE   CORRECTED  BREAKER  REASON\n\
             web-1  s      net       drifted   correct  queued  5          open     drifted: eth0 is down\n",
        ),
        (
            "node drift",
            json!([]),
            "GET /v1/drift",
            "NODE  STACK  RESOURCE  OBSERVED  POLICY  PHASE  CORRECTED  BREAKER  REASON\n",
        ),
        (
            "resource unhealthy web motd",
            row.clone(),
            "POST /v1/stacks/web/resources/motd/unhealthy",
            "motd of web is marked unhealthy: the next update replaces it\n",
        ),
        (
            "resource clear-hook web motd pre-create",
            row,
            r#"POST /v1/stacks/web/resources/motd/clear-hook {"hook":"pre-create"}"#,
            "motd of web: hook pre-create is cleared\n",
        ),
        (
            "resource signal web g/1/ready",
            json!({"resource": "g/1/ready", "id": "1", "again": false, "signals": 1}),
            "POST /v1/stacks/web/resources/g%2F1%2Fready/signal {}",
            "g/1/ready of web has signal 1; 1 in all\n",
        ),
        (
            r#"resource signal web ready --data {"id":7,"status":"FAILURE"}"#,
            json!({"resource": "ready", "id": "7", "again": true, "signals": 2}),
            r#"POST /v1/stacks/web/resources/ready/signal {"id":7,"status":"FAILURE"}"#,
            "ready of web has signal 7, in the place of an earlier one; 2 in all\n",
        ),
    ] {
        let controller = Controller::with(vec![Act::Answer(200, answer.clone())]);
        let (code, stdout, stderr) = outcome(muster(arguments).args(["--url", &controller.url()]));
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), wanted, ""), "{arguments}");
        assert_eq!(controller.requests(), [request]);
        let controller = Controller::with(vec![Act::Answer(200, answer.clone())]);
        let (_, stdout, _) = outcome(muster(arguments).args(["-o", "json", "--url", &controller.url()]));
        assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap(), answer);
        controller.requests();
    }
}

/// The token comes from the other site, and goes to this one.
#[test]
fn a_node_moves_to_a_site_by_its_name() {
    let moved = json!({"name": "web-1", "site": "lab-b"});
    let script = || vec![Act::Answer(201, json!({"token": "muster1-x"})), Act::Answer(200, moved.clone())];
    let controller = Controller::with(script());
    let arguments = ["--url", &controller.url()];
    let (code, stdout, stderr) = outcome(muster("node move web-1 --site lab-b").args(arguments));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout, "web-1 belongs to site 'lab-b' now\n");
    assert_eq!(
        controller.requests(),
        [
            r#"POST /v1/tokens @lab-b {"labels":{},"name":"web-1","ttl":300,"uses":1}"#,
            r#"POST /v1/nodes/web-1/move {"token":"muster1-x"}"#,
        ]
    );
    // The other site has none to give: the node is not asked to move.
    let controller = Controller::with(vec![error(404, "not_found")]);
    let arguments = ["--url", &controller.url()];
    let (code, _, stderr) = outcome(muster("node move web-1 --site lab-c").args(arguments));
    assert_eq!((code, stderr.as_str()), (Some(1), "error: the reason\n"));
    assert_eq!(controller.requests().len(), 1);
}

#[test]
fn a_token_of_another_site_comes_from_stdin() {
    let controller = Controller::with(vec![Act::Answer(200, json!({"name": "web-1", "site": "lab-b"}))]);
    let mut command = muster("node move web-1 --token -");
    let (code, ..) = outcome(command.args(["--url", &controller.url()]).write_stdin("muster1-x\nmore\n"));
    assert_eq!(code, Some(0));
    assert_eq!(controller.requests(), [r#"POST /v1/nodes/web-1/move {"token":"muster1-x"}"#]);
    let (code, _, stderr) = outcome(muster("node move web-1 --token -").write_stdin("\n"));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("standard input has no join token"), "{stderr}");
}

#[test]
fn a_list_of_nodes_says_why_nothing_can_be_written() {
    let status = json!({"read_only": "the controller cannot write and is read-only: disk full"});
    for (status, wanted) in
        [(status, "warning: the controller cannot write and is read-only: disk full\n"), (json!({}), "")]
    {
        let controller = Controller::with(vec![Act::Answer(200, json!([])), Act::Answer(200, status)]);
        let (code, _, stderr) = outcome(muster("node list").args(["--url", &controller.url()]));
        assert_eq!((code, stderr.as_str()), (Some(0), wanted));
        assert_eq!(controller.requests().last().map(String::as_str), Some("GET /v1/status"));
    }
}

#[test]
fn events_are_read_page_by_page_and_followed() {
    let event = |number: u64| {
        json!({"number": number, "time": "2026-01-01T00:00:00Z", "resource": null, "action": "CREATE",
        "status": "COMPLETE", "reason": "", "physical_id": null})
    };
    let page = |numbers: &[u64]| Act::Answer(200, numbers.iter().map(|number| event(*number)).collect());
    let controller = Controller::with(vec![page(&[1, 2]), page(&[3]), page(&[])]);
    let (code, stdout, _) = outcome(muster("stack events web -o json --url").arg(controller.url()));
    assert_eq!(code, Some(0));
    assert_eq!(serde_json::from_str::<Vec<Value>>(&stdout).unwrap().len(), 3);
    assert_eq!(controller.requests()[1], "GET /v1/stacks/web/events?after=2");

    let gone = || {
        Act::Answer(
            200,
            json!({"name": "web", "id": "", "action": "DELETE", "status": "COMPLETE", "traversal": 4, "seq": 6}),
        )
    };
    let script = vec![
        view("CREATE", 3, "IN_PROGRESS", 4),
        page(&[1]),
        page(&[]),
        view("DELETE", 4, "IN_PROGRESS", 5),
        page(&[2]),
        page(&[]),
        gone(),
        page(&[3]),
        page(&[]),
    ];
    let controller = Controller::with(script);
    let (code, stdout, stderr) = outcome(muster("stack events web --follow --url").arg(controller.url()));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout.lines().count(), 3, "{stdout}");
    let requests = controller.requests();
    assert_eq!(requests[3], "GET /v1/stacks/web/watch?seq=4");
    assert_eq!(requests[7], "GET /v1/stacks/web/events?after=2&id=7", "by its id, for the name is free");
}

#[test]
fn following_outlives_the_controller_and_loses_nothing() {
    let event =
        |number: u64| json!({"number": number, "action": "CREATE", "status": "COMPLETE", "reason": "x"});
    let page = |numbers: &[u64]| Act::Answer(200, numbers.iter().map(|number| event(*number)).collect());
    let script = vec![
        view("CREATE", 3, "IN_PROGRESS", 4),
        page(&[1]),
        Act::Break, // in the middle of the pages
        error(503, "unavailable"),
        page(&[2]),
        page(&[]),
        Act::Break, // in a watch
        view("CREATE", 3, "COMPLETE", 1),
        page(&[5]),
        page(&[]),
        Act::Break,
        error(404, "not_found"), // deleted, and the controller was restarted since
        page(&[6]),
        page(&[]),
    ];
    let controller = Controller::with(script);
    let (code, stdout, stderr) =
        outcome(muster("stack events web --follow -o json --url").arg(controller.url()));
    let away = "the controller is away; waiting for it\n";
    assert_eq!((code, stderr), (Some(0), format!("{away}{away}events 3 to 4 are not kept any more\n{away}")));
    let numbers: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["number"].clone()).collect();
    assert_eq!(numbers, [1, 2, 5, 6]);
    controller.requests();
}

#[test]
fn following_ends_where_another_stack_has_the_name() {
    let mut other = stack("CREATE", 9, "IN_PROGRESS", 1);
    other["id"] = json!("8");
    let page = |events: Value| Act::Answer(200, events);
    let script = vec![
        view("DELETE", 3, "IN_PROGRESS", 4),
        page(json!([])),
        Act::Answer(200, other),
        page(json!([{"number": 1}])),
        page(json!([])),
    ];
    let controller = Controller::with(script);
    let (code, stdout, _) = outcome(muster("stack events web --follow --url").arg(controller.url()));
    assert_eq!((code, stdout.lines().count()), (Some(0), 1));
    assert_eq!(controller.requests()[3], "GET /v1/stacks/web/events?after=0&id=7");
    let controller = Controller::with(vec![error(404, "not_found")]);
    let (code, _, stderr) = outcome(muster("stack events web --follow --url").arg(controller.url()));
    assert_eq!((code, stderr.as_str()), (Some(1), "error: the reason\n"));
    controller.requests();
}

#[test]
fn revisions_and_failures() {
    let list = json!([
        {"number": 1, "created_at": "2026-01-01T00:00:00Z", "made_by": "CREATE", "complete": true, "current": false, "source_name": "t.yaml"},
        {"number": 2, "created_at": "2026-01-02T00:00:00Z", "made_by": "ROLLBACK to 1", "complete": false, "current": true, "source_name": "t.yaml"},
    ]);
    let controller = Controller::with(vec![Act::Answer(200, list.clone())]);
    let (code, stdout, _) = outcome(muster("stack revisions web --url").arg(controller.url()));
    assert_eq!(code, Some(0));
    assert_eq!(
        stdout,
        "NUMBER  CREATED               MADE BY        COMPLETE  CURRENT  TEMPLATE\n\
         1       2026-01-01T00:00:00Z  CREATE         yes       no       t.yaml\n\
         2       2026-01-02T00:00:00Z  ROLLBACK to 1  no        yes      t.yaml\n"
    );
    controller.requests();
    let controller = Controller::with(vec![Act::Answer(200, list.clone())]);
    let (_, stdout, _) = outcome(muster("stack revisions web -o json --url").arg(controller.url()));
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap(), list);
    assert_eq!(controller.requests()[0], "GET /v1/stacks/web/revisions");
    let controller = Controller::with(vec![Act::Answer(200, json!([]))]);
    let (code, stdout, _) = outcome(muster("stack failures web --url").arg(controller.url()));
    assert_eq!((code, stdout.as_str()), (Some(0), "nothing failed\n"));
    controller.requests();
}

/// A file is written once; what cannot be described is a failure with its reason.
#[test]
fn a_node_is_described_on_stdout_or_in_a_new_file() {
    let answer = json!({"name": "web-1", "left_out": [], "resources": [
        {"name": "timezone", "type": "Muster::Timezone", "properties": {"timezone": "UTC", "node": "web-1"}}]});
    let controller = Controller::with((0..3).map(|_| Act::Answer(200, answer.clone())).collect());
    let ask = |more: &str| outcome(muster(&format!("adopt web-1{more} --url")).arg(controller.url()));
    let (code, template, _) = ask("");
    assert!(code == Some(0) && template.contains("    type: Muster::Timezone\n"), "{template}");
    let (code, stdout, _) = ask(" -o json");
    assert_eq!((code, serde_json::from_str::<Value>(&stdout).unwrap()), (Some(0), answer));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web-1.yaml");
    let into = format!(" -o {}", file.display());
    let (code, stdout, _) = ask(&into);
    assert!(code == Some(0) && stdout.contains("--adopt --wait"), "{stdout}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), template);
    assert_eq!(controller.requests(), ["GET /v1/nodes/web-1/survey"; 3]);
    let (code, _, stderr) = outcome(&mut muster(&format!("adopt web-1{into}")));
    assert!(code == Some(2) && stderr.contains("is there already"), "{stderr}");
    let nothing = json!({"name": "web-1", "left_out": ["the network: no netlink"], "resources": []});
    let controller = Controller::with(vec![Act::Answer(200, nothing)]);
    let (code, _, stderr) = outcome(muster("adopt web-1 --url").arg(controller.url()));
    let why = "error: nothing on web-1 can be described: the network: no netlink\n";
    assert_eq!((code, stderr.as_str()), (Some(1), why));
    controller.requests();
}

#[test]
fn pictures_are_of_graphs_alone() {
    let graph = json!({"name": "web", "action": "CREATE", "status": "COMPLETE", "revision": 1, "edges": [],
        "nodes": [{"id": "1", "name": "a", "role": "forward", "status": "COMPLETE", "action": "CREATE"}]});
    for (arguments, begins) in [
        ("", "RESOURCE  "),
        (" -o json", "{\n"),
        (" -o yaml", "action: CREATE\n"),
        (" -o dot", "// An arrow "),
        (" -o svg", "<svg "),
    ] {
        let controller = Controller::with(vec![Act::Answer(200, graph.clone())]);
        let (code, stdout, _) =
            outcome(muster(&format!("stack graph web{arguments} --url")).arg(controller.url()));
        assert_eq!(code, Some(0));
        assert!(stdout.starts_with(begins), "{arguments}: {stdout}");
        assert_eq!(controller.requests(), ["GET /v1/stacks/web/graph"]);
    }
    let controller = Controller::with(vec![Act::Answer(200, graph)]);
    let (_, stdout, _) = outcome(muster("-o svg stack graph web --url").arg(controller.url()));
    assert!(stdout.starts_with("<svg "), "{stdout}");
    controller.requests();
    let (code, _, stderr) = outcome(&mut muster("stack list -o svg"));
    assert_eq!(
        (code, stderr.as_str()),
        (Some(2), "error: -o dot and -o svg are for 'muster stack graph' and 'muster topology show' alone\n")
    );
}

#[test]
fn long_lists_come_page_by_page() {
    let stack = |at: usize| json!({"name": format!("s{at:04}"), "action": "CREATE", "status": "COMPLETE", "revision": at});
    let pages = || {
        let page = |range: std::ops::Range<usize>| Act::Answer(200, range.map(stack).collect());
        vec![page(0..1000), page(1000..1002)]
    };
    let controller = Controller::with(pages());
    let (code, stdout, stderr) = outcome(muster("stack list --url").arg(controller.url()));
    assert_eq!((code, stderr.as_str(), stdout.lines().count()), (Some(0), "", 1003));
    assert_eq!(stdout.matches("NAME").count(), 1, "one heading");
    assert_eq!(
        controller.requests(),
        ["GET /v1/stacks?limit=1000", "GET /v1/stacks?limit=1000&marker=s0999"]
    );
    for format in ["json", "yaml"] {
        let controller = Controller::with(pages());
        let (_, stdout, _) = outcome(muster(&format!("stack list -o {format} --url")).arg(controller.url()));
        let all: Vec<Value> = (0..1002).map(stack).collect();
        match format {
            "json" => assert_eq!(stdout, format!("{:#}\n", Value::from(all)), "one document"),
            _ => assert_eq!(
                stdout.matches("\n  name: s").count() + stdout.matches("- name: s").count(),
                all.len()
            ),
        }
        controller.requests();
    }
    for (format, wanted) in
        [("json", "[]\n"), ("yaml", "[]\n"), ("table", "NAME  ACTION  STATUS  REVISION  UPDATED\n")]
    {
        let controller = Controller::with(vec![Act::Answer(200, json!([]))]);
        let (_, stdout, _) = outcome(muster(&format!("stack list -o {format} --url")).arg(controller.url()));
        assert_eq!(stdout, wanted);
        controller.requests();
    }
    let controller = Controller::with(vec![error(404, "not_found")]);
    let (code, stdout, _) = outcome(muster("resource list web -o json --url").arg(controller.url()));
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "nothing is printed of what is refused");
    controller.requests();
}
