//! Builds expressions from the events of the YAML parser. Nothing else of the document is kept.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexSet;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Value};

use crate::Limits;
use crate::error::{Error, Path, Place, Sink, cut};
use crate::expression::{Entry, Expr, ExprKind};
use crate::pyyaml_leniency::{Amended, Cause};
use crate::resolve::Feature;
use crate::scalar::Dialect;
use crate::version::Version;
use crate::{function, scalar};

/// Octal numbers whose text is kept: more than there are modes of files in a template that people write.
const OCTALS_MAX: usize = 100_000;

/// The key of YAML 1.1 that merges other maps.
pub(crate) const MERGE: &str = "<<";

/// Reading cannot go on; why is among the errors already.
#[derive(Debug)]
pub(crate) struct Stop;

/// Names in order of appearance; defined names and referenced ones share one table.
pub(crate) type Names = IndexSet<Box<str>>;

pub(crate) fn number(names: &mut Names, name: Box<str>) -> u32 {
    u32::try_from(names.insert_full(name).0).expect("a text of 16 MiB has fewer names than 2^32")
}

/// Reads a text from front to back.
pub(crate) struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// Characters in the first line that are not the template's.
    shift: u32,
    /// The amendments of the text.
    amended: Option<&'t Amended>,
    /// Whether reading stopped at what PyYAML reads.
    pub is_amendable: bool,
    /// The scalar that was read last is a block of text without its last line break.
    pub lost_line_break: bool,
    /// Line and column of the text's end, if no line break is there: a block of text that reaches it has none either.
    open_end: Option<(usize, usize)>,
    pub errors: Sink,
    pub path: Path,
    pub parameters: Names,
    pub resources: Names,
    pub files: Names,
    pub conditions: Names,
    /// Once it has been read.
    pub version: Option<Version>,
    /// Features that were read before the version, and that some versions lack.
    pub features: Vec<Feature>,
    /// Patterns that constraints have compiled.
    pub patterns: usize,
    /// Off where a one-key map is data: in defaults of parameters.
    pub functions: bool,
    /// The rules for unquoted text. Where they are PyYAML's, a key given twice counts the last time.
    pub dialect: Dialect,
    /// Warnings about what the reader took in another way than its writer may have meant it.
    pub warnings: Vec<Error>,
    /// Constraints that ask a service of OpenStack.
    pub unchecked: BTreeSet<Box<str>>,
    /// Octal numbers as they are written, by place.
    pub octals: BTreeMap<Place, Box<str>>,
    file: Box<str>,
    /// Complete nodes with an anchor, by the parser's number.
    anchors: BTreeMap<usize, Expr>,
    /// Weight copied for anchors and aliases, bounded by [`Limits::ALIASED`].
    copied: usize,
}

impl<'t> Reader<'t> {
    pub fn new(file: &str, text: &'t str, shift: u32) -> Self {
        let is_open = !text.is_empty() && !text.ends_with('\n');
        let end = || (text.lines().count(), text.lines().next_back().map_or(0, |line| line.chars().count()));
        Self {
            shift,
            amended: None,
            is_amendable: false,
            lost_line_break: false,
            open_end: is_open.then(end),
            parser: Parser::new_from_str(text),
            errors: Sink::new(file),
            path: Path::default(),
            parameters: Names::new(),
            resources: Names::new(),
            files: Names::new(),
            conditions: Names::new(),
            version: None,
            features: Vec::new(),
            patterns: 0,
            functions: true,
            dialect: Dialect::Core,
            warnings: Vec::new(),
            unchecked: BTreeSet::new(),
            octals: BTreeMap::new(),
            file: file.into(),
            anchors: BTreeMap::new(),
            copied: 0,
        }
    }

    fn place(&self, mark: Marker) -> Place {
        let mut place = Place::from(mark);
        if let Some(amended) = self.amended {
            place = amended.original(place);
        }
        if place.line == 1 {
            place.column = place.column.saturating_sub(self.shift).max(1);
        }
        place
    }

    pub fn error(&mut self, at: Place, message: impl AsRef<str>) {
        self.errors.push(at, self.path.as_str(), message);
    }

    /// The same, in the YAML of Heat: that of PyYAML.
    pub fn of_heat(file: &str, source: &'t crate::source::Source<'_>) -> Self {
        let dialect = if source.is_json { Dialect::Core } else { Dialect::PyYaml };
        let amended = source.amended.get();
        let text = amended.map_or(&*source.text, |amended| &*amended.text);
        Self { dialect, amended, ..Self::new(file, text, source.shift) }
    }

    /// Notes what counts in another way than it looks; no more than errors are shown.
    pub fn warn(&mut self, at: Place, message: impl AsRef<str>) {
        if self.warnings.len() < Limits::ERRORS {
            self.warnings.push(Error::new(&self.file, at, self.path.as_str(), message.as_ref()));
        }
    }

    /// Whether a key that was given before counts nonetheless, which is noted; otherwise it is an error.
    pub fn is_given_again(&mut self, at: Place, what: &str, first: Place) -> bool {
        let counts = self.dialect == Dialect::PyYaml;
        if counts {
            self.warn(at, format!("{what} is given twice, and this one counts; the first is at {first}"));
        } else {
            self.error(at, format!("{what} is given twice; the first is at {first}"));
        }
        counts
    }

    /// Records a feature at this place that needs a version from `since` on.
    pub fn needs(&mut self, at: Place, what: &'static str, since: Version) {
        // No more than that are shown anyway.
        if self.version.is_none_or(|version| version < since) && self.features.len() < Limits::ERRORS {
            self.features.push(Feature { at, path: self.path.as_str().into(), what, since });
        }
    }

    /// The number of a resource's name.
    pub fn resource(&mut self, name: &str) -> u32 {
        number(&mut self.resources, name.into())
    }

    pub fn stop<T>(&mut self, at: Place, message: impl AsRef<str>) -> Result<T, Stop> {
        self.error(at, message);
        Err(Stop)
    }

    pub fn next(&mut self) -> Result<(Event<'t>, Place), Stop> {
        if self.errors.is_over() {
            return Err(Stop);
        }
        match self.parser.next_event() {
            Some(Ok((event, Span { start, end, .. }))) => Ok((self.as_pyyaml(event, end), self.place(start))),
            Some(Err(error)) => {
                self.is_amendable = Cause::of(&error).is_some();
                let info = error.info();
                // libyaml's message for a line that is indented unlike its neighbours.
                let hint = if info.contains("did not find expected key") {
                    ": is this line, or the one above, indented by more or less than its neighbours?"
                } else {
                    ""
                };
                self.stop(self.place(*error.marker()), format!("not valid YAML: {info}{hint}"))
            }
            None => self.stop(Place::default(), "the document ends too early"),
        }
    }

    /// A block of text at the very end of a text without a line break: YAML 1.2 adds one, PyYAML does not.
    fn as_pyyaml(&mut self, mut event: Event<'t>, end: Marker) -> Event<'t> {
        self.lost_line_break = false;
        if let Event::Scalar(text, ScalarStyle::Literal | ScalarStyle::Folded, ..) = &mut event
            && self.open_end.is_some_and(|last| (end.line(), end.col()) >= last)
            && let Some(shorter) = text.strip_suffix('\n')
        {
            self.lost_line_break = true;
            *text = shorter.to_owned().into();
        }
        event
    }

    /// The next key of a map; `None` at its end.
    pub fn key(&mut self) -> Result<Option<(Cow<'t, str>, Place)>, Stop> {
        match self.next()? {
            (Event::MappingEnd, _) => Ok(None),
            (Event::Scalar(text, style, _, _), at) => {
                if style == ScalarStyle::Plain && &*text == MERGE {
                    self.error(at, "merge keys ('<<') are not supported here; write the keys out");
                }
                Ok(Some((self.key_text(text, style, at), at)))
            }
            (_, at) => self.stop(at, "a key must be plain text"),
        }
    }

    /// The text of a key, for keys are texts here: `yes` is `true`, as Heat shows it.
    pub fn key_text(&mut self, text: Cow<'t, str>, style: ScalarStyle, at: Place) -> Cow<'t, str> {
        if style != ScalarStyle::Plain {
            return text;
        }
        if matches!(&*text, "" | "~") {
            self.error(at, "a key is missing before ':'");
        }
        match scalar::plain(&text, self.dialect) {
            Ok(ExprKind::Bool(value)) if self.dialect == Dialect::PyYaml => value.to_string().into(),
            Ok(ExprKind::Number(number)) if self.dialect == Dialect::PyYaml => number.to_string().into(),
            _ => text,
        }
    }

    /// Reads the next node whole.
    pub fn expr(&mut self, depth: usize) -> Result<Expr, Stop> {
        let (event, at) = self.next()?;
        self.expr_from(event, at, depth)
    }

    /// Reads the node that begins with `event`.
    pub fn expr_from(&mut self, event: Event<'t>, at: Place, depth: usize) -> Result<Expr, Stop> {
        if depth > Limits::DEPTH {
            return self.stop(at, format!("nested more than {} levels deep", Limits::DEPTH));
        }
        let (anchor, kind) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain =
                    self.dialect == Dialect::PyYaml && style == ScalarStyle::Plain && tag.is_none();
                // A MAC address of decimal digits, for example.
                let text_has_colon = is_plain && text.contains(':');
                let octal = (is_plain && scalar::is_octal(&text)).then(|| text.as_ref().into());
                let kind =
                    scalar::value(text, style, tag.as_deref(), self.dialect).unwrap_or_else(|message| {
                        self.error(at, message);
                        ExprKind::Invalid
                    });
                if let ExprKind::Number(number) = &kind
                    && ((octal.is_some() && !self.path.as_str().ends_with("mode")) || text_has_colon)
                {
                    let message = format!(
                        "this is the number {number} in YAML 1.1, as Heat reads it; quote it if text is meant"
                    );
                    self.warn(at, message);
                }
                if let Some(octal) = octal.filter(|_| self.octals.len() < OCTALS_MAX) {
                    self.octals.insert(at, octal);
                }
                (anchor, kind)
            }
            Event::SequenceStart(anchor, tag) => {
                self.check_tag(at, tag, "seq");
                (anchor, self.list(depth)?)
            }
            Event::MappingStart(anchor, tag) => {
                self.check_tag(at, tag, "map");
                (anchor, self.map(at, depth)?)
            }
            Event::Alias(anchor) => return self.alias(anchor, at, depth),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return self.stop(at, "a value is missing here"),
        };
        let expr = Expr::new(at, kind);
        if anchor != 0 {
            self.count_copy(&expr)?;
            self.anchors.insert(anchor, expr.clone());
        }
        Ok(expr)
    }

    /// Reads the node that begins with `event` as a plain value, without places, which is faster. Stops,
    /// without an error, at anything that is not plain: an anchor, a tag, a duplicate key.
    pub fn value_from(&mut self, event: Event<'t>, depth: usize) -> Result<Value, Stop> {
        if depth > Limits::DEPTH {
            return Err(Stop);
        }
        match event {
            Event::Scalar(text, style, 0, None) => {
                match scalar::value(text, style, None, self.dialect).map_err(|_| Stop)? {
                    ExprKind::Null => Ok(Value::Null),
                    ExprKind::Bool(value) => Ok(Value::Bool(value)),
                    ExprKind::Number(number) => Ok(Value::Number(number)),
                    ExprKind::Text(text) => Ok(Value::String(text.into())),
                    ExprKind::List(_) | ExprKind::Map(_) | ExprKind::Call(_) | ExprKind::Invalid => Err(Stop),
                }
            }
            Event::SequenceStart(0, None) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => return Ok(Value::Array(items)),
                        (event, _) => items.push(self.value_from(event, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(0, None) => {
                let mut map = Map::new();
                while let Some((key, _)) = self.key()? {
                    let (event, _) = self.next()?;
                    let value = self.value_from(event, depth + 1)?;
                    if map.insert(key.into_owned(), value).is_some() {
                        return Err(Stop);
                    }
                }
                Ok(Value::Object(map))
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::Alias(_)
            | Event::Scalar(..)
            | Event::SequenceStart(..)
            | Event::SequenceEnd
            | Event::MappingStart(..)
            | Event::MappingEnd => Err(Stop),
        }
    }

    fn check_tag(&mut self, at: Place, tag: Option<Cow<'_, Tag>>, name: &str) {
        if let Err(message) = scalar::collection_tag(tag.as_deref(), name) {
            self.error(at, message);
        }
    }

    fn list(&mut self, depth: usize) -> Result<ExprKind, Stop> {
        let mut items = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(ExprKind::List(items.into()));
            }
            let before = self.path.item(items.len());
            items.push(self.expr_from(event, at, depth + 1)?);
            self.path.leave(before);
        }
    }

    fn map(&mut self, at: Place, depth: usize) -> Result<ExprKind, Stop> {
        let mut entries = Vec::new();
        let mut merged: Vec<Entry> = Vec::new();
        loop {
            let (key, at) = match self.next()? {
                (Event::MappingEnd, _) => break,
                (Event::Scalar(text, ScalarStyle::Plain, ..), _)
                    if &*text == MERGE && self.dialect == Dialect::PyYaml =>
                {
                    let before = self.path.key(&text);
                    let value = self.expr(depth + 1)?;
                    self.merge(value, &mut merged)?;
                    self.path.leave(before);
                    continue;
                }
                (Event::Scalar(text, style, ..), at) => {
                    if style == ScalarStyle::Plain && &*text == MERGE {
                        self.error(at, "merge keys ('<<') are not supported here; write the keys out");
                    }
                    (self.key_text(text, style, at), at)
                }
                (_, at) => return self.stop(at, "a key must be plain text"),
            };
            let before = self.path.key(&key);
            let value = self.expr(depth + 1)?;
            self.path.leave(before);
            entries.push(Entry { key: key.into(), at, value });
        }
        // Stable: of equal keys the first in the text stays first.
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        for i in 1..entries.len() {
            if entries[i].key == entries[i - 1].key {
                let Entry { key, at: first, .. } = &entries[i - 1];
                let (what, first, at) = (format!("the key '{}'", cut(key)), *first, entries[i].at);
                self.is_given_again(at, &what, first);
            }
        }
        if self.dialect == Dialect::PyYaml {
            // The last counts, and keys of its own before merged ones.
            entries.reverse();
            entries.extend(merged);
            entries.sort_by(|a, b| a.key.cmp(&b.key));
        }
        entries.dedup_by(|b, a| a.key == b.key);
        Ok(if self.functions {
            function::recognise(self, entries, at)
        } else {
            ExprKind::Map(entries.into())
        })
    }

    /// Adds the keys of a merged map, or of several, of which the first that has a key counts.
    fn merge(&mut self, value: Expr, merged: &mut Vec<Entry>) -> Result<(), Stop> {
        let items = if let ExprKind::List(items) = value.kind { items.into_vec() } else { vec![value] };
        for item in items {
            match item.kind {
                ExprKind::Map(entries) => {
                    for entry in entries {
                        self.count_copy(&entry.value)?;
                        merged.push(entry);
                    }
                }
                ExprKind::Call(_) => {
                    self.error(item.at, "a function cannot be merged with '<<'; map_merge merges its value");
                }
                ExprKind::Null
                | ExprKind::Bool(_)
                | ExprKind::Number(_)
                | ExprKind::Text(_)
                | ExprKind::List(_)
                | ExprKind::Invalid => {
                    let got = item.describe();
                    self.error(item.at, format!("want a map to merge, or a list of maps, got {got}"));
                }
            }
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, at: Place, depth: usize) -> Result<Expr, Stop> {
        let Some(found) = self.anchors.get(&anchor) else {
            return self
                .stop(at, "this alias stands inside its own anchor, or the anchor is on a whole section");
        };
        let mut copy = found.clone();
        if depth + copy.depth() > Limits::DEPTH + 1 {
            return self.stop(at, format!("nested more than {} levels deep", Limits::DEPTH));
        }
        self.count_copy(&copy)?;
        copy.at = at;
        Ok(copy)
    }

    fn count_copy(&mut self, expr: &Expr) -> Result<(), Stop> {
        self.copied += expr.weight();
        if self.copied > Limits::ALIASED {
            let message = format!("anchors and aliases copy more than {} nodes and bytes", Limits::ALIASED);
            return self.stop(expr.at, message);
        }
        Ok(())
    }
}
