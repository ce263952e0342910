//! `muster intent …`: its verbs and flags, and the list of intents.
//!
//! Absent: sending and waiting (`intent/operation.rs`), one intent alone (`intent/shown.rs`), and the proof of intents
//! (`intent/verify.rs`).

mod operation;
mod shown;
mod verify;

use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Args, Subcommand};
use muster_api::intent::IntentRow;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::flow::Wait;
use crate::output::{Column, Format, cell, table, view, written};

#[derive(Subcommand)]
pub enum IntentVerb {
    /// Submit the intents of an intent file
    ///
    /// Muster finds a path for each intent, and moves the intent when a link of the path fails. An intent
    /// replaces an earlier one with the same key. Intents that the file does not name stay.
    #[command(after_help = "Example:\n  muster intent submit -f intents.yaml --wait")]
    Submit(Submit),
    /// Remove the rules of intents from the devices; the intents stay, and can be submitted again
    #[command(after_help = "Example:\n  muster intent withdraw a-to-b --wait")]
    Withdraw(Withdraw),
    /// Forget withdrawn or failed intents
    #[command(after_help = "Example:\n  muster intent purge a-to-b")]
    Purge {
        /// Keys, as 'muster intent list' shows them
        #[arg(required = true, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
        keys: Vec<String>,
    },
    /// List all intents, with states and reasons
    #[command(after_help = "Example:\n  muster intent list --state failed")]
    List {
        /// List this state only
        #[arg(long, ignore_case = true, value_parser = PossibleValuesParser::new(STATES))]
        state: Option<String>,
    },
    /// Show an intent: its path, rules, reservations, and how often it moved
    #[command(after_help = "Example:\n  muster intent show a-to-b")]
    Show {
        /// Key, as 'muster intent list' shows it
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        key: String,
    },
    /// Ask the switches whether packets of an intent arrive; all INSTALLED ones without a key
    ///
    /// A packet is traced from each port where packets of the intent come in. Nothing is sent, and nothing changes.
    /// Exit code 1 if the packets of one intent do not arrive, or nobody can say.
    #[command(after_help = "Example:\n  muster intent verify a-to-b")]
    Verify {
        /// Key, as 'muster intent list' shows it
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        key: Option<String>,
    },
}

/// `intent submit`
#[derive(Args)]
pub struct Submit {
    /// Intent file, YAML or JSON; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    wait: Wait,
}

/// `intent withdraw`
#[derive(Args)]
pub struct Withdraw {
    /// Keys, as 'muster intent list' shows them
    #[arg(required = true, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    keys: Vec<String>,
    #[command(flatten)]
    wait: Wait,
}

const STATES: [&str; 10] = [
    "INSTALL_REQ",
    "INSTALLING",
    "INSTALLED",
    "REALLOCATING",
    "WITHDRAW_REQ",
    "WITHDRAWING",
    "WITHDRAWN",
    "FAILED",
    "CORRUPT",
    "PURGE_REQ",
];

const INTENTS: [Column<IntentRow>; 6] = [
    ("KEY", |intent| cell(&intent.key)),
    ("TYPE", |intent| cell(&intent.kind)),
    ("STATE", state),
    ("ERRORS", |intent| cell(&intent.errors)),
    ("OWNER", |intent| cell(&intent.owner)),
    ("REASON", |intent| cell(intent.broken.as_ref().unwrap_or(&intent.reason))),
];

/// The state, and whether packets go another way than the intent says.
fn state(intent: &IntentRow) -> String {
    match intent.broken {
        Some(_) => format!("{}, broken", intent.state),
        None => cell(&intent.state),
    }
}

/// Runs a verb.
pub async fn run(verb: IntentVerb, client: &mut Client, format: Format) -> Result<(), Failure> {
    match verb {
        IntentVerb::Submit(asked) => operation::submit(asked, client, format).await,
        IntentVerb::Withdraw(asked) => operation::withdraw(asked, client, format).await,
        IntentVerb::Purge { keys } => operation::purge(&keys, client, format).await,
        IntentVerb::List { state } => {
            let mut at = path(["intents"]);
            if let Some(state) = state {
                at.push_str(&format!("?state={}", state.to_ascii_uppercase()));
            }
            let list = client.get(&at).await?;
            view(format, &list, |list: &Vec<IntentRow>| table(&INTENTS, list))
        }
        IntentVerb::Show { key } => {
            written(format, &client.get(&path(["intents", &key])).await?, shown::intent)
        }
        IntentVerb::Verify { key } => verify::verify(key.as_deref(), client, format).await,
    }
}

#[cfg(test)]
mod tests;
