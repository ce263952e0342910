//! What operators ask of intents and see of them.

use muster_intent::manager::{IntentView, TopologyView, Wish};
use muster_intent::phase::{Request as IntentRequest, State};

use crate::engine::Engine;
use crate::request::{Answer, Refusal};

/// An intent in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentSummary {
    /// Its key.
    pub key: Box<str>,
    /// Its type, as it is written in files.
    pub kind: &'static str,
    /// How it stands.
    pub state: State,
    /// What was asked for last.
    pub request: IntentRequest,
    /// Failures on devices since it was last as it is to be.
    pub errors: u32,
    /// Why it stands so; empty where nothing is to be said.
    pub reason: String,
    /// Who asked for it, for people.
    pub owner: String,
}

impl Engine {
    /// All intents, by key.
    pub fn intents(&self) -> Vec<IntentSummary> {
        Vec::new()
    }

    /// An intent, whole.
    ///
    /// # Errors
    /// There is none of this key.
    pub fn intent(&self, key: &str) -> Result<IntentView, Refusal> {
        Err(Refusal::NotFound(format!("no intent '{key}'")))
    }

    /// The network.
    pub fn topology(&self) -> TopologyView {
        TopologyView::default()
    }

    /// Nothing of any of these is under way.
    pub fn intents_ended(&self, keys: &[Box<str>]) -> bool {
        keys.is_empty()
    }

    pub(crate) fn submit_intents(&mut self, _: Vec<(Box<str>, Wish)>) -> Result<Answer, Refusal> {
        Err(not_yet())
    }

    pub(crate) fn withdraw_intents(&mut self, _: &[Box<str>]) -> Result<Answer, Refusal> {
        Err(not_yet())
    }

    pub(crate) fn purge_intents(&mut self, _: &[Box<str>]) -> Result<Answer, Refusal> {
        Err(not_yet())
    }
}

fn not_yet() -> Refusal {
    Refusal::Unavailable("this controller does not take intents yet".into())
}
