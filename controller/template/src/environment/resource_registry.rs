//! The section `resource_registry` of one environment: mappings of types, and policies for resources.
//!
//! Absent: which mapping counts for a resource (`mapping.rs`), and the wait at a hook
//! (`controller/engine/src/traversal/hook.rs`).

use crate::Limits;
use crate::build::{Reader, Stop};
use crate::error::{cut, suggestion, suggestion_or_all};
use crate::expression::{Entry, Expr, ExprKind};
use crate::files::{is_template, resolve};
use crate::hooks::{Hook, Restriction, Rule};
use crate::mapping::{self, Target, Types};
use crate::named::Named;
use crate::parse::entries;

use super::ParsedEnvironment;

/// Keys in a registry other than types and resources.
const WORDS: [&str; 2] = ["resources", "base_url"];
/// Keys in a resource other than types and nested resources.
const RESOURCE_WORDS: [&str; 3] = ["hooks", "restricted_actions", "base_url"];

/// Reads the section. `key` is the environment's own, `file` its place among the environments of the stack.
pub(super) fn read(
    reader: &mut Reader<'_>,
    one: &mut ParsedEnvironment,
    key: &str,
    file: usize,
) -> Result<(), Stop> {
    let mut lines = Vec::new();
    entries(reader, |_, key, at, body| lines.push(Entry { key: key.into(), at, value: body }))?;
    let mut section = Section { reader, file };
    let base = section.base(&lines, key);
    for line in &lines {
        let before = section.reader.path.key(&line.key);
        match (&*line.key, &line.value.kind) {
            ("base_url", _) => {}
            ("resources", ExprKind::Map(resources)) => {
                for resource in resources {
                    section.resource(resource, &mut one.policies.0, &mut one.mappings.resources, &base);
                }
            }
            ("resources", ExprKind::Null) => {}
            ("resources", _) => section.want(&line.value, "a map of resources"),
            _ => section.kind(line, &mut one.mappings.types, &base, &WORDS),
        }
        section.reader.path.leave(before);
    }
    Ok(())
}

struct Section<'r, 't> {
    reader: &'r mut Reader<'t>,
    file: usize,
}

impl Section<'_, '_> {
    fn want(&mut self, value: &Expr, wanted: &str) {
        self.reader.error(value.at, format!("want {wanted}, got {}", value.describe()));
    }

    /// The base of file names: the environment's own folder, or the one that the environment names.
    fn base(&mut self, lines: &[Entry], base: &str) -> String {
        let Some(line) = lines.iter().find(|line| &*line.key == "base_url") else { return base.to_owned() };
        match &line.value.kind {
            ExprKind::Text(folder) => resolve(base, folder) + "/",
            ExprKind::Null => base.to_owned(),
            ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::List(_)
            | ExprKind::Map(_)
            | ExprKind::Call(_)
            | ExprKind::Invalid => {
                let before = self.reader.path.key(&line.key);
                self.want(&line.value, "a folder, or the URL of one");
                self.reader.path.leave(before);
                base.to_owned()
            }
        }
    }

    /// Reads the entry of a resource or pattern, and of the resources nested in it.
    fn resource(&mut self, line: &Entry, rules: &mut Named<Rule>, types: &mut Named<Types>, base: &str) {
        let name = &*line.key;
        let before = self.reader.path.key(name);
        let wrong =
            name.is_empty() || name.chars().count() > Limits::NAME || name.contains(['?', '[', ']', '/']);
        match &line.value.kind {
            _ if wrong => {
                let message = format!(
                    "want a resource's name of 1 to {} characters, or a pattern in which '*' stands for any characters; '?', '[', ']' and '/' are not supported, \
                     and what is nested in a resource is a map in its map",
                    Limits::NAME
                );
                self.reader.error(line.at, message);
            }
            ExprKind::Null => drop(rules.enter(name)),
            ExprKind::Map(entries) => {
                let (rules, types) = (rules.enter(name), types.enter(name));
                let base = self.base(entries, base);
                for entry in entries {
                    self.part(entry, rules, types, &base);
                }
            }
            ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::Text(_)
            | ExprKind::List(_)
            | ExprKind::Call(_)
            | ExprKind::Invalid => self.want(
                &line.value,
                "a map of hooks, restricted_actions, types, and resources nested in this one",
            ),
        }
        self.reader.path.leave(before);
    }

    fn part(&mut self, entry: &Entry, rules: &mut Named<Rule>, types: &mut Named<Types>, base: &str) {
        if matches!(entry.value.kind, ExprKind::Map(_)) && !RESOURCE_WORDS.contains(&&*entry.key) {
            return self.resource(entry, rules, types, base);
        }
        let before = self.reader.path.key(&entry.key);
        match &*entry.key {
            "base_url" => {}
            "hooks" => rules.here.hooks = self.words(&entry.value, &Hook::ALL.map(|h| (h.as_str(), h.bit()))),
            "restricted_actions" => {
                let known = Restriction::ALL.map(|action| (action.as_str(), action.bit()));
                rules.here.restricted = self.words(&entry.value, &known);
            }
            _ => self.kind(entry, &mut types.here, base, &RESOURCE_WORDS),
        }
        self.reader.path.leave(before);
    }

    /// Reads the mapping of a type. `words` are other keys that may have been intended.
    fn kind(&mut self, line: &Entry, types: &mut Types, base: &str, words: &[&str]) {
        if let Err(message) = check_name(&line.key, words) {
            return self.reader.error(line.at, message);
        }
        if line.key.find('*').is_some_and(|star| star + 1 < line.key.len()) {
            let message =
                "only a '*' at the end of a type stands for others: this is the type of that very name";
            self.reader.warn(line.at, message);
        }
        let to = match &line.value.kind {
            // As in Heat: null ends the earlier mapping.
            ExprKind::Null => return types.insert(&line.key, None),
            ExprKind::Text(name) if is_template(name) => Target::File(resolve(base, name).into()),
            ExprKind::Text(name) if name.contains("::") || name.ends_with('*') => Target::Type(name.clone()),
            ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::Text(_)
            | ExprKind::List(_)
            | ExprKind::Map(_)
            | ExprKind::Call(_)
            | ExprKind::Invalid => {
                let got = if let ExprKind::Text(name) = &line.value.kind {
                    format!("'{}'", cut(name))
                } else {
                    line.value.describe().to_owned()
                };
                let message = format!(
                    "want a type such as OS::Heat::None, or a template's file ending in .yaml or .template, got {got}"
                );
                return self.reader.error(line.value.at, message);
            }
        };
        if let Target::Type(name) = &to
            && let Some(star) = name.find('*')
            && (star + 1 < name.len() || !line.key.ends_with('*'))
        {
            let message = "a '*' stands at the end of both types, or of the first alone";
            return self.reader.error(line.value.at, message);
        }
        let path = self.reader.path.as_str().into();
        types.insert(&line.key, Some(mapping::Entry { to, file: self.file, at: line.value.at, path }));
    }

    /// Reads a word or a list of words as a set of bits.
    fn words(&mut self, value: &Expr, known: &[(&str, u8)]) -> Option<u8> {
        let items = match &value.kind {
            ExprKind::List(items) => &**items,
            ExprKind::Null => return None,
            ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::Text(_)
            | ExprKind::Map(_)
            | ExprKind::Call(_)
            | ExprKind::Invalid => std::slice::from_ref(value),
        };
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let mut found = 0;
        for item in items {
            let ExprKind::Text(word) = &item.kind else {
                self.want(item, &names.join(", "));
                continue;
            };
            match known.iter().find(|(name, _)| *name == &**word) {
                Some((_, bit)) => found |= bit,
                None => self
                    .reader
                    .error(item.at, format!("unknown '{}'{}", cut(word), suggestion_or_all(word, &names))),
            }
        }
        Some(found)
    }
}

fn check_name(name: &str, words: &[&str]) -> Result<(), String> {
    let star = name.find('*');
    if name.is_empty() || name.chars().count() > Limits::NAME {
        Err(format!("a type's name has 1 to {} characters", Limits::NAME))
    } else if is_template(name) {
        Err("a template's file stands for itself: map the type that names it".to_owned())
    } else if !name.contains("::") && star.is_none() {
        let near = suggestion(name, words.iter().copied());
        let all = words.join(", ");
        Err(if near.is_empty() {
            format!("'{}' is no type, which has '::' in it; beside types there are {all}", cut(name))
        } else {
            format!("unknown key '{}'{near}", cut(name))
        })
    } else {
        Ok(())
    }
}
