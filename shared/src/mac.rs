//! MAC addresses as text: `52:54:00:12:34:56`.

/// The octets in lower case, with colons between them. Addresses of InfiniBand and LLDP have another number of octets.
pub fn text(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
}

/// The address of a rule's or a packet's field, which has it in its last 48 bits.
pub fn text_of_field(value: u128) -> String {
    text(&value.to_be_bytes()[10..])
}

/// Reads six octets of two digits each with colons between them, in upper or lower case.
pub fn parse(text: &str) -> Option<[u8; 6]> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut octets {
        let part = parts.next()?;
        let is_octet = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        *octet = u8::from_str_radix(part, 16).ok().filter(|_| is_octet)?;
    }
    parts.next().is_none().then_some(octets)
}

/// Reads an address as network documents have it: with a colon or a hyphen between two octets.
pub fn parse_written(text: &str) -> Option<[u8; 6]> {
    parse(&text.replace('-', ":"))
}

/// Reads an address as a field has it.
pub fn parse_field(text: &str) -> Option<u128> {
    let [a, b, c, d, e, f] = parse(text)?;
    Some(u64::from_be_bytes([0, 0, a, b, c, d, e, f]).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let octets = [0x52, 0x54, 0, 0x12, 0xab, 0x0f];
        assert_eq!(text(&octets), "52:54:00:12:ab:0f");
        assert_eq!(parse("52:54:00:12:AB:0f"), Some(octets));
        assert_eq!(parse_field("52:54:00:12:ab:0f"), Some(0x5254_0012_ab0f));
        assert_eq!(text_of_field(0x5254_0012_ab0f), "52:54:00:12:ab:0f");
        assert_eq!(text(&[1; 8]), "01:01:01:01:01:01:01:01");
    }

    #[test]
    fn documents_may_have_hyphens() {
        let octets = [0x52, 0x54, 0, 0x12, 0xab, 0x0f];
        for written in ["52:54:00:12:ab:0f", "52-54-00-12-AB-0F", "52:54-00:12-ab:0f"] {
            assert_eq!(parse_written(written), Some(octets), "{written}");
        }
        assert_eq!(parse_written("52.54.00.12.ab.0f"), None);
        assert_eq!(parse_written("52--54:00:12:ab:0f"), None);
    }

    #[test]
    fn other_texts_are_refused() {
        for other in [
            "",
            "52:54:00:12:ab",
            "52:54:00:12:ab:0f:00",
            "52:54:00:12:ab:f",
            "+2:54:00:12:ab:0f",
            "52-54-00-12-ab-0f",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
