//! Time and memory to plan two dependent `for_each` over many nodes, and time to follow one more node; a line of JSON.
//!
//! `cargo bench -p muster-engine --bench fleet [-- NODES]`; every figure is of the machine it ran on and judges nothing.

#![expect(clippy::disallowed_methods, reason = "a bench has a clock")]

use std::time::{Duration, Instant};

use muster_engine::{
    Config, Effect, Engine, Input, JoinAsk, Limits, NewToken, Options, Request, Source, SourceText,
};
use muster_shared::join::TokenSecret;
use muster_shared::seal::SealPublic;
use muster_shared::{Epoch, MonoTime};

/// Nodes where none are asked for.
const NODES: usize = 10_000;
const TEMPLATE: &str = "heat_template_version: 2018-08-31
resources:
  a: {type: Muster::File, for_each: {nodes: role=web}, properties: {path: /etc/a, content: {get_node: name}}}
  b: {type: Muster::File, for_each: {nodes: role=web}, depends_on: a, properties: {path: /etc/b, content: {get_node: name}}}
";

struct Site {
    engine: Engine,
    now: MonoTime,
}

impl Site {
    fn ask(&mut self, request: Request) {
        self.engine.handle(self.now, Input::Request { id: 1, request: Box::new(request) });
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(effect) = self.engine.poll_effect() {
            if let Effect::Answer { answer: Err(refusal), .. } = effect {
                panic!("{refusal}");
            }
        }
    }

    fn join(&mut self, index: usize) {
        self.ask(Request::Join(JoinAsk {
            token_id: [1; 8],
            secret: TokenSecret([1; 16]),
            name: format!("web-{index}.example").parse().expect("a valid name"),
            seal_public: SealPublic([1; 32]),
            agent_version: "bench".into(),
            moves: false,
            wall: 1,
        }));
    }
}

/// Bytes, of a line of this process's status.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line =
        status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect("a field of it");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
}

fn main() {
    let nodes: usize = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(NODES);
    let engine = Engine::new(Config {
        epoch: Epoch(1),
        epoch_bits: 1,
        starts: muster_engine::Starts::default(),
        seed: [7; 32],
        limits: Limits::default(),
    });
    let mut site = Site { engine, now: MonoTime::default() };
    let uses = u32::try_from(nodes + 1).expect("a number of nodes");
    site.ask(Request::NewToken {
        token: NewToken {
            id: [1; 8],
            secret_hash: TokenSecret([1; 16]).digest(),
            expires: 10,
            uses,
            name: None,
            labels: [("role".to_owned(), "web".to_owned())].into(),
            rate: None,
        },
        wall: 0,
    });
    (0..nodes).for_each(|index| site.join(index));
    let text = SourceText { name: "bench.yaml".into(), template: TEMPLATE.into(), ..SourceText::default() };
    let source = Source::parse(text).expect("a valid template");
    let options = Options { timeout: Duration::from_secs(3600), ..Options::default() };
    let before = status("VmRSS");
    let began = Instant::now();
    let name = "bench".parse().expect("a valid name");
    let create = Request::Create { name, source, options };
    site.engine.handle(site.now, Input::Request { id: 1, request: Box::new(create) });
    let plan = began.elapsed();
    site.settle();
    let bytes = status("VmRSS") - before;
    let began = Instant::now();
    site.join(nodes);
    let follow = began.elapsed();
    println!(
        "{{\"fleet\":{nodes},\"sets\":2,\"plan_s\":{:.3},\"bytes\":{bytes},\"follow_one_s\":{:.3}}}",
        plan.as_secs_f64(),
        follow.as_secs_f64()
    );
}
