//! Network documents that cut their server off: it restores itself, and says what it saw. `MUSTER_SOAK=N` repeats
//! each N times, also with kill -9 of the agent while the change waits to be confirmed.

use std::ops::Deref;
use std::time::Instant;

use muster_testbed::{Namespace, Switch, eventually, look};
use muster_tests::site::{Agent, OneServer, Site};

/// Seconds to confirm a change that cuts the server off: the test waits for all of them.
const WINDOW: u32 = 5;
/// Seconds to confirm a change that does not, which a busy machine may make slow.
const LONG_WINDOW: u32 = 60;
/// Seconds in which a test does something between a change and its end.
const MIDDLE_WINDOW: u32 = 15;

/// A server with a switch, and what is between it and its controller.
pub struct CutServer {
    one: OneServer,
    switch: Switch,
    _way: Option<Namespace>,
}

impl Deref for CutServer {
    type Target = OneServer;
    fn deref(&self) -> &OneServer {
        &self.one
    }
}

impl CutServer {
    /// On the controller's own network.
    fn beside() -> Self {
        Self::with(OneServer::new(), None)
    }

    /// Behind a router that only the default route leads to.
    fn routed() -> Self {
        let site = Site::in_namespace();
        let hub = site.hub();
        let (server, router) = (Namespace::new(), Namespace::new());
        hub.link("to-router", &router, "hub");
        hub.ip("link set to-router master hub");
        router.ip("address add 10.77.0.254/24 dev hub");
        router.link("server", &server, "up0");
        router.ip("address add 198.18.0.1/24 dev server");
        router.run("sysctl -qw net.ipv4.ip_forward=1");
        hub.ip("route add 198.18.0.0/24 via 10.77.0.254");
        server.ip("address add 198.18.0.2/24 dev up0");
        server.ip("route add default via 198.18.0.1");
        Self::with(OneServer { site, server }, Some(router))
    }

    /// The controller's network carries large packets, the way to it does not.
    pub fn behind_a_narrow_way() -> Self {
        let site = Site::in_namespace();
        let hub = site.hub();
        let (server, cable) = (Namespace::new(), Namespace::new());
        cable.ip("link add cable type bridge");
        cable.ip("link set cable up");
        hub.link("to-cable", &cable, "hub");
        cable.link("server", &server, "up0");
        for port in ["hub", "server"] {
            cable.ip(&format!("link set {port} master cable"));
        }
        hub.ip("link set to-cable mtu 9000 master hub");
        hub.ip("link set hub mtu 9000");
        server.ip("address add 10.77.0.2/24 dev up0");
        Self::with(OneServer { site, server }, Some(cable))
    }

    fn with(one: OneServer, way: Option<Namespace>) -> Self {
        let switch = Switch::start(&one.server);
        Self { one, switch, _way: way }
    }

    pub fn join(&self) -> Agent {
        self.join_with(&self.switch)
    }

    fn template(&self, document: &str, window: u32) -> String {
        self.site.file(&format!(
            "heat_template_version: 2018-08-31\nresources:\n  net:\n    type: Muster::NetworkConfig\n    \
             properties: {{node: web-1, confirm_timeout: {window}, network_config: {document}}}\n"
        ))
    }

    /// The state that a document may change.
    fn state(&self) -> Vec<String> {
        let without_lifetime = |line: &str| {
            let words = line.split('\\').next().unwrap_or(line).split_whitespace();
            words
                .filter(|word| *word != "tentative")
                .collect::<Vec<_>>()
                .join(" ")
                .replace(" brd 10.77.0.255", "")
        };
        let addresses = self.server.ip("-o address show");
        let links = self.server.ip("-o link show");
        let link = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let after =
                |key| words.iter().skip_while(|word| **word != key).nth(1).copied().unwrap_or_default();
            format!("{} mtu {} master {}", words[1], after("mtu"), after("master"))
        };
        let mut state: Vec<String> = addresses.lines().map(without_lifetime).collect();
        state.extend(links.lines().map(link));
        for words in ["-4 route show table all", "-6 route show table all", "rule show", "-6 rule show"] {
            state.extend(self.server.ip(words).lines().map(|line| line.trim_end().to_owned()));
        }
        state.push(self.switch.vsctl("--columns=name,ports,fail_mode list Bridge"));
        state.push(self.switch.vsctl("--columns=name,tag list Port"));
        // The kernel's own, which come and go by themselves.
        state.retain(|line| ["ovs-netdev", "fe80::", "ff00::"].iter().all(|own| !line.contains(own)));
        state
    }

    /// The lines that are gone, and those that are new.
    fn changed_since(&self, before: &[String]) -> Vec<String> {
        let now = self.state();
        let gone = before.iter().filter(|line| !now.contains(line)).map(|line| format!("-{line}"));
        let new = now.iter().filter(|line| !before.contains(line)).map(|line| format!("+{line}"));
        gone.chain(new).collect()
    }
}

fn rounds() -> usize {
    std::env::var("MUSTER_SOAK").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// The document cuts the server off, which comes back as it was.
fn comes_back(cut: &CutServer, what: &str, document: &str) {
    let mut web1 = cut.join();
    let before = cut.state();
    let kills: &[bool] = if rounds() > 1 { &[false, true] } else { &[false] };
    for (round, kill) in (0..rounds()).flat_map(|round| kills.iter().map(move |kill| (round, *kill))) {
        let template = cut.template(document, WINDOW);
        let begun = jobs(&web1);
        let creating = cut.site.spawn(&["stack", "create", "net", "-t", &template, "--wait"]);
        eventually("the change has begun", || (jobs(&web1) > begun).then_some(()));
        let began = Instant::now();
        eventually("the server is cut off", || (cut.state() != before).then_some(()));
        if kill {
            web1.daemon.kill();
            web1.daemon.restart();
        }
        let put_back = look(|| cut.changed_since(&before).is_empty().then_some(()));
        assert!(put_back.is_some(), "not restored: {:#?}", cut.changed_since(&before));
        let back = began.elapsed();
        let ran = creating.finish();
        let online = began.elapsed();
        cut.site.until_node("web-1", "online");
        let seen = if kill { "ended before the change was confirmed" } else { "was not reached again" };
        ran.refused(1, &[seen, "has been restored"]);
        assert_eq!(cut.changed_since(&before), [""; 0]);
        let row = cut.site.resource("net", "net");
        assert_eq!((row["status"].as_str(), row["retry_count"].as_u64()), (Some("FAILED"), Some(0)), "{row}");
        println!(
            "{{\"what\":\"{what}\",\"round\":{round},\"killed\":{kill},\"confirm_timeout\":{WINDOW},\"back_s\":{:.1},\"failed_s\":{:.1}}}",
            back.as_secs_f64(),
            online.as_secs_f64()
        );
        cut.site.ok(&["stack", "delete", "net", "--wait"]);
        assert_eq!(cut.changed_since(&before), [""; 0]);
    }
}

fn jobs(agent: &Agent) -> usize {
    agent.daemon.log().matches(" job ").count()
}

#[test]
fn by_a_wrong_address() {
    comes_back(
        &CutServer::beside(),
        "wrong address",
        "[{type: interface, name: up0, use_dhcp: false, addresses: [{ip_netmask: 10.88.0.2/24}]}]",
    );
}

#[test]
fn by_a_wrong_vlan() {
    comes_back(
        &CutServer::beside(),
        "wrong VLAN",
        "[{type: ovs_bridge, name: br-ex, use_dhcp: false, members: [{type: interface, name: up0, primary: true}, \
         {type: vlan, vlan_id: 20, addresses: [{ip_netmask: 10.77.0.2/24}]}]}]",
    );
}

#[test]
fn by_a_bridge_without_uplink() {
    comes_back(
        &CutServer::beside(),
        "bridge without uplink",
        "[{type: ovs_bridge, name: br-ex, use_dhcp: false, addresses: [{ip_netmask: 10.77.0.2/24}]}, \
         {type: interface, name: up0, use_dhcp: false}]",
    );
}

#[test]
fn by_a_default_route_that_is_lost() {
    comes_back(
        &CutServer::routed(),
        "default route lost",
        "[{type: interface, name: up0, use_dhcp: false, addresses: [{ip_netmask: 198.18.0.2/24}]}]",
    );
}

#[test]
fn by_an_mtu_that_the_way_does_not_carry() {
    comes_back(
        &CutServer::behind_a_narrow_way(),
        "MTU above what the path carries",
        "[{type: interface, name: up0, use_dhcp: false, mtu: 9000, addresses: [{ip_netmask: 10.77.0.2/24}]}]",
    );
}

#[test]
fn by_a_bridge_that_takes_the_interface_and_has_no_address() {
    for kind in ["linux_bridge", "ovs_bridge"] {
        comes_back(
            &CutServer::beside(),
            &format!("management NIC enslaved wrongly ({kind})"),
            &format!(
                "[{{type: {kind}, name: br-ex, use_dhcp: false, members: [{{type: interface, name: up0}}]}}]"
            ),
        );
    }
}

#[test]
fn by_a_rule_that_sends_replies_elsewhere() {
    comes_back(
        &CutServer::beside(),
        "a rule that sends replies elsewhere",
        "[{type: interface, name: up0, use_dhcp: false, addresses: [{ip_netmask: 10.77.0.2/24}], \
         routes: [{default: true, next_hop: 10.77.0.99, table: 100}], \
         rules: [{rule: from 10.77.0.2 table 100}]}]",
    );
}

/// The switch that holds the interface dies while the change waits to be confirmed.
#[test]
fn a_change_that_cannot_be_restored_uses_the_fallback_config() {
    let CutServer { one, switch, .. } = CutServer::beside();
    let web1 = one.join_with(&switch);
    let OneServer { site, server } = one;
    let template = site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  net:\n    type: Muster::NetworkConfig\n    properties:\n      \
         node: web-1\n      confirm_timeout: {MIDDLE_WINDOW}\n      network_config: [{{type: ovs_bridge, name: br-ex, \
         use_dhcp: false, members: [{{type: interface, name: up0}}]}}]\n      fallback_config: [{{type: interface, \
         name: up0, use_dhcp: false, addresses: [{{ip_netmask: 10.77.0.222/24}}]}}]\n"
    ));
    let creating = site.spawn(&["stack", "create", "net", "-t", &template, "--wait"]);
    eventually("it is cut off", || {
        (!server.ip("-4 address show dev up0").contains("10.77.0.2/")).then_some(())
    });
    drop(switch);
    let ran = creating.finish();
    ran.refused(1, &["was not reached again", "the fallback_config is in force"]);
    assert!(server.ip("-4 address show dev up0").contains("10.77.0.222/24"));
    site.until_node("web-1", "online");
    drop(web1);
}

/// The document moves the way to the controller, and the server stays reachable by it.
fn moves(document: &str, check: impl Fn(&CutServer)) {
    let cut = CutServer::beside();
    let web1 = cut.join();
    let before = cut.state();
    let template = cut.template(document, LONG_WINDOW);
    cut.site.ok(&["stack", "create", "net", "-t", &template, "--wait"]);
    check(&cut);
    cut.site.until_node("web-1", "online");
    let moved = cut.state();
    cut.site.ok(&["stack", "update", "net", "-t", &template, "--wait"]);
    assert_eq!(cut.state(), moved);
    // Back again, which moves the way as well.
    cut.site.ok(&["stack", "delete", "net", "--wait"]);
    assert_eq!(cut.changed_since(&before), [""; 0]);
    cut.site.until_node("web-1", "online");
    drop(web1);
}

#[test]
fn the_management_address_moves_for_good() {
    moves(
        "[{type: interface, name: up0, use_dhcp: false, addresses: [{ip_netmask: 10.77.0.102/24}]}]",
        |cut| {
            let addresses = cut.server.ip("-4 address show dev up0");
            assert!(
                addresses.contains("10.77.0.102/24") && !addresses.contains("10.77.0.2/24"),
                "{addresses}"
            );
            let connections = cut.site.hub().run("ss -Htn state established");
            assert!(connections.contains("10.77.0.102:"), "{connections}");
        },
    );
}

#[test]
fn the_management_interface_moves_into_a_bridge() {
    for kind in ["linux_bridge", "ovs_bridge"] {
        let document = format!(
            "[{{type: {kind}, name: br-ex, use_dhcp: false, addresses: [{{ip_netmask: 10.77.0.2/24}}], \
             members: [{{type: interface, name: up0, primary: true}}]}}]"
        );
        moves(&document, |cut| {
            assert!(cut.server.ip("-4 address show dev br-ex").contains("10.77.0.2/24"));
        });
    }
}
