use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::Read as _;

use super::*;
use crate::tls::Root;

/// A controller's certificate, valid from 1975 until this year; and the CA's.
fn certified(site: &str, until: i32) -> (ServerConfig, CertificateDer<'static>) {
    let (ca_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, format!("muster site {site}"));
    let ca_der = ca.self_signed(&ca_key).unwrap().der().clone();
    let mut own = CertificateParams::new(Vec::new()).unwrap();
    own.distinguished_name.push(DnType::CommonName, "muster-controller");
    own.not_after = date_time_ymd(until, 1, 1);
    let own = own.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap().der().clone();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own, ca_der.clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    (config, ca_der)
}

/// Serves handshakes until the test ends.
fn served(config: ServerConfig) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let number = listener.local_addr().unwrap();
    let config = Arc::new(config);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            // Until the client goes.
            let _ = StreamOwned::new(session, stream.unwrap()).read(&mut [0; 1]);
        }
    });
    number
}

async fn looked(ca: &CertificateDer<'_>, number: SocketAddr) -> Reached {
    let trust = Trust::Controller(Root::Certificate(ca.to_vec()));
    look(&trust, &number.to_string().parse().unwrap(), number).await
}

#[tokio::test]
async fn what_is_shown_is_told_whether_it_is_trusted_or_not() {
    let (config, ca) = certified("a", 4095);
    let (_, other) = certified("b", 4095);
    let number = served(config);
    let shown = vec!["muster-controller".to_owned(), "muster site a".to_owned()];
    let reached = looked(&ca, number).await;
    let Reached::Trusted { shown: names, full_size: FullSize::TooLarge(_) } = reached else {
        panic!("{reached:?}")
    };
    assert_eq!(names, shown);
    let distrust = Distrust::OtherIssuer;
    assert_eq!(looked(&other, number).await, Reached::Untrusted { distrust, shown });
}

#[tokio::test]
async fn a_certificate_of_another_time_is_told_with_both_clocks() {
    let (config, ca) = certified("a", 1980);
    let reached = looked(&ca, served(config)).await;
    let Reached::Untrusted { distrust: Distrust::Clock(clocks), .. } = reached else { panic!("{reached:?}") };
    assert!(clocks.contains("certificate ended 1980-01-01 00:00 UTC"), "{clocks}");
}

#[tokio::test]
async fn who_does_not_listen_or_speaks_no_tls_is_told() {
    let (_, ca) = certified("a", 4095);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let number = listener.local_addr().unwrap();
    let (heard, is_heard) = channel();
    thread::spawn(move || {
        drop(listener.accept().unwrap());
        drop(listener);
        heard.send(()).unwrap();
    });
    let reached = looked(&ca, number).await;
    assert!(matches!(reached, Reached::Tcp { .. }), "{reached:?}");
    is_heard.recv().unwrap();
    let reached = looked(&ca, number).await;
    assert!(matches!(&reached, Reached::Nothing { why } if why.contains("refused")), "{reached:?}");
}

#[test]
fn names_are_taken_from_what_is_whole() {
    let name = [&[0x31, 20, 0x30, 18, 0x06, 3, 0x55, 4, 3, 0x0c, 3][..], b"abc", &[0x30, 1]].concat();
    assert_eq!(common_name(&name).as_deref(), Some("abc"));
    for cut in 0..name.len() - 2 {
        assert_eq!(common_name(&name[..cut]), None, "{cut}");
    }
    assert_eq!(subject(&CertificateDer::from(vec![0x30, 3, 1, 2, 3])), None);
}

#[test]
fn a_long_greeting_has_names_of_its_own() {
    for bytes in [100, 1448, 8948] {
        let names = padding(bytes);
        assert!(names.iter().map(Vec::len).sum::<usize>() >= bytes as usize, "{bytes}");
        assert!(names.iter().all(|name| name.len() == PROTOCOL_MAX) && names.is_sorted_by(|a, b| a < b));
    }
    assert!(padding(GREETING_MAX - GREETING_LEAST).len() * (PROTOCOL_MAX + 1) < 16 * 1024 - 1024);
}
