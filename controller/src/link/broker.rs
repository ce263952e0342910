//! Link 2: the controller is a client of an external MQTT 5 broker, as its agents are.
//!
//! ```text
//!   agents ⇄ broker ⇄ one connection ─ Router ─┬─ Talk of web-1 ─ inbox ─▶ driver
//!                                              ├─ Talk of web-2      ◀─ outbound
//!                                              └─ joiners
//! ```
//!
//! The broker is not trusted. It carries sealed packets; what it drops, repeats, reorders or makes up costs a
//! connection, and so time. A connection of a node is one of segments (`muster_shared::segment`): it begins with the
//! first packet of the node's session, once that has opened, and ends with a reset, with a packet that is missing, with
//! silence, or when this side loses its broker. A connection to a broker begins with a notice to all nodes, for what
//! they said meanwhile is lost.
//!
//! All controllers of a site have one client id, so a second one at the broker would push the first one out. Only the
//! holder of the lease is there: the others wait, and one whose lease is over leaves.
//!
//! Absent: when the connection of one node ends (`broker/talk.rs`); what is the same for every link (`nodes.rs`,
//! `inbox.rs`, `outbound.rs`); and retained messages and sessions of the broker, which would deliver what was said long
//! ago.

mod router;
mod talk;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use muster_broker::{
    BrokerError, Client, Options, PACKET_MAX, Received, Trust, client_config, connect_first,
};
use muster_shared::join::{Address, Credentials};
use muster_shared::topic;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use self::router::Router;
use super::intake::Feed;
use super::nodes::Nodes;
use super::reason::{Reason, Refusal};
use super::{Common, LinkHandle};
use crate::pki::{Pki, PkiError};

/// The broker is asked whether it is there this often, and has half of that again to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Publishes on their way to the broker, which may take fewer at a time (Mosquitto: `max_inflight_messages`).
const INFLIGHT_MAX: u16 = 1024;
/// Publishes that wait for that, 256 KiB each at most. What waits for one node is in its own queue.
const REQUESTS_MAX: usize = 256;
/// Between two attempts to reach a broker: at first, and at most. All addresses are tried in one attempt.
const AGAIN_FIRST: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(15);
/// A connection that held for so long was a good one.
const GOOD: Duration = Duration::from_secs(60);
/// The time limit of the driver's answers to joiners.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The time after which a stopping link no longer waits for what it has to say.
const STOP: Duration = Duration::from_secs(2);

/// The brokers, and what to show there.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// To be tried in this order.
    pub brokers: Vec<Address>,
    /// [`fingerprint`](muster_shared::join::fingerprint) of the CA of their certificates.
    pub ca_fingerprint: [u8; 32],
    /// The credentials, where the broker does not take this controller's name from its certificate.
    pub credentials: Option<Credentials>,
    /// Nodes connected at a time.
    pub connections: usize,
    pub common: Common,
}

/// Whether there is a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// This controller does not hold the lease, and stays away.
    Waiting,
    /// None has answered yet.
    Connecting,
    /// To this one.
    Connected(String),
    /// None can be used: why, for an operator.
    Failed(String),
}

/// The end of a connection that has no fault.
enum Left {
    /// The link was told to stop.
    Stopped,
    /// This controller no longer holds the lease.
    LeaseOver,
}

/// The reason why no broker can be used.
#[derive(Debug, Error)]
enum Unusable {
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error("this controller cannot make its own certificate: {0}")]
    Certificate(#[from] PkiError),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// The link, trying to reach a broker.
#[derive(Debug)]
pub struct BrokerLink {
    handle: LinkHandle,
    health: watch::Receiver<Health>,
}

impl BrokerLink {
    /// Begins to connect, and puts events into `feed`. A broker that is away is no error: it is awaited.
    pub fn start(config: BrokerConfig, pki: Arc<Pki>, feed: Feed) -> BrokerLink {
        let nodes = Nodes::new(pki, feed, config.common.clone(), config.connections, ANSWER_WITHIN);
        let nodes = Arc::new(nodes);
        let (stop, stopping) = watch::channel(false);
        let (done, stopped) = watch::channel(false);
        let (tell, health) = watch::channel(Health::Connecting);
        let handle = LinkHandle::new(Arc::clone(&nodes), stop, stopped);
        tokio::spawn(async move {
            let heartbeats = Arc::clone(&nodes);
            let handing_on = tokio::spawn(async move { heartbeats.hand_heartbeats_on().await });
            run(&nodes, &config, &tell, stopping).await;
            handing_on.abort();
            done.send_replace(true);
        });
        BrokerLink { handle, health }
    }

    /// A handle for sending and closing.
    pub fn handle(&self) -> LinkHandle {
        self.handle.clone()
    }

    /// Whether there is a broker, now and later.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }
}

/// Connects again and again while this controller holds the lease, until it is told to stop.
async fn run(
    nodes: &Arc<Nodes>,
    config: &BrokerConfig,
    health: &watch::Sender<Health>,
    mut stopping: watch::Receiver<bool>,
) {
    let tenure = &nodes.common.tenure;
    let mut pause = AGAIN_FIRST;
    loop {
        if !tenure.holds() {
            tracing::info!("without the lease, this controller stays away from the broker");
            health.send_replace(Health::Waiting);
            tokio::select! {
                () = tenure.until_held() => {}
                () = told(&mut stopping) => return,
            }
            health.send_replace(Health::Connecting);
            pause = AGAIN_FIRST;
        }
        let begun = Instant::now();
        let why = match serve(nodes, config, health, &mut stopping).await {
            Ok(Left::Stopped) => return,
            Ok(Left::LeaseOver) => continue,
            // Another controller has come in its place.
            Err(_) if !tenure.holds() => continue,
            Err(error) => error.to_string(),
        };
        pause = if begun.elapsed() > GOOD { AGAIN_FIRST } else { pause };
        let failed = Health::Failed(why.clone());
        if health.send_replace(failed.clone()) != failed {
            tracing::error!("{why}; agents cannot be reached until then");
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = told(&mut stopping) => return,
        }
        pause = (pause * 2).min(AGAIN_MAX);
    }
}

/// Waits for the order to stop; dropping the last handle means it as well.
async fn told(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Serves a connection to a broker, to its end, or until it is told to stop or the lease is over.
async fn serve(
    nodes: &Arc<Nodes>,
    config: &BrokerConfig,
    health: &watch::Sender<Health>,
    stopping: &mut watch::Receiver<bool>,
) -> Result<Left, Unusable> {
    let mut over = pin!(nodes.common.tenure.until_over());
    let connected = tokio::select! {
        connected = connect(&nodes.pki, config) => connected?,
        () = told(stopping) => return Ok(Left::Stopped),
        () = &mut over => return Ok(Left::LeaseOver),
    };
    let Client { sender, mut receiver } = connected;
    tracing::info!(broker = receiver.address(), "connected to the broker");
    health.send_replace(Health::Connected(receiver.address().to_owned()));
    let mut router = Router::new(Arc::clone(nodes), sender);
    router.begin();
    let left = loop {
        tokio::select! {
            received = receiver.next() => {
                if let Received::Message(message) = received? {
                    router.incoming(message);
                }
            }
            () = told(stopping) => break Left::Stopped,
            () = &mut over => break Left::LeaseOver,
        }
    };
    // Nodes are told, and nobody new comes in.
    match left {
        Left::Stopped => nodes.registry.close(),
        Left::LeaseOver => {
            let why = "this controller no longer holds the lease";
            nodes.registry.end(&Refusal::new(Reason::ServerUnavailable, why));
        }
    }
    let saying = async {
        while router.has_talks() {
            tokio::select! {
                received = receiver.next() => drop(received?),
                () = router.one_ended() => {}
            }
        }
        // The broker closes the connection once it has everything.
        tokio::join!(router.leave(), async { while receiver.next().await.is_ok() {} });
        Ok::<(), BrokerError>(())
    };
    // Whatever goes wrong now: it is over.
    let _ = timeout(STOP, saying).await;
    Ok(left)
}

async fn connect(pki: &Pki, config: &BrokerConfig) -> Result<Client, Unusable> {
    let own = pki.client()?;
    let tls = client_config(Trust::Broker(config.ca_fingerprint), Some((&own.certificate, &own.key)))?;
    let options = Options {
        client_id: own.name,
        credentials: config.credentials.clone(),
        tls: Arc::new(tls),
        keep_alive: KEEP_ALIVE,
        will: None,
        subscribe: vec![topic::all_up(pki.site()), topic::all_join_requests(pki.site())],
        packet_max: PACKET_MAX,
        inflight: INFLIGHT_MAX,
        requests: REQUESTS_MAX,
    };
    Ok(connect_first(&config.brokers, &options).await?)
}

impl Health {
    /// The fault, for an operator.
    pub fn problem(&self) -> Option<String> {
        match self {
            Health::Connected(_) => None,
            Health::Waiting => {
                Some("without the lease, this controller stays away from the broker".to_owned())
            }
            Health::Connecting => Some("no broker has answered yet".to_owned()),
            Health::Failed(why) => Some(why.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::MonoTime;
    use tokio::net::TcpListener;

    use super::*;
    use crate::lease::Tenure;
    use crate::link::intake::{self, fair::Bounds};

    /// A test that waits longer has failed.
    const PATIENCE: Duration = Duration::from_secs(60);
    /// Longer than any test.
    const FAR: MonoTime = MonoTime(Duration::from_secs(u32::MAX as u64));

    async fn until(health: &mut watch::Receiver<Health>, wanted: Health) {
        let is_it = timeout(PATIENCE, health.wait_for(|health| *health == wanted)).await;
        is_it.unwrap_or_else(|_| panic!("waited in vain for {wanted:?}")).unwrap();
    }

    /// The broker never answers.
    #[tokio::test]
    async fn only_the_holder_of_the_lease_comes_to_the_broker() {
        let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (feed, _inbox) = intake::channel(Bounds::default());
        let tenure = Tenure::none();
        let config = BrokerConfig {
            brokers: vec![broker.local_addr().unwrap().to_string().parse().unwrap()],
            ca_fingerprint: [7; 32],
            credentials: None,
            connections: 8,
            common: Common::new(tenure.clone()),
        };
        let link = BrokerLink::start(config, Arc::new(Pki::open(dir.path()).unwrap()), feed);
        let mut health = link.health();
        for _ in 0..2 {
            until(&mut health, Health::Waiting).await;
            tenure.set(FAR);
            let (_connection, _) = timeout(PATIENCE, broker.accept()).await.expect("a client").unwrap();
            tenure.resign();
        }
        until(&mut health, Health::Waiting).await;
        link.handle().shutdown().await;
    }
}
