//! HOT templates: parse, validate, bind parameters, render.
//!
//! A template is read once, straight from YAML events into expressions ([`parse`]); JSON is YAML. Parsing
//! finds all errors that do not depend on values, many at once, with file, line, column and path.
//! [`Template::bind`] checks parameters, [`Template::render`] turns one resource's properties into a value
//! with the help of [`References`], and [`types::spec`] turns that value into the model's desired state.
//!
//! Absent on purpose: stacks, rows, files (their contents come with the call), clocks.

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod address;
mod bind;
mod build;
mod check_properties;
mod config;
mod desired;
mod digest;
mod document;
mod drift_policy;
mod environment;
mod error;
mod expression;
mod fact;
pub mod files;
mod flow_file;
mod for_each;
mod function;
mod function_list;
mod intent_file;
mod json_schema;
mod lint;
mod mapping;
mod masking;
mod named;
mod ownership;
mod packet;
mod parameter;
mod parameter_groups;
mod parse;
mod pyyaml_leniency;
mod render;
mod resolve;
mod rollout;
mod scalar;
mod selector;
mod source;
mod template;
mod text;
mod tree;
pub mod types;
pub mod validate;
mod version;
mod virtual_resource;
mod yaql;

pub use address::{FixedIp, Net, Port, Subnet};
pub use bind::{Facade, Parameters, StackNames, must_be_given};
pub use config::{
    ComponentPart, ConfigAction, ConfigBody, ConfigGroup, ConfigInput, HookGroup, SoftwareConfig,
};
pub use desired::{Desired, FlowSet, ForeignPolicy};
pub use digest::names_digest;
pub use document::document;
pub use drift_policy::DriftPolicy;
pub use environment::{Environment, EnvironmentFile};
pub use error::{Error, Errors, suggestion};
pub use fact::{FACTS, fact, fact_at, facts_by_name};
pub use flow_file::{FlowFile, FlowLimits, FlowPart, FlowStage};
pub use function_list::{Function, functions};
pub use hooks::{Hook, Policies, Policy, Restriction};
pub use intent_file::{IntentFile, IntentLimits, point_json, wish_json};
pub use json_schema::template_schema;
pub use lint::{Finding, FindingKind, lint};
pub use mapping::{EntryId, Mapping};
pub use masking::{MASK, Secrets};
pub use packet::packet;
pub use parameter::{ParameterDef, ParameterType};
pub use parse::{parse, parse_file, parse_in, parse_within, referenced_files};
pub use render::{References, RenderError, Unresolved};
pub use rollout::{Away, Rollout, Share};
pub use selector::{FACT_PREFIX, Selector, is_label};
pub use template::{Output, ParameterGroup, Resource, Template};
pub use text::json;
pub use tree::{CurrentResources, NoResources, Pause, Removed, Set, Tree};
pub use types::{
    AttributeSchema, ConstraintSchema, Kind, PropertyError, PropertySchema, SIGNALS_MAX, Site, TypeSchema,
    check_values, node, spec, spec_within,
};
pub use version::Version;
pub use virtual_resource::{
    RandomString, TestResource, TestTimes, TopologyHost, TopologyLink, VirtualResource, WaitCondition,
};

/// Bounds on what a template may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Limits;

impl Limits {
    /// Bytes of a template's text, unless the caller allows more: 100,000 resources are 9 MB.
    pub const TEXT: usize = 16 * 1024 * 1024;
    /// Nesting of maps and lists. People write about ten levels; every walk recurses this deep at most.
    pub const DEPTH: usize = 64;
    /// Nodes and bytes of text that aliases may copy, in all: a few bytes of YAML can ask for 2^60.
    pub const ALIASED: usize = 1_000_000;
    /// The most errors reported at once: more than anyone corrects before the next try.
    pub const ERRORS: usize = 20;
    /// The most bytes of one resource's rendered properties: nested `str_replace` could make any amount.
    pub const RENDERED: usize = 64 * 1024 * 1024;
    /// The most bytes of template times params that one `str_replace` searches: about a second.
    pub const SEARCHED: usize = 1 << 30;
    /// The most conditions of a template: each may refer to all others.
    pub const CONDITIONS: usize = 1000;
    /// The most items that one `repeat` makes: three lists could make any number.
    pub const REPEATED: usize = 1_000_000;
    /// The most bytes of a compiled regular expression: a short one could need any amount.
    pub const REGEX: usize = 256 * 1024;
    /// The most bytes of a pattern with look-around or back references, whose plain parts are compiled one
    /// by one.
    pub const LOOKING: usize = 256;
    /// The most steps back of such a pattern on a value; each may look at all of the value, so they take
    /// about a tenth of a second.
    pub const LOOKING_STEPS: usize = 100_000;
    /// The most bytes of a value that such a pattern is matched against.
    pub const LOOKED_AT: usize = 1024;
    /// The most patterns among the constraints of a template: each is kept compiled.
    pub const ALLOWED_PATTERNS: usize = 200;
    /// The most steps of one `yaql` expression: about a second.
    pub const STEPS: usize = 2_000_000;
    /// The most environments of one stack: each is read completely.
    pub const ENVIRONMENTS: usize = 100;
    /// The most patterns in the environments of one stack: each resource is matched against all of them.
    pub const PATTERNS: usize = 1000;
    /// The most files of one stack: TripleO's largest deployments name about 800.
    pub const FILES: usize = 1000;
    /// The longest chain of mapped types: people write two.
    pub const CHAIN: usize = 20;
    /// The deepest nesting of stacks, groups and chains; Heat allows five.
    pub const NESTED: usize = 10;
    /// The most resources of a stack with all nested ones.
    pub const RESOURCES: usize = 2_000_000;
    /// The most dependencies of all resources: each resource in a nested stack has the dependencies of
    /// that stack.
    pub const NEEDS: usize = 20_000_000;
    /// The most stacks that a value passes through: each is a level of recursion.
    pub const PASSED: usize = 40;
    /// The most members of one group.
    pub const COUNT: u64 = 1_000_000;
    /// The most characters of a parameter's or resource's name, as in Heat.
    pub const NAME: usize = 255;
}

mod existence;
mod hooks;
#[cfg(test)]
mod tests;
