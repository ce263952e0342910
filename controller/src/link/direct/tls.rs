//! TLS 1.3 with the site's CA on both sides, and when the server's certificate is renewed. A client may connect without
//! a certificate.
//!
//! Absent: the rights of a client (`connection.rs`), and how long a certificate is valid (`pki.rs`).

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use muster_shared::NodeId;
use muster_shared::time::utc;
use rustls::crypto::ring::{Ticketer, default_provider, sign::any_supported_type};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, CertificateError, RootCertStore, ServerConfig};
use rustls_pki_types::CertificateDer;
use tokio_rustls::TlsAcceptor;
use x509_parser::extensions::GeneralName;

use crate::pki::Pki;

/// The server's side of TLS. `names` are names for the server's certificate in addition to this host's.
pub fn acceptor(pki: Arc<Pki>, names: Vec<String>) -> io::Result<TlsAcceptor> {
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(pki.ca_der().clone()).map_err(io::Error::other)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(io::Error::other)?;
    let certificate = site_certificate(pki, names)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificate);
    // A resumed handshake costs half; the client keeps the ticket, so the server stores nothing per node.
    config.ticketer = Ticketer::new().map_err(io::Error::other)?;
    config.send_tls13_tickets = 1;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A certificate of the site's CA, which is renewed by itself.
pub fn site_certificate(pki: Arc<Pki>, names: Vec<String>) -> io::Result<Arc<dyn ResolvesServerCert>> {
    let certificate = Mutex::new(Current::make(&pki, &names)?);
    Ok(Arc::new(Resolver { pki, names, certificate }))
}

/// Node and serial number of a client's certificate.
pub struct Named {
    /// The node in the certificate.
    pub node: NodeId,
    pub serial: Vec<u8>,
}

/// The node that a client's certificate names. TLS has verified its chain, but perhaps when the
/// session began that is now resumed. So this checks the validity period again.
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

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// If a handshake failed because one side's certificate is not valid by the other's clock: which side, for
/// the operator.
pub fn wrong_clock(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let ours = utc(now());
    let (what, then) = match error {
        rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. }) => {
            ("begins", not_before)
        }
        rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
            ("ended", not_after)
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => {
            return Some(format!(
                "by that server's clock the controller's certificate is not valid, and this controller's clock says {ours}: \
                 set the clock that is wrong"
            ));
        }
        _ => return None,
    };
    Some(format!(
        "this controller's clock says {ours}, and the server's certificate {what} {}: its agent renews it by itself; if \
         this controller's clock is wrong, set it",
        utc(then.as_secs())
    ))
}

/// Steps of a clock back that a certificate outlives: NTP's.
const CLOCK_STEP: u64 = 60;

/// Provides the server's certificate, and renews it before it expires or when the clock was set back.
#[derive(Debug)]
struct Resolver {
    pki: Arc<Pki>,
    names: Vec<String>,
    certificate: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    /// When the certificate was made, by the clock of that time.
    made: u64,
    renew_at: u64,
}

impl Current {
    fn make(pki: &Pki, names: &[String]) -> io::Result<Self> {
        let made = pki.server(names).map_err(io::Error::other)?;
        let key = any_supported_type(&made.key).map_err(io::Error::other)?;
        let key = Arc::new(CertifiedKey::new(made.chain, key));
        Ok(Self { key, made: now(), renew_at: made.renew_at })
    }

    /// The certificate ends soon, or was made when the clock was ahead: then it may not yet be
    /// valid by the clocks of nodes.
    fn is_due(&self, now: u64) -> bool {
        now >= self.renew_at || now + CLOCK_STEP < self.made
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut current = self.certificate.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_due(now()) {
            match Current::make(&self.pki, &self.names) {
                Ok(new) => *current = new,
                Err(error) => tracing::error!(%error, "cannot renew the server's certificate"),
            }
        }
        Some(Arc::clone(&current.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_a_clock_that_was_ahead_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::open(dir.path()).unwrap();
        let (day, now) = (24 * 3600, now());
        let made = Current::make(&pki, &[]).unwrap();
        for (then, is_due) in [(now, false), (now - 30, false), (now - day, true), (now - 30 * day, true)] {
            assert_eq!(made.is_due(then), is_due, "{} s back", now - then);
        }
        assert!(!made.is_due(now + 59 * day) && made.is_due(now + 61 * day));
    }

    #[test]
    fn clocks_are_named() {
        let of = |error: rustls::Error| wrong_clock(&io::Error::other(error)).unwrap_or_default();
        let at =
            |seconds| rustls_pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let early = CertificateError::NotValidYetContext { time: at(5), not_before: at(1_732_369_352) };
        let said = of(rustls::Error::InvalidCertificate(early));
        assert!(said.contains("the server's certificate begins 2024-11-23 13:42 UTC"), "{said}");
        let late = CertificateError::ExpiredContext { time: at(5), not_after: at(0) };
        let said = of(rustls::Error::InvalidCertificate(late));
        assert!(said.contains("ended 1970-01-01 00:00 UTC"), "{said}");
        let said = of(rustls::Error::AlertReceived(AlertDescription::CertificateExpired));
        assert!(said.contains("by that server's clock"), "{said}");
        assert_eq!(of(rustls::Error::DecryptError), "");
    }
}
