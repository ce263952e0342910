//! TLS to the PostgreSQL server, by rustls as everywhere, and the checks of its certificate.
//!
//! Absent: which check `sslmode` asks for (`server.rs`).

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresError;

/// The check of the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Nothing: TLS keeps out who only listens.
    Nothing,
    /// By whom it was made.
    Chain,
    /// And for which name.
    ChainAndName,
}

/// Makes TLS sessions.
#[derive(Clone)]
pub(super) struct Tls(MakeRustlsConnect);

impl Tls {
    pub fn new(check: Check, root_certificates: Option<&Path>) -> Result<Self, PostgresError> {
        let provider = Arc::new(default_provider());
        let chain = match (check, root_certificates) {
            (Check::Nothing, _) | (_, None) => None,
            (Check::Chain | Check::ChainAndName, Some(file)) => {
                let verifier = WebPkiServerVerifier::builder_with_provider(
                    Arc::new(roots(file)?),
                    Arc::clone(&provider),
                );
                let verifier = verifier.build();
                Some(verifier.map_err(|error| PostgresError::Url(format!("{}: {error}", file.display())))?)
            }
        };
        let verifier = Verifier { chain, check, provider: Arc::clone(&provider) };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| PostgresError::Url(format!("TLS: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Self(MakeRustlsConnect::new(config)))
    }
}

fn roots(file: &Path) -> Result<RootCertStore, PostgresError> {
    let wrong = |why: &dyn std::fmt::Display| {
        PostgresError::Url(format!("sslrootcert {} cannot be used: {why}", file.display()))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
        roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"it has no certificate"));
    }
    Ok(roots)
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = <MakeRustlsConnect as MakeTlsConnect<S>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<S>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<S>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, Self::Error> {
        // A Unix socket has no name, and no TLS.
        let host = if host.is_empty() { "localhost" } else { host };
        MakeTlsConnect::<S>::make_tls_connect(&mut self.0, host)
    }
}

#[derive(Debug)]
struct Verifier {
    chain: Option<Arc<WebPkiServerVerifier>>,
    check: Check,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == Check::Chain => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
