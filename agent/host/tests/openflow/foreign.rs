//! Rules of others that have no words of ours: they are counted, shown and left alone.

use muster_shared::model::flow::{Action, Entry, Output};

use crate::rules::{rule, to};
use crate::table::Table;
use crate::{bridge, ofctl, with_switch};

#[test]
fn criteria_of_others_that_nobody_here_knows_hinder_nothing() {
    let server = bridge();
    ofctl(&server, "add-tlv-map", "{class=0xffff,type=0,len=40}->tun_metadata0");
    let long = "0123456789abcdef".repeat(5);
    for (at, criterion) in [
        "dl_type=0x894f,nsh_spi=5".to_owned(),
        "dl_type=0x894f,nsh_c1=0x50/0xf0".to_owned(),
        "icmp6,icmp_type=136,icmp_code=0,nd_reserved=7".to_owned(),
        "tun_metadata0=0x5".to_owned(),
        format!("tun_metadata0=0x{long}"),
        "pkt_mark=4,conj_id=9".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        ofctl(&server, "add-flow", &format!("cookie=0x5,priority={},{criterion},actions=drop", at + 1));
    }
    with_switch(&server, async |switch| {
        let mut table = Table::default();
        let ours = [Entry::Rule(rule(9, &[], &[to("p1")]))];
        table.apply(switch, &ours, &[]).await.unwrap();
        let found = switch.compare(&table).await.unwrap();
        assert!(found.is_equal() && found.foreign == 6, "{found:?}");
        let foreign = switch.foreign(100).await.unwrap();
        assert!(foreign.len() == 6 && foreign.iter().all(|rule| !rule.text.is_empty()), "{foreign:?}");
    });
}

/// A rule of Muster's sends whole packets: one that sends a part of them cannot be said.
#[test]
fn a_foreign_controller_rule_is_shown_if_it_sends_whole_packets() {
    let server = bridge();
    let to_controller = rule(9, &[], &[Action::Output(Output::Controller)]);
    with_switch(&server, async |switch| {
        let mut table = Table::default();
        table.apply(switch, &[Entry::Rule(to_controller.clone())], &[]).await.unwrap();
        assert!(switch.compare(&table).await.unwrap().is_equal());
        let dump = ofctl(&server, "dump-flows", "");
        assert!(dump.contains("actions=CONTROLLER:65535"), "{dump}");
        for (priority, bytes) in [(1, 128), (2, 65535)] {
            let line = format!("cookie=0x5,priority={priority},actions=controller(max_len={bytes})");
            ofctl(&server, "add-flow", &line);
        }
        let mut said: Vec<bool> =
            switch.foreign(100).await.unwrap().iter().map(|rule| rule.entry.is_some()).collect();
        said.sort_unstable();
        assert_eq!(said, [false, true]);
    });
}
