//! The machine as a whole: tables of operations, and random graphs, interruptions and restarts.

mod accounts;
mod bed;
mod cancel;
mod claims;
mod hooks;
mod jobs;
mod nodes;
mod random;
mod restarts;
mod stacks;
