//! **Strays**: resources that an agent holds and the controller's store has no row for, with enough detail
//! for an operator to decide about them.
//!
//! Absent: which resources are strays (`controller/engine/src/node/ledger_compare.rs`), and how an agent is asked
//! about them (`controller/engine/src/restored/strays.rs`).

use serde::{Deserialize, Serialize};

use super::Spec;
use crate::{Generation, ResourceId};

/// The most resources in one [`Down::Describe`](super::Down::Describe): with the longest names the answer is
/// half a packet.
pub const DESCRIBED_MAX: usize = 256;
/// The most bytes of a stray's name: it is for reading. A longer one is cut.
pub const STRAY_NAME_MAX: usize = 512;

/// A resource of an agent's ledger. Never contains content, inputs or secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    pub resource: ResourceId,
    /// The generation of the last good state.
    pub generation: Generation,
    /// The type as templates name it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name by which an operator finds the object on the server: its path, unit, package or links. May
    /// be empty.
    pub name: String,
    /// Whether the agent can delete it by its own ledger, which does not have the script that a deployment
    /// runs on delete.
    pub is_removable: bool,
}

impl Stray {
    /// The description of a resource in the ledger.
    pub fn new(resource: ResourceId, generation: Generation, spec: &Spec) -> Self {
        let mut name = spec.key().into_owned();
        name.truncate(name.floor_char_boundary(STRAY_NAME_MAX));
        let (kind, is_removable) = (spec.type_name().to_owned(), spec.is_removable());
        Self { resource, generation, kind, name, is_removable }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{
        Content, Deployment, DeploymentAction, DeploymentGroup, DeploymentStep, File, NetworkConfig,
        OnDelete, OnInterrupt,
    };

    fn told(spec: &Spec) -> (String, String, bool) {
        let stray = Stray::new(ResourceId(uuid::Uuid::from_u128(1)), Generation::default(), spec);
        (stray.kind, stray.name, stray.is_removable)
    }

    fn file(path: String) -> Spec {
        let content = Content::Inline(b"secret".to_vec());
        let on_delete = OnDelete::Restore;
        Spec::File(File { path, content, mode: 0o600, owner: None, group: None, on_delete })
    }

    fn deployment(actions: Vec<DeploymentAction>) -> Spec {
        let config = Content::Inline(b"secret".to_vec());
        Spec::Deployment(Deployment {
            name: "setup".into(),
            steps: vec![DeploymentStep { actions, group: DeploymentGroup::Script, config }],
            inputs: [("key".to_owned(), "secret".to_owned())].into(),
            replace_on: Default::default(),
            outputs: Vec::new(),
            timeout: 1,
            on_interrupt: OnInterrupt::Fail,
        })
    }

    #[test]
    fn a_stray_is_told_by_what_operators_know_it_by() {
        let network = Spec::Network(NetworkConfig {
            document: r#"[{"type": "ovs_bridge", "name": "br-ex", "dns_servers": ["192.0.2.1"], "members": [{"name": "nic1"}]}]"#
                .into(),
            mapping: BTreeMap::from([("nic1".to_owned(), "eth1".to_owned())]),
            confirm_timeout: 60,
            on_delete: OnDelete::Restore,
        });
        let rows = [
            (file("/etc/motd".into()), ("Muster::File", "/etc/motd", true)),
            (network, ("Muster::NetworkConfig", "br-ex, eth1", true)),
            (deployment(vec![DeploymentAction::Create]), ("OS::Heat::SoftwareDeployment", "setup", true)),
            (
                deployment(vec![DeploymentAction::Create, DeploymentAction::Delete]),
                ("OS::Heat::SoftwareDeployment", "setup", false),
            ),
        ];
        for (spec, (kind, name, is_removable)) in rows {
            assert_eq!(told(&spec), (kind.to_owned(), name.to_owned(), is_removable));
        }
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let (_, name, _) = told(&file(format!("/{}", "ä".repeat(STRAY_NAME_MAX))));
        assert_eq!(name.len(), STRAY_NAME_MAX - 1);
    }
}
