//! Helpers that the tests of pictures share.

/// Nothing breaks out of a quoted string of a document for Graphviz.
pub fn is_quoted(text: &str) {
    for line in text.lines() {
        let mut quoted = false;
        let mut escaped = false;
        for c in line.chars() {
            match c {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                c => assert!(quoted || !c.is_control()),
            }
        }
        assert!(!quoted && !escaped, "{line}");
    }
}
