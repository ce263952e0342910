//! An engine whose devices cost nothing, one bridge for each node; what it allocates is counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_engine::record::Change;
use muster_engine::{Answer, Config, Effect, Engine, Input, JoinAsk, Limits, NewToken, Request};
use muster_flow::record::FlowChange;
use muster_shared::join::TokenSecret;
use muster_shared::model::flow::{DeviceName, FlowDown, FlowState, FlowUp, SwitchState};
use muster_shared::model::{Content, ContentDigest, Down, Hello, Up};
use muster_shared::seal::SealPublic;
use muster_shared::wire::CHUNK_MAX;
use muster_shared::{Epoch, MonoTime, NodeId};

/// An allocator that counts the bytes that are allocated now.
struct Counted;

pub static NOW: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator is; this one only counts")]
// SAFETY: all calls go to the system's allocator as they come.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        NOW.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as for the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as for the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

pub fn device(index: usize) -> DeviceName {
    DeviceName { node: node(index), bridge: "br0".parse().expect("a name") }
}

pub fn node(index: usize) -> NodeId {
    format!("node-{index}").parse().expect("a name")
}

pub struct Bench {
    pub engine: Engine,
    next: u64,
    connections: Vec<u64>,
    /// The null devices' sums, as the engine wants them: they never differ.
    pub decided: u64,
    rows: u64,
}

impl Bench {
    pub fn new(devices: usize) -> Self {
        let config = Config {
            epoch: Epoch(1),
            epoch_bits: 1,
            starts: muster_engine::Starts::default(),
            seed: [7; 32],
            limits: Limits::default(),
        };
        let mut bench =
            Self { engine: Engine::new(config), next: 0, connections: Vec::new(), decided: 0, rows: 0 };
        for index in 0..devices {
            let secret = TokenSecret([1; 16]);
            bench.ask(Request::NewToken {
                token: NewToken {
                    id: [1; 8],
                    secret_hash: secret.digest(),
                    expires: 10,
                    uses: 1,
                    name: None,
                    labels: Default::default(),
                    rate: None,
                },
                wall: 0,
            });
            bench.ask(Request::Join(JoinAsk {
                token_id: [1; 8],
                secret,
                name: node(index),
                seal_public: SealPublic([0; 32]),
                agent_version: "bench".into(),
                moves: false,
                wall: 1,
            }));
            let connection = index as u64 + 1;
            bench.connections.push(connection);
            bench.input(Input::Connected { node: node(index), connection });
            let hello = Hello {
                boot_id: 1,
                instance: None,
                address: None,
                agent_version: "bench".into(),
                reads: 0,
                epoch: Epoch(0).into(),
                ledger: 0,
            };
            bench.up(index, Up::Hello(hello));
            bench.up(index, Up::Flow(FlowUp::States { states: Vec::new(), complete: true }));
        }
        bench
    }

    pub fn up(&mut self, index: usize, message: Up) {
        let connection = self.connections[index];
        self.input(Input::Received { node: node(index), connection, message });
    }

    pub fn ask(&mut self, request: Request) {
        self.next += 1;
        self.input(Input::Request { id: self.next, request: Box::new(request) });
    }

    /// As the driver: changes first, then what leaves; every batch is taken at once.
    pub fn input(&mut self, input: Input) {
        self.engine.handle(MonoTime::default(), input);
        let mut replies = Vec::new();
        while let Some(effect) = self.engine.poll_effect() {
            match effect {
                Effect::Persist(Change::Flow(FlowChange::Entries { entries, gone, .. })) => {
                    self.rows += (entries.len() + gone.len()) as u64;
                }
                Effect::Send { node, message: Down::Flow(FlowDown::Batch(batch)), .. } => {
                    if let Content::Stored { digest, size } = batch.ops {
                        replies.push((node.clone(), Up::Fetch { digest, offset: 0 }));
                        let chunks = (1..).map(|n| n * CHUNK_MAX as u64).take_while(|at| *at < size);
                        replies.extend(chunks.map(|offset| (node.clone(), fetch(digest, offset))));
                    }
                    self.decided += 1;
                    let state = FlowState {
                        device: batch.device,
                        decided: batch.generation,
                        refused: None,
                        root: 0,
                        entries: 0,
                        wrong: 0,
                        foreign: 0,
                        switch: SwitchState::Watched,
                        reason: String::new(),
                        entry: None,
                    };
                    replies.push((node, Up::Flow(FlowUp::States { states: vec![state], complete: false })));
                }
                Effect::Answer { answer, .. } => match answer {
                    Ok(
                        Answer::Flows { .. } | Answer::Intents { .. } | Answer::Done | Answer::Joined { .. },
                    ) => {}
                    other => panic!("{other:?}"),
                },
                _ => {}
            }
        }
        for (name, mut reply) in replies {
            // A null device holds what it is to hold.
            let device = DeviceName { node: name.clone(), bridge: "br0".parse().expect("a name") };
            if let Up::Flow(FlowUp::States { states, .. }) = &mut reply {
                states[0].root = self.engine.view().flows().root(&device).unwrap_or(0);
            }
            let index: usize = name.as_str()[5..].parse().expect("a number");
            self.up(index, reply);
        }
    }
}

/// Returns the processor time of this thread: others on the machine do not count.
pub fn cpu() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(told.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

fn fetch(digest: ContentDigest, offset: u64) -> Up {
    Up::Fetch { digest, offset }
}
