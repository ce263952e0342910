//! The CAs that a controller's certificate may be of, where it is none of the site's CA: those in a file, or those that
//! this machine trusts.
//!
//! Absent: the site's CA, which a user's token names (`controller_connection.rs`).

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use muster_tls::Trust;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::failure::Failure;

/// The CAs of this machine, on the command line and in contexts.
const SYSTEM: &str = "system";

/// The CAs whose certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ca {
    /// The CAs of this machine.
    System,
    /// The CAs in this file.
    File(PathBuf),
}

impl FromStr for Ca {
    type Err = Infallible;

    /// A file keeps its place: commands are typed in other directories, too.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        if text == SYSTEM {
            return Ok(Self::System);
        }
        Ok(Self::File(std::path::absolute(text).unwrap_or_else(|_| PathBuf::from(text))))
    }
}

impl fmt::Display for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str(SYSTEM),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl Ca {
    /// Servers of these CAs.
    pub fn trust(&self) -> Result<Trust, Failure> {
        let mut roots = RootCertStore::empty();
        match self {
            Self::System => {
                let found = rustls_native_certs::load_native_certs();
                if roots.add_parsable_certificates(found.certs).0 == 0 {
                    return Err(Failure::usage(
                        "this machine has no CAs (Debian's package ca-certificates): give the controller's with --ca FILE",
                    ));
                }
            }
            Self::File(path) => {
                let wrong = |why: String| {
                    Failure::usage(format!(
                        "--ca {}: {why}: want a file of PEM with the CA's certificate",
                        path.display()
                    ))
                };
                let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
                for certificate in found {
                    let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                    roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(wrong("there is no certificate in it".to_owned()));
                }
            }
        }
        Ok(Trust::Host(Arc::new(roots)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        for text in ["", "no certificate\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            std::fs::write(&file, text).unwrap();
            let ca: Ca = file.to_str().unwrap().parse().unwrap();
            let failure = ca.trust().err().unwrap();
            assert!(failure.lines[0].starts_with("--ca /") && failure.lines[0].contains("ca.crt"), "{text}");
        }
    }

    #[test]
    fn a_file_keeps_its_place() {
        let ca: Ca = "ca.crt".parse().unwrap();
        let here = std::env::current_dir().unwrap().join("ca.crt");
        assert_eq!(ca, Ca::File(here.clone()));
        assert_eq!(ca.to_string(), here.display().to_string());
        assert_eq!("system".parse(), Ok(Ca::System));
    }
}
