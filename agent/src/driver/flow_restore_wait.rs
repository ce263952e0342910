//! Makes a restarted switch forward no packets before its flow tables are filled.
//!
//! While there are tables, and no bridge of the switch carries the path to the controller, the agent keeps
//! `flow-restore-wait` in the switch's database. The agent removes the key once all tables are filled after a
//! start of the switch, and sets it again for the next start. A key that others set is left alone.
//!
//! Absent: which bridge carries the path (`carries`, `agent/host/src/net/switch.rs`), and filling
//! (`agent/core/src/flow/repair_switch.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_agent_core::{FlowEffect, FlowInput};
use muster_host::net::{Hold, Network};
use muster_shared::join::Address;
use muster_shared::model::flow::Bridge;
use tokio::net::{UnixStream, lookup_host};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use crate::host::Host;

/// A running switch whose tables are not filled within this time forwards packets again: a million rules take
/// ten seconds.
const FILL_WITHIN: Duration = Duration::from_secs(30);
/// The interval of looking whether the switch is up until its tables are filled, and of retries after
/// a failure.
const AGAIN: Duration = Duration::from_secs(1);
/// The interval of looking for the path to the controller, and for a key that others removed …
const LOOK: Duration = Duration::from_secs(60);
/// … and the least time between two such looks after changes of the network.
const LOOK_REST: Duration = Duration::from_secs(1);
/// The interval of asking a database that has a socket and does not answer.
const ASK_DATABASE: Duration = Duration::from_secs(5);
/// The time limit of the database's and the resolver's answers; a missing answer is asked for again.
const WITHIN: Duration = Duration::from_secs(5);

/// The state of a device with rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FillState {
    Away,
    Filling,
    Filled,
}

/// The driver's knowledge of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct WatchedDevices {
    /// The watched devices.
    devices: BTreeMap<Bridge, FillState>,
    /// The watched devices with rules.
    with_rules: BTreeSet<Bridge>,
    /// The number of times that a device was filled.
    fills: u64,
    /// The number of changes of the network.
    changes: u64,
}

/// The driver's side of it.
pub struct Holding {
    host: Arc<Host>,
    tell: Sender<WatchedDevices>,
    task: AbortHandle,
}

impl Holding {
    pub fn start(host: Arc<Host>, controllers: Vec<Address>) -> Self {
        let (tell, known) = channel(WatchedDevices::default());
        let keeper = Keeper {
            host: Arc::clone(&host),
            controllers,
            fills: 0,
            looked: None,
            up_since: None,
            said: None,
            is_free: false,
        };
        let task = spawn_local(keeper.keep(known)).abort_handle();
        Self { host, tell, task }
    }

    /// Takes an event of a device.
    pub fn heard(&mut self, device: &Bridge, input: &FlowInput) {
        match input {
            FlowInput::Back => self.stands(device, Some(FillState::Filling)),
            FlowInput::Gone { .. } => self.stands(device, Some(FillState::Away)),
            _ => {}
        }
    }

    /// Takes a request to a device.
    pub fn asked(&mut self, device: &Bridge, effect: &FlowEffect) {
        match effect {
            FlowEffect::Watch => self.stands(device, Some(FillState::Away)),
            FlowEffect::Leave | FlowEffect::Drop => self.stands(device, None),
            FlowEffect::Filled => {
                self.stands(device, Some(FillState::Filled));
                self.tell.send_modify(|known| known.fills += 1);
            }
            _ => {}
        }
    }

    fn stands(&mut self, device: &Bridge, stand: Option<FillState>) {
        if device.is_nftables() {
            return;
        }
        self.tell.send_if_modified(|known| match stand {
            Some(stand) => known.devices.insert(device.clone(), stand) != Some(stand),
            None => known.devices.remove(device).is_some(),
        });
    }

    /// Sets the devices that have rules now.
    pub fn rules(&mut self, has_rules: impl Fn(&Bridge) -> bool) {
        self.tell.send_if_modified(|known| {
            let with_rules = known.devices.keys().filter(|device| has_rules(device));
            let is_same = with_rules.clone().eq(known.with_rules.iter());
            if !is_same {
                known.with_rules = with_rules.cloned().collect();
            }
            !is_same
        });
    }

    /// Links, addresses or routes.
    pub fn network_changed(&mut self) {
        self.tell.send_if_modified(|known| {
            known.changes += 1;
            !known.with_rules.is_empty()
        });
    }

    /// Releases the switch, since nothing would fill one that waits.
    pub async fn stop(&mut self) {
        self.task.abort();
        match timeout(WITHIN, self.host.network.release_flows(false)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the next start of the switch waits for its flow tables")
            }
            Err(_) => tracing::warn!("the next start of the switch may wait for its flow tables"),
        }
    }
}

/// The event for which the keeper waits, besides news of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Passed(Duration),
    /// A database may appear at any time with a key left by an earlier agent.
    DatabaseAppears,
}

struct Keeper {
    host: Arc<Host>,
    controllers: Vec<Address>,
    /// The value of `fills` when the switch was last released.
    fills: u64,
    /// When the path to the controller was last looked up, the value of `changes` then, and whether a bridge
    /// carries it.
    looked: Option<(Instant, u64, bool)>,
    /// Since when the switch is up and not filled.
    up_since: Option<Instant>,
    said: Option<Hold>,
    /// The database was reachable, and holds no key of ours.
    is_free: bool,
}

impl Keeper {
    async fn keep(mut self, mut known: Receiver<WatchedDevices>) {
        loop {
            let now = known.borrow_and_update().clone();
            let until = match self.step(&now).await {
                Ok(until) => until,
                Err(reason) => {
                    tracing::debug!(%reason, "cannot say whether the switch is to wait for its flow tables");
                    Until::Passed(AGAIN)
                }
            };
            tokio::select! {
                changed = known.changed() => if changed.is_err() { return },
                () = self.reached(until) => {}
            }
        }
    }

    async fn reached(&self, until: Until) {
        match until {
            Until::Passed(time) => sleep(time).await,
            Until::DatabaseAppears => self.host.network.database_appears(ASK_DATABASE).await,
        }
    }

    /// Does the work that is due. Returns when to look again.
    async fn step(&mut self, known: &WatchedDevices) -> Result<Until, String> {
        let host = Arc::clone(&self.host);
        let network = &host.network;
        let names = match known.with_rules.is_empty() {
            true => BTreeSet::new(),
            false => within(network.bridge_names()).await?,
        };
        let here = || known.with_rules.iter().filter(|device| names.contains(device.as_str()));
        if here().next().is_none() || self.is_carried(known, &names).await {
            self.free(
                network,
                "no table of this node is on the switch, or it carries the way to the controller",
            )
            .await?;
            return Ok(if self.is_free { self.look_again(known) } else { Until::DatabaseAppears });
        }
        if here().any(|device| known.devices.get(device) != Some(&FillState::Filled)) {
            return self.wait_for_filling(network, &names).await;
        }
        self.up_since = None;
        if self.fills != known.fills {
            within(network.release_flows(true)).await?;
            self.fills = known.fills;
        }
        // Set before the request: its answer may be lost.
        self.is_free = false;
        let held = within(network.hold_flows()).await?;
        if self.said.replace(held) != Some(held) {
            tracing::info!(by = ?held, "the next start of the switch waits for its flow tables");
        }
        Ok(self.look_again(known))
    }

    fn look_again(&self, known: &WatchedDevices) -> Until {
        let is_old = self.looked.is_some_and(|(_, changes, _)| changes != known.changes);
        Until::Passed(if is_old { LOOK_REST } else { LOOK })
    }

    /// Keeps the hold until the switch is filled, but not for ever once the switch is up.
    async fn wait_for_filling(
        &mut self,
        network: &Network,
        names: &BTreeSet<String>,
    ) -> Result<Until, String> {
        if !is_up(network.ovs_rundir(), names).await {
            self.up_since = None;
            return Ok(Until::Passed(AGAIN));
        }
        let since = *self.up_since.get_or_insert_with(Instant::now);
        if since.elapsed() > FILL_WITHIN {
            self.free(network, "its flow tables could not be filled in time").await?;
        }
        Ok(Until::Passed(AGAIN))
    }

    async fn free(&mut self, network: &Network, why: &str) -> Result<(), String> {
        if !self.is_free {
            // Without a database, the key may still be there once the database appears.
            self.is_free = within(network.release_flows(false)).await?;
            if self.said.take().is_some() {
                tracing::info!(why, "the switch does not wait for its flow tables");
            }
        }
        Ok(())
    }

    /// Whether a bridge carries the path to the controller: a node that is unreachable until its switch is
    /// filled could not receive the tables.
    async fn is_carried(&mut self, known: &WatchedDevices, names: &BTreeSet<String>) -> bool {
        if let Some((at, changes, is_carried)) = self.looked {
            let is_fresh = at.elapsed() < LOOK && changes == known.changes;
            if is_fresh || at.elapsed() < LOOK_REST {
                return is_carried;
            }
        }
        let is_carried = self.look(names).await;
        self.looked = Some((Instant::now(), known.changes, is_carried));
        is_carried
    }

    async fn look(&self, names: &BTreeSet<String>) -> bool {
        for controller in &self.controllers {
            // A controller whose address is unknown may be reached through any bridge.
            let Ok(Ok(peers)) = timeout(WITHIN, lookup_host(controller.to_string())).await else {
                return true;
            };
            for peer in peers {
                for name in names {
                    if self.host.network.carries(name, peer.ip()).await {
                        return true;
                    }
                }
            }
        }
        false
    }
}

async fn within<T, E: std::error::Error>(asked: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    let answered = timeout(WITHIN, asked).await;
    answered
        .map_err(|_| "the switch's database does not answer".to_owned())?
        .map_err(|error| error.to_string())
}

/// Some bridge of the database is on a switch that runs.
async fn is_up(rundir: &Path, names: &BTreeSet<String>) -> bool {
    for name in names {
        let connected = UnixStream::connect(rundir.join(format!("{name}.mgmt")));
        if matches!(timeout(WITHIN, connected).await, Ok(Ok(_))) {
            return true;
        }
    }
    false
}
