use proptest::prelude::*;

use super::*;

const ID: ConnectionId = ConnectionId([7; 16]);

fn all() -> Vec<Segment<'static>> {
    let mut all = vec![
        Content::Data { number: 3, taken: 2, packet: b"packet" },
        Content::Data { number: 0, taken: 0, packet: b"" },
        Content::Ack { taken: 258 },
        Content::Begin,
    ];
    all.extend(ResetReason::ALL.map(Content::Reset));
    all.into_iter().map(|content| Segment { connection: ID, content }).collect()
}

#[test]
fn golden_bytes() {
    let hex = |segment: &Segment<'_>| data_encoding::HEXLOWER.encode(&segment.encode());
    let id = "07".repeat(16);
    let encoded: Vec<_> = all().iter().take(5).map(hex).collect();
    assert_eq!(
        encoded,
        [
            format!("0101{id}030000000000000002000000000000007061636b6574"),
            format!("0101{id}00000000000000000000000000000000"),
            format!("0102{id}0201000000000000"),
            format!("0104{id}"),
            format!("0103{id}01"),
        ]
    );
}

#[test]
fn segments_come_back_and_no_part_of_one_does() {
    for segment in all() {
        let bytes = segment.encode();
        assert_eq!(Segment::decode(&bytes), Ok(segment));
        let is_data = matches!(segment.content, Content::Data { .. });
        // A packet cut short is found by its seal.
        let whole = if is_data { OVERHEAD } else { bytes.len() };
        for end in 0..whole {
            assert!(Segment::decode(&bytes[..end]).is_err(), "{segment:?} up to {end}");
        }
        if !is_data {
            assert!(Segment::decode(&[&bytes[..], b"x"].concat()).is_err(), "{segment:?}");
        }
    }
    assert_eq!(Segment::decode(&[2]), Err(SegmentError::Version(2)));
    let long = vec![0; MESSAGE_MAX + 1];
    let long = Segment { connection: ID, content: Content::Data { number: 0, taken: 0, packet: &long } };
    assert_eq!(Segment::decode(&long.encode()), Err(SegmentError::Malformed));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        let _ = Segment::decode(&bytes);
        let _ = Segment::decode(&[&[VERSION][..], &bytes].concat());
    }
}

#[test]
fn a_window_closes_until_packets_are_taken() {
    let (mut here, mut there) = (Window::default(), Window::default());
    for number in 0..WINDOW {
        assert!(here.is_open(), "{number}");
        here.data(ID, b"");
        assert_eq!(there.arrived(number), Ok(Arrival::Next));
    }
    assert!(!here.is_open() && !here.is_settled());
    assert_eq!(there.arrived(WINDOW), Err(OutOfStep::Overrun), "whoever sends more keeps to no window");
    assert_eq!(there.owes(), 0, "what came is not taken yet");
    there.take();
    assert_eq!(there.owes(), 1);
    assert_eq!(there.ack(ID).content, Content::Ack { taken: 1 });
    assert_eq!(there.owes(), 0);
    assert_eq!(here.acknowledge(1), Ok(()));
    assert!(here.is_open());
    assert_eq!(here.acknowledge(0), Ok(()), "late");
    assert_eq!(here.acknowledged(), 1);
    assert_eq!(here.acknowledge(WINDOW + 1), Err(OutOfStep::NeverSent));
}

#[test]
fn data_takes_the_acknowledgement_along() {
    let mut window = Window::default();
    for number in 0..3 {
        assert_eq!(window.arrived(number), Ok(Arrival::Next));
        window.take();
    }
    assert_eq!(window.data(ID, b"x").content, Content::Data { number: 0, taken: 3, packet: b"x" });
    assert_eq!(window.owes(), 0);
}

#[test]
fn a_repeated_packet_is_acknowledged_again_and_a_gap_is_the_end() {
    let mut window = Window::default();
    assert_eq!(window.arrived(0), Ok(Arrival::Next));
    window.take();
    window.ack(ID);
    assert_eq!(window.arrived(0), Ok(Arrival::Repeated));
    assert_eq!(window.owes(), 1);
    assert_eq!(window.arrived(3), Err(OutOfStep::Lost(2)));
    assert_eq!(OutOfStep::Lost(2).reset(), ResetReason::Lost);
}

#[test]
fn nothing_is_taken_that_did_not_come() {
    let mut window = Window::default();
    window.take();
    assert_eq!(window.owes(), 0);
}
