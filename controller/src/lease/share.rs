//! Decides which site this process asks for, from the holders of its sites as their keepers saw them last. Where
//! several controllers serve several sites, each has as many as the others.
//!
//! A controller that begins asks for its share, one site at a time, until it has it once. From then on it asks for
//! nothing: what an operator gives to another stays there. When a controller dies, those that have least take over
//! first.
//!
//! Absent: when a lease may be taken (`machine.rs`), and how an operator gives a site to another controller
//! (`run/hand_over.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{LeaseState, Record, StandbyView, Terms};
use crate::site_name::SiteName;

/// A standby that has not looked for so many leases is not counted.
const AWAY: u32 = 2;

/// Shared by the keepers of a process.
#[derive(Clone, Debug)]
pub struct Share(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// The name of this controller.
    me: String,
    /// The members in its settings; none: never seen.
    sites: BTreeMap<SiteName, Option<Members>>,
    /// Whether it had its share, or took none.
    is_settled: bool,
}

/// The controllers of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Members {
    /// None: the lease is free, or was left to an heir.
    holder: Option<String>,
    /// The standbys besides, which may include this one.
    standbys: Vec<String>,
}

/// The next step of a controller that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// Not all sites were seen, or one has no controller yet.
    Look,
    AskFor(SiteName),
    /// The controller has its share.
    Rest,
}

impl Share {
    /// The share of a controller with this name and these sites.
    pub fn new(me: String, sites: impl Iterator<Item = SiteName>) -> Self {
        let sites = sites.map(|site| (site, None)).collect();
        Self(Arc::new(Mutex::new(State { me, sites, is_settled: false })))
    }

    /// Each site with the name of its active controller, if that was seen.
    pub fn holders(&self) -> Vec<(SiteName, Option<String>)> {
        let state = self.lock();
        let holder = |members: &Option<Members>| members.as_ref().and_then(|members| members.holder.clone());
        state.sites.iter().map(|(site, members)| (site.clone(), holder(members))).collect()
    }

    /// The site has one controller, which is this.
    pub fn owns(&self, site: &SiteName) {
        let mut state = self.lock();
        let members = Members { holder: Some(state.me.clone()), standbys: Vec::new() };
        state.sites.insert(site.clone(), Some(members));
    }

    pub(super) fn saw(&self, site: &SiteName, record: &Record, standbys: &[StandbyView], terms: Terms) {
        let is_there = |standby: &&StandbyView| standby.behind < AWAY * terms.lease;
        let standbys = standbys.iter().filter(is_there).map(|standby| standby.member.name.clone()).collect();
        let holder = match record.state {
            LeaseState::Held | LeaseState::Asked { .. } => Some(record.holder.name.clone()),
            LeaseState::Left { .. } | LeaseState::Free => None,
        };
        let members = Members { holder, standbys };
        self.lock().sites.insert(site.clone(), Some(members));
    }

    /// The time by which this controller leaves the site's lease longer than others when that is free: the more sites
    /// it has, the
    /// longer. Where nobody else waits for it, no time.
    pub(super) fn reserve(&self, site: &SiteName, terms: Terms) -> Duration {
        let state = self.lock();
        let is_other = |name: &String| *name != state.me;
        let standbys = state.sites.get(site).and_then(Option::as_ref).map(|members| &members.standbys);
        if !standbys.is_some_and(|standbys| standbys.iter().any(is_other)) {
            return Duration::ZERO;
        }
        let is_mine = |members: &&Members| members.holder.as_ref() == Some(&state.me);
        let held = state.sites.values().flatten().filter(is_mine).count();
        let steps = u32::try_from(held).unwrap_or(u32::MAX);
        (terms.pace() / 2).saturating_mul(steps).min(terms.pace())
    }

    /// Whether this controller is to ask for the site.
    pub(super) fn wants(&self, site: &SiteName) -> bool {
        let mut state = self.lock();
        if state.is_settled {
            return false;
        }
        match next(&state.me, &state.sites) {
            Next::Look => false,
            Next::AskFor(wanted) => wanted == *site,
            Next::Rest => {
                state.is_settled = true;
                false
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn next(me: &str, sites: &BTreeMap<SiteName, Option<Members>>) -> Next {
    let mut held = BTreeMap::from([(me, 0_usize)]);
    for members in sites.values() {
        let Some(Members { holder: Some(holder), standbys }) = members else { return Next::Look };
        for standby in standbys {
            held.entry(standby).or_default();
        }
        *held.entry(holder).or_default() += 1;
    }
    let fair = sites.len() / held.len();
    let has_most = held.iter().max_by_key(|(_, count)| **count);
    match has_most {
        Some((other, _)) if held[me] < fair => {
            let of = |(_, members): &(&SiteName, &Option<Members>)| {
                members.as_ref().is_some_and(|members| members.holder.as_deref() == Some(*other))
            };
            sites.iter().rev().find(of).map_or(Next::Rest, |(site, _)| Next::AskFor(site.clone()))
        }
        Some(_) | None => Next::Rest,
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::Epoch;

    use super::super::{Member, Term};
    use super::*;

    /// "c1 c1 c2": who holds the sites a, b, c; "-": nobody, "?": not seen. Each other controller stands by for all of them.
    fn sites(holders: &str, standbys: &[&str]) -> BTreeMap<SiteName, Option<Members>> {
        let site = |(holder, name): (&str, char)| {
            let standbys = standbys.iter().filter(|it| **it != holder).map(|it| (*it).to_owned()).collect();
            let held = (holder != "-").then(|| holder.to_owned());
            let members = (holder != "?").then_some(Members { holder: held, standbys });
            (name.to_string().parse().unwrap(), members)
        };
        holders.split(' ').zip('a'..).map(site).collect()
    }

    #[test]
    fn a_new_controller_asks_the_largest_holder_for_its_share() {
        for (holders, controllers, me, wanted) in [
            ("c1", "c1", "c1", None),
            ("c1", "c1 c2", "c2", None),
            ("c1 c1", "c1 c2", "c2", Some("b")),
            ("c1 c2", "c1 c2", "c2", None),
            ("c1 c1 c1", "c1 c2", "c2", Some("c")),
            ("c1 c1 c2", "c1 c2", "c2", None),
            ("c1 c1 c1", "c1 c2 c3", "c3", Some("c")),
            ("c1 c1 c2 c2 c2 c2", "c1 c2 c3", "c3", Some("f")),
            ("c1 c1 c2 c2 c2 c3", "c1 c2 c3", "c3", Some("e")),
            // Whoever has gone still holds its lease, and is one of them until it runs out.
            ("gone gone", "c1 c2", "c2", None),
            ("c1 ?", "c1 c2", "c2", None),
            ("c1 c1 -", "c1 c2", "c2", None),
        ] {
            let controllers: Vec<&str> = controllers.split(' ').collect();
            let wanted = wanted.map(|name: &str| name.parse::<SiteName>().unwrap());
            let asked = match next(me, &sites(holders, &controllers)) {
                Next::AskFor(site) => Some(site),
                Next::Look | Next::Rest => None,
            };
            assert_eq!(asked, wanted, "{holders}: {me}");
        }
    }

    /// However sites lie at first, and whoever asks next: it ends, and nobody has two more than another who asked.
    #[test]
    fn asking_ends_with_equal_shares() {
        let controllers = ["c1", "c2", "c3"];
        for count in 1..=7_u32 {
            for number in 0..3_usize.pow(count) {
                let holder = |at: u32| controllers[number / 3_usize.pow(at) % 3];
                let holders: Vec<&str> = (0..count).map(holder).collect();
                let mut sites = sites(&holders.join(" "), &controllers);
                let mut moved = 0;
                while let Some((me, site)) = controllers.iter().find_map(|me| match next(me, &sites) {
                    Next::AskFor(site) => Some((*me, site)),
                    Next::Look | Next::Rest => None,
                }) {
                    let members = sites.get_mut(&site).unwrap().as_mut().unwrap();
                    members.holder = Some(me.to_owned());
                    members.standbys =
                        controllers.map(str::to_owned).into_iter().filter(|it| it != me).collect();
                    moved += 1;
                    assert!(moved <= count, "{holders:?}");
                }
                for me in controllers {
                    let is_its = |members: &&Members| members.holder.as_deref() == Some(me);
                    let held = sites.values().flatten().filter(is_its).count();
                    assert!(held >= usize::try_from(count).unwrap() / 3, "{holders:?}: {me} has {held}");
                }
            }
        }
    }

    #[test]
    fn who_had_its_share_asks_no_more() {
        let share = Share::new("c2".to_owned(), ["a", "b"].map(|name| name.parse().unwrap()).into_iter());
        let site: SiteName = "b".parse().unwrap();
        assert!(!share.wants(&site), "nothing was seen");
        share.lock().sites = sites("c1 c1", &["c1", "c2"]);
        assert!(share.wants(&site) && !share.wants(&"a".parse().unwrap()));
        share.lock().sites = sites("c1 c2", &["c1", "c2"]);
        assert!(!share.wants(&site));
        share.lock().sites = sites("c1 c1", &["c1", "c2"]);
        assert!(!share.wants(&site), "an operator moved it");
    }

    #[test]
    fn who_has_more_leaves_a_free_lease_longer_to_others() {
        let terms = Terms { lease: Duration::from_secs(5) };
        for (holders, controllers, wanted) in [
            ("- c2 c2", "c1 c2", 0),
            ("- c1 c2", "c1 c2", 500),
            ("- c1 c1", "c1 c2", 1000),
            ("- c1 c1 c1 c1", "c1 c2", 1000),
            ("- - -", "c1 c2", 0),
            ("- c1 c1", "c1", 0),
            ("? c1 c1", "c1 c2", 0),
        ] {
            let share = Share::new("c1".to_owned(), std::iter::empty());
            share.lock().sites = sites(holders, &controllers.split(' ').collect::<Vec<_>>());
            let reserve = share.reserve(&"a".parse().unwrap(), terms);
            assert_eq!(reserve, Duration::from_millis(wanted), "{holders}, {controllers}");
        }
    }

    /// The record of a lease that was given up still names who had it.
    #[test]
    fn a_lease_that_was_given_up_is_nobodys() {
        let share = Share::new("c1".to_owned(), std::iter::empty());
        let site: SiteName = "a".parse().unwrap();
        for (state, wanted) in [
            (LeaseState::Held, Some("c1")),
            (LeaseState::Asked { heir: "c2".to_owned() }, Some("c1")),
            (LeaseState::Left { heir: "c2".to_owned() }, None),
            (LeaseState::Free, None),
        ] {
            let holder = Member { name: "c1".to_owned(), addresses: Vec::new(), instance: String::new() };
            let term = Term { epoch: Epoch(1), bits: 1 };
            let record = Record {
                term,
                holder,
                since: String::new(),
                beat: 1,
                agents: 0,
                state: state.clone(),
                asker: None,
            };
            share.saw(&site, &record, &[], Terms { lease: Duration::from_secs(5) });
            assert_eq!(share.holders(), [(site.clone(), wanted.map(str::to_owned))], "{state:?}");
        }
    }
}
