//! After how long without a packet a connection is over: its node is away then.
//!
//! Absent: what follows from that (`node_away.rs` of the engine), and how long a node may be away before an operation
//! gives up on it (`limits` in `controller/src/config.rs`).

use std::time::Duration;

/// An agent says something each 61 s; one and a half of that, as MQTT has it for its own connections.
pub const OVER_A_BROKER: Duration = Duration::from_secs(92);

/// On a connection of its own: one and a half of what client and server agreed on (MQTT 5.0, 3.1.2.10).
pub fn on_a_connection(keep_alive: Duration) -> Duration {
    keep_alive * 3 / 2
}
