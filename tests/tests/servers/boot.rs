//! The boot unit alone, in a virtual machine: the network is there before anything that waits for it, without agent or
//! controller.

use muster_testbed::{Vm, eventually};
use muster_tests::site::{Packages, Site};

/// Writes down what it finds when the network is said to be up.
const WITNESS: &str = "[Unit]
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=sh -c 'ip -o address show dev eth1 >/run/when-online'
[Install]
WantedBy=multi-user.target
";

#[test]
fn the_network_comes_back_with_the_boot_without_the_agent() {
    let Some(vm) = Vm::start("boot-1", 2) else { return };
    let site = Site::for_virtual_machines();
    Packages::make("deb", "0.1.0").install(&vm, &["muster-agent"]);
    vm.sh(&format!(
        "cat >/etc/systemd/system/witness.service <<'END'\n{WITNESS}END\nsystemctl enable witness"
    ));

    let token = site.ok(&["node", "token", "--name", "boot-1"]);
    vm.sh(&format!("systemd-run --quiet --unit=by-hand muster-agent join {} --name boot-1", token.trim()));
    site.until_node("boot-1", "online");
    vm.sh("systemctl stop by-hand; systemctl enable --now muster-agent");
    site.until_node("boot-1", "online");
    // Among the last that the kernel ends.
    assert_eq!(vm.sh("cat /proc/$(systemctl show -P MainPID muster-agent)/oom_score_adj").trim(), "-900");

    let template = site.file(
        "heat_template_version: 2018-08-31\nresources:
  motd:
    type: Muster::File
    properties: {node: boot-1, path: /srv/motd, content: \"hello\\n\"}
  net:
    type: Muster::NetworkConfig
    properties:
      node: boot-1
      network_config:
      - {type: interface, name: eth1, use_dhcp: false, mtu: 1400, addresses: [{ip_netmask: 192.0.2.7/24}]}
",
    );
    site.ok(&["stack", "create", "web", "-t", &template, "--wait"]);

    vm.sh("systemctl disable muster-agent");
    vm.reboot();
    has_all(&vm);
    vm.fails("systemctl is-active muster-agent");

    vm.sh("systemctl enable --now muster-agent");
    complete(&site);
}

/// Panics unless everything that was made is up.
fn has_all(vm: &Vm) {
    assert_eq!(vm.sh("cat /srv/motd"), "hello\n");
    vm.sh("ip -o link show dev eth1 | grep -q 'mtu 1400'; systemctl is-active muster-network");
    let then = vm.sh("cat /run/when-online");
    assert!(then.contains("192.0.2.7/24"), "found by what waits for the network: {then}");
    assert_eq!(vm.sh("systemctl --failed --no-legend"), "");
    vm.fails("journalctl -b --no-pager | grep -i 'ordering cycle'");
}

fn complete(site: &Site) {
    site.until_node("boot-1", "online");
    eventually("all is as the stack wants it", || {
        (site.muster(&["stack", "check", "web", "--wait"]).status == 0).then_some(())
    });
}
