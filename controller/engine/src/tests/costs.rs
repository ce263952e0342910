//! The cost of an input on a large site. An input may look at a bounded number of rows and nodes
//! for each one that it touches (a change, a message, an answer), and for the depth of an index. So
//! no report of a node, and no request about one, costs as much as the whole site.
//!
//! Exempt by design, because they concern a whole stack, set or site: operations on a stack, the
//! end of a traversal, a stack that goes on without a removed node, a stack that follows its nodes
//! (`Fit`, at most once a second), lists, and the search for a similar name. Stacks are not
//! counted: new labels of a node ask each stack for its selectors.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::join::TokenSecret;
use muster_shared::model::{Down, Hello, Job, Observed, Outcome, Report, Up};
use muster_shared::{Epoch, MonoTime, NodeId};

use super::bed::{ask_to_join, config, node, options, stack, template};
use crate::{Effect, Engine, Input, Limits, NewToken, Request, Source};

/// Bound on visits for each thing touched, and for each level of an index.
const EACH: usize = 10;
const NODES: usize = 2000;

struct Site {
    engine: Engine,
    now: MonoTime,
    connection: u64,
    connections: BTreeMap<NodeId, u64>,
    jobs: BTreeMap<NodeId, Vec<Job>>,
    /// Inputs that cost too much.
    dear: Vec<String>,
}

impl Site {
    /// A site with two rows on each node.
    fn new() -> Self {
        let mut site = Self {
            engine: Engine::new(config(1, Limits::default())),
            now: MonoTime::default(),
            connection: 0,
            connections: BTreeMap::new(),
            jobs: BTreeMap::new(),
            dear: Vec::new(),
        };
        site.token(NODES);
        for index in 0..NODES {
            site.request(Request::Join(ask_to_join(&node(index), 0)));
            site.comes(index, Some(1));
        }
        site.request(Request::Create { name: stack(), source: source(1, is_in_large), options: options() });
        let (name, few) = ("few".parse().unwrap(), source(1, |at| !is_in_large(at)));
        site.request(Request::Create { name, source: few, options: options() });
        while let Some((name, jobs)) = site.jobs.pop_first() {
            jobs.into_iter().for_each(|job| site.reports(&name, &job));
        }
        assert_eq!(site.engine.view().stack_view(&stack()).map(|view| view.status), Some("COMPLETE".into()));
        site.dear.clear();
        site
    }

    /// Handles an input. Returns the number of effects.
    fn input(&mut self, input: Input) -> usize {
        self.engine.handle(self.now, input);
        let mut touched = 0;
        while let Some(effect) = self.engine.poll_effect() {
            touched += 1;
            if let Effect::Send { node, message: Down::Job(job), .. } = effect {
                self.jobs.entry(node).or_default().push(job);
            }
        }
        touched
    }

    fn costs(&mut self, what: &str, input: Input) {
        self.engine.view().take_visits();
        let touched = self.input(input);
        let visits = self.engine.view().take_visits();
        let most = EACH * (touched + NODES.ilog2() as usize);
        if visits > most {
            self.dear
                .push(format!("{what}: {visits} visits, where {touched} are touched and {most} allowed"));
        }
    }

    fn request(&mut self, request: Request) -> usize {
        self.input(Input::Request { id: 1, request: Box::new(request) })
    }

    fn asks(&mut self, what: &str, request: Request) {
        self.costs(what, Input::Request { id: 1, request: Box::new(request) });
    }

    fn token(&mut self, uses: usize) {
        let token = NewToken {
            id: [1; 8],
            secret_hash: TokenSecret([1; 16]).digest(),
            expires: 10,
            uses: u32::try_from(uses).unwrap(),
            name: None,
            labels: BTreeMap::new(),
            rate: None,
        };
        self.asks("a token", Request::NewToken { token, wall: 0 });
    }

    fn says(&mut self, what: &str, index: usize, message: Up) {
        let connection = self.connections[&node(index)];
        self.costs(what, Input::Received { node: node(index), connection, message });
    }

    /// Opens a connection. The agent has another ledger than before, or is another instance.
    fn comes(&mut self, index: usize, instance: Option<u128>) {
        self.connection += 1;
        self.connections.insert(node(index), self.connection);
        self.costs("a connection", Input::Connected { node: node(index), connection: self.connection });
        let hello = Hello {
            boot_id: 1,
            instance,
            address: None,
            agent_version: "t".into(),
            reads: 0,
            epoch: Epoch(0).into(),
            ledger: 7,
        };
        self.says("a greeting", index, Up::Hello(hello));
    }

    fn goes(&mut self, index: usize) {
        let connection = self.connections[&node(index)];
        self.costs("a connection that ends", Input::Disconnected { node: node(index), connection });
    }

    fn reports(&mut self, name: &NodeId, job: &Job) {
        let input = self.report(name, job, Observed::default());
        self.costs("a report", input);
    }

    fn report(&self, name: &NodeId, job: &Job, observed: Observed) -> Input {
        let report = Report { key: job.key(), outcome: Outcome::Done(observed) };
        Input::Received {
            node: name.clone(),
            connection: self.connections[name],
            message: Up::Report(report),
        }
    }

    fn is_cheap(&self) {
        assert!(self.dear.is_empty(), "{}", self.dear.join("\n"));
    }
}

/// A template with two rows on each node that `is_in` chooses.
fn source(value: usize, is_in: impl Fn(usize) -> bool) -> Source {
    template(&rows(value, is_in))
}

fn rows(value: usize, is_in: impl Fn(usize) -> bool) -> String {
    let rows = (0..NODES).filter(|at| is_in(*at));
    rows.map(|at| format!("a{at}: x={value} node=node-{at}\n b{at}: x={value} node=node-{at}\n")).collect()
}

/// Whether the node has rows of the large stack. Every hundredth node has rows of a small one.
fn is_in_large(at: usize) -> bool {
    !at.is_multiple_of(100)
}

#[test]
fn no_input_of_one_node_costs_a_look_at_the_site() {
    let mut site = Site::new();
    let labels = |value: Option<&str>| BTreeMap::from([("rack".to_owned(), value.map(str::to_owned))]);
    for round in 0..3 {
        let at = 100 * round;
        site.says("a heartbeat", at, Up::Heartbeat { drift: Some(0) });
        site.says("a heartbeat with drift", at, Up::Heartbeat { drift: Some(9) });
        site.goes(at);
        site.comes(at, Some(1));
        site.says("a ledger", at, Up::Ledger { entries: Vec::new(), last: true });
        site.says("room", at, Up::DiskFull(Some("no room".into())));
        site.says("room", at, Up::DiskFull(None));
        site.token(1);
        let more = NODES + round;
        site.asks("a join", Request::Join(ask_to_join(&node(more), 0)));
        site.comes(more, Some(1));
        site.asks("a label", Request::LabelNode { node: node(at), labels: labels(Some("1")) });
        site.asks("a label that goes", Request::LabelNode { node: node(at), labels: labels(None) });
        site.asks("maintenance", Request::Maintenance { node: node(at), on: true });
        site.asks("maintenance that ends", Request::Maintenance { node: node(at), on: false });
        site.asks("a token that goes", Request::RevokeToken { id: [1; 8] });
        site.goes(at);
        site.asks("a node that is removed", Request::RemoveNode { node: node(at) });
        site.asks("a node that is cut off", Request::RevokeNode { node: node(at + 1) });
    }
    site.is_cheap();
}

/// No row is made yet, so a removal makes nothing again.
#[test]
fn a_node_that_has_nothing_is_removed_for_the_price_of_its_rows() {
    let mut site = Site::new();
    site.token(1);
    site.request(Request::Join(ask_to_join(&node(NODES), 0)));
    let more = format!("a{NODES}: x=1 node=node-{NODES}\n b{NODES}: x=1 node=node-{NODES}\n");
    let source = template(&(rows(1, is_in_large) + &more));
    site.request(Request::Update { name: stack(), source, options: options() });
    site.asks("a node that has nothing", Request::RemoveNode { node: node(NODES) });
    site.is_cheap();
}

#[test]
fn two_agents_of_one_node_cost_no_look_at_the_site() {
    let mut site = Site::new();
    for instance in [2, 1, 2, 1, 2] {
        site.comes(5, Some(instance));
    }
    site.now = site.now + Duration::from_secs(600);
    site.comes(5, Some(2));
    site.is_cheap();
}

#[test]
fn a_report_costs_what_follows_from_it() {
    let mut site = Site::new();
    site.request(Request::Update { name: stack(), source: source(2, is_in_large), options: options() });
    site.engine.view().take_visits();
    let jobs: Vec<(NodeId, Job)> = std::mem::take(&mut site.jobs)
        .into_iter()
        .flat_map(|(name, jobs)| jobs.into_iter().map(move |job| (name.clone(), job)))
        .collect();
    // The last report ends the traversal, so it is exempt.
    for (name, job) in &jobs[1..] {
        site.reports(name, job);
    }
    site.is_cheap();
}

#[test]
fn a_count_that_becomes_known_searches_for_no_similar_node() {
    let mut site = Site::new();
    let root = "resources:
  n: {type: Muster::Dummy, properties: {node: node-0, values: {count: 2}}}
  g:
    type: OS::Heat::ResourceGroup
    properties:
      count: {get_attr: [n, count]}
      resource_def: {type: Muster::Dummy, properties: {node: nodes-0, values: {v: '%index%'}}}";
    let (name, source) = ("late".parse().unwrap(), super::trees::source(root, &[]));
    site.request(Request::Create { name, source, options: options() });
    let jobs = site.jobs.remove(&node(0)).unwrap();
    let count = Observed { attributes: BTreeMap::from([("count".into(), "2".into())]) };
    let report = site.report(&node(0), jobs.last().unwrap(), count);
    site.engine.view().take_visits();
    site.input(report);
    let visits = site.engine.view().take_visits();
    let rows = site.engine.view().resource_views(&"late".parse().unwrap(), true).unwrap();
    assert!(rows.iter().any(|row| row.name == "g/1"), "two members");
    // The stack is planned again, which looks at its rows; the site's nodes are many more.
    assert!(visits < NODES / 4, "{visits} visits");
}
