use super::*;
use crate::seal::SealSecret;

fn token() -> JoinToken {
    JoinToken {
        site: "lab".parse().unwrap(),
        addresses: vec!["10.0.0.1:8883".parse().unwrap(), "[fd00::1]:8883".parse().unwrap()],
        ca_fingerprint: [3; 32],
        id: TokenId([0xab; 8]),
        secret: TokenSecret([0x5e; 16]),
        expires: 1_800_000_000,
        broker: None,
    }
}

fn broker_token() -> JoinToken {
    let broker = BrokerAccess {
        join_addresses: vec!["mq.example.org:8884".parse().unwrap()],
        ca_fingerprint: [4; 32],
        credentials: Some(Credentials { user: "join@muster".into(), password: "pw".into() }),
        controller_seal: SealPublic([8; 32]),
    };
    JoinToken { broker: Some(broker), ..token() }
}

fn join() -> JoinRequest {
    JoinRequest::Join(new_node())
}

fn new_node() -> NewNode {
    NewNode {
        token_id: TokenId([0xab; 8]),
        secret: TokenSecret([0x5e; 16]),
        name: "web-1".parse().unwrap(),
        csr_der: vec![0x30, 1, 2],
        seal_public: SealPublic([7; 32]),
        agent_version: "0.1.0".into(),
    }
}

fn granted() -> JoinAnswer {
    JoinAnswer::Granted {
        certificate_der: vec![0x30, 3],
        ca_der: vec![0x30, 4],
        controller_seal: SealPublic([8; 32]),
        site: "lab".parse().unwrap(),
        node: "web-1".parse().unwrap(),
        not_after: 300,
    }
}

fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

#[test]
fn golden_bytes() {
    let ab = "ab".repeat(8);
    assert_eq!(
        hex(&join().encode()),
        format!("0100{ab}{}057765622d3103300102{}05302e312e30", "5e".repeat(16), "07".repeat(32))
    );
    let renew = JoinRequest::Renew { node: "web-1".parse().unwrap(), packet: vec![1, 2] };
    assert_eq!(hex(&renew.encode()), "0101057765622d31020102");
    assert_eq!(
        hex(&JoinRequest::Move(new_node()).encode()),
        format!("0102{ab}{}057765622d3103300102{}05302e312e30", "5e".repeat(16), "07".repeat(32))
    );
    assert_eq!(
        hex(&granted().encode()),
        format!("0100023003023004{}036c6162057765622d31ac02", "08".repeat(32))
    );
    assert_eq!(hex(&JoinAnswer::refused("no").encode()), "0101026e6f");
    assert_eq!(
        token().to_string(),
        "muster1-A2xhYgINMTAuMC4wLjE6ODg4Mw5bZmQwMDo6MV06ODg4MwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDq6urq6urq6teXl5eXl5eXl5eXl5eXl5egKSn2gZOl5Ga"
    );
}

#[test]
fn messages_come_back() {
    let renew = JoinRequest::Renew { node: "web-1".parse().unwrap(), packet: vec![1, 2] };
    for request in [join(), renew] {
        assert_eq!(JoinRequest::decode(&request.encode()), Ok(request));
    }
    for answer in [granted(), JoinAnswer::refused("token used up")] {
        assert_eq!(JoinAnswer::decode(&answer.encode()), Ok(answer));
    }
}

#[test]
fn a_token_comes_back_and_may_have_space_around_it() {
    for token in [token(), broker_token()] {
        assert_eq!(format!(" {token}\n").parse(), Ok(token));
    }
    let mut long = token();
    long.site = "s".repeat(32).parse().unwrap();
    let host = vec!["a".repeat(62); 4].join(".");
    long.addresses = vec![format!("{host}:65535").parse().unwrap(); ADDRESSES_MAX];
    assert_eq!(long.to_string().parse(), Ok(long.clone()));
    long.addresses.push("one-too-many:1".parse().unwrap());
    assert_eq!(long.to_string().parse::<JoinToken>().unwrap().addresses.len(), ADDRESSES_MAX);
}

#[test]
fn every_typing_error_is_noticed() {
    let text = token().to_string();
    for at in PREFIX.len()..text.len() {
        let mut wrong = text.clone().into_bytes();
        wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
        let wrong = String::from_utf8(wrong).unwrap();
        assert_eq!(wrong.parse::<JoinToken>(), Err(TokenError::Damaged), "{at}");
        assert_eq!(text[..at].parse::<JoinToken>(), Err(TokenError::Damaged), "{at}");
    }
    assert_eq!(text[1..].parse::<JoinToken>(), Err(TokenError::Prefix));
    assert_eq!("".parse::<JoinToken>(), Err(TokenError::Prefix));
    let endless = format!("{PREFIX}{}", "A".repeat(TOKEN_MAX + 1));
    assert_eq!(endless.parse::<JoinToken>(), Err(TokenError::Damaged));
}

#[test]
fn a_whole_token_with_strange_contents_says_so() {
    let sealed =
        |body: &[u8]| format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&[body, &checksum(body)[..]].concat()));
    assert_eq!(sealed(b"something else").parse::<JoinToken>(), Err(TokenError::Contents));
    let mut none = token();
    none.addresses.clear();
    assert_eq!(none.to_string().parse::<JoinToken>(), Err(TokenError::Contents));
}

#[test]
fn secrets_are_not_shown() {
    for shown in [format!("{:?}", token()), format!("{:?}", join())] {
        assert!(shown.contains("TokenSecret") && !shown.contains("94"), "{shown}");
    }
}

#[test]
fn addresses() {
    for (text, host) in [
        ("controller.example.org:8883", Some("controller.example.org")),
        ("10.0.0.1:1", Some("10.0.0.1")),
        ("[fd00::1]:8883", Some("fd00::1")),
        ("host", None),
        ("host:0", None),
        ("host:65536", None),
        (":8883", None),
        ("fd00::1:8883", None),
        ("[fd00::1:8883", None),
        ("[host]:8883", None),
        ("a b:8883", None),
    ] {
        assert_eq!(text.parse::<Address>().ok().as_ref().map(Address::host), host, "{text}");
    }
}

#[test]
fn token_ids_are_written_as_hex() {
    let id = TokenId([0, 1, 2, 3, 4, 5, 0xfe, 0xff]);
    assert_eq!(id.to_string(), "000102030405feff");
    assert_eq!(id.to_string().parse(), Ok(id));
    for wrong in ["", "00", "000102030405fefg", "000102030405feff00"] {
        assert!(wrong.parse::<TokenId>().is_err(), "{wrong}");
    }
}

#[test]
fn bounds_hold() {
    for request in [JoinRequest::Join, JoinRequest::Move] {
        let request = request(NewNode { csr_der: vec![0; DER_MAX + 1], ..new_node() });
        assert_eq!(JoinRequest::decode(&request.encode()), Err(JoinError::Bounds("signing request")));
    }
    let renew = JoinRequest::Renew { node: "web-1".parse().unwrap(), packet: vec![0; 4096] };
    assert_eq!(JoinRequest::decode(&renew.encode()), Err(JoinError::Bounds("renewal")));
    let long = JoinAnswer::Refused { reason: "x".repeat(REASON_MAX + 1) };
    assert_eq!(JoinAnswer::decode(&long.encode()), Err(JoinError::Bounds("reason")));
    let cut = JoinAnswer::refused("ä".repeat(REASON_MAX));
    assert_eq!(JoinAnswer::decode(&cut.encode()), Ok(JoinAnswer::Refused { reason: "ä".repeat(512) }));
    assert_eq!(JoinRequest::decode(&vec![1; JOIN_MAX + 1]), Err(JoinError::Malformed));
    assert_eq!(JoinRequest::decode(&[]), Err(JoinError::Malformed));
    assert_eq!(JoinRequest::decode(&[2, 0]), Err(JoinError::Version(2)));
    let mut more = join().encode();
    more.push(0);
    assert_eq!(JoinRequest::decode(&more), Err(JoinError::Malformed));
}

#[test]
fn only_the_node_itself_can_renew() {
    let (controller, node, other) =
        (SealSecret::from_bytes([1; 32]), SealSecret::from_bytes([2; 32]), SealSecret::from_bytes([3; 32]));
    let seal = |mine, theirs: SealPublic| {
        Seal::new(mine, &theirs, &"lab".parse().unwrap(), &"web-1".parse().unwrap())
    };
    let here = seal(&controller, node.public());
    let packet = |seal: &Seal| match renewal(seal, "web-1".parse().unwrap(), [9; 24], b"csr").unwrap() {
        JoinRequest::Renew { packet, .. } => packet,
        JoinRequest::Join(_) | JoinRequest::Move(_) => unreachable!(),
    };
    let good = packet(&seal(&node, controller.public()));
    assert_eq!(open_renewal(&here, &good), Ok(b"csr".to_vec()));
    assert_eq!(open_renewal(&here, &packet(&seal(&other, controller.public()))), Err(JoinError::Seal));
    assert_eq!(open_renewal(&here, &good[..20]), Err(JoinError::Malformed));
    // A greeting is proved with the same long-lived keys, and is no renewal.
    let greeting = seal(&node, controller.public()).greet([9; 32]).unwrap();
    assert_eq!(open_renewal(&here, greeting.packet()), Err(JoinError::Seal));
}

#[test]
fn no_bytes_panic() {
    let samples = [join().encode(), granted().encode()];
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for _ in 0..20_000 {
        let mut bytes = samples[next() % samples.len()].clone();
        for _ in 0..=next() % 4 {
            let at = next() % bytes.len();
            bytes[at] = next() as u8;
        }
        bytes.truncate(next() % (bytes.len() + 1));
        let _ = JoinRequest::decode(&bytes);
        let _ = JoinAnswer::decode(&bytes);
    }
}

#[test]
fn a_token_for_brokers_is_no_other_token() {
    let text = broker_token().to_string();
    assert!(text.starts_with("muster2-"), "{text}");
    let other = text.replacen("muster2-", "muster1-", 1);
    assert_eq!(other.parse::<JoinToken>(), Err(TokenError::Contents));
    let other = token().to_string().replacen("muster1-", "muster2-", 1);
    assert_eq!(other.parse::<JoinToken>(), Err(TokenError::Contents));
    let mut long = broker_token();
    long.broker.as_mut().unwrap().credentials.as_mut().unwrap().password = "x".repeat(300);
    assert_eq!(long.to_string().parse::<JoinToken>(), Err(TokenError::Contents));
    let shown = format!("{:?}", broker_token());
    assert!(shown.contains("join@muster") && !shown.contains("pw"), "{shown}");
}
