//! After how long without a packet a connection is over: its node is away then.
//!
//! Absent: what follows for the node's jobs (`controller/engine/src/node/away.rs`).

use std::time::Duration;

/// An agent says something each 61 s; one and a half of that, as MQTT has it for its own connections.
pub const OVER_A_BROKER: Duration = Duration::from_secs(92);

/// On a connection of its own: one and a half of what client and server agreed on (MQTT 5.0, 3.1.2.10).
pub fn on_a_connection(keep_alive: Duration) -> Duration {
    keep_alive * 3 / 2
}
