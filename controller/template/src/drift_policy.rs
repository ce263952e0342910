//! Whether drift of a resource is corrected, reported or ignored: `drift_policy`, or the policy of its type.
//!
//! Absent: when it is corrected (`controller/engine/src/drift/correct.rs`), and when the breaker opens
//! (`controller/engine/src/drift/breaker.rs`).

use crate::build::Reader;
use crate::error::{cut, suggestion_or_all};
use crate::expression::{Expr, ExprKind};
use crate::types::Kind;

/// The value of `drift_policy` in a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriftPolicy {
    /// The desired state is restored.
    Correct,
    /// The drift is shown, and left to the next update.
    Report,
    /// The drift is neither shown nor corrected.
    Ignore,
}

impl DriftPolicy {
    /// The policies, in the order of listings.
    pub const ALL: [DriftPolicy; 3] = [DriftPolicy::Correct, DriftPolicy::Report, DriftPolicy::Ignore];

    /// The word in templates.
    pub fn as_str(self) -> &'static str {
        match self {
            DriftPolicy::Correct => "correct",
            DriftPolicy::Report => "report",
            DriftPolicy::Ignore => "ignore",
        }
    }

    /// The inverse of [`DriftPolicy::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == name)
    }

    /// The policy of resources without a given one.
    pub fn of_kind(kind: Kind) -> Self {
        // A change of a server's network by hand is usually a repair. Upgrades change packages. A
        // script that runs again may do more than restore.
        if kind.is_corrected() { DriftPolicy::Correct } else { DriftPolicy::Report }
    }
}

/// Reads the policy of a resource of this kind, if the kind is known.
pub(crate) fn read(reader: &mut Reader<'_>, kind: Option<Kind>, value: &Expr) -> Option<DriftPolicy> {
    if let Some(kind) = kind.filter(|kind| !may_drift(*kind)) {
        let message = format!(
            "a {} has no drift_policy: it is the controller's own, or its device is compared with it all the time",
            kind.name()
        );
        reader.error(value.at, message);
        return None;
    }
    let names = DriftPolicy::ALL.map(DriftPolicy::as_str);
    let ExprKind::Text(policy) = &value.kind else {
        reader.error(value.at, format!("want {}, got {}", names.join(", "), value.describe()));
        return None;
    };
    let found = DriftPolicy::from_name(policy);
    if found.is_none() {
        let near = suggestion_or_all(policy, &names);
        reader.error(value.at, format!("unknown drift policy '{}'{near}", cut(policy)));
    }
    found
}

/// Whether a resource of this kind has state on a server that can be checked, or stands for such resources.
fn may_drift(kind: Kind) -> bool {
    kind.is_whole() || kind.node_property().is_some()
}
