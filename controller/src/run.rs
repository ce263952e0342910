//! Runs the sites of a process, each on a thread of its own. Where the database is one that several controllers can
//! use, a site stands by until this process has its lease; then it serves until all are told to stop, or the lease is
//! over.
//!
//! Absent: when the lease is taken or lost (`lease/machine.rs`).

mod active;
mod hand_on;
mod hand_over;
mod links;
mod process;
mod standby;

use std::fs::File;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use muster_controller::api::Socket;
use muster_controller::config::{LogFormat, Settings};
use muster_controller::data_dir;
use muster_controller::journal::Journal;
use muster_controller::lease::{self, Ended, Share, Tenure, UnreachedBroker};
use muster_controller::link::Common;
use muster_controller::link::intake;
use muster_controller::store::Location;
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use active::{Active, Served, Why};
pub use hand_over::hand_over;
use process::{LogHandle, Process};
use standby::Lease;

/// A site of the process: the parts that outlive a change of roles.
struct SiteRun<'p> {
    process: &'p Process,
    settings: Settings,
    /// The instance in the site's data directory, which is locked.
    instance: String,
    broker: Mutex<UnreachedBroker>,
}

/// The reason why a site was served no longer, without an error.
enum Next {
    Stop,
    /// Another controller is to be active.
    StandBy,
}

/// Runs until it is told to stop. When one site ends, all do: whoever started this starts it again.
///
/// # Errors
/// A site cannot be served, or no longer: another controller has taken it over.
pub fn run(settings: &Settings, config_file: Option<PathBuf>) -> anyhow::Result<()> {
    settings.check_database()?;
    let certificate = settings.own_certificate()?.map(Arc::new);
    settings.client_verifier()?;
    settings.check_providers()?;
    let log = log(settings)?;
    let sites = settings.of_sites();
    let names: Vec<_> = sites.iter().map(|settings| settings.site.clone()).collect();
    let runtime = runtime()?;
    let socket = Socket::new(settings.controller.api_socket.clone(), names.clone(), runtime.handle().clone());
    let share = Share::new(settings.name(), names.iter().cloned());
    let process = Process::new(config_file, log, socket, certificate, share, names.into_iter());
    let locks = sites.iter().map(|settings| data_dir::open(&settings.controller.data_dir));
    let locks = locks.collect::<anyhow::Result<Vec<File>>>()?;
    let runs = sites.into_iter().zip(&locks).map(|(settings, lock)| {
        let instance = lease::instance(lock).context("this machine's boot cannot be told from others")?;
        Ok(SiteRun { process: &process, settings, instance, broker: Mutex::default() })
    });
    let runs = runs.collect::<anyhow::Result<Vec<SiteRun<'_>>>>()?;
    let ran = thread::scope(|scope| {
        let threads: Vec<_> = runs.iter().map(|run| scope.spawn(|| run.run())).collect();
        let followed = runtime.block_on(process.follow_signals());
        process.stop();
        let join =
            |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        // All have ended before the first error is told.
        let ran: Vec<anyhow::Result<()>> = threads.into_iter().map(join).collect();
        followed?;
        ran.into_iter().collect()
    });
    runtime.block_on(process.socket.close());
    end(runtime);
    ran
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

fn end(runtime: Runtime) {
    // Everything still open has had its time.
    runtime.shutdown_timeout(Duration::from_millis(500));
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
    let has_colours = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let colours = has_colours && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    match settings.log.format {
        LogFormat::Human => match Journal::of_stderr() {
            Some(journal) => registry.with(journal).init(),
            None => registry.with(lines).init(),
        },
        LogFormat::Json => registry.with(lines.json()).init(),
    }
    Ok(handle)
}

impl SiteRun<'_> {
    fn run(&self) -> anyhow::Result<()> {
        let _end_of_all = self.process.end_with_this();
        loop {
            let runtime = runtime()?;
            let served = runtime.block_on(self.serve());
            end(runtime);
            match served {
                Ok(Next::Stop) => return Ok(()),
                Ok(Next::StandBy) => {}
                Err(error) if self.settings.site.is_default() => return Err(error),
                Err(error) => return Err(error.context(format!("site {}", self.settings.site))),
            }
        }
    }

    async fn serve(&self) -> anyhow::Result<Next> {
        let (feed, from_link) = intake::channel(intake::fair::Bounds::default());
        let Location::Postgres(server) = self.settings.database() else {
            self.process.share.owns(&self.settings.site);
            let common = Common::new(Tenure::for_good());
            let active = Active { site: self, common, taken: None };
            let served = active.serve(feed, from_link, None, std::future::pending()).await?;
            served.link.shutdown().await;
            return Ok(Next::Stop);
        };
        let common = Common::new(Tenure::none());
        let standby = standby::stand_by(self, &server, &common, &feed).await?;
        let Some(Lease { keeper, taken, ended, link }) = standby else { return Ok(Next::Stop) };
        let active = Active { site: self, common, taken: Some(taken) };
        // A keeper whose thread is gone renews nothing.
        let ended = async { ended.await.unwrap_or(Ended::Lost) };
        let served = active.serve(feed, from_link, link, ended).await;
        let heir = match &served {
            Ok(Served { why: Why::HandOver(heir), .. }) => Some(heir.clone()),
            Ok(Served { why: Why::Stopped, .. }) | Err(_) => None,
        };
        drop(tokio::task::spawn_blocking(move || keeper.leave(heir)).await);
        let Served { why, link } = served?;
        // Not before: agents that look for another controller are let in by one that may take the lease.
        link.shutdown().await;
        Ok(match why {
            Why::Stopped => Next::Stop,
            Why::HandOver(_) => Next::StandBy,
        })
    }
}
