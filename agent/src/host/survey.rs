//! A survey of this server: states that it has already, for an operator who lets Muster take it over.
//!
//! Covers what every server has: its network, host name, time zone, and the accounts of its people. Each state is
//! compared with the server before it is reported, so applying it changes nothing.
//!
//! Only types that a controller of the version before reads are in a survey.
//!
//! Absent on purpose: files, units, packages and kernel settings. A server has thousands, and which of them are
//! somebody's configuration only an operator knows. Passwords and keys are in no survey.

use std::collections::{BTreeMap, BTreeSet};

use muster_agent_core::{Found, RunError};
use muster_host::net::{Description, chain};
use muster_host::types::timezone;
use muster_shared::ResourceId;
use muster_shared::model::{
    Claim, Hostname, NetworkConfig, OnDelete, SURVEYED_MAX, Spec, SpecV1, Survey, Timezone,
};
use muster_shared::property::CONFIRM_TIMEOUT;
use serde_json::Value;

use super::Host;

/// No resource has it: a survey is of none.
const NO_RESOURCE: ResourceId = ResourceId(uuid::Uuid::nil());

impl Host {
    /// States that change nothing, and what could not be described. What is `held` already is left out.
    pub async fn survey(&self, held: &BTreeSet<Claim>) -> Survey {
        let mut survey = Survey::default();
        for candidate in self.candidates(held, &mut survey.left_out).await.into_iter().take(SURVEYED_MAX) {
            tokio::task::yield_now().await;
            let name = format!("{} {}", candidate.type_name(), candidate.key());
            if is_held(&candidate, held) {
                survey.left_out.push(format!("{}: Muster has it already", name.trim_end()));
                continue;
            }
            // A controller refuses a whole answer for one state that no template could have.
            if let Err(field) = Spec::try_from(SpecV1::from(&candidate)) {
                survey.left_out.push(format!("{}: its {field} is out of bounds", name.trim_end()));
                continue;
            }
            match self.compared(&candidate).await {
                Ok(Found::AsDesired) => survey.specs.push(candidate),
                Ok(Found::Differs { reason, .. }) | Err(RunError { reason, .. }) => {
                    survey.left_out.push(format!("{}: {reason}", name.trim_end()));
                }
            }
        }
        survey.fit()
    }

    /// Accounts were read a moment ago, all at once: they are not read again for each of them.
    async fn compared(&self, candidate: &Spec) -> Result<Found, RunError> {
        match candidate {
            Spec::User(_) | Spec::Group(_) => Ok(Found::AsDesired),
            other => self.would_change(NO_RESOURCE, other, None, None).await,
        }
    }

    async fn candidates(&self, held: &BTreeSet<Claim>, left_out: &mut Vec<String>) -> Vec<Spec> {
        let mut candidates = Vec::new();
        match self.network.describe().await {
            Ok(Description { objects, left_out: links }) => {
                left_out.extend(links);
                let (theirs, free): (Vec<Value>, Vec<Value>) =
                    objects.into_iter().partition(|object| is_held(&network(vec![object.clone()]), held));
                let names = theirs.into_iter().map(|object| network(vec![object]).key().into_owned());
                left_out.extend(names.map(|name| format!("{name}: Muster has it already")));
                candidates.extend((!free.is_empty()).then(|| network(free)));
            }
            Err(error) => left_out.push(format!("the network: {}", chain(&error))),
        }
        match self.name.name() {
            Ok(hostname) => candidates.push(Spec::Hostname(Hostname {
                hostname,
                confirm_timeout: CONFIRM_TIMEOUT,
                on_delete: OnDelete::Restore,
            })),
            Err(error) => left_out.push(format!("the host name: {error}")),
        }
        match timezone::present(&self.tools).await {
            Ok(timezone) => {
                candidates.push(Spec::Timezone(Timezone { timezone, on_delete: OnDelete::Restore }));
            }
            Err(error) => left_out.push(format!("the time zone: {error}")),
        }
        match self.tools.accounts.of_people() {
            Ok((groups, users, more)) => {
                if more > 0 {
                    left_out.push(format!("{more} more users and groups: add those that you manage"));
                }
                candidates.extend(groups.into_iter().map(Spec::Group));
                candidates.extend(users.into_iter().map(Spec::User));
            }
            Err(error) => left_out.push(format!("users and groups: {error}")),
        }
        candidates
    }
}

fn network(objects: Vec<Value>) -> Spec {
    Spec::Network(NetworkConfig {
        document: Value::Array(objects).to_string(),
        mapping: BTreeMap::new(),
        confirm_timeout: CONFIRM_TIMEOUT,
        on_delete: OnDelete::Restore,
    })
}

fn is_held(spec: &Spec, held: &BTreeSet<Claim>) -> bool {
    spec.claims().iter().any(|claim| held.contains(claim))
}
