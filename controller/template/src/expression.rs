//! The tree a template's values are read into: literals, lists, maps and calls of functions.

use serde_json::{Number, Value};

use crate::error::Place;

/// A node of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub at: Place,
    pub kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Null,
    Bool(bool),
    Number(Number),
    Text(Box<str>),
    List(Box<[Expr]>),
    /// Sorted by key, keys unique.
    Map(Box<[Entry]>),
    Call(Box<Call>),
    /// Something that was wrong and has been reported: given, but of unknown value.
    Invalid,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: Box<str>,
    pub at: Place,
    pub value: Expr,
}

/// A function with its arguments. Until `resolve` has run, `parameter`, `resource` and `file` count names in order
/// of appearance; afterwards they are indexes into the template's sorted lists.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    GetParam { parameter: u32, path: Box<[Expr]> },
    GetResource { resource: u32 },
    GetAttr { resource: u32, attribute: Box<str>, path: Box<[Expr]> },
    GetFile { file: u32 },
    StrReplace { template: Expr, params: Expr },
    ListJoin { delimiter: Expr, lists: Box<[Expr]> },
}

impl Expr {
    pub fn new(at: Place, kind: ExprKind) -> Self {
        Self { at, kind }
    }

    /// What is known of the value without rendering; null stands for what a function will give.
    pub fn sketch(&self) -> Value {
        match &self.kind {
            ExprKind::Null | ExprKind::Call(_) | ExprKind::Invalid => Value::Null,
            ExprKind::Bool(value) => Value::Bool(*value),
            ExprKind::Number(number) => Value::Number(number.clone()),
            ExprKind::Text(text) => Value::String(text.to_string()),
            ExprKind::List(items) => items.iter().map(Expr::sketch).collect(),
            ExprKind::Map(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.to_string(), entry.value.sketch())).collect(),
            ),
        }
    }

    /// The value under a key, of a map.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        let ExprKind::Map(entries) = &self.kind else { return None };
        entries.binary_search_by(|entry| (*entry.key).cmp(key)).ok().map(|i| &entries[i])
    }

    /// Nodes and bytes of text below and including this one: what a copy costs.
    pub fn weight(&self) -> usize {
        1 + match &self.kind {
            ExprKind::Null | ExprKind::Invalid | ExprKind::Bool(_) | ExprKind::Number(_) => 0,
            ExprKind::Text(text) => text.len(),
            ExprKind::List(items) => items.iter().map(Expr::weight).sum(),
            ExprKind::Map(entries) => entries.iter().map(|e| e.key.len() + e.value.weight()).sum(),
            ExprKind::Call(call) => call.operands().iter().map(|e| e.weight()).sum(),
        }
    }

    /// Levels of nesting, 1 for a scalar.
    pub fn depth(&self) -> usize {
        1 + match &self.kind {
            ExprKind::Null
            | ExprKind::Invalid
            | ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::Text(_) => 0,
            ExprKind::List(items) => items.iter().map(Expr::depth).max().unwrap_or(0),
            ExprKind::Map(entries) => entries.iter().map(|e| e.value.depth()).max().unwrap_or(0),
            // The list or map that held the operands is a level of its own.
            ExprKind::Call(call) => 2 + call.operands().iter().map(|e| e.depth()).max().unwrap_or(0),
        }
    }

    /// What it is, for messages.
    pub fn describe(&self) -> &'static str {
        match &self.kind {
            ExprKind::Null => "nothing",
            ExprKind::Bool(_) => "a boolean",
            ExprKind::Number(_) => "a number",
            ExprKind::Text(_) => "text",
            ExprKind::List(_) => "a list",
            ExprKind::Map(_) => "a map",
            ExprKind::Call(_) | ExprKind::Invalid => "a function",
        }
    }
}

impl Call {
    /// The expressions a call is made of.
    pub fn operands(&self) -> Vec<&Expr> {
        match self {
            Call::GetParam { path, .. } | Call::GetAttr { path, .. } => path.iter().collect(),
            Call::GetResource { .. } | Call::GetFile { .. } => Vec::new(),
            Call::StrReplace { template, params } => vec![template, params],
            Call::ListJoin { delimiter, lists } => std::iter::once(delimiter).chain(lists.iter()).collect(),
        }
    }
}

/// What a value is, for messages.
pub(crate) fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
