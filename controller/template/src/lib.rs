//! HOT templates: parse, validate, bind parameters, render.
//!
//! A template is read once, straight from YAML events into expressions ([`parse`]); JSON is YAML. What can be
//! known to be wrong without values is found there, with file, line, column and path, many errors at once.
//! [`Template::bind`] checks parameters, [`Template::render`] turns one resource's properties into a value with
//! the help of [`References`], and [`types::spec`] turns that value into the model's desired state.
//!
//! Absent on purpose: stacks, rows, files (their contents come with the call), clocks.

mod address;
mod bind;
mod build;
mod catalogue;
mod check;
mod config;
mod desired;
mod digest;
mod drift_policy;
mod environment;
mod error;
mod expression;
mod fact;
mod flow_file;
mod function;
mod intent_file;
pub mod library;
mod merge;
mod named;
mod ownership;
mod parameter;
mod parse;
mod registry;
mod render;
mod resolve;
mod rollout;
mod scalar;
mod secrets;
mod sections;
mod selector;
mod sets;
mod template;
mod text;
mod tree;
pub mod types;
mod version;
mod virtual_resource;
mod yaql;

pub use address::{FixedIp, Net, Port, Subnet};
pub use bind::{Facade, Parameters, StackNames, must_be_given};
pub use catalogue::{Function, functions};
pub use config::{ComponentPart, ConfigAction, ConfigBody, ConfigGroup, ConfigInput, SoftwareConfig};
pub use desired::{Desired, FlowSet, ForeignPolicy};
pub use digest::names_digest;
pub use drift_policy::DriftPolicy;
pub use environment::{Environment, EnvironmentFile};
pub use error::{Error, Errors, suggestion};
pub use fact::{FACTS, fact, fact_at};
pub use flow_file::{FlowFile, FlowLimits, FlowPart, FlowStage};
pub use hooks::{Hook, Policies, Policy, Restriction};
pub use intent_file::{IntentFile, IntentLimits, point_json, wish_json};
pub use parameter::{ParameterDef, ParameterType};
pub use parse::{parse, parse_file, parse_in, parse_within, referenced_files};
pub use registry::{EntryId, Mapping};
pub use render::{References, RenderError, Unresolved};
pub use rollout::{Away, Rollout, Share};
pub use secrets::{MASK, Secrets};
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
    /// Errors reported at once: more than anyone corrects before the next try.
    pub const ERRORS: usize = 20;
    /// Bytes of one resource's rendered properties: nested `str_replace` can ask for any amount.
    pub const RENDERED: usize = 64 * 1024 * 1024;
    /// Bytes of template times params that one `str_replace` looks through: about a second.
    pub const SEARCHED: usize = 1 << 30;
    /// Conditions of a template: each may refer to all others.
    pub const CONDITIONS: usize = 1000;
    /// Items that one `repeat` makes: three lists can ask for any number.
    pub const REPEATED: usize = 1_000_000;
    /// Bytes of a compiled regular expression: one of a few characters can ask for any amount.
    pub const REGEX: usize = 256 * 1024;
    /// Bytes of a pattern that looks around or back, whose plain parts are compiled one by one.
    pub const LOOKING: usize = 256;
    /// Steps back that it may take on a value; each may look at all of the value, so they are about a tenth of a second.
    pub const LOOKING_STEPS: usize = 100_000;
    /// Bytes of a value that it is held against.
    pub const LOOKED_AT: usize = 1024;
    /// Patterns among the constraints of a template: each is kept compiled.
    pub const ALLOWED_PATTERNS: usize = 200;
    /// Steps of one `yaql` expression: about a second.
    pub const STEPS: usize = 2_000_000;
    /// Environments of one stack: each is read whole.
    pub const ENVIRONMENTS: usize = 100;
    /// Patterns in the environments of one stack: each resource is held against all of them.
    pub const PATTERNS: usize = 1000;
    /// Files of one stack: TripleO's largest deployments name about 800.
    pub const FILES: usize = 1000;
    /// Types that stand for types, one after the other: people write two.
    pub const CHAIN: usize = 20;
    /// Stacks, groups and chains in each other; Heat allows five.
    pub const NESTED: usize = 10;
    /// Resources of a stack with all that is nested in it.
    pub const RESOURCES: usize = 2_000_000;
    /// Needs of all of them: those of a nested stack are those of each resource in it.
    pub const NEEDS: usize = 20_000_000;
    /// Stacks that a value passes through on its way: each is a level of the walk that finds it.
    pub const PASSED: usize = 40;
    /// Members of one group.
    pub const COUNT: u64 = 1_000_000;
    /// Characters of a parameter's or resource's name, as in Heat.
    pub const NAME: usize = 255;
}

mod condition;
mod hooks;
#[cfg(test)]
mod tests;
