//! Software deployments: their config, and the attributes of their run.
//!
//! A config is looked up in the deployment's own stack, including nested ones. So the stack's
//! hidden values are masked in it, and a change of the config reaches the deployment through the graph.
//!
//! Absent: whether a change runs a deployment again or replaces it (`row/needed.rs`), and the run on the server
//! (`agent/src/host/deployment.rs`).

use muster_shared::ResourceId;
use muster_shared::model::{DEPLOY_STATUS_CODE, DEPLOY_STDERR, DEPLOY_STDOUT, Spec};
use muster_template::{Desired, Site, SoftwareConfig, VirtualResource};
use serde_json::Value;

use crate::graph::Graph;
use crate::record::{PackedSpec, Status};
use crate::row::Row;
use crate::stack::Stack;

/// Inputs of a deployment besides its properties.
pub(crate) struct Deployed<'a> {
    pub stack: &'a Stack,
    pub resource: &'a str,
    pub config: &'a dyn Fn(&str) -> Result<SoftwareConfig, String>,
}

impl Site for Deployed<'_> {
    fn config(&self, id: &str) -> Result<SoftwareConfig, String> {
        (self.config)(id)
    }

    fn stack(&self) -> String {
        format!("{}/{}", self.stack.name, self.stack.id)
    }

    fn resource(&self) -> &str {
        self.resource.rsplit_once('/').map_or(self.resource, |(_, own)| own)
    }
}

impl Graph {
    /// The software config with this id in a stack, as applied.
    pub(crate) fn config(&self, stack: u64, id: &str) -> Result<SoftwareConfig, String> {
        let physical = uuid::Uuid::parse_str(id).ok().map(ResourceId);
        let slot = physical.and_then(|id| self.rows.of_thing(&id));
        let row = slot.map(|slot| &self.rows[slot]).filter(|row| row.stack == stack);
        let Some(row) = row else {
            let shown: String = id.chars().take(64).collect();
            return Err(format!(
                "there is no software config '{shown}' in this stack: want get_resource of an OS::Heat::SoftwareConfig"
            ));
        };
        if !row.is_applied() {
            return Err(format!("the software config '{}' is not there yet: depend on it", row.name));
        }
        match row.spec().map(PackedSpec::unpack) {
            Some(Desired::Virtual(VirtualResource::Config(config))) => Ok(config),
            _ => Err(format!("'{}' is an {}, and no software config", row.name, row.type_name())),
        }
    }
}

/// An attribute that a run reported.
pub(crate) fn attribute(name: &str, value: &str) -> Value {
    match name {
        DEPLOY_STATUS_CODE => value.parse::<i64>().map_or_else(|_| value.into(), Value::from),
        _ => value.into(),
    }
}

/// An attribute that a run did not report: null, as in Heat, if its config declares it.
pub(crate) fn attribute_of(row: &Row, name: &str) -> Option<Value> {
    if row.status() != Some(Status::Complete) || !row.is_applied() {
        return None;
    }
    if let Desired::Node(Spec::Deployment(deployment)) = row.spec()?.unpack() {
        let own = [DEPLOY_STATUS_CODE, DEPLOY_STDERR, DEPLOY_STDOUT].contains(&name);
        let declared = deployment.outputs.iter().any(|output| output.name == name);
        return (own || declared).then_some(Value::Null);
    }
    // Group os-net-config: if the network is not as configured, the deployment has failed.
    Some(match name {
        DEPLOY_STATUS_CODE => Value::from(0),
        DEPLOY_STDOUT | DEPLOY_STDERR => Value::from(""),
        _ => Value::Null,
    })
}
