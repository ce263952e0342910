//! Ids as Heat has them: a UUID for each stack, nested stack and event, made of Muster's numbers, so that none is stored.
//!
//! Layout (version 8 of RFC 9562): 48 bits of the stack's number, 4 of the version, 4 of what it is, 8 more of the number,
//! 2 of the variant, 62 of an event's number, or of a digest of a nested stack's path.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// Bits of the last part.
const LOW: u64 = (1 << 62) - 1;

/// The meaning of a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    Stack(u64),
    /// The contents of a resource of the stack, by a digest of its path.
    Nested {
        stack: u64,
        digest: u64,
    },
    Event {
        stack: u64,
        number: u64,
    },
}

/// Not one of our ids.
#[derive(Debug, PartialEq, Eq)]
pub struct Foreign;

impl Id {
    pub fn nested(stack: u64, path: &str) -> Self {
        let hash = blake3::derive_key("muster 2026 heat nested stack", path.as_bytes());
        let [a, b, c, d, e, f, g, h, ..] = hash;
        Self::Nested { stack, digest: u64::from_be_bytes([a, b, c, d, e, f, g, h]) & LOW }
    }

    fn parts(self) -> (u64, u64, u64) {
        match self {
            Self::Stack(stack) => (stack, 0, 0),
            Self::Nested { stack, digest } => (stack, 1, digest),
            Self::Event { stack, number } => (stack, 2, number),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stack, kind, low) = self.parts();
        let high = (stack & 0xffff_ffff_ffff) << 16 | 0x8000 | kind << 8 | (stack >> 48 & 0xff);
        Uuid::from_u64_pair(high, 1 << 63 | (low & LOW)).fmt(f)
    }
}

impl FromStr for Id {
    type Err = Foreign;

    fn from_str(text: &str) -> Result<Self, Foreign> {
        let (high, low) = Uuid::parse_str(text).map_err(|_| Foreign)?.as_u64_pair();
        if high & 0xf000 != 0x8000 || low >> 62 != 2 {
            return Err(Foreign);
        }
        let (stack, low) = (high >> 16 | (high & 0xff) << 48, low & LOW);
        match high >> 8 & 0xf {
            0 if low == 0 => Ok(Self::Stack(stack)),
            1 => Ok(Self::Nested { stack, digest: low }),
            2 => Ok(Self::Event { stack, number: low }),
            _ => Err(Foreign),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_uuid_and_comes_back() {
        for id in [
            Id::Stack(1),
            Id::Stack((1 << 56) - 1),
            Id::nested(7, "servers/0"),
            Id::Event { stack: 7, number: 12 },
        ] {
            let text = id.to_string();
            assert_eq!((text.len(), &text[14..15]), (36, "8"), "{text}");
            assert_eq!(text.parse(), Ok(id));
        }
        assert_ne!(Id::nested(7, "a").to_string(), Id::nested(7, "b").to_string());
    }

    #[test]
    fn other_ids_are_foreign() {
        for text in
            ["", "web", "1", "2f6cdd8a-4d0e-4bd5-8a4c-1cfb5a4a1a5e", "00000000-0001-8f00-8000-000000000000"]
        {
            assert_eq!(text.parse::<Id>(), Err(Foreign), "{text}");
        }
    }
}
