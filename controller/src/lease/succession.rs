//! What the audit says when another controller becomes active: who asked for that, or that nobody did. Pure.
//!
//! Absent: who may ask (`run/hand_over.rs`, `keeper.rs`), and when a lease is taken (`machine.rs`).

use std::borrow::Cow;

use muster_engine::record::AuditRecord;

use super::{Asker, LeaseState, Record, Term, Verdict};

/// The row about the controller `me`, which has taken the lease that it saw like `before`. `None`: it was active before, or
/// nobody was.
pub(super) fn row(me: &str, before: Option<&Record>, verdict: Verdict, term: Term) -> Option<AuditRecord> {
    let before = before.filter(|before| before.holder.name != me)?;
    let from = &before.holder.name;
    let epoch = term.epoch.0;
    let row = |asker: Asker, action: &'static str| AuditRecord {
        actor: asker.actor,
        from: asker.from,
        action: Cow::Borrowed(action),
        target: me.to_owned(),
        what: format!("from {from}, epoch {epoch}: {}", asker.why),
        result: "ok".to_owned(),
    };
    let by_itself = |why| row(Asker::controller(me, why), "take-over");
    Some(match (&before.state, verdict) {
        (_, Verdict::TakeOver) => by_itself("the lease was not renewed"),
        (LeaseState::Left { heir }, _) if heir == me => {
            let asker = before.asker.as_deref().cloned();
            row(asker.unwrap_or_else(|| Asker::controller(from, "it does not say why")), "hand-over")
        }
        (LeaseState::Left { heir }, _) => {
            by_itself(&format!("{heir} did not take the lease that was left to it"))
        }
        (LeaseState::Held | LeaseState::Asked { .. } | LeaseState::Free, _) => by_itself("it had stopped"),
    })
}

#[cfg(test)]
mod tests {
    use muster_shared::Epoch;

    use super::*;
    use crate::lease::Member;

    fn before(holder: &str, state: LeaseState, asker: Option<Asker>) -> Record {
        let holder = Member { name: holder.to_owned(), addresses: Vec::new(), instance: String::new() };
        let term = Term { epoch: Epoch(4), bits: 1 };
        Record { term, holder, since: String::new(), beat: 1, agents: 0, state, asker: asker.map(Box::new) }
    }

    #[test]
    fn the_audit_says_who_made_another_controller_active_and_why() {
        let asker = Asker {
            actor: "root".to_owned(),
            from: "host c3, process 7".to_owned(),
            why: "asked for c2".to_owned(),
        };
        let left = |heir: &str| LeaseState::Left { heir: heir.to_owned() };
        let itself = "controller c2 / its own decision / take-over";
        let table = [
            (None, Verdict::Take, None),
            (Some(before("c2", LeaseState::Free, None)), Verdict::Take, None),
            (Some(before("c2", LeaseState::Held, None)), Verdict::TakeOver, None),
            (
                Some(before("c1", left("c2"), Some(asker.clone()))),
                Verdict::Take,
                Some("root / host c3, process 7 / hand-over: from c1, epoch 5: asked for c2".to_owned()),
            ),
            (
                Some(before("c1", left("c2"), None)),
                Verdict::Take,
                Some(
                    "controller c1 / its own decision / hand-over: from c1, epoch 5: it does not say why"
                        .to_owned(),
                ),
            ),
            (
                Some(before("c1", left("c3"), Some(asker.clone()))),
                Verdict::Take,
                Some(format!("{itself}: from c1, epoch 5: c3 did not take the lease that was left to it")),
            ),
            (
                Some(before("c1", LeaseState::Free, None)),
                Verdict::Take,
                Some(format!("{itself}: from c1, epoch 5: it had stopped")),
            ),
            (
                Some(before("c1", LeaseState::Held, None)),
                Verdict::TakeOver,
                Some(format!("{itself}: from c1, epoch 5: the lease was not renewed")),
            ),
            (
                Some(before("c1", LeaseState::Asked { heir: "c2".to_owned() }, Some(asker))),
                Verdict::TakeOver,
                Some(format!("{itself}: from c1, epoch 5: the lease was not renewed")),
            ),
        ];
        for (before, verdict, wanted) in table {
            let found = row("c2", before.as_ref(), verdict, Term { epoch: Epoch(5), bits: 2 });
            let told = found.map(|row| {
                assert_eq!((row.target.as_str(), row.result.as_str()), ("c2", "ok"));
                format!("{} / {} / {}: {}", row.actor, row.from, row.action, row.what)
            });
            assert_eq!(told, wanted, "{before:?}");
        }
    }
}
