//! Ownership of a resource's object: whether the object stays when the resource is deleted, and whether
//! others made it.
//!
//! Absent: what clean-up does then, and the refusal to change an `external_id` (`controller/engine/src/ownership.rs`).

use serde_json::Value;

use crate::bind::{Parameters, Values};
use crate::build::Reader;
use crate::error::{cut, suggestion_or_all};
use crate::expression::{Call, Expr, ExprKind, describe};
use crate::render::{RenderError, Unknown};
use crate::template::Template;

/// The values of `deletion_policy`, and whether the object stays.
pub(crate) const DELETION_POLICIES: [(&str, bool); 4] =
    [("delete", false), ("Delete", false), ("retain", true), ("Retain", true)];

/// The most characters of an external id, which appears in lists and events.
const EXTERNAL_ID_MAX: usize = 255;

/// Whether the object stays when the resource is deleted. A function is kept, for only parameters tell.
pub(crate) fn deletion_policy(reader: &mut Reader<'_>, value: Expr) -> (bool, Option<Expr>) {
    match &value.kind {
        ExprKind::Call(_) => return (false, Some(value)),
        ExprKind::Invalid => return (false, None),
        ExprKind::Null
        | ExprKind::Bool(_)
        | ExprKind::Number(_)
        | ExprKind::Text(_)
        | ExprKind::List(_)
        | ExprKind::Map(_) => {}
    }
    match retains(&value.sketch()) {
        Ok(retains) => (retains, None),
        Err(message) => {
            reader.error(value.at, message);
            (false, None)
        }
    }
}

fn retains(policy: &Value) -> Result<bool, String> {
    let Value::String(policy) = policy else {
        return Err(format!("want delete or retain, got {}", describe(policy)));
    };
    if let Some((_, retains)) = DELETION_POLICIES.iter().find(|(known, _)| *known == &**policy) {
        return Ok(*retains);
    }
    Err(match &**policy {
        "snapshot" | "Snapshot" => {
            "the policy 'snapshot' is not supported: no type here can make a snapshot; delete and retain are"
                .to_owned()
        }
        other => {
            let near = suggestion_or_all(other, &["delete", "retain"]);
            format!("unknown policy '{}'{near}", cut(other))
        }
    })
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
        ExprKind::Bool(_) | ExprKind::List(_) | ExprKind::Map(_) | ExprKind::Call(_) => {
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
    ///
    /// # Errors
    /// [`RenderError::Failed`] if a parameter gives no policy.
    pub fn retains(&self, index: usize, parameters: &Parameters) -> Result<bool, RenderError> {
        self.retains_with(index, parameters)
    }

    pub(crate) fn retains_with(&self, index: usize, parameters: &dyn Values) -> Result<bool, RenderError> {
        let resource = &self.resources[index];
        let Some(expr) = resource.deletion_policy() else { return Ok(resource.retain) };
        let place = ["resources", &resource.name, "deletion_policy"];
        match self.rendered(expr, parameters, &Unknown, &place)? {
            Value::Null => Ok(false),
            policy @ (Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_)) => retains(&policy).map_err(|message| self.failed(expr.at, &place, message)),
        }
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
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                (String::new(), Some("want text as external_id".to_owned()))
            }
        };
        match wrong.or_else(|| checked(&id).err()) {
            None => Ok(Some(id)),
            Some(message) => Err(self.failed(expr.at, &place, message)),
        }
    }
}
