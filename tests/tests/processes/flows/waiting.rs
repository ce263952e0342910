//! A switch that is started anew passes no packets before its flow tables are filled, and waits for nobody else.

use std::process::Command;

use muster_tests::testbed::{binary, eventually};

use super::bed::{Bed, rule};

fn config(bed: &Bed) -> (String, String) {
    let get = |column| bed.switch.vsctl(&format!("get Open_vSwitch . {column}"));
    (get("other_config"), get("external_ids"))
}

fn is_held(bed: &Bed) -> bool {
    let (config, ids) = config(bed);
    config.contains("flow-restore-wait=\"true\"") && ids.contains("muster-flow-restore=\"true\"")
}

fn is_free(bed: &Bed) -> bool {
    let (config, ids) = config(bed);
    !config.contains("flow-restore-wait") && !ids.contains("muster-flow-restore")
}

fn until_held(bed: &Bed) {
    eventually("the next start of the switch is held", || is_held(bed).then_some(()));
}

/// How often somebody waited for the switch to take something up.
fn asked(bed: &Bed) -> u64 {
    bed.switch.vsctl("get Open_vSwitch . next_cfg").trim().parse().unwrap()
}

/// Besides [`Bed::restart_switch`] only the agent does, once it has let the switch go.
fn until_released(bed: &Bed, asked_before: u64) {
    eventually("it was released", || (asked(bed) > asked_before + 1).then_some(()));
}

#[test]
fn a_switch_that_dies_waits_until_it_is_filled_each_time() {
    let mut bed = Bed::start();
    assert!(is_free(&bed), "there are no tables");
    bed.apply(&[rule(1, "p1"), rule(2, "p2")]);
    until_held(&bed);
    for _ in 0..3 {
        let before = asked(&bed);
        bed.switch.kill();
        assert!(is_held(&bed));
        bed.restart_switch();
        bed.until_equal("it is filled");
        until_released(&bed, before);
        until_held(&bed);
        assert_eq!(bed.ours().len(), 2);
    }
    bed.site.ok(&["flow", "purge", "web-1/br0", "--wait"]);
    eventually("there are no tables any more", || is_free(&bed).then_some(()));
}

#[test]
fn an_agent_that_comes_after_the_switch_fills_and_releases_it() {
    let mut bed = Bed::start();
    bed.apply(&[rule(1, "p1")]);
    until_held(&bed);
    bed.agent.daemon.kill();
    assert!(is_held(&bed), "nobody took it away");
    bed.switch.kill();
    let before = asked(&bed);
    bed.restart_switch();
    assert_eq!(bed.ours(), [""; 0]);
    bed.agent.daemon.restart();
    bed.until_equal("it is filled");
    until_released(&bed, before);
    until_held(&bed);
}

#[test]
fn nobody_waits_for_an_agent_that_has_ended() {
    let mut bed = Bed::start();
    bed.apply(&[rule(1, "p1")]);
    until_held(&bed);
    bed.agent.daemon.stop();
    assert!(is_free(&bed), "it was stopped");
    bed.agent.daemon.restart();
    until_held(&bed);
    bed.agent.daemon.kill();
    assert!(is_held(&bed), "it was killed");
    let mut command = Command::new(binary("muster-agent"));
    bed.switch.environment(command.args(["flow", "release"]));
    assert!(command.status().unwrap().success());
    assert!(is_free(&bed));
}

/// As at a start of the server, where the agent comes first.
#[test]
fn a_key_of_an_agent_before_goes_also_if_the_database_comes_later() {
    let mut bed = Bed::start();
    assert!(is_free(&bed));
    bed.agent.daemon.kill();
    bed.switch.vsctl("set Open_vSwitch . other_config:flow-restore-wait=true");
    bed.switch.vsctl("set Open_vSwitch . external_ids:muster-flow-restore=true");
    bed.switch.kill_database();
    bed.site.until_node("web-1", "offline");
    bed.agent.daemon.restart();
    bed.site.until_node("web-1", "online");
    bed.switch.restart_database();
    eventually("nobody would fill it", || is_free(&bed).then_some(()));
}

#[test]
fn what_somebody_else_has_set_is_left_alone() {
    let mut bed = Bed::start();
    bed.switch.vsctl("set Open_vSwitch . other_config:flow-restore-wait=true");
    bed.apply(&[rule(1, "p1")]);
    bed.switch.kill();
    bed.restart_switch();
    bed.until_equal("it is filled");
    let log = || bed.agent.daemon.log();
    eventually("the agent has seen it", || log().contains("by=Others").then_some(()));
    bed.agent.daemon.stop();
    let (config, ids) = config(&bed);
    assert!(config.contains("flow-restore-wait=\"true\"") && !ids.contains("muster"), "{config} {ids}");
}

#[test]
fn a_switch_that_carries_the_way_to_the_controller_does_not_wait() {
    let mut bed = Bed::managed_over_a_bridge();
    let normal =
        serde_json::json!({"device": "web-1/br-mgmt", "priority": 3, "treatment": [{"output": "NORMAL"}]});
    bed.apply_to("br-mgmt", &[normal]);
    for _ in 0..2 {
        assert!(is_free(&bed));
        bed.switch.kill();
        bed.restart_switch();
        eventually("it is filled", || (bed.dump("br-mgmt").len() == 1).then_some(()));
    }
    assert!(is_free(&bed));
}
