//! The real NetworkManager beside Muster: it leaves alone what a document names, also when it begins anew, and takes over what
//! Muster leaves to it as keyfiles.

use crate::one_server::Installed;

const OURS: &str = "
network_config:
- type: interface
  name: dat0
  use_dhcp: false
  mtu: 1400
  addresses: [{ip_netmask: 203.0.113.10/24}, {ip_netmask: 2001:db8::10/64}]
  routes: [{ip_netmask: 198.18.0.0/15, next_hop: 203.0.113.254}, {default: true, next_hop: 203.0.113.1, table: 100}]
  rules: [{rule: from 203.0.113.10 table 100 priority 7}]
  dns_servers: [203.0.113.53]
  domain: example.org
- {type: linux_bridge, name: br7, use_dhcp: false, addresses: [{ip_netmask: 192.0.2.7/24}], members: [{type: interface, name: dat2}]}
";
/// Profiles that this kernel cannot make, and NetworkManager is to read all the same.
const MORE: &str = "
network_config:
- {type: vlan, vlan_id: 20, device: dat0, use_dhcp: true, defroute: false}
- type: linux_bond
  name: bond7
  bonding_options: mode=active-backup miimon=100 updelay=200 primary=dat5
  members: [{type: interface, name: dat4}, {type: interface, name: dat5}]
- {type: linux_tap, name: tap7}
";

#[test]
fn it_leaves_links_alone_and_takes_them_over_from_keyfiles() {
    let server = Installed::start("nm");
    server.sh(
        "printf '[main]\\ndns=none\\n' >/etc/NetworkManager/conf.d/resolver.conf
         systemctl unmask NetworkManager; systemctl start NetworkManager
         for n in 0 2; do ip link add dat$n type veth peer name dat$((n + 1)); ip link set dat$((n + 1)) up; done",
    );
    server.until("NetworkManager knows the link", "nmcli device set dat0 managed yes");
    server.sh(
        "nmcli connection add type ethernet ifname dat0 con-name theirs ipv4.method manual ipv4.addresses 198.51.100.5/24
         nmcli connection up theirs",
    );
    let state =
        |link: &str| server.sh(&format!("nmcli -g GENERAL.STATE device show {link}")).trim().to_owned();
    assert_eq!(state("dat0"), "100 (connected)");
    let address = || server.sh("ip -4 -o address show dev dat0 | grep -o 'inet [0-9./]*'");

    server
        .exec(&[
            "sh",
            "-c",
            &format!("mkdir -p /etc/os-net-config; cat >/etc/os-net-config/config.yaml <<'END'{OURS}END\n"),
        ])
        .expect(0);
    let ran = server.try_sh("os-net-config -v --detailed-exit-codes");
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    for after in
        ["true", "nmcli general reload", "systemctl restart NetworkManager", "nmcli connection reload"]
    {
        server.sh(after);
        server.until(
            &format!("after '{after}' it knows the link"),
            "nmcli -g GENERAL.STATE device show dat0 | grep -q '^10'",
        );
        assert_eq!(
            (state("dat0"), address()),
            ("10 (unmanaged)".into(), "inet 203.0.113.10/24\n".into()),
            "{after}"
        );
        let ran = server.try_sh("os-net-config --noop -v --detailed-exit-codes");
        assert_eq!(ran.status, 0, "{after}: {}{}", ran.stdout, ran.stderr);
    }

    // It reads all that is written for it.
    server.exec(&["sh", "-c", &format!("cat >/root/more.yaml <<'END'{MORE}END\n")]).expect(0);
    server.sh(
        "muster-agent net export -c /root/more.yaml --format networkmanager --into /root/more
         cp -p /root/more/etc/NetworkManager/system-connections/* /etc/NetworkManager/system-connections/
         for file in /etc/NetworkManager/system-connections/muster-*; do nmcli connection load \"$file\"; done",
    );
    let loaded = server.sh("nmcli -t -f NAME,TYPE connection show | grep ^muster- | sort");
    let wanted = "muster-bond7:bond muster-dat4:802-3-ethernet muster-dat5:802-3-ethernet muster-tap7:tun muster-vlan20:vlan";
    assert_eq!(loaded.split_whitespace().collect::<Vec<_>>().join(" "), wanted);
    let bond = server.sh("nmcli -g bond.options connection show muster-bond7");
    for option in ["mode=active-backup", "miimon=100", "updelay=200", "primary=dat5"] {
        assert!(bond.contains(option), "{bond}");
    }
    assert_eq!(server.sh("nmcli -g ipv4.never-default connection show muster-vlan20"), "yes\n");
    server.sh("rm /etc/NetworkManager/system-connections/muster-*; nmcli connection reload");

    // Muster goes, and says how it was. The link's connection from before Muster is still there, and is not taken again.
    server.sh("apt-get remove -qq -y muster-agent");
    server.fails("ls /etc/NetworkManager/conf.d/90-muster-dat0.conf");
    let wanted = "set -e; ip address show dev dat0 | grep -q 203.0.113.10/24; ip address show dev dat0 | grep -q 2001:db8::10/64
        ip address show dev br7 | grep -q 192.0.2.7/24; ip link show dev dat2 | grep -q 'master br7'; ip link show dev dat0 | grep -q 'mtu 1400'
        ip route | grep -q '198.18.0.0/15 via 203.0.113.254'; ip route show table 100 | grep -q 'default via 203.0.113.1'
        ip rule | grep -q '^7:.*from 203.0.113.10 lookup 100'";
    server.sh(wanted);
    // As at the next boot.
    server.sh(
        "systemctl stop NetworkManager; ip address flush dev dat0; ip link delete br7; ip route flush table 100 || :; ip rule delete priority 7
         ip link set dat0 down; ip link set dat0 mtu 1500; systemctl start NetworkManager",
    );
    for link in ["dat0", "dat2"] {
        server
            .until(&format!("NetworkManager knows {link}"), &format!("nmcli device set {link} managed yes"));
    }
    server.until("NetworkManager has it", wanted);
    assert_eq!(server.sh("nmcli -g GENERAL.CONNECTION device show dat0"), "muster-dat0\n");
    server.sh("nmcli connection show theirs");
    assert_eq!(address(), "inet 203.0.113.10/24\n");
}
