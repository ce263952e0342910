//! Each change of a commit: how it changes the tables, what is counted of it, and who is to look at it.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::record::{
    Change, ProgressRecord, ResourceRecord, RolloutChange, StackAction, StackRecord, Status,
};
use muster_intent::record::IntentChange;
use muster_shared::model::{Action, Claim};
use muster_shared::{Generation, NodeId, ResourceId};
use muster_template::Kind;

use super::super::addresses::{self, Held};
use super::super::network::counted;
use super::super::shared::{Noted, Shared};
use super::super::{invariant, rollout};
use super::Tables;

impl Shared {
    pub(super) fn apply(&mut self, change: Change, claims: &mut BTreeSet<(NodeId, Claim)>) {
        if let Some(leak) = invariant::leak(&change) {
            self.violate(leak);
        }
        let tables = &mut self.tables;
        tables.note(&change, self.now);
        match change {
            Change::Stack(stack) => {
                let other = tables.names.insert(stack.name.clone(), stack.id).filter(|id| *id != stack.id);
                let doubled = other.map(|_| format!("two stacks are called {}", stack.name));
                let was = tables.stacks.get(&stack.id).cloned();
                tables.apply(Change::Stack(stack.clone()));
                let from = was.as_ref().map_or("none".to_owned(), state);
                let to = state(&stack);
                if from != to {
                    self.counts.add(format!("stack {from} -> {to}"));
                }
                if stack.entering {
                    self.counts.add("slices operation enters");
                }
                self.noted.push(Noted::Stack { was: was.map(Box::new), is: stack });
                doubled.into_iter().for_each(|doubled| self.violate(doubled));
            }
            Change::StackRemoved { id, name, traversal } => {
                tables.names.remove(&name);
                let left: Vec<&str> =
                    tables.rows.values().filter(|row| row.stack == id).map(|row| &*row.name).collect();
                let left = (!left.is_empty()).then(|| format!("stack {name} is gone but for {left:?}"));
                let stack = tables.stacks.get(&id).cloned();
                tables.apply(Change::StackRemoved { id, name, traversal });
                if let Some(stack) = stack {
                    self.counts.add(format!("stack {} -> gone", state(&stack)));
                    self.noted.push(Noted::StackGone(stack));
                }
                left.into_iter().for_each(|left| self.violate(left));
            }
            Change::Resource(row) => {
                let was = tables.rows.get(&row.id).map(row_state);
                let old = tables.rows.get(&row.id).cloned();
                if let Some(was) = old.as_ref().filter(|was| was.physical != row.physical) {
                    tables.physical.remove(&was.physical);
                }
                tables.physical.insert(row.physical, row.id);
                tables.disclaim(row.id, claims);
                tables.claim(&row, claims);
                let is = row_state(&row);
                if begins(&mut self.began, tables, &row) {
                    self.rollouts.fresh.push(row.id);
                }
                tables.apply(Change::Resource(row.clone()));
                self.turn.row_went(old.as_ref(), &row);
                let stack = tables.stacks.get(&row.stack);
                let counted = self.fleet.row_went(old.as_ref(), &row, stack, self.now);
                counted.into_iter().for_each(|what| self.counts.add(what));
                self.told(old.as_ref().map(|old| &old.progress), &row.progress);
                self.fight_went(old.as_ref().map(|old| &old.progress), &row);
                self.deployment_went(old.as_ref().map(|old| &old.progress), &row);
                self.signals_went(old.as_ref().map(|old| &old.progress), &row);
                self.tables.waits(&row, self.now);
                self.row_went(was, is);
            }
            Change::Progress(progress) => {
                if !tables.rows.contains_key(&progress.id) {
                    let what = format!("progress of row {}, which was never written", progress.id);
                    return self.violate(what);
                }
                tables.disclaim(progress.id, claims);
                let before = tables.rows[&progress.id].clone();
                let was = Some(row_state(&before));
                let row = ResourceRecord { progress: (*progress).clone(), ..before.clone() };
                tables.apply(Change::Progress(progress));
                let is = row_state(&row);
                self.turn.row_went(Some(&before), &row);
                let old = before.progress;
                tables.claim(&row, claims);
                if begins(&mut self.began, tables, &row) {
                    self.rollouts.fresh.push(row.id);
                }
                self.told(Some(&old), &row.progress);
                self.fight_went(Some(&old), &row);
                self.deployment_went(Some(&old), &row);
                self.signals_went(Some(&old), &row);
                self.tables.waits(&row, self.now);
                self.row_went(was, is);
            }
            Change::ResourceRemoved(id) => {
                tables.disclaim(id, claims);
                tables.waits_since.remove(&id);
                tables.began.remove(&id);
                let row = tables.rows.get(&id).cloned();
                tables.apply(Change::ResourceRemoved(id));
                if let Some(row) = row {
                    tables.physical.remove(&row.physical);
                    self.counts.add(format!("row {} -> gone", row_state(&row)));
                    self.noted.push(Noted::RowGone(Box::new(row)));
                }
            }
            Change::Node(node) => {
                self.fleet.node_went(tables.nodes.get(&node.name), &node, self.now);
                if node.revoked {
                    self.rules_undecided.retain(|device, _| device.node != node.name);
                }
                let was = tables.nodes.get(&node.name).cloned();
                tables.apply(Change::Node(node.clone()));
                self.maintenance_went(was.as_ref(), &node);
            }
            Change::NodeRemoved(name) => {
                self.rules_undecided.retain(|device, _| device.node != name);
                tables.apply(Change::NodeRemoved(name));
            }
            Change::Event(event) => {
                tables.last_event.insert(event.stack, event.number);
                self.turn.tells(&event, tables);
                let is_check = event.action == StackAction::Check.as_str();
                if event.resource.is_none() && event.status == Status::Complete.as_str() && !is_check {
                    self.fleet.completed.insert(event.stack);
                }
                self.fight_is_told(&event);
                for (words, what) in [
                    ("two agents with its identity", "two agents with one identity are found"),
                    ("has lost it again and again", "a thing is lost again and again"),
                ] {
                    if event.reason.contains(words) {
                        self.counts.add(format!("history {what}"));
                    }
                }
                if event.reason.starts_with("expanded:") {
                    self.counts.add("tree is laid out anew");
                }
                self.noted.push(Noted::Event(event));
            }
            Change::Flow(change) => self.apply_flows(change),
            Change::Intent(change) => {
                let no = match &change {
                    IntentChange::Intent(record, _) => Some(record.no),
                    IntentChange::Removed(no) => Some(*no),
                    IntentChange::Device { .. } | IntentChange::DeviceRemoved(_) => None,
                };
                let was = no.and_then(|no| tables.intents.intents.get(&no)).map(|(record, _)| record);
                counted(was, &change).into_iter().for_each(|what| self.counts.add(what));
                if let IntentChange::Intent(record, _) = &change {
                    self.noted.push(Noted::Intent(record.clone()));
                }
                tables.apply(Change::Intent(change));
            }
            Change::Counters(counters) => tables.epoch = tables.epoch.max(counters.epoch.0),
            Change::Rollout(change) => {
                let has_row = |row: &u64| tables.rows.get(row).is_some_and(|row| row.progress.observed_ready);
                if matches!(&change, RolloutChange::Over(row) if has_row(row)) {
                    self.counts.add("rollout ended");
                }
                tables.apply(Change::Rollout(change));
            }
            Change::Revision(_)
            | Change::RevisionsTrimmed { .. }
            | Change::Edges { .. }
            | Change::Token(_)
            | Change::TokenRemoved(_)
            | Change::User(_)
            | Change::UserRemoved(_)
            | Change::Content { .. }
            | Change::ContentRemoved(_)
            | Change::Restored(_)
            | Change::Audit(_) => tables.apply(change),
        }
    }

    /// Counts what a row says now, and checks that a random text is drawn only once.
    fn told(&mut self, was: Option<&ProgressRecord>, is: &ProgressRecord) {
        let Self { tables, plans, .. } = self;
        let is_set = tables.rows.get(&is.id).is_some_and(|row| rollout::is_set(tables, plans, row));
        let steps = was.filter(|_| is_set).and_then(|was| rollout::counted(was, is));
        if steps.is_some() {
            self.rollouts.aborted.push(is.id);
        }
        steps.into_iter().for_each(|what| self.counts.add(what));
        let text = |progress: &ProgressRecord| progress.attributes.get("value").cloned();
        let is_same = self.tables.rows.get(&is.id).is_none_or(|row| row.kind != Kind::RandomString)
            || was.and_then(text).is_none_or(|was| text(is) == Some(was));
        if !is_same {
            self.violate(format!("the random text of row {} is another now", is.id));
        }
        // A row's failure as a port comes back when another thing's job in its place is withdrawn.
        let is_port = self.tables.rows.get(&is.id).is_some_and(|row| row.kind == Kind::Port);
        if was.is_none_or(|was| was.reason != is.reason)
            && let Some(what) = addresses::counted(is)
        {
            self.counts.add(what);
            self.refused.extend(is_port.then(|| is.clone()));
        }
    }

    /// Notes a deployment that is COMPLETE: nothing of it runs again as long as it stays the same.
    fn deployment_went(&mut self, was: Option<&ProgressRecord>, row: &ResourceRecord) {
        let Some(spec) = row.spec.as_ref().filter(|_| row.kind == Kind::SoftwareDeployment) else { return };
        let progress = &row.progress;
        let stands = row.dropped.is_none() && !row.is_lost() && !progress.observed.differs();
        let is_made = progress.action.is_some_and(|action| action.applies() || action == Action::Check);
        match progress.status {
            Some(Status::Complete) if stands && is_made => {
                self.settled.insert(row.physical, spec.clone());
                if was.is_none_or(|was| was.status != progress.status) {
                    self.noted.push(Noted::Deployed(Box::new(row.clone())));
                }
            }
            Some(Status::InProgress) if stands && self.settled.get(&row.physical) == Some(spec) => {}
            _ => drop(self.settled.remove(&row.physical)),
        }
    }

    /// `before`: who had which address before this commit.
    pub(super) fn plan_is_right(&mut self, before: &Held) {
        let now = Held::of(&self.tables);
        if now.handed_on() > before.handed_on() {
            self.counts.add("tree address goes to the one that replaces it");
        }
        let wrong = now.twice(&self.tables);
        let refused = std::mem::take(&mut self.refused);
        let wrongly = refused.iter().find_map(|it| addresses::refused_wrongly(it, [before, &now]));
        wrong.or(wrongly).into_iter().for_each(|wrong| self.violate(wrong));
    }

    fn row_went(&mut self, was: Option<String>, is: String) {
        let was = was.unwrap_or_else(|| "none".to_owned());
        if was != is {
            self.counts.add(format!("row {was} -> {is}"));
        }
    }
}

/// Remembers in which traversal a job began; whether it has just done so.
fn begins(
    began: &mut BTreeMap<(ResourceId, Generation), u64>,
    tables: &Tables,
    row: &ResourceRecord,
) -> bool {
    let Some(stack) = tables.stacks.get(&row.stack).filter(|_| row.progress.in_flight) else { return false };
    let before = began.len();
    began.entry((row.physical, row.progress.generation)).or_insert(stack.traversal);
    began.len() > before
}

fn state(stack: &StackRecord) -> String {
    format!("{} {}", stack.action.as_str(), stack.status.as_str())
}

fn row_state(row: &ResourceRecord) -> String {
    let action = muster_engine::record::action_str(row.progress.action);
    let status = row.progress.status.map_or("INIT", Status::as_str);
    let more = match (row.progress.in_flight, row.progress.retry_count > 0) {
        (true, _) => " sent",
        (false, true) if row.progress.status == Some(Status::InProgress) => " backoff",
        (false, _) => "",
    };
    format!("{action} {status}{more}")
}
