//! A site on a virtual clock: the driver's real turns over a real database, and agents' real machines over servers in
//! memory. What crosses the wire or reaches the disk is counted.
//!
//! Absent: TLS with its handshake, and the four packets with which MQTT begins a connection; faults, which `sim` has.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use muster_agent_core::{Agent, Effect, Input};
use muster_controller::driver::Turns;
use muster_controller::store::{Bounds, Database};
use muster_engine::{Config, JoinAsk, Limits, NewToken, Request, Starts};
use muster_shared::join::TokenSecret;
use muster_shared::model::{DiskFacts, Facts, LinkFacts, Up};
use muster_shared::seal::{Again, Body, ControllerEnd, Opened, Seal, SealPublic, SealSecret};
use muster_shared::{EpochId, MonoTime, NodeId, SiteId, topic, wire};
use tempfile::TempDir;

use super::tally::{CountedStore, Leaving, Rows, Shared, Tally};
use crate::fleet::Server;

/// The version of all agents. It is not this build's, so a release changes no figure.
const VERSION: &str = "0.2.0";

/// The contents of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commits {
    /// A commit holds one packet or one request: nothing else comes meanwhile.
    Apart,
    /// A commit holds everything that has come.
    Together,
}

/// See the module's head.
pub struct Bed {
    now: MonoTime,
    commits: Commits,
    site: SiteId,
    turns: Turns<CountedStore, Leaving>,
    leaving: Leaving,
    nodes: BTreeMap<NodeId, Node>,
    connections: u64,
    tally: Shared,
    rows: Rows,
    _dir: TempDir,
}

struct Node {
    machine: Agent,
    server: Server,
    connection: Option<u64>,
    inbox: VecDeque<Input>,
    jobs: u64,
    /// The secrets that the last session has left, to the node and to the controller.
    left: (Option<Again>, Option<Again>),
}

impl Bed {
    /// Makes a site of servers that have not joined.
    pub fn new(servers: u64, commits: Commits) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("muster.db");
        // Each event takes the place of an older one, as it does in a large stack.
        let store = Database::sqlite(&path, &dir.path().join("secrets.key"))?
            .within(Bounds { events: 1, ..Bounds::default() })?;
        let rows = Rows::of(&path)?;
        let (tally, leaving) = (Shared::default(), Leaving::default());
        let config = |epoch| Config {
            epoch,
            epoch_bits: 1,
            starts: Starts::default(),
            seed: [1; 32],
            limits: Limits::default(),
        };
        let store = CountedStore { store, tally: tally.clone() };
        let turns = Turns::new(store, leaving.clone(), config, MonoTime::default())?;
        let nodes = (0..servers)
            .map(|number| Ok((format!("web-{number:06}").parse()?, Node::new(number))))
            .collect::<anyhow::Result<_>>()?;
        let mut bed = Self {
            now: MonoTime::default(),
            commits,
            site: "9b3231f2ac".parse()?,
            turns,
            leaving,
            nodes,
            connections: 0,
            tally,
            rows,
            _dir: dir,
        };
        let token = NewToken {
            id: [1; 8],
            secret_hash: secret().digest(),
            expires: 10,
            uses: u32::try_from(servers)?,
            name: None,
            labels: BTreeMap::from([("role".into(), "web".into())]),
            rate: None,
        };
        bed.turns.wake(bed.now);
        bed.ask(Request::NewToken { token, wall: 0 })?;
        Ok(bed)
    }

    /// Lets all servers join, and starts their agents.
    pub fn join(&mut self) -> anyhow::Result<()> {
        for name in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.ask(Request::Join(JoinAsk {
                token_id: [1; 8],
                secret: secret(),
                name,
                seal_public: SealPublic([0; 32]),
                agent_version: VERSION.into(),
                moves: false,
                wall: 1,
            }))?;
        }
        self.nodes.values_mut().for_each(|node| node.inbox.push_back(Input::Start));
        self.settle()
    }

    /// An operator asks. What the controller decides waits for [`Bed::pass`].
    pub fn ask(&mut self, request: Request) -> anyhow::Result<()> {
        self.turns.request(self.now, None, request)?;
        self.came()
    }

    /// Changes a thing by hand on each server.
    pub fn drift(&mut self) -> anyhow::Result<()> {
        for (name, node) in &mut self.nodes {
            let (_, hint) = node.server.drift().with_context(|| format!("nothing is on {name}"))?;
            node.inbox.push_back(hint.with_context(|| format!("nothing is watched on {name}"))?);
        }
        self.settle()
    }

    /// Breaks all connections at once.
    pub fn storm(&mut self) -> anyhow::Result<()> {
        let mut ended = Vec::new();
        for (name, node) in &mut self.nodes {
            node.inbox.push_back(Input::Disconnected { reason: "a storm".into() });
            ended.extend(node.connection.take().map(|connection| (name.clone(), connection)));
        }
        for (name, connection) in ended {
            self.turns.disconnected(self.now, name, connection);
            self.came()?;
        }
        self.settle()
    }

    /// So much time passes, and all that is due in it is done.
    pub fn pass(&mut self, time: Duration) -> anyhow::Result<()> {
        let until = self.now + time;
        loop {
            self.settle()?;
            let machines = self.nodes.values().filter_map(|node| node.machine.poll_timeout());
            let due = machines.map(|(at, _)| at).chain(self.turns.poll_timeout()).min();
            let Some(due) = due.filter(|due| *due <= until) else { break };
            self.now = self.now.max(due);
            if self.turns.poll_timeout().is_some_and(|due| due <= self.now) {
                self.turns.wake(self.now);
            }
            for node in self.nodes.values_mut() {
                if node.machine.poll_timeout().is_some_and(|(due, _)| due <= self.now) {
                    node.inbox.push_back(Input::Timeout);
                }
            }
        }
        self.now = until;
        ensure!(self.nodes.values().all(|node| node.machine.is_online()), "a server is not online");
        Ok(())
    }

    /// Returns the counts since the site began.
    pub fn tally(&self) -> anyhow::Result<Tally> {
        let jobs = self.nodes.values().map(|node| node.jobs).sum();
        Ok(Tally { jobs, rows: self.rows.written()?, rows_kept: self.rows.kept()?, ..*self.tally.borrow() })
    }

    /// Until nobody has anything to do now.
    fn settle(&mut self) -> anyhow::Result<()> {
        loop {
            self.turn_over()?;
            let mut said = Vec::new();
            for (name, node) in &mut self.nodes {
                let (connects, ups) = node.turn(self.now);
                if connects {
                    self.connections += 1;
                    node.connection = Some(self.connections);
                    said.push((name.clone(), None));
                }
                if let (Some(connection), false) = (node.connection, ups.is_empty()) {
                    said.push((name.clone(), Some((connection, ups))));
                }
            }
            if said.is_empty() {
                return Ok(());
            }
            for (name, said) in said {
                match said {
                    None => self.connects(&name)?,
                    Some((connection, ups)) => self.says(&name, connection, ups)?,
                }
                self.came()?;
            }
        }
    }

    fn connects(&mut self, name: &NodeId) -> anyhow::Result<()> {
        let (agent, controller) = (SealSecret::from_bytes([1; 32]), SealSecret::from_bytes([2; 32]));
        let seal =
            |mine: &SealSecret, theirs: &SealSecret| Seal::new(mine, &theirs.public(), &self.site, name);
        let node = self.nodes.get_mut(name).context("an unknown node connects")?;
        let (of_agent, of_controller) = std::mem::take(&mut node.left);
        let own = seal(&agent, &controller);
        let greeting = own.greet_again([3; 32], of_agent)?;
        let mut end = ControllerEnd::following(seal(&controller, &agent), of_controller);
        let answered = end.open(greeting.packet(), || Some([4; 32]))?;
        let Opened::Greeting { answer } = answered else { anyhow::bail!("a greeting is not answered") };
        let mut session = greeting.accept(&own, &answer)?;
        end.open(&session.seal(Body::with_room_for(0)), || None)?;
        node.left = (session.take_again(self.now), end.take_again(self.now));
        {
            let mut tally = self.tally.borrow_mut();
            tally.up(&topic::up(&self.site, name), greeting.packet().len());
            tally.down(&topic::down(&self.site, name), answer.len());
        }
        let node = self.nodes.get_mut(name).context("an unknown node connects")?;
        node.inbox.push_back(Input::Connected);
        let connection = node.connection.context("it has just connected")?;
        self.turns.connected(self.now, name.clone(), connection);
        Ok(())
    }

    fn says(&mut self, name: &NodeId, connection: u64, messages: Vec<Up>) -> anyhow::Result<()> {
        for body in wire::pack(&messages)? {
            self.tally.borrow_mut().up(&topic::up(&self.site, name), body.packet_len());
        }
        self.turns.received(self.now, name, connection, messages);
        Ok(())
    }

    /// Takes a turn after an input to the controller, unless inputs share a turn.
    fn came(&mut self) -> anyhow::Result<()> {
        match self.commits {
            Commits::Apart => self.turn_over(),
            Commits::Together => Ok(()),
        }
    }

    /// Commits, and delivers what leaves.
    fn turn_over(&mut self) -> anyhow::Result<()> {
        for (_, answer) in self.turns.turn_over(self.now).answers {
            answer?;
        }
        let leaving = self.leaving.0.take();
        for (name, connection, messages) in leaving {
            for body in wire::pack(&messages)? {
                self.tally.borrow_mut().down(&topic::down(&self.site, &name), body.packet_len());
            }
            let node = self.nodes.get_mut(&name).context("a message for an unknown node")?;
            if node.connection == Some(connection) {
                node.inbox.extend(messages.into_iter().map(Input::Received));
            }
        }
        Ok(())
    }
}

impl Node {
    fn new(number: u64) -> Self {
        let config = muster_agent_core::Config {
            seed: number,
            boot_id: u128::MAX / 3 + u128::from(number),
            instance: u128::MAX / 5 + u128::from(number),
            agent_version: VERSION.to_owned(),
        };
        Self {
            machine: Agent::new(config, Vec::new(), EpochId::default()),
            server: Server::default(),
            connection: None,
            inbox: VecDeque::new(),
            jobs: 0,
            left: (None, None),
        }
    }

    /// Does all that it can do now: whether it connects, and what it says.
    fn turn(&mut self, now: MonoTime) -> (bool, Vec<Up>) {
        let (mut connects, mut said) = (false, Vec::new());
        if self.inbox.is_empty() {
            return (connects, said);
        }
        // Received messages are handled before jobs start.
        while let Some(input) = self.inbox.pop_front() {
            let is_last = self.inbox.is_empty() && input != Input::CaughtUp;
            self.machine.handle(now, input);
            while let Some(effect) = self.machine.poll_effect() {
                match effect {
                    Effect::Connect => connects = true,
                    Effect::Send(up) => said.push(up),
                    Effect::Gather => self.inbox.push_back(Input::Gathered(Ok(Box::new(facts())))),
                    Effect::Run { job, .. } => {
                        self.jobs += 1;
                        let (key, outcome) = (job.key(), self.server.apply(&job));
                        self.inbox.push_back(Input::Ran { key, outcome, before: None, touched: true });
                    }
                    effect => self.inbox.extend(self.server.take(effect)),
                }
            }
            if is_last && self.inbox.is_empty() {
                self.inbox.push_back(Input::CaughtUp);
            }
        }
        (connects, said)
    }
}

fn secret() -> TokenSecret {
    TokenSecret([1; 16])
}

/// Returns the facts of an ordinary server, with two links and a disk. A larger server has more.
fn facts() -> Facts {
    let link = |number: u8| LinkFacts {
        name: format!("eth{number}"),
        driver: "virtio_net".into(),
        mac: Some([2, 0, 0, 0, 0, number]),
        mtu: 1500,
        addresses: format!("192.0.2.{number}/24").parse().into_iter().collect(),
        ..LinkFacts::default()
    };
    Facts {
        hostname: "web-000001.example.org".into(),
        kernel: "6.1.0-28-amd64".into(),
        cpu_model: "Intel Xeon Processor (Icelake)".into(),
        memory: 32 << 30,
        disks: vec![DiskFacts { name: "vda".into(), size: 500 << 30, ..DiskFacts::default() }],
        links: vec![link(1), link(2)],
        links_total: 2,
        ..Facts::default()
    }
}
