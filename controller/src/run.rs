//! Runs a site. Where the database is one that several controllers can use, this one stands by until it has the
//! site's lease; then it serves until it is told to stop, or the lease is over.

mod active;
mod hand_over;
mod links;
mod standby;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use muster_controller::config::{LogFormat, Settings};
use muster_controller::lease::{self, Ended, Tenure};
use muster_controller::link::Common;
use muster_controller::link::intake;
use muster_controller::store::Location;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use active::{Active, Served};
pub use hand_over::hand_over;
use standby::Lease;

type LogHandle = reload::Handle<EnvFilter, tracing_subscriber::Registry>;

/// What outlives a change of roles.
struct Program {
    settings: Settings,
    config_file: Option<PathBuf>,
    log: LogHandle,
    /// Of the data directory, which is locked.
    instance: String,
}

/// Why a controller served no longer, without an error.
enum Next {
    Stop,
    /// Another controller is to be active.
    StandBy,
}

/// Runs until it is told to stop.
///
/// # Errors
/// The site cannot be served, or no longer: another controller has taken it over.
pub fn run(settings: Settings, config_file: Option<PathBuf>) -> anyhow::Result<()> {
    let log = log(&settings)?;
    let lock = muster_controller::data_dir::open(&settings.controller.data_dir)?;
    let instance = lease::instance(&lock).context("this machine's boot cannot be told from others")?;
    let program = Program { settings, config_file, log, instance };
    loop {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let served = runtime.block_on(program.serve());
        // Everything still open has had its time.
        runtime.shutdown_timeout(Duration::from_millis(500));
        match served? {
            Next::Stop => return Ok(()),
            Next::StandBy => {}
        }
    }
}

/// rumqttd has a line for each client, whoever that is; the embedded broker says itself what counts.
fn log_filter(level: &str) -> Result<EnvFilter, ParseError> {
    let is_named = !cfg!(feature = "embedded") || level.contains("rumqttd");
    EnvFilter::try_new(if is_named { level.to_owned() } else { format!("{level},rumqttd=off") })
}

fn log(settings: &Settings) -> anyhow::Result<LogHandle> {
    let level = &settings.log.level;
    let filter = log_filter(level).with_context(|| format!("log.level '{level}' is no filter"))?;
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry().with(filter);
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    match settings.log.format {
        LogFormat::Human => registry.with(lines).init(),
        LogFormat::Json => registry.with(lines.json()).init(),
    }
    Ok(handle)
}

impl Program {
    async fn serve(&self) -> anyhow::Result<Next> {
        let (feed, from_link) = intake::channel(intake::fair::Bounds::default());
        let Location::Postgres(server) = self.settings.database() else {
            let common = Common::new(Tenure::for_good());
            let active = Active { program: self, common, term: None };
            active.serve(feed, from_link, None, std::future::pending()).await?;
            return Ok(Next::Stop);
        };
        let common = Common::new(Tenure::none());
        let standby = standby::stand_by(self, &server, &common, &feed).await?;
        let Some(Lease { keeper, term, ended, link }) = standby else { return Ok(Next::Stop) };
        let active = Active { program: self, common, term: Some(term) };
        // A keeper whose thread is gone renews nothing.
        let ended = async { ended.await.unwrap_or(Ended::Lost) };
        let served = active.serve(feed, from_link, link, ended).await;
        let heir = match &served {
            Ok(Served::HandOver { heir }) => Some(heir.clone()),
            Ok(Served::Stopped) | Err(_) => None,
        };
        drop(tokio::task::spawn_blocking(move || keeper.leave(heir)).await);
        Ok(match served? {
            Served::Stopped => Next::Stop,
            Served::HandOver { .. } => Next::StandBy,
        })
    }

    fn reload(&self) {
        match Settings::read(self.config_file.as_deref(), std::env::vars()) {
            Ok(fresh) => match log_filter(&fresh.log.level) {
                Ok(filter) => drop(self.log.reload(filter)), // fails only if the subscriber is gone
                Err(error) => tracing::error!(%error, "log.level is left as it was"),
            },
            Err(error) => tracing::error!("the settings are left as they were: {error:#}"),
        }
    }
}
