//! Certificates that are good, old, early, for others, and of another key.

use std::fs;

use muster_shared::finding::Severity::{Error, Ok as Well, Warning};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::*;

/// Seconds since 1970, of 2030-01-01.
const BEGIN: u64 = 1_893_456_000;
const DAY: u64 = 86_400;

/// A certificate for these names, of the year 2030, and its key.
fn made(names: &[&str]) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params =
        CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap();
    params.not_before = date_time_ymd(2030, 1, 1);
    params.not_after = date_time_ymd(2031, 1, 1);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[test]
fn a_certificate_is_judged_by_time_and_name() {
    let (pem, _) = made(&["c1.example.org", "*.lab.example.org", "10.0.0.1"]);
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    for (hosts, now, state, found) in [
        (
            &["c1.example.org"][..],
            BEGIN + DAY,
            Well,
            "for c1.example.org, *.lab.example.org, 10.0.0.1, and valid for 364",
        ),
        (&["x.lab.example.org"], BEGIN + DAY, Well, "valid"),
        (&["other", "10.0.0.1"], BEGIN + DAY, Well, "valid"),
        (&[], BEGIN + DAY, Well, "valid"),
        (&["c2.example.org", "10.0.0.2"], BEGIN + DAY, Warning, "known as c2.example.org, 10.0.0.2"),
        (&["c1.example.org"], BEGIN + 352 * DAY, Warning, "ends in 13"),
        (&["c1.example.org"], BEGIN + 365 * DAY, Error, "ended 2031-01-01"),
        (&["c1.example.org"], BEGIN - DAY, Error, "valid from 2030-01-01"),
    ] {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let finding = judged(&der, true, &hosts, now);
        assert!(finding.state == state && finding.found.contains(found), "{now}: {finding:?}");
    }
    assert_eq!(judged(&CertificateDer::from(vec![1, 2]), true, &[], BEGIN).state, Error);
}

#[test]
fn files_that_the_controller_could_not_use() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = (dir.path().join("api.crt"), dir.path().join("api.key"));
    let ((good, good_key), (_, other_key)) = (made(&["a"]), made(&["a"]));
    for (chain, secret, wanted) in [
        (&*good, &*good_key, ""),
        (&good, &other_key, "the key does not belong to"),
        (&good, &good, "there is no key in it"),
        (&good_key, &good_key, "there is no certificate in it"),
        ("-----BEGIN CERTIFICATE-----\n%\n-----END CERTIFICATE-----\n", &good_key, "the file is no PEM"),
    ] {
        fs::write(&certificate, chain).unwrap();
        fs::write(&key, secret).unwrap();
        match of_files(&Files { certificate: &certificate, key: &key }) {
            Ok(_) => assert_eq!(wanted, ""),
            Err(finding) => assert!(
                !wanted.is_empty() && finding.found.contains(wanted) && finding.state == Error,
                "{wanted}: {finding:?}"
            ),
        }
    }
    fs::write(&certificate, &good).unwrap();
    let missing = of_files(&Files { certificate: &certificate, key: Path::new("/nowhere") }).unwrap_err();
    assert!(missing.found.contains("controller.api_key, /nowhere: No such file"), "{missing:?}");
}
