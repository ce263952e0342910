//! A controller that waits for the site's lease: it answers operators and agents, and tells them who is active.
//!
//! Absent: when it takes over (`lease/machine.rs`), and its answers: `api/standby.rs` has those to operators,
//! `may_enter` in `link/nodes.rs` those to agents.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use muster_controller::api::{self, StandbyConfig};
use muster_controller::config::{Settings, Way};
use muster_controller::lease::{Ended, Keeper, Member, Taken};
use muster_controller::link::Common;
use muster_controller::link::intake::Feed;
use muster_controller::pki::{self, Pki};
use muster_controller::store::{LeaseTable, Server};
use tokio::sync::oneshot;

use super::SiteRun;
use super::links::{self, StartedLink};

/// Between two looks whether the active controller has shared the site's keys.
const KEYS_EVERY: Duration = Duration::from_secs(1);

/// The lease, taken.
pub struct Lease {
    pub keeper: Keeper,
    pub taken: Taken,
    /// Hears why the lease is over.
    pub ended: oneshot::Receiver<Ended>,
    /// The link on which it answered agents meanwhile.
    pub link: Option<StartedLink>,
}

/// Waits for the lease; `None`: it was told to stop.
///
/// # Errors
/// The database cannot be used, or belongs to another site.
pub async fn stand_by(
    run: &SiteRun<'_>,
    server: &Server,
    common: &Common,
    feed: &Feed,
) -> anyhow::Result<Option<Lease>> {
    let SiteRun { process, settings, instance, .. } = run;
    let terms = settings.lease();
    let is_direct = settings.link.way()? == Way::Direct;
    let own = || settings.addresses(settings.controller.listen.port());
    let addresses = if is_direct { own() } else { Vec::new() };
    let me = Member { name: settings.name(), addresses, instance: instance.clone() };
    let bound = terms.lease / 2;
    let open = || {
        LeaseTable::open(server, me.clone(), bound)
            .context("the database cannot be opened (docs/postgresql.md says what to do)")
    };
    let keys = open()?;
    let fetch = || keys.fetch_keys(&settings.key_file(), &settings.controller.data_dir);
    fetch().context("this controller cannot stand by (docs/standbys.md has what it needs)")?;
    let (site, tenure, share) = (settings.site.clone(), common.tenure.clone(), process.share.clone());
    let (keeper, mut taken, ended) = Keeper::start(site, open()?, me.clone(), terms, tenure, share)?;
    // Usually the lease of a site without standbys is free: then nobody has to be told to ask elsewhere.
    if let Ok(taken) = tokio::time::timeout(terms.pace() / 2, &mut taken).await {
        return lease(keeper, taken, ended, None).map(Some);
    }
    let id = match has_keys(settings) {
        true => Some(open_keys(settings)?.site().clone()),
        false => None,
    };
    let config = StandbyConfig {
        name: settings.name(),
        site: settings.site.clone(),
        id,
        share: process.share.clone(),
        store: server.to_string(),
        link: settings.link.url.clone(),
        tenure: common.tenure.clone(),
    };
    let api = api::serve_standby(&process.socket, config)?;
    let link = async {
        if !is_direct {
            // A second client of a broker would only push the first one out.
            std::future::pending::<()>().await;
        }
        while !has_keys(settings) && !fetch().unwrap_or(false) {
            tokio::time::sleep(KEYS_EVERY).await;
        }
        links::start(settings, &Arc::new(open_keys(settings)?), feed.clone(), common).await
    };
    let mut link = std::pin::pin!(link);
    let mut started = None;
    let mut stopped = std::pin::pin!(process.stand_by(&settings.site));
    loop {
        tokio::select! {
            taken = &mut taken => {
                api.stop().await;
                fetch().context("this controller cannot serve the site")?;
                return lease(keeper, taken, ended, started).map(Some);
            }
            link = &mut link, if started.is_none() => started = Some(link?),
            () = &mut stopped => {
                api.stop().await;
                if let Some(StartedLink { handle, .. }) = started {
                    handle.shutdown().await;
                }
                drop(tokio::task::spawn_blocking(move || keeper.leave(None)).await);
                return Ok(None);
            }
        }
    }
}

fn open_keys(settings: &Settings) -> anyhow::Result<Pki> {
    Pki::open(&settings.controller.data_dir).context("the site's keys cannot be read")
}

fn has_keys(settings: &Settings) -> bool {
    settings.controller.data_dir.join(pki::FOLDER).exists()
}

fn lease(
    keeper: Keeper,
    taken: Result<Taken, oneshot::error::RecvError>,
    ended: oneshot::Receiver<Ended>,
    link: Option<StartedLink>,
) -> anyhow::Result<Lease> {
    let taken = taken.context("the thread of the lease ended: please report it")?;
    Ok(Lease { keeper, taken, ended, link })
}
