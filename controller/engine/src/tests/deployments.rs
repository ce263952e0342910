//! Software deployments: when which config runs, and which results other resources see.

use std::collections::BTreeMap;

use muster_shared::model::{Action, Content, Deployment, Outcome, Report, Spec, Up};
use serde_json::{Value, json};

use super::bed::{Bed, node, options, parse, stack};
use super::trees::source;
use crate::{Source, SourceText};

const SERVER: &str = "s: {type: OS::Heat::DeployedServer, properties: {name: node-0}}";

/// A config and a deployment of it.
fn deployed(config: &str, more: &str) -> Source {
    let root = format!(
        "resources:\n  {SERVER}\n  \
          c: {{type: OS::Heat::SoftwareConfig, properties: {{group: script, config: '{config}', outputs: [{{name: result}}]}}}}\n  \
          d: {{type: OS::Heat::SoftwareDeployment, properties: {{config: {{get_resource: c}}, server: {{get_resource: s}}{more}}}}}\n\
         outputs:\n  result: {{value: {{get_attr: [d, result]}}}}\n  code: {{value: {{get_attr: [d, deploy_status_code]}}}}\n  \
          err: {{value: {{get_attr: [d, deploy_stderr]}}}}"
    );
    source(&root, &[])
}

/// The deployment on its node, by the name of its resource.
fn there(bed: &Bed, name: &str) -> Deployment {
    let row = bed.tables.rows.values().find(|row| &*row.name == name).unwrap();
    let host = bed.hosts.values().find(|host| host.things.contains_key(&row.physical)).unwrap();
    match &host.things[&row.physical].0 {
        Spec::Deployment(deployment) => deployment.clone(),
        other => panic!("{other:?}"),
    }
}

fn script(deployment: &Deployment) -> String {
    match &deployment.step(Action::Create).unwrap().config {
        Content::Inline(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        Content::Stored { .. } => panic!("stored"),
    }
}

fn outputs(bed: &Bed) -> BTreeMap<String, Value> {
    bed.view().unwrap().outputs.into_iter().map(|output| (output.key, output.value)).collect()
}

#[test]
fn a_new_config_or_input_reruns_and_a_new_server_replaces() {
    let mut bed = Bed::new(2);
    bed.create(deployed("first", "")).unwrap();
    bed.idle();
    assert_eq!(
        (bed.status().as_str(), bed.ran.as_slice()),
        ("CREATE_COMPLETE", ["Create d".to_owned()].as_slice())
    );
    let made = there(&bed, "d");
    assert_eq!((script(&made).as_str(), made.name.as_str()), ("first", "d"));
    let id = bed.view().unwrap().id;
    assert_eq!(made.inputs["deploy_stack_id"], format!("{}/{id}", stack()));
    assert_eq!((&*made.inputs["deploy_server_id"], &*made.inputs["deploy_resource_name"]), ("node-0", "d"));
    // Outputs that the run reported. Others are null.
    let told = outputs(&bed);
    assert_eq!(
        (&told["result"], &told["code"], &told["err"]),
        (&json!("result of first"), &json!(0), &Value::Null)
    );

    for (new, change, ran) in [
        (deployed("first", ""), "unchanged", vec![]),
        (deployed("second", ""), "update", vec!["Update d"]),
        (deployed("second", ", input_values: {a: 1}"), "update", vec!["Update d"]),
        (deployed("second", ", input_values: {a: 1}, timeout: 7"), "update", vec!["Update d"]),
    ] {
        bed.ran.clear();
        let view = bed.engine.view().preview(&stack(), &new, None, &options()).unwrap();
        assert_eq!(view.resources.iter().find(|row| row.name == "d").unwrap().change, change);
        let before = bed.resource("d").physical_id;
        bed.update(new).unwrap();
        bed.idle();
        assert_eq!(
            (bed.status().as_str(), &bed.ran),
            ("UPDATE_COMPLETE", &ran.iter().map(|it| (*it).to_owned()).collect())
        );
        assert_eq!(bed.resource("d").physical_id, before);
    }
    assert_eq!(script(&there(&bed, "d")), "second");
    assert_eq!(outputs(&bed)["result"], "result of second");
    bed.restart();
    bed.connect(&node(0));
    bed.connect(&node(1));
    assert_eq!(outputs(&bed)["code"], 0, "also after a restart");
    bed.ran.clear();
    let elsewhere = deployed("second", ", input_values: {a: 1}, timeout: 7");
    let elsewhere = SourceText {
        template: elsewhere.text.template.replace("node-0", "node-1"),
        ..(*elsewhere.text).clone()
    };
    bed.update(parse(elsewhere)).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.resource("d").node.as_str()), ("UPDATE_COMPLETE", "node-1"));
    assert_eq!(bed.ran, ["Create d", "Delete d"]);
    bed.rollback(Some(1)).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), script(&there(&bed, "d")).as_str()), ("ROLLBACK_COMPLETE", "first"));
}

#[test]
fn an_input_that_replaces_makes_another_deployment() {
    let with = |value: &str| {
        let root = format!(
            "resources:\n  {SERVER}\n  \
              c: {{type: OS::Heat::SoftwareConfig, properties: {{group: script, inputs: [{{name: a, replace_on_change: true}}, {{name: b}}]}}}}\n  \
              d: {{type: OS::Heat::SoftwareDeployment, properties: {{config: {{get_resource: c}}, server: {{get_resource: s}}, input_values: {{{value}}}}}}}"
        );
        source(&root, &[])
    };
    let mut bed = Bed::new(1);
    bed.create(with("a: 1, b: 1")).unwrap();
    bed.idle();
    bed.update(with("a: 1, b: 2")).unwrap();
    bed.idle();
    bed.update(with("a: 2, b: 2")).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Create d", "Update d", "Create d", "Delete d"]);
}

#[test]
fn the_job_of_a_delete_has_what_delete_runs() {
    let mut bed = Bed::new(1);
    bed.create(deployed("clean up", ", actions: [DELETE]")).unwrap();
    bed.idle();
    assert_eq!(outputs(&bed)["result"], Value::Null, "nothing has run");
    bed.delete().unwrap();
    let job = &bed.hosts[&node(0)].queue[0];
    match (&job.spec, job.action) {
        (Spec::Deployment(deployment), Action::Delete) => {
            match &deployment.step(Action::Delete).unwrap().config {
                Content::Inline(text) => assert_eq!(text, b"clean up"),
                other @ Content::Stored { .. } => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    }
    bed.idle();
    assert_eq!(bed.status(), "gone");
}

fn group(servers: &str) -> Source {
    let root = format!(
        "resources:\n  \
          c: {{type: OS::Heat::SoftwareConfig, properties: {{group: script, config: go, outputs: [{{name: result}}]}}}}\n  \
          g: {{type: OS::Heat::SoftwareDeploymentGroup, properties: {{config: {{get_resource: c}}, servers: {servers}}}}}\n  \
          n: {{type: OS::Heat::ResourceGroup, properties: {{count: 2, resource_def: {{type: OS::Heat::DeployedServer, properties: {{name: 'node-%index%'}}}}}}}}\n\
         outputs:\n  all: {{value: {{get_attr: [g, result]}}}}\n  one: {{value: {{get_attr: [g, result, a]}}}}\n  \
          codes: {{value: {{get_attr: [g, deploy_status_codes]}}}}\n  in: {{value: {{get_attr: [g, resource.a.result]}}}}"
    );
    source(&root, &[])
}

#[test]
fn a_group_grows_and_shrinks_and_its_attributes_are_maps() {
    let mut bed = Bed::new(2);
    bed.create(group("{a: node-0}")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), &bed.ran), ("CREATE_COMPLETE", &vec!["Create g/a".to_owned()]));
    assert_eq!(there(&bed, "g/a").inputs["deploy_resource_name"], "a");
    bed.ran.clear();
    bed.update(group("{a: node-0, b: node-1}")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), &bed.ran), ("UPDATE_COMPLETE", &vec!["Create g/b".to_owned()]));
    let told = outputs(&bed);
    assert_eq!(told["all"], json!({"a": "result of go", "b": "result of go"}));
    assert_eq!((&told["one"], &told["in"]), (&json!("result of go"), &json!("result of go")));
    assert_eq!(told["codes"], json!({"a": 0, "b": 0}));
    bed.ran.clear();
    bed.update(group("{b: node-1}")).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Delete g/a"]);
    // Servers of a group, by their names in the group.
    bed.ran.clear();
    bed.update(group("{get_attr: [n, refs_map]}")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE", "{:?}", bed.tables.reasons);
    let mut ran = bed.ran.clone();
    ran.sort();
    assert_eq!(ran, ["Create g/0", "Create g/1", "Delete g/b"]);
    bed.delete().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "gone");
}

/// The config is in a nested template and is referred to by `OS::stack_id`, as in TripleO.
#[test]
fn a_config_comes_through_nested_stacks() {
    let net = |text: &str| {
        format!(
            "parameters: {{Ip: {{type: string}}}}\n\
             resources:\n  impl:\n    type: OS::Heat::SoftwareConfig\n    properties:\n      group: script\n      \
               config: {{str_replace: {{template: '{text} $network_config', params: {{$network_config: {{network_config: [{{type: interface, name: nic1, addresses: [{{ip_netmask: {{get_param: Ip}}}}]}}]}}}}}}}}\n\
             outputs: {{OS::stack_id: {{value: {{get_resource: impl}}}}}}"
        )
    };
    let role = "parameters: {Ip: {type: string}}\n\
        resources:\n  NetworkConfig: {type: net.yaml, properties: {Ip: {get_param: Ip}}}\n  \
          Server: {type: server.yaml}\n  \
          NetworkDeployment: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: NetworkConfig}, server: {get_resource: Server}}}";
    let server = format!("resources:\n  {SERVER}\noutputs: {{OS::stack_id: {{value: {{get_resource: s}}}}}}");
    let with = |ip: &str, text: &str| {
        let root = format!("resources:\n  role: {{type: role.yaml, properties: {{Ip: {ip}}}}}");
        source(&root, &[("role.yaml", role), ("net.yaml", &net(text)), ("server.yaml", &server)])
    };
    let mut bed = Bed::new(1);
    let view = bed.engine.view().preview(&stack(), &with("192.0.2.1/24", "run"), None, &options()).unwrap();
    let shown = view.resources.iter().find(|row| row.name == "role/NetworkDeployment").unwrap();
    assert_eq!((&*shown.change, &*shown.node), ("create", ""), "the server's name is known when it is there");
    bed.create(with("192.0.2.1/24", "run")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE", "{:?}", bed.tables.reasons);
    // Keys are sorted, as in Heat's texts of JSON.
    let wanted = "run {\"network_config\": [{\"addresses\": [{\"ip_netmask\": \"192.0.2.1/24\"}], \"name\": \"nic1\", \
                  \"type\": \"interface\"}]}";
    assert_eq!(script(&there(&bed, "role/NetworkDeployment")), wanted);
    assert_eq!(bed.resource("role/NetworkDeployment").node, "node-0");
    for new in [with("192.0.2.2/24", "run"), with("192.0.2.2/24", "walk")] {
        bed.ran.clear();
        bed.update(new).unwrap();
        bed.idle();
        assert_eq!(bed.ran, ["Update role/NetworkDeployment"]);
    }
    assert!(script(&there(&bed, "role/NetworkDeployment")).starts_with("walk"));
}

#[test]
fn what_is_no_config_is_told() {
    let with = |more: &str, config: &str| {
        let root = format!(
            "resources:\n  {more}\n  \
              d: {{type: OS::Heat::SoftwareDeployment, properties: {{config: {config}, server: node-0}}}}"
        );
        source(&root, &[])
    };
    for (more, config, why) in [
        (
            "c: {type: OS::Heat::None}",
            "{get_resource: c}",
            "'c' is an OS::Heat::None, and no software config",
        ),
        ("c: {type: OS::Heat::None}", "nowhere", "there is no software config 'nowhere' in this stack"),
        (
            "c: {type: OS::Heat::SoftwareConfig, properties: {group: json-file, config: nothing}}",
            "{get_resource: c}",
            "is no map in JSON",
        ),
    ] {
        let mut bed = Bed::new(1);
        bed.create(with(more, config)).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "CREATE_FAILED");
        let reason = bed.resource("d").status_reason;
        assert!(reason.contains(why) && reason.contains("resources.d.properties.config"), "{reason}");
        assert!(bed.ran.is_empty());
    }
    let other = "heat_template_version: 2018-08-31\nresources:\n  c: {type: OS::Heat::SoftwareConfig}\n";
    let mut bed = Bed::new(1);
    bed.create(parse(SourceText { name: "t".into(), template: other.into(), ..SourceText::default() }))
        .unwrap();
    let id = bed.resource("c").physical_id;
    bed.ask(crate::Request::Create {
        name: "other".parse().unwrap(),
        source: with("x: {type: OS::Heat::None}", &id),
        options: options(),
    })
    .unwrap();
    bed.idle();
    let reason = bed.tables.reasons.join("\n");
    assert!(reason.contains(&format!("there is no software config '{id}' in this stack")), "{reason}");
}

#[test]
fn a_failed_run_shows_its_stderr_without_secrets_and_runs_again() {
    let text = |secret: &str| {
        let template = format!(
            "heat_template_version: 2018-08-31\nparameters: {{secret: {{type: string, hidden: true}}}}\nresources:\n  {SERVER}\n  \
              c: {{type: OS::Heat::SoftwareConfig, properties: {{group: script, config: {{str_replace: {{template: echo X, params: {{X: {{get_param: secret}}}}}}}}, outputs: [{{name: result}}]}}}}\n  \
              d: {{type: OS::Heat::SoftwareDeployment, properties: {{config: {{get_resource: c}}, server: {{get_resource: s}}, input_values: {{p: {{get_param: secret}}}}}}}}\n\
             outputs: {{out: {{value: {{get_attr: [d, deploy_stdout]}}}}}}\n"
        );
        let parameters = [("secret".to_owned(), secret.into())].into();
        SourceText { name: "t".into(), template, parameters, ..SourceText::default() }
    };
    let with = |secret: &str| parse(text(secret));
    let mut bed = Bed::new(1);
    bed.create(with("s3cret-one")).unwrap();
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    let job = host.queue.pop_front().unwrap();
    let reason = "it ended with 3:\nno such user s3cret-one".into();
    let report = Report { key: job.key(), outcome: Outcome::Failed { reason, permanent: true } };
    host.outcomes.insert(job.resource, report.clone());
    bed.receive(&node(0), Up::Report(report));
    assert_eq!(bed.status(), "CREATE_FAILED");
    let reason = bed.resource("d").status_reason;
    assert!(reason.contains("it ended with 3:\nno such user ******"), "{reason}");
    // The same update again: the deployment failed, so it runs again.
    bed.update(with("s3cret-one")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), &bed.ran), ("UPDATE_COMPLETE", &vec!["Create d".to_owned()]));
    assert!(script(&there(&bed, "d")).contains("s3cret-one"));
    let old = with("s3cret-one");
    let preview =
        bed.engine.view().preview(&stack(), &with("s3cret-two"), Some(&old.tree), &options()).unwrap();
    assert_eq!(preview.resources.iter().filter(|row| row.change == "update").count(), 2);
    let seen = format!(
        "{:?} {:?} {:?} {:?} {preview:?} {:?}",
        bed.view(),
        bed.resources(),
        bed.tables.events,
        bed.tables.reasons,
        bed.engine.view().graph_view(&stack())
    );
    assert!(!seen.contains("s3cret"), "{seen}");
}

#[test]
fn what_failed_at_its_creation_is_created_again() {
    let mut bed = Bed::new(1);
    bed.create(deployed("once", ", actions: [CREATE]")).unwrap();
    bed.fail_next(&node(0), true);
    bed.idle();
    assert_eq!(bed.status(), "CREATE_FAILED");
    // The agent reports that it holds the deployment.
    bed.disconnect(&node(0));
    bed.connect(&node(0));
    bed.ran.clear();
    bed.update(deployed("once", ", actions: [CREATE]")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), &bed.ran), ("UPDATE_COMPLETE", &vec!["Create d".to_owned()]));
    bed.ran.clear();
    bed.update(deployed("another", ", actions: [CREATE]")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), &bed.ran), ("UPDATE_COMPLETE", &vec!["Update d".to_owned()]));
}

#[test]
fn a_server_that_lost_everything_gets_what_a_creation_runs() {
    let mut bed = Bed::new(1);
    bed.create(deployed("once", ", actions: [CREATE]")).unwrap();
    bed.idle();
    bed.ran.clear();
    bed.disconnect(&node(0));
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.things.clear();
    host.outcomes.clear();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), &bed.ran), ("CREATE_COMPLETE", &vec!["Create d".to_owned()]));
}

#[test]
fn the_group_os_net_config_is_a_network_with_a_claim() {
    let with = |more: &str| {
        let root = format!(
            "resources:\n  {SERVER}\n  \
              c: {{type: OS::Heat::StructuredConfig, properties: {{group: os-net-config, config: {{network_config: [{{type: interface, name: eth1, use_dhcp: false}}]}}}}}}\n  \
              d: {{type: OS::Heat::StructuredDeployment, properties: {{config: {{get_resource: c}}, server: {{get_resource: s}}}}}}\n  {more}\n\
             outputs: {{code: {{value: {{get_attr: [d, deploy_status_code]}}}}}}"
        );
        source(&root, &[])
    };
    let mut bed = Bed::new(1);
    bed.create(with("x: {type: OS::Heat::None}")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), &outputs(&bed)["code"]), ("CREATE_COMPLETE", &json!(0)));
    let network = "x: {type: Muster::NetworkConfig, properties: {node: node-0, network_config: [{type: interface, name: eth1, use_dhcp: false}]}}";
    let refused = bed.update(with(network)).unwrap_err().to_string();
    assert!(refused.contains("link eth1"), "{refused}");
}
