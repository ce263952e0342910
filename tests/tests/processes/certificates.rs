//! The API with a certificate of another CA than the site's: who trusts it, and what becomes of it while the controller runs.

use std::fs;
use std::path::PathBuf;

use muster_testbed::{Namespace, Running, command, eventually};
use muster_tests::site::{Site, binary};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::desk::Desk;

/// A CA that has nothing to do with Muster.
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl Ca {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate with these parameters, and its key, in PEM.
    pub fn issue(&self, params: CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A certificate for a server of this name.
    pub fn server(&self, name: &str) -> (String, String) {
        self.issue(CertificateParams::new(vec![name.to_owned()]).unwrap())
    }
}

/// A site whose API shows a certificate of a CA of its own.
struct Bed {
    site: Site,
    certificate: PathBuf,
    key: PathBuf,
}

impl Bed {
    fn start(ca: &Ca) -> Self {
        let mut site = Site::in_namespace();
        let place = |name: &str| site.path().join(name);
        let (certificate, key) = (place("api.crt"), place("api.key"));
        site.configure(&format!(
            "[controller]\napi = '{}:8443'\napi_certificate = '{}'\napi_key = '{}'\n",
            Namespace::HUB,
            certificate.display(),
            key.display()
        ));
        site.kill();
        let bed = Self { site, certificate, key };
        bed.write(ca.server(Namespace::HUB));
        bed
    }

    fn write(&self, (certificate, key): (String, String)) {
        fs::write(&self.certificate, certificate).unwrap();
        fs::write(&self.key, key).unwrap();
    }
}

#[test]
fn the_api_shows_a_certificate_of_its_own() {
    let (ca, other) = (Ca::new(), Ca::new());
    let mut bed = Bed::start(&ca);
    bed.site.restart();
    let (machine, url) = (bed.site.hub().server(9), format!("https://{}:8443", Namespace::HUB));
    let token = bed.site.ok(&["user", "create", "anna", "--role", "operator"]);
    let desk = Desk::new(&machine, &bed.site, "anna");
    let (token_file, ca_file) = (desk.file("token", &token), desk.file("ca.crt", &ca.pem));
    let other_file = desk.file("other.crt", &other.pem);

    // The CA that the token names is not this certificate's.
    let login = |rest: &[&str]| desk.muster(&[&["login", &url, "--token-file", &token_file], rest].concat());
    login(&[]).refused(4, &["of another CA (controller.api_certificate)", "--ca FILE|system"]);
    login(&["--ca", &other_file]).refused(4, &["other.crt", "for this host"]);
    login(&["--ca", &token_file]).refused(2, &["token", "want a file of PEM"]);
    login(&["--ca", &ca_file]).expect(0);
    desk.muster(&["stack", "list"]).expect(0);

    // Without a context; and by the CAs that the machine trusts.
    let given = |name: &str| {
        [("MUSTER_TOKEN", token.trim()), ("MUSTER_CA", name)].map(|(k, v)| (k.to_owned(), v.to_owned()))
    };
    let asked = |variables: &[(String, String)]| {
        let variables: Vec<(&str, &str)> = variables.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        desk.muster_with(&variables, &["--url", &url, "stack", "list"])
    };
    asked(&given(&ca_file)).expect(0);
    let system = [&given("system")[..], &[("SSL_CERT_FILE".to_owned(), ca_file.clone())]].concat();
    asked(&system).expect(0);

    // Files that do not fit each other change nothing.
    let (certificate, _) = other.server(Namespace::HUB);
    fs::write(&bed.certificate, certificate).unwrap();
    bed.site.controller.signal("HUP");
    let log = || bed.site.controller.log();
    eventually("the log says so", || log().contains("keeps the certificate from before").then_some(()));
    assert!(log().contains("does not belong to the first certificate"));
    desk.muster(&["stack", "list"]).expect(0);

    // Another certificate is taken without a restart.
    bed.write(other.server(Namespace::HUB));
    bed.site.controller.signal("HUP");
    eventually("the new certificate is shown", || (asked(&given(&other_file)).status == 0).then_some(()));
    desk.muster(&["stack", "list"]).refused(4, &["ca.crt"]);
}

#[test]
fn a_bad_certificate_is_refused_at_the_start() {
    let (ca, other) = (Ca::new(), Ca::new());
    let bed = Bed::start(&ca);
    let check = || {
        let mut check = command(None, binary("muster-controller"));
        check.arg("--config").arg(bed.site.path().join("controller.toml")).arg("--check-config");
        Running::start(check).finish()
    };
    check().expect(0);
    fs::write(&bed.key, other.server(Namespace::HUB).1).unwrap();
    check().refused(2, &["controller.api_key", "api.key", "does not belong"]);
    fs::remove_file(&bed.key).unwrap();
    check().refused(2, &["api.key", "No such file", "name a file"]);
}
