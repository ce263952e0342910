//! The agent or the switch is killed at several places of a batch: on disk or not, on the switch or not. What is there
//! then is the table before or after, and in the end both sides hold the one after.

use std::fs;

use muster_testbed::look_closely;
use serde_json::{Value, json};

use super::server::{FlowServer, rule};

/// Enough that a batch takes a while at each of its places.
const RULES: u32 = 3000;
const PORTS: [&str; 2] = ["p1", "p2"];

/// The stage of a batch.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The controller has it.
    Sent,
    /// The batch begins to be on the agent's disk.
    Logged,
    /// The switch has taken it.
    Applied,
}

struct Round {
    server: FlowServer,
    number: usize,
}

impl Round {
    fn start() -> Self {
        let server = FlowServer::start();
        let rules: Vec<Value> = (0..RULES).map(|n| rule(n, PORTS[0])).collect();
        server.apply(&rules);
        Self { server, number: 0 }
    }

    /// Sends the next batch, which changes every rule; returns once it has come that far.
    fn next(&mut self, place: Place) {
        self.number += 1;
        let log = self.server.agent.state.join("flows/br0");
        let size = || fs::metadata(&log).map_or(0, |log| log.len());
        let before = size();
        let rules: Vec<Value> = (0..RULES).map(|n| rule(n, PORTS[self.number % 2])).collect();
        let file = self.server.site.file(&json!({ "rules": rules }).to_string());
        self.server.site.ok(&["flow", "apply", "-f", &file]);
        let has_come = look_closely(|| {
            let has_come = match place {
                Place::Sent => true,
                Place::Logged => size() != before,
                Place::Applied => self.before_and_on().1 > 0,
            };
            has_come.then_some(())
        });
        assert!(has_come.is_some(), "it is never {place:?}");
    }

    /// Rules on the switch as the batch before this one has them, and as this one has them. Of one look: what the agent had sent
    /// before it was killed may take effect between two.
    fn before_and_on(&self) -> (usize, usize) {
        let ours = self.server.ours();
        let on = |number: usize| {
            let output = format!("output:{}", PORTS[number % 2]);
            ours.iter().filter(|flow| flow.contains(&output)).count()
        };
        (on(self.number - 1), on(self.number))
    }

    fn ends_equal(&self) {
        assert_eq!(self.server.until_equal("both hold the same").len(), RULES as usize);
        assert_eq!(self.before_and_on(), (0, RULES as usize), "the last batch counts");
    }
}

#[test]
fn an_agent_killed_during_a_batch_leaves_all_or_nothing_of_it() {
    // The restarted agent completes the batch.
    let mut round = Round::start();
    for place in [Place::Sent, Place::Logged, Place::Applied, Place::Logged, Place::Sent] {
        round.next(place);
        round.server.agent.daemon.kill();
        let (before, after) = round.before_and_on();
        assert!(
            [(RULES as usize, 0), (0, RULES as usize)].contains(&(before, after)),
            "{place:?}: {before}, {after}"
        );
        round.server.agent.daemon.restart();
        round.ends_equal();
    }
}

#[test]
fn a_switch_killed_during_a_batch_gets_it_on_its_return() {
    let mut round = Round::start();
    for place in [Place::Sent, Place::Logged, Place::Applied, Place::Logged, Place::Sent] {
        round.next(place);
        round.server.switch.kill();
        round.server.restart_switch();
        round.ends_equal();
    }
}
