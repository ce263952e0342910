//! `muster-agent net` on a server without a controller: a change is kept if what the operator names is reached, and a
//! server that starts anew gets its network back.

use std::path::PathBuf;
use std::process::Command;

use muster_testbed::{Namespace, Running, Switch, eventually};
use muster_tests::site::binary;
use tempfile::TempDir;

/// A server with a gateway on `eth0`, where something answers.
struct Server {
    server: Namespace,
    _gateway: Namespace,
    switch: Switch,
    dir: TempDir,
}

impl Server {
    fn new() -> Self {
        let (server, gateway) = (Namespace::new(), Namespace::new());
        server.link("eth0", &gateway, "eth0");
        gateway.ip("address add 192.0.2.254/24 dev eth0");
        server.ip("address add 192.0.2.1/24 brd + dev eth0");
        server.ip("route add default via 192.0.2.254");
        let switch = Switch::start(&server);
        Self { server, _gateway: gateway, switch, dir: TempDir::new().unwrap() }
    }

    fn file(&self, name: &str, document: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, document).unwrap();
        path
    }

    fn agent(&self, words: &str, file: Option<&PathBuf>) -> Command {
        let mut command = self.server.command(binary("muster-agent"));
        command.args(words.split(' ')).args(file.map(|_| "-c")).args(file);
        command.arg("--state-dir").arg(self.dir.path().join("state"));
        command.arg("--config").arg(self.file("agent.toml", ""));
        self.switch.environment(&mut command);
        command
    }

    fn run(&self, words: &str, file: Option<&PathBuf>) -> muster_testbed::Ran {
        Running::start(self.agent(words, file)).finish()
    }

    fn state(&self) -> [String; 3] {
        let without_lifetime =
            |line: &str| line.split('\\').next().unwrap_or(line).trim_end().to_owned() + "\n";
        let addresses = self.server.ip("-4 -o address show");
        let bridges = self.switch.vsctl("list-br");
        [addresses.lines().map(without_lifetime).collect(), self.server.ip("-4 route show"), bridges]
    }
}

const INTO_A_BRIDGE: &str = "network_config:\n- type: ovs_bridge\n  name: br-ex\n  use_dhcp: false\n  addresses: \
     [{ip_netmask: 192.0.2.1/24}]\n  routes: [{default: true, next_hop: 192.0.2.254}]\n  members: \
     [{type: interface, name: eth0, primary: true}]\n";
const WRONG_ADDRESS: &str = "network_config:\n- type: interface\n  name: eth0\n  use_dhcp: false\n  addresses: \
     [{ip_netmask: 198.51.100.1/24}]\n  routes: [{default: true, next_hop: 198.51.100.254}]\n";

#[test]
fn it_is_kept_if_the_gateway_or_another_target_is_reached() {
    let server = Server::new();
    let file = server.file("good.yaml", INTO_A_BRIDGE);
    let ran = server.run("net apply --confirm gateway --confirm-timeout 20", Some(&file)).expect(0);
    assert!(ran.stdout.contains("kept: the gateway was reached"), "{}", ran.stdout);
    assert!(server.server.ip("-4 address show dev br-ex").contains("192.0.2.1/24"));
    let ran = server.run("net apply --confirm 192.0.2.254", Some(&file)).expect(0);
    assert_eq!(ran.stdout, "", "applied twice, nothing changes");
}

#[test]
fn it_is_put_back_if_nothing_is_reached() {
    let server = Server::new();
    let before = server.state();
    let file = server.file("bad.yaml", WRONG_ADDRESS);
    for (target, seen) in
        [("gateway", "the gateway was not reached within 2 s"), ("192.0.2.254:22", "192.0.2.254:22 was not")]
    {
        let words = format!("net apply --confirm {target} --confirm-timeout 2");
        server.run(&words, Some(&file)).refused(1, &[seen, "has been restored"]);
        assert_eq!(server.state(), before);
    }
    server.run("net apply", Some(&file)).expect(0);
    assert_ne!(server.state(), before, "without --confirm it is the operator's affair");
}

#[test]
fn it_is_put_back_if_the_process_is_killed_or_stopped() {
    let server = Server::new();
    let before = server.state();
    let file = server.file("bad.yaml", WRONG_ADDRESS);
    let words = "net apply --confirm gateway --confirm-timeout 600";
    for signal in ["KILL", "TERM"] {
        let running = Running::start(server.agent(words, Some(&file)));
        eventually("it has changed something", || (server.state() != before).then_some(()));
        let of_ours = format!("{} --watched", server.dir.path().join("agent.toml").display());
        // What it has begun has its command as well, until that is another program.
        let pid = eventually("one process applies it", || {
            let pids = Command::new("pgrep").args(["-f", "--", &of_ours]).output().unwrap().stdout;
            let pids = String::from_utf8(pids).unwrap();
            (pids.lines().count() == 1).then(|| pids.trim().to_owned())
        });
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        running.finish().refused(1, &["has been restored"]);
        assert_eq!(server.state(), before);
    }
}

#[test]
fn a_server_that_starts_anew_gets_its_network_back() {
    let server = Server::new();
    server.run("net boot", None).expect(0);
    let before = server.state();
    let file = server.file("good.yaml", INTO_A_BRIDGE);
    server.run("net apply --confirm gateway", Some(&file)).expect(0);
    let kept = server.state();
    // As a reboot leaves it: the switch's database is there, what the kernel had is not.
    server.server.ip("address flush dev br-ex");
    assert_ne!(server.state(), kept);
    server.run("net boot", None).expect(0);
    assert_eq!(server.state(), kept);
    drop(before);
}

#[test]
fn wrong_use_changes_nothing() {
    let server = Server::new();
    let before = server.state();
    let file = server.file("bad.yaml", WRONG_ADDRESS);
    server.run("net apply --confirm ga:te:way", Some(&file)).refused(2, &["want gateway, an address"]);
    server.run("net apply --confirm gateway --confirm-timeout 0", Some(&file)).refused(2, &["1 to 3600"]);
    server.run("net plan --confirm gateway", Some(&file)).refused(2, &["belong to 'net apply'"]);
    let typo = server.file("typo.yaml", "network_config:\n- type: interfaze\n  name: eth0\n");
    server.run("net apply --confirm gateway", Some(&typo)).refused(2, &["network_config[0]", "interface"]);
    let absent = server.file("absent.yaml", "- {type: interface, name: eth9, use_dhcp: false}\n");
    server.run("net apply --confirm gateway", Some(&absent)).refused(1, &["no interface eth9"]);
    assert_eq!(server.state(), before);
}
