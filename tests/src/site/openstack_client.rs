//! OpenStack's command line client with its plugin for Heat, as PyPI has them, at the versions that
//! `tests/openstack-client` pins. Each command is a fork of a process that has imported the client (`commands.py`), for a start
//! of its own takes a second of processor time.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use muster_testbed::{Daemon, Namespace, Ran, Running, command, eventually};
use serde_json::Value;

use super::binary;

const REQUIREMENTS: &str = include_str!("../../openstack-client/requirements.txt");
/// Runs the clients' commands in forks of one process.
const COMMANDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openstack-client/commands.py");
/// PyPI may be slow.
const INSTALL_WITHIN: Duration = Duration::from_secs(600);

/// `openstack` as somebody types it, on one machine.
pub struct OpenstackClient<'a> {
    machine: Option<&'a Namespace>,
    place: PathBuf,
    home: PathBuf,
    variables: Vec<(String, String)>,
    /// The process that is forked. It ends with the last client that shares it.
    server: Rc<Daemon>,
}

impl<'a> OpenstackClient<'a> {
    /// On this machine, with these variables (`OS_…`); `home` is a directory of its own.
    pub fn new(machine: Option<&'a Namespace>, home: &Path, variables: &[(&str, &str)]) -> Self {
        let place = place();
        let mut server = surroundings(command(machine, python(&place)), home);
        server.args(["-I", "-u", COMMANDS, "serve"]).arg(socket(home));
        let mut server = Daemon::start("openstack", server, home);
        eventually("OpenStack's client is imported", || {
            assert!(server.ended().is_none(), "{}", server.log());
            socket(home).exists().then_some(())
        });
        Self { machine, place, home: home.to_owned(), variables: texts(variables), server: Rc::new(server) }
    }

    /// The same client with other variables.
    pub fn with(&self, variables: &[(&str, &str)]) -> Self {
        let (machine, server) = (self.machine, Rc::clone(&self.server));
        let (place, home) = (self.place.clone(), self.home.clone());
        Self { machine, place, home, variables: texts(variables), server }
    }

    /// The command, not started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.python();
        command.args(["-I", "-S", COMMANDS, "run"]).arg(socket(&self.home)).arg("openstack").args(arguments);
        command
    }

    /// Tests of python-heatclient's own, not started. They give name, password and address of a Keystone. A site has no
    /// Keystone, so a wrapper drops these six arguments.
    pub fn functional_tests(&self, names: &[String]) -> Command {
        let callers = self.home.join("callers");
        fs::create_dir_all(&callers).unwrap();
        let (python, socket) = (python(&self.place), socket(&self.home));
        let run = format!("'{}' -I -S '{COMMANDS}' run '{}'", python.display(), socket.display());
        let token = "env -u OS_AUTH_TYPE -u OS_ENDPOINT -u OS_TOKEN HEAT_URL=\"$OS_ENDPOINT\" OS_AUTH_TOKEN=\"$OS_TOKEN\" ";
        for (name, before, after) in [("openstack", "", ""), ("heat", token, " --os-no-client-auth")] {
            let caller = callers.join(name);
            let text = format!("#!/bin/sh\nshift 6\nexec {before}{run} {name}{after} \"$@\"\n");
            fs::write(&caller, text).unwrap();
            fs::set_permissions(&caller, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = self.python();
        command.env("OS_HEATCLIENT_EXEC_DIR", callers).args(["-m", "unittest", "-v"]).args(names);
        command
    }

    /// Python with the client, its surroundings and its variables.
    fn python(&self) -> Command {
        let mut command = surroundings(command(self.machine, python(&self.place)), &self.home);
        command.envs(self.variables.iter().map(|(key, value)| (key, value)));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Running::start(self.command(arguments)).finish()
    }

    /// Returns what the client prints. The client must end well.
    pub fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).expect(0).stdout
    }

    /// The same with `-f json`.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["-f", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }
}

fn texts(variables: &[(&str, &str)]) -> Vec<(String, String)> {
    variables.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Gives a program this home, and nothing of what the caller may have for OpenStack.
fn surroundings(mut program: Command, home: &Path) -> Command {
    for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("OS_") || key.ends_with("_proxy")) {
        program.env_remove(key);
    }
    program.env("HOME", home).env("PYTHONUNBUFFERED", "1").env("LC_ALL", "C.UTF-8").current_dir(home);
    program
}

fn python(place: &Path) -> PathBuf {
    place.join("venv/bin/python")
}

fn socket(home: &Path) -> PathBuf {
    home.join("openstack.sock")
}

/// Returns the client's directory, and installs it there. Tests of several processes install it one after the other.
fn place() -> PathBuf {
    let place = binary("muster-controller").ancestors().nth(2).unwrap().join("openstack-client");
    fs::create_dir_all(&place).unwrap();
    let others = fs::File::create(place.join("lock")).unwrap();
    others.lock().unwrap();
    let installed = place.join("installed.txt");
    if fs::read_to_string(&installed).ok().as_deref() == Some(REQUIREMENTS) {
        return place;
    }
    let requirements = place.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).unwrap();
    let run = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&place);
        Running::start(command).finish_within(INSTALL_WITHIN).expect(0);
    };
    run(Path::new("python3"), &["-m", "venv", "--clear", "venv"]);
    let pip =
        ["install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", "requirements.txt"];
    run(&place.join("venv/bin/pip"), &pip);
    fs::write(installed, REQUIREMENTS).unwrap();
    place
}
