//! TripleO's overclouds, as they are shipped: `tests/overcloud` has them, and says where they are from.
//!
//! Each environment that they ship is added alone. `MUSTER_SOAK` tries all of them, otherwise one in forty is.
//! `MUSTER_BLESS=1` beside it rewrites the list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::files::gather;
use crate::validate::{Text, Valid, validate};
use crate::{Environment, EnvironmentFile, Limits};

/// Name, the first 8 bytes of the SHA-256 of its archive, resources, warnings and shipped environments of each overcloud.
const OVERCLOUDS: [(&str, &str, usize, usize, usize); 4] = [
    ("ocata", "74b31762682b950c", 486, 6, 115),
    ("pike", "ebc07204a963969f", 677, 7, 200),
    ("wallaby", "c8f33d0ab401248d", 865, 6, 249),
    ("2023", "6dd804879c4af0d2", 826, 3, 213),
];
const REGISTRY: &str = "overcloud-resource-registry-puppet.yaml";
const DEPLOYED: &str = "environments/deployed-server-environment.yaml";
/// The oldest two install packages on their servers, with Pacemaker.
const BOOTSTRAP: [&str; 2] = [
    "environments/deployed-server-bootstrap-environment-rhel.yaml",
    "environments/deployed-server-pacemaker-environment.yaml",
];
const PORTS: &str = "environments/deployed-server-deployed-neutron-ports.yaml";
/// The step between environments that are tried where not all are.
const SAMPLE: usize = 40;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/overcloud")
}

/// Other recorded fixtures, by the SHA-256 of each. Whoever records one again writes its new hash here, so that a change
/// of what tests are measured by is seen.
const RECORDED: [(&str, &str); 8] = [
    ("net-import/documents.json", "a6539e3aeb597f8ed29f7578a8448000c02225f49b156b5f0a2ed6ba2222d402"),
    ("oracle/recorded.json", "894e5e384923adc70bbce47bfa26a78aaaf35d948c50f600e83cd00b8d6dc7a8"),
    ("oracle/tripleo-yaql.json", "f10d540e320c4f8de9cf64a39da8cf87a5bd2db2fbe246321ffed1a9580e6341"),
    ("os-net-config/documents.json", "9d539e518ddc022214d38c384647459fb9b49acdff1ea0405fb2b16f2ca779b8"),
    ("overcloud/outputs/2023.json.xz", "c0698ae6900bdedc1a5b766b3e36b36213138e22572018f9a6182a65534b8255"),
    ("overcloud/outputs/ocata.json.xz", "dad9b0452b7fd6d88fef9aa17cd7f46e3484ec4eb2c43a614fba54b22711f146"),
    ("overcloud/outputs/pike.json.xz", "eb84dae357a2b5e3c152c920ca3a4705c0990b54dc8d22acecb4bfdaa46018de"),
    ("overcloud/outputs/wallaby.json.xz", "dca62ab6f4794f29efcccb45e8a867a7f856d07ff55a5972abdca48ed4eed907"),
];

#[test]
fn recorded_fixtures_are_as_they_were_recorded() {
    for (file, wanted) in RECORDED {
        let bytes =
            std::fs::read(fixtures().join("..").join(file)).unwrap_or_else(|why| panic!("{file}: {why}"));
        let found = HEXLOWER.encode(&Sha256::digest(bytes));
        assert_eq!(found, wanted, "{file}");
    }
}

/// The files of an overcloud.
struct Overcloud {
    name: &'static str,
    folder: TempDir,
}

impl Overcloud {
    fn unpack(name: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let archive = fixtures().join(format!("{name}.tar.xz"));
        let unpacked = Command::new("tar").arg("-xJf").arg(&archive).arg("-C").arg(folder.path()).status();
        assert!(unpacked.unwrap().success(), "{}", archive.display());
        Self { name, folder }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join(format!("rendered-{}", self.name))
    }

    fn text(&self, key: &str) -> Result<String, String> {
        std::fs::read_to_string(self.root().join(key)).map_err(|_| format!("cannot read {key}"))
    }

    /// Does what `muster stack validate` does with the overcloud, an environment of its own, and ours.
    fn validate(&self, more: Option<&str>) -> Result<Valid, String> {
        let of_age: &[&str] = match self.name {
            "2023" => &[PORTS],
            "wallaby" => &[DEPLOYED],
            _ => &[DEPLOYED, BOOTSTRAP[0], BOOTSTRAP[1]],
        };
        let mut texts = Vec::new();
        for key in [REGISTRY].iter().chain(of_age).copied().chain(more) {
            texts.push((key.to_owned(), self.text(key)?));
        }
        for ours in [fixtures().join("../../examples/tripleo/no-cloud.yaml"), fixtures().join("site.yaml")] {
            texts.push((ours.display().to_string(), std::fs::read_to_string(&ours).unwrap()));
        }
        let files = texts.iter().map(|(key, text)| EnvironmentFile { name: key, key, text });
        let environment = Environment::parse(files).map_err(|errors| errors.to_string())?;
        let template = self.text("overcloud.yaml").unwrap();
        let found =
            gather(Some(("overcloud.yaml", &template)), &environment, str::to_owned, |key| self.text(key));
        let files: BTreeMap<String, String> = found.map_err(|errors| errors.to_string())?;
        let text = Text { name: "overcloud.yaml", text: &template, files: &files, text_max: Limits::TEXT };
        let given: BTreeMap<String, Value> = BTreeMap::new();
        let valid = validate(text, &environment, &given).map_err(|errors| errors.to_string())?;
        match &*valid.missing {
            [] => Ok(valid),
            missing => Err(format!("not given: {}", missing.join(", "))),
        }
    }

    /// The environments that it ships, by key.
    fn environments(&self) -> Vec<String> {
        let mut open = vec![self.root().join("environments")];
        let mut found = Vec::new();
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.root()).unwrap().to_str().unwrap().to_owned();
                if path.is_dir() {
                    open.push(path);
                } else if name.ends_with(".yaml") && !name.ends_with(".j2.yaml") {
                    found.push(name);
                }
            }
        }
        found.sort();
        found
    }

    /// The line of an environment in the list.
    fn line(&self, environment: &str) -> String {
        let (outcome, why) = match self.validate(Some(environment)) {
            Ok(valid) => (valid.resources.to_string(), String::new()),
            Err(errors) => {
                let first = errors.lines().next().unwrap_or_default().to_owned();
                (if first.contains("cannot read") { "missing" } else { "refused" }.to_owned(), first)
            }
        };
        format!("{}\t{environment}\t{outcome}\t{why}", self.name)
    }
}

#[test]
fn overclouds_validate_as_they_are_shipped() {
    for (name, digest, resources, warnings, _) in OVERCLOUDS {
        let archive = std::fs::read(fixtures().join(format!("{name}.tar.xz"))).unwrap();
        let found = HEXLOWER.encode(&Sha256::digest(&archive)[..8]);
        assert_eq!(found, digest, "{name}: these are other templates");
        let valid =
            Overcloud::unpack(name).validate(None).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        assert_eq!(
            (valid.resources, valid.warnings.len()),
            (resources, warnings),
            "{name}: {:#?}",
            valid.warnings
        );
        println!("{name}: {resources} resources");
    }
    println!("{} overclouds ran", OVERCLOUDS.len());
}

/// Holds a tree's environments against the list.
fn environments_of(index: usize) {
    let (name, .., count) = OVERCLOUDS[index];
    let overcloud = Overcloud::unpack(name);
    let all = overcloud.environments();
    assert_eq!(all.len(), count, "{name}: these are other environments");
    let path = fixtures().join("environments.tsv");
    let list = std::fs::read_to_string(&path).unwrap_or_default();
    let listed: Vec<&str> = list.lines().filter(|line| line.starts_with(&format!("{name}\t"))).collect();
    let is_whole = std::env::var_os("MUSTER_SOAK").is_some();
    let step = if is_whole { 1 } else { SAMPLE };
    let lines: Vec<(usize, String)> = all
        .iter()
        .enumerate()
        .step_by(step)
        .map(|(at, environment)| (at, overcloud.line(environment)))
        .collect();
    println!("{name}: {} of {count} environments ran", lines.len());
    if is_whole && std::env::var_os("MUSTER_BLESS").is_some() {
        let own: String = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
        std::fs::write(path.with_extension(name), own).unwrap();
        return;
    }
    assert_eq!(listed.len(), count, "{name}: the list has other environments");
    for (at, line) in lines {
        assert_eq!(line, listed[at]);
    }
}

#[test]
fn environments_of_ocata_are_as_listed() {
    environments_of(0);
}

#[test]
fn environments_of_pike_are_as_listed() {
    environments_of(1);
}

#[test]
fn environments_of_wallaby_are_as_listed() {
    environments_of(2);
}

#[test]
fn environments_of_2023_are_as_listed() {
    environments_of(3);
}

/// The numbers of environments that validate, and that name files that are not there: in both directions.
#[test]
fn the_list_of_environments_has_its_counts() {
    let list = std::fs::read_to_string(fixtures().join("environments.tsv")).unwrap();
    let counts = OVERCLOUDS.map(|(name, ..)| {
        let of = |wanted: &str| {
            let outcome = |line: &&str| line.split('\t').nth(2) == Some(wanted);
            list.lines().filter(|line| line.starts_with(&format!("{name}\t"))).filter(outcome).count()
        };
        let all = list.lines().filter(|line| line.starts_with(&format!("{name}\t"))).count();
        let (missing, refused) = (of("missing"), of("refused"));
        (name, all - missing - refused, missing, refused)
    });
    let wanted = [("ocata", 112, 1, 2), ("pike", 195, 2, 3), ("wallaby", 241, 4, 4), ("2023", 198, 13, 2)];
    assert_eq!(counts, wanted);
}
