//! States of a request for an intent, and which of two outcomes counts.
//!
//! ```text
//!   submit ─▶ INSTALL_REQ ─▶ (compiled) ─▶ INSTALLING ─▶ INSTALLED ─▶ REALLOCATING ─▶ INSTALLED
//!                  │                            └─▶ CORRUPT ─▶ again, with a pause
//!                  └─▶ FAILED, and what was installed goes first: WITHDRAWING
//!   withdraw ─▶ WITHDRAW_REQ ─▶ WITHDRAWING ─▶ WITHDRAWN ─▶ purge
//! ```
//!
//! Absent: how an intent is installed or withdrawn (`manager/move_rules.rs`), and when it is retried
//! (`manager.rs`).

/// The last request for an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// Install the intent.
    Install,
    /// Remove all its rules.
    Withdraw,
    /// Remove all its rules and forget the intent.
    Purge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Requested, and not looked at yet.
    InstallReq,
    /// Rules are being put on their devices.
    Installing,
    /// Every rule is on its device.
    Installed,
    /// Installed on one path, and moving to another.
    Reallocating,
    /// The withdrawal was requested, and not looked at yet.
    WithdrawReq,
    /// Rules are being removed.
    Withdrawing,
    /// No rule is left.
    Withdrawn,
    /// The intent cannot be installed now, and no rule is left.
    Failed,
    /// The rules on devices are not those requested.
    Corrupt,
    /// The intent is being forgotten.
    PurgeReq,
}

/// The outcome of a request: which request, and which of its outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Counts the requests for this key. Never a time.
    pub version: u64,
    /// Counts the outcomes of one request.
    pub step: u64,
    /// The outcome.
    pub state: State,
}

impl Request {
    /// From [`Request::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Install, Self::Withdraw, Self::Purge].into_iter().find(|it| it.as_str() == name)
    }

    /// The name that operators see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "INSTALL_REQ",
            Self::Withdraw => "WITHDRAW_REQ",
            Self::Purge => "PURGE_REQ",
        }
    }
}

impl State {
    /// From [`State::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }

    pub const ALL: [State; 10] = [
        State::InstallReq,
        State::Installing,
        State::Installed,
        State::Reallocating,
        State::WithdrawReq,
        State::Withdrawing,
        State::Withdrawn,
        State::Failed,
        State::Corrupt,
        State::PurgeReq,
    ];

    /// The name that operators see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InstallReq => "INSTALL_REQ",
            Self::Installing => "INSTALLING",
            Self::Installed => "INSTALLED",
            Self::Reallocating => "REALLOCATING",
            Self::WithdrawReq => "WITHDRAW_REQ",
            Self::Withdrawing => "WITHDRAWING",
            Self::Withdrawn => "WITHDRAWN",
            Self::Failed => "FAILED",
            Self::Corrupt => "CORRUPT",
            Self::PurgeReq => "PURGE_REQ",
        }
    }

    /// Whether one outcome of a request may follow another. A request is no outcome and has a
    /// version of its own.
    fn may_become(self, next: State) -> bool {
        use State::*;
        match next {
            InstallReq | WithdrawReq => false,
            PurgeReq => true,
            Installing => !matches!(self, Installing | Withdrawing | Withdrawn | PurgeReq),
            Reallocating => !matches!(self, Reallocating | Withdrawing | Withdrawn | PurgeReq),
            Installed => !matches!(self, Installed | Withdrawing | Withdrawn | PurgeReq),
            Withdrawing => !matches!(self, Installing | Installed | Withdrawing | Withdrawn | PurgeReq),
            Withdrawn => !matches!(self, Installing | Installed | Withdrawn | PurgeReq),
            Failed => self != Failed,
            Corrupt => self != Corrupt,
        }
    }
}

/// Whether `new` replaces `current`. An old outcome never replaces that of a newer request.
pub fn counts(current: Option<Standing>, new: Standing) -> bool {
    let Some(current) = current else { return true };
    if new.version != current.version {
        return new.version > current.version;
    }
    new.step > current.step && current.state.may_become(new.state)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: what is known; columns: what comes, in the order of [`State::ALL`]. From ONOS's `IntentData`.
    const TABLE: [(State, &str); 10] = [
        (State::InstallReq, ".+++.+++++"),
        (State::Installing, "..++...+++"),
        (State::Installed, ".+.+...+++"),
        (State::Reallocating, ".++..+++++"),
        (State::WithdrawReq, ".+++.+++++"),
        (State::Withdrawing, "......++++"),
        (State::Withdrawn, ".......+++"),
        (State::Failed, ".+++.++.++"),
        (State::Corrupt, ".+++.+++.+"),
        (State::PurgeReq, ".......+++"),
    ];

    fn standing(version: u64, step: u64, state: State) -> Standing {
        Standing { version, step, state }
    }

    #[test]
    fn an_outcome_follows_another_as_the_table_says() {
        for (current, row) in TABLE {
            for (next, mark) in State::ALL.into_iter().zip(row.chars()) {
                let found = counts(Some(standing(3, 1, current)), standing(3, 2, next));
                assert_eq!(found, mark == '+', "{} after {}", next.as_str(), current.as_str());
            }
        }
    }

    #[test]
    fn a_newer_request_counts_and_an_older_one_does_not() {
        for current in State::ALL {
            for next in State::ALL {
                assert!(counts(Some(standing(3, 9, current)), standing(4, 0, next)));
                assert!(!counts(Some(standing(3, 0, current)), standing(2, 9, next)));
                assert!(
                    !counts(Some(standing(3, 2, current)), standing(3, 2, next)),
                    "the same outcome twice"
                );
                assert!(!counts(Some(standing(3, 2, current)), standing(3, 1, next)), "it was overtaken");
            }
            assert!(counts(None, standing(0, 0, current)));
        }
    }
}
