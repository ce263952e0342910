//! Requests that reach the console without a person's click on one of its pages: forged and stolen cookies, forms of
//! other sites' pages and of other sessions, and addresses that would lead elsewhere.

use muster_shared::user_token::UserToken;
use serde_json::json;

use crate::https::Heard;
use crate::target::{BODY_MAX, Target};

/// The routes of the console are in its source alone: a new form is in this test by itself.
const ROUTES: &str = include_str!("../../../controller/console/src/lib.rs");
const FORM: &str = "content-type: application/x-www-form-urlencoded\r\n";

/// Pages with the methods that they take, for what is really there.
fn pages(method: &str) -> Vec<String> {
    let routes = ROUTES.split(".route(").skip(1).filter_map(|rest| {
        let (path, rest) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        let handlers = rest.split_once("\n").map_or(rest, |(line, _)| line);
        let names = format!("{method}(");
        handlers.contains(&names).then(|| path.to_owned())
    });
    let named = routes.map(|path| {
        path.replace("{node}", "web-1")
            .replace("{stack}", "web")
            .replace("{bridge}", "br0")
            .replace("{key}", "a-to-b")
            .replace("{*other}", "nowhere")
    });
    named.collect()
}

/// A form of each page that somebody who may would send.
fn genuine(page: &str, key: &str) -> String {
    let rest = match page {
        "/console/nodes/web-1" => "does=maintenance&on=true".to_owned(),
        "/console/logout" => String::new(),
        page if page.contains("/update") => {
            "template=heat_template_version:+2018-08-31%0a&previewed=x".to_owned()
        }
        _ => "does=check&resource=motd".to_owned(),
    };
    format!("key={key}&{rest}")
}

/// A browser with a session.
struct Session {
    cookie: String,
    key: String,
}

impl Target {
    fn post(&self, page: &str, headers: &str, form: &str) -> Heard {
        self.https.ask(&format!("POST {page}"), &format!("{FORM}{headers}"), form)
    }

    fn log_in(&self, token: &str, headers: &str) -> Heard {
        self.post("/console/login", headers, &format!("token={token}&next=/console/stacks"))
    }

    fn page(&self, page: &str, cookie: &str) -> Heard {
        self.https.ask(&format!("GET {page}"), &format!("cookie: {cookie}\r\n"), "")
    }

    fn session(&self, token: &str) -> Session {
        let heard = self.log_in(token, "");
        let cookie = cookie_of(&heard);
        let page = self.page("/console/stacks/web", &cookie);
        let (_, rest) = page.0.split_once("name=\"key\" value=\"").unwrap_or_else(|| panic!("{page:?}"));
        Session { cookie, key: rest.split('"').next().unwrap().to_owned() }
    }

    fn is_in(&self, cookie: &str) -> bool {
        self.page("/console/stacks", cookie).status() == 200
    }
}

fn cookie_of(heard: &Heard) -> String {
    let set = heard.header("set-cookie").unwrap_or_else(|| panic!("{heard:?}"));
    set.split(';').next().unwrap().to_owned()
}

fn to_login(heard: &Heard) -> bool {
    heard.status() == 303 && heard.header("location").unwrap().starts_with("/console/login?next=%2Fconsole")
}

#[test]
fn forms_count_for_the_session_that_they_are_of() {
    let target = Target::start();
    let (anna, ben) =
        (target.token("anna", &["--role", "operator"]), target.token("ben", &["--role", "operator"]));
    let (hers, his, ended) = (target.session(&anna), target.session(&ben), target.session(&anna));
    let again = target.session(&anna);
    target.post("/console/logout", &format!("cookie: {}\r\n", ended.cookie), &format!("key={}", ended.key));
    let forms: Vec<String> = pages("post").into_iter().filter(|page| page != "/console/login").collect();
    assert!(forms.len() > 4, "{forms:?}");
    let cookie = format!("cookie: {}\r\n", hers.cookie);
    target.unchanged(|| {
        for page in &forms {
            let good = genuine(page, &hers.key);
            // No session, one that never was, one that has ended, and texts that are none.
            for cookie in [
                String::new(),
                "cookie: __Host-muster=\r\n".to_owned(),
                format!("cookie: __Host-muster={}\r\n", "A".repeat(43)),
                format!("cookie: __Host-muster={}\r\n", "A".repeat(8000)),
                format!("cookie: {}x\r\n", hers.cookie),
                format!("cookie: {}\r\n", hers.cookie.to_lowercase()),
                format!("cookie: {}\r\n", hers.cookie.replace("__Host-", "")),
                format!("cookie: {}\r\n", ended.cookie),
                format!("cookie: __Host-muster={anna}\r\n"),
                format!("authorization: Bearer {anna}\r\n"),
            ] {
                let heard = target.post(page, &cookie, &good);
                assert!(to_login(&heard), "{page} {cookie}: {heard:?}");
            }
            // Her session, and not the key of its forms.
            for key in ["", "x", &his.key, &again.key, &ended.key, &hers.key[1..], &hers.key.to_uppercase()] {
                let heard = target.post(page, &cookie, &genuine(page, key));
                assert_eq!(heard.status(), 403, "{page} {key}: {heard:?}");
            }
            let without = good.replacen("key=", "kee=", 1);
            let twice = format!("{}&key={}", genuine(page, "x"), hers.key);
            for form in [&without, &twice, &"&=%zz%".repeat(9), &"key=".repeat(1000)] {
                let heard = target.post(page, &cookie, form);
                assert!((400..500).contains(&heard.status()), "{page} {form}: {heard:?}");
            }
            // A key in the address, or in another form of body, is none.
            let in_query = target.post(&format!("{page}?{good}"), &cookie, "");
            assert!((400..500).contains(&in_query.status()), "{page}: {in_query:?}");
            for kind in ["text/plain", "application/json", "multipart/form-data; boundary=x"] {
                let headers = format!("content-type: {kind}\r\n{cookie}");
                let heard = target.https.ask(&format!("POST {page}"), &headers, &good);
                assert!((400..500).contains(&heard.status()), "{page} {kind}: {heard:?}");
            }
            // All is right, but another site's page sends it.
            for from in [
                "origin: https://evil.example\r\n",
                "origin: null\r\n",
                "origin: http://muster\r\n",
                "origin: https://muster.evil.example\r\n",
                "origin: https://muster:8443\r\n",
                "sec-fetch-site: cross-site\r\n",
                "sec-fetch-site: same-site\r\n",
                "sec-fetch-site: none\r\n",
                "sec-fetch-site: cross-site\r\norigin: https://muster\r\n",
            ] {
                let heard = target.post(page, &format!("{cookie}{from}"), &good);
                assert_eq!(heard.status(), 403, "{page} {from}: {heard:?}");
            }
            for method in ["PUT", "PATCH", "DELETE", "OPTIONS"] {
                let heard = target.https.ask(&format!("{method} {page}"), &format!("{FORM}{cookie}"), &good);
                assert!((400..500).contains(&heard.status()), "{method} {page}: {heard:?}");
            }
        }
        assert!(target.is_in(&hers.cookie) && target.is_in(&his.cookie), "nobody was logged out");
        // An address changes nothing, whatever is in it.
        for page in pages("get").iter().filter(|page| !page.starts_with("/console/login")) {
            let heard = target.page(&format!("{page}?{}", genuine(page, &hers.key)), &hers.cookie);
            assert!(heard.status() < 500, "{page}: {heard:?}");
        }
    });
    // The same form from the page itself counts.
    let origin = format!("{cookie}origin: https://muster\r\nsec-fetch-site: same-origin\r\n");
    let heard = target.post("/console/nodes/web-1", &origin, &genuine("/console/nodes/web-1", &hers.key));
    assert_eq!(heard.status(), 303, "{heard:?}");
    assert_eq!(target.site.node_state("web-1").as_deref(), Some("maintenance"));
}

#[test]
fn a_session_begins_with_a_login_and_ends_for_good() {
    let target = Target::start();
    let (anna, vera) =
        (target.token("anna", &["--role", "operator"]), target.token("vera", &["--role", "viewer"]));
    target.unchanged(|| {
        // What somebody has put into the browser before is no session afterwards.
        let planted = format!("__Host-muster={}", "B".repeat(43));
        let heard = target.log_in(&anna, &format!("cookie: {planted}\r\n"));
        let cookie = cookie_of(&heard);
        assert!(cookie != planted && !target.is_in(&planted) && target.is_in(&cookie));
        let set = heard.header("set-cookie").unwrap();
        for part in ["__Host-muster=", "Path=/", "Secure", "HttpOnly", "SameSite=Lax"] {
            assert!(set.contains(part), "{set}");
        }
        assert!(!set.contains("Domain"), "{set}");
        assert!(!heard.0.contains(&anna), "the token is not in the browser");
        assert_eq!(heard.header("cache-control"), Some("no-store"));

        // Somebody else at the same browser: the session before has ended.
        let of_vera = cookie_of(&target.log_in(&vera, &format!("cookie: {cookie}\r\n")));
        assert!(!target.is_in(&cookie) && target.is_in(&of_vera));
        assert!(target.page("/console/stacks", &of_vera).0.contains("vera, viewer"));

        // The first cookie of the name counts, which another site cannot set with this prefix; no mixture of two.
        let two = format!("{planted}; {of_vera}");
        assert!(to_login(&target.page("/console/stacks", &two)));

        // A refused login begins none, and does not say whether there is such a user.
        let known: UserToken = anna.parse().unwrap();
        let forged = |name: &str| UserToken { name: name.to_owned(), ..known.clone() }.to_string();
        let said = |name: &str| {
            let heard = target.log_in(&forged(name), "");
            assert!(heard.status() == 401 && heard.header("set-cookie").is_none(), "{heard:?}");
            heard.body().replace(name, "")
        };
        assert_eq!(said("vera"), said("nobody"));
        for headers in ["origin: https://evil.example\r\n", "sec-fetch-site: cross-site\r\n"] {
            let heard = target.log_in(&anna, headers);
            assert!(heard.status() == 403 && heard.header("set-cookie").is_none(), "{heard:?}");
        }
        for form in ["", "token=", "token=%00", "token=x&token=y", "{\"token\": \"x\"}"] {
            let heard = target.post("/console/login", "", form);
            assert!((400..500).contains(&heard.status()), "{form}: {heard:?}");
            assert!(heard.header("set-cookie").is_none());
        }

        // A logout ends it on the server, whatever the browser keeps.
        let session = target.session(&vera);
        let cookie = format!("cookie: {}\r\n", session.cookie);
        let heard = target.post("/console/logout", &cookie, &format!("key={}", session.key));
        let set = heard.header("set-cookie").unwrap();
        assert!(
            set.starts_with("__Host-muster=;") && set.contains("Max-Age=0") && set.contains("Secure"),
            "{set}"
        );
        assert!(!target.is_in(&session.cookie));
        for page in pages("get").iter().filter(|page| page.starts_with("/console") && !page.contains("login"))
        {
            if page.ends_with(".css") || page.ends_with(".js") {
                continue;
            }
            let heard = target.page(page, &session.cookie);
            assert!(to_login(&heard), "{page}: {heard:?}");
        }

        // The live page of a session ends with it, and needs one.
        for page in ["/console", "/v1/users", "https://evil.example/", "/console/live?page=/console"] {
            let heard = target.page(&format!("/console/live?page={page}"), &session.cookie);
            assert!(to_login(&heard), "{page}: {heard:?}");
        }
    });
    let session = target.session(&vera);
    target.site.ok(&["user", "revoke", "vera"]);
    assert!(!target.is_in(&session.cookie), "a revoked user's session");
    assert!(target.is_in(&target.session(&anna).cookie), "others' go on");
}

#[test]
fn addresses_lead_to_no_other_site() {
    let target = Target::start();
    let anna = target.token("anna", &["--role", "operator"]);
    let session = target.session(&anna);
    target.unchanged(|| {
        for next in [
            "https://evil.example/",
            "//evil.example/console",
            "/\\evil.example",
            "/console/\\evil.example",
            "/console.evil.example",
            "javascript:alert(1)",
            "/console/%0d%0aset-cookie:%20x=y",
            "/console/x%0d%0alocation:%20https://evil.example",
        ] {
            let heard = target.post("/console/login", "", &format!("token={anna}&next={next}"));
            let place = heard.header("location").unwrap_or_else(|| panic!("{next}: {heard:?}"));
            assert!(place == "/console" || place.starts_with("/console/"), "{next}: {place}");
            assert!(!heard.0.contains("\r\nset-cookie: x=y") && !place.contains("evil"), "{next}: {heard:?}");
            let shown = target.https.ask(&format!("GET /console/login?next={next}"), "", "");
            assert!(
                !shown.body().contains("evil.example\"") && !shown.body().contains("\"javascript:"),
                "{shown:?}"
            );
        }
        // Wherever a browser believes to be, it is sent on within this host.
        let elsewhere = "host: evil.example\r\nx-forwarded-host: evil.example\r\n";
        for line in
            ["GET /", "GET /console/stacks", "GET https://evil.example/", "GET //evil.example/console"]
        {
            let heard = target
                .https
                .say(format!("{line} HTTP/1.1\r\n{elsewhere}connection: close\r\n\r\n").as_bytes());
            if let Some(place) = heard.header("location") {
                assert!(place.starts_with("/console"), "{line}: {place}");
            } else {
                assert!((400..500).contains(&heard.status()), "{line}: {heard:?}");
            }
            assert_eq!(heard.header("access-control-allow-origin"), None);
        }
        for path in [
            "/console/..%2f..%2fv1%2fusers",
            "/console/../v1/users",
            "/console/stacks/..%2f..%2fusers",
            "/console/stacks/%2e%2e",
            "/console/nodes/%00",
            "/console/nodes/web-1%2f..%2fweb-2",
            "/console/devices/web-1/..%2f..%2f..%2fusers",
            "/console/intents/..%2fusers",
            "/console/live?page=/v1/users",
            "/console/live?page=//evil.example/",
            "/console/live?page=/console/live?page=/console",
            "/console/console.js/../../../etc/passwd",
            "/console/%2e%2e%2fconsole.css",
        ] {
            let heard = target.page(path, &session.cookie);
            assert!((400..500).contains(&heard.status()), "{path}: {heard:?}");
            assert!(!heard.0.contains("\"role\"") && !heard.0.contains("root:"), "{path}: {heard:?}");
        }
    });
}

/// Forms that are too large or never end, of strangers and of somebody who is logged in.
#[test]
fn large_and_slow_forms_are_bounded() {
    let target = Target::start();
    let anna = target.token("anna", &["--role", "operator"]);
    let session = target.session(&anna);
    let cookie = format!("cookie: {}\r\n", session.cookie);
    let large = |bytes: usize| format!("key={}&template={}", session.key, "x".repeat(bytes));
    target.unchanged(|| {
        for (page, cookie, form) in [
            ("/console/login", "", format!("token={}", "x".repeat(9000))),
            ("/console/stacks/web/update", "", large(9000)),
            ("/console/nodes/web-1", &*cookie, large(9000)),
            ("/console/stacks/web/update", &cookie, large(4 << 20)),
        ] {
            let heard = target.post(page, cookie, &form);
            assert_eq!(heard.status(), 413, "{page}: {:?}", heard.0.get(..300));
        }
        // Larger than the API takes.
        let heard = target.post("/console/stacks/web/update", &cookie, &large(BODY_MAX));
        assert!((400..500).contains(&heard.status()), "{:?}", heard.0.get(..300));
        let deep = format!(
            "key={}&template=heat_template_version: 2018-08-31%0aoutputs: {}",
            session.key,
            "[".repeat(50_000)
        );
        let heard = target.post("/console/stacks/web/update", &cookie, &deep);
        assert!((400..500).contains(&heard.status()), "{:?}", heard.0.get(..300));
    });
    assert_eq!(target.site.json(&["stack", "show", "web"])["status"], json!("COMPLETE"));
    assert!(target.is_in(&session.cookie));
}
