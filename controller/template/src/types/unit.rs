//! `Muster::Unit`: a unit of systemd.
//!
//! `restart_on` and `reload_on` name resources, which while a template is parsed become references to what they are
//! to be ([`refer`]); what comes here then is that, whatever it looks like.

use std::collections::BTreeMap;

use muster_shared::model::{
    ContentDigest, SETTLE_MAX, Spec, UNIT_CONTENT_MAX, Unit, UnitActive, UnitError, check_drop_in_name,
    check_unit_name,
};
use serde_json::Value;

use super::value::{check_node, check_on_delete, flag, integer, on_delete, text, unwanted};
use super::{Given, Kind, Property, PropertyError, PropertyType};
use crate::build::{Reader, number};
use crate::error::{cut, suggestion};
use crate::expression::{Call, Entry, Expr, ExprKind};

/// Seconds: a program that cannot read its configuration has ended by then.
const SETTLE: u32 = 2;

pub(super) static PROPERTIES: [Property; 11] = [
    Property::optional("active", |value| active(value).map(drop))
        .is(PropertyType::String, "what it is to do now; left as it is where this is left out")
        .one_of(&["started", "stopped"]),
    Property::optional("content", |value| content(value).map(drop)).is(
        PropertyType::String,
        "its file in /etc/systemd/system; where it is left out, the unit is somebody else's",
    ),
    Property::optional("drop_ins", |value| drop_ins(value).map(drop))
        .is(PropertyType::Map, "files of its drop-in folder: name to content")
        .limits("names of letters, digits and '-', '_', '.'; '.conf' may be left out"),
    Property::optional("enabled", |value| flag(value).map(drop))
        .is(PropertyType::Boolean, "started at boot; left as it is where this is left out"),
    Property::optional("masked", |value| flag(value).map(drop))
        .is(PropertyType::Boolean, "nobody can start it; left as it is where this is left out"),
    Property::required("name", |value| name(value).map(drop))
        .is(PropertyType::String, "its name, with its kind such as .service")
        .replaces(),
    Property::required("node", check_node).is(PropertyType::String, "the node it is on").replaces(),
    Property::optional("on_delete", check_on_delete)
        .is(PropertyType::String, "what a delete leaves: what was there before, or what is there")
        .default("\"restore\"")
        .one_of(&["restore", "keep"]),
    Property::optional("reload_on", |value| digest(value).map(drop)).is(
        PropertyType::List,
        "names of resources of this template: where one changes, the unit is reloaded",
    ),
    Property::optional("restart_on", |value| digest(value).map(drop)).is(
        PropertyType::List,
        "names of resources of this template: where one changes, the unit is restarted",
    ),
    Property::optional("settle", |value| settle(value).map(drop))
        .is(PropertyType::Integer, "seconds it must stay active before it counts as ready")
        .default("2")
        .range(0, SETTLE_MAX as u64),
];

pub(super) fn spec(given: &Given<'_>) -> Result<Unit, PropertyError> {
    let unit = Unit {
        name: given.required("name", name)?,
        content: given.get("content", content)?,
        drop_ins: given.get("drop_ins", drop_ins)?.unwrap_or_default(),
        enabled: given.get("enabled", flag)?,
        active: given.get("active", active)?,
        masked: given.get("masked", flag)?,
        restart_on: given.get("restart_on", digest)?.unwrap_or_default(),
        reload_on: given.get("reload_on", digest)?.unwrap_or_default(),
        settle: given.get("settle", settle)?.unwrap_or(SETTLE),
        on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
    };
    unit.check().map_err(wrong)?;
    Ok(unit)
}

/// Makes references of the names in `restart_on` and `reload_on`.
pub(crate) fn refer(reader: &mut Reader<'_>, kind: Option<Kind>, properties: &mut Expr) {
    let (Some(Kind::Unit), ExprKind::Map(entries)) = (kind, &mut properties.kind) else { return };
    let whole = reader.path.key("properties");
    for entry in entries.iter_mut().filter(|entry| matches!(&*entry.key, "restart_on" | "reload_on")) {
        let before = reader.path.key(&entry.key);
        refer_list(reader, entry);
        reader.path.leave(before);
    }
    reader.path.leave(whole);
}

fn refer_list(reader: &mut Reader<'_>, entry: &mut Entry) {
    let at = entry.value.at;
    let items = match &mut entry.value.kind {
        ExprKind::List(items) => items,
        ExprKind::Null => return,
        _ => {
            let message = format!("want a list of resources' names, got {}", entry.value.describe());
            reader.error(at, message);
            entry.value.kind = ExprKind::Invalid;
            return;
        }
    };
    for item in items.iter_mut() {
        let ExprKind::Text(name) = &mut item.kind else {
            reader.error(item.at, format!("want the name of a resource, got {}", item.describe()));
            item.kind = ExprKind::Invalid;
            continue;
        };
        let resource = number(&mut reader.resources, std::mem::take(name));
        let call = Call::GetAttr { resource, attribute: Spec::STATE.into(), path: Box::default() };
        item.kind = ExprKind::Call(Box::new(call));
    }
}

fn name(value: &Value) -> Result<String, PropertyError> {
    let Value::String(name) = value else { return Err(unwanted("the name of a unit", value)) };
    match check_unit_name(name) {
        Ok(()) => Ok(name.clone()),
        Err(error) => Err(PropertyError::new(format!("'{}': {error}", cut(name)))),
    }
}

fn content(value: &Value) -> Result<String, PropertyError> {
    let text = text(value)?;
    if text.len() > UNIT_CONTENT_MAX { Err(wrong(UnitError::TooLarge)) } else { Ok(text) }
}

fn drop_ins(value: &Value) -> Result<BTreeMap<String, String>, PropertyError> {
    let Value::Object(map) = value else {
        return Err(unwanted("a map of drop-ins, each a name with its content", value));
    };
    let mut read = BTreeMap::new();
    for (name, value) in map {
        let file = if name.ends_with(".conf") { name.clone() } else { format!("{name}.conf") };
        check_drop_in_name(&file).map_err(wrong)?;
        let content = if value.is_null() { String::new() } else { content(value)? };
        if read.insert(file, content).is_some() {
            return Err(PropertyError::new(format!("the drop-in '{}' is given twice", cut(name))));
        }
    }
    Ok(read)
}

fn active(value: &Value) -> Result<UnitActive, PropertyError> {
    match value.as_str() {
        Some("started") => Ok(UnitActive::Started),
        Some("stopped") => Ok(UnitActive::Stopped),
        Some(other) => {
            let near = suggestion(other, ["started", "stopped"]);
            Err(PropertyError::new(format!("want started or stopped, got '{}'{near}", cut(other))))
        }
        None => Err(unwanted("started or stopped", value)),
    }
}

/// Of whatever the references have become. Nothing to look at is no reason to restart.
fn digest(value: &Value) -> Result<String, PropertyError> {
    match value {
        Value::Array(items) if items.is_empty() => Ok(String::new()),
        Value::Array(_) => Ok(ContentDigest::of(value.to_string().as_bytes()).to_string()),
        _ => Err(unwanted("a list of resources' names", value)),
    }
}

fn settle(value: &Value) -> Result<u32, PropertyError> {
    let seconds = integer(value, 0, SETTLE_MAX.into())?;
    u32::try_from(seconds).map_err(|_| wrong(UnitError::Settle))
}

fn wrong(error: UnitError) -> PropertyError {
    PropertyError::new(error.to_string())
}
