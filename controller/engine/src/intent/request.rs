//! Requests of operators for intents: decides who may submit, withdraw or purge one. A resource's
//! intent can be changed only by its stack.
//!
//! Absent: what a request does to an intent (`controller/intent/src/manager/request.rs`).

use muster_intent::manager::{IntentNo, IntentRefused, IntentView, Wish};
use muster_intent::phase::{Request as Asked, State};

use crate::engine::Engine;
use crate::request::{Answer, Refusal};
use crate::view::View;

/// Bound on the intents in one request.
const KEYS_MAX: usize = 100_000;

/// An intent in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentSummary {
    pub key: Box<str>,
    pub kind: &'static str,
    pub state: State,
    /// The last request for it.
    pub request: Asked,
    /// Failures on devices since the intent was last as requested.
    pub errors: u32,
    /// The reason for the state, or empty.
    pub reason: String,
    pub owner: String,
    /// The fault that traces in the background found.
    pub broken: Option<String>,
}

impl From<IntentRefused> for Refusal {
    fn from(refused: IntentRefused) -> Self {
        let text = refused.to_string();
        match refused {
            IntentRefused::Bad(_) | IntentRefused::Key => Refusal::Invalid(text),
            IntentRefused::Unknown(_) => Refusal::NotFound(text),
            IntentRefused::Full | IntentRefused::NotWithdrawn { .. } => Refusal::Conflict(text),
        }
    }
}

impl Engine {
    /// Submits all of the intents, or none if one is refused.
    pub(crate) fn submit_intents(&mut self, intents: Vec<(Box<str>, Wish)>) -> Result<Answer, Refusal> {
        if intents.len() > KEYS_MAX {
            return Err(Refusal::Invalid(format!(
                "{} intents: {KEYS_MAX} are allowed at once",
                intents.len()
            )));
        }
        let mut new = 0;
        for (key, wish) in &intents {
            let why =
                |refused: IntentRefused| Refusal::from(refused).map(|text| format!("intent '{key}': {text}"));
            self.intents.manager.check(key, wish, new).map_err(why)?;
            self.view().owned_by_nobody(key)?;
            new += usize::from(self.intents.manager.find(key).is_none());
        }
        let mut keys = Vec::with_capacity(intents.len());
        for (key, wish) in intents {
            let no = self.intents.next_number();
            self.intents.manager.submit(&key, no, wish)?;
            keys.push(key);
        }
        Ok(Answer::Intents { keys, warnings: Vec::new() })
    }

    pub(crate) fn withdraw_intents(&mut self, keys: Vec<Box<str>>) -> Result<Answer, Refusal> {
        for key in &keys {
            self.view().known_intent(key)?;
            self.view().owned_by_nobody(key)?;
        }
        for key in &keys {
            self.intents.manager.withdraw(key)?;
        }
        Ok(Answer::Intents { keys, warnings: Vec::new() })
    }

    pub(crate) fn purge_intents(&mut self, keys: Vec<Box<str>>) -> Result<Answer, Refusal> {
        for key in &keys {
            self.view().known_intent(key)?;
            self.view().owned_by_nobody(key)?;
            self.intents.manager.may_be_purged(key)?;
        }
        for key in &keys {
            // A key may occur twice.
            if self.intents.manager.find(key).is_some() {
                self.intents.manager.purge(key)?;
            }
        }
        Ok(Answer::Intents { keys, warnings: Vec::new() })
    }
}

impl View<'_> {
    pub(super) fn known_intent(&self, key: &str) -> Result<IntentNo, Refusal> {
        let manager = &self.intents.manager;
        manager.find(key).ok_or_else(|| {
            let keys = manager.list().filter_map(|no| manager.key(no)).take(KEYS_MAX);
            let near = muster_template::suggestion(key, keys);
            Refusal::NotFound(format!("there is no intent '{key}'{near}"))
        })
    }

    /// Refuses a key whose intent belongs to a resource of a stack.
    fn owned_by_nobody(&self, key: &str) -> Result<(), Refusal> {
        let no = self.intents.manager.find(key);
        let row = no.and_then(|no| self.intents.owners.get(&no)).and_then(|row| self.graph.rows.of_id(*row));
        match row {
            None => Ok(()),
            Some(slot) => Err(Refusal::Conflict(format!(
                "intent '{key}' belongs to {}: update the stack",
                self.owner_text(muster_flow::Owner(self.graph.rows[slot].id))
            ))),
        }
    }

    /// The intents of the site, by key.
    pub fn intents(&self) -> Vec<IntentSummary> {
        self.intents.manager.list().filter_map(|no| self.summary_of(no)).collect()
    }

    /// An intent as in [`Self::intents`].
    pub fn intent_summary(&self, key: &str) -> Option<IntentSummary> {
        self.summary_of(self.intents.manager.find(key)?)
    }

    fn summary_of(&self, no: IntentNo) -> Option<IntentSummary> {
        let manager = &self.intents.manager;
        let (state, reason) = manager.state(no)?;
        let (request, kind, errors) = manager.asked_of(no)?;
        Some(IntentSummary {
            key: manager.key(no)?.into(),
            kind,
            state,
            request,
            errors,
            reason: reason.unwrap_or_default().to_owned(),
            owner: self.intent_owner(no),
            broken: self.intents.proofs.broken(no).map(str::to_owned),
        })
    }

    fn intent_owner(&self, no: IntentNo) -> String {
        let row = self.intents.owners.get(&no).copied();
        self.owner_text(row.map_or(muster_flow::Owner::OPERATOR, muster_flow::Owner))
    }

    /// An intent with all details.
    ///
    /// # Errors
    /// No intent has that key.
    pub fn intent(&self, key: &str) -> Result<IntentView, Refusal> {
        let no = self.known_intent(key)?;
        self.intents
            .manager
            .view(self.graph.ctx.now, no)
            .ok_or_else(|| Refusal::NotFound(format!("there is no intent '{key}'")))
    }

    /// Returns the fault that traces in the background found with an INSTALLED intent.
    pub fn broken_intent(&self, key: &str) -> Option<String> {
        let no = self.intents.manager.find(key)?;
        self.intents.proofs.broken(no).map(str::to_owned)
    }

    /// Number of intents in each state, by its name.
    pub fn intent_counts(&self) -> Vec<(&'static str, u64)> {
        let manager = &self.intents.manager;
        State::ALL.into_iter().map(|state| (state.as_str(), manager.count(state) as u64)).collect()
    }

    /// Number of INSTALLED intents with a fault that traces in the background found.
    pub fn broken_intent_count(&self) -> u64 {
        self.intents.proofs.broken_count()
    }

    /// Whether each of these intents is as requested, or has failed. An unknown intent has ended.
    pub fn intents_ended(&self, keys: &[Box<str>]) -> bool {
        let manager = &self.intents.manager;
        keys.iter().all(|key| manager.find(key).is_none_or(|no| manager.is_settled(no)))
    }
}
