//! `muster-controller`: reads its settings, opens store, link and API, and runs the driver loop.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use muster_controller::config::{Brokers, LogFormat, Settings};
use muster_controller::driver::{self, Driver, DriverInbox};
use muster_controller::link::intake::{self, Feed, Intake};
use muster_controller::link::{
    BrokerConfig, BrokerLink, DirectConfig, DirectLink, Health, Keys, LinkHandle, ReadContent,
    RefusedPackets, direct,
};
use muster_controller::pki::Pki;
use muster_controller::random::random;
use muster_controller::store::{self, Database, KeyFile, Location, Reader, backup};
use muster_controller::{api, signals};
use muster_shared::join::BrokerAccess;
use muster_shared::wire::CHUNK_MAX;
use tokio::sync::{oneshot, watch};
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
    about = "The controller of Muster: keep stacks, and send servers their jobs",
    after_help = "Example: muster-controller --data-dir /var/lib/muster --listen 0.0.0.0:8883"
)]
struct Cli {
    /// Settings file [default: /etc/muster/controller.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of database and keys [default: /var/lib/muster]
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Database of the site: sqlite:PATH or postgres://USER@HOST/DATABASE [default: muster.db in the data directory]
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// Key that seals the secrets in the database [default: secrets.key in the data directory]
    #[arg(long, global = true, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Address for agents [default: 0.0.0.0:8883]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<std::net::SocketAddr>,
    /// Way between agents and controller: 'direct', or mqtts://HOST:PORT of MQTT 5 brokers [default: direct]
    #[arg(long, value_name = "URL[,URL]")]
    link: Option<String>,
    /// Socket for operators [default: /run/muster/api.sock]
    #[arg(long, value_name = "PATH")]
    api_socket: Option<PathBuf>,
    /// Check the settings, and exit
    #[arg(long)]
    check_config: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Copy the database and the site's keys to a new file, also while the controller runs
    #[command(after_help = "Example: muster-controller backup /var/backups/muster.db\n\n\
                            The backup seals secrets and keys with the key in secrets.key, and does not contain that \
                            key: keep a copy of it in another place. A restore needs both.")]
    Backup {
        /// New file
        file: PathBuf,
        /// Leave the site's keys out; then back up the directory 'pki' of the data directory by other means
        #[arg(long)]
        without_keys: bool,
    },
    /// Restore a site from a backup, into an empty data directory
    #[command(after_help = "Example: muster-controller restore /var/backups/muster.db\n\n\
                            Put the key of its secrets in place first (secrets.key in the data directory, or \
                            --key-file). Agents reconnect by themselves once the controller runs at its old address.")]
    Restore {
        /// Backup file
        file: PathBuf,
    },
    /// Seal all secrets in the database with a new key; stop the controller first
    #[command(after_help = "Example: systemctl stop muster-controller && muster-controller rekey && \
                            systemctl start muster-controller\n\n\
                            The new key replaces the old one. Earlier backups need the old key: keep it as long as \
                            you keep them.")]
    Rekey,
    /// Work on the database as a whole
    #[command(subcommand)]
    Store(StoreVerb),
}

#[derive(Subcommand)]
enum StoreVerb {
    /// Copy a site from one database to another, empty one; stop the controller first
    #[command(after_help = "Example: muster-controller store copy --from sqlite:/var/lib/muster/muster.db \
                            --to postgres://muster@db1/muster\n\n\
                            Secrets stay sealed with the same key. Afterwards set store.url to the new database.")]
    Copy {
        /// Database that has the site
        #[arg(long, value_name = "URL")]
        from: String,
        /// Database that is empty, or a file that does not exist
        #[arg(long, value_name = "URL")]
        to: String,
    },
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
        if let Err(error) = settings.link.brokers() {
            eprintln!("error: {error:#}");
            return ExitCode::from(2);
        }
        println!("the configuration is valid");
        return ExitCode::SUCCESS;
    }
    let done = match cli.verb {
        Some(Verb::Backup { file, without_keys }) => back_up(&settings, &file, without_keys),
        Some(Verb::Restore { file }) => restore(&settings, &file),
        Some(Verb::Rekey) => rekey(&settings),
        Some(Verb::Store(StoreVerb::Copy { from, to })) => copy(&settings, &from, &to),
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
    if let Some(url) = &cli.store {
        settings.store.url = Some(location("--store", url)?);
    }
    let controller = &mut settings.controller;
    if let Some(listen) = cli.listen {
        controller.listen = listen;
    }
    if let Some(api_socket) = &cli.api_socket {
        controller.api_socket.clone_from(api_socket);
    }
    if let Some(link) = &cli.link {
        settings.link.url.clone_from(link);
        settings.link.way()?;
    }
    Ok(settings)
}

/// The URL itself is not repeated: it may hold a password.
fn location(what: &str, url: &str) -> anyhow::Result<Location> {
    url.parse().with_context(|| format!("{what} is wrong"))
}

/// Where a backup comes from and goes to: a file of SQLite. A server has its own tools for that.
fn place(settings: &Settings) -> anyhow::Result<backup::Place> {
    let database = match settings.database() {
        Location::Sqlite(path) => path,
        Location::Postgres(server) => anyhow::bail!(
            "the database is {server}: back it up with pg_dump and restore it with pg_restore; secrets.key and the \
             directory pki of {} belong to it (see docs/postgresql.md)",
            settings.controller.data_dir.display()
        ),
    };
    let data_dir = settings.controller.data_dir.clone();
    Ok(backup::Place { data_dir, database, key_file: settings.key_file() })
}

fn back_up(settings: &Settings, file: &Path, without_keys: bool) -> anyhow::Result<()> {
    let place = place(settings)?;
    anyhow::ensure!(place.database.exists(), "there is no database at {}", place.database.display());
    let with = if without_keys { backup::With::NoKeys } else { backup::With::Keys };
    backup::backup(&place, file, with)?;
    println!("{}", file.display());
    eprintln!("it opens with {} alone: keep a copy of that apart from it", place.key_file.display());
    Ok(())
}

fn restore(settings: &Settings, file: &Path) -> anyhow::Result<()> {
    let place = place(settings)?;
    anyhow::ensure!(file.is_file(), "there is no file {}", file.display());
    let _lock = muster_controller::data_dir::open(&place.data_dir).context("stop the controller first")?;
    anyhow::ensure!(
        !place.database.exists(),
        "there is a site already ({}): move it away, or give another --data-dir",
        place.database.display()
    );
    backup::restore(file, &place)?;
    muster_controller::data_dir::give_to_owner(&place.data_dir)?;
    println!("{}", place.database.display());
    eprintln!("agents come back once the controller runs where they look for it");
    Ok(())
}

fn rekey(settings: &Settings) -> anyhow::Result<()> {
    let (database, key_file) = (settings.database(), settings.key_file());
    if let Location::Sqlite(path) = &database {
        anyhow::ensure!(path.exists(), "there is no database at {}", path.display());
    }
    let _lock = muster_controller::data_dir::open(&settings.controller.data_dir)
        .context("stop the controller first")?;
    let mut store = Database::open(&database, &key_file).context("the database cannot be opened")?;
    let old = store.key().id();
    let new = store.rekey(&KeyFile::at(&key_file))?;
    muster_controller::data_dir::give_to_owner(&settings.controller.data_dir)?;
    println!("{}: {new}, was {old}", key_file.display());
    Ok(())
}

fn copy(settings: &Settings, from: &str, to: &str) -> anyhow::Result<()> {
    let (from, to) = (location("--from", from)?, location("--to", to)?);
    let data_dir = &settings.controller.data_dir;
    let _lock = muster_controller::data_dir::open(data_dir).context("stop the controller first")?;
    let copied = store::copy(&from, &to).context("nothing is copied")?;
    muster_controller::data_dir::give_to_owner(data_dir)?;
    println!("{to}: {} tables, {} rows", copied.tables, copied.rows);
    eprintln!(
        "set store.url to it, and start the controller with the same {}",
        settings.key_file().display()
    );
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
    let store = Database::open(&settings.database(), &settings.key_file())
        .and_then(|store| store.within(settings.bounds()));
    let mut store = store.context("the database cannot be opened")?;
    store.settle(data_dir)?;
    let pki = Arc::new(Pki::open(data_dir).context("the site's keys cannot be read or made")?);
    let reader = Reader::open(&settings.database(), &store.key()).context("the database cannot be opened")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (handle, inbox) = driver::channel();
    let served = runtime.block_on(async {
        let (feed, from_link) = intake::channel(intake::fair::Bounds::default());
        let (keys, refused) = (Keys::default(), RefusedPackets::default());
        let link = start_link(&settings, &pki, feed, (keys.clone(), refused.clone())).await?;
        link.handle.serve_contents(&contents(&settings, &store)?);
        let ways = (link.handle.clone(), keys);
        let (driver, driver_ended) = spawn_driver(&settings, store, ways, inbox, from_link)?;
        let config = api::ApiConfig {
            name: host_name(),
            store: settings.database().to_string(),
            socket: settings.controller.api_socket.clone(),
            addresses: link.addresses,
            broker: link.broker,
            link: settings.link.url.clone(),
            health: link.health,
            body_max: settings.limits.api_body,
            template_max: settings.limits.template,
            flow_rules_max: settings.limits.flow_rules,
            refused,
        };
        let mut api = api::serve(config, handle.clone(), reader, Arc::clone(&pki)).await?;
        tracing::info!(site = %pki.site(), link = link.shown, api = %settings.controller.api_socket.display(), "ready");
        let reload = || match Settings::read(config_file.as_deref(), std::env::vars()) {
            Ok(fresh) => match EnvFilter::try_new(&fresh.log.level) {
                Ok(filter) => drop(log.reload(filter)), // fails only if the subscriber is gone
                Err(error) => tracing::error!(%error, "log.level is left as it was"),
            },
            Err(error) => tracing::error!("the settings are left as they were: {error:#}"),
        };
        let endpoint = link.handle.clone();
        // Without one of the three the others would seem well and do nothing: whoever started this starts it again.
        let ended = tokio::select! {
            told = signals::run(&handle, reload) => { told?; None }
            _ = driver_ended => Some("driver"),
            () = api.ended() => Some("API"),
            () = endpoint.ended() => Some("agents' link"),
        };
        if let Some(part) = ended {
            anyhow::bail!("the {part} ended, and so does the controller: the log says why; please report it");
        }
        tracing::info!("stopping");
        api.stop().await;
        link.handle.shutdown().await;
        handle.stop().await;
        drop(tokio::task::spawn_blocking(move || driver.join()).await);
        anyhow::Ok(())
    });
    // Everything still open has had its time.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    served
}

/// Reads contents for nodes over a separate connection: neither the driver nor the API waits for it.
fn contents(settings: &Settings, store: &Database) -> anyhow::Result<ReadContent> {
    let reader = Reader::open(&settings.database(), &store.key()).context("the database cannot be opened")?;
    Ok(Arc::new(move |digest, offset| {
        let read = reader.content(digest, offset, CHUNK_MAX);
        read.map(Option::unwrap_or_default).map_err(|error| error.to_string())
    }))
}

/// The link, as the rest of the program needs it.
struct StartedLink {
    handle: LinkHandle,
    health: watch::Receiver<Health>,
    /// The addresses in join tokens, and the rest of the way if there are brokers.
    addresses: Vec<String>,
    broker: Option<BrokerAccess>,
    /// For the log.
    shown: String,
}

async fn start_link(
    settings: &Settings,
    pki: &Arc<Pki>,
    feed: Feed,
    keys: (Keys, RefusedPackets),
) -> anyhow::Result<StartedLink> {
    match settings.link.brokers()? {
        Some(brokers) => Ok(through_brokers(settings, pki, feed, keys, brokers)),
        None => {
            let link = listen(settings, pki, feed, keys).await?;
            let shown = format!("listening on {}", link.local_addr());
            let (_, health) = watch::channel(Health::Connected(shown.clone()));
            let addresses = addresses(settings, link.local_addr().port());
            Ok(StartedLink { handle: link.handle(), health, addresses, broker: None, shown })
        }
    }
}

fn through_brokers(
    settings: &Settings,
    pki: &Arc<Pki>,
    feed: Feed,
    (keys, refused): (Keys, RefusedPackets),
    brokers: Brokers,
) -> StartedLink {
    let Brokers { addresses, join_addresses, ca_fingerprint, credentials, join_credentials } = brokers;
    let config = BrokerConfig {
        brokers: addresses.clone(),
        ca_fingerprint,
        credentials,
        connections: settings.limits.connections,
        keys,
        refused,
    };
    let link = BrokerLink::start(config, Arc::clone(pki), feed);
    let controller_seal = pki.seal_public();
    StartedLink {
        handle: link.handle(),
        health: link.health(),
        addresses: addresses.iter().map(ToString::to_string).collect(),
        broker: Some(BrokerAccess {
            join_addresses,
            ca_fingerprint,
            credentials: join_credentials,
            controller_seal,
        }),
        shown: settings.link.url.clone(),
    }
}

async fn listen(
    settings: &Settings,
    pki: &Arc<Pki>,
    feed: Feed,
    (keys, refused): (Keys, RefusedPackets),
) -> anyhow::Result<DirectLink> {
    let host =
        |address: &String| address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_owned();
    let config = DirectConfig {
        listen: settings.controller.listen,
        names: settings.controller.addresses.iter().map(host).collect(),
        keys,
        refused,
        limits: direct::Limits { connections: settings.limits.connections, ..direct::Limits::default() },
    };
    DirectLink::start(config, Arc::clone(pki), feed)
        .await
        .with_context(|| format!("cannot listen on {}", settings.controller.listen))
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "localhost".into(), |name| name.trim().to_owned())
}

/// The addresses in join tokens.
fn addresses(settings: &Settings, port: u16) -> Vec<String> {
    if !settings.controller.addresses.is_empty() {
        return settings.controller.addresses.clone();
    }
    let listen = settings.controller.listen;
    if listen.ip().is_unspecified() {
        vec![format!("{}:{port}", host_name())]
    } else {
        vec![std::net::SocketAddr::new(listen.ip(), port).to_string()]
    }
}

/// Runs the driver on its own thread, since its commits block. The receiver reports the thread's end, also by
/// a panic.
fn spawn_driver(
    settings: &Settings,
    store: Database,
    (link, keys): (LinkHandle, Keys),
    inbox: DriverInbox,
    from_link: Intake,
) -> anyhow::Result<(std::thread::JoinHandle<()>, oneshot::Receiver<()>)> {
    let limits = settings.engine_limits();
    let (epoch_bits, seed) = (u64::from_ne_bytes(random()?), random()?);
    let driver = Driver::new(store, link, move |epoch| muster_engine::Config {
        epoch,
        epoch_bits,
        starts: muster_engine::Starts::default(),
        seed,
        limits,
    })
    .context("the database cannot be read")?
    .with_keys(keys);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let thread = std::thread::Builder::new().name("driver".into());
    let (running, ended) = oneshot::channel();
    let thread = thread.spawn(move || {
        let _running = running;
        runtime.block_on(driver.run(inbox, from_link));
    })?;
    Ok((thread, ended))
}
