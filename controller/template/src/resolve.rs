//! Names → indexes, and every check that needs the whole template: unknown names and types, versions, attributes,
//! properties, cycles.
//!
//! Absent: what is said of an unknown type (`types/unknown.rs`), the syntax (`parse.rs`), and the checks of nested
//! templates and of parts that conditions leave out (`tree/expand.rs`).

pub(crate) mod address;
pub(crate) mod cycle;
mod outputs;
mod parameter_groups;
mod placement;
mod walk;

use crate::Limits;
use crate::build::{Names, Reader};
use crate::digest::{self, NamesOf};
use crate::error::{Error, Errors, Path, Place, Sink, cut, suggestion};
use crate::files::{TemplateFiles, is_template};
use crate::parse::{Draft, DraftCondition, DraftResource};
use crate::template::{Attached, Condition, Resource, Template};
use crate::types::Kind;
use crate::types::unknown::unknown_type;
use crate::version::Version;
use placement::Placement;
use walk::{Resolver, Used, Uses};

/// Returns the template, or all of its errors.
pub(crate) fn resolve(
    file: &str,
    draft: Draft<'_>,
    given: &TemplateFiles<'_>,
    maps: &dyn Fn(&str) -> bool,
) -> Result<Template, Errors> {
    let Draft {
        mut reader,
        version,
        description,
        mut parameters,
        groups,
        mut conditions,
        mut resources,
        mut outputs,
    } = draft;
    parameters.sort_by(|a, b| a.name.cmp(&b.name));
    conditions.sort_by(|a, b| a.name.cmp(&b.name));
    resources.sort_by(|a, b| a.name.cmp(&b.name));
    outputs.sort_by(|a, b| a.key.cmp(&b.key));
    let parameter_names: Vec<&str> = parameters.iter().map(|p| &*p.name).collect();
    let condition_names: Vec<Box<str>> = conditions.iter().map(|c| c.name.clone()).collect();
    let condition_names: Vec<&str> = condition_names.iter().map(|name| &**name).collect();
    resources.iter_mut().for_each(|resource| look_up_type(resource, maps, &mut reader));
    let own_names: Vec<Box<str>> = resources.iter_mut().map(|r| std::mem::take(&mut r.name)).collect();
    let resource_names: Vec<&str> = own_names.iter().map(|name| &**name).collect();
    let kinds: Vec<Option<Kind>> = resources.iter().map(|r| r.kind).collect();
    let is_set = |r: &DraftResource| r.beside.as_ref().is_some_and(|beside| beside.for_each.is_some());
    let sets: Vec<bool> = resources.iter().map(is_set).collect();

    let mut errors = reader.errors;
    later_features(&reader.features, reader.version, &mut errors);
    parameter_groups::check(&groups, &parameter_names, &mut errors);
    let names = Table::new(&reader.resources, &resource_names);
    let declared = outputs::declared(&resources, &names);
    let mut resolver = Resolver {
        errors,
        path: Path::default(),
        version: reader.version,
        parameters: Table::new(&reader.parameters, &parameter_names),
        conditions: Table::new(&reader.conditions, &condition_names),
        resources: names,
        files: &reader.files,
        given,
        kinds: &kinds,
        declared: &declared,
        branches: 0,
        lazily: false,
        warnings: Vec::new(),
        may_ask_nodes: false,
        sets: &sets,
        in_set: false,
        own: 0,
        choosing: None,
        chooses: false,
        placement: Placement::default(),
    };
    let conditions = resolver.conditions(conditions);
    let mut uses: Vec<Used> = Vec::with_capacity(resources.len());
    for (index, resource) in (0..).zip(&mut resources) {
        resolver.own = index;
        uses.push(resolver.resource(resource_names[index as usize], resource));
    }
    resolver.placement.check(&resource_names, &kinds, &mut resolver.errors);
    address::add_needs(&resources, &mut uses);
    let mut pseudo =
        conditions.iter().any(|condition| condition.pseudo) || uses.iter().any(|uses| uses.pseudo);
    for output in &mut outputs {
        pseudo |= resolver.output(output).pseudo;
    }
    let mut errors = resolver.errors;
    let absent =
        resolver.warnings.into_iter().map(|(at, path, message)| Error::new(file, at, &path, &message));
    let room = Limits::ERRORS.saturating_sub(reader.warnings.len());
    reader.warnings.extend(absent.take(room));
    if let Some(cycle) = cycle::find(uses.len(), |index| &uses[index].certain) {
        report_cycle(&mut errors, &cycle, |index| (resource_names[index], resources[index].at));
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
    let names = NamesOf {
        parameters: &parameter_names,
        conditions: &conditions,
        resources: &resource_names,
        files: &files,
    };
    let digests = digests(&resources, &uses, &names);
    let outputs_digest = digest::of_outputs(&outputs, &names);
    let resources = finish(own_names, resources, uses, digests);
    let conditional = resources.iter().any(|resource| resource.condition().is_some() || resource.branches);
    let names = digest::names_digest(resources.iter().map(|resource| &*resource.name));
    let groups = groups.into_iter().map(parameter_groups::finish).collect();
    Ok(Template {
        resources,
        names,
        file: file.into(),
        version,
        description,
        parameters,
        groups,
        conditions,
        outputs,
        outputs_digest,
        files,
        conditional,
        pseudo,
        warnings: reader.warnings,
        unchecked: reader.unchecked.into_iter().collect(),
    })
}

/// Reports features of a later version that were read before the version was known.
fn later_features(features: &[Feature], version: Option<Version>, errors: &mut Sink) {
    let Some(version) = version else { return };
    for Feature { at, path, what, since } in features {
        if *since > version {
            errors.push(*at, path, needs(what, *since, version));
        }
    }
}

/// A feature that some versions lack.
pub(crate) struct Feature {
    pub at: Place,
    pub path: Box<str>,
    pub what: &'static str,
    pub since: Version,
}

pub(crate) fn needs(what: &str, since: Version, version: Version) -> String {
    format!("{what} needs heat_template_version {since} or later; this template has {version}")
}

/// An environment's mapping of a type takes precedence over the types of this build.
fn look_up_type(resource: &mut DraftResource, maps: &dyn Fn(&str) -> bool, reader: &mut Reader<'_>) {
    look_up_kind(resource, maps, reader);
    if resource.kind != Some(Kind::Nested)
        && let Some(beside) = &mut resource.beside
    {
        beside.metadata = None;
    }
}

fn look_up_kind(resource: &mut DraftResource, maps: &dyn Fn(&str) -> bool, reader: &mut Reader<'_>) {
    let Some(kind) = resource.kind else { return };
    let name = resource.written_type().unwrap_or(kind.name());
    if maps(name) {
        let name = name.into();
        resource.beside.get_or_insert_default().type_name = Some(name);
        resource.kind = Some(Kind::Nested);
    } else if resource.kind == Some(Kind::Nested) && !is_template(name) {
        let before = reader.path.key("resources");
        reader.path.key(&resource.name);
        reader.path.key("type");
        let message = unknown_type(name);
        if resource.is_conditional() {
            // As in Heat, it matters where the condition holds: the tree, which knows that, refuses it there.
            reader.warn(resource.type_at, format!("where the condition holds: {message}"));
        } else {
            reader.error(resource.type_at, message);
            resource.kind = None;
        }
        reader.path.leave(before);
    }
}

fn kind_of(resource: &DraftResource) -> Kind {
    resource.kind.expect("a resource without a type is an error, and there are none")
}

fn digests(resources: &[DraftResource], uses: &[Used], names: &NamesOf<'_>) -> Vec<u128> {
    let mut buffer = Vec::new();
    let digest = |(draft, uses): (&DraftResource, &Used)| {
        let shown = draft.written_type().unwrap_or(kind_of(draft).name());
        digest::of_resource(shown, draft, &uses.depends_on, names, &mut buffer)
    };
    resources.iter().zip(uses).map(digest).collect()
}

fn finish(
    names: Vec<Box<str>>,
    resources: Vec<DraftResource>,
    uses: Vec<Used>,
    digests: Vec<u128>,
) -> Vec<Resource> {
    let mut finished = Vec::with_capacity(resources.len());
    for (((name, draft), uses), digest) in names.into_iter().zip(resources).zip(uses).zip(digests) {
        let kind = kind_of(&draft);
        finished.push(Resource {
            name,
            kind,
            beside: draft.beside,
            requires: uses.requires,
            parameters: uses.parameters,
            conditions: uses.conditions,
            depends_on: if uses.branches { uses.depends_on } else { Box::default() },
            branches: uses.branches,
            facade: uses.facade,
            nodes: uses.nodes,
            digest,
            retain: draft.retain,
            properties: draft.properties,
            at: draft.at,
        });
    }
    finished
}

pub(crate) fn report_cycle<'a>(
    errors: &mut Sink,
    cycle: &[u32],
    resource: impl Fn(usize) -> (&'a str, Place),
) {
    let (first, at) = resource(cycle[0] as usize);
    let mut path = Path::default();
    path.key("resources");
    path.key(first);
    let names = cycle::shown(cycle, |index| resource(index as usize).0);
    errors.push(at, path.as_str(), format!("dependency cycle: {names}"));
}

/// Maps a name's number in order of appearance to its index among the defined names.
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

/// Conditions in an order in which each comes after those it refers to; `None` and an error for a cycle, or
/// for too many conditions.
fn order(conditions: &[DraftCondition], uses: &[Uses], errors: &mut Sink) -> Option<Vec<u32>> {
    let mut path = Path::default();
    path.key("conditions");
    if conditions.len() > Limits::CONDITIONS {
        let message = format!("at most {} conditions are taken", Limits::CONDITIONS);
        errors.push(conditions[0].at, path.as_str(), message);
        return None;
    }
    if let Some(cycle) = cycle::find(uses.len(), |index| &uses[index].conditions) {
        let first = &conditions[cycle[0] as usize];
        path.key(&first.name);
        let names = cycle::shown(&cycle, |index| &conditions[index as usize].name);
        errors.push(first.at, path.as_str(), format!("conditions refer to each other: {names}"));
        return None;
    }
    let mut done = vec![false; uses.len()];
    let mut order = Vec::with_capacity(uses.len());
    // Bounded by the number of conditions, of which each pass settles at least one.
    while order.len() < uses.len() {
        for index in 0..uses.len() {
            if !done[index] && uses[index].conditions.iter().all(|needed| done[*needed as usize]) {
                done[index] = true;
                order.extend(u32::try_from(index));
            }
        }
    }
    Some(order)
}

/// The finished conditions; what asks for the stack's name or id does so by way of others too.
fn finish_conditions(conditions: Vec<DraftCondition>, uses: Vec<Uses>, order: &[u32]) -> Vec<Condition> {
    let finish = |(draft, uses): (DraftCondition, &Uses)| Condition {
        name: draft.name,
        value: draft.value,
        pseudo: uses.pseudo,
        lazy: uses.absent,
        rank: 0,
    };
    let mut finished: Vec<Condition> = conditions.into_iter().zip(&uses).map(finish).collect();
    for (rank, &index) in order.iter().enumerate() {
        let needed = &uses[index as usize].conditions;
        let pseudo = needed.iter().any(|needed| finished[*needed as usize].pseudo);
        let lazy = needed.iter().any(|needed| finished[*needed as usize].lazy);
        let condition = &mut finished[index as usize];
        condition.pseudo |= pseudo;
        condition.lazy |= lazy;
        condition.rank = rank;
    }
    finished
}
