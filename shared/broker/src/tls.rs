//! TLS 1.3 towards a broker. Its certificate must come from one CA, known by its fingerprint, and be for the name by
//! which the broker is reached: that CA may have other servers.

use std::sync::Arc;

use muster_shared::join;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring::default_provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Sessions remembered for a cheaper reconnect: one for each address of a broker.
const SESSIONS: usize = 8;

/// For brokers of a CA with this [`fingerprint`](join::fingerprint); as a client with a certificate and key (PKCS#8),
/// or with none.
///
/// # Errors
/// Certificate and key do not fit each other.
pub fn client_config(
    ca_fingerprint: [u8; 32],
    identity: Option<(&[u8], &[u8])>,
) -> Result<ClientConfig, Error> {
    let provider = Arc::new(default_provider());
    let verifier = Arc::new(BrokerVerifier { ca_fingerprint, provider: Arc::clone(&provider) });
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config.with_client_auth_cert(
            vec![CertificateDer::from(certificate.to_vec())],
            PrivateKeyDer::Pkcs8(key.to_vec().into()),
        )?,
    };
    config.resumption = Resumption::in_memory_sessions(SESSIONS);
    Ok(config)
}

#[derive(Debug)]
struct BrokerVerifier {
    ca_fingerprint: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for BrokerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut sent = intermediates.iter().chain([end_entity]);
        let root = sent.find(|sent| join::fingerprint(sent) == self.ca_fingerprint);
        let root = root.ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let mut roots = RootCertStore::empty();
        roots.add(root.clone())?;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, intermediates, now, algorithms)?;
        verify_server_name(&certificate, server_name)?;
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
        let name = ServerName::try_from(host).unwrap();
        let ca_fingerprint = join::fingerprint(ca);
        let verifier = BrokerVerifier { ca_fingerprint, provider: Arc::new(default_provider()) };
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
    fn a_broker_may_be_known_by_its_number() {
        let (ca, own) = broker("10.0.0.7");
        assert!(verify("10.0.0.7", &ca, &own, std::slice::from_ref(&ca)).is_ok());
        assert!(verify("10.0.0.8", &ca, &own, std::slice::from_ref(&ca)).is_err());
    }
}
