//! No server is taken for another: names that could mean two servers.

use std::collections::BTreeMap;

use muster_shared::NodeId;

use super::bed::{Bed, parse};
use crate::{Answer, NewToken, Request, Source, SourceText};

fn name(text: &str) -> NodeId {
    text.parse().unwrap()
}

/// Whether `joins` may join beside `there` with a token for any name, and get a token for its own
/// name; and the text of the refusal.
#[test]
fn a_short_name_and_its_full_name_are_not_two_nodes() {
    for (there, joins, refused) in [
        ("web-7.example.org", "web-7", Some("is short for web-7.example.org")),
        ("web-7.example.org", "web-7.example", Some("is short for web-7.example.org")),
        ("web-7", "web-7.example.org", Some("a node 'web-7' has joined")),
        ("web-7.example", "web-7.example.org", Some("a node 'web-7.example' has joined")),
        ("web-7.example.org", "web-7.example.net", None),
        ("web-7.example.org", "web-70", None),
        ("web-7.example.org", "web-7-a", None),
        ("web-7.example.org", "web", None),
        ("web-7.example.org", "web-7.example.org", None),
    ] {
        let mut bed = Bed::new(0);
        bed.join(&name(there));
        bed.restart();
        let token = NewToken {
            id: [9; 8],
            secret_hash: [9; 32],
            expires: 10,
            uses: 1,
            name: Some(joins.into()),
            labels: BTreeMap::new(),
            rate: None,
        };
        let made = bed.ask(Request::NewToken { token, wall: 0 });
        let joined = if there == joins { Ok(()) } else { bed.try_join(&name(joins), None).map(drop) };
        for outcome in [made.map(drop), joined] {
            let why = outcome.err().map(|refusal| refusal.to_string());
            match (refused, why) {
                (None, None) => {}
                (Some(words), Some(why)) => {
                    assert!(why.contains(words) && why.contains("muster node remove"), "{joins}: {why}");
                }
                (_, why) => panic!("{joins} beside {there}: {why:?}"),
            }
        }
        assert_eq!(bed.tables.nodes.contains_key(&name(joins)), refused.is_none() || there == joins);
        // The removal by the operator frees the name.
        if refused.is_some() {
            bed.remove(&name(there));
            bed.try_join(&name(joins), None).unwrap();
        }
    }
}

/// A stack with a deployed server of this name, and a dummy on it.
fn on_server(server: &str, value: u32) -> Source {
    let template = format!(
        "heat_template_version: 2018-08-31\nresources:\n  s: {{type: OS::Heat::DeployedServer, properties: {{name: {server}}}}}\n  \
         d: {{type: Muster::Dummy, properties: {{node: {{get_resource: s}}, values: {{v: {value}}}}}}}\n"
    );
    parse(SourceText { name: "t".into(), template, ..SourceText::default() })
}

fn arrives(bed: &mut Bed, node: &str) {
    bed.rejoin(&name(node));
    bed.connect(&name(node));
}

/// The node to which server web-7 was bound, and a node that comes and goes afterwards: the things
/// stay on the first node.
#[test]
fn a_server_stays_the_node_that_its_name_first_meant() {
    for (bound, other, waits) in [
        ("web-7.example.org", "web-7.attacker.net", false),
        ("web-7.example.org", "web-7.attacker.net", true),
        ("web-7", "web-7.attacker.net", false),
        ("web-7", "web-7.attacker.net", true),
        ("web-7.example.org", "web-7", false),
    ] {
        for restarts in [false, true] {
            let mut bed = Bed::new(0);
            let restart = |bed: &mut Bed| {
                if restarts {
                    bed.restart();
                }
            };
            if !waits {
                arrives(&mut bed, bound);
            }
            bed.create(on_server("web-7", 1)).unwrap();
            bed.idle();
            restart(&mut bed);
            arrives(&mut bed, bound);
            bed.idle();
            assert_eq!((&*bed.status(), &*bed.resource("d").node), ("CREATE_COMPLETE", bound));
            // The same holds when that node is gone, another one matches, and the resource is made again.
            bed.unhealthy("s").unwrap();
            bed.remove(&name(bound));
            bed.idle();
            restart(&mut bed);
            arrives(&mut bed, other);
            bed.idle();
            let Answer::Stack { warnings, .. } = bed.update(on_server("web-7", 2)).unwrap() else {
                panic!("a stack")
            };
            assert!(warnings.iter().any(|told| told.contains(bound)), "{warnings:?}");
            bed.idle();
            assert_eq!((&*bed.status(), &*bed.resource("d").node), ("UPDATE_IN_PROGRESS", bound));
            assert!(bed.hosts[&name(other)].things.is_empty(), "{other} was sent what is for {bound}");
            // A new name in the template binds the server again.
            if other == "web-7" {
                continue;
            }
            bed.update(on_server(other, 3)).unwrap();
            bed.idle();
            assert_eq!((&*bed.status(), &*bed.resource("d").node), ("UPDATE_COMPLETE", other));
        }
    }
}

/// A database of an older version has a server's name, and not whether its node was found.
#[test]
fn servers_of_before_are_bound_when_the_controller_starts() {
    use muster_template::{Desired, VirtualResource};

    use crate::record::PackedSpec;

    let mut bed = Bed::new(0);
    arrives(&mut bed, "web-7.example.org");
    bed.create(on_server("web-7", 1)).unwrap();
    bed.idle();
    let server = bed.tables.rows.values_mut().find(|row| &*row.name == "s").unwrap();
    let of_before = PackedSpec::new(&Desired::Virtual(VirtualResource::Server(name("web-7.example.org"))));
    let bound = server.spec.replace(of_before);
    bed.restart();
    let server = bed.tables.rows.values().find(|row| &*row.name == "s").unwrap();
    assert_eq!(server.spec, bound);
}

#[test]
fn a_pattern_stops_at_dots() {
    let mut bed = Bed::new(0);
    for (pattern, joins, allowed) in [
        ("web-*", "web-1", true),
        ("web-*", "web-2.attacker.net", false),
        ("web-*.example.org", "web-2.example.org", true),
        ("web-*.example.org", "web-3.example.org.attacker.net", false),
    ] {
        let joined = bed.try_join(&name(joins), Some(pattern));
        assert_eq!(joined.is_ok(), allowed, "{pattern} {joins}");
        if let Err(refusal) = joined {
            assert!(refusal.to_string().contains("'*' stops at dots"), "{refusal}");
        }
    }
}
