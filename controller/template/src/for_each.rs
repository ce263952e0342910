//! `for_each: {nodes: SELECTOR}`: one resource for each node that a selector matches, named `name[node]`.
//!
//! This file checks the text.
//!
//! Absent: the members (`tree/expand/set.rs`), and when nodes come or go (`controller/engine/src/stack/follow.rs`).

use crate::build::Reader;
use crate::error::{Place, cut, suggestion_or_all};
use crate::expression::{Expr, ExprKind};
use crate::parse::DraftResource;
use crate::rollout::Rollout;
use crate::selector::Selector;
use crate::template::ForEach;

pub(crate) const NEED_KEYS: [&str; 2] = ["resource", "scope"];
pub(crate) const SCOPES: [&str; 2] = ["all", "node"];

/// The value of `for_each`; `None` if it is wrong, which has been reported.
pub(crate) fn for_each(reader: &mut Reader<'_>, value: Expr) -> Option<ForEach> {
    let at = value.at;
    let ExprKind::Map(entries) = value.kind else {
        reader.error(at, format!("want {{nodes: SELECTOR}}, got {}", value.describe()));
        return None;
    };
    let mut nodes = None;
    for entry in entries {
        let before = reader.path.key(&entry.key);
        match &*entry.key {
            "nodes" => {
                if let Some(message) = literal(&entry.value).and_then(|text| selector(&text).err()) {
                    reader.error(entry.value.at, message);
                } else if !matches!(entry.value.kind, ExprKind::Text(_) | ExprKind::Call(_)) {
                    let found = entry.value.describe();
                    reader.error(entry.value.at, format!("want a selector such as role=web, got {found}"));
                }
                nodes = Some(entry.value);
            }
            other => reader.error(entry.at, format!("unknown key '{}'; known is nodes", cut(other))),
        }
        reader.path.leave(before);
    }
    let Some(nodes) = nodes else {
        reader.error(at, "for_each needs 'nodes': a selector such as role=web");
        return None;
    };
    Some(ForEach { at, nodes, rollout: None, pairs: Box::default() })
}

/// Stores the parts of a set in the resource. `rollout` comes with the place of its key.
pub(crate) fn place(
    reader: &mut Reader<'_>,
    draft: &mut DraftResource,
    for_each: Option<ForEach>,
    rollout: Option<(Place, Expr)>,
) {
    if let Some((at, rollout)) = rollout {
        let before = reader.path.key("rollout");
        if for_each.is_none() {
            reader.error(at, "only a resource with a for_each has a rollout");
        } else if rollout.is_literal()
            && let Err(message) = Rollout::read(&rollout.sketch())
        {
            reader.error(rollout.at, message);
        }
        reader.path.leave(before);
        if let Some(mut for_each) = for_each {
            for_each.rollout = Some(rollout);
            draft.beside.get_or_insert_default().for_each = Some(Box::new(for_each));
        }
    } else if let Some(for_each) = for_each {
        draft.beside.get_or_insert_default().for_each = Some(Box::new(for_each));
    }
}

/// `{resource: NAME, scope: all|node}` in `depends_on`: the name's number, and whether the whole set
/// is needed.
pub(crate) fn need(reader: &mut Reader<'_>, item: &Expr) -> Option<(u32, bool)> {
    let ExprKind::Map(entries) = &item.kind else { return None };
    let (mut resource, mut all) = (None, false);
    for entry in entries {
        match (&*entry.key, &entry.value.kind) {
            ("resource", ExprKind::Text(name)) => resource = Some(reader.resource(name)),
            ("resource", ExprKind::Number(number)) => resource = Some(reader.resource(&number.to_string())),
            ("resource", _) => {
                let found = entry.value.describe();
                reader.error(entry.value.at, format!("want a resource's name, got {found}"));
                return None;
            }
            ("scope", ExprKind::Text(scope)) if SCOPES.contains(&&**scope) => all = &**scope == "all",
            ("scope", ExprKind::Text(other)) => {
                let near = suggestion_or_all(other, &SCOPES);
                reader.error(entry.value.at, format!("unknown scope '{}'{near}", cut(other)));
                return None;
            }
            ("scope", _) => {
                let found = entry.value.describe();
                reader.error(entry.value.at, format!("want {}, got {found}", SCOPES.join(" or ")));
                return None;
            }
            (other, _) => {
                let near = suggestion_or_all(other, &NEED_KEYS);
                reader.error(entry.at, format!("unknown key '{}' of a dependency{near}", cut(other)));
                return None;
            }
        }
    }
    if resource.is_none() {
        reader.error(item.at, "want {resource: NAME, scope: all}, got no 'resource'");
    }
    Some((resource?, all))
}

/// A text that is written out.
fn literal(value: &Expr) -> Option<String> {
    if let ExprKind::Text(text) = &value.kind { Some(text.to_string()) } else { None }
}

/// Accepts labels alone: facts are known only after an agent has reported them, and a controller that just
/// started knows none.
pub(crate) fn selector(text: &str) -> Result<Selector, String> {
    let selector: Selector = text.parse()?;
    if selector.asks_facts() {
        return Err(format!(
            "'{}': for_each selects by labels: of facts nothing is known until agents have told them",
            cut(text)
        ));
    }
    Ok(selector)
}
