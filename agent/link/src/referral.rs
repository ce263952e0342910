//! Asks a controller that stands by where the active one is: CONNECT, and the server reference of the refusal.
//!
//! rumqttc drops the properties of a refusal, so this is a connection of its own. The controller has proved by its
//! certificate that it is of the site, and so must the one that it names.
//!
//! Absent: when this is asked (`connection/try_addresses.rs`), and what the controller says
//! (`controller/src/link/nodes.rs`).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use muster_shared::join::Address;
use rumqttc::v5::mqttbytes::Error;
use rumqttc::v5::mqttbytes::v5::{ConnAck, Connect, ConnectProperties, ConnectReturnCode, Packet};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connection::{PACKET_MAX, Peer};

/// The most bytes of an answer: a reason and an address, with room.
const ANSWER_MAX: usize = 4096;

/// `None`: it names none, or is the active one by now.
///
/// # Errors
/// The controller is gone, or does not speak MQTT 5.
pub async fn ask(peer: &Peer, number: SocketAddr) -> io::Result<Option<Address>> {
    let connector = TlsConnector::from(Arc::clone(&peer.tls));
    let mut stream = connector.connect(number.ip().into(), TcpStream::connect(number).await?).await?;
    let mut bytes = BytesMut::new();
    connect(&peer.id).write(&mut bytes, None).map_err(io::Error::other)?;
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    let mut answer = BytesMut::new();
    loop {
        match Packet::read(&mut answer, Some(PACKET_MAX)) {
            Ok(Packet::ConnAck(ack)) => return Ok(elsewhere(&ack)),
            Ok(_) => return Err(io::Error::other("no CONNACK")),
            Err(Error::InsufficientBytes(_)) if answer.len() < ANSWER_MAX => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn connect(id: &str) -> Packet {
    let mut properties = ConnectProperties::new();
    properties.max_packet_size = Some(PACKET_MAX);
    let connect =
        Connect { keep_alive: 60, client_id: id.to_owned(), clean_start: true, properties: Some(properties) };
    Packet::Connect(connect, None, None)
}

fn elsewhere(ack: &ConnAck) -> Option<Address> {
    let said = ack.properties.as_ref()?.server_reference.as_ref()?;
    if ack.code == ConnectReturnCode::UseAnotherServer { said.parse().ok() } else { None }
}
