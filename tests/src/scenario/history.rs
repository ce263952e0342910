//! The naive reference of each stack, kept beside the engine.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::Source;
use muster_engine::view::StackView;

use super::content::Content;

/// The content that an operation asks for.
#[derive(Clone)]
pub(super) struct Wanted {
    pub content: Content,
    pub source: Source,
}

impl Wanted {
    pub fn nothing() -> Self {
        Self { content: Content::default(), source: Source::nothing() }
    }
}

/// A stack, from its creation until it is gone.
#[derive(Clone)]
pub(super) struct History {
    /// By the last operation.
    pub wanted: Wanted,
    revisions: BTreeMap<u32, Wanted>,
    /// Revisions that were COMPLETE, in that order.
    complete: Vec<u32>,
    /// Traversals that were seen to end.
    ended: BTreeSet<u64>,
    status: String,
    pub deleting: bool,
    /// By the last operation.
    pub cancelled: bool,
    /// The last operation takes away before it makes anything.
    pub delete_first: bool,
}

impl Default for History {
    fn default() -> Self {
        Self {
            wanted: Wanted::nothing(),
            revisions: BTreeMap::new(),
            complete: Vec::new(),
            ended: BTreeSet::new(),
            status: String::new(),
            deleting: false,
            cancelled: false,
            delete_first: false,
        }
    }
}

impl History {
    /// Returns the revision to which a rollback leads now: the last one that was COMPLETE, or the one before it if that
    /// is in force. None: the stack is empty.
    pub fn previous(&self) -> Option<u32> {
        let skipped = usize::from(self.status == "COMPLETE");
        self.complete.iter().rev().nth(skipped).copied()
    }

    /// Returns the content of the stack after a rollback.
    pub fn before(&self) -> Wanted {
        let revision = self.previous().and_then(|revision| self.revisions.get(&revision));
        revision.cloned().unwrap_or_else(Wanted::nothing)
    }

    /// The engine has taken the operation, as this revision.
    pub fn begun(&mut self, revision: u32) {
        if !self.deleting {
            self.revisions.insert(revision, self.wanted.clone());
        }
    }

    /// Whether something of this name may have been needed when the last operation came: by what is wanted, as some
    /// revision has said, or by what that needed.
    pub fn may_be_needed(&self, name: &str) -> bool {
        let contents = || self.revisions.values().map(|wanted| &wanted.content);
        let mut needed: BTreeSet<String> = BTreeSet::new();
        let mut open: Vec<String> = self.wanted.content.names().map(str::to_owned).collect();
        while let Some(by) = open.pop() {
            for content in contents().filter(|content| content.has(&by)) {
                open.extend(content.needs(&by).into_iter().filter(|need| needed.insert(need.clone())));
            }
        }
        needed.contains(name)
    }

    /// As the engine shows the stack now.
    pub fn observe(&mut self, view: &StackView) {
        self.status.clone_from(&view.status);
        if view.status == "COMPLETE" && self.ended.insert(view.traversal) {
            self.complete.push(view.revision);
        }
    }
}
