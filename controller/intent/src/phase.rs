//! What becomes of a request for an intent: its states, and which of two outcomes counts.
//!
//! ```text
//!   submit ─▶ INSTALL_REQ ─▶ (compiled) ─▶ INSTALLING ─▶ INSTALLED ─▶ REALLOCATING ─▶ INSTALLED
//!                  │                            └─▶ CORRUPT ─▶ again, with a pause
//!                  └─▶ FAILED, and what was installed goes first: WITHDRAWING
//!   withdraw ─▶ WITHDRAW_REQ ─▶ WITHDRAWING ─▶ WITHDRAWN ─▶ purge
//! ```
//!
//! Absent: how an intent is compiled and installed, and when it is tried again.

/// What was asked for last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// That it be installed.
    Install,
    /// That nothing of it be left.
    Withdraw,
    /// That it be forgotten.
    Purge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Asked for, and not looked at yet.
    InstallReq,
    /// The rules are on their way.
    Installing,
    /// The rules are on their devices.
    Installed,
    /// It is installed on one path and on its way to another.
    Reallocating,
    /// It is to go, and was not looked at yet.
    WithdrawReq,
    /// The rules are being taken away.
    Withdrawing,
    /// Nothing of it is left.
    Withdrawn,
    /// Nothing can be made of it now, and nothing of it is left.
    Failed,
    /// What is on the devices is not what was asked for.
    Corrupt,
    /// It is being forgotten.
    PurgeReq,
}

/// Which request an outcome belongs to, and how many outcomes of that there were before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Counts with each request for this key; never the time.
    pub version: u64,
    /// Counts with each outcome of one request.
    pub step: u64,
    /// The outcome.
    pub state: State,
}

impl Request {
    /// From [`Request::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Install, Self::Withdraw, Self::Purge].into_iter().find(|it| it.as_str() == name)
    }

    /// As it is shown.
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

    /// All of them.
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

    /// As it is shown.
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

    /// Whether one outcome of a request may follow another. A request itself is no outcome, and comes with a version of
    /// its own.
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

/// Whether `new` counts where `current` is what is known: an old result never goes over a newer request.
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
