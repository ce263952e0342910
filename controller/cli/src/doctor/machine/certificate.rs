//! The certificate of the API over the network: the one in the files of the settings, and the one that is shown.
//!
//! Absent: that of agents' link, which agents trust by the site's CA, whatever its name.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_shared::finding::Finding;
use muster_shared::time::{span, utc};
use muster_tls::{Shown, Trust, look_config};
use rustls::RootCertStore;
use rustls::client::verify_server_name;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

const CHECK: &str = "api_certificate";
/// For a connection to this machine, and a handshake of TLS.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);
/// The longest file that is read: a chain of certificates has some KiB.
const FILE_MAX: u64 = 1024 * 1024;
/// With this left, a certificate should have been renewed: ACME clients do it with a third of its time left.
const SOON: u64 = 14 * 86_400;
/// Names of a certificate that are told.
const NAMES_MAX: usize = 8;
const RELOAD: &str = "systemctl reload muster-controller";

/// The files of the settings; empty paths: the certificate is the site's own.
pub struct Files<'a> {
    pub certificate: &'a Path,
    pub key: &'a Path,
}

/// `hosts` are the names and addresses by which this machine is known. `runs`: the controller answers.
pub async fn check(api: SocketAddr, files: Files<'_>, hosts: &[String], runs: bool) -> Vec<Finding> {
    let own = !files.certificate.as_os_str().is_empty();
    let in_files = match own.then(|| of_files(&files)) {
        None => None,
        Some(Ok(certificate)) => Some(certificate),
        Some(Err(finding)) => return vec![*finding],
    };
    let shown = if runs { Some(shown(api).await) } else { None };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    match (&in_files, &shown) {
        (_, Some(Err(why))) => vec![Finding::error(
            CHECK,
            format!("the API shows no certificate at {api}: {why}"),
            "look at controller.api in controller.toml, and at 'journalctl -u muster-controller -n 20'",
        )],
        (Some(file), Some(Ok(shown))) if file != shown => vec![
            Finding::warning(CHECK, "the API shows another certificate than its file has", RELOAD),
            judged(file, own, hosts, now),
        ],
        (_, Some(Ok(shown))) => vec![judged(shown, own, hosts, now)],
        (Some(file), None) => vec![judged(file, own, hosts, now)],
        (None, None) => Vec::new(),
    }
}

/// The certificate of the files, if the controller could use it.
fn of_files(files: &Files<'_>) -> Result<CertificateDer<'static>, Box<Finding>> {
    let wrong = |setting: &str, path: &Path, why: String, remedy: &str| {
        let found = format!("controller.{setting}, {}: {why}", path.display());
        Box::new(Finding::error(CHECK, found, remedy))
    };
    let (certificate, key) = (files.certificate, files.key);
    let wrong_chain = |why| {
        let remedy = "give it a file with the server's certificate in PEM, then those of the CAs between it and a root";
        wrong("api_certificate", certificate, why, remedy)
    };
    let wrong_key = |why| {
        wrong(
            "api_key",
            key,
            why,
            "give it the key that belongs to the certificate, in PEM, without a password",
        )
    };
    let chain = CertificateDer::pem_slice_iter(&read(certificate).map_err(wrong_chain)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| wrong_chain("the file is no PEM".into()))?;
    let Some(first) = chain.first().cloned() else {
        return Err(wrong_chain("there is no certificate in it".into()));
    };
    let secret = PrivateKeyDer::from_pem_slice(&read(key).map_err(wrong_key)?)
        .map_err(|_| wrong_key("there is no key in it".into()))?;
    let secret =
        any_supported_type(&secret).map_err(|_| wrong_key("the kind of the key is unknown".into()))?;
    match CertifiedKey::new(chain, secret).keys_match() {
        Ok(()) => Ok(first),
        Err(_) => Err(wrong_key(format!("the key does not belong to {}", certificate.display()))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let read = BufReader::new(file).take(FILE_MAX).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| error.to_string())
}

/// The certificate that the API shows now. Nothing is said over the connection.
async fn shown(api: SocketAddr) -> Result<CertificateDer<'static>, String> {
    let here = match api.ip() {
        IpAddr::V4(any) if any.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(any) if any.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        one => one,
    };
    let shown = Shown::default();
    // Trusts nobody: what is shown is all that is wanted.
    let trust = Trust::Host(Arc::new(RootCertStore::empty()));
    let config = look_config(trust, Arc::clone(&shown)).map_err(|error| error.to_string())?;
    let greeted = async {
        let stream = TcpStream::connect((here, api.port())).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::from(here), stream).await.map(drop)
    };
    let failed = match timeout(SHOWN_WITHIN, greeted).await {
        Ok(greeted) => greeted.err().map(|error| error.to_string()),
        Err(_) => Some(format!("no answer within {} s", SHOWN_WITHIN.as_secs())),
    };
    let first = shown.lock().unwrap_or_else(PoisonError::into_inner).first().cloned();
    first.ok_or_else(|| failed.unwrap_or_else(|| "nothing was shown".into()))
}

/// Whether a certificate is valid at `now`, in seconds since 1970, and for one of the hosts.
fn judged(der: &CertificateDer<'_>, own: bool, hosts: &[String], now: u64) -> Finding {
    let Ok((_, parsed)) = parse_x509_certificate(der) else {
        return Finding::error(
            CHECK,
            "the API's certificate cannot be read",
            "give controller.api_certificate a file with a certificate",
        );
    };
    let time = |at: i64| u64::try_from(at).unwrap_or_default();
    let (from, until) =
        (time(parsed.validity().not_before.timestamp()), time(parsed.validity().not_after.timestamp()));
    // One of the site's CA is renewed by the controller itself.
    let renew = if own {
        format!("renew it, then: {RELOAD}")
    } else {
        "systemctl restart muster-controller; 'journalctl -u muster-controller' says why it was not renewed"
            .into()
    };
    if now < from {
        let found = format!("the API's certificate is valid from {}, and it is {}", utc(from), utc(now));
        return Finding::error(CHECK, found, "set the clock: 'chronyc makestep' or 'timedatectl'");
    }
    if now >= until {
        return Finding::error(CHECK, format!("the API's certificate ended {}", utc(until)), renew);
    }
    let left = span(until - now);
    let names = names(&parsed);
    let shown = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
    if until - now < SOON {
        let found = format!("the API's certificate, for {shown}, ends in {left}");
        return Finding::warning(CHECK, found, renew);
    }
    let fits = |host: &String| {
        let parsed = ParsedCertificate::try_from(der).ok()?;
        verify_server_name(&parsed, &ServerName::try_from(host.as_str()).ok()?).ok()
    };
    if !hosts.is_empty() && !hosts.iter().any(|host| fits(host).is_some()) {
        let found = format!(
            "the API's certificate is for {shown}, and this machine is known as {}: clients there refuse it",
            hosts.join(", ")
        );
        return Finding::warning(
            CHECK,
            found,
            "use one of its names (muster login https://NAME:PORT), or get a certificate with this machine's name",
        );
    }
    Finding::ok(CHECK, format!("the API's certificate is for {shown}, and valid for {left}"))
}

/// The names and addresses that it is for.
fn names(parsed: &x509_parser::certificate::X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(found)) = parsed.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(octets) => match (<[u8; 4]>::try_from(*octets), <[u8; 16]>::try_from(*octets))
        {
            (Ok(v4), _) => Some(IpAddr::from(v4).to_string()),
            (_, Ok(v6)) => Some(IpAddr::from(v6).to_string()),
            (Err(_), Err(_)) => None,
        },
        _ => None,
    };
    found.value.general_names.iter().filter_map(name).take(NAMES_MAX).collect()
}

#[cfg(test)]
mod tests;
