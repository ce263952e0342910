//! People log in with OpenID Connect, by command line and in a browser, at a provider that runs here; and those whom it does
//! not vouch for are refused.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_testbed::{Daemon, Namespace, Ran, Running, command, eventually};
use muster_tests::site::{OidcProvider, Site, binary};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::certificates::Ca;
use crate::desk::Desk;
use crate::judge::Judge;

const CLIENT: &str = "muster";

/// A site whose people are at a provider, and a machine of theirs. Dropped in this order.
struct Bed {
    provider: OidcProvider,
    machine: Namespace,
    site: Site,
}

impl Bed {
    /// `id_tokens`: whether those of other logins are taken.
    fn start(id_tokens: bool) -> Self {
        Self::with(id_tokens, "")
    }

    /// `claims`: further settings of `[oidc]`.
    fn with(id_tokens: bool, claims: &str) -> Self {
        let mut site = Site::in_namespace();
        let (hub, ca) = (Namespace::HUB, Ca::new());
        let file = |name: &str, text: &str| {
            let path = site.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (certificate, key) = ca.server(hub);
        let account = |groups: &[&str], name: &str| json!({"preferred_username": name, "groups": groups});
        let provider = json!({
            "issuer": issuer(),
            "certificate": file("provider.crt", &certificate),
            "key": file("provider.key", &key),
            "client_id": CLIENT,
            "client_secret": "a secret of this test",
            "redirect_uri": format!("https://{hub}:8443/console/login/oidc/callback"),
            "accounts": {
                "1": account(&["staff", "ops"], "Anna"),
                "2": account(&["guests"], "eve"),
                "3": account(&["staff"], "local"),
                "4": json!({"preferred_username": "ben", "groups": ["ops"], "rack": "rack=r1", "stacks": "web-*"}),
            },
        });
        site.configure(&format!(
            "[controller]\napi = '{hub}:8443'\naddresses = ['{hub}:8883']\n[oidc]\nissuer = '{}'\nclient_id = '{CLIENT}'\n\
             client_secret_file = '{}'\nca = '{}'\nid_tokens = {id_tokens}\n{claims}[oidc.roles]\noperator = ['ops']\nviewer = ['staff']\n",
            issuer(),
            file("secret", "a secret of this test\n"),
            file("provider-ca.crt", &ca.pem),
        ));
        site.kill();
        site.restart();
        let machine = site.hub().server(9);
        let provider = OidcProvider::start(site.hub(), &provider, site.path());
        Self { provider, machine, site }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}:8443{path}", Namespace::HUB)
    }

    fn curl(&self, arguments: &[&str]) -> Ran {
        let mut curl = command(Some(&self.machine), "curl");
        curl.arg("-sk").args(arguments);
        Running::start(curl).finish()
    }

    /// A token with these claims, signed with the provider's key or another one.
    fn signed(&self, how: &str, claims: &Value) -> String {
        let address = format!("{}/sign/{how}", issuer());
        self.curl(&["-d", &claims.to_string(), &address]).expect(0).stdout
    }

    /// The answer to `POST /v1/login`: its status, and a document.
    fn log_in(&self, body: &Value) -> (String, Value) {
        let said = self
            .curl(&["-w", "\n%{http_code}", "-d", &body.to_string(), &self.url("/v1/login")])
            .expect(0)
            .stdout;
        let (document, status) = said.rsplit_once('\n').unwrap();
        (status.to_owned(), serde_json::from_str(document).unwrap())
    }
}

fn issuer() -> String {
    format!("https://{}:9443", Namespace::HUB)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// At the provider's pages, as this account.
fn sign_in(browser: &Browser<'_>, account: &str) {
    browser.until("Sign-in");
    browser.fill("input[name=login]", account);
    browser.fill("input[name=password]", "any");
    browser.press("Sign-in");
    browser.until("Authorize");
    browser.press("Continue");
}

#[test]
fn people_log_in_with_openid_connect() {
    let bed = Bed::start(false);
    let (site, url) = (&bed.site, bed.url(""));
    site.ok(&["user", "create", "local", "--role", "viewer"]);
    let desk = Desk::new(&bed.machine, site, "desk");
    let trusted = desk.file("site.crt", &fs::read_to_string(site.ca()).unwrap());

    let (status, said) = bed.log_in(&json!({"id_token": "e30.e30."}));
    assert!(
        status == "400" && said["error"]["message"].as_str().unwrap().contains("oidc.id_tokens"),
        "{said}"
    );
    // A login that another site's page begins.
    let page = bed.url("/console/login/oidc");
    let begun =
        bed.curl(&["-o", "/dev/null", "-w", "%{http_code}", "-H", "Sec-Fetch-Site: cross-site", &page]);
    assert_eq!(begun.expect(0).stdout, "403");

    // By command line: the address is opened in any browser.
    let mut login = command(Some(&bed.machine), binary("muster"));
    login
        .env("HOME", &desk.home)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("MUSTER_CERT")
        .env_remove("MUSTER_KEY");
    login.args(["login", &url, "--oidc", "--ca", &trusted]);
    let mut login = Daemon::start("login", login, site.path());
    let address = eventually("the address is shown", || {
        let log = login.log();
        let line = log.lines().find_map(|line| line.strip_prefix("or open "))?;
        Some(line.to_owned())
    });
    let browser = Browser::start(&bed.machine, &site.path().join("anna"), false);
    browser.go(&address);
    browser.press("Continue");
    sign_in(&browser, "1");
    browser.until("Sign-in Success");
    assert!(eventually("it has ended", || login.ended()).success(), "{}", login.log());
    assert_eq!(desk.json(&["context", "list"])[0]["user"], "anna");
    let template = desk.file("web.yaml", "heat_template_version: 2018-08-31\n");
    desk.muster(&["stack", "create", "web", "-t", &template, "--wait"]).expect(0);
    desk.muster(&["user", "list"]).refused(1, &["anna has role operator"]);

    // In the browser, where the provider knows her already: that leaves the other login as it is.
    browser.go(&bed.url("/console/stacks"));
    browser.until("Log in to Muster");
    Judge::new(site.path()).page(&browser, "login-oidc");
    browser.press("Log in with OpenID Connect");
    browser.until("anna, operator");
    assert!(browser.url().ends_with("/console/stacks"), "{}", browser.url());
    desk.muster(&["stack", "list"]).expect(0);

    // Somebody without a role, and a name that an admin gave to somebody else.
    drop(browser);
    for (account, why) in [("2", "eve has no role here"), ("3", "an admin made a user 'local'")] {
        let browser = Browser::start(&bed.machine, &site.path().join(account), false);
        browser.go(&bed.url("/console/login"));
        browser.press("Log in with OpenID Connect");
        sign_in(&browser, account);
        browser.until(why);
        browser.until("Log in to Muster");
        // What another site's page makes up.
        browser.go(&bed.url("/console/login/oidc/callback?code=x&state=forged"));
        browser.until("did not begin in this browser");
    }

    // The user is one like others.
    let users = site.json(&["user", "list"]);
    let known: Vec<_> =
        users.as_array().unwrap().iter().map(|user| (user["name"].clone(), user["by"].clone())).collect();
    assert_eq!(known, [(json!("anna"), json!("oidc")), (json!("local"), json!("token"))]);
    site.ok(&["user", "revoke", "anna"]);
    desk.muster(&["stack", "list"]).refused(1, &["unknown or revoked"]);
    let rows = site.json(&["audit"]);
    let has = |actor: &str, action: &str, result: &str| {
        let mut rows = rows.as_array().unwrap().iter();
        rows.any(|row| {
            row["actor"] == actor
                && row["action"] == action
                && row["result"].as_str().unwrap().contains(result)
        })
    };
    assert!(has("anna", "login", "ok") && has("anna", "stack create", "ok"), "{rows:#}");
    assert!(
        has("unknown (local)", "login", "refused") && has("unknown", "LogIn", "eve has no role here"),
        "{rows:#}"
    );
    assert!(!site.controller.log().contains("a secret of this test"));
}

/// The provider says which part of the site somebody reaches.
#[test]
fn a_claim_of_the_provider_is_a_user_s_scope() {
    let bed = Bed::with(true, "label_claim = 'rack'\nstacks_claim = 'stacks'\n");
    let site = &bed.site;
    for name in ["web-1", "web-2"] {
        site.ok(&[
            "stack",
            "create",
            name,
            "-t",
            &site.file("heat_template_version: 2018-08-31\n"),
            "--wait",
        ]);
    }
    let browser = Browser::start(&bed.machine, &site.path().join("ben"), false);
    browser.go(&bed.url("/console"));
    browser.press("Log in with OpenID Connect");
    sign_in(&browser, "4");
    browser.until("ben, operator");
    let listed = site.json(&["user", "list"]);
    let row = (&listed[0]["name"], &listed[0]["scope"], &listed[0]["stacks"]);
    assert_eq!(row, (&json!("ben"), &json!("rack=r1"), &json!("web-*")));
    browser.go(&bed.url("/console/stacks/web-1"));
    browser.until("outside your scope");

    // A program with a token of the provider; and claims that give nothing, or are not there.
    let claims = |rack: Value, stacks: Value, group: &str| {
        json!({"iss": issuer(), "aud": CLIENT, "sub": "9", "iat": now(), "exp": now() + 600, "preferred_username": "kim",
            "groups": [group], "rack": rack, "stacks": stacks})
    };
    for (claims, why) in [
        (claims(Value::Null, json!("*"), "ops"), "the claim 'rack' must have one text"),
        (claims(json!("*"), json!(["web-*", "db-*"]), "ops"), "the claim 'stacks' must have one text"),
        (claims(json!("r1"), json!("*"), "staff"), "'r1' is no label of nodes"),
        (claims(json!("*"), json!("web-*; db"), "ops"), "--stacks wants a name"),
    ] {
        let (status, said) = bed.log_in(&json!({"id_token": bed.signed("good", &claims)}));
        assert!(["400", "401"].contains(&&*status), "{status} {said}");
        assert!(said["error"]["message"].as_str().unwrap().contains(why), "{said}");
    }
    let (_, said) =
        bed.log_in(&json!({"id_token": bed.signed("good", &claims(json!("*"), json!("web-2"), "ops"))}));
    let stacks = bed.curl(&[
        "-H",
        &format!("Authorization: Bearer {}", said["token"].as_str().unwrap()),
        "-X",
        "DELETE",
        "-w",
        "%{http_code} ",
        "-o",
        "/dev/null",
        &bed.url("/v1/stacks/web-1"),
        &bed.url("/v1/stacks/web-2"),
    ]);
    let statuses = stacks.expect(0).stdout;
    assert!(statuses.starts_with("403 ") && statuses.ends_with("202 "), "{statuses}");
}

#[test]
fn tokens_of_others_are_refused() {
    let mut bed = Bed::start(true);
    let claims = |changed: &Value| {
        let mut claims = json!({
            "iss": issuer(), "aud": CLIENT, "sub": "9", "iat": now(), "exp": now() + 600,
            "preferred_username": "kim", "groups": ["staff"],
        });
        claims.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        claims
    };
    let (status, said) = bed.log_in(&json!({"id_token": bed.signed("good", &claims(&json!({})))}));
    assert_eq!((&*status, &said["name"], &said["role"]), ("200", &json!("kim"), &json!("viewer")), "{said}");
    for (how, changed, why) in [
        ("good", json!({"aud": "another"}), "for another client"),
        ("good", json!({"aud": [CLIENT, "another"]}), "for another client"),
        ("good", json!({"azp": "another"}), "for another client"),
        ("good", json!({"iat": now() - 700}), "more than 10 minutes ago"),
        ("good", json!({"preferred_username": "root"}), "somebody else in the audit"),
        ("good", json!({"iss": "https://evil.example.org"}), "of another issuer"),
        ("good", json!({"exp": now() - 1}), "has expired"),
        ("good", json!({"groups": ["guests"]}), "has no role here"),
        ("forged", json!({}), "has not signed it"),
    ] {
        let (status, said) = bed.log_in(&json!({"id_token": bed.signed(how, &claims(&changed))}));
        assert!(["401", "409"].contains(&&*status), "{changed}: {status} {said}");
        assert!(said["error"]["message"].as_str().unwrap().contains(why), "{changed}: {said}");
    }
    // No signature at all, and what is no login.
    for body in [json!({"id_token": "e30.e30."}), json!({"id_token": "x"}), json!({"password": "x"})] {
        let (status, said) = bed.log_in(&body);
        assert_eq!(status, "400", "{said}");
    }
    let (status, said) = bed.log_in(&json!({"device_code": "made up"}));
    assert_eq!(status, "401", "{said}");

    // Keys are known for a while; nothing else can be done without the provider.
    bed.provider.daemon.kill();
    let (status, _) = bed.log_in(&json!({"id_token": "e30.e30."}));
    assert_eq!(status, "400");
    let desk = Desk::new(&bed.machine, &bed.site, "desk");
    let trusted = desk.file("site.crt", &fs::read_to_string(bed.site.ca()).unwrap());
    let url = bed.url("");
    let login = || desk.muster(&["login", &url, "--oidc", "--ca", &trusted]);
    login().refused(1, &["the identity provider cannot be asked", "log in with a token"]);

    // One that hangs stops nobody else.
    let hangs = bed.site.hub().inside(|| std::net::TcpListener::bind((Namespace::HUB, 9443)).unwrap());
    let mut waits = command(Some(&bed.machine), binary("muster"));
    waits.env("HOME", &desk.home).args(["login", &url, "--oidc", "--ca", &trusted]);
    let waits = Running::start(waits);
    bed.site.ok(&["stack", "list"]);
    waits.finish_within(Duration::from_secs(120)).refused(1, &["did not answer within 10 s"]);
    drop(hangs);
}
