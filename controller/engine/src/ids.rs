//! Numbers and ids that are never given twice.

use muster_shared::ResourceId;

/// The source of ids for rows, stacks, traversals, and loads of revisions.
#[derive(Debug)]
pub(crate) struct Ids {
    /// Random bytes of this start; a fixed value in tests.
    seed: [u8; 32],
    row: u64,
    stack: u64,
    traversal: u64,
    load: u64,
}

impl Ids {
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, row: 0, stack: 0, traversal: 0, load: 0 }
    }

    /// Continues above the highest row, stack and traversal so far.
    pub fn go_on(&mut self, (row, stack, traversal): (u64, u64, u64)) {
        (self.row, self.stack, self.traversal) = (row, stack, traversal);
    }

    /// The ids of a new row and of its thing.
    pub fn row(&mut self) -> (u64, ResourceId) {
        self.row += 1;
        let hash = blake3::keyed_hash(&self.seed, &self.row.to_le_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.as_bytes()[..16]);
        (self.row, ResourceId(uuid::Builder::from_random_bytes(bytes).into_uuid()))
    }

    /// The id of the next stack. [`Ids::keep_stack`] uses it up.
    pub fn next_stack(&self) -> u64 {
        self.stack + 1
    }

    /// Uses up [`Ids::next_stack`].
    pub fn keep_stack(&mut self) {
        self.stack += 1;
    }

    /// The number of a new traversal.
    pub fn traversal(&mut self) -> u64 {
        self.traversal += 1;
        self.traversal
    }

    /// The number of a load of a revision.
    pub fn load(&mut self) -> u64 {
        self.load += 1;
        self.load
    }

    /// Random bytes for one purpose and row; the same in every run with the same seed.
    pub fn stream(&self, purpose: &[u8], row: u64) -> blake3::OutputReader {
        blake3::Hasher::new_keyed(&self.seed).update(purpose).update(&row.to_le_bytes()).finalize_xof()
    }
}
