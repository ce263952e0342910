//! Whether the packet filter of a machine refuses a packet, by its rules as they are listed. No packet is sent.
//!
//! ```text
//! nft -j list table   ─▶ nft::chains      ─┐
//! iptables-save       ─▶ iptables::chains ─┴▶ Rules::verdict(packet) ─▶ Passes | Depends on a rule | Refused by a rule
//! ```
//! A rule may ask for something that is not known of the packet, such as a mark or a rate. Then both answers count, and
//! the verdict is `Refused` only if every way ends there.
//!
//! Absent: who runs the programs (`agent/src/doctor/firewall.rs`, `controller/cli/src/doctor/machine/firewall.rs`).

mod iptables;
mod listing;
mod nft;
mod packet;

pub use listing::{Listing, Loaded, unlisted};
pub use packet::{Hook, Interface, Packet};

use std::collections::BTreeMap;

/// Rules that are looked at for one packet: a chain may be jumped to from many places.
const STEPS_MAX: usize = 100_000;
/// The kernel's own bound of jumps within jumps.
const DEPTH_MAX: usize = 16;

/// Whether a rule takes the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fits {
    Yes,
    No,
    /// The rule asks for what is not known of the packet.
    Unknown,
}

impl Fits {
    fn of(known: Option<bool>) -> Self {
        match known {
            Some(true) => Self::Yes,
            Some(false) => Self::No,
            None => Self::Unknown,
        }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Unknown,
        }
    }

    fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }

    fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }
}

/// The effect of a rule on a packet that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Effect {
    Nothing,
    Accept,
    Refuse,
    Jump(String),
    Goto(String),
    Return,
    /// The packet may pass or not, as with a queue to a program.
    Unknown,
}

/// A rule, as far as it concerns one packet.
#[derive(Clone, Debug)]
struct Rule {
    /// The rule as an operator finds it.
    name: String,
    /// In the order in which they are looked at; a map of verdicts has several.
    cases: Vec<(Fits, Effect)>,
}

/// A chain of a table.
#[derive(Clone, Debug)]
struct Chain {
    /// The kernel sends packets of this hook here; the policy is what happens to those that no rule decides.
    base: Option<Base>,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Base {
    hook: Hook,
    refuses: bool,
    /// The chain's policy as an operator finds it.
    policy: String,
    /// The command that begins a rule at the head of the chain.
    insert: Insert,
}

/// The command that puts a rule before all others of a chain.
#[derive(Clone, Debug)]
enum Insert {
    Nft(String),
    Iptables(String),
}

/// The rules of a machine, as far as they concern one packet. Chains are known by table and name.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// A packet has to pass all base chains of its hook.
    chains: BTreeMap<(String, String), Chain>,
}

/// The fate of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passes,
    /// Some rule decides by what is not known here.
    Depends {
        rule: String,
    },
    Refused {
        /// The rule or policy that refuses it.
        rule: String,
        /// The command that lets it through.
        remedy: String,
    },
}

/// The ways in which a chain may end for the packet.
#[derive(Debug, Default)]
struct Ends {
    accepts: bool,
    /// The first rule that may refuse it.
    refuses: Option<String>,
    /// The first rule whose answer is not known.
    unknown: Option<String>,
    falls_through: bool,
}

impl Ends {
    /// Takes the ends of a chain that was jumped to.
    fn join(&mut self, other: Ends) {
        self.accepts |= other.accepts;
        self.refuses = self.refuses.take().or(other.refuses);
        self.unknown = self.unknown.take().or(other.unknown);
    }
}

impl Rules {
    fn add(&mut self, other: Self) {
        self.chains.extend(other.chains);
    }

    /// The fate of a packet: every base chain of its hook has to let it through.
    pub fn verdict(&self, packet: &Packet) -> Verdict {
        let mut verdict = Verdict::Passes;
        let mut steps = 0;
        for ((table, name), chain) in &self.chains {
            let Some(base) = chain.base.as_ref().filter(|base| base.hook == packet.hook) else { continue };
            let mut ends = self.walk(table, name, 0, &mut steps);
            match (ends.falls_through, base.refuses) {
                (true, true) => ends.refuses = ends.refuses.or_else(|| Some(base.policy.clone())),
                (true, false) => ends.accepts = true,
                (false, _) => {}
            }
            match ends {
                Ends { accepts: false, refuses: Some(rule), .. } => {
                    return Verdict::Refused { rule, remedy: base.insert.accept(packet) };
                }
                Ends { refuses: Some(rule), unknown, .. } => {
                    verdict = Verdict::Depends { rule: unknown.unwrap_or(rule) };
                }
                Ends { refuses: None, .. } => {}
            }
        }
        verdict
    }

    fn walk(&self, table: &str, name: &str, depth: usize, steps: &mut usize) -> Ends {
        let mut ends = Ends::default();
        let Some(chain) = self.chains.get(&(table.to_owned(), name.to_owned())) else {
            return Ends { falls_through: true, ..ends };
        };
        for rule in &chain.rules {
            for (fits, effect) in &rule.cases {
                *steps += 1;
                if *steps > STEPS_MAX || depth > DEPTH_MAX {
                    ends.accepts = true;
                    ends.refuses.get_or_insert_with(|| rule.name.clone());
                    return ends;
                }
                if *fits == Fits::No || *effect == Effect::Nothing {
                    continue;
                }
                if *fits == Fits::Unknown || *effect == Effect::Unknown {
                    ends.unknown.get_or_insert_with(|| rule.name.clone());
                }
                // Whether the packet can come to the next rule, if this one takes it.
                let goes_on = match effect {
                    Effect::Nothing => true,
                    Effect::Accept => {
                        ends.accepts = true;
                        false
                    }
                    Effect::Refuse => {
                        ends.refuses.get_or_insert_with(|| rule.name.clone());
                        false
                    }
                    Effect::Unknown => {
                        ends.accepts = true;
                        ends.refuses.get_or_insert_with(|| rule.name.clone());
                        false
                    }
                    Effect::Return => {
                        ends.falls_through = true;
                        false
                    }
                    Effect::Jump(target) => {
                        let below = self.walk(table, target, depth + 1, steps);
                        let returns = below.falls_through;
                        ends.join(below);
                        returns
                    }
                    Effect::Goto(target) => {
                        let below = self.walk(table, target, depth + 1, steps);
                        ends.falls_through |= below.falls_through;
                        ends.join(below);
                        false
                    }
                };
                match (fits, goes_on) {
                    (Fits::Yes, false) => return ends,
                    // The other cases of a map are for other packets.
                    (Fits::Yes, true) => break,
                    (Fits::Unknown | Fits::No, _) => {}
                }
            }
        }
        Ends { falls_through: true, ..ends }
    }
}

impl Insert {
    /// The command for a rule that accepts such packets.
    fn accept(&self, packet: &Packet) -> String {
        match (self, packet.ports()) {
            (Self::Nft(chain), Some((side, port))) => {
                format!("nft insert rule {chain} tcp {side} {port} accept")
            }
            (Self::Nft(chain), None) => format!("nft insert rule {chain} ct state established accept"),
            (Self::Iptables(chain), Some((side, port))) => {
                format!("{chain} -p tcp --{side} {port} -j ACCEPT")
            }
            (Self::Iptables(chain), None) => {
                format!("{chain} -m conntrack --ctstate ESTABLISHED -j ACCEPT")
            }
        }
    }
}

#[cfg(test)]
mod tests;
