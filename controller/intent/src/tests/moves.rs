//! Random sites: with any events in any order, packets of installed intents arrive, and none goes
//! in a circle.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::site::Site;
use super::*;
use crate::compile::Compiler;
use crate::path_search::Trees;
use crate::phase::State;
use crate::reservations::Holder;

const DEVICES: usize = 7;

#[derive(Clone, Debug)]
enum Happens {
    Submit {
        key: usize,
        from: usize,
        to: usize,
        also: usize,
        avoid: usize,
        vlan: bool,
        wide: bool,
        above: u16,
    },
    /// The same request with another device as the obstacle.
    Again(usize, usize),
    Withdraw(usize),
    Cable(usize, bool),
    Refuses(usize, bool),
    Undoes(usize, bool),
    Silent(usize, bool),
    Steps(Vec<usize>),
    Wait(u64),
    Restart,
}

fn happens() -> impl Strategy<Value = Happens> {
    let device = 0..DEVICES;
    prop_oneof![
        4 => (0..6_usize, [(); 4].map(|()| device.clone()), any::<bool>(), any::<bool>(), 0..2_u16).prop_map(
            |(key, [from, to, also, avoid], vlan, wide, above)| {
                Happens::Submit { key, from, to, also, avoid, vlan, wide, above }
            }
        ),
        3 => (0..6_usize, device.clone()).prop_map(|(key, avoid)| Happens::Again(key, avoid)),
        1 => (0..6_usize).prop_map(Happens::Withdraw),
        4 => (0..32_usize, any::<bool>()).prop_map(|(cable, up)| Happens::Cable(cable, up)),
        1 => (device.clone(), any::<bool>()).prop_map(|(device, yes)| Happens::Refuses(device, yes)),
        1 => (device.clone(), any::<bool>()).prop_map(|(device, yes)| Happens::Undoes(device, yes)),
        2 => (device, any::<bool>()).prop_map(|(device, yes)| Happens::Silent(device, yes)),
        6 => prop::collection::vec(0..8_usize, 1..6).prop_map(Happens::Steps),
        2 => (1..4000_u64).prop_map(Happens::Wait),
        1 => Just(Happens::Restart),
    ]
}

fn cables() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let more = prop::collection::btree_set((0..DEVICES, 0..DEVICES), 1..8);
    more.prop_map(|more| {
        let line = (1..DEVICES).map(|at| (at - 1, at));
        let more = more.into_iter().filter(|(a, b)| a + 1 < *b);
        line.chain(more).collect()
    })
}

fn device(number: usize) -> muster_shared::model::flow::DeviceName {
    at(&format!("n{number}:h1")).device
}

/// Checks what must hold at every moment.
fn holds(site: &Site) {
    for (key, from, outs, address) in intents(site) {
        let fate = site.plane.walk_to(site.manager.topology(), &at(&from), address);
        assert_ne!(fate, Fate::Round, "{key}");
        let no = site.manager.find(&key).expect("it is there");
        let record = site.manager.record(no).expect("it is there");
        let whole = site.manager.topology();
        let passes =
            |(a, b): &(ConnectPoint, ConnectPoint)| whole.link(a, b).is_some_and(|link| whole.passes(link));
        let is_up = |to: &String| whole.is_up(whole.port(&at(to)).expect("a port"));
        let stands = record.paths.iter().flatten().all(passes) && outs.iter().all(is_up);
        if record.state == State::Installed && stands && site.manager.is_settled(no) {
            assert_eq!(fate, Fate::Out(outs), "{key} {record:?}");
        }
    }
    for link in site.manager.topology().known_links() {
        let taken = site.manager.ledger().taken(link);
        let keys = site.manager.list().filter_map(|no| site.manager.view(site.now, no));
        let held: u64 = keys
            .map(|view| {
                let ends = site.manager.topology().ends(link);
                let ends = [ends.0, ends.1].map(|port| site.manager.topology().point(port));
                let own = view.reservations.iter().filter(|it| it.from == ends[0] && it.to == ends[1]);
                own.filter_map(|it| it.bandwidth).max().unwrap_or(0)
            })
            .sum();
        assert_eq!(taken, held);
        assert!(taken <= 100, "{taken}");
    }
}

/// The ingress and egress of intents when they were last installed.
type Installed = BTreeMap<String, (String, BTreeSet<String>)>;

/// Installed intents whose packets arrive, and those that move from one path between the same points to another.
/// Intents to several points are left out: a packet may miss one of them for a moment while two paths to it change.
fn arriving(site: &Site, installed: &mut Installed) -> BTreeSet<String> {
    let arrives = |(key, from, outs, address): (String, String, BTreeSet<String>, u128)| {
        let no = site.manager.find(&key)?;
        let (state, _) = site.manager.state(no)?;
        let fate = site.plane.walk_to(site.manager.topology(), &at(&from), address);
        let is_whole = outs.len() == 1 && fate == Fate::Out(outs.clone());
        let ends = (from, outs);
        let is_promised = match state {
            State::Installed => {
                installed.insert(key.clone(), ends);
                true
            }
            State::Reallocating => installed.get(&key) == Some(&ends),
            _ => false,
        };
        (is_whole && is_promised).then_some(key)
    };
    intents(site).into_iter().filter_map(arrives).collect()
}

/// Does one write. No packets must be lost by it.
fn step(site: &mut Site, at: usize, installed: &mut Installed) {
    let before = arriving(site, installed);
    site.step(at);
    let after = arriving(site, installed);
    for key in before.difference(&after) {
        let no = site.manager.find(key).expect("it is there");
        let view = site.manager.view(site.now, no).expect("it is there");
        assert!(!matches!(view.state, State::Installed | State::Reallocating), "{key} {:?}", view.paths);
    }
}

/// Key, ingress, egress and address of the requested intents.
fn intents(site: &Site) -> Vec<(String, String, BTreeSet<String>, u128)> {
    let view = |no| site.manager.view(site.now, no).expect("it is there");
    let text = |point: &ConnectPoint| format!("{}:{}", point.device.node, point.port);
    let told = |no| {
        let view = view(no);
        let address = view.intent.selector.iter().find_map(|criterion| match criterion {
            Criterion::Field { field: Field::Ipv4Dst, value, .. } => Some(*value),
            _ => None,
        });
        let (from, to) = (&view.intent.kind.ingress()[0], view.intent.kind.egress());
        (view.key.to_string(), text(from), to.iter().map(text).collect(), address.expect("an address"))
    };
    site.manager.list().map(told).collect()
}

fn happen(site: &mut Site, cables: &[(usize, usize)], what: Happens, installed: &mut Installed) {
    match what {
        Happens::Submit { key, from, to, also, avoid, vlan, wide, above } => {
            if from == to {
                return;
            }
            let obstacles =
                [avoid].into_iter().filter(|it| ![from, to, also].contains(it)).map(device).collect();
            let bandwidth = wide.then_some(40);
            let mut intent = from_to(
                &format!("n{from}:h1"),
                &format!("n{to}:h2"),
                Constraints { obstacles, vlan, bandwidth, ..Constraints::default() },
            );
            // The intent has two egress points if the third device is another one.
            if also != from && also != to {
                intent.constraints.vlan = false;
                let to = [to, also].map(|to| at(&format!("n{to}:h2"))).to_vec();
                intent.kind = Kind::SinglePointToMultiPoint { from: at(&format!("n{from}:h1")), to };
            }
            intent.priority += above;
            let address = key as u128 + 1;
            intent.selector.push(Criterion::Field { field: Field::Ipv4Dst, value: address, mask: None });
            site.submit(&format!("key-{key}"), intent).expect("taken");
            site.take();
        }
        Happens::Again(key, avoid) => {
            let key = format!("key-{key}");
            let Some(no) = site.manager.find(&key) else { return };
            let mut intent = Intent::clone(&site.manager.view(site.now, no).expect("it is there").intent);
            let ends: Vec<&ConnectPoint> = intent.kind.ingress().iter().chain(intent.kind.egress()).collect();
            let is_end = ends.iter().any(|end| end.device == device(avoid));
            intent.constraints.obstacles = (!is_end).then(|| device(avoid)).into_iter().collect();
            site.submit(&key, intent).expect("taken");
            site.take();
        }
        Happens::Withdraw(key) => {
            // The withdrawal of an unknown intent is refused.
            let _refused = site.manager.withdraw(&format!("key-{key}"));
            site.take();
        }
        Happens::Cable(number, up) => {
            let (one, other) = cables[number % cables.len()];
            site.cable(&format!("n{one}"), &format!("n{other}"), up);
            site.take();
        }
        Happens::Refuses(number, true) => drop(site.refusing.insert(device(number))),
        Happens::Refuses(number, false) => drop(site.refusing.remove(&device(number))),
        Happens::Undoes(number, true) => drop(site.undoing.insert(device(number))),
        Happens::Undoes(number, false) => drop(site.undoing.remove(&device(number))),
        Happens::Silent(number, true) => drop(site.silent.insert(device(number))),
        Happens::Silent(number, false) => drop(site.silent.remove(&device(number))),
        Happens::Steps(steps) => {
            for at in steps {
                step(site, at, installed);
                holds(site);
            }
        }
        Happens::Wait(millis) => {
            site.now = site.now + Duration::from_millis(millis);
            site.take();
        }
        Happens::Restart => site.restart(),
    }
    holds(site);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn packets_arrive_and_none_goes_round(cables in cables(), story in prop::collection::vec(happens(), 1..60)) {
        let text: String = cables.iter().map(|(a, b)| format!("n{a}-n{b} ")).collect();
        let mut site = Site::new(&text);
        for (one, other) in &cables {
            for (from, to) in [(one, other), (other, one)] {
                let [from, to] = [(from, to), (to, from)].map(|(a, b)| at(&format!("n{a}:n{b}")));
                let traits = LinkTraits { bandwidth: Some(100), ..LinkTraits::default() };
                site.manager.declare(&from, &to, traits).expect("a link");
            }
        }
        site.settle();
        let mut installed = Installed::new();
        for what in story {
            happen(&mut site, &cables, what, &mut installed);
        }
        // All devices are well again: the last request of each intent is complete.
        site.refusing.clear();
        site.undoing.clear();
        site.silent.clear();
        for (one, other) in &cables {
            site.cable(&format!("n{one}"), &format!("n{other}"), true);
        }
        site.wait(Duration::from_secs(700));
        holds(&site);
        let mut placed = 0;
        for no in site.manager.list().collect::<Vec<_>>() {
            let view = site.manager.view(site.now, no).expect("it is there");
            prop_assert!(site.manager.is_settled(no), "{view:?}");
            placed += view.rules.len();
            match view.request {
                crate::phase::Request::Install => prop_assert!(
                    view.state == State::Installed || (view.state == State::Failed && view.reason.is_some()),
                    "{:?} {:?}", site.states, view
                ),
                _ => prop_assert_eq!(view.state, State::Withdrawn),
            }
            for (device, packed) in &view.rules {
                let owner = site.owners.get(&(device.clone(), packed.unpack().id(device)));
                prop_assert_eq!(owner, Some(&(no, packed.clone())));
            }
        }
        prop_assert_eq!(placed, site.plane.0.len());
        // A failed intent would fail again: no change that could heal it was missed.
        for no in site.manager.list().filter(|no| site.manager.state(*no).is_some_and(|it| it.0 == State::Failed)) {
            let view = site.manager.view(site.now, no).expect("it is there");
            let (topology, ledger, mut trees) = (site.manager.topology(), site.manager.ledger(), Trees::default());
            let mut compiler = Compiler { topology, ledger, trees: &mut trees };
            let made = compiler.compile(&view.intent, &view.key, &Holder::Intent((*view.key).into()), 1);
            prop_assert!(made.is_err(), "{:?} {:?}", view, site.states);
        }
        // No table lists an entry for ever because a bridge refused it once.
        prop_assert!(site.failed.is_empty(), "{:?}", site.failed);
    }
}
