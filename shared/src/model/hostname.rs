//! What the name of a server may be: the kernel takes any 64 bytes, everything else only what RFC 1123 has.
//!
//! Absent: whether anybody resolves it.

use std::net::Ipv4Addr;

use thiserror::Error;

/// `__NEW_UTS_LEN` of Linux: the kernel takes no longer name.
pub const HOSTNAME_MAX: usize = 64;
/// RFC 1035: of one part between dots.
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

/// Whether a server may have this name: a host name or fqdn as RFC 1123 has it, as long as the kernel takes it.
///
/// # Errors
/// [`HostnameError`], which reads on after the name.
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
