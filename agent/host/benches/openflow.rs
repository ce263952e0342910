//! Speed of flow tables on a real Open vSwitch in a namespace: one line of JSON for each measurement. Needs root.
//!
//! `raw` is the limit: the same rules as one bundle of bytes that were made before, committed and not looked at again.
//! `apply` makes them from packed entries and reads all of them back. Both in turns, on tables that were emptied.
//!
//! `cargo bench -p muster-host --bench openflow`
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "the test server is shared with the tests, which need more of it"
)]

#[path = "../tests/network/server.rs"]
mod server;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use muster_host::openflow::{Desired, Op, Ops, Outcome, Switch, Wanted};
use muster_shared::model::flow::{
    Action, Criterion, DeviceName, Entry, Field, FlowId, Instruction, Ops as Batch, OpsRef, Output, Packed,
    Port, Rule, read_ops,
};
use serde_json::json;
use server::NetworkServer;

const RULES: u32 = 100_000;
const RUNS: usize = 5;
const ONE_RULE_RUNS: usize = 200;

fn main() {
    // `cargo test --benches` only wants to know whether it starts.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let server = NetworkServer::with_ovs();
    server.ovs("add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure");
    server.ovs("add-port br0 p1 -- set interface p1 type=internal ofport_request=1");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure(server.rundir()));
}

async fn measure(rundir: &Path) {
    let device: DeviceName = "web-1/br0".parse().unwrap();
    let table = Table::new(&device);
    let (mut raw, mut apply, mut compare) = (Vec::new(), Vec::new(), Vec::new());
    let bundle = raw_bundle();
    for _ in 0..RUNS {
        raw.push(run_raw(rundir, &bundle));
        empty(rundir);
        // Not before, for it is told of what others do.
        let mut switch = Switch::connect(rundir, &device).await.unwrap();
        let start = Instant::now();
        let outcome = switch.apply(&mut table.source(), async { Ok(()) }).await.unwrap();
        apply.push(start.elapsed().as_secs_f64());
        assert_eq!(outcome, Outcome::Applied(Default::default()));
        let start = Instant::now();
        assert!(switch.compare(&table).await.unwrap().is_equal());
        compare.push(start.elapsed().as_secs_f64());
        if raw.len() < RUNS {
            empty(rundir);
        }
    }
    let (raw_s, apply_s, compare_s) = (median(&mut raw), median(&mut apply), median(&mut compare));
    let rss = rss_bytes();
    println!(
        "{}",
        json!({"bench": "openflow", "rules": RULES, "raw_s": raw_s, "apply_s": apply_s, "apply_by_raw": apply_s / raw_s,
            "compare_s": compare_s, "rss_bytes": rss})
    );
    let mut switch = Switch::connect(rundir, &device).await.unwrap();
    let mut one = Vec::new();
    for run in 0..ONE_RULE_RUNS {
        let mut batch = Batch::default();
        let entry = rule(RULES + run as u32);
        batch.put(entry.id(&device), &Packed::new(&entry).unwrap());
        let mut source = Source { bytes: batch.bytes(), at: 0 };
        let start = Instant::now();
        let outcome = switch.apply(&mut source, async { Ok(()) }).await.unwrap();
        one.push(start.elapsed().as_secs_f64());
        assert_eq!(outcome, Outcome::Applied(Default::default()));
    }
    println!("{}", json!({"bench": "openflow", "table": RULES, "one_rule_s": median(&mut one)}));
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn rule(n: u32) -> Entry {
    let field = |field, value| Criterion::Field { field, value, mask: None };
    Entry::Rule(Rule {
        table: 0,
        priority: 100,
        selector: vec![
            field(Field::EthType, 0x800),
            field(Field::IpProto, 6),
            field(Field::Ipv4Dst, u128::from(0x0a00_0000 + n)),
            field(Field::TcpDst, 80),
        ],
        treatment: vec![Instruction::Do(Action::Output(Output::Port(Port::Named("p1".into()))))],
        idle_timeout: 0,
        hard_timeout: 0,
    })
}

/// The table as a batch, and where its entries lie in it, as an agent has it.
struct Table {
    bytes: Vec<u8>,
    index: Vec<(FlowId, usize, usize)>,
}

impl Table {
    fn new(device: &DeviceName) -> Self {
        let mut batch = Batch::default();
        for n in 0..RULES {
            let entry = rule(n);
            batch.put(entry.id(device), &Packed::new(&entry).unwrap());
        }
        let bytes = batch.into_bytes();
        let mut index: Vec<_> = read_ops(&bytes)
            .map(|op| match op.unwrap() {
                OpsRef::Put { id, at, packed } => (id, at, packed.len()),
                OpsRef::Remove(_) => unreachable!(),
            })
            .collect();
        index.sort_unstable();
        Self { bytes, index }
    }

    fn source(&self) -> Source<'_> {
        Source { bytes: &self.bytes, at: 0 }
    }
}

impl Desired for Table {
    fn len(&self) -> usize {
        self.index.len()
    }

    fn get(&self, index: usize) -> Wanted {
        Wanted { id: self.index[index].0, present: true, odd: None }
    }

    fn find(&self, id: FlowId) -> Option<usize> {
        self.index.binary_search_by_key(&id, |(id, ..)| *id).ok()
    }

    fn read(&self, index: usize, packed: &mut Vec<u8>) -> std::io::Result<()> {
        let (_, at, length) = self.index[index];
        packed.clear();
        packed.extend_from_slice(&self.bytes[at..at + length]);
        Ok(())
    }
}

struct Source<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Ops for Source<'_> {
    fn rewind(&mut self) -> std::io::Result<()> {
        self.at = 0;
        Ok(())
    }

    fn next(&mut self) -> std::io::Result<Option<Op<'_>>> {
        let Some(op) = read_ops(&self.bytes[self.at..]).next() else { return Ok(None) };
        Ok(Some(match op.unwrap() {
            OpsRef::Put { id, at, packed } => {
                self.at += at + packed.len();
                Op::Put { id, packed, held: false }
            }
            OpsRef::Remove(id) => {
                self.at += 9;
                Op::Remove { id, was: None }
            }
        }))
    }
}

/// A message of OpenFlow 1.4.
fn message(kind: u8, xid: u32, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + body.len()).unwrap();
    [&[5, kind], &length.to_be_bytes()[..], &xid.to_be_bytes(), body].concat()
}

fn flow_mod(xid: u32, command: u8, table: u8, matched: &[u8], instructions: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 40];
    (body[16], body[17]) = (table, command);
    body[22..24].copy_from_slice(&100u16.to_be_bytes());
    body[24..36].fill(0xff);
    body.extend([0, 1]);
    body.extend(u16::try_from(4 + matched.len()).unwrap().to_be_bytes());
    body.extend(matched);
    body.resize(body.len().next_multiple_of(8), 0);
    body.extend(instructions);
    message(14, xid, &body)
}

/// Hello, the whole bundle, its end.
fn raw_bundle() -> Vec<u8> {
    let control = |what: u8| [0, 0, 0, 1, 0, what, 0, 3];
    let mut bytes = message(0, 0, &[]);
    bytes.extend(message(33, 1, &control(0)));
    for n in 0..RULES {
        let mut matched = vec![0x80, 0, 5 << 1, 2, 8, 0, 0x80, 0, 10 << 1, 1, 6, 0x80, 0, 12 << 1, 4];
        matched.extend((0x0a00_0000 + n).to_be_bytes());
        matched.extend([0x80, 0, 14 << 1, 2, 0, 80]);
        let mut instructions = vec![0, 4, 0, 24, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1];
        instructions.extend([0; 8]);
        let inner = flow_mod(2 + n, 0, 0, &matched, &instructions);
        bytes.extend(message(34, 2 + n, &[&[0, 0, 0, 1, 0, 0, 0, 3], &inner[..]].concat()));
    }
    bytes.extend(message(33, u32::MAX, &control(4)));
    bytes
}

/// Sends all of it and waits for the answer to its last message.
fn run_raw(rundir: &Path, bytes: &[u8]) -> f64 {
    let mut stream = UnixStream::connect(rundir.join("br0.mgmt")).unwrap();
    let start = Instant::now();
    stream.write_all(bytes).unwrap();
    answered(&mut stream, u32::MAX);
    start.elapsed().as_secs_f64()
}

/// Removes all rules.
fn empty(rundir: &Path) {
    let mut stream = UnixStream::connect(rundir.join("br0.mgmt")).unwrap();
    let bytes = [message(0, 0, &[]), flow_mod(1, 3, 255, &[], &[]), message(20, 2, &[])].concat();
    stream.write_all(&bytes).unwrap();
    answered(&mut stream, 2);
}

fn answered(stream: &mut UnixStream, wanted: u32) {
    let mut head = [0; 8];
    loop {
        stream.read_exact(&mut head).unwrap();
        let mut body = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]])) - 8];
        stream.read_exact(&mut body).unwrap();
        assert_ne!(head[1], 1, "{body:?}");
        if head[4..] == wanted.to_be_bytes() {
            return;
        }
    }
}

/// The most this process has had.
fn rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1_024)
}
