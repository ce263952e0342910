//! What SQLite holds is what the engine's changes mean, after every step of random operations.

use muster_engine::flow::{FlowOp, FlowWrite};
use muster_engine::record::Change;
use muster_engine::{Config, Effect, Engine, Input, JoinAsk, Limits, NewToken, Request};
use muster_shared::join::TokenSecret;
use muster_shared::model::flow::{
    Action, Criterion, DeviceName, Field, FlowDown, FlowRefusal, FlowState, FlowUp, Instruction, OpsRef,
    Output, Rule, SwitchState, read_ops,
};
use muster_shared::model::{Content, Down, Hello, Up};
use muster_shared::seal::SealPublic;
use muster_shared::{MonoTime, NodeId};

use super::*;
use crate::store::{Sqlite, Store as _};

struct Both {
    engine: Engine,
    store: Sqlite,
    meant: FlowSnapshot,
    /// The newest batch, that is to be decided.
    batch: Option<(Generation, Vec<FlowId>)>,
    next: u64,
}

fn node() -> NodeId {
    "web-1".parse().unwrap()
}

fn device() -> DeviceName {
    "web-1/br0".parse().unwrap()
}

fn config(epoch: Epoch) -> Config {
    Config { epoch, seed: [1; 32], limits: Limits::default() }
}

impl Both {
    fn new(store: Sqlite) -> Self {
        let engine = Engine::new(config(Epoch(1)));
        let mut both = Self { engine, store, meant: FlowSnapshot::default(), batch: None, next: 0 };
        let secret = TokenSecret([1; 16]);
        both.ask(Request::NewToken(NewToken {
            id: [1; 8],
            secret_hash: secret.digest(),
            expires: 10,
            uses: 1,
            name: None,
            labels: Default::default(),
        }));
        both.ask(Request::Join(JoinAsk {
            token_id: [1; 8],
            secret,
            name: node(),
            seal_public: SealPublic([0; 32]),
            agent_version: "t".into(),
            wall: 1,
        }));
        both.connect();
        both
    }

    fn connect(&mut self) {
        self.next += 1;
        self.input(Input::Connected { node: node(), connection: self.next });
        let hello = Hello { boot_id: 1, agent_version: "t".into(), epoch: Epoch(0), ledger: 0 };
        let connection = self.next;
        self.up(connection, Up::Hello(hello));
        self.up(connection, Up::Flow(FlowUp::States { states: Vec::new(), complete: true }));
    }

    fn up(&mut self, connection: u64, message: Up) {
        self.input(Input::Received { node: node(), connection, message });
    }

    fn ask(&mut self, request: Request) {
        self.input(Input::Request { id: 1, request: Box::new(request) });
    }

    fn input(&mut self, input: Input) {
        self.engine.handle(MonoTime::default(), input);
        let mut changes = Vec::new();
        while let Some(effect) = self.engine.poll_effect() {
            match effect {
                Effect::Persist(change) => {
                    if let Change::Flow(change) = &change {
                        self.meant.apply(change.clone());
                    }
                    changes.push(change);
                }
                Effect::Send { message: Down::Flow(FlowDown::Batch(batch)), .. } => {
                    let Content::Inline(bytes) = batch.ops else { panic!("a small batch") };
                    let id = |op: OpsRef<'_>| match op {
                        OpsRef::Put { id, .. } | OpsRef::Remove(id) => id,
                    };
                    let ids = read_ops(&bytes).map(|op| id(op.unwrap())).collect();
                    self.batch = Some((batch.generation, ids));
                }
                _ => {}
            }
        }
        self.store.commit(&mut changes.into_iter(), &[]).unwrap();
        assert_eq!(load(self.store.db()).unwrap(), self.meant);
    }

    fn decide(&mut self, blame: Option<usize>) {
        let Some((decided, ids)) = self.batch.take() else { return };
        let refused = blame.map(|at| FlowRefusal {
            id: ids.get(at % ids.len()).copied(),
            reason: "no".into(),
            permanent: true,
        });
        let state = FlowState {
            device: device().bridge,
            decided,
            refused,
            root: self.engine.flow_root(&device()).unwrap(),
            entries: 1,
            wrong: 0,
            foreign: 0,
            switch: SwitchState::Watched,
            reason: String::new(),
        };
        let connection = self.next;
        self.up(connection, Up::Flow(FlowUp::States { states: vec![state], complete: false }));
    }
}

fn put(n: u8, queue: u32) -> FlowOp {
    let entry = Entry::Rule(Rule {
        table: 0,
        priority: n.into(),
        selector: vec![Criterion::Field { field: Field::EthType, value: 0x800, mask: None }],
        treatment: vec![
            Instruction::Do(Action::SetQueue(queue)),
            Instruction::Do(Action::Output(Output::Normal)),
        ],
        idle_timeout: 0,
        hard_timeout: 0,
    });
    let packed = Packed::new(&entry).unwrap();
    FlowOp::Put { id: entry.id(&device()), digest: packed.digest(), packed }
}

fn remove(n: u8) -> FlowOp {
    match put(n, 0) {
        FlowOp::Put { id, .. } | FlowOp::Remove(id) => FlowOp::Remove(id),
    }
}

#[test]
fn the_database_holds_what_the_engine_means_it_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut both = Both::new(
        Sqlite::open(&folder.path().join("muster.db"), &folder.path().join("secrets.key")).unwrap(),
    );
    let mut dice = 1u64;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    for _ in 0..600 {
        match roll(8) {
            0..=3 => {
                let mut stages = Vec::new();
                for _ in 0..=roll(2) {
                    let mut ops = std::collections::BTreeMap::new();
                    for _ in 0..=roll(4) {
                        let n = u8::try_from(roll(6)).unwrap();
                        let queue = u32::try_from(roll(3)).unwrap();
                        ops.insert(n, if roll(3) == 0 { remove(n) } else { put(n, queue) });
                    }
                    stages.push(vec![FlowWrite { device: device(), ops: ops.into_values().collect() }]);
                }
                both.ask(Request::ApplyFlows { stages, confirm_timeout: Some(30) });
            }
            4 | 5 => both.decide(None),
            6 => both.decide(usize::try_from(roll(9)).ok()),
            _ if roll(4) == 0 => {
                let epoch = both.store.next_epoch().unwrap();
                let snapshot = both.store.load().unwrap();
                both.engine = Engine::load(config(epoch), snapshot, MonoTime::default());
                both.batch = None;
                both.connect();
            }
            _ => {}
        }
    }
    let readable = "SELECT device || ' ' || id || ' ' || priority || ' ' || selector || ' ' || treatment || ' ' || state || ' ' || owner
         FROM flow_rules ORDER BY priority LIMIT 1";
    while both.batch.is_some() {
        both.decide(None);
    }
    both.ask(Request::ApplyFlows {
        stages: vec![vec![FlowWrite { device: device(), ops: vec![put(0, 9)] }]],
        confirm_timeout: None,
    });
    both.decide(None);
    let text: String = both.store.db().query_row(readable, [], |row| row.get(0)).unwrap();
    let FlowOp::Put { id, .. } = put(0, 9) else { panic!("a put") };
    assert_eq!(
        text,
        format!(
            "web-1/br0 {id} 0 {{\"eth_type\":2048}} [{{\"set_queue\":9}},{{\"output\":\"NORMAL\"}}] ADDED operator"
        )
    );
    both.ask(Request::PurgeFlows { device: device(), forget: true, confirm_timeout: None });
    assert!(both.meant.devices.is_empty() && both.meant.entries.is_empty());
}
