//! The tree a template's values are read into: literals, lists, maps and calls of functions.

use std::sync::Arc;

pub(crate) use muster_shared::property::describe;
use serde_json::{Number, Value};

use crate::error::{Path, Place};
use crate::yaql;

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
    /// A value with an error that was reported: it is given, but unknown.
    Invalid,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: Box<str>,
    pub at: Place,
    pub value: Expr,
}

/// A function with its arguments. Until `resolve` has run, `parameter`, `resource`, `file` and `condition`
/// count names in order of appearance; afterwards they are indexes into the template's sorted lists.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    GetParam {
        parameter: u32,
        path: Box<[Expr]>,
    },
    Pseudo(Pseudo),
    GetResource {
        resource: u32,
    },
    GetAttr {
        resource: u32,
        attribute: Box<str>,
        path: Box<[Expr]>,
    },
    GetFile {
        file: u32,
    },
    /// A node, and the path of the requested value.
    GetNode {
        parts: Box<[Expr]>,
    },
    Facade(FacadePart),
    StrReplace {
        template: Expr,
        params: Expr,
        strictness: Strictness,
    },
    ListJoin {
        delimiter: Expr,
        lists: Box<[Expr]>,
    },
    Repeat {
        template: Expr,
        for_each: Expr,
        permutations: bool,
    },
    Plain {
        function: Plain,
        argument: Expr,
    },
    Yaql {
        expression: Expr,
        data: Expr,
        parsed: Option<Arc<yaql::Expression>>,
    },
    If {
        condition: Expr,
        values: Box<[Expr]>,
    },
    /// A condition of the section `conditions`.
    Condition {
        condition: u32,
    },
    /// A reference to what is not there, where that is an error only if it is used.
    Absent {
        /// Empty for a condition.
        function: &'static str,
        message: Box<str>,
    },
    Logic {
        operator: Logic,
        conditions: Box<[Expr]>,
    },
}

/// Parameters that every stack has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pseudo {
    StackName,
    StackId,
}

/// The parts of the outer resource that a nested stack may request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FacadePart {
    Metadata,
    DeletionPolicy,
    UpdatePolicy,
}

/// The strictness of `str_replace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strictness {
    Lenient,
    /// A text that is not in the template.
    Strict,
    /// An empty value too.
    Very,
}

/// Functions that take their argument as a value and look at nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    Contains,
    Digest,
    Equals,
    Filter,
    ListConcat,
    ListConcatUnique,
    MakeUrl,
    MapMerge,
    MapReplace,
    StrSplit,
}

/// The operators that combine conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Not,
    Or,
}

impl Plain {
    const ALL: [(Plain, &'static str); 10] = [
        (Plain::Contains, "contains"),
        (Plain::Digest, "digest"),
        (Plain::Equals, "equals"),
        (Plain::Filter, "filter"),
        (Plain::ListConcat, "list_concat"),
        (Plain::ListConcatUnique, "list_concat_unique"),
        (Plain::MakeUrl, "make_url"),
        (Plain::MapMerge, "map_merge"),
        (Plain::MapReplace, "map_replace"),
        (Plain::StrSplit, "str_split"),
    ];

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(plain, _)| plain)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(plain, _)| *plain == self).expect("every function is in the table").1
    }
}

impl Expr {
    pub fn new(at: Place, kind: ExprKind) -> Self {
        Self { at, kind }
    }

    /// The value as far as it is known without rendering; null stands for a function's value.
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

    /// The keys of a map, where it is written out.
    pub fn keys(&self) -> Option<Vec<&str>> {
        let ExprKind::Map(entries) = &self.kind else { return None };
        Some(entries.iter().map(|entry| &*entry.key).collect())
    }

    /// Nodes and bytes of text in this expression: the cost of a copy.
    pub fn weight(&self) -> usize {
        1 + match &self.kind {
            ExprKind::Null | ExprKind::Invalid | ExprKind::Bool(_) | ExprKind::Number(_) => 0,
            ExprKind::Text(text) => text.len(),
            ExprKind::List(items) => items.iter().map(Expr::weight).sum(),
            ExprKind::Map(entries) => entries.iter().map(|e| e.key.len() + e.value.weight()).sum(),
            ExprKind::Call(call) => call.operands().iter().map(|(_, e)| e.weight()).sum(),
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
            // The list or map of the operands counts as a level.
            ExprKind::Call(call) => 2 + call.operands().iter().map(|(_, e)| e.depth()).max().unwrap_or(0),
        }
    }

    /// Whether the value is constant: independent of parameters and resources.
    pub fn is_literal(&self) -> bool {
        match &self.kind {
            ExprKind::Null | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(_) => true,
            ExprKind::List(items) => items.iter().all(Expr::is_literal),
            ExprKind::Map(entries) => entries.iter().all(|entry| entry.value.is_literal()),
            ExprKind::Call(_) | ExprKind::Invalid => false,
        }
    }

    /// Whether it may be anything: only rendering tells.
    pub fn is_open(&self) -> bool {
        matches!(self.kind, ExprKind::Call(_) | ExprKind::Invalid)
    }

    /// A description for messages.
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

/// The place of an operand below its call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// The function is the whole argument.
    Whole,
    Key(&'static str),
    Item(usize),
}

impl Part {
    /// Enters the operand; the answer goes to [`Path::leave`].
    pub fn enter(self, path: &mut Path) -> usize {
        match self {
            Part::Whole => path.as_str().len(),
            Part::Key(key) => path.key(key),
            Part::Item(index) => path.item(index),
        }
    }
}

/// The operands of a call, shared or to be changed: `$items` numbers those of a list, `$iter` goes through it.
macro_rules! operands {
    ($call:expr, $items:ident, $iter:ident) => {
        match $call {
            Call::GetResource { .. }
            | Call::GetFile { .. }
            | Call::Pseudo(_)
            | Call::Facade(_)
            | Call::Absent { .. }
            | Call::Condition { .. } => Vec::new(),
            Call::GetParam { path, .. } => $items(1, path),
            Call::GetNode { parts } => $items(0, parts),
            Call::GetAttr { path, .. } => $items(2, path),
            Call::StrReplace { template, params, .. } => {
                vec![(Part::Key("template"), template), (Part::Key("params"), params)]
            }
            Call::ListJoin { delimiter, lists } => {
                std::iter::once((Part::Item(0), delimiter)).chain($items(1, lists)).collect()
            }
            Call::Repeat { template, for_each, .. } => {
                vec![(Part::Key("template"), template), (Part::Key("for_each"), for_each)]
            }
            Call::Plain { argument, .. } => vec![(Part::Whole, argument)],
            Call::Yaql { expression, data, .. } => {
                vec![(Part::Key("expression"), expression), (Part::Key("data"), data)]
            }
            Call::If { condition, values } => {
                std::iter::once((Part::Item(0), condition)).chain($items(1, values)).collect()
            }
            Call::Logic { operator: Logic::Not, conditions } => {
                conditions.$iter().map(|condition| (Part::Whole, condition)).collect()
            }
            Call::Logic { conditions, .. } => $items(0, conditions),
        }
    };
}

impl Call {
    /// The name in templates.
    pub fn name(&self) -> &'static str {
        match self {
            Call::GetParam { .. } | Call::Pseudo(_) => "get_param",
            Call::GetResource { .. } => "get_resource",
            Call::GetAttr { .. } => "get_attr",
            Call::GetFile { .. } => "get_file",
            Call::GetNode { .. } => "get_node",
            Call::Facade(_) => "resource_facade",
            Call::StrReplace { strictness: Strictness::Lenient, .. } => "str_replace",
            Call::StrReplace { strictness: Strictness::Strict, .. } => "str_replace_strict",
            Call::StrReplace { strictness: Strictness::Very, .. } => "str_replace_vstrict",
            Call::ListJoin { .. } => "list_join",
            Call::Repeat { .. } => "repeat",
            Call::Plain { function, .. } => function.name(),
            Call::Yaql { .. } => "yaql",
            Call::If { .. } => "if",
            Call::Condition { .. } => "a condition",
            Call::Absent { function, .. } => function,
            Call::Logic { operator: Logic::And, .. } => "and",
            Call::Logic { operator: Logic::Not, .. } => "not",
            Call::Logic { operator: Logic::Or, .. } => "or",
        }
    }

    /// The expressions a call is made of, with their places.
    pub fn operands(&self) -> Vec<(Part, &Expr)> {
        operands!(self, items, iter)
    }

    /// The same, to be changed.
    pub fn operands_mut(&mut self) -> Vec<(Part, &mut Expr)> {
        operands!(self, items_mut, iter_mut)
    }
}

fn items(first: usize, exprs: &[Expr]) -> Vec<(Part, &Expr)> {
    exprs.iter().enumerate().map(|(n, expr)| (Part::Item(first + n), expr)).collect()
}

fn items_mut(first: usize, exprs: &mut [Expr]) -> Vec<(Part, &mut Expr)> {
    exprs.iter_mut().enumerate().map(|(n, expr)| (Part::Item(first + n), expr)).collect()
}
