//! Records of the store: one per row of a table. The engine writes records, and a start builds the
//! engine from them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_api::user::{NodeLabel, Role, Scope};
use muster_flow::record::FlowChange;
use muster_intent::record::IntentChange;
use muster_shared::model::{Action, ContentDigest};
use muster_shared::seal::SealPublic;
use muster_shared::{Epoch, Generation, NodeId, ResourceId, StackName};
use muster_template::{Desired, DriftPolicy, Hook, Kind};
use serde::{Deserialize, Serialize};

use crate::request::{NewToken, SourceText};
use crate::restored::RestoredRecord;
use crate::row::cause::Cause;
use crate::row::notes::Notes;
use crate::view::{FailureView, OutputView};

pub use crate::rollout::record::{
    Counts, Course, MemberRecord, Proven, RolloutChange, RolloutRecord, RolloutSnapshot,
};

/// A change of the durable state. All changes of a turn are committed together.
#[derive(Clone, Debug)]
pub enum Change {
    /// Inserts or replaces.
    Stack(Box<StackRecord>),
    /// The stack is gone, with its revisions, rows and events.
    StackRemoved {
        id: u64,
        name: StackName,
        /// The traversal that emptied it.
        traversal: u64,
    },
    Revision(RevisionRecord),
    /// Deletes older revisions.
    RevisionsTrimmed {
        stack: u64,
        /// Revisions from this number on stay.
        below: u32,
        /// Older revisions that stay.
        but: Vec<u32>,
    },
    /// Inserts or replaces.
    Resource(Box<ResourceRecord>),
    /// The part of a resource that changes while jobs run.
    Progress(Box<ProgressRecord>),
    /// The row is gone: its removal was observed.
    ResourceRemoved(u64),
    /// Replaces the edges from this row to the rows it needs.
    Edges {
        /// The row whose needs these are.
        needed_by: u64,
        /// The rows that it needs.
        requires: Vec<u64>,
    },
    /// Inserts or replaces.
    Node(Box<NodeRecord>),
    NodeRemoved(NodeId),
    /// Inserts or replaces.
    Token(Box<TokenRecord>),
    TokenRemoved([u8; 8]),
    /// Inserts or replaces.
    User(Box<UserRecord>),
    UserRemoved(String),
    /// Content that agents fetch.
    Content {
        digest: ContentDigest,
        bytes: Arc<[u8]>,
    },
    /// No spec refers to the content.
    ContentRemoved(ContentDigest),
    /// An event that operators can read.
    Event(EventRecord),
    Flow(FlowChange),
    /// A change of intents or of the network.
    Intent(IntentChange),
    /// The engine's own counters.
    Counters(Counters),
    Rollout(RolloutChange),
    /// Things that nodes of a restored site hold. `None`: nothing is left to keep.
    Restored(Option<Box<RestoredRecord>>),
    /// A request for a change, its actor and its answer. The driver adds it to the commit of the answer.
    Audit(Box<AuditRecord>),
}

/// Numbers that never go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The running controller's epoch.
    pub epoch: Epoch,
}

/// Table `stacks`.
#[derive(Clone, Debug, PartialEq)]
pub struct StackRecord {
    /// Never used twice.
    pub id: u64,
    /// The stack's name, which is unique.
    pub name: StackName,
    /// The present or last operation.
    pub action: StackAction,
    pub status: Status,
    pub reason: String,
    /// The newest revision; 0 while there is none.
    pub revision: u32,
    /// The newest traversal.
    pub traversal: u64,
    /// Timeout of an operation in seconds.
    pub timeout_s: u64,
    /// The time that the operation has run. `None`: none is in progress.
    pub ran: Option<Duration>,
    /// Roll back if the operation fails.
    pub rollback: bool,
    /// Clean up before new resources are made.
    pub delete_first: bool,
    /// The operation gives every resource a job.
    pub converge: bool,
    /// The operation adopts what it would create.
    pub adopt: bool,
    /// Not all rows of the operation are in the store as it wants them. A start begins it again.
    pub entering: bool,
    /// The operation was cancelled. A start does not take it up.
    pub cancelled: bool,
    /// The operation has timed out.
    pub timed_out: bool,
    /// The last COMPLETE revisions, newest first.
    pub complete: Vec<u32>,
    /// Outputs as of the last COMPLETE.
    pub outputs: Vec<OutputView>,
    /// Parameter values in force. Hidden ones are masked.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Digests of hidden parameter values. Never shown.
    pub hidden_digests: BTreeMap<String, String>,
    /// The number of the last event.
    pub events: u64,
    /// Failures in the last operation.
    pub failures: Vec<FailureView>,
    /// The label that every node of the stack has.
    pub scope: Option<NodeLabel>,
}

/// Table `revisions`.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisionRecord {
    pub stack: u64,
    /// Counts up from 1.
    pub number: u32,
    /// The operation: `CREATE`, `UPDATE`, `ROLLBACK to 3`.
    pub made_by: String,
    /// The text that the operator sent.
    pub text: Arc<SourceText>,
}

/// Table `resources`.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRecord {
    /// The row; never used twice.
    pub id: u64,
    /// Id of the thing that the row stands for.
    pub physical: ResourceId,
    pub stack: u64,
    /// Name of the resource in the template.
    pub name: Arc<str>,
    pub kind: Kind,
    /// The type that operators see, if it is not the kind's name.
    pub type_name: Option<Arc<str>>,
    pub node: Option<NodeId>,
    /// Digest of the definition that `spec` was rendered from.
    pub definition: u128,
    /// The revision that gave the row its present definition.
    pub revision: u32,
    /// The revision that dropped the row. Such a row is cleaned up.
    pub dropped: Option<u32>,
    /// The last desired state that a job had.
    pub spec: Option<PackedSpec>,
    /// Another row took over claims of this one.
    pub handed_over: bool,
    /// The row that this one replaces.
    pub replaces: Option<u64>,
    /// The row that replaces this one.
    pub replaced_by: Option<u64>,
    /// Clean-up leaves the thing in place.
    pub retain: bool,
    /// The drift policy of the template. `None`: the default of the type.
    pub drift_policy: Option<DriftPolicy>,
    /// Id of a thing that others made.
    pub external_id: Option<Box<str>>,
    /// The former stack of a lost row. A lost row has `stack` 0. A stray never had a stack.
    pub lost_from: Option<StackName>,
    /// Columns that change while jobs run.
    pub progress: ProgressRecord,
}

impl ResourceRecord {
    /// Whether the row belongs to no stack: its node was removed, or the store never knew the thing.
    pub fn is_lost(&self) -> bool {
        self.stack == 0
    }
}

/// The columns of `resources` that change while jobs run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressRecord {
    pub id: u64,
    /// Action of the present or last job. `None`: before the first job.
    pub action: Option<Action>,
    /// Cause of the present job; after a failure, of the last one.
    pub cause: Cause,
    /// `None`: before the first job.
    pub status: Option<Status>,
    pub reason: Option<Box<str>>,
    /// Part of the thing may be on the node.
    pub applied: bool,
    /// The generation that the agent's ledger is known to hold.
    pub held: Option<Generation>,
    /// Generation of the last job.
    pub generation: Generation,
    /// Attempt of the last job.
    pub attempt: u32,
    /// The job was sent and its outcome is not known.
    pub in_flight: bool,
    /// Retries so far.
    pub retry_count: u32,
    /// The row is ready, so rows that need it may go on.
    pub observed_ready: bool,
    /// Attributes that do not follow from the desired state.
    pub attributes: BTreeMap<String, String>,
    /// Notes of the engine about the row.
    pub notes: Option<Notes>,
    /// The last observation of the thing, compared with its desired state.
    pub observed: Observation,
    /// An operator marked the thing unhealthy, so it is replaced.
    pub unhealthy: bool,
    /// The hook at which the row waits for an operator.
    pub hook: Option<Hook>,
    /// A bit for each hook cleared in this traversal, in the order of [`Hook::ALL`]. Two more bits
    /// say that a job has ended and its post-create or post-update hook is due.
    pub hooks_cleared: u8,
    /// The reason for each failed attempt of the present job.
    pub causes: Vec<Box<str>>,
    /// The time that the row has waited for signals or for time to pass. Counts up to the
    /// time of writing; a start goes on from there.
    pub waited: Option<Duration>,
    /// Corrections of late, if the breaker counts any.
    pub corrections: Option<Corrections>,
}

/// Corrections of late. Times count up to the time of writing; a start goes on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrections {
    /// Number of corrections since the last calm of [`CALM`](crate::CALM).
    pub count: u32,
    /// Time since the last correction started.
    pub ago: Duration,
    /// Time between the first and the last correction.
    pub lasted: Duration,
    /// The breaker is open: there were too many corrections.
    pub open: bool,
    /// Rebuilds for an agent that had lost the thing.
    pub made_again: Option<Rebuilds>,
}

/// Rebuilds of a thing that its agent had lost. Times as for [`Corrections`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilds {
    /// Number of rebuilds since the last calm.
    pub count: u32,
    /// Time since the last rebuild started.
    pub ago: Duration,
    /// Time between the first and the last rebuild.
    pub lasted: Duration,
}

/// The last observation of a thing, compared with its desired state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observation {
    /// The agent has not looked, or a job is under way.
    #[default]
    Unknown,
    InSync,
    Drifted,
    Missing,
}

impl Observation {
    /// Whether the observed state differs from the desired state.
    pub fn differs(self) -> bool {
        matches!(self, Observation::Drifted | Observation::Missing)
    }

    /// The name that operators see.
    pub fn as_str(self) -> &'static str {
        match self {
            Observation::Unknown => "unknown",
            Observation::InSync => "in_sync",
            Observation::Drifted => "drifted",
            Observation::Missing => "missing",
        }
    }

    /// From [`Observation::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Unknown, Self::InSync, Self::Drifted, Self::Missing].into_iter().find(|o| o.as_str() == name)
    }
}

/// Table `nodes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// The server's fully qualified name.
    pub name: NodeId,
    /// Labels, at first from the token.
    pub labels: BTreeMap<String, String>,
    /// The key that seals messages to the node.
    pub seal_public: SealPublic,
    /// Version of the agent as of its last Hello.
    pub agent_version: String,
    pub revoked: bool,
    /// The node gets no jobs until an operator ends its maintenance.
    pub maintenance: bool,
    /// The token of the join, and the digest of its secret. A repeated request with both is granted again.
    pub joined_with: ([u8; 8], [u8; 32]),
}

/// Table `tokens`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    pub token: NewToken,
    /// The number of nodes that may still join.
    pub uses_left: u32,
}

/// Table `events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    pub stack: u64,
    /// Counts up within the stack.
    pub number: u64,
    /// The resource. `None`: the event is about the stack.
    pub resource: Option<(Arc<str>, ResourceId)>,
    /// CREATE, …
    pub action: &'static str,
    /// IN_PROGRESS, …
    pub status: &'static str,
    pub reason: Box<str>,
    /// The actor of the request that led to the event. `None`: no request did.
    pub actor: Option<Arc<str>>,
}

/// Table `users`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRecord {
    pub name: String,
    pub role: Role,
    pub scope: Scope,
    pub proof: Proof,
    /// Seconds since 1970.
    pub expires: u64,
}

/// The proof that a user is who the user claims to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By a token. This is the hash of its secret, which itself is not stored.
    Token([u8; 32]),
    /// By a certificate with the user's name.
    Certificate,
    /// By a login at an identity provider, which made a token.
    Oidc {
        /// The user at the provider. The name alone may be another person's later.
        subject: String,
        /// Oldest first.
        logins: Vec<LoginRecord>,
    },
}

/// A login of a user, on one machine or in one browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRecord {
    /// The hash of the token's secret.
    pub secret_hash: [u8; 32],
    /// Seconds since 1970.
    pub expires: u64,
}

/// Table `audit`: a request that changes something, once it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The actor: a user of the system or of Muster, or a join token.
    pub actor: String,
    /// The way on which the request came.
    pub from: String,
    /// The words of the command line, `stack update`; or the request's name in the API where it was not let in.
    pub action: Cow<'static, str>,
    /// The object of the request: a stack, a node, …
    pub target: String,
    /// The request, by names; never a value.
    pub what: String,
    /// `ok`, or why it was refused.
    pub result: String,
}

/// Operations on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StackAction {
    /// The first revision.
    Create,
    /// A further revision.
    Update,
    /// Deletes the stack.
    Delete,
    /// Restores the content of an older revision.
    Rollback,
    /// Compares things with the current revision and changes nothing.
    Check,
}

/// Status of a stack or a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// An operation or a job is under way.
    InProgress,
    /// The last operation or job succeeded.
    Complete,
    /// The last operation or job failed, for a reason.
    Failed,
}

impl StackAction {
    /// The name that operators see.
    pub fn as_str(self) -> &'static str {
        match self {
            StackAction::Create => "CREATE",
            StackAction::Update => "UPDATE",
            StackAction::Delete => "DELETE",
            StackAction::Rollback => "ROLLBACK",
            StackAction::Check => "CHECK",
        }
    }
}

impl Status {
    /// The name that operators see.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::InProgress => "IN_PROGRESS",
            Status::Complete => "COMPLETE",
            Status::Failed => "FAILED",
        }
    }
}

/// The name that operators see.
pub fn action_str(action: Option<Action>) -> &'static str {
    match action {
        None => "INIT",
        Some(Action::Create) => "CREATE",
        Some(Action::Update) => "UPDATE",
        Some(Action::Delete) => "DELETE",
        Some(Action::Check) => "CHECK",
        Some(Action::Retain) => "RETAIN",
        Some(Action::Adopt) => "ADOPT",
    }
}

impl StackAction {
    /// From [`StackAction::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Create, Self::Update, Self::Delete, Self::Rollback, Self::Check]
            .into_iter()
            .find(|a| a.as_str() == name)
    }
}

impl Status {
    /// From [`Status::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::InProgress, Self::Complete, Self::Failed].into_iter().find(|s| s.as_str() == name)
    }
}

/// A type as the store keeps it: `Muster::File`, or `kind: type name` if operators see another name.
pub fn type_text(kind: Kind, type_name: Option<&str>) -> Cow<'static, str> {
    type_name.map_or(Cow::Borrowed(kind.name()), |name| format!("{}: {name}", kind.name()).into())
}

/// From [`type_text`].
pub fn type_from_text(text: &str) -> Option<(Kind, Option<Arc<str>>)> {
    match text.split_once(": ") {
        Some((kind, name)) => Some((Kind::from_kept(kind)?, Some(name.into()))),
        None => Some((Kind::from_kept(text)?, None)),
    }
}

/// From [`action_str`].
pub fn action_from_name(name: &str) -> Option<Action> {
    [Action::Create, Action::Update, Action::Delete, Action::Check, Action::Retain, Action::Adopt]
        .into_iter()
        .find(|a| action_str(Some(*a)) == name)
}

/// A spec as bytes. They take a tenth of the memory of the tree, and only a job needs the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedSpec(Box<[u8]>);

impl PackedSpec {
    pub fn new(spec: &Desired) -> Self {
        Self(postcard::to_stdvec(spec).expect("a spec is plain data").into_boxed_slice())
    }

    /// Reads bytes from the store. `None`: they are no spec.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (_, rest) = postcard::take_from_bytes::<Desired>(bytes).ok()?;
        rest.is_empty().then(|| Self(bytes.into()))
    }

    /// The bytes for the store.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the spec is of flow rules, whose jobs go to a flow table.
    pub fn is_flows(&self) -> bool {
        self.0.first() == Some(&1)
    }

    pub fn unpack(&self) -> Desired {
        postcard::from_bytes(&self.0).expect("packed by new(), or checked by from_bytes()")
    }
}
