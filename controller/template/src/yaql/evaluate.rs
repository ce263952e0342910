//! A tree and its data → a value, in a bounded number of steps and bytes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::arguments::Arguments;
use super::parse::{Argument, Expression, Node};
use super::value::{Form, Key, List, Y};
use super::{DEPTH, collection, edit, number, operator, query, regex, sequence, text};
use crate::error::{cut, suggestion};

pub(super) type Evaluated = Result<Y, String>;

/// Evaluates the expression on `$.data`.
pub(crate) fn evaluate(
    expression: &Expression,
    data: &Value,
    steps: usize,
    bytes: usize,
) -> Result<Value, String> {
    let evaluator = Evaluator { steps: Cell::new(steps), bytes: Cell::new(bytes) };
    evaluator.spend(crate::text::weight(data))?;
    let root = Y::unbounded_map(BTreeMap::from([("data".into(), Y::from_json(data))]));
    let frame = Frame { names: vec![("".into(), root)], outer: None };
    let value = evaluator.node(&frame, &expression.0)?;
    // A value that is shared many times occurs many times in the answer.
    evaluator.spend(value.weight())?;
    value.to_json()
}

/// The values of names, from the inside out.
pub(super) struct Frame<'a> {
    pub names: Vec<(Box<str>, Y)>,
    pub outer: Option<&'a Frame<'a>>,
}

impl Frame<'_> {
    fn get(&self, name: &str) -> Option<Y> {
        let own = self.names.iter().find(|(known, _)| **known == *name).map(|(_, value)| value.clone());
        own.or_else(|| self.outer?.get(name))
    }
}

pub(super) struct Evaluator {
    steps: Cell<usize>,
    bytes: Cell<usize>,
}

impl Evaluator {
    pub fn step(&self, count: usize) -> Result<(), String> {
        let left = self.steps.get().checked_sub(count);
        self.steps.set(left.ok_or("yaql: this takes too many steps")?);
        Ok(())
    }

    pub fn spend(&self, bytes: usize) -> Result<(), String> {
        let left = self.bytes.get().checked_sub(bytes);
        self.bytes.set(left.ok_or("yaql: this makes too large a value")?);
        Ok(())
    }

    /// A value that is compared with others is looked at whole.
    pub fn compared(&self, value: &Y) -> Result<(), String> {
        self.step(1 + value.weight() / 16)
    }

    /// A list made on the way.
    pub fn stream(&self, items: Vec<Y>) -> Evaluated {
        self.bounded(Y::unbounded_list(items, Form::Stream))
    }

    pub fn list(&self, items: Vec<Y>) -> Evaluated {
        self.bounded(Y::unbounded_list(items, Form::List))
    }

    /// The distinct items, in the order of their first occurrence.
    pub fn set<'y>(&self, given: impl Iterator<Item = &'y Y> + Clone) -> Evaluated {
        given.clone().try_for_each(|item| self.compared(item))?;
        let mut seen = BTreeSet::new();
        let items = given.filter(|item| seen.insert(Key((*item).clone()))).cloned().collect();
        let ordered = seen.into_iter().map(|Key(item)| item).collect();
        self.bounded(Y::unbounded_list(items, Form::Set(ordered)))
    }

    pub fn map(&self, entries: BTreeMap<Arc<str>, Y>) -> Evaluated {
        self.bounded(Y::unbounded_map(entries))
    }

    pub fn text(&self, text: String) -> Evaluated {
        self.spend(text.len())?;
        Ok(Y::Text(text.into()))
    }

    fn bounded(&self, value: Y) -> Evaluated {
        if value.depth() > DEPTH {
            return Err(format!("yaql: a value more than {DEPTH} levels deep"));
        }
        let count = match &value {
            Y::List(list) => list.items.len(),
            Y::Map(map) => map.entries.len(),
            Y::Null | Y::Bool(_) | Y::Int(_) | Y::Float(_) | Y::Text(_) | Y::Regex(_) => 0,
        };
        self.step(count)?;
        self.spend(count.saturating_mul(size_of::<Y>()))?;
        Ok(value)
    }

    pub fn node(&self, frame: &Frame<'_>, node: &Node) -> Evaluated {
        self.step(1)?;
        match node {
            Node::Literal(value) => Ok(value.clone()),
            // As in yaql, a name that nothing has is null.
            Node::Variable(name) => Ok(frame.get(if **name == *"1" { "" } else { name }).unwrap_or(Y::Null)),
            Node::List(items) => {
                let items = items.iter().map(|item| self.node(frame, item)).collect::<Result<_, _>>()?;
                self.list(items)
            }
            Node::Map(entries) => {
                let mut map = BTreeMap::new();
                for (key, value) in entries {
                    map.insert(key_text(&self.node(frame, key)?)?, self.node(frame, value)?);
                }
                self.map(map)
            }
            Node::Member { of, name, safe } => match self.node(frame, of)? {
                Y::Null if *safe => Ok(Y::Null),
                of @ (Y::Null
                | Y::Bool(_)
                | Y::Int(_)
                | Y::Float(_)
                | Y::Text(_)
                | Y::List(_)
                | Y::Map(_)
                | Y::Regex(_)) => self.member(&of, name),
            },
            Node::Index { of, by, default } => {
                let (of, by) = (self.node(frame, of)?, self.node(frame, by)?);
                match (default, &of) {
                    (None, _) => self.index(&of, &by),
                    (Some(default), Y::Map(map)) => match map.entries.get(&key_text(&by)?) {
                        Some(found) => Ok(found.clone()),
                        None => self.node(frame, default),
                    },
                    (Some(_), _) => Err(format!("yaql: {} has no items with a default", of.describe())),
                }
            }
            Node::Call { of, name, safe, arguments } => {
                self.call(frame, of.as_deref(), name, *safe, arguments)
            }
            Node::Unary { operator, of } => operator::unary(operator, &self.node(frame, of)?),
            Node::Binary { operator: operator @ ("and" | "or"), left, right } => {
                let left = self.node(frame, left)?;
                if left.is_true() == (*operator == "or") { Ok(left) } else { self.node(frame, right) }
            }
            Node::Binary { operator, left, right } => {
                let (left, right) = (self.node(frame, left)?, self.node(frame, right)?);
                operator::binary(self, operator, &left, &right)
            }
            Node::Into { left, right } => self.named(frame, left, right),
        }
    }

    fn member(&self, of: &Y, name: &str) -> Evaluated {
        match of {
            Y::Map(map) => map.entries.get(name).cloned().ok_or_else(|| {
                let near = suggestion(name, map.entries.keys().map(|key| &**key));
                format!("yaql: the map has no key '{}'{near}", cut(name))
            }),
            // Applied to each item.
            Y::List(list) => {
                self.step(list.items.len())?;
                let items = list.items.iter().map(|item| self.member(item, name));
                self.stream(items.collect::<Result<_, _>>()?)
            }
            Y::Null | Y::Bool(_) | Y::Int(_) | Y::Float(_) | Y::Text(_) | Y::Regex(_) => {
                Err(format!("yaql: {} has no '{}'", of.describe(), cut(name)))
            }
        }
    }

    fn index(&self, of: &Y, by: &Y) -> Evaluated {
        match (of, by) {
            (Y::Map(_), Y::Text(name)) => self.member(of, name),
            (Y::List(list), Y::Int(index)) => {
                let length = i128::try_from(list.items.len()).unwrap_or(i128::MAX);
                let index = if *index < 0 { index + length } else { *index };
                let found = usize::try_from(index).ok().and_then(|index| list.items.get(index));
                found.cloned().ok_or_else(|| format!("yaql: the list has no item {index}; it has {length}"))
            }
            _ => Err(format!("yaql: {} has no item by {}", of.describe(), by.describe())),
        }
    }

    /// `let(…) -> …` and `with(…) -> …`: names for what follows.
    fn named(&self, frame: &Frame<'_>, left: &Node, right: &Node) -> Evaluated {
        let Node::Call { of: None, name, arguments, .. } = left else {
            return Err("yaql: before '->' stands let(…) or with(…)".into());
        };
        if !matches!(&**name, "let" | "with") {
            return Err(format!("yaql: before '->' stands let(…) or with(…), not {name}(…)"));
        }
        let mut names: Vec<(Box<str>, Y)> = Vec::with_capacity(arguments.len());
        for (index, Argument { key, value }) in arguments.iter().enumerate() {
            let name: Box<str> = match key {
                Some(Node::Literal(Y::Text(name))) => (**name).into(),
                Some(_) => return Err("yaql: a name is wanted before '=>'".into()),
                None if index == 0 => "".into(),
                None => (index + 1).to_string().into(),
            };
            names.push((name, self.node(frame, value)?));
        }
        self.node(&Frame { names, outer: Some(frame) }, right)
    }

    fn call(
        &self,
        frame: &Frame<'_>,
        of: Option<&Node>,
        name: &str,
        safe: bool,
        nodes: &[Argument],
    ) -> Evaluated {
        if let ("thenBy" | "thenByDescending", Some(of)) = (name, of) {
            return query::ordered_by(self, frame, of, name, nodes);
        }
        if let Some(of) = of
            && let Some(found) = sequence::cut(self, frame, of, name, nodes)
        {
            return found;
        }
        let of = of.map(|of| self.node(frame, of)).transpose()?;
        if safe && matches!(of, Some(Y::Null)) {
            return Ok(Y::Null);
        }
        self.called(&Arguments { evaluator: self, frame, name, of, nodes })
    }

    pub fn called(&self, arguments: &Arguments<'_>) -> Evaluated {
        let found = regex::call(arguments)
            .or_else(|| edit::call(arguments))
            .or_else(|| sequence::call(arguments))
            .or_else(|| query::call(arguments))
            .or_else(|| collection::call(arguments))
            .or_else(|| text::call(arguments))
            .or_else(|| number::call(arguments));
        // Names were checked when the expression was read.
        found.unwrap_or_else(|| Err(format!("yaql: '{}' does not stand here", arguments.name)))
    }

    /// A part of an expression, with these names.
    pub fn apply_named(&self, frame: &Frame<'_>, node: &Node, names: Vec<(Box<str>, Y)>) -> Evaluated {
        self.node(&Frame { names, outer: Some(frame) }, node)
    }

    /// A part of an expression, for an item.
    pub fn apply(&self, frame: &Frame<'_>, node: &Node, given: &[&Y]) -> Evaluated {
        let name = |index: usize| if index == 0 { Box::default() } else { (index + 1).to_string().into() };
        let names = given.iter().enumerate().map(|(index, value)| (name(index), (*value).clone())).collect();
        self.node(&Frame { names, outer: Some(frame) }, node)
    }
}

/// A key of a map; yaql's may be anything, JSON's are text.
pub(super) fn key_text(value: &Y) -> Result<Arc<str>, String> {
    match value {
        Y::Text(text) => Ok(Arc::clone(text)),
        Y::Null | Y::Int(_) | Y::Float(_) | Y::Bool(_) => Ok(value.shown().into()),
        Y::List(_) | Y::Map(_) | Y::Regex(_) => {
            Err(format!("yaql: want text as the key of a map, got {}", value.describe()))
        }
    }
}

/// The items of a list.
pub(super) fn items(list: &Arc<List>) -> &[Y] {
    &list.items
}
