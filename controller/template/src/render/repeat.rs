//! `repeat`: the template once for each item, or for each combination of items.

use serde_json::{Map, Value};

use super::{Fault, Scope};
use crate::Limits;
use crate::error::{Place, cut};
use crate::expression::{Expr, describe};
use crate::text::{text_of, weight};

impl Scope<'_> {
    pub(super) fn repeat(
        &self,
        at: Place,
        template: &Expr,
        for_each: &Expr,
        permutations: bool,
    ) -> Result<Value, Fault> {
        let within = |fault: Fault| fault.within_key("for_each");
        let lists = self.value(for_each).map_err(within)?;
        let Value::Object(lists) = lists else {
            let message = format!("want a map as 'for_each', got {}", describe(&lists));
            return Err(within(Fault::new(for_each.at, message)));
        };
        let mut keys: Vec<(String, Vec<Value>)> = Vec::with_capacity(lists.len());
        for (key, list) in lists {
            if key.is_empty() {
                return Err(within(Fault::new(for_each.at, "an empty text cannot be replaced")));
            }
            let items = match list {
                Value::Array(items) => items,
                Value::Object(map) if permutations => {
                    map.into_iter().map(|(key, _)| Value::String(key)).collect()
                }
                Value::Null => Vec::new(),
                other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                    let wanted = if permutations { "a list or a map" } else { "a list" };
                    let message = format!("want {wanted} to repeat over, got {}", describe(&other));
                    let at = for_each.entry(&key).map_or(for_each.at, |entry| entry.value.at);
                    return Err(within(Fault::new(at, message).within_key(&key)));
                }
            };
            keys.push((key, items));
        }
        // The order in the text decides the order of combinations.
        keys.sort_by_key(|(key, _)| for_each.entry(key).map(|entry| entry.at));
        let count =
            rounds(&keys, permutations).map_err(|message| within(Fault::new(for_each.at, message)))?;
        let template = self.value(template).map_err(|fault| fault.within_key("template"))?;
        let cost = weight(&template);
        let mut made = Vec::new();
        for round in 0..count {
            let chosen = chosen(&keys, round, permutations);
            self.spend(at, 8 + cost)?;
            made.push(self.filled(at, &template, &chosen)?);
        }
        Ok(Value::Array(made))
    }

    /// The template with each text replaced, one after the other, also in keys.
    fn filled(&self, at: Place, template: &Value, chosen: &[(&str, &Value)]) -> Result<Value, Fault> {
        match template {
            Value::String(text) => self.filled_text(at, text, chosen),
            Value::Array(items) => items.iter().map(|item| self.filled(at, item, chosen)).collect(),
            Value::Object(map) => {
                let mut filled = Map::new();
                for (key, value) in map {
                    let key = match self.filled_text(at, key, chosen)? {
                        Value::String(key) => key,
                        other @ (Value::Null
                        | Value::Bool(_)
                        | Value::Number(_)
                        | Value::Array(_)
                        | Value::Object(_)) => text_of(&other).into_owned(),
                    };
                    filled.insert(key, self.filled(at, value, chosen)?);
                }
                Ok(Value::Object(filled))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(template.clone()),
        }
    }

    fn filled_text(&self, at: Place, text: &str, chosen: &[(&str, &Value)]) -> Result<Value, Fault> {
        // A text that is exactly one key becomes the item itself; Heat accepts texts only.
        if let Some((_, value)) = chosen.iter().find(|(key, value)| *key == text && !value.is_string()) {
            self.spend(at, weight(value))?;
            return Ok((*value).clone());
        }
        let mut out = text.to_owned();
        for (key, value) in chosen {
            let places = out.matches(key).count();
            if places > 0 {
                let value = text_of(value);
                self.spend(at, places.saturating_mul(value.len()).saturating_add(out.len()))?;
                out = out.replace(key, &value);
            }
        }
        Ok(Value::String(out))
    }
}

fn rounds(keys: &[(String, Vec<Value>)], permutations: bool) -> Result<usize, String> {
    let lengths = || keys.iter().map(|(_, items)| items.len());
    let count = if permutations {
        // Without a key there is no round.
        lengths().try_fold(usize::from(!keys.is_empty()), usize::checked_mul).unwrap_or(usize::MAX)
    } else {
        let longest = lengths().max().unwrap_or(0);
        if let Some((key, items)) = keys.iter().find(|(_, items)| items.len() != longest) {
            return Err(format!(
                "without permutations all lists have one length; '{}' has {} items, another {longest}",
                cut(key),
                items.len()
            ));
        }
        longest
    };
    if count > Limits::REPEATED {
        return Err(format!("this repeats more than {} times", Limits::REPEATED));
    }
    Ok(count)
}

/// The item of each list in this round: of combinations the last list goes fastest.
fn chosen(keys: &[(String, Vec<Value>)], round: usize, permutations: bool) -> Vec<(&str, &Value)> {
    let mut rest = round;
    let mut chosen: Vec<(&str, &Value)> = keys
        .iter()
        .rev()
        .map(|(key, items)| {
            let index = if permutations { rest % items.len() } else { round };
            rest /= items.len();
            (key.as_str(), &items[index])
        })
        .collect();
    chosen.reverse();
    chosen
}
