//! Resources of a link: bandwidth and labels.

use std::time::Duration;

use crate::phase::State;
use crate::tests::site::Site;
use crate::tests::*;

#[test]
fn bandwidth_is_held_once_and_what_one_gives_back_another_takes() {
    let mut site = Site::new("a-b");
    for (from, to) in [("a", "b"), ("b", "a")] {
        let (from, to) = (at(&format!("{from}:{to}")), at(&format!("{to}:{from}")));
        let traits = LinkTraits { bandwidth: Some(100), ..LinkTraits::default() };
        site.manager.declare(&from, &to, traits).expect("a link");
    }
    let wide = |from: &str, to: &str| {
        from_to(from, to, Constraints { bandwidth: Some(60), ..Constraints::default() })
    };
    for _ in 0..3 {
        site.submit("one", wide("a:h1", "b:h1")).expect("taken");
        site.settle();
    }
    let hop = link(site.manager.topology(), "a", "b");
    assert_eq!(site.manager.ledger().taken(hop), 60);
    site.submit("two", wide("a:h2", "b:h2")).expect("taken");
    site.settle();
    assert_eq!(site.state("two"), Some(State::Failed));
    assert!(site.reason("two").contains("bandwidth"), "{}", site.reason("two"));
    site.manager.withdraw("one").expect("taken");
    site.settle();
    assert_eq!((site.state("one"), site.state("two")), (Some(State::Withdrawn), Some(State::Installed)));
    assert_eq!(site.manager.ledger().taken(hop), 60);
    site.manager.withdraw("two").expect("taken");
    site.settle();
    assert!(site.manager.ledger().is_empty());
}

/// The link was down when more bandwidth was requested, and a bridge has not removed the rules yet.
/// The intent keeps the reservation that it had.
#[test]
fn bandwidth_that_was_asked_for_before_a_start_is_held() {
    for restarts in [false, true] {
        let mut site = Site::new("a-b");
        for (from, to) in [("a", "b"), ("b", "a")] {
            let (from, to) = (at(&format!("{from}:{to}")), at(&format!("{to}:{from}")));
            let traits = LinkTraits { bandwidth: Some(100), ..LinkTraits::default() };
            site.manager.declare(&from, &to, traits).expect("a link");
        }
        let wants = |bandwidth| from_to("a:h1", "b:h1", Constraints { bandwidth, ..Constraints::default() });
        site.submit("one", wants(None)).expect("taken");
        site.settle();
        site.silent = [at("a:h1").device, at("b:h1").device].into();
        site.cable("a", "b", false);
        site.submit("one", wants(Some(60))).expect("taken");
        site.settle();
        assert_eq!(site.state("one"), Some(State::Withdrawing));
        if restarts {
            site.restart();
        }
        site.cable("a", "b", true);
        site.silent.clear();
        site.wait(Duration::from_secs(10));
        assert_eq!(site.state("one"), Some(State::Installed), "{restarts}");
        let hop = link(site.manager.topology(), "a", "b");
        assert_eq!(site.manager.ledger().taken(hop), 60, "{restarts}");
    }
}

#[test]
fn bandwidth_of_a_left_path_is_freed_even_if_a_bridge_is_away() {
    let mut site = Site::new("a-b b-z a-c=2 c-z=2");
    for (from, to) in [("a", "b"), ("b", "z"), ("a", "c"), ("c", "z")] {
        let cost = traits_of(&site, from, to).cost;
        let (from, to) = (at(&format!("{from}:{to}")), at(&format!("{to}:{from}")));
        let traits = LinkTraits { cost, bandwidth: Some(100), ..LinkTraits::default() };
        site.manager.declare(&from, &to, traits).expect("a link");
    }
    let wide = |from: &str, to: &str| {
        from_to(from, to, Constraints { bandwidth: Some(60), ..Constraints::default() })
    };
    site.submit("one", wide("a:h1", "z:h1")).expect("taken");
    site.settle();
    assert_eq!(site.path("one"), "a b z");
    // b no longer answers, and its rule stays there for now.
    site.silent.insert(at("b:h1").device);
    site.cable("a", "b", false);
    site.settle();
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a c z".into()));
    let no = site.manager.find("one").expect("it is there");
    assert_eq!(site.manager.waits_for(no).len(), 1);
    let hop = link(site.manager.topology(), "b", "z");
    assert_eq!(site.manager.ledger().taken(hop), 0);
    site.silent.clear();
    site.manager.withdraw("one").expect("taken");
    site.settle();
    assert!(site.manager.ledger().is_empty() && site.plane.0.is_empty());
}

#[test]
fn bandwidth_of_a_path_abandoned_halfway_is_freed_too() {
    let mut site = Site::new("a-b b-z a-e=2 e-c=2 c-z=2 a-d=5 d-z=5");
    for (from, to) in [("a", "b"), ("b", "z"), ("a", "e"), ("e", "c"), ("c", "z"), ("a", "d"), ("d", "z")] {
        let cost = traits_of(&site, from, to).cost;
        let (from, to) = (at(&format!("{from}:{to}")), at(&format!("{to}:{from}")));
        let traits = LinkTraits { cost, bandwidth: Some(100), ..LinkTraits::default() };
        site.manager.declare(&from, &to, traits).expect("a link");
    }
    let wide = Constraints { bandwidth: Some(60), ..Constraints::default() };
    site.submit("one", from_to("a:h1", "z:h1", wide)).expect("taken");
    site.settle();
    // c is on the new path, and goes away before it answers.
    site.silent.insert(at("c:h1").device);
    site.cable("a", "b", false);
    site.settle();
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Reallocating), "a e c z".into()));
    site.manager.set_away(&at("c:h1").device, true).expect("a device");
    site.cable("c", "z", false);
    site.wait(Duration::from_secs(3));
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a d z".into()));
    for (from, to, taken) in [("a", "b", 0), ("a", "e", 0), ("e", "c", 0), ("a", "d", 60)] {
        let hop = link(site.manager.topology(), from, to);
        assert_eq!(site.manager.ledger().taken(hop), taken, "{from} {to}");
    }
    site.silent.clear();
    site.manager.withdraw("one").expect("taken");
    site.settle();
    assert!(site.manager.ledger().is_empty() && site.plane.0.is_empty());
}

fn traits_of(site: &Site, from: &str, to: &str) -> LinkTraits {
    let topology = site.manager.topology();
    topology.traits(link(topology, from, to))
}

#[test]
fn a_label_is_its_intents_as_long_as_a_rule_has_it() {
    for (restarts, forgets) in [(false, false), (true, false), (true, true)] {
        let mut site = Site::new("a-b b-c a-d=2 d-c=2");
        site.forgets = forgets;
        let vlan = |to: &str, address, priority| {
            let mut intent = from_to("a:h1", to, Constraints { vlan: true, ..Constraints::default() });
            intent.selector.push(Criterion::Field { field: Field::Ipv4Dst, value: address, mask: None });
            Intent { priority, ..intent }
        };
        site.submit("one", vlan("c:h1", 1, 200)).expect("taken");
        site.settle();
        // The intent moves, and `b` does not answer, or does not remove its rule.
        site.silent = [at("b:h1").device].into();
        site.cable("a", "b", false);
        site.settle();
        assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a d c".to_owned()));
        if restarts {
            site.restart();
        } else {
            let (token, ..) = site.waiting.pop_front().expect("the old way's rule goes");
            site.written(token, Err("it is busy".into()));
        }
        site.cable("a", "b", true);
        for (from, to) in [("a:b", "b:a"), ("b:a", "a:b")] {
            site.manager.declare(&at(from), &at(to), LinkTraits::default()).expect("a link");
        }
        site.now = site.now + Duration::from_millis(600);
        site.take();
        site.submit("two", vlan("b:h2", 2, 100)).expect("taken");
        site.take();
        assert_eq!((label(&site, "one"), label(&site, "two")), (Some(1), Some(2)), "{restarts} {forgets}");
        site.silent.clear();
        site.wait(Duration::from_secs(10));
        let fate = site.plane.walk_to(site.manager.topology(), &at("a:h1"), 2);
        assert_eq!(fate, Fate::Out(["b:h2".to_owned()].into()));
        for key in ["one", "two"] {
            site.manager.withdraw(key).expect("taken");
        }
        site.settle();
        assert!(site.manager.ledger().is_empty() && site.plane.0.is_empty());
    }
}

/// The VLAN id that packets of an intent have between devices.
fn label(site: &Site, key: &str) -> Option<u16> {
    let no = site.manager.find(key).expect("it is there");
    site.manager.record(no).expect("it is there").label
}

fn encapsulated(from: &str, to: &str) -> Intent {
    from_to(from, to, Constraints { vlan: true, ..Constraints::default() })
}

#[test]
fn a_vlan_that_an_intent_itself_asks_for_is_nobodys_label_there() {
    for restarts in [false, true] {
        let mut site = Site::new("a-b c-d");
        let mut tagged = from_to("a:h1", "b:h1", Constraints::default());
        tagged.selector.push(Criterion::Field { field: Field::VlanVid, value: 0x1001, mask: None });
        site.submit("tagged", tagged).expect("taken");
        site.settle();
        if restarts {
            site.restart();
        }
        site.submit("here", encapsulated("a:h2", "b:h2")).expect("taken");
        site.submit("there", encapsulated("c:h1", "d:h1")).expect("taken");
        site.settle();
        for (key, vlan) in [("tagged", 1), ("here", 2), ("there", 1)] {
            assert_eq!((site.state(key), label(&site, key)), (Some(State::Installed), Some(vlan)), "{key}");
        }
        for key in ["tagged", "here", "there"] {
            site.manager.withdraw(key).expect("taken");
        }
        site.settle();
        assert!(site.manager.ledger().is_empty());
    }
}

#[test]
fn a_label_is_not_free_as_long_as_a_rule_puts_it_on() {
    for restarts in [false, true] {
        let mut site = Site::new("a-b b-c d-b");
        site.submit("one", encapsulated("a:h1", "c:h1")).expect("taken");
        site.settle();
        // The intent now starts at another device, and a does not remove its rule.
        site.undoing.insert(at("a:h1").device);
        site.submit("one", encapsulated("d:h1", "c:h1")).expect("taken");
        site.settle();
        assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "d b c".to_owned()));
        if restarts {
            site.restart();
        }
        site.submit("two", encapsulated("a:h2", "b:h2")).expect("taken");
        site.take();
        assert_eq!((label(&site, "one"), label(&site, "two")), (Some(1), Some(2)), "{restarts}");
        site.undoing.clear();
        site.wait(Duration::from_secs(10));
        assert_eq!(site.state("two"), Some(State::Installed));
        for key in ["one", "two"] {
            site.manager.withdraw(key).expect("taken");
        }
        site.settle();
        assert!(site.manager.ledger().is_empty() && site.plane.0.is_empty());
    }
}
