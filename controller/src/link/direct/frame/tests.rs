use rumqttc::v5::mqttbytes::v5::{Connect as RawConnect, Filter, PingReq, PubAck, Publish};

use super::*;

const MAX: usize = 10_000;

fn written(packet: Packet) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    packet.write(&mut bytes, None).unwrap();
    bytes.to_vec()
}

/// Every packet that is spoken, as bytes and as what it is.
fn samples() -> Vec<(Vec<u8>, Frame)> {
    let connect = RawConnect {
        keep_alive: 30,
        client_id: "web-1".into(),
        clean_start: true,
        properties: Some(ConnectProperties { receive_maximum: Some(9), ..ConnectProperties::new() }),
    };
    let publish = |qos, pkid, size| {
        let mut publish = Publish::new("up", qos, vec![7; size], None);
        publish.pkid = pkid;
        written(Packet::Publish(publish))
    };
    let mut subscribe = Subscribe::new(Filter::new("down", QoS::AtLeastOnce), None);
    subscribe.pkid = 3;
    let published =
        |acknowledge, size| Frame::Publish { topic: "up".into(), payload: vec![7; size].into(), acknowledge };
    vec![
        (
            written(Packet::Connect(connect, None, None)),
            Frame::Connect(Connect {
                client_id: "web-1".into(),
                keep_alive: 30,
                receive_maximum: 9,
                max_packet_size: u32::MAX,
                will: None,
            }),
        ),
        (publish(QoS::AtMostOnce, 0, 0), published(None, 0)),
        (publish(QoS::AtLeastOnce, 2, 300), published(Some(2), 300)),
        (written(Packet::PubAck(PubAck::new(5, None))), Frame::PubAck { id: 5 }),
        (vec![0x40, 3, 0, 5, 0x10], Frame::PubAck { id: 5 }),
        (
            written(Packet::Subscribe(subscribe)),
            Frame::Subscribe { id: 3, filters: vec![("down".into(), QoS::AtLeastOnce)] },
        ),
        (written(Packet::PingReq(PingReq)), Frame::PingReq),
        (vec![0xE0, 0], Frame::Disconnect),
        (vec![0xE0, 1, 4], Frame::Disconnect),
        (vec![0xE0, 2, 0x80, 0], Frame::Disconnect),
    ]
}

#[test]
fn every_packet_arrives_whole_in_however_many_pieces() {
    let stream: Vec<u8> = samples().into_iter().flat_map(|(bytes, _)| bytes).collect();
    for piece in [1, 2, 3, 7, 100, stream.len()] {
        let mut input = BytesMut::new();
        let mut expected = samples().into_iter().map(|(_, frame)| frame);
        for bytes in stream.chunks(piece) {
            input.extend_from_slice(bytes);
            while let Some(frame) = next(&mut input, MAX).unwrap() {
                assert_eq!(Some(frame), expected.next(), "in pieces of {piece}");
            }
        }
        assert_eq!((input.len(), expected.next()), (0, None));
    }
}

#[test]
fn a_packet_that_is_cut_inside_is_malformed_and_not_waited_for() {
    for (bytes, frame) in samples() {
        if matches!(frame, Frame::Disconnect | Frame::Publish { .. }) {
            continue; // these have no inside that could be cut
        }
        for cut in 1..bytes.len().saturating_sub(2) {
            let mut short = BytesMut::from(&bytes[..bytes.len() - cut]);
            short[1] = (short.len() - 2) as u8;
            if frame == (Frame::PubAck { id: 5 }) && short.len() == 4 {
                continue; // a reason may be left out
            }
            let refusal = next(&mut short, MAX).unwrap_err();
            assert_eq!(refusal.reason, Reason::MalformedPacket, "{frame:?} without {cut}");
        }
    }
}

#[test]
fn a_size_is_refused_as_soon_as_it_is_announced() {
    for (start, reason) in [
        (&[0x30, 0xff, 0x7f][..], Reason::PacketTooLarge),
        (&[0x10, 0x80, 0x20], Reason::PacketTooLarge),
        (&[0x30, 0xff, 0xff, 0xff, 0xff], Reason::MalformedPacket),
    ] {
        let refusal = next(&mut BytesMut::from(start), MAX).unwrap_err();
        assert_eq!(refusal.reason, reason, "{start:?}");
    }
    // The largest that is taken is asked for in one piece.
    let mut largest = BytesMut::from(&[0x30, 0x8d, 0x4e][..]);
    assert_eq!(next(&mut largest, MAX), Ok(None));
    assert!(largest.capacity() >= MAX);
}

#[test]
fn no_bytes_panic_or_are_waited_for_beyond_their_bound() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    let samples = samples();
    for round in 0..200_000 {
        let mut bytes = samples[random() % samples.len()].0.clone();
        for _ in 0..=random() % 4 {
            let at = random() % bytes.len();
            bytes[at] = random() as u8;
        }
        if round % 3 == 0 {
            bytes.truncate(random() % (bytes.len() + 1));
        }
        let mut input = BytesMut::from(&bytes[..]);
        while let Ok(Some(_)) = next(&mut input, MAX) {}
        assert!(input.capacity() <= MAX + bytes.len());
    }
}
