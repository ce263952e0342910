//! A look at a number of the controller's address: TCP, the certificate that is shown there, and packets of full size.
//!
//! The look shows no certificate of this node and says nothing over the connection: the running agent's own connection
//! goes on, and an impostor learns nothing.
//!
//! Absent: what an operator does about it (`agent/src/doctor/controllers.rs`). Absent too: whether the controller lets
//! this node in. Only the agent's own connection shows that, for a second one would end it.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use muster_broker::{Shown, Trust, look_config};
use muster_shared::join::Address;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::clock::{certificate_error, wrong_clock};

/// For a connection of TCP, and for a handshake of TLS: controllers give a client more.
const STEP_WITHIN: Duration = Duration::from_secs(4);
/// The most bytes of a greeting: controllers take 16 KiB before a client is let in.
const GREETING_MAX: u32 = 12 * 1024;
/// A greeting without what makes it long has fewer bytes.
const GREETING_LEAST: u32 = 512;
/// The longest name of a protocol.
const PROTOCOL_MAX: usize = 255;

/// The stage that the look reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// There is no TCP connection.
    Nothing { why: String },
    /// TLS did not come about.
    Tcp { why: String },
    /// The certificate there is not the site's, or not valid.
    Untrusted {
        distrust: Distrust,
        /// The names on the certificates, the server's own first.
        shown: Vec<String>,
    },
    Trusted {
        /// The names on the certificates, the server's own first.
        shown: Vec<String>,
        full_size: FullSize,
    },
}

/// The reason why a certificate is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// The CA that this node knows did not sign it.
    OtherIssuer,
    /// The certificate is not valid now; the text says what the clocks do.
    Clock(String),
    /// The certificate is a broker's, for another name.
    OtherName,
    Other(String),
}

/// Whether packets as large as the connection allows arrive there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FullSize {
    /// Full packets arrive; the bytes of TCP in each.
    Arrives(u32),
    /// Small packets arrive and full ones do not; the bytes of TCP in each.
    Lost(u32),
    /// Full packets are too large to be tried, as on loopback.
    TooLarge(u32),
    Unknown(String),
}

/// Looks once; ends within half a minute.
pub async fn look(trust: &Trust, address: &Address, number: SocketAddr) -> Reached {
    let stream = match connect(number).await {
        Ok(stream) => stream,
        Err(why) => return Reached::Nothing { why },
    };
    let shown = Shown::default();
    let config = match look_config(trust.clone(), Arc::clone(&shown)) {
        Ok(config) => config,
        Err(error) => return Reached::Tcp { why: error.to_string() },
    };
    let name = server_name(trust, address, number);
    let segment = SockRef::from(&stream).tcp_mss();
    let greeted = handshake(config.clone(), &name, stream).await;
    let shown = names(&shown.lock().unwrap_or_else(PoisonError::into_inner));
    match greeted {
        Ok(()) => {
            let full_size = match segment {
                Ok(segment) => full_size(config, &name, number, segment).await,
                Err(error) => FullSize::Unknown(error.to_string()),
            };
            Reached::Trusted { shown, full_size }
        }
        Err(Failed::NotConnected | Failed::Silent) => Reached::Tcp { why: "no answer".into() },
        Err(Failed::Io(error)) => match distrust(&error) {
            Some(distrust) => Reached::Untrusted { distrust, shown },
            None => Reached::Tcp { why: error.to_string() },
        },
    }
}

async fn connect(number: SocketAddr) -> Result<TcpStream, String> {
    let connected = timeout(STEP_WITHIN, TcpStream::connect(number)).await;
    connected.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())
}

/// A controller's certificate has any name, and a broker's the one by which it is known.
fn server_name(trust: &Trust, address: &Address, number: SocketAddr) -> ServerName<'static> {
    let by_name = ServerName::try_from(address.host().to_owned());
    match trust {
        Trust::Broker(_) | Trust::Host(_) => by_name.unwrap_or_else(|_| number.ip().into()),
        Trust::Controller(_) => number.ip().into(),
    }
}

/// The failure of a handshake.
enum Failed {
    NotConnected,
    Silent,
    Io(io::Error),
}

async fn handshake(
    config: ClientConfig,
    name: &ServerName<'static>,
    stream: TcpStream,
) -> Result<(), Failed> {
    let connecting = TlsConnector::from(Arc::new(config)).connect(name.clone(), stream);
    match timeout(STEP_WITHIN, connecting).await {
        Ok(connected) => connected.map(drop).map_err(Failed::Io),
        Err(_) => Err(Failed::Silent),
    }
}

/// Says hello again, in so many bytes that at least one packet has to be full. Any answer shows that it arrived, also a
/// refusal.
async fn full_size(
    config: ClientConfig,
    name: &ServerName<'static>,
    number: SocketAddr,
    segment: u32,
) -> FullSize {
    if segment + GREETING_LEAST > GREETING_MAX {
        return FullSize::TooLarge(segment);
    }
    let mut large = config.clone();
    large.alpn_protocols = padding(segment);
    let greet = async |config| {
        let stream = connect(number).await.map_err(|_| Failed::NotConnected)?;
        handshake(config, name, stream).await
    };
    let busy = || FullSize::Unknown("it did not answer small packets either, for a moment".into());
    match greet(large).await {
        Ok(()) | Err(Failed::Io(_)) => FullSize::Arrives(segment),
        Err(Failed::NotConnected) => busy(),
        // The controller may have become busy meanwhile, or have ended.
        Err(Failed::Silent) => match greet(config).await {
            Ok(()) => FullSize::Lost(segment),
            Err(_) => busy(),
        },
    }
}

/// Names of protocols that nobody speaks, of at least that many bytes.
fn padding(bytes: u32) -> Vec<Vec<u8>> {
    let count = usize::try_from(bytes).unwrap_or(usize::MAX) / PROTOCOL_MAX + 1;
    let name = |number: usize| {
        let mut name = format!("muster-doctor-{number:04}-").into_bytes();
        name.resize(PROTOCOL_MAX, b'x');
        name
    };
    (0..count).map(name).collect()
}

fn distrust(error: &(dyn Error + 'static)) -> Option<Distrust> {
    if let Some(clocks) = wrong_clock(error) {
        return Some(Distrust::Clock(clocks));
    }
    Some(match certificate_error(error)? {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => Distrust::OtherIssuer,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Distrust::OtherName
        }
        other => Distrust::Other(other.to_string()),
    })
}

/// The names on these certificates, each once; one that cannot be read is left out.
fn names(shown: &[CertificateDer<'_>]) -> Vec<String> {
    let mut names: Vec<String> = shown.iter().filter_map(subject).collect();
    names.dedup();
    names
}

/// The common name of a certificate's subject.
fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    // A store of roots keeps the subject of each, whatever the certificate is for.
    let mut store = RootCertStore::empty();
    store.add(certificate.clone().into_owned()).ok()?;
    common_name(store.roots.first()?.subject.as_ref())
}

/// In a Name of RFC 5280: the object identifier 2.5.4.3, then a string of less than 128 bytes.
fn common_name(name: &[u8]) -> Option<String> {
    const IDENTIFIER: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
    let at = name.windows(IDENTIFIER.len()).position(|window| window == IDENTIFIER)? + IDENTIFIER.len();
    let [_kind, length, rest @ ..] = name.get(at..)? else { return None };
    let text = rest.get(..usize::from(*length).min(127))?;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests;
