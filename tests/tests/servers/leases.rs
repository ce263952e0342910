//! Leased addresses on a real systemd, with each DHCP client that a server may have: the lease comes with a document and goes with
//! it, outlives the agent and the client's death, and comes back at boot.

use muster_testbed::{Daemon, Namespace, SystemdServer};
use tempfile::TempDir;

use crate::one_server::Installed;

const LEASED: &str = "ip -4 -o address show dev up0 | grep -q 'inet 192.0.2.[5-9][0-9]/24'";
const ROUTED: &str = "ip -4 route show default | grep -q 'via 192.0.2.1 dev up0'";
const STATIC: &str =
    "[{type: interface, name: up0, use_dhcp: false, addresses: [{ip_netmask: 203.0.113.10/24}]}]";

/// A server and another that leases for its `up0`.
struct LeasingSite {
    server: Installed,
    _leases: Daemon,
    _folder: TempDir,
    _router: Namespace,
}

impl LeasingSite {
    fn start() -> Self {
        let (server, router) = (SystemdServer::start("lease"), Namespace::new());
        server.cable(&router, "p1");
        router.ip("address add 192.0.2.1/24 dev p1");
        let folder = TempDir::new().unwrap();
        let mut dnsmasq = router.command("dnsmasq");
        dnsmasq.args("--keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --port=0 --user=root --interface=p1 --bind-interfaces".split(' '));
        dnsmasq.args("--dhcp-range=192.0.2.50,192.0.2.99,1h --dhcp-option=3,192.0.2.1 --dhcp-option=6,192.0.2.53 --no-ping".split(' '));
        dnsmasq.args(["leasefile", "pid-file"].map(|kind| {
            let option = if kind == "leasefile" { "dhcp-leasefile" } else { kind };
            format!("--{option}={}/{kind}", folder.path().display())
        }));
        let leases = Daemon::start("dnsmasq", dnsmasq, folder.path());
        Self { server: Installed::on(server), _leases: leases, _folder: folder, _router: router }
    }

    /// As a script does it, where the agent runs: 2 is changed, 0 is as it was.
    fn applied(&self, objects: &str) -> i32 {
        self.server.sh(&format!(
            "mkdir -p /etc/os-net-config; echo 'network_config: {objects}' >/etc/os-net-config/config.yaml"
        ));
        let ran = self.server.try_sh("os-net-config -v --detailed-exit-codes");
        println!("{}{}", ran.stdout, ran.stderr);
        ran.status
    }

    /// The lease's client, from its note: what runs it, and as what.
    fn main_process(&self, unit: &str) -> String {
        self.server.sh(&format!("systemctl show -P MainPID {unit}")).trim().to_owned()
    }
}

fn a_lease_comes_stays_and_goes(client: &str) {
    let site = LeasingSite::start();
    let server = &site.server;
    let unit = match client {
        "networkd" => {
            server.sh("systemctl start systemd-networkd");
            "systemd-networkd.service"
        }
        _ => {
            server.sh(&format!(
                "sed -i 's/^#dhcp_client = .*/dhcp_client = \"{client}\"/' /etc/muster/agent.toml; systemctl restart muster-agent"
            ));
            "muster-dhcp4-up0.service"
        }
    };
    // systemd-networkd leaves name servers to systemd-resolved.
    let resolved =
        if client == "networkd" { "true" } else { "grep -q 'nameserver 192.0.2.53' /etc/resolv.conf" };
    let whole = format!("{ROUTED}; {resolved}");
    let leasing = "[{type: interface, name: up0, use_dhcp: true}]";
    assert_eq!(site.applied(leasing), 2);
    server.sh(&format!("{LEASED}; {whole}; systemctl is-active {unit}"));
    let leased = server.sh("ip -4 -o address show dev up0 | grep -o 'inet [0-9./]*'");

    // The agent is not the client.
    let before = site.main_process(unit);
    server.sh("systemctl restart muster-agent");
    server.until(
        "the agent is back",
        "muster node list -o json | tr -d ' \\n' | grep -q '\"state\":\"online\"'",
    );
    assert_eq!((site.main_process(unit), site.applied(leasing)), (before.clone(), 0));
    server.sh(&format!("{LEASED}; {whole}"));
    // Who is killed is started again by systemd.
    server.sh(&format!("systemctl kill --signal=KILL {unit}"));
    server.until(
        "the client is back",
        &format!("systemctl is-active {unit} && [ \"$(systemctl show -P MainPID {unit})\" != {before} ] && {LEASED}"),
    );
    server.until("it has told what it leased", &format!("set -e; {whole}"));

    // As at boot: nothing of it is there but what is on the disk.
    let up = "ip link set up0 up";
    let stopped = if client == "networkd" { String::new() } else { format!("systemctl stop {unit};") };
    server.sh(&format!(
        "systemctl stop muster-agent muster-network; {stopped} systemctl stop systemd-networkd.socket systemd-networkd 2>/dev/null || :
         rm -rf /run/muster-dhcp /run/systemd/netif/leases/* /run/systemd/netif/links/*; ip address flush dev up0; ip link set up0 down"
    ));
    server.fails(LEASED);
    if client == "networkd" {
        server.sh("systemctl start systemd-networkd");
    }
    server.sh("systemctl start muster-network");
    server.sh(&format!("{LEASED}; {whole}; systemctl is-active {unit}; {up}"));
    assert_eq!(server.sh("ip -4 -o address show dev up0 | grep -o 'inet [0-9./]*'"), leased);
    server.sh("systemctl start muster-agent");
    server.until(
        "the agent is back",
        "muster node list -o json | tr -d ' \\n' | grep -q '\"state\":\"online\"'",
    );
    assert_eq!(site.applied(leasing), 0);

    // Another document has another address.
    assert_eq!(site.applied(STATIC), 2);
    let addresses = server.sh("ip -4 -o address show dev up0");
    assert!(addresses.contains("203.0.113.10/24") && !addresses.contains("192.0.2."), "{addresses}");
    assert_eq!(
        server.sh("ip -4 route show default; systemctl list-units --all --plain --no-legend 'muster-dhcp*'"),
        ""
    );
    server.fails("grep 192.0.2.53 /etc/resolv.conf");
    if client == "networkd" {
        // Also when it begins anew.
        // Its unit has started before its name is on the bus.
        server.sh("systemctl restart systemd-networkd");
        server.until("networkd answers", "networkctl --no-pager reload");
        server.until("it leaves the link alone", "networkctl --no-pager list up0 | grep -q unmanaged");
        assert_eq!(server.sh("ip -4 -o address show dev up0"), addresses);
    }
    assert_eq!(site.applied(STATIC), 0);
}

#[test]
fn of_systemd_networkd() {
    a_lease_comes_stays_and_goes("networkd");
}

#[test]
fn of_dhcpcd() {
    a_lease_comes_stays_and_goes("dhcpcd");
}

#[test]
fn of_dhclient() {
    a_lease_comes_stays_and_goes("dhclient");
}
