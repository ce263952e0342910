//! `Muster::Package`: a package of the server's own distribution. Its properties and their bounds.
//!
//! Absent: how the agent changes and compares it (`agent/host/src/types/package.rs`).

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::{ClaimKind, DesiredState, TemplateType};
use crate::model::spec::{Claim, Lane, OnDelete};
use crate::property::{
    Property, PropertyError, PropertyType, RenderedProperties, checked, cut, flag, integer, on_delete,
    one_of_two, text,
};

/// Longer than any name of Debian or Fedora.
const NAME_MAX: usize = 128;
/// Longer than any version of them.
const VERSION_MAX: usize = 128;
/// Seconds: an upgrade of a whole desktop over a slow line ends within it.
const TIMEOUT_MAX: u32 = 4 * 3600;
/// Seconds: enough for a slow mirror and a large package, after an upgrade that others run.
const TIMEOUT: u32 = 1800;
/// Seconds beyond a package's own time to undo a failed change: a job that used up its time still has them.
pub const PACKAGE_BACK: u32 = 900;

/// A package; fields that are `None` stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// The name in apt or dnf, without architecture.
    pub name: String,
    /// Exactly this version, in the form of apt or dnf. `None`: any version.
    pub version: Option<String>,
    /// Whether the package must be installed.
    pub state: Presence,
    /// Upgrades leave it alone.
    pub held: Option<bool>,
    /// Seconds for the whole job, including the wait for other programs that change packages.
    pub timeout: u32,
    /// The state that a delete leaves.
    pub on_delete: OnDelete,
}

/// Whether the package must be present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    Present,
    Absent,
}

/// Errors of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PackageError {
    #[error(
        "want the name of a package such as nginx: letters, digits and '+', '-', '.', '_', \
         with a letter or digit first and no '-', '.' or '_' last; a version has its own property"
    )]
    Name,
    #[error(
        "want a version such as 1.22.1-9 or 1:2.0~rc1-1.el9: letters, digits and '+', '-', '.', '_', ':', '~', '^', \
         with a letter or digit first"
    )]
    Version,
    /// An absent package has neither version nor hold.
    #[error("an absent package has no version and is not held")]
    Absent,
    /// The time is zero, or too long.
    #[error("want a time of 1 to {TIMEOUT_MAX} seconds")]
    Timeout,
}

impl TemplateType for Package {
    const NAME: &'static str = "Muster::Package";
    const ABOUT: &'static str = "a package of the node's distribution, by apt or dnf";
    const PROPERTIES: &'static [Property] = &[
        Property::optional("held", |value| flag(value).map(drop))
            .is(PropertyType::Boolean, "upgrades leave it alone; left as it is where this is left out"),
        Property::required("name", |value| name(value).map(drop))
            .is(PropertyType::String, "its name, as apt or dnf has it")
            .replaces(),
        Property::node(),
        Property::on_delete(),
        Property::optional("state", |value| presence(value).map(drop))
            .is(PropertyType::String, "whether it is there")
            .default("\"present\"")
            .one_of(&["present", "absent"]),
        Property::optional("timeout", |value| timeout(value).map(drop))
            .is(PropertyType::Integer, "seconds for all of it, waiting for others who install included")
            .default("1800")
            .range(1, TIMEOUT_MAX as u64),
        Property::optional("version", |value| version(value).map(drop)).is(
            PropertyType::String,
            "this version and no other, as apt or dnf has it; any, where it is left out",
        ),
    ];
    const ATTRIBUTES: &'static [(&'static str, &'static str)] =
        &[("name", "the name"), ("version", "the version that is there; empty where none is")];

    fn read(given: &RenderedProperties<'_>) -> Result<Self, PropertyError> {
        let package = Package {
            name: given.required("name", name)?,
            version: given.get("version", version)?,
            state: given.get("state", presence)?.unwrap_or(Presence::Present),
            held: given.get("held", flag)?,
            timeout: given.get("timeout", timeout)?.unwrap_or(TIMEOUT),
            on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
        };
        package.check().map_err(wrong)?;
        Ok(package)
    }
}

impl DesiredState for Package {
    fn type_name(&self) -> &'static str {
        Self::NAME
    }

    fn key(&self) -> Cow<'_, str> {
        (&self.name).into()
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::new(ClaimKind::Package, &self.name)]
    }

    fn properties(&self) -> Value {
        json!({
            "name": self.name,
            "version": self.version,
            "state": match self.state {
                Presence::Present => "present",
                Presence::Absent => "absent",
            },
            "held": self.held,
            "timeout": self.timeout,
            "on_delete": self.on_delete.as_str(),
        })
    }

    fn attribute(&self, name: &str) -> Option<Value> {
        (name == "name").then(|| json!(self.name))
    }

    fn check_bounds(&self) -> Result<(), &'static str> {
        self.check().map_err(|_| "package")
    }

    fn lane(&self) -> Lane {
        Lane::Package
    }

    fn own_time(&self) -> Duration {
        Duration::from_secs((self.timeout + PACKAGE_BACK).into())
    }

    fn weight(&self) -> usize {
        self.name.len() + self.version.as_ref().map_or(0, String::len)
    }
}

impl Package {
    /// Whether it can be applied at all.
    ///
    /// # Errors
    /// [`PackageError`]
    pub fn check(&self) -> Result<(), PackageError> {
        check_name(&self.name)?;
        self.version.as_deref().map_or(Ok(()), check_version)?;
        if self.state == Presence::Absent && (self.version.is_some() || self.held == Some(true)) {
            return Err(PackageError::Absent);
        }
        if (1..=TIMEOUT_MAX).contains(&self.timeout) { Ok(()) } else { Err(PackageError::Timeout) }
    }
}

/// Checks a package's name: no option, no pattern, no path, and no suffix that makes apt remove it.
///
/// # Errors
/// [`PackageError::Name`]
fn check_name(name: &str) -> Result<(), PackageError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_');
    let ends = |b: &u8| b.is_ascii_alphanumeric() || *b == b'+';
    let bytes = name.as_bytes();
    let is_one = bytes.len() <= NAME_MAX
        && bytes.iter().copied().all(allowed)
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(ends);
    if is_one { Ok(()) } else { Err(PackageError::Name) }
}

/// A package's version as this model takes it.
///
/// # Errors
/// [`PackageError::Version`]
fn check_version(version: &str) -> Result<(), PackageError> {
    let allowed =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_' | b':' | b'~' | b'^');
    let is_one = version.len() <= VERSION_MAX
        && version.bytes().all(allowed)
        && version.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if is_one { Ok(()) } else { Err(PackageError::Version) }
}

fn name(value: &Value) -> Result<String, PropertyError> {
    checked("the name of a package", value, check_name)
}

fn version(value: &Value) -> Result<String, PropertyError> {
    let version = text(value)?;
    match check_version(&version) {
        Ok(()) => Ok(version),
        Err(error) => Err(PropertyError::new(format!("'{}': {error}", cut(&version)))),
    }
}

fn presence(value: &Value) -> Result<Presence, PropertyError> {
    let is_present = one_of_two(value, ["present", "absent"])?;
    Ok(if is_present { Presence::Present } else { Presence::Absent })
}

fn timeout(value: &Value) -> Result<u32, PropertyError> {
    let seconds = integer(value, 1, TIMEOUT_MAX.into())?;
    u32::try_from(seconds).map_err(|_| wrong(PackageError::Timeout))
}

fn wrong(error: PackageError) -> PropertyError {
    PropertyError::new(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: Option<&str>) -> Package {
        Package {
            name: name.into(),
            version: version.map(str::to_owned),
            state: Presence::Present,
            held: None,
            timeout: 1800,
            on_delete: OnDelete::Restore,
        }
    }

    #[test]
    fn ambiguous_package_names_and_versions_are_refused() {
        for good in
            ["nginx", "g++", "libstdc++6", "python3.11", "NetworkManager", "java-1.8.0-openjdk", "a_b"]
        {
            assert_eq!(package(good, Some("1:2.0~rc1+b1-1.el9_2")).check(), Ok(()), "{good}");
        }
        let long = "a".repeat(129);
        for bad in [
            "", "-y", "--purge", "a b", "nginx-", "a/stable", "a=1", "a:i386", "@group", "a*", "^a", "a\n",
            "ä", &long,
        ] {
            assert_eq!(package(bad, None).check(), Err(PackageError::Name), "{bad:?}");
        }
        for bad in ["", "-1", "1 2", "1*", "1/2", "1=2", "1\n", &"1".repeat(129)] {
            assert_eq!(package("a", Some(bad)).check(), Err(PackageError::Version), "{bad:?}");
        }
        let absent =
            |version, held| Package { state: Presence::Absent, held, ..package("a", version) }.check();
        assert_eq!(absent(None, Some(false)), Ok(()));
        assert_eq!([absent(Some("1"), None), absent(None, Some(true))], [Err(PackageError::Absent); 2]);
        for timeout in [0, TIMEOUT_MAX + 1] {
            let package = Package { timeout, ..package("a", None) };
            assert_eq!(package.check(), Err(PackageError::Timeout));
        }
    }
}
