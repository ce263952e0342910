//! `muster-agent doctor` and `muster doctor` find faults that are made one by one, and nothing where all is well.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use muster_testbed::{Namespace, Running, command, eventually};
use muster_tests::site::{Agent, Link, Place, Site, binary};
use serde_json::Value;

use crate::cut_off::CutServer;
use crate::disk::Disk;

/// The output of doctor, and whether it failed.
pub struct Diagnosis {
    status: i32,
    findings: Vec<Value>,
}

impl Diagnosis {
    pub fn of(ran: muster_testbed::Ran) -> Self {
        let findings = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        Self { status: ran.status, findings }
    }

    /// Some finding of the check is like this.
    pub fn has(&self, check: &str, state: &str, words: &str) -> bool {
        self.findings.iter().any(|finding| {
            let found = finding["found"].as_str().unwrap();
            finding["check"] == check && finding["state"] == state && found.contains(words)
        })
    }

    #[track_caller]
    pub fn expect(&self, check: &str, state: &str, words: &str) -> &Self {
        assert!(self.has(check, state, words), "no {check}, {state}, {words}: {:#?}", self.findings);
        self
    }

    /// The remedy of the check's worst finding.
    #[track_caller]
    pub fn remedy(&self, check: &str) -> String {
        let of_check = |state: &str| {
            let is_it = |finding: &&Value| finding["check"] == check && finding["state"] == state;
            self.findings.iter().find(is_it).and_then(|finding| finding["remedy"].as_str())
        };
        of_check("error").or_else(|| of_check("warning")).expect("a remedy").to_owned()
    }

    /// Panics unless doctor fails exactly where there is an error.
    #[track_caller]
    pub fn expect_status(&self, status: i32) {
        assert_eq!(self.status, status, "{:#?}", self.findings);
    }
}

/// On the agent's server, with these settings.
pub fn agent_doctor(agent: &Agent, settings: &str, namespace: Option<&Namespace>) -> Diagnosis {
    let config = agent.root.join("doctor.toml");
    fs::write(&config, settings).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = command(namespace, binary("muster-agent"));
    // Never this machine's own.
    command.env("MUSTER_HOST__RUN_DIR", agent.root.join("run"));
    command.args(["doctor", "-o", "json", "--config"]).arg(&config).arg("--state-dir").arg(&agent.state);
    Diagnosis::of(Running::start(command).finish())
}

fn muster_doctor(site: &Site, config: &Path) -> Diagnosis {
    Diagnosis::of(site.muster(&["doctor", "-o", "json", "--config", config.to_str().unwrap()]))
}

/// Path, size, time of change and mode of all below a directory.
fn inventory(path: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        all.push(format!(
            "{} {} {}.{} {:o}",
            path.display(),
            metadata.len(),
            metadata.ctime(),
            metadata.ctime_nsec(),
            metadata.mode()
        ));
        if metadata.is_dir() {
            all.extend(inventory(&path));
        }
    }
    all.sort();
    all
}

#[test]
fn an_agents_server_that_is_well_and_one_that_is_not() {
    let mut site = Site::over(Link::Direct);
    let mut web1 = site.join("web-1");
    let address = site.address().to_owned();
    let well = agent_doctor(&web1, "", None);
    well.expect("configuration", "ok", "is valid")
        .expect("state_directory", "ok", "mode is 0700")
        .expect("disk_space", "ok", "left on")
        .expect("identity", "ok", "this server is web-1")
        .expect("certificate", "ok", "valid until")
        .expect("agent", "ok", &format!("process {} is connected to 127.0.0.1", web1.daemon.id()))
        .expect("service", "ok", "systemd is not the first process")
        .expect(
            "controller",
            "ok",
            &format!("{address} shows the certificate of 'muster-controller' of 'muster site"),
        )
        .expect("mtu", "ok", &address)
        .expect_status(0);

    // Another name, beside an address that works.
    agent_doctor(&web1, "[agent]\ncontrollers = ['nowhere.invalid:8883']\n", None)
        .expect("name", "warning", "nowhere.invalid:8883 does not resolve")
        .expect("controller", "ok", &address)
        .expect_status(0);
    agent_doctor(&web1, "[agent]\ncontroller = 'x:1'\n", None)
        .expect("configuration", "error", "doctor.toml")
        .expect("agent", "ok", "is connected")
        .expect_status(1);

    // The agent tells by itself why it is away; then another site answers at the address.
    site.kill();
    eventually("the agent is away", || {
        let diagnosis = agent_doctor(&web1, "[agent]\ncontrollers = ['nowhere.invalid:8883']\n", None);
        diagnosis
            .expect("name", "error", "nowhere.invalid:8883 does not resolve")
            .expect("controller", "error", &format!("no connection to {address}"))
            .expect_status(1);
        diagnosis.has("agent", "error", "has no connection since").then_some(())
    });
    let other = Site::over(Link::Direct);
    let id = other.json(&["status"])["site"].as_str().unwrap().to_owned();
    agent_doctor(&web1, &format!("[agent]\ncontrollers = ['{}']\n", other.address()), None)
        .expect("controller", "error", &format!("'muster site {id}': this server belongs to site"))
        .expect_status(1);
    site.restart();
    site.until_node("web-1", "online");

    // Without an agent; nothing is changed.
    web1.daemon.stop();
    let before = inventory(&web1.state);
    agent_doctor(&web1, "", None).expect("agent", "error", "no agent runs").expect_status(1);
    assert_eq!(inventory(&web1.state), before);
    fs::set_permissions(&web1.state, fs::Permissions::from_mode(0o777)).unwrap();
    agent_doctor(&web1, "", None).expect("state_directory", "error", "others may replace").expect_status(1);
    fs::remove_dir_all(&web1.state).unwrap();
    agent_doctor(&web1, "", None)
        .expect("state_directory", "error", "is not there")
        .expect("identity", "error", "has not joined")
        .expect("agent", "warning", "has not joined")
        .expect_status(1);
    assert!(!web1.state.exists());
}

#[test]
fn a_state_directory_that_is_full_or_read_only() {
    let disk = Disk::new("70m");
    let site = Site::start();
    let state = disk.path().join("web-1");
    let mut web1 = site.join_at("web-1", Place { state: Some(state), ..Place::default() });
    agent_doctor(&web1, "", None).expect("disk_space", "ok", "MiB").expect_status(0);
    disk.fill();
    agent_doctor(&web1, "", None).expect("disk_space", "error", "0 bytes").expect_status(1);
    disk.free();
    web1.daemon.stop();
    disk.make_read_only();
    agent_doctor(&web1, "", None)
        .expect("state_directory", "error", "cannot be written: Read-only file system")
        .expect_status(1);
}

#[test]
fn a_path_that_loses_packets_of_full_size() {
    let server = CutServer::behind_a_narrow_way();
    let web1 = server.join();
    let namespace = Some(&server.server);
    agent_doctor(&web1, "", namespace).expect("mtu", "ok", "packets with 14").expect_status(0);
    server.server.ip("link set up0 mtu 9000");
    agent_doctor(&web1, "", namespace).expect("mtu", "error", "packets with 89").expect_status(1);
}

#[test]
fn a_site_that_is_well_and_one_that_is_not() {
    let disk = Disk::new("256m");
    let data = disk.path().join("data");
    let mut site = Site::with_data(&data);
    let mut web1 = site.join("web-1");
    let port = site.address().rsplit(':').next().unwrap();
    let config = site.path().join("doctor.toml");
    let link = match site.broker.is_some() || site.cluster.is_some() {
        true => "mqtts://x:1",
        false => "direct",
    };
    let settings = format!(
        "[controller]\ndata_dir = '{}'\nlisten = '127.0.0.1:{port}'\n[link]\nurl = '{link}'\n",
        data.display()
    );
    fs::write(&config, settings).unwrap();
    let well = muster_doctor(&site, &config);
    well.expect("controller", "ok", "as of this command")
        .expect("site", "ok", "active for site")
        .expect("store", "ok", "sqlite:")
        .expect("link", "ok", "")
        .expect("certificate", "ok", "the site's CA is valid for 72")
        .expect("nodes", "ok", "1 node online")
        .expect("stacks", "ok", "0 stacks")
        .expect("data_directory", "ok", "mode is 0700")
        .expect("disk_space", "warning", "MiB")
        .expect_status(0);
    if link == "direct" {
        well.expect("listener", "ok", &format!("TCP port {port} is listened on"));
    }

    let template = "heat_template_version: 2018-08-31\nresources:\n  \
                    bad: {type: Muster::Dummy, properties: {node: web-1, fail: true}}\n";
    site.muster(&["stack", "create", "bad", "-t", &site.file(template), "--wait"]).refused(1, &["FAILED"]);
    web1.daemon.stop();
    site.until_node("web-1", "offline");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    disk.fill();
    muster_doctor(&site, &config)
        .expect("nodes", "warning", "1 of 1 node is offline: web-1")
        .expect("stacks", "warning", "1 operation has failed: bad (CREATE)")
        .expect("data_directory", "error", "others may read the site's keys")
        .expect("disk_space", "error", "0 bytes")
        .expect_status(1);
    disk.free();

    site.kill();
    muster_doctor(&site, &config)
        .expect("controller", "error", "cannot reach the controller")
        .expect_status(1);
    site.muster(&["doctor", "--confg", "x"]).refused(2, &["--config"]);
}
