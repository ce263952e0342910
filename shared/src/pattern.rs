//! Names with `*` in them: decides what a `*` stands for. In a host's name it stops at dots.
//!
//! Absent: selectors of nodes (`controller/template/src/selector.rs`).

/// Whether `name` matches `pattern`, in which `*` stands for any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    let mut rest = rest;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether a host's name matches `pattern`, in which `*` stands for any characters of one label, up to a dot.
pub fn matches_host(pattern: &str, name: &str) -> bool {
    let (mut patterns, mut labels) = (pattern.split('.'), name.split('.'));
    loop {
        match (patterns.next(), labels.next()) {
            (Some(pattern), Some(label)) if matches(pattern, label) => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{matches, matches_host};

    #[test]
    fn in_a_host_name_a_star_stops_at_dots() {
        for (pattern, name, want) in [
            ("web-1.example.org", "web-1.example.org", true),
            ("web-*", "web-7", true),
            ("web-*", "web-7.example.org", false),
            ("web-*", "web-7.attacker.net", false),
            ("web-*.example.org", "web-7.example.org", true),
            ("web-*.example.org", "web-7.a.example.org", false),
            ("web-*.example.org", "web-7.example.org.attacker.net", false),
            ("*.example.*", "a.example.net", true),
            ("*", "anything", true),
            ("*", "anything.example.org", false),
            ("*.*", "a", false),
        ] {
            assert_eq!(matches_host(pattern, name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn patterns() {
        for (pattern, name, want) in [
            ("web-1", "web-1", true),
            ("web-1", "web-10", false),
            ("web-*", "web-10", true),
            ("web-*", "db-1", false),
            ("*.example.org", "a.example.org", true),
            ("*.example.org", "example.org", false),
            ("web-*.example.*", "web-1.example.org", true),
            ("*", "anything", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }
}
