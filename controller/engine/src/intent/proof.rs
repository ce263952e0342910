//! The proof of intents: packets that an INSTALLED intent promises to carry are traced. An operator asks for one
//! intent; in the background each has its turn, and a finding that stays is told once, as is its end.
//!
//! ```text
//!   turn: the next INSTALLED intent ─▶ ok ─────────────▶ told, where it was told to be broken
//!                │                 ├─▶ unknown ────────▶ nothing: an agent is away, or the intent changes
//!                │                 └─▶ broken ─▶ looked at again at the next turn ─▶ broken: told
//! ```
//!
//! The second look keeps a path that was changing meanwhile from being told; an operator's comes at once. Findings are
//! in memory alone: after a restart of the controller they are found again, and told again.
//!
//! Absent: which packets an intent promises to carry, and whether a trace shows that
//! (`controller/intent/src/proof.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::trace::{IntentProof, Verdict};
use muster_intent::manager::IntentNo;
use muster_intent::phase::State;
use muster_intent::proof::{Broken, PROMISES_MAX, Promise, promises};
use muster_intent::trace::{Loss, Trace};
use muster_shared::MonoTime;
use muster_template::MASK;

use super::Intents;
use super::trace::{Purpose, Run};
use crate::engine::{Effect, Engine};
use crate::request::{Answer, Refusal};
use crate::view::View;

/// An intent whose packets are traced.
#[derive(Debug)]
pub(crate) struct Proving {
    intent: IntentNo,
    /// A promise for each trace, in their order.
    promises: Vec<Promise>,
    left_out: usize,
    /// The operator's request. `None`: in the background.
    request: Option<u64>,
    is_second: bool,
}

/// The turns of intents in the background, and what was found.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    /// The time of the next turn, while an intent is INSTALLED.
    due: Option<MonoTime>,
    /// The intent that had the last turn.
    last: Option<IntentNo>,
    /// The intent that has its turn and is not answered.
    open: Option<IntentNo>,
    /// An intent that was found broken once: the next turn looks at it again.
    suspect: Option<IntentNo>,
    /// Intents that were told to be broken, and why.
    told: BTreeMap<IntentNo, String>,
}

impl Proofs {
    /// When to call [`Engine::proof_due`].
    pub fn next_due(&self) -> Option<MonoTime> {
        self.due
    }

    /// Returns the reason for which an intent was told to be broken.
    pub fn broken(&self, no: IntentNo) -> Option<&str> {
        self.told.get(&no).map(String::as_str)
    }

    /// Number of intents that were told to be broken.
    pub fn broken_count(&self) -> u64 {
        self.told.len() as u64
    }

    /// Takes what a turn found. Returns what there is to tell.
    fn found(&mut self, no: IntentNo, verdict: Verdict, reason: &str) -> Option<String> {
        self.open = None;
        let is_second = self.suspect.take() == Some(no);
        match verdict {
            Verdict::Unknown => None,
            Verdict::Ok => self.told.remove(&no).map(|_| "packets of it arrive again".to_owned()),
            Verdict::Broken if self.broken(no) == Some(reason) => None,
            Verdict::Broken if is_second => {
                self.told.insert(no, reason.to_owned());
                Some(format!("it is INSTALLED, and its rules are ADDED, but {reason}"))
            }
            Verdict::Broken => {
                self.suspect = Some(no);
                None
            }
        }
    }

    /// The intent is not INSTALLED any more: its own state says what is wrong.
    fn forget(&mut self, no: IntentNo) {
        self.told.remove(&no);
    }
}

impl Engine {
    /// An operator asks whether the packets of an intent arrive.
    ///
    /// # Errors
    /// There is no such intent, or too much is traced.
    pub(crate) fn verify_intent(&mut self, id: u64, key: &str) -> Result<(), Refusal> {
        let no = self.view().known_intent(key)?;
        self.intents.traces.room()?;
        self.intents.prove(self.graph().ctx.now, no, Some(id), false);
        self.run_traces();
        Ok(())
    }

    /// The traces of an intent are over.
    pub(crate) fn proved(&mut self, proving: &Proving, traces: &[Trace]) {
        let now = self.graph().ctx.now;
        let proof = self.view().judge(proving, traces);
        match proving.request {
            Some(_) if proof.verdict == Verdict::Broken && !proving.is_second => {
                self.intents.prove(now, proving.intent, proving.request, true);
            }
            Some(id) => self.graph_mut().answer(id, Ok(Answer::Proved(Box::new(proof)))),
            None => {
                if let Some(text) = self.intents.proofs.found(proving.intent, proof.verdict, &proof.reason) {
                    self.tell_proof(proving.intent, &proof.key, &text);
                }
            }
        }
    }

    /// Tells the stack of an intent, or the log where it has none.
    fn tell_proof(&mut self, no: IntentNo, key: &str, text: &str) {
        let row = self.intents.owners.get(&no).and_then(|id| self.graph().rows.of_id(*id));
        if let Some(slot) = row {
            self.graph_mut().tell_of(slot, text.to_owned());
        }
        self.graph_mut().ctx.effect(Effect::Warn(format!("intent {key}: {text}")));
    }

    /// The next intent has its turn.
    pub(crate) fn proof_due(&mut self) {
        let (now, every) = (self.graph().ctx.now, self.graph().ctx.limits.verify_every);
        self.intents.proofs.due = None;
        // A turn waits for the one before, and for room beside what operators ask.
        if self.intents.proofs.open.is_none()
            && self.intents.traces.has_room()
            && let Some(no) = self.intents.next_to_prove()
        {
            self.intents.proofs.open = Some(no);
            self.intents.prove(now, no, None, false);
            self.run_traces();
        }
        self.intents.set_proof_due(now, every);
    }
}

impl Intents {
    /// Begins to trace what an intent promises.
    fn prove(&mut self, now: MonoTime, no: IntentNo, request: Option<u64>, is_second: bool) {
        let manager = &self.manager;
        let view = manager.view(now, no).filter(|view| view.state == State::Installed);
        let mut promises =
            view.map_or_else(Vec::new, |view| promises(manager.topology(), &view.intent, &view.rules));
        let left_out = promises.len().saturating_sub(PROMISES_MAX);
        promises.truncate(PROMISES_MAX);
        let traces = promises.iter().map(Promise::trace).collect();
        let proving = Proving { intent: no, promises, left_out, request, is_second };
        self.traces.begin(Run { purpose: Purpose::Proof(proving), traces, begun: now });
    }

    /// Sets the next turn, if there is an intent to look at.
    pub fn set_proof_due(&mut self, now: MonoTime, every: Option<Duration>) {
        let is_wanted = self.manager.count(State::Installed) > 0;
        if let Some(every) = every.filter(|_| is_wanted && self.proofs.due.is_none()) {
            self.proofs.due = Some(now + every);
        }
    }

    /// The intent whose turn it is.
    fn next_to_prove(&mut self) -> Option<IntentNo> {
        if let Some(suspect) = self.proofs.suspect {
            return Some(suspect);
        }
        let manager = &self.manager;
        let next = manager.next_installed(self.proofs.last);
        self.proofs.last = next;
        next
    }

    /// An intent has another state.
    pub fn forget_proof(&mut self, no: IntentNo) {
        if self.manager.state(no).is_none_or(|(state, _)| state != State::Installed) {
            self.proofs.forget(no);
        }
    }
}

impl View<'_> {
    fn judge(&self, proving: &Proving, traces: &[Trace]) -> IntentProof {
        let manager = &self.intents.manager;
        let key = manager.key(proving.intent).unwrap_or_default().to_owned();
        let tried = proving.promises.len();
        let proof = IntentProof { key, tried, left_out: proving.left_out, ..IntentProof::default() };
        let state = manager.state(proving.intent).map(|(state, _)| state);
        if state != Some(State::Installed) {
            let state = state.map_or("gone", State::as_str);
            return IntentProof { reason: format!("it is {state}, not INSTALLED"), ..proof };
        }
        let judged = proving.promises.iter().zip(traces);
        let mut broken = judged.filter_map(|(promise, trace)| Some((promise.judge(trace).err()?, trace)));
        // A packet that is known to be lost says more than one of which nothing is known.
        let mut unknown = None;
        let found = broken.find(|(why, trace)| {
            let is_unknown = matches!(**why, Broken::Lost { loss: Loss::NotAsked { .. }, .. });
            if is_unknown && unknown.is_none() {
                unknown = Some((why.clone(), *trace));
            }
            !is_unknown
        });
        let (verdict, found) = match (found, unknown) {
            (Some(found), _) => (Verdict::Broken, Some(found)),
            (None, Some(unknown)) => (Verdict::Unknown, Some(unknown)),
            (None, None) => (Verdict::Ok, None),
        };
        let (reason, trace) = match found {
            Some((why, trace)) => (self.reason(*why, trace), Some(self.trace_view(trace))),
            None => (String::new(), traces.first().map(|trace| self.trace_view(trace))),
        };
        IntentProof { verdict, reason, trace, ..proof }
    }

    /// Returns the reason of a finding as an operator may read it.
    fn reason(&self, why: Broken, trace: &Trace) -> String {
        let masked = |device| Loss::Unclear { device, action: MASK.into() };
        let why = match (why, self.trace_hides(trace)) {
            (Broken::Lost { from, at, loss: Loss::Unclear { device, .. } }, true) => {
                Broken::Lost { from, at, loss: masked(device) }
            }
            (why, _) => why,
        };
        why.to_string()
    }
}
