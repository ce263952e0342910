//! The database holds what the engine's changes mean, after every step of random operations.

use std::collections::BTreeMap;

use muster_engine::record::Change;
use muster_engine::{Config, Effect, Engine, Input, JoinAsk, Limits, NewToken, Request, Starts};
use muster_flow::{FlowOp, FlowWrite};
use muster_shared::join::TokenSecret;
use muster_shared::model::flow::{
    Action, Criterion, DeviceName, Field, FlowDown, FlowRefusal, FlowState, FlowUp, Instruction, OpsRef,
    Output, Port, Rule, SwitchState, read_ops,
};
use muster_shared::model::{Content, Down, Hello, Up};
use muster_shared::seal::SealPublic;
use muster_shared::{MonoTime, NodeId};

use super::*;
use crate::store::sql::values;
use crate::store::testing::{Place, each};
use crate::store::{Database, Store as _};

struct Both {
    engine: Engine,
    store: Database,
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
    Config { epoch, epoch_bits: 1, starts: Starts::default(), seed: [1; 32], limits: Limits::default() }
}

impl Both {
    fn new(store: Database) -> Self {
        let engine = Engine::new(config(Epoch(1)));
        let mut both = Self { engine, store, meant: FlowSnapshot::default(), batch: None, next: 0 };
        let secret = TokenSecret([1; 16]);
        both.ask(Request::NewToken {
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
        both.ask(Request::Join(JoinAsk {
            token_id: [1; 8],
            secret,
            name: node(),
            seal_public: SealPublic([0; 32]),
            agent_version: "t".into(),
            moves: false,
            wall: 1,
        }));
        both.connect();
        both
    }

    fn connect(&mut self) {
        self.next += 1;
        self.input(Input::Connected { node: node(), connection: self.next });
        let hello = Hello {
            boot_id: 1,
            instance: None,
            address: None,
            agent_version: "t".into(),
            reads: 0,
            epoch: Epoch(0).into(),
            ledger: 0,
        };
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
        assert_eq!(load(self.store.db(), &self.store.key()).unwrap(), self.meant);
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
            root: self.engine.view().flows().root(&device()).unwrap(),
            entries: 1,
            wrong: 0,
            foreign: 0,
            switch: SwitchState::Watched,
            reason: String::new(),
            entry: None,
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
    each(|place| {
        let mut both = Both::new(place.open());
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
                        let mut ops = BTreeMap::new();
                        for _ in 0..=roll(4) {
                            let n = u8::try_from(roll(6)).unwrap();
                            let queue = u32::try_from(roll(3)).unwrap();
                            ops.insert(n, if roll(3) == 0 { remove(n) } else { put(n, queue) });
                        }
                        stages.push(vec![FlowWrite { device: device(), ops: ops.into_values().collect() }]);
                    }
                    let application = (stages.len() == 1 && roll(2) == 0).then(|| "org.example".into());
                    both.ask(Request::ApplyFlows { stages, confirm_timeout: Some(30), application });
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
            application: Some("org.example".into()),
        });
        both.decide(None);
        let text: String = both.store.db().only(readable, values![], |row| row.get(0)).unwrap();
        let FlowOp::Put { id, .. } = put(0, 9) else { panic!("a put") };
        assert_eq!(
            text,
            format!(
                "web-1/br0 {id} 0 {{\"eth_type\":2048}} [{{\"set_queue\":9}},{{\"output\":\"NORMAL\"}}] ADDED application org.example"
            )
        );
        both.ask(Request::PurgeFlows { device: device(), forget: true, confirm_timeout: None });
        assert!(both.meant.devices.is_empty() && both.meant.entries.is_empty());
    });
}

/// In each text of hidden entries, as bytes and as words.
const MARKER: &str = "mark-port";

fn marked(n: u16) -> Packed {
    Packed::new(&Entry::Rule(Rule {
        table: 0,
        priority: n,
        selector: Vec::new(),
        treatment: vec![Instruction::Do(Action::Output(Output::Port(Port::Named(
            format!("{MARKER}-{n}").into(),
        ))))],
        idle_timeout: 0,
        hard_timeout: 0,
    }))
    .unwrap()
}

fn record(n: u16, hidden: bool, past: &[(u16, bool)]) -> FlowEntryRecord {
    let past = past.iter().rev().map(|(n, hidden)| FlowPast {
        packed: marked(*n),
        serial: (*n).into(),
        owner: Owner(1),
        removing: false,
        mark: FlowMark::None,
        hidden: *hidden,
    });
    FlowEntryRecord {
        id: FlowId(0x4d55_0000_0000_0000 | u64::from(n)),
        packed: marked(n),
        serial: n.into(),
        owner: Owner(u64::from(n % 2)),
        removing: false,
        mark: FlowMark::Failed,
        hidden,
        reason: Some(format!("no port {MARKER}-{n}").into()),
        past: past.collect(),
    }
}

fn device_record() -> Change {
    Change::Flow(FlowChange::Device(Box::new(FlowDeviceRecord {
        device: 3,
        node: node(),
        bridge: device().bridge,
        serial: 99,
        settled: 1,
        sent: None,
        foreign: ForeignPolicy::default(),
    })))
}

fn entries(entries: &[FlowEntryRecord]) -> Change {
    Change::Flow(FlowChange::Entries { device: 3, entries: entries.to_vec(), gone: Vec::new() })
}

/// The files in which something hidden can be read.
fn readable_in(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes()) {
            found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    found.sort();
    found
}

fn loaded(store: &mut Database) -> Vec<FlowEntryRecord> {
    store.load().unwrap().flows.entries.into_values().collect()
}

fn seen(store: &Database) -> Vec<String> {
    let sql = "SELECT coalesce(CAST(priority AS TEXT), '-') || ' ' || coalesce(selector, '-') || ' ' || treatment || ' ' || state || ' '
        || coalesce(error, '-') || ' ' || owner FROM flow_rules ORDER BY id";
    store.db().all(sql, values![], |row| row.get(0)).unwrap()
}

#[test]
fn an_entry_that_hides_something_can_be_read_with_the_key_alone() {
    each(|place| {
        let mut store = place.open();
        let hidden = [record(8, true, &[(2, true), (3, true)]), record(9, true, &[])];
        store.commit(&mut [device_record(), entries(&hidden)].into_iter(), &[]).unwrap();
        assert_eq!(readable_in(place.folder()), Vec::<String>::new());
        assert_eq!(loaded(&mut store), hidden);
        assert_eq!(
            seen(&store),
            ["- ****** ****** FAILED ****** operator", "- ****** ****** FAILED ****** resource 1"]
        );
        // What hides nothing is for everybody, also beside it.
        let mixed = [record(8, true, &[(2, true), (3, false)]), record(10, false, &[(4, true)])];
        store.commit(&mut std::iter::once(entries(&mixed)), &[]).unwrap();
        let all = [mixed[0].clone(), hidden[1].clone(), mixed[1].clone()];
        assert_eq!(loaded(&mut store), all);
        assert_eq!(
            seen(&store)[2],
            "10 {} [{\"output\":\"mark-port-10\"}] FAILED no port mark-port-10 operator"
        );
        drop(store);
        let mut store = place.open();
        assert_eq!(loaded(&mut store), all);
        // A new key opens all of it, and the old one nothing.
        let old = store.key();
        store
            .rekey(&crate::store::KeyFile::at(&place.key_file()), &crate::store::testing::operator())
            .unwrap();
        assert_eq!(loaded(&mut store), all);
        let new = std::mem::replace(&mut store.key, old);
        assert!(store.load().is_err());
        store.key = new;
        // Nor does one that was moved.
        for sql in [
            "UPDATE flow_entries SET sealed = (SELECT sealed FROM flow_entries WHERE priority IS NULL AND owner = 1) WHERE owner = 0",
            "UPDATE flow_past SET sealed = (SELECT sealed FROM flow_entries WHERE owner = 1) WHERE sealed IS NOT NULL",
        ] {
            store.db().batch("BEGIN").unwrap();
            store.db().batch(sql).unwrap();
            let error = store.load().err().unwrap_or_else(|| panic!("{sql}")).to_string();
            assert!(error.contains("damaged"), "{sql}: {error}");
            store.db().batch("ROLLBACK").unwrap();
        }
    });
}

/// The parameter was not hidden before.
#[test]
fn a_newly_hidden_value_leaves_no_clear_text_after_a_restart() {
    let place = Place::sqlite();
    let mut store = place.open();
    let shown = record(8, false, &[(2, false)]);
    store.commit(&mut [device_record(), entries(std::slice::from_ref(&shown))].into_iter(), &[]).unwrap();
    assert_ne!(readable_in(place.folder()), Vec::<String>::new());
    assert_eq!(loaded(&mut store), [shown]);
    let hidden = [record(8, true, &[(2, true)])];
    store.commit(&mut std::iter::once(entries(&hidden)), &[]).unwrap();
    assert_eq!(seen(&store), ["- ****** ****** FAILED ****** operator"]);
    drop(store);
    let mut store = place.open();
    assert_eq!(readable_in(place.folder()), Vec::<String>::new());
    assert_eq!(loaded(&mut store), hidden);
}
