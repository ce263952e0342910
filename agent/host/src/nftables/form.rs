//! The form of a rule: a hash of nft's own listing of the rule, real or expected.

use serde_json::Value;

use crate::openflow::Form;

/// Hashes a value as nft lists it, or as expected; the order within maps does not matter.
pub(super) fn hash(value: &Value) -> Form {
    let mut hasher = blake3::Hasher::new();
    feed(&mut hasher, value);
    let mut bytes = [0; 8];
    hasher.finalize_xof().fill(&mut bytes);
    Form(u64::from_le_bytes(bytes))
}

fn feed(hasher: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::Array(all) => {
            hasher.update(b"[");
            all.iter().for_each(|value| feed(hasher, value));
            hasher.update(b"]");
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            hasher.update(b"{");
            for key in keys {
                hasher.update(key.as_bytes()).update(b":");
                feed(hasher, &map[key]);
            }
            hasher.update(b"}");
        }
        Value::String(text) => {
            hasher.update(b"\"").update(text.as_bytes()).update(b"\"");
        }
        other => {
            hasher.update(other.to_string().as_bytes()).update(b",");
        }
    }
}
