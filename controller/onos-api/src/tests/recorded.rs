//! The documents of ONOS's tests and of its REST's examples: each is taken, or refused by name.
//! `tests/onos/record` records them; docs/conformance/onos-documents.md, which this test makes, has each with what
//! became of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use axum::http::Method;
use muster_api::intent::{BridgeView, PortView, TopologyView};
use muster_shared::model::flow::Entry;
use serde::Deserialize;
use serde_json::{Value, json};

use super::refused::asked;
use crate::criterion::selector;
use crate::document::{Part, Wrong};
use crate::instruction::treatment;
use crate::network::Network;
use crate::{constraint, group, intent, meter, rule};

/// The number of documents that are taken. A change may only make it more.
const TAKEN: usize = 21;
/// The device of paths such as `/flows/{device}`.
const DEVICE: &str = "of:0000000000000001";

#[derive(Deserialize)]
struct Recorded {
    source: String,
    commit: String,
    licence: String,
    /// Files without a document.
    empty: Vec<String>,
    documents: Vec<Document>,
}

#[derive(Deserialize)]
struct Document {
    file: String,
    document: Value,
}

impl Document {
    fn name(&self) -> &str {
        self.file.rsplit('/').next().unwrap()
    }
}

/// The reader of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Rule,
    Rules,
    Group,
    Meter,
    Intent,
    Constraint,
    Selector,
    Criterion,
    Treatment,
    Instruction,
    /// The path of a request that has no twin here.
    Unsupported(&'static str),
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            "FlowsBatchPost.json" => Self::Rules,
            "FlowsPost.json"
            | "criteria-flow.json"
            | "instructions-flow.json"
            | "post-flow.json"
            | "sigid-flow.json"
            | "simple-flow.json"
            | "simple-flow-entry.json" => Self::Rule,
            "GroupsPost.json" | "invalid-group.json" | "post-group.json" | "simple-group.json" => Self::Group,
            "MeterPost.json" | "post-meter.json" | "simple-meter-request.json" => Self::Meter,
            "post-intent.json" => Self::Intent,
            "TrafficSelector.json" => Self::Selector,
            "TrafficTreatment.json" => Self::Treatment,
            "PiCriterion.json" => Self::Criterion,
            "GroupsBucketsPost.json" | "post-group-add-buckets.json" => {
                Self::Unsupported("/groups/of:0000000000000001/0x1/buckets")
            }
            "ApplicationId.json" | "ApplicationPost.json" => Self::Unsupported("/applications"),
            "FilteringObjective.json" | "post-filter-objective.json" => {
                Self::Unsupported("/flowobjectives/of:0000000000000001/filter")
            }
            "ForwardingObjective.json" | "post-forward-objective.json" => {
                Self::Unsupported("/flowobjectives/of:0000000000000001/forward")
            }
            "NextObjective.json" | "post-next-objective.json" => {
                Self::Unsupported("/flowobjectives/of:0000000000000001/next")
            }
            "Region.json" | "RegionPost.json" | "post-region.json" => Self::Unsupported("/regions"),
            "McastRoutePost.json" | "McastSinkPost.json" => Self::Unsupported("/mcast"),
            "MastershipRole.json" | "MastershipTerm.json" | "RoleInfo.json" => {
                Self::Unsupported("/mastership")
            }
            "ClusterPost.json" => Self::Unsupported("/cluster/configuration"),
            "post-device-key.json" => Self::Unsupported("/keys"),
            "post-config.json" | "post-config-bad-syntax.json" => {
                Self::Unsupported("/network/configuration/")
            }
            "post-host.json" | "simple-host.json" => Self::Unsupported("/hosts"),
            name if name.ends_with("Constraint.json") => Self::Constraint,
            name if name.ends_with("Instruction.json") => Self::Instruction,
            name if name.ends_with("Intent.json") => Self::Intent,
            name => panic!("{name}: what is it?"),
        }
    }

    fn shown(self) -> String {
        match self {
            Self::Unsupported(path) => format!("`{path}`"),
            other => format!("{other:?}").to_lowercase(),
        }
    }
}

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The documents with bridges and interfaces of ours: a port 2 is an interface `p2`, and a device whose id is none of
/// OpenFlow is a bridge `node-N/br0`.
fn recorded() -> (Recorded, Network) {
    let text = fs::read_to_string(tree().join("tests/onos/documents.json")).unwrap();
    let mut recorded: Recorded = serde_json::from_str(&text).unwrap();
    let mut names = Names::default();
    recorded.documents.iter_mut().for_each(|document| names.put_in(&mut document.document));
    let ports: Vec<PortView> =
        names.ports.iter().map(|name| PortView { name: name.clone(), up: true }).collect();
    let bridge = |(n, id): (usize, &String)| BridgeView {
        device: format!("node-{n}/br0"),
        datapath_id: datapath_id(id).map_or_else(|| format!("{:016x}", n + 0x100), ToOwned::to_owned),
        up: true,
        away: false,
        ports: ports.clone(),
    };
    let devices = names.devices.iter().enumerate().map(bridge).collect();
    (recorded, Network::new(TopologyView { devices, ..TopologyView::default() }))
}

/// The devices and ports that documents name.
#[derive(Default)]
struct Names {
    devices: Vec<String>,
    ports: BTreeSet<String>,
}

impl Names {
    fn put_in(&mut self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.put_in(item)),
            Value::Object(map) => {
                for (key, value) in map {
                    match key.as_str() {
                        "port" | "watchPort" => self.port(value),
                        "device" | "deviceId" => self.device(value),
                        "obstacles" | "waypoints" => {
                            value.as_array_mut().unwrap().iter_mut().for_each(|item| self.device(item));
                        }
                        _ => self.put_in(value),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn port(&mut self, value: &mut Value) {
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        if let Some(number) = number {
            let name = format!("p{number}");
            *value = json!(name);
            self.ports.insert(name);
        }
    }

    fn device(&mut self, value: &mut Value) {
        let id = value.as_str().unwrap().to_owned();
        let n = self.devices.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.devices.push(id.clone());
            self.devices.len() - 1
        });
        if datapath_id(&id).is_none() {
            *value = json!(format!("node-{n}/br0"));
        }
    }
}

fn datapath_id(device: &str) -> Option<&str> {
    let digits = device.strip_prefix("of:")?;
    (digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digits)
}

/// The reason why a document is refused.
async fn verdict(kind: Kind, document: &Value, network: &Network) -> Result<(), String> {
    let part = Part::whole(document);
    let bridge = network.find(DEVICE).unwrap();
    let said = |wrong: Wrong| wrong.to_string();
    let entry = |own: &Value| Entry::from_json(own).map(drop).map_err(|bad| bad.to_string());
    match kind {
        Kind::Rule => rule::decoded(&part, network, Some(bridge), None).map(drop).map_err(said),
        Kind::Rules => {
            for part in part.need("flows").unwrap().items().unwrap() {
                rule::decoded(&part, network, None, None).map_err(said)?;
            }
            Ok(())
        }
        Kind::Group => entry(&group::decoded(&part, network, bridge).map_err(said)?.0),
        Kind::Meter => {
            let mut own = meter::decoded(&part, network, bridge).map_err(said)?;
            own["meter"] = json!(1);
            entry(&own)
        }
        Kind::Intent => intent::decoded(&part, network).map(drop).map_err(said),
        Kind::Constraint => constraint::decoded(&part, network).map(drop).map_err(said),
        Kind::Selector => selector(Some(part), Some(bridge)).map(drop).map_err(said),
        Kind::Treatment => treatment(Some(part), bridge).map(drop).map_err(said),
        Kind::Criterion => {
            let whole = json!({"criteria": [document]});
            selector(Some(Part::whole(&whole)), Some(bridge)).map(drop).map_err(said)
        }
        Kind::Instruction => {
            let whole = json!({"instructions": [document]});
            treatment(Some(Part::whole(&whole)), bridge).map(drop).map_err(said)
        }
        Kind::Unsupported(path) => Err(format!("501: {}", asked(Method::POST, path, document).await)),
    }
}

type Row<'d> = (&'d Document, Kind, Result<(), String>);

fn page(recorded: &Recorded, rows: &[Row<'_>]) -> String {
    let mut out = format!(
        "# ONOS's documents, one by one\n\n\
         The JSON documents of ONOS's codec tests and REST tests, and the examples of its REST ({},\n\
         commit {}, licence {}), and what becomes of each. Devices and\n\
         ports in them stand for bridges and interfaces that are there, as [onos-api.md](../onos-api.md) says. What is\n\
         refused has its place or the status 501, and changes nothing. {} without a document is left out.\n\n\
         `tests/onos/record` records them again. This page is made by a test of theirs:\n\
         `MUSTER_WRITE_DOCUMENTS=1 cargo nextest run -p muster-onos-api recorded`.\n\n\
         ## Counts\n| read as | documents | taken | refused by name |\n|---|---|---|---|\n",
        recorded.source,
        &recorded.commit[..10],
        recorded.licence,
        match recorded.empty.len() {
            1 => "One file".to_owned(),
            count => format!("{count} files"),
        }
    );
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut all = [0; 3];
    for (_, kind, verdict) in rows {
        let name = match kind {
            Kind::Unsupported(_) => "request without a twin".to_owned(),
            other => other.shown(),
        };
        for count in [counts.entry(name).or_default(), &mut all] {
            count[0] += 1;
            count[if verdict.is_ok() { 1 } else { 2 }] += 1;
        }
    }
    for (name, [documents, taken, refused]) in counts.into_iter().chain([("all".to_owned(), all)]) {
        writeln!(out, "| {name} | {documents} | {taken} | {refused} |").unwrap();
    }
    out.push_str("\n## Documents\n| file | read as | what becomes of it |\n|---|---|---|\n");
    for (document, kind, verdict) in rows {
        let text = match verdict {
            Ok(()) => "taken".to_owned(),
            Err(why) => format!("refused: {}", why.replace('|', "\\|")),
        };
        writeln!(out, "| {} | {} | {text} |", document.name(), kind.shown()).unwrap();
    }
    out
}

#[tokio::test]
async fn each_is_taken_or_refused_by_name() {
    let (recorded, network) = recorded();
    assert!(recorded.documents.len() >= 60, "the documents are there");
    let mut rows: Vec<Row<'_>> = Vec::new();
    for document in &recorded.documents {
        let kind = Kind::of(document.name());
        rows.push((document, kind, verdict(kind, &document.document, &network).await));
    }
    let page = page(&recorded, &rows);
    let file = tree().join("docs/conformance/onos-documents.md");
    if std::env::var_os("MUSTER_WRITE_DOCUMENTS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    assert_eq!(
        page,
        fs::read_to_string(&file).unwrap_or_default(),
        "MUSTER_WRITE_DOCUMENTS=1 cargo nextest run -p muster-onos-api recorded"
    );
    let taken = rows.iter().filter(|(.., verdict)| verdict.is_ok()).count();
    assert_eq!(taken, TAKEN, "it may only improve");
}
