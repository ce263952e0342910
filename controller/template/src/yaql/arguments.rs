//! The arguments of a function: the value before the point is the first argument.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::evaluate::{Evaluated, Evaluator, Frame};
use super::parse::{Argument, Node};
use super::value::{List, Y};
use crate::error::{cut, suggestion};

pub(super) struct Arguments<'a> {
    pub evaluator: &'a Evaluator,
    pub frame: &'a Frame<'a>,
    pub name: &'a str,
    pub of: Option<Y>,
    pub nodes: &'a [Argument],
}

impl<'a> Arguments<'a> {
    pub fn count(&self) -> usize {
        usize::from(self.of.is_some()) + self.nodes.len()
    }

    pub fn want(&self, least: usize, most: usize) -> Result<(), String> {
        if (least..=most).contains(&self.count()) {
            return Ok(());
        }
        let number = if self.count() < least { "few" } else { "many" };
        Err(format!("yaql: '{}' has too {number} arguments", self.name))
    }

    /// The tree of an argument that is evaluated for each item.
    pub fn node(&self, index: usize) -> Option<&'a Node> {
        let index = index.checked_sub(usize::from(self.of.is_some()))?;
        self.nodes.get(index).map(|argument| &argument.value)
    }

    pub fn value(&self, index: usize) -> Evaluated {
        match &self.of {
            Some(of) if index == 0 => Ok(of.clone()),
            _ => match self.node(index) {
                Some(node) => self.evaluator.node(self.frame, node),
                None => Err(format!("yaql: '{}' has too few arguments", self.name)),
            },
        }
    }

    pub fn optional(&self, index: usize) -> Result<Option<Y>, String> {
        if index < self.count() { self.value(index).map(Some) } else { Ok(None) }
    }

    pub fn all(&self) -> Result<Vec<Y>, String> {
        (0..self.count()).map(|index| self.value(index)).collect()
    }

    /// The argument of that index, for these.
    pub fn apply(&self, index: usize, given: &[&Y]) -> Evaluated {
        match self.node(index) {
            Some(node) => self.evaluator.apply(self.frame, node, given),
            None => Err(format!("yaql: '{}' has too few arguments", self.name)),
        }
    }

    /// The same, with these names.
    pub fn apply_named(&self, index: usize, names: Vec<(Box<str>, Y)>) -> Evaluated {
        match self.node(index) {
            Some(node) => self.evaluator.apply_named(self.frame, node, names),
            None => Err(format!("yaql: '{}' has too few arguments", self.name)),
        }
    }

    /// The name before `=>`, if the argument has one.
    pub fn name_of(&self, index: usize) -> Result<Option<Arc<str>>, String> {
        let place = index.checked_sub(usize::from(self.of.is_some()));
        match place.and_then(|place| self.nodes.get(place)).map(|argument| &argument.key) {
            Some(Some(Node::Literal(Y::Text(name)))) => Ok(Some(Arc::clone(name))),
            Some(Some(_)) => Err("yaql: a name is wanted before '=>'".into()),
            Some(None) | None => Ok(None),
        }
    }

    /// The index of the argument for each parameter of the function: by order, and those with `=>` by name.
    pub fn placed<const N: usize>(&self, parameters: [&str; N]) -> Result<[Option<usize>; N], String> {
        self.want(0, N)?;
        let mut found = [None; N];
        for index in 0..self.count() {
            let place = match self.name_of(index)? {
                None => index,
                Some(name) => parameters.iter().position(|known| **known == *name).ok_or_else(|| {
                    let near = suggestion(&name, parameters.iter().copied());
                    format!("yaql: '{}' takes no '{}'{near}", self.name, cut(&name))
                })?,
            };
            found[place] = Some(index);
        }
        Ok(found)
    }

    /// Whether the argument is true; false if it is not there.
    pub fn flag(&self, index: Option<usize>) -> Result<bool, String> {
        index.map_or(Ok(false), |index| Ok(self.value(index)?.is_true()))
    }

    /// Whether the argument is a call of this function.
    pub fn calls(&self, index: usize, function: &str) -> bool {
        matches!(self.node(index), Some(Node::Call { name, .. }) if **name == *function)
    }

    /// The argument of that index, applied to the item; the item itself if there is no such argument.
    pub fn selected(&self, index: usize, item: &Y) -> Evaluated {
        if self.node(index).is_some() { self.apply(index, &[item]) } else { Ok(item.clone()) }
    }

    pub fn wants(&self, wanted: &str, got: &Y) -> String {
        format!("yaql: '{}' wants {wanted}, got {}", self.name, got.describe())
    }

    pub fn list(&self, index: usize) -> Result<Arc<List>, String> {
        match self.value(index)? {
            Y::List(list) => Ok(list),
            other @ (Y::Null
            | Y::Bool(_)
            | Y::Int(_)
            | Y::Float(_)
            | Y::Text(_)
            | Y::Map(_)
            | Y::Regex(_)) => Err(self.wants("a list", &other)),
        }
    }

    pub fn map(&self, index: usize) -> Result<Arc<super::value::Map>, String> {
        match self.value(index)? {
            Y::Map(map) => Ok(map),
            other @ (Y::Null
            | Y::Bool(_)
            | Y::Int(_)
            | Y::Float(_)
            | Y::Text(_)
            | Y::List(_)
            | Y::Regex(_)) => Err(self.wants("a map", &other)),
        }
    }

    pub fn text(&self, index: usize) -> Result<Arc<str>, String> {
        match self.value(index)? {
            Y::Text(text) => Ok(text),
            other @ (Y::Null
            | Y::Bool(_)
            | Y::Int(_)
            | Y::Float(_)
            | Y::List(_)
            | Y::Map(_)
            | Y::Regex(_)) => Err(self.wants("text", &other)),
        }
    }

    pub fn int(&self, index: usize) -> Result<i128, String> {
        match self.value(index)? {
            Y::Int(n) => Ok(n),
            other @ (Y::Null
            | Y::Bool(_)
            | Y::Float(_)
            | Y::Text(_)
            | Y::List(_)
            | Y::Map(_)
            | Y::Regex(_)) => Err(self.wants("a whole number", &other)),
        }
    }

    /// A number of items.
    pub fn size(&self, index: usize) -> Result<usize, String> {
        usize::try_from(self.int(index)?.max(0))
            .map_err(|_| format!("yaql: '{}': too large a number", self.name))
    }

    pub fn stream(&self, items: Vec<Y>) -> Evaluated {
        self.evaluator.stream(items)
    }

    /// A map of lists of two items each.
    pub fn map_of_pairs(&self, pairs: &[Y]) -> Evaluated {
        let mut entries = BTreeMap::new();
        for pair in pairs {
            if let Y::List(pair) = pair
                && pair.items.len() == 2
            {
                entries.insert(super::evaluate::key_text(&pair.items[0])?, pair.items[1].clone());
            } else {
                return Err(self.wants("pairs of a key and a value", pair));
            }
        }
        self.evaluator.map(entries)
    }
}
