//! Measures how the engine and its store scale: one stack of N resources is created, updated, loaded again and deleted,
//! with nodes that answer at once and no network. Every turn is committed before anything leaves, as the controller's
//! driver does it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use muster_controller::store::{Database, Location, Store as _};
use muster_engine::{
    Config, Effect, Engine, Input, JoinAsk, Limits, NewToken, Options, Request, Source, SourceText,
};
use muster_shared::join::TokenSecret;
use muster_shared::model::{Hello, Up};
use muster_shared::seal::SealPublic;
use muster_shared::wire::READS;
use muster_shared::{Epoch, MonoTime, NodeId, StackName};
use serde::Serialize;

use crate::node::SimNode;

/// The shape of the dependencies between resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// No resource depends on another.
    Wide,
    /// Each resource depends on the one before.
    Chain,
    /// The last resource depends on all others.
    Fanin,
    /// In ten layers, each resource depends on two of the layer before.
    Layers,
}

/// The measured figures, in seconds and bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// `sqlite` or `postgres`
    store: &'static str,
    shape: Shape,
    resources: usize,
    nodes: usize,
    parse_s: f64,
    create_s: f64,
    noop_s: f64,
    update_one_s: f64,
    restart_s: f64,
    delete_s: f64,
    /// The longest turn, from its first input until all of it is durable, and the engine's part of it.
    longest_turn_s: f64,
    longest_decision_s: f64,
    /// Growth of the process from parsed to created.
    rss_bytes: u64,
    /// Median of one write and fsync where the database is.
    fsync_s: f64,
}

const LAYERS: usize = 10;
const NO_OPS: [&str; 2] = ["value", "changed"];

/// Runs one stack of `resources` through its life, in an empty database: by default a new one under `dir`.
///
/// # Errors
/// The engine did not do what it should, or the database could not be used.
pub fn run(
    shape: Shape,
    resources: usize,
    nodes: usize,
    dir: &Path,
    store: Option<Location>,
) -> anyhow::Result<Figures> {
    ensure!(resources > 0 && nodes > 0, "at least one resource and one node");
    let dir = tempfile::tempdir_in(dir).context("cannot make a directory")?;
    let fsync_s = fsync(dir.path())?;
    let (first, parse_s) = timed(|| parse(shape, resources, None))?;
    let unchanged = parse(shape, resources, None)?;
    let changed = parse(shape, resources, Some(resources / 2))?;
    let before = rss()?;
    let store = store.unwrap_or_else(|| Location::Sqlite(dir.path().join("muster.db")));
    let kind = match store {
        Location::Sqlite(_) => "sqlite",
        Location::Postgres(_) => "postgres",
    };
    let mut site = Site::new(&store, dir.path(), nodes)?;
    let name: StackName = "scale".parse()?;
    let options = Options { timeout: Duration::from_secs(86_400), ..Options::default() };
    let create = |site: &mut Site| {
        site.ask(Request::Create { name: name.clone(), source: first, options: options.clone() })?;
        site.expect(&name, "CREATE", resources)
    };
    let ((), create_s) = timed(|| create(&mut site))?;
    let rss_bytes = rss()?.saturating_sub(before);
    let update = |site: &mut Site, source, jobs| {
        let before = site.jobs;
        site.ask(Request::Update { name: name.clone(), source, options: options.clone() })?;
        ensure!(site.jobs - before == jobs, "{} jobs instead of {jobs}", site.jobs - before);
        site.expect(&name, "UPDATE", resources)
    };
    let ((), noop_s) = timed(|| update(&mut site, unchanged, 0))?;
    site.rest();
    let ((), update_one_s) = timed(|| update(&mut site, changed, 1))?;
    site.rest();
    let ((), restart_s) = timed(|| site.restart())?;
    site.expect(&name, "UPDATE", resources)?;
    let ((), delete_s) = timed(|| {
        site.ask(Request::Delete { name: name.clone() })?;
        ensure!(site.engine.view().stack_view(&name).is_none() && site.things() == 0, "something is left");
        Ok(())
    })?;
    Ok(Figures {
        store: kind,
        shape,
        resources,
        nodes,
        parse_s,
        create_s,
        noop_s,
        update_one_s,
        restart_s,
        delete_s,
        longest_turn_s: site.longest_turn.as_secs_f64(),
        longest_decision_s: site.longest_decision.as_secs_f64(),
        rss_bytes,
        fsync_s,
    })
}

fn timed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, f64)> {
    let start = Instant::now();
    let value = work()?;
    Ok((value, start.elapsed().as_secs_f64()))
}

fn parse(shape: Shape, resources: usize, changed: Option<usize>) -> anyhow::Result<Source> {
    let mut template = String::from("heat_template_version: 2018-08-31\nresources:\n");
    for index in 0..resources {
        let value = NO_OPS[usize::from(changed == Some(index))];
        writeln!(
            template,
            "  r{index:07}:\n    type: Muster::Dummy\n    properties: {{values: {{a: {value}}}}}"
        )?;
        let needs: Vec<usize> = match shape {
            Shape::Wide => Vec::new(),
            Shape::Chain => index.checked_sub(1).into_iter().collect(),
            Shape::Fanin if index + 1 == resources => (0..index).collect(),
            Shape::Fanin => Vec::new(),
            Shape::Layers => {
                let width = resources.div_ceil(LAYERS);
                let first = index.checked_sub(width);
                first
                    .map(|first| [first, (first / width) * width + (first + 1) % width])
                    .into_iter()
                    .flatten()
                    .collect()
            }
        };
        if !needs.is_empty() {
            let names: Vec<String> = needs.iter().map(|need| format!("r{need:07}")).collect();
            writeln!(template, "    depends_on: [{}]", names.join(", "))?;
        }
    }
    Ok(Source::parse(SourceText { name: "scale.yaml".into(), template, ..SourceText::default() })?)
}

/// Engine, store and nodes.
struct Site {
    engine: Engine,
    store: Database,
    nodes: BTreeMap<NodeId, SimNode>,
    started: Instant,
    jobs: usize,
    discards: Vec<std::thread::JoinHandle<()>>,
    /// The time that the engine has taken in this turn.
    deciding: Duration,
    longest_decision: Duration,
    longest_turn: Duration,
}

impl Site {
    fn new(store: &Location, dir: &Path, nodes: usize) -> anyhow::Result<Self> {
        let mut store = Database::open(store, &dir.join("secrets.key"))?;
        let engine = Engine::new(config(store.next_epoch()?));
        let mut site = Self {
            engine,
            store,
            nodes: BTreeMap::new(),
            started: Instant::now(),
            jobs: 0,
            discards: Vec::new(),
            deciding: Duration::ZERO,
            longest_decision: Duration::ZERO,
            longest_turn: Duration::ZERO,
        };
        let secret = TokenSecret([1; 16]);
        site.ask(Request::NewToken {
            token: NewToken {
                id: [1; 8],
                secret_hash: secret.digest(),
                expires: 10,
                uses: u32::try_from(nodes)?,
                name: None,
                labels: BTreeMap::new(),
                rate: None,
            },
            wall: 0,
        })?;
        for index in 0..nodes {
            let name: NodeId = format!("node-{index}").parse()?;
            site.nodes.insert(name.clone(), SimNode::default());
            site.ask(Request::Join(JoinAsk {
                token_id: [1; 8],
                secret: secret.clone(),
                name,
                seal_public: SealPublic([0; 32]),
                agent_version: "sim".into(),
                moves: false,
                wall: 1,
            }))?;
        }
        site.connect(1)?;
        Ok(site)
    }

    fn connect(&mut self, connection: u64) -> anyhow::Result<()> {
        let names: Vec<NodeId> = self.nodes.keys().cloned().collect();
        for node in names {
            self.input(Input::Connected { node: node.clone(), connection });
            let hello = Hello {
                boot_id: 1,
                instance: None,
                address: None,
                agent_version: "sim".into(),
                reads: READS,
                epoch: Epoch(0).into(),
                ledger: 0,
            };
            self.input(Input::Received { node, connection, message: Up::Hello(hello) });
        }
        self.settle(connection)
    }

    fn input(&mut self, input: Input) {
        let start = Instant::now();
        self.engine.handle(MonoTime(self.started.elapsed()), input);
        self.deciding += start.elapsed();
    }

    fn ask(&mut self, request: Request) -> anyhow::Result<()> {
        self.input(Input::Request { id: 1, request: Box::new(request) });
        self.settle(1)
    }

    /// Turn by turn: commit, then deliver; the nodes run what they got and their reports are the next turn.
    fn settle(&mut self, connection: u64) -> anyhow::Result<()> {
        loop {
            let mut effects = Vec::new();
            let decided = std::mem::take(&mut self.deciding);
            let start = Instant::now();
            let engine = &mut self.engine;
            let mut changes = std::iter::from_fn(|| {
                loop {
                    match engine.poll_effect()? {
                        Effect::Persist(change) => return Some(change),
                        other => effects.push(other),
                    }
                }
            });
            self.store.commit(&mut changes, &[])?;
            self.longest_decision = self.longest_decision.max(decided);
            self.longest_turn = self.longest_turn.max(decided + start.elapsed());
            let mut reports = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Persist(_) => {}
                    Effect::Send { node, message, .. } => {
                        let target = self.nodes.get_mut(&node).context("an unknown node")?;
                        reports.extend(target.receive(message).map(|up| (node.clone(), up)));
                        while let Some(report) = target.run_one() {
                            self.jobs += 1;
                            reports.push((node.clone(), report));
                        }
                    }
                    Effect::Answer { answer, .. } => {
                        answer?;
                    }
                    // As the driver does it: beside the turn.
                    Effect::Discard(template) => self.discards.push(std::thread::spawn(|| drop(template))),
                    Effect::SendChunk { .. }
                    | Effect::Warn(_)
                    | Effect::Close { .. }
                    | Effect::LoadRevision { .. } => {
                        bail!("an effect that is not needed here")
                    }
                }
            }
            let now = MonoTime(self.started.elapsed());
            if self.engine.poll_timeout().is_some_and(|(due, _)| due <= now) {
                self.input(Input::Timeout);
            } else if reports.is_empty() {
                return Ok(());
            }
            for (node, message) in reports {
                self.input(Input::Received { node, connection, message });
            }
        }
    }

    /// Until what is done beside the turns is done: the next figure is not to contain it.
    fn rest(&mut self) {
        for discard in self.discards.drain(..) {
            discard.join().expect("freeing does not panic");
        }
    }

    fn restart(&mut self) -> anyhow::Result<()> {
        let epoch = self.store.next_epoch()?;
        let now = MonoTime(self.started.elapsed());
        self.engine = Engine::load(config(epoch), self.store.load()?, now);
        self.connect(1)
    }

    fn things(&self) -> usize {
        self.nodes.values().map(|node| node.things.len()).sum()
    }

    fn expect(&self, name: &StackName, action: &str, things: usize) -> anyhow::Result<()> {
        let view = self.engine.view().stack_view(name).context("no stack")?;
        ensure!(view.action == action && view.status == "COMPLETE", "{view:?}");
        ensure!(self.things() == things, "{} things instead of {things}", self.things());
        Ok(())
    }
}

fn config(epoch: Epoch) -> Config {
    let mut seed = [0; 32];
    seed[..4].copy_from_slice(&epoch.0.to_le_bytes());
    Config { epoch, epoch_bits: 1, starts: muster_engine::Starts::default(), seed, limits: Limits::default() }
}

/// Resident memory of this process, from `/proc/self/statm`.
fn rss() -> anyhow::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).context("no resident size")?.parse()?;
    // Linux on x86-64 and arm64 servers as Debian ships it.
    Ok(pages * 4096)
}

/// Median time of a 4 KiB write and fsync.
fn fsync(dir: &Path) -> anyhow::Result<f64> {
    let mut file = std::fs::File::create(dir.join("fsync"))?;
    let mut times = Vec::new();
    for _ in 0..51 {
        let start = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_all()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2].as_secs_f64())
}
