//! The network of a server that starts after a power cut at any point of a taking-over.

use std::collections::BTreeMap;

use muster_shared::ResourceId;
use muster_shared::model::{Action, Down, Job, NetworkConfig, OnDelete, Spec};

use super::node::{CHALLENGE, Node, id, job};
use crate::{AtBoot, Before, Entry, Input, at_boot};

fn network(n: u128, number: u64, links: &[&str]) -> Job {
    let links = links.iter().map(|link| format!("{{\"type\":\"interface\",\"name\":\"{link}\"}}"));
    let config = NetworkConfig {
        document: format!("[{}]", links.collect::<Vec<_>>().join(",")),
        mapping: BTreeMap::new(),
        confirm_timeout: 20,
        on_delete: OnDelete::Restore,
    };
    let action = if number == 1 { Action::Create } else { Action::Update };
    job(n, number, action, Spec::Network(config))
}

fn kept(bed: &mut Node, job: &Job) {
    bed.job(job);
    if !bed.captures.is_empty() {
        bed.captured(job.resource.0.as_u128(), Ok("before"));
    }
    bed.touched(job.resource.0.as_u128(), Ok(()));
    bed.reconnect();
    bed.down(Down::Answer { key: job.key(), bytes: CHALLENGE.to_vec() });
    assert!(bed.disk[&job.resource].applied.as_ref().is_some_and(|a| a.generation == job.generation));
}

/// Resources that are applied, and those whose change is undone.
fn started(bed: &Node) -> (Vec<ResourceId>, Vec<ResourceId>) {
    let entries: Vec<Entry> = bed.disk.values().cloned().collect();
    let (mut applied, mut undone) = (Vec::new(), Vec::new());
    for step in at_boot(&entries) {
        match step {
            AtBoot::Apply { resource, .. } => applied.push(resource),
            AtBoot::Restore { key, .. } => undone.push(key.resource),
        }
    }
    applied.sort();
    (applied, undone)
}

/// Before it is known what there is, the first one holds it still: nothing else would bring it up.
#[test]
fn what_was_on_its_way_to_another_resource_comes_up() {
    for is_there in [false, true] {
        let mut bed = Node::online();
        kept(&mut bed, &network(1, 1, &["br-mgmt"]));
        let mut all = vec![id(1)];
        if is_there {
            kept(&mut bed, &network(2, 1, &["eth2"]));
            all.push(id(2));
        }
        bed.guards_are_quick = false;
        bed.job(&network(2, 2, &["eth2", "br-mgmt"]));
        assert_eq!(started(&bed), (all.clone(), vec![]), "while it reads what is there");
        bed.captured(2, Ok("before"));
        assert_eq!(started(&bed), (all, vec![]), "while it reads what it may touch");
        let key = bed.guards.pop().unwrap().key();
        let undo = Ok(Before::new(b"all of it".to_vec()));
        bed.input(Input::Guarded { key, undo, challenge: CHALLENGE.to_vec() });
        assert_eq!(started(&bed), (vec![], vec![id(2)]), "from then on the undo has all");
        bed.touched(2, Ok(()));
        bed.reconnect();
        bed.down(Down::Answer { key, bytes: CHALLENGE.to_vec() });
        assert_eq!(started(&bed), (vec![id(2)], vec![]), "kept");
        bed.guards_are_quick = true;
        kept(&mut bed, &network(2, 3, &["eth2"]));
        assert_eq!(started(&bed), (vec![id(2)], vec![]), "and given up for good");
    }
}
