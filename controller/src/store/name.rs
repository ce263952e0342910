//! The name that logs and reasons give a change that was not written, and about how much room it takes in the database.

use data_encoding::HEXLOWER;
use muster_engine::record::{Change, RolloutChange};
use muster_flow::record::FlowChange;
use muster_intent::record::IntentChange;

/// Bytes on disk of a record of a few columns, with its share of indexes and inner pages.
const RECORD: u64 = 2048;

/// Names the change by table and number. Never by its content: that may be secret.
pub(super) fn name(change: &Change) -> String {
    match change {
        Change::Stack(stack) => format!("stack '{}' (number {})", stack.name, stack.id),
        Change::StackRemoved { id, name, .. } => format!("removal of stack '{name}' (number {id})"),
        Change::Revision(revision) => format!("revision {} of stack {}", revision.number, revision.stack),
        Change::RevisionsTrimmed { stack, below, .. } => format!("revisions below {below} of stack {stack}"),
        Change::Resource(row) => format!("resource '{}' (row {}) of stack {}", row.name, row.id, row.stack),
        Change::Progress(progress) => format!("progress of row {}", progress.id),
        Change::ResourceRemoved(id) => format!("removal of row {id}"),
        Change::Edges { needed_by, .. } => format!("edges of row {needed_by}"),
        Change::Node(node) => format!("node '{}'", node.name),
        Change::NodeRemoved(name) => format!("removal of node '{name}'"),
        Change::Token(_) => "a join token".to_owned(),
        Change::TokenRemoved(_) => "removal of a join token".to_owned(),
        Change::User(user) => format!("user '{}'", user.name),
        Change::UserRemoved(name) => format!("removal of user '{name}'"),
        Change::Content { digest, .. } => format!("content {}", short(&digest.0)),
        Change::ContentRemoved(digest) => format!("removal of content {}", short(&digest.0)),
        Change::Event(event) => format!("event {} of stack {}", event.number, event.stack),
        Change::Flow(flow) => of_flow(flow),
        Change::Intent(intent) => of_intent(intent),
        Change::Rollout(change) => of_rollout(change),
        Change::Counters(_) => "the counters".to_owned(),
        Change::Restored(_) => "what a restored site holds".to_owned(),
        Change::Audit(record) => format!("the audit of '{}'", record.action),
    }
}

fn of_flow(change: &FlowChange) -> String {
    match change {
        FlowChange::Entries { device, entries, .. } => {
            format!("{} flow rules of device {device}", entries.len())
        }
        FlowChange::Settled { device, serial } => format!("flow write {serial} of device {device}"),
        FlowChange::DeviceRemoved(device) => format!("removal of flow device {device}"),
        FlowChange::Device(_) => "a flow device".to_owned(),
        _ => "a record of flow tables".to_owned(),
    }
}

fn of_rollout(change: &RolloutChange) -> String {
    match change {
        RolloutChange::Kept { row, .. } => format!("the rollout of row {row}"),
        RolloutChange::Over(row) => format!("the end of the rollout of row {row}"),
        RolloutChange::Proven(row, _) => format!("what was rolled out to all of row {row}"),
    }
}

fn of_intent(change: &IntentChange) -> String {
    match change {
        IntentChange::Intent(record, _) => format!("intent number {}", record.no.0),
        IntentChange::Removed(no) => format!("removal of intent number {}", no.0),
        IntentChange::Device { device, .. } => format!("ports of device {device}"),
        IntentChange::DeviceRemoved(device) => format!("removal of device {device}"),
    }
}

/// About the bytes that the change takes on disk.
pub(super) fn weight(change: &Change) -> u64 {
    let bytes = match change {
        Change::Content { bytes, .. } => bytes.len(),
        Change::Revision(revision) => {
            let text = &revision.text;
            let files: usize = text.files.iter().map(|(name, text)| name.len() + text.len()).sum();
            let environments: usize = text.environments.iter().map(|it| it.text.len()).sum();
            text.template.len() + files + environments
        }
        Change::Flow(FlowChange::Entries { entries, gone, .. }) => {
            (entries.len() + gone.len()) * 512 // a rule is a few hundred bytes
        }
        Change::Intent(IntentChange::Device { ports, .. }) => ports.len() * 128,
        Change::Rollout(RolloutChange::Kept { members, .. }) => members.len() * 128,
        _ => 0,
    };
    RECORD + bytes as u64
}

fn short(digest: &[u8; 32]) -> String {
    HEXLOWER.encode(&digest[..6])
}

#[cfg(test)]
mod tests {
    use muster_engine::SourceText;
    use muster_engine::record::{EventRecord, RevisionRecord};
    use muster_shared::model::ContentDigest;

    use super::*;

    #[test]
    fn changes_are_named_without_their_content_and_weighed_with_it() {
        let text = SourceText { template: "secret".repeat(1000), ..SourceText::default() };
        let revision = RevisionRecord { stack: 5, number: 2, text: text.into(), made_by: "CREATE".into() };
        let content = Change::Content { digest: ContentDigest([0xab; 32]), bytes: vec![0; 1 << 20].into() };
        let event = EventRecord {
            stack: 5,
            number: 9,
            resource: None,
            action: "CREATE",
            status: "FAILED",
            reason: "secret".into(),
            actor: None,
        };
        let rows = [
            (Change::Revision(revision), "revision 2 of stack 5", 6000),
            (content, "content abababababab", 1 << 20),
            (Change::Event(event), "event 9 of stack 5", 0),
            (Change::ResourceRemoved(7), "removal of row 7", 0),
        ];
        for (change, called, more) in rows {
            assert_eq!(name(&change), called);
            assert_eq!(weight(&change), RECORD + more, "{called}");
        }
    }
}
