//! A switch that is started anew passes no packets before its flow tables are filled, and waits for nobody else.

use std::process::Command;

use muster_testbed::eventually;
use muster_tests::site::binary;

use super::server::{FlowServer, rule};

fn config(server: &FlowServer) -> (String, String) {
    let get = |column| server.switch.vsctl(&format!("get Open_vSwitch . {column}"));
    (get("other_config"), get("external_ids"))
}

fn is_held(server: &FlowServer) -> bool {
    let (config, ids) = config(server);
    config.contains("flow-restore-wait=\"true\"") && ids.contains("muster-flow-restore=\"true\"")
}

fn is_free(server: &FlowServer) -> bool {
    let (config, ids) = config(server);
    !config.contains("flow-restore-wait") && !ids.contains("muster-flow-restore")
}

fn until_held(server: &FlowServer) {
    eventually("the next start of the switch is held", || is_held(server).then_some(()));
}

/// The number of times that somebody waited for the switch to take something up.
fn asked(server: &FlowServer) -> u64 {
    server.switch.vsctl("get Open_vSwitch . next_cfg").trim().parse().unwrap()
}

/// Besides [`FlowServer::restart_switch`] only the agent does, once it has let the switch go.
fn until_released(server: &FlowServer, asked_before: u64) {
    eventually("it was released", || (asked(server) > asked_before + 1).then_some(()));
}

#[test]
fn a_switch_that_dies_waits_until_it_is_filled_each_time() {
    let mut server = FlowServer::start();
    assert!(is_free(&server), "there are no tables");
    server.apply(&[rule(1, "p1"), rule(2, "p2")]);
    until_held(&server);
    for _ in 0..3 {
        let before = asked(&server);
        server.switch.kill();
        assert!(is_held(&server));
        server.restart_switch();
        server.until_equal("it is filled");
        until_released(&server, before);
        until_held(&server);
        assert_eq!(server.ours().len(), 2);
    }
    server.site.ok(&["flow", "purge", "web-1/br0", "--wait"]);
    eventually("there are no tables any more", || is_free(&server).then_some(()));
}

#[test]
fn an_agent_that_comes_after_the_switch_fills_and_releases_it() {
    let mut server = FlowServer::start();
    server.apply(&[rule(1, "p1")]);
    until_held(&server);
    server.agent.daemon.kill();
    assert!(is_held(&server), "nobody took it away");
    server.switch.kill();
    let before = asked(&server);
    server.restart_switch();
    assert_eq!(server.ours(), [""; 0]);
    server.agent.daemon.restart();
    server.until_equal("it is filled");
    until_released(&server, before);
    until_held(&server);
}

#[test]
fn nobody_waits_for_an_agent_that_has_ended() {
    let mut server = FlowServer::start();
    server.apply(&[rule(1, "p1")]);
    until_held(&server);
    server.agent.daemon.stop();
    assert!(is_free(&server), "it was stopped");
    server.agent.daemon.restart();
    until_held(&server);
    server.agent.daemon.kill();
    assert!(is_held(&server), "it was killed");
    let mut command = Command::new(binary("muster-agent"));
    server.switch.environment(command.args(["flow", "release"]));
    assert!(command.status().unwrap().success());
    assert!(is_free(&server));
}

/// As at a start of the server, where the agent comes first.
#[test]
fn an_old_flow_restore_key_is_removed_once_the_database_is_up() {
    let mut server = FlowServer::start();
    assert!(is_free(&server));
    server.agent.daemon.kill();
    server.switch.vsctl("set Open_vSwitch . other_config:flow-restore-wait=true");
    server.switch.vsctl("set Open_vSwitch . external_ids:muster-flow-restore=true");
    server.switch.kill_database();
    server.site.until_node("web-1", "offline");
    server.agent.daemon.restart();
    server.site.until_node("web-1", "online");
    server.switch.restart_database();
    eventually("nobody would fill it", || is_free(&server).then_some(()));
}

#[test]
fn what_somebody_else_has_set_is_left_alone() {
    let mut server = FlowServer::start();
    server.switch.vsctl("set Open_vSwitch . other_config:flow-restore-wait=true");
    server.apply(&[rule(1, "p1")]);
    server.switch.kill();
    server.restart_switch();
    server.until_equal("it is filled");
    let log = || server.agent.daemon.log();
    eventually("the agent has seen it", || log().contains("by=Others").then_some(()));
    server.agent.daemon.stop();
    let (config, ids) = config(&server);
    assert!(config.contains("flow-restore-wait=\"true\"") && !ids.contains("muster"), "{config} {ids}");
}

#[test]
fn a_switch_on_the_management_path_does_not_wait() {
    let mut server = FlowServer::managed_over_a_bridge();
    let normal =
        serde_json::json!({"device": "web-1/br-mgmt", "priority": 3, "treatment": [{"output": "NORMAL"}]});
    server.apply_to("br-mgmt", &[normal]);
    for _ in 0..2 {
        assert!(is_free(&server));
        server.switch.kill();
        server.restart_switch();
        eventually("it is filled", || (server.dump("br-mgmt").len() == 1).then_some(()));
    }
    assert!(is_free(&server));
}
