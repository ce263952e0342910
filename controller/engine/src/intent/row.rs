//! Resources that are links and intents: settled here, without a node.

use muster_intent::manager::IntentNo;

use crate::engine::Engine;

impl Engine {
    /// Links that resources declare, after a start.
    pub(super) fn declare_links(&mut self) {}

    /// Something became of an intent: its resource may have waited for it.
    pub(super) fn intent_changed(&mut self, _no: IntentNo) {}

    /// An intent is forgotten.
    pub(super) fn intent_gone(&mut self, no: IntentNo) {
        self.intents.owners.remove(&no);
    }
}
