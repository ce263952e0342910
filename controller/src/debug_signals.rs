//! Signals that break the driver, in debug builds only, for tests of the consequences.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use crate::driver::DriverHandle;

/// From now on SIGUSR1 makes the driver panic, and SIGUSR2 makes it hang.
///
/// # Errors
/// Signals cannot be received.
pub fn listen(driver: &DriverHandle) -> io::Result<()> {
    let (mut panic, mut hang) = (signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?);
    let driver = driver.clone();
    tokio::spawn(async move {
        // The answer never comes.
        tokio::select! {
            _ = panic.recv() => drop(driver.query(|_| -> () { panic!("SIGUSR1 asks for it") }).await),
            _ = hang.recv() => drop(driver.query(|_| -> () { loop { std::thread::park(); } }).await),
        }
    });
    Ok(())
}
