//! Revisions that the engine asks for, to check a stack, to roll it back, or to take it up. The store is read
//! in the turn. A large template is parsed beside the driver, so that nobody waits for it meanwhile.
//!
//! Absent: what the engine does with a revision (`controller/engine/src/operation/revision.rs`).

use muster_engine::{Input, Source, SourceText};
use muster_shared::{MonoTime, StackName};

use super::Turns;
use crate::driver::Outbox;
use crate::store::Store;

/// A revision that is parsed beside the driver.
#[derive(Debug)]
pub struct UnparsedRevision {
    request: RevisionRequest,
    text: SourceText,
}

/// A revision that was parsed beside the driver, for [`Turns::revision_parsed`].
pub struct ParsedRevision {
    request: RevisionRequest,
    source: Result<Source, String>,
}

/// The engine's request for a revision. Each engine counts its own.
#[derive(Clone, Copy, Debug)]
struct RevisionRequest {
    /// The number of engines before the one that asks.
    engine: u64,
    load: u64,
}

impl UnparsedRevision {
    pub fn parse(self) -> ParsedRevision {
        ParsedRevision { request: self.request, source: parsed(self.text) }
    }
}

fn parsed(text: SourceText) -> Result<Source, String> {
    Source::parse(text).map_err(|errors| errors.to_string())
}

/// The bytes that take time to parse.
fn size(text: &SourceText) -> usize {
    let environments = text.environments.iter().map(|environment| environment.text.len());
    text.template.len() + text.files.values().map(String::len).chain(environments).sum::<usize>()
}

impl<S: Store, O: Outbox> Turns<S, O> {
    /// From now on, revisions of so many bytes and more are in [`TurnResults`](super::TurnResults), to be parsed
    /// elsewhere.
    pub fn parse_beside(&mut self, size: usize) {
        self.parsed_here = size;
    }

    /// Reads a revision for the engine. Returns false if the engine gets it later, once it is parsed.
    pub(super) fn load_revision(
        &mut self,
        now: MonoTime,
        load: u64,
        stack: &StackName,
        revision: u32,
    ) -> bool {
        let text = match self.store.source(stack, revision) {
            Ok(Some(text)) => Ok(text),
            Ok(None) => Err("it is not kept any more".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match text {
            Ok(text) if size(&text) >= self.parsed_here => {
                let request = RevisionRequest { engine: self.reloads, load };
                self.told.revisions.push(UnparsedRevision { request, text });
                false
            }
            text => {
                self.engine.handle(now, Input::RevisionLoaded { load, source: text.and_then(parsed) });
                true
            }
        }
    }

    /// A revision was parsed. An engine that was rebuilt since did not ask for it.
    pub fn revision_parsed(&mut self, now: MonoTime, revision: ParsedRevision) {
        let ParsedRevision { request: RevisionRequest { engine, load }, source } = revision;
        if engine == self.reloads {
            self.engine.handle(now, Input::RevisionLoaded { load, source });
        }
    }
}
