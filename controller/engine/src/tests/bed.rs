//! A test bed: an engine, a store in memory, and nodes that run jobs when the test says so.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use muster_shared::join::TokenSecret;
use muster_shared::model::{Content, Hello, Job, Outcome, Report, Spec, Up};
use muster_shared::seal::SealPublic;
use muster_shared::wire::READS;
use muster_shared::{Epoch, EpochId, MonoTime, NodeId, StackName};

use super::host::Host;
use crate::memory;
use crate::record::Change;
use crate::view::{ResourceView, StackView};
use crate::{Answer, Config, Effect, Engine, Input, JoinAsk, Limits, NewToken, Options, Refusal, Request};
use crate::{EnvironmentText, Hook, Snapshot, Source, SourceText};

/// The store, and texts of its events in their order.
#[derive(Clone, Default)]
pub struct Tables {
    kept: memory::Tables,
    written: memory::Written,
    pub events: Vec<String>,
    /// Reasons of all events.
    pub reasons: Vec<String>,
    /// The actors of the requests that led to the events.
    pub actors: Vec<Option<String>>,
    pub writes: usize,
}

impl Tables {
    fn apply(&mut self, change: Change, now: MonoTime) {
        self.writes += 1;
        self.written.note(&change, now);
        if let Change::Event(event) = &change {
            let name = event.resource.as_ref().map_or("stack", |(name, _)| name);
            self.events.push(format!("{name} {}_{}", event.action, event.status));
            self.reasons.push(event.reason.to_string());
            self.actors.push(event.actor.as_deref().map(str::to_owned));
        }
        self.kept.apply(change);
    }

    /// Returns the snapshot that an engine loads which starts now.
    pub fn loaded_at(&self, now: MonoTime) -> Snapshot {
        let mut snapshot = self.snapshot();
        self.written.age(&mut snapshot, now);
        snapshot
    }
}

impl Deref for Tables {
    type Target = memory::Tables;
    fn deref(&self) -> &memory::Tables {
        &self.kept
    }
}

impl DerefMut for Tables {
    fn deref_mut(&mut self) -> &mut memory::Tables {
        &mut self.kept
    }
}

pub struct Bed {
    pub engine: Engine,
    pub tables: Tables,
    pub hosts: BTreeMap<NodeId, Host>,
    pub now: MonoTime,
    pub epoch: u32,
    /// Action and resource name of each job that ran, in order.
    pub ran: Vec<String>,
    /// The controller dies after its next commits. Nothing that it sends arrives.
    pub dying: bool,
    /// Revisions are not read before [`Bed::read`].
    pub slow: bool,
    /// A stack that enters its rows waits for the next timeout.
    pub lazy: bool,
    unread: Vec<Input>,
    pub answers: BTreeMap<u64, Result<Answer, Refusal>>,
    /// The node that got each piece of a content.
    pub chunks: Vec<NodeId>,
    pub warnings: Vec<String>,
    pub limits: Limits,
    next_id: u64,
    next_connection: u64,
}

pub fn stack() -> StackName {
    "s".parse().unwrap()
}

pub fn node(index: usize) -> NodeId {
    format!("node-{index}").parse().unwrap()
}

pub fn parse(text: SourceText) -> Source {
    Source::parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A template of dummies from `name: values | needs` lines; values as `key=value`, needs as names.
/// `here` before the values makes the resource a virtual one.
pub fn template(lines: &str) -> Source {
    let mut text = String::from("heat_template_version: 2018-08-31\nresources:\n");
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, rest) = line.split_once(':').unwrap();
        let (values, needs) = rest.split_once('|').unwrap_or((rest, ""));
        let mut properties = Vec::new();
        let mut pairs = Vec::new();
        let (kind, values) = match values.trim().strip_prefix("here ") {
            Some(values) => ("OS::Heat::Value", values),
            None => ("Muster::Dummy", values),
        };
        for word in values.split_whitespace() {
            match word.split_once('=').unwrap() {
                ("node", node) => properties.push(format!("node: {node}")),
                ("fail", when) => properties.push(format!("fail: {when}")),
                (key, value) if value.starts_with('@') => {
                    let (of, attribute) = value[1..].split_once('.').unwrap();
                    pairs.push(format!("\"{key}\": {{get_attr: [{of}, \"{attribute}\"]}}"));
                }
                (key, value) => pairs.push(format!("\"{key}\": \"{value}\"")),
            }
        }
        let key = if kind == "Muster::Dummy" { "values" } else { "value" };
        properties.push(format!("{key}: {{{}}}", pairs.join(", ")));
        let needs: Vec<&str> = needs.split_whitespace().collect();
        text.push_str(&format!(
            "  {name}:\n    type: {kind}\n    properties: {{{}}}\n    depends_on: [{}]\n",
            properties.join(", "),
            needs.join(", ")
        ));
    }
    parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })
}

/// A template of files on node-0 from `name: path content | needs` lines.
pub fn files(lines: &str) -> Source {
    let mut text = String::from("heat_template_version: 2018-08-31\nresources:\n");
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, rest) = line.split_once(':').unwrap();
        let (file, needs) = rest.split_once('|').unwrap_or((rest, ""));
        let (path, content) = file.trim().split_once(' ').unwrap_or((file.trim(), "hello"));
        let needs: Vec<&str> = needs.split_whitespace().collect();
        text.push_str(&format!(
            "  {name}:\n    type: Muster::File\n    properties: {{node: node-0, path: {path}, content: {}}}\n    depends_on: [{}]\n",
            content.trim(),
            needs.join(", ")
        ));
    }
    parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })
}

/// A template of flow tables from `name: device numbers | needs` lines; a number `n=t` sends to table t.
pub fn flows(lines: &str) -> Source {
    let mut text = String::from("heat_template_version: 2018-08-31\nresources:\n");
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, rest) = line.split_once(':').unwrap();
        let (what, needs) = rest.split_once('|').unwrap_or((rest, ""));
        let (retain, what) = match what.trim().strip_prefix("retain ") {
            Some(what) => ("\n    deletion_policy: retain", what),
            None => ("", what.trim()),
        };
        let mut words = what.split_whitespace();
        let device = words.next().unwrap();
        let rule = |word: &str| {
            let (n, table) = word.split_once('=').unwrap_or((word, "1"));
            format!(
                "{{priority: 100, selector: {{eth_type: 0x0800, ipv4_dst: 10.0.{n}.0/24}}, treatment: [{{goto_table: {table}}}]}}"
            )
        };
        let rules: Vec<String> = words.map(rule).collect();
        let needs: Vec<&str> = needs.split_whitespace().collect();
        text.push_str(&format!(
            "  {name}:\n    type: Muster::FlowTable\n    properties: {{device: {device}, rules: [{}]}}\n    depends_on: [{}]{retain}\n",
            rules.join(", "),
            needs.join(", ")
        ));
    }
    parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })
}

/// The same source with this `resources` part of an environment: `name: {hooks: …}, …`
pub fn under(source: Source, resources: &str) -> Source {
    let text = format!("resource_registry: {{resources: {{{resources}}}}}");
    let environments = vec![EnvironmentText { name: "e".into(), key: None, text }];
    parse(SourceText { environments, ..(*source.text).clone() })
}

pub fn options() -> Options {
    Options { timeout: Duration::from_secs(100_000), ..Options::default() }
}

impl Bed {
    pub fn new(nodes: usize) -> Self {
        Self::with(nodes, Limits::default())
    }

    pub fn with(nodes: usize, limits: Limits) -> Self {
        let mut bed = Self {
            engine: Engine::new(config(1, limits)),
            tables: Tables::default(),
            hosts: BTreeMap::new(),
            now: MonoTime::default(),
            epoch: 1,
            ran: Vec::new(),
            dying: false,
            slow: false,
            lazy: false,
            unread: Vec::new(),
            chunks: Vec::new(),
            warnings: Vec::new(),
            answers: BTreeMap::new(),
            limits,
            next_id: 0,
            next_connection: 0,
        };
        for index in 0..nodes {
            bed.join(&node(index));
            bed.connect(&node(index));
        }
        bed
    }

    pub fn join(&mut self, name: &NodeId) {
        self.join_as(name, None, 0);
    }

    /// Joins with new keys and a token for that name.
    pub fn rejoin(&mut self, name: &NodeId) {
        let key = u8::try_from(self.next_connection % 250).unwrap() + 1;
        self.join_as(name, Some(name.to_string()), key);
    }

    /// Joins with the node's present keys, and a token for that name or for any.
    pub fn try_join(&mut self, name: &NodeId, bound: Option<&str>) -> Result<Answer, Refusal> {
        self.token(bound, 1);
        self.ask(Request::Join(ask_to_join(name, 0)))
    }

    pub fn token(&mut self, bound: Option<&str>, uses: u32) {
        self.token_of([1; 8], bound, uses);
    }

    pub fn token_of(&mut self, id: [u8; 8], bound: Option<&str>, uses: u32) {
        self.token_at(id, bound, uses, None);
    }

    pub fn token_at(&mut self, id: [u8; 8], bound: Option<&str>, uses: u32, rate: Option<&str>) {
        self.ask(Request::NewToken {
            token: NewToken {
                id,
                secret_hash: TokenSecret([1; 16]).digest(),
                expires: 10,
                uses,
                name: bound.map(str::to_owned),
                labels: BTreeMap::new(),
                rate: rate.map(|rate| rate.parse().unwrap()),
            },
            wall: 0,
        })
        .unwrap();
    }

    fn join_as(&mut self, name: &NodeId, bound: Option<String>, key: u8) {
        self.token(bound.as_deref(), 1);
        self.ask(Request::Join(ask_to_join(name, key))).unwrap();
        self.hosts.entry(name.clone()).or_default();
    }

    /// Connects a node if it has joined, as the link does.
    pub fn connect(&mut self, name: &NodeId) {
        self.connect_as(name, Epoch(0).into(), None);
    }

    /// Connects a node whose agent has obeyed this epoch.
    pub fn connect_as(&mut self, name: &NodeId, epoch: EpochId, instance: Option<u128>) {
        if self.engine.view().node_seal(name).is_none() {
            return;
        }
        self.next_connection += 1;
        let connection = self.next_connection;
        let host = self.hosts.get_mut(name).unwrap();
        host.connection = Some(connection);
        let ledger = host.things.values().fold(0, |sum, (_, entry)| sum ^ entry.digest());
        self.input(Input::Connected { node: name.clone(), connection });
        let last = |instance: u128| u8::try_from(instance % 256).expect("less than 256");
        let address = instance.map(|instance| [10, 0, 0, last(instance)].into());
        let agent_version = "t".into();
        let host = &self.hosts[name];
        let reads = host.reads.unwrap_or(if host.is_old { 0 } else { READS });
        let hello = Hello { boot_id: 1, instance, address, agent_version, reads, epoch, ledger };
        self.receive(name, Up::Hello(hello));
    }

    /// Opens a connection whose agent has not reported its tables.
    pub fn greet_without_tables(&mut self, name: &NodeId) {
        self.greet(
            name,
            Hello {
                boot_id: 1,
                instance: None,
                address: None,
                agent_version: "test".into(),
                reads: 0,
                epoch: Epoch(0).into(),
                ledger: 0,
            },
        );
    }

    /// Opens a connection that begins with this Hello.
    pub fn greet(&mut self, name: &NodeId, hello: Hello) {
        self.disconnect(name);
        self.next_connection += 1;
        let connection = self.next_connection;
        self.input(Input::Connected { node: name.clone(), connection });
        self.input(Input::Received { node: name.clone(), connection, message: Up::Hello(hello) });
        self.hosts.get_mut(name).unwrap().connection = Some(connection);
    }

    pub fn disconnect(&mut self, name: &NodeId) {
        if let Some(connection) = self.hosts.get_mut(name).unwrap().connection.take() {
            self.input(Input::Disconnected { node: name.clone(), connection });
        }
    }

    /// Kills the controller and starts it again. State that was not persisted is gone.
    pub fn restart(&mut self) {
        self.restart_from(self.tables.loaded_at(self.now));
    }

    /// The same, with what is read from the store.
    pub fn restart_from(&mut self, snapshot: Snapshot) {
        self.epoch += 1;
        self.dying = false;
        self.unread.clear();
        self.engine = Engine::load(config(self.epoch, self.limits), snapshot, self.now);
        for host in self.hosts.values_mut() {
            host.connection = None;
        }
        self.input(Input::Timeout);
    }

    /// Reads the revisions that the engine asked for.
    pub fn read(&mut self) {
        for read in std::mem::take(&mut self.unread) {
            self.input(read);
        }
    }

    /// Sends a request. The answer may come later.
    pub fn put(&mut self, request: Request) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.input(Input::Request { id, request: Box::new(request) });
        id
    }

    pub fn ask(&mut self, request: Request) -> Result<Answer, Refusal> {
        let id = self.put(request);
        self.answers.remove(&id).expect("every request is answered")
    }

    pub fn create(&mut self, source: Source) -> Result<Answer, Refusal> {
        self.ask(Request::Create { name: stack(), source, options: options() })
    }

    pub fn update(&mut self, source: Source) -> Result<Answer, Refusal> {
        self.ask(Request::Update { name: stack(), source, options: options() })
    }

    pub fn delete_first(&mut self, source: Source, rollback: bool) -> Result<Answer, Refusal> {
        let options = Options { delete_first: true, rollback, ..options() };
        self.ask(Request::Update { name: stack(), source, options })
    }

    pub fn delete(&mut self) -> Result<Answer, Refusal> {
        self.ask(Request::Delete { name: stack() })
    }

    pub fn rollback(&mut self, to: Option<u32>) -> Result<Answer, Refusal> {
        self.ask(Request::Rollback { name: stack(), to })
    }

    pub fn check(&mut self) -> Result<Answer, Refusal> {
        self.ask(Request::Check { name: stack() })
    }

    pub fn unhealthy(&mut self, resource: &str) -> Result<Answer, Refusal> {
        self.ask(Request::Unhealthy { stack: stack(), resource: resource.into() })
    }

    pub fn cancel(&mut self) -> Result<Answer, Refusal> {
        self.ask(Request::Cancel { name: stack() })
    }

    /// Removes a node. Returns its lost resources, by name.
    pub fn remove(&mut self, name: &NodeId) -> Vec<String> {
        let answer = self.ask(Request::RemoveNode { node: name.clone() }).unwrap();
        let Answer::NodeRemoved { lost, .. } = answer else { panic!("removed") };
        lost.into_iter().map(|lost| lost.resource).collect()
    }

    /// Resources listed as lost on a node.
    pub fn lost(&self, name: &NodeId) -> Vec<String> {
        let views = self.engine.view().node_views().into_iter().filter(|view| view.name == name.as_str());
        views.flat_map(|view| view.lost).map(|lost| format!("{} {}", lost.resource, lost.reason)).collect()
    }

    pub fn node_state(&self, name: &NodeId) -> String {
        let views = self.engine.view().node_views();
        views
            .into_iter()
            .find(|view| view.name == name.as_str())
            .map_or_else(|| "none".into(), |view| view.state)
    }

    pub fn clear(&mut self, resource: &str, hook: Hook) -> Result<Answer, Refusal> {
        self.ask(Request::ClearHook { stack: stack(), resource: resource.into(), hook })
    }

    /// Clears all hooks that rows wait at. Returns whether there were any.
    pub fn clear_all(&mut self) -> bool {
        let waiting: Vec<ResourceView> =
            self.resources().into_iter().filter(|row| row.phase == "hook").collect();
        for row in &waiting {
            let hook = Hook::ALL
                .into_iter()
                .find(|hook| row.status_reason.starts_with(&format!("waits at hook {}:", hook.as_str())));
            // One request clears both rows of a name.
            let _ = self.clear(&row.name, hook.unwrap());
        }
        !waiting.is_empty()
    }

    pub fn receive(&mut self, name: &NodeId, message: Up) {
        if let Some(connection) = self.hosts[name].connection {
            self.input(Input::Received { node: name.clone(), connection, message });
        }
    }

    pub fn input(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        self.settle();
    }

    fn settle(&mut self) {
        let (mut replies, mut closed) = (VecDeque::new(), Vec::new());
        loop {
            while let Some(effect) = self.engine.poll_effect() {
                match effect {
                    Effect::Persist(change) => self.tables.apply(change, self.now),
                    Effect::Send { node, connection, message } => {
                        let host = self.hosts.get_mut(&node).unwrap();
                        if host.connection == Some(connection) && !self.dying {
                            replies.extend(
                                host.take(message).into_iter().map(|up| (node.clone(), connection, up)),
                            );
                        }
                    }
                    Effect::SendChunk { node, .. } => self.chunks.push(node),
                    Effect::Close { node } => {
                        if let Some(host) = self.hosts.get_mut(&node) {
                            closed.extend(host.connection.take().map(|connection| (node, connection)));
                        }
                    }
                    Effect::Answer { id, answer } => {
                        self.answers.insert(id, answer);
                    }
                    Effect::Discard(_) => {}
                    Effect::Warn(what) => self.warnings.push(what),
                    Effect::LoadRevision { load, stack, revision } => {
                        let text = self.tables.source(&stack, revision);
                        let source =
                            text.map(|text| parse((**text).clone())).ok_or_else(|| "not kept".to_owned());
                        let read = Input::RevisionLoaded { load, source };
                        match self.slow {
                            true => self.unread.push(read),
                            false => self.engine.handle(self.now, read),
                        }
                    }
                }
            }
            for (node, connection) in std::mem::take(&mut closed) {
                self.engine.handle(self.now, Input::Disconnected { node, connection });
            }
            self.engine.view().audit();
            match replies.pop_front() {
                Some((node, connection, message)) => {
                    self.engine.handle(self.now, Input::Received { node, connection, message });
                }
                None if self.enters() && !self.lazy => self.engine.handle(self.now, Input::Timeout),
                None => return,
            }
        }
    }

    /// Lets the host's job at `at` run to its end and report.
    pub fn run_at(&mut self, name: &NodeId, at: usize) -> bool {
        let Some(job) = self.hosts.get_mut(name).and_then(|host| host.queue.remove(at)) else { return false };
        // An agent runs jobs of one kind one after the other.
        let claims = job.spec.claims();
        let before = |earlier: &Job| {
            earlier.resource == job.resource
                || earlier.spec.claims().iter().any(|claim| claims.contains(claim))
        };
        while let Some(earlier) = self.hosts[name].running.iter().position(before) {
            let earlier = self.hosts.get_mut(name).unwrap().running.remove(earlier);
            self.finish(name, earlier);
        }
        self.finish(name, job);
        true
    }

    fn finish(&mut self, name: &NodeId, job: Job) {
        let row = self.tables.rows.values().find(|row| row.physical == job.resource);
        let row = row.expect("a row exists before its job is sent");
        self.ran.push(format!("{:?} {}", job.action, row.name));
        let host = self.hosts.get_mut(name).unwrap();
        let report = host.run(job);
        self.receive(name, Up::Report(report));
    }

    /// Begins the host's first job. The test ends it.
    pub fn begin(&mut self, name: &NodeId) {
        let host = self.hosts.get_mut(name).unwrap();
        let job = host.queue.pop_front().expect("a job waits");
        host.running.push(job);
    }

    /// Ends the job that began first.
    pub fn end(&mut self, name: &NodeId) {
        let job = self.hosts.get_mut(name).unwrap().running.remove(0);
        self.finish(name, job);
    }

    /// Fails the host's first job. `permanent`: a retry cannot help.
    pub fn fail_next(&mut self, name: &NodeId, permanent: bool) {
        let Some(job) = self.hosts.get_mut(name).and_then(|host| host.queue.pop_front()) else { return };
        let outcome = Outcome::Failed { reason: "refused".into(), permanent };
        let report = Report { key: job.key(), outcome };
        self.hosts.get_mut(name).unwrap().outcomes.insert(job.resource, report.clone());
        self.receive(name, Up::Report(report));
    }

    /// Runs jobs in the order in which they were sent, and lets backoffs pass, until nothing is left.
    pub fn idle(&mut self) {
        for _ in 0..100_000 {
            let busy =
                self.hosts.iter().find(|(_, host)| host.connection.is_some() && !host.queue.is_empty());
            if let Some(name) = busy.map(|(name, _)| name.clone()) {
                self.run_at(&name, 0);
            } else if self.enters() {
                self.input(Input::Timeout);
            } else if let Some(due) = self.engine.view().next_job() {
                self.now = self.now.max(due);
                self.input(Input::Timeout);
            } else {
                return;
            }
        }
        panic!("never idle");
    }

    /// Whether a stack enters its rows.
    pub fn enters(&self) -> bool {
        self.engine.graph().ctx.slices.has_next()
    }

    pub fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.input(Input::Timeout);
    }

    pub fn view(&self) -> Option<StackView> {
        self.engine.view().stack_view(&stack())
    }

    pub fn status(&self) -> String {
        self.view().map_or_else(|| "gone".into(), |v| format!("{}_{}", v.action, v.status))
    }

    pub fn resources(&self) -> Vec<ResourceView> {
        self.engine.view().resource_views(&stack(), true).unwrap_or_default()
    }

    pub fn resource(&self, name: &str) -> ResourceView {
        let mut found: Vec<ResourceView> =
            self.engine.view().resource_views(&stack(), false).unwrap_or_default();
        found.retain(|view| view.name == name);
        found.remove(0)
    }

    /// Path and content of every file on node-0.
    pub fn disk(&self) -> Vec<String> {
        let files = &self.hosts[&node(0)].files;
        files
            .iter()
            .map(|(path, (_, content))| match content {
                Content::Inline(bytes) => format!("{path} {}", String::from_utf8_lossy(bytes)),
                Content::Stored { digest, .. } => format!("{path} {digest}"),
            })
            .collect()
    }

    /// Name and values of every thing that exists.
    pub fn reality(&self) -> Vec<(String, BTreeMap<String, String>)> {
        let mut all: Vec<_> = self
            .hosts
            .values()
            .flat_map(|host| &host.things)
            .map(|(id, (spec, _))| {
                let row = self.tables.rows.values().find(|row| row.physical == *id);
                let values = match spec {
                    Spec::Dummy(dummy) => dummy.values.clone(),
                    Spec::File(file) => [("path".to_owned(), file.path.clone())].into(),
                    Spec::Network(_)
                    | Spec::Hostname(_)
                    | Spec::Deployment(_)
                    | Spec::Unit(_)
                    | Spec::Sysctl(_)
                    | Spec::Package(_)
                    | Spec::User(_)
                    | Spec::Group(_)
                    | Spec::Timezone(_) => BTreeMap::new(),
                };
                (row.map_or_else(|| format!("forgotten {id}"), |row| row.name.to_string()), values)
            })
            .collect();
        all.sort();
        all
    }
}

pub fn ask_to_join(name: &NodeId, key: u8) -> JoinAsk {
    JoinAsk {
        token_id: [1; 8],
        secret: TokenSecret([1; 16]),
        name: name.clone(),
        seal_public: SealPublic([key; 32]),
        agent_version: "t".into(),
        moves: false,
        wall: 1,
    }
}

pub fn config(epoch: u32, limits: Limits) -> Config {
    let mut seed = [0; 32];
    seed[..4].copy_from_slice(&epoch.to_le_bytes());
    Config { epoch: Epoch(epoch), epoch_bits: 1, starts: crate::Starts::default(), seed, limits }
}
