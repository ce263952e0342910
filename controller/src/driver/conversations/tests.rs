use muster_shared::Epoch;
use muster_shared::model::Welcome;

use super::*;

fn web() -> NodeId {
    "web-1".parse().unwrap()
}

fn hello(ledger: u128) -> Hello {
    Hello {
        boot_id: 1,
        instance: None,
        address: None,
        agent_version: "t".into(),
        reads: 0,
        epoch: Epoch(1).into(),
        ledger,
    }
}

fn heartbeat() -> Up {
    Up::Heartbeat { drift: None }
}

fn page(last: bool) -> Up {
    Up::Ledger { entries: Vec::new(), last }
}

fn welcome(want_ledger: bool) -> Down {
    Down::Welcome(Welcome {
        epoch: Epoch(1).into(),
        want_ledger,
        heartbeat: Duration::from_secs(10),
        reads: 0,
    })
}

/// An event of a conversation, and its expected result.
enum Step {
    Says(Up, bool),
    SaysToDeaf(Up),
    Told(Down),
    Resumed(Option<Resumed>),
}

fn greeted(ledger: u128) -> Option<Resumed> {
    Some(Resumed::Greeted { node: web(), connection: 7, hello: hello(ledger) })
}

fn connected() -> Option<Resumed> {
    Some(Resumed::Connected { node: web(), connection: 7 })
}

fn ended() -> Option<Resumed> {
    Some(Resumed::Ended { node: web() })
}

#[test]
fn a_conversation_is_taken_up_where_nothing_is_confused() {
    use Step::{Resumed as R, Says, SaysToDeaf, Told};
    let rows: Vec<(&str, Vec<Step>)> = vec![
        ("silent", vec![R(connected()), Says(Up::Hello(hello(5)), true)]),
        ("open", vec![Says(Up::Hello(hello(5)), true), Says(heartbeat(), true), R(greeted(!5))]),
        (
            "old words are dropped up to the ledger",
            vec![
                Says(Up::Hello(hello(5)), true),
                R(greeted(!5)),
                Told(welcome(true)),
                Says(heartbeat(), false),
                Says(page(false), true),
                Says(heartbeat(), true),
            ],
        ),
        (
            "greeted again, and again once the ledger is through",
            vec![
                Says(Up::Hello(hello(5)), true),
                R(greeted(!5)),
                Says(page(true), true),
                R(greeted(!5)),
                Says(heartbeat(), false),
            ],
        ),
        (
            "greeted while nothing can be written",
            vec![
                SaysToDeaf(Up::Hello(hello(5))),
                SaysToDeaf(heartbeat()),
                R(greeted(5)),
                Says(heartbeat(), true),
            ],
        ),
        (
            "in the middle of its ledger",
            vec![
                Says(Up::Hello(hello(5)), true),
                Told(welcome(true)),
                Says(page(false), true),
                R(ended()),
                R(None),
            ],
        ),
        (
            "its ledger ends while nothing can be written",
            vec![
                Says(Up::Hello(hello(5)), true),
                Told(welcome(true)),
                SaysToDeaf(page(true)),
                R(greeted(!5)),
            ],
        ),
        ("between two greetings", vec![Says(Up::Hello(hello(5)), true), R(greeted(!5)), R(ended())]),
        (
            "a ledger while nothing can be written is not the answer",
            vec![Says(Up::Hello(hello(5)), true), R(greeted(!5)), SaysToDeaf(page(true)), R(ended())],
        ),
    ];
    for (name, steps) in rows {
        let mut conversations = Conversations::default();
        conversations.connected(web(), 7);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Says(message, passes) => {
                    assert_eq!(
                        conversations.says(&web(), 7, &message, false),
                        passes,
                        "{name}: step {number}"
                    );
                }
                SaysToDeaf(message) => {
                    assert!(!conversations.says(&web(), 7, &message, true), "{name}: step {number}");
                }
                Told(message) => conversations.told(&web(), &message),
                R(wanted) => {
                    let resumed = conversations.resume(MonoTime::default()).pop();
                    assert_eq!(resumed, wanted, "{name}: step {number}");
                }
            }
        }
    }
}

#[test]
fn who_does_not_answer_the_second_greeting_is_late() {
    let mut conversations = Conversations::default();
    conversations.connected(web(), 7);
    conversations.says(&web(), 7, &Up::Hello(hello(5)), false);
    assert_eq!(conversations.timeout(), None);
    conversations.resume(MonoTime::default());
    let due = conversations.timeout().unwrap();
    assert!(conversations.late(MonoTime::default()).is_empty());
    assert_eq!(conversations.late(due), [web()]);
    assert!(conversations.timeout().is_none() && conversations.connections().is_empty());
}

#[test]
fn who_answers_before_its_time_is_not_late() {
    let mut conversations = Conversations::default();
    conversations.connected(web(), 7);
    conversations.says(&web(), 7, &Up::Hello(hello(5)), false);
    conversations.resume(MonoTime::default());
    let due = conversations.timeout().unwrap();
    let last = Up::Ledger { entries: Vec::new(), last: true };
    assert!(conversations.says(&web(), 7, &last, false));
    assert!(conversations.late(due).is_empty());
    assert_eq!(conversations.timeout(), None);
    assert_eq!(conversations.connections(), [(web(), 7)]);
}

#[test]
fn an_older_connection_says_and_ends_nothing() {
    let mut conversations = Conversations::default();
    conversations.connected(web(), 7);
    // Told late: the link takes the number of a connection and tells of it in two steps.
    conversations.connected(web(), 6);
    conversations.disconnected(&web(), 6);
    conversations.says(&web(), 6, &Up::Hello(hello(5)), false);
    assert_eq!(conversations.resume(MonoTime::default()).pop(), connected());
    conversations.disconnected(&web(), 7);
    assert!(conversations.connections().is_empty());
}
