//! A client that sends what it is told to, right or wrong.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use muster_shared::topic;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    Connect, ConnectProperties, ConnectReturnCode, Filter, Packet, PubAck, Publish, Subscribe,
};
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::world::{Node, PATIENCE, World, random};

pub struct Raw {
    pub stream: TlsStream<TcpStream>,
    input: BytesMut,
}

/// A TCP connection from one of this host's addresses.
pub async fn tcp(to: SocketAddr, from: IpAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from, 0)).unwrap();
    socket.connect(to).await.unwrap()
}

pub fn localhost(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

impl Raw {
    pub async fn new(world: &World, tls: Arc<ClientConfig>, from: IpAddr) -> Self {
        Self::to(world.address(), tls, from).await
    }

    pub async fn to(address: SocketAddr, tls: Arc<ClientConfig>, from: IpAddr) -> Self {
        Self::try_to(address, tls, from).await.expect("let in")
    }

    /// None if it is not let in.
    pub async fn try_to(address: SocketAddr, tls: Arc<ClientConfig>, from: IpAddr) -> Option<Self> {
        let tcp = tcp(address, from).await;
        let stream = TlsConnector::from(tls).connect("localhost".try_into().unwrap(), tcp).await.ok()?;
        Some(Self { stream, input: BytesMut::new() })
    }

    /// A node, connected, subscribed, and with a session.
    pub async fn node(world: &World, node: &Node, qos: QoS) -> Self {
        let mut raw = Self::new(world, world.tls(node.identity()), localhost(1)).await;
        assert_eq!(raw.connect(node.id.as_str()).await, ConnectReturnCode::Success);
        raw.subscribe(&topic::down(world.site(), &node.id), qos).await;
        assert!(matches!(raw.next().await, Some(Packet::SubAck(_))));
        raw.begin(&topic::up(world.site(), &node.id), node).await;
        raw
    }

    /// Begins a session of the node, which is subscribed.
    pub async fn begin(&mut self, up: &str, node: &Node) {
        let greeting = node.seal.greet_again(random(), None).unwrap();
        self.publish(up, greeting.packet().to_vec()).await;
        let Some(Packet::Publish(answer)) = self.next().await else { panic!("an answer") };
        if answer.qos == QoS::AtLeastOnce {
            self.send(&Packet::PubAck(PubAck::new(answer.pkid, None))).await;
        }
        let session = greeting.accept(&node.seal, &answer.payload).unwrap();
        *node.session.lock().unwrap() = Some(session);
        self.publish(up, node.pack_nothing()).await;
    }

    /// CONNECT; what comes back.
    pub async fn connect(&mut self, id: &str) -> ConnectReturnCode {
        self.connect_with(id, 60, None).await
    }

    pub async fn connect_with(
        &mut self,
        id: &str,
        keep_alive: u16,
        properties: Option<ConnectProperties>,
    ) -> ConnectReturnCode {
        self.send(&connect(id, keep_alive, properties)).await;
        match self.next().await {
            Some(Packet::ConnAck(ack)) => ack.code,
            other => panic!("{other:?}"),
        }
    }

    pub async fn subscribe(&mut self, topic: &str, qos: QoS) {
        self.send(&subscribe(topic, qos)).await;
    }

    pub async fn publish(&mut self, topic: &str, payload: Vec<u8>) {
        self.send(&publish(topic, QoS::AtMostOnce, payload)).await;
    }

    pub async fn send(&mut self, packet: &Packet) {
        let mut bytes = BytesMut::new();
        packet.write(&mut bytes, None).unwrap();
        self.bytes(&bytes).await;
    }

    /// May fail, for the server may have gone: that shows when reading.
    pub async fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.flush().await;
    }

    /// The next packet; `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<Packet> {
        loop {
            match Packet::read(&mut self.input, None) {
                Ok(packet) => return Some(packet),
                Err(rumqttc::v5::mqttbytes::Error::InsufficientBytes(_)) => {}
                Err(error) => panic!("{error}"),
            }
            let read =
                timeout(PATIENCE, self.stream.read_buf(&mut self.input)).await.expect("bytes or an end");
            if read.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// Reads to the end; the reason the server gave.
    pub async fn disconnected(&mut self) -> Option<u8> {
        let mut reason = None;
        while let Some(packet) = self.next().await {
            if let Packet::Disconnect(disconnect) = packet {
                reason = Some(disconnect.reason_code as u8);
            }
        }
        reason
    }
}

pub fn connect(id: &str, keep_alive: u16, properties: Option<ConnectProperties>) -> Packet {
    let connect = Connect { keep_alive, client_id: id.into(), clean_start: true, properties };
    Packet::Connect(connect, None, None)
}

pub fn subscribe(topic: &str, qos: QoS) -> Packet {
    let mut subscribe = Subscribe::new(Filter::new(topic, qos), None);
    subscribe.pkid = 1;
    Packet::Subscribe(subscribe)
}

pub fn publish(topic: &str, qos: QoS, payload: Vec<u8>) -> Packet {
    let mut publish = Publish::new(topic, qos, Bytes::from(payload), None);
    publish.pkid = 1;
    Packet::Publish(publish)
}
