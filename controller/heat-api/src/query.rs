//! The query after the question mark: filters, markers, limits, as Heat reads them. A name may be there several times.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::Heat;
use crate::fault::{Fault, cut};

/// The pairs in their order.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    pairs: Vec<(String, String)>,
    /// As it was sent.
    pub text: String,
}

impl FromRequestParts<Heat> for Pairs {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &Heat) -> Result<Self, Fault> {
        Pairs::of(parts.uri.query().unwrap_or_default())
    }
}

impl Pairs {
    pub fn of(text: &str) -> Result<Self, Fault> {
        let decoded = |text: &str| {
            let text = text.replace('+', " ");
            let decoded = percent_decode_str(&text).decode_utf8().map(|text| text.into_owned());
            decoded.map_err(|_| Fault::invalid("the query is no UTF-8 text"))
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(key)?, decoded(value)?))
        });
        Ok(Self { pairs: pairs.collect::<Result<_, Fault>>()?, text: text.to_owned() })
    }

    /// The first value of this name that is not empty.
    pub fn one(&self, name: &'static str) -> Option<&str> {
        self.all(name).next()
    }

    /// The values of this name.
    pub fn all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a str> {
        self.pairs
            .iter()
            .filter(move |(key, value)| key == name && !value.is_empty())
            .map(|(_, value)| &**value)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(key, _)| &**key)
    }

    /// False where it is not there.
    pub fn flag(&self, name: &'static str) -> Result<bool, Fault> {
        Ok(self.one(name).map(|text| boolean(name, text)).transpose()?.unwrap_or(false))
    }

    /// A whole number, which may be 0.
    pub fn number(&self, name: &'static str) -> Result<Option<usize>, Fault> {
        let parse = |text: &str| {
            text.parse().map_err(|_| Fault::invalid(format!("{name}='{}' is no whole number", cut(text))))
        };
        self.one(name).map(parse).transpose()
    }

    /// Whether an item whose value this is passes the filters of this name.
    pub fn lets(&self, name: &'static str, value: &str) -> bool {
        let mut wanted = self.all(name).peekable();
        wanted.peek().is_none() || wanted.any(|wanted| wanted == value)
    }
}

/// As Heat reads booleans.
pub fn boolean(name: &str, text: &str) -> Result<bool, Fault> {
    match &*text.to_ascii_lowercase() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Fault::invalid(format!(
            "Unrecognized value \"{}\" for \"{name}\", acceptable values are: true, false",
            cut(text)
        ))),
    }
}
