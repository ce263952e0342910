//! `muster-controller`: reads its command line and settings. Then it runs the sites, or does one thing: back up,
//! restore, change the data key, hand over, copy a database.
//!
//! Absent: what a running site opens and in which order (`run/active.rs`), and what a setting means (`config.rs`).

mod run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use muster_controller::audit_of_commands::Runner;
use muster_controller::config::Settings;
use muster_controller::site_name::SiteName;
use muster_controller::store::{self, Database, KeyFile, Location, backup};

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
    /// Address of the API for users on other machines, over TLS [default: none]
    #[arg(long, value_name = "ADDRESS:PORT")]
    api: Option<std::net::SocketAddr>,
    /// Address of ONOS's REST for users on other machines, over TLS [default: none]
    #[arg(long, value_name = "ADDRESS:PORT")]
    onos_api: Option<std::net::SocketAddr>,
    /// Address of Heat's API for clients of OpenStack, over TLS unless it is a loopback address [default: none]
    #[arg(long, value_name = "ADDRESS:PORT")]
    heat_api: Option<std::net::SocketAddr>,
    /// Way between agents and controller: 'direct', or mqtts://HOST:PORT of MQTT 5 brokers; 'embedded', a broker in this
    /// process, where it was built with one [default: direct]
    #[arg(long, value_name = "URL[,URL]")]
    link: Option<String>,
    /// Socket for operators [default: /run/muster/api.sock]
    #[arg(long, value_name = "PATH")]
    api_socket: Option<PathBuf>,
    /// Name among the site's controllers [default: this host's name]
    #[arg(long, global = true, value_name = "NAME")]
    name: Option<String>,
    /// Site that a command is for, of several in the database [default: the one in [controller]]
    #[arg(long, global = true, value_name = "NAME")]
    site: Option<SiteName>,
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
    /// Give the site to a standby, which is active from then on
    #[command(after_help = "Example: muster-controller hand-over --to c2\n\n\
                            It can be run on any machine with the controller's settings. Prints the name of the \
                            controller that is active now.")]
    HandOver {
        /// Name of the standby [default: the one that looked at the lease last]
        #[arg(long, value_name = "NAME")]
        to: Option<String>,
    },
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
        let sites = settings.of_sites();
        let checked = sites
            .iter()
            .try_for_each(|site| site.link.brokers().map(drop))
            .and_then(|()| settings.check_database())
            .and_then(|()| settings.own_certificate().map(drop))
            .and_then(|()| settings.client_verifier().map(drop))
            .and_then(|()| settings.check_providers());
        if let Err(error) = checked {
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
        Some(Verb::HandOver { to }) => run::hand_over(&settings, to.as_deref()),
        Some(Verb::Store(StoreVerb::Copy { from, to })) => copy(&settings, &from, &to),
        None => run::run(&settings, cli.config),
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
    if let Some(name) = &cli.name {
        controller.name.clone_from(name);
    }
    if let Some(api) = cli.api {
        controller.api = Some(api);
    }
    if let Some(onos_api) = cli.onos_api {
        controller.onos_api = Some(onos_api);
    }
    if let Some(address) = cli.heat_api {
        controller.heat_api = Some(address);
        // The role of clients without a token may not be for this address.
        controller.heat_without_token()?;
    }
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
    match (&cli.site, &cli.verb) {
        (Some(site), Some(_)) => settings.of_site(site),
        (Some(_), None) => {
            anyhow::bail!("--site is for commands: the controller itself serves all sites of its settings")
        }
        (None, _) => Ok(settings),
    }
}

/// The URL itself is not repeated: it may hold a password.
fn location(what: &str, url: &str) -> anyhow::Result<Location> {
    url.parse().with_context(|| format!("{what} is wrong"))
}

/// The place of a backup: a file of SQLite. A server has its own tools for that.
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
    backup::restore(file, &place, &Runner::of_this_process())?;
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
    let new = store.rekey(&KeyFile::at(&key_file), &Runner::of_this_process())?;
    muster_controller::data_dir::give_to_owner(&settings.controller.data_dir)?;
    println!("{}: {new}, was {old}", key_file.display());
    Ok(())
}

fn copy(settings: &Settings, from: &str, to: &str) -> anyhow::Result<()> {
    let of_site = |what, url| Ok::<_, anyhow::Error>(location(what, url)?.of_site(&settings.site));
    let (from, to) = (of_site("--from", from)?, of_site("--to", to)?);
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
