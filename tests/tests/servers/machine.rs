//! A virtual machine with the packages, and a controller on this machine: what was kept is there after a reboot and a
//! power cut, what was not confirmed is not, and the agent is back.

use muster_testbed::{Vm, eventually};
use muster_tests::site::{Packages, Site};

/// The address and the way to the controller are on a bridge, of which a kernel that starts knows nothing; or, with `cut`,
/// nowhere.
fn network(site: &Site, cut: bool) -> String {
    let layer3 = if cut {
        ""
    } else {
        ", addresses: [{ip_netmask: 10.0.2.15/24}], routes: [{default: true, next_hop: 10.0.2.2}]"
    };
    site.file(&format!(
        "heat_template_version: 2018-08-31
resources:
  net:
    type: Muster::NetworkConfig
    properties:
      node: vm-1
      confirm_timeout: {}
      network_config:
      - {{type: linux_bridge, name: br-ex, use_dhcp: false{layer3}, members: [{{type: interface, name: eth0, primary: true}}]}}
",
        if cut { 3000 } else { 120 }
    ))
}

const KEPT: &str = "ip address show dev br-ex | grep -q 10.0.2.15/24 && ! ip address show dev eth0 | grep -q 10.0.2.15 && \
     ip route show default | grep -q br-ex && ip link show dev eth0 | grep -q 'master br-ex'";
const CUT: &str = "! ip -4 -o address show | grep -q 10.0.2.15";
const WITHOUT: &str =
    "ip address show dev eth0 | grep -q 10.0.2.15/24 && ! ip link show dev br-ex 2>/dev/null";

#[test]
fn reboots_and_power_cuts_keep_only_confirmed_changes() {
    let Some(vm) = Vm::start("vm-1", 1) else { return };
    let site = Site::for_virtual_machines();
    let packages = Packages::make("deb", "0.1.0");
    packages.install(&vm, &["muster-agent"]);

    let token = site.ok(&["node", "token", "--name", "vm-1"]);
    vm.sh(&format!("systemd-run --quiet --unit=by-hand muster-agent join {} --name vm-1", token.trim()));
    site.until_node("vm-1", "online");
    vm.sh("systemctl stop by-hand; systemctl enable --now muster-agent");
    site.until_node("vm-1", "online");
    let template = site.file(
        "heat_template_version: 2018-08-31\nresources:
  motd:
    type: Muster::File
    properties: {node: vm-1, path: /srv/motd, content: \"hello\\n\"}
",
    );
    site.ok(&["stack", "create", "web", "-t", &template, "--wait"]);
    site.ok(&["stack", "create", "net", "-t", &network(&site, false), "--wait"]);
    vm.sh(KEPT);

    vm.reboot();
    is_back(&site, &vm, "reboot, kept");
    in_order(&vm);

    // A reboot ends the agent, which restores what is not confirmed; a power cut does not.
    cut_off(&site, &vm);
    vm.reboot();
    is_back(&site, &vm, "reboot, not confirmed");
    has_failed(&site);
    cut_off(&site, &vm);
    vm.power_cut();
    is_back(&site, &vm, "power cut, not confirmed");
    has_failed(&site);

    site.ok(&["stack", "delete", "net", "--wait"]);
    vm.sh(WITHOUT);
    site.until_node("vm-1", "online");
}

fn cut_off(site: &Site, vm: &Vm) {
    site.ok(&["stack", "update", "net", "-t", &network(site, true)]);
    vm.until("the machine is cut off", CUT);
    eventually("the controller hears no more of it", || {
        (site.resource("net", "net")["status"] == "IN_PROGRESS").then_some(())
    });
}

fn is_back(site: &Site, vm: &Vm, what: &str) {
    vm.until("its network is as it was kept", KEPT);
    site.until_node("vm-1", "online");
    let seconds = "s=$(systemctl show -P UserspaceTimestampMonotonic) && \
         awk -v s=\"$s\" '{ printf \"%.1f\", $1 - s / 1000000 }' /proc/uptime";
    println!("{{\"what\":\"{what}\",\"online_after_systemd_s\":{}}}", vm.sh(seconds));
    assert_eq!(vm.sh("cat /srv/motd"), "hello\n");
    eventually("the stack is as it was", || {
        (site.muster(&["stack", "check", "web", "--wait"]).status == 0).then_some(())
    });
}

/// The network was there before the agent; `boot.rs` has those who wait for it.
fn in_order(vm: &Vm) {
    vm.sh("systemctl is-active muster-network");
    let at = |unit: &str, what: &str| -> u64 {
        vm.sh(&format!("systemctl show -P {what} {unit}")).trim().parse().unwrap()
    };
    let network = at("muster-network", "ActiveEnterTimestampMonotonic");
    assert!(network > 0 && network < at("muster-agent", "InactiveExitTimestampMonotonic"));
}

fn has_failed(site: &Site) {
    eventually("the stack has failed", || {
        let stack = site.json(&["stack", "show", "net"]);
        (stack["status"] == "FAILED").then(|| stack["status_reason"].as_str().unwrap().to_owned())
    });
    let failures = site.ok(&["stack", "failures", "net"]);
    assert!(failures.contains("before the change was confirmed"), "{failures}");
}
