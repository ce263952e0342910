//! Surveys: the controller asks what this server is like, the host looks, and the answer is sent on the
//! connection that asked.
//!
//! Absent: what is looked at (`agent/src/host/survey.rs`).

use muster_shared::model::{Survey, Up};

use crate::effects::Effects;
use crate::face::Effect;
use crate::ledger::Ledger;

/// Whether a survey is under way, and whether the present connection waits for it.
#[derive(Debug, Default)]
pub(crate) struct Surveying {
    is_looking: bool,
    is_asked: bool,
}

impl Surveying {
    /// The controller asks. A survey that is under way answers this as well.
    pub(crate) fn ask(&mut self, ledger: &Ledger, effects: &mut Effects) {
        self.is_asked = true;
        if !self.is_looking {
            self.is_looking = true;
            let held = ledger.iter().flat_map(|entry| entry.claims().iter().cloned()).collect();
            effects.push(Effect::Survey { held });
        }
    }

    /// The answer to [`Effect::Survey`].
    pub(crate) fn surveyed(&mut self, survey: Survey, effects: &mut Effects) {
        self.is_looking = false;
        if std::mem::take(&mut self.is_asked) {
            effects.send(Up::Surveyed(survey));
        }
    }

    /// The connection that asked is lost.
    pub(crate) fn disconnected(&mut self) {
        self.is_asked = false;
    }
}
