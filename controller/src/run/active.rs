//! The active controller: opens store, link and API, runs the driver loop, and says why it serves no longer. The other
//! role is `standby.rs`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use muster_controller::api;
use muster_controller::audit_of_commands::Runner;
use muster_controller::config::Settings;
use muster_controller::driver::{self, Driver, DriverInbox};
use muster_controller::history::History;
use muster_controller::lease::{Ended, Heir, Taken};
use muster_controller::link::intake::{Feed, Intake};
use muster_controller::link::{Common, LinkHandle, ReadContent, direct};
use muster_controller::pki::Pki;
use muster_controller::random::random;
use muster_controller::store::{Database, Reader};
use muster_controller::telemetry::{Collector, ExporterHandle, Telemetry};
use muster_shared::wire::CHUNK_MAX;
use rustls::server::ResolvesServerCert;
use tokio::sync::oneshot;

use super::SiteRun;
use super::hand_on;
use super::links::{self, StartedLink};

/// A controller that may speak for the site.
pub struct Active<'p> {
    pub site: &'p SiteRun<'p>,
    pub common: Common,
    /// The site's lease, where there is one.
    pub taken: Option<Taken>,
}

/// The end of serving. Its agents are still connected: they are let go when another controller may have the lease.
pub struct Served {
    pub why: Why,
    pub link: LinkHandle,
}

/// The reason of that end.
pub enum Why {
    Stopped,
    /// Another controller is to have the lease.
    HandOver(Heir),
}

impl Active<'_> {
    /// Serves until it is told to stop, or `lease_ended`. `link` is there already if it was a standby's.
    ///
    /// # Errors
    /// The site cannot be served, or another controller has it.
    pub async fn serve(
        &self,
        feed: Feed,
        from_link: Intake,
        link: Option<StartedLink>,
        lease_ended: impl Future<Output = Ended>,
    ) -> anyhow::Result<Served> {
        let SiteRun { process, settings, .. } = self.site;
        let (database, data_dir) = (settings.database(), &settings.controller.data_dir);
        let term = self.taken.as_ref().map(|taken| taken.term);
        let store = Database::open_in(&database, &settings.key_file(), term)
            .and_then(|store| store.within(settings.bounds()));
        let mut store = store.context("the database cannot be opened")?;
        store.settle(data_dir, &Runner::of_this_process())?;
        // A full disk is no reason to leave the site without a controller.
        if let Some(row) = self.taken.as_ref().and_then(|taken| taken.row.as_ref())
            && let Err(error) = store.note(row)
        {
            tracing::warn!(%error, "the audit has no row of this change of controllers");
        }
        let pki = Arc::new(Pki::open(data_dir).context("the site's keys cannot be read or made")?);
        store.share_keys(&database, data_dir).context("the site's keys cannot be shared")?;
        let reader = Reader::open(&database, &store.key()).context("the database cannot be opened")?;
        let link = match link {
            Some(link) => link,
            None => links::start(settings, &pki, feed, &self.common).await?,
        };
        let (commits, arrivals) = (store.commits(), from_link.arrivals());
        link.handle.serve_contents(&contents(settings, &store)?);
        let (handle, inbox) = driver::channel();
        let (telemetry, exporter) = self.telemetry()?;
        let (driver, driver_ended) =
            self.spawn_driver(store, link.handle.clone(), (inbox, from_link), &telemetry)?;
        self.common.open();
        let history = History::default();
        let (me, broker) = (settings.name(), &self.site.broker);
        let heir_found =
            hand_on::heir(&me, broker, link.health.clone(), &self.common.tenure, settings.lease());
        let config = api::ApiConfig {
            site: settings.site.clone(),
            share: process.share.clone(),
            name: me.clone(),
            tenure: self.common.tenure.clone(),
            store: database.to_string(),
            addresses: link.addresses,
            broker: link.broker,
            link: settings.link.url.clone(),
            health: link.health,
            body_max: settings.limits.api_body,
            template_max: settings.limits.template,
            flow_rules_max: settings.limits.flow_rules,
            api_ca: settings.controller.doors().next().map(|_| pki.fingerprint()),
            socket_role: settings.controller.socket_role,
            heat_without_token: settings.controller.heat_without_token()?,
            api_client_ca: !settings.controller.api_client_ca.as_os_str().is_empty(),
            oidc: settings.oidc.provider()?.map(Arc::new),
            session: Duration::from_secs(settings.oidc.session * 3600),
            refused: self.common.refused.clone(),
            commits,
            arrivals,
            agents: Some(link.handle.clone()),
            history: history.clone(),
            telemetry,
        };
        let api = api::serve(&process.socket, config, handle.clone(), reader, Arc::clone(&pki))?;
        for (door, address) in settings.controller.doors() {
            let clients = settings.client_verifier()?;
            let shown = self.certificate(&pki);
            let acceptor = shown.and_then(|it| api::acceptor(it, clients)).context("TLS of the API")?;
            process.socket.listen_at(settings.site.clone(), door, address, acceptor);
        }
        tracing::info!(site = %pki.site(), name = %settings.site, link = link.shown, api = %settings.controller.api_socket.display(), "ready");
        let endpoint = link.handle.clone();
        #[cfg(debug_assertions)]
        muster_controller::debug_signals::listen(&handle)?;
        // Without one of these the others would seem well and do nothing: whoever started this starts it again.
        let mut heir = None;
        let failed = tokio::select! {
            () = process.serve(&settings.site, &handle) => None,
            _ = driver_ended => Some("driver"),
            () = endpoint.ended() => Some("agents' link"),
            () = history.follow(&handle, &endpoint) => Some("history"),
            () = endpoint.follow_tenure() => Some("watch over the lease"),
            to = heir_found => { heir = Some(to); None }
            ended = lease_ended => match ended {
                Ended::HandOver { heir: name } => { heir = Some(Heir { name, asker: None }); None }
                Ended::Lost => anyhow::bail!(
                    "another controller has taken the site over: this one ends, and stands by when it is started again"
                ),
            },
        };
        if let Some(part) = failed {
            anyhow::bail!("the {part} ended, and so does the controller: the log says why; please report it");
        }
        tracing::info!(heir = heir.as_ref().map(|heir| &heir.name), "stopping");
        api.stop().await;
        handle.stop().await;
        drop(tokio::task::spawn_blocking(move || driver.join()).await);
        if let Some(exporter) = exporter {
            exporter.stop().await;
        }
        let why = heir.map_or(Why::Stopped, Why::HandOver);
        Ok(Served { why, link: link.handle })
    }

    /// Traces, if there is a collector, and what sends them there.
    fn telemetry(&self) -> anyhow::Result<(Telemetry, Option<ExporterHandle>)> {
        let settings = &self.site.settings;
        let Some(endpoint) = settings.telemetry.endpoint()? else { return Ok((Telemetry::off(), None)) };
        let collector = Collector::new(endpoint, &settings.name(), &settings.site.to_string());
        let (telemetry, exporter) = Telemetry::to(collector);
        Ok((telemetry, Some(exporter.spawn())))
    }

    /// The certificate that the API shows over the network.
    fn certificate(&self, pki: &Arc<Pki>) -> io::Result<Arc<dyn ResolvesServerCert>> {
        match &self.site.process.api_certificate {
            Some(own) => Ok(Arc::clone(own) as Arc<dyn ResolvesServerCert>),
            None => {
                let names = links::certificate_names(&self.site.settings);
                direct::tls::site_certificate(Arc::clone(pki), names)
            }
        }
    }

    /// Runs the driver on its own thread, since its commits block. The receiver reports the thread's end, also by
    /// a panic.
    fn spawn_driver(
        &self,
        store: Database,
        link: LinkHandle,
        (inbox, from_link): (DriverInbox, Intake),
        telemetry: &Telemetry,
    ) -> anyhow::Result<(std::thread::JoinHandle<()>, oneshot::Receiver<()>)> {
        let limits = self.site.settings.engine_limits();
        let epoch_bits = match &self.taken {
            Some(taken) => taken.term.bits,
            None => u64::from_ne_bytes(random()?),
        };
        let seed = random()?;
        let driver = Driver::new(store, link, move |epoch| muster_engine::Config {
            epoch,
            epoch_bits,
            starts: muster_engine::Starts::default(),
            seed,
            limits,
        })
        .context("the database cannot be read")?
        .with_admitted(self.common.admitted.clone())
        .with_telemetry(telemetry);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let thread = std::thread::Builder::new().name("driver".into());
        let (running, ended) = oneshot::channel();
        let thread = thread.spawn(move || {
            let _running = running;
            runtime.block_on(driver.run(inbox, from_link));
        })?;
        Ok((thread, ended))
    }
}

/// Reads contents for nodes over a separate connection: neither the driver nor the API waits for it.
fn contents(settings: &Settings, store: &Database) -> anyhow::Result<ReadContent> {
    let reader = Reader::open(&settings.database(), &store.key()).context("the database cannot be opened")?;
    Ok(Arc::new(move |digest, offset| {
        let read = reader.content(digest, offset, CHUNK_MAX);
        read.map(Option::unwrap_or_default).map_err(|error| error.to_string())
    }))
}
