use super::*;
use crate::model::topology::{Beacon, DevicePorts, HEARD_MAX, PortState, TOLD_DEVICES_MAX, TOLD_PORTS_MAX};
use crate::model::*;
use crate::{Attempt, Epoch, EpochId, Generation, ResourceId};
use std::time::Duration;
use uuid::Uuid;

fn key() -> ReportKey {
    ReportKey {
        resource: ResourceId(Uuid::from_bytes([0xab; 16])),
        generation: Generation { epoch: Epoch(3), number: 300 },
        attempt: Attempt(1),
    }
}

fn job(spec: Spec) -> Down {
    let ReportKey { resource, generation, attempt } = key();
    Down::Job(Job {
        resource,
        generation,
        attempt,
        action: Action::Update,
        timeout: Duration::from_secs(60),
        spec,
    })
}

fn file(content: Content) -> Spec {
    Spec::File(File {
        path: "/etc/motd".into(),
        content,
        mode: 0o644,
        owner: Some("root".into()),
        group: None,
        on_delete: OnDelete::Restore,
    })
}

fn hostname(name: &str) -> Spec {
    Spec::Hostname(Hostname { hostname: name.into(), confirm_timeout: 30, on_delete: OnDelete::Keep })
}

fn timezone(name: &str) -> Spec {
    Spec::Timezone(Timezone { timezone: name.into(), on_delete: OnDelete::Keep })
}

fn sysctl() -> Sysctl {
    Sysctl { key: "net.ipv4.ip_forward".into(), value: "1".into(), on_delete: OnDelete::Keep }
}

fn package() -> Package {
    Package {
        name: "nginx".into(),
        version: Some("1.22.1-9".into()),
        state: Presence::Present,
        held: Some(true),
        timeout: 1800,
        on_delete: OnDelete::Keep,
    }
}

fn user() -> User {
    User {
        name: "web".into(),
        uid: Some(1001),
        group: Some("web".into()),
        groups: Some(vec!["adm".into()]),
        home: Some("/srv/web".into()),
        shell: Some("/bin/sh".into()),
        comment: Some("Web".into()),
        system: true,
        password_hash: Some(PasswordHash::new("$6$a$b".into()).unwrap()),
        authorized_keys: Some(vec!["k".into()]),
        locked: Some(false),
        on_delete: OnDelete::Keep,
    }
}

fn group() -> Group {
    Group {
        name: "web".into(),
        gid: Some(990),
        system: true,
        members: Some(vec!["a".into()]),
        on_delete: OnDelete::Keep,
    }
}

fn unit() -> Unit {
    Unit {
        name: "web.service".into(),
        content: Some("[Service]\n".into()),
        drop_ins: [("a.conf".to_owned(), "[Unit]\n".to_owned())].into(),
        enabled: Some(true),
        active: Some(UnitActive::Started),
        masked: Some(false),
        restart_on: "01".into(),
        reload_on: String::new(),
        settle: 2,
        on_delete: OnDelete::Restore,
    }
}

fn deployment() -> Deployment {
    Deployment {
        name: "setup".into(),
        steps: vec![
            DeploymentStep {
                actions: vec![DeploymentAction::Create, DeploymentAction::Update],
                group: DeploymentGroup::Script,
                config: Content::Inline(b"#!/bin/sh\n".to_vec()),
            },
            DeploymentStep {
                actions: vec![DeploymentAction::Delete],
                group: DeploymentGroup::JsonFile,
                config: Content::Inline(b"{}".to_vec()),
            },
        ],
        inputs: [("a".to_owned(), "1".to_owned())].into(),
        replace_on: ["a".to_owned()].into(),
        outputs: vec![DeploymentOutput { name: "result".into(), error_output: true }],
        timeout: 300,
        on_interrupt: OnInterrupt::Fail,
    }
}

fn welcome(epoch: EpochId) -> Down {
    welcome_of(epoch, 0)
}

fn welcome_of(epoch: EpochId, reads: u32) -> Down {
    Down::Welcome(Welcome { epoch, want_ledger: true, heartbeat: Duration::from_secs(60), reads })
}

fn hello(instance: Option<u128>, epoch: EpochId) -> Up {
    Up::Hello(Hello {
        boot_id: 1,
        instance,
        address: None,
        agent_version: "0.1.0".into(),
        reads: 0,
        epoch,
        ledger: 2,
    })
}

fn epoch(bits: Option<u64>) -> EpochId {
    EpochId { number: Epoch(3), bits }
}

fn downs() -> Vec<Down> {
    vec![
        welcome(Epoch(3).into()),
        job(Spec::Dummy(Dummy {
            values: [("a".to_owned(), "1".to_owned())].into(),
            milliseconds: 1500,
            fail: Some(FailOn::Action(Action::Delete)),
        })),
        job(file(Content::Inline(b"hello\n".to_vec()))),
        job(file(Content::Stored { digest: ContentDigest([9; 32]), size: 1 << 20 })),
        job(Spec::Network(NetworkConfig {
            document: "[]".into(),
            mapping: [("nic1".to_owned(), "eth0".to_owned())].into(),
            confirm_timeout: 30,
            on_delete: OnDelete::Keep,
        })),
        Down::Withdraw { resource: key().resource, generation: key().generation },
        Down::Acknowledge(key()),
        Down::Chunk { digest: ContentDigest([9; 32]), offset: 5, bytes: vec![1, 2, 3] },
        acting(Action::Check),
        acting(Action::Retain),
        Down::Answer { key: key(), bytes: vec![1, 2, 3] },
        Down::AskFacts,
        job(hostname("web-1.example.com")),
        job(Spec::Deployment(deployment())),
        job(Spec::Unit(unit())),
        job(Spec::Sysctl(sysctl())),
        job(Spec::Package(package())),
        job(Spec::User(user())),
        job(Spec::Group(group())),
        job(timezone("Europe/Berlin")),
    ]
    .into_iter()
    .chain(flow_tests::downs())
    .chain([Down::AskDrift, welcome(epoch(Some(300)))])
    .chain([Down::Describe(vec![key().resource]), Down::Remove(key())])
    .chain([Down::Controllers(vec![
        "c1.example.org:8883".parse().unwrap(),
        "[fd00::2]:8883".parse().unwrap(),
    ])])
    .chain([move_tests::down(), trace_tests::down()])
    .chain([Down::Survey, acting(Action::Adopt)])
    .chain([welcome_of(epoch(None), 1), welcome_of(epoch(Some(300)), 1)])
    .collect()
}

fn acting(action: Action) -> Down {
    match job(file(Content::Inline(b"hello\n".to_vec()))) {
        Down::Job(job) => Down::Job(Job { action, ..job }),
        _ => unreachable!(),
    }
}

fn ups() -> Vec<Up> {
    let report = |outcome| Up::Report(Report { key: key(), outcome });
    vec![
        hello(None, epoch(None)),
        report(Outcome::Done(Observed { attributes: [("a".to_owned(), "1".to_owned())].into() })),
        report(Outcome::Failed { reason: "no such directory".into(), permanent: false }),
        report(Outcome::Withdrawn),
        report(Outcome::Superseded { by: key().generation }),
        Up::Progress(Progress { key: key(), settling: true }),
        Up::Ledger {
            entries: vec![LedgerEntry { resource: key().resource, generation: key().generation }],
            last: true,
        },
        Up::Fetch { digest: ContentDigest([9; 32]), offset: 131_072 },
        Up::Heartbeat { drift: None },
        report(Outcome::Differs { missing: false, reason: "content differs".into() }),
        Up::Challenge { key: key(), bytes: vec![1, 2, 3] },
        Up::Drift(vec![drift(DriftState::Drifted, "eth0 is down"), drift(DriftState::InSync, "")]),
        Up::Facts(Box::new(facts())),
    ]
    .into_iter()
    .chain(flow_tests::ups())
    .chain([Up::Ports(devices()), Up::Heartbeat { drift: Some(7) }, Up::Jobs(jobs())])
    .chain([hello(Some(5), epoch(None)), hello(Some(5), epoch(Some(300)))])
    .chain([report(Outcome::NoRoom { reason: "full".into() })])
    .chain([Up::DiskFull(Some("full".into())), Up::DiskFull(None)])
    .chain([Up::Clock { unix: 1_732_369_352, ahead: 0 }])
    .chain([Up::Described(vec![stray("/etc/motd".into())]), reading(1)])
    .chain(move_tests::ups())
    .chain(trace_tests::ups())
    .chain([Up::Surveyed(survey()), Up::Facts(Box::new(tied_facts()))])
    .collect()
}

fn survey() -> Survey {
    let zone = Timezone { timezone: "Europe/Rome".into(), on_delete: OnDelete::Restore };
    Survey { specs: vec![zone.into()], left_out: vec!["eth1: it leases its addresses".into()] }
}

fn stray(name: String) -> Stray {
    let ReportKey { resource, generation, .. } = key();
    Stray { resource, generation, kind: "Muster::File".into(), name, is_removable: true }
}

fn reading(reads: u32) -> Up {
    match hello(Some(5), epoch(Some(300))) {
        Up::Hello(hello) => Up::Hello(Hello { reads, ..hello }),
        _ => unreachable!(),
    }
}

/// The `reads` number is no new message: an earlier controller takes it for a part of the version.
#[test]
fn older_controllers_read_a_greeting_that_has_a_reads_number() {
    let of = |up: &Up| match v1::Up::from(up) {
        v1::Up::Greeting { agent_version, .. } => agent_version,
        _ => unreachable!(),
    };
    assert_eq!((of(&reading(0)).as_str(), of(&reading(READS)).as_str()), ("0.1.0", "0.1.0+8"));
}

#[test]
fn strays_out_of_bounds_are_refused_and_the_most_fit_a_packet() {
    let longest = stray("n".repeat(STRAY_NAME_MAX));
    let read = |strays| {
        let packet = pack(&[Up::Described(strays)])?.remove(0);
        read_body::<Up>(packet.as_bytes())
    };
    let most = vec![longest.clone(); DESCRIBED_MAX];
    assert_eq!(read(most.clone()), Ok(vec![Up::Described(most)]));
    for (field, strays) in [
        ("strays", vec![stray("n".into()); DESCRIBED_MAX + 1]),
        ("a stray's name", vec![stray("n".repeat(STRAY_NAME_MAX + 1))]),
        ("a stray's type", vec![Stray { kind: "k".repeat(65), ..longest }]),
    ] {
        assert_eq!(read(strays), Err(WireError::Bounds { field }));
    }
    let asked = Down::Describe(vec![key().resource; DESCRIBED_MAX + 1]);
    let packet = pack(&[asked]).unwrap().remove(0);
    assert_eq!(read_body::<Down>(packet.as_bytes()), Err(WireError::Bounds { field: "things to describe" }));
}

fn jobs() -> Vec<JobState> {
    let stages = [Stage::Waiting { behind: Some(key().resource) }, Stage::Waiting { behind: None }];
    let stages = stages.into_iter().chain([Stage::Fetching, Stage::Running]);
    stages.map(|stage| JobState { key: key(), stage }).collect()
}

#[test]
fn too_many_jobs_are_refused_and_the_most_fit_a_packet() {
    let largest = ReportKey {
        generation: Generation { epoch: Epoch(u32::MAX), number: u64::MAX },
        attempt: Attempt(u32::MAX),
        ..key()
    };
    let state = JobState { key: largest, stage: Stage::Waiting { behind: Some(largest.resource) } };
    let pack = |count| pack(&[Up::Jobs(vec![state; count])]).unwrap().remove(0);
    assert!(read_body::<Up>(pack(JOBS_TOLD_MAX).as_bytes()).is_ok());
    let refused = read_body::<Up>(pack(JOBS_TOLD_MAX + 1).as_bytes());
    assert_eq!(refused, Err(WireError::Bounds { field: "jobs" }));
}

fn devices() -> Vec<DevicePorts> {
    let port = |name: &str, up, beacon, heard: &[u8]| PortState {
        name: name.into(),
        up,
        beacon,
        heard: heard.iter().map(|octet| Beacon([*octet; 16])).collect(),
    };
    let ports = vec![
        port("br0", true, None, &[]),
        port("eth1", true, Some(Beacon([1; 16])), &[2, 3]),
        port("eth2", false, Some(Beacon([4; 16])), &[]),
    ];
    vec![
        DevicePorts { bridge: "br0".parse().unwrap(), up: true, ports },
        DevicePorts { bridge: "br1".parse().unwrap(), up: false, ports: Vec::new() },
    ]
}

fn drift(state: DriftState, reason: &str) -> Drift {
    Drift { resource: key().resource, generation: key().generation, state, reason: reason.into() }
}

fn facts() -> Facts {
    let counters = Counters { rx_bytes: 300, tx_dropped: 1, ..Counters::default() };
    let link = LinkFacts {
        name: "eth0".into(),
        mac: Some([2, 0, 0, 0, 0, 1]),
        mtu: 1500,
        up: true,
        carrier: true,
        speed: Some(10_000),
        full_duplex: Some(true),
        addresses: vec!["10.0.0.1/24".parse().unwrap(), "fd00::1/64".parse().unwrap()],
        counters,
        driver: "virtio_net".into(),
        pci: Some(PciFacts { address: "0000:00:03.0".into(), vendor: 0x1af4, device: 0x1000 }),
        permanent_mac: Some([2, 0, 0, 0, 0, 2]),
        neighbours: vec![neighbour()],
        ..LinkFacts::default()
    };
    Facts {
        hostname: "web-1".into(),
        kernel: "6.1.0".into(),
        os: OsFacts {
            id: "debian".into(),
            version: "12".into(),
            name: "Debian GNU/Linux 12 (bookworm)".into(),
        },
        architecture: "x86_64".into(),
        cpu_model: "EPYC".into(),
        disks: vec![DiskFacts { name: "vda".into(), size: 1 << 33, model: "disk".into(), rotational: true }],
        cpus: 2,
        memory: 1 << 30,
        booted_at: 1_700_000_000,
        agent_version: "0.1.0".into(),
        links: vec![link],
        links_total: 1,
    }
}

/// A bond of one card, and a VLAN on it.
fn tied_facts() -> Facts {
    let link = |name: &str, master: Option<&str>, lower: Option<&str>| LinkFacts {
        name: name.into(),
        master: master.map(str::to_owned),
        lower: lower.map(str::to_owned),
        ..LinkFacts::default()
    };
    let links = vec![
        link("eth0", Some("bond0"), None),
        link("bond0", None, None),
        link("bond0.10", None, Some("bond0")),
    ];
    Facts { hostname: "web-1".into(), links, links_total: 3, ..Facts::default() }
}

fn neighbour() -> NeighbourFacts {
    NeighbourFacts {
        chassis_id: "02:00:00:00:00:0a".into(),
        port_id: "Ethernet7".into(),
        port_description: Some("rack 7".into()),
        system_name: Some("leaf-1".into()),
        system_description: None,
        vlan: Some(100),
        management: vec!["10.0.0.254".parse().unwrap(), "fd00::fe".parse().unwrap()],
    }
}

#[test]
fn facts_of_an_older_agent_are_read() {
    // As the golden bytes had them when there was no more to tell.
    const OLD: &str = concat!(
        "08057765622d3105362e312e301e44656269616e20474e552f4c696e75782031322028626f6f6b776f726d290280808080",
        "0480e2cfaa0605302e312e300104657468300001020000000001dc0b010101904e010102040a0000011810fd0000000000",
        "0000000000000000000140ac020000000000000101",
    );
    let mut known = facts();
    (known.os.id, known.os.version) = (String::new(), String::new());
    (known.architecture, known.cpu_model, known.disks) = (String::new(), String::new(), Vec::new());
    let link = &mut known.links[0];
    (link.driver, link.pci, link.permanent_mac) = (String::new(), None, None);
    link.neighbours.clear();
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let bytes: Vec<u8> = OLD.as_bytes().chunks(2).map(octet).collect();
    assert_eq!(read_body::<Up>(&[&[1], &*bytes].concat()), Ok(vec![Up::Facts(Box::new(known))]));
}

#[test]
fn facts_are_cut_to_their_bounds_and_others_are_refused() {
    let read = |facts: Facts| {
        let packet = pack(&[Up::Facts(Box::new(facts))]).unwrap().remove(0);
        read_body::<Up>(packet.as_bytes())
    };
    let link = facts().links.remove(0);
    let mut large = facts();
    large.hostname = "h".repeat(1000);
    let name = Some("n".repeat(1000));
    large.links = vec![
        LinkFacts {
            addresses: vec![link.addresses[0]; 100],
            master: name.clone(),
            lower: name.clone(),
            ..link.clone()
        };
        4000
    ];
    large.links_total = 4000;
    large.disks = vec![DiskFacts { model: "m".repeat(1000), ..large.disks[0].clone() }; 1000];
    let talker = NeighbourFacts { system_description: Some("d".repeat(1000)), ..neighbour() };
    large.links[0].neighbours = vec![talker; 100];
    for (field, facts) in [
        ("a text of facts", Facts { hostname: "h".repeat(1000), ..facts() }),
        ("facts", Facts { links: vec![link.clone(); 1000], ..facts() }),
        ("disks", Facts { disks: vec![DiskFacts::default(); 65], ..facts() }),
        (
            "an interface's neighbours",
            Facts { links: vec![LinkFacts { neighbours: vec![neighbour(); 9], ..link.clone() }], ..facts() },
        ),
        (
            "an interface's addresses",
            Facts {
                links: vec![LinkFacts { addresses: large.links[0].addresses.clone(), ..link.clone() }],
                ..facts()
            },
        ),
        (
            "an interface's name",
            Facts { links: vec![LinkFacts { master: Some("m".repeat(1000)), ..link.clone() }], ..facts() },
        ),
    ] {
        assert_eq!(read(facts).unwrap_err(), WireError::Bounds { field });
    }
    fit_facts(&mut large);
    assert!(large.links.len() > 32, "{} links are told", large.links.len());
    let bytes = postcard::to_stdvec(&v1::Up::from(&Up::Facts(Box::new(large.clone())))).unwrap();
    assert!(bytes.len() <= FACTS_MAX, "{} bytes", bytes.len());
    assert_eq!(read(large.clone()).unwrap(), vec![Up::Facts(Box::new(large))]);
}

#[test]
fn too_many_drifts_are_refused_and_the_most_fit_a_packet() {
    let long = drift(DriftState::Missing, &"r".repeat(1000));
    let packet = pack(&[Up::Drift(vec![long.clone(); DRIFTS_MAX])]);
    match read_body::<Up>(packet.unwrap().remove(0).as_bytes()).unwrap().remove(0) {
        Up::Drift(drifts) => assert!(drifts.iter().all(|drift| drift.reason.len() == DRIFT_REASON_MAX)),
        other => panic!("{other:?}"),
    }
    let short = Drift { reason: String::new(), ..long };
    let packet = pack(&[Up::Drift(vec![short; DRIFTS_MAX + 1])]).unwrap().remove(0);
    assert_eq!(read_body::<Up>(packet.as_bytes()), Err(WireError::Bounds { field: "drifts" }));
}

#[test]
fn devices_out_of_bounds_are_refused_and_the_most_fit_a_packet() {
    let read = |devices: Vec<DevicePorts>| {
        let packet = pack(&[Up::Ports(devices)])?.remove(0);
        read_body::<Up>(packet.as_bytes())
    };
    let device = |n: usize, ports: Vec<PortState>| DevicePorts {
        bridge: format!("br-{n:012}").parse().unwrap(),
        up: true,
        ports,
    };
    let port = |n: usize| PortState {
        name: format!("{n:064}").into(),
        up: true,
        beacon: Some(Beacon([0xff; 16])),
        heard: (1..=HEARD_MAX as u8).map(|octet| Beacon([octet; 16])).collect(),
    };
    let mut most: Vec<_> = (0..TOLD_DEVICES_MAX).map(|n| device(n, Vec::new())).collect();
    most[7].ports = (0..TOLD_PORTS_MAX).map(port).collect();
    assert_eq!(read(most.clone()), Ok(vec![Up::Ports(most.clone())]));

    let with = |change: &dyn Fn(&mut PortState)| {
        let mut port = port(1);
        change(&mut port);
        vec![device(1, vec![port])]
    };
    most[8].ports = vec![port(0)];
    for (field, devices) in [
        ("devices", (0..=TOLD_DEVICES_MAX).map(|n| device(n, Vec::new())).collect()),
        ("ports of devices", most),
        ("device", vec![DevicePorts { bridge: "nftables".parse().unwrap(), ..device(1, Vec::new()) }]),
        ("device", vec![DevicePorts { up: false, ..device(1, vec![port(1)]) }]),
        ("port", with(&|port| port.name = "a b".into())),
        ("port", with(&|port| port.name = "".into())),
        ("port", with(&|port| port.name = "a".repeat(65).into())),
        ("port", vec![device(1, vec![port(1), port(1)])]),
        ("port", vec![device(1, vec![port(2), port(1)])]),
        ("beacons", with(&|port| port.heard.push(Beacon([9; 16])))),
        ("beacons", with(&|port| port.heard.reverse())),
        ("beacons", with(&|port| port.heard = vec![Beacon([1; 16]); 2])),
    ] {
        assert_eq!(read(devices.clone()), Err(WireError::Bounds { field }), "{devices:?}");
    }
    assert_eq!(format!("{:?}", Beacon([0xab; 16])), "Beacon(abababab…)", "nobody sends what is in a log");
}

#[test]
fn what_is_packed_is_unpacked() {
    let packets = pack(&downs()).unwrap();
    assert_eq!(packets.len(), 1, "small messages travel together");
    assert_eq!(read_body::<Down>(packets[0].as_bytes()).unwrap(), downs());
    let packets = pack(&ups()).unwrap();
    assert_eq!(read_body::<Up>(packets[0].as_bytes()).unwrap(), ups());
}

#[test]
fn large_batches_are_split_in_order() {
    let many: Vec<Down> = (0..20).map(|i| job(file(Content::Inline(vec![i; 60_000])))).collect();
    let packets = pack(&many).unwrap();
    assert!(packets.len() > 1 && packets.iter().all(|p| p.packet_len() <= MESSAGE_MAX));
    let back: Vec<Down> = packets.iter().flat_map(|p| read_body::<Down>(p.as_bytes()).unwrap()).collect();
    assert_eq!(back, many);
    let huge = job(file(Content::Inline(vec![0; MESSAGE_MAX])));
    assert!(matches!(pack(&[huge]), Err(WireError::TooLarge { .. })));
}

/// The messages of version 1, as hexadecimal: a change here is a change of the protocol.
#[test]
fn golden_bytes() {
    let hex = |bytes: Vec<u8>| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let mut lines = Vec::new();
    for down in downs() {
        lines.push(format!("down {}", hex(postcard::to_stdvec(&v1::Down::from(&down)).unwrap())));
    }
    for up in ups() {
        lines.push(format!("up {}", hex(postcard::to_stdvec(&v1::Up::from(&up)).unwrap())));
    }
    let golden = include_str!("testdata/v1.txt");
    assert_eq!(lines.join("\n"), golden.trim_end(), "the wire format has changed");
}

#[test]
fn bounds_are_kept() {
    let refused = |down: Down| {
        let packet = pack(&[down]).unwrap().remove(0);
        read_body::<Down>(packet.as_bytes()).unwrap_err()
    };
    let with_path = |path: &str| match file(Content::Inline(Vec::new())) {
        Spec::File(file) => job(Spec::File(File { path: path.into(), ..file })),
        _ => unreachable!(),
    };
    for path in
        ["", "etc/motd", "/etc/../motd", "/etc//motd", "/etc/", "/a\0b", &format!("/{}", "a".repeat(5000))]
    {
        assert_eq!(refused(with_path(path)), WireError::Bounds { field: "path" }, "{path:?}");
    }
    for name in ["", "web_1", "web-1.", "a/b", "web\n", &"a".repeat(65)] {
        assert_eq!(refused(job(hostname(name))), WireError::Bounds { field: "hostname" }, "{name:?}");
    }
    let twice = Deployment { steps: vec![deployment().steps.remove(0); 2], ..deployment() };
    let nameless = Deployment { name: String::new(), ..deployment() };
    let long = Deployment { inputs: [("a".to_owned(), "a".repeat(DEPLOYMENT_MAX))].into(), ..deployment() };
    for wrong in [twice, nameless, long] {
        assert_eq!(refused(job(Spec::Deployment(wrong))), WireError::Bounds { field: "deployment" });
    }
    for name in ["", "/UTC", "../etc/shadow", "Europe//Berlin", "a b"] {
        assert_eq!(refused(job(timezone(name))), WireError::Bounds { field: "timezone" }, "{name:?}");
    }
    for key in ["", "kernel", "net/../x.y\n", "a.//.b"] {
        let wrong = Sysctl { key: key.into(), ..sysctl() };
        assert_eq!(refused(job(Spec::Sysctl(wrong))), WireError::Bounds { field: "sysctl" }, "{key:?}");
    }
    for name in ["", "-y", "a b", "nginx-", "a=1"] {
        let wrong = Package { name: name.into(), ..package() };
        assert_eq!(refused(job(Spec::Package(wrong))), WireError::Bounds { field: "package" }, "{name:?}");
    }
    for name in ["", "root", "-r", "a:b", "a\n"] {
        let wrong = User { name: name.into(), ..user() };
        assert_eq!(refused(job(Spec::User(wrong))), WireError::Bounds { field: "user" }, "{name:?}");
        let wrong = Group { name: name.into(), ..group() };
        assert_eq!(refused(job(Spec::Group(wrong))), WireError::Bounds { field: "group" }, "{name:?}");
    }
    let nameless = Unit { name: "web".into(), ..unit() };
    let outside = Unit { drop_ins: [("../a.conf".to_owned(), String::new())].into(), ..unit() };
    for wrong in [nameless, outside] {
        assert_eq!(refused(job(Spec::Unit(wrong))), WireError::Bounds { field: "unit" });
    }
    let content = Content::Stored { digest: ContentDigest([0; 32]), size: u64::MAX };
    assert_eq!(refused(job(file(content))), WireError::Bounds { field: "content" });
    let bytes = vec![0; CHUNK_MAX + 1];
    assert_eq!(
        refused(Down::Chunk { digest: ContentDigest([0; 32]), offset: 0, bytes }),
        WireError::Bounds { field: "chunk" }
    );
    assert_eq!(read_body::<Down>(&[]), Err(WireError::Malformed));
    assert_eq!(read_body::<Down>(&[0, 0]), Err(WireError::Malformed), "a byte too many");
    assert_eq!(read_body::<Down>(&[0]), Ok(Vec::new()));
}

#[test]
fn a_long_reason_is_cut_at_a_character() {
    let reason = "ä".repeat(4000);
    for outcome in [
        Outcome::Failed { reason: reason.clone(), permanent: false },
        Outcome::Differs { missing: false, reason: reason.clone() },
    ] {
        let packet = pack(&[Up::Report(Report { key: key(), outcome })]).unwrap().remove(0);
        match read_body::<Up>(packet.as_bytes()).unwrap().remove(0) {
            Up::Report(Report {
                outcome: Outcome::Failed { reason, .. } | Outcome::Differs { reason, .. },
                ..
            }) => assert_eq!(reason, "ä".repeat(2048)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn no_bytes_panic() {
    let bodies: Vec<Vec<u8>> =
        downs().iter().map(|d| postcard::to_stdvec(&vec![v1::Down::from(d)]).unwrap()).collect();
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for _ in 0..20_000 {
        let mut body = bodies[next() % bodies.len()].clone();
        for _ in 0..=next() % 4 {
            let at = next() % body.len();
            body[at] = next() as u8;
        }
        body.truncate(next() % (body.len() + 1));
        let _ = read_body::<Down>(&body);
        let _ = read_body::<Up>(&body);
    }
}
