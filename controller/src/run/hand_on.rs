//! Hands the site on to a standby where this controller, the active one, has lost its brokers and not its database.
//!
//! Absent: for how long it waits before (`lease/unreached_broker.rs`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_controller::lease::{StandbyView, Tenure, Terms, UnreachedBroker, since_boot};
use muster_controller::link::Health;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Waits until a standby is to have the site, which it may reach. The result is that standby's name.
pub async fn heir(
    broker: &Mutex<UnreachedBroker>,
    mut health: watch::Receiver<Health>,
    tenure: &Tenure,
    terms: Terms,
) -> String {
    lock(broker).becomes_active();
    loop {
        let wait = match *health.borrow_and_update() {
            Health::Connected(_) => {
                lock(broker).reaches_one();
                None
            }
            Health::Waiting | Health::Connecting | Health::Failed(_) => {
                let now = since_boot();
                Some(lock(broker).reaches_none(now).since(now))
            }
        };
        match wait {
            Some(Duration::ZERO) => {
                if let Some(heir) = standby(tenure, terms) {
                    tracing::warn!(heir, "no broker can be reached from here: the site goes to a standby");
                    lock(broker).gave_site();
                    return heir;
                }
                // One may come.
                sleep(terms.pace()).await;
            }
            Some(wait) => drop(timeout(wait, changed(&mut health)).await),
            None => changed(&mut health).await,
        }
    }
}

/// The link that has ended changes no more.
async fn changed(health: &mut watch::Receiver<Health>) {
    if health.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The standby that looked at the lease last, if that is not long ago. Without the lease, this controller has no site to
/// give.
fn standby(tenure: &Tenure, terms: Terms) -> Option<String> {
    let seen = tenure.holds().then(|| tenure.seen())?;
    let last = seen.standbys.into_iter().min_by_key(|StandbyView { behind, .. }| *behind)?;
    (last.behind < terms.lease).then_some(last.member.name)
}

fn lock(broker: &Mutex<UnreachedBroker>) -> MutexGuard<'_, UnreachedBroker> {
    broker.lock().unwrap_or_else(PoisonError::into_inner)
}
