//! The certificate that the API shows instead of one of the site's CA: a chain and its key, from files. Decides that both
//! fit each other. SIGHUP reads them again; if they are wrong then, the ones from before stay.
//!
//! Absent: the site's own certificate (`link/direct/tls.rs`), and connections (`tls.rs`).

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring::sign::any_supported_type;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{Error as PemError, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use x509_parser::parse_x509_certificate;

/// The reason why a certificate cannot be shown.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A file cannot be read, or has nothing of the kind.
    #[error("{setting} {path}: {why}: name a file with {wanted}")]
    File {
        setting: &'static str,
        path: PathBuf,
        why: String,
        /// The content that the file must have.
        wanted: &'static str,
    },
    /// The key is not the certificate's.
    #[error(
        "controller.api_key {key} does not belong to the first certificate in controller.api_certificate {certificate}: \
         name the key that this certificate was made for; the server's own certificate comes first in the file"
    )]
    Mismatch { certificate: PathBuf, key: PathBuf },
}

/// A chain and its key, in two files.
#[derive(Debug)]
pub struct OwnCertificate {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<CertifiedKey>>,
}

impl OwnCertificate {
    /// Reads both files.
    ///
    /// # Errors
    /// [`CertificateError`]
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let current = RwLock::new(Arc::new(read(certificate, key)?));
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// Reads both files again. The next connections get the new certificate.
    ///
    /// # Errors
    /// [`CertificateError`]; the one from before stays.
    pub fn reload(&self) -> Result<(), CertificateError> {
        let fresh = Arc::new(read(&self.certificate, &self.key)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The certificates in a file of PEM.
///
/// # Errors
/// [`CertificateError::File`]
pub fn certificates(
    setting: &'static str,
    path: &Path,
    wanted: &'static str,
) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let wrong = |why: String| CertificateError::File { setting, path: path.to_owned(), why, wanted };
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(reason(&error)))?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(reason(&error)))?;
    if found.is_empty() { Err(wrong("there is no certificate in it".to_owned())) } else { Ok(found) }
}

fn read(certificate: &Path, key: &Path) -> Result<CertifiedKey, CertificateError> {
    const SETTING: &str = "controller.api_certificate";
    const CHAIN: &str = "the server's certificate in PEM and those of the CAs between it and a root";
    let chain = certificates(SETTING, certificate, CHAIN)?;
    let wrong = |setting, path: &Path, why, wanted| CertificateError::File {
        setting,
        path: path.to_owned(),
        why,
        wanted,
    };
    if !is_valid_now(&chain[0]) {
        // Agents need the controller: it starts all the same.
        tracing::warn!(path = %certificate.display(), "controller.api_certificate is not valid now: renew it, or set the clock");
    }
    let wrong_key =
        |why| wrong("controller.api_key", key, why, "the certificate's key in PEM, without a password");
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong_key(reason(&error)))?;
    let secret = any_supported_type(&secret).map_err(|_| wrong_key("a key of an unknown kind".to_owned()))?;
    let certified = CertifiedKey::new(chain, secret);
    certified.keys_match().map_err(|_| CertificateError::Mismatch {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
    })?;
    Ok(certified)
}

fn is_valid_now(der: &CertificateDer<'_>) -> bool {
    parse_x509_certificate(der).is_ok_and(|(_, parsed)| parsed.validity().is_valid())
}

/// Without what the file has: it may be a key.
fn reason(error: &PemError) -> String {
    match error {
        PemError::Io(error) => error.to_string(),
        PemError::NoItemsFound => "there is nothing of the kind in it".to_owned(),
        _ => "the file is no PEM".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair};
    use time::{Duration, OffsetDateTime};

    use super::*;

    /// A certificate and its key, in PEM.
    fn made(days: i64) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["c1.example.org".to_owned()]).unwrap();
        params.not_before = OffsetDateTime::now_utc() - Duration::days(9);
        params.not_after = OffsetDateTime::now_utc() + Duration::days(days);
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn files_that_are_wrong_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = (dir.path().join("api.crt"), dir.path().join("api.key"));
        let ((good, good_key), (_, other_key), (old, old_key)) = (made(9), made(9), made(-1));
        for (chain, secret, wanted) in [
            (&*good, &*good_key, ""),
            ("", &good_key, "controller.api_certificate"),
            ("x", &good_key, "controller.api_certificate"),
            (&good_key, &good_key, "there is no certificate in it"),
            (&good, &good, "there is nothing of the kind in it: name a file with the certificate's key"),
            (
                &good,
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                "a key of an unknown kind",
            ),
            (&good, &other_key, "does not belong to the first certificate"),
            (&old, &old_key, ""),
        ] {
            fs::write(&certificate, chain).unwrap();
            fs::write(&key, secret).unwrap();
            let said = OwnCertificate::read(&certificate, &key)
                .map_or_else(|error| error.to_string(), |_| String::new());
            assert!(said.contains(wanted) && said.is_empty() == wanted.is_empty(), "{said}, not {wanted}");
        }
        let error = OwnCertificate::read(&dir.path().join("gone"), &key).unwrap_err().to_string();
        assert!(error.contains("gone: No such file"), "{error}");
    }

    #[test]
    fn a_bad_file_leaves_the_certificate_from_before() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = (dir.path().join("api.crt"), dir.path().join("api.key"));
        let write = |(chain, secret): &(String, String)| {
            fs::write(&certificate, chain).unwrap();
            fs::write(&key, secret).unwrap();
        };
        let (first, second) = (made(9), made(9));
        write(&first);
        let own = OwnCertificate::read(&certificate, &key).unwrap();
        let shown = || own.current.read().unwrap().cert[0].clone();
        let before = shown();
        fs::write(&certificate, &second.0).unwrap();
        assert!(matches!(own.reload(), Err(CertificateError::Mismatch { .. })));
        assert_eq!(shown(), before);
        write(&second);
        own.reload().unwrap();
        assert_ne!(shown(), before);
    }
}
