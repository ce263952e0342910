use muster_shared::SiteId;
use muster_shared::seal::{Body, ControllerEnd, Opened, SealSecret};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
/// As old as anything gets.
const OLD: Duration = Duration::from_secs(12 * 3600);

/// A node, and the controller's table with it.
struct Bench {
    node: NodeId,
    admitted: Admitted,
    controller: SealSecret,
}

fn secret(byte: u8) -> SealSecret {
    SealSecret::from_bytes([byte; 32])
}

fn bench() -> Bench {
    let bench =
        Bench { node: "web-1".parse().unwrap(), admitted: Admitted::default(), controller: secret(9) };
    bench.admitted.set(bench.node.clone(), Some(secret(1).public()));
    bench
}

impl Bench {
    fn seal_of(&self, mine: &SealSecret, theirs: &SealPublic) -> Seal {
        Seal::new(mine, theirs, &"lab".parse::<SiteId>().unwrap(), &self.node)
    }

    /// The secrets that a session of a node with this key leaves at this time, to both sides.
    fn session(&self, key: u8, now: MonoTime, before: (Option<Again>, Option<Again>)) -> (Again, Again) {
        let (mine, of_controller) = before;
        let node = self.seal_of(&secret(key), &self.controller.public());
        let seal = self.seal_of(&self.controller, &secret(key).public());
        let mut end = ControllerEnd::following(seal, of_controller);
        let greeting = node.greet_again([20; 32], mine).unwrap();
        let opened = end.open(greeting.packet(), || Some([21; 32])).unwrap();
        let Opened::Greeting { answer } = opened else { panic!("an answer") };
        let mut session = greeting.accept(&node, &answer).unwrap();
        let mut body = Body::with_room_for(1);
        body.extend(&[0]);
        end.open(&session.seal(body), || None).unwrap();
        (session.take_again(now).unwrap(), end.take_again(now).unwrap())
    }

    fn left(&self, key: u8, now: MonoTime) -> Again {
        self.session(key, now, (None, None)).1
    }

    fn keep(&self, now: MonoTime) {
        self.admitted.keep_again(&self.node, &secret(1).public(), self.left(1, now), now);
    }

    fn take(&self, key: u8, now: MonoTime) -> bool {
        self.admitted.take_again(&self.node, &secret(key).public(), now).is_some()
    }

    fn holds(&self) -> bool {
        self.admitted.lock().nodes.get(&self.node).is_some_and(|entry| entry.again.is_some())
    }
}

fn at(after: Duration) -> MonoTime {
    MonoTime(HOUR + after)
}

#[test]
fn a_seal_is_kept_until_the_key_changes() {
    let bench = bench();
    let [old, new] = [1, 2].map(|byte| secret(byte).public());
    let seal =
        |key: &SealPublic| bench.admitted.seal(&bench.node, key, || bench.seal_of(&bench.controller, key));
    let first = seal(&old);
    assert!(Arc::ptr_eq(&first, &seal(&old)));
    assert!(!Arc::ptr_eq(&first, &seal(&new)), "a key that is not the node's");
    assert!(Arc::ptr_eq(&first, &seal(&old)));
    bench.admitted.set(bench.node.clone(), Some(new));
    let second = seal(&new);
    assert!(Arc::ptr_eq(&second, &seal(&new)));
    assert!(!Arc::ptr_eq(&first, &seal(&old)));
}

/// The secret that a session has left is there for the next one of that key, once; and until the node's key goes.
#[test]
fn what_a_session_leaves_goes_with_the_key() {
    type Between = fn(&Bench);
    let nothing: Between = |_| {};
    let same: Between = |b| b.admitted.set(b.node.clone(), Some(secret(1).public()));
    let removed: Between = |b| b.admitted.set(b.node.clone(), None);
    let joined_anew: Between = |b| b.admitted.set(b.node.clone(), Some(secret(2).public()));
    let back: Between = |b| {
        b.admitted.set(b.node.clone(), None);
        b.admitted.set(b.node.clone(), Some(secret(1).public()));
    };
    let loaded: Between = |b| b.admitted.begin([(b.node.clone(), secret(1).public())].into_iter());
    let used: Between = |b| assert!(b.take(1, at(Duration::ZERO)));
    for (what, between, is_there) in [
        ("nothing happened", nothing, true),
        ("the same key is set again", same, true),
        ("removed, or revoked", removed, false),
        ("joined anew", joined_anew, false),
        ("removed, and back with its key", back, false),
        ("the site was loaded anew", loaded, false),
        ("used", used, false),
    ] {
        let bench = bench();
        bench.keep(at(Duration::ZERO));
        between(&bench);
        assert_eq!(bench.holds(), is_there, "{what}");
        assert_eq!(bench.take(1, at(Duration::ZERO)), is_there, "{what}");
    }
}

/// A session that began before the node's key changed leaves nothing to the node of the new key, nor takes its.
#[test]
fn what_a_session_leaves_is_for_its_own_key() {
    let bench = bench();
    let now = at(Duration::ZERO);
    bench.keep(now);
    assert!(!bench.take(2, now), "another key than the node's");
    assert!(bench.take(1, now), "which has taken nothing");
    let of_old = bench.left(1, now);
    bench.admitted.set(bench.node.clone(), Some(secret(2).public()));
    bench.admitted.keep_again(&bench.node, &secret(1).public(), of_old, now);
    assert!(!bench.holds());
    bench.admitted.keep_again(&bench.node, &secret(2).public(), bench.left(2, now), now);
    bench.admitted.keep_again(&bench.node, &secret(1).public(), bench.left(1, now), now);
    assert!(bench.take(2, now));
    bench.admitted.set(bench.node.clone(), None);
    bench.admitted.keep_again(&bench.node, &secret(2).public(), bench.left(2, now), now);
    assert!(!bench.holds(), "an entry made for a node that is gone");
}

#[test]
fn what_a_session_leaves_has_a_maximum_age() {
    let second = Duration::from_secs(1);
    for (age, is_there) in [(Duration::ZERO, true), (OLD - second, true), (OLD, false), (10 * OLD, false)] {
        let bench = bench();
        bench.keep(at(Duration::ZERO));
        assert_eq!(bench.take(1, at(age)), is_there, "{age:?}");
    }
}

/// The age counts from the last session of agreements, however many have followed since.
#[test]
fn sessions_that_follow_each_other_make_nothing_younger() {
    let bench = bench();
    let (node, controller) = bench.session(1, at(Duration::ZERO), (None, None));
    let (node, controller) = bench.session(1, at(10 * HOUR), (Some(node), Some(controller)));
    for (after, is_old) in [(11 * HOUR, false), (12 * HOUR, true), (13 * HOUR, true)] {
        assert_eq!((node.is_old(at(after)), controller.is_old(at(after))), (is_old, is_old), "{after:?}");
    }
}

/// Nodes that stay away leave nothing here for longer than a look takes to come.
#[test]
fn what_is_too_old_is_dropped_when_others_come() {
    let bench = bench();
    bench.keep(at(Duration::ZERO));
    let other: NodeId = "db-1".parse().unwrap();
    bench.admitted.set(other.clone(), Some(secret(3).public()));
    for (after, is_there) in [(OLD - HOUR, true), (OLD + HOUR, false)] {
        bench.admitted.keep_again(&other, &secret(3).public(), bench.left(3, at(after)), at(after));
        assert_eq!(bench.holds(), is_there, "{after:?}");
    }
}
