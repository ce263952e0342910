//! Protocol version 1, field by field. Only ever appended to once packages have shipped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::SpecV1;
use crate::model::flow::Field;

mod types {
    use super::*;

    pub type Id = [u8; 16];
    pub type Generation = (u32, u64);
    /// resource, generation, attempt
    pub type Key = (Id, Generation, u32);

    #[derive(Serialize, Deserialize)]
    pub enum Down {
        /// for older agents, which know no more
        Welcome {
            epoch: u32,
            want_ledger: bool,
            heartbeat_s: u32,
        },
        Job(Job),
        Withdraw {
            resource: Id,
            generation: Generation,
        },
        Acknowledge(Key),
        Chunk {
            digest: [u8; 32],
            offset: u64,
            bytes: Vec<u8>,
        },
        Answer {
            key: Key,
            bytes: Vec<u8>,
        },
        AskFacts,
        Flow(FlowDown),
        AskDrift,
        /// epoch, bits
        Welcomed {
            epoch: (u32, u64),
            want_ledger: bool,
            heartbeat_s: u32,
        },
        /// reads 1
        Describe(Vec<Id>),
        /// reads 1
        Remove(Key),
        /// reads 3
        Controllers(Vec<String>),
        /// reads 4: a join token
        Move(String),
        /// reads 6
        Survey,
        /// reads 8: as `Welcomed`, and how much the controller reads
        WelcomedWithReads {
            epoch: (u32, Option<u64>),
            want_ledger: bool,
            heartbeat_s: u32,
            reads: u32,
        },
    }

    #[derive(Serialize, Deserialize)]
    pub struct Job {
        pub key: Key,
        pub action: Action,
        pub timeout_ms: u32,
        pub spec: SpecV1,
    }

    #[derive(Clone, Copy, Serialize, Deserialize)]
    pub enum Action {
        Create,
        Update,
        Delete,
        Check,
        Retain,
        /// reads 6
        Adopt,
    }

    #[derive(Serialize, Deserialize)]
    pub enum Content {
        Inline(Vec<u8>),
        Stored { digest: [u8; 32], size: u64 },
    }

    #[derive(Serialize, Deserialize)]
    pub enum Up {
        /// of older agents, which know no more
        Hello {
            boot_id: [u8; 16],
            agent_version: String,
            epoch: u32,
            ledger: [u8; 16],
        },
        Report {
            key: Key,
            outcome: Outcome,
        },
        Progress {
            key: Key,
            settling: bool,
        },
        Ledger {
            entries: Vec<(Id, Generation)>,
            last: bool,
        },
        Fetch {
            digest: [u8; 32],
            offset: u64,
        },
        Heartbeat,
        Challenge {
            key: Key,
            bytes: Vec<u8>,
        },
        Drift(Vec<(Id, Generation, DriftState, String)>),
        /// of older agents, which know no more
        Facts(Facts),
        Flow(FlowUp),
        Server(Facts, FactsMore),
        Ports(Vec<DevicePorts>),
        Alive {
            drift: [u8; 16],
        },
        Jobs(Vec<(Key, Stage)>),
        Greeting {
            boot_id: [u8; 16],
            instance: [u8; 16],
            agent_version: String,
            /// number, bits
            epoch: (u32, Option<u64>),
            ledger: [u8; 16],
        },
        DiskFull(Option<String>),
        Clock {
            unix: u64,
        },
        Described(Vec<Stray>),
        /// why the node stays; none: it has left
        Moved(Option<String>),
        Surveyed {
            specs: Vec<SpecV1>,
            left_out: Vec<String>,
        },
        /// controller reads 1: as `Server`, and one for each link, in their order
        ServerWithTies(Facts, FactsMore, Vec<LinkTies>),
    }

    #[derive(Serialize, Deserialize)]
    pub struct Stray {
        pub resource: Id,
        pub generation: Generation,
        pub kind: String,
        pub name: String,
        pub removable: bool,
    }

    #[derive(Serialize, Deserialize)]
    pub enum Stage {
        Waiting { behind: Option<Id> },
        Fetching,
        Running,
    }

    #[derive(Serialize, Deserialize)]
    pub struct DevicePorts {
        pub bridge: String,
        pub up: bool,
        /// name, up, beacon, heard
        pub ports: Vec<(String, bool, Option<Beacon>, Vec<Beacon>)>,
    }

    pub type Beacon = [u8; 16];

    #[derive(Serialize, Deserialize)]
    pub enum FlowDown {
        Batch { device: String, generation: Generation, confirm_timeout_s: Option<u32>, ops: Content },
        Ask { device: String, number: u64, ask: FlowAsk },
        Forget { device: String, generation: Generation },
    }

    #[derive(Serialize, Deserialize)]
    pub enum FlowAsk {
        Buckets,
        Entries(Vec<u16>),
        Stats,
        Foreign,
        Look,
        /// reads 5: port, fields of the packet
        Trace {
            in_port: String,
            packet: Packet,
        },
    }

    pub type Packet = Vec<(Field, u128)>;

    #[derive(Serialize, Deserialize)]
    pub enum FlowUp {
        States {
            states: Vec<FlowState>,
            complete: bool,
        },
        Buckets {
            device: String,
            number: u64,
            sums: Vec<u64>,
        },
        /// id, digest, state
        Entries {
            device: String,
            number: u64,
            entries: Vec<(u64, u64, EntryState)>,
            last: bool,
        },
        Stats {
            device: String,
            number: u64,
            /// id, packets, bytes, seconds
            entries: Vec<(u64, u64, u64, u32)>,
            /// table, active, lookups, matches
            tables: Vec<(u8, u32, u64, u64)>,
            last: bool,
        },
        /// cookie, packed entry, text
        Foreign {
            device: String,
            number: u64,
            rules: Vec<(u64, Option<Vec<u8>>, String)>,
            last: bool,
        },
        Traced {
            device: String,
            number: u64,
            result: Result<Vec<TraceStep>, String>,
        },
        /// controllers read 2: as `States`, with the entry that each reason is about
        NamedStates {
            states: Vec<(FlowState, Option<u64>)>,
            complete: bool,
        },
    }

    #[derive(Serialize, Deserialize)]
    pub enum TraceStep {
        Rule { bridge: String, table: u8, cookie: u64, matches: String },
        Miss { bridge: String, table: u8 },
        Output { bridge: String, port: String, packet: Packet },
        Controller { bridge: String },
        Refused { bridge: String, why: String },
        Unclear { bridge: String, action: String },
    }

    #[derive(Serialize, Deserialize)]
    pub struct FlowState {
        pub device: String,
        pub decided: Generation,
        /// id, reason, permanent
        pub refused: Option<(Option<u64>, String, bool)>,
        pub root: u64,
        pub entries: u32,
        pub wrong: u32,
        pub foreign: u32,
        pub switch: SwitchState,
        pub reason: String,
    }

    #[derive(Serialize, Deserialize)]
    pub enum EntryState {
        Present,
        Expired,
        Wrong,
    }

    #[derive(Serialize, Deserialize)]
    pub enum SwitchState {
        Absent,
        Filling,
        Watched,
    }

    #[derive(Serialize, Deserialize)]
    pub enum DriftState {
        InSync,
        Drifted,
        Missing,
    }

    #[derive(Serialize, Deserialize)]
    pub struct Facts {
        pub hostname: String,
        pub kernel: String,
        pub os: String,
        pub cpus: u32,
        pub memory: u64,
        pub booted_at: u64,
        pub agent_version: String,
        pub links: Vec<Link>,
        pub links_total: u32,
    }

    #[derive(Serialize, Deserialize)]
    pub struct Link {
        pub name: String,
        pub kind: String,
        pub mac: Option<[u8; 6]>,
        pub mtu: u32,
        pub up: bool,
        pub carrier: bool,
        pub speed: Option<u32>,
        pub full_duplex: Option<bool>,
        /// 4 or 16 octets, length of the prefix
        pub addresses: Vec<(Vec<u8>, u8)>,
        /// bytes, packets, errors, dropped: received, then sent
        pub counters: [u64; 8],
    }

    #[derive(Default, Serialize, Deserialize)]
    pub struct FactsMore {
        pub os_id: String,
        pub os_version: String,
        pub architecture: String,
        pub cpu_model: String,
        /// name, bytes, model, rotational
        pub disks: Vec<(String, u64, String, bool)>,
        /// one for each link, in their order
        pub links: Vec<LinkMore>,
    }

    #[derive(Default, Serialize, Deserialize)]
    pub struct LinkMore {
        pub driver: String,
        /// address, vendor, device
        pub pci: Option<(String, u16, u16)>,
        pub permanent_mac: Option<[u8; 6]>,
        pub neighbours: Vec<Neighbour>,
    }

    /// Names of other links; empty: none.
    #[derive(Default, Serialize, Deserialize)]
    pub struct LinkTies {
        pub master: String,
        pub lower: String,
    }

    #[derive(Serialize, Deserialize)]
    pub struct Neighbour {
        pub chassis_id: String,
        pub port_id: String,
        pub port_description: Option<String>,
        pub system_name: Option<String>,
        pub system_description: Option<String>,
        pub vlan: Option<u16>,
        /// 4 or 16 octets
        pub management: Vec<Vec<u8>>,
    }

    #[derive(Serialize, Deserialize)]
    pub enum Outcome {
        Done { attributes: BTreeMap<String, String> },
        Failed { reason: String, permanent: bool },
        Withdrawn,
        Superseded { by: Generation },
        Differs { missing: bool, reason: String },
        NoRoom { reason: String },
    }
}

pub use types::*;
