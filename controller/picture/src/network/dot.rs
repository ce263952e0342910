//! The network in Graphviz's language: `muster topology show -o dot | neato -Tpdf`.

use std::fmt::Write;

use super::{COLOURS, Picture};
use crate::stack::dot::quoted;

/// The whole document.
pub fn document(picture: &Picture) -> String {
    let mut out = String::from(
        "// Grey: a link, dashed where nothing passes. In colour: the way of an intent, or of a packet.\n",
    );
    let mut line = |text: String| writeln!(out, "{text}").expect("writing to a String does not fail");
    line("digraph topology {".to_owned());
    line(format!(
        "  graph [layout=neato, overlap=false, splines=true, label={}, labelloc=t, fontname=\"sans-serif\"];",
        quoted(&picture.title)
    ));
    line("  node [shape=box, style=\"rounded,filled\", fillcolor=\"#f2f2f2\", fontname=\"sans-serif\", fontsize=11];".to_owned());
    line("  edge [color=\"#78909c\", fontname=\"sans-serif\", fontsize=8];".to_owned());
    for device in &picture.devices {
        let dashed = if device.state == "up" { "" } else { ", style=\"rounded,filled,dashed\"" };
        line(format!("  {} [tooltip={}{dashed}];", quoted(&device.name), quoted(device.state)));
    }
    let name = |index: usize| quoted(&picture.devices[index].name);
    for cable in &picture.cables {
        let both = if cable.both { ", dir=none" } else { "" };
        let down = if cable.up { "" } else { ", style=dashed, color=\"#b71c1c\"" };
        line(format!(
            "  {} -> {} [taillabel={}, headlabel={}, tooltip={}{both}{down}];",
            name(cable.from),
            name(cable.to),
            quoted(&cable.ports.0),
            quoted(&cable.ports.1),
            quoted(&cable.about.join("; ")),
        ));
    }
    for (way, colour) in picture.ways.iter().zip(COLOURS) {
        line(format!("  // {}", quoted(&way.legend)));
        for (cable, back) in &way.hops {
            let cable = &picture.cables[*cable];
            let (from, to) = if *back { (cable.to, cable.from) } else { (cable.from, cable.to) };
            line(format!(
                "  {} -> {} [color=\"{colour}\", penwidth=2, tooltip={}];",
                name(from),
                name(to),
                quoted(&way.name)
            ));
        }
    }
    line("}".to_owned());
    out
}
