//! ONOS's REST on a real controller and a real Open vSwitch, asked with curl as ONOS's scripts do: what a script makes is on
//! the switch, what it reads is so, and what it may not do is refused as ONOS refuses it.

use std::collections::BTreeMap;

use muster_testbed::{Namespace, Running, command, eventually};
use serde_json::{Value, json};

use crate::flows::FlowServer;

const PORT: u16 = 8181;

/// A server with a switch, and ONOS's REST at the controller.
struct Onos {
    server: FlowServer,
    /// The token of an operator.
    token: String,
}

/// The answer that curl got.
#[derive(Debug)]
struct Got {
    status: u16,
    location: String,
    challenge: String,
    body: Value,
}

impl Onos {
    fn start() -> Self {
        let mut server = FlowServer::start();
        ["p1", "p2"].iter().for_each(|port| drop(server.namespace.ip(&format!("link set {port} up"))));
        // The addresses of tokens are those of the certificate, too.
        let hub = Namespace::HUB;
        server
            .site
            .configure(&format!("[controller]\nonos_api = '{hub}:{PORT}'\naddresses = ['{hub}:8883']\n"));
        server.site.kill();
        server.site.restart();
        let token = server.site.ok(&["user", "create", "anna", "--role", "operator"]).trim().to_owned();
        let onos = Self { server, token };
        eventually("the bridge and its ports are there", || {
            // Until its server has told facts, an id is made of the bridge's name.
            let device = onos.try_device().filter(|id| !id.starts_with("of:4d55"))?;
            let ports = onos.get(&format!("/devices/{device}/ports")).body["ports"].clone();
            (ports.as_array()?.len() == 3).then_some(())
        });
        onos
    }

    /// As a script: curl with a user and a password.
    fn curl(&self, password: Option<&str>, method: &str, path: &str, document: Option<&Value>) -> Got {
        let mut curl = command(Some(&self.server.namespace), "curl");
        curl.args([
            "-s",
            "--max-time",
            "60",
            "--cacert",
            self.server.site.ca().to_str().unwrap(),
            "-X",
            method,
        ]);
        if let Some(password) = password {
            curl.args(["-u", &format!("onos:{password}")]);
        }
        if let Some(document) = document {
            let file = self.server.site.file(&document.to_string());
            curl.args(["-H", "Content-Type: application/json", "--data-binary", &format!("@{file}")]);
        }
        curl.args(["-w", "\n%{http_code}\n%header{location}\n%header{www-authenticate}"]);
        curl.arg(format!("https://{}:{PORT}/onos/v1{path}", Namespace::HUB));
        let said = Running::start(curl).finish();
        let mut lines = said.stdout.rsplit('\n');
        let (challenge, location, status) = (
            lines.next().unwrap_or_default(),
            lines.next().unwrap_or_default(),
            lines.next().unwrap_or_default(),
        );
        let body = lines.rev().collect::<Vec<_>>().join("\n");
        Got {
            status: status.parse().unwrap_or_default(),
            location: location.to_owned(),
            challenge: challenge.to_owned(),
            body: serde_json::from_str(&body).unwrap_or(Value::String(body)),
        }
    }

    fn get(&self, path: &str) -> Got {
        self.curl(Some(&self.token), "GET", path, None)
    }

    fn post(&self, path: &str, document: &Value) -> Got {
        self.curl(Some(&self.token), "POST", path, Some(document))
    }

    fn delete(&self, path: &str) -> Got {
        self.curl(Some(&self.token), "DELETE", path, None)
    }

    fn try_device(&self) -> Option<String> {
        Some(self.get("/devices").body["devices"].as_array()?.first()?["id"].as_str()?.to_owned())
    }

    fn device(&self) -> String {
        self.try_device().expect("there is a device")
    }

    /// ONOS's numbers of ports, by interface.
    fn ports(&self, device: &str) -> BTreeMap<String, String> {
        let ports = self.get(&format!("/devices/{device}/ports")).body["ports"].clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let port = |port: &Value| (text(&port["annotations"]["portName"]), text(&port["port"]));
        ports.as_array().unwrap().iter().map(port).collect()
    }

    /// The rule of a place as the switch has it.
    fn until_on_the_switch(&self, wanted: &str) {
        eventually(wanted, || self.server.ours().iter().any(|flow| flow.contains(wanted)).then_some(()));
    }

    fn until_gone(&self) {
        eventually("nothing of ours is on the switch", || self.server.ours().is_empty().then_some(()));
    }
}

fn flow(device: &str, criteria: &Value, out: &str) -> Value {
    json!({"priority": 40000, "timeout": 0, "isPermanent": true, "deviceId": device,
        "treatment": {"instructions": [{"type": "OUTPUT", "port": out}]}, "selector": {"criteria": criteria}})
}

#[test]
fn scripts_of_onos_make_read_and_remove_flows() {
    let onos = Onos::start();
    let device = onos.device();
    let shown = onos.get(&format!("/devices/{device}"));
    assert_eq!((shown.status, &shown.body["available"]), (200, &json!(true)));
    assert_eq!(shown.body["annotations"]["name"], "web-1/br0");
    // Open vSwitch says the same id.
    let own = onos.server.switch.vsctl("get bridge br0 datapath_id");
    assert_eq!(device, format!("of:{}", own.trim().trim_matches('"')));
    let ports = onos.ports(&device);
    let (p1, p2) = (&ports["p1"], &ports["p2"]);

    // One rule at its device.
    let number: u64 = p1.parse().unwrap();
    let criteria = json!([{"type": "IN_PORT", "port": number}, {"type": "ETH_TYPE", "ethType": "0x0800"},
        {"type": "IPV4_DST", "ip": "10.0.0.0/24"}]);
    let made = onos.post(&format!("/flows/{device}"), &flow(&device, &criteria, p2));
    assert_eq!(made.status, 201, "{made:?}");
    assert!(made.location.starts_with(&format!("/onos/v1/flows/{device}/")), "{made:?}");
    onos.until_on_the_switch("in_port=p1,nw_dst=10.0.0.0/24 actions=output:p2");
    let place = made.location.trim_start_matches("/onos/v1").to_owned();
    let read = eventually("the rule is ADDED", || {
        let read = onos.get(&place).body["flows"][0].clone();
        (read["state"] == "ADDED").then_some(read)
    });
    let types = |list: &Value| -> Vec<String> {
        let mut all: Vec<String> =
            list.as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect();
        all.sort();
        all
    };
    assert_eq!(types(&read["selector"]["criteria"]), ["ETH_TYPE", "IN_PORT", "IPV4_DST"]);
    assert_eq!(read["treatment"]["instructions"], json!([{"type": "OUTPUT", "port": p2}]));
    assert_eq!((&read["appId"], &read["priority"]), (&json!("org.onosproject.rest"), &json!(40000)));
    let muster = onos.server.list();
    assert_eq!(
        (&muster[0]["selector"]["in_port"], &muster[0]["treatment"]),
        (&json!("p1"), &json!([{"output": "p2"}]))
    );
    // What was read can be sent again, and is the same rule.
    assert_eq!(onos.post("/flows", &json!({"flows": [read]})).body["flows"][0]["flowId"], read["id"]);

    // Several at once, and a list of what there is.
    let vlan = |vlan: u16| flow(&device, &json!([{"type": "VLAN_VID", "vlanId": vlan}]), "NORMAL");
    let made = onos.post("/flows", &json!({"flows": [vlan(5), vlan(6)]}));
    assert_eq!((made.status, made.body["flows"].as_array().unwrap().len()), (200, 2), "{made:?}");
    onos.until_on_the_switch("dl_vlan=6 actions=NORMAL");
    for path in [
        "/flows".to_owned(),
        format!("/flows/{device}"),
        "/flows/table/0".to_owned(),
        "/flows/application/org.onosproject.rest".to_owned(),
    ] {
        assert_eq!(onos.get(&path).body["flows"].as_array().unwrap().len(), 3, "{path}");
    }
    let active = onos.get("/statistics/flows/activeentries").body;
    assert_eq!(active["statistics"][0]["device"], json!(device));
    // Counters are asked of a switch once a second at most. Its own rule counts as well.
    eventually("the table has four entries", || {
        let tables = onos.get(&format!("/statistics/flows/tables/{device}")).body;
        (tables["statistics"][0]["table"][0]["activeEntries"] == json!(4)).then_some(())
    });

    // One goes, then all of the application; what is not there is no fault.
    for _ in 0..2 {
        assert_eq!(onos.delete(&place).status, 204);
    }
    let gone = eventually("the rule is gone", || Some(onos.get(&place)).filter(|got| got.status == 404));
    assert_eq!(gone.body, json!({"code": 404, "message": "Flow is not found"}));
    assert_eq!(onos.delete("/flows/application/org.onosproject.rest").status, 204);
    onos.until_gone();
}

#[test]
fn what_onos_asks_wrongly_is_refused_with_its_place() {
    let onos = Onos::start();
    let device = onos.device();
    let ports = onos.ports(&device);
    let refused = |document: &Value, says: &[&str]| {
        let got = onos.post(&format!("/flows/{device}"), document);
        let message = got.body["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!((got.status, &got.body["code"]), (400, &json!(400)), "{document}: {got:?}");
        says.iter().for_each(|text| assert!(message.contains(text), "{text} is not in: {message}"));
    };
    let with = |criterion: Value| flow(&device, &json!([criterion]), "NORMAL");
    refused(
        &with(json!({"type": "OCH_SIGTYPE", "ochSignalType": "FIXED_GRID"})),
        &["selector.criteria[0]", "OCH_SIGTYPE", "optical"],
    );
    refused(&with(json!({"type": "TCP_DST", "tcpPort": 80})), &["selector.criteria[0]", "eth_type"]);
    refused(
        &with(json!({"type": "IN_PORT", "port": 1})),
        &["selector.criteria[0].port", "no port 1", &ports["p1"], "p1"],
    );
    refused(&flow(&device, &json!([]), "TABLE"), &["treatment.instructions[0].port", "TABLE"]);
    refused(&json!({"priority": 1, "isPermanent": true, "prioritty": 2}), &["prioritty"]);
    refused(&json!({"isPermanent": true}), &["priority"]);
    assert_eq!(onos.server.ours(), [""; 0], "nothing of these is on the switch");

    // Who has no token, a wrong one, or too small a role.
    let none = onos.curl(None, "GET", "/devices", None);
    assert_eq!((none.status, none.challenge.as_str()), (401, "Basic realm=\"muster\""), "{none:?}");
    assert_eq!(onos.curl(Some("rocks"), "GET", "/devices", None).status, 401);
    let viewer = onos.server.site.ok(&["user", "create", "vera", "--role", "viewer"]).trim().to_owned();
    assert_eq!(onos.curl(Some(&viewer), "GET", "/devices", None).status, 200);
    let denied = onos.curl(
        Some(&viewer),
        "POST",
        &format!("/flows/{device}"),
        Some(&flow(&device, &json!([]), "NORMAL")),
    );
    assert_eq!((denied.status, &denied.body["code"]), (403, &json!(403)));
    // The audit knows who asked for what.
    assert_eq!(onos.post(&format!("/flows/{device}"), &flow(&device, &json!([]), "NORMAL")).status, 201);
    let arp = flow(&device, &json!([{"type": "ETH_TYPE", "ethType": "0x806"}]), "CONTROLLER");
    assert_eq!(onos.post(&format!("/flows/{device}"), &arp).status, 201);
    onos.until_on_the_switch("arp actions=CONTROLLER:65535");
    let audit = onos.server.site.json(&["audit", "--user", "anna"]);
    assert!(audit.as_array().unwrap().iter().any(|row| row["actor"] == "anna"), "{audit}");

    for (path, status) in [
        ("/devices/of:00000000000000aa", 404),
        ("/nothing", 404),
        ("/applications", 501),
        ("/intents/a/b", 404),
    ] {
        let got = onos.get(path);
        assert_eq!((got.status, &got.body["code"]), (status, &json!(status)), "{path}: {got:?}");
    }
    // This address is for ONOS's REST alone.
    let mut curl = command(Some(&onos.server.namespace), "curl");
    curl.args([
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "--cacert",
        onos.server.site.ca().to_str().unwrap(),
    ]);
    curl.args(["-u", &format!("x:{}", onos.token)])
        .arg(format!("https://{}:{PORT}/v1/status", Namespace::HUB));
    assert_eq!(Running::start(curl).finish().stdout, "404");
}

#[test]
fn scripts_of_onos_make_groups_and_intents() {
    let onos = Onos::start();
    let device = onos.device();
    let ports = onos.ports(&device);
    let bucket = |port: &str| json!({"weight": 1, "treatment": {"instructions": [{"type": "OUTPUT", "port": ports[port]}]}});
    let group = json!({"type": "SELECT", "appCookie": "0x7", "groupId": "7", "buckets": [bucket("p1"), bucket("p2")]});
    let made = onos.post(&format!("/groups/{device}"), &group);
    assert_eq!(
        (made.status, made.location.as_str()),
        (201, format!("/onos/v1/groups/{device}/7").as_str()),
        "{made:?}"
    );
    let read = eventually("the group is ADDED", || {
        let read = onos.get(&format!("/groups/{device}/0x7")).body["groups"][0].clone();
        (read["state"] == "ADDED").then_some(read)
    });
    assert_eq!(
        (&read["id"], &read["type"], read["buckets"].as_array().unwrap().len()),
        (&json!(7), &json!("SELECT"), 2)
    );
    assert_eq!(onos.delete(&format!("/groups/{device}/0x7")).status, 204);

    let point = |port: &str| json!({"device": device, "port": ports[port]});
    let intent = json!({"type": "PointToPointIntent", "appId": "org.onosproject.cli", "key": "there", "priority": 77,
        "selector": {"criteria": [{"type": "ETH_TYPE", "ethType": "0x800"}, {"type": "IPV4_DST", "ip": "10.0.0.0/24"}]},
        "treatment": {"instructions": [{"type": "NOACTION"}], "deferred": []},
        "constraints": [{"type": "LinkTypeConstraint", "inclusive": false, "types": ["OPTICAL"]}],
        "ingressPoint": point("p1"), "egressPoint": point("p2")});
    let made = onos.post("/intents", &intent);
    assert_eq!(made.status, 201, "{made:?}");
    let place = made.location.trim_start_matches("/onos/v1").to_owned();
    let read = eventually("the intent is INSTALLED", || {
        let read = onos.get(&place).body;
        (read["state"] == "INSTALLED").then_some(read)
    });
    assert_eq!(
        (&read["type"], &read["appId"], &read["key"]),
        (&json!("PointToPointIntent"), &json!("org.onosproject.cli"), &json!("there"))
    );
    assert_eq!(
        (&read["ingressPoint"], &read["constraints"]),
        (&intent["ingressPoint"], &intent["constraints"])
    );
    onos.until_on_the_switch("in_port=p1,nw_dst=10.0.0.0/24 actions=output:p2");
    assert_eq!(onos.server.site.json(&["intent", "list"])[0]["key"], "org.onosproject.cli/there");
    assert_eq!(onos.get("/intents").body["intents"][0]["id"], read["id"]);
    assert_eq!(onos.get("/intents/minisummary").body["All"]["installed"], json!(1));
    let related = onos.get("/intents/relatedflows/org.onosproject.cli/there").body;
    assert_eq!(related["paths"][0][0]["appId"], json!("org.onosproject.net.intent"), "{related}");
    let mut second = intent.clone();
    second["selector"]["criteria"] = json!([{"type": "TCP_DST", "tcpPort": 80}]);
    let refused = onos.post("/intents", &second);
    assert!(
        refused.status == 400 && refused.body["message"].as_str().unwrap().contains("selector.criteria[0]"),
        "{refused:?}"
    );

    let network = onos.get("/topology").body;
    assert_eq!((&network["devices"], &network["clusters"]), (&json!(1), &json!(1)));
    assert_eq!(onos.get("/links").body, json!({"links": []}));
    assert_eq!(onos.get(&format!("/paths/{device}/{device}")).body, json!({"paths": []}));
    assert_eq!(onos.get("/hosts").status, 200);

    assert_eq!(onos.delete("/intents/org.onosproject.cli/there").status, 204);
    onos.until_gone();
    assert_eq!(onos.get(&place).status, 404);
    assert_eq!(onos.server.site.json(&["intent", "list"]), json!([]));
}
