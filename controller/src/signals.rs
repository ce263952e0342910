//! Signals and systemd: reports readiness, notifies the watchdog, ends on SIGTERM.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};

use crate::driver::DriverHandle;
use crate::pulse;

/// Runs until SIGTERM or SIGINT; `reload` is called on SIGHUP. The watchdog is notified for as long as the
/// driver answers, so that systemd restarts a stuck controller.
///
/// # Errors
/// Signals cannot be received.
pub async fn run(driver: &DriverHandle, reload: impl Fn()) -> std::io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut hup = signal(SignalKind::hangup())?;
    #[cfg(debug_assertions)]
    crate::faults::listen(driver)?;
    notify(NotifyState::Ready);
    let mut watchdog = std::pin::pin!(keep_watchdog(driver));
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            _ = hup.recv() => reload(),
            () = watchdog.as_mut() => {}
        }
    }
    notify(NotifyState::Stopping);
    Ok(())
}

/// Runs until SIGTERM or SIGINT, as a standby, which systemd counts as ready; `reload` is called on SIGHUP.
///
/// # Errors
/// Signals cannot be received.
pub async fn stand_by(reload: impl Fn()) -> std::io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut hup = signal(SignalKind::hangup())?;
    notify(NotifyState::Ready);
    let pause = sd_notify::watchdog_enabled().map_or(Duration::from_secs(3600), |timeout| timeout / 2);
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            _ = hup.recv() => reload(),
            () = tokio::time::sleep(pause) => notify(NotifyState::Watchdog),
        }
    }
    notify(NotifyState::Stopping);
    Ok(())
}

/// Never ends.
async fn keep_watchdog(driver: &DriverHandle) {
    match sd_notify::watchdog_enabled() {
        Some(timeout) => {
            pulse::follow(driver, timeout, |well| {
                if well {
                    notify(NotifyState::Watchdog);
                }
            })
            .await;
        }
        None => loop {
            // There is no watchdog.
            tokio::time::sleep(Duration::from_secs(3600)).await;
        },
    }
}

fn notify(state: NotifyState<'_>) {
    // Without systemd there is nothing to notify.
    drop(sd_notify::notify(&[state]));
}
