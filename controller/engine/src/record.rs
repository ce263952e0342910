//! What the store keeps: one record per row of a table. The engine writes them and is built again from them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_flow::record::FlowChange;
use muster_intent::record::IntentChange;
use muster_shared::model::{Action, ContentDigest};
use muster_shared::seal::SealPublic;
use muster_shared::{Epoch, Generation, NodeId, ResourceId, StackName};
use muster_template::{Desired, DriftPolicy, Hook, Kind};
use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::notes::Notes;
use crate::request::{NewToken, SourceText};
use crate::restored::RestoredRecord;
use crate::view::{FailureView, OutputView};

pub use crate::rollout::record::{
    Counts, Course, MemberRecord, Proven, RolloutChange, RolloutRecord, RolloutSnapshot,
};

/// One change of the durable state. All changes of a turn are committed together.
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
    /// Older revisions are not kept.
    RevisionsTrimmed {
        stack: u64,
        /// Those from this on are kept.
        below: u32,
        /// Of the older ones, these are.
        but: Vec<u32>,
    },
    /// Inserts or replaces.
    Resource(Box<ResourceRecord>),
    /// The part of a resource that changes while jobs run.
    Progress(Box<ProgressRecord>),
    /// The row is gone: its removal was observed.
    ResourceRemoved(u64),
    /// Replaces the edges to what this row needs.
    Edges {
        /// The row that needs.
        needed_by: u64,
        /// The rows it needs.
        requires: Vec<u64>,
    },
    /// Inserts or replaces.
    Node(Box<NodeRecord>),
    /// The node is no more.
    NodeRemoved(NodeId),
    /// Inserts or replaces.
    Token(Box<TokenRecord>),
    /// The token is gone.
    TokenRemoved([u8; 8]),
    /// Content that agents fetch.
    Content {
        digest: ContentDigest,
        bytes: Arc<[u8]>,
    },
    /// Nobody needs it any more.
    ContentRemoved(ContentDigest),
    /// Something an operator wants to know of.
    Event(EventRecord),
    Flow(FlowChange),
    /// Of intents and the network.
    Intent(IntentChange),
    /// The engine's own counters.
    Counters(Counters),
    Rollout(RolloutChange),
    /// What a restored site holds; none: nothing any more.
    Restored(Option<Box<RestoredRecord>>),
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
    /// Unique.
    pub name: StackName,
    /// What is being done, or was done last.
    pub action: StackAction,
    /// How it stands.
    pub status: Status,
    pub reason: String,
    /// The newest revision; 0 while there is none.
    pub revision: u32,
    /// The newest traversal.
    pub traversal: u64,
    /// Seconds.
    pub timeout_s: u64,
    /// Roll back on failure.
    pub rollback: bool,
    /// Clean up before anything new is made.
    pub delete_first: bool,
    /// Every resource gets a job in its operation.
    pub converge: bool,
    /// Its operation was cancelled: nothing of it is taken up again.
    pub cancelled: bool,
    /// Its operation has had its time.
    pub timed_out: bool,
    /// The last COMPLETE revisions, newest first.
    pub complete: Vec<u32>,
    /// Computed when last COMPLETE.
    pub outputs: Vec<OutputView>,
    /// Values in force, hidden ones masked.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Of the values of hidden ones; not for eyes.
    pub hidden_digests: BTreeMap<String, String>,
    /// Event numbers begin after this.
    pub events: u64,
    /// What failed in the last operation.
    pub failures: Vec<FailureView>,
}

/// Table `revisions`.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisionRecord {
    pub stack: u64,
    /// Counts up from 1.
    pub number: u32,
    /// The operation: `CREATE`, `UPDATE`, `ROLLBACK to 3`.
    pub made_by: String,
    /// What the operator sent.
    pub text: Arc<SourceText>,
}

/// Table `resources`.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRecord {
    /// The row; never used twice.
    pub id: u64,
    /// The one thing it stands for.
    pub physical: ResourceId,
    pub stack: u64,
    /// Its name in the template.
    pub name: Arc<str>,
    pub kind: Kind,
    /// As operators see its type, where that is not the kind's name.
    pub type_name: Option<Arc<str>>,
    pub node: Option<NodeId>,
    /// Digest of the definition that `spec` was rendered from.
    pub definition: u128,
    /// The revision that brought it to its present definition.
    pub revision: u32,
    /// The revision that dropped it; then it is cleaned up.
    pub dropped: Option<u32>,
    /// The last desired state a job was made of.
    pub spec: Option<PackedSpec>,
    /// Its claims were taken over by another row.
    pub handed_over: bool,
    /// The row it replaces.
    pub replaces: Option<u64>,
    /// The row that replaces it.
    pub replaced_by: Option<u64>,
    /// When it is cleaned up, its thing is left.
    pub retain: bool,
    /// What becomes of it when somebody else has changed it; none: as its type says.
    pub drift_policy: Option<DriftPolicy>,
    /// It stands for a thing that others made, by this id.
    pub external_id: Option<Box<str>>,
    /// The stack it belonged to, of a row that is lost. A lost row has `stack` 0, and may come from none that is known.
    pub lost_from: Option<StackName>,
    /// What changes while jobs run.
    pub progress: ProgressRecord,
}

impl ResourceRecord {
    /// Whether it is what may be left of something that no stack has any more, or never had.
    pub fn is_lost(&self) -> bool {
        self.stack == 0
    }
}

/// The columns of `resources` that change while jobs run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressRecord {
    pub id: u64,
    /// What is being done, or was done last; none before the first job.
    pub action: Option<Action>,
    /// Of the present job; after a failure, of the last one.
    pub cause: Cause,
    /// How it stands; none before the first job.
    pub status: Option<Status>,
    pub reason: Option<Box<str>>,
    /// Something of it may be on its node.
    pub applied: bool,
    /// The generation its agent's ledger is known to hold.
    pub held: Option<Generation>,
    /// Of the last job.
    pub generation: Generation,
    /// Of the last job.
    pub attempt: u32,
    /// A job was sent and its outcome is not known.
    pub in_flight: bool,
    /// Tries again so far.
    pub retry_count: u32,
    /// The graph node is done: those that need it may go.
    pub observed_ready: bool,
    /// Attributes that do not follow from the desired state.
    pub attributes: BTreeMap<String, String>,
    /// What the engine remembers of it for its own use.
    pub notes: Option<Notes>,
    /// What was last read back.
    pub observed: Observation,
    /// An operator does not trust it: it is replaced.
    pub unhealthy: bool,
    /// Where it waits for an operator.
    pub hook: Option<Hook>,
    /// A bit for each hook that was cleared in this traversal, in the order of [`Hook::ALL`]; two more for a job that
    /// has ended: its post-create or post-update hook is still to come.
    pub hooks_cleared: u8,
    /// Why each attempt of its present job failed.
    pub causes: Vec<Box<str>>,
    /// How long it has waited for signals, or for time to pass, if it does: as of now where it is written, and again
    /// where it is read.
    pub waited: Option<Duration>,
    /// How often it was corrected, while that counts.
    pub corrections: Option<Corrections>,
}

/// How often a resource was corrected of late, as of now where it is written, and again where it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrections {
    /// Since it was last calm for [`CALM`](crate::CALM).
    pub count: u32,
    /// How long ago the last one began.
    pub ago: Duration,
    /// How long before that the first one began.
    pub lasted: Duration,
    /// It was corrected too often and is left as it is.
    pub open: bool,
    /// It was made again for an agent that had lost it.
    pub made_again: Option<Rebuilds>,
}

/// How often a resource was made again for an agent that had lost it; times as for [`Corrections`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilds {
    /// Since it was last calm.
    pub count: u32,
    /// How long ago the last one began.
    pub ago: Duration,
    /// How long before that the first one began.
    pub lasted: Duration,
}

/// How a thing was when it was last looked at, against its desired state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observation {
    /// Nobody has looked, or something is being done.
    #[default]
    Unknown,
    InSync,
    Drifted,
    Missing,
}

impl Observation {
    /// Seen to be another than is wanted.
    pub fn differs(self) -> bool {
        matches!(self, Observation::Drifted | Observation::Missing)
    }

    /// As operators see it.
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
    /// Its fqdn.
    pub name: NodeId,
    /// From its token.
    pub labels: BTreeMap<String, String>,
    /// Seals what travels.
    pub seal_public: SealPublic,
    /// As it said last.
    pub agent_version: String,
    pub revoked: bool,
    /// It gets no jobs until an operator says so.
    pub maintenance: bool,
    /// The token it joined with, and the digest of its secret: asked again, it is granted again.
    pub joined_with: ([u8; 8], [u8; 32]),
}

/// Table `tokens`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    pub token: NewToken,
    /// How many nodes may still join.
    pub uses_left: u32,
}

/// Table `events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    pub stack: u64,
    /// Counts up within the stack.
    pub number: u64,
    /// The resource; none for the stack itself.
    pub resource: Option<(Arc<str>, ResourceId)>,
    /// CREATE, …
    pub action: &'static str,
    /// IN_PROGRESS, …
    pub status: &'static str,
    pub reason: Box<str>,
}

/// What is being done with a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StackAction {
    /// The first revision.
    Create,
    /// A further revision.
    Update,
    /// Deletes the stack.
    Delete,
    /// To the content of an older revision.
    Rollback,
    /// Nowhere: what is there is compared with the current revision.
    Check,
}

/// How a stack or a resource stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Something is being done.
    InProgress,
    /// As desired.
    Complete,
    /// Not as desired, for a reason.
    Failed,
}

impl StackAction {
    /// As operators see it.
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
    /// As operators see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::InProgress => "IN_PROGRESS",
            Status::Complete => "COMPLETE",
            Status::Failed => "FAILED",
        }
    }
}

/// As operators see it.
pub fn action_str(action: Option<Action>) -> &'static str {
    match action {
        None => "INIT",
        Some(Action::Create) => "CREATE",
        Some(Action::Update) => "UPDATE",
        Some(Action::Delete) => "DELETE",
        Some(Action::Check) => "CHECK",
        Some(Action::Retain) => "RETAIN",
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

/// A type as it is kept: `Muster::File`, or with the name operators see `a template: web.yaml`.
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
    [Action::Create, Action::Update, Action::Delete, Action::Check, Action::Retain]
        .into_iter()
        .find(|a| action_str(Some(*a)) == name)
}

/// A spec as bytes: a tenth of its size as a tree, and a resource needs it only when a job is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedSpec(Box<[u8]>);

impl PackedSpec {
    pub fn new(spec: &Desired) -> Self {
        Self(postcard::to_stdvec(spec).expect("a spec is plain data").into_boxed_slice())
    }

    /// From bytes that were kept; none if they are no spec.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (_, rest) = postcard::take_from_bytes::<Desired>(bytes).ok()?;
        rest.is_empty().then(|| Self(bytes.into()))
    }

    /// As it is kept.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Of flow rules: its jobs are the table's.
    pub fn is_flows(&self) -> bool {
        self.0.first() == Some(&1)
    }

    pub fn unpack(&self) -> Desired {
        postcard::from_bytes(&self.0).expect("packed by new(), or checked by from_bytes()")
    }
}
