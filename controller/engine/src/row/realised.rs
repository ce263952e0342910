//! What changes in a row when its virtual resource is realised, or refused: there is no job.
//!
//! Absent: what a virtual resource is and when it is realised (`traversal/virtual_resource.rs`).

use muster_shared::model::Action;
use muster_template::Kind;

use crate::record::{PackedSpec, Status};
use crate::row::{Held, Row};

impl Row {
    /// A virtual resource could not be made.
    pub fn refuse_virtual(&mut self, kind: Kind, action: Action) {
        self.0.kind = kind;
        self.refuse(action);
    }

    /// A virtual resource is made or changed.
    pub fn realise(&mut self, kind: Kind, action: Action, spec: PackedSpec) {
        let row = &mut self.0;
        (row.kind, row.last.action, row.spec) = (kind, Some(action), Some(spec));
        (row.last.reason, row.retry_count, row.handed_over) = (None, 0, false);
        row.held = Held::Unlisted;
    }

    pub fn be_made(&mut self) {
        self.0.last.status = Some(Status::Complete);
    }

    /// A virtual resource is removed.
    pub fn be_unmade(&mut self) {
        self.0.last.action = Some(self.farewell());
        self.be_complete();
        self.0.held = Held::Nothing;
    }

    /// The row is in progress while it waits for signals or time.
    pub fn wait(&mut self, action: Action) {
        (self.0.last.action, self.0.last.status) = (Some(action), Some(Status::InProgress));
    }

    /// Replaces the spec with one that says more than the template does.
    pub fn bind(&mut self, spec: PackedSpec) {
        self.0.spec = Some(spec);
    }
}
