//! Flow tables as operators see them, with the site's names of owners and nodes.
//!
//! Absent: what a view has (`controller/flow/src/view.rs`).

use muster_flow::{
    DeviceView, FlowOperationView, FlowRows, FlowStanding, Flows, Owner, Site as _, StatsView,
};
use muster_shared::model::flow::{DeviceName, FlowId};
use muster_template::FlowSet;

use super::site::FlowSite;
use crate::request::Refusal;
use crate::view::View;

/// A view of the flow tables.
pub struct FlowViews<'e> {
    flows: &'e Flows,
    site: FlowSite<'e>,
}

impl View<'_> {
    /// The flow tables as operators see them.
    pub fn flows(&self) -> FlowViews<'_> {
        let site = FlowSite {
            now: self.graph.ctx.now,
            nodes: &self.graph.nodes,
            rows: &self.graph.rows,
            stacks: &self.graph.stacks,
            claims: &self.jobs.claims,
            intents: self.intents,
            restored: &self.graph.restored,
            applications: self.flows.applications(),
        };
        FlowViews { flows: self.flows, site }
    }

    /// An owner of rules, for operators.
    pub(crate) fn owner_text(&self, owner: Owner) -> String {
        self.flows().site.describe(owner)
    }
}

impl FlowViews<'_> {
    /// The devices, by name.
    pub fn devices(&self) -> Vec<DeviceView> {
        self.flows.device_views()
    }

    ///
    /// # Errors
    /// There is no such device.
    pub fn device(&self, name: &DeviceName) -> Result<DeviceView, Refusal> {
        Ok(self.flows.device_view(&self.site, name)?)
    }

    /// The entries of a device: all of them, or `only` those with one standing.
    ///
    /// # Errors
    /// There is no such device.
    pub fn rows(&self, name: &DeviceName, only: Option<FlowStanding>) -> Result<FlowRows, Refusal> {
        Ok(self.flows.rows(&self.site, name, only)?)
    }

    ///
    /// # Errors
    /// There is no such device, or no such entry.
    pub fn row(&self, name: &DeviceName, id: FlowId) -> Result<FlowRows, Refusal> {
        Ok(self.flows.row(&self.site, name, id)?)
    }

    /// The reason why a resource cannot have these entries.
    pub(crate) fn conflict(&self, set: &FlowSet, asker: &str) -> Option<Refusal> {
        self.flows.conflict(&self.site, set, &set.ids(), asker).map(Refusal::from)
    }

    /// Whether something of a hidden parameter is in the rules of an owner.
    pub(crate) fn hides(&self, owner: Owner) -> bool {
        self.site.hides(owner)
    }

    /// The digest of the desired table of a device.
    pub fn root(&self, name: &DeviceName) -> Option<u64> {
        self.flows.root(name)
    }

    /// Whether rules of others on a device are listed.
    pub fn shows_foreign(&self, name: &DeviceName) -> bool {
        self.flows.shows_foreign(name)
    }

    pub fn standing(&self, device: &DeviceName, id: FlowId) -> Option<FlowStanding> {
        self.flows.standing(device, id)
    }

    /// An operation, as long as it is kept.
    pub fn operation(&self, id: u64) -> Option<FlowOperationView> {
        self.flows.operation(id)
    }

    /// Whether an operation has ended or is unknown.
    pub fn has_ended(&self, operation: u64) -> bool {
        self.flows.has_ended(operation)
    }

    /// Counters of a device as of its last report.
    ///
    /// # Errors
    /// There is no such device.
    pub fn stats(&self, name: &DeviceName) -> Result<StatsView, Refusal> {
        Ok(self.flows.stats(&self.site, self.site.now, name)?)
    }

    /// Every device with its counters, with at most `owners` owners each by name, for metrics.
    pub fn metrics(&self, owners: usize) -> Vec<(DeviceView, StatsView)> {
        self.flows.metrics(&self.site, self.site.now, owners)
    }
}
