//! The syntax of functions that refer to something: a parameter, a resource, a file, the outer resource of a nested
//! stack. `render.rs` has their values.

use muster_shared::model::Spec;

use super::text_in;
use crate::build::{Reader, number};
use crate::error::{Place, cut, suggestion_or_all};
use crate::expression::{Call, Expr, ExprKind, FacadePart, Pseudo};
use crate::fact::{FACTS, PARTS_MAX};

const PSEUDO: [(&str, Pseudo); 2] =
    [("OS::stack_name", Pseudo::StackName), ("OS::stack_id", Pseudo::StackId)];

pub(super) fn get_param(reader: &mut Reader<'_>, argument: Expr, at: Place) -> Option<Call> {
    let (name, path) = name_and_path(reader, argument, "[PARAMETER, KEY, …]")?;
    if !name.starts_with("OS::") {
        return Some(Call::GetParam { parameter: number(&mut reader.parameters, name), path });
    }
    let message = match PSEUDO.iter().find(|(known, _)| *known == &*name) {
        Some((_, pseudo)) if path.is_empty() => return Some(Call::Pseudo(*pseudo)),
        Some((name, _)) => format!("the parameter '{name}' is text; it has no keys"),
        None if &*name == "OS::project_id" => {
            "the parameter 'OS::project_id' is not supported: there are no projects here".to_owned()
        }
        None => {
            let near = suggestion_or_all(&name, &PSEUDO.map(|(name, _)| name));
            format!("there is no parameter '{}'{near}", cut(&name))
        }
    };
    reader.error(at, message);
    None
}

pub(super) fn get_resource(reader: &mut Reader<'_>, argument: Expr) -> Option<Call> {
    let resource = text_in(reader, argument, "the name of a resource")?;
    Some(Call::GetResource { resource: number(&mut reader.resources, resource) })
}

pub(super) fn get_attr(reader: &mut Reader<'_>, argument: Expr) -> Option<Call> {
    const WANTED: &str = "[RESOURCE, ATTRIBUTE, KEY, …]";
    let at = argument.at;
    let ExprKind::List(items) = argument.kind else {
        reader.error(at, format!("want {WANTED}, got {}", argument.describe()));
        return None;
    };
    if items.len() == 1 {
        reader.error(at, format!("want {WANTED}: all attributes at once are not given, name one"));
        return None;
    }
    let mut items = items.into_iter();
    let (Some(resource), Some(attribute)) = (items.next(), items.next()) else {
        reader.error(at, format!("want {WANTED}, got too few items"));
        return None;
    };
    let resource = text_in(reader, resource, "the name of a resource")?;
    let place = attribute.at;
    let attribute = text_in(reader, attribute, "the name of an attribute")?;
    if &*attribute == Spec::STATE {
        reader.error(place, format!("'{attribute}' is for 'restart_on' alone"));
        return None;
    }
    Some(Call::GetAttr {
        resource: number(&mut reader.resources, resource),
        attribute,
        path: items.collect(),
    })
}

pub(super) fn get_file(reader: &mut Reader<'_>, argument: Expr) -> Option<Call> {
    let file = text_in(reader, argument, "the name of a file")?;
    Some(Call::GetFile { file: number(&mut reader.files, file) })
}

/// The properties of a node other than its facts.
const OF_NODES: [&str; 2] = ["labels", "name"];

pub(super) fn get_node(reader: &mut Reader<'_>, argument: Expr) -> Option<Call> {
    const WANTED: &str = "[NODE, FACT, KEY, …]";
    if let ExprKind::Text(name) = &argument.kind {
        // Concerns the node for which a for_each makes the resource.
        return known_of_nodes(reader, argument.at, name)
            .then(|| Call::GetNode { parts: Box::new([argument]) });
    }
    let ExprKind::List(parts) = argument.kind else {
        let message = format!("want {WANTED}, got {}", argument.describe());
        reader.error(argument.at, message);
        return None;
    };
    if parts.len() > PARTS_MAX + 1 {
        let message =
            format!("want {WANTED} with {PARTS_MAX} parts of a fact at most, got {}", parts.len() - 1);
        reader.error(argument.at, message);
        return None;
    }
    let Some(asked) = parts.get(1) else {
        reader.error(argument.at, format!("want {WANTED}, got too few items"));
        return None;
    };
    if let ExprKind::Text(name) = &asked.kind
        && !known_of_nodes(reader, asked.at, name)
    {
        return None;
    }
    Some(Call::GetNode { parts })
}

/// Whether nodes have this property; if not, reports the error.
fn known_of_nodes(reader: &mut Reader<'_>, at: Place, name: &str) -> bool {
    let known: Vec<&str> = OF_NODES.iter().chain(&FACTS).copied().collect();
    let is_known = known.contains(&name);
    if !is_known {
        let near = suggestion_or_all(name, &known);
        reader.error(at, format!("unknown fact '{}'{near}", cut(name)));
    }
    is_known
}

pub(super) fn resource_facade(reader: &mut Reader<'_>, argument: &Expr) -> Option<Call> {
    const PARTS: [(&str, FacadePart); 3] = [
        ("deletion_policy", FacadePart::DeletionPolicy),
        ("metadata", FacadePart::Metadata),
        ("update_policy", FacadePart::UpdatePolicy),
    ];
    let names = PARTS.map(|(name, _)| name);
    let ExprKind::Text(name) = &argument.kind else {
        reader.error(argument.at, format!("want {}, got {}", names.join(" or "), argument.describe()));
        return None;
    };
    let found = PARTS.iter().find(|(known, _)| *known == &**name);
    if found.is_none() {
        let near = suggestion_or_all(name, &names);
        reader.error(argument.at, format!("unknown data type '{}'{near}", cut(name)));
    }
    found.map(|(_, part)| Call::Facade(*part))
}

fn name_and_path(reader: &mut Reader<'_>, argument: Expr, wanted: &str) -> Option<(Box<str>, Box<[Expr]>)> {
    if let ExprKind::List(items) = argument.kind {
        let mut items = items.into_iter();
        let Some(first) = items.next() else {
            reader.error(argument.at, format!("want {wanted}, got an empty list"));
            return None;
        };
        Some((text_in(reader, first, "a name first")?, items.collect()))
    } else {
        Some((text_in(reader, argument, &format!("a name or {wanted}"))?, Box::default()))
    }
}
