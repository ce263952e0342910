use super::*;
use crate::compile::{CompileError, Compiled, Compiler};
use crate::intent::{BadIntent, LinkTypes, Threshold};
use crate::path_search::Trees;
use crate::reservations::{Holder, Ledger, Share};

const GROUP: u32 = 77;

fn compile_beside(topology: &Topology, ledger: &Ledger, intent: &Intent) -> Result<Compiled, CompileError> {
    let mut trees = Trees::default();
    let mut compiler = Compiler { topology, ledger, trees: &mut trees };
    compiler.compile(intent, "key", &Holder::Intent("key".into()), GROUP)
}

fn compile(topology: &Topology, intent: &Intent) -> Result<Compiled, CompileError> {
    compile_beside(topology, &Ledger::default(), intent)
}

fn out(points: &[&str]) -> Fate {
    Fate::Out(points.iter().map(|point| (*point).to_owned()).collect())
}

/// The first path, and the end of a packet from `from`.
fn way(topology: &Topology, intent: &Intent) -> Result<(String, Fate), String> {
    let made = compile(topology, intent).map_err(|error| error.to_string())?;
    let fate = Plane(made.entries.clone()).walk(topology, &intent.kind.ingress()[0]);
    Ok((made.paths.first().map(|path| shown(topology, path)).unwrap_or_default(), fate))
}

#[test]
fn eight_hops_forward_and_back() {
    let topology = network("s1-s2 s2-s3 s3-s4 s4-s5 s5-s6 s6-s7 s7-s8");
    let there = from_to("s1:h1", "s8:h1", Constraints::default());
    let made = compile(&topology, &there).expect("a path");
    assert_eq!((made.links.len(), made.entries.len(), made.points.len()), (7, 8, 2));
    assert_eq!(way(&topology, &there), Ok(("s1 s2 s3 s4 s5 s6 s7 s8".into(), out(&["s8:h1"]))));
    let back = from_to("s8:h1", "s1:h1", Constraints::default());
    assert_eq!(way(&topology, &back), Ok(("s8 s7 s6 s5 s4 s3 s2 s1".into(), out(&["s1:h1"]))));
}

#[test]
fn on_one_device_there_are_no_links() {
    let topology = network("s1-s2");
    let intent = from_to("s1:h1", "s1:h2", Constraints::default());
    let made = compile(&topology, &intent).expect("a path");
    assert_eq!((made.links.len(), made.entries.len()), (0, 1));
    assert_eq!(way(&topology, &intent), Ok((String::new(), out(&["s1:h2"]))));
    for constraints in [
        Constraints { protection: true, ..Constraints::default() },
        Constraints { vlan: true, ..Constraints::default() },
        Constraints { bandwidth: Some(1), ..Constraints::default() },
    ] {
        let intent = from_to("s1:h1", "s1:h2", constraints);
        assert_eq!(way(&topology, &intent), Ok((String::new(), out(&["s1:h2"]))));
    }
}

/// A square with a diagonal. The upper path is the cheaper one.
fn square() -> Topology {
    let mut topology = network("a-b b-d a-c=2 c-d=2 b-c");
    for (from, to, latency, bandwidth, kind) in [
        ("a", "b", 500, 100, "copper"),
        ("b", "d", 500, 100, "copper"),
        ("a", "c", 100, 1000, "fibre"),
        ("c", "d", 100, 1000, "fibre"),
        ("b", "c", 100, 1000, "fibre"),
        ("c", "b", 100, 1000, "fibre"),
    ] {
        traits(&mut topology, from, to, |traits| {
            traits.latency = Some(latency);
            traits.bandwidth = Some(bandwidth);
            traits.annotations.insert("type".into(), kind.into());
            traits.annotations.insert("metric".into(), latency.to_string().into());
        });
    }
    topology
}

#[test]
fn a_path_keeps_to_its_constraints() {
    let device = |name: &str| at(&format!("{name}:h1")).device;
    let types = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
    let none = Constraints::default;
    let at_most = |name: &str, most| [(name.into(), Threshold::new(most).unwrap())].into();
    let cases: Vec<(Constraints, Result<&str, &str>)> = vec![
        (none(), Ok("a b d")),
        (Constraints { bandwidth: Some(100), ..none() }, Ok("a b d")),
        (Constraints { bandwidth: Some(101), ..none() }, Ok("a c d")),
        (
            Constraints { bandwidth: Some(1001), ..none() },
            Err("no path from a/br0 to d/br0 with the bandwidth asked for; there is one without"),
        ),
        (Constraints { latency: Some(1000), ..none() }, Ok("a b d")),
        (Constraints { latency: Some(999), ..none() }, Ok("a c d")),
        (
            Constraints { latency: Some(199), ..none() },
            Err("the fastest path from a/br0 to d/br0 takes 200 ns, and 199 ns are allowed"),
        ),
        (Constraints { waypoints: vec![device("c")], ..none() }, Ok("a c d")),
        (Constraints { waypoints: vec![device("c"), device("b")], ..none() }, Ok("a c b d")),
        (Constraints { waypoints: vec![device("b"), device("c")], ..none() }, Ok("a b c d")),
        (Constraints { obstacles: [device("b")].into(), ..none() }, Ok("a c d")),
        (Constraints { obstacle_links: [(at("a:b"), at("b:a"))].into(), ..none() }, Ok("a c d")),
        (
            Constraints { obstacles: [device("b"), device("c")].into(), ..none() },
            Err("no path from a/br0 to d/br0 with the obstacles asked for; there is one without"),
        ),
        (Constraints { link_types: Some(LinkTypes::Only(types(&["fibre"]))), ..none() }, Ok("a c d")),
        (Constraints { link_types: Some(LinkTypes::Without(types(&["copper"]))), ..none() }, Ok("a c d")),
        (
            Constraints { link_types: Some(LinkTypes::Only(types(&["radio"]))), ..none() },
            Err("no path from a/br0 to d/br0 with the link type asked for; there is one without"),
        ),
        (Constraints { annotations: at_most("metric", 500.0), ..none() }, Ok("a b d")),
        (Constraints { annotations: at_most("metric", 499.5), ..none() }, Ok("a c d")),
        (
            Constraints { annotations: at_most("metric", 99.0), ..none() },
            Err("no path from a/br0 to d/br0 with the annotations asked for; there is one without"),
        ),
        // Neither what is no number nor what is not there is within a bound.
        (
            Constraints { annotations: at_most("type", 1e9), ..none() },
            Err("no path from a/br0 to d/br0 with the annotations asked for; there is one without"),
        ),
        (
            Constraints { annotations: at_most("hops", 1e9), ..none() },
            Err("no path from a/br0 to d/br0 with the annotations asked for; there is one without"),
        ),
        (
            Constraints { waypoints: vec!["x/br0".parse().expect("a device")], ..none() },
            Err("there is no device x/br0"),
        ),
    ];
    let topology = square();
    for (constraints, wanted) in cases {
        let shown = format!("{constraints:?}");
        let found = way(&topology, &from_to("a:h1", "d:h1", constraints));
        match wanted {
            Ok(path) => assert_eq!(found, Ok((path.to_owned(), out(&["d:h1"]))), "{shown}"),
            Err(error) => assert_eq!(found, Err(error.to_owned()), "{shown}"),
        }
    }
}

#[test]
fn what_others_have_reserved_is_not_there() {
    let topology = square();
    let links = [link(&topology, "a", "b"), link(&topology, "b", "d")];
    let mut ledger = Ledger::default();
    let share = Share { key: "other".into(), number: 1 };
    ledger.take(&topology, share.clone(), Holder::Intent("other".into()), &links, Some(60), None);
    let intent = from_to("a:h1", "d:h1", Constraints { bandwidth: Some(50), ..Constraints::default() });
    let made = compile_beside(&topology, &ledger, &intent).expect("a path");
    assert_eq!(shown(&topology, &made.paths[0]), "a c d");
    ledger.give_back(&share);
    let made = compile_beside(&topology, &ledger, &intent).expect("a path");
    assert_eq!(shown(&topology, &made.paths[0]), "a b d");
    // The intent can use the bandwidth that it already has.
    let share = Share { key: "key".into(), number: 1 };
    ledger.take(&topology, share, Holder::Intent("key".into()), &links, Some(100), None);
    let made = compile_beside(&topology, &ledger, &intent).expect("a path");
    assert_eq!(shown(&topology, &made.paths[0]), "a b d");
}

#[test]
fn a_label_is_put_on_at_the_first_device_and_off_at_the_last() {
    let topology = network("a-b b-c");
    let intent = from_to("a:h1", "c:h1", Constraints { vlan: true, ..Constraints::default() });
    let made = compile(&topology, &intent).expect("a path");
    assert_eq!(made.label, Some(1));
    assert_eq!(Plane(made.entries).walk(&topology, &at("a:h1")), out(&["c:h1"]));
}

#[test]
fn a_protected_path_has_a_second_one_that_shares_nothing() {
    let mut topology = network("a-b b-d a-c=2 c-d=2");
    let intent = from_to("a:h1", "d:h1", Constraints { protection: true, ..Constraints::default() });
    let made = compile(&topology, &intent).expect("a path");
    let paths: Vec<_> = made.paths.iter().map(|path| shown(&topology, path)).collect();
    assert_eq!(paths, ["a b d", "a c d"]);
    let plane = Plane(made.entries);
    assert_eq!(plane.walk(&topology, &at("a:h1")), out(&["d:h1"]));
    topology.set_port(&at("a:b"), false).expect("a port");
    assert_eq!(plane.walk(&topology, &at("a:h1")), out(&["d:h1"]), "without anybody's help");
    let made = compile(&topology, &intent).expect("a path");
    assert_eq!(made.paths.len(), 1, "one is better than none");
}

fn many(kind: Kind, constraints: Constraints) -> Intent {
    Intent { kind, ..from_to("a:h1", "b:h1", constraints) }
}

#[test]
fn from_one_to_many_and_from_many_to_one() {
    let topology = network("a-b b-c b-d d-e a-e=9");
    let ends = vec![at("c:h1"), at("e:h1"), at("e:h2"), at("a:h2")];
    let spread =
        many(Kind::SinglePointToMultiPoint { from: at("a:h1"), to: ends.clone() }, Constraints::default());
    let made = compile(&topology, &spread).expect("paths");
    let plane = Plane(made.entries);
    assert_eq!(plane.walk(&topology, &at("a:h1")), out(&["a:h2", "c:h1", "e:h1", "e:h2"]));
    assert_eq!(made.links.len(), 4, "links are shared");
    let gather =
        many(Kind::MultiPointToSinglePoint { from: ends.clone(), to: at("a:h1") }, Constraints::default());
    let made = compile(&topology, &gather).expect("paths");
    let plane = Plane(made.entries);
    for point in &ends {
        assert_eq!(plane.walk(&topology, point), out(&["a:h1"]), "{point}");
    }
}

#[test]
fn an_unreachable_point_is_an_error_or_left_out_if_allowed() {
    let mut topology = network("a-b c-d");
    topology.set_port(&at("b:h2"), false).expect("a port");
    let kind = |to: &[&str]| Kind::SinglePointToMultiPoint {
        from: at("a:h1"),
        to: to.iter().map(|point| at(point)).collect(),
    };
    let partial = Constraints { partial_failure: true, ..Constraints::default() };
    let all = many(kind(&["b:h1", "d:h1", "b:h2"]), Constraints::default());
    assert_eq!(compile(&topology, &all).unwrap_err().to_string(), "no path from a/br0 to d/br0");
    let some = many(kind(&["b:h1", "d:h1", "b:h2"]), partial.clone());
    let made = compile(&topology, &some).expect("paths");
    assert_eq!(made.missing, [at("d:h1"), at("b:h2")]);
    assert_eq!(Plane(made.entries).walk(&topology, &at("a:h1")), out(&["b:h1"]));
    let none = many(kind(&["d:h1"]), partial);
    assert_eq!(compile(&topology, &none).unwrap_err().to_string(), "no path from a/br0 to d/br0");
}

#[test]
fn a_collection_of_links_is_used_as_it_is() {
    let topology = network("a-b b-c c-d a-d");
    let pair = |from: &str, to: &str| (at(&format!("{from}:{to}")), at(&format!("{to}:{from}")));
    let collection = |links: &[(&str, &str)]| {
        many(
            Kind::LinkCollection {
                links: links.iter().map(|(from, to)| pair(from, to)).collect(),
                from: vec![at("a:h1"), at("b:h1")],
                to: vec![at("c:h1"), at("d:h2")],
            },
            Constraints::default(),
        )
    };
    let made = compile(&topology, &collection(&[("a", "b"), ("b", "c"), ("c", "d")])).expect("rules");
    let plane = Plane(made.entries);
    for point in ["a:h1", "b:h1"] {
        assert_eq!(plane.walk(&topology, &at(point)), out(&["c:h1", "d:h2"]));
    }
    for (links, wanted) in [
        (vec![("a", "b"), ("c", "d")], "no path from b/br0 to c/br0 over the links given"),
        (vec![("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")], "the links lead round in a circle by a/br0"),
        (vec![("a", "c")], "the link from a/br0 port c to c/br0 port a is not known"),
    ] {
        assert_eq!(compile(&topology, &collection(&links)).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn what_cannot_be_an_end_is_refused_by_name() {
    let mut topology = network("a-b b-c");
    topology.set_port(&at("c:h2"), false).expect("a port");
    for (from, to, wanted) in [
        ("x:h1", "b:h1", "there is no device x/br0"),
        ("a:h9", "b:h1", "a/br0 port h9: the device has no such port"),
        ("a:H1", "b:h1", "a/br0 port H1: the device has no such port"),
        ("a:h1", "c:h2", "c/br0 port h2 is down"),
        (
            "a:b",
            "c:h1",
            "a/br0 port b is connected with b/br0 port a: an intent begins and ends at ports without a link",
        ),
        ("a:h1", "a:h1", "a/br0 port h1 is where packets come in and where they go out"),
    ] {
        let found = compile(&topology, &from_to(from, to, Constraints::default()));
        assert_eq!(found.unwrap_err().to_string(), wanted, "{from} {to}");
    }
    // The same holds while the link is down: hosts are at other ports.
    topology.set_port(&at("b:a"), false).expect("a port");
    let found = compile(&topology, &from_to("a:b", "a:h1", Constraints::default()));
    assert!(matches!(found, Err(CompileError::Inner { .. })), "{found:?}");
}

#[test]
fn constraints_that_contradict_each_other_are_refused() {
    let device = |name: &str| at(&format!("{name}:h1")).device;
    let none = Constraints::default;
    for (constraints, wanted) in [
        (
            Constraints { waypoints: vec![device("b")], obstacles: [device("b")].into(), ..none() },
            BadIntent::WaypointObstacle(device("b")),
        ),
        (
            Constraints { waypoints: vec![device("b"), device("b")], ..none() },
            BadIntent::WaypointTwice(device("b")),
        ),
        (Constraints { obstacles: [device("c")].into(), ..none() }, BadIntent::EndObstacle(device("c"))),
        (Constraints { bandwidth: Some(0), ..none() }, BadIntent::Bandwidth),
        (Constraints { latency: Some(0), ..none() }, BadIntent::Latency),
        (
            Constraints { protection: true, vlan: true, ..none() },
            BadIntent::Together("protection", "encapsulation"),
        ),
        (
            Constraints { partial_failure: true, ..none() },
            BadIntent::NotOfKind { constraint: "partial_failure", kind: "point_to_point" },
        ),
    ] {
        let found = compile(&network("a-b b-c"), &from_to("a:h1", "c:h1", constraints));
        assert_eq!(found, Err(CompileError::Bad(wanted)));
    }
}

#[test]
fn what_takes_any_frame_keeps_lldp_back() {
    let topology = network("a-b b-c");
    let (ledger, mut trees) = (Ledger::default(), Trees::default());
    let field = |field, value| Criterion::Field { field, value, mask: None };
    let mut keepers = |selector: Vec<Criterion>, vlan: bool| {
        let intent =
            Intent { selector, ..from_to("a:h1", "c:h1", Constraints { vlan, ..Constraints::default() }) };
        let mut compiler = Compiler { topology: &topology, ledger: &ledger, trees: &mut trees };
        let made = compiler.compile(&intent, "key", &Holder::Intent("key".into()), 1).expect("a path");
        let rules = made.entries.iter().filter_map(|(_, entry)| match entry {
            Entry::Rule(rule) => Some(rule),
            _ => None,
        });
        let (above, own): (Vec<_>, Vec<_>) = rules.partition(|rule| rule.treatment.is_empty());
        assert_eq!(own.len(), 3);
        for rule in &above {
            assert_eq!(rule.priority, 101);
            assert!(rule.selector.contains(&field(Field::EthType, 0x88cc)), "{rule:?}");
            assert!(rule.selector.iter().any(|it| matches!(it, Criterion::InPort(_))), "{rule:?}");
            assert!(rule.selector.is_sorted());
        }
        above.len()
    };
    assert_eq!(keepers(vec![], false), 3);
    assert_eq!(keepers(vec![field(Field::EthType, 0x88cc)], false), 3);
    assert_eq!(keepers(vec![field(Field::EthSrc, 5)], false), 3);
    assert_eq!(keepers(vec![field(Field::EthType, 0x800)], false), 0);
    assert_eq!(keepers(vec![field(Field::EthDst, 5)], false), 0);
    assert_eq!(keepers(vec![field(Field::VlanVid, 0x1005)], false), 0);
    // Packets have a tag between the ends, and LLDP frames have none.
    assert_eq!(keepers(vec![], true), 1);
    let highest =
        Intent { selector: vec![], priority: 65535, ..from_to("a:h1", "c:h1", Constraints::default()) };
    assert_eq!(highest.check(), Err(BadIntent::Highest));
}

#[test]
fn more_ports_than_a_rule_holds_are_refused() {
    let mut topology = network("a-b");
    let names: Vec<String> = (0..65).map(|number| format!("b:x{number}")).collect();
    names.iter().for_each(|name| up(&mut topology, &at(name)));
    let to = |count: usize| {
        let to = names[..count].iter().map(|name| at(name)).collect();
        Intent {
            kind: Kind::SinglePointToMultiPoint { from: at("a:h1"), to },
            ..from_to("a:h1", "b:h1", Constraints::default())
        }
    };
    assert!(compile(&topology, &to(64)).is_ok());
    let refused = compile(&topology, &to(65)).expect_err("too many");
    assert!(refused.to_string().starts_with("on b/br0 a rule would send packets out"), "{refused}");
}
