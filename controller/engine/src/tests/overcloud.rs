//! Whole overclouds of TripleO on ten simulated servers: `tests/overcloud` has them, and says where they are from.
//!
//! The templates of Wallaby and 2023 hand what must run to Ansible, as outputs. The templates of Ocata and Pike run
//! scripts and hooks on the servers. Outputs are compared with those of a real Heat 27 (`tests/overcloud/record`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_template::files::gather;
use muster_template::{Environment, EnvironmentFile};
use serde_json::Value;
use tempfile::TempDir;

use super::bed::{Bed, options, parse, stack};
use crate::request::EnvironmentText;
use crate::{Request, Source, SourceText};

mod heat;

/// The network that an undercloud has for its servers.
const PLAN: &str = "heat_template_version: wallaby\nresources:\n  \
                    net: {type: OS::Neutron::Net, properties: {name: ctlplane}}\n  \
                    subnet:\n    type: OS::Neutron::Subnet\n    properties:\n      \
                    {network: {get_resource: net}, name: ctlplane-subnet, cidr: 192.0.2.0/24, gateway_ip: 192.0.2.254}\n";
const DEPLOYED: &str = "environments/deployed-server-environment.yaml";
/// The oldest two install packages on their servers, with Pacemaker.
const OLD: &[&str] = &[
    DEPLOYED,
    "environments/deployed-server-bootstrap-environment-rhel.yaml",
    "environments/deployed-server-pacemaker-environment.yaml",
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/overcloud")
}

/// An unpacked overcloud.
struct Overcloud {
    folder: TempDir,
    name: &'static str,
    /// The environments for servers that are installed.
    deployed: &'static [&'static str],
    /// The number of servers of each role.
    scale: &'static str,
}

impl Overcloud {
    fn unpack(name: &'static str, deployed: &'static [&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let archive = fixtures().join(format!("{name}.tar.xz"));
        let unpacked = Command::new("tar").arg("-xJf").arg(archive).arg("-C").arg(folder.path()).status();
        assert!(unpacked.unwrap().success());
        let scale = if name == "ocata" { "scale-ocata.yaml" } else { "scale.yaml" };
        Self { folder, name, deployed, scale }
    }

    /// Returns what the command line would send, with an environment of ours after the others.
    fn source(&self, more: &str) -> Source {
        let root = self.folder.path().join(format!("rendered-{}", self.name));
        let own = ["overcloud-resource-registry-puppet.yaml"].iter().chain(self.deployed);
        let mut environments: Vec<EnvironmentText> = own
            .map(|key| EnvironmentText {
                name: (*key).to_owned(),
                key: Some((*key).to_owned()),
                text: std::fs::read_to_string(root.join(key)).unwrap(),
            })
            .collect();
        let ours = ["../../examples/tripleo/no-cloud.yaml", "site.yaml", self.scale];
        let ours = ours.map(|name| std::fs::read_to_string(fixtures().join(name)).unwrap());
        for text in ours.into_iter().chain([more.to_owned()]) {
            environments.push(EnvironmentText { name: "ours".into(), key: Some("ours".into()), text });
        }
        let files = environments.iter().map(|it| EnvironmentFile {
            name: &it.name,
            key: it.key.as_deref().unwrap(),
            text: &it.text,
        });
        let environment = Environment::parse(files).unwrap();
        let template = std::fs::read_to_string(root.join("overcloud.yaml")).unwrap();
        let fetch = |key: &str| std::fs::read_to_string(root.join(key)).map_err(|error| error.to_string());
        let found = gather(Some(("template", &template)), &environment, str::to_owned, fetch);
        let files: BTreeMap<String, String> = found.unwrap_or_else(|error| panic!("{error}"));
        let text =
            SourceText { name: "template".into(), template, files, environments, ..SourceText::default() };
        Source::parse(text).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Servers by the names that the roles give.
    fn fleet(&self) -> Bed {
        let mut bed = Bed::new(0);
        let (block, object) = if self.name == "ocata" { (2, 0) } else { (1, 1) };
        let roles = [
            ("controller", 3),
            ("novacompute", 4),
            ("blockstorage", block),
            ("objectstorage", object),
            ("cephstorage", 1),
        ];
        for (role, count) in roles {
            for index in 0..count {
                let name = format!("{}-{role}-{index}", stack()).parse().unwrap();
                bed.join(&name);
                bed.connect(&name);
            }
        }
        assert_eq!(bed.hosts.len(), 10);
        bed
    }

    /// A fleet with this overcloud.
    fn made(&self) -> Bed {
        let mut bed = self.fleet();
        let plan =
            parse(SourceText { name: "plan".into(), template: PLAN.to_owned(), ..SourceText::default() });
        bed.ask(Request::Create { name: "plan".parse().unwrap(), source: plan, options: options() }).unwrap();
        bed.create(self.source("")).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "CREATE_COMPLETE", "{:?}", bed.tables.reasons.last());
        bed
    }
}

/// Names of the resources that the events since then tell of, with what became of them.
fn told(bed: &Bed, since: usize, wanted: &str) -> BTreeSet<String> {
    let ends = bed.tables.events[since..].iter().filter_map(|event| event.strip_suffix(wanted));
    ends.map(|name| name.trim_end().to_owned()).filter(|name| name != "stack").collect()
}

fn outputs(bed: &Bed) -> BTreeMap<String, Value> {
    let outputs = bed.view().unwrap().outputs;
    let wrong: Vec<_> = outputs.iter().filter(|it| !it.output_error.is_empty()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    outputs.into_iter().map(|output| (output.key, output.value)).collect()
}

/// The expected result of an overcloud.
struct Wanted {
    resources: usize,
    outputs: usize,
    /// Resources that have the time server in them, beside two resources of each role.
    updated: &'static [&'static str],
    /// Outputs that have the time server in them.
    changed: &'static [&'static str],
}

/// Makes an overcloud, updates it with nothing, then with another time server.
fn lives(overcloud: &Overcloud, wanted: &Wanted) {
    let mut bed = overcloud.made();
    assert_eq!(bed.resources().len(), wanted.resources);
    let first = outputs(&bed);
    assert_eq!(first.len(), wanted.outputs);
    let hosts = first["HostsEntry"].to_string();
    for host in bed.hosts.keys() {
        assert!(hosts.contains(host.as_str()), "{host}: {hosts}");
    }
    heat::assert_equal(overcloud.name, &first);

    let (jobs, events) = (bed.ran.len(), bed.tables.events.len());
    bed.update(overcloud.source("")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_COMPLETE", jobs), "nothing changes");
    assert!(told(&bed, events, "UPDATE_COMPLETE").is_empty());

    let events = bed.tables.events.len();
    bed.update(overcloud.source("parameter_defaults: {NtpServer: [time.example.org]}\n")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE", "{:?}", bed.tables.reasons.last());
    let roles = ["BlockStorage", "CephStorage", "Compute", "Controller", "ObjectStorage"];
    let of_role =
        |role| [format!("{role}ServiceChain/AnsibleGroupVars"), format!("{role}ServiceChainRoleData")];
    let mut updated: BTreeSet<String> = roles.into_iter().flat_map(of_role).collect();
    updated.extend(wanted.updated.iter().map(|name| (*name).to_owned()));
    assert_eq!(told(&bed, events, "UPDATE_COMPLETE"), updated);
    let second = outputs(&bed);
    let changed: Vec<&str> =
        first.keys().filter(|key| first[*key] != second[*key]).map(String::as_str).collect();
    assert_eq!(changed, wanted.changed);
    println!("{}: {} resources made, {} updated", overcloud.name, wanted.resources, updated.len());
}

#[test]
fn the_overcloud_of_2023_is_made_and_updated() {
    let overcloud = Overcloud::unpack("2023", &["environments/deployed-server-deployed-neutron-ports.yaml"]);
    let changed = &["RoleData", "RoleGroupVars"];
    lives(&overcloud, &Wanted { resources: 974, outputs: 21, updated: &[], changed });
}

#[test]
fn the_overcloud_of_wallaby_is_made_and_updated() {
    let overcloud = Overcloud::unpack("wallaby", &[DEPLOYED]);
    let updated = &["NodeTimesyncUserData/timesync_chrony", "NodeTimesyncUserData/timesync_sync"];
    lives(&overcloud, &Wanted { resources: 1008, outputs: 22, updated, changed: &["RoleData"] });
}

/// Makes an overcloud that configures its servers, updates it with nothing, then with data for Hiera on compute servers.
fn runs(overcloud: &Overcloud, wanted: &Ran) {
    let mut bed = overcloud.made();
    assert_eq!((bed.resources().len(), bed.ran.len()), (wanted.resources, wanted.jobs));
    heat::assert_equal(overcloud.name, &outputs(&bed));

    let jobs = bed.ran.len();
    bed.update(overcloud.source("")).unwrap();
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.len()), ("UPDATE_COMPLETE", jobs), "nothing changes");

    bed.update(overcloud.source("parameter_defaults: {NovaComputeExtraConfig: {colour: blue}}\n")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE", "{:?}", bed.tables.reasons.last());
    let mut ran: Vec<&str> = bed.ran[jobs..].iter().map(String::as_str).collect();
    ran.sort_unstable();
    let of_server = |index| format!("Update Compute/{index}/NovaComputeDeployment");
    assert_eq!(
        ran,
        [0, 1, 2, 3].map(of_server),
        "the data of Hiera on each compute server, and nothing else"
    );
    println!("{}: {} resources made by {} jobs", overcloud.name, wanted.resources, wanted.jobs);
}

/// The outcome that is wanted of an overcloud that configures its servers.
struct Ran {
    resources: usize,
    jobs: usize,
}

#[test]
fn the_overcloud_of_pike_is_made_and_updated() {
    runs(&Overcloud::unpack("pike", OLD), &Ran { resources: 1177, jobs: 200 });
}

#[test]
fn the_overcloud_of_ocata_is_made_and_updated() {
    runs(&Overcloud::unpack("ocata", OLD), &Ran { resources: 962, jobs: 190 });
}
