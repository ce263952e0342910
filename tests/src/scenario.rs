//! Scripted runs: one engine, one simulated node, `Muster::Dummy` resources. The format is that of recorded
//! runs of Heat's own convergence tests: operations, and how many jobs run between them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use muster_engine::record::Change;
use muster_engine::{Config, Effect, Engine, Input, Limits, NewToken, Options, Request, Source, SourceText};
use muster_shared::join::TokenSecret;
use muster_shared::model::{Hello, Up};
use muster_shared::seal::SealPublic;
use muster_shared::{Epoch, MonoTime, NodeId, ResourceId, StackName};
use serde::Deserialize;
use serde_json::Value;

use crate::node::SimNode;

/// A scenario file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Shown with its result.
    pub name: String,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    Create {
        stack: StackName,
        template: Value,
    },
    Update {
        stack: StackName,
        template: Value,
    },
    Delete {
        stack: StackName,
    },
    Rollback {
        stack: StackName,
    },
    #[serde(rename = "step")]
    Jobs {
        n: usize,
    },
    Until {
        count: usize,
        resource: Option<String>,
    },
    Idle,
    Verify {
        template: Value,
    },
    StoreUuid {
        resource: String,
    },
    UuidSame {
        resource: String,
    },
    UuidDiffers {
        resource: String,
        from: String,
    },
}

/// Jobs in one run: a scenario that needs more does not end.
const JOBS_MAX: usize = 100_000;
const NODE: &str = "node-1";

impl Scenario {
    /// Runs it.
    ///
    /// # Errors
    /// The step that failed, by number, and why.
    pub fn run(&self) -> anyhow::Result<()> {
        let mut world = World::new()?;
        for (number, step) in self.steps.iter().enumerate() {
            world.step(step).with_context(|| format!("step {number} ({step:?})"))?;
        }
        Ok(())
    }
}

/// Engine and node on one virtual clock.
pub struct World {
    engine: Engine,
    node: SimNode,
    node_id: NodeId,
    now: MonoTime,
    stack_ids: BTreeMap<StackName, u64>,
    revisions: BTreeMap<(u64, u32), SourceText>,
    names: BTreeMap<ResourceId, String>,
    stacks: Vec<StackName>,
    remembered: BTreeMap<String, ResourceId>,
    to_engine: VecDeque<Up>,
    answered: Option<Result<muster_engine::Answer, muster_engine::Refusal>>,
}

impl World {
    fn new() -> anyhow::Result<Self> {
        let config = Config { epoch: Epoch(1), seed: [7; 32], limits: Limits::default() };
        let node_id: NodeId = NODE.parse()?;
        let mut world = Self {
            engine: Engine::new(config),
            node: SimNode::default(),
            node_id: node_id.clone(),
            now: MonoTime::default(),
            stack_ids: BTreeMap::new(),
            revisions: BTreeMap::new(),
            names: BTreeMap::new(),
            stacks: Vec::new(),
            remembered: BTreeMap::new(),
            to_engine: VecDeque::new(),
            answered: None,
        };
        let secret = TokenSecret([1; 16]);
        world.ask(Request::NewToken(NewToken {
            id: [1; 8],
            secret_hash: secret.digest(),
            expires: 10,
            uses: 1,
            name: None,
            labels: BTreeMap::new(),
        }))?;
        world.ask(Request::Join(muster_engine::JoinAsk {
            token_id: [1; 8],
            secret,
            name: node_id.clone(),
            seal_public: SealPublic([0; 32]),
            agent_version: "sim".into(),
            wall: 1,
        }))?;
        world.input(Input::Connected { node: node_id, connection: 1 });
        world.to_engine.push_back(Up::Hello(Hello {
            boot_id: 1,
            agent_version: "sim".into(),
            epoch: Epoch(0),
            ledger: 0,
        }));
        world.settle();
        Ok(world)
    }

    fn input(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        self.settle();
    }

    fn ask(&mut self, request: Request) -> anyhow::Result<muster_engine::Answer> {
        self.answered = None;
        self.input(Input::Request { id: 1, request: Box::new(request) });
        Ok(self.answered.take().context("the engine did not answer")??)
    }

    /// Carries out effects and delivers messages until nothing moves but jobs.
    fn settle(&mut self) {
        loop {
            while let Some(effect) = self.engine.poll_effect() {
                match effect {
                    Effect::Persist(Change::Stack(stack)) => {
                        self.stack_ids.insert(stack.name, stack.id);
                    }
                    Effect::Persist(Change::Revision(revision)) => {
                        self.revisions.insert((revision.stack, revision.number), (*revision.text).clone());
                    }
                    Effect::Persist(_) => {}
                    Effect::Send { message, .. } => self.to_engine.extend(self.node.receive(message)),
                    Effect::SendChunk { .. } => {}
                    Effect::Answer { answer, .. } => self.answered = Some(answer),
                    Effect::LoadRevision { load, stack, revision } => {
                        let id = self.stack_ids.get(&stack).copied().unwrap_or_default();
                        let text = self.revisions.get(&(id, revision)).cloned();
                        let source = text
                            .ok_or_else(|| "no such revision".to_owned())
                            .and_then(|text| Source::parse(text).map_err(|errors| errors.to_string()));
                        self.engine.handle(self.now, Input::RevisionLoaded { load, source });
                    }
                }
            }
            let Some(message) = self.to_engine.pop_front() else { break };
            let node = self.node_id.clone();
            self.engine.handle(self.now, Input::Received { node, connection: 1, message });
        }
        for stack in &self.stacks {
            for (name, id) in self.engine.physical_ids(stack) {
                self.names.insert(id, name);
            }
        }
    }

    /// Lets one job run to its end; false if none is left and none will come.
    fn run_job(&mut self) -> bool {
        loop {
            if let Some(report) = self.node.run_one() {
                self.to_engine.push_back(report);
                self.settle();
                return true;
            }
            match self.engine.poll_timeout() {
                Some((due, "a job is due")) => {
                    self.now = self.now.max(due);
                    self.input(Input::Timeout);
                }
                _ => return false,
            }
        }
    }

    fn live(&self, resource: Option<&str>) -> usize {
        let is = |id: &ResourceId| resource.is_none_or(|name| self.names.get(id).is_some_and(|n| n == name));
        self.node.things.keys().filter(|id| is(id)).count()
    }

    fn step(&mut self, step: &Step) -> anyhow::Result<()> {
        match step {
            Step::Create { stack, template } => {
                self.stacks.push(stack.clone());
                let source = source(template)?;
                self.ask(Request::Create { name: stack.clone(), source, options: options() })?;
            }
            Step::Update { stack, template } => {
                let source = source(template)?;
                self.ask(Request::Update { name: stack.clone(), source, options: options() })?;
            }
            Step::Delete { stack } => {
                self.ask(Request::Delete { name: stack.clone() })?;
            }
            Step::Rollback { stack } => {
                self.ask(Request::Rollback { name: stack.clone(), to: None })?;
            }
            Step::Jobs { n } => {
                for _ in 0..*n {
                    if !self.run_job() {
                        break;
                    }
                }
            }
            Step::Until { count, resource } => {
                for _ in 0..JOBS_MAX {
                    if self.live(resource.as_deref()) == *count {
                        return Ok(());
                    }
                    if !self.run_job() {
                        break;
                    }
                }
                bail!("never so: there are {}", self.live(resource.as_deref()));
            }
            Step::Idle => {
                let mut jobs = 0;
                while self.run_job() {
                    jobs += 1;
                    ensure!(jobs < JOBS_MAX, "still busy after {JOBS_MAX} jobs");
                }
            }
            Step::Verify { template } => self.verify(template)?,
            Step::StoreUuid { resource } => {
                let id = self.only(resource)?;
                self.remembered.insert(resource.clone(), id);
            }
            Step::UuidSame { resource } => {
                let stored = self.remembered.get(resource).context("not stored before")?;
                ensure!(*stored == self.only(resource)?, "it is another");
            }
            Step::UuidDiffers { resource, from } => {
                let stored = self.remembered.get(from).context("not stored before")?;
                ensure!(*stored != self.only(resource)?, "it is the same");
            }
        }
        Ok(())
    }

    /// The one live thing of that name.
    fn only(&self, resource: &str) -> anyhow::Result<ResourceId> {
        let mut found =
            self.node.things.keys().filter(|id| self.names.get(id).is_some_and(|n| n == resource));
        let first = found.next().with_context(|| format!("no live {resource}"))?;
        ensure!(found.next().is_none(), "more than one live {resource}");
        Ok(*first)
    }

    /// What is there against what the template says, worked out here without the template engine.
    fn verify(&self, template: &Value) -> anyhow::Result<()> {
        let resources = template["resources"].as_object().cloned().unwrap_or_default();
        for (id, values) in &self.node.things {
            let name = self.names.get(id).with_context(|| format!("{id} has no row: {values:?}"))?;
            ensure!(resources.contains_key(name), "{name} is still there");
        }
        for name in resources.keys() {
            let real: BTreeMap<String, String> =
                self.node.things[&self.only(name)?].iter().cloned().collect();
            let wanted = self.wanted(&resources, name)?;
            ensure!(real == wanted, "{name} has {real:?}, wanted {wanted:?}");
        }
        Ok(())
    }

    fn wanted(
        &self,
        resources: &serde_json::Map<String, Value>,
        name: &str,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let values = resources[name]["properties"]["values"].as_object().cloned().unwrap_or_default();
        values
            .into_iter()
            .map(|(key, value)| {
                let text = match &value {
                    Value::String(text) => text.clone(),
                    Value::Object(call) => {
                        if let Some(target) = call.get("get_resource").and_then(Value::as_str) {
                            self.only(target)?.to_string()
                        } else {
                            let path =
                                call.get("get_attr").and_then(Value::as_array).context("unknown function")?;
                            let part =
                                |at: usize| path.get(at).and_then(Value::as_str).context("bad get_attr");
                            let of = self.wanted(resources, part(0)?)?;
                            of.get(part(1)?).cloned().context("no such attribute")?
                        }
                    }
                    other => other.to_string(),
                };
                Ok((key, text))
            })
            .collect()
    }
}

/// No scenario ends by time.
fn options() -> Options {
    Options { timeout: Duration::from_secs(86_400), ..Options::default() }
}

fn source(template: &Value) -> anyhow::Result<Source> {
    let text =
        SourceText { name: "scenario".into(), template: template.to_string(), ..SourceText::default() };
    Ok(Source::parse(text)?)
}
