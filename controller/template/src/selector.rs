//! Selectors of nodes by their labels and facts: `role=web,zone!=b,fact.os.id=debian,fact.memory>=16G`; all
//! terms must hold.
//!
//! A term about a fact holds only if the server has reported its facts: for an unknown fact, neither `=` nor
//! `!=` is true. A term with `*` in its name holds if it does for one of the items.
//!
//! Absent: when a stack follows nodes that begin or cease to match (`controller/engine/src/stack/follow.rs`).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::Value;

use crate::fact::{self, under};

/// The prefix of facts' names; no label begins with it.
pub const FACT_PREFIX: &str = "fact.";

/// The required properties of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector(Vec<Term>);

#[derive(Clone, Debug, PartialEq)]
struct Term {
    subject: Subject,
    test: Test,
    /// The test must not hold.
    not: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Subject {
    Label(String),
    Fact(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    IsThere,
    Is(String),
    /// The comparison with a number gives one of these.
    Compares(f64, [Option<Ordering>; 2]),
}

/// Longer ones first: what begins with another.
const OPERATORS: [&str; 7] = ["!=", "==", ">=", "<=", "=", ">", "<"];

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        text.split(',').map(|term| term.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Term {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.find(['!', '=', '<', '>']).filter(|at| *at > 0);
        let Some(at) = at else {
            let (not, key) = text.strip_prefix('!').map_or((false, text), |key| (true, key));
            return Ok(Self { subject: subject(text, key, false)?, test: Test::IsThere, not });
        };
        let (key, rest) = text.split_at(at);
        let operator = OPERATORS.into_iter().find(|operator| rest.starts_with(operator));
        let operator = operator.ok_or_else(|| wanted(text))?;
        let value = rest[operator.len()..].trim();
        let compares = |orders| {
            let number = number(value).ok_or_else(|| format!("'{text}': '{value}' is no number"))?;
            Ok::<_, String>(Test::Compares(number, orders))
        };
        let test = match operator {
            ">" => compares([Some(Ordering::Greater), None])?,
            "<" => compares([Some(Ordering::Less), None])?,
            ">=" => compares([Some(Ordering::Greater), Some(Ordering::Equal)])?,
            "<=" => compares([Some(Ordering::Less), Some(Ordering::Equal)])?,
            _ if value.starts_with(['=', '<', '>', '!']) => return Err(wanted(text)),
            _ => Test::Is(value.to_owned()),
        };
        let subject = subject(text, key, true)?;
        // A value that no label can have selects nothing, without an error. Facts can have any value.
        if matches!(subject, Subject::Label(_)) && !is_label(value) {
            return Err(wanted(text));
        }
        Ok(Self { subject, test, not: operator == "!=" })
    }
}

/// Whether the text can be a label's key or value: without a selector's characters, and without control
/// characters of terminals.
pub fn is_label(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'/' | b':'))
}

fn wanted(text: &str) -> String {
    format!(
        "'{text}' is not a selector: want k=v, k!=v, k or !k, or a comparison with a number such as k>=4; several joined \
         by commas, such as role=web,zone!=b"
    )
}

fn subject(text: &str, key: &str, is_valued: bool) -> Result<Subject, String> {
    let key = key.trim();
    if key.is_empty() || key.contains(['!', '=', '<', '>']) {
        return Err(wanted(text));
    }
    let Some(name) = key.strip_prefix(FACT_PREFIX) else {
        return if is_label(key) { Ok(Subject::Label(key.to_owned())) } else { Err(wanted(text)) };
    };
    let path: Vec<&str> = name.split('.').collect();
    fact::check(&path, is_valued)?;
    Ok(Subject::Fact(path.into_iter().map(str::to_owned).collect()))
}

/// `16`, `1.5`, `16G`: suffixes are powers of 1024.
fn number(text: &str) -> Option<f64> {
    let (digits, factor) = match text.strip_suffix(['K', 'M', 'G', 'T']) {
        Some(digits) => match &text[digits.len()..] {
            "K" => (digits, 1024.0),
            "M" => (digits, 1024.0 * 1024.0),
            "G" => (digits, 1024.0 * 1024.0 * 1024.0),
            _ => (digits, 1024.0 * 1024.0 * 1024.0 * 1024.0),
        },
        None => (text, 1.0),
    };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || b".-".contains(&byte));
    digits.parse::<f64>().ok().filter(|_| is_plain).map(|number| number * factor)
}

/// The value under the first part of a fact's name ([`crate::fact`]).
pub type Facts<'a> = &'a dyn Fn(&str) -> Option<Value>;

impl Selector {
    /// Whether the selector matches a node with these labels. Without `facts` no fact is known.
    pub fn matches(&self, labels: &BTreeMap<String, String>, facts: Option<Facts<'_>>) -> bool {
        self.0.iter().all(|term| match &term.subject {
            Subject::Label(key) => {
                let value = labels.get(key).map(|value| Value::from(value.as_str()));
                term.test.holds(value.as_ref().as_slice()) != term.not
            }
            Subject::Fact(path) => facts.is_some_and(|facts| {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                let value = facts(path[0]).unwrap_or_default();
                term.test.holds(&under(&value, &path[1..])) != term.not
            }),
        })
    }

    /// Whether it asks for facts.
    pub fn asks_facts(&self) -> bool {
        self.0.iter().any(|term| matches!(term.subject, Subject::Fact(_)))
    }
}

impl Test {
    /// Whether the condition holds for one of the values.
    fn holds(&self, values: &[&Value]) -> bool {
        values.iter().any(|value| match self {
            Test::IsThere => !value.is_null(),
            Test::Is(wanted) => match value {
                Value::Null | Value::Array(_) | Value::Object(_) => false,
                Value::Bool(is) => *wanted == is.to_string(),
                Value::Number(_) => number(wanted).is_some_and(|wanted| value.as_f64() == Some(wanted)),
                Value::String(text) => text == wanted,
            },
            Test::Compares(wanted, orders) => {
                let found = match value {
                    Value::Number(number) => number.as_f64(),
                    Value::String(text) => number(text),
                    Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
                };
                let order = found.and_then(|found| found.partial_cmp(wanted));
                order.is_some() && orders.contains(&order)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::model::{Facts, LinkFacts, NeighbourFacts, OsFacts};

    use super::*;

    fn labels() -> BTreeMap<String, String> {
        [("role", "web"), ("zone", "a"), ("rack", "7")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    }

    #[test]
    fn labels_are_selected_by() {
        for (text, wanted) in [
            ("", true),
            ("role=web", true),
            ("role==web", true),
            ("role=db", false),
            ("role=web, zone!=b", true),
            ("role!=web", false),
            ("absent!=x", true),
            ("zone", true),
            ("row", false),
            ("!row", true),
            ("!zone", false),
            ("role=web,row", false),
            ("role=", false),
            ("rack>=7", true),
            ("rack>7", false),
            ("rack<10", true),
            ("role>1", false),
            ("absent<1", false),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().matches(&labels(), None), wanted, "{text}");
        }
        for text in [
            "=web",
            "role=web,",
            ",",
            "!",
            "!a=b",
            "a!b",
            "a===b",
            "a=>1",
            "a>b",
            "a>",
            "a>1e3",
            "a>inf",
            "a<=>1",
            "role in (a)",
            "role in a",
            "role notin (a, b)",
            "role=(a",
            "role=a b",
            "role=a;zone=b",
            "'role'=a",
        ] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }

    #[test]
    fn facts_are_selected_by() {
        let link = |name: &str, speed, neighbours| LinkFacts {
            name: name.into(),
            driver: "ixgbe".into(),
            carrier: true,
            speed,
            neighbours,
            ..LinkFacts::default()
        };
        let leaf = NeighbourFacts { system_name: Some("leaf-1".into()), ..NeighbourFacts::default() };
        let facts = Facts {
            os: OsFacts { id: "debian".into(), version: "12".into(), name: "Debian".into() },
            memory: 16 << 30,
            cpus: 8,
            links: vec![link("eth0", Some(10_000), vec![leaf]), link("eth1.100", None, Vec::new())],
            ..Facts::default()
        };
        let known: &dyn Fn(&str) -> Option<Value> = &|name| fact::fact(&facts, name);
        for (text, wanted) in [
            ("fact.os.id=debian", true),
            ("fact.os.id!=debian", false),
            ("fact.os.id!=rhel,role=web", true),
            ("fact.os.version>=12", true),
            ("fact.os.version>12", false),
            ("fact.os.id>1", false),
            ("fact.memory>=16G", true),
            ("fact.memory=16G", true),
            ("fact.memory>16G", false),
            ("fact.memory<0.5T", true),
            ("fact.cpus=8", true),
            ("fact.cpus=8.0", true),
            ("fact.links.eth0.speed>=10000", true),
            ("fact.links.eth1.100.speed", false),
            ("!fact.links.eth1.100.speed", true),
            ("fact.links.eth1.100.driver=ixgbe", true),
            ("fact.links.eth7", false),
            ("!fact.links.eth7", true),
            ("fact.links.eth0.carrier=true", true),
            ("fact.links.*.speed>=25000", false),
            ("fact.links.*.neighbours.*.system_name=leaf-1", true),
            ("fact.links.*.neighbours.0.system_name=leaf-2", false),
        ] {
            let selector: Selector = text.parse().unwrap();
            assert!(selector.asks_facts());
            assert_eq!(selector.matches(&labels(), Some(known)), wanted, "{text}");
            assert!(!selector.matches(&labels(), None), "{text}: nothing is known of the server");
        }
        for (text, wanted) in [
            ("fact.memry>1", "did you mean 'memory'"),
            ("fact.=1", "unknown fact ''"),
            ("fact.os.idd=x", "no fact 'os.idd'"),
            ("fact.links.eth0.sped>1", "no fact 'links.eth0.sped'"),
            ("fact.links.eth0=eth0", "no fact 'links.eth0'"),
            ("fact.memory>lots", "'lots' is no number"),
        ] {
            let error = text.parse::<Selector>().unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
