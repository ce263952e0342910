//! A user's certificate and its key, in two files: what `muster` shows in place of a token.
//!
//! Absent: who trusts it (`controller/src/api/client_certificate.rs`).

use std::path::{Path, PathBuf};

use clap::Args;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Flags before a command, and of a login.
#[derive(Args)]
pub struct Flags {
    /// Certificate of a user who has no token, PEM; goes before the command [default: that of the context in use]
    #[arg(long, value_name = "FILE", env = "MUSTER_CERT", hide_env_values = true)]
    cert: Option<PathBuf>,
    /// Key of that certificate, PEM
    #[arg(long, value_name = "FILE", env = "MUSTER_KEY", hide_env_values = true)]
    key: Option<PathBuf>,
}

/// The two files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    cert: PathBuf,
    key: PathBuf,
}

impl Flags {
    /// Both, or neither. Files keep their place: commands are typed in other directories, too.
    pub fn pair(self) -> Result<Option<Identity>, Failure> {
        let place = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        match (self.cert, self.key) {
            (Some(cert), Some(key)) => Ok(Some(Identity { cert: place(cert), key: place(key) })),
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => Err(Failure::usage(
                "--cert and --key (MUSTER_CERT, MUSTER_KEY) belong together: give both, or neither",
            )),
        }
    }
}

impl Identity {
    /// Reads the files.
    pub fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Failure> {
        let wrong = |flag: &str, path: &Path, why: String, wanted: &str| {
            Failure::usage(format!("{flag} {}: {why}: want a file of PEM with {wanted}", path.display()))
        };
        let wrong_chain = |why: String| wrong("--cert", &self.cert, why, "the user's certificate");
        let found =
            CertificateDer::pem_file_iter(&self.cert).map_err(|error| wrong_chain(error.to_string()))?;
        let chain = found.collect::<Result<Vec<_>, _>>().map_err(|error| wrong_chain(error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong_chain("there is no certificate in it".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| {
            wrong("--key", &self.key, error.to_string(), "the certificate's key, without a password")
        })?;
        Ok((chain, key))
    }
}
