//! A store in memory, for tests and the simulator: what the database holds, without the database.
//!
//! Absent: events and the counters of starts, which a load does not need.

mod written;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_flow::record::FlowSnapshot;
use muster_intent::record::IntentSnapshot;
use muster_shared::model::ContentDigest;
use muster_shared::{NodeId, StackName};
use muster_template::Environment;

use crate::record::{
    Change, NodeRecord, ResourceRecord, RolloutSnapshot, StackAction, StackRecord, Status, TokenRecord,
    UserRecord,
};
use crate::restored::RestoredRecord;
use crate::{EnvironmentText, Snapshot, Source, SourceText};

pub use self::written::Written;

/// The durable state.
#[derive(Clone, Default)]
pub struct Tables {
    /// By id.
    pub stacks: BTreeMap<u64, StackRecord>,
    /// By stack and number.
    pub revisions: BTreeMap<(u64, u32), Arc<SourceText>>,
    /// By id.
    pub rows: BTreeMap<u64, ResourceRecord>,
    /// By row, the rows it needs.
    pub edges: BTreeMap<u64, Vec<u64>>,
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    pub tokens: BTreeMap<[u8; 8], TokenRecord>,
    /// By name.
    pub users: BTreeMap<String, UserRecord>,
    pub contents: BTreeMap<ContentDigest, Arc<[u8]>>,
    pub flows: FlowSnapshot,
    pub intents: IntentSnapshot,
    pub rollouts: RolloutSnapshot,
    pub restored: Option<RestoredRecord>,
    /// Stacks of which a row cannot be read, with the reason.
    pub damaged: BTreeMap<u64, String>,
    /// The highest ids ever given: row, stack, traversal.
    pub highest: (u64, u64, u64),
}

impl Tables {
    /// Commits a change.
    ///
    /// # Panics
    /// Progress of a row that was never written.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Stack(stack) => {
                self.highest.1 = self.highest.1.max(stack.id);
                self.highest.2 = self.highest.2.max(stack.traversal);
                self.stacks.insert(stack.id, *stack);
            }
            Change::StackRemoved { id, traversal, .. } => {
                self.highest.1 = self.highest.1.max(id);
                self.highest.2 = self.highest.2.max(traversal);
                self.stacks.remove(&id);
                self.revisions.retain(|(stack, _), _| *stack != id);
                self.rows.retain(|_, row| row.stack != id);
            }
            Change::Revision(revision) => {
                self.revisions.insert((revision.stack, revision.number), revision.text);
            }
            Change::RevisionsTrimmed { stack, below, but } => {
                let is_kept = |number| number >= below || but.contains(&number);
                self.revisions.retain(|(of, number), _| *of != stack || is_kept(*number));
            }
            Change::Resource(row) => {
                self.highest.0 = self.highest.0.max(row.id);
                self.rows.insert(row.id, *row);
            }
            Change::Progress(progress) => {
                let row = self.rows.get_mut(&progress.id).expect("a row exists before its progress");
                row.progress = *progress;
            }
            Change::ResourceRemoved(id) => {
                self.rows.remove(&id);
                self.edges.remove(&id);
            }
            Change::Edges { needed_by, requires } => drop(self.edges.insert(needed_by, requires)),
            Change::Node(node) => drop(self.nodes.insert(node.name.clone(), *node)),
            Change::NodeRemoved(name) => drop(self.nodes.remove(&name)),
            Change::Token(token) => drop(self.tokens.insert(token.token.id, *token)),
            Change::TokenRemoved(id) => drop(self.tokens.remove(&id)),
            Change::User(user) => drop(self.users.insert(user.name.clone(), *user)),
            Change::UserRemoved(name) => drop(self.users.remove(&name)),
            Change::Content { digest, bytes } => drop(self.contents.insert(digest, bytes)),
            Change::ContentRemoved(digest) => drop(self.contents.remove(&digest)),
            Change::Flow(change) => self.flows.apply(change),
            Change::Intent(change) => self.intents.apply(change),
            Change::Rollout(change) => self.rollouts.apply(change),
            Change::Restored(record) => self.restored = record.map(|record| *record),
            Change::Event(_) | Change::Counters(_) | Change::Audit(_) => {}
        }
    }

    /// The text of a stack's revision, while it is kept.
    pub fn source(&self, stack: &StackName, revision: u32) -> Option<&Arc<SourceText>> {
        let stack = self.stacks.values().find(|record| record.name == *stack)?;
        self.revisions.get(&(stack.id, revision))
    }

    /// The state that a start loads.
    ///
    /// # Panics
    /// A revision does not parse, although it did when it was taken.
    pub fn snapshot(&self) -> Snapshot {
        let current = |record: &StackRecord| self.revisions.get(&(record.id, record.revision));
        let source = |record: &StackRecord| match (record.status, record.action) {
            (Status::Complete, _) => None,
            (_, StackAction::Delete) => Some(Source::nothing()),
            _ => current(record)
                .map(|text| Source::parse((**text).clone()).unwrap_or_else(|errors| panic!("{errors}"))),
        };
        let policies = |record: &StackRecord| {
            let environments = &current(record).filter(|text| !text.environments.is_empty())?.environments;
            let environment = Environment::parse(environments.iter().map(EnvironmentText::file));
            let environment = environment.unwrap_or_else(|errors| panic!("{errors}"));
            Some((record.id, environment.policies().clone()))
        };
        Snapshot {
            damaged: self.damaged.clone(),
            policies: self.stacks.values().filter_map(policies).collect(),
            stacks: self.stacks.values().map(|record| (record.clone(), source(record))).collect(),
            resources: self.rows.values().cloned().collect(),
            edges: self.edges.iter().flat_map(|(by, needs)| needs.iter().map(|need| (*by, *need))).collect(),
            nodes: self.nodes.values().cloned().collect(),
            tokens: self.tokens.values().cloned().collect(),
            users: self.users.values().cloned().collect(),
            contents: self.contents.keys().copied().collect(),
            flows: self.flows.clone(),
            intents: self.intents.clone(),
            rollouts: self.rollouts.clone(),
            restored: self.restored.clone(),
            highest: self.highest,
        }
    }
}
