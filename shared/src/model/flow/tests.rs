//! The canonical form, its bytes and ids; batches; sums.

use proptest::prelude::*;
use serde_json::json;

use super::parse::any_entry;
use super::*;

fn device(name: &str) -> DeviceName {
    name.parse().unwrap()
}

fn rule(value: &serde_json::Value) -> Entry {
    Entry::from_json(value).unwrap()
}

/// Bytes that agents keep on disk and ids that switches hold: a change of either is one that every node
/// would see.
#[test]
fn golden_bytes_and_ids() {
    let rows = [
        (
            json!({"priority": 100, "selector": {"eth_type": 0x0800, "ipv4_dst": "10.0.0.0/24"}, "treatment": [{"output": "p2"}]}),
            "0000640201178010000121808080500180feffff0f01000000000270320000",
            "4d550b208f12dbfa",
        ),
        (
            json!({"priority": 1, "selector": {}, "treatment": [{"output": "CONTROLLER"}]}),
            "00000100010000050000",
            "4d555384ef4a471e",
        ),
        (json!({"group": 5, "type": "all", "buckets": []}), "01050000", "4d55968ea4d26375"),
        (json!({"meter": 5, "bands": [{"rate": 300}]}), "02050001ac020000", "4d5566423d8bbac3"),
    ];
    let got: Vec<(String, String)> = rows
        .iter()
        .map(|(value, ..)| {
            let entry = rule(value);
            let bytes = Packed::new(&entry).unwrap();
            let hex = data_encoding::HEXLOWER.encode(bytes.bytes());
            (hex, entry.id(&device("web-1/br0")).to_string())
        })
        .collect();
    let golden: Vec<_> = rows.iter().map(|(_, bytes, id)| ((*bytes).to_owned(), (*id).to_owned())).collect();
    assert_eq!(got, golden);
}

#[test]
fn the_id_is_of_the_place_alone() {
    let base = json!({"priority": 1, "selector": {"vlan_vid": 5}, "treatment": []});
    let with = |key: &str, value: serde_json::Value| {
        let mut changed = base.clone();
        changed[key] = value;
        rule(&changed)
    };
    let (br0, entry) = (device("web-1/br0"), rule(&base));
    let same = [with("treatment", json!([{"output": "NORMAL"}])), with("idle_timeout", json!(5))];
    for other in same {
        assert_eq!(other.id(&br0), entry.id(&br0));
        assert!(other.has_place_of(&entry));
        assert_ne!(Packed::new(&other).unwrap().digest(), Packed::new(&entry).unwrap().digest());
    }
    let others =
        [with("priority", json!(2)), with("table", json!(1)), with("selector", json!({"vlan_vid": 6}))];
    for other in others {
        assert_ne!(other.id(&br0), entry.id(&br0));
        assert!(!other.has_place_of(&entry));
    }
    for elsewhere in ["web-1/br1", "web-2/br0", "web-1b/r0"] {
        assert_ne!(entry.id(&device(elsewhere)), entry.id(&br0));
    }
}

#[test]
fn what_is_not_canonical_is_not_packed() {
    let field = |field, value, mask| Criterion::Field { field, value, mask };
    let of = |selector: Vec<Criterion>| Rule { selector, ..blank() };
    let bad = [
        of(vec![
            field(Field::EthType, 1, None),
            field(Field::VlanVid, 0, None),
            field(Field::VlanVid, 0, None),
        ]),
        of(vec![field(Field::VlanVid, 0, None), field(Field::EthType, 1, None)]),
        of(vec![field(Field::EthType, 0x1_0000, None)]),
        of(vec![field(Field::Reg0, 1, Some(2))]),
        of(vec![field(Field::Reg0, 0, Some(0))]),
        of(vec![field(Field::Reg0, 1, Some(0xffff_ffff))]),
        of(vec![Criterion::InPort(Port::Named("".into()))]),
        of(vec![Criterion::InPort(Port::Named("a b".into()))]),
        Rule { table: 255, ..blank() },
        Rule { treatment: vec![Instruction::ClearActions; INSTRUCTIONS_MAX + 1], ..blank() },
    ];
    for rule in bad {
        assert_eq!(Packed::new(&Entry::Rule(rule.clone())), Err(NotAnEntry), "{rule:?}");
    }
    assert!(Packed::new(&Entry::Rule(blank())).is_ok());
}

fn blank() -> Rule {
    Rule { table: 0, priority: 0, selector: vec![], treatment: vec![], idle_timeout: 0, hard_timeout: 0 }
}

#[test]
fn hostile_bytes_are_no_entry() {
    let good = Packed::new(&Entry::Rule(blank())).unwrap();
    let longer = [good.bytes(), &[0]].concat();
    // A number with a zero too many says the same in more bytes.
    let padded = [&[0x80], good.bytes()].concat();
    for bytes in
        [&longer[..], &padded, &[], &vec![0; ENTRY_MAX + 1], &[0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f]]
    {
        assert_eq!(Packed::from_bytes(bytes), Err(NotAnEntry));
    }
    for end in 0..good.bytes().len() {
        assert_eq!(Packed::from_bytes(&good.bytes()[..end]), Err(NotAnEntry));
    }
}

#[test]
fn operations_are_read_as_they_were_put() {
    let packed = Packed::new(&Entry::Rule(blank())).unwrap();
    let ids = [1u64, 2, 3].map(|n| FlowId(u64::from(ID_PREFIX) << 48 | n));
    let mut ops = Ops::default();
    ops.put(ids[0], &packed);
    ops.remove(ids[1]);
    ops.put(ids[2], &packed);
    assert_eq!(ops.len(), 3);
    let bytes = ops.into_bytes();
    let read: Vec<_> = read_ops(&bytes).collect::<Result<_, _>>().unwrap();
    let [OpsRef::Put { id: a, at, packed: first }, OpsRef::Remove(b), OpsRef::Put { id: c, .. }] = read[..]
    else {
        panic!("{read:?}")
    };
    assert_eq!([a, b, c], ids);
    assert_eq!((first, &bytes[at..at + first.len()]), (packed.bytes(), packed.bytes()));
    for end in 1..bytes.len() {
        let read: Vec<_> = read_ops(&bytes[..end]).collect();
        let whole = [read_ops(&bytes[..end]).count(), 3];
        assert!(whole[0] <= whole[1]);
        let is_whole = read.iter().all(Result::is_ok);
        let boundary = [11 + first.len(), 20 + first.len()].contains(&end);
        assert_eq!(is_whole, boundary, "cut at {end}");
    }
    let mut foreign = bytes.clone();
    foreign[8] = 0;
    assert_eq!(read_ops(&foreign).collect::<Vec<_>>(), [Err(BadOps(0))]);
}

#[test]
fn sums_tell_every_state_apart() {
    let packed = Packed::new(&Entry::Rule(blank())).unwrap();
    let (id, digest) = (Entry::Rule(blank()).id(&device("a/b")), packed.digest());
    let roots = [EntryState::Present, EntryState::Expired, EntryState::Wrong].map(|state| {
        let mut sums = Buckets::default();
        sums.toggle(id, digest, state);
        assert_eq!(sums.all().iter().filter(|sum| **sum != 0).count(), 1);
        assert_ne!(sums.get(bucket_of(id)), 0);
        sums.root()
    });
    assert!(roots[0] != roots[1] && roots[1] != roots[2] && roots[0] != roots[2] && !roots.contains(&0));
    assert_eq!(Buckets::default().root(), 0);
}

proptest! {
    #[test]
    fn sums_do_not_depend_on_the_order(mut entries in prop::collection::vec((any::<u64>(), any::<u64>()), 1..50)) {
        let sum = |entries: &[(u64, u64)]| {
            let mut sums = Buckets::default();
            entries.iter().for_each(|(id, digest)| sums.toggle(FlowId(*id), *digest, EntryState::Present));
            sums
        };
        let forwards = sum(&entries);
        entries.reverse();
        let mut backwards = sum(&entries);
        prop_assert_eq!(forwards.root(), backwards.root());
        entries.iter().for_each(|(id, digest)| backwards.toggle(FlowId(*id), *digest, EntryState::Present));
        prop_assert_eq!(backwards, Buckets::default());
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), entry in any_entry(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let _ = Packed::from_bytes(&bytes);
        read_ops(&bytes).for_each(drop);
        let mut changed = Packed::new(&entry).unwrap().bytes().to_vec();
        let index = at.index(changed.len());
        changed[index] = byte;
        if let Ok(read) = Packed::read(&changed) {
            let again = Packed::new(&read).unwrap();
            prop_assert_eq!(again.bytes(), &changed[..]);
            let _ = Entry::from_json(&serde_json::Value::Object(read.to_json()));
        }
    }
}

#[test]
fn a_packet_changes_as_actions_say() {
    let set = |field, value, mask| Action::Set { field, value, mask };
    let vlan = |vid: u128| (Field::VlanVid, 0x1000 | vid);
    type Fields = Vec<(Field, u128)>;
    let table: [(Fields, Vec<Action>, Fields); 5] = [
        (vec![], vec![set(Field::EthDst, 5, None)], vec![(Field::EthDst, 5)]),
        (
            vec![(Field::EthDst, 0xf0)],
            vec![set(Field::EthDst, 0x05, Some(0x0f))],
            vec![(Field::EthDst, 0xf5)],
        ),
        (vec![], vec![Action::PushVlan(0x8100), set(Field::VlanVid, 0x1007, None)], vec![vlan(7)]),
        (vec![vlan(7), (Field::VlanPcp, 3)], vec![Action::PushVlan(0x8100)], vec![vlan(0)]),
        (vec![vlan(7), (Field::VlanPcp, 3)], vec![Action::PopVlan], vec![]),
    ];
    for (before, actions, after) in table {
        let mut packet = Packet::from_fields(before.clone()).unwrap();
        assert!(actions.iter().all(|action| packet.apply(action)), "{actions:?}");
        assert_eq!(packet.fields().collect::<Vec<_>>(), after, "{before:?} {actions:?}");
    }
    assert!(!Packet::default().apply(&Action::PushMpls(0x8847)));
}

#[test]
fn what_belongs_to_a_switch_does_not_leave_it() {
    let fields = [(Field::Reg1, 1), (Field::CtMark, 2), (Field::EthSrc, 3), (Field::VlanVid, 0)];
    let packet = Packet::from_fields(fields).unwrap();
    assert_eq!(packet.on_the_cable().fields().collect::<Vec<_>>(), [(Field::EthSrc, 3)]);
    assert_eq!(Packet::from_fields([(Field::VlanPcp, 8)]), None);
}

#[test]
fn a_packet_is_the_lowest_of_its_selector_and_prints_as_one() {
    let selector = serde_json::json!({"in_port": "e1", "vlan_vid": "any", "eth_type": 0x0800,
        "ipv4_dst": "10.0.0.0/24", "ip_proto": 6});
    let rule = serde_json::json!({"priority": 1, "selector": selector, "treatment": []});
    let Entry::Rule(rule) = Entry::from_json(&rule).unwrap() else { panic!("a rule") };
    let packet = Packet::of(&rule.selector);
    assert_eq!(
        packet.to_json(),
        serde_json::json!({"vlan_vid": 0, "eth_type": 0x0800, "ipv4_dst": "10.0.0.0", "ip_proto": 6})
    );
}
