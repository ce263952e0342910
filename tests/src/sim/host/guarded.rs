//! Things that only a guarded change touches: links, and the host name as if it were one.

use std::collections::{BTreeMap, VecDeque};

use muster_agent_core::{AtBoot, Before};
use muster_shared::model::{Action, Hostname, Job, NetworkConfig, Spec};
use muster_shared::{MonoTime, ResourceId};
use serde_json::Value;

use super::super::aftermath::is_kept;
use super::super::plan::CUTTING;
use super::{Host, Step, Was, decode, encode};

/// Returns what a guarded change makes, as numbers: the links of a document with their MTU, and the host name as if it
/// were a link.
pub(super) fn guarded_of(spec: &Spec) -> BTreeMap<String, u32> {
    match spec {
        Spec::Network(config) => links_of(config),
        Spec::Hostname(hostname) => {
            let number = hostname.hostname.strip_prefix('h').and_then(|number| number.parse().ok());
            [(Hostname::CLAIM.to_owned(), number.unwrap_or_default())].into()
        }
        Spec::Dummy(_)
        | Spec::File(_)
        | Spec::Deployment(_)
        | Spec::Unit(_)
        | Spec::Sysctl(_)
        | Spec::Package(_)
        | Spec::User(_)
        | Spec::Group(_)
        | Spec::Timezone(_) => BTreeMap::new(),
    }
}

/// Returns whether the thing is the host name, which outlives a boot: a link is in the kernel alone.
fn is_hostname(thing: &str) -> bool {
    thing == Hostname::CLAIM
}

/// Links of a document with their MTU.
fn links_of(config: &NetworkConfig) -> BTreeMap<String, u32> {
    let document: Value = serde_json::from_str(&config.document).unwrap_or_default();
    let link = |object: &Value| {
        let mtu = object["mtu"].as_u64().and_then(|mtu| u32::try_from(mtu).ok())?;
        Some((object["name"].as_str()?.to_owned(), mtu))
    };
    document.as_array().into_iter().flatten().filter_map(link).collect()
}

impl Host {
    /// Returns the steps of a guarded job, link by link: the MTU, and the resource that makes it.
    pub fn network_steps(&self, job: &Job, before: Option<&Before>) -> Vec<Step> {
        let Some(Was::Links(was)) = before.map(decode) else { return Vec::new() };
        // Kept links are links of others once their row is gone: until then another resource may take them over.
        if job.action == Action::Delete && is_kept(&job.spec) {
            return Vec::new();
        }
        let wanted = if job.action == Action::Delete { BTreeMap::new() } else { guarded_of(&job.spec) };
        let back = was.into_iter().filter(|(link, _)| !wanted.contains_key(link));
        let back = back.map(|(link, mtu)| Step { link, mtu, by: None });
        back.chain(wanted.iter().map(|(link, mtu)| Step {
            link: link.clone(),
            mtu: *mtu,
            by: Some(job.resource),
        }))
        .collect()
    }

    /// A step; whether anything is different now.
    pub fn step(&mut self, step: &Step) -> bool {
        let was = self.links.insert(step.link.clone(), step.mtu);
        match step.by {
            Some(by) => drop(self.made_by.insert(step.link.clone(), by)),
            None => drop(self.made_by.remove(&step.link)),
        }
        self.mends();
        was != Some(step.mtu)
    }

    /// Changes a link by hand.
    pub fn change_by_hand(&mut self, link: &str, mtu: u32, now: MonoTime) {
        self.links.insert(link.to_owned(), mtu);
        self.by_hand.insert(link.to_owned(), (mtu, now));
        self.touched.insert(link.to_owned(), now);
    }

    /// Counts each link that differs from the document as changed by hand.
    pub fn is_set_by_hand(&mut self, spec: &Spec, now: MonoTime) {
        for (link, mtu) in guarded_of(spec) {
            if let Some(is) = self.links.get(&link).filter(|is| **is != mtu) {
                self.by_hand.insert(link, (*is, now));
            }
        }
    }

    /// Forgets changes by hand that are not there any more.
    pub(super) fn mends(&mut self) {
        self.by_hand.retain(|link, (mtu, _)| self.links.get(link) == Some(mtu));
    }

    /// Links of a network document, or the host name.
    pub fn links_in(spec: &Spec) -> Vec<String> {
        guarded_of(spec).into_keys().collect()
    }

    /// Returns the links that these steps are about, each with the resource that makes it.
    pub fn makers(&self, steps: &VecDeque<Step>) -> Vec<(String, Option<ResourceId>)> {
        steps.iter().map(|step| (step.link.clone(), self.made_by.get(&step.link).copied())).collect()
    }

    /// A job that changed nothing and failed made nothing either.
    pub fn was_made_by(&mut self, makers: Vec<(String, Option<ResourceId>)>) {
        for (link, by) in makers {
            match by {
                Some(by) => drop(self.made_by.insert(link, by)),
                None => drop(self.made_by.remove(&link)),
            }
        }
    }

    /// Returns the state of all links that a job may touch.
    pub fn guard(&self, job: &Job, before: Option<&Before>) -> Before {
        let steps = self.network_steps(job, before);
        let links = steps.into_iter().map(|Step { link, .. }| {
            let mtu = self.links.get(&link).copied().unwrap_or_default();
            let by = self.made_by.get(&link).copied();
            (link, (mtu, by))
        });
        encode(&Was::Undo(links.collect()))
    }

    /// Restores the state that `guard` returned.
    pub fn restore(&mut self, undo: &Before) {
        let Was::Undo(links) = decode(undo) else { return };
        for (link, (mtu, by)) in links {
            self.step(&Step { link, mtu, by });
        }
    }

    /// Replaces each setting of a document that cuts the server off.
    pub fn falls_back(&mut self, resource: ResourceId, spec: &Spec) {
        let Spec::Network(config) = spec else { return };
        for link in links_of(config)
            .into_keys()
            .filter(|link| self.links.get(link) == Some(&CUTTING))
            .collect::<Vec<_>>()
        {
            self.step(&Step { link, mtu: 1300, by: Some(resource) });
        }
    }

    /// The kernel forgets what was made; what the server has for itself comes up, and what the agent's ledger says.
    pub fn boots(&mut self, steps: &[AtBoot]) {
        let made: Vec<String> = self
            .links
            .keys()
            .filter(|link| self.made_by.contains_key(*link) && !is_hostname(link))
            .cloned()
            .collect();
        for link in made {
            if let Some(mtu) = self.links_before.get(&link) {
                self.links.insert(link.clone(), *mtu);
                self.made_by.remove(&link);
            }
        }
        for step in steps {
            match step {
                AtBoot::Apply { resource, spec, .. } => {
                    let Spec::Network(config) = &**spec else { continue };
                    for (link, mtu) in links_of(config) {
                        self.step(&Step { link, mtu, by: Some(*resource) });
                    }
                }
                AtBoot::Restore { undo, .. } => self.restore(undo),
            }
        }
        self.mends();
    }

    /// Returns whether the server is cut off: nobody reaches it.
    pub fn is_cut(&self) -> bool {
        self.links.values().any(|mtu| *mtu == CUTTING) || self.switch.cuts()
    }
}
