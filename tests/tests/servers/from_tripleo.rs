//! `docs/from-tripleo.md`, word by word: a controller and a server with Open vSwitch, on two sides of a router. With
//! TripleO's own templates where they are, else with ours in `tripleo/`, which have the same names.

use std::fs;
use std::path::{Path, PathBuf};

use std::io::Write as _;
use std::process::Stdio;

use muster_host::lldp::{Frame, Id};
use muster_testbed::{Namespace, SystemdServer, eventually};
use muster_tests::site::{PACKAGES, Packages};

const SERVER: &str = "overcloud-compute-0";

/// A router between two networks, with the controller on the one and the server on the other.
struct RoutedSite {
    controller: SystemdServer,
    server: SystemdServer,
    router: Namespace,
}

/// A step of the how-to.
enum Step {
    /// Commands on the controller, or on the server.
    Run { on: String, script: String },
    /// A file on the controller.
    Write { file: String, text: String },
}

impl RoutedSite {
    fn new(templates: &Path) -> Self {
        let router = Namespace::new();
        router.run("sysctl -q -w net.ipv4.ip_forward=1");
        let controller = SystemdServer::start("director");
        controller.cable(&router, "inside");
        router.ip("address add 198.51.100.1/24 dev inside");
        controller.sh("ip address add 198.51.100.2/24 dev up0; ip route add default via 198.51.100.1");
        let server = SystemdServer::start(SERVER);
        server.cable(&router, "outside");
        router.ip("address add 192.0.2.254/24 dev outside");
        server.sh("ip address add 192.0.2.11/24 dev up0; ip route add default via 192.0.2.254");
        server.sh("systemctl unmask openvswitch-switch; systemctl start openvswitch-switch");
        // Cables between namespaces are no cards, and this kernel has no datapath of Open vSwitch.
        server.sh(
            "mkdir -p /etc/os-net-config /etc/systemd/system/muster-agent.service.d
             echo 'interface_mapping: {nic1: up0}' >/etc/os-net-config/mapping.yaml
             cd /etc/systemd/system/muster-agent.service.d
             printf '[Service]\\nEnvironment=MUSTER_HOST__OVS_DATAPATH_TYPE=netdev MUSTER_AGENT__CONFIRM_TIMEOUT=30\\n' >bed.conf",
        );
        let packages = Packages::make("deb", "0.1.0");
        for name in PACKAGES {
            let to = if name == "muster-agent" { &server } else { &controller };
            to.copy(&packages.file(name), &format!("/root/{name}_0.1.0-1_amd64.deb"));
        }
        let site = Self { controller, server, router };
        site.templates(templates);
        // Its own script where the tree has it, else ours.
        let script = "network/scripts/run-os-net-config.sh";
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/tripleo");
        let tree = if templates.join(script).is_file() { templates } else { &ours };
        site.controller.copy(&tree.join(script), &format!("/root/templates/{script}"));
        site
    }

    /// A tree of templates becomes the controller's.
    fn templates(&self, tree: &Path) {
        for folder in [".", "deployed-server", "environments"] {
            for file in fs::read_dir(tree.join(folder)).unwrap().map(|file| file.unwrap().path()) {
                let name = file.file_name().unwrap().to_str().unwrap();
                if file.is_file() {
                    self.controller.copy(&file, &format!("/root/templates/{folder}/{name}"));
                }
            }
        }
    }

    /// Each command must work; what was printed.
    fn follow(&self, step: Step) -> String {
        match step {
            Step::Write { file, text } => {
                self.controller.sh(&format!("cat >/root/{file} <<'END'\n{text}END\n"))
            }
            Step::Run { on, script } if on == "controller" => run(&self.controller, &script),
            Step::Run { script, .. } => {
                // What its reader takes there.
                let token = self.controller.sh("touch /root/token; cat /root/token");
                self.server.sh(&format!("echo {} >/root/token", token.trim()));
                run(&self.server, &script)
            }
        }
    }

    fn json(&self, words: &str) -> serde_json::Value {
        serde_json::from_str(&self.controller.sh(&format!("muster {words} -o json"))).unwrap()
    }

    /// Addresses and routes of the server.
    fn network(&self) -> String {
        let network = self.server.sh("ip -br -4 address; ip -4 route | sort");
        network.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The router says over LLDP who it is, and the packaged agent hears it.
    fn hears_its_neighbour(&self) {
        let frame = Frame {
            chassis: Id { subtype: Id::MAC_OF_CHASSIS, octets: vec![2, 0, 0, 0, 0, 1] },
            port: Id { subtype: Id::NAME_OF_PORT, octets: b"outside".to_vec() },
            ttl: 120,
            port_description: None,
            system_name: Some("router-of-the-test".into()),
            system_description: None,
            vlan: None,
            management: Vec::new(),
            beacon: None,
        };
        let frame = frame.write([2, 0, 0, 0, 0, 2]);
        eventually("the neighbour is told", || {
            // Again and again, as switches do: one that comes while the port is changed is not heard.
            let mut socat = self.router.command("socat");
            let mut socat =
                socat.args(["-u", "STDIN", "INTERFACE:outside"]).stdin(Stdio::piped()).spawn().unwrap();
            socat.stdin.take().unwrap().write_all(&frame).unwrap();
            assert!(socat.wait().unwrap().success());
            let facts = self.json(&format!("node facts {SERVER}")).to_string();
            facts.contains("router-of-the-test").then_some(())
        });
    }

    /// When the script that sets its network up was last begun there.
    fn last_run(&self) -> String {
        self.server.sh("stat -c %y /etc/os-net-config/config.json 2>/dev/null || true")
    }

    #[track_caller]
    fn has(&self, parts: &[&str]) {
        let network = self.network();
        for part in parts {
            assert!(network.contains(part), "{part}: {network}");
        }
    }

    #[track_caller]
    fn is_well(&self) {
        assert_eq!(self.json("stack show overcloud")["status"], "COMPLETE");
        assert_eq!(self.json(&format!("node show {SERVER}"))["state"], "online");
    }
}

/// As somebody who stops at the first command that does not work; what was printed.
fn run(server: &SystemdServer, script: &str) -> String {
    let ran = server.try_sh(&format!("set -e\ncd /root\nexport DEBIAN_FRONTEND=noninteractive\n{script}"));
    assert_eq!(ran.status, 0, "{script}\n{}\n{}", ran.stdout, ran.stderr);
    ran.stdout
}

/// Beside the repository, or where `MUSTER_SAMPLES` says; not part of it.
fn samples() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/samples");
    let tree = std::env::var_os("MUSTER_SAMPLES").map_or(beside, PathBuf::from).join("tripleo");
    tree.is_dir().then_some(tree)
}

/// The steps of each chapter.
fn chapters() -> Vec<Vec<Step>> {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/from-tripleo.md")).unwrap();
    let mut chapters = vec![Vec::new()];
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("## ") {
            chapters.push(Vec::new());
        }
        let Some(kind) = line.strip_prefix("```") else { continue };
        let body: String =
            lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        chapters.last_mut().unwrap().push(match kind.split_once(' ') {
            Some(("sh", on @ ("controller" | "server"))) => Step::Run { on: on.to_owned(), script: body },
            Some(("yaml", file)) => Step::Write { file: file.to_owned(), text: body },
            _ => panic!("nobody knows what to do with ```{kind}"),
        });
    }
    chapters
}

fn follow(site: &RoutedSite) {
    for (number, chapter) in chapters().into_iter().enumerate() {
        let (network, last_run) = (site.network(), site.last_run());
        let said: String = chapter.into_iter().map(|step| site.follow(step)).collect();
        match number {
            2 => assert!(said.contains("nic1"), "{said}"),
            3 => assert_eq!(site.network(), network, "nothing is changed by looking"),
            4 => {
                site.has(&["br-ex UNKNOWN 192.0.2.11/24", "default via 192.0.2.254 dev br-ex"]);
                site.has(&["169.254.169.254 via 192.0.2.254 dev br-ex"]);
                assert_eq!(site.server.sh("ovs-vsctl list-ports br-ex"), "up0\n");
                assert_eq!(site.json("stack outputs overcloud")[0]["value"], serde_json::json!([SERVER]));
                site.is_well();
                site.hears_its_neighbour();
            }
            5 => {
                // What the script itself says then depends on whose it is.
                assert!(said.contains("os-net-config") && said.contains("not reached again"), "{said}");
                assert_eq!(site.network(), network);
                site.is_well();
            }
            6 => {
                assert_eq!((site.network(), site.last_run()), (network, last_run), "nothing ran");
                site.is_well();
            }
            _ => {}
        }
    }
}

#[test]
fn followed_word_by_word() {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/tripleo");
    follow(&RoutedSite::new(&ours));
}

#[test]
fn followed_with_tripleos_own_templates() {
    let Some(samples) = samples() else {
        println!("0 samples ran: they are not here");
        return;
    };
    let site = RoutedSite::new(&samples);
    follow(&site);
    // The same server without a bridge, and a route to nowhere.
    site.controller.sh("muster stack delete overcloud --wait; sed -i s/-bridge.yaml/.yaml/ /root/site.yaml");
    let stack = "-t overcloud.yaml -e templates/environments/deployed-server-environment.yaml -e site.yaml";
    run(&site.controller, &format!("muster stack create overcloud {stack} --wait"));
    site.has(&["up0@if", " 192.0.2.11/24", "default via 192.0.2.254 dev up0"]);
    site.server.fails("ovs-vsctl br-exists br-ex");
    let network = site.network();
    let failed = run(
        &site.controller,
        "! muster stack update overcloud --existing -e wrong.yaml --wait; muster stack failures overcloud",
    );
    assert!(failed.contains("not reached again"), "{failed}");
    assert_eq!(site.network(), network);
    assert_eq!(site.json(&format!("node show {SERVER}"))["state"], "online");
    println!("7 samples ran");
}
