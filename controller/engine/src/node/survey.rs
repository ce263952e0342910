//! Surveys of nodes: the configuration of a server that others have configured, as resources of a template that takes
//! it over and changes nothing.
//!
//! ```text
//!   survey ─▶ refused: the node is away, or its agent too old
//!     └─────▶ Survey is sent ─┬─ Surveyed ──▶ answered with resources
//!                             └─ disconnected, or no word for long ──▶ refused
//! ```
//!
//! Requests that come meanwhile wait for the same answer. It is in memory alone.
//!
//! Absent: what an agent looks at (`agent/src/host/survey.rs`), and the operation that takes the server over
//! (`Options::adopt` in `request.rs`).

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::node::{SurveyView, SurveyedResource};
use muster_shared::model::network::NetworkDocument;
use muster_shared::model::{Down, Spec, Survey};
use muster_shared::property::CONFIRM_TIMEOUT;
use muster_shared::wire::{READS_ADOPT, agent_that_reads};
use muster_shared::{MonoTime, NodeId};
use serde_json::{Map, Value, json};

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::request::{Answer, Refusal};
use crate::timer::TimerKey;

/// An agent looks at thousands of routes and accounts within seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Requests that wait for one agent.
const ASKING_MAX: usize = 16;

/// Requests that wait for a survey of a node.
#[derive(Debug, Default)]
pub(crate) struct SurveyRequests {
    requests: Vec<u64>,
    until: MonoTime,
}

impl SurveyRequests {
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

impl Graph {
    /// Asks the agent. The answer comes when it has looked.
    pub(crate) fn survey(&mut self, name: &NodeId, request: u64) -> Result<(), Refusal> {
        let key = self.joined(name)?;
        let node = &self.nodes[key];
        if !node.presence.is_ready() {
            return Err(Refusal::Conflict(format!(
                "node '{name}' is not connected, and its agent looks: see 'muster node show {name}' for its state"
            )));
        }
        if let Some(why) = self.cannot_adopt(key) {
            return Err(Refusal::Conflict(why));
        }
        if node.surveys.requests.len() >= ASKING_MAX {
            let why = format!("{ASKING_MAX} requests wait for a survey of {name}, which is the limit");
            return Err(Refusal::Later { why, after: Duration::from_secs(1) });
        }
        if node.surveys.is_empty() {
            let until = self.ctx.now + ANSWER_WITHIN;
            self.nodes[key].surveys.until = until;
            self.ctx.timers.set(until, TimerKey::Survey(key));
            self.send(key, Down::Survey);
        }
        self.nodes[key].surveys.requests.push(request);
        Ok(())
    }

    /// The agent's answer.
    pub(crate) fn surveyed(&mut self, key: NodeKey, survey: Survey) {
        // Without a request, the answer is not built: it may be large.
        if !self.nodes[key].surveys.is_empty() {
            let view = view(&self.nodes[key].name, survey);
            self.answer_surveys(key, &Ok(Answer::Surveyed(Box::new(view))));
        }
    }

    /// The connection on which the agent was asked has ended.
    pub(crate) fn survey_cut_off(&mut self, key: NodeKey) {
        let name = &self.nodes[key].name;
        let why = format!("node '{name}' was disconnected while its agent looked: try again when it is back");
        self.answer_surveys(key, &Err(Refusal::Conflict(why)));
    }

    /// The requests have waited long enough.
    pub(crate) fn survey_due(&mut self, key: NodeKey) {
        let name = &self.nodes[key].name;
        let seconds = ANSWER_WITHIN.as_secs();
        let why = format!("the agent of node '{name}' has not answered within {seconds} s: look at its log");
        self.answer_surveys(key, &Err(Refusal::Conflict(why)));
    }

    fn answer_surveys(&mut self, key: NodeKey, answer: &Result<Answer, Refusal>) {
        let SurveyRequests { requests, until } = std::mem::take(&mut self.nodes[key].surveys);
        if !requests.is_empty() {
            self.ctx.timers.clear(until, TimerKey::Survey(key));
        }
        for request in requests {
            self.answer(request, answer.clone());
        }
    }

    /// The reason why the agent of a connected node is too old to adopt anything.
    pub(crate) fn cannot_adopt(&self, key: NodeKey) -> Option<String> {
        let node = &self.nodes[key];
        if node.reads >= READS_ADOPT {
            return None;
        }
        let has = node.joined.as_ref().map_or("an older version", |joined| &joined.agent_version);
        let needs = agent_that_reads(READS_ADOPT);
        Some(format!("{} runs muster-agent {has}, an adoption needs {needs}: upgrade the agent", node.name))
    }
}

/// A resource for each state, named for its type and its object.
fn view(node: &NodeId, survey: Survey) -> SurveyView {
    let Survey { mut specs, mut left_out } = survey;
    let told = specs.len();
    specs.retain(is_expected);
    if specs.len() < told {
        left_out.push(format!("{} resources that no agent reports", told - specs.len()));
    }
    let mut names = BTreeSet::new();
    let mut resources: Vec<SurveyedResource> = Vec::new();
    for spec in &specs {
        let name = unused(resource_name(word_of(spec).unwrap_or_default(), spec), &mut names);
        let mut properties: Map<String, Value> = spec.properties();
        // A property with its default says nothing.
        properties.retain(|key, value| {
            let is_default = key == "on_delete" && value == "restore"
                || key == "mapping" && *value == json!({})
                || key == "confirm_timeout" && *value == json!(CONFIRM_TIMEOUT)
                || key == "system" && *value == json!(false);
            !is_default
        });
        properties.insert("node".to_owned(), json!(node));
        let depends_on = groups_of(spec, &specs, &resources);
        resources.push(SurveyedResource {
            name,
            r#type: spec.type_name().to_owned(),
            properties,
            depends_on,
        });
    }
    SurveyView { name: node.to_string(), resources, left_out }
}

/// Whether a template may have such a state of a node. A document with functions of templates would read files of the
/// operator who sends the template; a user with a password or keys is more than agents report.
fn is_expected(spec: &Spec) -> bool {
    match spec {
        Spec::Network(config) => NetworkDocument::from_json(&config.document).is_ok(),
        Spec::User(user) => user.password_hash.is_none() && user.authorized_keys.is_none(),
        Spec::Dummy(_)
        | Spec::File(_)
        | Spec::Hostname(_)
        | Spec::Deployment(_)
        | Spec::Unit(_)
        | Spec::Sysctl(_)
        | Spec::Package(_)
        | Spec::Group(_)
        | Spec::Timezone(_) => word_of(spec).is_some(),
    }
}

/// Returns the beginning of a resource's name. `None`: agents report no such type.
fn word_of(spec: &Spec) -> Option<&'static str> {
    match spec {
        Spec::Network(_) => Some("network"),
        Spec::Hostname(_) => Some("hostname"),
        Spec::Timezone(_) => Some("timezone"),
        Spec::User(_) => Some("user"),
        Spec::Group(_) => Some("group"),
        Spec::Dummy(_)
        | Spec::File(_)
        | Spec::Deployment(_)
        | Spec::Unit(_)
        | Spec::Sysctl(_)
        | Spec::Package(_) => None,
    }
}

/// The resources of the groups that a user is in, so that they are made first where they are made again.
fn groups_of(spec: &Spec, specs: &[Spec], resources: &[SurveyedResource]) -> Vec<String> {
    let Spec::User(user) = spec else { return Vec::new() };
    let wanted: BTreeSet<&String> = user.group.iter().chain(user.groups.iter().flatten()).collect();
    let is_wanted = |spec: &Spec| matches!(spec, Spec::Group(group) if wanted.contains(&group.name));
    let of = specs.iter().zip(resources).filter(|(spec, _)| is_wanted(spec));
    of.map(|(_, resource)| resource.name.clone()).collect()
}

/// `network`, `hostname`, `user_anna`: the type in words, and the name of the object where there are several.
fn resource_name(word: &str, spec: &Spec) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    if !matches!(spec, Spec::User(_) | Spec::Group(_)) {
        return word.to_owned();
    }
    format!("{word}_{}", spec.key().chars().map(fits).collect::<String>())
}

/// The name, with a number where it is taken.
fn unused(name: String, names: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name));
    let free = free.unwrap_or(name);
    names.insert(free.clone());
    free
}
