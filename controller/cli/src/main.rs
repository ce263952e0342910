//! `muster`, the operators' command line: noun, verb, over the controller's HTTP API.
//!
//! Absent on purpose: the engine, the store, the wire. What a controller says is shown as it says it, so that a
//! command line and a controller of neighbouring versions understand each other.

mod client;
mod drawing;
mod failure;
mod flow;
mod intent;
mod kind;
mod language;
mod manual;
mod node;
mod output;
mod pages;
mod progress;
mod resource;
mod restore;
mod source;
mod span;
mod stack;
mod status;
mod topology;
mod usage;
mod wait;
mod yaml;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use client::Client;
use failure::Failure;
use output::{Format, Output};
use stack::StackVerb;

/// Configures servers: stacks of resources, from templates, through the agents on the nodes
///
/// Exit codes: 0 done, 1 failed or refused, 2 wrong usage or a bad file or template, 3 timed out waiting,
/// 4 the controller cannot be reached.
#[derive(Parser)]
#[command(name = "muster", version, after_help = "Example:\n  muster stack create web -t web.yaml --wait")]
struct Cli {
    #[command(subcommand)]
    noun: Noun,
    /// How to print what is asked for
    #[arg(short, long, global = true, value_parser = Output::of_documents(), default_value = "table")]
    output: Output,
    /// Where the controller is
    #[arg(
        long,
        global = true,
        env = "MUSTER_URL",
        hide_env_values = true,
        default_value = "unix:///run/muster/api.sock"
    )]
    url: String,
}

#[derive(Subcommand)]
enum Noun {
    /// The site at a glance: its controller, its agents, and what waits for you
    #[command(after_help = "Example:\n  muster status\n  muster status -o json")]
    Status,
    /// Servers and the tokens they join with
    #[command(subcommand, after_help = "Example:\n  muster node list")]
    Node(node::NodeVerb),
    /// Stacks: what the servers are to be
    #[command(subcommand, after_help = "Example:\n  muster stack show web")]
    Stack(StackVerb),
    /// The resources of a stack
    #[command(subcommand, after_help = "Example:\n  muster resource list web")]
    Resource(resource::ResourceVerb),
    /// Flow rules of bridges: what is to happen to packets
    #[command(subcommand, after_help = "Example:\n  muster flow list web-1/br0")]
    Flow(flow::FlowVerb),
    /// Intents: connectivity through the bridges, which finds its way by itself
    #[command(subcommand, after_help = "Example:\n  muster intent list")]
    Intent(intent::IntentVerb),
    /// What servers hold and a restored store does not know: nothing of it changes until you decide
    #[command(subcommand, after_help = "Example:\n  muster restore list")]
    Restore(restore::RestoreVerb),
    /// The network that intents are for: bridges and the links between them
    #[command(subcommand, after_help = "Example:\n  muster topology show")]
    Topology(topology::TopologyVerb),
    /// The language of templates: its functions; needs no controller
    #[command(subcommand, after_help = "Example:\n  muster template functions")]
    Template(language::TemplateVerb),
    /// Types of resources: what templates may be made of; needs no controller
    #[command(subcommand, after_help = "Example:\n  muster type show Muster::File")]
    Type(kind::TypeVerb),
    /// Print a completion script
    #[command(after_help = "Example:\n  muster completion bash > /etc/bash_completion.d/muster")]
    Completion {
        /// For which shell
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(["bash", "zsh", "fish"]))]
        shell: String,
    },
    /// Write man pages or all completion scripts into a folder, for packaging
    #[command(hide = true, after_help = "Example:\n  muster generate man target/man")]
    Generate {
        #[command(subcommand)]
        what: Generate,
    },
}

#[derive(Subcommand)]
enum Generate {
    /// A page for each command
    Man {
        /// Made if it is not there
        folder: PathBuf,
    },
    /// For bash, zsh and fish
    Completion {
        /// Made if it is not there
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| usage::refuse(error));
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let format = match (cli.output, &cli.noun) {
        (Output::Document(format), _) => format,
        (_, Noun::Stack(StackVerb::Graph(_)) | Noun::Topology(_)) => Format::default(),
        (Output::Dot | Output::Svg, _) => {
            return Err(Failure::usage(
                "-o dot and -o svg are for 'muster stack graph' and 'muster topology show' alone",
            ));
        }
    };
    match cli.noun {
        Noun::Completion { shell } => {
            let shell = shell.parse::<Shell>().map_err(Failure::usage)?;
            manual::completion(shell, Cli::command())
        }
        Noun::Generate { what: Generate::Man { folder } } => manual::man(&folder, Cli::command()),
        Noun::Generate { what: Generate::Completion { folder } } => {
            manual::completions(&folder, Cli::command())
        }
        Noun::Template(verb) => language::run(verb, format),
        Noun::Type(verb) => kind::run(verb, format),
        noun => {
            let mut client = Client::new(&cli.url)?;
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| Failure::failed(format!("cannot start: {error}")))?
                .block_on(talk(noun, &mut client, format))
        }
    }
}

async fn talk(noun: Noun, client: &mut Client, format: Format) -> Result<(), Failure> {
    match noun {
        Noun::Status => status::run(client, format).await,
        Noun::Node(verb) => node::run(verb, client, format).await,
        Noun::Stack(verb) => stack::run(verb, client, format).await,
        Noun::Resource(verb) => resource::run(verb, client, format).await,
        Noun::Flow(verb) => flow::run(verb, client, format).await,
        Noun::Intent(verb) => intent::run(verb, client, format).await,
        Noun::Restore(verb) => restore::run(verb, client, format).await,
        Noun::Topology(verb) => topology::run(verb, client).await,
        Noun::Template(_) | Noun::Type(_) | Noun::Completion { .. } | Noun::Generate { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests;
