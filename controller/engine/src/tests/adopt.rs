//! Surveys of nodes, and stacks that adopt what is there.

use std::time::Duration;

use muster_shared::ResourceId;
use muster_shared::model::{
    Content, Dummy, Group, NetworkConfig, OnDelete, Spec, Survey, Timezone, Up, User,
};
use serde_json::json;

use super::bed::{Bed, files, node, options, parse, stack, template};
use crate::{Answer, Options, Refusal, Request, Source, SourceText};

const OTHERS: ResourceId = ResourceId(uuid::Uuid::nil());

fn survey() -> Request {
    Request::Survey { node: node(0) }
}

fn refusal(answer: Option<Result<Answer, Refusal>>) -> String {
    match answer {
        Some(Err(refusal)) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

fn adopting() -> Options {
    Options { adopt: true, ..options() }
}

fn adopt(bed: &mut Bed, source: Source) {
    bed.ask(Request::Create { name: stack(), source, options: adopting() }).unwrap();
    bed.idle();
}

fn adopt_again(bed: &mut Bed, source: Source) {
    bed.ask(Request::Update { name: stack(), source, options: adopting() }).unwrap();
    bed.idle();
}

/// Others have made these files on node-0.
fn with_files(bed: &mut Bed, files: &[(&str, &str)]) {
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    for (path, content) in files {
        host.files.insert((*path).into(), (OTHERS, Content::Inline(content.as_bytes().to_vec())));
    }
}

fn row(bed: &Bed, name: &str) -> String {
    let row = bed.resource(name);
    format!("{}_{} {}", row.action, row.status, row.status_reason).trim_end().to_owned()
}

fn replace(bed: &mut Bed, is_old: bool) {
    bed.disconnect(&node(0));
    bed.hosts.get_mut(&node(0)).unwrap().is_old = is_old;
    bed.connect(&node(0));
}

fn user(name: &str) -> User {
    User {
        name: name.into(),
        uid: Some(1_000),
        group: Some("ops".into()),
        groups: Some(vec!["web.site".into(), "sudo".into()]),
        home: None,
        shell: None,
        comment: None,
        system: false,
        password_hash: None,
        authorized_keys: None,
        locked: None,
        on_delete: OnDelete::Restore,
    }
}

fn group(name: &str) -> Group {
    let on_delete = OnDelete::Restore;
    Group { name: name.into(), gid: Some(1_000), system: false, members: None, on_delete }
}

#[test]
fn a_survey_is_answered_with_resources_of_a_template() {
    let mut bed = Bed::new(1);
    let (first, second) = (bed.put(survey()), bed.put(survey()));
    assert_eq!(bed.hosts[&node(0)].surveys, 1, "one look answers both");
    let zone = Timezone { timezone: "UTC".into(), on_delete: OnDelete::Restore };
    let specs = vec![
        zone.into(),
        group("ops").into(),
        group("web.site").into(),
        group("web-site").into(),
        user("anna").into(),
    ];
    bed.receive(&node(0), Up::Surveyed(Survey { specs, left_out: vec!["eth1: it leases".into()] }));
    let Some(Ok(Answer::Surveyed(view))) = bed.answers.remove(&first) else { panic!("it is answered") };
    assert_eq!(bed.answers.remove(&second), Some(Ok(Answer::Surveyed(view.clone()))));
    let named: Vec<(&str, &str)> = view.resources.iter().map(|it| (&*it.name, &*it.r#type)).collect();
    let wanted = [
        ("timezone", "Muster::Timezone"),
        ("group_ops", "Muster::Group"),
        ("group_web_site", "Muster::Group"),
        ("group_web_site_2", "Muster::Group"),
        ("user_anna", "Muster::User"),
    ];
    assert_eq!(named, wanted);
    let anna = &view.resources[4];
    assert_eq!(anna.depends_on, ["group_ops", "group_web_site"], "sudo is the server's own");
    let properties = json!({"name": "anna", "node": "node-0", "uid": 1_000, "group": "ops", "groups": ["web.site", "sudo"]});
    assert_eq!(json!(anna.properties), properties, "what is so by default is not said");
    assert_eq!(view.left_out, ["eth1: it leases"]);
    // An answer that nobody waits for means nothing.
    bed.receive(&node(0), Up::Surveyed(Survey::default()));
    assert!(bed.answers.is_empty());
}

/// A value that a template's author would have to trust is not taken from a node.
#[test]
fn what_no_agent_reports_is_in_no_template() {
    let mut bed = Bed::new(1);
    let asked = bed.put(survey());
    let network = |document: &str| {
        Spec::Network(NetworkConfig {
            document: document.into(),
            mapping: Default::default(),
            confirm_timeout: 120,
            on_delete: OnDelete::Restore,
        })
    };
    let good = r#"[{"type": "interface", "name": "eth0"}]"#;
    let specs = vec![
        network(r#"[{"type": "interface", "name": "eth0", "domain": {"get_file": "/root/token"}}]"#),
        network(r#"[{"type": "interface", "name": {"get_param": "x"}}]"#),
        network("no document"),
        network(good),
        User { authorized_keys: Some(vec!["ssh-ed25519 A".into()]), ..user("anna") }.into(),
        Spec::Dummy(Dummy::default()),
    ];
    bed.receive(&node(0), Up::Surveyed(Survey { specs, left_out: Vec::new() }));
    let Some(Ok(Answer::Surveyed(view))) = bed.answers.remove(&asked) else { panic!("it is answered") };
    assert_eq!((view.resources.len(), &*view.resources[0].name), (1, "network"));
    assert_eq!(view.left_out, ["5 resources that no agent reports"]);
}

#[test]
fn a_survey_that_nobody_answers_is_refused() {
    let mut bed = Bed::new(1);
    let late = bed.put(survey());
    bed.pass(Duration::from_secs(31));
    assert_eq!(
        refusal(bed.answers.remove(&late)),
        "the agent of node 'node-0' has not answered within 30 s: look at its log"
    );
    let cut_off = bed.put(survey());
    assert_eq!(bed.hosts[&node(0)].surveys, 2, "it is asked again");
    bed.disconnect(&node(0));
    assert!(refusal(bed.answers.remove(&cut_off)).contains("was disconnected while its agent looked"));
    assert!(refusal(Some(bed.ask(survey()))).contains("is not connected"));
    replace(&mut bed, true);
    assert_eq!(
        refusal(Some(bed.ask(survey()))),
        "node-0 runs muster-agent t, an adoption needs 0.2.0: upgrade the agent"
    );
    assert!(matches!(bed.ask(Request::Survey { node: node(7) }), Err(Refusal::NotFound(_))));
    replace(&mut bed, false);
    (0..16).for_each(|_| {
        bed.put(survey());
    });
    assert!(matches!(bed.ask(survey()), Err(Refusal::Later { .. })));
}

#[test]
fn what_is_as_the_template_has_it_is_adopted() {
    let mut bed = Bed::new(1);
    with_files(&mut bed, &[("/a", "hello"), ("/b", "hello")]);
    adopt(&mut bed, files("a: /a\nb: /b | a"));
    assert_eq!(
        (bed.status().as_str(), &bed.ran[..]),
        ("CREATE_COMPLETE", &["Adopt a".into(), "Adopt b".into()][..])
    );
    assert_eq!(row(&bed, "a"), "ADOPT_COMPLETE");
    bed.restart();
    bed.connect(&node(0));
    assert_eq!(row(&bed, "a"), "ADOPT_COMPLETE");
    // The file is the stack's own from now on.
    bed.update(files("a: /a bye\nb: /b | a")).unwrap();
    bed.idle();
    assert_eq!(bed.ran[2..], ["Update a"]);
    assert_eq!(bed.disk(), ["/a bye", "/b hello"]);
    bed.delete().unwrap();
    bed.idle();
    assert!(bed.view().is_none());
    assert_eq!(bed.ran[3..], ["Delete b", "Delete a"]);
}

#[test]
fn a_preview_says_what_would_be_adopted() {
    let mut bed = Bed::new(1);
    with_files(&mut bed, &[("/a", "hello")]);
    let changes = |bed: &Bed, source: &Source, options: &Options| {
        let view = bed.engine.view().preview(&stack(), source, None, options)?;
        Ok::<_, Refusal>(
            view.resources.iter().map(|row| format!("{} {}", row.name, row.change)).collect::<Vec<_>>(),
        )
    };
    let source = files("a: /a\nb: /b | a");
    assert_eq!(changes(&bed, &source, &adopting()).unwrap(), ["a adopt", "b adopt"]);
    assert_eq!(changes(&bed, &source, &options()).unwrap(), ["a create", "b create"]);
    assert!(bed.ran.is_empty(), "nobody was asked");
    adopt(&mut bed, files("a: /a"));
    assert_eq!(changes(&bed, &source, &adopting()).unwrap(), ["b adopt", "a unchanged"]);
    // A resource that the stack has is updated as without an adoption.
    assert_eq!(changes(&bed, &files("a: /a bye"), &adopting()).unwrap(), ["a update"]);
}

#[test]
fn what_differs_fails_and_stays_as_it_is() {
    let mut bed = Bed::new(1);
    with_files(&mut bed, &[("/a", "other"), ("/b", "hello")]);
    adopt(&mut bed, files("a: /a\nb: /b\nc: /c\nd: /d | a"));
    assert_eq!(bed.status(), "CREATE_FAILED");
    let differs = "ADOPT_FAILED the server differs from the template, and was not changed: content";
    assert_eq!([row(&bed, "a"), row(&bed, "c")], [differs, differs]);
    assert_eq!((row(&bed, "b").as_str(), row(&bed, "d").as_str()), ("ADOPT_COMPLETE", "INIT_INIT"));
    assert_eq!(bed.ran, ["Adopt a", "Adopt b", "Adopt c"], "each is compared once");
    assert_eq!(bed.disk(), ["/a other", "/b hello"]);
    // Once more, with a template that is nearer the truth.
    adopt_again(&mut bed, files("a: /a other\nb: /b\nd: /d | a"));
    assert_eq!(bed.ran[3..], ["Adopt a", "Adopt d"]);
    assert_eq!((bed.status().as_str(), row(&bed, "a").as_str()), ("UPDATE_FAILED", "ADOPT_COMPLETE"));
    assert_eq!(row(&bed, "d"), differs);
    assert_eq!(bed.disk(), ["/a other", "/b hello"]);
    // An update that adopts nothing makes it.
    bed.update(files("a: /a other\nb: /b\nd: /d | a")).unwrap();
    bed.idle();
    assert_eq!(
        (bed.status().as_str(), &bed.ran[5..]),
        ("UPDATE_COMPLETE", &["Create d".into(), "Delete c".into()][..])
    );
    assert_eq!(bed.disk(), ["/a other", "/b hello", "/d hello"]);
}

#[test]
fn an_adoption_goes_on_after_a_restart() {
    let mut bed = Bed::new(1);
    with_files(&mut bed, &[("/a", "hello"), ("/b", "hello")]);
    bed.ask(Request::Create { name: stack(), source: files("a: /a\nb: /b | a"), options: adopting() })
        .unwrap();
    bed.begin(&node(0));
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert!(bed.ran.iter().all(|ran| ran.starts_with("Adopt")), "{:?}", bed.ran);
}

/// A job that would create, and that has not started, is not what an operation wants that adopts.
#[test]
fn an_update_that_adopts_withdraws_what_would_be_created() {
    let mut bed = Bed::new(1);
    bed.disconnect(&node(0));
    bed.create(files("a: /a")).unwrap();
    bed.ask(Request::Update { name: stack(), source: files("a: /a"), options: adopting() }).unwrap();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), &bed.ran[..]), ("UPDATE_FAILED", &["Adopt a".into()][..]));
    assert!(bed.disk().is_empty());
}

/// A thing that a failed creation has left belongs to the stack, and goes with it.
#[test]
fn what_a_creation_left_half_done_is_made_and_not_adopted() {
    let mut bed = Bed::new(1);
    bed.create(files("a: /a")).unwrap();
    bed.fail_next(&node(0), true);
    bed.idle();
    assert_eq!(bed.status(), "CREATE_FAILED");
    adopt_again(&mut bed, files("a: /a"));
    assert_eq!((bed.status().as_str(), &bed.ran[..]), ("UPDATE_COMPLETE", &["Create a".into()][..]));
    assert_eq!(bed.disk(), ["/a hello"]);
}

#[test]
fn what_would_act_cannot_be_adopted() {
    let script = "  config: {type: OS::Heat::SoftwareConfig, properties: {config: 'true'}}\n  \
                  run: {type: OS::Heat::SoftwareDeployment, properties: {server: node-0, config: {get_resource: config}}}\n";
    let rule = "  rule: {type: Muster::FlowRule, properties: {device: node-0/br0, priority: 1, selector: {}, treatment: []}}\n";
    for (kind, resources) in [("OS::Heat::SoftwareDeployment", script), ("Muster::FlowRule", rule)] {
        let mut bed = Bed::new(1);
        let template = format!("heat_template_version: 2018-08-31\nresources:\n{resources}");
        let source = parse(SourceText { name: "t.yaml".into(), template, ..SourceText::default() });
        let refused = bed.ask(Request::Create { name: stack(), source, options: adopting() });
        let why = refusal(Some(refused));
        assert!(why.starts_with("t.yaml:") && why.contains(&format!("a {kind} cannot be adopted")), "{why}");
        assert!(bed.view().is_none(), "nothing has begun");
    }
}

#[test]
fn an_older_agent_adopts_nothing() {
    let mut bed = Bed::new(1);
    replace(&mut bed, true);
    with_files(&mut bed, &[("/a", "hello")]);
    adopt(&mut bed, files("a: /a"));
    let too_old = "ADOPT_FAILED node-0 runs muster-agent t, an adoption needs 0.2.0: upgrade the agent";
    assert_eq!((row(&bed, "a").as_str(), bed.ran.len()), (too_old, 0));
}

/// A dummy exists in its agent's record alone, so none can have been there before.
#[test]
fn a_dummy_is_never_there_before() {
    let mut bed = Bed::new(1);
    adopt(&mut bed, template("a: v=1 node=node-0"));
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert!(bed.reality().is_empty());
}
