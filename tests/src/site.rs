//! A site of real processes: a controller, its agents, and `muster` as an operator types it.
//!
//! Everything lives in one temporary directory, on loopback or in network namespaces made for it, and ends with
//! the value. Tests wait for what they can see (an exit, a file, an answer of the API), never for time to pass;
//! whatever is waited for longer than [`PATIENCE`] has failed, and the ends of all logs are printed.
//!
//! Absent: anything that knows how the controller or the agent work inside.
#![allow(clippy::unwrap_used, reason = "only tests are made of this; what fails here fails the test")]

mod broker_page;
mod controllers;
mod heat_agents;
pub mod heatclient_tests;
mod hostile_broker;
mod mosquitto;
mod oidc_provider;
mod one_server;
mod openstack_client;
mod packages;
mod probe;
mod rmqtt;

pub use controllers::Controllers;
pub use heat_agents::HeatAgents;
pub use hostile_broker::{HostileBroker, Misdeeds};
pub use mosquitto::{Mosquitto, Port, certificates};
pub use oidc_provider::OidcProvider;
pub use one_server::OneServer;
pub use openstack_client::OpenstackClient;
pub use packages::{PACKAGES, Packages};
pub use probe::Probe;
pub use rmqtt::Rmqtt;

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_testbed::{
    Daemon, Namespace, OwnName, PATIENCE, Ran, Running, Switch, Vm, command, eventually, port,
};
use serde_json::Value;
use tempfile::TempDir;

/// A controller with its data directory.
pub struct Site {
    /// The running controller.
    pub controller: Daemon,
    /// The broker between the controller and its agents.
    pub broker: Option<Mosquitto>,
    /// The same, if that is a cluster; and which of its nodes new connections try first.
    pub cluster: Option<Cluster>,
    /// The controller's network namespace; none: it is on loopback.
    pub namespace: Option<Namespace>,
    address: String,
    /// The section for the link in the controller's file.
    link: String,
    socket: PathBuf,
    data: PathBuf,
    files: RefCell<u32>,
    /// The site that commands are for, of several at the controller; empty: the default one.
    site: RefCell<String>,
    dir: TempDir,
}

/// A cluster of rmqtt, and how the controller is told of it.
pub struct Cluster {
    pub rmqtt: Rmqtt,
    plan: rmqtt::Plan,
}

/// An agent with its state directory, and a directory for what it is to make.
pub struct Agent {
    /// The node's name.
    pub name: String,
    /// The running agent.
    pub daemon: Daemon,
    pub state: PathBuf,
    /// A directory of this node's own for files of a template.
    pub root: PathBuf,
}

/// The kind of link between agents and the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Direct,
    Mosquitto,
    /// A broker in the controller's process.
    Embedded,
    /// A cluster of three.
    Rmqtt,
}

impl Link {
    /// As `MUSTER_TEST_LINK` says, for all tests that do not care.
    pub fn wanted() -> Self {
        match std::env::var("MUSTER_TEST_LINK").as_deref() {
            Err(_) | Ok("direct") => Self::Direct,
            Ok("mosquitto") => Self::Mosquitto,
            Ok("embedded") => Self::Embedded,
            Ok("rmqtt") => Self::Rmqtt,
            Ok(other) => panic!("MUSTER_TEST_LINK={other}: want direct, mosquitto, embedded or rmqtt"),
        }
    }
}

/// The place of an agent: where it runs, and how.
#[derive(Default)]
pub struct Place<'a> {
    /// In this network namespace.
    pub namespace: Option<&'a Namespace>,
    /// With this switch.
    pub switch: Option<&'a Switch>,
    /// With this host name; without one, no job may change it.
    pub own_name: Option<&'a OwnName>,
    /// State directory; by default one of its own.
    pub state: Option<PathBuf>,
}

impl Site {
    /// On loopback.
    pub fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        Self::at(dir, data, None)
    }

    /// On loopback, with a data directory made by the caller.
    pub fn with_data(data: &Path) -> Self {
        Self::at(TempDir::new().unwrap(), data.to_owned(), None)
    }

    /// In a namespace of its own; see [`Namespace::server`].
    pub fn in_namespace() -> Self {
        Self::in_namespace_with(&[])
    }

    /// In a namespace of its own, with these variables in the controller's environment.
    pub fn in_namespace_with(variables: &[(&str, &OsStr)]) -> Self {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        Self::with(dir, data, Some(Namespace::hub()), None, variables, Link::wanted())
    }

    /// On loopback, for agents in virtual machines ([`Vm`]).
    pub fn for_virtual_machines() -> Self {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        Self::with(dir, data, None, Some(Vm::HOST), &[], Link::Direct)
    }

    /// On loopback, with these variables in the controller's environment.
    pub fn with_variables(variables: &[(&str, &OsStr)]) -> Self {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        Self::with(dir, data, None, None, variables, Link::wanted())
    }

    /// The same over the direct link, which is all that `muster-sim fleet` knows.
    pub fn direct_with_variables(variables: &[(&str, &OsStr)]) -> Self {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        Self::with(dir, data, None, None, variables, Link::Direct)
    }

    /// On loopback, with a broker between controller and agents that does what it likes.
    pub fn over_hostile_broker(seed: u64) -> (Self, HostileBroker) {
        let dir = TempDir::new().unwrap();
        let plan = mosquitto::Plan::new(dir.path(), None);
        let broker = HostileBroker::start(plan.port(), plan.dir(), seed);
        let data = dir.path().join("data");
        (Self::configured(dir, data, None, None, &[], &plan.one_port().settings()), broker)
    }

    /// On loopback, over this link.
    pub fn over(link: Link) -> Self {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        Self::with(dir, data, None, None, &[], link)
    }

    fn at(dir: TempDir, data: PathBuf, namespace: Option<Namespace>) -> Self {
        Self::with(dir, data, namespace, None, &[], Link::wanted())
    }

    fn with(
        dir: TempDir,
        data: PathBuf,
        namespace: Option<Namespace>,
        seen_as: Option<&str>,
        variables: &[(&str, &OsStr)],
        link: Link,
    ) -> Self {
        match link {
            Link::Direct => Self::configured(dir, data, namespace, seen_as, variables, ""),
            Link::Embedded => {
                Self::configured(dir, data, namespace, seen_as, variables, "[link]\nurl = \"embedded\"\n")
            }
            Link::Mosquitto => {
                let plan = mosquitto::Plan::new(dir.path(), namespace.as_ref());
                let mut site = Self::configured(dir, data, namespace, seen_as, variables, &plan.settings());
                site.address = plan.address();
                // The controller has made its keys by now.
                site.broker = Some(plan.start(&site.data.join("pki"), site.namespace.as_ref()));
                site
            }
            Link::Rmqtt => {
                let plan = rmqtt::Plan::new(dir.path(), namespace.as_ref());
                let mut site = Self::configured(dir, data, namespace, seen_as, variables, "");
                site.address = plan.address();
                let rmqtt = plan.start(&site.data.join("pki"), site.namespace.as_ref());
                site.cluster = Some(Cluster { rmqtt, plan });
                site.try_first(0);
                site
            }
        }
    }

    /// Restarts the controller so that it, and agents that join from now on, try this node of the cluster first.
    pub fn try_first(&mut self, node: usize) {
        let site = fs::read_to_string(self.data.join("pki/site")).unwrap();
        let plan = &self.cluster.as_ref().expect("a site with a cluster").plan;
        self.link = plan.settings(site.trim(), node);
        self.configure("");
        self.kill();
        self.restart();
    }

    /// Writes these settings and those of its link into the controller's file; its next start reads it.
    pub fn configure(&self, settings: &str) {
        fs::write(self.dir.path().join("controller.toml"), format!("{settings}\n{}", self.link)).unwrap();
    }

    /// Join tokens carry the address that it listens on, or this host with its port, if the settings say nothing else.
    fn configured(
        dir: TempDir,
        data: PathBuf,
        namespace: Option<Namespace>,
        seen_as: Option<&str>,
        variables: &[(&str, &OsStr)],
        link: &str,
    ) -> Self {
        let address = match &namespace {
            Some(_) => format!("{}:8883", Namespace::HUB),
            None => format!("127.0.0.1:{}", port()),
        };
        let socket = dir.path().join("api.sock");
        let config = dir.path().join("controller.toml");
        fs::write(&config, link).unwrap();
        let mut command = command(namespace.as_ref(), binary("muster-controller"));
        command.arg("--config").arg(&config).args(["--listen", &address]);
        command.arg("--data-dir").arg(&data).arg("--api-socket").arg(&socket);
        command.env("MUSTER_LIMITS__HEARTBEAT", "2").envs(variables.iter().copied());
        if let Some(host) = seen_as {
            let port = address.rsplit(':').next().unwrap();
            command.env("MUSTER_CONTROLLER__ADDRESSES", format!("{host}:{port}"));
        }
        let controller = Daemon::start("controller", command, dir.path());
        let (files, link) = (RefCell::new(0), link.to_owned());
        let site = Self {
            controller,
            broker: None,
            cluster: None,
            namespace,
            address,
            link,
            socket,
            data,
            files,
            site: RefCell::default(),
            dir,
        };
        site.until_answers();
        site
    }

    fn until_answers(&self) {
        eventually("the controller answers", || UnixStream::connect(&self.socket).ok());
    }

    /// SIGKILL, and the wait for its end.
    pub fn kill(&mut self) {
        self.controller.kill();
    }

    /// Starts it again; the next command finds it.
    pub fn restart(&mut self) {
        self.controller.restart();
        self.until_answers();
    }

    /// The controller's namespace.
    pub fn hub(&self) -> &Namespace {
        self.namespace.as_ref().expect("a site in a namespace")
    }

    /// `<data-dir>/pki/ca.crt`
    pub fn ca(&self) -> PathBuf {
        self.data.join("pki/ca.crt")
    }

    /// `<data-dir>/muster.db`
    pub fn database(&self) -> PathBuf {
        self.data.join("muster.db")
    }

    /// `host:port` for agents, which may be a broker's.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A directory for what a test needs besides.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// `--url` of its API.
    pub fn url(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Starts `muster` with these arguments.
    pub fn spawn(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new(binary("muster"));
        command.args(["--url", &self.url()]).args(arguments);
        match self.site.borrow().as_str() {
            "" => command.env_remove("MUSTER_SITE"),
            name => command.env("MUSTER_SITE", name),
        };
        Running::start(command)
    }

    /// Does this with commands for the site of this name.
    pub fn in_site<T>(&self, name: &str, work: impl FnOnce(&Self) -> T) -> T {
        let before = self.site.replace(name.to_owned());
        let done = work(self);
        self.site.replace(before);
        done
    }

    /// Runs `muster` with these arguments to its end.
    pub fn muster(&self, arguments: &[&str]) -> Ran {
        self.spawn(arguments).finish()
    }

    /// [`Site::muster`] that must exit 0; its stdout.
    pub fn ok(&self, arguments: &[&str]) -> String {
        self.muster(arguments).expect(0).stdout
    }

    /// [`Site::ok`] with `-o json`.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }

    /// A file with this text, of its own name; for templates.
    pub fn file(&self, text: &str) -> String {
        *self.files.borrow_mut() += 1;
        let path = self.dir.path().join(format!("t{}.yaml", self.files.borrow()));
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// An agent on loopback, joined and online.
    pub fn join(&self, name: &str) -> Agent {
        self.join_at(name, Place::default())
    }

    /// An agent that is joined and online.
    pub fn join_at(&self, name: &str, place: Place<'_>) -> Agent {
        let token = self.ok(&["node", "token", "--name", name]);
        let agent = self.agent(name, token.trim(), place);
        self.until_node(name, "online");
        agent
    }

    /// An agent that was just started with a token.
    pub fn agent(&self, name: &str, token: &str, place: Place<'_>) -> Agent {
        let state = place.state.unwrap_or_else(|| self.dir.path().join(name));
        let root = self.dir.path().join(format!("{name}.root"));
        let config = self.dir.path().join("agent.toml");
        fs::create_dir_all(&root).unwrap();
        fs::write(&config, "").unwrap();
        let program = binary("muster-agent");
        let command = |arguments: &[&str]| {
            let mut command = match place.own_name {
                None => command(place.namespace, &program),
                Some(own) => {
                    let mut command = command(place.namespace, "nsenter");
                    command.arg(own.flag()).arg("--").arg(&program);
                    command
                }
            };
            // Never this machine's own.
            command.env("MUSTER_HOST__ETC_HOSTNAME", root.join("hostname"));
            command.env("MUSTER_HOST__RUN_DIR", root.join("run"));
            command.env("MUSTER_HOST__HOOKS", root.join("hooks"));
            command.args(arguments).arg("--config").arg(&config).arg("--state-dir").arg(&state);
            if let Some(switch) = place.switch {
                switch.environment(&mut command);
            }
            command
        };
        // Two agents may have one name.
        let log = state.file_name().unwrap().to_str().unwrap();
        let mut daemon = Daemon::start(log, command(&["join", token, "--name", name]), self.dir.path());
        daemon.next(command(&[]));
        Agent { name: name.to_owned(), daemon, state, root }
    }

    /// Waits until `node list` has the node in this state.
    pub fn until_node(&self, name: &str, state: &str) {
        eventually(&format!("{name} is {state}"), || (self.node_state(name)? == state).then_some(()));
    }

    /// As `node list` has it; none if it is not there.
    pub fn node_state(&self, name: &str) -> Option<String> {
        let list = self.json(&["node", "list"]);
        let node = list.as_array().unwrap().iter().find(|node| node["name"] == name)?;
        Some(node["state"].as_str().unwrap().to_owned())
    }

    /// `resource list STACK`, by name.
    pub fn resource(&self, stack: &str, name: &str) -> Value {
        let list = self.json(&["resource", "list", stack]);
        let found = list.as_array().unwrap().iter().find(|row| row["name"] == name).cloned();
        found.unwrap_or_else(|| panic!("no resource {name} in {list}"))
    }

    /// Rows of a query against the database, as text.
    pub fn query(&self, sql: &str) -> Vec<Vec<String>> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let db = rusqlite::Connection::open_with_flags(self.database(), flags).unwrap();
        db.busy_timeout(PATIENCE).unwrap();
        let mut select = db.prepare(sql).unwrap();
        let columns = select.column_count();
        let text = |row: &rusqlite::Row<'_>, column| {
            Ok(match row.get_ref(column)? {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            })
        };
        let rows = select.query_map([], |row| (0..columns).map(|column| text(row, column)).collect());
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// Every physical id that a name of a stack ever had, from its events.
    pub fn physical_ids(&self, stack: &str, name: &str) -> Vec<String> {
        let sql = format!(
            "SELECT DISTINCT physical_id FROM events WHERE resource = '{name}'
             AND stack_id = (SELECT id FROM stacks WHERE name = '{stack}')"
        );
        self.query(&sql).into_iter().map(|mut row| row.remove(0)).collect()
    }
}

impl Agent {
    /// A file of this node's own directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the content of a file; none if it does not exist.
    pub fn content(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.file(name)).ok()
    }

    /// Names of what is in the node's directory.
    pub fn listing(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.root).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A template with the file `motd` on a node, which has the parameter `text` in it.
pub fn template_of_a_file(node: &str, path: &Path) -> String {
    format!(
        "heat_template_version: 2021-04-16
parameters:
  text: {{type: string}}
resources:
  motd:
    type: Muster::File
    properties: {{node: {node}, path: {}, content: {{get_param: text}}}}
",
        path.display()
    )
}

/// A built program: of the folder that `MUSTER_PROGRAMS` names, or beside the test's own; that is built now if it is not
/// there.
pub fn binary(name: &str) -> PathBuf {
    if let Some(folder) = std::env::var_os("MUSTER_PROGRAMS") {
        return Path::new(&folder).join(name);
    }
    let own = std::env::current_exe().unwrap();
    let folder = own.ancestors().find(|folder| folder.join("deps").is_dir()).unwrap();
    let path = folder.join(name);
    if !path.exists() {
        let package = if name == "muster" { "muster-cli" } else { name };
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--package", package]);
        match folder.file_name().and_then(|profile| profile.to_str()) {
            None | Some("debug") => {}
            Some(profile) => drop(cargo.args(["--profile", profile])),
        }
        assert!(cargo.status().unwrap().success(), "cannot build {package}");
    }
    path
}
