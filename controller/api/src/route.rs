//! Every request that the API takes, with the least role that may make it: the controller's router and the description are
//! made of this one table.
//!
//! Absent: the handler of each request (`controller/src/api/mod.rs`), and the check of a caller's role
//! (`controller/src/api/authorization.rs`).

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::flow::{
    DeleteFlows, DeviceView, ExplainedFlow, FlowOperationView, FlowView, FlowsBegun, StatsView,
};
use crate::history::HistoryView;
use crate::intent::{
    IntentKeys, IntentRow, IntentView, IntentsTaken, IntentsWatched, TopologyView, WithdrawIntents,
};
use crate::login::{BeginInBrowser, BrowserLogin, DeviceLogin, LogIn, LoggedIn, LoginView};
use crate::node::{
    ChangeLabels, CreateToken, DriftView, FactsView, FleetCounts, Maintenance, MoveNode, NodeEventView,
    NodeMoved, NodeRemoved, NodeResourceView, NodeView, SurveyView, TokenCreated, TokenRevoked, TokenRow,
};
use crate::preview::PreviewView;
use crate::query;
use crate::resource::{ClearHook, GraphView, ResourceView, Signalled};
use crate::site::{AuditRow, Decide, Decided, HeldView, StatusView, Version};
use crate::stack::{
    Begun, CreateStack, EventRow, FailureView, OutputView, RevisionRow, Rollback, StackRow, StackView,
    SteerRollout, TemplateView, UpdateStack,
};
use crate::trace::{IntentProof, TraceView};
use crate::user::{CallerView, CreateUser, Role, UserCreated, UserRevoked, UserRow};

/// A method of HTTP that the API takes.
#[allow(missing_docs, reason = "as in HTTP")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// Makes the schema of a type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The content of a body.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// There is none.
    Nothing,
    /// A JSON document.
    Json(SchemaOf),
    /// A text, and what it is.
    Text(&'static str),
}

/// A route: the form of one request and of its answer.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The method of the request.
    pub method: Method,
    /// The path; `{name}` stands for one segment.
    pub path: &'static str,
    /// The purpose of the route, for people.
    pub summary: &'static str,
    /// The parameters after the question mark.
    pub query: Option<SchemaOf>,
    /// The body of the request.
    pub body: Content,
    /// The status of a good answer.
    pub status: u16,
    /// The answer's body, where all goes well.
    pub answer: Content,
    /// The least role that may ask, where users have roles.
    pub role: Role,
    /// Users who reach a part of the site may ask, too, and are answered for that part. Where the path names a stack or
    /// a node, they may if they reach that one.
    pub for_parts: bool,
}

impl Route {
    const fn new(method: Method, path: &'static str, summary: &'static str) -> Self {
        let (body, answer) = (Content::Nothing, Content::Nothing);
        let role = if matches!(method, Method::Get) { Role::Viewer } else { Role::Operator };
        Self { method, path, summary, query: None, body, status: 200, answer, role, for_parts: false }
    }

    const fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(SchemaGenerator::root_schema_for::<T>), ..self }
    }

    const fn takes<T: JsonSchema>(self) -> Self {
        Self { body: Content::Json(SchemaGenerator::subschema_for::<T>), ..self }
    }

    const fn takes_text(self, what: &'static str) -> Self {
        Self { body: Content::Text(what), ..self }
    }

    const fn answers<T: JsonSchema>(self) -> Self {
        Self { answer: Content::Json(SchemaGenerator::subschema_for::<T>), ..self }
    }

    const fn answers_text(self, what: &'static str) -> Self {
        Self { answer: Content::Text(what), ..self }
    }

    /// Marks a route that changes nothing, whatever its method is.
    const fn for_viewers(self) -> Self {
        Self { role: Role::Viewer, ..self }
    }

    /// For users as well who reach a part of the site.
    const fn for_parts(self) -> Self {
        Self { for_parts: true, ..self }
    }

    /// For admins alone.
    const fn for_admins(self) -> Self {
        Self { role: Role::Admin, ..self }
    }

    /// Sets the status: something was made (201), or has begun (202).
    const fn with(self, status: u16) -> Self {
        Self { status, ..self }
    }
}

const fn get(path: &'static str, summary: &'static str) -> Route {
    Route::new(Method::Get, path, summary)
}

const fn post(path: &'static str, summary: &'static str) -> Route {
    Route::new(Method::Post, path, summary)
}

const fn put(path: &'static str, summary: &'static str) -> Route {
    Route::new(Method::Put, path, summary)
}

const fn patch(path: &'static str, summary: &'static str) -> Route {
    Route::new(Method::Patch, path, summary)
}

const fn delete(path: &'static str, summary: &'static str) -> Route {
    Route::new(Method::Delete, path, summary)
}

/// Names each route, so that whoever serves them has to serve every one.
macro_rules! routes {
    ($($operation:ident: $route:expr;)*) => {
        /// The name of a route.
        #[allow(missing_docs, reason = "each route has a summary")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation {
            $($operation),*
        }

        /// Every route, by path.
        pub const ROUTES: &[(Operation, Route)] = &[$((Operation::$operation, $route)),*];
    };
}

routes! {
    ListStacks: get("/v1/stacks", "Lists stacks").query::<query::StackPage>().answers::<Vec<StackRow>>().for_parts();
    CreateStack: post("/v1/stacks", "Creates a stack").takes::<CreateStack>().answers::<Begun>().with(202).for_parts();
    ShowStack: get("/v1/stacks/{stack}", "Shows a stack").answers::<StackView>();
    UpdateStack: put("/v1/stacks/{stack}", "Updates a stack").takes::<UpdateStack>().answers::<Begun>().with(202);
    DeleteStack: delete("/v1/stacks/{stack}", "Deletes a stack").answers::<Begun>().with(202);
    RollBack: post("/v1/stacks/{stack}/rollback", "Goes back to an earlier revision")
        .takes::<Rollback>().answers::<Begun>().with(202);
    CancelStack: post("/v1/stacks/{stack}/cancel", "Ends the operation under way").answers::<StackView>();
    SteerRollout: post("/v1/stacks/{stack}/rollout", "Pauses, resumes, promotes or aborts rollouts")
        .takes::<SteerRollout>().answers::<StackView>();
    PreviewStack: post("/v1/stacks/{stack}/preview", "Says what an update or a creation would do; changes nothing")
        .takes::<UpdateStack>().query::<query::Preview>().answers::<PreviewView>();
    CheckStack: post("/v1/stacks/{stack}/check", "Compares every resource with what is there")
        .answers::<Begun>().with(202);
    WatchStack: get("/v1/stacks/{stack}/watch", "Shows a stack as soon as it is not as it is known to be")
        .query::<query::Watch>().answers::<StackView>();
    ShowTemplate: get("/v1/stacks/{stack}/template", "Shows the template of a revision")
        .query::<query::OfRevision>().answers::<TemplateView>();
    ShowOutputs: get("/v1/stacks/{stack}/outputs", "Shows a stack's outputs").answers::<Vec<OutputView>>();
    ShowGraph: get("/v1/stacks/{stack}/graph", "Shows which resource needs which")
        .query::<query::Graph>().answers::<GraphView>();
    ListRevisions: get("/v1/stacks/{stack}/revisions", "Lists a stack's revisions").answers::<Vec<RevisionRow>>();
    ListFailures: get("/v1/stacks/{stack}/failures", "Lists what failed in the last operation")
        .answers::<Vec<FailureView>>();
    ListEvents: get("/v1/stacks/{stack}/events", "Lists what happened to a stack")
        .query::<query::EventPage>().answers::<Vec<EventRow>>();
    ListResources: get("/v1/stacks/{stack}/resources", "Lists a stack's resources")
        .query::<query::ResourcePage>().answers::<Vec<ResourceView>>();
    ShowResource: get("/v1/stacks/{stack}/resources/{resource}", "Shows a resource, by name or physical id")
        .answers::<ResourceView>();
    ClearHook: post("/v1/stacks/{stack}/resources/{resource}/clear-hook", "Lets a resource go on that waits at a hook")
        .takes::<ClearHook<String>>().answers::<ResourceView>();
    SendSignal: post("/v1/stacks/{stack}/resources/{resource}/signal", "Signals a wait condition's handle")
        .takes::<serde_json::Value>().answers::<Signalled>();
    MarkUnhealthy: post("/v1/stacks/{stack}/resources/{resource}/unhealthy", "Has a resource replaced by the next update")
        .answers::<ResourceView>();
    ListTokens: get("/v1/tokens", "Lists join tokens").answers::<Vec<TokenRow>>();
    CreateToken: post("/v1/tokens", "Makes a join token").takes::<CreateToken>().answers::<TokenCreated>().with(201);
    RevokeToken: delete("/v1/tokens/{id}", "Revokes a join token").answers::<TokenRevoked>();
    ShowLogin: get("/v1/login", "Says with which identity provider one logs in").answers::<LoginView>().for_parts();
    LogIn: post("/v1/login", "Logs in with OpenID Connect; the token is shown this once")
        .takes::<LogIn>().answers::<LoggedIn>().for_parts();
    BeginInBrowser: post("/v1/login/browser", "Begins a login in this browser")
        .takes::<BeginInBrowser>().answers::<BrowserLogin>().for_parts();
    BeginOnDevice: post("/v1/login/device", "Begins a login in a browser on any machine")
        .answers::<DeviceLogin>().for_parts();
    ShowCaller: get("/v1/caller", "Says who asks, and with which role").answers::<CallerView>().for_parts();
    ListAudit: get("/v1/audit", "Lists who asked for which change, oldest first")
        .query::<query::AuditPage>().answers::<Vec<AuditRow>>();
    CreateUser: post("/v1/users", "Makes a user, whose token is shown this once")
        .takes::<CreateUser>().answers::<UserCreated>().with(201).for_admins();
    ListUsers: get("/v1/users", "Lists users").answers::<Vec<UserRow>>().for_admins();
    RevokeUser: delete("/v1/users/{user}", "Revokes a user").answers::<UserRevoked>().for_admins();
    ListNodes: get("/v1/nodes", "Lists nodes").query::<query::NodePage>().answers::<Vec<NodeView>>().for_parts();
    CountNodes: get("/v1/counts/nodes", "Counts nodes by state")
        .query::<query::Counted>().answers::<std::collections::BTreeMap<String, u64>>().for_parts();
    CountFleet: get("/v1/counts/fleet", "Counts nodes by state, drift and version")
        .query::<query::Counted>().answers::<FleetCounts>().for_parts();
    ShowHistory: get("/v1/counts/history", "Shows how the site was over the last hours").answers::<HistoryView>();
    ShowNode: get("/v1/nodes/{node}", "Shows a node").query::<query::OneNode>().answers::<NodeView>();
    ChangeLabels: patch("/v1/nodes/{node}", "Sets and removes labels").takes::<ChangeLabels>().answers::<NodeView>();
    RemoveNode: delete("/v1/nodes/{node}", "Forgets a node").answers::<NodeRemoved>();
    RevokeNode: post("/v1/nodes/{node}/revoke", "Cuts a node off").answers::<NodeView>();
    MoveNode: post("/v1/nodes/{node}/move", "Moves a node to another site; answers when it has")
        .takes::<MoveNode>().answers::<NodeMoved>();
    SetMaintenance: post("/v1/nodes/{node}/maintenance", "Holds a node's jobs back, or lets them go on")
        .takes::<Maintenance>().answers::<NodeView>();
    ShowFacts: get("/v1/nodes/{node}/facts", "Shows what a node told of itself").answers::<FactsView>();
    SurveyNode: get("/v1/nodes/{node}/survey", "Asks a node what it is like, as resources that change nothing")
        .answers::<SurveyView>();
    ListNodeResources: get("/v1/nodes/{node}/resources", "Lists what stacks have on a node; of very much the first by stack")
        .answers::<Vec<NodeResourceView>>();
    ListNodeEvents: get("/v1/nodes/{node}/events", "Lists what happened last to resources on a node, the newest first")
        .query::<query::NodeEvents>().answers::<Vec<NodeEventView>>();
    ListDrift: get("/v1/drift", "Lists resources that are not as they were made")
        .query::<query::OnNode>().answers::<Vec<DriftView>>().for_parts();
    ApplyFlows: post("/v1/flows", "Applies a flow file")
        .query::<query::ApplyFlows>().takes_text("A flow file").answers::<FlowsBegun>().for_parts();
    ShowFlowOperation: get("/v1/flows/operations/{id}", "Shows an operation on flow tables")
        .query::<query::Wait>().answers::<FlowOperationView>().for_parts();
    ListDevices: get("/v1/devices", "Lists devices").query::<query::DevicePage>().answers::<Vec<DeviceView>>().for_parts();
    ShowDevice: get("/v1/devices/{node}/{bridge}", "Shows a device").answers::<DeviceView>();
    ListFlows: get("/v1/devices/{node}/{bridge}/flows", "Lists the entries of a device")
        .query::<query::FlowList>().answers::<Vec<FlowView>>();
    DeleteFlows: delete("/v1/devices/{node}/{bridge}/flows", "Takes entries off a device")
        .query::<query::Guard>().takes::<DeleteFlows>().answers::<FlowsBegun>();
    ShowFlow: get("/v1/devices/{node}/{bridge}/flows/{id}", "Shows an entry, and why it is as it is")
        .answers::<ExplainedFlow>();
    ShowStats: get("/v1/devices/{node}/{bridge}/stats", "Shows a device's counters").answers::<StatsView>();
    ReconcileDevice: post("/v1/devices/{node}/{bridge}/reconcile", "Compares a device with its table now")
        .query::<query::Reconcile>().answers::<DeviceView>();
    PurgeDevice: post("/v1/devices/{node}/{bridge}/purge", "Takes all rules that operators own off a device")
        .query::<query::Purge>().answers::<FlowsBegun>();
    ListIntents: get("/v1/intents", "Lists intents").query::<query::IntentList>().answers::<Vec<IntentRow>>();
    SubmitIntents: post("/v1/intents", "Submits an intent file")
        .query::<query::SubmitIntents>().takes_text("An intent file").answers::<IntentsTaken>();
    WithdrawIntents: patch("/v1/intents", "Withdraws intents").takes::<WithdrawIntents>().answers::<IntentsTaken>();
    PurgeIntents: delete("/v1/intents", "Forgets intents").takes::<IntentKeys>().answers::<IntentsTaken>();
    ShowIntent: get("/v1/intents/{key}", "Shows an intent").answers::<IntentView>();
    PurgeIntent: delete("/v1/intents/{key}", "Forgets an intent").answers::<IntentsTaken>();
    WithdrawIntent: post("/v1/intents/{key}/withdraw", "Withdraws an intent").answers::<IntentsTaken>();
    VerifyIntent: get("/v1/intents/{key}/verify", "Asks the switches whether packets of an intent arrive; changes nothing")
        .answers::<IntentProof>();
    Trace: get("/v1/trace", "Asks the switches where a packet goes; changes nothing")
        .query::<query::Trace>().answers::<TraceView>();
    WatchIntents: post("/v1/watch/intents", "Says how intents stand as soon as nothing of them is under way")
        .query::<query::WatchIntents>().takes::<IntentKeys>().answers::<IntentsWatched>().for_viewers();
    ShowTopology: get("/v1/topology", "Shows the network").query::<query::Topology>().answers::<TopologyView>().for_parts();
    ShowStatus: get("/v1/status", "Shows the site at a glance").answers::<StatusView>().for_parts();
    ListHeld: get("/v1/restore", "Lists what agents hold and a restored store does not know")
        .query::<query::HeldOn>().answers::<Vec<HeldView>>();
    Decide: post("/v1/restore", "Decides what becomes of that").takes::<Decide>().answers::<Decided>();
    ShowMetrics: get("/metrics", "Shows figures for Prometheus").answers_text("Lines of Prometheus' text format");
    ShowVersion: get("/v1/version", "Says which controller this is").answers::<Version>().for_parts();
    Describe: get("/v1/openapi.json", "Shows this description").answers::<serde_json::Value>().for_parts();
}
