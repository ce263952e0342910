//! The address plan by table, and against any order of steps.

use proptest::prelude::*;

use super::*;

fn id(n: u128) -> ResourceId {
    ResourceId(uuid::Uuid::from_u128(n))
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn subnet(cidr: &str, pools: &[(&str, &str)]) -> Wanted {
    let pools: Vec<_> =
        pools.iter().map(|(start, end)| serde_json::json!({"start": start, "end": end})).collect();
    let properties = serde_json::json!({
        "name": format!("of-{cidr}"), "network": "ctlplane", "cidr": cidr, "allocation_pools": pools,
    });
    match muster_template::spec(muster_template::Kind::Subnet, &properties) {
        Ok(muster_template::Desired::Virtual(muster_template::VirtualResource::Subnet(subnet))) => subnet,
        other => panic!("{other:?}"),
    }
}

/// `ctlplane` (1) with 10.0.0.0/24 (11), pool .10 to .12.
fn plan() -> AddressPlan {
    let mut plan = AddressPlan::default();
    plan.put_network(id(1), Some("ctlplane"), &[]);
    plan.put_subnet(id(11), &subnet("10.0.0.0/24", &[("10.0.0.10", "10.0.0.12")])).expect("a subnet");
    plan
}

fn addresses(assigned: Result<Vec<PortAddress>, String>) -> Result<Vec<String>, String> {
    assigned.map(|all| all.iter().map(|has| has.address.to_string()).collect())
}

fn at(address: &str) -> FixedIp {
    FixedIp { subnet: None, address: Some(ip(address)) }
}

#[test]
fn the_next_that_is_free_and_the_same_again() {
    let mut plan = plan();
    for (port, want) in [(101, "10.0.0.10"), (102, "10.0.0.11"), (101, "10.0.0.10"), (103, "10.0.0.12")] {
        assert_eq!(addresses(plan.put_port(id(port), "ctlplane", &[], None)), Ok(vec![want.into()]));
    }
    let full = plan.put_port(id(104), "ctlplane", &[], None).expect_err("the pool has three");
    assert_eq!(
        full,
        "no address is free: of-10.0.0.0/24 (10.0.0.0/24) has 3 addresses in use, pools: 10.0.0.10-10.0.0.12"
    );
    plan.remove_port(id(102));
    assert_eq!(addresses(plan.put_port(id(104), "ctlplane", &[], None)), Ok(vec!["10.0.0.11".into()]));
}

#[test]
fn a_fixed_address_may_lie_outside_the_pools_and_is_exclusive() {
    let mut plan = plan();
    assert_eq!(
        addresses(plan.put_port(id(101), "ctlplane", &[at("10.0.0.50")], None)),
        Ok(vec!["10.0.0.50".into()])
    );
    let refusals = [
        ("10.0.0.50", "10.0.0.50 of of-10.0.0.0/24 (10.0.0.0/24) is in use by the port"),
        ("10.0.0.1", "10.0.0.1 is in no subnet of the network 'ctlplane'"),
        ("10.0.0.255", "10.0.0.255 is in no subnet"),
        ("10.0.1.7", "10.0.1.7 is in no subnet"),
    ];
    for (address, want) in refusals {
        let why = plan.put_port(id(102), "ctlplane", &[at(address)], None).expect_err(address);
        assert!(why.starts_with(want), "{why}");
    }
    let moved = plan.put_port(id(101), "ctlplane", &[at("10.0.0.11")], None);
    assert_eq!(addresses(moved), Ok(vec!["10.0.0.11".into()]));
    assert_eq!(
        addresses(plan.put_port(id(102), "ctlplane", &[at("10.0.0.50")], None)),
        Ok(vec!["10.0.0.50".into()])
    );
}

#[test]
fn what_is_refused_leaves_a_port_as_it_was() {
    let mut plan = plan();
    plan.put_port(id(101), "ctlplane", &[], None).expect("an address");
    plan.put_port(id(102), "ctlplane", &[], None).expect("an address");
    plan.put_port(id(101), "ctlplane", &[at("10.0.0.12"), at("10.0.0.11")], None)
        .expect_err("it is another port's");
    assert_eq!(addresses(plan.put_port(id(101), "ctlplane", &[], None)), Ok(vec!["10.0.0.10".into()]));
    assert_eq!(addresses(plan.put_port(id(103), "ctlplane", &[], None)), Ok(vec!["10.0.0.12".into()]));
}

#[test]
fn one_address_of_each_family() {
    let mut plan = plan();
    plan.put_subnet(id(12), &subnet("fd00::/64", &[])).expect("a subnet");
    assert_eq!(
        addresses(plan.put_port(id(101), "ctlplane", &[], None)),
        Ok(vec!["10.0.0.10".into(), "fd00::2".into()])
    );
    let both = [FixedIp { subnet: Some("of-fd00::/64".into()), address: None }, at("10.0.0.77")];
    assert_eq!(
        addresses(plan.put_port(id(102), "ctlplane", &both, None)),
        Ok(vec!["fd00::3".into(), "10.0.0.77".into()])
    );
}

#[test]
fn a_subnet_that_does_not_fit_its_network() {
    let cases = [
        (
            subnet("10.0.0.128/25", &[]),
            "of-10.0.0.128/25 (10.0.0.128/25) overlaps of-10.0.0.0/24 (10.0.0.0/24) of the same network",
        ),
        (
            Wanted { network: "nowhere".into(), ..subnet("10.1.0.0/24", &[]) },
            "there is no network 'nowhere': declare it as OS::Neutron::Net in this or another stack (known: ctlplane)",
        ),
    ];
    for (wanted, want) in cases {
        let mut plan = plan();
        assert_eq!(plan.put_subnet(id(12), &wanted), Err(want.to_owned()));
        assert_eq!(plan.subnets_of(id(1)), [id(11)]);
    }
}

#[test]
fn one_that_takes_the_place_of_another_has_its_address() {
    let mut plan = plan();
    for port in [101, 102] {
        plan.put_port(id(port), "ctlplane", &[], None).expect("an address");
    }
    let same = plan.put_port(id(201), "ctlplane", &[], Some(id(101)));
    assert_eq!(addresses(same), Ok(vec!["10.0.0.10".into()]));
    plan.put_port(id(202), "ctlplane", &[at("10.0.0.10")], Some(id(102))).expect_err("it is of two others");
    plan.remove_port(id(101));
    assert_eq!(addresses(plan.put_port(id(103), "ctlplane", &[], None)), Ok(vec!["10.0.0.12".into()]));
    plan.remove_port(id(201));
    assert_eq!(addresses(plan.put_port(id(104), "ctlplane", &[], None)), Ok(vec!["10.0.0.10".into()]));
}

#[test]
fn what_is_in_use_does_not_go() {
    let mut plan = plan();
    plan.put_port(id(101), "ctlplane", &[], None).expect("an address");
    let moved = plan.put_subnet(id(11), &subnet("10.9.0.0/24", &[])).expect_err("a port has an address");
    assert!(moved.ends_with("has 10.0.0.10, which of-10.9.0.0/24 (10.9.0.0/24) has not"), "{moved}");
    assert!(plan.remove_subnet(id(11)).expect_err("it has a port").contains("10.0.0.10"));
    assert!(plan.remove_network(id(1)).expect_err("it has a subnet").contains("1 subnets and 1 ports"));
    plan.put_subnet(id(11), &subnet("10.0.0.0/24", &[])).expect("a wider pool");
    plan.remove_port(id(101));
    assert_eq!(addresses(plan.put_port(id(102), "ctlplane", &[], None)), Ok(vec!["10.0.0.2".into()]));
    plan.remove_port(id(102));
    assert_eq!([plan.remove_subnet(id(11)), plan.remove_network(id(1))], [Ok(()), Ok(())]);
    assert!(plan.put_port(id(103), "ctlplane", &[], None).expect_err("gone").ends_with("(known: none)"));
}

#[test]
fn a_name_that_two_networks_have_says_nothing() {
    let mut plan = plan();
    plan.put_network(id(2), Some("ctlplane"), &[]);
    let why = plan.put_port(id(101), "ctlplane", &[], None).expect_err("which?");
    assert_eq!(why, "2 networks are named 'ctlplane'; say which by its id");
    assert!(plan.put_port(id(101), &id(1).to_string(), &[], None).is_ok());
}

#[test]
fn ten_thousand_ports() {
    let mut plan = AddressPlan::default();
    plan.put_network(id(1), Some("ctlplane"), &[]);
    plan.put_subnet(id(11), &subnet("10.0.0.0/16", &[])).expect("a subnet");
    for port in 0..10_000 {
        plan.put_port(id(1000 + port), "ctlplane", &[], None).expect("an address");
    }
    assert_eq!(addresses(plan.put_port(id(9), "ctlplane", &[], None)), Ok(vec!["10.0.39.18".into()]));
}

#[derive(Clone, Debug)]
enum Step {
    Port(u8, Vec<Option<u8>>),
    Leave(u8),
    Pools(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..12, prop::collection::vec(prop::option::of(0u8..32), 0..3)).prop_map(|(port, wishes)| Step::Port(port, wishes)),
        2 => (0u8..12).prop_map(Step::Leave),
        1 => (2u8..16, 0u8..12).prop_map(|(first, more)| Step::Pools(first, more)),
    ]
}

proptest! {
    #[test]
    fn no_two_ports_have_one_address_and_what_fits_is_kept(steps in prop::collection::vec(step(), 0..60)) {
        let address = |last: u8| ip(&format!("10.0.0.{last}"));
        let mut plan = AddressPlan::default();
        plan.put_network(id(1), Some("ctlplane"), &[]);
        plan.put_subnet(id(11), &subnet("10.0.0.0/27", &[])).expect("a subnet");
        let mut ports: BTreeMap<u8, Vec<IpAddr>> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Port(port, wishes) => {
                    let had = ports.get(&port).cloned();
                    let asked: Vec<FixedIp> =
                        wishes.iter().map(|wish| FixedIp { subnet: None, address: wish.map(address) }).collect();
                    let others: Vec<IpAddr> = ports.iter().filter(|(other, _)| **other != port).flat_map(|(_, all)| all.clone()).collect();
                    match plan.put_port(id(100 + u128::from(port)), "ctlplane", &asked, None) {
                        Ok(all) => {
                            let all: Vec<IpAddr> = all.iter().map(|has| has.address).collect();
                            prop_assert_eq!(all.len(), asked.len().max(1));
                            for (has, wish) in all.iter().zip(&asked) {
                                prop_assert!(wish.address.is_none_or(|address| address == *has));
                            }
                            prop_assert!(!all.iter().any(|has| others.contains(has)), "{:?} {:?}", all, others);
                            let unique: BTreeSet<_> = all.iter().collect();
                            prop_assert_eq!(unique.len(), all.len());
                            if let (Some(had), true) = (&had, asked.iter().all(|wish| wish.address.is_none()) && asked.len() <= 1) {
                                prop_assert!(had.is_empty() || had.contains(&all[0]), "{:?} had {:?}", all, had);
                            }
                            ports.insert(port, all);
                        }
                        Err(why) => prop_assert!(!why.is_empty()),
                    }
                }
                Step::Leave(port) => {
                    plan.remove_port(id(100 + u128::from(port)));
                    ports.remove(&port);
                }
                Step::Pools(first, more) => {
                    let last = address((first + more).min(30));
                    let pool = [(address(first).to_string(), last.to_string())];
                    let pool: Vec<(&str, &str)> = pool.iter().map(|(first, last)| (&**first, &**last)).collect();
                    prop_assert!(plan.put_subnet(id(11), &subnet("10.0.0.0/27", &pool)).is_ok());
                }
            }
        }
        for (port, had) in ports {
            let again = plan.put_port(id(100 + u128::from(port)), "ctlplane", &[], None).expect("it keeps one");
            prop_assert!(had.contains(&again[0].address));
        }
    }
}
