use std::time::Duration;

use super::*;
use crate::MonoTime;

const CONTROLLER: [u8; 32] = [1; 32];
const NODE: [u8; 32] = [2; 32];
const OTHER: [u8; 32] = [3; 32];
const NOW: MonoTime = MonoTime(Duration::from_secs(7));

fn seal(mine: [u8; 32], theirs: [u8; 32], site: &str, node: &str) -> Seal {
    let theirs = SealSecret::from_bytes(theirs).public();
    Seal::new(&SealSecret::from_bytes(mine), &theirs, &site.parse().unwrap(), &node.parse().unwrap())
}

/// The seal of the node web-1 of the site lab.
fn of_node() -> Seal {
    seal(NODE, CONTROLLER, "lab", "web-1")
}

fn controller() -> ControllerEnd {
    following(None)
}

fn following(again: Option<Again>) -> ControllerEnd {
    ControllerEnd::following(seal(CONTROLLER, NODE, "lab", "web-1"), again)
}

fn body(text: &str) -> Body {
    let mut body = Body::with_room_for(text.len());
    body.extend(text.as_bytes());
    body
}

fn never() -> Option<Random> {
    panic!("nothing that was proved")
}

/// Both ends after a greeting with these fresh keys; the controller has had no packet yet.
fn greet(end: &mut ControllerEnd, agent: u8, controller: u8) -> Session {
    let seal = of_node();
    let greeting = seal.greet_again([agent; 32], None).unwrap();
    greeting.accept(&seal, &answer(end, greeting.packet(), controller)).unwrap()
}

fn answer(end: &mut ControllerEnd, greeting: &[u8], fresh: u8) -> Vec<u8> {
    match end.open(greeting, || Some([fresh; 32])) {
        Ok(Opened::Greeting { answer }) => answer,
        other => panic!("{other:?}"),
    }
}

/// The node has said one thing.
fn open() -> (ControllerEnd, Session) {
    let mut end = controller();
    let mut node = greet(&mut end, 10, 20);
    assert_eq!(take(&mut end, &node.seal(body("hello"))), Ok(("hello".into(), true)));
    (end, node)
}

fn take(end: &mut ControllerEnd, packet: &[u8]) -> Result<(String, bool), PacketError> {
    match end.open(packet, never)? {
        Opened::Packet { body, begins } => Ok((String::from_utf8(body).unwrap(), begins)),
        Opened::Greeting { .. } => panic!("a greeting"),
    }
}

fn read(node: &mut Session, packet: &[u8]) -> Result<String, PacketError> {
    node.open(packet).map(|body| String::from_utf8(body).unwrap())
}

#[test]
fn packets_go_both_ways_in_order() {
    let (mut end, mut node) = open();
    for n in 0..300 {
        let text = format!("number {n}");
        assert_eq!(take(&mut end, &node.seal(body(&text))), Ok((text.clone(), false)));
        assert_eq!(read(&mut node, &end.seal(body(&text)).unwrap()), Ok(text));
    }
    let largest = "x".repeat(Body::MAX);
    let packet = node.seal(body(&largest));
    assert_eq!((packet.len(), take(&mut end, &packet)), (PACKET_MAX, Ok((largest, false))));
}

/// A broker may treat packets like this; the session goes on or ends.
#[test]
fn a_session_takes_the_next_packet_and_no_other() {
    type Deed = fn(&mut Session) -> Vec<Vec<u8>>;
    let sound = Ok(());
    let cases: [(&str, Deed, Result<(), PacketError>, bool); 5] = [
        ("in order", |node| vec![node.seal(body("a")), node.seal(body("b"))], sound, true),
        (
            "twice",
            |node| {
                let packet = node.seal(body("a"));
                vec![packet.clone(), packet]
            },
            Err(PacketError::Repeated),
            true,
        ),
        (
            "the first one again",
            |node| {
                let packets: Vec<_> = (0..9).map(|_| node.seal(body("a"))).collect();
                let first = packets[0].clone();
                packets.into_iter().chain([first]).collect()
            },
            Err(PacketError::Repeated),
            true,
        ),
        (
            "in another order",
            |node| {
                let first = node.seal(body("a"));
                vec![node.seal(body("b")), first]
            },
            Err(PacketError::Lost(1)),
            false,
        ),
        (
            "with three missing",
            |node| {
                (0..3).for_each(|_| drop(node.seal(body("a"))));
                vec![node.seal(body("d"))]
            },
            Err(PacketError::Lost(3)),
            false,
        ),
    ];
    for (what, deed, wanted, goes_on) in cases {
        let (mut end, mut node) = open();
        let packets = deed(&mut node);
        let taken = packets.iter().try_for_each(|packet| take(&mut end, packet).map(drop));
        assert_eq!(taken, wanted, "{what}");
        assert_eq!(end.is_open(), goes_on, "{what}");
        let next = take(&mut end, &node.seal(body("next")));
        let after = if goes_on { Ok(("next".into(), false)) } else { Err(PacketError::NotGreeted) };
        assert_eq!(next, after, "{what}");
        assert_eq!(end.seal(body("x")).is_some(), goes_on, "{what}");
    }
}

#[test]
fn the_agent_takes_the_next_packet_and_no_other() {
    let (mut end, mut node) = open();
    let packets: Vec<_> = (0..4).map(|_| end.seal(body("job")).unwrap()).collect();
    assert_eq!(read(&mut node, &packets[0]), Ok("job".into()));
    assert_eq!(read(&mut node, &packets[0]), Err(PacketError::Repeated));
    assert_eq!(read(&mut node, &packets[1]), Ok("job".into()));
    assert_eq!(read(&mut node, &packets[3]), Err(PacketError::Lost(1)));
    assert!(PacketError::Lost(1).ends_session() && !PacketError::Repeated.ends_session());
}

#[test]
fn a_packet_opens_for_nobody_else() {
    let (mut end, mut node) = open();
    let up = node.seal(body("report"));
    let down = end.seal(body("job")).unwrap();
    let mut another = controller();
    drop(greet(&mut another, 11, 20));
    // Reflected; of a session of the same keys; of no session; with another kind, number or version.
    assert_eq!(take(&mut end, &down), Err(PacketError::Repeated), "the head says number 0");
    let mut later = down.clone();
    later[2] = 1;
    assert_eq!(take(&mut end, &later), Err(PacketError::Seal), "an own packet comes back");
    assert_eq!(read(&mut node, &up), Err(PacketError::Seal), "an own packet comes back");
    assert_eq!(take(&mut another, &up), Err(PacketError::NotGreeted));
    assert_eq!(take(&mut controller(), &up), Err(PacketError::NotGreeted));
    for at in 0..up.len() {
        let mut altered = up.clone();
        altered[at] ^= 1;
        let wanted = match at {
            0 => Err(PacketError::Version(VERSION ^ 1)),
            // A greeting has another length; an answer is never for the controller.
            1 => Err(PacketError::Malformed),
            // Number 0 was taken.
            2 => Err(PacketError::Repeated),
            _ => Err(PacketError::Seal),
        };
        assert_eq!(take(&mut end, &altered), wanted, "byte {at}");
        assert!(end.is_open(), "byte {at}");
    }
    for length in 0..up.len() {
        let wanted = if length < 34 { PacketError::Malformed } else { PacketError::Seal };
        assert_eq!(take(&mut end, &up[..length]), Err(wanted), "{length} bytes");
    }
    assert_eq!(take(&mut end, &vec![VERSION; PACKET_MAX + 1]), Err(PacketError::Malformed));
    let long = [&[VERSION, 3][..], &vec![0; PACKET_MAX]].concat();
    assert_eq!(take(&mut end, &long), Err(PacketError::Malformed));
    assert_eq!(take(&mut end, &up), Ok(("report".into(), false)), "nothing of this did harm");
    assert_eq!(read(&mut node, &down), Ok("job".into()));
}

#[test]
fn a_greeting_is_proved_by_the_nodes_key() {
    for (what, seal) in [
        ("another node's key", seal(OTHER, CONTROLLER, "lab", "web-1")),
        ("for another controller", seal(NODE, OTHER, "lab", "web-1")),
        ("of another node", seal(NODE, CONTROLLER, "lab", "web-2")),
        ("in another site", seal(NODE, CONTROLLER, "attic", "web-1")),
        ("with the border elsewhere", seal(NODE, CONTROLLER, "l", "abweb-1")),
    ] {
        let greeting = seal.greet([10; 32]).unwrap();
        assert_eq!(controller().open(greeting.packet(), never), Err(PacketError::Seal), "{what}");
    }
    let good = of_node().greet([10; 32]).unwrap();
    for at in 0..good.packet().len() {
        let mut altered = good.packet().to_vec();
        altered[at] ^= 1;
        let wanted = match at {
            0 => PacketError::Version(VERSION ^ 1),
            // 1 ^ 1 is no kind.
            1 => PacketError::Malformed,
            _ => PacketError::Seal,
        };
        assert_eq!(controller().open(&altered, never), Err(wanted), "byte {at}");
    }
    for length in 0..good.packet().len() {
        assert_eq!(controller().open(&good.packet()[..length], never), Err(PacketError::Malformed));
    }
    assert_eq!(controller().open(good.packet(), || None), Err(PacketError::NoRandom));
}

/// A holder of the node's long-lived key alone cannot pose as the controller, nor the other way round.
#[test]
fn a_stolen_key_poses_as_its_owner_alone() {
    // With the node's key the proof of a greeting can be made, in which the controller's key has no part.
    let thief = seal(NODE, CONTROLLER, "lab", "web-1");
    let seal_of_node = of_node();
    let greeting = seal_of_node.greet([10; 32]).unwrap();
    let (theirs, _) = thief.greeted(greeting.packet()).unwrap();
    // Its answer is made with the node's key in place of the controller's.
    let (forged, _) = thief.answer(&theirs, [20; 32]).unwrap();
    assert_eq!(greeting.accept(&seal_of_node, &forged).err(), Some(PacketError::Seal));

    // The controller's key makes the proof of a greeting as well. The session that follows needs the node's.
    let thief = seal(CONTROLLER, NODE, "lab", "web-1");
    let mut end = controller();
    let greeting = thief.greet([10; 32]).unwrap();
    let answer = answer(&mut end, greeting.packet(), 20);
    assert_eq!(greeting.accept(&thief, &answer).err(), Some(PacketError::Seal));
    assert!(!end.is_open());
}

/// A broker keeps all packets of a run. Later both long-lived keys come to it.
#[test]
fn a_capture_does_not_open_with_the_long_lived_keys() {
    let (node_seal, mut end) = (of_node(), controller());
    let greeting = node_seal.greet([10; 32]).unwrap();
    let answered = answer(&mut end, greeting.packet(), 20);
    let mut node = greeting.accept(&node_seal, &answered).unwrap();
    let up = node.seal(body("hunter22"));
    take(&mut end, &up).unwrap();
    let down = end.seal(body("hunter22")).unwrap();

    // All that can be made from both keys and the capture: each side's part again, with other fresh keys.
    for fresh in [0, 10, 20, 30] {
        let mut as_controller = controller();
        answer(&mut as_controller, greeting.packet(), fresh);
        let opened = take(&mut as_controller, &up).is_ok();
        assert_eq!(opened, fresh == 20, "only with the fresh key of the controller, which is gone");
        let session = of_node().greet([fresh; 32]).unwrap().accept(&of_node(), &answered);
        let opened = session.ok().is_some_and(|mut node| node.open(&down).is_ok());
        assert_eq!(opened, fresh == 10, "only with the fresh key of the agent, which is gone");
    }
    // With the capture itself two of the three agreements can be computed, and the third one not.
    let public = |packet: &[u8]| PublicKey::from(<[u8; 32]>::try_from(&packet[2..34]).unwrap());
    let (of_greeting, of_answer) = (public(greeting.packet()), public(&answered));
    let [node_key, controller_key] = [NODE, CONTROLLER].map(StaticSecret::from);
    for (key, public) in [(&node_key, &of_greeting), (&node_key, &of_answer), (&controller_key, &of_greeting)]
    {
        let (first, second) =
            (controller_key.diffie_hellman(&of_greeting), node_key.diffie_hellman(&of_answer));
        let agreements = [first, second, key.diffie_hellman(public)];
        let derived = greeting::derive(&of_node(), &agreements, of_greeting.as_bytes(), of_answer.as_bytes());
        let mut thief = Session::of_controller(derived.unwrap().0);
        assert_eq!(thief.open(&up).err(), Some(PacketError::Seal));
    }
    for long_lived in [of_node(), seal(CONTROLLER, NODE, "lab", "web-1")] {
        assert!(long_lived.open(&[0; 24], &up[18..]).is_err());
    }
    for packet in [&up, &down] {
        assert!(!packet.windows(8).any(|window| window == b"hunter22"));
    }
}

#[test]
fn a_greeting_that_is_sent_again_takes_no_session() {
    let mut end = controller();
    // An earlier connection, which a broker has kept.
    let node_seal = of_node();
    let old = node_seal.greet([9; 32]).unwrap();
    let old_answer = answer(&mut end, old.packet(), 19);
    let mut old_node = old.accept(&node_seal, &old_answer).unwrap();
    let older = node_seal.greet([8; 32]).unwrap();
    let old_packets = [old_node.seal(body("old")), old_node.seal(body("old"))];
    old_packets.iter().for_each(|packet| drop(take(&mut end, packet).unwrap()));

    let mut node = greet(&mut end, 10, 20);
    assert_eq!(take(&mut end, &node.seal(body("new"))), Ok(("new".into(), true)));
    // The same greeting gets another answer, so the packets of that connection fit nothing any more.
    for (round, greeting) in [&old, &older, &old].into_iter().enumerate() {
        let again = answer(&mut end, greeting.packet(), 30 + round as u8);
        assert_ne!(again, old_answer);
        assert!(old_packets.iter().all(|packet| take(&mut end, packet).is_err()));
        assert_eq!(node.open(&again), Err(PacketError::Repeated), "the agent has its session");
        assert_eq!(take(&mut end, &node.seal(body("on"))), Ok(("on".into(), false)));
        assert_eq!(read(&mut node, &end.seal(body("on")).unwrap()), Ok("on".into()));
    }
    // The greeting of the current session, and of the answered one, are not answered again.
    let current = of_node().greet([10; 32]).unwrap();
    assert_eq!(end.open(current.packet(), never), Err(PacketError::Repeated));
    assert_eq!(end.open(old.packet(), never), Err(PacketError::Repeated));
    // The node comes again, in spite of all that.
    let mut next = greet(&mut end, 11, 21);
    assert_eq!(take(&mut end, &node.seal(body("last"))), Ok(("last".into(), false)));
    assert_eq!(take(&mut end, &next.seal(body("new"))), Ok(("new".into(), true)));
    assert_eq!(take(&mut end, &node.seal(body("late"))), Err(PacketError::Seal));
    assert_eq!(take(&mut end, &next.seal(body("on"))), Ok(("on".into(), false)));
}

#[test]
fn an_old_answer_is_not_taken() {
    let seal = of_node();
    let (old, new) = (seal.greet([10; 32]).unwrap(), seal.greet([11; 32]).unwrap());
    let mut end = controller();
    let old_answer = answer(&mut end, old.packet(), 20);
    let new_answer = answer(&mut end, new.packet(), 21);
    assert_eq!(new.accept(&seal, &old_answer).err(), Some(PacketError::Seal));
    assert_eq!(new.accept(&seal, new.packet()).err(), Some(PacketError::Malformed), "reflected");
    assert_eq!(new.accept(&seal, &[1, 2]).err(), Some(PacketError::Version(1)));
    let mut altered = new_answer.clone();
    altered[40] ^= 1;
    assert_eq!(new.accept(&seal, &altered).err(), Some(PacketError::Seal));
    assert!(new.accept(&seal, &new_answer).is_ok(), "none of them did harm");
}

#[test]
fn a_packet_that_was_lost_is_missed_though_none_follows() {
    let second = Duration::from_secs(1);
    let at = |seconds| MonoTime(second * seconds);
    let (mut end, mut node) = open();
    let says = |end: &mut ControllerEnd, node: &mut Session, now: u32| {
        take(end, &node.seal(body("heartbeat"))).unwrap();
        end.has_lost(at(now))
    };
    assert!(!says(&mut end, &mut node, 0));
    // Slow is not lost: each time something more has arrived.
    let packets: Vec<_> = (0..4).map(|_| end.seal(body("job")).unwrap()).collect();
    for (packet, now) in packets.iter().zip([0, 59, 118, 177]) {
        assert!(!says(&mut end, &mut node, now));
        assert!(!says(&mut end, &mut node, now + 59));
        node.open(packet).unwrap();
    }
    assert!(!says(&mut end, &mut node, 1000), "all has arrived");
    drop(end.seal(body("job")));
    assert!(!says(&mut end, &mut node, 2000), "it may be on its way");
    assert!(!says(&mut end, &mut node, 2059));
    assert!(says(&mut end, &mut node, 2060));
    // Another session begins from nothing.
    let mut node = greet(&mut end, 11, 21);
    take(&mut end, &node.seal(body("hello"))).unwrap();
    assert!(!end.has_lost(at(9999)));
}

#[test]
fn renewals_open_for_the_other_side_alone() {
    let (node, there, nonce) = (of_node(), seal(CONTROLLER, NODE, "lab", "web-1"), [7; 24]);
    let sealed = node.seal(&nonce, b"request").unwrap();
    assert_eq!(there.open(&nonce, &sealed).unwrap(), b"request");
    assert!(there.open(&[8; 24], &sealed).is_err());
    assert!(seal(CONTROLLER, NODE, "lab", "web-2").open(&nonce, &sealed).is_err());
    assert!(seal(CONTROLLER, NODE, "attic", "web-1").open(&nonce, &sealed).is_err());
    for i in 0..sealed.len() {
        let mut altered = sealed.clone();
        altered[i] ^= 1;
        assert!(there.open(&nonce, &altered).is_err(), "byte {i}");
    }
}

#[test]
fn a_key_of_which_nothing_secret_comes_makes_no_session() {
    let mut one = [0; 32];
    one[0] = 1;
    for weak in [[0; 32], one] {
        let theirs = SealPublic(weak);
        assert!(!theirs.is_sound(), "{theirs:?}");
        let (site, node) = ("lab".parse().unwrap(), "web-1".parse().unwrap());
        let seal = Seal::new(&SealSecret::from_bytes(NODE), &theirs, &site, &node);
        assert_eq!(seal.seal(&[7; 24], b"request"), Err(SealError));
        assert_eq!(seal.greet([10; 32]).err(), Some(PacketError::Seal));
        // A node that holds its long-lived key, and gives such a fresh one.
        let proof = of_node().proof(&weak).unwrap();
        let greeting = [&[VERSION, 1][..], &weak, proof.as_bytes()].concat();
        assert_eq!(controller().open(&greeting, || Some([20; 32])), Err(PacketError::Seal));
    }
    assert!(SealSecret::from_bytes([2; 32]).public().is_sound());
}

/// A session that the controller has from the one before: the greeting, its answer, and both ends, which have spoken.
fn again(
    end: &mut ControllerEnd,
    node: &mut Session,
    fresh: u8,
) -> (Vec<u8>, Vec<u8>, ControllerEnd, Session) {
    let (seal, mut next) = (of_node(), following(end.take_again(NOW)));
    let greeting = seal.greet_again([fresh; 32], node.take_again(NOW)).unwrap();
    let answer = answer(&mut next, greeting.packet(), fresh + 1);
    let mut session = greeting.accept(&seal, &answer).unwrap();
    assert_eq!(take(&mut next, &session.seal(body("hello"))), Ok(("hello".into(), true)));
    assert_eq!(read(&mut session, &next.seal(body("job")).unwrap()), Ok("job".into()));
    (greeting.packet().to_vec(), answer, next, session)
}

#[test]
fn sessions_follow_each_other_without_agreements() {
    let (mut end, mut node) = open();
    for round in 0..64 {
        let (greeting, answer, next, session) = again(&mut end, &mut node, 30 + round);
        assert_eq!((greeting.len(), &answer[..2]), (98, &[VERSION, 5][..]));
        (end, node) = (next, session);
    }
    assert!(
        end.take_again(NOW).is_none() && node.take_again(NOW).is_none(),
        "then one is due that is made of them"
    );
}

/// A secret that one side has lost or used, or never had, costs agreements and nothing else.
#[test]
fn a_session_that_left_nothing_is_followed_by_a_whole_one() {
    let kept = |end: &mut ControllerEnd| end.take_again(NOW);
    let of_another = |_: &mut ControllerEnd| {
        let mut other = controller();
        let mut node = greet(&mut other, 50, 51);
        take(&mut other, &node.seal(body("a"))).unwrap();
        other.take_again(NOW)
    };
    for (what, keep, kind) in [
        ("kept", &kept as &dyn Fn(&mut ControllerEnd) -> Option<Again>, 5),
        ("lost", &|_| None, 2),
        ("of another session", &of_another, 2),
    ] {
        let (mut end, mut node) = open();
        let seal = of_node();
        let greeting = seal.greet_again([30; 32], node.take_again(NOW)).unwrap();
        let mut next = following(keep(&mut end));
        let answer = answer(&mut next, greeting.packet(), 31);
        assert_eq!(answer[1], kind, "{what}");
        let mut session = greeting.accept(&seal, &answer).unwrap();
        assert_eq!(take(&mut next, &session.seal(body("hello"))), Ok(("hello".into(), true)), "{what}");
        assert!(node.take_again(NOW).is_none(), "{what}: it is used once");
    }
    // A node that has nothing, and a controller that has.
    let (mut end, _) = open();
    let mut next = following(end.take_again(NOW));
    let mut session = greet(&mut next, 30, 31);
    assert_eq!(take(&mut next, &session.seal(body("hello"))), Ok(("hello".into(), true)));
}

/// Neither with all long-lived keys, nor with what a later session left, nor by what was sent.
#[test]
fn a_session_after_another_opens_for_its_two_ends_alone() {
    let (mut end, mut node) = open();
    let seal = of_node();
    let greeting = seal.greet_again([30; 32], node.take_again(NOW)).unwrap();
    let mut next = following(end.take_again(NOW));
    let answered = answer(&mut next, greeting.packet(), 31);
    let mut node = greeting.accept(&seal, &answered).unwrap();
    let up = node.seal(body("hunter22"));
    assert_eq!(take(&mut next, &up), Ok(("hunter22".into(), true)));
    for stolen in [None, next.take_again(NOW)] {
        let mut thief = following(stolen);
        answer(&mut thief, greeting.packet(), 31);
        assert_eq!(take(&mut thief, &up), Err(PacketError::NotGreeted));
    }
    // A thief of the node's long-lived key cannot pose as the controller.
    let greeting = seal.greet_again([40; 32], node.take_again(NOW)).unwrap();
    let (theirs, _) = seal.greeted(greeting.packet()).unwrap();
    let (forged, _) = seal.answer(&theirs, [41; 32]).unwrap();
    assert_eq!(greeting.accept(&seal, &forged).err(), Some(PacketError::Seal));
    assert_eq!(greeting.accept(&seal, &answered).err(), Some(PacketError::Seal), "an answer of before");
    assert!(node.take_again(NOW).is_none(), "a secret is used once");
    // An answer to what was not asked for.
    let whole = seal.greet([42; 32]).unwrap();
    assert_eq!(whole.accept(&seal, &answered).err(), Some(PacketError::Seal));
}

/// Through a broker a session leaves nothing, whatever the other side would like.
#[test]
fn a_session_leaves_something_where_both_sides_want_it() {
    for (node_wants, controller_wants) in [(true, true), (true, false), (false, true), (false, false)] {
        let seal_of_node = of_node();
        let greeting = match node_wants {
            true => seal_of_node.greet_again([10; 32], None),
            false => seal_of_node.greet([10; 32]),
        };
        let greeting = greeting.unwrap();
        let mut end = match controller_wants {
            true => controller(),
            false => ControllerEnd::new(seal(CONTROLLER, NODE, "lab", "web-1")),
        };
        let answer = answer(&mut end, greeting.packet(), 20);
        let mut node = greeting.accept(&seal_of_node, &answer).unwrap();
        assert_eq!(take(&mut end, &node.seal(body("hello"))), Ok(("hello".into(), true)));
        let left = (node.take_again(NOW).is_some(), end.take_again(NOW).is_some());
        assert_eq!(left, (node_wants, controller_wants));
    }
}

/// A controller has one for each node: 100,000 of them are 45 MB.
#[test]
fn a_node_costs_little() {
    let fixed = size_of::<ControllerEnd>();
    let moment = size_of::<Session>() + 32;
    assert!(fixed + moment <= 450, "{fixed} and {moment} bytes");
}

/// A change here is a change of the protocol.
#[test]
fn golden_packets() {
    let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
    let (node_seal, mut end) = (of_node(), controller());
    let greeting = node_seal.greet_again([10; 32], None).unwrap();
    let answer = answer(&mut end, greeting.packet(), 20);
    let mut node = greeting.accept(&node_seal, &answer).unwrap();
    let ups = [node.seal(body("hello")), node.seal(body("report"))];
    ups.iter().for_each(|packet| drop(take(&mut end, packet).unwrap()));
    let down = end.seal(body("job")).unwrap();
    let mut lines = vec![format!("greeting {}", hex(greeting.packet())), format!("answer {}", hex(&answer))];
    lines.extend(ups.iter().map(|packet| format!("up {}", hex(packet))));
    lines.push(format!("down {}", hex(&down)));
    let golden = include_str!("testdata/v2.txt");
    assert_eq!(lines.join("\n"), golden.trim_end(), "the packets have changed");

    let (greeting, answer, mut end, mut node) = again(&mut end, &mut node, 30);
    let (up, down) = (node.seal(body("report")), end.seal(body("job")).unwrap());
    let packets = [("greeting", greeting), ("answer", answer), ("up", up), ("down", down)];
    let lines = packets.map(|(what, packet)| format!("{what} {}", hex(&packet)));
    let golden = include_str!("testdata/v2-again.txt");
    assert_eq!(lines.join("\n"), golden.trim_end(), "the packets have changed");
}

#[test]
fn no_bytes_panic() {
    let (mut end, mut node) = open();
    let greeting = of_node().greet([12; 32]).unwrap();
    let again = of_node().greet_again([13; 32], node.take_again(NOW)).unwrap();
    let samples = [
        greeting.packet().to_vec(),
        again.packet().to_vec(),
        node.seal(body("a")),
        end.seal(body("a")).unwrap(),
    ];
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for _ in 0..20_000 {
        let mut packet = samples[next() % samples.len()].clone();
        for _ in 0..=next() % 4 {
            let at = next() % packet.len();
            packet[at] = next() as u8;
        }
        packet.truncate(next() % (packet.len() + 1));
        let _ = end.open(&packet, || None);
        let _ = node.open(&packet);
        let _ = greeting.accept(&of_node(), &packet);
    }
    assert!(end.is_open());
}
