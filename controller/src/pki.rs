//! The site's own trust: its name, its CA, the controller's sealing key, the certificates it issues.
//!
//! ```text
//!   <data-dir>/pki/site       the site's name            ca.key    the CA's key, PEM
//!                  seal.key   32 bytes                   ca.crt    the CA's certificate, PEM
//! ```
//!
//! The first start makes the folder atomically. From then on a missing or damaged file is an error and is
//! never made again, since the whole fleet trusts it. The server's own certificate is not stored: it is made
//! at each start, and again before it expires.
//!
//! Invariants: a node's certificate is valid for client authentication only, so no node can pose as the
//! controller. Its only name is the node's, whatever the signing request contains.
//!
//! Absent: which node may come in with its certificate (`greet_node` in `link/direct/connection.rs`), and when an agent
//! renews it (`agent/link/src/identity.rs`).

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use muster_shared::join::{JoinError, relayed};
use muster_shared::model::ContentDigest;
use muster_shared::seal::{Seal, SealPublic, SealSecret};
use muster_shared::{NodeId, SiteId, join};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKey, SanType, SerialNumber,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use time::{Duration, OffsetDateTime};

use crate::random::{NoRandom, random};

/// The folder of the keys in the data directory.
pub const FOLDER: &str = "pki";
/// The files in it: the site's name, the CA's key and certificate, the controller's sealing key.
pub const FILES: [&str; 4] = ["site", "ca.key", "ca.crt", "seal.key"];

/// The CA outlives the hardware: replacing it means joining every node again.
const CA_DAYS: i64 = 20 * 365;
/// Octets of the serial number of a node's certificate.
const BOUND_SERIAL: usize = 20;
/// Short enough that a lost key soon expires, long enough for a server that is off for a while.
const NODE_DAYS: i64 = 90;
/// The server's certificate is renewed when two thirds of this have passed.
const SERVER_DAYS: i64 = 90;
/// Certificates become valid this much earlier, for nodes whose clocks are behind.
const CLOCK_SKEW: Duration = Duration::hours(12);
/// The longest common name that X.509 allows; a longer node name is only in the alternative name.
const COMMON_NAME_MAX: usize = 64;

/// Errors of the site's keys.
#[derive(Debug, Error)]
pub enum PkiError {
    /// The folder could not be made.
    #[error("cannot make the site's keys in {path}")]
    Create { path: PathBuf, source: io::Error },
    /// A file is missing or unreadable.
    #[error("cannot read {path}: the fleet trusts it, so restore it from a backup")]
    Read { path: PathBuf, source: io::Error },
    /// A file exists, but is damaged.
    #[error("{path} is damaged ({why}): the fleet trusts it, so restore it from a backup")]
    Damaged {
        path: PathBuf,
        /// The kind of damage.
        why: String,
    },
    /// The system gives no random bytes.
    #[error(transparent)]
    Random(#[from] NoRandom),
    /// A certificate could not be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
}

/// A signing request is no good.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// The bytes are no signing request, or it was not signed with its own key.
    #[error("the certificate signing request is malformed or not signed with its own key")]
    Malformed,
    /// A kind of key this site does not use.
    #[error("the key is of an unknown kind: want ECDSA P-256 or Ed25519")]
    Key,
}

/// A public key whose holder has proved possession of the secret key.
#[derive(Debug, PartialEq, Eq)]
pub struct ProvenKey(PublicKey);

/// A certificate that was given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    pub der: Vec<u8>,
    /// Seconds since 1970 (UTC): when it runs out.
    pub not_after: u64,
}

/// The server's certificate and its key.
#[derive(Debug)]
pub struct ServerCertificate {
    /// The server's certificate and the CA's, which joiners compare with their token.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key, never written anywhere.
    pub key: PrivateKeyDer<'static>,
    /// Seconds since 1970 (UTC): when to make another.
    pub renew_at: u64,
}

/// The controller's identity at a broker.
pub struct ClientIdentity {
    /// The certificate's common name. No node has such a name.
    pub name: String,
    /// The certificate in DER.
    pub certificate: Vec<u8>,
    /// PKCS#8, never written anywhere.
    pub key: Vec<u8>,
}

/// The site's keys, opened.
pub struct Pki {
    site: SiteId,
    ca: Issuer<'static, KeyPair>,
    ca_der: CertificateDer<'static>,
    seal: SealSecret,
}

impl Pki {
    /// Opens `<data_dir>/pki`; makes it first if it does not exist.
    ///
    /// # Errors
    /// [`PkiError`]: nothing is left half made, and no existing file is changed.
    pub fn open(data_dir: &Path) -> Result<Self, PkiError> {
        let dir = data_dir.join(FOLDER);
        if !dir.exists() {
            create(data_dir, &dir)?;
        }
        load(&dir)
    }

    /// The site's name, made at random on the first start.
    pub fn site(&self) -> &SiteId {
        &self.site
    }

    /// The CA's certificate: the only root the fleet trusts.
    pub fn ca_der(&self) -> &CertificateDer<'static> {
        &self.ca_der
    }

    /// Seconds until the CA's certificate ends; 0 if it has ended.
    pub fn ca_left(&self) -> u64 {
        let parsed = x509_parser::parse_x509_certificate(&self.ca_der).ok();
        let left = parsed.and_then(|(_, ca)| ca.validity().time_to_expiration());
        left.map_or(0, |left| left.unsigned_abs().as_secs())
    }

    /// When the CA's certificate ends, in seconds since 1970.
    pub fn ca_ends(&self) -> Option<i64> {
        let (_, ca) = x509_parser::parse_x509_certificate(&self.ca_der).ok()?;
        Some(ca.validity().not_after.timestamp())
    }

    /// The fingerprint of the CA in join tokens.
    pub fn fingerprint(&self) -> [u8; 32] {
        join::fingerprint(&self.ca_der)
    }

    /// The controller's sealing key, as nodes know it.
    pub fn seal_public(&self) -> SealPublic {
        self.seal.public()
    }

    /// The seal between the controller and a node.
    pub fn seal(&self, node: &NodeId, theirs: &SealPublic) -> Seal {
        Seal::new(&self.seal, theirs, &self.site, node)
    }

    /// Checks a signing request's signature and takes its key; all else in it is ignored.
    ///
    /// # Errors
    /// [`RequestError`], for the sender.
    pub fn prove(&self, csr_der: &[u8]) -> Result<ProvenKey, RequestError> {
        let request = CertificateSigningRequestParams::from_der(&csr_der.into())
            .map_err(|_| RequestError::Malformed)?;
        let known = [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519];
        if !known.contains(&request.public_key.algorithm()) {
            return Err(RequestError::Key);
        }
        Ok(ProvenKey(request.public_key))
    }

    /// A certificate for a node, valid only with this sealing key: a later owner of the name has another.
    ///
    /// # Errors
    /// [`PkiError`], from a failure on our side.
    pub fn issue(&self, node: &NodeId, key: &ProvenKey, seal: &SealPublic) -> Result<Issued, PkiError> {
        let mut params = parameters(node.as_str(), NODE_DAYS)?;
        params.serial_number = Some(SerialNumber::from_slice(&bound_serial(seal)?));
        params.subject_alt_names = vec![SanType::DnsName(node.as_str().try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let not_after = unix(params.not_after);
        Ok(Issued { der: params.signed_by(&key.0, &self.ca)?.der().to_vec(), not_after })
    }

    /// Opens a joiner's request that came over a broker, from the topic with this nonce.
    ///
    /// # Errors
    /// [`JoinError`]: it was not made for this controller and this topic.
    pub fn open_join(&self, nonce: &str, payload: &[u8]) -> Result<relayed::Request, JoinError> {
        relayed::Request::open(&self.seal, &self.site, nonce, payload)
    }

    /// The controller's name at a broker, where its permissions hang on.
    pub fn client_name(&self) -> String {
        format!("controller@{}", self.site)
    }

    /// A certificate for the controller as the client of a broker.
    ///
    /// # Errors
    /// [`PkiError`]
    pub fn client(&self) -> Result<ClientIdentity, PkiError> {
        let (key, name) = (KeyPair::generate()?, self.client_name());
        let mut params = parameters(&name, SERVER_DAYS)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.ca)?.der().to_vec();
        Ok(ClientIdentity { name, certificate, key: key.serialize_der() })
    }

    /// Whether a certificate of the site's CA is the controller's own as a client, and valid.
    pub fn is_client(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else { return false };
        let mut names = parsed.subject().iter_common_name();
        let is_ours = names.next().and_then(|name| name.as_str().ok()) == Some(&self.client_name());
        is_ours && names.next().is_none() && parsed.validity().is_valid()
    }

    /// A certificate for the server itself, for this host's name, `localhost` and `names` (host names and
    /// addresses; anything else is left out). Muster's agents do not compare names; other clients do.
    ///
    /// # Errors
    /// [`PkiError`]
    pub fn server(&self, names: &[String]) -> Result<ServerCertificate, PkiError> {
        let key = KeyPair::generate()?;
        let mut params = parameters("muster-controller", SERVER_DAYS)?;
        let mut all: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        all.extend(fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_lowercase()));
        all.extend_from_slice(names);
        all.sort();
        all.dedup();
        params.subject_alt_names = all.iter().filter_map(|name| alternative_name(name)).collect();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.ca)?;
        Ok(ServerCertificate {
            chain: vec![certificate.der().clone(), self.ca_der.clone()],
            key: PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            renew_at: unix(params.not_after - Duration::days(SERVER_DAYS / 3)),
        })
    }
}

/// Keys are never shown.
impl fmt::Debug for Pki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pki of {}", self.site)
    }
}

fn create(data_dir: &Path, dir: &Path) -> Result<(), PkiError> {
    let site = HEXLOWER.encode(&random::<5>()?);
    let key = KeyPair::generate()?;
    let mut params = parameters(&format!("muster site {site}"), CA_DAYS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key)?;
    let [site_file, ca_key, ca_crt, seal_key] = FILES.map(str::to_owned);
    let files = [
        (site_file, format!("{site}\n").into_bytes()),
        (ca_key, key.serialize_pem().into_bytes()),
        (ca_crt, certificate.pem().into_bytes()),
        (seal_key, random::<32>()?.to_vec()),
    ];
    place(data_dir, dir, &files)
}

/// Makes `<data_dir>/pki` from these [`FILES`] of a backup.
///
/// # Errors
/// [`PkiError`]: the files are not the keys of a site, or the folder cannot be made; then it does not exist.
pub fn put_back(data_dir: &Path, files: &[(String, Vec<u8>)]) -> Result<(), PkiError> {
    place(data_dir, &data_dir.join(FOLDER), files)
}

/// Writes the folder beside its place and moves it there once it can be read: a crash leaves nothing
/// half made.
fn place(data_dir: &Path, dir: &Path, files: &[(String, Vec<u8>)]) -> Result<(), PkiError> {
    let new = data_dir.join("pki.new");
    let write = || -> io::Result<()> {
        match fs::remove_dir_all(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&new)?;
        for (name, content) in files {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(new.join(name))?;
            file.write_all(content)?;
            file.sync_all()?;
        }
        File::open(&new)?.sync_all()
    };
    let failed = |source| PkiError::Create { path: dir.to_owned(), source };
    write().map_err(failed)?;
    load(&new)?;
    let moved = fs::rename(&new, dir).and_then(|()| File::open(data_dir)?.sync_all());
    moved.map_err(failed)
}

fn load(dir: &Path) -> Result<Pki, PkiError> {
    let read = |name: &str| {
        let path = dir.join(name);
        let content = fs::read(&path).map_err(|source| PkiError::Read { path: path.clone(), source })?;
        Ok::<_, PkiError>((content, path))
    };
    let damaged = |path: &Path, why: String| PkiError::Damaged { path: path.to_owned(), why };

    let (site, path) = read("site")?;
    let site = String::from_utf8_lossy(&site)
        .trim()
        .parse()
        .map_err(|error: muster_shared::id::IdError| damaged(&path, error.to_string()))?;

    let (seal, path) = read("seal.key")?;
    let seal = seal.try_into().map_err(|_| damaged(&path, "not 32 bytes".into()))?;

    let (key, path) = read("ca.key")?;
    let key = KeyPair::from_pem(&String::from_utf8_lossy(&key))
        .map_err(|error| damaged(&path, error.to_string()))?;

    let (certificate, path) = read("ca.crt")?;
    let ca_der =
        CertificateDer::from_pem_slice(&certificate).map_err(|error| damaged(&path, error.to_string()))?;
    {
        let (_, parsed) = x509_parser::parse_x509_certificate(&ca_der)
            .map_err(|error| damaged(&path, error.to_string()))?;
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err(damaged(&path, "it does not belong to ca.key".into()));
        }
    }
    let ca = Issuer::from_ca_cert_der(&ca_der, key).map_err(|error| damaged(&path, error.to_string()))?;
    Ok(Pki { site, ca, ca_der, seal: SealSecret::from_bytes(seal) })
}

fn parameters(common_name: &str, days: i64) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::default();
    let now = OffsetDateTime::now_utc();
    params.not_before = now - CLOCK_SKEW;
    params.not_after = now + Duration::days(days);
    params.distinguished_name = DistinguishedName::new();
    if common_name.len() <= COMMON_NAME_MAX {
        params.distinguished_name.push(DnType::CommonName, common_name);
    }
    // RFC 5280: positive, at most 20 octets, unique.
    let mut serial = random::<16>()?;
    serial[0] = serial[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// RFC 5280: positive, at most 20 octets, unique. The last octets identify the sealing key.
fn bound_serial(seal: &SealPublic) -> Result<[u8; BOUND_SERIAL], PkiError> {
    let mut serial = [0; BOUND_SERIAL];
    let (fresh, bound) = serial.split_at_mut(BOUND_SERIAL - 8);
    fresh.copy_from_slice(&random::<{ BOUND_SERIAL - 8 }>()?);
    fresh[0] = fresh[0] & 0x7f | 0x40;
    bound.copy_from_slice(&ContentDigest::of(&seal.0).0[..8]);
    Ok(serial)
}

/// Whether a certificate with this serial number was issued for this sealing key. A certificate from before
/// serial numbers were bound is valid until it expires.
pub fn is_bound_to(serial: &[u8], seal: &SealPublic) -> bool {
    serial.len() != BOUND_SERIAL || serial[BOUND_SERIAL - 8..] == ContentDigest::of(&seal.0).0[..8]
}

fn alternative_name(name: &str) -> Option<SanType> {
    match name.parse::<IpAddr>() {
        Ok(number) => Some(SanType::IpAddress(number)),
        // A host name has the form of a node name.
        Err(_) => name.parse::<NodeId>().ok().and_then(|n| n.as_str().try_into().ok()).map(SanType::DnsName),
    }
}

fn unix(time: OffsetDateTime) -> u64 {
    time.unix_timestamp().try_into().unwrap_or(0)
}

#[cfg(test)]
mod tests;
