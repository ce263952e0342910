//! Signals and systemd: says when the controller is ready, keeps the watchdog, ends on SIGTERM.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};

/// Runs until SIGTERM or SIGINT; `reload` is called on SIGHUP. The watchdog is kept from the same runtime that
/// serves, so that a stuck one is restarted.
///
/// # Errors
/// Signals cannot be listened to.
pub async fn run(reload: impl Fn()) -> std::io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut hup = signal(SignalKind::hangup())?;
    notify(NotifyState::Ready);
    let watchdog = sd_notify::watchdog_enabled();
    // Without a watchdog there is nothing to keep: wake rarely.
    let period = watchdog.map_or(Duration::from_secs(3600), |timeout| timeout / 2);
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            _ = hup.recv() => reload(),
            () = tokio::time::sleep(period) => notify(NotifyState::Watchdog),
        }
    }
    notify(NotifyState::Stopping);
    Ok(())
}

fn notify(state: NotifyState<'_>) {
    // Without systemd there is nobody to tell.
    drop(sd_notify::notify(&[state]));
}
