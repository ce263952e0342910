//! The line of the journal that each row of the audit has.

use muster_engine::record::AuditRecord;

pub fn to_journal(record: &AuditRecord) {
    let AuditRecord { actor, from, action, target, what, result } = record;
    tracing::info!(target: "muster_audit", actor, from, %action, of = target, what, result);
}
