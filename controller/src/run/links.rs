//! Starts the link to the agents that the settings name. `config/link.rs` decides which one that is.

use std::sync::Arc;

use anyhow::Context as _;
#[cfg(feature = "embedded")]
use muster_controller::config::Way;
use muster_controller::config::{Brokers, Settings};
use muster_controller::link::intake::Feed;
use muster_controller::link::{
    BrokerConfig, BrokerLink, Common, DirectConfig, DirectLink, Health, LinkHandle, direct,
};
#[cfg(feature = "embedded")]
use muster_controller::link::{EmbeddedBroker, EmbeddedConfig};
use muster_controller::pki::Pki;
#[cfg(feature = "embedded")]
use muster_shared::join::Address;
use muster_shared::join::BrokerAccess;
use tokio::sync::watch;

/// The link, as the rest of the program needs it.
pub struct StartedLink {
    pub handle: LinkHandle,
    pub health: watch::Receiver<Health>,
    /// The addresses in join tokens, and the rest of the way if there are brokers.
    pub addresses: Vec<String>,
    pub broker: Option<BrokerAccess>,
    /// For the log.
    pub shown: String,
}

/// Starts the link.
///
/// # Errors
/// The settings of brokers are wrong, or the address cannot be listened on. A broker that is away is awaited.
pub async fn start(
    settings: &Settings,
    pki: &Arc<Pki>,
    feed: Feed,
    common: &Common,
) -> anyhow::Result<StartedLink> {
    #[cfg(feature = "embedded")]
    if settings.link.way()? == Way::Embedded {
        return through_embedded(settings, pki, feed, common).await;
    }
    match settings.link.brokers()? {
        Some(brokers) => Ok(through_brokers(settings, pki, feed, common, brokers)),
        None => listen(settings, pki, feed, common).await,
    }
}

fn through_brokers(
    settings: &Settings,
    pki: &Arc<Pki>,
    feed: Feed,
    common: &Common,
    brokers: Brokers,
) -> StartedLink {
    let Brokers { addresses, join_addresses, ca_fingerprint, credentials, join_credentials } = brokers;
    let config = BrokerConfig {
        brokers: addresses.clone(),
        ca_fingerprint,
        credentials,
        connections: settings.limits.connections,
        common: common.clone(),
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

/// A broker of its own, and the controller as one of its clients.
#[cfg(feature = "embedded")]
async fn through_embedded(
    settings: &Settings,
    pki: &Arc<Pki>,
    feed: Feed,
    common: &Common,
) -> anyhow::Result<StartedLink> {
    let listen = settings.controller.listen;
    let config = EmbeddedConfig { listen, names: certificate_names(settings) };
    let started = EmbeddedBroker::start(config, Arc::clone(pki)).await;
    let broker = started.with_context(|| format!("cannot listen on {listen}"))?;
    let own = broker.own_addr().to_string().parse::<Address>()?;
    let advertised = settings.addresses(broker.local_addr().port());
    let brokers = Brokers {
        addresses: vec![own],
        join_addresses: advertised.iter().map(|it| it.parse()).collect::<Result<_, _>>()?,
        ca_fingerprint: pki.fingerprint(),
        credentials: None,
        join_credentials: None,
    };
    let link = through_brokers(settings, pki, feed, common, brokers);
    Ok(StartedLink { addresses: advertised, ..link })
}

async fn listen(
    settings: &Settings,
    pki: &Arc<Pki>,
    feed: Feed,
    common: &Common,
) -> anyhow::Result<StartedLink> {
    let config = DirectConfig {
        listen: settings.controller.listen,
        names: certificate_names(settings),
        common: common.clone(),
        limits: direct::Limits { connections: settings.limits.connections, ..direct::Limits::default() },
    };
    let link = DirectLink::start(config, Arc::clone(pki), feed)
        .await
        .with_context(|| format!("cannot listen on {}", settings.controller.listen))?;
    let shown = format!("listening on {}", link.local_addr());
    let (_, health) = watch::channel(Health::Connected(shown.clone()));
    let addresses = settings.addresses(link.local_addr().port());
    Ok(StartedLink { handle: link.handle(), health, addresses, broker: None, shown })
}

/// The hosts in `controller.addresses`.
pub fn certificate_names(settings: &Settings) -> Vec<String> {
    let host =
        |address: &String| address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_owned();
    settings.controller.addresses.iter().map(host).collect()
}
