//! Changes of the network, and of paths.

use std::time::Duration;

use crate::manager::Op;
use crate::phase::State;
use crate::tests::site::{Site, arrives, ring, simple};
use crate::tests::*;

#[test]
fn a_link_that_fails_moves_those_that_go_over_it_and_no_others() {
    let mut site = ring();
    site.submit("one", from_to("a:h1", "c:h1", Constraints::default())).expect("taken");
    let mut two = from_to("d:h1", "c:h2", Constraints::default());
    two.selector.push(Criterion::Field { field: Field::Ipv4Dst, value: 7, mask: None });
    site.submit("two", two).expect("taken");
    site.settle();
    let states = site.states.len();
    site.cable("a", "b", false);
    site.settle();
    assert_eq!((site.path("one"), site.path("two")), ("a d c".into(), "d c".into()));
    assert_eq!(site.states_of("one")[2..], [State::Reallocating, State::Installed]);
    assert_eq!(site.states.len(), states + 2);
    arrives(&site, "a:h1", "c:h1");
    let view =
        site.manager.view(site.now, site.manager.find("one").expect("it is there")).expect("it is there");
    assert_eq!(view.history.len(), 1);
    assert!(view.history[0].why.contains("a/br0 port b"), "{}", view.history[0].why);
    assert!(view.history[0].before[0].iter().any(|device| device.node.as_str() == "b"));
    // Without a path no rule is left. Once there is a path again, the intent is installed by itself.
    site.cable("d", "a", false);
    site.settle();
    assert_eq!(site.state("one"), Some(State::Failed));
    site.cable("a", "b", true);
    site.settle();
    assert_eq!(site.state("one"), Some(State::Failed), "a cable that came back is waited for");
    site.wait(Duration::from_secs(1));
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a b c".into()));
}

#[test]
fn a_flapping_cable_is_waited_for_ever_longer() {
    let mut site = ring();
    site.submit("one", simple()).expect("taken");
    site.settle();
    let moves =
        |site: &Site| site.states_of("one").iter().filter(|state| **state == State::Reallocating).count();
    for _ in 0..40 {
        site.cable("a", "b", false);
        site.wait(Duration::from_millis(300));
        site.cable("a", "b", true);
        site.wait(Duration::from_millis(300));
    }
    assert!(moves(&site) <= 2, "{}", moves(&site));
    assert_eq!(site.path("one"), "a d c b");
    site.wait(Duration::from_secs(40));
    // An installed intent stays on its path until something else happens.
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a d c b".into()));
    site.cable("c", "d", false);
    site.settle();
    assert_eq!(site.path("one"), "a b");
}

#[test]
fn a_move_while_moving_is_not_lost_and_no_packet_goes_round() {
    let mut site = Site::new("a-b b-z a-c=2 c-z=2 a-d=3 d-z=3");
    site.submit("one", from_to("a:h1", "z:h1", Constraints::default())).expect("taken");
    site.settle();
    site.cable("a", "b", false);
    site.take();
    site.step(0);
    site.cable("c", "z", false);
    site.take();
    while site.step(1) {
        assert_ne!(site.plane.walk(site.manager.topology(), &at("a:h1")), Fate::Round);
    }
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a d z".into()));
    assert_eq!(site.plane.0.len(), 3);
    arrives(&site, "a:h1", "z:h1");
}

#[test]
fn a_node_that_says_nothing_holds_no_move_up() {
    let mut site = Site::new("a-b b-z a-c=2 c-z=2 a-d=3 d-z=3");
    site.submit("one", from_to("a:h1", "z:h1", Constraints::default())).expect("taken");
    site.settle();
    site.silent.insert(at("c:h1").device);
    site.cable("a", "b", false);
    site.settle();
    assert_eq!(site.state("one"), Some(State::Reallocating));
    let no = site.manager.find("one").expect("it is there");
    assert_eq!(site.manager.waits_for(no).len(), 1);
    // New paths avoid a device once its node is known to be away.
    site.manager.set_away(&at("c:h1").device, true).expect("a device");
    site.cable("c", "z", false);
    site.settle();
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a d z".into()));
    // An intent is withdrawn only once every device has removed its rules.
    site.manager.withdraw("one").expect("taken");
    site.settle();
    assert_eq!(site.state("one"), Some(State::Withdrawing));
    site.silent.clear();
    site.settle();
    assert_eq!(site.state("one"), Some(State::Withdrawn));
    assert!(site.plane.0.is_empty());
}

#[test]
fn a_link_that_is_taken_back_is_left_and_who_names_it_is_told() {
    let mut site = ring();
    let ends = |from: &str, to: &str| (at(&format!("{from}:{to}")), at(&format!("{to}:{from}")));
    let named = |priority| Intent {
        kind: Kind::LinkCollection {
            links: vec![ends("a", "b")],
            from: vec![at("a:h2")],
            to: vec![at("b:h2")],
        },
        priority,
        ..simple()
    };
    // One intent uses the link, one names it, one is moving to it.
    site.submit("way", simple()).expect("taken");
    site.submit("named", named(100)).expect("taken");
    site.settle();
    let mut comes = from_to("d:h1", "b:h2", Constraints::default());
    comes.selector.push(Criterion::Field { field: Field::Ipv4Dst, value: 7, mask: None });
    comes.priority = 101;
    site.submit("comes", comes).expect("taken");
    site.take();
    assert!(site.step(0), "one of its rules is there");
    for (from, to) in [("a", "b"), ("b", "a")] {
        let (from, to) = ends(from, to);
        site.manager.retract(&from, &to);
    }
    site.settle();
    assert_eq!((site.state("way"), site.path("way")), (Some(State::Installed), "a d c b".into()));
    assert_eq!((site.state("comes"), site.path("comes")), (Some(State::Installed), "d c b".into()));
    let reason = "the link from a/br0 port b to b/br0 port a is down";
    assert_eq!((site.state("named"), site.reason("named").as_str()), (Some(State::Failed), reason));
    arrives(&site, "a:h1", "b:h1");
    let fate = site.plane.walk_to(site.manager.topology(), &at("d:h1"), 7);
    assert_eq!(fate, Fate::Out(["b:h2".to_owned()].into()));
    assert_eq!(site.plane.0.len(), 4 + 3, "{:?}", site.plane.0);
    // The link is declared again, now with a bandwidth. No link had one before.
    let wide = from_to("a:h2", "b:h1", Constraints { bandwidth: Some(1), ..Constraints::default() });
    site.submit("wide", wide).expect("taken");
    site.settle();
    let reason = "no path from a/br0 to b/br0 with the bandwidth asked for; there is one without";
    assert_eq!((site.state("wide"), site.reason("wide").as_str()), (Some(State::Failed), reason));
    for (from, to) in [("a", "b"), ("b", "a")] {
        let traits = LinkTraits { bandwidth: Some(1), ..LinkTraits::default() };
        let (from, to) = ends(from, to);
        site.manager.declare(&from, &to, traits).expect("a link");
    }
    site.manager.withdraw("named").expect("taken");
    site.settle();
    assert_eq!((site.state("wide"), site.path("wide")), (Some(State::Installed), "a b".into()));
    site.submit("named", named(102)).expect("taken");
    site.settle();
    assert_eq!(site.state("named"), Some(State::Installed));
}

#[test]
fn an_end_that_turns_out_to_lead_to_another_bridge_is_none() {
    let mut site = Site::new("a-b");
    site.submit("one", from_to("a:h1", "b:h2", Constraints::default())).expect("taken");
    let mut two = from_to("a:h2", "b:h1", Constraints::default());
    two.priority = 101;
    site.submit("two", two).expect("taken");
    site.settle();
    assert_eq!((site.state("one"), site.state("two")), (Some(State::Installed), Some(State::Installed)));
    // An operator declares a cable between the two hosts' ports.
    let traits = LinkTraits::default();
    site.manager.declare(&at("a:h1"), &at("b:h1"), traits).expect("a link");
    site.settle();
    for key in ["one", "two"] {
        assert_eq!(site.state(key), Some(State::Failed));
        assert!(site.reason(key).contains("ports without a link"), "{}", site.reason(key));
    }
    assert!(site.plane.0.is_empty());
    site.manager.retract(&at("a:h1"), &at("b:h1"));
    site.settle();
    assert_eq!((site.state("one"), site.state("two")), (Some(State::Installed), Some(State::Installed)));
}

#[test]
fn rules_left_on_a_device_count_when_a_path_changes_halfway() {
    let mut site = Site::new("a-b b-c c-d=2 d-e a-d e-b c-f");
    let lay = |shut: &[&str], to: &[&str]| {
        let link = |from: &str, to: &str| (at(&format!("{from}:{to}")), at(&format!("{to}:{from}")));
        let ends = shut.iter().map(|cable| cable.split_once('-').expect("two ends"));
        let obstacle_links = ends.flat_map(|(from, to)| [link(from, to), link(to, from)]).collect();
        Intent {
            kind: Kind::SinglePointToMultiPoint {
                from: at("a:h1"),
                to: to.iter().map(|to| at(&format!("{to}:h2"))).collect(),
            },
            ..from_to("a:h1", "b:h2", Constraints { obstacle_links, ..Constraints::default() })
        }
    };
    site.submit("one", lay(&["a-d", "e-b"], &["b", "c", "e"])).expect("taken");
    site.settle();
    assert_eq!(site.path("one"), "a b, a b c, a b c d e");
    // c must no longer send to d, and does not answer.
    site.silent.insert(at("c:h1").device);
    site.submit("one", lay(&["e-b", "c-d"], &["b", "c", "e"])).expect("taken");
    site.wait(Duration::from_secs(3));
    assert_eq!(site.path("one"), "a b, a b c, a d e");
    // Packets from d would go over e and b to c, and from there to d as before: in a circle.
    site.submit("one", lay(&["a-b", "c-d"], &["b", "c", "e", "f"])).expect("taken");
    site.take();
    let holds = |site: &Site| {
        assert_ne!(site.plane.walk(site.manager.topology(), &at("a:h1")), Fate::Round);
    };
    while site.step(1) {
        holds(&site);
    }
    site.silent.clear();
    while site.step(1) {
        holds(&site);
    }
    assert_eq!(site.state("one"), Some(State::Installed));
    assert_eq!(site.path("one"), "a d e b, a d e b c, a d e, a d e b c f");
}

#[test]
fn an_old_rule_that_takes_the_packets_is_awaited_over_a_restart() {
    let mut site = Site::new("a-b a-c");
    let to = |to: &str, priority| Intent { priority, ..from_to("a:h1", to, Constraints::default()) };
    site.submit("one", to("b:h1", 101)).expect("taken");
    site.settle();
    site.silent.insert(at("a:h1").device);
    site.submit("one", to("c:h1", 100)).expect("taken");
    site.settle();
    // The rule of lower priority is there already. The higher one must still be removed.
    let (_, no, device, ops) = site.waiting.front().cloned().expect("a write to a");
    let put: Vec<Op> = ops.into_iter().filter(|op| matches!(op, Op::Put(_))).collect();
    assert_eq!(put.len(), 1);
    site.apply(no, &device, &put);
    site.undoing.insert(device.clone());
    site.restart();
    arrives(&site, "a:h1", "b:h1");
    assert_ne!(site.state("one"), Some(State::Installed), "it goes to b yet");
    site.silent.clear();
    site.settle();
    assert_ne!(site.state("one"), Some(State::Installed), "{}", site.reason("one"));
    site.undoing.clear();
    site.wait(Duration::from_secs(10));
    assert_eq!(site.state("one"), Some(State::Installed));
    arrives(&site, "a:h1", "c:h1");
}

#[test]
fn a_path_in_removal_is_laid_again_before_packets_go_there() {
    let mut site = Site::new("a-b b-z a-c=2 c-z=2");
    let round = |node: &str| {
        let obstacles = [at(&format!("{node}:h1")).device].into();
        from_to("a:h1", "z:h1", Constraints { obstacles, ..Constraints::default() })
    };
    site.submit("one", round("c")).expect("taken");
    site.settle();
    // b and z must still remove their rules. The intent is installed all the same.
    site.silent = ["b:h1", "z:h1"].map(|point| at(point).device).into();
    site.submit("one", round("b")).expect("taken");
    site.settle();
    site.silent.remove(&at("z:h1").device);
    site.step(0);
    site.silent.insert(at("z:h1").device);
    site.settle();
    assert_eq!((site.state("one"), site.path("one").as_str()), (Some(State::Installed), "a c z"));
    site.submit("one", round("c")).expect("taken");
    site.settle();
    arrives(&site, "a:h1", "z:h1");
    for node in ["z:h1", "b:h1"] {
        site.silent.remove(&at(node).device);
        while site.step(0) {
            arrives(&site, "a:h1", "z:h1");
        }
    }
    assert_eq!((site.state("one"), site.path("one").as_str()), (Some(State::Installed), "a b z"));
}
