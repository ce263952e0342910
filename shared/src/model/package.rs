//! `Muster::Package`: a package of the server's own distribution.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::spec::OnDelete;

/// Longer than any name of Debian or Fedora.
const NAME_MAX: usize = 128;
/// Longer than any version of them.
const VERSION_MAX: usize = 128;
/// Seconds: an upgrade of a whole desktop over a slow line ends within it.
pub const PACKAGE_TIMEOUT_MAX: u32 = 4 * 3600;
/// Seconds beyond a package's own for putting back what failed: a job that ran to its end of time has them still.
pub const PACKAGE_BACK: u32 = 900;

/// A package; what is `None` is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// As apt or dnf has it, without architecture.
    pub name: String,
    /// This one and no other, as apt or dnf has it; any, if there is none.
    pub version: Option<String>,
    /// Whether it is there.
    pub state: Presence,
    /// Upgrades leave it alone.
    pub held: Option<bool>,
    /// Seconds for all of it, waiting for others who install something included.
    pub timeout: u32,
    /// What a delete leaves behind.
    pub on_delete: OnDelete,
}

/// Whether something is to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// It is.
    Present,
    /// It is not.
    Absent,
}

/// What is wrong with a package.
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
    /// What is not there has nothing.
    #[error("a package that is to be absent can have no version and not be held")]
    Absent,
    /// No time, or too much.
    #[error("want a time of 1 to {PACKAGE_TIMEOUT_MAX} seconds")]
    Timeout,
}

impl Package {
    /// Whether it can be applied at all.
    ///
    /// # Errors
    /// [`PackageError`]
    pub fn check(&self) -> Result<(), PackageError> {
        check_package_name(&self.name)?;
        self.version.as_deref().map_or(Ok(()), check_package_version)?;
        if self.state == Presence::Absent && (self.version.is_some() || self.held == Some(true)) {
            return Err(PackageError::Absent);
        }
        if (1..=PACKAGE_TIMEOUT_MAX).contains(&self.timeout) { Ok(()) } else { Err(PackageError::Timeout) }
    }
}

/// A package's name as this model takes it: no option, no pattern, no path, and to apt no order to remove it.
///
/// # Errors
/// [`PackageError::Name`]
pub fn check_package_name(name: &str) -> Result<(), PackageError> {
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
pub fn check_package_version(version: &str) -> Result<(), PackageError> {
    let allowed =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_' | b':' | b'~' | b'^');
    let is_one = version.len() <= VERSION_MAX
        && version.bytes().all(allowed)
        && version.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if is_one { Ok(()) } else { Err(PackageError::Version) }
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
    fn what_a_package_manager_could_take_for_something_else_is_refused() {
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
        for timeout in [0, PACKAGE_TIMEOUT_MAX + 1] {
            let package = Package { timeout, ..package("a", None) };
            assert_eq!(package.check(), Err(PackageError::Timeout));
        }
    }
}
