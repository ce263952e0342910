//! The driver's side of flow tables: their logs, and a task for each device that is watched.
//!
//! Logs are written at once, in the driver's turn. The device's task works on the switch, one request after the
//! other. Absent: decisions (`agent/core/src/flow.rs`), OpenFlow (`agent/host/src/openflow.rs`) and nftables
//! (`agent/host/src/nftables.rs`).

mod bridge_or_filter;
mod device;
mod entries;
pub mod management;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use muster_agent_core::{Appended, FlowEffect, FlowInput, Loaded, NotApplied, TableEntry};
use muster_agent_link::{Identity, tls};
use muster_host::openflow;
use muster_shared::Generation;
use muster_shared::model::flow::{Bridge, DeviceName, FlowRefusal, TraceQuestion};
use muster_shared::model::{CHALLENGE_BYTES, Content};
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{AbortHandle, spawn_local};

use crate::flow_log::FlowLog;
use device::{Command, DeviceEvent};

/// The most commands that wait for one device: the machine makes one request at a time, and few
/// further queries.
const COMMANDS_MAX: usize = 64;
/// The most events of devices that the driver has not taken: further ones wait in the tasks.
const SAID_MAX: usize = 16;

/// The flow tables of this node.
pub struct Flows {
    directory: PathBuf,
    rundir: PathBuf,
    identity: Identity,
    contents: PathBuf,
    logs: BTreeMap<Bridge, FlowLog>,
    tasks: BTreeMap<Bridge, (Sender<Command>, AbortHandle)>,
    /// Devices with a batch from before the restart, which may be on the switch already.
    recovering: BTreeSet<Bridge>,
    tell: Sender<(Bridge, DeviceEvent)>,
    said: Receiver<(Bridge, DeviceEvent)>,
}

impl Flows {
    /// Loads the logs.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn new(
        directory: PathBuf,
        rundir: PathBuf,
        identity: Identity,
        contents: PathBuf,
    ) -> anyhow::Result<(Self, Vec<Loaded>)> {
        let (tell, said) = channel(SAID_MAX);
        let (logs, tasks, recovering) = Default::default();
        let mut flows = Self { directory, rundir, identity, contents, logs, tasks, recovering, tell, said };
        let mut tables = Vec::new();
        for entry in fs::read_dir(&flows.directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.extension().is_some_and(|extension| extension == "new") {
                // A crash came before the file got its name.
                fs::remove_file(&path)?;
                continue;
            }
            let Ok(device) = name.parse::<Bridge>() else { continue };
            match FlowLog::open(&path, &device) {
                Ok((log, loaded)) => {
                    if loaded.undecided.is_some() {
                        flows.recovering.insert(device.clone());
                    }
                    flows.logs.insert(device, log);
                    tables.push(loaded);
                }
                Err(error) => {
                    tracing::error!(log = %path.display(), %error, "unreadable flow table moved aside to corrupt/");
                    fs::rename(&path, flows.directory.join("../corrupt").join(format!("flows-{name}")))?;
                }
            }
        }
        muster_host::sys::give_back_memory();
        Ok((flows, tables))
    }

    /// The next event of a device.
    pub async fn said(&mut self) -> (Bridge, FlowInput) {
        loop {
            match self.said.recv().await {
                Some((device, DeviceEvent::Input(input))) => return (device, input),
                Some((device, DeviceEvent::Filled(instance))) => {
                    let log = self.logs.get_mut(&device);
                    if let Some(Err(error)) = log.map(|log| log.filled(instance)) {
                        tracing::warn!(%device, %error, "cannot record that the switch was filled");
                    }
                }
                // Never happens: a sender exists here.
                None => std::future::pending().await,
            }
        }
    }

    /// Executes an effect. Returns an answer that is available at once.
    pub fn execute(
        &mut self,
        device: &Bridge,
        effect: FlowEffect,
        kept: Option<Arc<Vec<TableEntry>>>,
    ) -> Option<FlowInput> {
        match effect {
            FlowEffect::Watch => self.watch(device),
            FlowEffect::Leave => self.leave(device),
            FlowEffect::Append { generation, ops, guard } => {
                let result = self.append(device, generation, &ops, guard);
                return Some(FlowInput::Appended { generation, result });
            }
            FlowEffect::Decide { generation, refused } => {
                self.recovering.remove(device);
                let result = self.log(device).and_then(|log| {
                    log.decide(generation, refused.as_ref()).map_err(|error| error.to_string())
                });
                return Some(FlowInput::Decided { generation, result });
            }
            FlowEffect::Expire { ids } => {
                let result =
                    self.log(device).and_then(|log| log.expire(&ids).map_err(|error| error.to_string()));
                return Some(FlowInput::Expired { ids, result });
            }
            FlowEffect::Compact { kept, decided, refused } => {
                let compact = |log: &mut FlowLog| log.compact(&kept, decided, refused.as_ref());
                let result = self.log(device).and_then(|log| compact(log).map_err(|error| error.to_string()));
                return Some(FlowInput::Compacted(result));
            }
            FlowEffect::Forget { generation } => {
                let result = self
                    .log(device)
                    .and_then(|log| log.forget(generation).map_err(|error| error.to_string()));
                return Some(FlowInput::Forgotten(result));
            }
            FlowEffect::Drop => {
                self.logs.remove(device);
                // The next start loads and drops a remaining log again.
                let _ = fs::remove_file(self.path(device));
            }
            FlowEffect::Apply { number, ops, take_over } => {
                let file = match self.log(device) {
                    Ok(log) => log.file(),
                    Err(reason) => {
                        let refused = FlowRefusal { id: None, reason, permanent: false };
                        return Some(FlowInput::Applied {
                            number,
                            result: Err(NotApplied::Refused(refused)),
                        });
                    }
                };
                let again = self.recovering.contains(device);
                let kept = kept.unwrap_or_default();
                return self.command(device, Command::Apply { number, ops, kept, file, again, take_over });
            }
            FlowEffect::Compare { number, kept, odd } => {
                let log = match self.log(device) {
                    Ok(log) => log,
                    Err(reason) => return Some(FlowInput::Compared { number, result: Err(reason) }),
                };
                let (file, stamps, filled) = (log.file(), log.stamps(), log.instance());
                return self.command(device, Command::Compare { number, kept, odd, file, stamps, filled });
            }
            FlowEffect::Repair { number, put, remove } => {
                let file = match self.log(device) {
                    Ok(log) => log.file(),
                    Err(reason) => return Some(FlowInput::Repaired { number, result: Err(reason) }),
                };
                return self.command(device, Command::Repair { number, put, remove, file });
            }
            FlowEffect::Cancel { number } => return self.command(device, Command::Cancel { number }),
            FlowEffect::Filled => return self.command(device, Command::Filled),
            FlowEffect::Count { number } => return self.ask(device, Command::Count { number }),
            FlowEffect::Foreign { number } => return self.ask(device, Command::Foreign { number }),
            FlowEffect::Trace { number, question } => return self.trace(device, number, question),
        }
        None
    }

    fn path(&self, device: &Bridge) -> PathBuf {
        self.directory.join(device.as_str())
    }

    fn log(&mut self, device: &Bridge) -> Result<&mut FlowLog, String> {
        if !self.logs.contains_key(device) {
            let path = self.path(device);
            let opened = FlowLog::open(&path, device);
            let (log, _) = opened.map_err(|error| format!("{}: {error}", path.display()))?;
            self.logs.insert(device.clone(), log);
        }
        self.logs.get_mut(device).ok_or_else(|| "no log".to_owned())
    }

    fn append(
        &mut self,
        device: &Bridge,
        generation: Generation,
        ops: &Content,
        guard: bool,
    ) -> Result<Appended, FlowRefusal> {
        let disk = |reason| FlowRefusal {
            id: None,
            reason: format!("cannot use the node's disk: {reason}"),
            permanent: false,
        };
        let is_guarded = guard && management::may_carry(device, &self.identity.addresses);
        let stored;
        let bytes = match ops {
            Content::Inline(bytes) => bytes,
            Content::Stored { digest, .. } => {
                let path = self.contents.join(digest.to_string());
                stored = fs::read(&path).map_err(|error| disk(format!("{}: {error}", path.display())))?;
                &stored
            }
        };
        let challenge = match is_guarded {
            true => {
                let random = tls::random::<CHALLENGE_BYTES>();
                Some(random.map_err(|error| disk(format!("no random bytes: {error}")))?.to_vec())
            }
            false => None,
        };
        let ops = self.log(device).map_err(disk)?.append(generation, bytes, is_guarded)?;
        Ok(Appended { ops, challenge })
    }

    fn watch(&mut self, device: &Bridge) {
        if self.tasks.contains_key(device) {
            return;
        }
        let (give, take) = channel(COMMANDS_MAX);
        let name = DeviceName { node: self.identity.node.clone(), bridge: device.clone() };
        let task = spawn_local(device::watch(name, self.rundir.clone(), take, self.tell.clone()));
        self.tasks.insert(device.clone(), (give, task.abort_handle()));
    }

    fn leave(&mut self, device: &Bridge) {
        if let Some((_, task)) = self.tasks.remove(device) {
            task.abort();
        }
    }

    fn command(&mut self, device: &Bridge, command: Command) -> Option<FlowInput> {
        let Some((give, _)) = self.tasks.get(device) else {
            return device::unanswerable(command, "the device is not watched");
        };
        match give.try_send(command) {
            Ok(()) => None,
            Err(full) => device::unanswerable(full.into_inner(), "too much waits for the switch"),
        }
    }

    /// Queries a device, also a bridge without a table.
    fn ask(&mut self, device: &Bridge, command: Command) -> Option<FlowInput> {
        if self.tasks.contains_key(device) {
            return self.command(device, command);
        }
        let name = DeviceName { node: self.identity.node.clone(), bridge: device.clone() };
        spawn_local(device::ask_once(name, self.rundir.clone(), command, self.tell.clone()));
        None
    }

    /// Asks the switch what it would do with a packet, beside the device's own work.
    fn trace(&self, device: &Bridge, number: u64, question: Box<TraceQuestion>) -> Option<FlowInput> {
        if device.is_nftables() {
            let result = Err("nftables has no trace: give a port of a bridge".into());
            return Some(FlowInput::Traced { number, result });
        }
        let (device, rundir, tell) = (device.clone(), self.rundir.clone(), self.tell.clone());
        spawn_local(async move {
            let result = openflow::trace(&rundir, &device, &question).await;
            let result = result.map_err(|error| bridge_or_filter::chain(&error));
            // The driver ends first only when the agent does.
            let _ = tell.send((device, DeviceEvent::Input(FlowInput::Traced { number, result }))).await;
        });
        None
    }
}

/// The directory of Open vSwitch's sockets.
pub fn rundir(ovs_db: Option<&Path>) -> PathBuf {
    let beside = ovs_db.and_then(Path::parent).map(Path::to_owned);
    beside
        .or_else(|| std::env::var_os("OVS_RUNDIR").map(PathBuf::from))
        .unwrap_or_else(|| "/var/run/openvswitch".into())
}
