//! `Muster::Sysctl`: a setting of the kernel. Its properties and their bounds.
//!
//! Absent: how the agent changes and compares it (`agent/host/src/types/sysctl.rs`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::{ClaimKind, DesiredState, TemplateType};
use crate::model::spec::{Claim, OnDelete};
use crate::property::{Property, PropertyError, PropertyType, RenderedProperties, checked, on_delete, text};

/// Longer than any key of Linux.
const KEY_MAX: usize = 200;
/// Longer than any value that is written by hand; the kernel takes a page.
const VALUE_MAX: usize = 1024;

/// A setting of the kernel, now and at boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sysctl {
    /// A key of sysctl(8), with dots; `/` stands for a dot within a
    /// part (`net.ipv4.conf.eth0/100.forwarding`).
    pub key: String,
    /// A single line. Blanks of any length separate its parts.
    pub value: String,
    /// The state that a delete leaves.
    pub on_delete: OnDelete,
}

/// Errors of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SysctlError {
    #[error(
        "want a key such as net.ipv4.ip_forward: parts of letters, digits, '_', '-' and ':' with dots between them; \
         write a dot within a part as '/'"
    )]
    Key,
    #[error("want a value in one line, not empty and at most {VALUE_MAX} bytes")]
    Value,
}

impl TemplateType for Sysctl {
    const NAME: &'static str = "Muster::Sysctl";
    const ABOUT: &'static str = "a setting of the kernel, now and at boot";
    const PROPERTIES: &'static [Property] = &[
        Property::required("key", |value| key(value).map(drop))
            .is(PropertyType::String, "its name, with dots; a dot within a part is '/'")
            .replaces(),
        Property::node(),
        Property::on_delete(),
        Property::required("value", |value| text(value).map(drop))
            .is(PropertyType::String, "what the kernel has now and from boot on"),
    ];
    const ATTRIBUTES: &'static [(&'static str, &'static str)] = &[("value", "the value, as it was given")];
    const IS_CORRECTED: bool = true;

    fn read(given: &RenderedProperties<'_>) -> Result<Self, PropertyError> {
        let sysctl = Sysctl {
            key: given.required("key", key)?,
            value: given.required("value", text)?,
            on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
        };
        sysctl.check().map_err(|error: SysctlError| PropertyError::new(error.to_string()))?;
        Ok(sysctl)
    }
}

impl DesiredState for Sysctl {
    fn type_name(&self) -> &'static str {
        Self::NAME
    }

    fn key(&self) -> Cow<'_, str> {
        (&self.key).into()
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::new(ClaimKind::Sysctl, &self.key)]
    }

    fn properties(&self) -> Value {
        json!({"key": self.key, "value": self.value, "on_delete": self.on_delete.as_str()})
    }

    fn attribute(&self, name: &str) -> Option<Value> {
        (name == "value").then(|| json!(self.value))
    }

    fn check_bounds(&self) -> Result<(), &'static str> {
        self.check().map_err(|_| "sysctl")
    }

    fn weight(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

impl Sysctl {
    /// Whether it can be applied at all.
    ///
    /// # Errors
    /// [`SysctlError`]
    pub fn check(&self) -> Result<(), SysctlError> {
        check_key(&self.key)?;
        let is_line = !self.value.chars().any(|c| c.is_control() && c != '\t');
        if self.value.trim().is_empty() || self.value.len() > VALUE_MAX || !is_line {
            return Err(SysctlError::Value);
        }
        Ok(())
    }

    /// Below `/proc/sys`.
    pub fn path(&self) -> String {
        let swapped = |c| match c {
            '.' => '/',
            '/' => '.',
            other => other,
        };
        self.key.chars().map(swapped).collect()
    }
}

/// A key as this model takes it.
///
/// # Errors
/// [`SysctlError::Key`]
fn check_key(key: &str) -> Result<(), SysctlError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b':' | b'/');
    let part = |part: &str| {
        // Dots alone are not a name in a path.
        !part.is_empty() && part.bytes().all(allowed) && part.bytes().any(|b| b != b'/')
    };
    if key.len() <= KEY_MAX && key.contains('.') && key.split('.').all(part) {
        Ok(())
    } else {
        Err(SysctlError::Key)
    }
}

fn key(value: &Value) -> Result<String, PropertyError> {
    checked("the name of a setting", value, check_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_that_cannot_be_are_refused() {
        let of = |key: &str, value: &str| Sysctl {
            key: key.into(),
            value: value.into(),
            on_delete: OnDelete::Restore,
        };
        assert_eq!(of("net.ipv4.ip_forward", "1").check(), Ok(()));
        let vlan = of("net.ipv4.conf.eth0/100.forwarding", "1");
        assert_eq!((vlan.check(), vlan.path().as_str()), (Ok(()), "net/ipv4/conf/eth0.100/forwarding"));
        for key in [
            "",
            "net",
            ".a",
            "a.",
            "a..b",
            "a.//.b",
            "a. b",
            "a.b\n",
            "kernel.*",
            &format!("a.{}", "b".repeat(200)),
        ] {
            assert_eq!(of(key, "1").check(), Err(SysctlError::Key), "{key:?}");
        }
        for value in ["", " ", "1\n2", "a\0", &"1".repeat(1025)] {
            assert_eq!(of("a.b", value).check(), Err(SysctlError::Value), "{value:?}");
        }
    }
}
