//! `os-net-config` as scripts call it: with the agent that runs on the server, which keeps what its controller is
//! reached by, and without one.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_testbed::{Namespace, Ran, Running, eventually};
use muster_tests::site::{OneServer, binary};
use tempfile::TempDir;

/// A program of Muster's under another name, on one server.
struct Tool<'a> {
    server: &'a Namespace,
    state: PathBuf,
    dir: TempDir,
}

impl<'a> Tool<'a> {
    fn new(server: &'a Namespace, state: &Path) -> Self {
        let dir = TempDir::new().unwrap();
        std::os::unix::fs::symlink(binary("muster-agent"), dir.path().join("os-net-config")).unwrap();
        Self { server, state: state.to_owned(), dir }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, words: &str) -> Command {
        let mut command = self.server.command(self.dir.path().join("os-net-config"));
        command.args(words.split_whitespace()).current_dir(self.dir.path());
        // Never this machine's own files.
        if !words.contains("-m ") {
            command.args(["-m", "/nonexistent"]);
        }
        command.env("MUSTER_AGENT__STATE_DIR", &self.state).env("OVS_RUNDIR", "/nonexistent");
        command
    }

    fn run(&self, words: &str) -> Ran {
        Running::start(self.command(words)).finish()
    }
}

/// The state that a document may change, without what the kernel counts.
fn state(server: &Namespace) -> String {
    let addresses = server.ip("-4 -o address show");
    let addresses =
        addresses.lines().map(|line| line.split('\\').next().unwrap_or(line).replace(" brd 10.77.0.255", ""));
    let links = server.ip("-o link show");
    let mtus = links.lines().map(|line| line.split(" qdisc").next().unwrap_or(line).to_owned());
    let mut all: Vec<String> = addresses.chain(mtus).map(|line| line.trim_end().to_owned()).collect();
    all.extend(server.ip("-4 route show").lines().map(|line| line.trim_end().to_owned()));
    all.join("\n")
}

/// A site with a server that has `eth1` to spare, and the other end of that.
fn with_eth1() -> (OneServer, Namespace) {
    let (one, cable) = (OneServer::new(), Namespace::new());
    one.server.link("eth1", &cable, "eth1");
    (one, cable)
}

const SPARE: &str = "network_config:\n- {type: interface, name: nic1, use_dhcp: false, mtu: 1400, \
                     addresses: [{ip_netmask: 192.0.2.1/24}]}\n";
const MAPPING: &str = "interface_mapping: {nic1: eth1}\n";
/// As a script with a wrong ControlPlaneDefaultRoute and address would have it.
const CUTS_OFF: &str = "network_config:\n- {type: interface, name: up0, use_dhcp: false, \
                        addresses: [{ip_netmask: 198.51.100.2/24}], routes: [{default: true, next_hop: 198.51.100.1}]}\n";

#[test]
fn a_running_agent_keeps_a_config_that_reaches_its_controller() {
    let (one, _cable) = with_eth1();
    let mut web1 = one.join();
    let tool = Tool::new(&one.server, &web1.state);
    tool.file("map.yaml", MAPPING);
    tool.file("spare.yaml", SPARE);
    tool.run("-c spare.yaml -m map.yaml --detailed-exit-codes -v").expect(2);
    assert!(one.server.ip("-4 address show dev eth1").contains("192.0.2.1/24"));
    tool.run("-c spare.yaml -m map.yaml --detailed-exit-codes").expect(0);
    tool.file("more.yaml", &SPARE.replace("1400", "1300"));
    tool.run("-c more.yaml -m map.yaml").expect(0);
    assert!(one.server.ip("link show dev eth1").contains("mtu 1300"));
    one.site.until_node("web-1", "online");
    assert_eq!(one.site.json(&["node", "drift", "web-1"]), serde_json::json!([]));
    // It is there again after the agent was killed and the network was lost, as after a reboot.
    web1.daemon.kill();
    one.server.ip("address flush dev eth1");
    let mut boot = one.server.command(binary("muster-agent"));
    boot.args(["net", "boot"]).env("MUSTER_AGENT__STATE_DIR", &web1.state).env("OVS_RUNDIR", "/nonexistent");
    Running::start(boot).finish().expect(0);
    assert!(one.server.ip("-4 address show dev eth1").contains("192.0.2.1/24"));
    // Without an agent a newer document takes its place, and stays so.
    tool.file("newest.yaml", &SPARE.replace("192.0.2.1", "192.0.2.9"));
    tool.run("-c newest.yaml -m map.yaml --detailed-exit-codes").expect(2);
    let mut boot = one.server.command(binary("muster-agent"));
    boot.args(["net", "boot"]).env("MUSTER_AGENT__STATE_DIR", &web1.state).env("OVS_RUNDIR", "/nonexistent");
    Running::start(boot).finish().expect(0);
    assert!(one.server.ip("-4 address show dev eth1").contains("192.0.2.9/24"));
    // And with the agent again, the agent's.
    web1.daemon.restart();
    one.site.until_node("web-1", "online");
    tool.run("-c spare.yaml -m map.yaml --detailed-exit-codes").expect(2);
    let addresses = one.server.ip("-4 address show dev eth1");
    assert!(addresses.contains("192.0.2.1/24") && !addresses.contains("192.0.2.9"), "{addresses}");
}

#[test]
fn a_config_that_cuts_off_the_server_fails_and_changes_nothing() {
    let (one, _cable) = with_eth1();
    let mut web1 = one.join();
    let before = state(&one.server);
    let tool = Tool::new(&one.server, &web1.state);
    tool.file("bad.yaml", CUTS_OFF);
    let ran = tool.run("-c bad.yaml --confirm-timeout 3");
    ran.refused(1, &["network_config: ", "was not reached again within 3 s", "has been restored"]);
    assert_eq!(state(&one.server), before);
    tool.run("-c bad.yaml --confirm-timeout 3 --detailed-exit-codes").expect(4);
    assert_eq!(state(&one.server), before);
    // Killed in the middle: the agent restores it when it is there again.
    let running = Running::start(tool.command("-c bad.yaml --confirm-timeout 600"));
    eventually("the server is cut off", || (state(&one.server) != before).then_some(()));
    web1.daemon.kill();
    running.finish().refused(1, &["the agent ended before the change was confirmed"]);
    web1.daemon.restart();
    eventually("it is restored", || (state(&one.server) == before).then_some(()));
    one.site.until_node("web-1", "online");
    // Whoever gave it may go away; the agent goes on.
    let running = Running::start(tool.command("-c bad.yaml --confirm-timeout 5"));
    eventually("the server is cut off", || (state(&one.server) != before).then_some(()));
    drop(running);
    eventually("it is restored", || (state(&one.server) == before).then_some(()));
}

#[test]
fn what_the_controller_owns_is_refused_by_its_resource() {
    let (one, _cable) = with_eth1();
    let web1 = one.join();
    let template = |mtu: u32| {
        one.site.file(&format!(
            "heat_template_version: 2018-08-31\nresources:\n  net:\n    type: Muster::NetworkConfig\n    properties:\n      \
             node: web-1\n      confirm_timeout: 20\n      network_config: [{{type: interface, name: eth1, use_dhcp: \
             false, mtu: {mtu}}}]\n"
        ))
    };
    let tool = Tool::new(&one.server, &web1.state);
    tool.file("map.yaml", MAPPING);
    tool.file("spare.yaml", SPARE);
    one.site.ok(&["stack", "create", "net", "-t", &template(1450), "--wait"]);
    let id = one.site.resource("net", "net")["physical_id"].as_str().unwrap().to_owned();
    tool.run("-c spare.yaml -m map.yaml").refused(1, &["link eth1", &id]);
    assert!(one.server.ip("link show dev eth1").contains("mtu 1450"));
    one.site.ok(&["stack", "delete", "net", "--wait"]);
    // The other way the controller takes it over, and gives back what was there before both.
    tool.run("-c spare.yaml -m map.yaml").expect(0);
    one.site.ok(&["stack", "create", "net", "-t", &template(1450), "--wait"]);
    assert!(one.server.ip("link show dev eth1").contains("mtu 1450"));
    one.site.ok(&["stack", "delete", "net", "--wait"]);
    let link = one.server.ip("address show dev eth1");
    assert!(link.contains("mtu 1500") && !link.contains("192.0.2.1"), "{link}");
    tool.run("-c spare.yaml -m map.yaml --detailed-exit-codes").expect(2);
}

#[test]
fn a_config_without_an_agent_applies_at_once_or_if_confirmed() {
    // `--confirm` names what must answer.
    let (server, gateway) = (Namespace::new(), Namespace::new());
    server.link("eth0", &gateway, "eth0");
    gateway.ip("address add 192.0.2.254/24 dev eth0");
    server.ip("address add 192.0.2.7/24 brd + dev eth0");
    let start = state(&server);
    let dir = TempDir::new().unwrap();
    let tool = Tool::new(&server, &dir.path().join("state"));
    let document = |address: &str| {
        format!(
            "network_config:\n- {{type: interface, name: eth0, use_dhcp: false, addresses: [{{ip_netmask: {address}/24}}], \
             routes: [{{default: true, next_hop: 192.0.2.254}}]}}\n"
        )
    };
    tool.file("good.yaml", &document("192.0.2.1"));
    let ran = tool.run("-c good.yaml --noop --detailed-exit-codes").expect(2);
    assert!(ran.stdout.contains("192.0.2.1/24"), "the plan: {}", ran.stdout);
    assert_eq!(state(&server), start, "--noop changes nothing");
    tool.run("-c good.yaml --no-activate --detailed-exit-codes").expect(2);
    assert_eq!(state(&server), start, "--no-activate leaves it to the boot");
    tool.run("-c good.yaml --detailed-exit-codes --confirm gateway --confirm-timeout 20").expect(2);
    let good = state(&server);
    assert!(good.contains("192.0.2.1/24"), "{good}");
    tool.run("-c good.yaml --detailed-exit-codes --noop").expect(0);
    let wrong = document("198.51.100.1").replace("next_hop: 192.0.2", "next_hop: 198.51.100");
    tool.file("bad.yaml", &wrong);
    tool.run("-c bad.yaml --confirm gateway --confirm-timeout 2")
        .refused(1, &["was not reached", "restored"]);
    assert_eq!(state(&server), good);
    tool.run("-c bad.yaml --confirm gateway --confirm-timeout 2 --detailed-exit-codes").expect(4);
    assert_eq!(state(&server), good);
}

#[test]
fn exit_codes_and_what_is_said() {
    let (server, other) = (Namespace::new(), Namespace::new());
    server.link("eth0", &other, "eth0");
    eventually("the cable has a carrier", || (!state(&server).contains("NO-CARRIER")).then_some(()));
    let before = state(&server);
    let dir = TempDir::new().unwrap();
    let tool = Tool::new(&server, &dir.path().join("state"));
    let good = "[{type: interface, name: eth0, use_dhcp: false}]";
    tool.file("map.yaml", "interface_mapping: {nic1: eth0, nic2: eth7}");
    tool.file("good.yaml", &format!("network_config: {good}"));
    tool.file("typo.yaml", "network_config: [{type: interfaze, name: eth0}]");
    tool.file("minimum.yaml", &format!("network_config: {good}\nminimum_config: [{{type: interfaze}}]"));
    tool.file("absent.yaml", "network_config: [{type: interface, name: eth9, use_dhcp: false}]");
    tool.file("empty.yaml", "minimum_config: []");
    tool.file("no.yaml", "network_config: [");
    let rows: &[(&str, i32, i32, &str)] = &[
        ("-c nowhere.yaml", 1, 1, "no such file"),
        ("-c no.yaml", 1, 1, "no.yaml:"),
        ("-c empty.yaml", 1, 1, "there is no network_config"),
        ("-c typo.yaml --exit-on-validation-errors", 1, 1, "network_config[0]"),
        ("-c typo.yaml", 4, 1, "network_config[0]"),
        ("-c minimum.yaml --exit-on-validation-errors", 1, 1, "minimum_config[0]"),
        ("-c minimum.yaml --minimum-config", 16, 1, "minimum_config: "),
        ("-c good.yaml --minimum-config --noop", 16, 1, "no section minimum_config"),
        ("-c absent.yaml", 4, 1, "no interface eth9"),
        ("-c good.yaml --purge-provider ifcfg", 64, 1, "--purge-provider"),
        ("-c good.yaml --root-dir /mnt", 1, 1, "--root-dir"),
        ("-m no.yaml -c good.yaml", 1, 1, "no.yaml:"),
        ("-m map.yaml -i nic5", 1, 1, "eth7"),
    ];
    for (words, detailed, plain, says) in rows {
        let ran = tool.run(&format!("{words} --detailed-exit-codes")).expect(*detailed);
        assert!(ran.stderr.contains(says), "{words}: {}", ran.stderr);
        tool.run(words).expect(*plain);
        assert_eq!(state(&server), before, "{words}");
    }
    for words in ["-c", "--provider what", "stray"] {
        tool.run(words).expect(2);
    }
    let ran = tool.run("-m map.yaml -i").expect(0);
    assert_eq!(ran.stdout, "{\"nic1\": \"eth0\"}\n");
    assert_eq!(
        tool.run("-m map.yaml -i nic1 eth0").expect(0).stdout,
        "{\"nic1\": \"eth0\", \"eth0\": \"eth0\"}\n"
    );
    assert!(tool.run("--version").expect(0).stdout.starts_with("18.1.0"));
    assert!(tool.run("--help").expect(0).stdout.contains("--detailed-exit-codes"));
}

/// A system's root with a stand-in for systemd-networkd, which takes its settings off a link that it is to leave alone.
fn with_networkd(server: &Namespace, root: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let links = root.join("run/systemd/netif/links");
    std::fs::create_dir_all(&links).unwrap();
    std::fs::create_dir_all(root.join("usr/bin")).unwrap();
    // As systemd says that the unit is active.
    std::fs::create_dir_all(root.join("run/systemd/units")).unwrap();
    let active = root.join("run/systemd/units/invocation:systemd-networkd.service");
    std::os::unix::fs::symlink("0123456789abcdef", active).unwrap();
    let index = server.ip("-o link show dev eth1");
    let index = index.split(':').next().unwrap();
    std::fs::write(links.join(index), "ADMIN_STATE=configured\n").unwrap();
    let networkctl = format!(
        "#!/bin/sh\nif [ -e {0}/etc/systemd/network/00-muster-eth1.network ]\nthen ip address flush dev eth1; echo \
         ADMIN_STATE=unmanaged >{1}\nelse echo ADMIN_STATE=configured >{1}\nfi\necho reload >>{0}/told\n",
        root.display(),
        links.join(index).display()
    );
    let path = root.join("usr/bin/networkctl");
    std::fs::write(&path, networkctl).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_network_manager_is_told_before_a_change_and_on_restore() {
    let (server, other) = (Namespace::new(), Namespace::new());
    server.link("eth1", &other, "eth1");
    server.link("eth2", &other, "eth2");
    server.ip("address add 203.0.113.1/24 dev eth1");
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("root");
    with_networkd(&server, &root);
    let tool = Tool::new(&server, &dir.path().join("state"));
    tool.file("map.yaml", MAPPING);
    tool.file("spare.yaml", SPARE);
    let run = |words: &str| {
        let mut command = tool.command(words);
        command.env("MUSTER_HOST__NEIGHBOURS", &root);
        Running::start(command).finish()
    };
    let drop_in = root.join("etc/systemd/network/00-muster-eth1.network");
    let told = || std::fs::read_to_string(root.join("told")).unwrap_or_default().lines().count();
    let ran = run("-c spare.yaml -m map.yaml --noop").expect(0);
    assert!(
        ran.stdout.contains("tell systemd-networkd to leave eth1 alone") && told() == 0,
        "{}",
        ran.stdout
    );
    run("-c spare.yaml -m map.yaml --detailed-exit-codes").expect(2);
    let addresses = server.ip("-4 address show dev eth1");
    assert!(addresses.contains("192.0.2.1/24") && !addresses.contains("203.0.113.1"), "{addresses}");
    assert!(drop_in.exists() && told() == 1);
    run("-c spare.yaml -m map.yaml --detailed-exit-codes").expect(0);
    assert_eq!(told(), 1, "it knows");
    // As removing the package does.
    let mut export = server.command(binary("muster-agent"));
    export.args(["net", "export", "--from-ledger", "--format", "networkd"]);
    export.env("MUSTER_AGENT__STATE_DIR", dir.path().join("state")).env("OVS_RUNDIR", "/nonexistent");
    let ran = Running::start(export).finish().expect(0);
    assert!(ran.stdout.contains("# /etc/systemd/network/05-muster-eth1.network"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("Address=192.0.2.1/24") && ran.stdout.contains("MTUBytes=1400"),
        "{}",
        ran.stdout
    );
    assert!(drop_in.exists(), "printing changes nothing");
    // A document that leaves the link out gives it back; what was there before is there again.
    tool.file("other.yaml", "network_config:\n- {type: interface, name: eth2, use_dhcp: false, mtu: 1400}\n");
    run("-c other.yaml --detailed-exit-codes").expect(2);
    assert!(server.ip("-4 address show dev eth1").contains("203.0.113.1/24"));
    assert!(!drop_in.exists());
    // ifupdown cannot be told.
    std::fs::create_dir_all(root.join("sbin")).unwrap();
    std::fs::create_dir_all(root.join("etc/network")).unwrap();
    std::fs::write(root.join("sbin/ifup"), "").unwrap();
    std::fs::write(root.join("etc/network/interfaces"), "auto eth1\niface eth1 inet dhcp\n").unwrap();
    run("-c spare.yaml -m map.yaml").refused(1, &["eth1 is configured by ifupdown", "interfaces:2"]);
    assert!(server.ip("-4 address show dev eth1").contains("203.0.113.1/24"));
}
