//! Certificates of other CAs than the site's: one that the API shows, and those that users show.

use std::fs;
use std::path::PathBuf;

use muster_testbed::{Namespace, Running, command, eventually};
use muster_tests::site::{Site, binary};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use time::{Duration, OffsetDateTime};

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

/// The certificate of a user with this common name.
fn user(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
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

/// Users who show a certificate are users like others: with a role, revocable, in the audit.
#[test]
fn users_show_certificates() {
    let (ca, other) = (Ca::new(), Ca::new());
    let mut site = Site::in_namespace();
    let (hub, users_ca) = (Namespace::HUB, site.path().join("users.crt"));
    fs::write(&users_ca, &ca.pem).unwrap();
    let settings = format!("[controller]\napi = '{hub}:8443'\naddresses = ['{hub}:8883']\n");
    site.configure(&settings);
    site.kill();
    site.restart();
    site.muster(&["user", "create", "anna", "--role", "viewer", "--certificate"])
        .refused(1, &["set controller.api_client_ca"]);
    site.configure(&format!("{settings}api_client_ca = '{}'\n", users_ca.display()));
    site.kill();
    site.restart();
    let made = site.ok(&["user", "create", "anna", "--role", "operator", "--certificate"]);
    assert!(!made.contains("muster-user."), "there is no token: {made}");
    site.ok(&["user", "create", "ci@example.org", "--role", "viewer", "--certificate"]);
    let token = site.ok(&["user", "create", "vera", "--role", "viewer"]);

    let (machine, url) = (site.hub().server(9), format!("https://{hub}:8443"));
    let desk = Desk::new(&machine, &site, "desk");
    let trusted = desk.file("site.crt", &fs::read_to_string(site.ca()).unwrap());
    let files = |name: &str, (certificate, key): (String, String)| {
        [desk.file(&format!("{name}.crt"), &certificate), desk.file(&format!("{name}.key"), &key)]
    };
    let with = |[certificate, key]: &[String; 2], words: &[&str]| {
        let given = ["--url", &url, "--cert", certificate, "--key", key];
        desk.muster_with(&[("MUSTER_CA", &trusted)], &[&given, words].concat())
    };
    let list = ["stack", "list"];

    // The paths are kept; the name is in the certificate.
    let anna = files("anna", ca.issue(user("anna")));
    desk.muster(&["login", &url, "--ca", &trusted, "--cert", &anna[0]]).refused(2, &["belong together"]);
    desk.muster(&["login", &url, "--ca", &trusted, "--cert", &anna[0], "--key", &anna[1]]).expect(0);
    assert_eq!(desk.json(&["context", "list"])[0]["user"], "anna");
    let template = desk.file("web.yaml", "heat_template_version: 2018-08-31\n");
    desk.muster(&["stack", "create", "web", "-t", &template, "--wait"]).expect(0);
    desk.muster(&["user", "list"]).refused(1, &["needs role admin: anna has role operator"]);
    desk.muster_with(&[("MUSTER_TOKEN", token.trim())], &["stack", "delete", "web"])
        .refused(1, &["vera has role viewer"]);

    // A name for mail is one, too.
    let mut params = user("pipeline 7");
    params.subject_alt_names.push(SanType::Rfc822Name("ci@example.org".try_into().unwrap()));
    let ci = files("ci", ca.issue(params));
    with(&ci, &list).expect(0);
    with(&ci, &["stack", "delete", "web"]).refused(1, &["ci@example.org has role viewer"]);

    // Whoever is no user, or has a token instead.
    with(&files("eve", ca.issue(user("eve"))), &list).refused(1, &["no name in the certificate is a user's"]);
    with(&files("vera", ca.issue(user("vera"))), &list)
        .refused(1, &["no name in the certificate is a user's"]);

    // Of another CA, expired, or with a key of another certificate.
    with(&files("forged", other.issue(user("anna"))), &list).refused(4, &["controller.api_client_ca"]);
    let mut params = user("anna");
    params.not_after = OffsetDateTime::now_utc() - Duration::days(1);
    with(&files("old", ca.issue(params)), &list).refused(4, &["controller.api_client_ca"]);
    with(&[anna[0].clone(), ci[1].clone()], &list).refused(2, &["the certificate's key"]);

    // A browser has the certificate for any site's page.
    let status = |header: &str| {
        let mut curl = command(Some(&machine), "curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", &trusted, "-H", header]);
        curl.args(["--cert", &anna[0], "--key", &anna[1], &format!("{url}/v1/stacks")]);
        Running::start(curl).finish().expect(0).stdout
    };
    assert_eq!(status("accept: */*"), "200");
    assert_eq!(status("origin: https://evil.example.org"), "401");
    assert_eq!(status("authorization: Bearer x"), "401");

    site.ok(&["user", "revoke", "anna"]);
    desk.muster(&list).refused(1, &["no name in the certificate is a user's"]);
    let rows = site.json(&["audit"]);
    let has = |actor: &str, action: &str| {
        let mut rows = rows.as_array().unwrap().iter();
        rows.any(|row| row["actor"] == actor && row["action"] == action && row["from"] == "10.77.0.9")
    };
    assert!(has("anna", "stack create") && has("unknown (eve)", "ListStacks"), "{rows:#}");
}
