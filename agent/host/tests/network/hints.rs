//! Hints of foreign changes, from the kernel and from Open vSwitch.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use muster_host::net::{Change, HostConfig, Monitor, Network};
use tokio::time::timeout;

use crate::server::NetworkServer;

/// Far longer than any hint takes: what does not come by then does not come.
const COMES: Duration = Duration::from_secs(20);
/// Longer than hints are held back.
const QUIET: Duration = Duration::from_millis(700);

async fn next(monitor: &mut Monitor, what: &str) -> Change {
    timeout(COMES, monitor.change()).await.unwrap_or_else(|_| panic!("no hint of {what}"))
}

/// The hints that come until nothing has come for a while.
async fn quiet(monitor: &mut Monitor) {
    while timeout(QUIET, monitor.change()).await.is_ok() {}
}

/// Runs `change` and waits for its hint; there was none before.
async fn hinted(monitor: &mut Monitor, what: &str, change: impl FnOnce()) -> Change {
    quiet(monitor).await;
    change();
    next(monitor, what).await
}

#[test]
fn the_kernel_tells_of_links_addresses_routes_and_rules() {
    let server = NetworkServer::new();
    let other = NetworkServer::new();
    server.plug("eth0", &other, "peer");
    server.inside(async |network| {
        let mut monitor = Monitor::open(&network);
        // Its own address would come a second or two after it is up.
        server.ip("link set eth0 addrgenmode none");
        other.ip("link set peer up");
        for (words, wanted) in [
            ("rule add from 10.2.0.0/16 table 7", Change::Other),
            ("-6 rule add from fd02::/16 table 7", Change::Other),
            ("route add 10.3.0.0/16 dev lo", Change::Other),
            ("-6 route add fd03::/16 dev lo", Change::Other),
            ("rule del from 10.2.0.0/16 table 7", Change::Other),
            ("route del 10.3.0.0/16 dev lo", Change::Other),
            ("link set eth0 up", Change::Links),
            ("addr add 10.1.0.1/24 dev eth0", Change::Links),
            ("addr add fd00::1/64 dev eth0 nodad", Change::Links),
            ("addr del 10.1.0.1/24 dev eth0", Change::Links),
        ] {
            let mut change = hinted(&mut monitor, words, || drop(server.ip(words))).await;
            // A route of the address may be told first.
            while change != wanted {
                change = next(&mut monitor, words).await;
            }
        }
        let mut change = hinted(&mut monitor, "the carrier", || drop(other.ip("link set peer down"))).await;
        // Changes of the routes over it may be reported first as well.
        while change != Change::Links {
            change = next(&mut monitor, "the carrier").await;
        }
    });
}

#[test]
fn lost_kernel_events_are_a_hint_and_so_is_the_next_change() {
    let server = NetworkServer::new();
    server.inside(async |network| {
        let mut monitor = Monitor::open(&network);
        quiet(&mut monitor).await;
        // While nobody reads: this thread is the only one.
        let routes: String =
            (0..20_000).map(|n| format!("route add 10.{}.{}.0/24 dev lo\n", n / 256, n % 256)).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(routes.as_bytes()).unwrap();
        server.ip(&format!("-batch {}", file.path().display()));
        assert_eq!(
            next(&mut monitor, "a storm").await,
            Change::Links,
            "what was lost may have been about links"
        );
        let change =
            hinted(&mut monitor, "a route", || drop(server.ip("route del 10.0.1.0/24 dev lo"))).await;
        assert_eq!(change, Change::Other);
    });
}

/// A database of Open vSwitch without a switch, in a directory that is made with it.
struct Database {
    directory: PathBuf,
    server: Option<Child>,
}

impl Database {
    fn start(&mut self) {
        std::fs::create_dir_all(&self.directory).unwrap();
        let file = self.directory.join("conf.db");
        if !file.exists() {
            let schema = "/usr/share/openvswitch/vswitch.ovsschema";
            assert!(
                Command::new("ovsdb-tool").arg("create").arg(&file).arg(schema).status().unwrap().success()
            );
        }
        let mut server = Command::new("ovsdb-server");
        server.arg(&file).arg(format!("--remote=punix:{}", self.socket().display()));
        for name in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
            server.env(name, &self.directory);
        }
        self.server = Some(server.stderr(Stdio::null()).spawn().unwrap());
        self.vsctl("--retry init");
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("db.sock")
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    fn vsctl(&self, words: &str) {
        let mut command = Command::new("ovs-vsctl");
        command.arg(format!("--db=unix:{}", self.socket().display())).args(["--timeout=20", "--no-wait"]);
        assert!(command.args(words.split(' ')).status().unwrap().success(), "{words}");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.stop();
    }
}

#[test]
fn the_switch_tells_also_when_it_comes_later_or_again() {
    let server = NetworkServer::new();
    let directory = tempfile::tempdir().unwrap();
    let mut database = Database { directory: directory.path().join("run/openvswitch"), server: None };
    server.inside(async |_| {
        let config = HostConfig { ovs_db: Some(database.socket()), ..HostConfig::default() };
        let mut monitor = Monitor::open(&Network::new(config));
        for again in ["first", "second"] {
            hinted(&mut monitor, &format!("the {again} start"), || database.start()).await;
            for words in
                ["add-br br0", "add-port br0 p0", "set Port p0 tag=7", "del-port br0 p0", "del-br br0"]
            {
                assert_eq!(hinted(&mut monitor, words, || database.vsctl(words)).await, Change::Other);
            }
            database.vsctl("add-br br0");
            quiet(&mut monitor).await;
            database.vsctl("set Interface br0 statistics:rx_bytes=7");
            assert!(timeout(QUIET, monitor.change()).await.is_err(), "counters are no hint");
            database.vsctl("del-br br0");
            hinted(&mut monitor, "its end", || database.stop()).await;
        }
    });
}
