//! Certificates that users show instead of a token: of the CA in `controller.api_client_ca`. Decides which names a
//! certificate gives its holder, and that a page in a browser cannot use it.
//!
//! Absent: which of these names is a user (`controller/engine/src/user.rs`), and the chain, which TLS verifies (`tls.rs`).

use std::path::Path;
use std::sync::Arc;

use axum::http::header::{HeaderMap, HeaderName, ORIGIN};
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;
use x509_parser::time::ASN1Time;

use super::own_certificate::{CertificateError, certificates};

/// The most names of a certificate that are looked up: it has the user's, and perhaps the machine's and an address for mail.
const NAMES_MAX: usize = 16;
/// A browser says with each request of a page from which site the page is.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The certificate that a client has shown in the handshake.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientCertificate {
    /// The common name, then the alternative names for hosts and mail.
    pub names: Vec<String>,
    ends: ASN1Time,
}

impl ClientCertificate {
    /// `None`: it cannot be parsed. TLS has verified the chain.
    pub fn of(der: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = parse_x509_certificate(der).ok()?;
        let mut names: Vec<String> = Vec::new();
        for name in common_names(&parsed).chain(alternative_names(&parsed)) {
            if !names.contains(&name) && names.len() < NAMES_MAX {
                names.push(name);
            }
        }
        Some(Self { names, ends: parsed.validity().not_after })
    }

    /// A connection, or a session that is resumed, may outlive the certificate.
    pub fn has_ended(&self) -> bool {
        ASN1Time::now() > self.ends
    }
}

fn common_names(certificate: &X509Certificate<'_>) -> impl Iterator<Item = String> {
    let names: Vec<String> = certificate
        .subject()
        .iter_common_name()
        .filter_map(|name| name.as_str().ok().map(ToOwned::to_owned))
        .collect();
    names.into_iter()
}

fn alternative_names(certificate: &X509Certificate<'_>) -> impl Iterator<Item = String> {
    let found = certificate.subject_alternative_name().ok().flatten();
    let names: Vec<String> = found
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    names.into_iter()
}

/// Whether a page in a browser sends this: the browser would show the certificate for any site's page.
pub(super) fn is_of_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.get(FETCH_SITE).is_some_and(|site| site != "none")
}

/// Takes clients without a certificate, and those with one of the CAs in this file.
///
/// # Errors
/// [`CertificateError`]
pub fn client_verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    const SETTING: &str = "controller.api_client_ca";
    const WANTED: &str = "the certificate in PEM of the CA that issues users' certificates";
    let wrong =
        |why: String| CertificateError::File { setting: SETTING, path: path.to_owned(), why, wanted: WANTED };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(SETTING, path, WANTED)? {
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
        .allow_unauthenticated()
        .build()
        .map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn names_are_the_common_name_and_those_of_hosts_and_mail() {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "anna");
        params.subject_alt_names = vec![
            SanType::Rfc822Name("anna@example.org".try_into().unwrap()),
            SanType::DnsName("desk-9".try_into().unwrap()),
            SanType::IpAddress("192.0.2.1".parse().unwrap()),
            SanType::DnsName("anna".try_into().unwrap()),
        ];
        let many = (0..50).map(|n| SanType::DnsName(format!("h{n}").try_into().unwrap()));
        let der = |params: &CertificateParams| {
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
        };
        let of = |params: &CertificateParams| ClientCertificate::of(&der(params)).unwrap();
        assert_eq!(of(&params).names, ["anna", "anna@example.org", "desk-9"]);
        assert!(!of(&params).has_ended());
        params.subject_alt_names.extend(many);
        assert_eq!(of(&params).names.len(), NAMES_MAX);
        assert_eq!(ClientCertificate::of(&CertificateDer::from(vec![1, 2, 3])), None);
    }

    #[test]
    fn a_page_is_told_from_a_program() {
        for (name, value, is_page) in [
            ("accept", "*/*", false),
            ("sec-fetch-site", "none", false),
            ("sec-fetch-site", "cross-site", true),
            ("sec-fetch-site", "same-origin", true),
            ("origin", "https://c1:8443", true),
        ] {
            let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
            assert_eq!(is_of_a_page(&HeaderMap::from_iter([(name, value)])), is_page);
        }
    }
}
