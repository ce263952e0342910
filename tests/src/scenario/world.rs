//! An engine and a simulated node on a virtual clock. Every move is followed by checks: each thing has a row, nothing
//! is made before what it needs, and nothing is removed that another thing still refers to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use muster_engine::memory::Tables;
use muster_engine::{
    Answer, Config, Effect, Engine, Input, JoinAsk, Limits, NewToken, Options, Refusal, Request, Source,
};
use muster_shared::join::TokenSecret;
use muster_shared::model::{Action, Down, Hello, Job, Progress, Spec, Up};
use muster_shared::seal::SealPublic;
use muster_shared::{Epoch, MonoTime, NodeId, ResourceId, StackName};

use super::content::Content;
use super::history::{History, Wanted};
use super::order::{Choice, Choices, Order};
use super::{Operation, Wish};
use crate::node::SimNode;

/// Moves until a run is given up: one that needs more does not end.
const MOVES_MAX: usize = 500_000;
const NODE: &str = "node-1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// A job ran to its end.
    Job,
    /// A message, the beginning of a job, or the clock.
    Other,
    /// Nothing is left that could.
    Nothing,
}

pub(super) struct World {
    engine: Engine,
    node: SimNode,
    node_id: NodeId,
    now: MonoTime,
    order: Order,
    pub stacks: BTreeMap<StackName, History>,
    tables: Tables,
    /// Every row there ever was.
    names: BTreeMap<ResourceId, (StackName, String)>,
    /// The rows there are.
    rows: BTreeSet<ResourceId>,
    down: VecDeque<Down>,
    up: VecDeque<Up>,
    answered: Option<Result<Answer, Refusal>>,
}

impl World {
    pub fn new(mut order: Order) -> anyhow::Result<Self> {
        let (withdrawn, at_a_time) = order.temper();
        let limits = Limits::default();
        let limits = Limits { in_flight_per_node: limits.in_flight_per_node.min(at_a_time), ..limits };
        let config = Config {
            epoch: Epoch(1),
            epoch_bits: 1,
            starts: muster_engine::Starts::default(),
            seed: [7; 32],
            limits,
        };
        let node_id: NodeId = NODE.parse()?;
        let mut world = Self {
            engine: Engine::new(config),
            node: SimNode::new(withdrawn),
            node_id: node_id.clone(),
            now: MonoTime::default(),
            order,
            stacks: BTreeMap::new(),
            tables: Tables::default(),
            names: BTreeMap::new(),
            rows: BTreeSet::new(),
            down: VecDeque::new(),
            up: VecDeque::new(),
            answered: None,
        };
        let secret = TokenSecret([1; 16]);
        world.ask(Request::NewToken {
            token: NewToken {
                id: [1; 8],
                secret_hash: secret.digest(),
                expires: 10,
                uses: 1,
                name: None,
                labels: BTreeMap::new(),
                rate: None,
            },
            wall: 0,
        })??;
        world.ask(Request::Join(JoinAsk {
            token_id: [1; 8],
            secret,
            name: node_id.clone(),
            seal_public: SealPublic([0; 32]),
            agent_version: "sim".into(),
            moves: false,
            wall: 1,
        }))??;
        world.input(Input::Connected { node: node_id.clone(), connection: 1 })?;
        let hello = Hello {
            boot_id: 1,
            instance: None,
            address: None,
            agent_version: "sim".into(),
            reads: 0,
            epoch: Epoch(0).into(),
            ledger: 0,
        };
        world.input(Input::Received { node: node_id, connection: 1, message: Up::Hello(hello) })?;
        Ok(world)
    }

    /// Gives the engine an operation; what it says to that comes back. No job has run yet.
    pub fn operate(&mut self, operation: &Operation) -> anyhow::Result<Result<(), Refusal>> {
        let name = operation.stack.clone();
        let before = self.stacks.get(&name).cloned();
        let options = Options { delete_first: operation.delete_first, ..options() };
        let request = match &operation.wish {
            Wish::Create(Wanted { source, .. }) => {
                Request::Create { name: name.clone(), source: source.clone(), options }
            }
            Wish::Update(Wanted { source, .. }) => {
                Request::Update { name: name.clone(), source: source.clone(), options }
            }
            Wish::Delete => Request::Delete { name: name.clone() },
            // To nothing, which an operator must name, is wanted here as any other revision is.
            Wish::Rollback => {
                let previous = before.as_ref().and_then(History::previous);
                Request::Rollback { name: name.clone(), to: previous.is_none().then_some(0) }
            }
            Wish::Cancel => Request::Cancel { name: name.clone() },
        };
        // Noted before the engine is asked: the jobs that follow at once are checked against it.
        let mut history = before.clone().unwrap_or_default();
        history.delete_first = operation.delete_first;
        history.cancelled = matches!(operation.wish, Wish::Cancel);
        history.deleting = matches!(operation.wish, Wish::Delete) || history.cancelled && history.deleting;
        history.wanted = match &operation.wish {
            Wish::Create(wanted) | Wish::Update(wanted) => wanted.clone(),
            Wish::Delete => Wanted::nothing(),
            Wish::Rollback => history.before(),
            Wish::Cancel => history.wanted,
        };
        if before.is_some() || matches!(operation.wish, Wish::Create(_)) {
            self.stacks.insert(name.clone(), history);
        }
        match self.ask(request)? {
            Ok(Answer::Stack { revision, .. }) => {
                // The stack is gone already if it had nothing to delete.
                if let Some(history) = self.stacks.get_mut(&name) {
                    history.begun(revision);
                }
                self.observe()?;
                Ok(Ok(()))
            }
            Ok(other) => bail!("the engine answered {other:?}"),
            Err(refusal) => {
                self.stacks.extend(before.map(|before| (name, before)));
                Ok(Err(refusal))
            }
        }
    }

    fn ask(&mut self, request: Request) -> anyhow::Result<Result<Answer, Refusal>> {
        self.answered = None;
        self.input(Input::Request { id: 1, request: Box::new(request) })?;
        self.answered.take().context("the engine did not answer")
    }

    /// Lets at most `most` jobs run to their end; how many did.
    pub fn run(&mut self, most: usize) -> anyhow::Result<usize> {
        let mut ran = 0;
        for _ in 0..MOVES_MAX {
            let messages = !self.down.is_empty() || !self.up.is_empty();
            if ran >= most && !(messages && self.order.is_prompt()) {
                return Ok(ran);
            }
            match self.advance()? {
                Moved::Job => ran += 1,
                Moved::Other => {}
                Moved::Nothing => return Ok(ran),
            }
        }
        bail!("still busy after {MOVES_MAX} moves");
    }

    fn advance(&mut self) -> anyhow::Result<Moved> {
        let choices = Choices {
            down: !self.down.is_empty(),
            up: self.up.len(),
            running: self.node.is_running(),
            waiting: self.node.waiting(),
        };
        match self.order.choose(&choices) {
            Some(Choice::Down) => {
                let answer = self.down.pop_front().and_then(|message| self.node.receive(message));
                self.up.extend(answer);
                self.check_things()?; // one that is interrupted may have done all it was to do
            }
            Some(Choice::Up(at)) => {
                let message = self.up.remove(at).context("no such message")?;
                let node = self.node_id.clone();
                self.input(Input::Received { node, connection: 1, message })?;
            }
            Some(Choice::Start(at)) => {
                let key = self.node.start(at);
                self.up.extend(key.map(|key| Up::Progress(Progress { key, settling: false })));
            }
            Some(end @ (Choice::Finish | Choice::Fail { .. })) => {
                let report = match end {
                    Choice::Fail { done } => self.node.fail(done).or_else(|| self.node.finish()),
                    _ => self.node.finish(),
                };
                self.up.extend(report);
                self.check_things()?;
                return Ok(Moved::Job);
            }
            None => return self.pass_time(),
        }
        Ok(Moved::Other)
    }

    /// No scenario ends by a stack's timeout.
    fn pass_time(&mut self) -> anyhow::Result<Moved> {
        match self.engine.poll_timeout() {
            None | Some((_, "stack timeout")) => Ok(Moved::Nothing),
            Some((due, _)) => {
                self.now = self.now.max(due);
                self.input(Input::Timeout)?;
                Ok(Moved::Other)
            }
        }
    }

    fn input(&mut self, input: Input) -> anyhow::Result<()> {
        self.handle(input);
        while let Some(effect) = self.engine.poll_effect() {
            match effect {
                Effect::Persist(change) => self.tables.apply(change),
                Effect::Send { message, .. } => {
                    if let Down::Job(job) = &message {
                        self.check_job(job)?;
                    }
                    self.down.push_back(message);
                }
                Effect::Answer { answer, .. } => self.answered = Some(answer),
                Effect::Discard(_) | Effect::Warn(_) => {}
                Effect::LoadRevision { load, stack, revision } => {
                    let text = self.tables.source(&stack, revision);
                    let source = text.ok_or_else(|| "no such revision".to_owned()).and_then(|text| {
                        Source::parse((**text).clone()).map_err(|errors| errors.to_string())
                    });
                    self.handle(Input::RevisionLoaded { load, source });
                }
                _ => {} // the rest is for a link
            }
        }
        self.observe()
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        self.rows.clear();
        for view in self.engine.view().stack_views() {
            let Ok(stack) = view.name.parse::<StackName>() else { continue };
            for (name, id) in self.engine.view().physical_ids(&stack) {
                self.rows.insert(id);
                self.names.entry(id).or_insert_with(|| (stack.clone(), name));
            }
        }
    }

    fn observe(&mut self) -> anyhow::Result<()> {
        let engine = &self.engine;
        let mut vanished = None;
        self.stacks.retain(|name, history| match engine.view().stack_view(name) {
            Some(view) => {
                history.observe(&view);
                true
            }
            None => {
                if !history.deleting {
                    vanished = Some(name.clone());
                }
                false
            }
        });
        ensure!(vanished.is_none(), "stack {vanished:?} is gone although nobody deleted it");
        Ok(())
    }

    /// At the moment a job is sent.
    fn check_job(&self, job: &Job) -> anyhow::Result<()> {
        let (stack, name) = self.names.get(&job.resource).context("a job for a thing without a row")?;
        let history = self.stacks.get(stack).context("a job of a stack that is gone")?;
        ensure!(!history.cancelled, "a job for {name} although the operation was cancelled");
        if job.action == Action::Delete {
            let referring = self.referring_to(job.resource);
            ensure!(referring.is_none(), "{name} is to be deleted while {referring:?} refers to it");
            return Ok(());
        }
        let content = &history.wanted.content;
        ensure!(content.has(name), "a job to make {name}, which the last operation does not want");
        if history.delete_first {
            self.check_room(stack, history, name)?;
        }
        for need in content.needs(name) {
            ensure!(self.live(Some(stack), Some(&need)) > 0, "a job for {name}, which needs {need}");
        }
        if let Spec::Dummy(dummy) = &job.spec {
            for value in dummy.values.values() {
                self.check_value(name, value)?;
            }
        }
        Ok(())
    }

    /// Before something is made or changed in an operation that deletes first.
    fn check_room(&self, stack: &StackName, history: &History, name: &str) -> anyhow::Result<()> {
        let mut there = self.ids(Some(stack), None).map(|id| self.name_of(id));
        let left = there.find(|old| !history.wanted.content.has(old) && !history.may_be_needed(old));
        ensure!(left.is_none(), "a job for {name} although {left:?} was to go first");
        Ok(())
    }

    /// After whatever may have changed what is there.
    fn check_things(&self) -> anyhow::Result<()> {
        for (id, values) in &self.node.things {
            ensure!(self.rows.contains(id), "{} is there without a row", self.name_of(*id));
            for (_, value) in values {
                self.check_value(self.name_of(*id), value)?;
            }
        }
        Ok(())
    }

    fn check_value(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let known = value.parse::<uuid::Uuid>().map(ResourceId).ok().filter(|id| self.names.contains_key(id));
        if let Some(id) = known {
            let there = self.node.things.contains_key(&id);
            ensure!(there, "{name} refers to a {} that is not there", self.name_of(id));
        }
        Ok(())
    }

    fn name_of(&self, id: ResourceId) -> &str {
        self.names.get(&id).map_or("a thing that nobody knows", |(_, name)| name)
    }

    fn referring_to(&self, target: ResourceId) -> Option<&str> {
        let target = target.to_string();
        let refers = |values: &[(String, String)]| values.iter().any(|(_, value)| *value == target);
        let mut things = self.node.things.iter();
        things.find(|(_, values)| refers(values)).map(|(id, _)| self.name_of(*id))
    }

    fn ids(&self, stack: Option<&StackName>, resource: Option<&str>) -> impl Iterator<Item = ResourceId> {
        self.node.things.keys().copied().filter(move |id| {
            let Some((of, name)) = self.names.get(id) else { return stack.is_none() && resource.is_none() };
            stack.is_none_or(|stack| stack == of) && resource.is_none_or(|resource| resource == name)
        })
    }

    /// Returns the number of things of the stack, of the resource, or of all.
    pub fn live(&self, stack: Option<&StackName>, resource: Option<&str>) -> usize {
        self.ids(stack, resource).count()
    }

    /// The one thing of that name.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn only(&self, stack: Option<&StackName>, resource: &str) -> anyhow::Result<ResourceId> {
        let mut found = self.ids(stack, Some(resource));
        let first = found.next().with_context(|| format!("no live {resource}"))?;
        ensure!(found.next().is_none(), "more than one live {resource}");
        Ok(first)
    }

    /// Checks that exactly what `content` says is there, in a stack or in all.
    ///
    /// # Errors
    /// Says what differs.
    pub fn verify(&self, stack: Option<&StackName>, content: &Content) -> anyhow::Result<()> {
        for id in self.ids(stack, None) {
            let name = self.name_of(id);
            ensure!(content.has(name), "{name} is still there");
        }
        for name in content.names() {
            let id = self.only(stack, name)?;
            let real: BTreeMap<String, String> = self.node.things[&id].iter().cloned().collect();
            let physical = |name: &str| Ok(self.only(stack, name)?.to_string());
            let wanted = content.values(name, &physical)?;
            ensure!(real == wanted, "{name} has {real:?}, wanted {wanted:?}");
        }
        Ok(())
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn is_empty(&self) -> bool {
        self.node.things.is_empty() && self.rows.is_empty()
    }
}

/// No scenario ends by time.
fn options() -> Options {
    Options { timeout: Duration::from_secs(86_400), ..Options::default() }
}
