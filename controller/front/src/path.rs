//! Paths and queries of requests to the API.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that stand for themselves.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A path of segments, each as it is.
pub fn path<const N: usize>(segments: [&str; N]) -> String {
    segments.iter().map(|segment| format!("/{}", escaped(segment))).collect()
}

/// A text for a path or a query.
pub fn escaped(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_stays_one_segment() {
        assert_eq!(path(["v1", "nodes", "a/b c?"]), "/v1/nodes/a%2Fb%20c%3F");
        assert_eq!(escaped("web-1_a.b~c:ü"), "web-1_a.b~c%3A%C3%BC");
    }
}
