//! The ports of this server's bridges, on the way from the host to the machine.
//!
//! Absent: what is observed (`agent/host/src/ports.rs`), and when it is reported (`agent/core/src/ports.rs`).

use std::sync::Arc;

use muster_agent_core::Input;
use muster_host::ports::{News, Ports, Voice};

use super::{Driver, boot_id};

impl Driver {
    /// Watched from now on.
    pub(super) fn ports(&self) -> Ports {
        // The secret stays the same while this server is up: an upgraded agent remains the same neighbour.
        let secret = [&self.identity.seal_secret[..], &boot_id().to_le_bytes()].concat();
        let voice = Voice {
            node: self.identity.node.clone(),
            seed: blake3::derive_key("muster 2026 beacons of LLDP", &secret),
            speaks: self.send_lldp,
        };
        Ports::open(&self.host.network, Arc::clone(self.host.server.listener()), voice)
    }

    pub(super) fn ports_changed(&mut self, news: News) {
        news.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        if !news.devices.is_empty() {
            self.inbox.push_back(Input::Ports(news.devices));
        }
    }
}
