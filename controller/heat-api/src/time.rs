//! Times as Heat writes them: whole seconds in UTC, `2026-11-28T19:00:00Z`.

use serde_json::Value;

/// From RFC 3339 in UTC; null where there is none.
pub fn heat(text: &str) -> Value {
    match text.get(..19) {
        Some(seconds) => Value::String(format!("{seconds}Z")),
        None => Value::Null,
    }
}
