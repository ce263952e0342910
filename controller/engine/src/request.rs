//! Requests of operators, answers and refusals, as types. The options of an operation have their
//! defaults here.
//!
//! Absent: what each request does (`Engine::request` in `router.rs` names the function).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_api::node::{LostView, SurveyView};
use muster_api::site::Verdict;
use muster_api::stack::RolloutAction;
use muster_api::trace::{IntentProof, TraceView};
use muster_api::user::{NodeLabel, Role, Scope};
use muster_flow::FlowWrite;
use muster_intent::manager::Wish;
use muster_intent::topology::ConnectPoint;
use muster_shared::join::{JoinToken, TokenSecret};
use muster_shared::model::Facts;
use muster_shared::model::flow::{DeviceName, FlowId, Packet};
use muster_shared::seal::SealPublic;
use muster_shared::{NodeId, Rate, StackName};
use muster_template::{Environment, EnvironmentFile, ForeignPolicy, Hook, Policies, StackNames, Tree};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::record::{LoginRecord, UserRecord};
use crate::traversal::signal::Signal;

/// A parsed and bound template, and its text.
#[derive(Clone)]
pub struct Source {
    /// Parsed, with values for its parameters.
    pub tree: Arc<Tree>,
    /// Policies in its environments.
    pub policies: Policies,
    /// The text that the revision keeps.
    pub text: Arc<SourceText>,
}

impl Source {
    /// The source of an empty stack.
    pub fn nothing() -> Self {
        let text = SourceText {
            name: "nothing".into(),
            template: "heat_template_version: 2018-08-31\n".into(),
            ..SourceText::default()
        };
        Self::parse(text).expect("a valid template without parameters")
    }

    /// Parses and binds a text whose size was checked when it was accepted.
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

    /// The same source bound to a stack. Name and id are known then, and conditions are evaluated.
    ///
    /// # Errors
    /// A condition is wrong, or a resource that it chooses needs itself.
    pub(crate) fn of_stack(self, name: &StackName, id: &str) -> Result<Self, muster_template::Errors> {
        if !self.tree.asks_for_stack() {
            return Ok(self);
        }
        let names = StackNames { name: name.to_string(), id: id.to_owned() };
        let tree = self.tree.of_stack(names)?;
        Ok(Self { tree: Arc::new(tree), ..self })
    }
}

/// The text that an operator sent. The revision keeps it unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceText {
    /// The file's name, for error places.
    pub name: String,
    pub template: String,
    /// Files that the template and its environments name, by key (see
    /// [`muster_template::files`]).
    pub files: BTreeMap<String, String>,
    /// Parameter values as given, without defaults.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Environments in the order given. Later ones win.
    #[serde(default)]
    pub environments: Vec<EnvironmentText>,
}

/// An environment as an operator sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentText {
    /// The file's name, for error places.
    pub name: String,
    /// The key among the files, which paths in the environment are relative to. `None`: the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub text: String,
}

impl EnvironmentText {
    /// The environment in the form that the parser takes.
    pub fn file(&self) -> EnvironmentFile<'_> {
        EnvironmentFile { name: &self.name, key: self.key.as_ref().unwrap_or(&self.name), text: &self.text }
    }
}

/// Options of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Roll back if the operation fails.
    pub rollback: bool,
    /// Refuse the operation if a node has never joined or is revoked, instead of waiting for it.
    pub require_nodes: bool,
    /// Remove what is no longer wanted before anything new is made.
    pub delete_first: bool,
    /// Give every resource a job, changed or not, so that its agent looks and corrects.
    pub converge: bool,
    /// Resources that would be created are taken over as they are, and fail where that would change anything.
    #[serde(default)]
    pub adopt: bool,
    /// Fail the operation after this time.
    pub timeout: Duration,
    /// Refuse a `for_each` whose selector matches more nodes.
    pub max_nodes: Option<u32>,
    /// A stack that is created has nodes with this label alone.
    #[serde(default)]
    pub scope: Option<NodeLabel>,
    /// Refuse the update if the stack is at another revision. A condition of the request, so it is not kept.
    #[serde(skip)]
    pub revision: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rollback: false,
            require_nodes: false,
            delete_first: false,
            converge: false,
            adopt: false,
            timeout: Duration::from_secs(3600),
            max_nodes: None,
            scope: None,
            revision: None,
        }
    }
}

pub enum Request {
    Create {
        name: StackName,
        /// The first revision.
        source: Source,
        options: Options,
    },
    /// A new revision of a stack.
    Update {
        name: StackName,
        /// The new revision.
        source: Source,
        options: Options,
    },
    /// Deletes a stack with everything in it.
    Delete { name: StackName },
    /// A new revision with the content of an older one.
    Rollback {
        name: StackName,
        /// The revision. `None`: the last COMPLETE one before the current one.
        to: Option<u32>,
    },
    /// Compares things with the current revision. Changes nothing.
    Check { name: StackName },
    /// Marks a thing unhealthy, so that the next update replaces it.
    Unhealthy {
        stack: StackName,
        /// Name of the resource in the template.
        resource: String,
    },
    /// Cancels the operation of a stack: no further job of it starts.
    Cancel { name: StackName },
    /// Pauses, resumes, speeds up or aborts a rollout.
    Rollout {
        name: StackName,
        action: RolloutAction,
        /// The resource with the `for_each`. `None`: all rollouts of the stack.
        resource: Option<String>,
    },
    /// Clears a hook.
    ClearHook {
        stack: StackName,
        /// Name of the resource. All rows of this name go on.
        resource: String,
        hook: Hook,
    },
    /// Sends a signal to a wait condition handle.
    Signal { stack: StackName, resource: String, signal: Signal },
    /// Creates a join token.
    NewToken {
        token: NewToken,
        /// The controller's clock in seconds since 1970. Tokens that have expired are dropped.
        wall: u64,
    },
    /// Revokes a join token.
    RevokeToken { id: [u8; 8] },
    /// Makes a user with a token.
    NewUser {
        user: UserRecord,
        /// The controller's clock in seconds since 1970.
        wall: u64,
    },
    /// Logs in a user of an identity provider, and makes the user if there is none.
    LogIn {
        login: NewLogin,
        /// The controller's clock in seconds since 1970.
        wall: u64,
    },
    /// Revokes a user: the token no longer counts.
    RevokeUser { name: String },
    /// A server asks to join.
    Join(JoinAsk),
    /// Changes a node's labels.
    LabelNode {
        node: NodeId,
        /// Labels to set. `None` removes a label.
        labels: BTreeMap<String, Option<String>>,
    },
    /// Asks a node for its facts.
    Facts { node: NodeId },
    /// Asks for a server's configuration, as resources that change nothing there.
    Survey { node: NodeId },
    /// Starts or ends maintenance. A node in maintenance gets no jobs. Its agent still observes.
    Maintenance {
        node: NodeId,
        /// Whether maintenance starts.
        on: bool,
    },
    /// Revokes a node: no connection and no job until it joins again with a token for its name.
    RevokeNode { node: NodeId },
    /// Applies rules to devices in stages. A stage starts once all devices of the one before have
    /// their rules.
    ApplyFlows {
        /// The writes of each stage, at most one for each device.
        stages: Vec<Vec<FlowWrite>>,
        /// Seconds until an unconfirmed change is undone. `None`: the change is not guarded.
        confirm_timeout: Option<u32>,
        /// The name under which operators own them; then there is one stage.
        application: Option<Box<str>>,
    },
    /// Deletes rules from a device.
    DeleteFlows {
        device: DeviceName,
        ids: Vec<FlowId>,
        /// As in [`Request::ApplyFlows`].
        confirm_timeout: Option<u32>,
    },
    /// Deletes all rules that operators own from a device.
    PurgeFlows {
        device: DeviceName,
        /// Empty the table only. The rules stay on the device.
        forget: bool,
        /// As in [`Request::ApplyFlows`].
        confirm_timeout: Option<u32>,
    },
    /// Compares a device with its table now, and corrects it.
    ReconcileFlows {
        device: DeviceName,
        /// The policy for rules of others from now on.
        foreign: Option<ForeignPolicy>,
    },
    /// Reads the counters of a device. [`crate::FlowViews::stats`] returns them then.
    FlowStats { device: DeviceName },
    /// Reads the counters of devices that were not read for long. The answer comes at once.
    SampleFlows,
    /// Reads the rules of others on a device. [`crate::FlowViews::rows`] returns them then.
    ForeignFlows { device: DeviceName },
    /// Submits intents by key. An intent replaces the one with its key.
    SubmitIntents {
        /// No key occurs twice.
        intents: Vec<(Box<str>, Wish)>,
    },
    /// Withdraws intents: their rules are removed from devices.
    WithdrawIntents { keys: Vec<Box<str>> },
    /// Forgets intents.
    PurgeIntents { keys: Vec<Box<str>> },
    /// Asks switches where a packet goes. Changes nothing.
    Trace {
        /// The port where it comes in.
        from: ConnectPoint,
        packet: Packet,
    },
    /// Asks switches whether packets of an intent arrive. Changes nothing.
    VerifyIntent { key: Box<str> },
    /// Decides about things that a restored store does not know: about all that are named, or none.
    Restored {
        /// The decision.
        verdict: Verdict,
        /// Ids from [`View::held_views`](crate::View::held_views). `None`: everything in the list.
        ids: Option<Vec<String>>,
        /// Only things on this node.
        node: Option<NodeId>,
    },
    /// Removes a node for good. What may be left on it becomes lost rows. If it joins again, it is
    /// cleaned up first.
    RemoveNode { node: NodeId },
    /// Moves a node to another site. Nothing on the server changes.
    MoveNode {
        node: NodeId,
        /// A token of the other site.
        token: Box<JoinToken>,
    },
}

/// A user that an identity provider knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLogin {
    pub name: String,
    pub role: Role,
    /// The part of the site that the provider gives.
    pub scope: Scope,
    /// The user at the provider.
    pub subject: String,
    pub login: LoginRecord,
}

/// The properties of a join token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewToken {
    /// Random, made by the caller.
    pub id: [u8; 8],
    /// [`TokenSecret::digest`]. The secret itself is not stored.
    pub secret_hash: [u8; 32],
    /// Seconds since 1970.
    pub expires: u64,
    /// The number of nodes that may join with the token.
    pub uses: u32,
    /// A name, or a pattern with `*`. `None`: any name.
    pub name: Option<String>,
    /// Labels that a joined node gets.
    pub labels: BTreeMap<String, String>,
    /// Bound on how fast nodes may join. `None`: no bound.
    pub rate: Option<Rate>,
}

/// A server that wants to join.
#[derive(Clone, Debug)]
pub struct JoinAsk {
    /// Id of the token.
    pub token_id: [u8; 8],
    /// Secret of the token.
    pub secret: TokenSecret,
    /// The name that the server asks for.
    pub name: NodeId,
    /// The server's sealing key.
    pub seal_public: SealPublic,
    pub agent_version: String,
    /// The server is a node of another site and moves here: its name must be free.
    pub moves: bool,
    /// The controller's clock in seconds since 1970.
    pub wall: u64,
}

/// An answer to an operator, sent once its changes are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An operation on a stack has started.
    Stack {
        name: StackName,
        id: u64,
        /// The traversal that carries out the operation.
        traversal: u64,
        /// The revision that the operation leads to; 0 for none.
        revision: u32,
        /// Problems that do not prevent the operation.
        warnings: Vec<String>,
        /// The changes of the operation, by names of resources.
        difference: String,
    },
    /// Done, nothing more to say.
    Done,
    /// A signal was stored.
    Signalled {
        /// The id, given or counted.
        id: String,
        /// The signal replaced an earlier one.
        again: bool,
        /// The number of signals that the handle has.
        signals: usize,
    },
    /// The node is durable: its certificate may be issued.
    Joined { node: NodeId },
    /// Facts of a node.
    Facts {
        node: NodeId,
        /// Age of the facts.
        age: Duration,
        facts: Arc<Facts>,
    },
    /// An operation on flow tables has started.
    Flows {
        operation: u64,
        /// Entries in all stages.
        rules: u64,
        devices: u64,
        /// Problems that do not prevent the operation.
        warnings: Vec<String>,
    },
    /// Intents were accepted or withdrawn.
    Intents {
        keys: Vec<Box<str>>,
        /// Problems that do not prevent the request.
        warnings: Vec<String>,
    },
    /// The way of a packet.
    Traced(Box<TraceView>),
    /// The proof of an intent by traces.
    Proved(Box<IntentProof>),
    /// A server's configuration.
    Surveyed(Box<SurveyView>),
    /// The node was removed.
    NodeRemoved {
        node: NodeId,
        /// Lost rows of the node, by stack and name; the first of very many.
        lost: Vec<LostView>,
        /// The number of lost rows.
        lost_total: u64,
    },
}

/// The reason why a request was refused. Nothing has changed.
#[derive(Clone, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    #[error("{0}")]
    NotFound(String),
    /// The request contradicts the present state.
    #[error("{0}")]
    Conflict(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The caller may not ask for that.
    #[error("{0}")]
    Forbidden(String),
    /// The store cannot be written at present.
    #[error("{0}")]
    Unavailable(String),
    /// The request may be repeated later.
    #[error("{why}")]
    Later {
        /// The reason for the operator.
        why: String,
        /// The least time until then.
        after: Duration,
    },
}

impl Refusal {
    pub(crate) fn map(self, text: impl Fn(String) -> String) -> Self {
        match self {
            Refusal::NotFound(why) => Refusal::NotFound(text(why)),
            Refusal::Conflict(why) => Refusal::Conflict(text(why)),
            Refusal::Invalid(why) => Refusal::Invalid(text(why)),
            Refusal::Forbidden(why) => Refusal::Forbidden(text(why)),
            Refusal::Unavailable(why) => Refusal::Unavailable(text(why)),
            Refusal::Later { why, after } => Refusal::Later { why: text(why), after },
        }
    }
}
