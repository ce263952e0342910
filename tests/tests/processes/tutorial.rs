//! The commands of `docs/tutorial.md`, as a new user types them, with the programs of this build.

use std::fs;
use std::process::Command;

use muster_testbed::{Running, port};
use muster_tests::site::binary;
use tempfile::TempDir;

const TUTORIAL: &str = include_str!("../../../docs/tutorial.md");
/// The head of each script: it ends what it has started, whatever fails.
const HEAD: &str = "set -eux\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n";
/// Asked while the console is to be open.
const LOOK: &str = "curl -sk https://127.0.0.1:8443/console/login | grep 'Log in to Muster'\n";

/// The commands of the parts between these headings, with each file written where the text says so.
fn script(from: &str, to: &str) -> String {
    let part = TUTORIAL.split_once(from).unwrap().1.split_once(to).unwrap().0;
    let mut script = String::from(HEAD);
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
        if code.contains("me.token") {
            script += LOOK;
        }
        rest = after;
    }
    script
}

#[test]
fn the_tutorial_does_what_it_says() {
    let dir = TempDir::new().unwrap();
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    // Other tests run beside it.
    let script = script("## One server in five minutes", "## Real networks")
        .replace("/tmp/site", &place("site"))
        .replace("/srv/muster", &place("srv"))
        .replace("8883", &port().to_string())
        .replace("8443", &port().to_string());
    let file = place("tutorial.sh");
    fs::write(&file, script).unwrap();
    let mut bash = Command::new("bash");
    let bin = binary("muster").parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path))).unwrap();
    bash.arg(file).env("PATH", path);
    for unset in ["MUSTER_URL", "MUSTER_TOKEN", "MUSTER_SITE"] {
        bash.env_remove(unset);
    }
    let ran = Running::start(bash).finish().expect(0);
    for said in [
        "hello: CREATE COMPLETE",
        "hello: UPDATE COMPLETE",
        "hello: ROLLBACK COMPLETE",
        "Log in to Muster",
        "three: UPDATE COMPLETE",
        "222",
        "stack create",
        "three: DELETE COMPLETE",
    ] {
        assert!(ran.stdout.contains(said), "{said}\n{}\n{}", ran.stdout, ran.stderr);
    }
    assert!(
        !dir.path().join("srv/motd").exists() && !dir.path().join("srv/third").exists(),
        "all is as it was"
    );
}
