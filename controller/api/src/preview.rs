//! What an update would do, as JSON.
//!
//! Absent: the comparison itself (`controller/engine/src/operation/preview.rs`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `stack preview -o json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PreviewView {
    /// Resources that change, by name; then up to 1000 that do not.
    pub resources: Vec<PreviewRow>,
    /// The number of resources for each change.
    pub counts: BTreeMap<String, u64>,
    /// Warnings, which hinder nothing.
    pub warnings: Vec<String>,
}

/// The future of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PreviewRow {
    /// The resource's name in the template.
    pub name: String,
    /// Muster::File, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The present or future node; empty where any node will do.
    pub node: String,
    /// create, adopt, update, replace, delete or unchanged.
    pub change: String,
    /// The environment forbids that: the resource would fail.
    pub restricted: bool,
    /// delete or retain: what its clean-up does with the thing.
    pub deletion_policy: String,
    /// The properties that differ.
    pub properties: Vec<PropertyView>,
}

/// A property that differs; hidden values are masked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PropertyView {
    /// Such as `content` or `values.a`.
    pub path: String,
    /// As it was applied last; null: not given.
    pub old: Value,
    /// As it will be; null: not given, or not known before another resource is made.
    pub new: Value,
    /// `new` is not known before another resource is made.
    pub unknown: bool,
}
