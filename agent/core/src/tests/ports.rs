//! When the controller hears of ports, and of which devices.

use std::time::Duration;

use muster_shared::model::Up;
use muster_shared::model::topology::{Beacon, DevicePorts, PortState, TOLD_DEVICES_MAX, TOLD_PORTS_MAX};

use super::node::Node;
use crate::Input;

const MILLISECOND: Duration = Duration::from_millis(1);

/// A port as `eth0`, `eth0 down`, `eth0 hears 1 2`; with the beacon 9 unless it is `silent`.
fn port(text: &str) -> PortState {
    let words: Vec<&str> = text.split(' ').collect();
    let heard = words.iter().filter_map(|word| word.parse().ok()).map(|octet| Beacon([octet; 16]));
    PortState {
        name: words[0].into(),
        up: !words.contains(&"down"),
        beacon: (!words.contains(&"silent")).then_some(Beacon([9; 16])),
        heard: heard.collect(),
    }
}

fn device(bridge: &str, ports: &[&str]) -> DevicePorts {
    let ports = ports.iter().map(|text| port(text)).collect();
    DevicePorts { bridge: bridge.parse().unwrap(), up: true, ports }
}

fn gone(bridge: &str) -> DevicePorts {
    DevicePorts { up: false, ..device(bridge, &[]) }
}

fn messages(bed: &mut Node) -> Vec<Vec<DevicePorts>> {
    let of = |up| match up {
        Up::Ports(devices) => Some(devices),
        _ => None,
    };
    std::mem::take(&mut bed.sent).into_iter().filter_map(of).collect()
}

fn told(bed: &mut Node) -> Vec<DevicePorts> {
    messages(bed).into_iter().flatten().collect()
}

/// A device that was told, and has rested since.
fn standing(ports: &[&str]) -> Node {
    let mut bed = Node::online();
    bed.input(Input::Ports(vec![device("br0", ports)]));
    assert_eq!(told(&mut bed), [device("br0", ports)]);
    bed.after(Duration::from_secs(10));
    assert_eq!(told(&mut bed), []);
    bed
}

fn connect_anew(bed: &mut Node) {
    bed.input(Input::Disconnected { reason: "lost".into() });
    bed.after(Duration::from_secs(300));
    bed.greet();
}

#[test]
fn what_ends_is_told_at_once_and_what_comes_a_moment_later() {
    let cases: [(&[&str], &[&str], &str); 16] = [
        (&["eth0"], &["eth0 down"], "at once"),
        (&["eth0"], &[], "at once"),
        (&["eth0", "eth1"], &["eth1"], "at once"),
        (&["eth0 1"], &["eth0"], "at once"),
        (&["eth0 1"], &["eth0 2"], "at once"),
        (&["eth0 1"], &["eth0 1 2"], "at once"),
        (&["eth0 1 2"], &["eth0 1"], "at once"),
        (&["eth0", "eth1 down"], &["eth0 down", "eth1"], "at once"),
        (&["eth0"], &["eth0 silent"], "at once"),
        (&["eth0 down"], &["eth0"], "later"),
        (&["eth0"], &["eth0 1"], "later"),
        (&["eth0 silent"], &["eth0"], "later"),
        (&["eth0"], &["eth0", "eth1"], "later"),
        (&["eth0", "eth1 down"], &["eth0"], "later"),
        (&["eth0 down"], &["eth0 down silent"], "later"),
        (&["eth0 1"], &["eth0 1"], "never"),
    ];
    for (before, after, when) in cases {
        let mut bed = standing(before);
        bed.input(Input::Ports(vec![device("br0", after)]));
        let at_once = told(&mut bed);
        bed.after(49 * MILLISECOND);
        assert_eq!(told(&mut bed), []);
        bed.after(MILLISECOND);
        let later = told(&mut bed);
        let wanted = vec![device("br0", after)];
        let (now, then) = match when {
            "at once" => (wanted, Vec::new()),
            "later" => (Vec::new(), wanted),
            _ => (Vec::new(), Vec::new()),
        };
        assert_eq!((at_once, later), (now, then), "{before:?} to {after:?}");
        bed.after(Duration::from_secs(60));
        assert_eq!(told(&mut bed), [], "{before:?} to {after:?}: it is told once");
    }
}

#[test]
fn what_went_back_to_what_was_told_is_not_told() {
    let mut bed = standing(&["eth0 down"]);
    bed.input(Input::Ports(vec![device("br0", &["eth0"])]));
    bed.after(20 * MILLISECOND);
    bed.input(Input::Ports(vec![device("br0", &["eth0 down"])]));
    bed.after(Duration::from_secs(1));
    assert_eq!(told(&mut bed), []);
}

#[test]
fn all_are_told_after_each_greeting_also_those_that_went() {
    let mut bed = Node::online();
    bed.input(Input::Disconnected { reason: "lost".into() });
    bed.input(Input::Ports(vec![device("br0", &["eth0"]), device("br1", &[]), gone("br9")]));
    bed.input(Input::Ports(vec![gone("br1")]));
    assert_eq!(told(&mut bed), [], "nobody listens");
    connect_anew(&mut bed);
    assert_eq!(told(&mut bed), [device("br0", &["eth0"]), gone("br1")]);
    bed.after(Duration::from_secs(300));
    assert_eq!(told(&mut bed), []);
    bed.input(Input::Ports(vec![device("br1", &["eth1"])]));
    bed.after(Duration::from_secs(1));
    assert_eq!(told(&mut bed), [device("br1", &["eth1"])], "it came back");
    connect_anew(&mut bed);
    assert_eq!(told(&mut bed), [device("br0", &["eth0"]), device("br1", &["eth1"])]);
}

/// Nothing wakes an agent without devices, nor one whose devices rest.
#[test]
fn nothing_is_due_where_nothing_changes() {
    let mut bed = Node::online();
    bed.after(Duration::from_secs(5));
    let due = |bed: &Node| bed.agent.poll_timeout().filter(|(_, why)| *why == "ports");
    assert_eq!(due(&bed), None);
    bed.input(Input::Ports(vec![device("br0", &["eth0 down"])]));
    assert_eq!(due(&bed), None);
    bed.after(Duration::from_secs(5));
    bed.input(Input::Ports(vec![device("br0", &["eth0"])]));
    assert_eq!(due(&bed), Some((bed.now + 50 * MILLISECOND, "ports")));
}

#[test]
fn a_port_that_flaps_is_told_to_be_down() {
    let mut bed = standing(&["eth0"]);
    for _ in 0..1000 {
        bed.input(Input::Ports(vec![device("br0", &["eth0 down"])]));
        bed.after(20 * MILLISECOND);
        bed.input(Input::Ports(vec![device("br0", &["eth0"])]));
        bed.after(20 * MILLISECOND);
    }
    assert_eq!(told(&mut bed), [device("br0", &["eth0 down"])]);
    bed.after(Duration::from_secs(1));
    assert_eq!(told(&mut bed), [device("br0", &["eth0"])], "it stays");
}

#[test]
fn ports_that_end_one_by_one_do_not_fill_the_line() {
    let names: Vec<String> = (0..1990).map(|n| format!("p{n:05}")).collect();
    let ports = |down: usize| -> Vec<String> {
        let state = |(n, name): (usize, &String)| format!("{name}{}", if n < down { " down" } else { "" });
        names.iter().enumerate().map(state).collect()
    };
    let after = |down: usize| {
        let ports = ports(down);
        device("br0", &ports.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let mut bed = Node::online();
    bed.input(Input::Ports(vec![after(0)]));
    bed.after(Duration::from_secs(60));
    told(&mut bed);
    let mut messages = 0;
    for down in 1..=1990 {
        bed.input(Input::Ports(vec![after(down)]));
        bed.after(MILLISECOND);
        messages += told(&mut bed).len();
    }
    assert!((40..80).contains(&messages), "{messages} messages in two seconds");
    bed.after(100 * MILLISECOND);
    assert!(told(&mut bed) == [after(1990)], "how it ends is told");
}

#[test]
fn many_are_told_in_messages_that_fit() {
    let mut bed = Node::online();
    let names: Vec<String> = (0..TOLD_PORTS_MAX).map(|n| format!("p{n:05}")).collect();
    let ports: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut devices: Vec<_> = (0..TOLD_DEVICES_MAX).map(|n| device(&format!("br{n:03}"), &[])).collect();
    devices[1] = device("br001", &ports);
    devices[3] = device("br003", &ports[1..]);
    devices[5] = device("br005", &["a"]);
    devices[6] = device("br006", &["a"]);
    bed.input(Input::Ports(devices.clone()));
    let messages = messages(&mut bed);
    let sizes: Vec<_> = messages.iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 3, TOLD_DEVICES_MAX - 6]);
    assert_eq!(messages.concat(), devices);
}

#[test]
fn one_that_went_makes_room_for_one_that_came() {
    let mut bed = Node::online();
    let devices: Vec<_> = (0..TOLD_DEVICES_MAX).map(|n| device(&format!("br{n:03}"), &[])).collect();
    bed.input(Input::Ports(devices));
    bed.input(Input::Ports(vec![device("new", &[])]));
    told(&mut bed);
    bed.input(Input::Ports(vec![gone("br007")]));
    bed.input(Input::Ports(vec![device("new", &[])]));
    assert_eq!(told(&mut bed), [gone("br007"), device("new", &[])]);
    connect_anew(&mut bed);
    assert_eq!(told(&mut bed).len(), TOLD_DEVICES_MAX);
}
