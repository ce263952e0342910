//! Requests: submit an intent under a key, withdraw it, purge it.
//!
//! Absent: who may ask (`controller/engine/src/intent/request.rs`), and the installation or removal
//! (`manager/move_rules.rs`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Held, INTENTS_MAX, IntentNo, Manager};
use crate::intent::{BadIntent, Intent};
use crate::packed_intent::KeptIntent;
use crate::phase::{Request, Standing, State};

/// Bytes of a key.
pub const KEY_MAX: usize = 255;

/// A requested intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    pub intent: Arc<Intent>,
    /// The resource group, whose intents share what they reserve.
    pub group: Option<Box<str>>,
}

/// The reason why a request was refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IntentRefused {
    /// The intent is wrong in any network.
    #[error(transparent)]
    Bad(#[from] BadIntent),
    /// The key is empty or longer than [`KEY_MAX`].
    #[error("want a key of 1 to {KEY_MAX} bytes without control characters")]
    Key,
    /// There are more than [`INTENTS_MAX`].
    #[error("a site has at most {INTENTS_MAX} intents")]
    Full,
    /// No intent has that key.
    #[error("there is no intent '{0}'")]
    Unknown(Box<str>),
    /// Only a withdrawn or failed intent can be purged.
    #[error("intent '{key}' is {}: withdraw it first", state.as_str())]
    NotWithdrawn { key: Box<str>, state: State },
}

impl Manager {
    /// Whether the intent would be accepted after `more` new ones.
    ///
    /// # Errors
    /// As [`Manager::submit`].
    pub fn check(&self, key: &str, wish: &Wish, more: usize) -> Result<(), IntentRefused> {
        wish.intent.check()?;
        if key.is_empty() || key.len() > KEY_MAX || key.chars().any(char::is_control) {
            return Err(IntentRefused::Key);
        }
        if self.find(key).is_none() && self.held.len() + more >= INTENTS_MAX {
            return Err(IntentRefused::Full);
        }
        Ok(())
    }

    /// Submits an intent, in place of the one with its key. `no` is its number if the key is new.
    ///
    /// # Errors
    /// The intent or its key is wrong, or there is no room for it.
    pub fn submit(&mut self, key: &str, no: IntentNo, wish: Wish) -> Result<IntentNo, IntentRefused> {
        self.check(key, &wish, 0)?;
        let Wish { intent, group } = wish;
        let intent = KeptIntent::new(&intent);
        let group: Option<Arc<str>> = group.map(Into::into);
        let Some(known) = self.find(key) else {
            let standing = Standing { version: 1, step: 0, state: State::InstallReq };
            self.counts[standing.state as usize] += 1;
            let key: Arc<str> = key.into();
            let held = Held {
                key: key.clone(),
                intent,
                group,
                request: Request::Install,
                version: 1,
                standing,
                errors: 0,
                reason: None,
                stand: None,
                placed: super::place::Placed::default(),
                refused: Vec::new(),
                work: None,
                open: std::collections::BTreeMap::new(),
                due: None,
                again: None,
                past: None,
                shares: 0,
            };
            self.held.insert(no, Box::new(held));
            self.by_key.insert(key, no);
            self.asked(no, Request::Install);
            return Ok(no);
        };
        let Some(held) = self.held.get_mut(&known) else { return Ok(known) };
        let is_same = held.intent == intent && held.group == group && held.request == Request::Install;
        if !is_same {
            (held.intent, held.group, held.errors) = (intent, group, 0);
        }
        self.asked(known, Request::Install);
        Ok(known)
    }

    /// Withdraws an intent: its rules are removed from the devices.
    ///
    /// # Errors
    /// There is no such intent.
    pub fn withdraw(&mut self, key: &str) -> Result<IntentNo, IntentRefused> {
        let no = self.find(key).ok_or_else(|| IntentRefused::Unknown(key.into()))?;
        if let Some(held) = self.held.get_mut(&no).filter(|held| held.request == Request::Install) {
            held.errors = 0;
        }
        self.asked(no, Request::Withdraw);
        Ok(no)
    }

    /// Whether an intent can be purged.
    ///
    /// # Errors
    /// There is no such intent, or a device may have a rule of it.
    pub fn may_be_purged(&self, key: &str) -> Result<IntentNo, IntentRefused> {
        let no = self.find(key).ok_or_else(|| IntentRefused::Unknown(key.into()))?;
        let Some(held) = self.held.get(&no) else { return Ok(no) };
        let state = held.standing.state;
        let is_out = matches!(state, State::Withdrawn | State::Failed);
        let is_empty = held.placed.is_empty() && held.refused.is_empty() && held.open.is_empty();
        match is_out && is_empty && !self.todo.has(no) {
            true => Ok(no),
            false => Err(IntentRefused::NotWithdrawn { key: key.into(), state }),
        }
    }

    /// Purges an intent.
    ///
    /// # Errors
    /// As [`Manager::may_be_purged`].
    pub fn purge(&mut self, key: &str) -> Result<IntentNo, IntentRefused> {
        let no = self.may_be_purged(key)?;
        self.forget(no);
        Ok(no)
    }

    /// Withdraws an intent, and forgets it once its rules are gone.
    pub fn remove(&mut self, no: IntentNo) {
        if self.held.contains_key(&no) {
            self.asked(no, Request::Purge);
        }
    }

    fn asked(&mut self, no: IntentNo, request: Request) {
        let Some(held) = self.held.get_mut(&no) else { return };
        let is_new = held.request != request;
        held.request = request;
        if is_new {
            held.version += 1;
            let version = held.version;
            let state = match request {
                Request::Install => State::InstallReq,
                Request::Withdraw | Request::Purge => State::WithdrawReq,
            };
            self.outcome(no, version, state);
        }
        self.set_due(no, None);
        self.todo.asked(no);
        self.unsaved.insert(no);
    }
}
