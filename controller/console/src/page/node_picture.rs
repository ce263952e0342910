//! The network of a node as a picture: its interfaces, what each is part of or lies on, their addresses, and the
//! neighbours at the other ends of its cables.
//!
//! Absent: where boxes go (`muster_picture::drawing`).

use std::collections::BTreeMap;

use muster_api::intent::TopologyView;
use muster_api::node::LinkFactsView;
use muster_picture::drawing::{Drawing, Line, Look, Shape};
use muster_picture::words::{count, printable};

/// Interfaces that every node has, and that say nothing.
const DULL: [&str; 3] = ["lo", "ovs-system", "ovs-netdev"];

const UP: Look =
    Look { fill: "#d7efd6", stroke: "#2e7d32", is_dashed: false, is_wide: false, has_arrow: false };
const DOWN: Look =
    Look { fill: "#f2f2f2", stroke: "#757575", is_dashed: true, is_wide: false, has_arrow: false };
const OTHER: Look =
    Look { fill: "#cfe4fb", stroke: "#1565c0", is_dashed: false, is_wide: false, has_arrow: false };
const PART: Look = Look { fill: "", stroke: "#78909c", is_dashed: false, is_wide: false, has_arrow: false };
const CABLE: Look = Look { fill: "", stroke: "#1565c0", is_dashed: false, is_wide: true, has_arrow: false };

/// An SVG document.
pub fn of(node: &str, links: &[LinkFactsView], network: &TopologyView) -> String {
    let links: Vec<&LinkFactsView> = links.iter().filter(|link| !DULL.contains(&&*link.name)).collect();
    let index: BTreeMap<&str, usize> = links.iter().enumerate().map(|(n, link)| (&*link.name, n)).collect();
    let mut boxes: Vec<Shape> = links.iter().map(|link| interface(link)).collect();
    let mut lines = Vec::new();
    let part =
        |from: usize, to: usize, words: String| Line { from, to, tooltip: printable(&words), look: PART };
    // An older agent sends neither. There the name of a VLAN says what it lies on.
    let are_known = links.iter().any(|link| link.master.is_some() || link.lower.is_some());
    for (n, link) in links.iter().enumerate() {
        let lower = link.lower.as_deref().or_else(|| vlan_of(link).filter(|_| !are_known));
        if let Some(below) = lower.and_then(|below| index.get(below)) {
            lines.push(part(*below, n, format!("{} lies on {}", link.name, links[*below].name)));
        }
        if let Some(master) = link.master.as_deref().and_then(|master| index.get(master)) {
            lines.push(part(n, *master, format!("{} is a member of {}", link.name, links[*master].name)));
        }
        for other in &link.neighbours {
            let name = other.system_name.as_deref().unwrap_or(&other.chassis_id);
            let text = vec![name.to_owned(), format!("port {}", other.port_id), "heard over LLDP".to_owned()];
            boxes.push(shape(text, OTHER));
            lines.push(Line { from: boxes.len() - 1, to: n, tooltip: "a cable".to_owned(), look: CABLE });
        }
    }
    for device in network.devices.iter().filter(|device| device.device.split('/').next() == Some(node)) {
        let bridge = device.device.split('/').nth(1).unwrap_or_default();
        let at = index.get(bridge).copied().unwrap_or_else(|| {
            boxes.push(shape(vec![bridge.to_owned(), "Open vSwitch".to_owned()], OTHER));
            boxes.len() - 1
        });
        for port in &device.ports {
            if let Some(n) = index.get(&*port.name).filter(|n| **n != at) {
                lines.push(part(*n, at, format!("{} is a member of {bridge}", port.name)));
            }
        }
    }
    let legend = [
        (UP, "an interface that is up"),
        (DOWN, "an interface that is down"),
        (OTHER, "a neighbour, or a bridge of Open vSwitch"),
        (PART, "is a member of, or lies on"),
        (CABLE, "a cable"),
    ];
    let drawing = Drawing {
        title: format!("{}: {}", printable(node), count(links.len() as u64, "interface")),
        nouns: ["interfaces", "lines"],
        boxes,
        lines,
        legend: legend.map(|(look, words)| (look, words.to_owned())).to_vec(),
    };
    drawing.svg()
}

fn interface(link: &LinkFactsView) -> Shape {
    let kind = if link.kind.is_empty() { &link.driver } else { &link.kind };
    let first = match link.addresses.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [one, rest @ ..] => format!("{one} and {} more", rest.len()),
    };
    let text = vec![link.name.clone(), format!("{kind} MTU {}", link.mtu).trim_start().to_owned(), first];
    let look = if link.up && link.carrier { UP } else { DOWN };
    let mut shape = shape(text, look);
    shape.tooltip = printable(&format!("{}\n{}", link.name, link.addresses.join("\n")));
    shape
}

fn shape(text: Vec<String>, look: Look) -> Shape {
    let text: Vec<String> = text.iter().map(|line| printable(line)).collect();
    Shape { tooltip: text.join("\n"), text, look, urgency: 0 }
}

/// `bond0` of `bond0.10`
fn vlan_of(link: &LinkFactsView) -> Option<&str> {
    if link.kind == "vlan" { link.name.rsplit_once('.').map(|(below, _)| below) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, kind: &str) -> LinkFactsView {
        LinkFactsView { name: name.into(), kind: kind.into(), ..LinkFactsView::default() }
    }

    fn lines(links: &[LinkFactsView]) -> Vec<String> {
        let svg = of("web-1", links, &TopologyView::default());
        let said = |title: &str| title.contains(" lies on ") || title.contains(" is a member of ");
        let titles = svg.split("<title>").skip(1).filter_map(|rest| rest.split("</title>").next());
        titles.filter(|title| said(title)).map(str::to_owned).collect()
    }

    #[test]
    fn members_and_what_lies_on_others_are_tied_to_them() {
        let links = [
            LinkFactsView { master: Some("bond0".into()), ..link("eth0", "") },
            LinkFactsView { master: Some("ovs-system".into()), ..link("eth1", "") },
            link("ovs-system", "openvswitch"),
            link("bond0", "bond"),
            LinkFactsView {
                lower: Some("bond0".into()),
                master: Some("br0".into()),
                ..link("storage", "vlan")
            },
            link("br0", "bridge"),
            // The link below it is in another namespace.
            link("eth0.5", "vlan"),
        ];
        let wanted = ["eth0 is a member of bond0", "storage lies on bond0", "storage is a member of br0"];
        assert_eq!(lines(&links), wanted);
    }

    #[test]
    fn a_vlan_of_an_older_agent_is_named_after_what_it_lies_on() {
        let links = [link("bond0", "bond"), link("bond0.10", "vlan"), link("eth0.5", "vlan")];
        assert_eq!(lines(&links), ["bond0.10 lies on bond0"]);
    }
}
