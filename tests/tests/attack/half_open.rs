//! Connections that begin and go no further.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use muster_testbed::eventually;
use muster_tests::site::Site;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::net::TcpSocket;

use crate::figures::{Measured, slowest_update};

/// Connections that an address keeps half open: as many as a controller ever gave to one.
const EACH: usize = 1024;
/// Connections that it keeps where it begins others all the time.
const FEW: usize = 64;
/// Connections that one address begins before it gives up.
const BEGUN_MAX: u64 = 200_000;

/// Addresses that keep connections half open until this is dropped.
struct HalfOpen {
    stop: Arc<AtomicBool>,
    begun: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl HalfOpen {
    /// Each connection says this first.
    fn start(site: &Site, hosts: &[u8], says: &[u8], pace: Pace) -> Self {
        let address: SocketAddr = site.address().parse().unwrap();
        let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let start = |host: &u8| {
            let from = IpAddr::from([127, 0, 0, *host]);
            let (stop, begun, says) = (Arc::clone(&stop), Arc::clone(&begun), says.to_vec());
            std::thread::spawn(move || hold(address, from, pace, &says, &stop, &begun))
        };
        let threads = hosts.iter().map(start).collect();
        Self { stop, begun, threads }
    }

    fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }
}

impl Drop for HalfOpen {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // What went wrong in it shows in what it began.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// The behaviour of an address once it has its connections.
#[derive(Clone, Copy)]
enum Pace {
    /// Keeps [`EACH`], and begins others for those that are ended.
    Keeps,
    /// Keeps [`FEW`], and begins others all the time.
    Hurries,
}

/// Until it is told to stop.
fn hold(to: SocketAddr, from: IpAddr, pace: Pace, says: &[u8], stop: &AtomicBool, begun: &AtomicU64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut held: Vec<TcpStream> = Vec::new();
    for _ in 0..BEGUN_MAX {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        match pace {
            Pace::Keeps if held.len() >= EACH => {
                held.retain_mut(is_open);
                breathe();
                continue;
            }
            Pace::Hurries if held.len() >= FEW => held.clear(),
            Pace::Keeps | Pace::Hurries => {}
        }
        let connect = async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(from, 0))?;
            socket.connect(to).await?.into_std()
        };
        if let Ok(mut socket) = runtime.block_on(connect) {
            // It may be over already.
            let _ = socket.write_all(says);
            held.push(socket);
            begun.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the pace of an attack; nothing waits for it")]
fn breathe() {
    std::thread::sleep(Duration::from_millis(2));
}

fn is_open(socket: &mut TcpStream) -> bool {
    loop {
        match socket.read(&mut [0; 4096]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// For thousands of sockets, here and in the controller.
fn many_files() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most.min(65_536), most).unwrap();
}

/// The first bytes of a client.
fn client_hello() -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

/// An agent that was there before comes back while `hosts` hold connections.
fn comes_back(attack: &'static str, hosts: &[u8], says: &[u8], pace: Pace) {
    many_files();
    let site = Site::start();
    let (mut web1, web2) = (site.join("web-1"), site.join("web-2"));
    let measured = Measured::begin(attack, &site, &web2);
    let half_open = HalfOpen::start(&site, hosts, says, pace);
    // Of one address a controller may take fewer.
    let all = (hosts.len() * EACH) as u64;
    eventually("all are half open", || (half_open.begun() >= all).then_some(()));
    web1.daemon.kill();
    site.until_node("web-1", "offline");
    let begun = Instant::now();
    web1.daemon.restart();
    site.until_node("web-1", "online");
    let back = begun.elapsed();
    let honest = slowest_update(&site, &web1, "attacked");
    println!(
        "{}",
        serde_json::json!({"bench": "attack", "attack": attack, "back_ms": back.as_secs_f64() * 1e3})
    );
    measured.end(&site, honest, half_open.begun());
}

#[test]
fn of_eight_addresses() {
    comes_back("half open, eight addresses", &[11, 12, 13, 14, 15, 16, 17, 18], b"", Pace::Keeps);
}

#[test]
fn of_the_servers_own_address() {
    comes_back("half open, the server's own address", &[1], b"", Pace::Keeps);
}

#[test]
fn with_one_greeting_again_and_again() {
    comes_back("ClientHello again and again", &[11, 12], &client_hello(), Pace::Hurries);
}

#[test]
fn of_eight_addresses_that_greet_and_say_no_more() {
    comes_back(
        "half open after a ClientHello",
        &[11, 12, 13, 14, 15, 16, 17, 18],
        &client_hello(),
        Pace::Keeps,
    );
}
