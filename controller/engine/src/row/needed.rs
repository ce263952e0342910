//! Decides the step that a row needs to be as it is wanted: nothing, create, update in place, compare, or
//! replace. Pure: a visit and a preview call the same function.
//!
//! Absent: which changed properties need a replacement (`needs_replacement` in `controller/template/src/desired.rs` and
//! `shared/src/model/types.rs`), and which jobs a newer operation withdraws (`traversal/derive.rs`,
//! `traversal/visit.rs`). Which resources an operation looks at at all: `traversal/plan.rs`.

use muster_shared::model::Action;
use muster_template::{Desired, DriftPolicy, Kind};

use crate::node::NodeKey;
use crate::record::{PackedSpec, Status};
use crate::row::cause::Cause;
use crate::row::task::Before;
use crate::row::{Held, Role, Row};

/// The step from a row to its wanted state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    Nothing,
    Apply(Action),
    Replace,
}

impl Needed {
    /// The step in an operation that adopts. Only what no other job has touched is adopted: what a creation left half
    /// done is the stack's own, and is made.
    pub fn adopting(self, kind: Kind, row: Option<&Row>) -> Self {
        let is_of_others = kind.is_adoptable() && !kind.is_virtual() && row.is_none_or(Row::may_be_of_others);
        if self == Needed::Apply(Action::Create) && is_of_others {
            Needed::Apply(Action::Adopt)
        } else {
            self
        }
    }
}

impl Row {
    /// Whether the thing exists as a whole. A thing that is gone or half gone cannot be kept.
    pub fn is_usable(&self) -> bool {
        !self.is_past()
    }

    /// Whether the thing is gone, half gone or marked unhealthy.
    pub fn is_beyond_use(&self) -> bool {
        self.is_past() || self.details().unhealthy
    }

    /// Whether no job is out, no other row took over claims, and no drift was observed.
    pub fn is_left_alone(&self) -> bool {
        self.task().is_none() && !self.handed_over && !self.observed().differs()
    }

    /// Whether the row is as desired, observed ready, and has no job.
    pub fn stands(&self) -> bool {
        // When a check's question is withdrawn, the row is again as the check before has found it.
        let stood = self.is_asked() && !self.observed().differs();
        (stood || (self.status() == Some(Status::Complete) && self.task().is_none()))
            && self.ready
            && !self.is_going()
            && !self.handed_over
            && !self.details().unhealthy
    }

    /// Whether the row stands and no drift was observed.
    pub fn is_settled(&self) -> bool {
        self.stands() && !self.observed().differs()
    }

    /// Whether an operation that goes on leaves the row alone: it stands, or only a background job
    /// failed, which has its own retries.
    pub fn rests(&self) -> bool {
        let failed_aside = self.ready && self.failed_after_drift();
        self.stands() || (failed_aside && !self.handed_over && !self.details().unhealthy)
    }

    /// Whether all that is there is of others: no job has gone to the agent but adoptions, which change nothing. What a
    /// creation left half done is the stack's own, and is not compared with the template but made.
    fn may_be_of_others(&self) -> bool {
        let (applied, action) = match self.task().map(|task| task.before) {
            Some(Before::AsHeld | Before::InColumns) => (self.held != Held::Nothing, self.last.action),
            Some(Before::Unknown) | None => (self.is_applied(), self.action()),
        };
        !applied || action == Some(Action::Adopt)
    }

    /// Whether the row is COMPLETE with this kind and definition, and nothing has changed it since.
    pub fn is_as_defined(&self, kind: Kind, definition: u128) -> bool {
        (self.is_applied() || self.is_external())
            && self.spec().is_some()
            && self.status() == Some(Status::Complete)
            && self.is_left_alone()
            && !self.is_beyond_use()
            && (self.kind, self.definition) == (kind, definition)
    }

    /// Whether a background job for drift has failed and will retry on its own. An operation of an
    /// operator takes over first.
    pub fn waits_for_its_time(&self, packed: &PackedSpec) -> bool {
        let is_as_wanted = || {
            self.spec() == Some(packed)
                || (self.cause() == Cause::UnitRestart && self.differs_in_marks(packed))
        };
        self.failed_after_drift() && self.is_left_alone() && is_as_wanted()
    }

    /// Whether the row needs a correction: the thing differs from what was sent, or the correction before has failed. What
    /// the stack, the node and the breaker say comes after.
    pub fn needs_correction(&self) -> bool {
        self.takes_background_jobs() && (self.observed().differs() || self.could_not_be_corrected())
    }

    /// Whether the row can be restarted for a correction of what it names. What the stack and the node say comes after.
    pub fn may_restart(&self) -> bool {
        self.takes_background_jobs() && self.status() == Some(Status::Complete)
    }

    /// Whether the thing is the row's own, and is kept as it was sent.
    fn takes_background_jobs(&self) -> bool {
        let stands =
            self.ready && !self.is_going() && self.role != Role::Cleanup && !self.details().unhealthy;
        let is_ours = !self.is_lost() && !self.handed_over && self.is_applied() && self.spec().is_some();
        stands && is_ours && self.task().is_none() && self.drift_policy() == DriftPolicy::Correct
    }

    /// The step from the row to `spec` on `node`. `packed` is `spec`.
    pub fn needed(&self, kind: Kind, node: Option<NodeKey>, spec: &Desired, packed: &PackedSpec) -> Needed {
        if self.is_beyond_use() {
            return Needed::Replace;
        }
        if self.is_applied() || (self.is_external() && self.spec().is_some()) {
            let differs = self.kind != kind
                || self.node != node
                || self.spec().is_none_or(|old| old.unpack().needs_replacement(spec));
            if differs {
                return Needed::Replace;
            }
        }
        let settled = self.status() == Some(Status::Complete) || self.is_intact();
        if settled && self.is_left_alone() && self.spec() == Some(packed) {
            return Needed::Nothing;
        }
        // A thing that was made counts as made, even if its agent has lost the ledger.
        let is_made = self.held().is_some() || (self.is_applied() && self.definition != 0);
        // The creation of a deployment has not succeeded yet: its update may run nothing. Nor has an adoption: what
        // it left as it was is not of the stack.
        let begins = match self.action() {
            Some(Action::Create) => kind.is_deployment(),
            Some(Action::Adopt) => self.held().is_none(),
            Some(Action::Update | Action::Delete | Action::Check | Action::Retain) | None => false,
        };
        let is_unfinished = begins && self.status() != Some(Status::Complete);
        Needed::Apply(match self {
            row if row.is_external() => Action::Check,
            _ if is_made && !is_unfinished => Action::Update,
            _ => Action::Create,
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::ResourceId;
    use muster_shared::model::{Dummy, Spec};

    use super::*;
    use crate::record::Observation;

    const HERE: NodeKey = NodeKey(1);

    /// `value`: a change of it is an update in place; `forced`: a change of it takes another thing.
    fn dummy(value: &str, forced: &str) -> Desired {
        let values = [("v".to_owned(), value.to_owned()), ("!f".to_owned(), forced.to_owned())];
        Desired::Node(Spec::Dummy(Dummy { values: values.into(), ..Dummy::default() }))
    }

    /// Made as `dummy("1", "1")`, and observed.
    fn made() -> Row {
        let mut row = Row::new(1, ResourceId(uuid::Uuid::nil()), 1, "a".into(), Kind::Dummy);
        (row.0.node, row.0.spec, row.0.definition) = (Some(HERE), Some(PackedSpec::new(&dummy("1", "1"))), 7);
        (row.0.last.action, row.0.last.status) = (Some(Action::Create), Some(Status::Complete));
        (row.0.held, row.0.ready) = (Held::Listed(row.0.generation), true);
        row
    }

    #[test]
    fn what_a_row_needs() {
        use Needed::{Apply, Nothing, Replace};
        type Change = fn(&mut Row);
        let rows: [(&str, Change, Desired, Needed); 16] = [
            ("it is as it is wanted", |_| {}, dummy("1", "1"), Nothing),
            ("another value", |_| {}, dummy("2", "1"), Apply(Action::Update)),
            ("a value that takes another thing", |_| {}, dummy("1", "2"), Replace),
            ("it is elsewhere", |row| row.0.node = Some(NodeKey(2)), dummy("1", "1"), Replace),
            ("it is of another type", |row| row.0.kind = Kind::File, dummy("1", "1"), Replace),
            ("it differs", |row| row.0.seen = Observation::Drifted, dummy("1", "1"), Apply(Action::Update)),
            (
                "another row has its thing",
                |row| row.0.handed_over = true,
                dummy("1", "1"),
                Apply(Action::Update),
            ),
            ("it is unhealthy", |row| row.details_mut().unhealthy = true, dummy("1", "1"), Replace),
            (
                "its last job failed, and nobody knows what is there",
                |row| (row.0.last.status, row.0.held) = (Some(Status::Failed), Held::Unlisted),
                dummy("1", "1"),
                Apply(Action::Update),
            ),
            (
                "it failed, but its agent holds what was wanted",
                |row| row.0.last.status = Some(Status::Failed),
                dummy("1", "1"),
                Nothing,
            ),
            (
                "nothing of it was made",
                |row| (row.0.held, row.0.last.status) = (Held::Nothing, None),
                dummy("1", "2"),
                Apply(Action::Create),
            ),
            (
                "its first job failed",
                |row| {
                    (row.0.held, row.0.definition) = (Held::Unlisted, 0);
                    row.0.last.status = Some(Status::Failed);
                },
                dummy("1", "1"),
                Apply(Action::Create),
            ),
            (
                "its adoption failed, so nothing of it is held",
                |row| {
                    (row.0.held, row.0.last.action) = (Held::Unlisted, Some(Action::Adopt));
                    row.0.last.status = Some(Status::Failed);
                },
                dummy("1", "1"),
                Apply(Action::Create),
            ),
            (
                "it was adopted",
                |row| row.0.last.action = Some(Action::Adopt),
                dummy("2", "1"),
                Apply(Action::Update),
            ),
            ("it was taken away", |row| row.0.last.action = Some(Action::Delete), dummy("1", "1"), Replace),
            (
                "it is external, and was not asked about",
                |row| {
                    row.details_mut().external_id = Some("x".into());
                    (row.0.held, row.0.last.status) = (Held::Nothing, None);
                },
                dummy("1", "1"),
                Apply(Action::Check),
            ),
        ];
        for (what, change, wanted, needed) in rows {
            let mut row = made();
            change(&mut row);
            let packed = PackedSpec::new(&wanted);
            assert_eq!(row.needed(Kind::Dummy, Some(HERE), &wanted, &packed), needed, "{what}");
        }
    }
}
