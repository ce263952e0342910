//! Label selectors: `role=web,zone!=b,rack,!old`; all terms must hold.

use std::str::FromStr;

use serde_json::Value;

/// What a node's labels must be.
#[derive(Clone, Debug)]
pub struct Selector(Vec<Term>);

#[derive(Clone, Debug)]
enum Term {
    Is(String, String),
    IsNot(String, String),
    Has(String),
    HasNot(String),
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        text.split(',').map(|term| term.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Term {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let key = |key: &str| {
            let key = key.trim();
            let valid = !key.is_empty() && !key.contains(['!', '=']);
            if valid { Ok(key.to_owned()) } else { Err(format!("'{text}': want k=v, k!=v, k or !k")) }
        };
        if let Some((name, value)) = text.split_once("!=") {
            Ok(Self::IsNot(key(name)?, value.trim().to_owned()))
        } else if let Some((name, value)) = text.split_once('=') {
            Ok(Self::Is(key(name)?, value.trim().to_owned()))
        } else if let Some(name) = text.strip_prefix('!') {
            Ok(Self::HasNot(key(name)?))
        } else {
            Ok(Self::Has(key(text)?))
        }
    }
}

impl Selector {
    /// Whether a map of labels is such.
    pub fn matches(&self, labels: &Value) -> bool {
        self.0.iter().all(|term| match term {
            Term::Is(key, value) => labels[key] == value.as_str(),
            Term::IsNot(key, value) => labels[key] != value.as_str(),
            Term::Has(key) => !labels[key].is_null(),
            Term::HasNot(key) => labels[key].is_null(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors() {
        let labels = json!({"role": "web", "zone": "a"});
        for (text, wanted) in [
            ("", true),
            ("role=web", true),
            ("role=db", false),
            ("role=web, zone!=b", true),
            ("role!=web", false),
            ("absent!=x", true),
            ("zone", true),
            ("rack", false),
            ("!rack", true),
            ("!zone", false),
            ("role=web,rack", false),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().matches(&labels), wanted, "{text}");
        }
        for text in ["=web", "role=web,", ",", "!", "!a=b", "a!b"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }
}
