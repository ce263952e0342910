//! `muster`, the operators' command line: noun, verb, over the controller's HTTP API.
//!
//! Absent on purpose: the engine, the store, the wire. A controller's answers are shown unchanged, so that a
//! command line and a controller of neighbouring versions work together.

mod adopt;
mod audit;
mod ca;
mod client;
mod context;
mod controller_connection;
mod doctor;
mod failure;
mod flow;
mod heat;
mod identity;
mod import;
mod intent;
mod inventory;
mod manual;
mod net;
mod node;
mod oidc;
mod output;
mod pages;
mod progress;
mod resource;
mod restore;
mod schema;
mod source;
mod span;
mod stack;
mod status;
mod support_bundle;
mod template;
mod top;
mod topology;
mod trace;
mod r#type;
mod usage;
mod user;
mod wait;
mod yaml;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use muster_shared::SiteId;

use client::Client;
use failure::Failure;
use output::{Format, Output};
use stack::StackVerb;

/// Configure servers: templates describe stacks of resources, agents on the nodes apply them
///
/// Exit codes: 0 done, 1 failed or refused, 2 wrong usage or a bad file or template, 3 timed out waiting, 4
/// the controller cannot be reached.
#[derive(Parser)]
#[command(name = "muster", version, after_help = "Example:\n  muster stack create web -t web.yaml --wait")]
struct Cli {
    #[command(subcommand)]
    noun: Noun,
    /// Output format
    #[arg(short, long, global = true, value_parser = Output::of_documents(), default_value = "table")]
    output: Output,
    /// Address of the controller's API: unix:///PATH, or https://HOST:PORT [default: the context in use, or
    /// unix:///run/muster/api.sock]
    #[arg(long, global = true, env = "MUSTER_URL", hide_env_values = true)]
    url: Option<String>,
    /// Site, where the controller has several; goes before the command [default: the one in its section [controller]]
    #[arg(long, env = "MUSTER_SITE", hide_env_values = true, value_name = "NAME")]
    site: Option<SiteId>,
    #[command(flatten)]
    identity: identity::Flags,
}

#[derive(Subcommand)]
enum Noun {
    /// Show the controller, the agents, and what waits for an operator
    #[command(after_help = "Example:\n  muster status\n  muster status -o json")]
    Status,
    /// Show the site at work, on a terminal, until q is pressed
    ///
    /// Nodes by state, operations and rollouts under way, the nodes that take longest, and what is wrong. ? shows the
    /// keys. The view asks the controller every 2 s, with as many requests for 10,000 nodes as for 10. NO_COLOR is
    /// obeyed. Without a terminal, use 'muster status'.
    #[command(after_help = "Example:\n  muster top")]
    Top,
    /// Say what is wrong with the site, and what to do; changes nothing
    ///
    /// On the controller's machine, its data directory, clock, port and firewall are looked at as well. On a server,
    /// 'muster-agent doctor' looks at that server. Exit code 1 if there is an error, 0 if there are warnings only.
    #[command(after_help = "Example:\n  muster doctor\n  muster doctor -o json")]
    Doctor(doctor::Doctor),
    /// Write a file to send to support: what the site and this machine say, without secrets
    ///
    /// The command lists what goes into the file, and asks before it writes: version, status, findings of 'muster
    /// doctor', nodes, stacks, failures, events and graphs of stacks that failed, drift, intents, flow devices and
    /// metrics; on the controller's machine its settings and the journal of its unit. Templates, parameters and
    /// outputs are left out; passwords, tokens and keys are masked in the rest. A .tar.gz, mode 0600.
    #[command(
        after_help = "Example:\n  muster support-bundle muster.tar.gz\n  muster support-bundle muster.tar.gz --yes"
    )]
    SupportBundle(support_bundle::SupportBundle),
    /// Manage servers and their join tokens
    #[command(subcommand, after_help = "Example:\n  muster node list")]
    Node(node::NodeVerb),
    /// Describe a server that others have configured, as a template that changes nothing there
    ///
    /// The node's agent looks at its network, host name, time zone, and the users and groups of people, and compares
    /// each with the server before it names it. What no template can say is in comments. Files, units, packages and
    /// kernel settings are yours to add. 'muster stack create --adopt' takes the server over.
    #[command(after_help = "Example:\n  muster adopt web-1.example.org -o web-1.yaml\n  \
                            muster stack create web-1 -t web-1.yaml --adopt --wait")]
    Adopt(adopt::Adopt),
    /// Manage stacks: the desired state of servers
    #[command(subcommand, after_help = "Example:\n  muster stack show web")]
    Stack(StackVerb),
    /// Manage the resources of a stack
    #[command(subcommand, after_help = "Example:\n  muster resource list web")]
    Resource(resource::ResourceVerb),
    /// Manage flow rules of bridges
    #[command(subcommand, after_help = "Example:\n  muster flow list web-1/br0")]
    Flow(flow::FlowVerb),
    /// Manage intents: connectivity through bridges, over paths that Muster finds
    #[command(subcommand, after_help = "Example:\n  muster intent list")]
    Intent(intent::IntentVerb),
    /// Decide about what servers hold and a restored database does not know
    #[command(subcommand, after_help = "Example:\n  muster restore list")]
    Restore(restore::RestoreVerb),
    /// Show the network of bridges and links that intents use
    #[command(subcommand, after_help = "Example:\n  muster topology show")]
    Topology(topology::TopologyVerb),
    /// Follow a packet through the bridges as they are: where it ends, and which rule took it at each hop
    ///
    /// Each switch says what it would do with the packet, and the topology where its cables lead. Nothing is sent, and
    /// nothing changes. Exit code 0 if the packet is delivered, 1 if it or a copy is lost.
    #[command(
        after_help = "Example:\n  muster trace --from web-1/br0:eth1 --packet 'eth_type: ipv4, ipv4_dst: 10.0.0.1'"
    )]
    Trace(trace::Request),
    /// Log in to a controller on another machine, with a user's token
    ///
    /// The token names the CA of the controller's certificate: no other controller is trusted. Where the controller has a
    /// certificate of another CA (controller.api_certificate), --ca says which one is trusted instead. Token and --ca are
    /// kept in ~/.config/muster/contexts.toml, which nobody else can read. MUSTER_TOKEN and MUSTER_CA go before it.
    ///
    /// --cert and --key log in with a client certificate; the paths of both files are kept.
    ///
    /// --oidc logs in with the controller's identity provider: the command prints an address to open in any browser, and
    /// waits. Without --ca, the controller's certificate must be of a CA that this machine trusts.
    #[command(
        after_help = "Example:\n  muster login https://c1.example.org:8443 --token-file anna.token\n  \
                            muster login https://c1.example.org --token-file anna.token --ca system\n  \
                            muster login https://c1.example.org --cert anna.crt --key anna.key --ca company-ca.crt\n  \
                            muster login https://c1.example.org --oidc"
    )]
    Login(context::Login),
    /// Manage the controllers that you have logged in to
    #[command(subcommand, after_help = "Example:\n  muster context list")]
    Context(context::ContextVerb),
    /// Manage users, who ask over the network
    #[command(subcommand, after_help = "Example:\n  muster user create anna --role operator")]
    User(user::UserVerb),
    /// Show who asked for which change, from where, and what was answered
    ///
    /// Rows are written with the change that they tell of. They have names alone, never a value of a parameter. The
    /// controller's journal has them as well, with the target 'muster_audit'.
    #[command(
        after_help = "Example:\n  muster audit --since 1h\n  muster audit --follow -o json --user anna"
    )]
    Audit(audit::Audit),
    /// Print the nodes as an inventory of Ansible
    ///
    /// The document is that of an inventory script: Ansible runs a script of two lines that calls this command
    /// (docs/ansible.md). There is a group for each label, KEY_VALUE, and the groups online, offline and
    /// maintenance. Characters that Ansible does not take in the name of a group are '_' there.
    #[command(after_help = "Example:\n  muster inventory --list\n  muster inventory --list --facts\n  \
                            muster inventory --host web-1.example.org")]
    Inventory(inventory::Inventory),
    /// Describe the functions of templates; needs no controller
    #[command(subcommand, after_help = "Example:\n  muster template functions")]
    Template(template::TemplateVerb),
    /// Describe resource types; needs no controller
    #[command(subcommand, after_help = "Example:\n  muster type show Muster::File")]
    Type(r#type::TypeVerb),
    /// Make network documents from the files of other tools; needs no controller
    #[command(subcommand, after_help = "Example:\n  muster net import --nmstate state.yml > network.yaml")]
    Net(net::NetVerb),
    /// Write stacks of other programs as files for 'muster stack create'; needs no controller
    #[command(subcommand, after_help = "Example:\n  muster import heat --file web.json -d web")]
    Import(import::ImportVerb),
    /// Print the schema of templates or network documents, for editors; needs no controller
    #[command(subcommand, after_help = "Example:\n  muster schema template > template.schema.json")]
    Schema(schema::SchemaVerb),
    /// Print a completion script
    #[command(after_help = "Example:\n  muster completion bash > /etc/bash_completion.d/muster")]
    Completion {
        /// Shell to complete for
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
        /// Directory, which is created if needed
        folder: PathBuf,
    },
    /// For bash, zsh and fish
    Completion {
        /// Directory, which is created if needed
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
    let format = match (&cli.output, &cli.noun) {
        (Output::Document(format), _) => *format,
        (_, Noun::Stack(StackVerb::Graph(_)) | Noun::Topology(_)) => Format::default(),
        (_, Noun::Adopt(_)) => Format::default(),
        (Output::Dot | Output::Svg | Output::File(_), _) => {
            return Err(Output::is_for_others());
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
        Noun::Template(verb) => template::run(verb, format),
        Noun::Type(verb) => r#type::run(verb, format),
        Noun::Net(verb) => net::run(verb, format),
        Noun::Import(verb) => runtime()?.block_on(import::run(verb, format)),
        Noun::Schema(verb) => schema::run(verb, format),
        Noun::Context(verb) => context::run(verb, format),
        Noun::Login(asked) => runtime()?.block_on(context::login(asked)),
        noun => {
            let (url, way) = context::way(cli.url, cli.identity.pair()?)?;
            let mut client = Client::over(way);
            if let Some(site) = cli.site {
                client = client.at_site(site);
            }
            runtime()?.block_on(talk(noun, &url, &mut client, format))
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::failed(format!("cannot start: {error}")))
}

async fn talk(noun: Noun, url: &str, client: &mut Client, format: Format) -> Result<(), Failure> {
    match noun {
        Noun::Status => status::run(client, format).await,
        Noun::Top => top::run(client, format).await,
        Noun::Doctor(doctor) => doctor::run(doctor, url, client, format).await,
        Noun::SupportBundle(asked) => support_bundle::run(asked, url, client, format).await,
        Noun::Node(verb) => node::run(verb, client, format).await,
        Noun::Adopt(asked) => adopt::run(asked, client).await,
        Noun::Stack(verb) => stack::run(verb, client, format).await,
        Noun::Resource(verb) => resource::run(verb, client, format).await,
        Noun::Flow(verb) => flow::run(verb, client, format).await,
        Noun::Intent(verb) => intent::run(verb, client, format).await,
        Noun::Restore(verb) => restore::run(verb, client, format).await,
        Noun::Topology(verb) => topology::run(verb, client).await,
        Noun::Trace(request) => trace::run(request, client, format).await,
        Noun::User(verb) => user::run(verb, client, format).await,
        Noun::Audit(request) => audit::run(request, client, format).await,
        Noun::Inventory(request) => inventory::run(request, client, format).await,
        Noun::Template(_)
        | Noun::Login(_)
        | Noun::Context(_)
        | Noun::Type(_)
        | Noun::Net(_)
        | Noun::Import(_)
        | Noun::Schema(_)
        | Noun::Completion { .. }
        | Noun::Generate { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests;
