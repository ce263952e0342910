//! Large content of files: it is kept once, by its digest, as long as some spec refers to it.

use std::sync::Arc;

use muster_shared::model::{Content, ContentDigest, Spec};
use muster_template::Desired;

use crate::engine::Engine;
use crate::record::Change;

impl Engine {
    /// Counts one more spec that refers to a content; `bytes` are needed the first time.
    pub(crate) fn keep_content(&mut self, spec: &Desired, bytes: Option<Arc<[u8]>>) {
        let Some(digest) = stored_content(spec) else { return };
        let count = self.contents.entry(digest).or_default();
        *count += 1;
        if *count == 1
            && let Some(bytes) = bytes
        {
            self.change(Change::Content { digest, bytes });
        }
    }

    pub(crate) fn release_content(&mut self, spec: &Desired) {
        let Some(digest) = stored_content(spec) else { return };
        if let Some(count) = self.contents.get_mut(&digest) {
            *count -= 1;
            if *count == 0 {
                self.contents.remove(&digest);
                self.change(Change::ContentRemoved(digest));
            }
        }
    }
}

/// Large content leaves the spec: it is fetched by its digest.
pub(crate) fn externalise(spec: &mut Desired) -> Option<Arc<[u8]>> {
    let Desired::Node(Spec::File(file)) = spec else { return None };
    match &mut file.content {
        Content::Inline(bytes) if bytes.len() > Content::INLINE_MAX => {
            let bytes = std::mem::take(bytes);
            let digest = ContentDigest::of(&bytes);
            file.content = Content::Stored { digest, size: bytes.len() as u64 };
            Some(bytes.into())
        }
        Content::Inline(_) | Content::Stored { .. } => None,
    }
}

pub(crate) fn stored_content(spec: &Desired) -> Option<ContentDigest> {
    match spec {
        Desired::Node(Spec::File(file)) => match &file.content {
            Content::Stored { digest, .. } => Some(*digest),
            Content::Inline(_) => None,
        },
        Desired::Node(
            Spec::Dummy(_)
            | Spec::Network(_)
            | Spec::Hostname(_)
            | Spec::Deployment(_)
            | Spec::Unit(_)
            | Spec::Sysctl(_)
            | Spec::Package(_)
            | Spec::User(_)
            | Spec::Group(_),
        )
        | Desired::Flows(_)
        | Desired::Here(_) => None,
    }
}
