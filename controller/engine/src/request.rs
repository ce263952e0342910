//! What operators ask of the engine, and what they are told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_api::node::LostView;
use muster_api::site::Verdict;
use muster_api::stack::RolloutAction;
use muster_flow::FlowWrite;
use muster_intent::manager::Wish;
use muster_shared::join::TokenSecret;
use muster_shared::model::Facts;
use muster_shared::model::flow::{DeviceName, FlowId};
use muster_shared::seal::SealPublic;
use muster_shared::{NodeId, Rate, StackName};
use muster_template::{Environment, EnvironmentFile, ForeignPolicy, Hook, Policies, StackNames, Tree};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::signal::Signal;

/// A parsed and bound template with the text it came from.
#[derive(Clone)]
pub struct Source {
    /// Parsed, with values for its parameters.
    pub tree: Arc<Tree>,
    /// What its environments say of resources.
    pub policies: Policies,
    /// What is kept with the revision.
    pub text: Arc<SourceText>,
}

impl Source {
    /// The content of a stack that is to be empty.
    pub fn nothing() -> Self {
        let text = SourceText {
            name: "nothing".into(),
            template: "heat_template_version: 2018-08-31\n".into(),
            ..SourceText::default()
        };
        Self::parse(text).expect("a valid template without parameters")
    }

    /// Parses and binds what was taken before, when its size was checked.
    ///
    /// # Errors
    /// Every error of the template, its environments or its parameters, with its place.
    pub fn parse(text: SourceText) -> Result<Self, muster_template::Errors> {
        Self::parse_within(text, usize::MAX)
    }

    /// Parses and binds what an operator sent, a template of at most `text_max` bytes.
    ///
    /// # Errors
    /// Every error of the template, its environments or its parameters, with its place.
    pub fn parse_within(text: SourceText, text_max: usize) -> Result<Self, muster_template::Errors> {
        let environment = Environment::parse(text.environments.iter().map(EnvironmentText::file))?;
        environment.check_files(&text.files)?;
        let template = {
            let maps = |kind: &str| environment.maps(kind);
            muster_template::parse_in(&text.name, &text.template, &text.files, text_max, &maps)?
        };
        let parameters = template.bind_with(&environment, &text.parameters)?;
        let tree = Tree::new(Arc::new(template), Arc::new(parameters), &environment, &text.files)?;
        Ok(Self { tree: Arc::new(tree), policies: environment.policies().clone(), text: Arc::new(text) })
    }

    /// The same as it is in this stack: its name and id are known then, and so is what its conditions leave of it.
    ///
    /// # Errors
    /// Of conditions, and where what they choose needs itself.
    pub(crate) fn of_stack(self, name: &StackName, id: &str) -> Result<Self, muster_template::Errors> {
        if !self.tree.asks_for_stack() {
            return Ok(self);
        }
        let names = StackNames { name: name.to_string(), id: id.to_owned() };
        let tree = self.tree.of_stack(names)?;
        Ok(Self { tree: Arc::new(tree), ..self })
    }
}

/// What an operator sent; kept as it is with the revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceText {
    /// The file's name, for error places.
    pub name: String,
    pub template: String,
    /// What the template and its environments name, by key (see [`muster_template::library`]).
    pub files: BTreeMap<String, String>,
    /// Parameter values as given, defaults not filled in.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Environments, in the order given: a later one goes over an earlier one.
    #[serde(default)]
    pub environments: Vec<EnvironmentText>,
}

/// An environment as an operator sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentText {
    /// The file's name, for error places.
    pub name: String,
    /// The key among the files, for the templates it names are relative to it; the name where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What is in it.
    pub text: String,
}

impl EnvironmentText {
    /// As it is read.
    pub fn file(&self) -> EnvironmentFile<'_> {
        EnvironmentFile { name: &self.name, key: self.key.as_ref().unwrap_or(&self.name), text: &self.text }
    }
}

/// How an operation is to be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Roll back when it fails.
    pub rollback: bool,
    /// Refuse, rather than wait for, nodes that have never joined or were revoked.
    pub require_nodes: bool,
    /// Take away what is no longer wanted before anything new is made.
    pub delete_first: bool,
    /// Every resource gets a job, also one that is as it was asked for: its agent looks, and puts right what differs.
    pub converge: bool,
    /// The stack is FAILED when it has not ended by then.
    pub timeout: Duration,
    /// Refuse a `for_each` whose selector means more nodes.
    pub max_nodes: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rollback: false,
            require_nodes: false,
            delete_first: false,
            converge: false,
            timeout: Duration::from_secs(3600),
            max_nodes: None,
        }
    }
}

pub enum Request {
    Create {
        name: StackName,
        /// What it is to be.
        source: Source,
        options: Options,
    },
    /// A new revision of a stack.
    Update {
        name: StackName,
        /// What it is to become.
        source: Source,
        options: Options,
    },
    /// Takes everything of a stack away, then the stack.
    Delete { name: StackName },
    /// A new revision with the content of an older one.
    Rollback {
        name: StackName,
        /// Which; by default the last good one before the current.
        to: Option<u32>,
    },
    /// Compares what is there with what a stack wants; changes nothing.
    Check { name: StackName },
    /// The next update makes another thing in place of this one.
    Unhealthy {
        stack: StackName,
        /// The resource's name in the template.
        resource: String,
    },
    /// Nothing more of what is being done with a stack begins.
    Cancel { name: StackName },
    /// Pauses a rollout, or has it go on, hurry or end.
    Rollout {
        name: StackName,
        action: RolloutAction,
        /// The resource with the `for_each`; all of the stack if absent.
        resource: Option<String>,
    },
    /// Lets a resource that waits at a hook go on.
    ClearHook {
        stack: StackName,
        /// The name; all rows of that name.
        resource: String,
        hook: Hook,
    },
    /// Tells a wait condition's handle something.
    Signal { stack: StackName, resource: String, signal: Signal },
    /// A join token.
    NewToken {
        token: NewToken,
        /// The controller's clock, in seconds since 1970: tokens that have expired by it are dropped.
        wall: u64,
    },
    /// No more joining with it.
    RevokeToken { id: [u8; 8] },
    /// A server wants to become a node.
    Join(JoinAsk),
    /// Changes a node's labels.
    LabelNode {
        node: NodeId,
        /// Those to be set, and those to go (none).
        labels: BTreeMap<String, Option<String>>,
    },
    /// What a node is, as it says when it is asked.
    Facts { node: NodeId },
    /// While a node is in maintenance it gets no jobs; what is on it is looked at all the same.
    Maintenance {
        node: NodeId,
        /// From now on, or not any more.
        on: bool,
    },
    /// Cuts a node off: no connection and no job until it joins again, with a token for its name.
    RevokeNode { node: NodeId },
    /// Rules for devices, in stages: the next begins when all devices of this one have theirs.
    ApplyFlows {
        /// What each does; a device at most once in a stage.
        stages: Vec<Vec<FlowWrite>>,
        /// Seconds until a change that could cut a node off is taken back; none: not guarded.
        confirm_timeout: Option<u32>,
    },
    /// Takes rules off a device.
    DeleteFlows {
        device: DeviceName,
        ids: Vec<FlowId>,
        /// As in [`Request::ApplyFlows`].
        confirm_timeout: Option<u32>,
    },
    /// Takes all rules that operators own off a device.
    PurgeFlows {
        device: DeviceName,
        /// The table alone: what is on the device is left there.
        forget: bool,
        /// As in [`Request::ApplyFlows`].
        confirm_timeout: Option<u32>,
    },
    /// Compares a device with its table now, and puts right what differs.
    ReconcileFlows {
        device: DeviceName,
        /// What becomes of rules that are not ours, from now on.
        foreign: Option<ForeignPolicy>,
    },
    /// Reads the counters of a device: [`crate::Engine::flow_stats`] has them then.
    FlowStats { device: DeviceName },
    /// Reads the counters of those devices whose were not read for long; answered at once.
    SampleFlows,
    /// Reads a device's rules that are not ours: [`crate::Engine::flow_rows`] has them then.
    ForeignFlows { device: DeviceName },
    /// Intents, each under its key; in place of those that have the keys.
    SubmitIntents {
        /// No key twice.
        intents: Vec<(Box<str>, Wish)>,
    },
    /// Nothing of these intents is to be left on devices.
    WithdrawIntents { keys: Vec<Box<str>> },
    /// These intents are to be forgotten.
    PurgeIntents { keys: Vec<Box<str>> },
    /// An operator decides about what a restored store does not know: all that is named, or nothing.
    Restored {
        /// What becomes of it.
        verdict: Verdict,
        /// As [`Engine::held_views`](crate::Engine::held_views) names them; none: all that is listed.
        ids: Option<Vec<String>>,
        /// Only what is on this node.
        node: Option<NodeId>,
    },
    /// A node is gone for ever: what may be on it is lost, and cleaned up first should it come back.
    RemoveNode { node: NodeId },
}

/// What a join token allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewToken {
    /// Random, made by the caller.
    pub id: [u8; 8],
    /// [`TokenSecret::digest`]; the secret itself is not kept.
    pub secret_hash: [u8; 32],
    /// Unix seconds.
    pub expires: u64,
    /// How many nodes may join with it.
    pub uses: u32,
    /// A name or a pattern with `*`; any name if absent.
    pub name: Option<String>,
    /// The labels a joined node gets.
    pub labels: BTreeMap<String, String>,
    /// How fast they may join; as fast as they come if absent.
    pub rate: Option<Rate>,
}

/// A server that wants to join.
#[derive(Clone, Debug)]
pub struct JoinAsk {
    /// Of the token.
    pub token_id: [u8; 8],
    /// Of the token.
    pub secret: TokenSecret,
    /// The name asked for.
    pub name: NodeId,
    /// The server's sealing key.
    pub seal_public: SealPublic,
    pub agent_version: String,
    /// Unix seconds, the controller's.
    pub wall: u64,
}

/// What an operator is told once it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An operation on a stack has begun.
    Stack {
        name: StackName,
        id: u64,
        /// The walk that carries the operation out.
        traversal: u64,
        /// The revision it goes to; 0 for nothing.
        revision: u32,
        /// What deserves attention but hinders nothing.
        warnings: Vec<String>,
    },
    /// Done, nothing more to say.
    Done,
    /// A signal is taken.
    Signalled {
        /// The id, told or counted.
        id: String,
        /// It took the place of an earlier one.
        again: bool,
        /// How many the handle has.
        signals: usize,
    },
    /// The node is durable: its certificate may be issued.
    Joined { node: NodeId },
    /// What a node is.
    Facts {
        node: NodeId,
        /// How long ago it said so.
        age: Duration,
        facts: Arc<Facts>,
    },
    /// An operation on flow tables has begun.
    Flows {
        operation: u64,
        /// Entries in all its stages.
        rules: u64,
        devices: u64,
        /// What deserves attention but hinders nothing.
        warnings: Vec<String>,
    },
    /// Intents were asked for, or are to go.
    Intents {
        keys: Vec<Box<str>>,
        /// What deserves attention but hinders nothing.
        warnings: Vec<String>,
    },
    /// The node is no more.
    NodeRemoved {
        node: NodeId,
        /// What may be left on it, by stack and name; of very many the first.
        lost: Vec<LostView>,
        /// How many there are.
        lost_total: u64,
    },
}

/// The reason why an operator's wish was not taken. Nothing has changed.
#[derive(Clone, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    #[error("{0}")]
    NotFound(String),
    /// It contradicts what is there.
    #[error("{0}")]
    Conflict(String),
    /// The wish itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// Nothing can be written at present.
    #[error("{0}")]
    Unavailable(String),
    /// Not yet: it may be asked again.
    #[error("{why}")]
    Later {
        /// For the operator.
        why: String,
        /// After so long.
        after: Duration,
    },
}

impl Refusal {
    pub(crate) fn map(self, text: impl Fn(String) -> String) -> Self {
        match self {
            Refusal::NotFound(why) => Refusal::NotFound(text(why)),
            Refusal::Conflict(why) => Refusal::Conflict(text(why)),
            Refusal::Invalid(why) => Refusal::Invalid(text(why)),
            Refusal::Unavailable(why) => Refusal::Unavailable(text(why)),
            Refusal::Later { why, after } => Refusal::Later { why: text(why), after },
        }
    }
}
