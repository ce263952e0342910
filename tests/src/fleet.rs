//! `muster-sim fleet`: thousands of agents in one process, each with its real machine and its real connection over TLS,
//! against a running controller.
//!
//! Jobs are what operators give the controller meanwhile: dummies and files; of anything else an agent of the fleet
//! says that it is not simulated. Members are told apart by name: `fleet-0`, `fleet-1` …, so the token has to be for
//! `fleet-*`.

mod figures;
mod member;
mod server;
mod settled;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use muster_agent_link::join;
use muster_shared::NodeId;
use muster_shared::join::{Address, JoinToken};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;

use figures::{Figures, Pause, Percentiles, Process, Standing};
use member::{Member, Order};
pub use server::Server;

/// Files that are open besides the connections.
const FILES: u64 = 100;

/// The options of a fleet.
#[derive(Args, Debug)]
pub struct Wish {
    /// Number of agents
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    agents: u64,
    /// Address of the controller, such as mqtts://127.0.0.1:8883; commas between the addresses of several controllers.
    /// Given more than once, agents take one each in turn [default: what the token says]
    #[arg(long, value_name = "URL", value_parser = controllers)]
    connect: Vec<Controllers>,
    /// A join token for all of them: muster node token --uses N --name 'fleet-*'
    #[arg(long)]
    token: JoinToken,
    /// The connections are TLS in any case; this says so
    #[arg(long)]
    tls: bool,
    /// Beginning of the agents' names
    #[arg(long, default_value = "fleet-")]
    prefix: String,
    /// Drop all connections once they stand, and wait until all agents are back with whole handshakes. Neither side touches
    /// its memory for the first time then, as they do before
    #[arg(long)]
    again: bool,
    /// Wait until so many jobs have run, whoever asks the controller for them
    #[arg(long, value_name = "N")]
    jobs: Option<u64>,
    /// Change one thing of so many agents behind their backs, and wait until all are corrected
    #[arg(long, value_name = "N", default_value_t = 0)]
    drift: u64,
    /// Drop all connections at once, and wait until all agents are back
    #[arg(long)]
    storm: bool,
    /// Begin the storm when a line comes on standard input: several fleets begin together
    #[arg(long, requires = "storm")]
    at_line: bool,
    /// Wait until the controller ends, another start of it or another one takes over, and all agents are back
    #[arg(long)]
    restart: bool,
    /// Stay until SIGTERM, whatever becomes of the controllers meanwhile
    #[arg(long)]
    stay: bool,
    /// Stay so long without doing anything, and tell what the controller used
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle: u64,
    /// The controller's process on this machine, for its memory and processor time
    #[arg(long, value_name = "PID")]
    controller_pid: Option<u32>,
    /// Give up when one of these waits takes longer
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    within: u64,
}

/// The figures that are printed.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    agents: u64,
    join_s: f64,
    joins_per_s: f64,
    online_s: f64,
    online: Percentiles,
    #[serde(flatten)]
    again: Option<Again>,
    #[serde(flatten)]
    idle: Option<Idle>,
    #[serde(flatten)]
    jobs: Option<Jobs>,
    #[serde(flatten)]
    drift: Option<Drift>,
    #[serde(flatten)]
    storm: Option<Storm>,
    #[serde(flatten)]
    restart: Option<Restart>,
    #[serde(flatten)]
    stay: Option<Stay>,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller_rss_bytes: Option<u64>,
    rss_bytes: u64,
    /// Connections that ended or were not made, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    lost: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct Again {
    again_s: f64,
    /// The fleet's own part of the processors.
    again_agents_cpu_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    again_controller_cpu_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Idle {
    idle_s: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_controller_percent: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Jobs {
    jobs: u64,
    jobs_failed: u64,
    jobs_s: f64,
    jobs_per_s: f64,
    acknowledged: Percentiles,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller_cpu_ms_per_job: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Drift {
    drifted: u64,
    corrected: Percentiles,
}

#[derive(Debug, Serialize)]
struct Storm {
    storm_s: f64,
    back: Percentiles,
    /// The fleet's own part of the processors.
    storm_agents_cpu_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    storm_controller_cpu_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Restart {
    /// From the first connection that was lost until all are back.
    restart_s: f64,
    restart_back: Percentiles,
    /// When the first job after it came, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_job_at: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Stay {
    /// Jobs since the start of the fleet.
    stayed_jobs: u64,
    stayed_failed: u64,
    /// In the second that had most of them.
    stayed_most_jobs_per_s: u64,
    /// When the newest job began, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    stayed_last_job_at: Option<f64>,
    /// The times in which no job began.
    stayed_pauses: Vec<Pause>,
}

/// Runs it.
///
/// # Errors
/// The controller refuses, does what it must never do, or something takes longer than it may.
pub fn run(wish: &Wish) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(fleet(wish))
}

async fn fleet(wish: &Wish) -> anyhow::Result<Report> {
    raise_file_limit(wish.agents + FILES)?;
    let controller = || wish.controller_pid.map(Process::of).transpose();
    let own = || Process::of(std::process::id());
    let cpu_since = |before: Option<Process>, after: Option<Process>| Some(after?.cpu_s - before?.cpu_s);
    let within = Duration::from_secs(wish.within);
    let mut token = wish.token.clone();
    let figures = Arc::new(Figures::default());
    let (orders, obeyed) = watch::channel(Order::default());

    let begun = Instant::now();
    let mut members = Vec::new();
    for number in 0..wish.agents {
        let name: NodeId = format!("{}{number}", wish.prefix).parse().context("--prefix")?;
        if let Some(place) = number.checked_rem(wish.connect.len() as u64) {
            token.addresses = wish.connect[place as usize].0.clone();
        }
        let joined = join::join(&token, name.clone(), |_, _| ())
            .await
            .with_context(|| format!("{name} cannot join"))?;
        members.push(Member::new(number, joined, Arc::clone(&figures))?);
    }
    let joined = begun.elapsed();
    tell(&format!("{} agents joined in {:.1} s", wish.agents, joined.as_secs_f64()));

    let mut standing = figures.watch();
    let begun = Instant::now();
    for member in members {
        tokio::spawn(member.run(obeyed.clone()));
    }
    wait(&mut standing, within, "all agents are online", |it| it.online == wish.agents).await?;
    let online = begun.elapsed();
    tell(&format!("all online in {:.2} s", online.as_secs_f64()));
    let mut report = Report {
        agents: wish.agents,
        join_s: rounded(joined.as_secs_f64()),
        joins_per_s: rounded(wish.agents as f64 / joined.as_secs_f64()),
        online_s: rounded(online.as_secs_f64()),
        online: figures.take_online(),
        ..Report::default()
    };

    if wish.again {
        let (before, own_before, begun) = (controller()?, own()?, Instant::now());
        let greeted = standing.borrow().greetings;
        orders.send_modify(|order| order.restarts += 1);
        let is_over = |it: &Standing| it.online == wish.agents && it.greetings >= greeted + wish.agents;
        wait(&mut standing, within, "all agents are back", is_over).await?;
        report.again = Some(Again {
            again_s: rounded(begun.elapsed().as_secs_f64()),
            again_agents_cpu_s: rounded(own()?.cpu_s - own_before.cpu_s),
            again_controller_cpu_s: cpu_since(before, controller()?).map(rounded),
        });
        figures.take_online();
    }
    if wish.idle > 0 {
        let before = controller()?;
        tokio::time::sleep(Duration::from_secs(wish.idle)).await;
        let used = cpu_since(before, controller()?).map(|cpu| rounded(cpu * 100.0 / wish.idle as f64));
        report.idle = Some(Idle { idle_s: wish.idle, idle_controller_percent: used });
    }
    if let Some(jobs) = wish.jobs {
        tell(&format!("waiting for {jobs} jobs"));
        let before = controller()?;
        wait(&mut standing, within, "the jobs have run", |it| it.jobs >= jobs).await?;
        let (took, done) = (figures.jobs_took().as_secs_f64(), *standing.borrow());
        report.jobs = Some(Jobs {
            jobs: done.jobs,
            jobs_failed: done.failed,
            jobs_s: rounded(took),
            jobs_per_s: rounded(done.jobs as f64 / took),
            acknowledged: figures.take_acknowledged(),
            controller_cpu_ms_per_job: cpu_since(before, controller()?)
                .map(|cpu| rounded(cpu * 1e3 / done.jobs as f64)),
        });
    }
    if wish.drift > 0 {
        orders.send_modify(|order| (order.drifts, order.drifting) = (order.drifts + 1, wish.drift));
        let is_right = |it: &Standing| it.drifted >= wish.drift && it.corrected >= it.drifted;
        wait(&mut standing, within, "all that drifted is corrected", is_right).await?;
        report.drift = Some(Drift { drifted: wish.drift, corrected: figures.take_corrected() });
    }
    if wish.storm {
        if wish.at_line {
            tell("waiting for a line");
            tokio::task::spawn_blocking(line).await??;
        }
        let (before, own_before) = (controller()?, own()?);
        let (begun, greeted) = (Instant::now(), standing.borrow().greetings);
        orders.send_modify(|order| order.storms += 1);
        let is_over = |it: &Standing| it.online == wish.agents && it.greetings >= greeted + wish.agents;
        wait(&mut standing, within, "all agents are back", is_over).await?;
        report.storm = Some(Storm {
            storm_s: rounded(begun.elapsed().as_secs_f64()),
            back: figures.take_online(),
            storm_agents_cpu_s: rounded(own()?.cpu_s - own_before.cpu_s),
            storm_controller_cpu_s: cpu_since(before, controller()?).map(rounded),
        });
    }
    report.controller_rss_bytes = controller()?.map(|it| it.rss_bytes);
    if wish.restart {
        let (before, epoch) = (*standing.borrow(), figures.last_epoch());
        tell("waiting for the controller's restart");
        wait(&mut standing, within, "the controller ends", |it| it.partings > before.partings).await?;
        let begun = Instant::now();
        let is_over =
            |it: &Standing| it.online == wish.agents && it.greetings >= before.greetings + wish.agents;
        wait(&mut standing, within, "all agents are back", is_over).await?;
        report.restart = Some(Restart {
            restart_s: rounded(begun.elapsed().as_secs_f64()),
            restart_back: figures.take_online(),
            first_job_at: figures.first_job_after(epoch),
        });
    }
    if wish.stay {
        let mut ends = signal(SignalKind::terminate())?;
        tell("staying");
        ends.recv().await;
        let done = *standing.borrow();
        report.stay = Some(Stay {
            stayed_jobs: done.jobs,
            stayed_failed: done.failed,
            stayed_most_jobs_per_s: figures.most_in_a_second(),
            stayed_last_job_at: figures.last_job(),
            stayed_pauses: figures.pauses(),
        });
    }
    if let Some(what) = figures.violation() {
        bail!("{what}");
    }
    report.rss_bytes = own()?.rss_bytes;
    report.lost = figures.lost_by_reason();
    Ok(report)
}

async fn wait(
    standing: &mut watch::Receiver<Standing>,
    within: Duration,
    what: &str,
    is_so: impl Fn(&Standing) -> bool,
) -> anyhow::Result<()> {
    match timeout(within, standing.wait_for(is_so)).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(_)) => bail!("the fleet has ended"),
        Err(_) => {}
    }
    bail!("waited {} s in vain until {what}: {:?}", within.as_secs(), *standing.borrow())
}

/// A line of standard input.
fn line() -> anyhow::Result<()> {
    match std::io::stdin().read_line(&mut String::new()).context("standard input")? {
        0 => bail!("--at-line: standard input has ended"),
        _ => Ok(()),
    }
}

/// The controllers of a site, as an agent tries them.
#[derive(Clone, Debug)]
struct Controllers(Vec<Address>);

fn controllers(urls: &str) -> anyhow::Result<Controllers> {
    urls.split(',').map(address).collect::<anyhow::Result<_>>().map(Controllers)
}

/// `mqtts://host:port`, or without a scheme.
fn address(url: &str) -> anyhow::Result<Address> {
    let place = match url.split_once("://") {
        None => url,
        Some(("mqtts" | "tls", place)) => place,
        Some((scheme, _)) => bail!("{scheme}:// is not how agents connect; give mqtts://HOST:PORT"),
    };
    Ok(place.trim_end_matches('/').parse()?)
}

fn raise_file_limit(wanted: u64) -> anyhow::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= wanted {
        return Ok(());
    }
    if hard < wanted {
        bail!(
            "{wanted} open files are needed, and {hard} are allowed: raise the limit with 'ulimit -Hn {wanted}'"
        );
    }
    Ok(setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)?)
}

fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

fn tell(what: &str) {
    eprintln!("fleet: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_scheme() {
        for (given, wanted) in [
            ("127.0.0.1:8883", Some("127.0.0.1:8883")),
            ("mqtts://controller.example.org:8883/", Some("controller.example.org:8883")),
            ("tls://[::1]:8883", Some("[::1]:8883")),
            ("http://127.0.0.1:8883", None),
            ("mqtts://127.0.0.1", None),
        ] {
            assert_eq!(address(given).ok().map(|it| it.to_string()).as_deref(), wanted, "{given}");
        }
    }

    #[test]
    fn a_site_may_have_several_controllers() {
        let read = |text| Some(controllers(text).ok()?.0.iter().map(ToString::to_string).collect::<Vec<_>>());
        let wanted = ["127.0.0.1:8883".to_owned(), "127.0.0.1:9883".to_owned()];
        assert_eq!(read("mqtts://127.0.0.1:8883,mqtts://127.0.0.1:9883"), Some(wanted.to_vec()));
        assert_eq!(read("mqtts://127.0.0.1:8883,"), None);
    }
}
