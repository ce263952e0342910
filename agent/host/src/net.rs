//! The host's network: observe → plan (pure) → execute → read back and compare.
//!
//! ```text
//! document ─┐
//! snapshot ─┼─▶ Target ─┐
//! State ────┴───────────┴─▶ plan: Vec<Step> ─▶ execute ─▶ State ─▶ differences: none, or it failed
//! ```
//!
//! A [`Snapshot`] holds the state of links before a document first named them; another one holds the undo of
//! a change. The caller keeps both, durably, before the first step. Applying a newer document and restoring
//! both plan towards a target. After a crash or a reboot at any point, planning again converges.
//!
//! `net/wanted.rs` says what is wanted, `net/plan.rs` which steps lead there, `net/verify.rs` what still
//! differs, and `net/restore.rs` brings back what was there before.
//!
//! Absent: what a document may ask for (`shared/src/model/network/support.rs`), and when a change is undone
//! (`agent/core/src/jobs/confirm.rs`). Absent too: links that the kernel has no module for.

pub mod dhcp;
pub mod export;
pub mod monitor;
pub mod netlink;
pub mod network_managers;
pub mod ovsdb;
pub mod resolver;
pub mod snapshot;
pub mod state;

mod describe;
mod disputed;
mod error;
mod ethtool;
mod execute;
mod hardware;
mod nics;
mod plan;
mod restore;
mod step;
mod switch;
mod tables;
mod verify;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use muster_shared::model::LinkFacts;
use muster_shared::model::network::{LinkName, NetworkDocument, NicMapping, Object, ObjectKind};
use serde_json::Value;
use tokio::time::Instant;

pub use describe::Description;
pub use dhcp::Client;
pub use disputed::Disputed;
pub use error::{NetError, chain, listed};
pub use execute::{Cause, StepError};
pub use monitor::{Change, Monitor};
pub use ovsdb::{Hold, SwitchVersion};
pub use plan::{PlanError, plan};
pub use snapshot::Snapshot;
pub use state::State;
pub use step::Step;
pub use verify::differences;
pub use wanted::{Difference, Target};

use dhcp::{Clients, Leases};
use execute::OnFailure;
use netlink::Netlink;
use network_managers::NetworkManagers;
use ovsdb::{Ovsdb, OvsdbError};
use resolver::Files;
use state::{Link, Ovs};
use verify::is_leasing;

/// The number of readings of the result, and their interval, before it counts as different: the kernel and
/// Open vSwitch finish some changes (an MTU, say) a moment after they have confirmed them.
const READ_BACK_TRIES: u32 = 10;
const READ_BACK_PAUSE: Duration = Duration::from_millis(200);
/// The time limit of a DHCP server's answer: a switch with spanning tree forwards nothing for 30 s.
const LEASE_WITHIN: Duration = Duration::from_secs(45);

/// Settings of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostConfig {
    /// The socket of Open vSwitch's database; by default `$OVS_RUNDIR/db.sock` or
    /// `/var/run/openvswitch/db.sock`.
    pub ovs_db: Option<PathBuf>,
    /// The datapath of bridges that are made, such as `netdev`; by default the kernel's.
    pub datapath_type: Option<String>,
    /// The time that Open vSwitch may take to apply a change; by default 30 s, since it is busy for seconds
    /// with thousands of ports.
    pub ovs_timeout: Option<Duration>,
    /// The resolver's file; by default `/etc/resolv.conf`.
    pub resolv_conf: Option<PathBuf>,
    /// Our drop-in for systemd-resolved; by default `/etc/systemd/resolved.conf.d/90-muster.conf`.
    pub resolved_conf: Option<PathBuf>,
    /// A directory like `/sys/class/net`, which determines the NICs for `nic1` and so on.
    pub sys_class_net: Option<PathBuf>,
    /// Names of routing tables; by default `/etc/iproute2/rt_tables`.
    pub rt_tables: Option<PathBuf>,
    /// The program that makes systemd-resolved reload; by default the `systemctl` in the `PATH`.
    pub systemctl: Option<PathBuf>,
    /// The root of the system whose network managers must leave links alone. By default this system's, if the
    /// network namespace is that of its init.
    pub neighbours: Option<PathBuf>,
    /// The DHCP client; by default the first one found.
    pub dhcp_client: Option<Client>,
    /// The directory of notes on each link's DHCP client; by default `/run/muster-dhcp`.
    pub dhcp_notes: Option<PathBuf>,
    /// The directory of the DHCP clients' scripts, on a file system that allows execution; by
    /// default `/var/lib/muster-agent/dhcp`.
    pub dhcp_scripts: Option<PathBuf>,
    /// The time that a DHCP server may take to answer; by default 45 s.
    pub lease_within: Option<Duration>,
}

/// The network of the current namespace.
#[derive(Clone, Debug)]
pub struct Network {
    ovs_db: PathBuf,
    datapath_type: Option<String>,
    ovs_timeout: Duration,
    files: Files,
    sys_class_net: PathBuf,
    neighbours: Option<NetworkManagers>,
    clients: Clients,
    lease_within: Duration,
}

/// A document that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The steps that were needed; empty if the host was already as desired.
    pub steps: Vec<Step>,
    /// Parts of an older document's state that could not be restored.
    pub warnings: Vec<String>,
    /// The state of this document's links before Muster: the caller keeps it in place of the one given.
    pub before: Snapshot,
    /// A network manager was told to leave links alone. It may take its settings off them later.
    pub told: bool,
}

/// The effect of applying a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanText {
    /// A line for each step.
    pub lines: Vec<String>,
    /// Reasons why applying would be refused, and parts that could not be restored.
    pub warnings: Vec<String>,
}

/// A document with its aliases replaced, and the way to it.
struct Planned {
    document: NetworkDocument,
    target: Target,
    steps: Vec<Step>,
    differences: Vec<Difference>,
}

impl Applied {
    pub fn changed(&self) -> bool {
        !self.steps.is_empty()
    }
}

impl Network {
    /// Reads nothing yet.
    pub fn new(config: HostConfig) -> Self {
        let from_environment = || match std::env::var_os("OVS_RUNDIR") {
            Some(directory) if !directory.is_empty() => PathBuf::from(directory).join("db.sock"),
            _ => PathBuf::from("/var/run/openvswitch/db.sock"),
        };
        let resolv_conf = config.resolv_conf.unwrap_or_else(|| "/etc/resolv.conf".into());
        let neighbours = NetworkManagers::new(config.neighbours);
        let (notes, scripts) = (config.dhcp_notes, config.dhcp_scripts);
        let clients =
            Clients::new(notes, scripts, resolv_conf.clone(), neighbours.clone(), config.dhcp_client);
        Self {
            clients,
            lease_within: config.lease_within.unwrap_or(LEASE_WITHIN),
            ovs_db: config.ovs_db.unwrap_or_else(from_environment),
            datapath_type: config.datapath_type,
            ovs_timeout: config.ovs_timeout.unwrap_or(Duration::from_secs(30)),
            sys_class_net: config.sys_class_net.unwrap_or_else(|| "/sys/class/net".into()),
            neighbours,
            files: Files {
                resolv_conf,
                drop_in: config
                    .resolved_conf
                    .unwrap_or_else(|| "/etc/systemd/resolved.conf.d/90-muster.conf".into()),
                rt_tables: config.rt_tables.unwrap_or_else(|| "/etc/iproute2/rt_tables".into()),
                systemctl: config.systemctl.unwrap_or_else(|| "systemctl".into()),
            },
        }
    }

    /// The host's network as it is.
    pub async fn observe(&self) -> Result<State, NetError> {
        self.observe_through(&mut Netlink::open()?).await
    }

    /// [`Network::observe`] for people and machines.
    pub async fn show(&self) -> Result<Value, NetError> {
        let state = self.observe().await?;
        Ok(serde_json::to_value(state).expect("a state has text keys and plain values only"))
    }

    /// The state before `document` is applied: `before` (of an older document), and the links it lacks. Keep
    /// it durably before [`Network::apply`].
    pub async fn snapshot(
        &self,
        document: &NetworkDocument,
        mapping: &NicMapping,
        before: Option<Snapshot>,
    ) -> Result<Snapshot, NetError> {
        let mut state = self.observe().await?;
        let document = mapped(document, mapping, &state)?;
        let before = before.unwrap_or_default();
        self.ask_ethtool(&mut state, &document, &before).await?;
        Ok(extended(before, &document, &state))
    }

    /// The present state of all that applying `document` over `before` may touch; without a document, of all
    /// that restoring `before` may touch. Keep it durably before the first change, and [`Network::restore`]
    /// it to undo the change.
    pub async fn undo(
        &self,
        document: &NetworkDocument,
        mapping: &NicMapping,
        before: &Snapshot,
    ) -> Result<Snapshot, NetError> {
        let mut state = self.observe().await?;
        let document = mapped(document, mapping, &state)?;
        self.ask_ethtool(&mut state, &document, before).await?;
        let mut undo = Snapshot::undo_of(&document, before, &state);
        undo.uses_ovs |= before.uses_ovs || uses_ovs(&document);
        undo.left_alone = self.neighbours.iter().flat_map(NetworkManagers::told).collect();
        Ok(undo)
    }

    /// Applies `document`; links that only `before` holds are restored. On failure, some changes may be done:
    /// the caller restores its [`Network::undo`].
    pub async fn apply(
        &self,
        document: &NetworkDocument,
        mapping: &NicMapping,
        before: &Snapshot,
    ) -> Result<Applied, NetError> {
        let told = || self.neighbours.iter().flat_map(NetworkManagers::told).collect::<BTreeSet<String>>();
        let told_before = told();
        let applied = self.apply_to(document, mapping, before).await;
        if applied.as_ref().is_err_and(|error| !error.may_have_changed()) {
            // The caller restores nothing then. The managers were told of a change that did not begin. A
            // drop-in that cannot be removed now goes with the next change.
            let _later = self.give_back(told().difference(&told_before)).await;
        }
        applied
    }

    async fn apply_to(
        &self,
        document: &NetworkDocument,
        mapping: &NicMapping,
        before: &Snapshot,
    ) -> Result<Applied, NetError> {
        let mut settled = false;
        if (before.uses_ovs || uses_ovs(document)) && !self.ovs_is_idle().await? {
            self.settle_ovs().await?;
            settled = true;
        }
        let mut netlink = Netlink::open()?;
        let (mut is_told, mut was_told) = (false, false);
        let (document, mut before, target, steps) = loop {
            let mut state = self.observe_through(&mut netlink).await?;
            let document = mapped(document, mapping, &state)?;
            self.ask_ethtool(&mut state, &document, before).await?;
            let before = extended(before.clone(), &document, &state);
            let target = Target::new(&document, &before, &state, self.datapath_type.as_deref());
            if !target.missing.is_empty() {
                return Err(NetError::Missing(target.missing));
            }
            self.needs_ovs(&before, &state)?;
            let steps = plan(&target, &state)?;
            // The managers may take their own settings off the links, so the steps are not known before.
            if !std::mem::replace(&mut is_told, true) && self.leave_alone(&document, &state).await? {
                was_told = true;
                continue;
            }
            if steps.is_empty() || !before.uses_ovs || settled {
                // The state was just read, so an unchanged host needs no second look.
                let is_reached = steps.is_empty() && differences(&target, &state).is_empty();
                // The state may be large, and is read again.
                drop(state);
                if !is_reached {
                    self.reach(&mut netlink, &target, &steps).await?;
                }
                break (document, before, target, steps);
            }
            // No change begins while the switch hangs.
            self.settle_ovs().await?;
            settled = true;
        };
        let all: Vec<String> = before.links.keys().cloned().collect();
        before.keep_only(&document);
        let kept = |link: &&String| !before.links.contains_key(*link);
        let warnings = [target.warnings, self.give_back(all.iter().filter(kept)).await].concat();
        before.uses_ovs = uses_ovs(&document) || before.holds_ovs();
        Ok(Applied { steps, warnings, before, told: was_told })
    }

    /// The differences between the host and the document; empty if there are none.
    pub async fn check(
        &self,
        document: &NetworkDocument,
        mapping: &NicMapping,
        before: &Snapshot,
    ) -> Result<Vec<Difference>, NetError> {
        let mut state = self.observe().await?;
        let document = mapped(document, mapping, &state)?;
        self.ask_ethtool(&mut state, &document, before).await?;
        let target = Target::new(&document, before, &state, self.datapath_type.as_deref());
        let mut found = target.missing.clone();
        found.extend(differences(&target, &state));
        Ok(found)
    }

    /// The facts of the links, for people, by the kernel's index.
    pub async fn link_facts(&self) -> Result<BTreeMap<u32, LinkFacts>, NetError> {
        let mut links = Netlink::open()?.facts().await.map_err(NetError::Observe)?;
        for (index, link) in &mut links {
            hardware::complete(&self.sys_class_net, *index, link);
        }
        Ok(links)
    }

    /// Executes steps unchanged, and neither reads back nor restores.
    pub async fn execute(&self, steps: &[Step]) -> Result<(), NetError> {
        self.execute_through(&mut Netlink::open()?, steps, OnFailure::Stop).await
    }

    /// The effect of applying `document`. An absent interface is a warning here.
    pub async fn plan_text(
        &self,
        document: &NetworkDocument,
        mapping: &NicMapping,
        before: Option<Snapshot>,
    ) -> Result<PlanText, NetError> {
        let Planned { document, target, steps, .. } = self.planned(document, mapping, before).await?;
        let names: Vec<&str> = managed_links(&document).collect();
        let told = self.neighbours.iter().flat_map(|neighbours| neighbours.would_tell(&names));
        let lines = told.chain(steps.iter().map(ToString::to_string)).collect();
        if let Some(neighbours) = &self.neighbours {
            neighbours.check(&names)?;
        }
        let missing = target.missing.iter().map(ToString::to_string);
        Ok(PlanText { lines, warnings: missing.chain(target.warnings).collect() })
    }

    /// The steps that applying `document` would take, or else the differences; empty if it changes nothing. Telling
    /// managers to leave its links alone is no change.
    pub async fn changes(
        &self,
        document: &NetworkDocument,
        mapping: &NicMapping,
        before: Option<Snapshot>,
    ) -> Result<Vec<String>, NetError> {
        let Planned { document, steps, differences, .. } = self.planned(document, mapping, before).await?;
        if let Some(neighbours) = &self.neighbours {
            neighbours.check(&managed_links(&document).collect::<Vec<_>>())?;
        }
        // Steps say what would be done about a difference.
        let differ = differences.iter().filter(|_| steps.is_empty()).map(ToString::to_string);
        Ok(steps.iter().map(ToString::to_string).chain(differ).collect())
    }

    /// The document that describes the present network, and what else an operator has to know of it.
    pub async fn describe(&self) -> Result<Description, NetError> {
        let mut description = describe::describe(&self.observe().await?);
        let links = description.links();
        let names: Vec<&str> = links.iter().map(String::as_str).collect();
        let told = self.neighbours.iter().flat_map(|neighbours| neighbours.would_tell(&names));
        if told.count() > 0 {
            description.left_out.push(
                "name servers, policy rules and leases that a network manager sets: it stops for adopted links, so add \
                 dns_servers and rules where it sets some"
                    .to_owned(),
            );
        }
        Ok(description)
    }

    async fn planned(
        &self,
        document: &NetworkDocument,
        mapping: &NicMapping,
        before: Option<Snapshot>,
    ) -> Result<Planned, NetError> {
        let mut state = self.observe().await?;
        let document = mapped(document, mapping, &state)?;
        let before = before.unwrap_or_default();
        self.ask_ethtool(&mut state, &document, &before).await?;
        let before = extended(before, &document, &state);
        let target = Target::new(&document, &before, &state, self.datapath_type.as_deref());
        let steps = plan(&target, &state)?;
        let mut differences = target.missing.clone();
        differences.extend(verify::differences(&target, &state));
        Ok(Planned { document, target, steps, differences })
    }

    /// Would [`Network::restore`] change anything?
    pub async fn differs_from(&self, before: &Snapshot) -> Result<bool, NetError> {
        let mut state = self.observe().await?;
        self.ask_ethtool(&mut state, &NetworkDocument::default(), before).await?;
        let target = Target::new(&NetworkDocument::default(), before, &state, None);
        Ok(!plan(&target, &state)?.is_empty())
    }

    /// Makes the network managers leave the document's links alone. Returns whether one of them had to
    /// be told.
    async fn leave_alone(&self, document: &NetworkDocument, state: &State) -> Result<bool, NetError> {
        let Some(neighbours) = &self.neighbours else { return Ok(false) };
        let index = |name: &str| state.links.get(name).map(|link| link.index);
        let links: BTreeMap<&str, Option<u32>> =
            managed_links(document).map(|name| (name, index(name))).collect();
        neighbours.check(&links.keys().copied().collect::<Vec<_>>())?;
        Ok(neighbours.leave_alone(&links).await?)
    }

    /// Returns links to the network managers. A failure is only a warning: the links themselves are restored.
    async fn give_back<'a>(&self, links: impl Iterator<Item = &'a String>) -> Vec<String> {
        let Some(neighbours) = &self.neighbours else { return Vec::new() };
        let given = neighbours.give_back(links.map(String::as_str)).await;
        given.err().map(|error| chain(&error)).into_iter().collect()
    }

    async fn observe_through(&self, netlink: &mut Netlink) -> Result<State, NetError> {
        Ok(State { ovs: self.bridges().await?, ..self.observe_host(netlink).await? })
    }

    /// The whole state but Open vSwitch.
    async fn observe_host(&self, netlink: &mut Netlink) -> Result<State, NetError> {
        let links = netlink.links().await.map_err(NetError::Observe)?;
        let rules = netlink.rules().await.map_err(NetError::Observe)?;
        let tables = tables::read(&self.files.rt_tables);
        let nics = nics::numbered(&self.sys_class_net, links.iter());
        let dhcp = self.leases(&links);
        Ok(State {
            links,
            rules,
            resolver: self.files.read(),
            tables,
            nics,
            ovs: None,
            ethtool: BTreeMap::new(),
            dhcp,
        })
    }

    fn leases(&self, links: &BTreeMap<String, Link>) -> Leases {
        self.clients.read(|name| {
            let link = links.get(name)?;
            let given = link.addresses.iter().filter(|address| address.given).map(|address| address.net);
            Some((link.index, given.collect()))
        })
    }

    /// The ethtool settings of the links that need them: asking every driver for every setting would be slow.
    async fn ask_ethtool(
        &self,
        state: &mut State,
        document: &NetworkDocument,
        before: &Snapshot,
    ) -> Result<(), NetError> {
        let named =
            document.all().filter(|object| !object.ethtool.is_empty()).map(|object| object.name.as_str());
        read_ethtool(state, &named.chain(before.ethtool.keys().map(String::as_str)).collect()).await
    }

    async fn bridges(&self) -> Result<Option<Ovs>, NetError> {
        match self.connect_ovs().await? {
            Some(mut ovs) => Ok(Some(ovs.bridges().await?)),
            None => Ok(None),
        }
    }

    /// `None` if Open vSwitch is not installed or not running: only some documents need it.
    async fn connect_ovs(&self) -> Result<Option<Ovsdb>, NetError> {
        match Ovsdb::connect(&self.ovs_db, self.ovs_timeout).await {
            Ok(ovs) => Ok(Some(ovs)),
            Err(OvsdbError::Connect { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn ovs_is_idle(&self) -> Result<bool, NetError> {
        match self.connect_ovs().await? {
            Some(mut ovs) => Ok(ovs.is_idle().await?),
            None => Ok(true),
        }
    }

    /// Waits until Open vSwitch has finished the requests of a run before a crash: until then links come
    /// and go.
    async fn settle_ovs(&self) -> Result<(), NetError> {
        match self.connect_ovs().await? {
            Some(mut ovs) => Ok(ovs.sync().await?),
            None => Ok(()),
        }
    }

    /// Fails without the database if the snapshot needs it: the removal of objects in Open vSwitch could not
    /// be verified.
    fn needs_ovs(&self, before: &Snapshot, state: &State) -> Result<(), NetError> {
        match before.uses_ovs && state.ovs.is_none() {
            true => Err(NetError::NoOvs { path: self.ovs_db.clone() }),
            false => Ok(()),
        }
    }

    async fn execute_through(
        &self,
        netlink: &mut Netlink,
        steps: &[Step],
        on_failure: OnFailure,
    ) -> Result<(), NetError> {
        let connect = || Ovsdb::connect(&self.ovs_db, self.ovs_timeout);
        Ok(execute::execute(steps, netlink, (&self.files, &self.clients), connect, on_failure).await?)
    }

    async fn reach(&self, netlink: &mut Netlink, target: &Target, steps: &[Step]) -> Result<(), NetError> {
        self.execute_through(netlink, steps, OnFailure::Stop).await?;
        let mut tries_left = if steps.is_empty() { 0 } else { READ_BACK_TRIES };
        let until = Instant::now() + self.lease_within;
        loop {
            let mut state = self.observe_through(netlink).await?;
            let links = target.ethtool.keys().map(|(link, _)| link.as_str()).collect();
            read_ethtool(&mut state, &links).await?;
            let found = differences(target, &state);
            if found.is_empty() {
                return Ok(());
            }
            let waits = Instant::now() < until && is_leasing(target, &state);
            if tries_left == 0 && !waits {
                return Err(NetError::Differs(found));
            }
            tries_left = tries_left.saturating_sub(u32::from(!waits));
            tokio::time::sleep(READ_BACK_PAUSE).await;
        }
    }
}

async fn read_ethtool(state: &mut State, links: &BTreeSet<&str>) -> Result<(), NetError> {
    for link in links.iter().filter(|link| state.links.contains_key(**link)) {
        let settings = ethtool::read(link).await.map_err(NetError::Observe)?;
        state.ethtool.insert((*link).to_owned(), settings);
    }
    Ok(())
}

fn mapped(
    document: &NetworkDocument,
    mapping: &NicMapping,
    state: &State,
) -> Result<NetworkDocument, NetError> {
    let mut names = mapping.resolve(&state.macs())?;
    for (index, nic) in state.nics.iter().enumerate() {
        let alias = format!("nic{}", index + 1);
        // The mapping takes precedence, both for the alias and for the NIC.
        let is_free = !names.contains_key(&alias) && !names.values().any(|name| name.as_str() == nic);
        if let (true, false, Ok(name)) = (is_free, state.links.contains_key(&alias), LinkName::new(nic)) {
            names.insert(alias, name);
        }
    }
    Ok(document.clone().with_names(&names)?)
}

/// The links of a document that network managers could have. They all leave the loopback interface to the kernel.
fn managed_links(document: &NetworkDocument) -> impl Iterator<Item = &str> {
    document.link_names().filter(|name| !name.is_loopback()).map(LinkName::as_str)
}

fn extended(mut before: Snapshot, document: &NetworkDocument, state: &State) -> Snapshot {
    before.extend_by(document, state);
    before.uses_ovs |= uses_ovs(document);
    before
}

/// Whether the document needs Open vSwitch.
pub fn uses_ovs(document: &NetworkDocument) -> bool {
    let in_ovs =
        |object: &Object| matches!(object.kind, ObjectKind::OvsBridge { .. }) || object.is_port_only();
    document.objects.iter().any(in_ovs)
}
