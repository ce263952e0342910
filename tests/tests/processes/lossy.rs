//! One packet in ten is lost in each direction; a link that is cut in the middle of a job and comes back.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use muster_testbed::{Namespace, eventually};
use muster_tests::site::{Agent, OneServer, Place, Site};

use crate::layers::{Layers, until_complete};

#[test]
fn a_stack_converges_over_a_lossy_link() {
    let site = Site::in_namespace();
    let hub = site.hub();
    let servers = [hub.server(2), hub.server(3)];
    for server in &servers {
        // Whom nobody has asked for the controller's MAC address yet gives up after three lost questions, and so does `join`.
        server.run(&format!("ping -q -c 1 -W 30 {}", Namespace::HUB));
        server.lose("up0", 10);
    }
    let at = |namespace| Place { namespace: Some(namespace), ..Place::default() };
    let agents = [site.join_at("web-1", at(&servers[0])), site.join_at("web-2", at(&servers[1]))];
    let layers = Layers::new(&site, &agents);
    let history = layers.watch();
    let template = layers.template();
    site.ok(&["stack", "create", "s", "-t", template, "-P", "version=v1", "--wait"]);
    layers.verify(&site, "s", "v1");
    site.ok(&["stack", "update", "s", "-t", template, "-P", "version=v2", "--wait"]);
    layers.verify(&site, "s", "v2");
    site.ok(&["stack", "delete", "s", "--wait"]);
    layers.verify_gone(&site, "s", &BTreeMap::new());
    history.verify(&["nothing", "v1", "v2", "nothing"]);
    assert!(servers.iter().all(|server| server.lost() > 0), "no packet was lost");
}

#[test]
fn a_link_that_is_cut_in_the_middle_of_a_job_comes_back() {
    let one = OneServer::new();
    let web1 = one.join();
    let OneServer { mut site, server } = one;
    let template = site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  \
         slow: {{type: Muster::Dummy, properties: {{node: web-1, seconds: 8}}}}\n  \
         last: {{type: Muster::File, depends_on: slow, properties: {{node: web-1, path: {}, content: x}}}}\n",
        web1.file("last").display()
    ));
    site.ok(&["stack", "create", "s", "-t", &template]);
    eventually("slow is running", || (site.resource("s", "slow")["phase"] == "running").then_some(()));
    let accepted = ledger(&web1);
    server.lose("up0", 100);
    eventually("slow is done, and nobody can be told", || (ledger(&web1) != accepted).then_some(()));
    assert_eq!(site.resource("s", "slow")["status"], "IN_PROGRESS");
    server.lose("up0", 0);
    until_complete(&site, "s");
    assert_eq!(web1.content("last").as_deref(), Some("x"));
    assert_eq!(site.physical_ids("s", "slow").len(), 1);

    // A controller that begins anew while the agent still believes in its old connection.
    server.lose("up0", 100);
    site.ok(&["stack", "delete", "s"]);
    site.kill();
    site.restart();
    assert_eq!(site.node_state("web-1").as_deref(), Some("offline"));
    assert_eq!(web1.content("last").as_deref(), Some("x"));
    server.lose("up0", 0);
    eventually("it is deleted", || (site.json(&["stack", "list"]) == serde_json::json!([])).then_some(()));
    assert_eq!(web1.listing(), [""; 0]);
}

/// The agent's records as they are.
fn ledger(agent: &Agent) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(agent.state.join("ledger")).unwrap();
    // A record may be replaced at any moment.
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter_map(|path| Some((path.clone(), fs::read(path).ok()?))).collect()
}
