//! Real texts of Open vSwitch 3.1 (`testdata/`), each with the steps in it; any other text does not panic.

use muster_shared::model::flow::{Field, Packet, TraceQuestion, TraceStep};
use proptest::prelude::*;

use super::{answer, question};

fn packet(fields: &[(Field, u128)]) -> Packet {
    Packet::from_fields(fields.iter().copied()).unwrap()
}

fn shown(step: &TraceStep) -> String {
    let bridge = step.bridge();
    match step {
        TraceStep::Rule { table, cookie, matches, .. } => format!("{bridge} {table}: {cookie:x} {matches}"),
        TraceStep::Miss { table, .. } => format!("{bridge} {table}: miss"),
        TraceStep::Output { port, packet, .. } => format!("{bridge} to {port} {}", packet.to_json()),
        TraceStep::Controller { .. } => format!("{bridge} controller"),
        TraceStep::Refused { why, .. } => format!("{bridge} refused {why}"),
        TraceStep::Unclear { action, .. } => format!("{bridge} unclear {action}"),
    }
}

fn steps(text: &str) -> Vec<String> {
    let bridge = "br0".parse().unwrap();
    let steps = answer::steps(&bridge, &packet(&[(Field::EthType, 0x0800)]), "a", text).unwrap();
    steps.iter().map(shown).collect()
}

macro_rules! table {
    ($($name:ident: [$($step:literal),* $(,)?];)*) => {$(
        #[test]
        fn $name() {
            let text = include_str!(concat!("testdata/", stringify!($name), ".txt"));
            assert_eq!(steps(text), [$($step),*] as [&str; _]);
        }
    )*
    const TEXTS: &[&str] = &[$(include_str!(concat!("testdata/", stringify!($name), ".txt"))),*];};
}

table! {
    vlan: [
        "br0 0: 4d55000000000001 ",
        r#"br0 to b {"eth_dst":"52:54:00:12:34:56","eth_type":2048,"vlan_vid":101}"#,
        r#"br0 to c {"eth_dst":"52:54:00:12:34:56","eth_type":2048}"#,
    ];
    buckets: [
        "br0 0: 4d55000000000002 ",
        r#"br0 to b {"eth_dst":"52:54:00:00:00:07","eth_type":2048}"#,
        r#"br0 to c {"eth_type":2048}"#,
    ];
    normal: [
        "br0 0: 4d55000000000003 ",
        "br1 0: 99 in_port=pa1, priority 5",
        r#"br1 to d {"eth_type":2048,"vlan_vid":0}"#,
        r#"br0 to br0 {"eth_type":2048}"#,
        r#"br0 to b {"eth_type":2048}"#,
        r#"br0 to c {"eth_type":2048}"#,
        r#"br0 to vx0 {"eth_type":2048}"#,
        r#"br0 to 1odd {"eth_type":2048}"#,
    ];
    drop: ["br0 0: 4d55000000000004 "];
    patch: [
        "br0 0: 4d55000000000005 ",
        "br1 0: 99 in_port=pa1, priority 5",
        r#"br1 to d {"eth_type":2048,"ipv4_dst":"10.9.9.9","vlan_vid":0}"#,
        r#"br0 to b {"eth_type":2048,"ipv4_dst":"10.9.9.9"}"#,
    ];
    controller: [
        "br0 0: 4d55000000000006 ",
        r#"br0 to vx0 {"eth_type":2048}"#,
        r#"br0 to br0 {"eth_type":2048}"#,
        r#"br0 to a {"eth_type":2048}"#,
        "br0 controller",
    ];
    connection: [
        "br0 0: 4d55000000000007 ",
        "br0 2: 4d55000000000017 ",
        r#"br0 to b {"eth_type":2048}"#,
    ];
    write_actions: [
        "br0 0: 4d55000000000008 ",
        "br0 3: 4d55000000000018 ",
        r#"br0 to c {"eth_type":2048}"#,
    ];
    refused: [
        "br0 0: 4d55000000000009 ",
        "br0 4: 4d55000000000019 ",
        "br0 refused skipping output to input port",
        "br0 refused Nonexistent output port",
        r#"br0 to c {"eth_type":2048}"#,
    ];
    miss: ["br0 0: miss"];
    select: [
        "br0 0: 4d55000000000021 ",
        "br0 unclear the switch takes the packet up again, which it does not trace",
    ];
    failover: ["br0 0: 4d55000000000022 ", r#"br0 to b {"eth_type":2048}"#];
    others: [
        "br0 0: 0 ip,in_port=a,nw_dst=10.0.1.3, priority 100",
        r#"br0 to b {"eth_dst":"52:54:00:00:00:09","eth_type":2048,"vlan_vid":7}"#,
        r#"br0 to c {"eth_dst":"52:54:00:00:00:09","eth_type":2048,"ipv4_dst":"9.9.9.9"}"#,
    ];
    moved: [
        "br0 0: 0 ip,in_port=a,nw_dst=10.0.1.4, priority 100",
        "br0 unclear move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
        r#"br0 to b {"eth_type":2048}"#,
    ];
    clone: [
        "br0 0: 0 ip,in_port=a,nw_dst=10.0.1.6, priority 100",
        "br0 unclear clone(mod_nw_dst:1.1.1.1,output:b)",
        r#"br0 to b {"eth_type":2048,"ipv4_dst":"1.1.1.1"}"#,
        r#"br0 to c {"eth_type":2048,"ipv4_dst":"1.1.1.1"}"#,
        r#"br0 to a {"eth_type":2048,"ipv4_dst":"1.1.1.1"}"#,
    ];
    ttl: ["br0 0: 4d55000000000023 ", "br0 refused IPv4 decrement TTL exception"];
    ipv6: [
        "br0 0: 0 ipv6,in_port=a, priority 100",
        r#"br0 to b {"eth_src":"52:54:00:00:00:00","eth_type":2048,"ip_dscp":3,"ipv6_dst":"fd00::9"}"#,
    ];
    quoted: ["br0 0: 4d55000000000031 ", r#"br0 to 1odd {"eth_type":2048}"#, r#"br0 to br0 {"eth_type":2048}"#];
}

#[test]
fn a_text_without_a_bridge_is_no_answer() {
    let bridge = "br0".parse().unwrap();
    for text in ["", "br9: unknown bridge", "Flow: ip\n\nFinal flow: unchanged\n"] {
        assert_eq!(answer::steps(&bridge, &Packet::default(), "a", text), None, "{text:?}");
    }
}

#[test]
fn a_long_answer_is_cut_and_says_so() {
    let text = format!("bridge(\"br0\")\n{}", "    output:b\n".repeat(1000));
    let steps = steps(&text);
    assert_eq!((steps.len(), &*steps[255]), (256, "br0 unclear more steps than are told"));
}

#[test]
fn a_question_is_a_flow_of_the_switch() {
    let ask = |port: &str, fields: &[(Field, u128)]| {
        let question = TraceQuestion { in_port: port.into(), packet: packet(fields) };
        question::text(&question).map_err(|error| error.to_string())
    };
    type Row = (&'static str, &'static [(Field, u128)], &'static str);
    let rows: [Row; 5] = [
        ("a", &[], "in_port=\"a\""),
        ("LOCAL", &[(Field::VlanVid, 0x1065)], "in_port=LOCAL,vlan_vid=0x1065"),
        (
            "eth0.5",
            &[(Field::EthDst, 0x5254_0012_3456), (Field::EthType, 0x0800), (Field::Ipv4Dst, 0x0a00_0001)],
            "in_port=\"eth0.5\",eth_dst=52:54:00:12:34:56,eth_type=0x800,ip_dst=10.0.0.1,nw_ttl=64",
        ),
        (
            "a",
            &[(Field::EthType, 0x86dd), (Field::IpProto, 6), (Field::Ipv6Src, 1), (Field::TcpFlags, 0x12)],
            "in_port=\"a\",eth_type=0x86dd,ip_proto=0x6,ipv6_src=::1,tcp_flags=0x12,nw_ttl=64",
        ),
        ("a", &[(Field::CtState, 0x21), (Field::Reg1, 5)], "in_port=\"a\",reg1=0x5,ct_state=0x21"),
    ];
    for (port, fields, flow) in rows {
        assert_eq!(ask(port, fields).as_deref(), Ok(flow));
    }
    for port in ["", "a\"", "a,b", "a b", "a\\", "é"] {
        assert!(ask(port, &[]).unwrap_err().contains("cannot be traced"), "{port:?}");
    }
}

fn reads(text: &str) {
    let bridge = "br0".parse().unwrap();
    if let Some(steps) = answer::steps(&bridge, &Packet::default(), "a", text) {
        assert!(steps.len() <= 256);
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        reads(&text);
        reads(&format!("bridge(\"br0\")\n{text}"));
    }

    /// Words of the switch in any order, with any numbers.
    #[test]
    fn no_words_panic(lines in prop::collection::vec((0..20_usize, WORDS, "[0-9a-fx:./>\\[\\]-]{0,20}"), 0..40)) {
        let line = |(indent, word, rest): &(usize, String, String)| format!("{}{word}{rest}\n", " ".repeat(*indent));
        let lines: String = lines.iter().map(line).collect();
        reads(&format!("bridge(\"br0\")\n{lines}"));
    }

    #[test]
    fn no_damaged_text_panics(at in any::<prop::sample::Index>(), from in any::<prop::sample::Index>(), byte: u8) {
        let mut text = TEXTS[at.index(TEXTS.len())].as_bytes().to_vec();
        let from = from.index(text.len());
        text[from] = byte;
        reads(&String::from_utf8_lossy(&text));
    }
}

const WORDS: &str = "(set_field:|load:|move:|mod_vlan_vid:|mod_tp_dst:|output:|output:\"|->|->eth_dst|->NXM_OF_IP_DST\\[|\
                     bridge\\(\"|bucket |Datapath actions: |recirc\\(|>> |NORMAL| 0\\. |10\\. |push_vlan:|IN_PORT)";
