use std::path::Path;

use muster_shared::model::{Content, DeploymentGroup, DeploymentOutput, DeploymentStep, Spec};
use muster_shared::{Attempt, Epoch, Generation, ResourceId};
use uuid::Uuid;

use super::super::super::tests::host;
use super::*;

fn config(group: &str) -> HookConfig {
    let input =
        |name: &str, kind: &str, value: Value| HookInput { name: name.into(), kind: kind.into(), value };
    HookConfig {
        group: group.into(),
        config: json!({"a": [1]}),
        options: [("tags".to_owned(), json!("t"))].into_iter().collect(),
        inputs: vec![input("colour", "String", json!("blue")), input("ports", "Json", json!([80]))],
    }
}

fn deployment(config: &[u8]) -> Deployment {
    Deployment {
        name: "setup".into(),
        steps: vec![DeploymentStep {
            actions: vec![DeploymentAction::Create],
            group: DeploymentGroup::Hook,
            config: Content::Inline(config.to_vec()),
        }],
        inputs: Default::default(),
        replace_on: Default::default(),
        outputs: vec![DeploymentOutput { name: "result".into(), error_output: true }],
        timeout: 60,
        on_interrupt: OnInterrupt::Rerun,
    }
}

fn run_id() -> RunId {
    RunId::new(ResourceId(Uuid::from_u128(7)), Generation { epoch: Epoch(3), number: 12 }, Attempt(0))
}

#[test]
fn a_hook_reads_what_heats_agents_give() {
    let action = Some(DeploymentAction::Update);
    let given = input(&run_id(), &deployment(b""), action, config("ansible"), "2026-11-28T23:41:32Z".into());
    let wanted = json!({
        "id": "00000000-0000-0000-0000-000000000007_3_12_0",
        "name": "setup",
        "group": "ansible",
        "creation_time": "2026-11-28T23:41:32Z",
        "config": {"a": [1]},
        "options": {"tags": "t"},
        "inputs": [
            {"name": "colour", "type": "String", "value": "blue"},
            {"name": "ports", "type": "Json", "value": [80]},
            {"name": "deploy_action", "type": "String", "value": "UPDATE"},
        ],
        "outputs": [{"name": "result", "type": "String", "error_output": true}],
    });
    assert_eq!(serde_json::from_slice::<Value>(&given).unwrap(), wanted);
}

#[test]
fn a_time_is_in_whole_seconds() {
    let now = now();
    assert!(now.len() == "2026-11-28T23:41:32Z".len() && now.ends_with('Z'), "{now}");
}

#[test]
fn a_group_cannot_lead_out_of_the_directory() {
    let directories = HookDirectories(vec!["/a".into(), "/b".into()]);
    for (group, name) in [("docker-cmd", "docker-cmd"), ("../../bin/x_1", "binx_1"), ("Heat::Own", "HeatOwn")]
    {
        assert_eq!(paths(&directories, group), [Path::new("/a").join(name), Path::new("/b").join(name)]);
    }
}

#[tokio::test]
async fn a_server_without_the_hook_says_where_it_looked() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = host(dir.path());
    host.hooks = HookDirectories(vec![dir.path().join("a"), dir.path().join("b")]);
    let failed = async |config: &[u8]| {
        let deployment = deployment(config);
        let job = Job {
            resource: ResourceId(Uuid::from_u128(7)),
            generation: Generation { epoch: Epoch(1), number: 1 },
            attempt: Attempt(0),
            action: muster_shared::model::Action::Create,
            timeout: Duration::from_secs(60),
            spec: Spec::Deployment(deployment),
        };
        host.run(&job, None, Vec::new()).await.map(drop).unwrap_err().error
    };
    let at = dir.path().display();
    let reason = format!("group 'salt': there is no hook: looked for {at}/a/salt and {at}/b/salt");
    assert_eq!(failed(&config("salt").to_bytes()).await, RunError { reason, retry: Retry::Never });
    // A directory, where the group has no name.
    std::fs::create_dir(dir.path().join("a")).unwrap();
    assert!(failed(&config("::").to_bytes()).await.reason.contains("is no regular file"));
    assert!(failed(b"#!/bin/sh").await.reason.contains("no config for a hook"));
}
