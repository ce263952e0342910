//! Held things and tables of a restored site, as operators see them.

use muster_api::site::HeldView;
use muster_flow::TableDifference;
use muster_shared::model::Stray;
use muster_shared::{NodeId, ResourceId};

use crate::record::type_text;
use crate::restored::{Divergence, HeldThing};
use crate::view::View;

impl View<'_> {
    /// Things and tables that wait for a decision, by node.
    pub fn held_views(&self, node: Option<&NodeId>) -> Vec<HeldView> {
        let of_it = |name: &NodeId| node.is_none_or(|node| node == name);
        let things = self.graph.restored.things().filter(|(node, _, _)| of_it(node));
        let things = things.map(|(node, thing, held)| self.thing_view(node, thing, held));
        let tables = self.graph.restored.tables().filter(|(node, _, _)| of_it(node));
        let mut views: Vec<HeldView> = things
            .chain(tables.map(|(node, bridge, held)| table_view(node, &format!("{node}/{bridge}"), held)))
            .collect();
        views.sort_by(|a, b| (&a.node, &a.id).cmp(&(&b.node, &b.id)));
        views
    }

    fn thing_view(&self, node: &NodeId, thing: ResourceId, held: HeldThing) -> HeldView {
        let slot = self.graph.rows.of_thing(&thing).filter(|_| held.unlike != Divergence::Unknown);
        let row = slot.map(|slot| &self.graph.rows[slot]);
        let stray = self.graph.restored.stray(node, thing).filter(|_| row.is_none());
        let (state, reason) = match held.unlike {
            Divergence::Unknown => ("unknown", self.why_unknown(node, stray)),
            Divergence::Newer => ("newer", "it was changed since the backup"),
            Divergence::Deleted => ("deleted", "it seems to have been deleted since the backup"),
        };
        let stack = row.and_then(|row| self.graph.stacks.get(&row.stack)).map(|stack| stack.name.to_string());
        HeldView {
            id: thing.to_string(),
            node: node.clone(),
            state: state.to_owned(),
            kind: row
                .map(|row| type_text(row.kind, row.details().type_name.as_deref()).into_owned())
                .or_else(|| stray.map(|stray| stray.kind.clone())),
            thing: stray.map(|stray| stray.name.clone()).filter(|name| !name.is_empty()),
            stack,
            resource: row.map(|row| row.name.to_string()),
            rules: None,
            reason: reason.to_owned(),
        }
    }

    fn why_unknown(&self, node: &NodeId, stray: Option<&Stray>) -> &'static str {
        match stray {
            Some(stray) if stray.is_removable => "the store has no row of it",
            Some(_) => "the store has no row of it, and nobody has what it runs when it is deleted: adopt it",
            None if self.graph.tells_no_strays(node) => {
                "the store has no row of it, and the agent is too old to say what it is"
            }
            None => "the store has no row of it, and the node has yet to say what it is",
        }
    }
}

fn table_view(node: &NodeId, device: &str, held: &TableDifference) -> HeldView {
    let counts = [
        (held.unknown.len(), "that the store does not know"),
        (held.newer.len(), "changed"),
        (held.deleted.len(), "deleted"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    HeldView {
        id: device.to_owned(),
        node: node.clone(),
        state: "table".to_owned(),
        kind: None,
        thing: None,
        stack: None,
        resource: None,
        rules: Some(held.len()),
        reason: format!("rules since the backup: {}", counts.collect::<Vec<_>>().join(", ")),
    }
}
