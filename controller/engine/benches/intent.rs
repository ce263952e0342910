//! Intents on one core with devices that cost nothing: submitted to INSTALLED, compiled, moved when a cable fails. Lines of
//! JSON.
//!
//! `cargo bench -p muster-engine --bench intent`; every figure is of the machine it ran on and judges nothing. With
//! `-- cable` only the parts with that in their name.

mod null;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use muster_engine::Request;
use muster_flow::{FlowOp, FlowWrite};
use muster_intent::compile::Compiler;
use muster_intent::intent::{Constraints, Intent, Kind};
use muster_intent::manager::{Effect, IntentNo, Manager, SettledPort, TableEntry, Wish};
use muster_intent::path_search::Trees;
use muster_intent::phase::State;
use muster_intent::reservations::{Holder, Ledger};
use muster_intent::topology::{ConnectPoint, LinkTraits, Topology};
use muster_shared::MonoTime;
use muster_shared::model::Up;
use muster_shared::model::flow::{Criterion, DeviceName, Field, Packed};
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

/// Returns the report of a device whose cables lead to these others; the port to `cut` has no carrier.
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
    bench.engine.view().intents().iter().filter(|intent| intent.state == State::Installed).count()
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
    let parts: [(&str, fn()); 4] =
        [("submit", submit), ("compile", compile), ("cable", fail), ("bandwidth", fail_constrained)];
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(&**word)) {
            part();
        }
    }
}

/// 5,000 over a leaf-spine of 100 devices.
fn submit() {
    let (spines, leaves, count) = (10, 90, 5000_u32);
    let mut bench = told(&leaf_spine(spines, leaves));
    let held = NOW.load(Ordering::Relaxed);
    let intents = wishes(count, |n| (spines + n % leaves, spines + (n + 1 + n / leaves) % leaves));
    let given: usize = intents.len();
    let before = cpu();
    bench.ask(Request::SubmitIntents { intents });
    let taken = (cpu() - before).as_secs_f64();
    assert_eq!(installed(&bench), given, "all are INSTALLED");
    let rules: u64 = bench.engine.view().flows().devices().iter().map(|view| view.added).sum();
    let bytes = NOW.load(Ordering::Relaxed).saturating_sub(held);
    let of_rules = bytes_of_rules(&bench, count, spines + leaves);
    let keys = (0..count).map(|number| number.to_string().into()).collect();
    let before = cpu();
    bench.ask(Request::WithdrawIntents { keys });
    let withdrawn = (cpu() - before).as_secs_f64();
    assert_eq!(
        bench.engine.view().flows().devices().iter().map(|view| view.rules).sum::<u64>(),
        0,
        "none is left"
    );
    println!(
        "{{\"bench\":\"intent\",\"what\":\"submit\",\"devices\":{},\"intents\":{count},\"rules\":{rules},\"installed_s\":{taken:.3},\
         \"withdrawn_s\":{withdrawn:.3},\"bytes_of_rules\":{},\"bytes_per_intent_besides_rules\":{}}}",
        spines + leaves,
        of_rules / given,
        bytes.saturating_sub(of_rules) / given
    );
}

/// Returns the bytes that the same rules take where an operator asks for them.
fn bytes_of_rules(intents: &Bench, count: u32, devices: usize) -> usize {
    let mut bench = Bench::new(devices);
    let mut by_device: BTreeMap<DeviceName, Vec<FlowOp>> = BTreeMap::new();
    for number in 0..count {
        let intent = intents.engine.view().intent(&number.to_string()).expect("it is there");
        for (device, shared) in intent.rules {
            // A copy: an intent shares its bytes with the table.
            let packed = Packed::from_bytes(shared.bytes()).expect("an entry");
            let id = packed.unpack().id(&device);
            let put = FlowOp::Put { id, digest: packed.digest(), packed };
            by_device.entry(device).or_default().push(put);
        }
    }
    let ops = by_device.values().flatten();
    let packed: usize = ops
        .map(|op| match op {
            FlowOp::Put { packed, .. } => packed.bytes().len() + 2 * size_of::<usize>(),
            FlowOp::Remove(_) => 0,
        })
        .sum();
    let stage: Vec<FlowWrite> =
        by_device.into_iter().map(|(device, ops)| FlowWrite { device, ops }).collect();
    let given: usize = stage.iter().map(|write| write.ops.capacity() * size_of::<FlowOp>()).sum();
    let held = NOW.load(Ordering::Relaxed);
    bench.ask(Request::ApplyFlows { stages: vec![stage], confirm_timeout: None, application: None });
    // The memory of the rules was counted before they were given away.
    (NOW.load(Ordering::Relaxed) + packed + given).saturating_sub(held)
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
    let rules: u64 = bench.engine.view().flows().devices().iter().map(|view| view.added).sum();
    println!(
        "{{\"bench\":\"intent\",\"what\":\"cable fails\",\"intents\":{count},\"rules\":{rules},\"seconds\":{taken:.3}}}"
    );
}

/// The bandwidth of a link beside the one that fails, in bits per second: so many intents of a megabit fit each.
const BESIDE: u64 = 312_000_000;
/// The bandwidth of the other links.
const WIDE: u64 = 100_000_000_000;

/// A link of a large site that carries 10,000 with a bandwidth fails, and what is left has not room for all.
fn fail_constrained() {
    let count = 10_000_u32;
    let (spines, leaves) = (32, 968);
    let cables = leaf_spine(spines, leaves);
    let mut manager = Manager::default();
    let now = MonoTime::default();
    let ports = |index: usize, cut: Option<usize>| {
        let port = |name: String, up| SettledPort { name: name.into(), up, heard: None };
        let others = cables[index].iter().map(|other| port(format!("p{other}"), cut != Some(*other)));
        others.chain([port("h".to_owned(), true)]).collect::<Vec<_>>()
    };
    for index in 0..cables.len() {
        manager.tell_device(now, &device(index), true, &ports(index, None));
    }
    let first = spines;
    for (index, others) in cables.iter().enumerate() {
        for other in others {
            let (from, to) = (at(index, &format!("p{other}")), at(*other, &format!("p{index}")));
            let bandwidth = if index == first && *other > 0 { BESIDE } else { WIDE };
            let traits = LinkTraits { bandwidth: Some(bandwidth), ..LinkTraits::default() };
            manager.declare(&from, &to, traits).expect("a link");
        }
    }
    run(&mut manager, now);
    for number in 0..count {
        let mut intent = intent(first, first + 1 + number as usize % (leaves - 1), u128::from(number));
        intent.constraints.bandwidth = Some(1_000_000);
        let wish = Wish { intent: Arc::new(intent), group: None };
        manager.submit(&number.to_string(), IntentNo(number.into()), wish).expect("an intent");
    }
    let before = cpu();
    run(&mut manager, now);
    let installed = (cpu() - before).as_secs_f64();
    assert_eq!(manager.count(State::Installed), count as usize, "all are INSTALLED");
    let before = cpu();
    manager.tell_device(now, &device(first), true, &ports(first, Some(0)));
    run(&mut manager, now);
    let taken = (cpu() - before).as_secs_f64();
    let room = u32::try_from(BESIDE / 1_000_000).expect("some") * (spines as u32 - 1);
    assert_eq!(manager.count(State::Installed), count.min(room) as usize, "as many as there is room for");
    println!(
        "{{\"bench\":\"intent\",\"what\":\"link with bandwidth fails\",\"devices\":{},\"intents\":{count},\"failed\":{},\
         \"installed_s\":{installed:.3},\"seconds\":{taken:.3}}}",
        spines + leaves,
        manager.count(State::Failed)
    );
}

/// Devices do what they are told at once.
fn run(manager: &mut Manager, now: MonoTime) {
    loop {
        manager.run(now);
        let mut any = false;
        while let Some(effect) = manager.poll_effect() {
            any = true;
            if let Effect::Write { token, .. } = effect {
                manager.written(now, [(token, Ok(()))], |_, _, _| TableEntry::Nothing);
            }
        }
        if !any {
            return;
        }
    }
}
