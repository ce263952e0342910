//! Resource types on this server: each is a file below, and one line of the list here.
//!
//! `muster_shared::model` has the desired state of each. Files, the network, the host name and
//! software deployments have modules of their own, because others use them as well.
//!
//! Absent: the properties of a type, its claims and its lane (`shared/src/model/types.rs`).

pub mod account;
pub mod package;
pub mod sysctl;
pub mod timezone;
pub mod unit;

use muster_shared::model::{Deployment, Dummy, File, Hostname, NetworkConfig, Spec};

use crate::files::Files;
use crate::resource::AnyResource;
use account::Accounts;
use package::Packages;
use sysctl::Sysctls;
use unit::Units;

/// The tools that make resources.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Users and groups.
    pub accounts: Accounts,
    /// Regular files.
    pub files: Files,
    /// Packages of the distribution.
    pub packages: Packages,
    /// Settings of the kernel.
    pub sysctls: Sysctls,
    /// Units of systemd.
    pub units: Units,
}

/// The agent's way of handling a desired state.
#[derive(Clone, Copy)]
pub enum Way<'a> {
    /// By the trait, as nearly all.
    Resource(&'a dyn AnyResource),
    /// A resource without an effect.
    Dummy(&'a Dummy),
    /// Files of the agent's, and contents that were fetched.
    File(&'a File),
    /// A guarded change.
    Network(&'a NetworkConfig),
    /// A guarded change.
    Hostname(&'a Hostname),
    /// Commands and documents.
    Deployment(&'a Deployment),
}

impl<'a> Way<'a> {
    /// The list of all types.
    pub fn of(spec: &'a Spec) -> Self {
        match spec {
            Spec::Dummy(dummy) => Way::Dummy(dummy),
            Spec::File(file) => Way::File(file),
            Spec::Network(config) => Way::Network(config),
            Spec::Hostname(hostname) => Way::Hostname(hostname),
            Spec::Deployment(deployment) => Way::Deployment(deployment),
            Spec::Unit(unit) => Way::Resource(unit),
            Spec::Sysctl(sysctl) => Way::Resource(sysctl),
            Spec::Package(package) => Way::Resource(package),
            Spec::User(user) => Way::Resource(user),
            Spec::Group(group) => Way::Resource(group),
            Spec::Timezone(timezone) => Way::Resource(timezone),
        }
    }
}

/// Differences with the name of what differs before the first.
fn named(name: &str, mut differ: Vec<String>) -> Vec<String> {
    if let Some(first) = differ.first_mut() {
        *first = format!("{name}: {first}");
    }
    differ
}
