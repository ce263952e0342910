//! Large contents of files. Each is stored once, by its digest, as long as a spec refers to it.
//!
//! Absent: which node fetches when (`job/fetches.rs`), and how the bytes reach a node
//! (`controller/src/link/contents.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_shared::model::{Content, ContentDigest, Down};
use muster_shared::wire::CHUNK_MAX;
use muster_template::Desired;

use crate::engine::{Effect, Engine};
use crate::job::fetches::Piece;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::record::Change;
use crate::record::PackedSpec;
use crate::row::Slot;

/// Number of specs that refer to each content.
#[derive(Debug, Default)]
pub(crate) struct Contents(BTreeMap<ContentDigest, u32>);

impl Contents {
    /// Counts a spec of the store.
    pub fn count_up(&mut self, digest: ContentDigest) {
        *self.0.entry(digest).or_default() += 1;
    }

    /// Whether a spec refers to the content.
    pub fn has(&self, digest: &ContentDigest) -> bool {
        self.0.contains_key(digest)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Counts one more spec. Returns true if it is the first.
    fn refer(&mut self, digest: ContentDigest) -> bool {
        self.count_up(digest);
        self.0[&digest] == 1
    }

    /// Counts one spec less. Returns true if it was the last.
    fn let_go(&mut self, digest: ContentDigest) -> bool {
        let Some(count) = self.0.get_mut(&digest) else { return false };
        *count -= 1;
        *count == 0 && self.0.remove(&digest).is_some()
    }
}

impl Jobs {
    /// Counts one more spec that refers to a content. The first one needs `bytes`.
    pub(crate) fn keep_content(&mut self, spec: &Desired, bytes: Option<Arc<[u8]>>) {
        let Some(digest) = stored_content(spec) else { return };
        if self.contents.refer(digest)
            && let Some(bytes) = bytes
        {
            self.graph.ctx.change(Change::Content { digest, bytes });
        }
    }

    pub(crate) fn release_content(&mut self, spec: &Desired) {
        if let Some(digest) = stored_content(spec)
            && self.contents.let_go(digest)
        {
            self.graph.ctx.change(Change::ContentRemoved(digest));
        }
    }
}

impl Engine {
    /// A node asks for a piece of a content. It gets the piece in its turn.
    pub(crate) fn fetch(&mut self, key: NodeKey, digest: ContentDigest, offset: u64) {
        let now = self.graph().ctx.now;
        let sent = self.graph().nodes[key].sent.iter().filter_map(|slot| {
            let (of, size) = stored(&self.graph().rows[*slot].spec()?.unpack())?;
            Some((*slot, of, size))
        });
        let sent: Vec<(Slot, ContentDigest, u64)> = sent.collect();
        let Some((.., size)) = sent.iter().find(|(_, of, _)| *of == digest) else {
            let bytes = self.flows.chunk(&self.graph().nodes[key].name, digest, offset).unwrap_or_default();
            return self.graph_mut().send(key, Down::Chunk { digest, offset, bytes });
        };
        let is_last = offset.saturating_add(CHUNK_MAX as u64) >= *size;
        self.traversals.jobs.fetches.ask(now, key, Piece { digest, offset, is_last });
        if !self.graph().nodes[key].presence.tells_jobs() {
            // An older agent fetches one content after the other, so all its jobs are alive.
            sent.iter().for_each(|(slot, ..)| self.graph_mut().heard_of(*slot, key));
        }
        self.traversals.jobs.serve_fetches();
    }
}

impl Jobs {
    /// Sends the pieces whose turn it is.
    pub(crate) fn serve_fetches(&mut self) {
        while let Some((key, Piece { digest, offset, .. })) = self.fetches.next(self.graph.ctx.now) {
            let (node, connection) =
                (self.graph.nodes[key].name.clone(), self.graph.nodes[key].presence.connection());
            if let Some(connection) = connection {
                self.graph.ctx.effect(Effect::SendChunk { node, connection, digest, offset });
            }
        }
    }

    /// A node that is away fetches nothing.
    pub(crate) fn fetches_away(&mut self, key: NodeKey) {
        self.fetches.gone(key);
        self.serve_fetches();
    }

    /// Releases the content of a spec that no longer counts.
    pub(crate) fn release_spec(&mut self, spec: Option<PackedSpec>) {
        if let Some(spec) = spec {
            self.release_content(&spec.unpack());
        }
    }
}

/// Moves a large content out of the spec. Agents fetch it by its digest.
pub(crate) fn externalise(spec: &mut Desired) -> Option<Arc<[u8]>> {
    let Desired::Node(spec) = spec else { return None };
    let content = spec.content_mut()?;
    match content {
        Content::Inline(bytes) if bytes.len() > Content::INLINE_MAX => {
            let bytes = std::mem::take(bytes);
            let digest = ContentDigest::of(&bytes);
            *content = Content::Stored { digest, size: bytes.len() as u64 };
            Some(bytes.into())
        }
        Content::Inline(_) | Content::Stored { .. } => None,
    }
}

pub(crate) fn stored_content(spec: &Desired) -> Option<ContentDigest> {
    stored(spec).map(|(digest, _)| digest)
}

/// Digest and size.
fn stored(spec: &Desired) -> Option<(ContentDigest, u64)> {
    spec.spec()?.content()?.stored()
}
