//! A PostgreSQL server of a test's own: on a Unix socket, and on loopback where a test asks for that.
//!
//! The server runs as the user `postgres`, since it refuses root. An empty cluster is made once, in `target/testbed`,
//! by whichever test needs it first; each server begins with a copy.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::User;
use tempfile::TempDir;

use crate::port::port;
use crate::process::{Daemon, Running, eventually, look, run};

/// The folder where Debian puts each release's programs.
const RELEASES: &str = "/usr/lib/postgresql";
const USER: &str = "postgres";
/// In the name of a socket, where no port is asked for.
const PORT: u16 = 5432;
/// The name of a session that holds a lock.
const LOCKER: &str = "locker";
/// The settings of every server: small, and without what only a power cut can need.
const SETTINGS: &str = "listen_addresses = ''\nmax_connections = 40\nshared_buffers = 16MB\nfsync = off\n\
                        wal_level = replica\nmax_wal_senders = 4\nhot_standby = on\njit = off\n\
                        max_wal_size = 64MB\nmin_wal_size = 4MB\n";

/// A server with its cluster; both end with the value.
pub struct Postgres {
    daemon: Daemon,
    dir: TempDir,
    port: Option<u16>,
}

impl Postgres {
    /// Starts a server with a role `muster` that may all.
    pub fn start() -> Self {
        Self::with("", None, &|_| ())
    }

    /// With settings of `postgresql.conf`, and a port of loopback. `prepare` gets the cluster's directory.
    pub fn on_loopback(settings: &str, prepare: &dyn Fn(&Path)) -> Self {
        let port = port();
        let settings = format!("{settings}\nlisten_addresses = '127.0.0.1'\nport = {port}\n");
        Self::with(&settings, Some(port), prepare)
    }

    fn with(settings: &str, port: Option<u16>, prepare: &dyn Fn(&Path)) -> Self {
        let dir = folder();
        copy(&empty_cluster(), &dir.path().join("data"));
        prepare(&dir.path().join("data"));
        Self::run(dir, settings, port).expect("a server that starts")
    }

    /// A standby that follows this one by streaming. `name` is its `application_name`.
    pub fn standby(&self, name: &str) -> Self {
        let dir = folder();
        let data = dir.path().join("data");
        let mut copy = as_postgres(programs().join("pg_basebackup"));
        copy.args(["--checkpoint=fast", "--no-sync", "-U", "muster", "-h"]).arg(self.socket_dir());
        copy.args(["-p", &self.port.unwrap_or(PORT).to_string(), "-D"]).arg(&data);
        run(&mut copy);
        let (socket, port) = (self.socket_dir().display().to_string(), self.port.unwrap_or(PORT));
        let from = format!("host={socket} port={port} user=muster application_name={name}");
        fs::write(data.join("standby.signal"), "").unwrap();
        own(&data.join("standby.signal"));
        // One that is promoted while it waits for its server would go on waiting for five seconds.
        let settings = format!("primary_conninfo = '{from}'\nwal_retrieve_retry_interval = '100ms'");
        Self::run(dir, &settings, None).expect("a standby that starts")
    }

    fn run(dir: TempDir, settings: &str, port: Option<u16>) -> Option<Self> {
        let data = dir.path().join("data");
        let file = data.join("test.conf");
        let socket = format!("unix_socket_directories = '{}'\n", dir.path().display());
        fs::write(&file, format!("{SETTINGS}{socket}{settings}\n")).unwrap();
        own(&file);
        let mut command = as_postgres(programs().join("postgres"));
        command.arg("-D").arg(&data);
        let daemon = Daemon::start("postgres", command, dir.path());
        let mut server = Self { daemon, dir, port };
        server.is_up().then_some(server)
    }

    /// Waits until it answers; false: it has ended.
    fn is_up(&mut self) -> bool {
        look(|| match self.daemon.ended() {
            Some(_) => Some(false),
            None => self.try_psql("postgres", "SELECT 1").is_ok().then_some(true),
        })
        .unwrap_or(false)
    }

    /// The directory of its socket.
    pub fn socket_dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// The port on loopback.
    pub fn port(&self) -> u16 {
        self.port.expect("a server on loopback")
    }

    /// The URL of a database over the socket.
    pub fn url(&self, database: &str) -> String {
        let socket = self.socket_dir().display().to_string().replace('/', "%2F");
        match self.port {
            None => format!("postgres://muster@{socket}/{database}"),
            Some(port) => format!("postgres://muster@{socket}:{port}/{database}"),
        }
    }

    /// Makes an empty database.
    pub fn create(&self, database: &str) {
        self.psql("postgres", &format!("CREATE DATABASE {database} ENCODING 'UTF8' TEMPLATE template0"));
    }

    /// Runs SQL; rows as lines, columns with `|` in between.
    #[track_caller]
    pub fn psql(&self, database: &str, sql: &str) -> String {
        self.try_psql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Takes a lock in a session of its own, as a migration or a forgotten transaction does, until the value is dropped.
    pub fn lock(&self, database: &str, table: &str, mode: &str) -> TableLock<'_> {
        let mut psql = self.as_client(database);
        let sql = format!("BEGIN; LOCK TABLE {table} IN {mode} MODE; SELECT pg_sleep(3600)");
        let session = Running::start({
            psql.env("PGAPPNAME", LOCKER).args(["-c", &sql]);
            psql
        });
        eventually("the table is locked", || {
            let sql = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{LOCKER}' AND wait_event = 'PgSleep'"
            );
            (self.psql(database, &sql) == "1").then_some(())
        });
        TableLock { server: self, _session: session }
    }

    /// Stops the server and all its sessions (SIGSTOP), as a machine that hangs does, until [`Postgres::resume`].
    pub fn freeze(&self) {
        self.signal_all("STOP");
    }

    /// The opposite.
    pub fn resume(&self) {
        self.signal_all("CONT");
    }

    /// The server's own process comes first: it makes no more sessions then.
    fn signal_all(&self, name: &str) {
        let id = self.daemon.id();
        self.daemon.signal(name);
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        for child in children.split_whitespace() {
            // It may have ended.
            let _ = Command::new("kill").args(["-s", name, child]).status();
        }
    }

    /// Runs a script of an administrator: PostgreSQL's programs find this server.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-eux", "-c", script]).env("PATH", path).env("PGUSER", "muster");
        command.env("PGPORT", self.port.unwrap_or(PORT).to_string());
        run(command.env("PGHOST", self.socket_dir()))
    }

    fn as_client(&self, database: &str) -> Command {
        let mut psql = Command::new(programs().join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "muster", "-d", database]);
        psql.arg("-h").arg(self.socket_dir());
        if let Some(port) = self.port {
            psql.args(["-p", &port.to_string()]);
        }
        psql
    }

    fn try_psql(&self, database: &str, sql: &str) -> Result<String, String> {
        let output =
            self.as_client(database).args(["-c", sql]).output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// SIGKILL, and the wait for its end.
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Ends all sessions and the server, as for maintenance.
    pub fn stop(&mut self) {
        self.daemon.signal("INT");
        eventually("PostgreSQL stops", || self.daemon.ended());
    }

    /// Starts it again after [`Postgres::kill`] or [`Postgres::stop`].
    pub fn restart(&mut self) {
        // After a kill, sessions end a moment later; until then the server refuses to start.
        eventually("PostgreSQL starts again", || {
            self.daemon.restart();
            self.is_up().then_some(())
        });
    }

    /// Makes a primary of a standby.
    pub fn promote(&self) {
        self.psql("postgres", "SELECT pg_promote(true, 60)");
    }

    /// Appends to its settings, and has it read them.
    pub fn set(&self, settings: &str) {
        let file = self.dir.path().join("data/test.conf");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{text}\n{settings}\n")).unwrap();
        self.psql("postgres", "SELECT pg_reload_conf()");
    }

    /// Writes a file that only the server may read: the key of its certificate.
    pub fn write_private(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        own(path);
    }

    /// The server's log.
    pub fn log(&self) -> String {
        self.daemon.log()
    }
}

/// A session that holds a lock on a table.
pub struct TableLock<'p> {
    server: &'p Postgres,
    _session: Running,
}

impl Drop for TableLock<'_> {
    fn drop(&mut self) {
        // The session would sleep on without its client. A test that fails meanwhile may have ended the server.
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{LOCKER}'"
        );
        let _ = self.server.try_psql("postgres", &sql);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.daemon.ended().is_none() {
            self.resume();
            self.daemon.signal("QUIT");
            look(|| self.daemon.ended());
        }
    }
}

/// The programs of the newest release that is installed.
fn programs() -> PathBuf {
    let releases =
        fs::read_dir(RELEASES).unwrap_or_else(|error| panic!("{RELEASES}: {error}: make test installs it"));
    let newest = releases
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|release| Path::new(RELEASES).join(release.to_string()).join("bin/initdb").exists())
        .max();
    Path::new(RELEASES).join(newest.expect("PostgreSQL: make test installs it").to_string()).join("bin")
}

/// A program as the server's user; it ends with the test, also when the test is killed.
fn as_postgres(program: PathBuf) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", USER, "--regid", USER, "--clear-groups", "--pdeathsig", "QUIT", "--"])
        .arg(program);
    command
}

fn folder() -> TempDir {
    let dir = TempDir::new().unwrap();
    own(dir.path());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn own(path: &Path) {
    let user = User::from_name(USER).unwrap().expect("the user postgres, of the package postgresql");
    chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
}

fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-a").arg(from).arg(to));
}

/// Made once. Two tests may make it at the same time: the first to finish wins.
fn empty_cluster() -> PathBuf {
    let programs = programs();
    let release = programs.parent().and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
    let root = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let made = root.join("testbed").join(format!("postgresql-{release}"));
    if made.exists() {
        return made;
    }
    // The server's user may not enter the directories above `target`: it makes the cluster elsewhere.
    let dir = folder();
    let data = dir.path().join("data");
    run(as_postgres(programs.join("initdb"))
        .args([
            "--no-sync",
            "--auth=trust",
            "--username=muster",
            "--encoding=UTF8",
            "--locale=C",
            "--wal-segsize=1",
        ])
        .arg("-D")
        .arg(&data)
        .current_dir("/"));
    let conf = data.join("postgresql.conf");
    let text = fs::read_to_string(&conf).unwrap();
    fs::write(&conf, format!("{text}\ninclude = 'test.conf'\n")).unwrap();
    fs::create_dir_all(root.join("testbed")).unwrap();
    let own_copy = root.join("testbed").join(format!("postgresql-{release}.{}", std::process::id()));
    copy(&data, &own_copy);
    if fs::rename(&own_copy, &made).is_err() {
        fs::remove_dir_all(&own_copy).unwrap();
    }
    made
}
