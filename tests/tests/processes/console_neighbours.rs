//! A neighbour of a server whose LLDP frames have texts that a browser would run: frames on a real cable, and the pages that
//! show them in a real browser.

use muster_host::lldp::{Frame, Id};
use muster_host::sys::packet_socket;
use muster_testbed::{Namespace, Switch, eventually};
use muster_tests::site::{Place, Site};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::browser::Browser;

/// Text that a browser would run, if a page took it for its own.
const SCRIPT: &str = "<img src=x onerror='window.taken = 1'><script>window.taken = 1</script>";

/// Sends a frame of such a neighbour out of a link of a namespace.
fn send(machine: &Namespace, link: &str) {
    let frame = Frame {
        chassis: Id { subtype: Id::MAC_OF_CHASSIS, octets: vec![2, 0, 0, 0, 0, 0x0a] },
        port: Id { subtype: Id::NAME_OF_PORT, octets: format!("port {SCRIPT}").into_bytes() },
        ttl: 3600,
        port_description: Some(format!("described {SCRIPT}")),
        system_name: Some(format!("leaf {SCRIPT}")),
        system_description: Some(format!("system {SCRIPT}")),
        vlan: Some(100),
        management: Vec::new(),
        beacon: None,
    };
    let line = machine.ip(&format!("-o link show {link}"));
    let index = line.split(':').next().unwrap().trim().parse().unwrap();
    let bytes = frame.write([2; 6]);
    let sent = machine.inside(|| {
        // Takes every frame: nothing is read.
        let all = nix::libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
        nix::unistd::write(packet_socket(index, &[], &[all]).unwrap(), &bytes)
    });
    assert_eq!(sent.unwrap(), bytes.len());
}

#[test]
fn names_of_neighbours_are_text_in_a_browser() {
    let mut site = Site::in_namespace();
    let hub = Namespace::HUB;
    site.configure(&format!("[controller]\napi = '{hub}:8443'\naddresses = ['{hub}:8883']\n"));
    site.kill();
    site.restart();
    let (server, leaf, desk) = (site.hub().server(2), Namespace::new(), site.hub().server(9));
    // One cable to the server itself, and one to a port of its switch.
    server.link("eth1", &leaf, "e1");
    server.link("eth2", &leaf, "e2");
    for link in ["br1 type bridge", "eth3 master br1 type veth peer name eth4"] {
        server.ip(&format!("link add {link}"));
    }
    let switch = Switch::start(&server);
    switch.bridge("br0", &["p1"]);
    switch.vsctl("add-port br0 eth2");
    let place = Place { namespace: Some(&server), switch: Some(&switch), ..Place::default() };
    let _agent = site.join_at("web-1", place);
    let heard = |link: &str| {
        let facts = site.json(&["node", "facts", "web-1"]);
        let links = facts["links"].as_array()?.clone();
        let of_link = links.into_iter().find(|it| it["name"] == link)?;
        of_link["neighbours"][0]["system_name"].as_str().map(str::to_owned)
    };
    for (from, to) in [("e1", "eth1"), ("e2", "eth2")] {
        // The agent may begin to listen after a frame.
        let name = eventually("the neighbour is heard", || {
            send(&leaf, from);
            heard(to)
        });
        assert_eq!(name, format!("leaf {SCRIPT}"), "{to}");
    }

    let token = site.ok(&["user", "create", "anna", "--role", "operator"]).trim().to_owned();
    let dir = TempDir::new().unwrap();
    let browser = Browser::start(&desk, &dir.path().join("anna"), false);
    let url = |path: &str| format!("https://{hub}:8443{path}");
    browser.open(&url("/console/nodes/web-1"), "Log in to Muster");
    browser.fill("#token", &token);
    browser.press("Log in");
    browser.until("Interfaces");
    let shown = eventually("the page shows the neighbours", || {
        let table = browser.run(
            "return [...document.querySelectorAll('main table')].find((it) => it.innerText.includes('Neighbour'))?.innerText || ''",
            &[],
        );
        table.as_str().filter(|text| text.matches(&format!("leaf {SCRIPT}")).count() == 2).map(str::to_owned)
    });
    assert!(shown.contains(&format!("port {SCRIPT}")), "{shown}");
    assert!(shown.contains("member of br1"), "{shown}");
    // The picture has the same, also where the mouse rests.
    let picture = browser.run("return document.querySelector('main svg').textContent", &[]);
    assert!(picture.as_str().unwrap().contains(&format!("leaf {}", &SCRIPT[..8])), "{picture}");
    for page in ["/console/nodes/web-1", "/console/network", "/console"] {
        browser.go(&url(page));
        browser.until("Muster");
        assert_eq!(browser.violations(), json!([]), "{page}");
        assert_eq!(browser.run("return window.taken || null", &[]), Value::Null, "{page}");
        let made = browser.run("return document.querySelectorAll('main img, main script').length", &[]);
        assert_eq!(made, 0, "{page}");
    }
}
