use super::*;

const BOUNDS: Bounds = Bounds { turn: 100, share: 10, rate: 5, burst: 1000 };

type Events = Vec<(String, u64, usize)>;

fn at(seconds: u64) -> MonoTime {
    MonoTime(Duration::from_secs(seconds))
}

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

/// So many messages of a byte each.
fn say(fair: &mut Fair<u32, &'static str>, name: &str, count: u32) {
    fair.heard(at(0), &node(name), 1, (0..count).collect(), count as usize, Some("taken"));
}

/// The nodes that are heard in a turn, each with its number of messages.
fn turn(fair: &mut Fair<u32, &'static str>, now: MonoTime) -> Events {
    fair.begin_turn(now);
    let mut heard = Events::new();
    while let Some((node, taken)) = fair.take(now) {
        match taken {
            Taken::Heard(connection, messages, _) => {
                heard.push((node.to_string(), connection, messages.len()))
            }
            Taken::Connected(connection) => heard.push((format!("+{node}"), connection, 0)),
            Taken::Disconnected(connection) => heard.push((format!("-{node}"), connection, 0)),
        }
    }
    heard
}

fn heard(name: &str, count: usize) -> (String, u64, usize) {
    (name.to_owned(), 1, count)
}

#[test]
fn each_node_is_heard_once_in_a_turn_with_its_share() {
    let mut fair = Fair::new(BOUNDS);
    for (name, count) in [("loud", 25), ("web-1", 3), ("web-2", 1)] {
        say(&mut fair, name, count);
    }
    assert_eq!(turn(&mut fair, at(0)), [heard("loud", 10), heard("web-1", 3), heard("web-2", 1)]);
    say(&mut fair, "web-1", 2);
    assert_eq!(turn(&mut fair, at(0)), [heard("web-1", 2), heard("loud", 10)]);
    assert_eq!(turn(&mut fair, at(0)), [heard("loud", 5)]);
    assert_eq!((turn(&mut fair, at(0)), fair.is_ready()), (vec![], false));
}

#[test]
fn a_full_turn_ends_and_the_next_starts_with_the_unheard_nodes() {
    let mut fair = Fair::new(Bounds { turn: 15, ..BOUNDS });
    for name in ["a", "b", "c"] {
        say(&mut fair, name, 20);
    }
    assert_eq!(turn(&mut fair, at(0)), [heard("a", 10), heard("b", 5)]);
    assert_eq!(turn(&mut fair, at(0)), [heard("c", 10), heard("a", 5)]);
    assert_eq!(turn(&mut fair, at(0)), [heard("b", 10), heard("c", 5)]);
}

#[test]
fn bytes_count_as_messages_and_one_huge_message_is_accepted() {
    let mut fair = Fair::new(BOUNDS);
    fair.heard(at(0), &node("loud"), 1, vec![1, 2], 200 * 1024, Some("taken"));
    say(&mut fair, "web-1", 1);
    // 101 units fill the turn.
    assert_eq!(turn(&mut fair, at(0)), [heard("loud", 1)]);
    assert_eq!(turn(&mut fair, at(0)), [heard("web-1", 1), heard("loud", 1)]);
}

#[test]
fn the_receipt_comes_with_the_last_message() {
    let mut fair = Fair::new(BOUNDS);
    say(&mut fair, "loud", 15);
    let mut receipt = || {
        fair.begin_turn(at(0));
        match fair.take(at(0)) {
            Some((_, Taken::Heard(_, _, receipt))) => receipt,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((receipt(), receipt()), (None, Some("taken")));
}

#[test]
fn who_used_up_its_rate_rests_and_nobody_else_does() {
    let mut fair = Fair::new(Bounds { burst: 20, ..BOUNDS });
    say(&mut fair, "loud", 100);
    assert_eq!(turn(&mut fair, at(0)), [heard("loud", 10)]);
    assert_eq!(turn(&mut fair, at(0)), [heard("loud", 10)]);
    // Nothing is left, but it owes nothing yet.
    assert_eq!(turn(&mut fair, at(0)), [heard("loud", 10)]);
    say(&mut fair, "web-1", 1);
    assert_eq!(turn(&mut fair, at(0)), [heard("web-1", 1)]);
    assert!(!fair.is_ready());
    let again = fair.ready_at().unwrap();
    assert!(again > at(2) && again < at(3), "ten units at five a second: {again:?}");
    assert_eq!(turn(&mut fair, at(2)), []);
    assert_eq!(turn(&mut fair, again), [heard("loud", 10)]);
    // In the long run it has its rate.
    let in_ten_seconds: usize = (30..130)
        .map(|tenth| MonoTime(Duration::from_millis(tenth * 100)))
        .flat_map(|now| turn(&mut fair, now))
        .map(|(_, _, count)| count)
        .sum();
    assert!((40..=60).contains(&in_ten_seconds), "{in_ten_seconds}");
}

#[test]
fn what_a_connection_said_comes_between_its_coming_and_its_end() {
    let mut fair: Fair<u32, &'static str> = Fair::new(Bounds { share: 1000, turn: 1000, ..BOUNDS });
    let web = node("web-1");
    fair.connected(at(0), &web, 1);
    assert_eq!(turn(&mut fair, at(0)), [("+web-1".to_owned(), 1, 0)]);
    say(&mut fair, "web-1", 2);
    assert!(fair.waits(&web, 1) && !fair.waits(&web, 2));
    fair.connected(at(0), &web, 2);
    fair.disconnected(at(0), &web, 1);
    let all = [heard("web-1", 2), ("+web-1".to_owned(), 2, 0), ("-web-1".to_owned(), 1, 0)];
    assert_eq!(turn(&mut fair, at(0)), all);
}

#[test]
fn a_connection_that_went_before_it_was_told_of_has_never_been() {
    let mut fair: Fair<u32, &'static str> = Fair::new(BOUNDS);
    let web = node("web-1");
    for connection in 1..10_000 {
        fair.connected(at(0), &web, connection);
        fair.heard(at(0), &web, connection, vec![1], 1, None);
        fair.disconnected(at(0), &web, connection);
    }
    assert_eq!(fair.lines[&web].waiting.len(), 0);
    assert_eq!(turn(&mut fair, at(0)), []);
    assert!(!fair.is_ready());
}

#[test]
fn who_comes_again_and_again_uses_up_its_rate_as_well() {
    let mut fair: Fair<u32, &'static str> = Fair::new(BOUNDS);
    let web = node("web-1");
    for connection in 1..100 {
        fair.connected(at(0), &web, connection);
    }
    let told: usize = (0..100).map(|_| turn(&mut fair, at(0)).len()).sum();
    assert_eq!(told as u64, BOUNDS.burst / CONNECTION + 1);
}

#[test]
fn those_who_are_quiet_are_forgotten_and_those_who_owe_are_not() {
    let mut fair = Fair::new(BOUNDS);
    for number in 1..FORGET_FROM {
        say(&mut fair, &format!("web-{number}"), 1);
    }
    while fair.is_ready() {
        turn(&mut fair, at(0));
    }
    assert_eq!(fair.lines.len(), FORGET_FROM - 1);
    say(&mut fair, "loud", 10);
    turn(&mut fair, at(1));
    assert_eq!(fair.lines.keys().map(NodeId::as_str).collect::<Vec<_>>(), ["loud"]);
}
