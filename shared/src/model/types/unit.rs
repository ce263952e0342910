//! `Muster::Unit`: a unit of systemd.
//!
//! `restart_on` and `reload_on` travel as digests of the other resources' desired states
//! ([`Unit::restart_on`]). So a change of one of these resources is a change of the unit itself, and the
//! controller finds it by comparing, like any other change. The agent needs only the digests of the unit's
//! last start.
//!
//! Absent: how the agent changes and compares a unit (`agent/host/src/types/unit.rs`), and the names that
//! `restart_on` may have (`controller/template/src/types/unit.rs`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{ClaimKind, DesiredState, TemplateType};
use crate::model::spec::{Claim, Content, ContentDigest, OnDelete};
use crate::property::{
    Property, PropertyError, PropertyType, RenderedProperties, checked, cut, flag, integer, on_delete,
    one_of_two, text, unwanted,
};

/// The directory of an administrator's units.
pub const UNIT_FOLDER: &str = "/etc/systemd/system";
/// systemd's `UNIT_NAME_MAX`, less its ending zero.
const NAME_MAX: usize = 255;
/// Linux's `NAME_MAX`.
const FILE_NAME_MAX: usize = 255;
/// Bytes of a unit's content and drop-ins together: a job with them must fit a message of 256 KiB.
const CONTENT_MAX: usize = 128 * 1024;
/// The most drop-ins: more than anybody writes, so that names alone cannot fill a message.
const DROP_INS_MAX: usize = 64;
/// The most digests in `restart_on` and `reload_on`: one text each.
const DIGEST_MAX: usize = 128;
/// Seconds: the job itself has five minutes in addition.
const SETTLE_MAX: u32 = 300;
/// Seconds: a program that cannot read its configuration has ended by then.
const SETTLE: u32 = 2;
/// systemd's kinds of units, except those that nobody writes (`device`) or starts (`scope`).
const SUFFIXES: [&str; 8] = ["automount", "mount", "path", "service", "slice", "socket", "target", "timer"];

/// A unit of systemd; fields that are `None` stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The name with its suffix.
    pub name: String,
    /// The content of the file in [`UNIT_FOLDER`]; `None` if others provide the unit's file.
    pub content: Option<String>,
    /// Files in the unit's own drop-in folder there: name, with `.conf`, to content.
    pub drop_ins: BTreeMap<String, String>,
    /// Whether the unit starts at boot, or as its `[Install]` section defines.
    pub enabled: Option<bool>,
    /// The desired activity of the unit.
    pub active: Option<UnitActive>,
    /// A masked unit cannot be started.
    pub masked: Option<bool>,
    /// Restarts the unit whenever this text changes; empty: never.
    pub restart_on: String,
    /// Reloads the unit whenever this text changes; empty: never.
    pub reload_on: String,
    /// Seconds for which the unit must stay active, without systemd restarting it.
    pub settle: u32,
    /// The state that a delete leaves.
    pub on_delete: OnDelete,
}

/// The activity of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitActive {
    /// The unit runs, or has done its work.
    Started,
    /// The unit does not run.
    Stopped,
}

/// Errors of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnitError {
    #[error(
        "want the name of a unit with its kind, such as nginx.service: letters, digits and ':', '-', '_', '.', '\\', '@'; \
         one of automount, mount, path, service, slice, socket, target, timer"
    )]
    Name,
    /// The name is that of a template of units.
    #[error(
        "a template of units, such as getty@.service, is no unit that runs: name one of them, or leave out 'active'"
    )]
    Template,
    /// A drop-in's name.
    #[error(
        "the name of a drop-in has letters, digits and '-', '_', '.', such as limits.conf, and 250 characters at most"
    )]
    DropInName,
    /// The texts together are too large.
    #[error("content and drop-ins together are over the limit of {CONTENT_MAX} bytes")]
    TooLarge,
    #[error("more than {DROP_INS_MAX} drop-ins")]
    TooMany,
    /// A unit cannot be both started and masked.
    #[error("a masked unit can have no content, not be enabled and not be started")]
    Masked,
    /// The time to wait is too long.
    #[error("want at most {SETTLE_MAX} seconds to settle")]
    Settle,
}

/// The wire form: `active` says whether the unit is started, so that yes comes after no.
#[derive(Serialize, Deserialize)]
pub struct Wire(Unit);

impl From<Unit> for Wire {
    fn from(unit: Unit) -> Self {
        Self(Unit { active: unit.active.map(UnitActive::other), ..unit })
    }
}

impl From<Wire> for Unit {
    fn from(Wire(unit): Wire) -> Self {
        Unit { active: unit.active.map(UnitActive::other), ..unit }
    }
}

impl UnitActive {
    fn other(self) -> Self {
        match self {
            UnitActive::Started => UnitActive::Stopped,
            UnitActive::Stopped => UnitActive::Started,
        }
    }
}

impl TemplateType for Unit {
    const NAME: &'static str = "Muster::Unit";
    const ABOUT: &'static str =
        "a unit of systemd: its file or drop-ins, whether it is enabled, and that it runs";
    const PROPERTIES: &'static [Property] = &[
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
        Property::node(),
        Property::on_delete(),
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
    const ATTRIBUTES: &'static [(&'static str, &'static str)] = &[("name", "the name")];
    const IS_CORRECTED: bool = true;

    fn read(given: &RenderedProperties<'_>) -> Result<Self, PropertyError> {
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
}

impl DesiredState for Unit {
    fn type_name(&self) -> &'static str {
        Self::NAME
    }

    fn key(&self) -> Cow<'_, str> {
        (&self.name).into()
    }

    fn claims(&self) -> Vec<Claim> {
        let files = self.files().map(|(path, _)| Claim::new(ClaimKind::File, path));
        [Claim::new(ClaimKind::Unit, &self.name)].into_iter().chain(files).collect()
    }

    /// The properties without `restart_on` and `reload_on`: digests of contents that may be secret.
    fn properties(&self) -> Value {
        let text = |text: &String| Content::Inline(text.clone().into_bytes()).shown();
        let drop_ins: Map<String, Value> =
            self.drop_ins.iter().map(|(name, content)| (name.clone(), text(content))).collect();
        json!({
            "name": self.name,
            "content": self.content.as_ref().map(text),
            "drop_ins": if drop_ins.is_empty() { Value::Null } else { Value::Object(drop_ins) },
            "enabled": self.enabled,
            "active": self.active.map(|active| match active {
                UnitActive::Started => "started",
                UnitActive::Stopped => "stopped",
            }),
            "masked": self.masked,
            "settle": self.settle,
            "on_delete": self.on_delete.as_str(),
        })
    }

    fn attribute(&self, name: &str) -> Option<Value> {
        (name == "name").then(|| json!(self.name))
    }

    fn check_bounds(&self) -> Result<(), &'static str> {
        self.check().map_err(|_| "unit")
    }

    fn own_time(&self) -> Duration {
        Duration::from_secs(self.settle.into())
    }

    fn weight(&self) -> usize {
        self.files().map(|(path, content)| path.len() + content.len()).sum()
    }
}

impl Unit {
    /// Whether it can be applied at all.
    ///
    /// # Errors
    /// [`UnitError`]
    pub fn check(&self) -> Result<(), UnitError> {
        check_name(&self.name)?;
        if self.active.is_some() && self.name.contains("@.") {
            return Err(UnitError::Template);
        }
        if self.drop_ins.len() > DROP_INS_MAX {
            return Err(UnitError::TooMany);
        }
        self.drop_ins.keys().try_for_each(|name| check_drop_in(name))?;
        let drop_ins = self.drop_ins.values().map(String::len).sum::<usize>();
        let digests = [&self.restart_on, &self.reload_on].into_iter().any(|text| text.len() > DIGEST_MAX);
        if digests || self.content.as_ref().map_or(0, String::len) + drop_ins > CONTENT_MAX {
            return Err(UnitError::TooLarge);
        }
        let started = self.active == Some(UnitActive::Started);
        if self.masked == Some(true) && (self.content.is_some() || self.enabled == Some(true) || started) {
            return Err(UnitError::Masked);
        }
        if self.settle > SETTLE_MAX { Err(UnitError::Settle) } else { Ok(()) }
    }

    /// The files by path, with their contents.
    pub fn files(&self) -> impl Iterator<Item = (String, &str)> {
        let unit = self.content.iter().map(|content| (self.file(), content.as_str()));
        unit.chain(self.drop_ins.iter().map(|(name, content)| (self.drop_in(name), content.as_str())))
    }

    /// The path of the unit's file.
    pub fn file(&self) -> String {
        format!("{UNIT_FOLDER}/{}", self.name)
    }

    /// The path of a drop-in.
    pub fn drop_in(&self, name: &str) -> String {
        format!("{UNIT_FOLDER}/{}.d/{name}", self.name)
    }

    /// A digest that changes where the unit must be restarted to reach its desired state.
    pub fn start_digest(&self) -> ContentDigest {
        let mut hasher = blake3::Hasher::new();
        let mut field = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        field(&self.restart_on);
        for (path, content) in self.files() {
            field(&path);
            field(content);
        }
        ContentDigest(*hasher.finalize().as_bytes())
    }
}

/// A unit's name as this model takes it.
///
/// # Errors
/// [`UnitError::Name`]
fn check_name(name: &str) -> Result<(), UnitError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'-' | b'_' | b'.' | b'\\' | b'@');
    let suffix = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty() && !stem.starts_with('@'));
    match suffix {
        Some((_, suffix))
            if SUFFIXES.contains(&suffix) && name.len() <= NAME_MAX && name.bytes().all(allowed) =>
        {
            Ok(())
        }
        _ => Err(UnitError::Name),
    }
}

/// A drop-in's name, with its `.conf`.
///
/// # Errors
/// [`UnitError::DropInName`]
fn check_drop_in(name: &str) -> Result<(), UnitError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let is_one = name.len() <= FILE_NAME_MAX
        && name.strip_suffix(".conf").is_some_and(|stem| !stem.is_empty() && !stem.starts_with('.'))
        && name.bytes().all(allowed);
    if is_one { Ok(()) } else { Err(UnitError::DropInName) }
}

fn name(value: &Value) -> Result<String, PropertyError> {
    checked("the name of a unit", value, check_name)
}

fn content(value: &Value) -> Result<String, PropertyError> {
    let text = text(value)?;
    if text.len() > CONTENT_MAX { Err(wrong(UnitError::TooLarge)) } else { Ok(text) }
}

fn drop_ins(value: &Value) -> Result<BTreeMap<String, String>, PropertyError> {
    let Value::Object(map) = value else {
        return Err(unwanted("a map of drop-ins, each a name with its content", value));
    };
    let mut read = BTreeMap::new();
    for (name, value) in map {
        let file = if name.ends_with(".conf") { name.clone() } else { format!("{name}.conf") };
        check_drop_in(&file).map_err(wrong)?;
        let content = if value.is_null() { String::new() } else { content(value)? };
        if read.insert(file, content).is_some() {
            return Err(PropertyError::new(format!("the drop-in '{}' is given twice", cut(name))));
        }
    }
    Ok(read)
}

fn active(value: &Value) -> Result<UnitActive, PropertyError> {
    let is_started = one_of_two(value, ["started", "stopped"])?;
    Ok(if is_started { UnitActive::Started } else { UnitActive::Stopped })
}

/// A digest of the values of the references. An empty list is no reason to restart.
fn digest(value: &Value) -> Result<String, PropertyError> {
    let Value::Array(items) = value else { return Err(unwanted("a list of resources' names", value)) };
    let digest = || ContentDigest::of(value.to_string().as_bytes()).to_string();
    Ok(if items.is_empty() { String::new() } else { digest() })
}

fn settle(value: &Value) -> Result<u32, PropertyError> {
    let seconds = integer(value, 0, SETTLE_MAX.into())?;
    u32::try_from(seconds).map_err(|_| wrong(UnitError::Settle))
}

fn wrong(error: UnitError) -> PropertyError {
    PropertyError::new(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(name: &str) -> Unit {
        Unit {
            name: name.into(),
            content: None,
            drop_ins: BTreeMap::new(),
            enabled: None,
            active: None,
            masked: None,
            restart_on: String::new(),
            reload_on: String::new(),
            settle: 2,
            on_delete: OnDelete::Restore,
        }
    }

    #[test]
    fn what_cannot_be_a_unit_is_refused() {
        for good in
            ["nginx.service", "getty@tty1.service", "var-lib\\x2dx.mount", "a.timer", "getty@.service"]
        {
            assert_eq!(unit(good).check(), Ok(()), "{good}");
        }
        for bad in
            ["", "nginx", ".service", "@.service", "a b.service", "../a.service", "a.device", "a/b.mount"]
        {
            assert_eq!(unit(bad).check(), Err(UnitError::Name), "{bad}");
        }
        let with = |change: fn(&mut Unit)| {
            let mut unit = unit("getty@.service");
            change(&mut unit);
            unit.check()
        };
        assert_eq!(with(|unit| unit.active = Some(UnitActive::Stopped)), Err(UnitError::Template));
        assert_eq!(
            with(|unit| drop(unit.drop_ins.insert("../x.conf".into(), String::new()))),
            Err(UnitError::DropInName)
        );
        assert_eq!(
            with(|unit| drop(unit.drop_ins.insert("x".into(), String::new()))),
            Err(UnitError::DropInName)
        );
        assert_eq!(with(|unit| unit.content = Some("a".repeat(CONTENT_MAX + 1))), Err(UnitError::TooLarge));
        let masked = |unit: &mut Unit| (unit.masked, unit.enabled) = (Some(true), Some(true));
        assert_eq!(with(masked), Err(UnitError::Masked));
        assert_eq!(with(|unit| unit.settle = SETTLE_MAX + 1), Err(UnitError::Settle));
    }

    #[test]
    fn a_unit_restarts_when_its_files_or_restart_on_change() {
        let was = unit("a.service");
        let same = Unit { enabled: Some(true), settle: 5, reload_on: "2".into(), ..was.clone() };
        assert_eq!(was.start_digest(), same.start_digest());
        let content = Unit { content: Some(String::new()), ..was.clone() };
        let drop_in = Unit { drop_ins: [("a.conf".to_owned(), String::new())].into(), ..was.clone() };
        let on = Unit { restart_on: "1".into(), ..was.clone() };
        let digests = [&was, &content, &drop_in, &on].map(Unit::start_digest);
        for (n, digest) in digests.iter().enumerate() {
            assert!(!digests[..n].contains(digest));
        }
    }
}
