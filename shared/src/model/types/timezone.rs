//! `Muster::Timezone`: the time zone of a server, now and at boot. Its properties and their bounds.
//!
//! Absent: how the agent changes and compares it (`agent/host/src/types/timezone.rs`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::{ClaimKind, DesiredState, TemplateType};
use crate::model::spec::{Claim, OnDelete};
use crate::property::{Property, PropertyError, PropertyType, RenderedProperties, checked, on_delete};

/// Twice the longest name in the IANA database.
const TIMEZONE_MAX: usize = 64;

/// The time zone of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timezone {
    /// A name of the IANA database, such as `Europe/Berlin`.
    pub timezone: String,
    /// The state that a delete leaves.
    pub on_delete: OnDelete,
}

/// The text cannot be the name of a time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "want the name of a time zone such as Europe/Berlin or UTC: parts of letters, digits, '_', '-' and '+' that begin \
     with a letter, with '/' between them, and {TIMEZONE_MAX} characters at most"
)]
pub struct TimezoneError;

impl Timezone {
    /// The key of the only claim: a server has one time zone.
    pub const CLAIM: &str = "/etc/localtime";
}

impl TemplateType for Timezone {
    const NAME: &'static str = "Muster::Timezone";
    const ABOUT: &'static str = "the time zone of a node, now and at boot";
    const PROPERTIES: &'static [Property] = &[
        Property::node(),
        Property::on_delete(),
        Property::required("timezone", |value| timezone(value).map(drop))
            .is(PropertyType::String, "its name in the IANA database, such as Europe/Berlin"),
    ];
    const ATTRIBUTES: &'static [(&'static str, &'static str)] = &[("timezone", "the name")];
    const IS_CORRECTED: bool = true;

    fn read(given: &RenderedProperties<'_>) -> Result<Self, PropertyError> {
        Ok(Timezone {
            timezone: given.required("timezone", timezone)?,
            on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
        })
    }
}

impl DesiredState for Timezone {
    fn type_name(&self) -> &'static str {
        Self::NAME
    }

    fn key(&self) -> Cow<'_, str> {
        (&self.timezone).into()
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::new(ClaimKind::Timezone, Self::CLAIM)]
    }

    fn properties(&self) -> Value {
        json!({"timezone": self.timezone, "on_delete": self.on_delete.as_str()})
    }

    fn attribute(&self, name: &str) -> Option<Value> {
        (name == "timezone").then(|| json!(self.timezone))
    }

    fn check_bounds(&self) -> Result<(), &'static str> {
        check_timezone(&self.timezone).map_err(|_| "timezone")
    }

    /// A server has one time zone.
    fn needs_replacement(&self, _next: &Self) -> bool {
        false
    }
}

fn timezone(value: &Value) -> Result<String, PropertyError> {
    checked("the name of a time zone", value, check_timezone)
}

/// Checks a name. Dots are refused, so that the path stays below the folder of the zones.
fn check_timezone(name: &str) -> Result<(), TimezoneError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+');
    let part = |part: &str| part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.bytes().all(allowed);
    if name.len() <= TIMEZONE_MAX && name.split('/').all(part) { Ok(()) } else { Err(TimezoneError) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for good in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT"] {
            assert_eq!(check_timezone(good), Ok(()), "{good}");
        }
        let long = "a".repeat(TIMEZONE_MAX + 1);
        for bad in [
            "",
            "/UTC",
            "../etc/shadow",
            "Europe/../UTC",
            "Europe//Berlin",
            "Europe/",
            "+1",
            "a b",
            "a\n",
            "\u{fc}",
            &long,
        ] {
            assert_eq!(check_timezone(bad), Err(TimezoneError), "{bad:?}");
        }
    }
}
