//! Updates that contradict one another while the switch dies and comes back: in the end both sides hold the same.

use std::time::Instant;

use serde_json::{Value, json};

use super::server::{FlowServer, rule};

/// Rules that all updates fight over.
const RULES: u32 = 50;
const UPDATES: u32 = 6;

fn rounds() -> u32 {
    std::env::var("MUSTER_SOAK").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(5)
}

#[test]
fn contradictory_updates_while_the_switch_restarts_end_equal() {
    let mut server = FlowServer::start();
    let ports = ["p1", "p2", "LOCAL"];
    let mut slowest = 0.0f64;
    for round in 0..rounds() {
        for update in 0..UPDATES {
            let port = |n: u32| ports[((n + update * 7 + round) % 3) as usize];
            let rules: Vec<Value> = (0..RULES).map(|n| rule(n, port(n))).collect();
            let file = server.site.file(&json!({ "rules": rules }).to_string());
            server.site.ok(&["flow", "apply", "-f", &file]);
            match update % 3 {
                0 => server.switch.kill(),
                1 => server.switch.restart(),
                _ => {}
            }
        }
        server.restart_switch();
        let back = Instant::now();
        let held = server.until_equal("both hold the same");
        let took = back.elapsed().as_secs_f64();
        slowest = slowest.max(took);
        assert_eq!(held.len(), RULES as usize);
        let last = UPDATES - 1;
        let port = |n: u32| ports[((n + last * 7 + round) % 3) as usize];
        let of_p1 = (0..RULES).filter(|n| port(*n) == "p1").count();
        assert_eq!(held.iter().filter(|(_, port)| port == "p1").count(), of_p1, "the last update counts");
        println!("round {round}: equal {took:.2} s after the switch was back");
    }
    println!("slowest of {}: {slowest:.2} s", rounds());
}
