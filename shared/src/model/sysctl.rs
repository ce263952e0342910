//! `Muster::Sysctl`: a setting of the kernel.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::spec::OnDelete;

/// Longer than any key of Linux.
const KEY_MAX: usize = 200;
/// Longer than any value that is written by hand; the kernel takes a page.
const VALUE_MAX: usize = 1024;

/// A setting of the kernel, now and at boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sysctl {
    /// As sysctl(8) has it, with dots; a dot within a part is `/` (`net.ipv4.conf.eth0/100.forwarding`).
    pub key: String,
    /// A line. Blanks of any length separate its parts.
    pub value: String,
    /// What a delete leaves behind.
    pub on_delete: OnDelete,
}

/// What is wrong with a setting.
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

impl Sysctl {
    /// Whether it can be applied at all.
    ///
    /// # Errors
    /// [`SysctlError`]
    pub fn check(&self) -> Result<(), SysctlError> {
        check_sysctl_key(&self.key)?;
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
pub fn check_sysctl_key(key: &str) -> Result<(), SysctlError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b':' | b'/');
    let part = |part: &str| {
        // Dots alone are no name in a path.
        !part.is_empty() && part.bytes().all(allowed) && part.bytes().any(|b| b != b'/')
    };
    if key.len() <= KEY_MAX && key.contains('.') && key.split('.').all(part) {
        Ok(())
    } else {
        Err(SysctlError::Key)
    }
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
