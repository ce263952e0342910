//! The text formats that the schema gives as regular expressions, parsed by hand to match exactly the
//! same text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::mac;

/// An address of IPv4, or of IPv6 without dots in it.
pub(super) fn is_ip(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok() || is_ipv6(text)
}

fn is_ipv6(text: &str) -> bool {
    !text.contains('.') && text.parse::<Ipv6Addr>().is_ok()
}

/// An address and a prefix length without leading zeros.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    let Some(length) = Some(length).filter(|it| digits && (it.len() == 1 || !it.starts_with('0'))) else {
        return false;
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) if is_ipv6(address) => 128,
        _ => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

pub(super) fn is_mac(text: &str) -> bool {
    mac::parse_written(text).is_some()
}

/// A name with at most 63 characters before its first dot (or none), no two dots in a row, or the root.
pub(super) fn is_domain(text: &str) -> bool {
    if text == "." {
        return true;
    }
    let length = text.chars().count();
    if text.contains("..") || text.contains('\n') || length == 0 || length > 255 {
        return false;
    }
    let dotted = text.chars().take(64).skip(1).any(|letter| letter == '.');
    dotted || (length <= 63 && !text.starts_with('.'))
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b':' | b' ' | b'_' | b'-')
}

/// `key=value`
pub(super) fn is_ovs_option(text: &str) -> bool {
    let Some((key, value)) = text.split_once('=') else { return false };
    let value_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    key.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
        && key.bytes().all(is_key)
        && !value.is_empty()
        && value.bytes().all(value_byte)
}

/// Whether the text is one or more `key=value`, with or without blanks between.
pub(super) fn is_ovs_options(text: &str) -> bool {
    let parts: Vec<&[u8]> = text.as_bytes().split(|byte| *byte == b'=').collect();
    let [first, middle @ .., last] = parts.as_slice() else { return false };
    let first_ok = first.first().is_some_and(u8::is_ascii_alphabetic) && first.iter().copied().all(is_key);
    let trimmed = &last[..last.iter().rposition(|b| *b != b' ').map_or(0, |at| at + 1)];
    let last_ok = !trimmed.is_empty() && trimmed.iter().copied().all(is_value);
    first_ok && last_ok && middle.iter().all(|part| is_value_and_key(part))
}

fn is_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'.' | b'_' | b'-')
}

/// A value, blanks, and the next key, which begins with a letter.
fn is_value_and_key(part: &[u8]) -> bool {
    // The key is the longest possible suffix; it may begin at any letter of that.
    let key_from = part.iter().rposition(|byte| !is_key(*byte)).map_or(0, |at| at + 1);
    let values = part.iter().position(|byte| !is_value(*byte)).unwrap_or(part.len());
    let blanks = part[values..].iter().position(|byte| *byte != b' ').unwrap_or(part.len() - values);
    let starts = |at: usize| at >= key_from && part.get(at).is_some_and(u8::is_ascii_alphabetic);
    // Directly after the value's blanks, or within a part that could still be the value.
    values > 0 && (starts(values + blanks) || (1..values).any(starts))
}
