//! The parts that the sites of a process share: signals, the socket for operators, the API's own certificate, the log's
//! level, and the messages to systemd.
//!
//! Absent: when a driver counts as stuck (`pulse.rs`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_controller::api::{OwnCertificate, Socket};
use muster_controller::config::Settings;
use muster_controller::driver::DriverHandle;
use muster_controller::lease::Share;
use muster_controller::pulse;
use muster_controller::site_name::SiteName;
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::{EnvFilter, Registry, reload};

use super::log_filter;

pub type LogHandle = reload::Handle<EnvFilter, Registry>;

/// Shared by the sites of a process.
pub struct Process {
    config_file: Option<PathBuf>,
    log: LogHandle,
    pub socket: Socket,
    /// The certificate that the API shows over the network, if not one of the site's CA.
    pub api_certificate: Option<Arc<OwnCertificate>>,
    /// The share in the sites.
    pub share: Share,
    /// Whether all are to end.
    stop: watch::Sender<bool>,
    sites: Mutex<BTreeMap<SiteName, Condition>>,
}

/// While a site runs: without it, the others end as well.
pub struct EndOfAll<'p>(&'p Process);

/// The condition of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Starting,
    Well,
    /// The driver does not answer.
    Stuck,
}

impl Process {
    pub fn new(
        config_file: Option<PathBuf>,
        log: LogHandle,
        socket: Socket,
        api_certificate: Option<Arc<OwnCertificate>>,
        share: Share,
        sites: impl Iterator<Item = SiteName>,
    ) -> Self {
        let sites = Mutex::new(sites.map(|site| (site, Condition::Starting)).collect());
        Self { config_file, log, socket, api_certificate, share, stop: watch::Sender::new(false), sites }
    }

    /// Tells all sites to end.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Tells all sites to end when the result is dropped, also by a panic.
    pub fn end_with_this(&self) -> EndOfAll<'_> {
        EndOfAll(self)
    }

    /// Waits until all sites are to end: at SIGTERM or SIGINT, or when one of them has ended. At a second such signal
    /// the process ends at once. SIGHUP reads the log's level again, and the API's own certificate.
    ///
    /// # Errors
    /// Signals cannot be received, or the socket for operators ended: without it, the sites would seem well.
    pub async fn follow_signals(&self) -> anyhow::Result<()> {
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        let mut hup = signal(SignalKind::hangup())?;
        let mut stopped = self.stop.subscribe();
        loop {
            tokio::select! {
                _ = term.recv() => break,
                _ = int.recv() => break,
                _ = hup.recv() => self.reload(),
                _ = stopped.wait_for(|stop| *stop) => break,
                () = self.socket.ended() => {
                    anyhow::bail!("the API ended, and so does the controller: the log says why; please report it")
                }
            }
        }
        notify(NotifyState::Stopping);
        self.stop();
        tokio::spawn(async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            tracing::warn!("told to stop again: ending at once");
            std::process::exit(1);
        });
        Ok(())
    }

    /// Waits until all are to end. Until then systemd hears from this active site, for as long as its driver
    /// answers: so it restarts a stuck controller.
    pub async fn serve(&self, site: &SiteName, driver: &DriverHandle) {
        self.is(site, Condition::Well);
        let watch = async {
            match sd_notify::watchdog_enabled() {
                Some(timeout) => {
                    let tell = |well| self.is(site, if well { Condition::Well } else { Condition::Stuck });
                    pulse::follow(driver, timeout, tell).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.stopped() => {}
            () = watch => {}
        }
    }

    /// Waits until all are to end, as a standby of this site.
    pub async fn stand_by(&self, site: &SiteName) {
        let pause = sd_notify::watchdog_enabled().map_or(Duration::from_secs(3600), |timeout| timeout / 2);
        let watch = async {
            loop {
                self.is(site, Condition::Well);
                tokio::time::sleep(pause).await;
            }
        };
        tokio::select! {
            () = self.stopped() => {}
            () = watch => {}
        }
    }

    /// Waits until all are to end.
    async fn stopped(&self) {
        // The sender lives as long as this.
        drop(self.stop.subscribe().wait_for(|stop| *stop).await);
    }

    /// The process is ready when all sites are, and well while all of them are.
    fn is(&self, site: &SiteName, condition: Condition) {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let was = sites.insert(site.clone(), condition);
        if sites.values().any(|condition| *condition != Condition::Well) {
            return;
        }
        drop(sites);
        match was {
            Some(Condition::Starting) | None => notify(NotifyState::Ready),
            Some(Condition::Well | Condition::Stuck) => notify(NotifyState::Watchdog),
        }
    }

    fn reload(&self) {
        if let Some(own) = &self.api_certificate {
            match own.reload() {
                Ok(()) => tracing::info!("the API's certificate was read again"),
                Err(error) => tracing::warn!("the API keeps the certificate from before: {error}"),
            }
        }
        match Settings::read(self.config_file.as_deref(), std::env::vars()) {
            Ok(fresh) => match log_filter(&fresh.log.level) {
                Ok(filter) => drop(self.log.reload(filter)), // fails only if the subscriber is gone
                Err(error) => tracing::error!(%error, "log.level is left as it was"),
            },
            Err(error) => tracing::error!("the settings are left as they were: {error:#}"),
        }
    }
}

impl Drop for EndOfAll<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn notify(state: NotifyState<'_>) {
    // Without systemd there is nothing to notify.
    drop(sd_notify::notify(&[state]));
}
