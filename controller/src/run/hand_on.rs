//! Hands the site on to a standby where this controller, the active one, has lost its brokers and not its database.
//!
//! Absent: for how long it waits before (`lease/unreached_broker.rs`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_controller::lease::{Asker, Heir, Tenure, Terms, UnreachedBroker, since_boot};
use muster_controller::link::Health;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Waits until a standby is to have the site, which it may reach. The result is that standby. `me` is this controller's name.
pub async fn heir(
    me: &str,
    broker: &Mutex<UnreachedBroker>,
    mut health: watch::Receiver<Health>,
    tenure: &Tenure,
    terms: Terms,
) -> Heir {
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
                if let Some(name) = standby(tenure, terms) {
                    tracing::warn!(
                        heir = name,
                        "no broker can be reached from here: the site goes to a standby"
                    );
                    lock(broker).gave_site();
                    let asker = Some(Asker::controller(me, "no broker can be reached from there"));
                    return Heir { name, asker };
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

/// The standby that can take the lease. Without the lease, this controller has no site to give.
fn standby(tenure: &Tenure, terms: Terms) -> Option<String> {
    let seen = tenure.holds().then(|| tenure.seen())?;
    terms.ready(&seen.standbys).next().map(|standby| standby.member.name.clone())
}

fn lock(broker: &Mutex<UnreachedBroker>) -> MutexGuard<'_, UnreachedBroker> {
    broker.lock().unwrap_or_else(PoisonError::into_inner)
}
