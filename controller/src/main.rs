//! `muster-controller`: reads its settings, opens store, link and API, and runs the driver loop.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use muster_controller::config::{LogFormat, Settings};
use muster_controller::driver::{self, Driver, DriverInbox, LINK_EVENTS_MAX};
use muster_controller::link::{DirectConfig, DirectLink, LinkEvent, LinkHandle, direct};
use muster_controller::pki::Pki;
use muster_controller::store::{KeyFile, Reader, Sqlite};
use muster_controller::{api, signals};
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

/// A large template is freed in millions of pieces; the C library's allocator then takes a second for the next large
/// piece. See `docs/decisions/0003-allocator.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(
    name = "muster-controller",
    version,
    about = "Keeps stacks and hands servers their jobs",
    after_help = "Example: muster-controller --data-dir /var/lib/muster --listen 0.0.0.0:8883"
)]
struct Cli {
    /// Settings [default: /etc/muster/controller.toml, if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Database and keys [default: /var/lib/muster]
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The key that secrets in the database are sealed with [default: secrets.key in the data directory]
    #[arg(long, global = true, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Where agents connect [default: 0.0.0.0:8883]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<std::net::SocketAddr>,
    /// Where operators connect [default: /run/muster/api.sock]
    #[arg(long, value_name = "PATH")]
    api_socket: Option<PathBuf>,
    /// Says whether the settings are valid, and ends
    #[arg(long)]
    check_config: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Copies the database and the site's keys to a new file, also while the controller runs
    #[command(after_help = "Example: muster-controller backup /var/backups/muster.db\n\n\
                            Whoever has the file can speak for the site: keep it in a safe place.\n\
                            The key of the secrets in it is not in it: keep a copy of that in another.")]
    Backup {
        /// The new file
        file: PathBuf,
    },
    /// Seals all secrets in the database with a new key; the controller must not be running
    #[command(after_help = "Example: systemctl stop muster-controller && muster-controller rekey && \
                            systemctl start muster-controller\n\n\
                            The new key takes the place of the old one. Backups made before need the old one: keep that as \
                            long as them.")]
    Rekey,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let settings = match settings(&cli) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(2);
        }
    };
    if cli.check_config {
        println!("the configuration is valid");
        return ExitCode::SUCCESS;
    }
    let done = match cli.verb {
        Some(Verb::Backup { file }) => backup(&settings, &file),
        Some(Verb::Rekey) => rekey(&settings),
        None => run(settings, cli.config),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn settings(cli: &Cli) -> anyhow::Result<Settings> {
    let mut settings = Settings::read(cli.config.as_deref(), std::env::vars())?;
    let controller = &mut settings.controller;
    if let Some(data_dir) = &cli.data_dir {
        controller.data_dir.clone_from(data_dir);
    }
    if let Some(key_file) = &cli.key_file {
        settings.store.key_file.clone_from(key_file);
    }
    let controller = &mut settings.controller;
    if let Some(listen) = cli.listen {
        controller.listen = listen;
    }
    if let Some(api_socket) = &cli.api_socket {
        controller.api_socket.clone_from(api_socket);
    }
    Ok(settings)
}

fn backup(settings: &Settings, file: &std::path::Path) -> anyhow::Result<()> {
    let (database, key_file) = (settings.database(), settings.key_file());
    anyhow::ensure!(database.exists(), "there is no database at {}", database.display());
    Sqlite::backup(&database, &settings.controller.data_dir.join("pki"), file)?;
    println!("{}", file.display());
    eprintln!("its secrets open with {} alone: keep a copy of that apart from it", key_file.display());
    Ok(())
}

fn rekey(settings: &Settings) -> anyhow::Result<()> {
    let (database, key_file) = (settings.database(), settings.key_file());
    anyhow::ensure!(database.exists(), "there is no database at {}", database.display());
    let _lock = muster_controller::data_dir::open(&settings.controller.data_dir)
        .context("stop the controller first")?;
    let mut store = Sqlite::open(&database, &key_file).context("the database cannot be opened")?;
    let old = store.key().id();
    let new = store.rekey(&KeyFile::at(&key_file))?;
    println!("{}: {new}, was {old}", key_file.display());
    Ok(())
}

type LogHandle = reload::Handle<EnvFilter, tracing_subscriber::Registry>;

fn log(settings: &Settings) -> anyhow::Result<LogHandle> {
    let level = &settings.log.level;
    let filter = EnvFilter::try_new(level).with_context(|| format!("log.level '{level}' is no filter"))?;
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry().with(filter);
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    match settings.log.format {
        LogFormat::Human => registry.with(lines).init(),
        LogFormat::Json => registry.with(lines.json()).init(),
    }
    Ok(handle)
}

fn run(settings: Settings, config_file: Option<PathBuf>) -> anyhow::Result<()> {
    let log = log(&settings)?;
    let data_dir = &settings.controller.data_dir;
    let _lock = muster_controller::data_dir::open(data_dir)?;
    let pki = Arc::new(Pki::open(data_dir).context("the site's keys cannot be read or made")?);
    let store = Sqlite::open(&settings.database(), &settings.key_file())
        .and_then(|store| store.within(settings.bounds()));
    let store = store.context("the database cannot be opened")?;
    let reader = Reader::open(&settings.database(), &store.key()).context("the database cannot be opened")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (handle, inbox) = driver::channel();
    runtime.block_on(async {
        let (events, from_link) = mpsc::channel(LINK_EVENTS_MAX);
        let link = listen(&settings, &pki, events).await?;
        let driver = spawn_driver(&settings, store, link.handle(), inbox, from_link)?;
        let config = api::ApiConfig {
            socket: settings.controller.api_socket.clone(),
            addresses: addresses(&settings, link.local_addr().port()),
            body_max: settings.limits.api_body,
            template_max: settings.limits.template,
            flow_rules_max: settings.limits.flow_rules,
        };
        let api = api::serve(config, handle.clone(), reader, Arc::clone(&pki)).await?;
        tracing::info!(site = %pki.site(), listen = %link.local_addr(), api = %settings.controller.api_socket.display(),
            "ready");
        signals::run(|| match Settings::read(config_file.as_deref(), std::env::vars()) {
            Ok(fresh) => match EnvFilter::try_new(&fresh.log.level) {
                Ok(filter) => drop(log.reload(filter)), // fails only if the subscriber is gone
                Err(error) => tracing::error!(%error, "log.level is left as it was"),
            },
            Err(error) => tracing::error!("the settings are left as they were: {error:#}"),
        })
        .await?;
        tracing::info!("stopping");
        api.stop().await;
        link.handle().shutdown().await;
        handle.stop().await;
        drop(tokio::task::spawn_blocking(move || driver.join()).await);
        anyhow::Ok(())
    })?;
    // Whatever is still open has had its time.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    Ok(())
}

async fn listen(
    settings: &Settings,
    pki: &Arc<Pki>,
    events: mpsc::Sender<LinkEvent>,
) -> anyhow::Result<DirectLink> {
    let host =
        |address: &String| address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_owned();
    let config = DirectConfig {
        listen: settings.controller.listen,
        names: settings.controller.addresses.iter().map(host).collect(),
        limits: direct::Limits { connections: settings.limits.connections, ..direct::Limits::default() },
    };
    DirectLink::start(config, Arc::clone(pki), events)
        .await
        .with_context(|| format!("cannot listen on {}", settings.controller.listen))
}

/// What join tokens say.
fn addresses(settings: &Settings, port: u16) -> Vec<String> {
    if !settings.controller.addresses.is_empty() {
        return settings.controller.addresses.clone();
    }
    let listen = settings.controller.listen;
    if listen.ip().is_unspecified() {
        let host =
            std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "localhost".into());
        vec![format!("{}:{port}", host.trim())]
    } else {
        vec![std::net::SocketAddr::new(listen.ip(), port).to_string()]
    }
}

/// The driver has a thread of its own: its commits block.
fn spawn_driver(
    settings: &Settings,
    store: Sqlite,
    link: LinkHandle,
    inbox: DriverInbox,
    from_link: mpsc::Receiver<LinkEvent>,
) -> anyhow::Result<std::thread::JoinHandle<()>> {
    let limits = settings.engine_limits();
    let driver = Driver::new(store, link, move |epoch| muster_engine::Config {
        epoch,
        seed: *blake3::hash(uuid::Uuid::new_v4().as_bytes()).as_bytes(),
        limits,
    })
    .context("the database cannot be read")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let thread = std::thread::Builder::new().name("driver".into());
    Ok(thread.spawn(move || runtime.block_on(driver.run(inbox, from_link)))?)
}
