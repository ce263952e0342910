use super::*;

fn voice(node: &str, seed: u8) -> Voice {
    Voice { node: node.parse().unwrap(), seed: [seed; 32], speaks: true }
}

fn interface(name: &str, kind: &str, up: bool) -> Interface {
    Interface { name: name.into(), kind: kind.into(), up }
}

fn cable(kind: &str, up: bool) -> Cable {
    Cable { up, kind: kind.into(), mac: Some([2, 0, 0, 0, 0, 1]) }
}

type Links = BTreeMap<Box<str>, (u32, Cable)>;

fn links<const N: usize>(links: [(&str, Cable); N]) -> Links {
    links.into_iter().zip(1..).map(|((name, cable), index)| (name.into(), (index, cable))).collect()
}

fn on<'a>(links: &'a Links) -> impl Fn(&str) -> Option<(u32, &'a Cable)> {
    |name| links.get(name).map(|(index, cable)| (*index, cable))
}

fn keeper(voice: Voice) -> Keeper {
    Keeper {
        told: Arc::default(),
        listener: Arc::default(),
        voice,
        last: BTreeMap::new(),
        up: BTreeSet::new(),
        speaking: BTreeMap::new(),
        warned: BTreeSet::new(),
    }
}

#[test]
fn lldp_is_for_ports_with_an_ethernet_cable() {
    let without_mac = Cable { mac: None, ..cable("", true) };
    for (kind, cable, wanted) in [
        ("", cable("", true), true),
        ("", cable("", false), true),
        ("", cable("veth", true), true),
        ("", cable("tun", true), false),
        ("", cable("bond", true), true),
        ("internal", cable("openvswitch", true), false),
        ("internal", cable("tun", true), false),
        ("vxlan", cable("", true), false),
        ("", cable("vxlan", true), false),
        ("", cable("dummy", true), false),
        ("", without_mac, false),
    ] {
        let interfaces: Interfaces = [("br0".into(), vec![interface("p", kind, true)])].into();
        let links = links([("p", cable.clone())]);
        let (spots, many) = spots(&interfaces, &on(&links));
        assert_eq!((spots.len(), many), (usize::from(wanted), usize::from(wanted)), "{kind} {cable:?}");
    }
}

#[test]
fn of_very_many_ports_cards_have_lldp_first() {
    let mut links: Links = (0..300).map(|n| (format!("a{n:03}").into(), (n, cable("veth", true)))).collect();
    links.insert("z".into(), (1000, cable("", true)));
    let ports = links.keys().map(|name| interface(name, "", true)).collect();
    let interfaces: Interfaces = [("br0".into(), ports)].into();
    let (spots, many) = spots(&interfaces, &on(&links));
    assert_eq!((spots.len(), many), (LLDP_PORTS_MAX, 301));
    assert!(spots.contains_key(&1000) && spots.contains_key(&0) && !spots.contains_key(&255));
}

#[test]
fn port_state_comes_from_the_kernel_or_else_from_the_switch() {
    let ports = vec![
        interface("eth0", "", false),
        interface("eth1", "", true),
        interface("patch", "patch", true),
        interface("gone", "", false),
        interface("a b", "", true),
    ];
    let interfaces: Interfaces =
        [("br0".into(), ports), ("nftables".into(), Vec::new()), ("br1".into(), Vec::new())].into();
    let links = links([("eth0", cable("dummy", true)), ("eth1", cable("dummy", false))]);
    let mut keeper = keeper(voice("web-1", 1));
    let devices = keeper.devices(&interfaces, &BTreeMap::new(), &on(&links));
    let shown: Vec<String> = devices
        .values()
        .map(|device| {
            let ports = device.ports.iter().map(|port| format!(" {}={}", port.name, port.up));
            format!("{}:{}", device.bridge, ports.collect::<String>())
        })
        .collect();
    assert_eq!(shown, ["br0: eth0=true eth1=false gone=false patch=true", "br1:"]);
}

#[test]
fn what_is_over_a_bound_is_left_out_and_named_once() {
    let ports: Vec<_> = (0..=TOLD_PORTS_MAX).map(|n| interface(&format!("p{n}"), "gre", true)).collect();
    let mut interfaces: Interfaces =
        (0..TOLD_DEVICES_MAX).map(|n| (format!("x{n:03}").into(), vec![])).collect();
    interfaces.insert("br0".into(), ports);
    let mut keeper = keeper(voice("web-1", 1));
    for _ in 0..2 {
        keeper.look(&interfaces, |_| None);
    }
    assert_eq!(keeper.last.len(), TOLD_DEVICES_MAX);
    assert_eq!(keeper.last[&"br0".parse().unwrap()].ports.len(), TOLD_PORTS_MAX);
    let warnings = std::mem::take(&mut keeper.told.pending.lock().unwrap().1);
    assert_eq!(
        warnings,
        [
            "this server has 257 bridges of Open vSwitch: the topology has the first 256",
            "br0 has 2049 ports: the topology has the first 2048"
        ]
    );
}

#[test]
fn a_look_tells_what_is_another_one_and_what_went() {
    let mut keeper = keeper(voice("web-1", 1));
    let told = |keeper: &Keeper| -> Vec<String> {
        let devices = std::mem::take(&mut keeper.told.pending.lock().unwrap().0);
        devices.values().map(|it| format!("{} {} {}", it.bridge, it.up, it.ports.len())).collect()
    };
    let mut interfaces: Interfaces = [("br0".into(), vec![]), ("br1".into(), vec![])].into();
    keeper.look(&interfaces, |_| None);
    assert_eq!(told(&keeper), ["br0 true 0", "br1 true 0"]);
    keeper.look(&interfaces, |_| None);
    assert_eq!(told(&keeper), Vec::<String>::new());
    interfaces.remove("br0");
    interfaces.insert("br1".into(), vec![interface("p", "patch", true)]);
    keeper.look(&interfaces, |_| None);
    assert_eq!(told(&keeper), ["br0 false 0", "br1 true 1"]);
}

#[test]
fn a_port_says_who_it_is_and_its_beacon_is_its_own() {
    let spot = Spot { bridge: "br0", name: "eth1", up: true, mac: [2; 6] };
    let frame = Frame::read(&voice("web-1", 1).says(&spot).frame).unwrap();
    assert_eq!((frame.chassis.subtype, &*frame.chassis.octets), (7, &b"web-1/br0"[..]));
    assert_eq!((frame.port.subtype, &*frame.port.octets), (5, &b"eth1"[..]));
    assert_eq!((frame.ttl, frame.system_name.as_deref()), (6, Some("web-1")));
    let beacons: BTreeSet<Beacon> =
        [(1, "br0", "eth1"), (2, "br0", "eth1"), (1, "br0e", "th1"), (1, "br1", "eth1")]
            .into_iter()
            .map(|(seed, bridge, port)| voice("web-1", seed).beacon(bridge, port))
            .collect();
    assert_eq!(beacons.len(), 4);
    assert!(beacons.contains(&frame.beacon.unwrap()));

    // The last word is the same, and good for longer.
    let last = Frame::read(&voice("web-1", 1).says(&spot).last).unwrap();
    assert_eq!(last, Frame { ttl: 120, ..frame });

    let label = "a".repeat(50);
    let longest = [&*label; 5].join(".")[..253].to_owned();
    let frame =
        Frame::read(&voice(&longest, 1).says(&Spot { bridge: "br-123456789012", ..spot }).frame).unwrap();
    assert_eq!(frame.chassis.octets.len(), 255);
    assert!(frame.chassis.octets.ends_with(b"/br-123456789012"));
    assert_eq!(frame.system_name, Some(longest));
}
