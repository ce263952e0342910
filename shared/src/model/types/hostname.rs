//! `Muster::Hostname`: the name in the kernel and in `/etc/hostname`. The kernel accepts any 64 bytes,
//! everything else only names of RFC 1123.
//!
//! Absent: how the agent changes it (`agent/host/src/hostname.rs`), and the resolution of the name.

use std::borrow::Cow;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::{ClaimKind, DesiredState, TemplateType};
use crate::model::spec::{Claim, Lane, OnDelete};
use crate::property::{
    CONFIRM_TIMEOUT, Property, PropertyError, PropertyType, RenderedProperties, confirm_timeout, cut,
    on_delete, unwanted,
};

/// The name of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hostname {
    /// A name that [`check_hostname`] accepts.
    pub hostname: String,
    /// Seconds until an unconfirmed change is undone.
    pub confirm_timeout: u32,
    /// The state that a delete leaves.
    pub on_delete: OnDelete,
}

impl Hostname {
    /// The key of the only claim.
    pub const CLAIM: &str = "/etc/hostname";
}

impl TemplateType for Hostname {
    const NAME: &'static str = "Muster::Hostname";
    const ABOUT: &'static str = "the name of a node, in the kernel and in /etc/hostname";
    const PROPERTIES: &'static [Property] = &[
        Property::confirm_timeout(),
        Property::required("hostname", |value| hostname(value).map(drop))
            .is(PropertyType::String, "the name, short or fully qualified")
            .limits("labels of letters, digits and '-' with dots between them, 64 characters at most"),
        Property::node(),
        Property::on_delete(),
    ];
    const ATTRIBUTES: &'static [(&'static str, &'static str)] = &[("hostname", "the name")];

    fn read(given: &RenderedProperties<'_>) -> Result<Self, PropertyError> {
        Ok(Hostname {
            hostname: given.required("hostname", hostname)?,
            confirm_timeout: given.get("confirm_timeout", confirm_timeout)?.unwrap_or(CONFIRM_TIMEOUT),
            on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
        })
    }
}

impl DesiredState for Hostname {
    fn type_name(&self) -> &'static str {
        Self::NAME
    }

    fn key(&self) -> Cow<'_, str> {
        (&self.hostname).into()
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::new(ClaimKind::Hostname, Self::CLAIM)]
    }

    fn properties(&self) -> Value {
        json!({
            "hostname": self.hostname,
            "confirm_timeout": self.confirm_timeout,
            "on_delete": self.on_delete.as_str(),
        })
    }

    fn attribute(&self, name: &str) -> Option<Value> {
        (name == "hostname").then(|| json!(self.hostname))
    }

    fn check_bounds(&self) -> Result<(), &'static str> {
        check_hostname(&self.hostname).map_err(|_| "hostname")
    }

    /// A server has one host name.
    fn needs_replacement(&self, _next: &Self) -> bool {
        false
    }

    fn lane(&self) -> Lane {
        Lane::Network
    }

    fn confirm_within(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.confirm_timeout.into()))
    }
}

/// `__NEW_UTS_LEN` of Linux: the kernel takes no longer name.
pub const HOSTNAME_MAX: usize = 64;
/// The longest part between dots, from RFC 1035.
const LABEL_MAX: usize = 63;

/// The reason why a text is no host name, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HostnameError {
    #[error("is empty")]
    Empty,
    #[error(
        "is longer than the {HOSTNAME_MAX} bytes that the kernel takes; take the name without its domain"
    )]
    TooLong,
    #[error("has a part of more than {LABEL_MAX} bytes between dots; shorten it")]
    LabelTooLong,
    #[error("ends in a dot; leave it out, the kernel takes the name as it stands")]
    TrailingDot,
    #[error("has nothing between two dots or before the first; leave one out")]
    EmptyLabel,
    #[error("has an underscore in it; take a hyphen, names with underscores do not resolve everywhere")]
    Underscore,
    #[error("has '{}' in it; want letters of a to z, digits, and hyphens, in parts between dots", .0.escape_default())]
    Character(char),
    #[error("has a part that begins or ends in a hyphen; each begins and ends in a letter or digit")]
    Hyphen,
    #[error("is an address; want a name")]
    Address,
}

/// Checks whether a server may have this name: a host name or fqdn of RFC 1123 that the kernel accepts.
///
/// # Errors
/// [`HostnameError`], whose text continues a sentence that begins with the name.
pub fn check_hostname(name: &str) -> Result<(), HostnameError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if name.is_empty() {
        return Err(HostnameError::Empty);
    }
    if name.contains('_') {
        return Err(HostnameError::Underscore);
    }
    if let Some(wrong) = name.chars().find(|c| !is_allowed(*c)) {
        return Err(HostnameError::Character(wrong));
    }
    if name.len() > 1 && name.ends_with('.') && !name.ends_with("..") {
        return Err(HostnameError::TrailingDot);
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err(HostnameError::EmptyLabel);
        }
        if label.len() > LABEL_MAX {
            return Err(HostnameError::LabelTooLong);
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(HostnameError::Hyphen);
        }
    }
    if name.len() > HOSTNAME_MAX {
        return Err(HostnameError::TooLong);
    }
    if name.parse::<Ipv4Addr>().is_ok() {
        return Err(HostnameError::Address);
    }
    Ok(())
}

/// Parses a host name. A number is refused: YAML reads `010` and `1e3` as numbers, which would change
/// the name.
fn hostname(value: &Value) -> Result<String, PropertyError> {
    let Value::String(name) = value else { return Err(unwanted("a host name", value)) };
    match check_hostname(name) {
        Ok(()) => Ok(name.clone()),
        Err(why) => Err(PropertyError::new(format!("the host name '{}' {why}", cut(name)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let (label, longer) = ("a".repeat(63), "a".repeat(64));
        let (whole, more) = (format!("{}.{}", "a".repeat(32), "b".repeat(31)), format!("{label}.b"));
        for name in ["web-1", "WEB1", "web-1.example.com", "1", "3com.example", "a--b", &label, &whole] {
            assert_eq!(check_hostname(name), Ok(()), "{name}");
        }
        for (name, error) in [
            ("", HostnameError::Empty),
            ("web_1", HostnameError::Underscore),
            ("web-1.example.com.", HostnameError::TrailingDot),
            (".", HostnameError::EmptyLabel),
            ("a..b", HostnameError::EmptyLabel),
            ("a..", HostnameError::EmptyLabel),
            (".a", HostnameError::EmptyLabel),
            ("-a", HostnameError::Hyphen),
            ("a-.b", HostnameError::Hyphen),
            ("web 1", HostnameError::Character(' ')),
            ("web\n", HostnameError::Character('\n')),
            ("b\u{fc}ro", HostnameError::Character('\u{fc}')),
            ("a/b", HostnameError::Character('/')),
            ("10.0.0.1", HostnameError::Address),
            (&longer, HostnameError::LabelTooLong),
            (&more, HostnameError::TooLong),
        ] {
            assert_eq!(check_hostname(name), Err(error), "{name}");
        }
    }
}
