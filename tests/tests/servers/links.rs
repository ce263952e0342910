//! Network devices that only a kernel of its own has here, in a virtual machine with real NICs: bonds, teams, 802.1Q on
//! plain NICs, members of a VRF, `nicN`; with the document given on the server, and after a power cut.

use muster_testbed::Vm;
use muster_tests::site::Packages;

const BOND: &str = "network_config:
- type: linux_bond
  name: bond1
  bonding_options: mode=active-backup miimon=100
  use_dhcp: false
  addresses: [{ip_netmask: 192.0.2.1/24}]
  members: [{type: interface, name: nic2, primary: true}, {type: interface, name: nic3}]
- type: vlan
  device: bond1
  vlan_id: 20
  use_dhcp: false
  addresses: [{ip_netmask: 198.51.100.1/24}]
  routes: [{ip_netmask: 10.20.0.0/16, next_hop: 198.51.100.2}]
- {type: vlan, device: nic4, vlan_id: 30, use_dhcp: false, mtu: 1400, addresses: [{ip_netmask: 203.0.113.1/24}]}
";
const MODE: &str = "mode=active-backup miimon=100";
const LACP: &str = "mode=802.3ad lacp_rate=fast xmit_hash_policy=layer3+4 miimon=50";
const TEAM: &str = "network_config:
- type: team
  name: team1
  bonding_options: '{\"runner\": {\"name\": \"activebackup\"}}'
  mtu: 2000
  use_dhcp: false
  addresses: [{ip_netmask: 192.0.2.1/24}]
  members: [{type: interface, name: nic2}, {type: interface, name: nic3, primary: true}]
";
/// The members are elsewhere, one alone and one in a bridge.
const PLAIN: &str = "network_config:
- {type: interface, name: nic2, use_dhcp: false, addresses: [{ip_netmask: 192.0.2.1/24}]}
- {type: linux_bridge, name: br1, use_dhcp: false, members: [{type: interface, name: nic3}]}
";
/// Changes of others to our bond: a VLAN in a VRF of theirs, with a route there.
const OF_OTHERS: &str = "ip link add vrf1 type vrf table 10
ip link set vrf1 up
ip link add link bond1 name others type vlan id 99
ip link set others master vrf1 mtu 1300 up
ip address add 172.16.0.1/24 dev others
ip route add 10.99.0.0/16 via 172.16.0.2 vrf vrf1
ip link set eth4 up master vrf1";
/// The state without numbers and what goes on changing: states of LACP and carriers, IPv6 addresses that are yet to be
/// checked.
const ALL: &str = "{
ip -o -d link show | grep -E '(bond1|vlan|others|eth[1-4])' |
  sed -E 's/^[0-9]+: //; s/NO-CARRIER,|,LOWER_UP//g; s/(addrgenmode|numtxqueues).*//; s/(state|mii_status|ad_[a-z_]*|active_slave|link_failure_count) [^ ]*//g'
ip -4 -o address show | sed 's/^[0-9]*: //'
ip -4 route show table all | sed 's/ linkdown//'
} | sort";

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

/// Panics unless the document fails with these words, and the state is as it was.
#[track_caller]
fn fails(vm: &Vm, document: &str, words: &str) {
    let before = vm.sh(ALL);
    let (status, said) = give(vm, document);
    assert_eq!(status, 4, "{said}");
    assert!(said.contains(words), "{said}");
    let after = vm.sh(ALL);
    assert!(after == before, "{said}\nbefore:\n{before}\nafter:\n{after}");
}

/// `ip -d` of a link has all of these words.
#[track_caller]
fn is(vm: &Vm, link: &str, words: &[&str]) {
    let shown = vm
        .sh(&format!("ip -d link show dev {link}; ip -4 address show dev {link}; ip route show dev {link}"));
    for word in words {
        assert!(shown.contains(word), "{link} is not '{word}':\n{shown}");
    }
}

/// The link has its carrier, which comes a moment after the link is up.
fn carries(vm: &Vm, link: &str) {
    vm.until(&format!("{link} has its carrier"), &format!("ip link show dev {link} | grep -q 'state UP'"));
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
    let mac = |link: &str| vm.sh(&format!("cat /sys/class/net/{link}/address"));
    let (first, second) = (mac("eth1"), mac("eth2"));

    changes(&vm, BOND);
    is(&vm, "bond1", &["192.0.2.1/24", "bond mode active-backup", "miimon 100"]);
    carries(&vm, "bond1");
    for member in ["eth1", "eth2"] {
        is(&vm, member, &["master bond1", "bond_slave"]);
    }
    assert_eq!(mac("bond1"), first, "of its first member, whatever udev would rather give it");
    is(&vm, "vlan20", &["vlan20@bond1", "802.1Q id 20", "198.51.100.1/24", "10.20.0.0/16 via 198.51.100.2"]);
    is(&vm, "vlan30", &["vlan30@eth3", "802.1Q id 30", "203.0.113.1/24", "mtu 1400"]);

    // Another mode, which the kernel takes of a bond without members alone: it comes anew with all that stood on it.
    vm.sh(OF_OTHERS);
    let broken = |document: &str| document.replace("next_hop: 198.51.100.2", "next_hop: 10.9.9.9");
    let lacp = BOND.replace(MODE, LACP).replace(", primary: true", "");
    fails(&vm, &broken(&lacp), "the route 10.20.0.0/16");
    changes(&vm, &lacp);
    let bond =
        ["192.0.2.1/24", "bond mode 802.3ad", "miimon 50", "xmit_hash_policy layer3+4", "lacp_rate fast"];
    is(&vm, "bond1", &bond);
    assert_eq!(mac("bond1"), first);
    is(&vm, "vlan20", &["vlan20@bond1", "198.51.100.1/24", "10.20.0.0/16 via 198.51.100.2"]);
    is(&vm, "others", &["others@bond1", "id 99", "master vrf1", "mtu 1300", "172.16.0.1/24"]);
    assert!(vm.sh("ip route show vrf vrf1").contains("10.99.0.0/16 via 172.16.0.2"));
    fails(&vm, &broken(&BOND.replace(MODE, "mode=balance-alb")), "the route 10.20.0.0/16");
    let carried = "network_config[0]: bond1 must be recreated, and theirs (macvlan) on it would go along";
    vm.sh("ip link add link bond1 name theirs type macvlan");
    fails(&vm, BOND, carried);

    // By the unit of the boot, without an agent.
    vm.power_cut();
    is(&vm, "bond1", &bond);
    is(&vm, "eth2", &["master bond1"]);
    is(&vm, "vlan20", &["vlan20@bond1", "802.1Q id 20", "198.51.100.1/24", "10.20.0.0/16 via 198.51.100.2"]);
    is(&vm, "vlan30", &["vlan30@eth3", "203.0.113.1/24"]);

    // What a bond takes while it has members, it is told as it stands.
    let number = vm.sh("cat /sys/class/net/bond1/ifindex");
    let in_place = lacp
        .replace("miimon=50", "miimon=70 updelay=140")
        .replace("  name: bond1", "  name: bond1\n  mtu: 2000");
    fails(&vm, &broken(&in_place), "the route 10.20.0.0/16");
    changes(&vm, &in_place);
    is(&vm, "bond1", &["miimon 70 updelay 140", "mtu 2000"]);
    is(&vm, "vlan20", &["mtu 2000"]);
    assert_eq!(vm.sh("cat /sys/class/net/bond1/ifindex"), number);

    changes(&vm, PLAIN);
    is(&vm, "eth1", &["192.0.2.1/24", "mtu 1500"]);
    is(&vm, "eth2", &["master br1", "mtu 1500"]);
    carries(&vm, "eth1");
    carries(&vm, "eth2");
    changes(&vm, TEAM);
    is(&vm, "team1", &["bond mode active-backup", "192.0.2.1/24", "mtu 2000"]);
    is(&vm, "eth1", &["master team1"]);
    assert_eq!(mac("team1"), second, "of its primary member");
    vm.fails("ip link show dev bond1 || ip link show dev vlan30 || ip link show dev br1");

    // What is in a VRF somebody else has put there.
    vm.sh("ip link add vrf1 type vrf table 10; ip link set vrf1 up; ip link set eth4 up master vrf1");
    let in_a_bond =
        "network_config: [{type: linux_bond, name: bond7, members: [{type: interface, name: nic5}]}]\n";
    for document in [in_a_bond, "network_config: [{type: interface, name: eth4, use_dhcp: false}]\n"] {
        fails(&vm, document, "eth4 belongs to vrf1 (vrf)");
    }

    changes(&vm, "network_config: [{type: interface, name: nic4, use_dhcp: false, mtu: 1400}]\n");
    vm.fails("ip link show dev team1");
    assert!(!vm.sh("ip -d link show dev eth1").contains("master"));
}
