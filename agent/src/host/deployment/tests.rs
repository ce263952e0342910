use std::fs;

use muster_agent_core::{Accepted, Applied, Ended as LedgerEnded, Look, Order};
use muster_shared::model::DeploymentOutput;
use muster_shared::{Attempt, Epoch, Generation};
use uuid::Uuid;

use super::super::tests::host;
use super::*;

const RESOURCE: ResourceId = ResourceId(Uuid::from_u128(7));

fn deployment(group: DeploymentGroup, config: &str) -> Deployment {
    Deployment {
        name: "setup".into(),
        steps: vec![DeploymentStep {
            actions: vec![DeploymentAction::Create, DeploymentAction::Update],
            group,
            config: Content::Inline(config.as_bytes().to_vec()),
        }],
        inputs: BTreeMap::new(),
        replace_on: Default::default(),
        outputs: [("result", false), ("error", true)]
            .map(|(name, error_output)| DeploymentOutput { name: name.into(), error_output })
            .into(),
        timeout: 60,
        on_interrupt: OnInterrupt::Rerun,
    }
}

fn job(number: u64, action: Action, spec: Deployment) -> Job {
    Job {
        resource: RESOURCE,
        generation: Generation { epoch: Epoch(1), number },
        attempt: Attempt(0),
        action,
        timeout: Duration::from_secs(60),
        spec: Spec::Deployment(spec),
    }
}

fn ended(how: RunEnd, outputs: &[(&str, Output)]) -> Ended {
    let outputs = outputs.iter().map(|(name, output)| ((*name).to_owned(), output.clone())).collect();
    Ended { how, stdout: "out\n".into(), stderr: "first\nlast\n".into(), outputs }
}

#[test]
fn a_run_that_did_well_tells_what_was_declared() {
    let deployment = deployment(DeploymentGroup::Script, "");
    let outputs = [("result", Output::Text("blue".into())), ("error", Output::Text(String::new()))];
    let observed = told(&deployment, &Ran::Script, ended(RunEnd::Exited(0), &outputs)).unwrap();
    let wanted = [
        ("deploy_status_code", "0"),
        ("deploy_stderr", "first\nlast\n"),
        ("deploy_stdout", "out\n"),
        ("error", ""),
        ("result", "blue"),
    ];
    let wanted: BTreeMap<String, String> = wanted.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(observed.attributes, wanted);
}

#[test]
fn a_run_that_did_not_says_why_and_is_not_tried_again() {
    let deployment = deployment(DeploymentGroup::Script, "");
    let text = |text: &str| Output::Text(text.into());
    for (how, outputs, reason) in [
        (RunEnd::Exited(3), vec![], "the script ended with status 3:\nfirst\nlast"),
        (RunEnd::Killed(9), vec![], "the script was ended by signal 9:\nfirst\nlast"),
        (RunEnd::TimedOut, vec![], "the script took longer than 60 s and was ended:\nfirst\nlast"),
        (RunEnd::Stopped, vec![], "the script was ended: its job was withdrawn:\nfirst\nlast"),
        (RunEnd::NotStarted("x".into()), vec![], "the script cannot be started: x:\nfirst\nlast"),
        (RunEnd::BadAnswer("x".into()), vec![], "the script has failed: x:\nfirst\nlast"),
        (RunEnd::Exited(0), vec![("error", text("no\n"))], "the script left an error in output 'error':\nno"),
        (
            RunEnd::Exited(0),
            vec![("result", Output::TooLarge(99_999))],
            "output 'result' has 99999 bytes: more than is taken of one output (32 KiB), or of all (128 KiB)",
        ),
    ] {
        let failed = told(&deployment, &Ran::Script, ended(how, &outputs)).unwrap_err();
        assert_eq!(failed, RunError { reason: reason.into(), retry: Retry::Never });
    }
}

#[test]
fn a_hook_is_quoted_by_its_errors_and_its_output() {
    let deployment = deployment(DeploymentGroup::Hook, "");
    let failed = |stderr: &str| {
        let ended = Ended { stderr: stderr.into(), ..ended(RunEnd::Exited(2), &[]) };
        told(&deployment, &Ran::Hook("ansible".into()), ended).unwrap_err().reason
    };
    assert_eq!(failed(" \n"), "the hook 'ansible' ended with status 2:\nout");
    assert_eq!(failed("no\n"), "the hook 'ansible' ended with status 2:\nno\nout");
}

#[test]
fn a_reason_quotes_the_end_in_whole_lines() {
    assert_eq!(quoting("no".into(), " \n"), "no");
    let long = format!("{}\nlast\n", "ä".repeat(3000));
    assert_eq!(quoting("no".into(), &long), "no:\nlast");
    let quoted = quoting("no".into(), &"ä".repeat(3000));
    assert!(quoted.len() <= QUOTED_MAX + 4 && quoted.ends_with("ää"), "{}", quoted.len());
    // A shell's trace only where all of it fits.
    let traced = "+ apply\nno gateway\n+ exit 1\n";
    assert_eq!(quoting("no".into(), traced), "no:\n+ apply\nno gateway\n+ exit 1");
    let cleaning = traced.to_owned() + &"++ cat /sys/class/net/eth0/carrier\n".repeat(100);
    assert_eq!(quoting("no".into(), &(cleaning + "+1\n")), "no:\nno gateway\n+1");
    assert!(quoting("no".into(), &"+ true\n".repeat(400)).ends_with("+ true"));
}

#[tokio::test]
async fn documents_are_written_compared_and_removed_with_a_deployment() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let path = dir.path().join("colour.json");
    let json = deployment(DeploymentGroup::JsonFile, &format!(r#"{{"{}": "blue"}}"#, path.display()));
    let applied = dir.path().join("state/apply-config").join(format!("{RESOURCE}.json"));
    let run = |number, action, spec: Deployment| {
        let job = job(number, action, spec);
        let host = &host;
        async move { host.run(&job, None, Vec::new()).await }
    };

    let ran = run(1, Action::Create, json.clone()).await.unwrap();
    assert_eq!(ran.observed.attributes["deploy_status_code"], "0");
    assert_eq!(fs::read_to_string(&path).unwrap(), "\"blue\"");
    let spec = Spec::Deployment(json.clone());
    assert_eq!(host.check(RESOURCE, &spec, Some(&spec), None).await, Ok(Found::AsDesired));
    fs::write(&path, "red").unwrap();
    let found = host.check(RESOURCE, &spec, Some(&spec), None).await.unwrap();
    assert!(matches!(found, Found::Differs { missing: false, .. }), "{found:?}");
    let found = host.check(RESOURCE, &spec, None, None).await.unwrap();
    assert_eq!(found, Found::Differs { missing: true, reason: "it has not run here".into() });

    // The other group's file is gone, and the new one's comes.
    let apply = deployment(DeploymentGroup::ApplyConfig, r#"{"colour": "green"}"#);
    run(2, Action::Update, apply.clone()).await.unwrap();
    assert!(!path.exists() && applied.exists());
    run(3, Action::Delete, apply).await.unwrap();
    assert!(!applied.exists());

    let wrong = run(4, Action::Create, deployment(DeploymentGroup::ApplyConfig, "hunter2")).await.map(drop);
    let error = wrong.unwrap_err().error;
    assert!(error.retry == Retry::Never && !error.reason.contains("hunter2"), "{error:?}");
}

/// As the ledger has it once it was applied.
#[tokio::test]
async fn what_is_known_by_its_digest_alone_does_not_differ() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    for group in [
        DeploymentGroup::Script,
        DeploymentGroup::ApplyConfig,
        DeploymentGroup::JsonFile,
        DeploymentGroup::Hook,
    ] {
        let mut applied = deployment(group, "");
        let digest = muster_shared::model::ContentDigest::of(b"{}");
        applied.steps[0].config = Content::Stored { digest, size: 2 };
        let look = Look {
            resource: RESOURCE,
            generation: Generation { epoch: Epoch(1), number: 1 },
            spec: Spec::Deployment(applied),
            before: None,
        };
        assert_eq!(host.look(look).await, Ok(Found::AsDesired), "{group:?}");
    }
}

/// By what the ledger says of the job.
#[tokio::test]
async fn a_run_is_kept_while_its_job_runs_or_may_be_retried() {
    let job = job(1, Action::Create, deployment(DeploymentGroup::Script, "true"));
    let second = Job { attempt: Attempt(1), ..job.clone() };
    let accepted = |job: &Job| Some(Accepted { order: Order(1), job: job.clone() });
    let failed = |permanent| LedgerEnded {
        order: Order(1),
        key: job.key(),
        digest: None,
        outcome: Outcome::Failed { reason: "why".into(), permanent },
    };
    let entry = Entry::new(RESOURCE);
    let applied = Some(Applied { generation: job.generation, spec: job.spec.clone() });
    for (entry, is_kept) in [
        (Entry { current: accepted(&job), ..entry.clone() }, true),
        (Entry { next: accepted(&second), ..entry.clone() }, true),
        (Entry { last: Some(failed(false)), ..entry.clone() }, true),
        (Entry { last: Some(failed(true)), ..entry.clone() }, false),
        (Entry { applied, ..entry.clone() }, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let host = host(dir.path());
        let run = dir.path().join("runs").join(script_run(second.key()).to_string());
        fs::create_dir_all(&run).unwrap();
        host.sweep_deployments(&[&entry]).unwrap();
        assert_eq!(run.exists(), is_kept, "{entry:?}");
    }
}
