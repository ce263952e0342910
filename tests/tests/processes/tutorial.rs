//! The commands of `docs/tutorial.md`, as a new user types them: on a server with systemd that has nothing of Muster, from the
//! packages on, while the console is open in a real browser.

use std::fs;
use std::path::Path;

use muster_testbed::{Ran, SystemdServer, eventually};
use muster_tests::site::{PACKAGES, Packages};
use tempfile::TempDir;

use crate::browser::Browser;

const TUTORIAL: &str = include_str!("../../../docs/tutorial.md");
/// The head of the script: it ends what it has started, whatever fails.
const HEAD: &str = "set -eux\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n";
/// Words a minute of somebody who reads a technical text with care, and minutes that the tutorial may take.
const WORDS_A_MINUTE: usize = 150;
const MINUTES: usize = 10;

/// The points at which the user looks at the console: after the block with the first words, the script waits for the browser.
const STOPS: [(&str, &str); 3] =
    [("me.token", "token"), ("muster stack graph three", "waits"), ("muster audit", "audit")];

/// The commands of the parts between these headings, with each file written where the text says so.
fn script(from: &str, to: &str) -> String {
    let part = TUTORIAL.split_once(from).unwrap().1.split_once(to).unwrap().0;
    let mut script = String::new();
    let mut rest = part;
    while let Some((before, block)) = rest.split_once("\n```") {
        let (kind, block) = block.split_once('\n').unwrap();
        let (code, after) = block.split_once("```").unwrap();
        match kind {
            "" => script += code,
            "yaml" => {
                let file = before.rsplit_once("Save this as `").unwrap().1.split('`').next().unwrap();
                script += &format!("cat >{file} <<'END'\n{code}END\n");
            }
            other => panic!("a block of {other}"),
        }
        for (words, stop) in STOPS {
            if code.contains(words) {
                // It fails if the browser's part has failed meanwhile.
                script += &format!(
                    "touch /run/at-{stop}\ntimeout 200 sh -c 'until test -e /run/seen-{stop}; do sleep 0.1; done'\n"
                );
            }
        }
        rest = after;
    }
    script
}

/// The command that installs the packages, as the tutorial has it.
fn installing() -> &'static str {
    let part = TUTORIAL.split_once("## Get the programs").unwrap().1;
    let block = part.split_once("```\n").unwrap().1.split_once("```").unwrap().0;
    let (made, install) = block.split_once('\n').unwrap();
    assert_eq!(made, "make packages");
    install
}

/// The browser's part: beside the script, at each stop of it.
fn look(server: &SystemdServer, dir: &Path) {
    let network = server.network();
    let run = server.run();
    let browser = Browser::start(&network, dir, false);
    let url = |path: &str| format!("https://127.0.0.1:8443{path}");
    let at = |stop: &str| {
        eventually(&format!("the tutorial is at the {stop}"), || {
            run.join(format!("at-{stop}")).exists().then_some(())
        });
    };
    let seen = |stop: &str| fs::write(run.join(format!("seen-{stop}")), "").unwrap();

    at("token");
    let token = server.sh("cat /tmp/site/me.token");
    browser.open(&url("/"), "Log in to Muster");
    browser.fill("#token", token.trim());
    browser.press("Log in");
    browser.until("me, operator");
    browser.until("web-1");
    browser.press("Stacks");
    browser.press("hello");
    browser.until("COMPLETE");
    seen("token");

    at("waits");
    browser.open(&url("/console/stacks/three"), "What waits for what");
    browser.until("first");
    browser.until("IN_PROGRESS");
    browser.until("web-1");
    let table = browser.text("main table");
    assert!(
        table.contains("second") && table.contains("maintenance") && table.contains("waiting"),
        "{table}"
    );
    // The page is open while the operator goes on: it changes by itself.
    seen("waits");
    browser.until("UPDATE COMPLETE");

    at("audit");
    browser.open(&url("/console"), "Nodes by state");
    for node in ["web-1", "web-2", "web-3"] {
        browser.until(node);
    }
    let meter =
        "return document.querySelector('meter[aria-label^=online]')?.getAttribute('aria-label') || ''";
    assert_eq!(browser.run(meter, &[]), "online: 3 of 3");
    seen("audit");
}

fn expect_said(ran: &Ran) {
    for said in [
        "hello: CREATE COMPLETE",
        "hello: UPDATE COMPLETE",
        "hello: ROLLBACK COMPLETE",
        "three: UPDATE COMPLETE",
        "222",
        "stack create",
        "three: DELETE COMPLETE",
    ] {
        assert!(ran.stdout.contains(said), "{said}\n{}\n{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn the_tutorial_does_what_it_says() {
    let dir = TempDir::new().unwrap();
    let packages = Packages::make("deb", "0.2.0");
    let server = SystemdServer::start("tutorial");
    for name in PACKAGES {
        let file = packages.file(name);
        let name = file.file_name().unwrap().to_str().unwrap();
        server.copy(&file, &format!("/root/target/packages/{name}"));
    }
    // As somebody who says yes.
    server.sh("echo 'APT::Get::Assume-Yes \"true\";' >/etc/apt/apt.conf.d/90yes");
    let installed = server.sh(&format!("cd /root; export DEBIAN_FRONTEND=noninteractive; {}", installing()));
    assert!(installed.contains("Setting up muster-controller"), "{installed}");
    server.fails("systemctl is-active muster-controller muster-agent");

    let script = format!("{HEAD}{}", script("## One server in five minutes", "## Real networks"));
    let file = dir.path().join("tutorial.sh");
    fs::write(&file, script).unwrap();
    server.copy(&file, "/root/tutorial.sh");
    let ran = std::thread::scope(|scope| {
        let shell = scope.spawn(|| server.exec(&["bash", "/root/tutorial.sh"]));
        look(&server, &dir.path().join("browser"));
        shell.join().unwrap()
    });
    expect_said(&ran.expect(0));
    server.fails("test -e /srv/muster/motd || test -e /srv/muster/third");
}

#[test]
fn the_tutorial_is_read_in_ten_minutes() {
    let part = TUTORIAL.split_once("## Real networks").unwrap().0;
    let words = part.split_whitespace().count();
    assert!(words < MINUTES * WORDS_A_MINUTE, "{words} words are more than {MINUTES} minutes of reading");
}
