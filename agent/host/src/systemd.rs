//! systemd over D-Bus: starts, stops, watches, enables and makes units, and waits for the end of
//! systemd's jobs.
//!
//! [`Systemd`] knows only the paths; a [`Bus`] is one connection, opened for a job and closed after it, so
//! that an idle agent needs neither buffers nor a task.
//!
//! Absent on purpose: the desired state of units (the callers'), user managers, any other D-Bus service, and
//! systemd's private socket: the peer there has a name that D-Bus does not allow, and the library refuses
//! such names.

mod error;
mod property;
mod state;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, SelectAll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};
use zbus::connection::Builder;
use zbus::message::Type as MessageType;
use zbus::names::{InterfaceName, MemberName};
use zbus::{Connection, DynamicType, MatchRule, Message, MessageStream, ObjectPath, OwnedObjectPath, Type};

pub use error::SystemdError;
pub use property::{Command, Property};
pub use state::{Active, UnitState};

/// The directory of systemd's and the bus's sockets.
const RUN: &str = "/run";
/// The time for an answer, except for the end of jobs. To read all units again takes systemd some
/// ten seconds on a large, busy server; `systemctl` waits as long for that.
const ANSWER_MAX: Duration = Duration::from_secs(90);
/// The most signals that wait to be processed. Jobs of others end too, some hundred with one target; ours
/// must not be lost.
const SIGNALS_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

const SERVICE: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: InterfaceName<'static> =
    InterfaceName::from_static_str_unchecked("org.freedesktop.systemd1.Manager");
const PROPERTIES: InterfaceName<'static> =
    InterfaceName::from_static_str_unchecked("org.freedesktop.DBus.Properties");

type Result<T> = std::result::Result<T, SystemdError>;

/// The path to systemd.
#[derive(Clone, Debug)]
pub struct Systemd {
    run: PathBuf,
}

/// A conversation with systemd, which ends when this is dropped.
#[derive(Debug)]
pub struct Bus {
    connection: Connection,
}

/// A job of systemd for a loaded unit; each has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Start,
    Stop,
    /// Restarts the unit, or starts a stopped one.
    Restart,
    /// Reloads the unit if it supports that, otherwise restarts it; starts a stopped one.
    ReloadOrRestart,
    /// Reloads a running unit only.
    Reload,
}

/// A change of a unit's file or links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileVerb {
    /// Makes the links of the `[Install]` section.
    Enable,
    Disable,
    /// Links it to `/dev/null`.
    Mask,
    Unmask,
}

/// The result of a job of systemd, in systemd's term: `done`, `failed`, `timeout`, `dependency`, `canceled`
/// and more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd(pub String);

/// Wakes when something of a unit has changed.
pub struct UnitWatch(MessageStream);

/// Tells of changes of several units.
pub struct UnitsWatch(SelectAll<BoxStream<'static, String>>);

impl Default for Systemd {
    fn default() -> Self {
        Self { run: RUN.into() }
    }
}

impl Systemd {
    /// `run`: the `/run` of that systemd.
    pub fn new(run: PathBuf) -> Self {
        Self { run }
    }

    /// Whether systemd is the first process here.
    pub fn is_there(&self) -> bool {
        // As in sd_booted(3).
        self.run.join("systemd/system").is_dir()
    }

    /// Opens a conversation, and asks for signals.
    ///
    /// # Errors
    /// There is no systemd, or it does not talk to us.
    pub async fn connect(&self) -> Result<Bus> {
        if !self.is_there() {
            return Err(SystemdError::Absent);
        }
        let socket = self.run.join("dbus/system_bus_socket");
        if !socket.exists() {
            return Err(SystemdError::NoBus { socket });
        }
        let builder = Builder::address(format!("unix:path={}", socket.display()).as_str());
        let opening = builder.method_timeout(ANSWER_MAX).max_queued(SIGNALS_MAX).build();
        let connection = match timeout_at(Instant::now() + ANSWER_MAX, opening).await {
            Ok(opened) => opened.map_err(|source| SystemdError::Connect { socket, source })?,
            Err(_) => return Err(SystemdError::NoAnswer { doing: "answer on its bus".into() }),
        };
        let bus = Bus { connection };
        bus.manager("Subscribe", "tell of its jobs".into(), &()).await?;
        Ok(bus)
    }
}

impl Bus {
    /// Starts or stops a unit, or the like, and waits for the end of that job.
    ///
    /// # Errors
    /// systemd refuses, or the job takes longer than `within`; the job goes on then.
    pub async fn tell(&self, verb: Verb, unit: &str, within: Duration) -> Result<JobEnd> {
        let doing = format!("{verb} {unit}");
        self.to_the_end(verb.method(), doing, &(unit, "replace"), within).await
    }

    /// Makes a unit of these properties (named as in systemd.exec(5) and others, in their D-Bus form) and
    /// starts it. Returns the end of the start job; a service of `Type=exec` then has its program running.
    ///
    /// # Errors
    /// systemd refuses (the unit exists already, or a property is unknown), or takes longer than `within`.
    pub async fn start_transient(
        &self,
        unit: &str,
        properties: &[(&str, Property)],
        within: Duration,
    ) -> Result<JobEnd> {
        let properties: Vec<_> = properties.iter().map(|(name, value)| (*name, value.variant())).collect();
        // No auxiliary units.
        let beside: Vec<(&str, Vec<(&str, zbus::Variant<'_>)>)> = Vec::new();
        let body = (unit, "fail", properties, beside);
        self.to_the_end("StartTransientUnit", format!("start {unit}"), &body, within).await
    }

    /// Sends a signal to all processes of a unit.
    ///
    /// # Errors
    /// systemd refuses.
    pub async fn kill(&self, unit: &str, signal: i32) -> Result<()> {
        self.manager("KillUnit", format!("kill {unit}"), &(unit, "all", signal)).await.map(drop)
    }

    /// Forgets that a unit failed, and how often it was started.
    ///
    /// # Errors
    /// systemd refuses, as for a unit that is not loaded.
    pub async fn reset_failed(&self, unit: &str) -> Result<()> {
        self.manager("ResetFailedUnit", format!("reset {unit}"), &unit).await.map(drop)
    }

    /// The present state of a unit, which is loaded for this. See [`UnitState::is_there`] for a unit without
    /// a file.
    ///
    /// # Errors
    /// systemd refuses, or its answer cannot be read.
    pub async fn state(&self, unit: &str) -> Result<UnitState> {
        let doing = format!("tell the state of {unit}");
        let path = self.unit_path(unit, &doing).await?;
        let of_unit = self.all(&path, "org.freedesktop.systemd1.Unit", &doing).await?;
        let mut state = UnitState::read(&of_unit);
        if unit.ends_with(".service") && state.is_there() {
            state.read_service(&self.all(&path, "org.freedesktop.systemd1.Service", &doing).await?);
        }
        Ok(state)
    }

    /// Wakes from now on when the unit changes.
    ///
    /// # Errors
    /// systemd refuses.
    pub async fn watch(&self, unit: &str) -> Result<UnitWatch> {
        let doing = format!("tell of changes of {unit}");
        let path = self.unit_path(unit, &doing).await?;
        let rule =
            MatchRule::builder().msg_type(MessageType::Signal).path(path.as_ref()).interface(PROPERTIES);
        self.signals(rule.build(), &doing).await.map(UnitWatch)
    }

    /// A stream of the names of units that change, from now on.
    ///
    /// # Errors
    /// systemd refuses.
    pub async fn watch_all(&self, units: &[String]) -> Result<UnitsWatch> {
        let mut all = SelectAll::new();
        for unit in units {
            let (watch, unit) = (self.watch(unit).await?, unit.clone());
            all.push(watch.0.map(move |_| unit.clone()).boxed());
        }
        Ok(UnitsWatch(all))
    }

    /// Enables, disables, masks or unmasks. Links of others are left alone: a conflict is an error.
    ///
    /// # Errors
    /// systemd refuses, and names the file.
    pub async fn change_files(&self, verb: FileVerb, units: &[&str]) -> Result<()> {
        let doing = format!("{verb} {}", units.join(" "));
        let method = verb.method();
        // Also for the next boot (not only in /run), and without force.
        match verb {
            FileVerb::Enable | FileVerb::Mask => self.manager(method, doing, &(units, false, false)).await,
            FileVerb::Disable | FileVerb::Unmask => self.manager(method, doing, &(units, false)).await,
        }
        .map(drop)
    }

    /// `enabled`, `disabled`, `static`, `masked` and more, according to the present files; `None` if there is
    /// no such file.
    ///
    /// # Errors
    /// systemd refuses.
    pub async fn file_state(&self, unit: &str) -> Result<Option<String>> {
        let doing = format!("tell whether {unit} is enabled");
        match self.manager("GetUnitFileState", doing.clone(), &unit).await {
            Ok(answer) => read(&answer, &doing).map(Some),
            Err(error) if error.is_no_such_unit() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes systemd read all units again.
    ///
    /// # Errors
    /// systemd refuses. A unit with a mistake in it is no error here.
    pub async fn reload(&self) -> Result<()> {
        self.manager("Reload", "read its units again".into(), &()).await.map(drop)
    }

    /// Calls what begins a job, and waits for the job's end.
    async fn to_the_end(
        &self,
        method: &'static str,
        doing: String,
        body: &(impl Serialize + DynamicType),
        within: Duration,
    ) -> Result<JobEnd> {
        let until = Instant::now() + within;
        // Subscribed before the job begins: it may end before the answer arrives.
        let rule = MatchRule::builder()
            .msg_type(MessageType::Signal)
            .interface(MANAGER)
            .member(MemberName::from_static_str_unchecked("JobRemoved"));
        let mut ends = self.signals(rule.build(), &doing).await?;
        let answer = self.manager(method, doing.clone(), body).await?;
        let job: OwnedObjectPath = read(&answer, &doing)?;
        let ended = async {
            while let Some(signal) = ends.next().await {
                let signal = signal.map_err(|source| SystemdError::Lost { doing: doing.clone(), source })?;
                let (_, ended, _, end): (u32, OwnedObjectPath, String, String) = read(&signal, &doing)?;
                if ended == job {
                    return Ok(JobEnd(end));
                }
            }
            Err(SystemdError::Closed { doing: doing.clone() })
        };
        timeout_at(until, ended)
            .await
            .unwrap_or_else(|_| Err(SystemdError::TooLong { doing: doing.clone(), within }))
    }

    async fn signals(&self, rule: zbus::Result<MatchRule<'_>>, doing: &str) -> Result<MessageStream> {
        let asked = async {
            MessageStream::for_match_rule(rule?.to_owned(), &self.connection, Some(SIGNALS_MAX)).await
        };
        asked.await.map_err(|source| SystemdError::Lost { doing: doing.to_owned(), source })
    }

    async fn unit_path(&self, unit: &str, doing: &str) -> Result<OwnedObjectPath> {
        read(&self.manager("LoadUnit", doing.to_owned(), &unit).await?, doing)
    }

    async fn all(&self, path: &ObjectPath<'_>, interface: &str, doing: &str) -> Result<state::Properties> {
        let answer = self.call(path, PROPERTIES, "GetAll", doing.to_owned(), &interface).await?;
        read(&answer, doing)
    }

    async fn manager(
        &self,
        method: &'static str,
        doing: String,
        body: &(impl Serialize + DynamicType),
    ) -> Result<Message> {
        self.call(&ObjectPath::from_static_str_unchecked(MANAGER_PATH), MANAGER, method, doing, body).await
    }

    async fn call(
        &self,
        path: &ObjectPath<'_>,
        interface: InterfaceName<'static>,
        method: &'static str,
        doing: String,
        body: &(impl Serialize + DynamicType),
    ) -> Result<Message> {
        let called =
            self.connection.call_method(Some(SERVICE), path.as_ref(), Some(interface), method, body).await;
        called.map_err(|error| SystemdError::of(doing, error))
    }
}

impl UnitsWatch {
    /// The next unit that changed; `None` once the connection has ended.
    pub async fn changed(&mut self) -> Option<String> {
        self.0.next().await
    }
}

impl UnitWatch {
    /// Returns at the next change; an error ends the connection.
    ///
    /// # Errors
    /// No more changes will be reported.
    pub async fn changed(&mut self) -> Result<()> {
        let doing = "tell of changes of a unit";
        match self.0.next().await {
            Some(Ok(_)) => Ok(()),
            Some(Err(source)) => Err(SystemdError::Lost { doing: doing.into(), source }),
            None => Err(SystemdError::Closed { doing: doing.into() }),
        }
    }
}

impl Verb {
    fn method(self) -> &'static str {
        match self {
            Verb::Start => "StartUnit",
            Verb::Stop => "StopUnit",
            Verb::Restart => "RestartUnit",
            Verb::ReloadOrRestart => "ReloadOrRestartUnit",
            Verb::Reload => "ReloadUnit",
        }
    }
}

impl FileVerb {
    fn method(self) -> &'static str {
        match self {
            FileVerb::Enable => "EnableUnitFiles",
            FileVerb::Disable => "DisableUnitFiles",
            FileVerb::Mask => "MaskUnitFiles",
            FileVerb::Unmask => "UnmaskUnitFiles",
        }
    }
}

impl std::fmt::Display for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Verb::Start => "start",
            Verb::Stop => "stop",
            Verb::Restart => "restart",
            Verb::ReloadOrRestart => "reload or restart",
            Verb::Reload => "reload",
        })
    }
}

impl std::fmt::Display for FileVerb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FileVerb::Enable => "enable",
            FileVerb::Disable => "disable",
            FileVerb::Mask => "mask",
            FileVerb::Unmask => "unmask",
        })
    }
}

impl JobEnd {
    /// The job did its work.
    pub fn is_done(&self) -> bool {
        self.0 == "done"
    }
}

fn read<T: DeserializeOwned + Type>(message: &Message, doing: &str) -> Result<T> {
    let read = message.body().deserialize();
    read.map_err(|source| SystemdError::Lost { doing: doing.to_owned(), source })
}
