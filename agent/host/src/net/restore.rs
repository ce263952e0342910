//! Restores the state before a change, and applies the document's fallback if that fails: as much as possible
//! is done.
//!
//! Absent: when a change is undone, and how often that is tried (`agent/core/src/jobs/restore.rs`).

use std::time::Duration;

use muster_shared::model::network::{NetworkDocument, NicMapping};

use super::execute::OnFailure;
use super::netlink::Netlink;
use super::plan::{self, plan};
use super::resolver::Resolver;
use super::snapshot::Snapshot;
use super::state::State;
use super::step::Step;
use super::verify::differences;
use super::wanted::Target;
use super::{NetError, Network, READ_BACK_PAUSE, READ_BACK_TRIES, extended, mapped};

/// The time that Open vSwitch may take to become idle before a restore: a switch that hangs must not keep a
/// server cut off.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The most plans of a restore: the next round repairs unforeseen side effects of a step.
const RESTORE_ROUNDS: u32 = 3;

impl Network {
    /// Restores `before`, from any intermediate state and also after a reboot. Returns the parts that cannot
    /// be restored. May be repeated. After a failure, all other parts are still restored, and the first
    /// failure is returned.
    pub async fn restore(&self, before: &Snapshot) -> Result<Vec<String>, NetError> {
        let mut warnings = self.put_back(before).await?;
        // The managers come last, since they may act on the links at once.
        warnings.extend(
            self.give_back(before.links.keys().filter(|link| !before.left_alone.contains(*link))).await,
        );
        Ok(warnings)
    }

    async fn put_back(&self, before: &Snapshot) -> Result<Vec<String>, NetError> {
        let (mut hangs, mut failed) = (None, None);
        if before.uses_ovs {
            let impatient = Self { ovs_timeout: self.ovs_timeout.min(SETTLE_TIMEOUT), ..self.clone() };
            hangs = impatient.settle_ovs().await.err();
        }
        let mut netlink = Netlink::open()?;
        let (mut rounds_left, mut tries_left) = (RESTORE_ROUNDS, READ_BACK_TRIES);
        loop {
            let ovs = self.bridges().await.unwrap_or_default();
            let mut state = State { ovs, ..self.observe_host(&mut netlink).await? };
            // A driver that does not answer must not block the rest.
            let _ = self.ask_ethtool(&mut state, &NetworkDocument::default(), before).await;
            let target = Target::new(&NetworkDocument::default(), before, &state, None);
            let found = differences(&target, &state);
            let mut steps = plan(&target, &state)?;
            if hangs.is_some() {
                steps = plan::without_switch(steps, &state);
            }
            let needs_ovs = self.needs_ovs(before, &state);
            let out_of_reach = needs_ovs.is_err();
            // The state may be large, and is read again.
            drop(state);
            let over = |error| match rounds_left < RESTORE_ROUNDS {
                true => NetError::Partly(Box::new(error)),
                false => error,
            };
            if found.is_empty() && (steps.is_empty() || rounds_left == 0) {
                if steps.is_empty() {
                    failed = None;
                }
                if matches!(before.resolver, Some(Resolver::Resolved { .. })) {
                    // A crash between writing the file and this reload would go unnoticed. On a host without
                    // resolved, the reload is not needed.
                    let _ = self.files.reload().await;
                }
                needs_ovs.map_err(over)?;
                return hangs.or(failed).map_or(Ok(target.warnings), |error| Err(over(error)));
            }
            if !steps.is_empty() && rounds_left > 0 {
                rounds_left -= 1;
                let done = self.execute_through(&mut netlink, &steps, OnFailure::GoOn).await;
                failed = done.err();
                netlink.forget_links();
            } else if tries_left > 0 && hangs.is_none() && failed.is_none() && !out_of_reach {
                tries_left -= 1;
                tokio::time::sleep(READ_BACK_PAUSE).await;
            } else {
                needs_ovs.map_err(over)?;
                return Err(over(hangs.or(failed).unwrap_or(NetError::Differs(found))));
            }
        }
    }

    /// Makes only the links of the document's `fallback_config`; obstacles on other links are removed.
    /// Returns the steps that were needed. Used when the state before the change cannot be restored.
    pub async fn apply_fallback(
        &self,
        document: &NetworkDocument,
        mapping: &NicMapping,
    ) -> Result<Vec<Step>, NetError> {
        let mut netlink = Netlink::open()?;
        let mut done = Vec::new();
        let mut failed = None;
        for last in [false, true] {
            let ovs = self.bridges().await.unwrap_or_default();
            let mut state = State { ovs, ..self.observe_host(&mut netlink).await? };
            let fallback = mapped(document, mapping, &state)?.fallback().ok_or(NetError::NoFallback)?;
            let _ = self.ask_ethtool(&mut state, &fallback, &Snapshot::default()).await;
            let before = extended(Snapshot::default(), &fallback, &state);
            let mut target = Target::new(&fallback, &before, &state, self.datapath_type.as_deref());
            target.takes_over = true;
            let steps = plan(&target, &state)?;
            if last || steps.is_empty() {
                let found = [target.missing.clone(), differences(&target, &state)].concat();
                return match found.is_empty() {
                    true => Ok(done),
                    false => Err(failed.unwrap_or(NetError::Differs(found))),
                };
            }
            failed = self.execute_through(&mut netlink, &steps, OnFailure::GoOn).await.err();
            netlink.forget_links();
            done = steps;
        }
        Ok(done)
    }
}
