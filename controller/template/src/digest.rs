//! Digests of definitions: equal exactly if the definitions are, independent of formatting.
//!
//! Every node is written with a tag and its length before it, maps by sorted key, references by name and
//! files by content, so that no two definitions share an encoding.
//!
//! Absent: which resources an update leaves alone because the digests are equal
//! (`controller/engine/src/traversal/plan.rs`).

use serde_json::Value;

use crate::bind::Parameters;
use crate::expression::{Call, Expr, ExprKind, Logic, Pseudo, Strictness};
use crate::parse::DraftResource;
use crate::template::{Attached, Condition, Output, Resource};

/// The names behind the indexes in expressions.
pub(crate) struct NamesOf<'a> {
    pub parameters: &'a [&'a str],
    pub conditions: &'a [Condition],
    pub resources: &'a [&'a str],
    pub files: &'a [Attached],
}

impl Resource {
    /// A digest that is equal between two revisions if and only if these are equal: type, properties,
    /// `depends_on`, `deletion_policy`, `drift_policy`, `external_id`, the values of the used parameters, the
    /// truth of the used conditions and the used files. Whitespace, comments, order of keys and unused
    /// parameters do not matter.
    pub fn definition_digest(&self, parameters: &Parameters) -> u128 {
        if self.parameters.is_empty() && self.conditions.is_empty() && !self.facade {
            return self.digest;
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.digest.to_le_bytes());
        for &index in &self.parameters {
            hasher.update(&parameters.digest(index).to_le_bytes());
        }
        for &index in &self.conditions {
            hasher.update(&[parameters.holds(index).map_or(2, u8::from)]);
        }
        if self.facade {
            hasher.update(&parameters.facade_digest().to_le_bytes());
        }
        short(&hasher.finalize())
    }
}

/// The digest of names in their order: two templates with equal digests have the same resources by name.
pub fn names_digest<'a>(names: impl Iterator<Item = &'a str>) -> u128 {
    let mut hasher = blake3::Hasher::new();
    for name in names {
        hasher.update(name.as_bytes());
        hasher.update(b"\0"); // which YAML does not allow in a text
    }
    short(&hasher.finalize())
}

/// The digest of a resource, without the values of parameters. `depends_on` is sorted.
pub(crate) fn of_resource(
    kind: &str,
    draft: &DraftResource,
    depends_on: &[u32],
    names: &NamesOf<'_>,
    buffer: &mut Vec<u8>,
) -> u128 {
    buffer.clear();
    text(buffer, b'k', kind);
    count(buffer, b'd', depends_on.len());
    for &index in depends_on {
        text(buffer, b't', names.resources[index as usize]);
        if draft.beside.as_ref().is_some_and(|beside| beside.whole.contains(&index)) {
            buffer.push(b'w');
        }
    }
    // Without either, the digest equals that from before they were introduced.
    if draft.retain {
        buffer.push(b'r');
    }
    if let Some(policy) = draft.beside.as_ref().and_then(|beside| beside.drift_policy) {
        text(buffer, b'f', policy.as_str());
    }
    if let Some(id) = draft.beside.as_ref().and_then(|beside| beside.external_id.as_ref()) {
        buffer.push(b'x');
        expr(buffer, id, names);
    }
    if let Some(policy) = draft.beside.as_ref().and_then(|beside| beside.deletion_policy.as_ref()) {
        buffer.push(b'R');
        expr(buffer, policy, names);
    }
    if let Some(metadata) = draft.beside.as_ref().and_then(|beside| beside.metadata.as_ref()) {
        buffer.push(b'a');
        expr(buffer, metadata, names);
    }
    expr(buffer, &draft.properties, names);
    of_bytes(buffer)
}

/// The digest of a resource that refers to absent ones.
pub(crate) fn without<'a>(digest: u128, absent: impl Iterator<Item = &'a str>) -> u128 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&digest.to_le_bytes());
    hasher.update(&names_digest(absent).to_le_bytes());
    short(&hasher.finalize())
}

/// The digest of all outputs of a template.
pub(crate) fn of_outputs(outputs: &[Output], names: &NamesOf<'_>) -> u128 {
    let mut buffer = Vec::new();
    for output in outputs {
        text(&mut buffer, b'o', &output.key);
        if let Some(condition) = &output.condition {
            expr(&mut buffer, condition, names);
        }
        expr(&mut buffer, &output.value, names);
    }
    of_bytes(&buffer)
}

/// The digest of an expression, without the values of parameters.
pub(crate) fn of_expr(node: &Expr, names: &NamesOf<'_>) -> u128 {
    let mut buffer = Vec::new();
    expr(&mut buffer, node, names);
    of_bytes(&buffer)
}

/// The digest of several digests in their order.
pub(crate) fn of_all(digests: impl IntoIterator<Item = u128>) -> u128 {
    let mut hasher = blake3::Hasher::new();
    for digest in digests {
        hasher.update(&digest.to_le_bytes());
    }
    short(&hasher.finalize())
}

pub(crate) fn of_value(given: &Value) -> u128 {
    let mut buffer = Vec::new();
    value(&mut buffer, given);
    of_bytes(&buffer)
}

pub(crate) fn of_bytes(bytes: &[u8]) -> u128 {
    short(&blake3::hash(bytes))
}

fn short(hash: &blake3::Hash) -> u128 {
    let (half, _) = hash.as_bytes().split_first_chunk::<16>().expect("a BLAKE3 hash has 32 bytes");
    u128::from_le_bytes(*half)
}

fn count(out: &mut Vec<u8>, tag: u8, n: usize) {
    out.push(tag);
    out.extend_from_slice(&(n as u64).to_le_bytes());
}

fn text(out: &mut Vec<u8>, tag: u8, text: &str) {
    count(out, tag, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn expr(out: &mut Vec<u8>, node: &Expr, names: &NamesOf<'_>) {
    match &node.kind {
        ExprKind::Null | ExprKind::Invalid => out.push(b'n'),
        ExprKind::Bool(value) => out.extend_from_slice(&[b'b', u8::from(*value)]),
        ExprKind::Number(number) => text(out, b'#', &number.to_string()),
        ExprKind::Text(value) => text(out, b't', value),
        ExprKind::List(items) => list(out, b'l', items, names),
        ExprKind::Map(entries) => {
            count(out, b'm', entries.len());
            for entry in entries {
                text(out, b't', &entry.key);
                expr(out, &entry.value, names);
            }
        }
        ExprKind::Call(call) => self::call(out, call, names),
    }
}

fn list(out: &mut Vec<u8>, tag: u8, items: &[Expr], names: &NamesOf<'_>) {
    count(out, tag, items.len());
    items.iter().for_each(|item| expr(out, item, names));
}

fn call(out: &mut Vec<u8>, call: &Call, names: &NamesOf<'_>) {
    match call {
        Call::GetParam { parameter, path } => {
            text(out, b'P', names.parameters[*parameter as usize]);
            list(out, b'l', path, names);
        }
        Call::GetResource { resource } => text(out, b'R', names.resources[*resource as usize]),
        Call::GetAttr { resource, attribute, path } => {
            text(out, b'A', names.resources[*resource as usize]);
            text(out, b't', attribute);
            list(out, b'l', path, names);
        }
        Call::GetFile { file } => {
            out.push(b'F');
            out.extend_from_slice(&names.files[*file as usize].digest.to_le_bytes());
        }
        Call::GetNode { parts } => list(out, b'N', parts, names),
        Call::StrReplace { template, params, strictness } => {
            out.push(b'S');
            match strictness {
                Strictness::Lenient => {}
                Strictness::Strict => out.push(b'1'),
                Strictness::Very => out.push(b'2'),
            }
            expr(out, template, names);
            expr(out, params, names);
        }
        Call::ListJoin { delimiter, lists } => {
            out.push(b'J');
            expr(out, delimiter, names);
            list(out, b'l', lists, names);
        }
        Call::Pseudo(pseudo) => out.extend_from_slice(&[b'O', u8::from(*pseudo == Pseudo::StackId)]),
        Call::Absent { message, .. } => {
            out.push(b'0');
            out.extend_from_slice(message.as_bytes());
            out.push(0);
        }
        Call::Facade(part) => out.extend_from_slice(&[b'f', *part as u8]),
        Call::Repeat { template, for_each, permutations } => {
            out.extend_from_slice(&[b'E', u8::from(*permutations)]);
            expr(out, template, names);
            expr(out, for_each, names);
        }
        Call::Plain { function, argument } => {
            text(out, b'C', function.name());
            expr(out, argument, names);
        }
        Call::Yaql { expression, data, .. } => {
            out.push(b'Y');
            expr(out, expression, names);
            expr(out, data, names);
        }
        Call::If { condition, values } => {
            out.push(b'I');
            expr(out, condition, names);
            list(out, b'l', values, names);
        }
        // By name: the truth of the condition is added where it is known.
        Call::Condition { condition } => text(out, b'c', &names.conditions[*condition as usize].name),
        Call::Logic { operator, conditions } => {
            let operator = match operator {
                Logic::And => b'&',
                Logic::Not => b'!',
                Logic::Or => b'|',
            };
            list(out, operator, conditions, names);
        }
    }
}

fn value(out: &mut Vec<u8>, node: &Value) {
    match node {
        Value::Null => out.push(b'n'),
        Value::Bool(value) => out.extend_from_slice(&[b'b', u8::from(*value)]),
        Value::Number(number) => text(out, b'#', &number.to_string()),
        Value::String(value) => text(out, b't', value),
        Value::Array(items) => {
            count(out, b'l', items.len());
            items.iter().for_each(|item| value(out, item));
        }
        Value::Object(entries) => {
            count(out, b'm', entries.len());
            // Sorted here too: another crate of the build may have asked serde_json to keep insertion order.
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            for (key, inner) in entries {
                text(out, b't', key);
                value(out, inner);
            }
        }
    }
}
