//! Ownership of a resource's object: whether the object stays when the resource is deleted, and whether
//! others made it.
//!
//! Absent: what clean-up does then, and the refusal to change an `external_id` (`controller/engine/src/ownership.rs`).

use serde_json::Value;

use crate::bind::{Parameters, Values};
use crate::build::Reader;
use crate::error::{cut, suggestion_or_all};
use crate::expression::{Call, Expr, ExprKind};
use crate::render::{RenderError, Unknown};
use crate::template::Template;

/// The values of `deletion_policy`, and whether the object stays.
pub(crate) const DELETION_POLICIES: [(&str, bool); 4] =
    [("delete", false), ("Delete", false), ("retain", true), ("Retain", true)];

/// The most characters of an external id, which appears in lists and events.
const EXTERNAL_ID_MAX: usize = 255;

/// Whether the object stays when the resource is deleted.
pub(crate) fn retains(reader: &mut Reader<'_>, value: &Expr) -> bool {
    let ExprKind::Text(policy) = &value.kind else {
        reader.error(value.at, format!("want delete or retain, got {}", value.describe()));
        return false;
    };
    if let Some((_, retains)) = DELETION_POLICIES.iter().find(|(known, _)| *known == &**policy) {
        return *retains;
    }
    match &**policy {
        "snapshot" | "Snapshot" => {
            let message = "the policy 'snapshot' is not supported: no type here can make a snapshot; delete and \
                           retain are";
            reader.error(value.at, message);
        }
        other => {
            let near = suggestion_or_all(other, &["delete", "retain"]);
            reader.error(value.at, format!("unknown policy '{}'{near}", cut(other)));
        }
    }
    false
}

/// The id that the makers of the object gave it: known before anything runs.
pub(crate) fn external_id(reader: &mut Reader<'_>, value: Expr) -> Option<Expr> {
    match &value.kind {
        ExprKind::Null => return None,
        ExprKind::Text(text) => {
            if let Err(message) = checked(text) {
                reader.error(value.at, message);
            }
        }
        ExprKind::Number(_) | ExprKind::Invalid => {}
        ExprKind::Call(call) if matches!(**call, Call::GetParam { .. }) => {}
        _ => {
            let message = format!("want text or get_param, got {}", value.describe());
            reader.error(value.at, message);
        }
    }
    Some(value)
}

fn checked(id: &str) -> Result<(), String> {
    let length = id.chars().count();
    if length == 0 || length > EXTERNAL_ID_MAX || id.contains(char::is_control) {
        return Err(format!(
            "an external id has 1 to {EXTERNAL_ID_MAX} characters, none of them a control character"
        ));
    }
    Ok(())
}

impl Template {
    /// Whether the object of a resource stays when the resource is deleted.
    pub fn retains(&self, index: usize) -> bool {
        self.resources[index].retain
    }

    /// Whether the resource stands for an object that others made.
    pub fn is_external(&self, index: usize) -> bool {
        self.resources[index].external_id().is_some()
    }

    /// The id of an object that others made and the resource only stands for.
    ///
    /// # Errors
    /// [`RenderError::Failed`] if a parameter gives no such id.
    pub fn external_id(&self, index: usize, parameters: &Parameters) -> Result<Option<String>, RenderError> {
        self.external_id_with(index, parameters)
    }

    pub(crate) fn external_id_with(
        &self,
        index: usize,
        parameters: &dyn Values,
    ) -> Result<Option<String>, RenderError> {
        let resource = &self.resources[index];
        let Some(expr) = resource.external_id() else { return Ok(None) };
        let place = ["resources", &resource.name, "external_id"];
        let (id, wrong) = match self.rendered(expr, parameters, &Unknown, &place)? {
            Value::String(id) => (id, None),
            Value::Number(number) => (number.to_string(), None),
            _ => (String::new(), Some("want text as external_id".to_owned())),
        };
        match wrong.or_else(|| checked(&id).err()) {
            None => Ok(Some(id)),
            Some(message) => Err(self.failed(expr.at, &place, message)),
        }
    }
}
