//! Network devices that only a kernel of its own has here, in a virtual machine with real NICs: bonds, teams, 802.1Q on
//! plain NICs, members of a VRF, `nicN`; with the document given on the server, and after a power cut.

use muster_tests::testbed::{Packages, Vm};

const BOND: &str = "network_config:
- type: linux_bond
  name: bond1
  bonding_options: mode=active-backup miimon=100
  use_dhcp: false
  addresses: [{ip_netmask: 192.0.2.1/24}]
  members: [{type: interface, name: nic2, primary: true}, {type: interface, name: nic3}]
- {type: vlan, device: bond1, vlan_id: 20, use_dhcp: false, addresses: [{ip_netmask: 198.51.100.1/24}]}
- {type: vlan, device: nic4, vlan_id: 30, use_dhcp: false, mtu: 1400, addresses: [{ip_netmask: 203.0.113.1/24}]}
";
const TEAM: &str = "network_config:
- type: team
  name: team1
  bonding_options: '{\"runner\": {\"name\": \"activebackup\"}}'
  use_dhcp: false
  addresses: [{ip_netmask: 192.0.2.1/24}]
  members: [{type: interface, name: nic2}, {type: interface, name: nic3}]
";
const OF_A_VRF: &str = "network_config:\n- {type: interface, name: eth4, use_dhcp: false, addresses: [{ip_netmask: 192.0.2.9/24}]}\n";

/// `os-net-config` with this document; its exit code and what it said.
fn give(vm: &Vm, document: &str) -> (i32, String) {
    vm.sh(&format!("cat >/root/document <<'END'\n{document}END\n"));
    let ran = vm.exec(&["os-net-config", "-c", "/root/document", "--detailed-exit-codes", "-v"]);
    (ran.status, ran.stderr)
}

#[track_caller]
fn changes(vm: &Vm, document: &str) {
    let (status, said) = give(vm, document);
    assert_eq!(status, 2, "{said}");
    let (status, said) = give(vm, document);
    assert_eq!(status, 0, "nothing is left to do: {said}");
}

/// `ip -d` of a link has all of these words.
#[track_caller]
fn is(vm: &Vm, link: &str, words: &[&str]) {
    let shown = vm.sh(&format!("ip -d -4 address show dev {link}"));
    for word in words {
        assert!(shown.contains(word), "{link} is not '{word}':\n{shown}");
    }
}

#[test]
fn bonds_teams_and_vlans_are_what_the_kernel_says_they_are() {
    let Some(vm) = Vm::start("links", 5) else { return };
    Packages::make("deb", "0.1.0").install(&vm, &["muster-agent"]);
    vm.sh("for link in eth1 eth2 eth3 eth4; do ip link set $link up; done");
    let cards = vm.sh("os-net-config -i 2>&1");
    for (nic, link) in [("nic1", "eth0"), ("nic2", "eth1"), ("nic5", "eth4")] {
        assert!(cards.contains(nic) && cards.contains(link), "{cards}");
    }

    changes(&vm, BOND);
    let bond = ["192.0.2.1/24", "bond mode active-backup", "miimon 100", "state UP"];
    is(&vm, "bond1", &bond);
    for member in ["eth1", "eth2"] {
        is(&vm, member, &["master bond1", "bond_slave"]);
    }
    is(&vm, "vlan20", &["vlan20@bond1", "802.1Q id 20", "198.51.100.1/24"]);
    is(&vm, "vlan30", &["vlan30@eth3", "802.1Q id 30", "203.0.113.1/24", "mtu 1400"]);

    // Another mode, which the kernel takes of a bond without members alone.
    let lacp = BOND
        .replace(
            "mode=active-backup miimon=100",
            "mode=802.3ad lacp_rate=fast xmit_hash_policy=layer3+4 miimon=50",
        )
        .replace(", primary: true", "");
    changes(&vm, &lacp);
    let bond =
        ["192.0.2.1/24", "bond mode 802.3ad", "miimon 50", "xmit_hash_policy layer3+4", "lacp_rate fast"];
    is(&vm, "bond1", &bond);
    is(&vm, "vlan20", &["vlan20@bond1", "198.51.100.1/24"]);

    // By the unit of the boot, without an agent.
    vm.power_cut();
    is(&vm, "bond1", &bond);
    is(&vm, "eth2", &["master bond1"]);
    is(&vm, "vlan20", &["vlan20@bond1", "802.1Q id 20", "198.51.100.1/24"]);
    is(&vm, "vlan30", &["vlan30@eth3", "203.0.113.1/24"]);

    changes(&vm, TEAM);
    is(&vm, "team1", &["bond mode active-backup", "192.0.2.1/24"]);
    is(&vm, "eth1", &["master team1"]);
    vm.fails("ip link show dev bond1");
    vm.fails("ip link show dev vlan30");

    // What is in a VRF somebody else has put there.
    vm.sh("ip link add vrf1 type vrf table 10; ip link set vrf1 up; ip link set eth4 up master vrf1");
    let before = vm.sh("ip -d link show dev eth4; ip -4 address show; ip route show table all");
    let (status, said) = give(&vm, OF_A_VRF);
    assert!(status & 1 == 1 || status == 4, "{status}");
    assert!(said.contains("eth4 belongs to vrf1 (vrf)"), "{said}");
    assert_eq!(vm.sh("ip -d link show dev eth4; ip -4 address show; ip route show table all"), before);

    changes(&vm, "network_config: []\n");
    vm.fails("ip link show dev team1");
    assert!(!vm.sh("ip -d link show dev eth1").contains("master"));
}
