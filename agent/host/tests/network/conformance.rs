//! os-net-config's own samples: each is taken, or refused by name.

use std::path::{Path, PathBuf};

use muster_shared::model::network::{NetworkDocument, NicMapping, Problem};
use serde_json::Value;

use super::json_schema;

/// Beside the repository, or where `MUSTER_SAMPLES` says; not part of it.
pub fn samples() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples");
    std::env::var_os("MUSTER_SAMPLES").map_or(beside, PathBuf::from).join("os-net-config")
}

#[test]
fn samples_are_taken_or_refused_by_name() {
    let Ok(files) = std::fs::read_dir(samples()) else {
        println!("0 samples ran: there is no {}", samples().display());
        return;
    };
    let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/network.md");
    let documented = std::fs::read_to_string(documented).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "yaml") && !path.ends_with("schema.yaml"));
    paths.sort();
    for path in &paths {
        let value: Value = yaml(&std::fs::read_to_string(path).unwrap());
        if value.get("interface_mapping").is_some() {
            NicMapping::parse(&value).unwrap();
            println!("{}: taken as a mapping", path.display());
            continue;
        }
        let verdict = match NetworkDocument::parse(&value) {
            Ok(_) => {
                assert!(json_schema::validator().is_valid(&value), "{}", path.display());
                "taken".to_owned()
            }
            Err(error) => {
                let by_name = matches!(error.problem, Problem::Unsupported { .. });
                assert!(by_name, "{}: {error}", path.display());
                format!("refused: {error}")
            }
        };
        let line = format!("| `{}` | {verdict} |", path.file_name().unwrap().to_string_lossy());
        println!("{line}");
        assert!(documented.contains(&line), "docs/network.md lacks the line: {line}");
    }
    println!("{} samples ran", paths.len());
}

pub fn yaml(text: &str) -> Value {
    muster_yaml::parse(text).unwrap()
}
