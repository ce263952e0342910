//! A flow file in JSON, an item at a time.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::collect::{Collector, Fault, Section, Spot};
use super::yaml::place_of;
use crate::build::Reader;
use crate::error::{Place, Sink, cut};
use crate::expression::Expr;
use crate::source::Source;

/// The error was reported already, or reading cannot continue.
const STOPPED: &str = "stopped";

pub(super) fn read(name: &str, text: &str, into: &mut Collector) -> Sink {
    let mut state =
        State { text, into, errors: Sink::new(name), at: Place { line: 1, column: 1 }, offset: 0 };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let result = deserializer.deserialize_map(Document(&mut state)).and_then(|()| deserializer.end());
    if let Err(error) = result
        && (state.errors.is_empty() || !error.to_string().starts_with(STOPPED))
    {
        let (at, message) = said(&error);
        state.errors.push(at, "", message);
    }
    state.errors
}

fn said(error: &serde_json::Error) -> (Place, String) {
    let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let at = Place { line: narrow(error.line()), column: narrow(error.column()) };
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    let what = if error.is_data() { "" } else { "not valid JSON: " };
    (at, format!("{what}{message}"))
}

struct State<'s, 't> {
    text: &'t str,
    into: &'s mut Collector,
    errors: Sink,
    /// The place of `offset`; it moves forward only.
    at: Place,
    offset: usize,
}

impl<'t> State<'_, 't> {
    /// The place of a part of the text.
    fn place(&mut self, part: &'t str) -> Place {
        let offset = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let Some(between) = self.text.get(self.offset..offset) else { return self.at };
        let lines = between.bytes().filter(|b| *b == b'\n').count();
        let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        match between.rfind('\n') {
            Some(end) => {
                self.at.line = self.at.line.saturating_add(narrow(lines));
                self.at.column = 1 + narrow(between[end + 1..].chars().count());
            }
            None => self.at.column = self.at.column.saturating_add(narrow(between.chars().count())),
        }
        self.offset = offset;
        self.at
    }

    /// `false`: stop.
    fn item(&mut self, raw: &'t RawValue, spot: Spot) -> bool {
        let at = self.place(raw.get());
        if !self.into.has_room(&mut self.errors, at, spot) {
            return false;
        }
        match serde_json::from_str::<Strict>(raw.get()) {
            Ok(Strict(value)) => {
                if let Err(fault) = self.into.take(&value, spot, at.line) {
                    let place = places(raw.get()).map_or(at, |expr| below(at, place_of(&expr, &fault.steps)));
                    self.fault(place, spot, fault);
                }
            }
            Err(error) => {
                let (within, message) = said(&error);
                self.fault(below(at, within), spot, Fault { steps: Vec::new(), message });
            }
        }
        !self.errors.is_full()
    }

    fn fault(&mut self, at: Place, spot: Spot, fault: Fault) {
        self.errors.push(at, &spot.path(&fault.steps), fault.message);
    }
}

/// The item with the places of its parts; `None` if its JSON is no YAML.
fn places(item: &str) -> Option<Expr> {
    let source = Source::new(item);
    let mut reader = Reader::new("", &source.text, source.shift);
    reader.functions = false;
    reader.next().ok()?;
    reader.next().ok()?;
    reader.expr(1).ok()
}

/// A place within something that begins at `start`.
fn below(start: Place, within: Place) -> Place {
    match within.line {
        0 | 1 => {
            Place { line: start.line, column: start.column.saturating_add(within.column).saturating_sub(1) }
        }
        line => Place { line: start.line.saturating_add(line - 1), column: within.column },
    }
}

struct Document<'d, 's, 't>(&'d mut State<'s, 't>);

impl<'t> Visitor<'t> for Document<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a flow file: a map of sections")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        let state = self.0;
        while let Some(Key(key)) = map.next_key::<Key<'t>>()? {
            let at = match key {
                Cow::Borrowed(key) => state.place(key),
                Cow::Owned(_) => state.at,
            };
            match state.into.section(&mut state.errors, &key, at) {
                Some(Section::ConfirmTimeout) => {
                    let Strict(value) = map.next_value()?;
                    state.into.timeout(&mut state.errors, &value, at);
                }
                Some(Section::Stages) => map.next_value_seed(Stages(state))?,
                Some(section) => map.next_value_seed(Items { state, section, stage: 0 })?,
                None => {
                    map.next_value::<&RawValue>()?;
                }
            }
        }
        Ok(())
    }
}

struct Stages<'d, 's, 't>(&'d mut State<'s, 't>);

impl<'t> DeserializeSeed<'t> for Stages<'_, '_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Stages<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of stages, each a list of rules")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut list: A) -> Result<(), A::Error> {
        let state = self.0;
        for number in 0.. {
            let stage = Items { state: &mut *state, section: Section::Stages, stage: number };
            if list.next_element_seed(stage)?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

struct Items<'d, 's, 't> {
    state: &'d mut State<'s, 't>,
    section: Section,
    stage: usize,
}

impl<'t> DeserializeSeed<'t> for Items<'_, '_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Items<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.section == Section::Stages { "a stage: a list of rules" } else { "a list" })
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        if self.section == Section::Stages {
            Err(E::custom("a stage is a list of rules; this is nothing"))
        } else {
            Ok(())
        }
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut list: A) -> Result<(), A::Error> {
        let Items { state, section, stage } = self;
        if section == Section::Stages && !state.into.stage(&mut state.errors, stage, state.at) {
            return Err(A::Error::custom(STOPPED));
        }
        for item in 0.. {
            let Some(raw) = list.next_element::<&'t RawValue>()? else { break };
            if !state.item(raw, Spot { section, stage, item }) {
                return Err(A::Error::custom(STOPPED));
            }
        }
        Ok(())
    }
}

/// A key, borrowed from the text where possible.
struct Key<'t>(Cow<'t, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a section")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// A value in which no map has a key twice: the last would win unseen.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue).map(Strict)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = list.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Strict(value))) = entries.next_entry::<String, Strict>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key '{}' is given twice", cut(&key))));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
