//! The broker in the controller's own process.

use std::net::TcpStream;

use muster_shared::join;
use muster_tests::site::{Link, Probe, Site};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::brokers::{from_token_to_delete, was_taken};

#[test]
fn from_token_to_delete_over_it() {
    from_token_to_delete(Link::Embedded, "embedded");
}

/// As with Mosquitto; it decides by the certificate alone.
#[test]
fn it_keeps_nodes_from_one_another() {
    let site = Site::over(Link::Embedded);
    let (mut web1, _web2) = (site.join("web-1"), site.join("web-2"));
    // A broker ends the older of two connections with one id: the probe has web-1's to itself.
    web1.daemon.kill();
    let id = site.json(&["status"])["site"].as_str().unwrap().to_owned();
    let ca = join::fingerprint(&CertificateDer::from_pem_file(site.ca()).unwrap());
    let topic = |topic: &str| format!("muster/v1/{id}/{topic}");
    let anybody = || Probe::new(site.address(), ca);
    let node = || anybody().node(&web1.state);
    for (what, may) in [
        ("web-1/up", true),
        ("web-2/up", false),
        ("web-1/down", false),
        ("web-2/down", false),
        ("controller", false),
        ("join/0123456789abcdef/answer", false),
    ] {
        let said = node().tries("web-1", &topic("web-1/down"), Some(&topic(what)));
        assert_eq!(was_taken(said), may, "write {what}");
    }
    for (what, may) in
        [("web-1/down", true), ("controller", true), ("web-2/down", false), ("+/up", false), ("#", false)]
    {
        assert_eq!(was_taken(node().tries("web-1", &topic(what), None)), may, "read {what}");
    }
    let own = "0123456789abcdef";
    for (what, may) in [
        (format!("join/{own}/request"), true),
        ("join/0/request".to_owned(), false),
        (format!("join/{own}/answer"), false),
        ("web-1/up".to_owned(), false),
        ("controller".to_owned(), false),
    ] {
        let said = anybody().tries(own, &topic(&format!("join/{own}/answer")), Some(&topic(&what)));
        assert_eq!(was_taken(said), may, "a joiner writes {what}");
    }
    for (probe, client_id) in [(node(), "web-2"), (node(), "controller"), (anybody(), "web-1")] {
        let error = probe.tries(client_id, &topic("controller"), None).unwrap_err().to_string();
        assert!(error.contains("ClientIdentifierNotValid"), "{client_id}: {error}");
    }
    web1.daemon.restart();
    site.until_node("web-1", "online");
}

/// rumqttd's own listener stands still for one such client.
#[test]
fn clients_that_say_nothing_keep_nobody_out() {
    let site = Site::over(Link::Embedded);
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(site.address()).unwrap()).collect();
    let _web1 = site.join("web-1");
    assert_eq!(silent.len(), 100);
}
