//! A template's text → its sections, each entry checked as it is read.
//!
//! Absent: names, versions and references, which are checked afterwards (`resolve.rs`), and the syntax of functions
//! (`function.rs`).

use std::collections::{BTreeMap, BTreeSet, btree_map};

use saphyr_parser::{Event, ScalarStyle};

use crate::Limits;
use crate::build::{Reader, Stop};
use crate::error::{Errors, Place, Sink, cut, suggestion};
use crate::expression::{Entry, Expr, ExprKind};
use crate::files::TemplateFiles;
use crate::parameter::{self, ParameterDef};
use crate::parameter_groups::{self, DraftGroup};
use crate::resolve;
use crate::source::{Source, TEMPLATE, begin, end, too_large};
use crate::template::{Output, ResourceExtras, Template};
use crate::types::Kind;
use crate::version::Version;
use crate::{digest, for_each, function, ownership};

pub(crate) const SECTIONS: [&str; 7] = [
    "heat_template_version",
    "description",
    "parameter_groups",
    "parameters",
    "conditions",
    "resources",
    "outputs",
];
const SECTIONS_NOT_YET: [&str; 1] = ["parameter_merge_strategies"];
pub(crate) const RESOURCE_KEYS: [&str; 12] = [
    "type",
    "properties",
    "depends_on",
    "for_each",
    "rollout",
    "deletion_policy",
    "drift_policy",
    "update_policy",
    "external_id",
    "condition",
    "metadata",
    "description",
];
pub(crate) const OUTPUT_KEYS: [&str; 3] = ["value", "description", "condition"];

/// Reads and validates a template. `name` is the file's name for errors; `files` has the contents for
/// `get_file`, by the text written there.
pub fn parse(name: &str, text: &str, files: &BTreeMap<String, String>) -> Result<Template, Errors> {
    parse_within(name, text, files, Limits::TEXT)
}

/// As [`parse`], for a text of at most `text_max` bytes.
pub fn parse_within(
    name: &str,
    text: &str,
    files: &BTreeMap<String, String>,
    text_max: usize,
) -> Result<Template, Errors> {
    check_size(name, text, text_max)?;
    let source = Source::template(text);
    let draft = read(name, &source)?;
    resolve::resolve(name, draft, &TemplateFiles::new("", files), &|_| false)
}

/// As [`parse_within`], with an environment that `maps` some types.
pub fn parse_in(
    name: &str,
    text: &str,
    files: &BTreeMap<String, String>,
    text_max: usize,
    maps: &dyn Fn(&str) -> bool,
) -> Result<Template, Errors> {
    check_size(name, text, text_max)?;
    let source = Source::template(text);
    let draft = read(name, &source)?;
    resolve::resolve(name, draft, &TemplateFiles::new("", files), maps)
}

/// As [`parse_in`], for a template that is one of the files, under `key`: names in it are resolved
/// from there.
pub fn parse_file(
    key: &str,
    text: &str,
    files: &BTreeMap<String, String>,
    text_max: usize,
    maps: &dyn Fn(&str) -> bool,
) -> Result<Template, Errors> {
    check_size(key, text, text_max)?;
    let source = Source::template(text);
    let draft = read(key, &source)?;
    resolve::resolve(key, draft, &TemplateFiles::new(key, files), maps)
}

pub(crate) fn check_size(name: &str, text: &str, text_max: usize) -> Result<(), Errors> {
    let Some(message) = too_large("the template", text, text_max) else { return Ok(()) };
    let mut errors = Sink::new(name);
    errors.push(Place::default(), "", message);
    Err(errors.into_errors())
}

/// The files that `get_file` names in a template, so that the caller can fetch them. This checks
/// only what reading needs. The caller has bounded the text.
pub fn referenced_files(name: &str, text: &str) -> Result<BTreeSet<String>, Errors> {
    let source = Source::template(text);
    let draft = read(name, &source)?;
    Ok(draft.reader.files.iter().map(|file| file.to_string()).collect())
}

/// The sections, read but with unresolved names. Errors so far are in the reader.
pub(crate) struct Draft<'t> {
    pub reader: Reader<'t>,
    pub version: Box<str>,
    pub description: Option<Box<str>>,
    pub parameters: Vec<ParameterDef>,
    pub groups: Vec<DraftGroup>,
    pub conditions: Vec<DraftCondition>,
    pub resources: Vec<DraftResource>,
    pub outputs: Vec<Output>,
}

pub(crate) struct DraftResource {
    pub name: Box<str>,
    pub at: Place,
    /// `None` if the type is wrong, which has been reported.
    pub kind: Option<Kind>,
    pub type_at: Place,
    pub beside: Option<Box<ResourceExtras>>,
    pub properties: Expr,
    /// Numbers in [`Reader::resources`].
    pub depends_on: Box<[(u32, Place)]>,
    pub retain: bool,
}

impl DraftResource {
    /// The type, where that is not the name of its kind.
    pub fn written_type(&self) -> Option<&str> {
        self.beside.as_ref()?.type_name.as_deref()
    }

    pub fn is_conditional(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.condition.is_some())
    }
}

pub(crate) struct DraftCondition {
    pub name: Box<str>,
    pub at: Place,
    pub value: Expr,
}

/// `Err` where reading cannot go on to the end.
fn read<'t>(name: &str, source: &'t Source<'_>) -> Result<Draft<'t>, Errors> {
    let draft = read_once(name, source);
    match draft {
        Err(reader) if reader.is_amendable && source.amend() => read_once(name, source),
        draft => draft,
    }
    .map_err(|reader| reader.errors.into_errors())
}

/// The reader, where it cannot go on to the end.
fn read_once<'t>(name: &str, source: &'t Source<'_>) -> Result<Draft<'t>, Box<Reader<'t>>> {
    let mut draft = Draft {
        reader: Reader::of_heat(name, source),
        version: Box::default(),
        description: None,
        parameters: Vec::new(),
        groups: Vec::new(),
        conditions: Vec::new(),
        resources: Vec::new(),
        outputs: Vec::new(),
    };
    match draft.document() {
        Ok(()) => Ok(draft),
        Err(Stop) => Err(Box::new(draft.reader)),
    }
}

impl<'t> Draft<'t> {
    fn document(&mut self) -> Result<(), Stop> {
        match begin(&mut self.reader, TEMPLATE)? {
            None => return self.reader.stop(Place { line: 1, column: 1 }, "the template is empty"),
            Some(at) => self.sections(at)?,
        }
        end(&mut self.reader, "a template")
    }

    fn sections(&mut self, start: Place) -> Result<(), Stop> {
        let mut seen = BTreeMap::new();
        while let Some((key, at)) = self.reader.key()? {
            if let Some(first) = seen.insert(key.to_string(), at)
                && self.reader.is_given_again(at, &format!("the section '{}'", cut(&key)), first)
            {
                self.forget(&key);
            }
            let before = self.reader.path.key(&key);
            self.section(&key, at)?;
            self.reader.path.leave(before);
        }
        if !seen.contains_key("heat_template_version") {
            self.reader.error(start, "the section 'heat_template_version' is missing; 2018-08-31 will do");
        }
        Ok(())
    }

    /// Drops what a section said, for it is given again.
    fn forget(&mut self, key: &str) {
        match key {
            "parameters" => self.parameters.clear(),
            "parameter_groups" => self.groups.clear(),
            "conditions" => self.conditions.clear(),
            "resources" => self.resources.clear(),
            "outputs" => self.outputs.clear(),
            _ => {}
        }
    }

    fn section(&mut self, key: &str, at: Place) -> Result<(), Stop> {
        match key {
            "heat_template_version" => {
                let value = self.reader.expr(1)?;
                self.version = version(&mut self.reader, value);
            }
            "description" => {
                let value = self.reader.expr(1)?;
                self.description = description(&mut self.reader, value);
            }
            "parameters" => {
                let definitions = &mut self.parameters;
                self.reader.functions = false;
                entries(&mut self.reader, |reader, name, at, body| {
                    definitions.push(parameter::define(reader, name, at, body));
                })?;
                self.reader.functions = true;
                keep_last(definitions, |definition| &definition.name);
            }
            "parameter_groups" => self.groups = parameter_groups::groups(&mut self.reader)?,
            "conditions" => {
                self.reader.needs(at, "the section 'conditions'", Version::Newton);
                let conditions = &mut self.conditions;
                entries(&mut self.reader, |reader, name, at, body| {
                    let value = function::condition(reader, body);
                    conditions.push(DraftCondition { name: name.into(), at, value });
                })?;
                keep_last(conditions, |condition| &condition.name);
            }
            "resources" => {
                let resources = &mut self.resources;
                entries(&mut self.reader, |reader, name, at, body| {
                    resources.push(resource(reader, name, at, body))
                })?;
                keep_last(resources, |resource| &resource.name);
            }
            "outputs" => {
                let outputs = &mut self.outputs;
                entries(&mut self.reader, |reader, key, at, body| {
                    outputs.extend(output(reader, key, at, body))
                })?;
                keep_last(outputs, |output| &output.key);
            }
            "AWSTemplateFormatVersion" | "HeatTemplateFormatVersion" => {
                let message = "a template in the form of CloudFormation is not read: write it as HOT, with the section \
                               'heat_template_version'";
                self.reader.errors.forget();
                return self.reader.stop(at, message);
            }
            _ => {
                let message = if SECTIONS_NOT_YET.contains(&key) {
                    format!("the section '{key}' is not supported by this version yet")
                } else {
                    format!("unknown section '{}'{}", cut(key), suggestion(key, SECTIONS))
                };
                self.reader.error(at, message);
                // Read for the syntax alone: the content of an unknown section has no meaning.
                self.reader.functions = false;
                self.reader.expr(1)?;
                self.reader.functions = true;
            }
        }
        Ok(())
    }
}

/// Reads a section that is a map, an entry at a time.
pub(crate) fn entries<'t>(
    reader: &mut Reader<'t>,
    mut each: impl FnMut(&mut Reader<'t>, &str, Place, Expr),
) -> Result<(), Stop> {
    let (event, at) = reader.next()?;
    // `resources:` with nothing below it
    if matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if matches!(&**text, "" | "~" | "null")) {
        return Ok(());
    }
    if !matches!(event, Event::MappingStart(..)) {
        let found = reader.expr_from(event, at, 1)?;
        reader.error(at, format!("want a map, got {}", found.describe()));
        return Ok(());
    }
    // Keyed by a digest: that of a long section is small beside the entries.
    let mut seen: BTreeMap<u128, Place> = BTreeMap::new();
    while let Some((key, at)) = reader.key()? {
        let before = reader.path.key(&key);
        let body = reader.expr(2)?;
        match seen.entry(digest::of_bytes(key.as_bytes())) {
            btree_map::Entry::Occupied(first) => {
                if reader.is_given_again(at, &format!("'{}'", cut(&key)), *first.get()) {
                    each(reader, &key, at, body);
                }
            }
            btree_map::Entry::Vacant(entry) => {
                entry.insert(at);
                each(reader, &key, at, body);
            }
        }
        reader.path.leave(before);
    }
    Ok(())
}

/// Drops all but the last of each name.
fn keep_last<T>(list: &mut Vec<T>, name: impl Fn(&T) -> &str) {
    let mut names = BTreeSet::new();
    let kept: Vec<bool> =
        list.iter().rev().map(|item| names.insert(digest::of_bytes(name(item).as_bytes()))).collect();
    if kept.contains(&false) {
        let mut kept = kept.into_iter().rev();
        list.retain(|_| kept.next().unwrap_or(true));
    }
}

/// The version that may have been intended. An unknown date is seldom a typing error: the newest version can
/// do most.
fn nearest_version(name: &str) -> String {
    let months = |known: &&'static str| known.get(..7) == name.get(..7);
    let known = Version::names().into_iter();
    let near = match name.starts_with(|first: char| first.is_ascii_digit()) {
        true => suggestion(name, known.filter(months)),
        false => suggestion(name, known),
    };
    if near.is_empty() { format!("; the newest is {}", Version::NEWEST) } else { near }
}

fn version(reader: &mut Reader<'_>, value: Expr) -> Box<str> {
    if let ExprKind::Text(text) = value.kind {
        reader.version = Version::from_name(&text);
        if reader.version.is_none() {
            let near = nearest_version(&text);
            reader.error(value.at, format!("unknown version '{}'{near}", cut(&text)));
        }
        text
    } else {
        reader.error(value.at, format!("want a version such as 2018-08-31, got {}", value.describe()));
        Box::default()
    }
}

pub(crate) fn description(reader: &mut Reader<'_>, value: Expr) -> Option<Box<str>> {
    match value.kind {
        ExprKind::Text(text) => Some(text),
        ExprKind::Null => None,
        ExprKind::Number(number) => Some(number.to_string().into()),
        ExprKind::Bool(_) | ExprKind::List(_) | ExprKind::Map(_) | ExprKind::Call(_) | ExprKind::Invalid => {
            reader.error(value.at, format!("want text, got {}", value.describe()));
            None
        }
    }
}

fn resource(reader: &mut Reader<'_>, name: &str, at: Place, body: Expr) -> DraftResource {
    let properties = Expr::new(at, ExprKind::Map(Box::default()));
    let mut draft = DraftResource {
        name: name.into(),
        at,
        kind: None,
        type_at: at,
        beside: None,
        properties,
        depends_on: Box::default(),
        retain: false,
    };
    if name.is_empty() || name.chars().count() > Limits::NAME || name.contains(['/', '[', ']']) {
        let message =
            format!("a resource's name has 1 to {} characters, without '/', '[' and ']'", Limits::NAME);
        reader.error(at, message);
    }
    let ExprKind::Map(entries) = body.kind else {
        reader.error(body.at, format!("want a map with a 'type', got {}", body.describe()));
        return draft;
    };
    let mut typed = false;
    let (mut for_each, mut rollout, mut drift_policy) = (None, None, None);
    for entry in entries {
        let before = reader.path.key(&entry.key);
        match &*entry.key {
            "type" => {
                typed = true;
                draft.type_at = entry.value.at;
                if let Some(name) = type_name(reader, &entry.value) {
                    let kind = Kind::from_name(name).unwrap_or(Kind::Nested);
                    let written = kind == Kind::Nested || name != kind.name();
                    draft.kind = Some(kind);
                    if written {
                        draft.beside.get_or_insert_default().type_name = Some(name.into());
                    }
                }
            }
            "properties" => match entry.value.kind {
                ExprKind::Map(_) => draft.properties = entry.value,
                ExprKind::Null => {}
                ExprKind::Bool(_)
                | ExprKind::Number(_)
                | ExprKind::Text(_)
                | ExprKind::List(_)
                | ExprKind::Call(_)
                | ExprKind::Invalid => {
                    reader.error(entry.value.at, format!("want a map, got {}", entry.value.describe()))
                }
            },
            "update_policy" => draft.beside.get_or_insert_default().update_policy = Some(entry.value),
            "depends_on" => {
                let (all, whole) = depends_on(reader, &entry.value);
                draft.depends_on = all;
                if !whole.is_empty() {
                    draft.beside.get_or_insert_default().whole = whole;
                }
            }
            "for_each" => for_each = for_each::for_each(reader, entry.value),
            "rollout" => rollout = Some((entry.at, entry.value)),
            "deletion_policy" => {
                let (retain, function) = ownership::deletion_policy(reader, entry.value);
                draft.retain = retain;
                if function.is_some() {
                    draft.beside.get_or_insert_default().deletion_policy = function;
                }
            }
            "drift_policy" => drift_policy = Some(entry.value),
            "external_id" => {
                let id = ownership::external_id(reader, entry.value);
                draft.beside.get_or_insert_default().external_id = id;
            }
            "condition" => {
                reader.needs(entry.at, "'condition' of a resource", Version::Newton);
                let condition = condition(reader, entry.value);
                draft.beside.get_or_insert_default().condition = condition;
            }
            "metadata"
                if matches!(entry.value.kind, ExprKind::Map(_) | ExprKind::Null | ExprKind::Call(_)) =>
            {
                draft.beside.get_or_insert_default().metadata = Some(entry.value);
            }
            "metadata" => reader.error(entry.value.at, format!("want a map, got {}", entry.value.describe())),
            "description" => {
                description(reader, entry.value);
            }
            _ => unknown_key(reader, &entry, "a resource", &RESOURCE_KEYS),
        }
        reader.path.leave(before);
    }
    for_each::place(reader, &mut draft, for_each, rollout);
    if let Some(policy) = drift_policy {
        let before = reader.path.key("drift_policy");
        let policy = crate::drift_policy::read(reader, draft.kind, &policy);
        draft.beside.get_or_insert_default().drift_policy = policy;
        reader.path.leave(before);
    }
    if draft.kind == Some(Kind::File) {
        mode_as_written(reader, &mut draft.properties);
    }
    crate::types::refer(reader, draft.kind, &mut draft.properties);
    if !typed {
        reader.error(at, "a resource needs a 'type'");
    }
    draft
}

/// `mode: 0644` is the mode 0644: YAML 1.1 makes 420 of it, which is what nobody means who writes it there.
fn mode_as_written(reader: &Reader<'_>, properties: &mut Expr) {
    let ExprKind::Map(entries) = &mut properties.kind else { return };
    for entry in entries.iter_mut().filter(|entry| &*entry.key == "mode") {
        if let Some(octal) = reader.octals.get(&entry.value.at) {
            entry.value.kind = ExprKind::Text(octal.clone());
        }
    }
}

/// The name of the type. An unknown one may be a template's, or an environment's.
fn type_name<'e>(reader: &mut Reader<'_>, value: &'e Expr) -> Option<&'e str> {
    let ExprKind::Text(name) = &value.kind else {
        reader.error(value.at, format!("want the name of a type, got {}", value.describe()));
        return None;
    };
    Some(name)
}

/// Names, possibly repeated, and those of them with `scope: all`.
type Needs = (Box<[(u32, Place)]>, Box<[u32]>);

fn depends_on(reader: &mut Reader<'_>, value: &Expr) -> Needs {
    let items = match &value.kind {
        ExprKind::List(items) => &**items,
        ExprKind::Null => &[],
        ExprKind::Bool(_)
        | ExprKind::Number(_)
        | ExprKind::Text(_)
        | ExprKind::Map(_)
        | ExprKind::Call(_)
        | ExprKind::Invalid => std::slice::from_ref(value),
    };
    let (mut found, mut whole) = (Vec::with_capacity(items.len()), Vec::new());
    for item in items {
        match &item.kind {
            ExprKind::Text(name) => found.push((reader.resource(name), item.at)),
            ExprKind::Number(number) => found.push((reader.resource(&number.to_string()), item.at)),
            ExprKind::Map(_) => {
                if let Some((number, all)) = for_each::need(reader, item) {
                    found.push((number, item.at));
                    whole.extend(all.then_some(number));
                }
            }
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::List(_)
            | ExprKind::Call(_)
            | ExprKind::Invalid => reader
                .error(item.at, format!("want a resource's name or a list of them, got {}", item.describe())),
        }
    }
    (found.into(), whole.into())
}

fn output(reader: &mut Reader<'_>, key: &str, at: Place, body: Expr) -> Option<Output> {
    let ExprKind::Map(entries) = body.kind else {
        reader.error(body.at, format!("want a map with a 'value', got {}", body.describe()));
        return None;
    };
    let (mut value, mut text, mut given) = (None, None, None);
    for entry in entries {
        let before = reader.path.key(&entry.key);
        match &*entry.key {
            "value" => value = Some(entry.value),
            "description" => text = description(reader, entry.value),
            "condition" => {
                reader.needs(entry.at, "'condition' of an output", Version::Newton);
                given = condition(reader, entry.value);
            }
            key => {
                let near = suggestion(key, OUTPUT_KEYS);
                reader.warn(entry.at, format!("'{}' means nothing in an output, as in Heat{near}", cut(key)));
            }
        }
        reader.path.leave(before);
    }
    if value.is_none() {
        reader.error(at, "an output needs a 'value'");
    }
    Some(Output { key: key.into(), description: text, condition: given, value: value? })
}

/// `None` for null: as in Heat, that is no condition.
fn condition(reader: &mut Reader<'_>, value: Expr) -> Option<Expr> {
    (!matches!(value.kind, ExprKind::Null)).then(|| function::condition(reader, value))
}

fn unknown_key(reader: &mut Reader<'_>, entry: &Entry, owner: &str, known: &[&str]) {
    let key = &*entry.key;
    let message = format!("unknown key '{}' of {owner}{}", cut(key), suggestion(key, known.iter().copied()));
    reader.error(entry.at, message);
}
