//! A client of a broker that tries what it may.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use muster_agent_link::Identity;
use muster_broker::{BrokerError, Client, Options, PACKET_MAX, Received, Trust, client_config};
use muster_shared::join::{Address, Credentials};
use muster_testbed::PATIENCE;
use rumqttc::v5::mqttbytes::QoS;

/// A client that connects to a broker.
pub struct Probe {
    address: Address,
    ca_fingerprint: [u8; 32],
    identity: Option<Identity>,
    credentials: Option<Credentials>,
}

impl Probe {
    /// Without certificate and user, until [`Probe::node`] or [`Probe::user`] says otherwise.
    pub fn new(address: &str, ca_fingerprint: [u8; 32]) -> Self {
        Self { address: address.parse().unwrap(), ca_fingerprint, identity: None, credentials: None }
    }

    /// With the certificate of the agent that has this state directory.
    pub fn node(self, state: &Path) -> Self {
        let record = fs::read(state.join("identity")).unwrap();
        // Behind the record's head: `agent/src/record.rs`.
        Self { identity: Some(postcard::from_bytes(&record[8 + 16..]).unwrap()), ..self }
    }

    pub fn user(self, user: &str, password: &str) -> Self {
        Self { credentials: Some(Credentials { user: user.into(), password: password.into() }), ..self }
    }

    /// Connects with this client id and subscribes to `filter`. With a topic, says something there, and waits until the
    /// broker took it.
    ///
    /// # Errors
    /// The broker refuses that.
    pub fn tries(&self, client_id: &str, filter: &str, topic: Option<&str>) -> Result<(), BrokerError> {
        let own = self.identity.as_ref().map(|own| (&own.certificate_der[..], &own.key_der[..]));
        let options = Options {
            client_id: client_id.to_owned(),
            credentials: self.credentials.clone(),
            tls: Arc::new(client_config(Trust::Broker(self.ca_fingerprint), own).unwrap()),
            keep_alive: PATIENCE,
            will: None,
            subscribe: vec![filter.to_owned()],
            packet_max: PACKET_MAX,
            inflight: 1,
            requests: 1,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let Client { sender, mut receiver } = muster_broker::connect(&self.address, options).await?;
            let Some(topic) = topic else { return Ok(()) };
            sender.publish(topic, QoS::AtLeastOnce, false, "x").await.unwrap();
            loop {
                match receiver.next().await? {
                    Received::Taken => return Ok(()),
                    Received::Message(_) | Received::Other => {}
                }
            }
        })
    }
}
