//! Decides which certificates are trusted: of a broker, and where none is in between, of the controller itself.
//! TLS 1.3.
//!
//! Absent: which clients' certificates the controller trusts (`controller/src/link/direct/tls.rs`).

use std::sync::{Arc, Mutex, PoisonError};

use muster_shared::join;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring::default_provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Sessions remembered for a cheaper reconnect: one for each address of a broker.
const SESSIONS: usize = 8;

/// The servers that are trusted.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Brokers of a CA with this [`fingerprint`](join::fingerprint), which they send along, by the name by which they
    /// are reached: that CA may have other servers.
    Broker([u8; 32]),
    /// The site's controller. Names are not compared, for a controller has many addresses and only one CA.
    Controller(Root),
    /// Servers of these CAs, by the name by which they are reached.
    Host(Arc<RootCertStore>),
}

/// The way in which the site's CA is known.
#[derive(Clone, Debug)]
pub enum Root {
    Certificate(Vec<u8>),
    /// The server sends it along; this is its [`join::fingerprint`].
    Fingerprint([u8; 32]),
}

/// The certificates that a server has shown, its own first.
pub type Shown = Arc<Mutex<Vec<CertificateDer<'static>>>>;

/// A client of these servers, with a certificate and key (PKCS#8), or with none.
///
/// # Errors
/// Certificate and key do not fit each other.
pub fn client_config(trust: Trust, identity: Option<(&[u8], &[u8])>) -> Result<ClientConfig, Error> {
    let identity = identity.map(|(certificate, key)| {
        (vec![CertificateDer::from(certificate.to_vec())], PrivateKeyDer::Pkcs8(key.to_vec().into()))
    });
    config(trust, identity, None)
}

/// As [`client_config`], with a certificate, those of the CAs between it and a root, and its key.
///
/// # Errors
/// Certificate and key do not fit each other.
pub fn client_config_with(
    trust: Trust,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> Result<ClientConfig, Error> {
    config(trust, identity, None)
}

/// As [`client_config`] without a certificate, for a look at a server. What the server shows is left in `shown`, also
/// where it is not trusted.
///
/// # Errors
/// TLS cannot be set up.
pub fn look_config(trust: Trust, shown: Shown) -> Result<ClientConfig, Error> {
    config(trust, None, Some(shown))
}

fn config(
    trust: Trust,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    shown: Option<Shown>,
) -> Result<ClientConfig, Error> {
    let provider = Arc::new(default_provider());
    let verifier = Arc::new(Verifier { trust, provider: Arc::clone(&provider), shown });
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some((chain, key)) => config.with_client_auth_cert(chain, key)?,
    };
    config.resumption = Resumption::in_memory_sessions(SESSIONS);
    Ok(config)
}

impl Trust {
    /// The CAs that count for a server that shows these certificates.
    fn roots(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Result<Arc<RootCertStore>, Error> {
        let root = match self {
            Trust::Host(roots) => return Ok(Arc::clone(roots)),
            Trust::Controller(Root::Certificate(der)) => CertificateDer::from(der.as_slice()),
            Trust::Broker(fingerprint) | Trust::Controller(Root::Fingerprint(fingerprint)) => {
                let mut sent = intermediates.iter().chain([end_entity]);
                let root = sent.find(|sent| join::fingerprint(sent) == *fingerprint);
                root.ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?.clone()
            }
        };
        let mut roots = RootCertStore::empty();
        roots.add(root)?;
        Ok(Arc::new(roots))
    }
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
    /// The place for the certificate that the server shows.
    shown: Option<Shown>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(shown) = &self.shown {
            let all = [end_entity].into_iter().chain(intermediates);
            let all = all.map(|der| der.clone().into_owned()).collect();
            *shown.lock().unwrap_or_else(PoisonError::into_inner) = all;
        }
        let roots = self.trust.roots(end_entity, intermediates)?;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, intermediates, now, algorithms)?;
        match &self.trust {
            Trust::Broker(_) | Trust::Host(_) => verify_server_name(&certificate, server_name)?,
            Trust::Controller(_) => {}
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    /// A CA, and a certificate of it for a broker of this name.
    fn broker(name: &str) -> (CertificateDer<'static>, CertificateDer<'static>) {
        let (ca_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_der = ca.self_signed(&ca_key).unwrap().der().clone();
        let issuer = Issuer::new(ca, ca_key);
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (ca_der, params.signed_by(&key, &issuer).unwrap().der().clone())
    }

    fn verify(
        host: &'static str,
        ca: &CertificateDer<'_>,
        own: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
    ) -> Result<(), Error> {
        verify_as(Trust::Broker(join::fingerprint(ca)), host, own, sent)
    }

    fn verify_as(
        trust: Trust,
        host: &'static str,
        own: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
    ) -> Result<(), Error> {
        let name = ServerName::try_from(host).unwrap();
        let verifier = Verifier { trust, provider: Arc::new(default_provider()), shown: None };
        verifier.verify_server_cert(own, sent, &name, &[], UnixTime::now()).map(|_| ())
    }

    #[test]
    fn a_broker_is_of_its_ca_and_of_its_name() {
        let ((ca, own), (other, _)) = (broker("mq.example.org"), broker("mq.example.org"));
        assert!(verify("mq.example.org", &ca, &own, std::slice::from_ref(&ca)).is_ok());
        assert!(
            verify("mq.example.org", &ca, &own, &[other.clone(), ca.clone()]).is_ok(),
            "wherever it is sent"
        );
        for (host, trusted, sent, what) in [
            ("other.example.org", &ca, vec![ca.clone()], "another name"),
            ("mq.example.org", &other, vec![ca.clone()], "another CA"),
            ("mq.example.org", &other, vec![ca.clone(), other.clone()], "a CA that did not sign it"),
            ("mq.example.org", &ca, Vec::new(), "a CA that is not sent along"),
        ] {
            assert!(verify(host, trusted, &own, &sent).is_err(), "{what}");
        }
    }

    #[test]
    fn a_host_is_of_one_of_the_cas_and_of_its_name() {
        let ((ca, own), (other, _)) = (broker("c1.example.org"), broker("c1.example.org"));
        let trust = |roots: &[&CertificateDer<'static>]| {
            let mut store = RootCertStore::empty();
            roots.iter().for_each(|root| store.add((*root).clone()).unwrap());
            Trust::Host(Arc::new(store))
        };
        assert!(verify_as(trust(&[&other, &ca]), "c1.example.org", &own, &[]).is_ok());
        for (roots, host, what) in [
            (&[&ca][..], "c2.example.org", "another name"),
            (&[&other], "c1.example.org", "another CA"),
            (&[], "c1.example.org", "no CA"),
        ] {
            assert!(verify_as(trust(roots), host, &own, std::slice::from_ref(&ca)).is_err(), "{what}");
        }
    }

    #[test]
    fn what_is_not_trusted_is_shown_all_the_same() {
        let ((ca, own), (other, _)) = (broker("mq.example.org"), broker("mq.example.org"));
        let shown = Shown::default();
        let trust = Trust::Controller(Root::Certificate(other.to_vec()));
        let verifier =
            Verifier { trust, provider: Arc::new(default_provider()), shown: Some(Arc::clone(&shown)) };
        let name = ServerName::try_from("x.example.org").unwrap();
        let sent = std::slice::from_ref(&ca);
        assert!(verifier.verify_server_cert(&own, sent, &name, &[], UnixTime::now()).is_err());
        assert_eq!(*shown.lock().unwrap(), [own, ca]);
    }

    #[test]
    fn a_broker_may_be_known_by_its_number() {
        let (ca, own) = broker("10.0.0.7");
        assert!(verify("10.0.0.7", &ca, &own, std::slice::from_ref(&ca)).is_ok());
        assert!(verify("10.0.0.8", &ca, &own, std::slice::from_ref(&ca)).is_err());
    }
    #[test]
    fn the_controller_is_of_its_ca_under_any_name() {
        let ((ca, own), (other, _)) = (broker("mq.example.org"), broker("mq.example.org"));
        let by_fingerprint =
            |ca: &CertificateDer<'_>| Trust::Controller(Root::Fingerprint(join::fingerprint(ca)));
        let by_certificate = |ca: &CertificateDer<'_>| Trust::Controller(Root::Certificate(ca.to_vec()));
        let sent = std::slice::from_ref(&ca);
        assert!(verify_as(by_fingerprint(&ca), "10.0.0.7", &own, sent).is_ok());
        assert!(verify_as(by_certificate(&ca), "10.0.0.7", &own, &[]).is_ok());
        assert!(verify_as(by_fingerprint(&ca), "10.0.0.7", &own, &[]).is_err(), "it must be sent along");
        for trust in [by_fingerprint(&other), by_certificate(&other)] {
            assert!(verify_as(trust, "10.0.0.7", &own, sent).is_err(), "another site's");
        }
    }
}
