//! Names with `*` in them.

/// Whether `name` is `pattern`, in which `*` stands for any characters.
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

#[cfg(test)]
mod tests {
    use super::matches;

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
