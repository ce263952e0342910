use std::os::unix::fs::PermissionsExt as _;

use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls_pki_types::UnixTime;
use tempfile::TempDir;

use super::*;

fn fresh() -> (TempDir, Pki) {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::open(dir.path()).unwrap();
    (dir, pki)
}

fn request(params: CertificateParams, key: &KeyPair) -> Vec<u8> {
    params.serialize_request(key).unwrap().der().to_vec()
}

fn names(der: &[u8]) -> Vec<String> {
    let (_, parsed) = x509_parser::parse_x509_certificate(der).unwrap();
    let names = parsed.subject_alternative_name().unwrap().unwrap().value;
    names.general_names.iter().map(ToString::to_string).collect()
}

#[test]
fn made_once_and_kept() {
    let (dir, first) = fresh();
    let second = Pki::open(dir.path()).unwrap();
    assert_eq!(first.site(), second.site());
    assert_eq!(first.fingerprint(), second.fingerprint());
    assert_eq!(first.seal_public(), second.seal_public());
    let (_dir, other) = fresh();
    assert_ne!(first.site(), other.site());
    assert_ne!(first.fingerprint(), other.fingerprint());
    assert_ne!(first.seal_public(), other.seal_public());
}

#[test]
fn how_long_the_ca_is_valid_is_known() {
    let (_dir, pki) = fresh();
    let days = pki.ca_left() / 86_400;
    assert!((CA_DAYS - 1..=CA_DAYS).contains(&days.try_into().unwrap()), "{days}");
}

#[test]
fn only_the_owner_reads_it() {
    let (dir, _pki) = fresh();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&dir.path().join("pki")), 0o700);
    for entry in fs::read_dir(dir.path().join("pki")).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn what_a_crash_left_half_made_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("pki.new")).unwrap();
    fs::write(dir.path().join("pki.new/ca.key"), "half").unwrap();
    Pki::open(dir.path()).unwrap();
    assert!(!dir.path().join("pki.new").exists());
}

#[test]
fn a_missing_or_damaged_file_is_named_and_not_made_anew() {
    for name in ["site", "ca.key", "ca.crt", "seal.key"] {
        let (dir, _pki) = fresh();
        let path = dir.path().join("pki").join(name);
        fs::write(&path, "\n???\n").unwrap();
        let error = Pki::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("backup"), "{error}");
        fs::remove_file(&path).unwrap();
        let error = Pki::open(dir.path()).unwrap_err();
        assert!(matches!(error, PkiError::Read { .. }) && error.to_string().contains(name), "{error}");
        assert!(!path.exists());
    }
    let ((dir, _), (other, _)) = (fresh(), fresh());
    fs::copy(other.path().join("pki/ca.key"), dir.path().join("pki/ca.key")).unwrap();
    let error = Pki::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("does not belong"), "{error}");
}

#[test]
fn a_nodes_certificate_says_what_the_controller_says() {
    let (_dir, pki) = fresh();
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let mut params = CertificateParams::new(vec!["db-1".to_owned(), "localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let proven = pki.prove(&request(params, &key)).unwrap();
    for node in ["web-1.example.org", &vec!["a".repeat(63); 3].join(".")] {
        let node: NodeId = node.parse().unwrap();
        let issued = pki.issue(&node, &proven, &SealPublic([1; 32])).unwrap();
        assert_eq!(names(&issued.der), [format!("DNSName({node})")]);
        let (_, parsed) = x509_parser::parse_x509_certificate(&issued.der).unwrap();
        assert!(!parsed.is_ca());
        assert_eq!(parsed.public_key().subject_public_key.data.as_ref(), key.public_key_raw());
        let usage = parsed.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.client_auth && !usage.server_auth && !usage.any);
        let days = (issued.not_after as i64 - OffsetDateTime::now_utc().unix_timestamp()) / 86_400;
        assert!((NODE_DAYS - 1..=NODE_DAYS).contains(&days), "{days}");
        let again = pki.issue(&node, &proven, &SealPublic([1; 32])).unwrap();
        let (_, again) = x509_parser::parse_x509_certificate(&again.der).unwrap();
        assert_ne!(parsed.raw_serial(), again.raw_serial());
        assert!(is_bound_to(again.raw_serial(), &SealPublic([1; 32])));
        assert!(!is_bound_to(again.raw_serial(), &SealPublic([2; 32])), "whoever has the name later");
    }
}

#[test]
fn a_node_cannot_pose_as_the_server() {
    let (_dir, pki) = fresh();
    let mut roots = RootCertStore::empty();
    roots.add(pki.ca_der().clone()).unwrap();
    let verify = |der: &CertificateDer<'_>| {
        let certificate = rustls::server::ParsedCertificate::try_from(der).unwrap();
        rustls::client::verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &roots,
            &[],
            UnixTime::now(),
            default_provider().signature_verification_algorithms.all,
        )
    };
    let server =
        pki.server(&["10.9.8.7".into(), "controller.example.org".into(), "not a name".into()]).unwrap();
    assert_eq!(verify(&server.chain[0]), Ok(()));
    assert_eq!(&server.chain[1], pki.ca_der());
    let known = names(&server.chain[0]);
    for name in ["DNSName(localhost)", "DNSName(controller.example.org)"] {
        assert!(known.iter().any(|known| known == name), "{known:?}");
    }
    let key = KeyPair::generate().unwrap();
    let proven = pki.prove(&request(CertificateParams::default(), &key)).unwrap();
    let node = pki.issue(&"localhost".parse().unwrap(), &proven, &SealPublic([1; 32])).unwrap();
    assert!(verify(&node.der.into()).is_err());
}

#[test]
fn a_signing_request_must_be_signed_with_its_own_key() {
    let (_dir, pki) = fresh();
    let good = request(CertificateParams::default(), &KeyPair::generate().unwrap());
    let key = pki.prove(&good).unwrap();
    for at in 0..good.len() {
        let mut altered = good.clone();
        altered[at] ^= 0x01;
        // A few bytes around what is signed say nothing.
        assert!(pki.prove(&altered).is_err() || pki.prove(&altered).as_ref() == Ok(&key), "byte {at}");
        assert!(pki.prove(&good[..at]).is_err(), "cut at {at}");
    }
    let mut altered = good.clone();
    *altered.last_mut().unwrap() ^= 1;
    assert_eq!(pki.prove(&altered), Err(RequestError::Malformed));
    let rare = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let rare = request(CertificateParams::default(), &rare);
    assert_eq!(pki.prove(&rare).unwrap_err(), RequestError::Key);
}
