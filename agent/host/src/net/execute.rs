//! Executes steps, one after the other, and decides nothing.
//!
//! Absent: which steps, and their order (`plan.rs`).

use thiserror::Error;

use super::dhcp::{Clients, DhcpError};
use super::ethtool;
use super::netlink::{Netlink, NetlinkError};
use super::ovsdb::{Failed, Ovsdb, OvsdbError};
use super::resolver::{Files, ResolverError};
use super::step::Step;
use super::tables;

/// A step that failed. The steps before it are done.
#[derive(Debug, Error)]
#[error("cannot {step}{hint}")]
pub struct StepError {
    /// The step that failed.
    pub step: Box<Step>,
    hint: &'static str,
    #[source]
    pub source: Cause,
}

/// The reason why a step failed.
#[derive(Debug, Error)]
pub enum Cause {
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    #[error(transparent)]
    Ovsdb(#[from] OvsdbError),
    #[error(transparent)]
    Resolver(#[from] ResolverError),
    #[error(transparent)]
    Dhcp(#[from] DhcpError),
}

/// The most Open vSwitch steps in one transaction: about 1 MB of JSON, which the database processes
/// in milliseconds.
const MAX_BATCH: usize = 1_000;

/// The reaction to a failed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    Stop,
    /// Continue with the others: restoring half of the state is better than nothing.
    GoOn,
}

/// Executes `steps` in their order; connects to Open vSwitch only if a step needs it. Returns the
/// first failure.
pub async fn execute(
    steps: &[Step],
    netlink: &mut Netlink,
    (files, clients): (&Files, &Clients),
    connect: impl AsyncFn() -> Result<Ovsdb, OvsdbError>,
    on_failure: OnFailure,
) -> Result<(), StepError> {
    let mut executor = Executor { netlink, files, clients, connect, ovs: None, ovs_is_out: false };
    let (mut from, mut first) = (0, Ok(()));
    while let Some(step) = steps.get(from) {
        let batch = steps[from..].iter().take(MAX_BATCH).take_while(|step| step.is_ovs()).count();
        let next = from + batch.max(1);
        let mut done = match step.is_ovs() || *step == Step::SyncOvs {
            true => executor.ovs_steps(&steps[from..next]).await,
            false => executor.step(step).await.map_err(|error| (0, error)),
        };
        if done.is_err() && on_failure == OnFailure::GoOn && batch > 1 {
            // Nothing of the transaction was done: try the steps one by one.
            for step in steps[from..next].chunks(1) {
                done = done.and(executor.ovs_steps(step).await);
            }
        }
        if let Err((failed, source)) = done {
            let step = &steps[from + failed];
            let error = StepError { hint: hint(step, &source), step: Box::new(step.clone()), source };
            first = first.and(Err(error));
            if on_failure == OnFailure::Stop {
                break;
            }
        }
        from = next;
    }
    first
}

struct Executor<'a, C> {
    netlink: &'a mut Netlink,
    files: &'a Files,
    clients: &'a Clients,
    connect: C,
    ovs: Option<Ovsdb>,
    /// The switch failed once: no further step waits for it.
    ovs_is_out: bool,
}

impl<C: AsyncFn() -> Result<Ovsdb, OvsdbError>> Executor<'_, C> {
    /// Executes a transaction, or waits for one. An error names the step.
    async fn ovs_steps(&mut self, steps: &[Step]) -> Result<(), (usize, Cause)> {
        self.netlink.forget_links();
        if self.ovs_is_out && steps == [Step::SyncOvs] {
            return Ok(());
        }
        let done = self.ovs_steps_once(steps).await;
        self.ovs_is_out |= done.is_err();
        done.map_err(|failed| (failed.step, failed.error.into()))
    }

    async fn ovs_steps_once(&mut self, steps: &[Step]) -> Result<(), Failed> {
        let ovs = match &mut self.ovs {
            Some(ovs) => ovs,
            none => none.insert((self.connect)().await.map_err(|error| Failed { step: 0, error })?),
        };
        match steps {
            [Step::SyncOvs] => ovs.sync().await.map_err(|error| Failed { step: 0, error }),
            steps => ovs.change(steps).await,
        }
    }

    async fn step(&mut self, step: &Step) -> Result<(), Cause> {
        match step {
            Step::SetResolver { file, content, mode } => {
                Ok(self.files.set(*file, content.as_deref(), *mode)?)
            }
            Step::ReloadResolved => Ok(self.files.reload().await?),
            Step::SetTable { name, id } => {
                let path = &self.files.rt_tables;
                let failed = |source| ResolverError::File { path: path.clone(), source };
                Ok(tables::set(path, name, *id).map_err(failed)?)
            }
            Step::StartDhcp { link, told } => {
                let index = self.netlink.index(link).await?;
                Ok(self.clients.start(link, index, told).await?)
            }
            Step::StopDhcp { link } => Ok(self.clients.stop(link).await?),
            step => Ok(self.link_step(step).await?),
        }
    }

    async fn link_step(&mut self, step: &Step) -> Result<(), NetlinkError> {
        let netlink = &mut *self.netlink;
        match step {
            Step::CreateLinuxBridge { link } => netlink.create_bridge(link).await,
            Step::CreateVlan { link, device, id } => netlink.create_vlan(link, device, *id).await,
            Step::CreateBond { link, options, mac } => {
                netlink.create_bond(link, options, mac.as_deref()).await
            }
            Step::SetBond { link, options } => netlink.set_bond(link, options).await,
            Step::SetPrimary { link, primary } => netlink.set_primary(link, primary.as_deref()).await,
            Step::CreateTap { link } => netlink.create_tap(link).await,
            Step::DeleteLink { link } => netlink.delete(link).await,
            Step::SetMaster { link, master } => netlink.set_master(link, master.as_deref()).await,
            Step::SetMtu { link, mtu } => netlink.set_mtu(link, *mtu).await,
            Step::SetMac { link, mac } => netlink.set_mac(link, mac).await,
            Step::SetUp { link, up } => netlink.set_up(link, *up).await,
            Step::AddAddress { link, address, moved } => netlink.add_address(link, address, *moved).await,
            Step::KeepAddress { link, address } => netlink.keep_address(link, address).await,
            Step::RemoveAddress { link, address } => netlink.remove_address(link, address).await,
            Step::AddRoute { link, route } => netlink.add_route(link, route).await,
            Step::ReplaceRoute { link, route, .. } => netlink.replace_route(link, route).await,
            Step::RemoveRoute { link, route } => netlink.remove_route(link, route).await,
            Step::AddRule { rule, protocol } => netlink.add_rule(rule, *protocol).await,
            Step::SetEthtool { link, settings } => ethtool::set(link, settings).await,
            Step::RemoveRule { rule, protocol } => netlink.remove_rule(rule, *protocol).await,
            Step::CreateOvsBridge { .. }
            | Step::DeleteOvsBridge { .. }
            | Step::AddOvsPort { .. }
            | Step::RemoveOvsPort { .. }
            | Step::SetOvsTag { .. }
            | Step::SetOvsHwaddr { .. }
            | Step::SetOvsMtu { .. }
            | Step::SetOvs { .. }
            | Step::SetTable { .. }
            | Step::SetResolver { .. }
            | Step::ReloadResolved
            | Step::StartDhcp { .. }
            | Step::StopDhcp { .. }
            | Step::SyncOvs => Ok(()),
        }
    }
}

/// A hint for the operator, where the kernel's error alone does not suffice.
fn hint(step: &Step, cause: &Cause) -> &'static str {
    const EPERM: i32 = 1;
    const EACCES: i32 = 13;
    const ENODEV: i32 = 19;
    const EOPNOTSUPP: i32 = 95;
    const ENETUNREACH: i32 = 101;
    const EHOSTUNREACH: i32 = 113;
    let Cause::Netlink(error) = cause else { return "" };
    match (step, error.code()) {
        (_, Some(EPERM)) => " (this needs the capability CAP_NET_ADMIN)",
        (Step::SetUp { up: true, .. }, Some(ENODEV)) => {
            " (if Open vSwitch was to make it, its log says why it did not; see also the setting ovs_datapath_type)"
        }
        (Step::CreateVlan { .. }, Some(EOPNOTSUPP)) => " (this kernel has no 802.1Q; load the module 8021q)",
        (Step::CreateBond { .. }, Some(EOPNOTSUPP)) => " (this kernel has no bonds; load the module bonding)",
        (Step::CreateLinuxBridge { .. }, Some(EOPNOTSUPP)) => {
            " (this kernel has no bridges; load the module bridge)"
        }
        (Step::AddAddress { .. }, Some(EACCES)) => " (IPv6 is switched off on it; see sysctl disable_ipv6)",
        (Step::AddRoute { .. } | Step::ReplaceRoute { .. }, Some(ENETUNREACH | EHOSTUNREACH)) => {
            " (its next hop is on no network of that link)"
        }
        _ => "",
    }
}
