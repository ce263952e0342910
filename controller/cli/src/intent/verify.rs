//! `muster intent verify`: whether packets of intents arrive. One intent is asked for after the other, and its line is
//! printed at once.
//!
//! Absent: which packets are tried (`controller/intent/src/proof.rs`).

use muster_api::intent::IntentRow;
use muster_api::trace::{IntentProof, Verdict};
use serde_json::Value;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Column, Format, Rows, cell, count, document, print, read};
use crate::trace;

const PROOFS: [Column<IntentProof>; 4] = [
    ("KEY", |proof| cell(&proof.key)),
    ("VERDICT", |proof| cell(&proof.verdict)),
    ("TRIED", |proof| cell(&proof.tried)),
    ("REASON", |proof| cell(&proof.reason)),
];

/// Verifies one intent, or all that are INSTALLED.
pub async fn verify(key: Option<&str>, client: &mut Client, format: Format) -> Result<(), Failure> {
    let one = key.map(|key| vec![key.to_owned()]);
    let keys = match one {
        Some(keys) => keys,
        None => {
            let list: Vec<IntentRow> = read(&client.get("/v1/intents?state=INSTALLED").await?)?;
            list.into_iter().map(|intent| intent.key).collect()
        }
    };
    let mut answers = Vec::new();
    let (mut rows, mut bad) = (Rows::default(), 0);
    for (at, key) in keys.iter().enumerate() {
        let answer = match client.get(&format!("{}/verify", path(["intents", key]))).await {
            Ok(answer) => answer,
            // It was withdrawn and forgotten since the list was made.
            Err(failure) if failure.missing && keys.len() > 1 => continue,
            Err(failure) => return Err(failure),
        };
        let proof: IntentProof = read(&answer)?;
        bad += u64::from(proof.verdict != Verdict::Ok);
        match format {
            Format::Table => print(&rows.table(&PROOFS, std::slice::from_ref(&proof), at == 0))?,
            Format::Json | Format::Yaml => answers.push(answer),
        }
        if let (Format::Table, [_], Some(way)) = (format, keys.as_slice(), &proof.trace) {
            print(&format!("\n{}", trace::text(way)))?;
        }
    }
    match format {
        // The answer for one intent is no list.
        Format::Json | Format::Yaml if key.is_some() => {
            document(format, answers.first().unwrap_or(&Value::Null), |_| String::new())?;
        }
        Format::Json | Format::Yaml => document(format, &Value::Array(answers), |_| String::new())?,
        Format::Table if keys.is_empty() => print("no intent is INSTALLED\n")?,
        Format::Table => {}
    }
    match bad {
        0 => Ok(()),
        bad => Err(Failure::failed(format!(
            "{} of {} {} not ok",
            bad,
            count(keys.len() as u64, "intent"),
            if bad == 1 { "is" } else { "are" }
        ))),
    }
}
