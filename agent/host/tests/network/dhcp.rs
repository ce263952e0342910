//! Leased addresses, with the DHCP clients and a DHCP server that are here.

use std::fs;

use muster_host::net::{Client, Step};
use muster_testbed::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::server::NetworkServer;
use crate::{document, kept, no_mapping, settled};

/// A server whose link is a cable to a DHCP server.
fn two(link: &str, client: Client) -> (NetworkServer, NetworkServer) {
    let (mut server, mut peer) = (NetworkServer::new(), NetworkServer::new());
    server.dhcp_client = Some(client);
    server.noexec = &["dhcp"];
    serve(&server, &mut peer, link, true);
    (server, peer)
}

fn serve(server: &NetworkServer, peer: &mut NetworkServer, link: &str, v6: bool) {
    server.plug(link, peer, "p1");
    peer.ip("link set p1 up");
    peer.ip("address add 192.0.2.1/24 dev p1");
    peer.ip("address add fd00:1::1/64 dev p1 nodad");
    peer.serve_dhcp("p1", v6);
}

fn leasing(link: &str, more: &Value) -> Value {
    let mut object = json!({"type": "interface", "name": link, "use_dhcp": true});
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!([object])
}

/// The DHCP clients of a server. A child of a client is not one: until it is another program, its
/// command is the client's own, and its number may be the lower one.
fn clients(server: &NetworkServer) -> Vec<i32> {
    let processes = server.processes();
    let is_client = |command: &str| command.contains("dhclient -d") || command.contains("dhcpcd");
    let pids: Vec<i32> = processes.iter().filter(|(_, it)| is_client(it)).map(|(pid, _)| *pid).collect();
    let begun = |pid: i32| parent(pid).is_some_and(|parent| !pids.contains(&parent));
    pids.iter().copied().filter(|&pid| begun(pid)).collect()
}

/// The process that began `pid`, unless that has ended since.
fn parent(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[test]
fn a_lease_joins_static_settings_and_ends_with_the_document() {
    for (client, link) in [(Client::Dhclient, "eth1"), (Client::Dhcpcd, "mstdhcp1")] {
        let (server, _peer) = two(link, client);
        server.ip(&format!("address add 198.51.100.9/24 dev {link}"));
        let static_too = json!({"use_dhcpv6": true, "addresses": [{"ip_netmask": "203.0.113.10/24"}, {"ip_netmask": "fd00:2::1/64"}],
            "dns_servers": ["192.0.2.54"]});
        let both = document(leasing(link, &static_too));
        let without_route =
            document(leasing(link, &json!({"defroute": false, "dns_servers": ["192.0.2.54"]})));
        let nothing = document(
            json!([{"type": "interface", "name": link, "addresses": [{"ip_netmask": "203.0.113.10/24"}]}]),
        );
        server.inside(async |network| {
            let at_first = settled(network.observe().await.unwrap());
            let before = kept(network.snapshot(&both, &no_mapping(), None).await.unwrap());
            let plan = network.plan_text(&both, &no_mapping(), Some(before.clone())).await.unwrap();
            let name = client.name();
            assert_eq!(plan.lines.last().unwrap(), &format!("let {name} lease IPv4 and IPv6 for {link}"));
            let applied = network.apply(&both, &no_mapping(), &before).await.unwrap();
            let shown = server.ip(&format!("address show dev {link}"));
            for wanted in ["inet 203.0.113.10/24", "inet6 fd00:2::1/64", "inet 192.0.2.", "inet6 fd00:1::"] {
                assert!(shown.contains(wanted), "{name}: {wanted} in {shown}");
            }
            assert!(!shown.contains("198.51.100.9"), "{shown}");
            let routes = server.ip("-4 route show");
            assert!(
                routes.contains(&format!("default via 192.0.2.1 dev {link} proto dhcp")),
                "{name}: {routes}"
            );
            assert!(
                routes.contains("203.0.113.0/24 via 192.0.2.2") || client == Client::Dhclient,
                "{routes}"
            );
            server.pings("192.0.2.1");
            assert_eq!(network.apply(&both, &no_mapping(), &before).await.unwrap().steps, [], "{name}");
            assert_eq!(network.check(&both, &no_mapping(), &before).await.unwrap(), []);
            assert!(fs::read_to_string(server.resolv_conf()).unwrap().contains("192.0.2.54"));

            // No client leases the address, until the agent starts one.
            kill(Pid::from_raw(clients(&server)[0]), Signal::SIGTERM).unwrap();
            // Until it is over.
            let mut found = Vec::new();
            while found.is_empty() {
                found = network.check(&both, &no_mapping(), &before).await.unwrap();
            }
            assert_eq!(
                found[0].to_string(),
                format!("network_config[0].use_dhcp: {name} does not run for {link}")
            );
            let steps = network.apply(&both, &no_mapping(), &before).await.unwrap().steps;
            assert!(matches!(steps[..], [Step::StopDhcp { .. }, Step::StartDhcp { .. }]), "{steps:?}");

            let before = network.snapshot(&without_route, &no_mapping(), Some(applied.before)).await.unwrap();
            let before = network.apply(&without_route, &no_mapping(), &before).await.unwrap().before;
            let shown = server.ip(&format!("address show dev {link}"));
            assert!(shown.contains("inet 192.0.2.") && !shown.contains("fd00:1::5"), "{shown}");
            assert_eq!(server.ip("-4 route show default"), "", "{name}");

            let before = network.snapshot(&nothing, &no_mapping(), Some(before)).await.unwrap();
            let before = network.apply(&nothing, &no_mapping(), &before).await.unwrap().before;
            let shown = server.ip(&format!("-4 -o address show dev {link}"));
            assert!(shown.contains("203.0.113.10/24") && !shown.contains("192.0.2."), "{shown}");
            assert!(clients(&server).is_empty(), "{:?}", server.processes());
            network.restore(&before).await.unwrap();
            let mut restored = settled(network.observe().await.unwrap());
            // Addresses that a router announced are not ours.
            restored.links.get_mut(link).unwrap().addresses.retain(|address| !address.given);
            std::sync::Arc::make_mut(&mut restored.links.get_mut(link).unwrap().routes)
                .retain(|route| route.protocol != 9);
            assert_eq!(restored, at_first, "{name}");
        });
    }
}

/// The kernel would remove it at the end of the lease, hours after the change was kept.
#[test]
fn a_leased_address_that_is_pinned_stays_for_good() {
    let (server, _peer) = two("eth1", Client::Dhclient);
    let leases = document(leasing("eth1", &json!({"dns_servers": ["192.0.2.54"]})));
    server.inside(async |network| {
        let before = network.snapshot(&leases, &no_mapping(), None).await.unwrap();
        let before = network.apply(&leases, &no_mapping(), &before).await.unwrap().before;
        let shown = || server.ip("-4 -o address show dev eth1");
        assert!(!shown().contains("valid_lft forever"), "{}", shown());
        let leased = shown().split_whitespace().nth(3).unwrap().to_owned();
        let pinned = document(json!([{"type": "interface", "name": "eth1", "dns_servers": ["192.0.2.54"],
            "addresses": [{"ip_netmask": leased}], "routes": [{"default": true, "next_hop": "192.0.2.1"}]}]));
        let before = network.snapshot(&pinned, &no_mapping(), Some(before)).await.unwrap();
        let applied = network.apply(&pinned, &no_mapping(), &before).await.unwrap();
        let steps: Vec<String> = applied.steps.iter().map(ToString::to_string).collect();
        let wanted = [
            "end the DHCP client of eth1".to_owned(),
            format!("keep the address {leased} on eth1 beyond its lifetime"),
        ];
        assert_eq!(steps[..2], wanted, "{steps:?}");
        assert!(shown().contains(&format!("inet {leased}")) && shown().contains("valid_lft forever"), "{}", shown());
        assert_eq!(network.apply(&pinned, &no_mapping(), &before).await.unwrap().steps, []);

        // A lifetime that somebody gives it again is reported.
        for also in ["", "203.0.113.10/24"] {
            let address = if also.is_empty() { &leased } else { also };
            server.ip(&format!("address replace {address} dev eth1 valid_lft 60 preferred_lft 60"));
            let mut addresses = vec![json!({"ip_netmask": leased})];
            addresses.extend((!also.is_empty()).then(|| json!({"ip_netmask": also})));
            let document = document(json!([{"type": "interface", "name": "eth1", "addresses": addresses}]));
            let found = network.check(&document, &no_mapping(), &before).await.unwrap();
            let index = addresses.len() - 1;
            let wanted = format!("network_config[0].addresses[{index}]: wanted {address} for good, eth1 has it until the end of a lifetime");
            assert!(found.iter().any(|it| it.to_string() == wanted), "{found:?}");
            network.apply(&document, &no_mapping(), &before).await.unwrap();
            assert_eq!(shown().matches("valid_lft forever").count(), addresses.len(), "{}", shown());
        }
    });
}

#[test]
fn a_change_that_is_not_kept_gives_the_lease_back() {
    let (server, peer) = two("eth1", Client::Dhclient);
    let leasing = document(leasing("eth1", &json!({"dns_servers": ["192.0.2.54"]})));
    let elsewhere = document(
        json!([{"type": "linux_bridge", "name": "br0", "addresses": [{"ip_netmask": "203.0.113.10/24"}],
        "members": [{"type": "interface", "name": "eth1"}]}]),
    );
    server.inside(async |network| {
        let before = network.snapshot(&leasing, &no_mapping(), None).await.unwrap();
        let before = network.apply(&leasing, &no_mapping(), &before).await.unwrap().before;
        let leased = server.ip("-4 -o address show dev eth1");
        let undo = kept(network.undo(&elsewhere, &no_mapping(), &before).await.unwrap());
        let before = network.snapshot(&elsewhere, &no_mapping(), Some(before)).await.unwrap();
        network.apply(&elsewhere, &no_mapping(), &before).await.unwrap();
        assert_eq!((clients(&server), server.ip("-4 -o address show dev eth1")), (Vec::new(), String::new()));
        // Also if nobody leases any more.
        peer.ip("link set p1 down");
        network.restore(&undo).await.unwrap();
        // A process that becomes another program has no command for a moment.
        eventually("one client runs", || (clients(&server).len() == 1).then_some(()));
        let address = leased.split_whitespace().nth(3).unwrap();
        assert!(server.ip("-4 -o address show dev eth1").contains(address), "{leased}");
        assert!(server.ip("route show default").contains("via 192.0.2.1"));
        peer.ip("link set p1 up");
        server.pings("192.0.2.1");
        network.restore(&before).await.unwrap();
        assert!(clients(&server).is_empty(), "{:?}", server.processes());
    });
}

#[test]
fn an_ovs_bridge_leases_and_the_lease_sets_the_name_servers() {
    let (mut peer, server) = (NetworkServer::new(), NetworkServer::with_ovs());
    // A router's advertisements reach the member as well.
    serve(&server, &mut peer, "eth1", false);
    fs::write(server.resolv_conf(), "nameserver 198.51.100.53\n").unwrap();
    let document = document(
        json!([{"type": "ovs_bridge", "name": "br-ex", "use_dhcp": true, "dhclient_args": "-v -D LL",
        "members": [{"type": "interface", "name": "eth1", "primary": true}]}]),
    );
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
        let applied = network.apply(&document, &no_mapping(), &before).await.unwrap();
        server.pings("192.0.2.1");
        assert!(server.processes().iter().any(|(_, command)| command.contains("-v -D LL br-ex")));
        let dns = fs::read_to_string(server.resolv_conf()).unwrap();
        assert!(
            dns.contains("search lease.example\nnameserver 192.0.2.53\n") && !dns.contains("198.51.100.53"),
            "{dns}"
        );
        assert!(server.ip("-4 route show").contains("203.0.113.0/24 via 192.0.2.2 dev br-ex proto dhcp"));
        assert_eq!(network.apply(&document, &no_mapping(), &before).await.unwrap().steps, []);
        network.restore(&applied.before).await.unwrap();
        assert_eq!(settled(network.observe().await.unwrap()), at_first);
        assert_eq!(fs::read_to_string(server.resolv_conf()).unwrap(), "nameserver 198.51.100.53\n");
    });
}

#[test]
fn where_a_client_could_not_run_its_script_it_is_said() {
    let (mut server, _peer) = two("eth1", Client::Dhclient);
    server.noexec = &["dhcp", "scripts"];
    let leases = document(leasing("eth1", &json!({})));
    server.inside(async |network| {
        let before = network.snapshot(&leases, &no_mapping(), None).await.unwrap();
        let error = network.apply(&leases, &no_mapping(), &before).await.unwrap_err();
        let chain = format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
        assert!(chain.contains("is on a file system mounted noexec"), "{chain}");
        assert!(clients(&server).is_empty(), "{:?}", server.processes());
        network.restore(&before).await.unwrap();
    });
}

#[test]
fn without_an_answer_or_a_client_it_is_said() {
    let (mut server, peer) = two("eth1", Client::Dhclient);
    server.dhcp_is_silent = true;
    peer.ip("link set p1 down");
    let leases = document(leasing("eth1", &json!({})));
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = network.snapshot(&leases, &no_mapping(), None).await.unwrap();
        let undo = network.undo(&leases, &no_mapping(), &before).await.unwrap();
        let error = network.apply(&leases, &no_mapping(), &before).await.unwrap_err().to_string();
        let wanted = "read back, the host differs: network_config[0].use_dhcp: dhclient has no address of IPv4 for eth1 from a \
                      DHCP server";
        assert_eq!(error, wanted);
        network.restore(&undo).await.unwrap();
        assert_eq!((settled(network.observe().await.unwrap()), clients(&server)), (at_first, Vec::new()));
    });
    // Another namespace than the system's init has no systemd-networkd.
    server.dhcp_client = Some(Client::Networkd);
    server.inside(async |network| {
        let before = network.snapshot(&leases, &no_mapping(), None).await.unwrap();
        let error = network.apply(&leases, &no_mapping(), &before).await.unwrap_err().to_string();
        assert!(
            error.starts_with("network_config[0].use_dhcp: there is no DHCP client on this host; "),
            "{error}"
        );
        assert!(clients(&server).is_empty(), "{:?}", server.processes());
    });
}
