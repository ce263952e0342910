//! A client of the API that sends any bytes over TLS, from any address of this machine.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use muster_testbed::PATIENCE;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use tokio::net::TcpSocket;

/// The most bytes of an answer that are read.
const ANSWER_MAX: u64 = 8 << 20;

pub type Connection = StreamOwned<ClientConnection, TcpStream>;

/// The address of the API, and the certificate that it must have.
pub struct Https {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    is_plain: bool,
    /// The address of clients.
    from: IpAddr,
}

/// The bytes that came before the connection ended.
#[derive(Debug)]
pub struct Heard(pub String);

impl Https {
    pub fn new(port: u16, ca: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
        let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        Self { address, tls: Arc::new(tls), is_plain: false, from: address.ip() }
    }

    /// The same, which speaks HTTP without TLS.
    pub fn without_tls(self) -> Self {
        Self { is_plain: true, ..self }
    }

    /// The same for clients at another address of this machine.
    pub fn from(&self, host: u8) -> Self {
        Self { from: IpAddr::from([127, 0, 0, host]), tls: Arc::clone(&self.tls), ..*self }
    }

    /// Before the handshake.
    pub fn tcp(&self) -> TcpStream {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stream = runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::new(self.from, 0)).unwrap();
            socket.connect(self.address).await.unwrap().into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn connect(&self) -> Connection {
        let name = rustls::pki_types::ServerName::from(self.address.ip());
        StreamOwned::new(ClientConnection::new(Arc::clone(&self.tls), name).unwrap(), self.tcp())
    }

    /// Sends these bytes, and reads until the connection ends.
    pub fn say(&self, bytes: &[u8]) -> Heard {
        if self.is_plain {
            let mut stream = self.tcp();
            drop(stream.write_all(bytes));
            return rest(stream);
        }
        let mut connection = self.connect();
        // A server that refuses may do so before it has read all.
        drop(connection.write_all(bytes).and_then(|()| connection.flush()));
        rest(connection)
    }

    /// Sends these bytes, and says that no more come.
    pub fn breaks_off(&self, bytes: &[u8]) -> Heard {
        let mut connection = self.connect();
        drop(connection.write_all(bytes));
        connection.conn.send_close_notify();
        drop(connection.flush());
        rest(connection)
    }

    /// A request as clients make it. The headers end in `\r\n` each.
    pub fn ask(&self, line: &str, headers: &str, body: &str) -> Heard {
        self.say(&request(line, headers, body))
    }
}

/// The bytes of a request after which the connection ends.
pub fn request(line: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("{line} HTTP/1.1\r\nhost: muster\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// Returns the bytes that come until the connection ends.
pub fn rest(connection: impl std::io::Read) -> Heard {
    let mut heard = Vec::new();
    // Many end a refused connection without a farewell.
    drop(connection.take(ANSWER_MAX).read_to_end(&mut heard));
    Heard(String::from_utf8_lossy(&heard).into_owned())
}

impl Heard {
    /// Returns the status of the first answer; 0 if there is none.
    pub fn status(&self) -> u16 {
        self.statuses().first().copied().unwrap_or(0)
    }

    /// Returns the status of each answer on the connection.
    pub fn statuses(&self) -> Vec<u16> {
        let heads = self.0.match_indices("HTTP/1.1 ").chain(self.0.match_indices("HTTP/1.0 "));
        heads
            .filter_map(|(at, line)| self.0.get(at + line.len()..at + line.len() + 3)?.parse().ok())
            .collect()
    }

    /// A header of the first answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        let head = self.0.split("\r\n\r\n").next()?;
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn body(&self) -> &str {
        self.0.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(self.body()).unwrap_or(Value::Null)
    }
}
