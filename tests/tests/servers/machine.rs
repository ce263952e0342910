//! A virtual machine with the packages, and a controller on this machine: what was made is there after a reboot and a power
//! cut, and the agent is back.

use muster_tests::testbed::{Packages, Site, Vm, eventually};

#[test]
fn the_agent_comes_back_after_a_reboot_and_a_power_cut() {
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

    vm.reboot();
    is_back(&site, &vm);
    vm.power_cut();
    is_back(&site, &vm);
}

fn is_back(site: &Site, vm: &Vm) {
    assert_eq!(vm.sh("cat /srv/motd"), "hello\n");
    site.until_node("vm-1", "online");
    eventually("the stack is as it was", || {
        (site.muster(&["stack", "check", "web", "--wait"]).status == 0).then_some(())
    });
}
