//! Names → indexes, and every check that needs the whole template: unknown names, attributes, properties, cycles.

use crate::build::Names;
use crate::check;
use crate::digest::{self, NamesOf};
use crate::error::{Errors, Path, Place, Sink, cut, suggestion, suggestion_or_all};
use crate::expression::{Call, Expr, ExprKind};
use crate::library::Given;
use crate::parse::{Draft, DraftResource};
use crate::template::{Attached, Resource, Template};
use crate::types::Kind;

/// The template, or all that is wrong with it.
pub(crate) fn resolve(file: &str, draft: Draft<'_>, given: &Given<'_>) -> Result<Template, Errors> {
    let Draft { reader, version, description, mut parameters, mut resources, mut outputs } = draft;
    parameters.sort_by(|a, b| a.name.cmp(&b.name));
    resources.sort_by(|a, b| a.name.cmp(&b.name));
    outputs.sort_by(|a, b| a.key.cmp(&b.key));
    let parameter_names: Vec<&str> = parameters.iter().map(|p| &*p.name).collect();
    let resource_names: Vec<Box<str>> = resources.iter().map(|r| r.name.clone()).collect();
    let resource_names: Vec<&str> = resource_names.iter().map(|name| &**name).collect();
    let kinds: Vec<Option<Kind>> = resources.iter().map(|r| r.kind).collect();

    let mut resolver = Resolver {
        errors: reader.errors,
        path: Path::default(),
        parameters: Table::new(&reader.parameters, &parameter_names),
        resources: Table::new(&reader.resources, &resource_names),
        files: &reader.files,
        given,
        kinds: &kinds,
    };
    let mut uses: Vec<Uses> = Vec::with_capacity(resources.len());
    for resource in &mut resources {
        uses.push(resolver.resource(resource));
    }
    for output in &mut outputs {
        let before = resolver.path.key("outputs");
        resolver.path.key(&output.key);
        resolver.path.key("value");
        resolver.expr(&mut output.value, &mut Uses::default());
        resolver.path.leave(before);
    }
    let mut errors = resolver.errors;
    if let Some(cycle) = find_cycle(&uses) {
        report_cycle(&mut errors, &cycle, &resources);
    }
    if !errors.is_empty() {
        return Err(errors.into_errors());
    }
    let files: Vec<Attached> = reader
        .files
        .iter()
        .map(|name| {
            let content = given.get(name).map_or("", String::as_str);
            Attached { content: content.into(), digest: digest::of_bytes(content.as_bytes()) }
        })
        .collect();
    let names = NamesOf { parameters: &parameter_names, resources: &resource_names, files: &files };
    let resources = finish(resources, uses, &names);
    let names = digest::names_digest(resources.iter().map(|resource| &*resource.name));
    Ok(Template { resources, names, file: file.into(), version, description, parameters, outputs, files })
}

fn finish(resources: Vec<DraftResource>, uses: Vec<Uses>, names: &NamesOf<'_>) -> Vec<Resource> {
    let mut buffer = Vec::new();
    let mut finished = Vec::with_capacity(resources.len());
    for (draft, uses) in resources.into_iter().zip(uses) {
        let kind = draft.kind.expect("a resource without a type is an error, and there are none");
        let digest = digest::of_resource(kind.name(), &draft, &uses.depends_on, names, &mut buffer);
        finished.push(Resource {
            name: draft.name,
            kind,
            requires: uses.requires.into(),
            parameters: uses.parameters.into(),
            digest,
            retain: draft.retain,
            external_id: draft.external_id,
            properties: draft.properties,
            at: draft.at,
        });
    }
    finished
}

/// What one resource refers to, by index; sorted and unique.
#[derive(Default)]
struct Uses {
    depends_on: Vec<u32>,
    requires: Vec<u32>,
    parameters: Vec<u32>,
}

/// From a name's number in order of appearance to its index among the defined names.
struct Table<'a> {
    names: &'a Names,
    defined: &'a [&'a str],
    indexes: Vec<Option<u32>>,
}

impl<'a> Table<'a> {
    fn new(names: &'a Names, defined: &'a [&'a str]) -> Self {
        let index = |name: &str| defined.binary_search(&name).ok().and_then(|i| u32::try_from(i).ok());
        Self { names, defined, indexes: names.iter().map(|name| index(name)).collect() }
    }

    fn index(&self, number: u32, what: &str) -> Result<u32, String> {
        self.indexes[number as usize].ok_or_else(|| {
            let name = &self.names[number as usize];
            format!("there is no {what} '{}'{}", cut(name), suggestion(name, self.defined.iter().copied()))
        })
    }
}

struct Resolver<'a> {
    errors: Sink,
    path: Path,
    parameters: Table<'a>,
    resources: Table<'a>,
    files: &'a Names,
    given: &'a Given<'a>,
    kinds: &'a [Option<Kind>],
}

impl Resolver<'_> {
    fn resource(&mut self, resource: &mut DraftResource) -> Uses {
        let mut uses = Uses::default();
        let before = self.path.key("resources");
        let inner = {
            self.path.key(&resource.name);
            self.path.key("depends_on")
        };
        for &(number, at) in &resource.depends_on {
            if let Some(index) = self.report(at, self.resources.index(number, "resource")) {
                uses.depends_on.push(index);
            }
        }
        self.path.leave(inner);
        if let Some(id) = &mut resource.external_id {
            self.path.key("external_id");
            self.expr(id, &mut uses);
            self.path.leave(inner);
        }
        self.path.key("properties");
        self.expr(&mut resource.properties, &mut uses);
        if let Some(kind) = resource.kind {
            check::properties(kind, &resource.properties, resource.at, &mut self.errors, &mut self.path);
        }
        self.path.leave(before);
        uses.requires.extend_from_slice(&uses.depends_on);
        for list in [&mut uses.depends_on, &mut uses.requires, &mut uses.parameters] {
            list.sort_unstable();
            list.dedup();
        }
        uses
    }

    fn report(&mut self, at: Place, found: Result<u32, String>) -> Option<u32> {
        found.map_err(|message| self.errors.push(at, self.path.as_str(), message)).ok()
    }

    fn expr(&mut self, expr: &mut Expr, uses: &mut Uses) {
        match &mut expr.kind {
            ExprKind::Null
            | ExprKind::Invalid
            | ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::Text(_) => {}
            ExprKind::List(items) => self.list(items, 0, uses),
            ExprKind::Map(entries) => {
                for entry in entries {
                    let before = self.path.key(&entry.key);
                    self.expr(&mut entry.value, uses);
                    self.path.leave(before);
                }
            }
            ExprKind::Call(call) => self.call(expr.at, call, uses),
        }
    }

    fn list(&mut self, items: &mut [Expr], first: usize, uses: &mut Uses) {
        for (i, item) in items.iter_mut().enumerate() {
            let before = self.path.item(first + i);
            self.expr(item, uses);
            self.path.leave(before);
        }
    }

    fn call(&mut self, at: Place, call: &mut Call, uses: &mut Uses) {
        match call {
            Call::GetParam { parameter, path } => {
                let before = self.path.key("get_param");
                if let Some(index) = self.report(at, self.parameters.index(*parameter, "parameter")) {
                    *parameter = index;
                    uses.parameters.push(index);
                }
                self.list(path, 1, uses);
                self.path.leave(before);
            }
            Call::GetResource { resource } => {
                let before = self.path.key("get_resource");
                self.target(at, resource, uses);
                self.path.leave(before);
            }
            Call::GetAttr { resource, attribute, path } => {
                let before = self.path.key("get_attr");
                if let Some(kind) = self.target(at, resource, uses) {
                    self.attribute(at, kind, attribute);
                }
                self.list(path, 2, uses);
                self.path.leave(before);
            }
            Call::GetFile { file } => {
                let name = &self.files[*file as usize];
                if !self.given.contains_key(name) {
                    let near = suggestion(name, self.given.keys().map(String::as_str));
                    let before = self.path.key("get_file");
                    let message = format!("the file '{}' was not given with the template{near}", cut(name));
                    self.errors.push(at, self.path.as_str(), message);
                    self.path.leave(before);
                }
            }
            Call::StrReplace { template, params } => {
                let before = self.path.key("str_replace");
                for (key, expr) in [("template", template), ("params", params)] {
                    let inner = self.path.key(key);
                    self.expr(expr, uses);
                    self.path.leave(inner);
                }
                self.path.leave(before);
            }
            Call::ListJoin { delimiter, lists } => {
                let before = self.path.key("list_join");
                self.list(std::slice::from_mut(delimiter), 0, uses);
                self.list(lists, 1, uses);
                self.path.leave(before);
            }
        }
    }

    fn target(&mut self, at: Place, resource: &mut u32, uses: &mut Uses) -> Option<Kind> {
        let index = self.report(at, self.resources.index(*resource, "resource"))?;
        *resource = index;
        uses.requires.push(index);
        self.kinds[index as usize]
    }

    fn attribute(&mut self, at: Place, kind: Kind, attribute: &str) {
        let Some(known) = kind.attributes() else { return };
        if known.contains(&attribute) {
            return;
        }
        let message = if known.is_empty() {
            format!("{} has no attributes", kind.name())
        } else {
            let near = suggestion_or_all(attribute, known);
            format!("{} has no attribute '{}'{near}", kind.name(), cut(attribute))
        };
        self.errors.push(at, self.path.as_str(), message);
    }
}

/// The first cycle in order of names, beginning with its first name. Without recursion: a chain may be 100,000 long.
fn find_cycle(uses: &[Uses]) -> Option<Vec<u32>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; uses.len()];
    for start in 0..uses.len() {
        // Each level: a resource, and how many of those it needs have been looked at.
        let mut stack = vec![(start, 0)];
        while let Some((at, next)) = stack.last_mut() {
            let at = *at;
            if *next == 0 {
                if marks[at] == Mark::Done {
                    stack.pop();
                    continue;
                }
                marks[at] = Mark::Open;
            }
            let Some(&needed) = uses[at].requires.get(*next) else {
                marks[at] = Mark::Done;
                stack.pop();
                continue;
            };
            *next += 1;
            match marks[needed as usize] {
                Mark::New => stack.push((needed as usize, 0)),
                Mark::Done => {}
                Mark::Open => {
                    let from = stack.iter().position(|(at, _)| *at == needed as usize)?;
                    let mut cycle: Vec<u32> =
                        stack[from..].iter().filter_map(|(at, _)| u32::try_from(*at).ok()).collect();
                    let least = cycle.iter().enumerate().min_by_key(|(_, at)| **at).map_or(0, |(i, _)| i);
                    cycle.rotate_left(least);
                    return Some(cycle);
                }
            }
        }
    }
    None
}

fn report_cycle(errors: &mut Sink, cycle: &[u32], resources: &[DraftResource]) {
    /// Names shown of a long cycle, from either end.
    const SHOWN: usize = 8;
    let name = |index: &u32| cut(&resources[*index as usize].name).to_owned();
    let mut names: Vec<String> = cycle.iter().map(name).collect();
    if names.len() > 2 * SHOWN + 1 {
        let left_out = names.len() - 2 * SHOWN;
        names.splice(SHOWN..SHOWN + left_out, [format!("… {left_out} more …")]);
    }
    let first = &resources[cycle[0] as usize];
    let message = format!("dependency cycle: {} -> {}", names.join(" -> "), cut(&first.name));
    let mut path = Path::default();
    path.key("resources");
    path.key(&first.name);
    errors.push(first.at, path.as_str(), message);
}
