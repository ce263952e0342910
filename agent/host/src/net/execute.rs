//! Executes steps, one after the other, and decides nothing.

use thiserror::Error;

use super::netlink::{Netlink, NetlinkError};
use super::ovsdb::{Ovsdb, OvsdbError};
use super::step::Step;

/// A step that failed. Those before it are done.
#[derive(Debug, Error)]
#[error("cannot {step}{hint}")]
pub struct StepError {
    /// What was to be done.
    pub step: Box<Step>,
    hint: &'static str,
    /// Why not.
    #[source]
    pub source: Cause,
}

/// Why a step failed.
#[derive(Debug, Error)]
pub enum Cause {
    /// The kernel.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// Open vSwitch.
    #[error(transparent)]
    Ovsdb(#[from] OvsdbError),
}

/// Executes `steps` in their order; connects to Open vSwitch only if a step needs it.
pub async fn execute(
    steps: &[Step],
    netlink: &mut Netlink,
    connect: impl AsyncFn() -> Result<Ovsdb, OvsdbError>,
) -> Result<(), StepError> {
    let mut executor = Executor { netlink, connect, ovs: None };
    for step in steps {
        executor.step(step).await.map_err(|source| StepError {
            hint: hint(step, &source),
            step: Box::new(step.clone()),
            source,
        })?;
    }
    Ok(())
}

struct Executor<'a, C> {
    netlink: &'a mut Netlink,
    connect: C,
    ovs: Option<Ovsdb>,
}

impl<C: AsyncFn() -> Result<Ovsdb, OvsdbError>> Executor<'_, C> {
    async fn step(&mut self, step: &Step) -> Result<(), Cause> {
        if step.is_ovs() || *step == Step::SyncOvs {
            self.netlink.forget_links();
            return Ok(self.ovs_step(step).await?);
        }
        Ok(self.link_step(step).await?)
    }

    async fn link_step(&mut self, step: &Step) -> Result<(), NetlinkError> {
        let netlink = &mut *self.netlink;
        match step {
            Step::CreateLinuxBridge { link } => netlink.create_bridge(link).await,
            Step::CreateVlan { link, device, id } => netlink.create_vlan(link, device, *id).await,
            Step::DeleteLink { link } => netlink.delete(link).await,
            Step::SetMaster { link, master } => netlink.set_master(link, master.as_deref()).await,
            Step::SetMtu { link, mtu } => netlink.set_mtu(link, *mtu).await,
            Step::SetMac { link, mac } => netlink.set_mac(link, mac).await,
            Step::SetUp { link, up } => netlink.set_up(link, *up).await,
            Step::AddAddress { link, address } => netlink.add_address(link, address).await,
            Step::RemoveAddress { link, address } => netlink.remove_address(link, address).await,
            Step::AddRoute { link, route } => netlink.add_route(link, route).await,
            Step::RemoveRoute { link, route } => netlink.remove_route(link, route).await,
            Step::CreateOvsBridge { .. }
            | Step::DeleteOvsBridge { .. }
            | Step::AddOvsPort { .. }
            | Step::RemoveOvsPort { .. }
            | Step::SetOvsTag { .. }
            | Step::SetOvsHwaddr { .. }
            | Step::SetOvsMtu { .. }
            | Step::SyncOvs => Ok(()),
        }
    }

    async fn ovs_step(&mut self, step: &Step) -> Result<(), OvsdbError> {
        let ovs = match &mut self.ovs {
            Some(ovs) => ovs,
            none => none.insert((self.connect)().await?),
        };
        match step {
            Step::CreateOvsBridge { bridge, datapath_type, hwaddr } => {
                ovs.create_bridge(bridge, datapath_type.as_deref(), hwaddr.as_deref()).await
            }
            Step::DeleteOvsBridge { bridge } => ovs.delete_bridge(bridge).await,
            Step::AddOvsPort { bridge, port, tag, internal } => {
                ovs.add_port(bridge, port, *tag, *internal).await
            }
            Step::RemoveOvsPort { bridge, port } => ovs.remove_port(bridge, port).await,
            Step::SetOvsTag { port, tag } => ovs.set_tag(port, *tag).await,
            Step::SetOvsHwaddr { bridge, hwaddr } => ovs.set_hwaddr(bridge, hwaddr.as_deref()).await,
            Step::SetOvsMtu { interface, mtu } => ovs.set_mtu(interface, *mtu).await,
            _ => ovs.sync().await,
        }
    }
}

/// What an operator should look at, where the kernel's word alone does not say it.
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
        (Step::CreateLinuxBridge { .. }, Some(EOPNOTSUPP)) => {
            " (this kernel has no bridges; load the module bridge)"
        }
        (Step::AddAddress { .. }, Some(EACCES)) => " (IPv6 is switched off on it; see sysctl disable_ipv6)",
        (Step::AddRoute { .. }, Some(ENETUNREACH | EHOSTUNREACH)) => {
            " (its next hop is on no network of that link)"
        }
        _ => "",
    }
}
