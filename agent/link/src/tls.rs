//! TLS 1.3 towards the controller. Its certificate is the site's or it is nobody's: the site's CA is the only
//! root, and names are not compared, for a controller has many addresses and only one CA.

use std::sync::Arc;

use muster_shared::join;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, ring::default_provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Sessions remembered for a cheaper reconnect: one for each address of the controller.
const SESSIONS: usize = 8;

/// How the site's CA is known.
#[derive(Clone, Debug)]
pub enum Root {
    Certificate(Vec<u8>),
    /// The server sends it along; this is its [`join::fingerprint`].
    Fingerprint([u8; 32]),
}

/// As a node with its certificate and key (PKCS#8), or as a joiner with none.
///
/// # Errors
/// The certificate and key do not fit each other.
pub fn client(root: Root, identity: Option<(&[u8], &[u8])>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(default_provider());
    let verifier = Arc::new(SiteVerifier { root, provider: Arc::clone(&provider) });
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
struct SiteVerifier {
    root: Root,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for SiteVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let root = match &self.root {
            Root::Certificate(der) => CertificateDer::from(der.as_slice()),
            Root::Fingerprint(wanted) => match intermediates.last() {
                Some(last) if join::fingerprint(last) == *wanted => last.clone(),
                _ => return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
            },
        };
        let mut roots = RootCertStore::empty();
        roots.add(root)?;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, intermediates, now, algorithms)?;
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

/// Random bytes of the system.
///
/// # Errors
/// It has none.
pub fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    default_provider().secure_random.fill(&mut bytes)?;
    Ok(bytes)
}
