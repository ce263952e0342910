//! Deployed servers: the node that a name in a template stands for.
//!
//! Absent: rows that wait for a server to join (`node/awaited.rs`), and the node that a short name means
//! (`Nodes::full_name`, `node.rs`).

use std::collections::BTreeSet;

use muster_shared::NodeId;
use muster_template::{Desired, Kind, VirtualResource};

use crate::node::awaited::is_called;
use crate::record::PackedSpec;
use crate::row::{Role, Row, Slot, TaskState};
use crate::todo::Todo;
use crate::traversals::Traversals;

impl Traversals {
    /// The name of a deployed server that is not bound to a node.
    fn name_of_unknown(&self, slot: Slot) -> Option<NodeId> {
        let row = self.jobs.graph.rows.get(slot).filter(|row| row.kind == Kind::DeployedServer)?;
        let Desired::Virtual(VirtualResource::Server(name)) = row.spec()?.unpack() else { return None };
        Some(name)
    }

    /// Lets a deployed server without a node wait for one.
    pub(crate) fn look_for_server(&mut self, slot: Slot) {
        match self.name_of_unknown(slot) {
            // Stores from before nodes were bound have such rows.
            Some(name) if self.jobs.graph.nodes.is_joined(&name) => self.bind(slot, name),
            name => self.awaited.server(slot, name),
        }
    }

    /// Binds the deployed server to this node.
    fn bind(&mut self, slot: Slot, node: NodeId) {
        self.awaited.server(slot, None);
        let bound = PackedSpec::new(&Desired::Virtual(VirtualResource::Bound(node)));
        self.jobs.graph.rows[slot].bind(bound);
        self.jobs.graph.row_changed(slot, true);
    }

    /// A node has joined. Binds the deployed servers that waited for its name, and decides again
    /// about rows that wait for a node of its short name.
    pub(crate) fn name_the_unnamed(&mut self, joined: &NodeId) {
        for slot in self.awaited.servers(joined) {
            let Some(name) = self.name_of_unknown(slot) else {
                self.awaited.server(slot, None);
                continue;
            };
            // Several nodes have that short name. An operator has to say which one is meant.
            let Ok(Some(full)) = self.jobs.graph.nodes.full_name(&name) else { continue };
            self.bind(slot, full.clone());
            if full == name {
                continue; // rows that wait for it have the right name
            }
            let row = &self.jobs.graph.rows[slot];
            let (stack, told) = (row.stack, format!("{}: the server {name} is {full}", row.name));
            self.jobs.graph.note(stack, told);
            self.decide_again_for(slot, &name);
        }
    }

    /// Visits rows whose unsent jobs name a server by its short name, or that need the server itself.
    fn decide_again_for(&mut self, server: Slot, short: &NodeId) {
        let row = &self.jobs.graph.rows[server];
        let (id, index) = (row.stack, row.index as usize);
        let Some(stack) = self.jobs.graph.stacks.get(&id) else { return };
        let Some(walk) = stack.walk.as_ref().filter(|_| row.role != Role::Cleanup) else { return };
        let direct = walk.needed_by(index).iter().map(|index| stack.forward[*index as usize]);
        let nodes = &self.jobs.graph.nodes;
        let line = nodes.find(short).into_iter().flat_map(|key| &nodes[key].queue).copied();
        let waits = |slot: &Slot| {
            let row = &self.jobs.graph.rows[*slot];
            let away = row.task().is_some_and(|task| task.state == TaskState::NodeAway);
            row.stack == id && !row.ready && away
        };
        let waiting: BTreeSet<Slot> = direct.chain(line).filter(waits).collect();
        self.jobs.graph.ctx.agenda.extend(waiting.into_iter().map(Todo::Visit));
    }

    /// Binds a server with a short name in a spec. A row keeps the node that it was bound to first,
    /// even if that node is removed or others join, as long as the template's name can mean it.
    pub(crate) fn bind_server(&self, row: Option<&Row>, spec: &mut Desired) -> Result<(), String> {
        let Desired::Virtual(server) = spec else { return Ok(()) };
        let VirtualResource::Server(name) = server else { return Ok(()) };
        let bound = row.and_then(|row| self.bound_server(row)).filter(|node| is_called(node, name));
        let node = match bound {
            Some(node) => Some(node),
            None => self.jobs.graph.nodes.full_name(name)?,
        };
        if let Some(node) = node {
            *server = VirtualResource::Bound(node);
        }
        Ok(())
    }

    /// The node that a row, or the row that it replaces, is bound to.
    fn bound_server(&self, row: &Row) -> Option<NodeId> {
        let replaced = || self.jobs.graph.rows.get(self.jobs.graph.rows.of_id(row.replaces?)?)?.spec();
        let spec = row.spec().or_else(replaced)?.unpack();
        let Desired::Virtual(VirtualResource::Bound(node)) = spec else { return None };
        Some(node)
    }
}
