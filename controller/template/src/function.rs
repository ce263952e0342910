//! HOT's functions as they are written: a map with one key, the function's name.

use crate::build::{Reader, number};
use crate::error::{Place, cut, suggestion};
use crate::expression::{Call, Entry, Expr, ExprKind};

/// Functions of this build.
const KNOWN: [&str; 6] = ["get_attr", "get_file", "get_param", "get_resource", "list_join", "str_replace"];

/// HOT's other functions, Heat's old ones and Muster's own to come: refused by name.
const NOT_YET: [&str; 24] = [
    "and",
    "contains",
    "digest",
    "equals",
    "filter",
    "get_node",
    "if",
    "list_concat",
    "list_concat_unique",
    "make_url",
    "map_merge",
    "map_replace",
    "not",
    "or",
    "repeat",
    "resource_facade",
    "str_replace_strict",
    "str_replace_vstrict",
    "str_split",
    "yaql",
    "Ref",
    "Fn::GetAtt",
    "Fn::Join",
    "Fn::Select",
];

/// `; did you mean 'X'?` for a name that is no function.
pub(crate) fn suggest(name: &str) -> String {
    suggestion(name, KNOWN)
}

/// What a map that was read stands for: itself, or a call.
pub(crate) fn recognise(reader: &mut Reader<'_>, entries: Vec<Entry>, at: Place) -> ExprKind {
    if entries.len() != 1 {
        if let Some(entry) = entries.iter().find(|entry| KNOWN.contains(&&*entry.key)) {
            let message = format!("the function '{}' must be the only key of its map", entry.key);
            reader.error(entry.at, message);
            return ExprKind::Invalid;
        }
        return ExprKind::Map(entries.into());
    }
    let name = &*entries[0].key;
    if !KNOWN.contains(&name) {
        if let Some(message) = refusal(name) {
            reader.error(entries[0].at, message);
            return ExprKind::Invalid;
        }
        return ExprKind::Map(entries.into());
    }
    let Some(Entry { key, value, .. }) = entries.into_iter().next() else { return ExprKind::Invalid };
    let before = reader.path.key(&key);
    let call = call(reader, &key, value, at);
    reader.path.leave(before);
    call.map_or(ExprKind::Invalid, |call| ExprKind::Call(Box::new(call)))
}

/// Why a one-key map is not data. A key near to a function's name is a misspelt function; any other is data.
fn refusal(name: &str) -> Option<String> {
    if NOT_YET.contains(&name) {
        return Some(format!("the function '{name}' is not supported by this version yet"));
    }
    let near = suggest(name);
    (!near.is_empty() || name.starts_with("get_") || name.starts_with("Fn::"))
        .then(|| format!("unknown function '{}'{near}", cut(name)))
}

/// The call, or nothing where its arguments are wrong, which has been said then.
fn call(reader: &mut Reader<'_>, name: &str, argument: Expr, at: Place) -> Option<Call> {
    match name {
        "get_param" => {
            let (name, path) = name_and_path(reader, argument, "[PARAMETER, KEY, …]")?;
            if name.starts_with("OS::") {
                reader.error(
                    at,
                    format!("the parameter '{}' is not supported by this version yet", cut(&name)),
                );
                return None;
            }
            Some(Call::GetParam { parameter: number(&mut reader.parameters, name), path })
        }
        "get_resource" => {
            let resource = text(reader, argument, "the name of a resource")?;
            Some(Call::GetResource { resource: number(&mut reader.resources, resource) })
        }
        "get_attr" => get_attr(reader, argument),
        "get_file" => {
            let file = text(reader, argument, "the name of a file")?;
            Some(Call::GetFile { file: number(&mut reader.files, file) })
        }
        "str_replace" => str_replace(reader, argument),
        _ => list_join(reader, argument),
    }
}

fn text(reader: &mut Reader<'_>, argument: Expr, wanted: &str) -> Option<Box<str>> {
    match argument.kind {
        ExprKind::Text(text) => Some(text),
        ExprKind::Number(number) => Some(number.to_string().into()),
        _ => {
            reader.error(argument.at, format!("want {wanted}, got {}", argument.describe()));
            None
        }
    }
}

fn name_and_path(reader: &mut Reader<'_>, argument: Expr, wanted: &str) -> Option<(Box<str>, Box<[Expr]>)> {
    match argument.kind {
        ExprKind::List(items) => {
            let mut items = items.into_iter();
            let Some(first) = items.next() else {
                reader.error(argument.at, format!("want {wanted}, got an empty list"));
                return None;
            };
            Some((text(reader, first, "a name first")?, items.collect()))
        }
        _ => Some((text(reader, argument, &format!("a name or {wanted}"))?, Box::default())),
    }
}

fn get_attr(reader: &mut Reader<'_>, argument: Expr) -> Option<Call> {
    const WANTED: &str = "[RESOURCE, ATTRIBUTE, KEY, …]";
    let at = argument.at;
    let ExprKind::List(items) = argument.kind else {
        reader.error(at, format!("want {WANTED}, got {}", argument.describe()));
        return None;
    };
    let mut items = items.into_iter();
    let (Some(resource), Some(attribute)) = (items.next(), items.next()) else {
        reader.error(at, format!("want {WANTED}, got too few items"));
        return None;
    };
    let resource = text(reader, resource, "the name of a resource")?;
    let attribute = text(reader, attribute, "the name of an attribute")?;
    Some(Call::GetAttr {
        resource: number(&mut reader.resources, resource),
        attribute,
        path: items.collect(),
    })
}

fn str_replace(reader: &mut Reader<'_>, argument: Expr) -> Option<Call> {
    let at = argument.at;
    let ExprKind::Map(entries) = argument.kind else {
        reader.error(at, format!("want {{template: …, params: {{…}}}}, got {}", argument.describe()));
        return None;
    };
    let (mut template, mut params) = (None, None);
    for Entry { key, at, value } in entries {
        match &*key {
            "template" => template = Some(value),
            "params" => params = Some(value),
            _ => {
                let near = suggestion(&key, ["template", "params"]);
                reader.error(at, format!("unknown key '{}' of str_replace{near}", cut(&key)));
            }
        }
    }
    let (Some(template), Some(params)) = (template, params) else {
        reader.error(at, "str_replace wants both 'template' and 'params'");
        return None;
    };
    if !matches!(template.kind, ExprKind::Text(_) | ExprKind::Call(_) | ExprKind::Invalid) {
        reader.error(template.at, format!("want text as 'template', got {}", template.describe()));
        return None;
    }
    match &params.kind {
        ExprKind::Map(entries) if entries.iter().any(|entry| entry.key.is_empty()) => {
            reader.error(params.at, "an empty text cannot be replaced");
            None
        }
        ExprKind::Map(_) | ExprKind::Call(_) | ExprKind::Invalid => {
            Some(Call::StrReplace { template, params })
        }
        _ => {
            reader.error(params.at, format!("want a map as 'params', got {}", params.describe()));
            None
        }
    }
}

fn list_join(reader: &mut Reader<'_>, argument: Expr) -> Option<Call> {
    const WANTED: &str = "[DELIMITER, LIST, …]";
    let at = argument.at;
    let ExprKind::List(items) = argument.kind else {
        reader.error(at, format!("want {WANTED}, got {}", argument.describe()));
        return None;
    };
    let mut items = items.into_iter();
    let Some(delimiter) = items.next().filter(|_| items.len() > 0) else {
        reader.error(at, format!("want {WANTED}, got too few items"));
        return None;
    };
    if !matches!(delimiter.kind, ExprKind::Text(_) | ExprKind::Call(_) | ExprKind::Invalid) {
        reader.error(delimiter.at, format!("want text as delimiter, got {}", delimiter.describe()));
        return None;
    }
    let lists: Box<[Expr]> = items.collect();
    for list in &lists {
        if !matches!(list.kind, ExprKind::List(_) | ExprKind::Call(_) | ExprKind::Null | ExprKind::Invalid) {
            reader.error(list.at, format!("want a list to join, got {}", list.describe()));
            return None;
        }
    }
    Some(Call::ListJoin { delimiter, lists })
}
