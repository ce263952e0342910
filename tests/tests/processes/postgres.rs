//! A site in a PostgreSQL database: a controller that starts, works through a restart of its server, is copied
//! to another database, and says what is wrong.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use muster_testbed::{Postgres, Ran, Running, eventually};
use muster_tests::site::{Controllers, Site, binary, certificates, template_of_a_file};

const DOCUMENT: &str = include_str!("../../../docs/postgresql.md");

/// The first block of `docs/postgresql.md` that begins with this mark.
fn block(mark: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(&format!("```{mark}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// The same with other places; each must be there.
fn placed(mark: &str, places: &[(&str, &str)]) -> String {
    places.iter().fold(block(mark).to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "no '{from}' in the block '{mark}'");
        text.replace(from, to)
    })
}

/// Runs the block of `docs/postgresql.md` that begins with "```sh NAME", with the places of this site and its server.
/// systemd is not asked: the test itself stops and starts the controller where the document does.
fn documented(name: &str, site: &Site, server: &Postgres) {
    let data = site.database().parent().unwrap().display().to_string();
    let config = site.path().join("controller.toml").display().to_string();
    let controller =
        format!("{} --config {config} --data-dir {data} ", binary("muster-controller").display());
    let script = block(&format!("sh {name}"))
        .replace("muster-controller ", &controller)
        .replace("postgres://muster@db1.example.org/muster", &server.url("site"))
        .replace("/var/lib/muster", &data)
        .replace("/media/key/", &site.path().display().to_string())
        .replace("muster.dump", &site.path().join("dump").display().to_string());
    let lines: Vec<&str> = script.lines().filter(|line| !line.starts_with("systemctl ")).collect();
    server.sh(&lines.join("\n"));
}

/// `muster-controller` with these arguments, and settings that say nothing.
fn controller(arguments: &[&str]) -> Ran {
    let config = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let mut command = Command::new(binary("muster-controller"));
    command.arg("--config").arg(config.path()).args(arguments);
    Running::start(command).finish()
}

fn server() -> Postgres {
    let server = Postgres::start();
    server.create("site");
    server
}

#[test]
fn a_site_works_through_a_restart_of_its_database() {
    let mut server = server();
    let url = server.url("site");
    let mut site = Site::with_variables(&[("MUSTER_STORE__URL", OsStr::new(&url))]);
    let web = site.join("web-1");
    let file = web.root.join("motd");
    let template = site.file(&template_of_a_file("web-1", &file));
    site.ok(&["stack", "create", "web", "-t", &template, "-P", "text=one", "--wait"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "one");
    let seen = "SELECT r.name || ' ' || r.status || ' of ' || s.name FROM resources r JOIN stacks s ON s.id = r.stack_id";
    assert_eq!(server.psql("site", seen), "motd COMPLETE of web");

    // The update waits, and is carried out when the database is there again.
    server.kill();
    let update = site.spawn(&["stack", "update", "web", "-t", &template, "-P", "text=two", "--wait"]);
    eventually("the controller waits for its database", || {
        site.controller.log().contains("a commit waits").then_some(())
    });
    server.restart();
    update.finish().expect(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");

    // So is a controller that is killed.
    site.kill();
    site.restart();
    site.until_node("web-1", "online");
    site.ok(&["stack", "update", "web", "-t", &template, "-P", "text=three", "--wait"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "three");
    let events = site.ok(&["stack", "events", "web"]);
    assert!(events.contains("motd"), "{events}");
}

/// A server whose role, database and settings are the page's, with TLS and the role's password. The role is no superuser.
/// Returns the settings, too.
fn as_the_page_says(folder: &Path) -> (Postgres, String) {
    certificates(folder, &["localhost"]);
    let server = Postgres::on_loopback("ssl = on", &|data: &Path| {
        for (from, to) in [("broker.crt", "server.crt"), ("broker.key", "server.key")] {
            let text = fs::read_to_string(folder.join(from)).unwrap();
            Postgres::write_private(&data.join(to), &text);
        }
        let rules = "local all,replication muster trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(data.join("pg_hba.conf"), rules).unwrap();
    });
    // The server has a role 'muster' already, which may do everything. Without a terminal, createuser reads its input.
    let script = placed(
        "sh database",
        &[
            ("muster", "owner"),
            ("createuser ", "printf 'PASSWORD\\nPASSWORD\\n' | setsid --wait createuser "),
        ],
    );
    server.sh(&script);
    let ca = folder.join("broker-ca.crt").display().to_string();
    let settings = placed(
        "toml",
        &[
            ("//muster:", "//owner:"),
            ("/muster?", "/owner?"),
            ("db1.example.org", "localhost:1"),
            ("db2.example.org", &format!("localhost:{}", server.port())),
            ("/etc/ssl/certs/ca-certificates.crt", &ca),
        ],
    );
    (server, settings)
}

#[test]
fn a_database_made_as_the_page_says_carries_a_site() {
    let folder = tempfile::TempDir::new().unwrap();
    let (server, settings) = as_the_page_says(folder.path());
    let mut site = Site::start();
    site.kill();
    site.configure(&settings);
    site.restart();
    let status = site.json(&["status"]);
    assert!(status["store"].as_str().unwrap().contains("/owner"), "{status}");
    assert!(!status.to_string().contains("PASSWORD"), "{status}");
    let web = site.join("web-1");
    let file = web.root.join("motd");
    let template = site.file(&template_of_a_file("web-1", &file));
    site.ok(&["stack", "create", "web", "-t", &template, "-P", "text=one", "--wait"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "one");
    assert_eq!(server.psql("owner", "SELECT name || ' ' || status FROM resources"), "motd COMPLETE");
}

/// As in a managed service, where nobody is superuser.
#[test]
fn the_documented_role_replaces_a_hung_controller_and_rekeys() {
    let folder = tempfile::TempDir::new().unwrap();
    let (server, settings) = as_the_page_says(folder.path());
    assert_eq!(server.psql("owner", "SELECT rolsuper FROM pg_roles WHERE rolname = 'owner'"), "f");
    let url =
        settings.split('"').find(|text| text.starts_with("postgres://")).expect("the page has it").to_owned();
    let mut controllers = Controllers::start(&[url.clone(), url.clone()]);
    controllers.all[0].controller.signal("STOP");
    assert_eq!(controllers.until_successor_of_silent(), 1);
    controllers.all[0].controller.signal("CONT");
    eventually("the first one ends", || controllers.all[0].controller.ended());
    let second = &mut controllers.all[1];
    second.kill();
    let changed = second.controller(&url, &["rekey"]).expect(0);
    assert!(changed.stdout.contains(", was "), "{}", changed.stdout);
    second.restart();
    second.until_role("active");
}

/// With the page's settings one of two standbys is enough, and has everything that was answered.
#[test]
fn what_was_answered_is_on_a_standby_as_the_page_sets_it() {
    let mut primary = server();
    let (second, mut third) = (primary.standby("second"), primary.standby("third"));
    primary.set(block("text replication"));
    eventually("both standbys count", || {
        let states = "SELECT string_agg(sync_state, ' ') FROM pg_stat_replication";
        (primary.psql("postgres", states) == "quorum quorum").then_some(())
    });
    let hosts =
        [&primary, &second].map(|server| server.socket_dir().display().to_string().replace('/', "%2F"));
    let url = format!("postgres://muster@{}/site", hosts.join(","));
    let site = Site::with_variables(&[("MUSTER_STORE__URL", OsStr::new(&url))]);
    let web = site.join("web-1");
    let file = web.root.join("motd");
    let template = site.file(&template_of_a_file("web-1", &file));
    site.ok(&["stack", "create", "web", "-t", &template, "-P", "text=one", "--wait"]);
    third.kill();
    site.ok(&["stack", "update", "web", "-t", &template, "-P", "text=two", "--wait"]);
    primary.kill();
    second.promote();
    let events = "SELECT string_agg(DISTINCT action, ' ') FROM events WHERE status = 'COMPLETE'";
    assert_eq!(second.psql("site", events), "CREATE UPDATE");
    site.ok(&["stack", "update", "web", "-t", &template, "-P", "text=three", "--wait"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "three");
    assert_eq!(site.json(&["stack", "show", "web"])["revision"], 3);
}

#[test]
fn a_site_moves_to_another_database_and_back() {
    let server = server();
    let mut site = Site::start();
    let web = site.join("web-1");
    let file = web.root.join("motd");
    let template = site.file(&template_of_a_file("web-1", &file));
    site.ok(&["stack", "create", "web", "-t", &template, "-P", "text=one", "--wait"]);
    let (old, new) = (format!("sqlite:{}", site.database().display()), server.url("site"));
    let data = site.database().parent().unwrap().display().to_string();
    let copy = |from: &str, to: &str| {
        controller(&["--data-dir", &data, "store", "copy", "--from", from, "--to", to])
    };
    copy(&old, &new).refused(1, &["another controller uses"]);
    site.kill();
    documented("move", &site, &server);
    copy(&old, &new).refused(1, &["is not empty"]);

    site.configure(&format!("[store]\nurl = \"{new}\"\n"));
    fs::rename(site.database(), site.path().join("old.db")).unwrap();
    site.restart();
    site.until_node("web-1", "online");
    site.ok(&["stack", "update", "web", "-t", &template, "-P", "text=two", "--wait"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");

    // A dump, which the site goes on from in another database, as a restored one.
    documented("backup", &site, &server);
    assert!(site.path().join("pki").is_dir() && site.path().join("secrets.key").is_file());
    site.ok(&["stack", "update", "web", "-t", &template, "-P", "text=newer than the dump", "--wait"]);
    site.kill();
    server.create("again");
    let dump = site.path().join("dump").display().to_string();
    server.sh(&format!("pg_restore --dbname=again {dump}"));
    server.psql("again", block("sql"));
    site.configure(&format!("[store]\nurl = \"{}\"\n", server.url("again")));
    site.restart();
    site.until_node("web-1", "online");
    let status = site.json(&["status"]);
    assert!(status["store"].as_str().unwrap().ends_with("/again"), "{status}");
    assert_eq!(status["restored"], true, "{status}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "newer than the dump");
    site.ok(&["stack", "update", "web", "-t", &template, "-P", "text=two", "--wait"]);

    site.kill();
    copy(&server.url("again"), &old).expect(0);
    site.configure("");
    site.restart();
    site.until_node("web-1", "online");
    site.ok(&["stack", "update", "web", "-t", &template, "-P", "text=three", "--wait"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "three");
}

#[test]
fn what_is_wrong_with_the_database_is_said_without_its_password() {
    let server = server();
    let dir = tempfile::TempDir::new().unwrap();
    let data = dir.path().join("data").display().to_string();
    let refused = |url: &str, verb: &[&str], status: i32, wanted: &[&str]| {
        let mut arguments = vec!["--data-dir", &data, "--store", url];
        arguments.extend(verb);
        let told = controller(&arguments).refused(status, wanted);
        assert!(!told.stderr.contains("s3cret") && !told.stdout.contains("s3cret"), "{}", told.stderr);
    };
    refused("mysql://m:s3cret@db/site", &[], 2, &["--store is wrong", "want sqlite:PATH or postgres://"]);
    refused("postgres://m:s3cret@db/site?sslmode=maybe", &[], 2, &["sslmode must be"]);
    let away = "postgres://m:s3cret@127.0.0.1:1/site";
    refused(
        away,
        &[],
        1,
        &["cannot be opened (docs/postgresql.md says", "no connection to postgres://m@127.0.0.1:1/site"],
    );
    refused(away, &["backup", "/tmp/backup"], 1, &["pg_dump", "docs/postgresql.md"]);
    refused(away, &["restore", "/tmp/backup"], 1, &["pg_restore"]);
    refused(&server.url("nowhere"), &[], 1, &["\"nowhere\" does not exist", "createdb"]);
    let url = server.url("site");
    let _site = Site::with_variables(&[("MUSTER_STORE__URL", OsStr::new(&url))]);
    refused(&url, &[], 1, &["this controller cannot stand by", "secrets.key", "is not there"]);
    refused(&url, &["rekey"], 1, &["is used by muster-controller", "one controller at a time"]);
}

/// The standby is of an older version than the database.
#[test]
fn a_controller_that_should_not_take_over_says_why() {
    let server = server();
    let mut controllers = Controllers::start(&[server.url("site"), server.url("site")]);
    server.psql("site", "UPDATE meta SET value = '99' WHERE key = 'schema'");
    controllers.all[0].kill();
    let standby = &controllers.all[1];
    let why = "the database is of version 99, this controller knows 1: upgrade the controller";
    eventually("status has the reason", || {
        standby.status()?["lease_problem"].as_str()?.contains(why).then_some(())
    });
    let shown = standby.ok(&["status"]);
    assert!(shown.contains("LEASE       the lease cannot be seen: the database is of version 99"), "{shown}");
    standby.muster(&["stack", "list"]).refused(1, &["c2 stands by: ", why]);
    standby.muster(&["node", "token", "--any-name"]).refused(1, &["c2 stands by: ", why]);

    // As when it was upgraded.
    server.psql("site", "UPDATE meta SET value = '1' WHERE key = 'schema'");
    standby.until_role("active");
    assert_eq!(standby.status().unwrap()["lease_problem"], serde_json::Value::Null);
}
