//! Intents on one core with devices that cost nothing: submitted to INSTALLED, compiled, moved when a cable fails. Lines of
//! JSON.
//!
//! `cargo bench -p muster-engine --bench intent`; every figure is of the machine it ran on and judges nothing.

mod null;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use muster_engine::Request;
use muster_intent::compile::Compiler;
use muster_intent::intent::{Constraints, Intent, Kind};
use muster_intent::ledger::{Holder, Ledger};
use muster_intent::manager::Wish;
use muster_intent::path::Trees;
use muster_intent::phase::State;
use muster_intent::topology::{ConnectPoint, LinkTraits, Topology};
use muster_shared::model::Up;
use muster_shared::model::flow::{Criterion, Field};
use muster_shared::model::topology::{Beacon, DevicePorts, PortState};
use null::{Bench, NOW, cpu, device};

fn at(index: usize, port: &str) -> ConnectPoint {
    ConnectPoint { device: device(index), port: port.into() }
}

fn intent(from: usize, to: usize, address: u128) -> Intent {
    let field = |field, value| Criterion::Field { field, value, mask: None };
    Intent {
        kind: Kind::PointToPoint { from: at(from, "h"), to: at(to, "h") },
        priority: 100,
        selector: vec![field(Field::EthType, 0x800), field(Field::Ipv4Dst, address)],
        treatment: Vec::new(),
        constraints: Constraints::default(),
    }
}

fn beacon(of: usize, towards: usize) -> Beacon {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(of as u64).to_le_bytes());
    bytes[8..].copy_from_slice(&(towards as u64).to_le_bytes());
    Beacon(bytes)
}

/// What a device says whose cables lead to these; those to `cut` have no carrier.
fn ports(index: usize, others: &[usize], cut: Option<usize>) -> Up {
    let mut ports: Vec<PortState> = others
        .iter()
        .map(|other| PortState {
            name: format!("p{other}").into(),
            up: cut != Some(*other),
            beacon: Some(beacon(index, *other)),
            heard: vec![beacon(*other, index)],
        })
        .collect();
    ports.push(PortState { name: "h".into(), up: true, beacon: None, heard: Vec::new() });
    ports.sort_by(|a, b| a.name.cmp(&b.name));
    Up::Ports(vec![DevicePorts { bridge: device(index).bridge, up: true, ports }])
}

/// Leaves, each with a cable to each spine; spines come first.
fn leaf_spine(spines: usize, leaves: usize) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..spines + leaves).collect();
    let of = |index: &usize| if *index < spines { all[spines..].to_vec() } else { all[..spines].to_vec() };
    all.iter().map(of).collect()
}

fn told(cables: &[Vec<usize>]) -> Bench {
    let mut bench = Bench::new(cables.len());
    for (index, others) in cables.iter().enumerate() {
        bench.up(index, ports(index, others, None));
    }
    bench
}

fn installed(bench: &Bench) -> usize {
    bench.engine.intents().iter().filter(|intent| intent.state == State::Installed).count()
}

fn wishes(count: u32, ends: impl Fn(usize) -> (usize, usize)) -> Vec<(Box<str>, Wish)> {
    let one = |number: u32| {
        let (from, to) = ends(number as usize);
        let intent = Arc::new(intent(from, to, u128::from(number)));
        (number.to_string().into(), Wish { intent, group: None })
    };
    (0..count).map(one).collect()
}

fn main() {
    submit();
    compile();
    fail();
}

/// 5,000 over a leaf-spine of 100 devices.
fn submit() {
    let (spines, leaves, count) = (10, 90, 5000_u32);
    let mut bench = told(&leaf_spine(spines, leaves));
    let intents = wishes(count, |n| (spines + n % leaves, spines + (n + 1 + n / leaves) % leaves));
    let given: usize = intents.len();
    let held = NOW.load(Ordering::Relaxed);
    let before = cpu();
    bench.ask(Request::SubmitIntents { intents });
    let taken = (cpu() - before).as_secs_f64();
    assert_eq!(installed(&bench), given, "all are INSTALLED");
    let rules: u64 = bench.engine.device_views().iter().map(|view| view.added).sum();
    let bytes = NOW.load(Ordering::Relaxed).saturating_sub(held);
    let keys = (0..count).map(|number| number.to_string().into()).collect();
    let before = cpu();
    bench.ask(Request::WithdrawIntents { keys });
    let withdrawn = (cpu() - before).as_secs_f64();
    assert_eq!(bench.engine.device_views().iter().map(|view| view.rules).sum::<u64>(), 0, "none is left");
    println!(
        "{{\"bench\":\"intent\",\"what\":\"submit\",\"devices\":{},\"intents\":{count},\"rules\":{rules},\"installed_s\":{taken:.3},\
         \"withdrawn_s\":{withdrawn:.3},\"bytes_with_rules\":{}}}",
        spines + leaves,
        bytes / given
    );
}

/// 100,000 over 1,000 devices, no more than compiled.
fn compile() {
    let (spines, leaves, count) = (32, 968, 100_000_u32);
    let mut topology = Topology::default();
    for (index, others) in leaf_spine(spines, leaves).iter().enumerate() {
        topology.set_device(&device(index), true).expect("a device");
        topology.set_port(&at(index, "h"), true).expect("a port");
        for other in others {
            topology.set_port(&at(index, &format!("p{other}")), true).expect("a port");
        }
    }
    for (index, others) in leaf_spine(spines, leaves).iter().enumerate() {
        for other in others {
            let (from, to) = (at(index, &format!("p{other}")), at(*other, &format!("p{index}")));
            topology.declare(&from, &to, LinkTraits::default()).expect("a link");
        }
    }
    let intents = wishes(count, |n| (spines + n % leaves, spines + (n + 1 + n / leaves) % leaves));
    let (ledger, mut trees) = (Ledger::default(), Trees::default());
    let holder = Holder::Intent("key".into());
    let before = cpu();
    let mut rules = 0;
    for (key, wish) in &intents {
        let mut compiler = Compiler { topology: &topology, ledger: &ledger, trees: &mut trees };
        rules += compiler.compile(&wish.intent, key, &holder, 1).expect("a path").entries.len();
    }
    let taken = (cpu() - before).as_secs_f64();
    println!(
        "{{\"bench\":\"intent\",\"what\":\"compile\",\"devices\":{},\"links\":{},\"intents\":{count},\"rules\":{rules},\"seconds\":{taken:.3},\
         \"per_s\":{:.0}}}",
        spines + leaves,
        2 * spines * leaves,
        f64::from(count) / taken
    );
}

/// A cable that carries 10,000 fails; there is another way of two hops.
fn fail() {
    let count = 10_000_u32;
    // 0 - 1, and 0 - 2 - 1.
    let cables = [vec![1, 2], vec![0, 2], vec![0, 1]];
    let mut bench = told(&cables);
    bench.ask(Request::SubmitIntents { intents: wishes(count, |_| (0, 1)) });
    assert_eq!(installed(&bench), count as usize, "all are INSTALLED");
    let before = cpu();
    bench.up(0, ports(0, &cables[0], Some(1)));
    let taken = (cpu() - before).as_secs_f64();
    assert_eq!(installed(&bench), count as usize, "all are INSTALLED again");
    let rules: u64 = bench.engine.device_views().iter().map(|view| view.added).sum();
    println!(
        "{{\"bench\":\"intent\",\"what\":\"cable fails\",\"intents\":{count},\"rules\":{rules},\"seconds\":{taken:.3}}}"
    );
}
