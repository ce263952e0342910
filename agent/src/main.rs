//! `muster-agent`: runs the command (`cli.rs`) with its settings (`settings.rs`); `driver.rs` is the loop around the pure
//! machine. Decides under which name a server joins (`node_name`), and when it may join another site (`enrol`).
//!
//! One thread, a second one to send LLDP where there are bridges, and few wake-ups. Absent: decisions about
//! jobs (`agent/core/src/jobs.rs`) and changes to Linux (`agent/host/src/lib.rs`).

mod cli;
mod contents;
mod disk_calls;
mod doctor;
mod driver;
mod flow_log;
mod flows;
mod host;
mod link_state;
mod local_socket;
mod log;
mod net;
mod os_apply_config;
mod os_net_config;
mod record;
mod settings;
mod signals;
mod state_dir;
mod token;
mod upgrade;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use muster_agent_link::{Identity, join};
use muster_host::account::Accounts;
use muster_host::documents::Documents;
use muster_host::facts::Server;
use muster_host::files::Files;
use muster_host::hostname::ServerName;
use muster_host::net::{HostConfig, Network};
use muster_host::package::{OwnProgram, Packages};
use muster_host::run::Runner;
use muster_host::sysctl::Sysctls;
use muster_host::systemd::Systemd;
use muster_host::types::Tools;
use muster_host::unit::Units;
use muster_shared::NodeId;
use muster_shared::join::JoinToken;
use tokio::{runtime, task::LocalSet};

use crate::cli::{Cli, Verb};
use crate::driver::{Driver, Ended, Setup};
use crate::host::Host;
use crate::log::Level;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::state_dir::{StateDir, StateError};

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;

fn main() -> ExitCode {
    muster_host::sys::set_allocator();
    let mut arguments = std::env::args_os();
    let called = arguments.next().map(PathBuf::from).unwrap_or_default();
    if called.file_name().is_some_and(|name| name == os_net_config::NAME) {
        return os_net_config::main(arguments.collect());
    }
    if called.file_name().is_some_and(|name| name == os_apply_config::NAME) {
        return os_apply_config::main(arguments.collect());
    }
    let cli = match cli::parse(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match &cli.verb {
        Verb::Help => print!("{}", cli::HELP),
        Verb::Version => println!("muster-agent {}", env!("CARGO_PKG_VERSION")),
        // The supervisor needs no settings, and must not fail for want of one.
        Verb::Supervise(directory) => return supervise(directory),
        Verb::Upgrade(change) => return upgrade::run(cli.state_dir.as_deref(), change),
        // Settings that are wrong are a finding.
        Verb::Doctor(output) => return doctor::run(&cli, *output, read_settings(&cli)),
        _ => return with_settings(&cli),
    }
    ExitCode::SUCCESS
}

fn with_settings(cli: &Cli) -> ExitCode {
    let settings = match read_settings(cli) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    if cli.verb == Verb::CheckConfig {
        println!("the configuration is valid");
        return ExitCode::SUCCESS;
    }
    match run(cli, &settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Watched>() => {
            ExitCode::from(error.downcast_ref().map_or(FAILED, |Watched(code)| *code))
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            let is_usage = error.is::<muster_shared::join::TokenError>() || error.is::<WrongInput>();
            ExitCode::from(if is_usage { WRONG_USAGE } else { FAILED })
        }
    }
}

fn supervise(directory: &Path) -> ExitCode {
    let supervised = runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("cannot start")
        .and_then(|runtime| Ok(runtime.block_on(muster_host::run::supervise(directory))?));
    match supervised {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}: {error:#}", directory.display());
            ExitCode::from(FAILED)
        }
    }
}

/// The exit status of the watched process, which has already reported its reason.
#[derive(Debug, thiserror::Error)]
#[error("exit status {0}")]
struct Watched(u8);

/// A file or value given by the operator is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WrongInput(String);

fn read_settings(cli: &Cli) -> anyhow::Result<Settings> {
    let mut settings = Settings::read(cli.config.as_deref(), environment())?;
    if let Some(state_dir) = &cli.state_dir {
        settings.agent.state_dir.clone_from(state_dir);
    }
    // Commands run outside the agent, in other directories, and must still find their records.
    let given = &settings.agent.state_dir;
    settings.agent.state_dir = std::path::absolute(given).context("the state directory has no name")?;
    Ok(settings)
}

/// Variables that are not valid text are skipped: they are no settings.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
}

fn run(cli: &Cli, settings: &Settings) -> anyhow::Result<()> {
    match &cli.verb {
        Verb::Join { token, name, check } => {
            let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
            let token = token.read(credentials.as_deref())?;
            let name = node_name(name.as_deref())?;
            block_on(check_join(&token, &name))?;
            if *check {
                println!("{name} can join site {}", token.site);
                return Ok(());
            }
            serve(cli, settings, Some((token, name)))
        }
        Verb::Run => serve(cli, settings, None),
        verb => block_on(work_on_network(verb, settings)),
    }
}

/// Serves the site that this server belongs to, and those that it moves to.
fn serve(cli: &Cli, settings: &Settings, mut joins: Option<(JoinToken, NodeId)>) -> anyhow::Result<()> {
    let level = log::start(settings.level()?, settings.log.format);
    loop {
        // A site has a runtime of its own: nothing of the one that was left goes on.
        let joins = joins.take();
        let ended = block_on(async {
            let state = open_state(&settings.agent.state_dir).await?;
            let identity = match joins {
                Some((token, name)) => enrol(&state, &token, name).await?,
                None => identity(&state)?,
            };
            drive(cli, settings, state, identity, &level).await
        })?;
        match ended {
            Ended::Stopped => return Ok(()),
            Ended::Moved => tracing::info!("this node belongs to another site now"),
        }
    }
}

fn identity(state: &StateDir) -> anyhow::Result<Identity> {
    let Some(identity) = state.identity()? else {
        bail!(
            "this server has not joined a site: run 'muster-agent join --token -' and give it a token from \
             'muster node token'"
        )
    };
    Ok(identity)
}

async fn work_on_network(verb: &Verb, settings: &Settings) -> anyhow::Result<()> {
    let state_dir = &settings.agent.state_dir;
    let network = network(settings);
    match verb {
        Verb::NetShow => net::show(&network).await,
        Verb::FlowRelease => Ok(network.release_flows(false).await.map(drop)?),
        Verb::NetExport(export) => net::export::export(&network, export, state_dir).await,
        Verb::NetPlan(file) => net::plan(&network, file, state_dir).await,
        Verb::NetApply { file, confirm, watched: true } => {
            net::apply(&network, file, state_dir, confirm.as_ref()).await
        }
        Verb::NetApply { file, confirm: None, .. } => net::apply(&network, file, state_dir, None).await,
        Verb::NetApply { .. } => {
            let arguments = std::env::args_os().skip(1).chain(["--watched".into()]).collect();
            let code = net::local::watch_over(&network, state_dir, arguments, None).await?;
            if code == 0 { Ok(()) } else { Err(Watched(code).into()) }
        }
        Verb::NetBoot => {
            log::start(settings.level()?, settings.log.format);
            boot(&network, settings).await
        }
        // Seen to before.
        Verb::Run
        | Verb::Join { .. }
        | Verb::Supervise(_)
        | Verb::Upgrade(_)
        | Verb::Doctor(_)
        | Verb::CheckConfig
        | Verb::Help
        | Verb::Version => Ok(()),
    }
}

/// Runs it on this thread.
fn block_on<T>(what: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // Only resolving a name uses a thread, for half a minute and more if no resolver answers. While a
        // change cuts the resolver off, the agent connects again every ten seconds; once the change is
        // undone, it needs a free thread at once.
        .max_blocking_threads(8)
        .thread_keep_alive(Duration::from_secs(1))
        .build()
        .context("cannot start")?;
    let result = LocalSet::new().block_on(&runtime, what);
    // Resolving a name may last half a minute if no resolver answers: the end does not wait for that.
    runtime.shutdown_background();
    result
}

/// An agent that was just killed may still hold the lock for a moment.
async fn open_state(path: &Path) -> Result<StateDir, StateError> {
    let mut tries_left = 20;
    loop {
        match StateDir::open(path) {
            Err(StateError::Locked { .. }) if tries_left > 0 => tries_left -= 1,
            result => return result,
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn drive(
    cli: &Cli,
    settings: &Settings,
    state: StateDir,
    identity: Identity,
    level: &Level,
) -> anyhow::Result<Ended> {
    let signals = Signals::new()?;
    let host = host(&state, settings);
    let reload = || match read_settings(cli).and_then(|settings| settings.level()) {
        Ok(new) => {
            if level.reload(new).is_ok() {
                tracing::info!(level = %new, "log level");
            }
        }
        Err(error) => tracing::error!("the log level stays: {error:#}"),
    };
    let setup = Setup {
        ovs: flows::rundir(settings.host.ovs_db.as_deref()),
        confirm_timeout: settings.agent.confirm_timeout,
        send_lldp: settings.host.send_lldp,
        systemd: systemd(settings),
        controllers: settings.agent.controllers.clone(),
    };
    Driver::new(state, identity, host, setup)?.run(signals, reload).await
}

/// Does nothing if nothing was ever recorded, or if a running agent handles it.
async fn boot(network: &Network, settings: &Settings) -> anyhow::Result<()> {
    let path = &settings.agent.state_dir;
    if !path.exists() {
        return Ok(());
    }
    match StateDir::open(path) {
        Ok(state) => {
            let host = host(&state, settings);
            net::boot::boot(network, &host, &state).await
        }
        Err(error) if net::boot::is_seen_to(&error) => {
            println!("an agent runs here and sees to the network");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn host(state: &StateDir, settings: &Settings) -> Host {
    Host {
        name: ServerName::new(settings.host.etc_hostname.clone(), Files::new(state.before())),
        network: network(settings),
        tools: Tools {
            accounts: Accounts,
            files: Files::new(state.before()),
            packages: Packages::new(runs(state, settings)).with_own(OwnProgram {
                program: own_program(),
                state_dir: state.path().to_owned(),
                within: settings.agent.confirm_timeout,
            }),
            sysctls: Sysctls::new(None, Files::new(state.before())),
            units: Units::new(systemd(settings), Files::new(state.before())),
        },
        runs: runs(state, settings),
        hooks: settings.host.hooks.clone(),
        documents: Documents::new(state.path().to_owned()),
        state: state.path().to_owned(),
        server: Server::default(),
        contents: state.fetch(),
        seen: host::PrintCache::default(),
        owners: host::Owners::default(),
    }
}

/// The path of this program as it was started: an upgrade replaces the file.
fn own_program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "/usr/sbin/muster-agent".into())
}

fn runs(state: &StateDir, settings: &Settings) -> Runner {
    Runner::new(state.runs(), own_program(), Some(systemd(settings)).filter(Systemd::is_there))
}

fn systemd(settings: &Settings) -> Systemd {
    settings.host.run_dir.clone().map_or_else(Systemd::default, Systemd::new)
}

fn network(settings: &Settings) -> Network {
    Network::new(HostConfig {
        ovs_db: settings.host.ovs_db.clone(),
        datapath_type: settings.host.ovs_datapath_type.clone(),
        neighbours: settings.host.neighbours.clone(),
        dhcp_client: settings.host.dhcp_client,
        dhcp_scripts: Some(settings.agent.state_dir.join("dhcp")),
        ..HostConfig::default()
    })
}

async fn check_join(token: &JoinToken, name: &NodeId) -> anyhow::Result<()> {
    let (warnings, possible) = join::check(token, name).await;
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    Ok(possible?)
}

async fn enrol(state: &StateDir, token: &JoinToken, name: NodeId) -> anyhow::Result<Identity> {
    let old = state.identity().ok().flatten().filter(|old| !old.is_of(token, &name));
    if let Some(old) = &old
        && !state.ledger()?.iter().all(|entry| entry.is_tombstone() || entry.resource.is_local())
    {
        bail!(
            "this state directory belongs to {} of another site ('{}') or name and still has its resources: delete \
             those first, or use another --state-dir",
            old.node,
            old.site
        );
    }
    let waits = |reason: &str, after: Duration| {
        eprintln!("{reason}: this server asks again in {} s", after.as_secs().max(1));
    };
    let identity = join::join(token, name, waits).await?;
    if old.is_some() {
        state.leave_site()?;
    }
    state.write_identity(&identity)?;
    tracing::info!(node = %identity.node, site = %identity.site, "joined");
    Ok(identity)
}

/// The given name, or this server's fqdn.
fn node_name(given: Option<&str>) -> anyhow::Result<NodeId> {
    let name = match given {
        Some(name) => name.to_owned(),
        None => fqdn()?,
    };
    name.to_ascii_lowercase().parse().map_err(|error| WrongInput(format!("{error}; use --name FQDN")).into())
}

/// The host name; if it has no domain, with the one that the resolver gives.
fn fqdn() -> anyhow::Result<String> {
    let name = nix::unistd::gethostname().context("cannot read the host name")?;
    let name =
        name.into_string().map_err(|_| WrongInput("the host name is not text; use --name FQDN".into()))?;
    if name.contains('.') {
        return Ok(name);
    }
    // `/etc/hosts` as Debian writes it: 127.0.1.1 web-1.example.org web-1
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let prefix = format!("{name}.");
    let words =
        hosts.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    let found = words.into_iter().find(|word| word.starts_with(&prefix)).map(str::to_owned);
    Ok(found.unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_beside_the_agent_is_found_from_elsewhere() {
        let cli = cli::parse(["--state-dir", "state"].map(Into::into)).unwrap();
        let settings = read_settings(&cli).unwrap();
        assert_eq!(settings.agent.state_dir, std::env::current_dir().unwrap().join("state"));
    }
}
