//! Time to open a group of many members, and to lay it out; lines of JSON.
//!
//! `cargo bench -p muster-engine --bench tree [-- MEMBERS]`; every figure is of the machine it ran on and judges nothing.

#![expect(clippy::disallowed_methods, reason = "a bench has a clock")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use muster_engine::{Config, Effect, Engine, Input, Limits, Options, Request, Source, SourceText};
use muster_shared::{Epoch, MonoTime};

/// Members where none are asked for.
const MEMBERS: usize = 100_000;
const SERVER: &str = "heat_template_version: 2018-08-31
parameters: {name: {type: string}}
resources:
  disk: {type: OS::Heat::Value, properties: {value: {get_param: name}}}
  host: {type: Muster::Dummy, properties: {node: node-0, values: {n: {get_param: name}, d: {get_attr: [disk, value]}}}}
outputs: {name: {value: {get_attr: [host, n]}}}
";

fn text(members: usize, definition: &str) -> SourceText {
    let template = format!(
        "heat_template_version: 2018-08-31\nresources: {{g: {{type: OS::Heat::ResourceGroup, properties: {{count: {members}, \
         resource_def: {definition}}}}}}}\n"
    );
    let files = BTreeMap::from([("server.yaml".to_owned(), SERVER.to_owned())]);
    SourceText { name: "bench.yaml".into(), template, files, ..SourceText::default() }
}

fn measure(what: &str, members: usize, definition: &str) {
    let began = Instant::now();
    let source = Source::parse(text(members, definition)).expect("a valid template");
    let opened = began.elapsed();
    let resources = source.tree.len();
    let mut engine = Engine::new(Config {
        epoch: Epoch(1),
        epoch_bits: 1,
        starts: muster_engine::Starts::default(),
        seed: [7; 32],
        limits: Limits::default(),
    });
    let began = Instant::now();
    let options = Options { timeout: Duration::from_secs(3600), ..Options::default() };
    let name = "bench".parse().expect("a valid name");
    let request = Box::new(Request::Create { name, source, options });
    engine.handle(MonoTime::default(), Input::Request { id: 1, request });
    let mut refused = None;
    while let Some(effect) = engine.poll_effect() {
        if let Effect::Answer { answer: Err(refusal), .. } = effect {
            refused = Some(refusal);
        }
    }
    assert!(refused.is_none(), "{refused:?}");
    println!(
        "{{\"group\":\"{what}\",\"members\":{members},\"resources\":{resources},\"open_s\":{:.3},\"lay_out_s\":{:.3}}}",
        opened.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
}

fn main() {
    let members = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(MEMBERS);
    measure("values", members, "{type: OS::Heat::Value, properties: {value: 'v%index%'}}");
    measure("dummies", members, "{type: Muster::Dummy, properties: {node: node-0, values: {v: '%index%'}}}");
    measure("stacks", members, "{type: server.yaml, properties: {name: 'web%index%'}}");
}
