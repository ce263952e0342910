//! A config for a program of the server, as a step of group [`Hook`](super::DeploymentGroup::Hook) carries it: JSON.
//!
//! The agent completes it with what only a run has (id, action, time), and gives it to the program in the form of
//! heat-agents.
//!
//! Absent: that form and the program's answer (`agent/src/host/deployment/hook.rs`, `agent/host/src/run/answer.rs`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The type of inputs and outputs that declare none, as in Heat.
pub const INPUT_TYPE: &str = "String";

/// The input of a hook, as far as the template says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookConfig {
    /// The group as the template has it: the program's name.
    pub group: String,
    /// A text, or a document.
    pub config: Value,
    pub options: Map<String, Value>,
    pub inputs: Vec<HookInput>,
}

/// An input of a hook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookInput {
    pub name: String,
    /// The type, as Heat names it. A value of type [`INPUT_TYPE`] is a text.
    #[serde(rename = "type")]
    pub kind: String,
    pub value: Value,
}

impl HookConfig {
    /// The bytes for a step.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a step's bytes. `None`: they are no config for a hook.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_are_read_back_and_others_are_refused() {
        let input = HookInput { name: "n".into(), kind: "Json".into(), value: json!({"a": [1, null]}) };
        let options = [("tags".to_owned(), json!("t"))].into_iter().collect();
        let config =
            HookConfig { group: "ansible".into(), config: json!("- x"), options, inputs: vec![input] };
        assert_eq!(HookConfig::read(&config.to_bytes()), Some(config));
        for bytes in [&b""[..], b"{}", b"[]", b"\xff", b"#!/bin/sh"] {
            assert_eq!(HookConfig::read(bytes), None, "{bytes:?}");
        }
    }
}
