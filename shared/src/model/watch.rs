//! What an agent sees besides its jobs: how its resources stand, and what the server is.

use ipnet::IpNet;

use crate::{Generation, ResourceId};

/// How a resource was found when somebody else may have changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Which.
    pub resource: ResourceId,
    /// Of the state that was applied last: what it was compared with.
    pub generation: Generation,
    /// How it stands.
    pub state: DriftState,
    /// What differs, for the operator; bounded, free of content. Empty if nothing does.
    pub reason: String,
}

/// How a resource stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftState {
    /// As it was applied.
    InSync,
    /// It differs.
    Drifted,
    /// Nothing of it is there.
    Missing,
}

/// What a server is. At most [`FACTS_MAX`](crate::wire::FACTS_MAX) bytes on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// As the kernel has it.
    pub hostname: String,
    /// Release of the running kernel.
    pub kernel: String,
    /// `PRETTY_NAME` of os-release.
    pub os: String,
    /// Online processors.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Unix seconds.
    pub booted_at: u64,
    /// Of the agent that says so.
    pub agent_version: String,
    /// By name; of very many, those of hardware first.
    pub links: Vec<LinkFacts>,
    /// How many there are.
    pub links_total: u32,
}

/// A network interface as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkFacts {
    /// Its name.
    pub name: String,
    /// The kernel's kind, such as `bridge`; empty for hardware.
    pub kind: String,
    /// Of an Ethernet link.
    pub mac: Option<[u8; 6]>,
    /// In bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Somebody is at the other end.
    pub carrier: bool,
    /// Mbit/s; absent where the link has none.
    pub speed: Option<u32>,
    /// Absent where the link knows of none.
    pub full_duplex: Option<bool>,
    /// In the kernel's order.
    pub addresses: Vec<IpNet>,
    /// Since the link was made.
    pub counters: Counters,
}

/// Of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the kernel's names
pub struct Counters {
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub rx_errors: u64,
    pub rx_dropped: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
}

impl Facts {
    /// Whether nothing differs but what counts on by itself.
    pub fn is_same(&self, other: &Facts) -> bool {
        let still = |links: &[LinkFacts]| {
            let zero = |link: &LinkFacts| LinkFacts { counters: Counters::default(), ..link.clone() };
            links.iter().map(zero).collect::<Vec<_>>()
        };
        let head = |facts: &Facts| {
            (facts.hostname.clone(), facts.kernel.clone(), facts.os.clone(), facts.cpus, facts.memory)
        };
        head(self) == head(other)
            && (self.booted_at, &self.agent_version, self.links_total)
                == (other.booted_at, &other.agent_version, other.links_total)
            && still(&self.links) == still(&other.links)
    }
}
