//! `restart_on` and `reload_on` of `Muster::Unit` name resources. Parsing turns each name into a
//! reference to the desired state of that resource, and the reader of the properties takes that
//! state as it comes.
//!
//! Absent: restarts after a correction (`controller/engine/src/drift/unit_trigger.rs`), and the unit itself
//! (`shared/src/model/types/unit.rs`).

use muster_shared::model::Spec;

use super::Kind;
use crate::build::{Reader, number};
use crate::expression::{Call, Entry, Expr, ExprKind};

/// Makes references of the names in `restart_on` and `reload_on`.
pub(crate) fn refer(reader: &mut Reader<'_>, kind: Option<Kind>, properties: &mut Expr) {
    let (Some(Kind::Unit), ExprKind::Map(entries)) = (kind, &mut properties.kind) else { return };
    let whole = reader.path.key("properties");
    for entry in entries.iter_mut().filter(|entry| matches!(&*entry.key, "restart_on" | "reload_on")) {
        let before = reader.path.key(&entry.key);
        refer_list(reader, entry);
        reader.path.leave(before);
    }
    reader.path.leave(whole);
}

fn refer_list(reader: &mut Reader<'_>, entry: &mut Entry) {
    let at = entry.value.at;
    let items = match &mut entry.value.kind {
        ExprKind::List(items) => items,
        ExprKind::Null => return,
        ExprKind::Bool(_)
        | ExprKind::Number(_)
        | ExprKind::Text(_)
        | ExprKind::Map(_)
        | ExprKind::Call(_)
        | ExprKind::Invalid => {
            let message = format!("want a list of resources' names, got {}", entry.value.describe());
            reader.error(at, message);
            entry.value.kind = ExprKind::Invalid;
            return;
        }
    };
    for item in items.iter_mut() {
        let ExprKind::Text(name) = &mut item.kind else {
            reader.error(item.at, format!("want the name of a resource, got {}", item.describe()));
            item.kind = ExprKind::Invalid;
            continue;
        };
        let resource = number(&mut reader.resources, std::mem::take(name));
        let call = Call::GetAttr { resource, attribute: Spec::STATE.into(), path: Box::default() };
        item.kind = ExprKind::Call(Box::new(call));
    }
}
