//! Attributes of resources: the value that `get_attr` gives to another resource or an output now.
//!
//! Absent: the value of `get_resource` (`Row::reference`, `traversal/virtual_resource.rs`), and facts of a
//! node (`node/facts.rs`).

use muster_template::{Kind, References, Unresolved};
use serde_json::Value;

use crate::address::AS_JSON;
use crate::deployment;
use crate::drift::unit_trigger::unmarked;
use crate::graph::Graph;
use crate::row::Row;
use crate::stack::Stack;

/// The attribute of a group with the names that it has removed, as in Heat.
const REMOVED: &str = "removed_rsrc_list";

/// The resources that another one refers to, by their rows.
pub(crate) struct Rendered<'a> {
    pub graph: &'a Graph,
    pub stack: &'a Stack,
}

impl References for Rendered<'_> {
    fn resource_id(&self, index: u32) -> Option<String> {
        let slot = self.stack.forward.get(index as usize)?;
        Some(self.graph.rows[*slot].reference())
    }

    fn is_ready(&self, index: u32) -> bool {
        self.stack.forward.get(index as usize).is_some_and(|slot| self.graph.rows[*slot].ready)
    }

    fn attribute(&self, index: u32, name: &str) -> Option<Value> {
        self.graph.attribute(&self.graph.rows[*self.stack.forward.get(index as usize)?], name)
    }

    fn of_node(&self, node: &str, path: &[String]) -> Result<Option<Value>, Unresolved> {
        self.graph.fact_in_scope(self.stack, node).map_err(Unresolved::Wrong)?;
        self.graph.of_node(node, path).map_err(Unresolved::Wrong)
    }
}

impl Graph {
    /// The present value of a row's attribute.
    pub(crate) fn attribute(&self, row: &Row, name: &str) -> Option<Value> {
        if row.kind == Kind::WaitCondition && name == "data" {
            return self.signal_data(row);
        }
        if let Some(removed) = row.removed().filter(|_| name == REMOVED) {
            let names: Vec<&str> = removed.keys().map(String::as_str).collect();
            return Some(Value::String(names.join(",")));
        }
        if let Some(value) = row.attributes.get(name) {
            if row.kind == Kind::Port && AS_JSON.contains(&name) {
                return serde_json::from_str(value).ok();
            }
            if row.kind.is_deployment() {
                return Some(deployment::attribute(name, value));
            }
            return Some(Value::String(value.clone()));
        }
        if row.kind.is_deployment() {
            return deployment::attribute_of(row, name);
        }
        unmarked(row.spec()?.unpack()).attribute(name)
    }
}
