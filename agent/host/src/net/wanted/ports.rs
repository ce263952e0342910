//! Ports of Open vSwitch without a link of the kernel, single settings there, and what a document removes.

use std::collections::BTreeSet;

use muster_shared::model::network::{NetworkDocument, Object, ObjectKind, OvsPlace, OvsTable, OvsValue};
use serde_json::{Value, json};

use super::super::snapshot::Snapshot;
use super::super::state::{Attach, OvsPort, State};
use super::{LinkKind, LinkTarget, Origin, PortTarget, Target, Wanted};

impl Target {
    pub(super) fn add_port(
        &mut self,
        object: &Object,
        bridge: String,
        kind: Option<&str>,
        before: &Snapshot,
    ) {
        let name = object.name.as_str();
        let interfaces: Vec<&str> = match &object.kind {
            ObjectKind::OvsBond { members } => members.iter().map(|member| member.name.as_str()).collect(),
            _ => vec![name],
        };
        let port = PortTarget {
            path: object.path.clone(),
            bridge,
            row: OvsPort::of(&interfaces, kind, object.tag),
            may_replace: matches!(before.ports.get(name), Some(None)) || self.removed.contains_key(name),
        };
        self.ports.insert(name.to_owned(), Some(port));
    }

    /// Removes what the document removes and does not make again.
    pub(super) fn remove(&mut self, document: &NetworkDocument, state: &State) {
        for removal in &document.removals {
            let name = removal.name.to_string();
            let in_switch = state.ovs.as_ref().is_some_and(|ovs| ovs.port(&name).is_some());
            let is_link = state.links.contains_key(&name) || state.ovs_bridge(&name).is_some();
            if self.links.contains_key(&name) || self.ports.contains_key(&name) {
                continue;
            }
            if !is_link && in_switch {
                self.ports.insert(name.clone(), None);
            }
            if is_link && removal.kind == "interface" {
                let wanted = LinkTarget {
                    path: removal.path.clone(),
                    origin: Origin::Document,
                    kind: LinkKind::Existing,
                    may_replace: false,
                    attach: Attach::None,
                    port: None,
                    up: Some(false),
                    mtu: None,
                    mac: None,
                    addresses: Vec::new(),
                    routes: Vec::new(),
                    dhcp: None,
                };
                self.links.insert(name, Wanted::Present(Box::new(wanted)));
            } else {
                self.links.insert(name, Wanted::Absent);
            }
        }
    }
}

/// A bridge's MAC address, which the plan looks after.
pub(super) fn is_hwaddr(place: &OvsPlace) -> bool {
    place.table == OvsTable::Bridge
        && place.column == "other_config"
        && place.key.as_deref() == Some("hwaddr")
}

/// The value in the database's form; `None` for the value of an unset column.
pub(super) fn in_database(value: &OvsValue) -> Option<Value> {
    fn set<T: Clone + Into<Value>>(items: &BTreeSet<T>) -> Option<Value> {
        let items: Vec<Value> = items.iter().cloned().map(Into::into).collect();
        match items.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            _ => Some(json!(["set", items])),
        }
    }
    match value {
        OvsValue::Text(text) => Some(json!(text)),
        OvsValue::Number(number) => Some(json!(number)).filter(|_| *number != 0),
        OvsValue::Bool(on) => on.then(|| json!(true)),
        OvsValue::Texts(texts) => set(texts),
        OvsValue::Numbers(numbers) => set(numbers),
    }
}
