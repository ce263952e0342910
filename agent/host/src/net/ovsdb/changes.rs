//! Signals that the switch's configuration changed. The caller reads it again.

use std::path::Path;

use serde_json::json;

use super::Result;
use super::rpc::Rpc;

/// A monitor of the columns that documents affect. Counters and health columns are left out: the switch
/// writes them every few seconds.
pub(in super::super) struct Changes(Rpc);

impl Changes {
    /// Connects to `socket`.
    pub async fn open(socket: &Path) -> Result<Self> {
        let mut rpc = Rpc::connect(socket).await?;
        let of = |columns: &[&str]| json!({"columns": columns, "select": {"initial": false}});
        let tables = json!({
            "Open_vSwitch": of(&["bridges"]),
            "Bridge": of(&["name", "ports", "datapath_type", "other_config", "external_ids", "fail_mode"]),
            "Port": of(&["name", "interfaces", "tag", "trunks", "vlan_mode", "bond_mode", "external_ids"]),
            "Interface": of(&["name", "type", "options", "mtu_request", "error"]),
        });
        rpc.call("monitor", json!(["Open_vSwitch", "muster-watch", tables])).await?;
        Ok(Self(rpc))
    }

    /// Waits for the next change; an error means that the connection is lost.
    pub async fn next(&mut self) -> Result<()> {
        while self.0.receive().await?["method"] != "update" {}
        Ok(())
    }
}
