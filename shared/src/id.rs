//! Decides which names of nodes, sites and stacks are valid. Every value fits a topic, a file name and a
//! certificate.
//!
//! Absent: which name a token is for (`controller/engine/src/node/join_token.rs`), and host names of servers
//! (`model/types/hostname.rs`).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// The reason why a text is no name.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum IdError {
    /// Empty, too long, or with characters that do not belong.
    #[error(
        "'{given}' is not a node name: want a host name of lower-case letters, digits, '-' and '.', at most 253"
    )]
    Node {
        /// The given text, cut to a printable length.
        given: String,
    },
    /// The given text, cut to a printable length.
    #[error(
        "'{given}' is not a stack name: want a letter, then letters, digits, '_', '-' and '.', at most 255"
    )]
    Stack {
        /// The given text, cut to a printable length.
        given: String,
    },
    /// The given text, cut to a printable length.
    #[error("'{given}' is not a site: want 1 to 32 lower-case letters, digits and '-'")]
    Site {
        /// The given text, cut to a printable length.
        given: String,
    },
}

fn cut(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_default).collect()
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $valid:path, $error:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                if $valid(text) { Ok(Self(text.into())) } else { Err(IdError::$error { given: cut(text) }) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.as_str().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type!(
    /// A deployed server, named by its fqdn in lower case. Safe in MQTT topics and client ids.
    NodeId, valid_node, Node
);
name_type!(
    /// The id of a site: the fleet of one controller.
    SiteId, valid_site, Site
);
name_type!(
    /// A stack's name, as Heat allows it.
    StackName, valid_stack, Stack
);

fn valid_node(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

fn valid_site(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn valid_stack(text: &str) -> bool {
    (1..=255).contains(&text.len())
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// The physical id of a resource: made by the controller with the row, never changed, unique for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceId(pub Uuid);

impl ResourceId {
    /// A node's own network document, given on the node; the controller has no row for it. Left out of the
    /// ledger as the controller sees it; on the wire only as the key of a challenge.
    pub const LOCAL: Self = Self(Uuid::max());

    /// Whether it is [`ResourceId::LOCAL`].
    pub fn is_local(self) -> bool {
        self == Self::LOCAL
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names() {
        for (text, valid) in [
            ("web-1", true),
            ("web-1.example.org", true),
            ("1", true),
            ("", false),
            ("Web", false),
            ("a..b", false),
            ("-a", false),
            ("a-", false),
            ("a/b", false),
            ("a+", false),
            ("#", false),
            ("$sys", false),
        ] {
            assert_eq!(text.parse::<NodeId>().is_ok(), valid, "{text}");
        }
        assert!("a".repeat(64).parse::<NodeId>().is_err());
        assert!(vec!["a".repeat(63); 4].join(".").parse::<NodeId>().is_err());
    }

    #[test]
    fn stack_names() {
        for (text, valid) in [("web", true), ("W_1.x-y", true), ("1web", false), ("", false), ("a b", false)]
        {
            assert_eq!(text.parse::<StackName>().is_ok(), valid, "{text}");
        }
    }

    #[test]
    fn an_error_shows_no_control_characters() {
        let error = "a\u{1b}[31m".parse::<NodeId>().expect_err("not a name").to_string();
        assert!(!error.contains('\u{1b}'), "{error}");
    }
}
