//! Masks the values of hidden parameters in texts for people.
//!
//! A secret of [`Secrets::ANYWHERE`] characters or more is masked wherever it appears: whole, as JSON or a
//! log escapes it, line by line if it has several lines, and where a text was cut within it. A shorter secret
//! is masked only as a separate word, since a text is full of single letters and digits; an attacker could
//! guess it anyway. Each value in a map or list is a secret. `true` and `false` are masked only as a whole
//! value; an empty text is no secret, since every text contains it.
//!
//! Absent: which values a stack hides, and for how long (`controller/engine/src/view/hidden.rs`), and values that a
//! template computes from a secret (its digest, the parts of `str_split`).

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// Replaces the value of a hidden parameter, as in Heat.
pub const MASK: &str = "******";

/// Values looked for: with more of them nothing is shown, rather than everything searched for each.
const KNOWN_MAX: usize = 4096;
/// Messages cut long texts after this many characters (see `cut`), and a secret with them.
const CUT: usize = 80;

/// Texts that are not to be shown. Clones share them.
#[derive(Clone, Default, PartialEq)]
pub struct Secrets(Option<Arc<SecretTexts>>);

#[derive(Default, PartialEq)]
struct SecretTexts {
    /// The longest first, so that a secret that begins with another is masked whole.
    anywhere: Vec<Box<str>>,
    words: Vec<Box<str>>,
    /// `false`, `true`
    bools: [bool; 2],
    /// There are more secrets than the search covers: everything is masked.
    all: bool,
}

impl Secrets {
    /// Characters from which on a secret is masked in the middle of words too.
    pub const ANYWHERE: usize = 4;

    /// The secrets among all values in these.
    pub fn of<'v>(values: impl Iterator<Item = &'v Value>) -> Self {
        let mut known = SecretTexts::default();
        values.for_each(|value| known.take(value));
        known.finish()
    }

    /// The secrets of both.
    #[must_use]
    pub fn and(&self, others: &Secrets) -> Self {
        let (Some(mine), Some(theirs)) = (&self.0, &others.0) else {
            return if self.0.is_some() { self.clone() } else { others.clone() };
        };
        if mine == theirs {
            return self.clone();
        }
        let mut known =
            SecretTexts { bools: mine.bools, all: mine.all || theirs.all, ..SecretTexts::default() };
        for (known, hidden) in known.bools.iter_mut().zip(theirs.bools) {
            *known |= hidden;
        }
        for list in [&mine.anywhere, &theirs.anywhere] {
            known.anywhere.extend(list.iter().cloned());
        }
        for list in [&mine.words, &theirs.words] {
            known.words.extend(list.iter().cloned());
        }
        known.finish()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// A text for operators.
    pub fn mask(&self, text: &str) -> String {
        match &self.0 {
            None => text.to_owned(),
            Some(known) if known.all && !text.is_empty() => MASK.to_owned(),
            Some(known) => known.mask(text),
        }
    }

    /// The secrets that occur in a text, once per occurrence; only those of [`Secrets::ANYWHERE`]
    /// characters or more.
    pub fn found_in(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(known) = &self.0 {
            known.each(text, |at, length| found.push(text[at..at + length].to_owned()));
        }
        found.retain(|secret| secret.chars().count() >= Self::ANYWHERE);
        found
    }

    /// A value for operators: each text in it, numbers and keys too.
    pub fn mask_value(&self, value: Value) -> Value {
        let Some(known) = &self.0 else { return value };
        match value {
            Value::String(text) => Value::String(self.mask(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.mask_value(item)).collect(),
            Value::Object(entries) => {
                entries.into_iter().map(|(key, value)| (self.mask(&key), self.mask_value(value))).collect()
            }
            Value::Bool(value) if known.all || known.bools[usize::from(value)] => Value::from(MASK),
            Value::Number(number) => {
                let text = number.to_string();
                let shown = self.mask(&text);
                if shown == text { Value::Number(number) } else { Value::String(shown) }
            }
            other @ (Value::Bool(_) | Value::Null) => other,
        }
    }
}

impl SecretTexts {
    fn take(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::Bool(value) => self.bools[usize::from(*value)] = true,
            Value::Number(number) => self.text(&number.to_string()),
            Value::String(text) => self.forms(text),
            Value::Array(items) => items.iter().for_each(|item| self.take(item)),
            Value::Object(entries) => entries.values().for_each(|value| self.take(value)),
        }
    }

    /// Adds the forms in which a text may be shown.
    fn forms(&mut self, text: &str) {
        self.text(text);
        self.text(text.trim());
        let json = Value::from(text).to_string();
        self.text(&json[1..json.len() - 1]);
        let json = crate::text::json(&Value::from(text));
        self.text(&json[1..json.len() - 1]);
        self.text(&text.escape_debug().to_string());
        let printable: String = text
            .chars()
            .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
            .collect();
        self.text(&printable);
        for whole in [text, &printable] {
            if let Some((end, _)) = whole.char_indices().nth(CUT) {
                self.text(&whole[..end]);
            }
        }
        // Leaves out lines too short to recognise their origin.
        for line in text.lines().map(str::trim).filter(|line| line.len() >= 2 * Secrets::ANYWHERE) {
            self.text(line);
        }
    }

    fn text(&mut self, text: &str) {
        if self.anywhere.len() + self.words.len() >= 8 * KNOWN_MAX {
            self.all = true; // not each form counts, but there is an end to it
        } else if text.chars().count() >= Secrets::ANYWHERE {
            self.anywhere.push(text.into());
        } else if !text.trim().is_empty() {
            self.words.push(text.into());
        }
    }

    fn finish(mut self) -> Secrets {
        for list in [&mut self.anywhere, &mut self.words] {
            list.sort_by(|a, b| (b.len(), a).cmp(&(a.len(), b)));
            list.dedup();
        }
        self.all |= self.anywhere.len() + self.words.len() > KNOWN_MAX;
        if self.all {
            (self.anywhere, self.words) = (Vec::new(), Vec::new());
        }
        Secrets((self != SecretTexts::default()).then(|| Arc::new(self)))
    }

    fn mask(&self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        let mut from = 0;
        self.each(text, |at, length| {
            shown.push_str(&text[from..at]);
            shown.push_str(MASK);
            from = at + length;
        });
        shown.push_str(&text[from..]);
        shown
    }

    /// Calls `found` with the begin of each secret and its bytes; they do not overlap.
    fn each(&self, text: &str, mut found: impl FnMut(usize, usize)) {
        let mut first = [false; 256];
        for secret in self.anywhere.iter().chain(&self.words) {
            first[usize::from(secret.as_bytes()[0])] = true;
        }
        let mut at = 0;
        while at < text.len() {
            let length = match first[usize::from(text.as_bytes()[at])] {
                true => self.at(text, at),
                false => None,
            };
            if let Some(length) = length {
                found(at, length);
            }
            // Bytes within a character begin no secret.
            at += length.unwrap_or(1);
        }
    }

    /// Bytes of the secret that begins here.
    fn at(&self, text: &str, at: usize) -> Option<usize> {
        let rest = &text.as_bytes()[at..];
        let whole = self.anywhere.iter().find(|secret| rest.starts_with(secret.as_bytes()));
        let word = || {
            self.words
                .iter()
                .find(|word| rest.starts_with(word.as_bytes()) && is_word(text, at, at + word.len()))
        };
        whole.or_else(word).map(|secret| secret.len()).or_else(|| self.cut_short(rest))
    }

    /// The text, or a quotation in it, ends within a secret of which at least half can be seen.
    fn cut_short(&self, rest: &[u8]) -> Option<usize> {
        let shown = rest.strip_suffix("…".as_bytes()).unwrap_or(rest);
        let is_part = |secret: &&str| {
            shown.len() >= (secret.len() / 2).max(2 * Secrets::ANYWHERE)
                && secret.as_bytes().starts_with(shown)
        };
        self.anywhere.iter().map(|secret| &**secret).find(is_part).map(|_| shown.len())
    }
}

/// Neither letter nor digit goes on before or after it.
fn is_word(text: &str, from: usize, upto: usize) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || c == '_';
    !text[..from].ends_with(goes_on) && !text[upto..].starts_with(goes_on)
}

/// Shows nothing, not even the number of secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Secrets none" } else { "Secrets" })
    }
}

#[cfg(test)]
mod tests;
