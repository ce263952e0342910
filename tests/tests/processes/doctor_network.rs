//! `muster-agent doctor` and `muster doctor` on what lies between agents, users and the controller: packet filters, the
//! addresses of join tokens, the API's certificate.

use std::fs;
use std::path::{Path, PathBuf};

use muster_testbed::{Namespace, Running, command, eventually};
use muster_tests::site::{OneServer, Site, binary};
use rcgen::{CertificateParams, KeyPair};

use crate::doctor::{Diagnosis, agent_doctor};

/// On the controller's machine.
fn muster_doctor(site: &Site, settings: &str) -> Diagnosis {
    let config = site.path().join("doctor.toml");
    fs::write(&config, settings).unwrap();
    let mut command = command(Some(site.hub()), binary("muster"));
    command.args(["--url", &site.url(), "doctor", "-o", "json", "--config"]).arg(config);
    command.env_remove("MUSTER_SITE");
    Diagnosis::of(Running::start(command).finish())
}

/// Rules, as an operator gives them to nft.
fn filter(namespace: &Namespace, rules: &[&str]) {
    namespace.run("nft flush ruleset");
    for rule in rules {
        namespace.run(&format!("nft {rule}"));
    }
}

const OUTPUT: &str = "add chain inet filter output { type filter hook output priority 0 ; }";
const INPUT: &str = "add chain inet filter input { type filter hook input priority 0 ; policy drop ; }";

#[test]
fn a_servers_own_firewall_between_it_and_its_controller() {
    let one = OneServer::new();
    let mut web1 = one.join();
    let server = Some(&one.server);
    let finding = "connections to the controller pass";
    agent_doctor(&web1, "", server).expect("firewall", "ok", finding).expect_status(0);

    // Others' ports, and a rule that nobody can judge from here, while connections come about.
    let many = "add rule inet filter output tcp dport { 22, 8000-8100 } drop";
    let rate = "add rule inet filter output tcp dport 8883 limit rate over 1000/second drop";
    filter(&one.server, &["add table inet filter", OUTPUT, many, rate]);
    agent_doctor(&web1, "", server).expect("firewall", "ok", finding).expect_status(0);

    // The agent's connection goes on: what doctor finds will hurt at the next one.
    let network = "add rule inet filter output ip daddr 10.77.0.0/24 tcp dport 8000-9000 ct state new drop";
    filter(&one.server, &["add table inet filter", OUTPUT, many, network]);
    let refused = agent_doctor(&web1, "", server);
    refused.expect("firewall", "error", "of chain inet filter output refuses connections to 10.77.0.1:8883");
    refused.expect("controller", "error", "there is no connection").expect_status(1);
    let remedy = refused.remedy("firewall");
    let rule = remedy.split(';').next().unwrap();
    assert_eq!(rule, "nft insert rule inet filter output tcp dport 8883 accept");
    // What it says to do helps.
    one.server.run(rule);
    agent_doctor(&web1, "", server).expect("firewall", "ok", finding).expect_status(0);

    // Packets go out, and the answers do not come in.
    filter(&one.server, &["add table inet filter", INPUT, "add rule inet filter input tcp dport 22 accept"]);
    let refused = agent_doctor(&web1, "", server);
    refused
        .expect(
            "firewall",
            "error",
            "the policy of chain inet filter input refuses what 10.77.0.1:8883 answers",
        )
        .expect_status(1);
    one.server.run(refused.remedy("firewall").split(';').next().unwrap());
    agent_doctor(&web1, "", server).expect("firewall", "ok", finding).expect_status(0);

    // The controller is away, and this server's rules have no part in that.
    let mut site = one.site;
    site.kill();
    agent_doctor(&web1, "", server)
        .expect("firewall", "ok", "no rule on this server refuses connections to 10.77.0.1:8883")
        .expect_status(1);
    let rate = "add rule inet filter output tcp dport 8883 meta mark 7 drop";
    filter(&one.server, &["add table inet filter", OUTPUT, rate]);
    agent_doctor(&web1, "", server).expect("firewall", "warning", "asks for more than is known here");
    web1.daemon.stop();
}

#[test]
fn a_controllers_firewall_before_agents_and_users() {
    let one = OneServer::new();
    let settings = format!(
        "[controller]\ndata_dir = '{}'\nlisten = '10.77.0.1:8883'\nonos_api = '10.77.0.1:8181'\nheat_api = '127.0.0.1:8004'\n",
        one.site.path().join("data").display()
    );
    let doctor = || muster_doctor(&one.site, &settings);
    let well = doctor();
    well.expect("firewall", "ok", "no rule on this machine refuses agents at TCP port 8883")
        .expect("firewall", "ok", "no rule on this machine refuses clients of ONOS's API at TCP port 8181")
        .expect("addresses", "ok", "join tokens carry 10.77.0.1:8883")
        .expect_status(0);
    assert!(!well.has("firewall", "ok", "8004"), "an address of loopback is for nobody else");

    let established =
        "add rule inet filter input ct state vmap { established : accept, related : accept, invalid : drop }";
    filter(
        one.site.hub(),
        &["add table inet filter", INPUT, established, "add rule inet filter input iifname lo accept"],
    );
    let token = one.site.ok(&["node", "token", "--name", "web-1"]);
    let refused = doctor();
    refused
        .expect("firewall", "error", "the policy of chain inet filter input refuses agents at TCP port 8883")
        .expect("firewall", "error", "refuses clients of ONOS's API at TCP port 8181")
        .expect_status(1);
    // What it says to do helps: the server joins.
    one.site.hub().run(refused.remedy("firewall").split(';').next().unwrap());
    let mut web1 = one.site.agent("web-1", &token, one.place());
    one.site.until_node("web-1", "online");
    doctor().expect("firewall", "ok", "no rule on this machine refuses agents at TCP port 8883");

    // Some agents come through. Once none is online, that rule is worth a look.
    let some = "add rule inet filter input ip saddr 10.77.0.2 tcp dport { 8883, 8181 } accept";
    filter(one.site.hub(), &["add table inet filter", INPUT, established, some]);
    doctor().expect("firewall", "ok", "decides which agents come through").expect_status(0);
    web1.daemon.stop();
    one.site.until_node("web-1", "offline");
    doctor().expect("firewall", "warning", "no agent is online, and the rule with handle");
}

#[test]
fn addresses_of_join_tokens_that_lead_elsewhere() {
    let site = Site::in_namespace();
    let data = site.path().join("data");
    let settings = |addresses: &str, listen: &str| {
        format!(
            "[controller]\ndata_dir = '{}'\nlisten = '{listen}'\naddresses = [{addresses}]\n",
            data.display()
        )
    };
    let all =
        "'10.77.0.1:8883', 'nowhere.invalid:8883', '10.9.9.9:8883', '127.0.0.1:8883', '10.77.0.1:8884', 'x'";
    muster_doctor(&site, &settings(all, "0.0.0.0:8883"))
        .expect("addresses", "ok", "join tokens carry 10.77.0.1:8883")
        .expect("addresses", "error", "nowhere.invalid:8883, which does not resolve here")
        .expect("addresses", "warning", "no interface of this machine has 10.9.9.9")
        .expect("addresses", "error", "127.0.0.1:8883, which each server takes for itself")
        .expect("addresses", "warning", "10.77.0.1:8884, and the controller listens at 0.0.0.0:8883")
        .expect("addresses", "error", "'x' is not an address")
        .expect_status(1);
    muster_doctor(&site, &settings("", "10.77.0.1:8883"))
        .expect("addresses", "ok", "join tokens carry 10.77.0.1:8883")
        .expect_status(0);
}

/// A certificate for these names, that ends in so many days, in PEM, with its key.
fn certificate(dir: &Path, names: &[&str], days: i64) -> (PathBuf, PathBuf) {
    let (certificate, key) = (dir.join("api.crt"), dir.join("api.key"));
    let pair = KeyPair::generate().unwrap();
    let mut params =
        CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap();
    let now = time::OffsetDateTime::now_utc();
    params.not_before = now - time::Duration::days(30);
    params.not_after = now + time::Duration::days(days) + time::Duration::hours(12);
    fs::write(&certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
    fs::write(&key, pair.serialize_pem()).unwrap();
    (certificate, key)
}

#[test]
fn the_apis_certificate_is_old_or_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let (path, key) = certificate(dir.path(), &["10.77.0.1"], 100);
    let variables = [
        ("MUSTER_CONTROLLER__API", "10.77.0.1:8443".as_ref()),
        ("MUSTER_CONTROLLER__API_CERTIFICATE", path.as_os_str()),
        ("MUSTER_CONTROLLER__API_KEY", key.as_os_str()),
    ];
    let site = Site::in_namespace_with(&variables);
    let data = site.path().join("data");
    let settings = |files: &str| {
        format!(
            "[controller]\ndata_dir = '{}'\nlisten = '10.77.0.1:8883'\napi = '10.77.0.1:8443'\n{files}",
            data.display()
        )
    };
    let files = format!("api_certificate = '{}'\napi_key = '{}'\n", path.display(), key.display());
    let doctor = || muster_doctor(&site, &settings(&files));
    doctor().expect("api_certificate", "ok", "is for 10.77.0.1, and valid for 100 d").expect_status(0);

    // Another certificate in the file, which the controller has not read yet.
    certificate(dir.path(), &["10.77.0.1"], 9);
    let other = doctor();
    other
        .expect("api_certificate", "warning", "the API shows another certificate than its file has")
        .expect("api_certificate", "warning", "ends in 9 d")
        .expect_status(0);
    site.hub().run(&format!("kill -HUP {}", site.controller.id()));
    eventually("the controller shows the new certificate", || {
        (!doctor().has("api_certificate", "warning", "another certificate")).then_some(())
    });
    certificate(dir.path(), &["api.example.org"], 100);
    doctor().expect("api_certificate", "warning", "is for api.example.org, and this machine is known as");
    certificate(dir.path(), &["10.77.0.1"], -2);
    doctor().expect("api_certificate", "error", "the API's certificate ended").expect_status(1);

    let (_, other_key) = certificate(dir.path(), &["10.77.0.1"], 100);
    fs::write(&other_key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    doctor().expect("api_certificate", "error", "the key does not belong to").expect_status(1);
    // Settings without files, while the controller shows those.
    muster_doctor(&site, &settings("")).expect("api_certificate", "warning", "ends in 9 d");
    muster_doctor(&site, &settings("").replace("8443", "8444"))
        .expect("api_certificate", "error", "the API shows no certificate at 10.77.0.1:8444")
        .expect_status(1);
}
