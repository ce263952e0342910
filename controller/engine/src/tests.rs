//! The machine as a whole: tables of operations, and random graphs, interruptions and restarts.

mod accounts;
mod bed;
mod cancel;
mod check;
mod claims;
mod crossings;
mod delete_first;
mod drift;
mod failures;
mod flow_cases;
mod flow_forget;
mod flow_host;
mod flow_random;
mod flow_refusals;
mod flow_rows;
mod flow_tables;
mod hooks;
mod host;
mod jobs;
mod nodes;
mod ownership;
mod preview;
mod progress;
mod random;
mod restarts;
mod stacks;
