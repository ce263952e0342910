//! `Muster::Unit`: a unit of systemd.
//!
//! What a unit is to be restarted for travels as digests of the others' desired states ([`Unit::restart_on`]): a change of
//! one of them is then a change of the unit itself, which the controller finds by comparing as it finds any other, and
//! the agent has only to know what the unit was last started with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::spec::{Claim, ClaimKind, ContentDigest, OnDelete};

/// Where an administrator's units are.
pub const UNIT_FOLDER: &str = "/etc/systemd/system";
/// systemd's `UNIT_NAME_MAX`, less its ending zero.
const NAME_MAX: usize = 255;
/// Linux's `NAME_MAX`.
const FILE_NAME_MAX: usize = 255;
/// Bytes of a unit's content and drop-ins together: a job with them must fit a message of 256 KiB.
pub const UNIT_CONTENT_MAX: usize = 128 * 1024;
/// More than anybody writes; keeps names alone from filling a message.
const DROP_INS_MAX: usize = 64;
/// Digests in `restart_on` and `reload_on`: one text each, whatever it stands for.
const DIGEST_MAX: usize = 128;
/// Seconds: a job has five minutes in all beside it.
pub const SETTLE_MAX: u32 = 300;
/// What systemd calls its kinds of units, but for those that nobody writes (`device`) or starts (`scope`).
const SUFFIXES: [&str; 8] = ["automount", "mount", "path", "service", "slice", "socket", "target", "timer"];

/// A unit of systemd; what is `None` is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// With its suffix.
    pub name: String,
    /// The file's, in [`UNIT_FOLDER`]; without, somebody else's file counts.
    pub content: Option<String>,
    /// Files in the unit's own drop-in folder there: name, with `.conf`, to content.
    pub drop_ins: BTreeMap<String, String>,
    /// Started at boot, or by what its `[Install]` section says.
    pub enabled: Option<bool>,
    /// What it is to do now.
    pub active: Option<UnitActive>,
    /// Nobody can start it.
    pub masked: Option<bool>,
    /// What it is to be restarted for, in whatever form changes when that does; empty if nothing.
    pub restart_on: String,
    /// What it is to be reloaded for.
    pub reload_on: String,
    /// Seconds it must stay active for, without systemd starting it again.
    pub settle: u32,
    /// What a delete leaves behind.
    pub on_delete: OnDelete,
}

/// What a unit is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitActive {
    /// It runs, or has done what it is for.
    Started,
    /// It does not.
    Stopped,
}

/// What is wrong with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnitError {
    #[error(
        "want the name of a unit with its kind, such as nginx.service: letters, digits and ':', '-', '_', '.', '\\', '@'; \
         one of automount, mount, path, service, slice, socket, target, timer"
    )]
    Name,
    /// A name that stands for many.
    #[error(
        "a template of units, such as getty@.service, is no unit that runs: name one of them, or leave out 'active'"
    )]
    Template,
    /// A drop-in's name.
    #[error(
        "the name of a drop-in has letters, digits and '-', '_', '.', such as limits.conf, and 250 characters at most"
    )]
    DropInName,
    /// All of it.
    #[error("content and drop-ins together are over the limit of {UNIT_CONTENT_MAX} bytes")]
    TooLarge,
    /// Too many files.
    #[error("more than {DROP_INS_MAX} drop-ins")]
    TooMany,
    /// It cannot be both.
    #[error("a masked unit can have no content, not be enabled and not be started")]
    Masked,
    /// Too long to wait.
    #[error("want at most {SETTLE_MAX} seconds to settle")]
    Settle,
}

impl Unit {
    /// Whether it can be applied at all.
    ///
    /// # Errors
    /// [`UnitError`]
    pub fn check(&self) -> Result<(), UnitError> {
        check_unit_name(&self.name)?;
        if self.active.is_some() && self.name.contains("@.") {
            return Err(UnitError::Template);
        }
        if self.drop_ins.len() > DROP_INS_MAX {
            return Err(UnitError::TooMany);
        }
        self.drop_ins.keys().try_for_each(|name| check_drop_in_name(name))?;
        let drop_ins = self.drop_ins.values().map(String::len).sum::<usize>();
        let digests = [&self.restart_on, &self.reload_on].into_iter().any(|text| text.len() > DIGEST_MAX);
        if digests || self.content.as_ref().map_or(0, String::len) + drop_ins > UNIT_CONTENT_MAX {
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

    /// Where its content is.
    pub fn file(&self) -> String {
        format!("{UNIT_FOLDER}/{}", self.name)
    }

    /// Where a drop-in is.
    pub fn drop_in(&self, name: &str) -> String {
        format!("{UNIT_FOLDER}/{}.d/{name}", self.name)
    }

    /// Another where the unit must be restarted to be what it is to be.
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

    pub(super) fn claims(&self) -> Vec<Claim> {
        let unit = Claim { kind: ClaimKind::Unit, key: self.name.clone() };
        let files = self.files().map(|(key, _)| Claim { kind: ClaimKind::File, key });
        [unit].into_iter().chain(files).collect()
    }
}

/// A unit's name as this model takes it.
///
/// # Errors
/// [`UnitError::Name`]
pub fn check_unit_name(name: &str) -> Result<(), UnitError> {
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
pub fn check_drop_in_name(name: &str) -> Result<(), UnitError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let is_one = name.len() <= FILE_NAME_MAX
        && name.strip_suffix(".conf").is_some_and(|stem| !stem.is_empty() && !stem.starts_with('.'))
        && name.bytes().all(allowed);
    if is_one { Ok(()) } else { Err(UnitError::DropInName) }
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
        assert_eq!(
            with(|unit| unit.content = Some("a".repeat(UNIT_CONTENT_MAX + 1))),
            Err(UnitError::TooLarge)
        );
        let masked = |unit: &mut Unit| (unit.masked, unit.enabled) = (Some(true), Some(true));
        assert_eq!(with(masked), Err(UnitError::Masked));
        assert_eq!(with(|unit| unit.settle = SETTLE_MAX + 1), Err(UnitError::Settle));
    }

    #[test]
    fn a_unit_is_started_anew_for_its_files_and_for_what_it_is_to_be_restarted_on() {
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
