//! The syntax of HOT's functions: a map with one key, the function's name.
//!
//! `resolve` checks which functions the template's version has, and which are allowed in conditions: here a
//! part is read before the whole, and the version may come last. `render` computes the values.

mod collection;
mod condition;
mod reference;
mod text;

use crate::build::Reader;
use crate::error::{Place, cut, suggestion};
use crate::expression::{Call, Entry, Expr, ExprKind, Plain};
use crate::function_list;

pub(crate) use condition::condition;

/// Heat's older functions, with what does the same in HOT.
const CFN: [(&str, &str); 16] = [
    ("Ref", "write get_resource or get_param"),
    ("Fn::And", "write and"),
    ("Fn::Base64", "HOT has none for it: write the text as it is"),
    ("Fn::Equals", "write equals"),
    ("Fn::FindInMap", "write get_param with a path into a parameter of type json"),
    ("Fn::GetAZs", "there are no availability zones here"),
    ("Fn::GetAtt", "write get_attr"),
    ("Fn::If", "write if"),
    ("Fn::Join", "write list_join"),
    ("Fn::MemberListToMap", "HOT has none for it: write a map"),
    ("Fn::Not", "write not"),
    ("Fn::Or", "write or"),
    ("Fn::Replace", "write str_replace"),
    ("Fn::ResourceFacade", "write resource_facade"),
    ("Fn::Select", "write get_param or get_attr with a path"),
    ("Fn::Split", "write str_split"),
];

/// Looks like a function, and is data of a software config: a structured deployment reads it.
const GET_INPUT: &str = "get_input";

/// Names that are unlikely as data: a misspelling of these is warned of, and these beside other keys.
fn is_telling(name: &str) -> bool {
    name.contains('_')
}

/// `; did you mean 'X'?` for a name that is no function.
pub(crate) fn suggest(name: &str) -> String {
    suggestion(
        name,
        function_list::functions().iter().map(|function| function.name).filter(|name| is_telling(name)),
    )
}

/// Interprets a map that was read: as data, or as a call.
pub(crate) fn recognise(reader: &mut Reader<'_>, entries: Vec<Entry>, at: Place) -> ExprKind {
    let known = |entry: &Entry| function_list::find(&entry.key).is_some();
    if entries.len() != 1 {
        // As in Heat, such a map is data. TripleO has braces in place of brackets: {get_attr: subnet, cidr}.
        let is_bare = |entry: &&Entry| matches!(entry.value.kind, ExprKind::Null);
        let is_data = entries.iter().filter(is_bare).count() + 1 == entries.len();
        let function = entries.iter().find(|entry| is_telling(&entry.key) && known(entry));
        if let Some(Entry { key, at, .. }) = function.filter(|_| !is_data) {
            let message = format!(
                "'{key}' is a function only where it is the only key of its map; this is data, as in Heat"
            );
            reader.warn(*at, message);
        }
        return ExprKind::Map(entries.into());
    }
    // Only a place for conditions makes this a condition; the reader of that place knows.
    if condition::is_condition(&entries[0].key) {
        return ExprKind::Map(entries.into());
    }
    if !known(&entries[0]) {
        let Entry { key, at, .. } = &entries[0];
        if let Some(message) = refusal(key) {
            reader.error(*at, message);
            return ExprKind::Invalid;
        }
        if let Some(near) = looks_like_one(key) {
            reader.warn(*at, format!("'{}' is no function, so this is data, as in Heat{near}", cut(key)));
        }
        return ExprKind::Map(entries.into());
    }
    let Some(Entry { key, value, .. }) = entries.into_iter().next() else { return ExprKind::Invalid };
    let before = reader.path.key(&key);
    let call = call(reader, &key, value, at);
    reader.path.leave(before);
    call.map_or(ExprKind::Invalid, |call| ExprKind::Call(Box::new(call)))
}

/// The reason why a one-key map is not data: Heat refuses its older functions, too.
fn refusal(name: &str) -> Option<String> {
    let cfn = CFN.iter().find(|(known, _)| *known == name);
    cfn.map(|(_, instead)| format!("the function '{name}' is not supported; {instead}"))
        .or_else(|| name.starts_with("Fn::").then(|| format!("unknown function '{}'", cut(name))))
}

/// The suggestion for a key that is near to a function's name, or looks like one; `None` for any other.
fn looks_like_one(name: &str) -> Option<String> {
    let near = suggest(name);
    (name != GET_INPUT && (!near.is_empty() || name.starts_with("get_"))).then_some(near)
}

/// The call; `None` if its arguments are wrong, which has been reported.
fn call(reader: &mut Reader<'_>, name: &str, argument: Expr, at: Place) -> Option<Call> {
    match name {
        "get_param" => reference::get_param(reader, argument, at),
        "get_resource" => reference::get_resource(reader, argument),
        "get_attr" => reference::get_attr(reader, argument),
        "get_file" => reference::get_file(reader, argument),
        "get_node" => reference::get_node(reader, argument),
        "resource_facade" => reference::resource_facade(reader, &argument),
        "if" => condition::choice(reader, argument),
        "and" | "not" | "or" => condition::logic(reader, name, argument),
        "list_join" => text::list_join(reader, argument),
        "repeat" => collection::repeat(reader, argument),
        "str_replace" | "str_replace_strict" | "str_replace_vstrict" => {
            text::str_replace(reader, name, argument)
        }
        "yaql" => text::yaql(reader, argument),
        _ => collection::plain(reader, Plain::from_name(name)?, argument),
    }
}

/// A text; a number counts as one.
fn text_in(reader: &mut Reader<'_>, argument: Expr, wanted: &str) -> Option<Box<str>> {
    match argument.kind {
        ExprKind::Text(text) => Some(text),
        ExprKind::Number(number) => Some(number.to_string().into()),
        ExprKind::Null
        | ExprKind::Bool(_)
        | ExprKind::List(_)
        | ExprKind::Map(_)
        | ExprKind::Call(_)
        | ExprKind::Invalid => {
            reader.error(argument.at, format!("want {wanted}, got {}", argument.describe()));
            None
        }
    }
}

/// The values under these keys of a map; the first `required` of them must be there.
fn keys_in<const N: usize>(
    reader: &mut Reader<'_>,
    name: &str,
    argument: Expr,
    keys: [&str; N],
    required: usize,
) -> Option<[Option<Expr>; N]> {
    let at = argument.at;
    let ExprKind::Map(entries) = argument.kind else {
        let wanted: Vec<String> = keys[..required].iter().map(|key| format!("{key}: …")).collect();
        let message = format!("want {{{}}}, got {}", wanted.join(", "), argument.describe());
        reader.error(at, message);
        return None;
    };
    let mut found = [const { None }; N];
    for Entry { key, at, value } in entries {
        match keys.iter().position(|known| *known == &*key) {
            Some(index) => found[index] = Some(value),
            None => {
                let near = suggestion(&key, keys);
                reader.error(at, format!("unknown key '{}' of {name}{near}", cut(&key)));
            }
        }
    }
    if found[..required].iter().any(Option::is_none) {
        let quoted: Vec<String> = keys[..required].iter().map(|key| format!("'{key}'")).collect();
        let wanted = match quoted.as_slice() {
            [one] => one.clone(),
            _ => format!("both {}", quoted.join(" and ")),
        };
        reader.error(at, format!("{name} wants {wanted}"));
        return None;
    }
    Some(found)
}
