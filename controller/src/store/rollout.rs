//! Rollouts, their members, and the state that was rolled out to a whole set, to and from the tables of the database.
//!
//! Absent: how a rollout goes on, pauses and aborts (`controller/engine/src/rollout/machine.rs`).

use std::collections::BTreeMap;

use super::StoreError;
use super::database::{began, int};
use super::load::{parsed, since};
use super::sql::{Damage, Db, Row, upsert, values};
use muster_engine::record::{
    Counts, Course, MemberRecord, Proven, RolloutChange, RolloutRecord, RolloutSnapshot,
};

/// Writes a change. `steady` is the time of the [`SteadyClock`](super::clock_across_restarts::SteadyClock).
pub(super) fn apply(db: &Db, change: &RolloutChange, steady: i64) -> Result<(), StoreError> {
    match change {
        RolloutChange::Kept { row, record, members, anew } => {
            if *anew {
                db.execute("DELETE FROM rollout_members WHERE row_id = ?1", values![int(*row)])?;
            }
            let RolloutRecord { traversal, course, canary, well, returns, rested } = record;
            db.execute(
                upsert!(
                    "rollouts",
                    ["row_id"],
                    ["traversal", "state", "reason", "canary", "well", "returns", "rests_since"]
                ),
                values![
                    int(*row),
                    int(*traversal),
                    course.as_str(),
                    course.reason(),
                    canary,
                    well,
                    returns,
                    rested.map(|rested| began(steady, rested)),
                ],
            )?;
            let mut put = db.prepare_many(upsert!(
                "rollout_members",
                ["row_id", "member"],
                ["begun", "leaving", "counts", "in_batch"]
            ))?;
            let mut remove =
                db.prepare_many("DELETE FROM rollout_members WHERE row_id = ?1 AND member = ?2")?;
            for (name, member) in members {
                match member {
                    None => remove.execute(values![int(*row), name])?,
                    Some(MemberRecord { begun, leaving, counts, in_batch }) => {
                        put.execute(values![int(*row), name, begun, leaving, counts.as_str(), in_batch])?
                    }
                };
            }
        }
        RolloutChange::Over(row) => {
            db.execute("DELETE FROM rollouts WHERE row_id = ?1", values![int(*row)])?;
            db.execute("DELETE FROM rollout_members WHERE row_id = ?1", values![int(*row)])?;
        }
        RolloutChange::Proven(row, Some(Proven { revision, source })) => {
            db.execute(
                upsert!("proven_sets", ["row_id"], ["revision", "source"]),
                values![int(*row), revision, source.to_be_bytes()],
            )?;
        }
        RolloutChange::Proven(row, None) => {
            db.execute("DELETE FROM proven_sets WHERE row_id = ?1", values![int(*row)])?;
        }
    }
    Ok(())
}

/// A record that cannot be read is left out: its rollout begins again.
pub(super) fn load(db: &Db, now: i64) -> Result<RolloutSnapshot, StoreError> {
    let mut snapshot = RolloutSnapshot::default();
    each(db, "SELECT * FROM rollouts", |row| {
        let (id, record) = rollout(row, now)?;
        snapshot.rollouts.insert(id, (record, BTreeMap::new()));
        Ok(())
    })?;
    each(db, "SELECT * FROM rollout_members", |row| {
        let member = MemberRecord {
            begun: row.get("begun")?,
            leaving: row.get("leaving")?,
            counts: parsed(row, "counts", Counts::from_name)?,
            in_batch: row.get("in_batch")?,
        };
        if let Some((_, members)) = snapshot.rollouts.get_mut(&row.get("row_id")?) {
            members.insert(row.get("member")?, member);
        }
        Ok(())
    })?;
    each(db, "SELECT * FROM proven_sets", |row| {
        let proven =
            Proven { revision: row.get("revision")?, source: u128::from_be_bytes(row.get("source")?) };
        snapshot.proven.insert(row.get("row_id")?, proven);
        Ok(())
    })?;
    Ok(snapshot)
}

fn each(
    db: &Db,
    select: &str,
    mut read: impl FnMut(&Row<'_>) -> Result<(), Damage>,
) -> Result<(), StoreError> {
    db.each(select, values![], |row| {
        if let Err(error) = read(row) {
            tracing::error!("a record of a rollout cannot be read: {error}");
        }
        Ok(())
    })
}

fn rollout(row: &Row<'_>, now: i64) -> Result<(u64, RolloutRecord), Damage> {
    let (state, reason): (String, String) = (row.get("state")?, row.get("reason")?);
    let course = Course::read(&state, reason);
    let record = RolloutRecord {
        traversal: row.get("traversal")?,
        course: course.ok_or_else(|| Damage::of_column("state", format_args!("unknown value '{state}'")))?,
        canary: row.get("canary")?,
        well: row.get("well")?,
        returns: row.get("returns")?,
        rested: row.get::<Option<i64>>("rests_since")?.map(|began| since(now, began)),
    };
    Ok((row.get("row_id")?, record))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_engine::record::Change;

    use super::super::Store as _;
    use super::super::testing::each;
    use super::*;

    const RESTED: Duration = Duration::from_secs(90);

    /// Without the seconds that passed since it was written.
    fn as_written(mut snapshot: RolloutSnapshot) -> RolloutSnapshot {
        for rested in snapshot.rollouts.values_mut().filter_map(|(record, _)| record.rested.as_mut()) {
            assert!((RESTED..RESTED * 2).contains(rested), "{rested:?}");
            *rested = RESTED;
        }
        snapshot
    }

    #[test]
    fn what_is_written_is_read_again() {
        each(|place| {
            let member =
                |begun, leaving, counts, in_batch| Some(MemberRecord { begun, leaving, counts, in_batch });
            let kept = |row, course, members: &[(&str, Option<MemberRecord>)], anew| {
                let (canary, well, returns) = (true, false, true);
                let rested = (row == 1).then_some(RESTED);
                let record = RolloutRecord { traversal: 7, course, canary, well, returns, rested };
                let members = members.iter().map(|(name, member)| ((*name).into(), *member)).collect();
                RolloutChange::Kept { row, record, members, anew }
            };
            let (begun, left) =
                (member(true, false, Counts::Failed, true), member(false, true, Counts::Nothing, false));
            let lost = member(false, false, Counts::Lost, false);
            let proven = |source| Some(Proven { revision: 3, source });
            let changes = [
                kept(1, Course::Going, &[("a[x]", begun), ("a[y]", left)], true),
                kept(1, Course::Aborted("why".into()), &[("a[y]", None), ("a[z]", lost)], false),
                kept(2, Course::Paused, &[("b[x]", begun)], true),
                kept(2, Course::TimedOut, &[("b[y]", lost)], true),
                kept(3, Course::Going, &[("c[x]", begun)], true),
                RolloutChange::Over(3),
                RolloutChange::Proven(1, proven(u128::MAX - 1)),
                RolloutChange::Proven(2, proven(5)),
                RolloutChange::Proven(2, None),
            ];
            let mut wanted = RolloutSnapshot::default();
            changes.iter().for_each(|change| wanted.apply(change.clone()));
            let mut store = place.open();
            store.commit(&mut changes.into_iter().map(Change::Rollout), &[]).unwrap();
            let now = store.steady.now();
            assert_eq!(as_written(load(store.db(), now).unwrap()), wanted);
            assert_eq!((wanted.rollouts.len(), wanted.proven.len()), (2, 1));
            // A damaged record costs only itself.
            place.run("UPDATE rollouts SET state = 'x' WHERE row_id = 2");
            wanted.rollouts.remove(&2);
            assert_eq!(as_written(store.load().unwrap().rollouts), wanted);
        });
    }
}
