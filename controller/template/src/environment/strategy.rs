//! `parameter_merge_strategies`: how a value is combined with that of an earlier environment.
//!
//! Absent: the merge itself (`merge.rs`).

use std::collections::BTreeMap;

use crate::build::{Reader, Stop};
use crate::error::{Place, cut, suggestion_or_all};
use crate::expression::{Expr, ExprKind};
use crate::parse::entries;

pub(super) const SECTION: &str = "parameter_merge_strategies";
/// The name for all parameters without their own strategy.
const DEFAULT: &str = "default";

/// The treatment of a value from an earlier environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strategy {
    #[default]
    Overwrite,
    Merge,
    DeepMerge,
}

impl Strategy {
    pub const ALL: [Self; 3] = [Self::Overwrite, Self::Merge, Self::DeepMerge];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overwrite => "overwrite",
            Self::Merge => "merge",
            Self::DeepMerge => "deep_merge",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == name)
    }
}

/// Strategies by parameter.
#[derive(Clone, Debug, Default)]
pub(super) struct Strategies {
    named: BTreeMap<Box<str>, (Strategy, Place)>,
    default: Option<Strategy>,
}

impl Strategies {
    /// Reads the section.
    pub fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Stop> {
        entries(reader, |reader, name, _, body| {
            let at = body.at;
            match strategy(reader, &body) {
                Some(strategy) if name == DEFAULT => self.default = Some(strategy),
                Some(strategy) => drop(self.named.insert(name.into(), (strategy, at))),
                None => {}
            }
        })
    }

    /// The place of a parameter's own strategy.
    pub fn place(&self, parameter: &str) -> Option<Place> {
        self.named.get(parameter).map(|(_, at)| *at)
    }

    /// The strategy that combines a parameter's value in an environment with the strategies `own` with
    /// earlier ones. As in Heat, the strategy of a parameter also holds for all later environments, which
    /// must not contradict it.
    pub fn of(&mut self, parameter: &str, own: &Strategies) -> Result<Strategy, String> {
        let said = self.named.get(parameter).map(|(strategy, _)| *strategy);
        match (own.named.get(parameter), said) {
            (Some((own, _)), Some(said)) if *own != said => Err(format!(
                "want '{}', as in an environment before this one, got '{}': a parameter has one strategy",
                said.as_str(),
                own.as_str()
            )),
            (_, Some(said)) => Ok(said),
            (Some(&(strategy, at)), None) => {
                self.named.insert(parameter.into(), (strategy, at));
                Ok(strategy)
            }
            (None, None) => {
                if let Some(strategy) = own.default {
                    self.named.insert(parameter.into(), (strategy, Place::default()));
                }
                Ok(own.default.unwrap_or_default())
            }
        }
    }
}

fn strategy(reader: &mut Reader<'_>, body: &Expr) -> Option<Strategy> {
    let ExprKind::Text(name) = &body.kind else {
        reader.error(body.at, format!("want the name of a strategy, got {}", body.describe()));
        return None;
    };
    let found = Strategy::from_name(name);
    if found.is_none() {
        let near = suggestion_or_all(name, &Strategy::ALL.map(Strategy::as_str));
        reader.error(body.at, format!("unknown strategy '{}'{near}", cut(name)));
    }
    found
}

#[cfg(test)]
mod tests;
