//! What a real Heat tells of a stack, as `tests/heat-import/record` recorded it, becomes files for `muster stack create`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use muster_testbed::Running;
use muster_tests::site::binary;
use serde::Deserialize;
use serde_json::{Value, json};

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("heat-import").join(name)
}

/// An answer of a real Heat (`tests/heat-import/record`).
#[derive(Clone, Deserialize)]
struct RecordedAnswer {
    path: String,
    status: u16,
    location: Option<String>,
    body: String,
}

impl RecordedAnswer {
    fn write(&self, to: &mut TcpStream) -> io::Result<()> {
        let place = self.location.as_ref().map_or_else(String::new, |place| format!("Location: {place}\r\n"));
        let head = format!(
            "HTTP/1.1 {} Recorded\r\nContent-Type: application/json\r\n{place}Content-Length: {}\r\n",
            self.status,
            self.body.len()
        );
        write!(to, "{head}Connection: close\r\n\r\n{}", self.body)
    }
}

/// The place of a server that gives recorded answers, until it is asked for what was not recorded.
fn heat(answers: Vec<RecordedAnswer>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http://{}/v1/p", listener.local_addr().unwrap());
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut lines = BufReader::new(connection.try_clone().unwrap()).lines().map(Result::unwrap);
            let asked = lines.next().unwrap();
            let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            assert!(headers.iter().any(|line| line == "x-auth-token: of-keystone"), "{headers:?}");
            let is_it = |answer: &&RecordedAnswer| asked == format!("GET {} HTTP/1.1", answer.path);
            let answer = answers.iter().find(is_it).unwrap_or_else(|| panic!("not recorded: {asked}"));
            answer.write(&mut connection).unwrap();
        }
    });
    place
}

#[test]
fn a_stack_of_a_real_heat_becomes_files() {
    let mut recorded: BTreeMap<String, Vec<RecordedAnswer>> =
        serde_json::from_str(&fs::read_to_string(recorded("rest.json")).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let import = |endpoint: &str, stack: &str, arguments: &[&str]| {
        let mut muster = Command::new(binary("muster"));
        muster.args(["import", "heat", "--stack", stack]).args(arguments).current_dir(folder.path());
        muster.envs([("OS_ENDPOINT", endpoint), ("OS_TOKEN", "of-keystone")]);
        Running::start(muster).finish()
    };
    let answers = recorded.remove("answers").unwrap();
    let id = answers[0].location.as_ref().unwrap().rsplit_once('/').unwrap().1.to_owned();
    let endpoint = heat(answers);
    let said: Value =
        serde_json::from_str(&import(&endpoint, "web", &["-o", "json"]).expect(0).stdout).unwrap();
    // Heat masks what is hidden.
    assert_eq!(
        (&said["stack"], &said["left_out"], &said["to_give"]),
        (&json!("web"), &json!([]), &json!(["password"]))
    );
    import(&endpoint, &id, &["-d", "by-id"]).expect(0);
    let web = folder.path().join("web");
    for file in ["template.yaml", "environment.yaml", "files/nested/one.yaml", "files/scripts/run.sh"] {
        let text = fs::read_to_string(web.join(file)).unwrap();
        assert_eq!(text, fs::read_to_string(folder.path().join("by-id").join(file)).unwrap());
        assert!(!text.contains("file:///"), "{file}: {text}");
    }
    let mut validate = Command::new(binary("muster"));
    validate.args(["stack", "validate", "-P", "password=geheim", "-t"]).arg(web.join("template.yaml"));
    validate.arg("-e").arg(web.join("environment.yaml"));
    Running::start(validate).finish().expect(0);

    let unknown = import(&endpoint, "other", &[]).expect(1);
    assert!(unknown.stderr.contains("The Stack (other) could not be found."), "{}", unknown.stderr);
    let refused = import(&heat(recorded.remove("without_role").unwrap()), "web", &["-d", "x"]).expect(1);
    assert!(refused.stderr.contains("You are not authorized to use stacks:lookup."), "{}", refused.stderr);
    assert!(refused.stderr.contains("OS_TOKEN") && !folder.path().join("x").exists(), "{}", refused.stderr);
}

#[test]
fn an_export_of_heat_becomes_files() {
    let recorded = recorded("export.json");
    let folder = tempfile::tempdir().unwrap();
    let import = |arguments: &[&str]| {
        let mut muster = Command::new(binary("muster"));
        muster.args(["import", "heat", "--file"]).arg(&recorded).args(arguments).current_dir(folder.path());
        Running::start(muster).finish()
    };
    let said: Value = serde_json::from_str(&import(&["-o", "json"]).expect(0).stdout).unwrap();
    assert_eq!(
        (&said["stack"], &said["left_out"], &said["to_give"]),
        (&json!("web"), &json!([]), &json!([]))
    );
    let web = folder.path().join("web");
    let hidden = web.join("hidden.yaml");
    assert_eq!(fs::metadata(&hidden).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&hidden).unwrap().contains("geheim"));
    assert!(!said.to_string().contains("geheim"));
    let mut validate = Command::new(binary("muster"));
    validate.args(["stack", "validate", "-t"]).arg(web.join("template.yaml"));
    for file in ["environment.yaml", "hidden.yaml"] {
        validate.arg("-e").arg(web.join(file));
    }
    Running::start(validate).finish().expect(0);
}
