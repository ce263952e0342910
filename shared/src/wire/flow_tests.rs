//! Messages of flow tables: what the golden bytes and the round trip are made of, and their bounds.

use super::*;
use crate::model::flow::*;
use crate::model::{Content, ContentDigest, Down, Up};
use crate::{Epoch, Generation};

fn generation() -> Generation {
    Generation { epoch: Epoch(3), number: 300 }
}

fn device() -> Bridge {
    "br0".parse().unwrap()
}

fn id(n: u64) -> FlowId {
    FlowId(u64::from(ID_PREFIX) << 48 | n)
}

/// A rule with something of everything that is packed.
fn packed() -> Packed {
    let entry = serde_json::json!({
        "table": 1, "priority": 300,
        "selector": {"in_port": "eth1", "vlan_vid": "any", "eth_type": 0x86dd, "ipv6_dst": "fd00::/64"},
        "treatment": [{"meter": 1}, {"set_eth_dst": "52:54:00:12:34:56"}, {"ct": {"commit": true, "mark": "0x1/0xf"}},
            {"output": "LOCAL"}, {"write_metadata": 5}, {"goto_table": 2}],
        "idle_timeout": 5,
    });
    Packed::new(&Entry::from_json(&entry).unwrap()).unwrap()
}

fn ops() -> Vec<u8> {
    let mut ops = Ops::default();
    ops.put(id(1), &packed());
    ops.remove(id(2));
    ops.into_bytes()
}

fn batch(confirm_timeout: Option<u32>, ops: Content) -> Down {
    Down::Flow(FlowDown::Batch(FlowBatch {
        device: device(),
        generation: generation(),
        confirm_timeout,
        ops,
    }))
}

fn ask(ask: FlowAsk) -> Down {
    Down::Flow(FlowDown::Ask { device: device(), number: 300, ask })
}

pub(super) fn downs() -> Vec<Down> {
    vec![
        batch(Some(30), Content::Inline(ops())),
        batch(None, Content::Stored { digest: ContentDigest([9; 32]), size: 1 << 20 }),
        ask(FlowAsk::Buckets),
        ask(FlowAsk::Entries(vec![0, 1023])),
        ask(FlowAsk::Stats),
        ask(FlowAsk::Foreign),
        ask(FlowAsk::Look),
        Down::Flow(FlowDown::Forget { device: device(), generation: generation() }),
    ]
}

fn state(switch: SwitchState, refused: Option<FlowRefusal>) -> FlowState {
    FlowState {
        device: device(),
        decided: generation(),
        refused,
        root: 0x0123_4567_89ab_cdef,
        entries: 300,
        wrong: 1,
        foreign: 2,
        switch,
        reason: "no port 'eth9'".into(),
        entry: None,
    }
}

pub(super) fn ups() -> Vec<Up> {
    let refusal = |id| FlowRefusal { id, reason: "no port 'eth9'".into(), permanent: true };
    let states = vec![
        state(SwitchState::Absent, None),
        state(SwitchState::Filling, Some(refusal(None))),
        state(SwitchState::Watched, Some(refusal(Some(id(7))))),
    ];
    let all = [EntryState::Present, EntryState::Expired, EntryState::Wrong];
    let entries = all.into_iter().enumerate().map(|(n, state)| (id(n as u64), 300, state)).collect();
    let counters = FlowCounters { id: id(1), packets: 300, bytes: 70_000, duration: 5 };
    let tables = vec![TableCounters { table: 1, active: 2, lookups: 300, matches: 4 }];
    let named = vec![
        FlowState { entry: Some(id(7)), ..state(SwitchState::Watched, None) },
        state(SwitchState::Absent, None),
    ];
    let foreign = vec![
        ForeignRule { cookie: 5, entry: Some(packed()), text: String::new() },
        ForeignRule { cookie: 0, entry: None, text: "actions=learn(...)".into() },
    ];
    [
        FlowUp::States { states, complete: true },
        FlowUp::Buckets { device: device(), number: 300, sums: vec![0; BUCKETS] },
        FlowUp::Entries { device: device(), number: 300, entries, last: true },
        FlowUp::Stats { device: device(), number: 300, entries: vec![counters], tables, last: false },
        FlowUp::Foreign { device: device(), number: 300, rules: foreign, last: true },
        FlowUp::States { states: named, complete: false },
    ]
    .into_iter()
    .map(Up::Flow)
    .collect()
}

fn read_down(down: &v1::Down) -> Result<Vec<Down>, WireError> {
    read_body(&postcard::to_stdvec(&vec![down]).unwrap())
}

fn read_up(up: &v1::Up) -> Result<Vec<Up>, WireError> {
    read_body(&postcard::to_stdvec(&vec![up]).unwrap())
}

#[test]
fn what_is_over_a_bound_is_refused() {
    let bad_device = v1::FlowDown::Forget { device: "a/b".into(), generation: (3, 1) };
    let out_of_order =
        v1::FlowDown::Ask { device: "br0".into(), number: 1, ask: v1::FlowAsk::Entries(vec![5, 5]) };
    let too_far =
        v1::FlowDown::Ask { device: "br0".into(), number: 1, ask: v1::FlowAsk::Entries(vec![1024]) };
    for down in [bad_device, out_of_order, too_far] {
        assert!(matches!(read_down(&v1::Down::Flow(down)), Err(WireError::Bounds { .. })));
    }
    let too_large = match v1::Down::from(&batch(None, Content::Inline(vec![0; OPS_INLINE_MAX + 1]))) {
        v1::Down::Flow(down) => down,
        _ => unreachable!(),
    };
    assert!(read_down(&v1::Down::Flow(too_large)).is_err());

    let few = v1::FlowUp::Buckets { device: "br0".into(), number: 1, sums: vec![0; BUCKETS - 1] };
    let foreign_id = v1::FlowUp::Entries {
        device: "br0".into(),
        number: 1,
        entries: vec![(5, 1, v1::EntryState::Wrong)],
        last: true,
    };
    for up in [few, foreign_id] {
        assert!(matches!(read_up(&v1::Up::Flow(up)), Err(WireError::Bounds { .. })));
    }
    let not_an_entry = v1::FlowUp::Foreign {
        device: "br0".into(),
        number: 1,
        rules: vec![(1, Some(vec![0xff; 8]), String::new())],
        last: true,
    };
    assert!(matches!(read_up(&v1::Up::Flow(not_an_entry)), Err(WireError::Malformed)));
}

#[test]
fn the_largest_pages_fit_a_packet() {
    let entries = vec![(id((1 << 48) - 1), u64::MAX, EntryState::Wrong); ENTRIES_PAGE];
    let counters = FlowCounters { id: id(1), packets: u64::MAX, bytes: u64::MAX, duration: u32::MAX };
    let table = TableCounters { table: 254, active: u32::MAX, lookups: u64::MAX, matches: u64::MAX };
    let mut longest = state(SwitchState::Watched, None);
    longest.reason = "x".repeat(FLOW_REASON_MAX);
    longest.refused = Some(FlowRefusal { id: Some(id(1)), reason: longest.reason.clone(), permanent: true });
    let pages = [
        FlowUp::States { states: vec![longest; STATES_MAX], complete: true },
        FlowUp::Entries { device: device(), number: u64::MAX, entries, last: true },
        FlowUp::Stats {
            device: device(),
            number: u64::MAX,
            entries: vec![counters; STATS_PAGE],
            tables: vec![table; 255],
            last: true,
        },
        FlowUp::Buckets { device: device(), number: u64::MAX, sums: vec![u64::MAX; BUCKETS] },
    ];
    for page in pages {
        let bytes = postcard::to_stdvec(&vec![v1::Up::from(&Up::Flow(page.clone()))]).unwrap();
        assert!(bytes.len() <= BODY_MAX, "{} bytes", bytes.len());
        assert_eq!(read_body(&bytes), Ok(vec![Up::Flow(page)]));
    }
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let mut long = state(SwitchState::Watched, None);
    long.reason = "é".repeat(FLOW_REASON_MAX);
    let up = v1::Up::from(&Up::Flow(FlowUp::States { states: vec![long], complete: true }));
    let Ok(read) = read_up(&up) else { panic!("it is cut, not refused") };
    let [Up::Flow(FlowUp::States { states, .. })] = &read[..] else { panic!("states") };
    assert_eq!(states[0].reason, "é".repeat(FLOW_REASON_MAX / 2));
}
