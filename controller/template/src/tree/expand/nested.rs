//! Resolves the names of types where they are used, and the stacks that templates nest.
//!
//! Absent: which mapping of a type counts (`mapping.rs`), and the values that a nested stack gets (`tree/value.rs`).

use std::sync::Arc;

use super::super::parts::Below;
use super::super::value::source;
use super::{Expander, Found, Frame, ResourceForm, Step, Surroundings, number};
use crate::Limits;
use crate::digest;
use crate::error::{Errors, cut, suggestion};
use crate::expression::Expr;
use crate::files::{is_template, resolve};
use crate::mapping::{EntryId, Mapping};
use crate::parse::parse_file;
use crate::template::Template;
use crate::types::Kind;
use crate::types::unknown::unknown_type;

impl Expander<'_> {
    pub(super) fn find_type(&self, index: u32, kind: &str, path: &str, frame: &Frame<'_>) -> Step<Found> {
        let shown: Arc<str> = kind.into();
        let mapped = self.library.environment.mapping(kind, path, &frame.entries());
        let name = match mapped.map_err(|error| Errors(vec![error]))? {
            Some(Mapping::File { key, entry }) => {
                return Ok(Found { what: ResourceForm::Stack { key, entry: Some(entry) }, shown });
            }
            Some(Mapping::Type(name)) => name,
            None => kind.to_owned(),
        };
        if is_template(&name) {
            return Ok(Found {
                what: ResourceForm::Stack { key: resolve(frame.key, &name), entry: None },
                shown,
            });
        }
        match Kind::from_name(&name) {
            Some(kind) => Ok(Found { what: ResourceForm::Plain(kind), shown }),
            None => self.wrong(index, None, &unknown_type(&name)),
        }
    }

    pub(super) fn nested(
        &mut self,
        index: u32,
        key: &str,
        entry: Option<EntryId>,
        inside: &Surroundings,
        frame: &Frame<'_>,
    ) -> Step<()> {
        if let Some(cycle) = frame.cycle(key) {
            return self.wrong(index, None, &format!("templates are nested in a cycle: {cycle}"));
        }
        let template = self.template(index, key)?;
        self.check_names(index, &template)?;
        let frame = Frame { up: frame.up, key, entry, depth: frame.depth };
        let scope = number(self.parts.scopes.len());
        self.parts.instances[index as usize].below = Below::Scope(scope);
        let name = Arc::clone(&self.parts.instances[index as usize].name);
        let mut requires = self.stack(Arc::clone(&template), index, &name, inside, &frame)?;
        requires.extend_from_slice(&inside.requires);
        let names = self.digest_of_names(&requires);
        let file = digest::of_bytes(key.as_bytes());
        let values = self.digests[scope as usize].iter().copied();
        let own = [file, names, template.outputs_digest];
        self.parts.instances[index as usize].definition = digest::of_all(own.into_iter().chain(values));
        self.set_requires(index, requires)
    }

    pub(super) fn template(&mut self, index: u32, key: &str) -> Step<Arc<Template>> {
        if let Some(known) = self.library.templates.get(key) {
            return Ok(Arc::clone(known));
        }
        let Some(text) = self.library.files.get(key) else {
            let near = suggestion(key, self.library.files.keys().map(String::as_str));
            let message = format!("the template '{}' was not given with this one{near}", cut(key));
            return self.wrong(index, None, &message);
        };
        if self.library.templates.len() >= Limits::FILES {
            let message = format!("a stack is made of at most {} templates", Limits::FILES);
            return self.wrong(index, None, &message);
        }
        let environment = self.library.environment;
        let maps = |kind: &str| environment.maps(kind);
        let template = Arc::new(parse_file(key, text, self.library.files, Limits::TEXT, &maps)?);
        self.library.templates.insert(key.to_owned(), Arc::clone(&template));
        Ok(template)
    }

    /// Refuses values for parameters that the nested template lacks.
    fn check_names(&self, index: u32, template: &Template) -> Step<()> {
        let (scope, at, way) = self.parts.written(index);
        let given = source(&self.parts.scopes[scope as usize].template, at, &way)
            .and_then(Expr::keys)
            .unwrap_or_default();
        let unknown = given.into_iter().find(|name| template.parameter(name).is_none());
        if let Some(name) = unknown {
            let near = suggestion(name, template.parameters.iter().map(|known| &*known.name));
            let message = format!("'{}' has no parameter '{}'{near}", template.file, cut(name));
            let name = name.to_owned();
            return self.wrong(index, Some(&name), &message);
        }
        Ok(())
    }
}

impl Frame<'_> {
    /// The lines of environments that led to the open stacks.
    pub(super) fn entries(&self) -> Vec<EntryId> {
        let frames = std::iter::successors(Some(self), |frame| frame.up);
        frames.filter_map(|frame| frame.entry).collect()
    }

    /// `a -> b -> a`, if that template is open.
    pub(super) fn cycle(&self, key: &str) -> Option<String> {
        let frames = std::iter::successors(Some(self), |frame| frame.up);
        let mut names: Vec<&str> = vec![key];
        for frame in frames {
            if names.last() != Some(&frame.key) && !frame.key.is_empty() {
                names.push(frame.key);
            }
            if frame.key == key {
                names.reverse();
                if names.len() == 1 {
                    names.push(key);
                }
                return Some(names.iter().map(|name| cut(name)).collect::<Vec<_>>().join(" -> "));
            }
        }
        None
    }
}
