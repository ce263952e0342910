//! Traces, as bytes.

use super::*;
use crate::model::flow::*;

fn device() -> Bridge {
    "br0".parse().unwrap()
}

fn packet() -> Packet {
    Packet::from_fields([(Field::EthType, 0x86dd), (Field::Ipv6Dst, 0xfd00 << 112 | 1)]).unwrap()
}

pub(super) fn down() -> Down {
    let question = TraceQuestion { in_port: "eth1".into(), packet: packet() };
    Down::Flow(FlowDown::Ask { device: device(), number: 300, ask: FlowAsk::Trace(Box::new(question)) })
}

fn step(matches: &str) -> TraceStep {
    TraceStep::Rule { bridge: device(), table: 1, cookie: 7, matches: matches.into() }
}

pub(super) fn ups() -> Vec<Up> {
    let bridge = device();
    let steps = vec![
        step("ip"),
        TraceStep::Miss { bridge: bridge.clone(), table: 2 },
        TraceStep::Output { bridge: bridge.clone(), port: "eth2".into(), packet: packet() },
        TraceStep::Controller { bridge: bridge.clone() },
        TraceStep::Refused { bridge: bridge.clone(), why: "Nonexistent output port".into() },
        TraceStep::Unclear { bridge, action: "encap(nsh)".into() },
    ];
    vec![traced(Ok(steps)), traced(Err("br0: unknown bridge".into()))]
}

fn traced(result: Result<Vec<TraceStep>, String>) -> Up {
    Up::Flow(FlowUp::Traced { device: device(), number: 300, result })
}

fn through(up: Up) -> Result<Up, WireError> {
    let packet = pack(&[up])?.remove(0);
    Ok(read_body::<Up>(packet.as_bytes())?.remove(0))
}

#[test]
fn an_answer_is_cut_to_its_bounds_and_the_longest_fits_a_packet() {
    let long = "é".repeat(1000);
    let cut = |max| "é".repeat(max / 2);
    assert_eq!(through(traced(Err(long.clone()))), Ok(traced(Err(cut(FLOW_REASON_MAX)))));
    let fields = Field::ALL.iter().map(|field| (*field, field.all_bits()));
    let full = Packet::from_fields(fields).unwrap();
    let most = TraceStep::Output {
        bridge: "b".repeat(15).parse().unwrap(),
        port: "p".repeat(64).into(),
        packet: full,
    };
    let steps = vec![most; TRACE_STEPS_MAX];
    assert_eq!(through(traced(Ok(steps.clone()))), Ok(traced(Ok(steps))));
    let steps = vec![step(&long); TRACE_STEPS_MAX];
    let short = vec![step(&cut(TRACE_TEXT_MAX)); TRACE_STEPS_MAX];
    assert_eq!(through(traced(Ok(steps))), Ok(traced(Ok(short))));
    let many = vec![step(""); TRACE_STEPS_MAX + 1];
    assert_eq!(through(traced(Ok(many))), Err(WireError::Bounds { field: "steps of a trace" }));
}

#[test]
fn a_packet_out_of_bounds_is_refused() {
    let ask = |in_port: &str, packet| {
        let ask = v1::FlowAsk::Trace { in_port: in_port.into(), packet };
        let body = vec![v1::Down::Flow(v1::FlowDown::Ask { device: "br0".into(), number: 1, ask })];
        read_body::<Down>(&postcard::to_stdvec(&body).unwrap()).map(drop)
    };
    let refused = |field| Err(WireError::Bounds { field });
    assert_eq!(ask("eth1", vec![(Field::EthDst, 1), (Field::EthSrc, 1)]), Ok(()));
    assert_eq!(ask("eth1", vec![(Field::EthSrc, 1), (Field::EthDst, 1)]), refused("packet"));
    assert_eq!(ask("eth1", vec![(Field::EthDst, 1), (Field::EthDst, 1)]), refused("packet"));
    assert_eq!(ask("eth1", vec![(Field::VlanPcp, 8)]), refused("packet"));
    assert_eq!(ask("", Vec::new()), refused("port"));
    assert_eq!(ask("a b", Vec::new()), refused("port"));
}
