//! systemd over D-Bus: units are started, stopped, watched, enabled and made, and the end of what was begun is known.
//!
//! [`Systemd`] knows where it is and holds nothing; a [`Bus`] is one conversation, opened for a job and closed with it,
//! so that an idle agent has neither buffers nor a task of it.
//!
//! Absent on purpose: which unit is to be how (the callers know), user managers, any other D-Bus service, and
//! systemd's private socket: who speaks there goes by a name that D-Bus does not allow, which the library refuses.

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

/// Where systemd and the bus have their sockets.
const RUN: &str = "/run";
/// The time for an answer, except for the end of jobs. To read all units again takes systemd some
/// ten seconds on a large, busy server; `systemctl` waits as long for that.
const ANSWER_MAX: Duration = Duration::from_secs(90);
/// Signals that wait to be looked at. Others' jobs end too, some hundred with one target; ours must not be lost.
const SIGNALS_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

const SERVICE: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: InterfaceName<'static> =
    InterfaceName::from_static_str_unchecked("org.freedesktop.systemd1.Manager");
const PROPERTIES: InterfaceName<'static> =
    InterfaceName::from_static_str_unchecked("org.freedesktop.DBus.Properties");

type Result<T> = std::result::Result<T, SystemdError>;

/// Where systemd is reached.
#[derive(Clone, Debug)]
pub struct Systemd {
    run: PathBuf,
}

/// A conversation with systemd, which ends when this is dropped.
#[derive(Debug)]
pub struct Bus {
    connection: Connection,
}

/// What systemd is told to do with a unit that is loaded; each is a job of systemd with an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Start,
    Stop,
    /// Also starts it.
    Restart,
    /// What it can do of reloading and restarting; starts it where it is stopped.
    ReloadOrRestart,
    /// Only a unit that runs.
    Reload,
}

/// A change of a unit's file or links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileVerb {
    /// Links as `[Install]` says.
    Enable,
    Disable,
    /// Links it to `/dev/null`.
    Mask,
    Unmask,
}

/// How a job of systemd ended, in its own word: `done`, `failed`, `timeout`, `dependency`, `canceled` and more.
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
    /// `run`: what is `/run` to the systemd that is meant.
    pub fn new(run: PathBuf) -> Self {
        Self { run }
    }

    /// Whether systemd is the first process here.
    pub fn is_there(&self) -> bool {
        // As sd_booted(3) does it.
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

    /// Makes a unit of these properties (as systemd.exec(5) and others name them, in their D-Bus form) and starts it.
    /// The end of it is the start's; a service of `Type=exec` has then its program running.
    ///
    /// # Errors
    /// systemd refuses (there is one of that name, a property is unknown to it), or it takes longer than `within`.
    pub async fn start_transient(
        &self,
        unit: &str,
        properties: &[(&str, Property)],
        within: Duration,
    ) -> Result<JobEnd> {
        let properties: Vec<_> = properties.iter().map(|(name, value)| (*name, value.variant())).collect();
        // Units beside it: none.
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
    /// systemd refuses; it does for a unit that is not loaded.
    pub async fn reset_failed(&self, unit: &str) -> Result<()> {
        self.manager("ResetFailedUnit", format!("reset {unit}"), &unit).await.map(drop)
    }

    /// A unit as it is now; it is loaded for that. One without a file is [`UnitState::is_there`] not.
    ///
    /// # Errors
    /// systemd refuses, or says what cannot be read.
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

    /// Wakes from now on when one of these units changes, and says which.
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
    /// systemd refuses; it says of which file.
    pub async fn change_files(&self, verb: FileVerb, units: &[&str]) -> Result<()> {
        let doing = format!("{verb} {}", units.join(" "));
        let method = verb.method();
        // Also at the next boot (not only in /run), and without force.
        match verb {
            FileVerb::Enable | FileVerb::Mask => self.manager(method, doing, &(units, false, false)).await,
            FileVerb::Disable | FileVerb::Unmask => self.manager(method, doing, &(units, false)).await,
        }
        .map(drop)
    }

    /// `enabled`, `disabled`, `static`, `masked` and more, as its files are now; `None` if there is no such file.
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
        self.manager("Reload", "read its units anew".into(), &()).await.map(drop)
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
        // Before the job: it may end before the answer is here.
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
    /// The next that has changed; none: the conversation has ended.
    pub async fn changed(&mut self) -> Option<String> {
        self.0.next().await
    }
}

impl UnitWatch {
    /// Returns at the next change; an error is the end of the conversation.
    ///
    /// # Errors
    /// Nothing more will be told.
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
    /// What was asked for has been done.
    pub fn is_done(&self) -> bool {
        self.0 == "done"
    }
}

fn read<T: DeserializeOwned + Type>(message: &Message, doing: &str) -> Result<T> {
    let read = message.body().deserialize();
    read.map_err(|source| SystemdError::Lost { doing: doing.to_owned(), source })
}
