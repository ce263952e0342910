//! TLS 1.3 with the site's CA on both sides. A client may come without a certificate; what it may do then is
//! not decided here.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use muster_shared::NodeId;
use rustls::crypto::ring::{Ticketer, default_provider, sign::any_supported_type};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::CertificateDer;
use tokio_rustls::TlsAcceptor;
use x509_parser::extensions::GeneralName;

use crate::pki::Pki;

/// The server's side of TLS. `names` are those of the server's certificate besides this host's.
pub fn acceptor(pki: Arc<Pki>, names: Vec<String>) -> io::Result<TlsAcceptor> {
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(pki.ca_der().clone()).map_err(io::Error::other)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(io::Error::other)?;
    let certificate = Mutex::new(Current::make(&pki, &names)?);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(Resolver { pki, names, certificate }));
    // Resumed, a handshake costs half; the ticket is with the client, so nothing is kept per node.
    config.ticketer = Ticketer::new().map_err(io::Error::other)?;
    config.send_tls13_tickets = 1;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// What a client's certificate says.
pub struct Named {
    /// Which node it is.
    pub node: NodeId,
    /// Of the certificate.
    pub serial: Vec<u8>,
}

/// Which node a client's certificate names. TLS has verified its chain, but maybe when the session that is now
/// resumed began: so its time is looked at again.
pub fn node_of(certificate: &CertificateDer<'_>) -> Option<Named> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let names = &parsed.subject_alternative_name().ok()??.value.general_names;
    match names.as_slice() {
        [GeneralName::DNSName(name)] if parsed.validity().is_valid() => {
            Some(Named { node: name.parse().ok()?, serial: parsed.raw_serial().to_vec() })
        }
        _ => None,
    }
}

/// Gives the server's certificate, made anew before it runs out.
#[derive(Debug)]
struct Resolver {
    pki: Arc<Pki>,
    names: Vec<String>,
    certificate: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    renew_at: u64,
}

impl Current {
    fn make(pki: &Pki, names: &[String]) -> io::Result<Self> {
        let made = pki.server(names).map_err(io::Error::other)?;
        let key = any_supported_type(&made.key).map_err(io::Error::other)?;
        Ok(Self { key: Arc::new(CertifiedKey::new(made.chain, key)), renew_at: made.renew_at })
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut current = self.certificate.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if now >= current.renew_at {
            match Current::make(&self.pki, &self.names) {
                Ok(new) => *current = new,
                Err(error) => tracing::error!(%error, "cannot renew the server's certificate"),
            }
        }
        Some(Arc::clone(&current.key))
    }
}
