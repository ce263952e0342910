//! The hooks of OpenStack's heat-agents, as PyPI has them (Apache License 2.0), and Ansible for one of them. Nothing of
//! them is in this repository: they are installed once for a build directory.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_testbed::Running;

use super::{Agent, binary};

/// The source package: its installation would leave out the hooks.
const AGENTS: &str =
    "heat-agents==13.0.0 --hash=sha256:346099c6e9f16bd5e68913b825013acdd97b6743a1764ebcfc08d6528cefa9d6\n";
/// The newest that this was tried with, or older ones that this Python can run.
const TOOLS: [&str; 2] = ["ansible-core<2.20", "PyYAML<7"];
/// PyPI may be slow.
const INSTALL_WITHIN: Duration = Duration::from_secs(600);

/// The hooks, and the programs that they call.
pub struct HeatAgents {
    place: PathBuf,
}

impl HeatAgents {
    /// Installs them, unless that is done. Tests of several processes install them one after the other.
    pub fn installed() -> Self {
        let place = binary("muster-controller").ancestors().nth(2).unwrap().join("heat-agents");
        fs::create_dir_all(&place).unwrap();
        let others = fs::File::create(place.join("lock")).unwrap();
        others.lock().unwrap();
        let installed = place.join("installed.txt");
        let wanted = format!("{AGENTS}{TOOLS:?}");
        if fs::read_to_string(&installed).ok().as_deref() == Some(&*wanted) {
            return Self { place };
        }
        fs::write(place.join("agents.txt"), AGENTS).unwrap();
        let run = |program: &Path, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(&place);
            Running::start(command).finish_within(INSTALL_WITHIN).expect(0);
        };
        run(Path::new("python3"), &["-m", "venv", "--clear", "venv"]);
        let pip = place.join("venv/bin/pip");
        let quiet = ["--quiet", "--disable-pip-version-check"];
        run(&pip, &[&["install"], &quiet[..], &TOOLS].concat());
        let source = ["--no-deps", "--no-binary", ":all:", "--require-hashes", "-r", "agents.txt"];
        run(&pip, &[&["download"], &quiet[..], &source].concat());
        run(Path::new("tar"), &["xzf", "heat_agents-13.0.0.tar.gz"]);
        fs::write(installed, wanted).unwrap();
        Self { place }
    }

    /// A program that was installed with them.
    pub fn program(&self, name: &str) -> PathBuf {
        self.place.join("venv/bin").join(name)
    }

    /// The program that stands for others in heat-agents' own tests: it tells its arguments and variables to the file
    /// `$TEST_STATE_PATH`, and answers as `$TEST_RESPONSE` says.
    pub fn fake_tool(&self) -> String {
        let tool = self.source().join("tests/config-tool-fake.py");
        fs::set_permissions(&tool, Permissions::from_mode(0o755)).unwrap();
        tool.display().to_string()
    }

    /// Gives an agent the hook of a group, with these variables.
    pub fn give(&self, agent: &Agent, group: &str, variables: &[(&str, &str)]) {
        let hook = self.source().join(format!("heat-config-{group}/install.d/hook-{group}.py"));
        let mut text = "#!/bin/sh\n".to_owned();
        for (name, value) in variables {
            writeln!(text, "export {name}='{value}'").unwrap();
        }
        writeln!(text, "exec '{}' '{}'", self.program("python3").display(), hook.display()).unwrap();
        agent.hook(group, &text);
    }

    fn source(&self) -> PathBuf {
        self.place.join("heat_agents-13.0.0")
    }
}

impl Agent {
    /// Puts a hook where this agent looks for them.
    pub fn hook(&self, group: &str, text: &str) {
        let path = self.file("hooks").join(group);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
}
