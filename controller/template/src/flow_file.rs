//! Flow files: desired entries of devices, in ordered stages, from YAML or JSON.
//!
//! ```text
//!   text ──YAML events─┐                                                ┌─ stage 1: device → entries, packed, with ids
//!        └─JSON reader─┴─► one item as a value ─► Entry ─► Packed, id ──┼─ stage 2: …
//!                               (no tree of the whole text is kept)     └─ …
//! ```
//!
//! A text that begins with `{` is read as JSON, which is several times faster. A wrong item is read again as
//! YAML, which it also is, to find its lines.
//!
//! Absent: the present entries of a device, their states (`controller/flow/src/table.rs`), and their owners
//! (`controller/flow/src/owner.rs`).

mod collect;
mod json;
mod yaml;

pub(crate) use yaml::place_of;

use muster_shared::model::flow::{DeviceName, FlowId, Packed};

use crate::error::{Errors, Place, Sink};

use collect::Collector;

/// The most stages of one file: each is a round trip to all of its devices.
const STAGES_MAX: usize = 1000;

/// The content of a flow file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowFile {
    /// Stages in order; the next begins when all devices of the one before have applied it.
    pub stages: Vec<FlowStage>,
    /// Seconds until a change that could cut a node off is undone, if the file gives them.
    pub confirm_timeout: Option<u32>,
}

/// The changes of one stage, all or nothing on each device. In the order of the devices' names.
pub type FlowStage = Vec<FlowPart>;

/// A device's part of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPart {
    pub device: DeviceName,
    /// Meters and groups before the rules that need them, else in the order of the file; no two of a file
    /// take the same place.
    pub entries: Vec<(FlowId, Packed)>,
}

/// Bounds on a flow file.
#[derive(Clone, Copy, Debug)]
pub struct FlowLimits {
    /// Bytes of its text.
    pub text: usize,
    /// Rules, groups and meters in it.
    pub entries: usize,
}

impl Default for FlowLimits {
    /// A million rules: as many as one controller is made for.
    fn default() -> Self {
        Self { text: 512 * 1024 * 1024, entries: 1_000_000 }
    }
}

impl FlowFile {
    /// Reads a flow file; `name` is the file's, for errors.
    ///
    /// # Errors
    /// Many errors at once, with line, column and path.
    pub fn parse(name: &str, text: &str, limits: FlowLimits) -> Result<Self, Errors> {
        let mut errors = Sink::new(name);
        if let Some(message) = crate::source::too_large("the flow file", text, limits.text) {
            errors.push(Place::default(), "", message);
            return Err(errors.into_errors());
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut collector = Collector::new(limits.entries);
        let errors = read(name, text, &mut collector);
        collector.finish(errors)
    }

    /// The lines of these entries in a valid flow file, for errors that only their devices find.
    pub fn lines_of(text: &str, ids: &[FlowId]) -> Vec<Option<u32>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut collector = Collector::new(usize::MAX);
        let _known = read("", text, &mut collector);
        ids.iter().map(|id| collector.line_of(*id)).collect()
    }

    /// Rules, groups and meters in all stages.
    pub fn len(&self) -> usize {
        self.stages.iter().flatten().map(|part| part.entries.len()).sum()
    }

    /// The file asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn read(name: &str, text: &str, into: &mut Collector) -> Sink {
    match text.trim_start().starts_with('{') {
        true => json::read(name, text, into),
        false => yaml::read(name, text, into),
    }
}
