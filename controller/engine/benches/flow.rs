//! Rule operations per second of one core's time with devices that cost nothing, and memory per rule. Lines of JSON.
//!
//! `cargo bench -p muster-engine --bench flow [-- RULES]`; every figure is of the machine it ran on and judges nothing.

mod null;

use std::sync::atomic::Ordering;

use muster_engine::Request;
use muster_flow::{FlowOp, FlowWrite};
use muster_shared::model::flow::{Action, Criterion, Entry, Field, Instruction, Output, Packed, Port, Rule};
use null::{Bench, NOW, cpu, device};

fn write(index: usize, rules: u32) -> FlowWrite {
    let device = device(index);
    let put = |n: u32| {
        let field = |field, value| Criterion::Field { field, value, mask: None };
        let entry = Entry::Rule(Rule {
            table: 0,
            priority: 100,
            selector: vec![
                Criterion::InPort(Port::Named("p1".into())),
                field(Field::EthType, 0x800),
                field(Field::Ipv4Dst, u128::from(0x0a00_0000 + n)),
            ],
            treatment: vec![Instruction::Do(Action::Output(Output::Port(Port::Named("p2".into()))))],
            idle_timeout: 0,
            hard_timeout: 0,
        });
        let packed = Packed::new(&entry).expect("canonical");
        FlowOp::Put { id: entry.id(&device), digest: packed.digest(), packed }
    };
    FlowWrite { ops: (0..rules).map(put).collect(), device }
}

fn main() {
    let given = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let rules: u32 = given.unwrap_or(1_000_000);
    for (devices, per_batch) in [(1, rules), (10, rules / 10), (100, rules / 100)] {
        measure(devices, rules / devices as u32, per_batch);
    }
}

fn measure(devices: usize, per_device: u32, per_batch: u32) {
    let mut bench = Bench::new(devices);
    let writes: Vec<FlowWrite> = (0..devices).map(|index| write(index, per_device)).collect();
    let ids: Vec<Vec<FlowOp>> = writes
        .iter()
        .map(|write| {
            write.ops.iter().map(|op| match op {
                FlowOp::Put { id, .. } | FlowOp::Remove(id) => FlowOp::Remove(*id),
            })
        })
        .map(Iterator::collect)
        .collect();
    let total = devices as f64 * f64::from(per_device);
    let packed: usize = writes
        .iter()
        .flat_map(|write| &write.ops)
        .map(|op| match op {
            // With the counts that those who share it keep.
            FlowOp::Put { packed, .. } => packed.bytes().len() + 2 * size_of::<usize>(),
            FlowOp::Remove(_) => 0,
        })
        .sum();
    let held = NOW.load(Ordering::Relaxed);
    let before = cpu();
    bench.ask(Request::ApplyFlows { stages: vec![writes], confirm_timeout: None, application: None });
    let added = (cpu() - before).as_secs_f64();
    // The memory of the rules was counted before they were given away.
    let bytes =
        NOW.load(Ordering::Relaxed) as f64 - held as f64 + packed as f64 + total * size_of::<FlowOp>() as f64;
    let all_added: u64 = bench.engine.view().flows().devices().iter().map(|view| view.added).sum();
    assert_eq!(all_added as f64, total, "every rule is ADDED");
    let removals = ids.into_iter().enumerate();
    let removals = removals.map(|(index, ops)| FlowWrite { device: device(index), ops }).collect();
    let before = cpu();
    bench.ask(Request::ApplyFlows { stages: vec![removals], confirm_timeout: None, application: None });
    let removed = (cpu() - before).as_secs_f64();
    assert_eq!(
        bench.engine.view().flows().devices().iter().map(|view| view.rules).sum::<u64>(),
        0,
        "none is left"
    );
    println!(
        "{{\"bench\":\"flow\",\"devices\":{devices},\"rules\":{total},\"per_batch\":{per_batch},\"add_cpu_s\":{added:.3},\"remove_cpu_s\":{removed:.3},\
         \"operations_per_s\":{:.0},\"bytes_per_rule\":{:.0},\"mb_all\":{:.0},\"batches\":{}}}",
        2.0 * total / (added + removed),
        bytes / total,
        bytes / 1e6,
        bench.decided
    );
}
