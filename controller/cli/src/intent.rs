//! `muster intent …`

mod operation;
mod shown;

use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::flow::Wait;
use crate::output::{Column, Format, document, table};

/// Verbs.
#[derive(Subcommand)]
pub enum IntentVerb {
    /// Ask for the connectivity of an intent file
    ///
    /// Each intent finds its way through the network and goes another one when a link on it fails. An intent that has a
    /// key already takes the place of the one before; what the file does not name stays as it is.
    #[command(after_help = "Example:\n  muster intent submit -f intents.yaml --wait")]
    Submit(Submit),
    /// Take what intents placed off the devices; they are kept, and can be submitted again
    #[command(after_help = "Example:\n  muster intent withdraw a-to-b --wait")]
    Withdraw(Withdraw),
    /// Forget intents that are withdrawn or failed
    #[command(after_help = "Example:\n  muster intent purge a-to-b")]
    Purge {
        /// As 'muster intent list' shows them
        #[arg(required = true, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
        keys: Vec<String>,
    },
    /// List all intents, with their states and why they are so
    #[command(after_help = "Example:\n  muster intent list --state failed")]
    List {
        /// Only in this state
        #[arg(long, ignore_case = true, value_parser = PossibleValuesParser::new(STATES))]
        state: Option<String>,
    },
    /// Show one intent: its way, its rules, what it reserves, how often it moved
    #[command(after_help = "Example:\n  muster intent show a-to-b")]
    Show {
        /// As 'muster intent list' shows it
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        key: String,
    },
}

/// `intent submit`
#[derive(Args)]
pub struct Submit {
    /// The intent file, YAML or JSON; - for stdin
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    wait: Wait,
}

/// `intent withdraw`
#[derive(Args)]
pub struct Withdraw {
    /// As 'muster intent list' shows them
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

const INTENTS: [Column; 6] = [
    ("KEY", "key"),
    ("TYPE", "type"),
    ("STATE", "state"),
    ("ERRORS", "errors"),
    ("OWNER", "owner"),
    ("REASON", "reason"),
];

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
            let list: Value = client.get(&at).await?;
            document(format, &list, |list| table(&INTENTS, list))
        }
        IntentVerb::Show { key } => {
            document(format, &client.get(&path(["intents", &key])).await?, shown::intent)
        }
    }
}

#[cfg(test)]
mod tests;
