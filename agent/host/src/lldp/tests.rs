use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::topology::HEARD_MAX;
use muster_shared::model::{LinkFacts, NeighbourFacts};
use muster_shared::wire::NEIGHBOURS_MAX;

use super::*;

const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BEACON: Beacon = Beacon([7; 16]);

fn leaf(port: &str, ttl: u16) -> Frame {
    Frame {
        chassis: Id { subtype: Id::MAC_OF_CHASSIS, octets: vec![2, 0, 0, 0, 0, 0x0a] },
        port: Id { subtype: Id::NAME_OF_PORT, octets: port.as_bytes().to_vec() },
        ttl,
        port_description: Some("to web-1".into()),
        system_name: Some("leaf-1".into()),
        system_description: Some("SwitchOS 7".into()),
        vlan: Some(100),
        management: vec!["10.0.0.254".parse().unwrap(), "fd00::fe".parse().unwrap()],
        beacon: Some(BEACON),
    }
}

fn at(seconds: u64) -> MonoTime {
    MonoTime(Duration::from_secs(seconds))
}

/// A frame with these TLVs behind the header.
fn raw(tlvs: &[(u8, &[u8])]) -> Vec<u8> {
    let mut frame = [&GROUPS[0][..], &SOURCE, &ETHERTYPE.to_be_bytes()].concat();
    for (kind, value) in tlvs {
        frame.extend((u16::from(*kind) << 9 | value.len() as u16).to_be_bytes());
        frame.extend_from_slice(value);
    }
    frame
}

const CHASSIS: (u8, &[u8]) = (1, &[4, 2, 0, 0, 0, 0, 10]);
const PORT: (u8, &[u8]) = (2, b"\x05Ethernet7");
const TTL: (u8, &[u8]) = (3, &[0, 120]);

#[test]
fn what_is_written_is_read() {
    let bare = Frame {
        port_description: None,
        system_name: None,
        system_description: None,
        vlan: None,
        management: Vec::new(),
        beacon: None,
        ..leaf("e1", 0)
    };
    for frame in [leaf("Ethernet7", 120), bare] {
        assert_eq!(Frame::read(&frame.write(SOURCE)), Ok(frame.clone()));
        let padded = [frame.write(SOURCE), vec![0xff; 40]].concat();
        assert_eq!(Frame::read(&padded), Ok(frame));
    }
}

#[test]
fn ids_are_told_as_what_they_are() {
    let port = |subtype, octets: &[u8]| {
        let frame = Frame { port: Id { subtype, octets: octets.to_vec() }, ..leaf("", 1) };
        NeighbourFacts::from(&frame).port_id
    };
    for (subtype, octets, wanted) in [
        (Id::MAC_OF_PORT, &b"abcdef"[..], "61:62:63:64:65:66"),
        (Id::ADDRESS_OF_PORT, &[1, 10, 0, 0, 1], "10.0.0.1"),
        (Id::ADDRESS_OF_PORT, &[2, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "fd00::1"),
        (Id::ADDRESS_OF_PORT, &[1, 10, 0], "01:0a:00"),
        (Id::NAME_OF_PORT, b"xe-0/0/7", "xe-0/0/7"),
        (7, "Dose Süd".as_bytes(), "Dose Süd"),
        (7, b"\x1b[2J", "1b:5b:32:4a"),
        (7, &[0xff, 1], "ff:01"),
    ] {
        assert_eq!(port(subtype, octets), wanted);
    }
    assert_eq!(NeighbourFacts::from(&leaf("e1", 1)).chassis_id, "02:00:00:00:00:0a");
}

#[test]
fn frames_that_break_the_rules_are_none() {
    let good = raw(&[CHASSIS, PORT, TTL]);
    assert_eq!(Frame::read(&good).unwrap().ttl, 120);
    let long = [5; 257];
    for (what, frame) in [
        ("nothing", Vec::new()),
        ("a header", good[..14].to_vec()),
        ("IPv4", [&good[..12], &[8, 0], &good[14..]].concat()),
        ("it breaks off", good[..good.len() - 1].to_vec()),
        ("half a head", [&*good, &[2]].concat()),
        ("no port", raw(&[CHASSIS, TTL])),
        ("another order", raw(&[PORT, CHASSIS, TTL])),
        ("no chassis id", raw(&[(1, &[4]), PORT, TTL])),
        ("a long one", raw(&[(1, &long), PORT, TTL])),
        ("half a time", raw(&[CHASSIS, PORT, (3, &[1])])),
        ("a chassis twice", raw(&[CHASSIS, PORT, TTL, CHASSIS])),
        (
            "beyond its end",
            raw(&[CHASSIS, PORT, TTL, (5, b"x")])[..].iter().copied().chain([0x0b, 0xff]).collect(),
        ),
    ] {
        assert!(Frame::read(&frame).is_err(), "{what}");
    }
}

#[test]
fn what_makes_no_sense_is_passed_over_and_texts_are_plain() {
    let frame = Frame::read(&raw(&[
        CHASSIS,
        PORT,
        TTL,
        (5, b"leaf\x1b[31m\xff\0"),
        (4, b" \n "),
        (8, &[]),
        (8, &[200, 1, 10]),
        (8, &[5, 1, 10, 0, 0, 254, 2, 0, 0, 0, 1, 0]),
        (8, &[3, 6, 1, 1]),
        (127, &[0, 0x80, 0xc2, 1, 0]),
        (127, &[0, 0x80, 0xc2]),
        (127, &[0, 0x12, 0x0f, 1, 0, 9]),
        (127, &[2, 0x4d, 0x55, 1, 1, 2, 3]),
        (127, &[2, 0x4d, 0x55, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        (99, b"?"),
        (0, &[]),
        CHASSIS,
    ]))
    .unwrap();
    assert_eq!(frame.system_name.as_deref(), Some("leaf [31m\u{fffd}"));
    assert_eq!((frame.port_description, frame.vlan, frame.beacon), (None, None, None));
    assert_eq!(frame.management, ["10.0.0.254".parse::<std::net::IpAddr>().unwrap()]);
}

#[test]
fn a_neighbour_stays_until_its_time_is_over() {
    let mut table = Table::default();
    assert!(table.hear(at(0), leaf("e1", 120)));
    assert!(!table.hear(at(30), leaf("e1", 120)), "it says the same again");
    assert!(!table.hear(at(31), leaf("e1", 119)), "for how long is no news");
    assert!(table.hear(at(60), Frame { vlan: Some(7), ..leaf("e1", 120) }));
    assert_eq!(table.next_expiry(), Some(at(180)));
    assert!(!table.expire(at(179)) && table.neighbours().count() == 1);
    assert!(table.expire(at(180)) && table.neighbours().count() == 0);
    assert!(table.hear(at(200), leaf("e1", 120)) && table.hear(at(200), leaf("e2", 120)));
    assert!(table.hear(at(201), leaf("e1", 0)), "it says goodbye");
    assert!(!table.hear(at(201), leaf("e1", 0)));
    assert_eq!(table.neighbours().count(), 1);
}

/// A restarted neighbour has other beacons, and is no second neighbour.
#[test]
fn beacons_are_those_of_neighbours_that_are_there() {
    let mut table = Table::default();
    let with = |port: &str, octet: u8, ttl| Frame { beacon: Some(Beacon([octet; 16])), ..leaf(port, ttl) };
    table.hear(at(0), Frame { beacon: None, ..leaf("e0", 120) });
    assert_eq!(table.beacons(), []);
    table.hear(at(0), with("e1", 5, 6));
    table.hear(at(1), with("e1", 4, 6));
    assert_eq!(table.beacons(), [Beacon([4; 16])]);
    for octet in [3, 2, 3] {
        table.hear(at(2), with(&format!("e{octet}"), octet, 6));
    }
    assert_eq!((table.beacons(), HEARD_MAX), (vec![Beacon([2; 16]), Beacon([3; 16])], 2));
    assert!(!table.expire(at(6)));
    assert!(table.expire(at(8)) && table.beacons().is_empty());
}

/// A group that bridges pass on says nothing of the cable.
#[test]
fn a_beacon_counts_of_the_nearest_bridge_only() {
    for (group, wanted) in GROUPS.into_iter().zip([Some(BEACON), None, None]) {
        let bytes = [&group[..], &leaf("e1", 6).write(SOURCE)[6..]].concat();
        assert_eq!(Frame::read(&bytes), Ok(Frame { beacon: wanted, ..leaf("e1", 6) }));
    }
}

#[test]
fn a_flood_drives_out_nobody_and_takes_no_room() {
    let mut table = Table::default();
    table.hear(at(0), leaf("first", 120));
    for n in 0..10_000 {
        table.hear(at(1), leaf(&format!("e{n}"), u16::MAX));
    }
    assert_eq!(table.neighbours().count(), NEIGHBOURS_MAX);
    assert!(!table.hear(at(60), leaf("first", 120)), "it is there still");
    assert!(table.expire(at(180)));
    assert!(table.hear(at(181), leaf("later", 1)), "there is room again");
}

#[test]
fn cards_are_ports_and_veths_where_there_is_none() {
    let link =
        |kind: &str, mac: Option<[u8; 6]>| LinkFacts { kind: kind.into(), mac, ..LinkFacts::default() };
    let mut links: BTreeMap<u32, LinkFacts> = [
        (1, link("", Some([0; 6]))),
        (2, link("veth", Some(SOURCE))),
        (3, link("bridge", Some(SOURCE))),
        (4, link("veth", Some(SOURCE))),
        (5, link("", None)),
    ]
    .into();
    assert_eq!(ports_of(&links), [2, 4].into());
    links.insert(6, link("", Some(SOURCE)));
    assert_eq!(ports_of(&links), [6].into());
}

#[test]
fn a_port_speaks_soon_after_it_came_up_and_then_with_the_others() {
    let milliseconds = Duration::from_millis;
    for (up, wanted) in [
        (0, [0, 1000, 2000, 3000, 4000, 6000, 8000]),
        (2_700, [2700, 3700, 4700, 5700, 6000, 8000, 10_000]),
        (3_999, [3999, 4999, 5999, 6999, 8000, 10_000, 12_000]),
    ] {
        let mut schedule = speak::Schedule::new(milliseconds(up));
        let spoken = std::iter::repeat_with(|| {
            let at = schedule.next();
            assert!(!schedule.speaks(at.saturating_sub(milliseconds(1))) || at.is_zero());
            assert!(schedule.speaks(at) || at.is_zero());
            at
        });
        assert_eq!(spoken.take(wanted.len()).collect::<Vec<_>>(), wanted.map(milliseconds), "up at {up} ms");
    }
    assert!(speak::INTERVAL * 2 < speak::TTL, "two may be lost");
}

#[tokio::test]
async fn who_ends_has_a_last_word_and_is_silent() {
    let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let socket = File::from(std::os::fd::OwnedFd::from(ours));
    let socket = Arc::new(pipe::Receiver::from_file_unchecked(socket).unwrap());
    let speaker = Speaker::default();
    let says = Announcement { frame: b"again and again".into(), last: b"last".into() };
    speaker.speak(1, &socket, says).unwrap();
    let mut buffer = [0; 64];
    let mut next = || theirs.recv(&mut buffer).map(|length| buffer[..length].to_vec());
    assert_eq!(next().unwrap(), b"again and again");
    speaker.end();
    while next().unwrap() != b"last" {}
    // The farewell is said once, however often the agent ends.
    speaker.end();
    theirs.set_nonblocking(true).unwrap();
    assert_eq!(theirs.recv(&mut [0; 64]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}
