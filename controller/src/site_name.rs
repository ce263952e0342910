//! The name that operators give a site, where a database has several: which texts may be such a name.
//!
//! Absent: the site's id, which the first start draws (`pki.rs`).

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// The most characters of a site's name.
const NAME_MAX: usize = 32;

/// A site's name. It is the name of its directory and its schema as well.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct SiteName(String);

impl SiteName {
    /// The name of the site that `[controller]` describes.
    pub const DEFAULT: &str = "default";

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the site that `[controller]` describes.
    pub fn is_default(&self) -> bool {
        self.0 == Self::DEFAULT
    }
}

impl Default for SiteName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl fmt::Display for SiteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SiteName {
    type Err = String;

    /// # Errors
    /// A text that says what a name is.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let begins = text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        if begins && text.len() <= NAME_MAX && text.bytes().all(is_inner) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "'{}' is not a site's name: want a lower-case letter, then lower-case letters, digits and '-', at most {NAME_MAX}",
            text.chars().take(80).flat_map(char::escape_default).collect::<String>()
        ))
    }
}

impl TryFrom<String> for SiteName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
