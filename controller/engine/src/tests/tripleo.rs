//! TripleO's templates from their files: our own under `examples`, and TripleO's samples where they exist.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_shared::model::{Action, Content, Spec};
use muster_template::files::gather;
use muster_template::{Environment, EnvironmentFile};
use serde_json::{Value, json};

use super::bed::{Bed, options, stack};
use crate::request::EnvironmentText;
use crate::{Request, Source, SourceText};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tripleo")
}

/// The folder of the samples: beside the repository, or the one in `MUSTER_SAMPLES`. The samples
/// are not part of the repository.
fn samples() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples");
    std::env::var_os("MUSTER_SAMPLES").map_or(beside, PathBuf::from).join("tripleo")
}

/// The source that the command line would send for a template in a folder, with environments
/// relative to it.
fn read(folder: &Path, template: String, environments: &[(&str, &str)], parameters: Value) -> Source {
    let environments: Vec<EnvironmentText> = environments
        .iter()
        .map(|(key, more)| {
            let text = if key.is_empty() {
                String::new()
            } else {
                std::fs::read_to_string(folder.join(key)).unwrap()
            };
            EnvironmentText { name: (*key).to_owned(), key: Some((*key).to_owned()), text: text + more }
        })
        .collect();
    let files = environments.iter().map(|it| EnvironmentFile {
        name: &it.name,
        key: it.key.as_deref().unwrap(),
        text: &it.text,
    });
    let environment = Environment::parse(files).unwrap();
    let fetch = |key: &str| {
        // TripleO's script is not among the samples, so ours is used.
        let script = "network/scripts/run-os-net-config.sh";
        let path = if key.ends_with(script) { examples().join(script) } else { folder.join(key) };
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let found = gather(Some(("template", &template)), &environment, str::to_owned, fetch);
    let files: BTreeMap<String, String> =
        found.unwrap_or_else(|error| panic!("{error}")).into_iter().collect();
    let parameters: BTreeMap<String, Value> = serde_json::from_value(parameters).unwrap();
    let text = SourceText { name: "template".into(), template, files, parameters, environments };
    Source::parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The text that a deployment runs, with its inputs.
fn script(bed: &Bed, name: &str) -> (String, BTreeMap<String, String>) {
    let row = bed.tables.rows.values().find(|row| &*row.name == name).unwrap();
    let host = bed.hosts.values().find(|host| host.things.contains_key(&row.physical)).unwrap();
    match &host.things[&row.physical].0 {
        Spec::Deployment(deployment) => match &deployment.step(Action::Create).unwrap().config {
            Content::Inline(text) => (String::from_utf8(text.clone()).unwrap(), deployment.inputs.clone()),
            other @ Content::Stored { .. } => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn outputs(bed: &Bed) -> BTreeMap<String, Value> {
    bed.view().unwrap().outputs.into_iter().map(|output| (output.key, output.value)).collect()
}

#[test]
fn the_example_deploys_to_its_servers() {
    let folder = examples();
    let with = |address: &str| {
        let template = std::fs::read_to_string(folder.join("site.yaml")).unwrap();
        let addresses =
            format!("  servers: [node-0, node-1]\n  Addresses: {{node-0: {address}, node-1: 192.0.2.12}}\n");
        let names = format!("\nparameter_defaults:\n{addresses}");
        read(&folder, template, &[("environment.yaml", ""), ("", &names)], json!({}))
    };
    let mut bed = Bed::new(2);
    bed.engine.view().preview(&stack(), &with("192.0.2.11"), None, &options()).unwrap();
    bed.create(with("192.0.2.11")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE", "{:?}", bed.tables.reasons);
    let (text, inputs) = script(&bed, "web/0/NetworkDeployment");
    assert!(
        text.starts_with("#!/bin/bash\n") && text.contains("\"ip_netmask\": \"192.0.2.11/24\""),
        "{text}"
    );
    assert!(!text.contains("$network_config\nDOCUMENT"), "{text}");
    assert_eq!((&*inputs["bridge_name"], &*inputs["interface_name"]), ("br-ex", "nic1"));
    assert_eq!(script(&bed, "HostsDeployment/1").0, r#"{"/etc/site/hosts.json":["node-0","node-1"]}"#);
    let told = outputs(&bed);
    assert_eq!(told["hostnames"], json!(["node-0", "node-1"]));
    assert_eq!(told["codes"], json!({"0": 0, "1": 0}));
    bed.ran.clear();
    bed.update(with("192.0.2.13")).unwrap();
    bed.idle();
    assert_eq!(
        (bed.status().as_str(), &*bed.ran),
        ("UPDATE_COMPLETE", &["Update web/0/NetworkDeployment".to_owned()][..])
    );
}

/// The samples are used unchanged, with the parameters from their documentation.
#[test]
fn samples_are_validated_previewed_and_made() {
    let folder = samples();
    if !folder.is_dir() {
        println!("0 samples ran: there is no {}", folder.display());
        return;
    }
    let servers = folder.join("deployed-server");
    let given = json!({"user_data_format": "SOFTWARE_CONFIG", "name": "node-0"});
    let map = "\nparameter_defaults:\n  DeployedServerPortMap:\n    node-0-ctlplane:\n      fixed_ips: [{ip_address: 192.0.2.9}]\n      subnets: [{cidr: 24}]\n";
    let mut ran = 0;
    for (environment, more) in [
        ("../environments/deployed-server-environment.yaml", ""),
        ("../environments/deployed-server-noop-ctlplane.yaml", map),
    ] {
        let mut bed = Bed::new(1);
        let net = "heat_template_version: 2018-08-31\nresources:\n  \
            net: {type: OS::Neutron::Net, properties: {name: ctlplane}}\n  \
            subnet: {type: OS::Neutron::Subnet, properties: {network: {get_resource: net}, cidr: 192.0.2.0/24, allocation_pools: [{start: 192.0.2.9, end: 192.0.2.9}]}}\n";
        let net = read(&folder, net.to_owned(), &[], json!({}));
        bed.ask(Request::Create { name: "plan".parse().unwrap(), source: net, options: options() }).unwrap();
        let template = std::fs::read_to_string(servers.join("deployed-server.yaml")).unwrap();
        let source = || read(&servers, template.clone(), &[(environment, ""), ("", more)], given.clone());
        let view = bed.engine.view().preview(&stack(), &source(), None, &options()).unwrap();
        assert!(view.resources.iter().all(|row| row.change == "create"), "{view:?}");
        bed.create(source()).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "CREATE_COMPLETE", "{:?}", bed.tables.reasons);
        let told = outputs(&bed);
        assert_eq!((&told["name"], &told["OS::stack_id"]), (&json!("node-0"), &json!("node-0")));
        assert_eq!(told["networks"], json!({"ctlplane": ["192.0.2.9"]}));
        assert_eq!(script(&bed, "InstanceIdDeployment").0, r#"{"instance-id":"node-0"}"#);
        let (text, inputs) = script(&bed, "UpgradeInitDeployment");
        assert!(text.starts_with("#!/bin/bash\n\nif [[ -f /etc/resolv.conf.save ]]"), "{text}");
        assert_eq!(inputs["deploy_resource_name"], "UpgradeInitDeployment");
        let before = bed.ran.len();
        bed.update(source()).unwrap();
        bed.idle();
        assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_COMPLETE", before), "nothing changes");
        println!("{environment}: made");
        ran += 1;
    }
    for (name, kind) in
        [("net-config-static.yaml", "interface"), ("net-config-static-bridge.yaml", "ovs_bridge")]
    {
        // The sample alone, and below a template that deploys it.
        let alone = json!({"ControlPlaneDefaultRoute": "192.0.2.1", "EC2MetadataIp": "192.0.2.1"});
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let source = read(&folder, text, &[], alone);
        let mut bed = Bed::new(1);
        bed.engine.view().preview(&stack(), &source, None, &options()).unwrap();
        let root = format!(
            "heat_template_version: ocata\nresources:\n  \
              NetworkConfig: {{type: {name}, properties: {{ControlPlaneIp: 192.0.2.9, ControlPlaneDefaultRoute: 192.0.2.1, EC2MetadataIp: 192.0.2.1}}}}\n  \
              NetworkDeployment: {{type: OS::Heat::SoftwareDeployment, properties: {{config: {{get_resource: NetworkConfig}}, server: node-0}}}}\n"
        );
        bed.create(read(&folder, root, &[], json!({}))).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "CREATE_COMPLETE", "{:?}", bed.tables.reasons);
        let (text, _) = script(&bed, "NetworkDeployment");
        let (_, document) = text.split_once("<<'DOCUMENT'\n").unwrap();
        let document: Value = serde_json::from_str(document.split_once("\nDOCUMENT").unwrap().0).unwrap();
        assert_eq!(document["network_config"][0]["type"], kind);
        assert_eq!(document["network_config"][0]["addresses"], json!([{"ip_netmask": "192.0.2.9/24"}]));
        assert_eq!(
            document["network_config"][0]["routes"][1],
            json!({"default": true, "next_hop": "192.0.2.1"})
        );
        println!("{name}: made");
        ran += 1;
    }
    println!("{ran} samples ran");
}
