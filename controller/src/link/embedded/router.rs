//! rumqttd's router: a thread of its own, which carries messages from topic to topic.
//!
//! The router sends what it has by a log per filter, in memory, and drops what does not fit; the segments of both ends
//! find what is missing. A router whose thread has ended is replaced: all connections through it end, and begin again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt as _;
use muster_shared::SiteId;
use rumqttd::local::{LinkBuilder, LinkError, LinkRx, LinkTx};
use rumqttd::protocol::{Disconnect, DisconnectReasonCode, Packet, Publish};
use rumqttd::{RouterConfig, SegmentConfig};
use thiserror::Error;

use super::CONNECTIONS_MAX;

const MIB: usize = 1024 * 1024;
/// The segments for messages of all nodes: as much as may wait for the driver.
const FROM_NODES: SegmentConfig = SegmentConfig { max_segment_size: 4 * MIB, max_segment_count: 16 };
/// The segments for messages to one node: its window of 16 packets of 256 KiB, and the segment that is being filled.
const TO_A_NODE: SegmentConfig = SegmentConfig { max_segment_size: MIB, max_segment_count: 5 };
/// Requests to join, their answers, and notices.
const SMALL: SegmentConfig = SegmentConfig { max_segment_size: MIB / 4, max_segment_count: 2 };
/// Messages that the router gives a client at a time.
const OUTGOING: u64 = 64;

type Connect = Box<dyn Fn(&str) -> Result<RouterLink, RouterError> + Send>;

/// The reason why a client is not connected to the router.
#[derive(Debug, Error)]
pub(super) enum RouterError {
    #[error("the router takes no more clients, or not this one")]
    NotTaken,
    #[error("the router has ended")]
    Ended,
}

impl From<LinkError> for RouterError {
    fn from(error: LinkError) -> Self {
        match error {
            // It drops what it does not take.
            LinkError::Recv(_) => RouterError::NotTaken,
            _ => RouterError::Ended,
        }
    }
}

/// The router, and how to make another.
pub(super) struct Router {
    running: Mutex<Running>,
    make: Box<dyn Fn() -> Connect + Send + Sync>,
}

struct Running {
    connect: Connect,
    /// Says what clients left behind. Its own messages have no acknowledgement, so nothing is ever read from it.
    wills: RouterLink,
}

/// A client's connection to the router; dropping it tells the router.
pub(super) struct RouterLink {
    pub(super) tx: LinkTx,
    pub(super) rx: LinkRx,
}

impl Router {
    /// Starts a router for the topics of this site.
    ///
    /// # Errors
    /// The router cannot be reached right away.
    pub(super) fn start(site: &SiteId) -> Result<Self, RouterError> {
        let config = config(site);
        Self::with(Box::new(move || {
            let router = rumqttd::Router::new(0, config.clone()).spawn();
            Box::new(move |id| {
                // Waits for an answer of the router's thread, which waits for nobody.
                let (tx, rx, _) = LinkBuilder::new(id, router.clone()).dynamic_filters(true).build()?;
                Ok(RouterLink { tx, rx })
            })
        }))
    }

    fn with(make: Box<dyn Fn() -> Connect + Send + Sync>) -> Result<Self, RouterError> {
        let running = Mutex::new(Running::start(&make)?);
        Ok(Self { running, make })
    }

    /// Connects a client with this id; the one that had it before is disconnected.
    ///
    /// # Errors
    /// The router does not take it, or has ended and cannot be replaced.
    pub(super) fn connect(&self, id: &str) -> Result<RouterLink, RouterError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match (running.connect)(id) {
            Err(RouterError::Ended) => {
                tracing::error!("the embedded broker's router has ended, and is started again");
                *running = Running::start(&self.make)?;
                (running.connect)(id)
            }
            other => other,
        }
    }

    /// Says a client's will.
    pub(super) fn say(&self, topic: String, payload: Bytes) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.wills.send(Packet::Publish(Publish::new(Bytes::from(topic), payload, false), None));
    }
}

impl Running {
    fn start(make: &(dyn Fn() -> Connect + Send + Sync)) -> Result<Self, RouterError> {
        let connect = make();
        let wills = connect("wills")?;
        Ok(Self { connect, wills })
    }
}

impl RouterLink {
    /// Hands a packet to the router. Where that has ended, so has this link's other half.
    pub(super) fn send(&mut self, packet: Packet) {
        // The future has nothing to wait for: the router's queue takes 1,000 events, and its thread waits for nobody.
        drop(self.tx.send(packet).now_or_never());
    }
}

impl Drop for RouterLink {
    fn drop(&mut self) {
        self.send(Packet::Disconnect(
            Disconnect { reason_code: DisconnectReasonCode::NormalDisconnection },
            None,
        ));
    }
}

fn config(site: &SiteId) -> RouterConfig {
    let logs =
        [("+/down", TO_A_NODE), ("join/+/request", SMALL), ("join/+/answer", SMALL), ("controller", SMALL)];
    RouterConfig {
        max_connections: CONNECTIONS_MAX + 1,
        max_outgoing_packet_count: OUTGOING,
        max_segment_size: FROM_NODES.max_segment_size,
        max_segment_count: FROM_NODES.max_segment_count,
        custom_segment: Some(HashMap::from(
            logs.map(|(filter, log)| (format!("muster/v1/{site}/{filter}"), log)),
        )),
        ..RouterConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The first router ends after its first client; the next one stays.
    #[test]
    fn a_router_that_has_ended_is_replaced() {
        let made = Arc::new(AtomicUsize::new(0));
        let make = {
            let made = Arc::clone(&made);
            move || -> Connect {
                let number = made.fetch_add(1, Ordering::Relaxed);
                let router = rumqttd::Router::new(0, config(&"lab".parse().unwrap())).spawn();
                let clients = AtomicUsize::new(0);
                Box::new(move |id| {
                    if number == 0 && clients.fetch_add(1, Ordering::Relaxed) > 0 {
                        return Err(RouterError::Ended);
                    }
                    let (tx, rx, _) = LinkBuilder::new(id, router.clone()).build()?;
                    Ok(RouterLink { tx, rx })
                })
            }
        };
        let router = Router::with(Box::new(make)).unwrap();
        assert!(router.connect("node:web-1").is_ok());
        assert_eq!(made.load(Ordering::Relaxed), 2, "replaced");
        assert!(router.connect("node:web-2").is_ok());
        assert!(router.connect("not/an/id").is_err(), "what it does not take is no end of it");
        assert!(router.connect("node:web-3").is_ok());
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }
}
