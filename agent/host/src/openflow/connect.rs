//! The beginning of a conversation: versions, ports, settings.

use std::path::Path;

use muster_shared::model::flow::DeviceName;

use super::connection::{Connection, MONITOR_XID};
use super::wire::{self, GROUP_ANY, Put, TABLE_ALL, VERSION, kind, part, port};
use super::{Lost, Switch, ask};

impl Switch {
    pub(super) async fn open(rundir: &Path, device: &DeviceName) -> Result<Self, Lost> {
        let bridge = device.bridge.as_str();
        let path = rundir.join(format!("{bridge}.mgmt"));
        let cannot =
            |source| Lost::Connect { bridge: bridge.to_owned(), path: path.display().to_string(), source };
        let mut connection = Connection::open(&path).await.map_err(cannot)?;
        greet(&mut connection, bridge).await?;
        let instance = instance(connection.peer_pid(), &path);
        ask_to_be_told(&mut connection);
        learn_ports(&mut connection).await?;
        let device = device.clone();
        let (encoder, former) = Default::default();
        Ok(Self { device, connection, encoder, former, instance, last_bundle: 0 })
    }
}

async fn greet(connection: &mut Connection, bridge: &str) -> Result<(), Lost> {
    // OFPHET_VERSIONBITMAP: 1.4 and nothing else.
    connection.say(kind::HELLO, |out| {
        out.u16(1);
        out.u16(8);
        out.u32(1 << VERSION);
    });
    let message = connection.receive().await?;
    let speaks = match message.kind {
        kind::HELLO => speaks_ours(connection.body(&message), message.version),
        _ => false,
    };
    if speaks { Ok(()) } else { Err(Lost::Version(bridge.to_owned())) }
}

/// Whether a hello offers our version.
fn speaks_ours(body: &[u8], version: u8) -> bool {
    let mut elements = wire::Take(body);
    while let Some(element) = elements.item(2, 4) {
        if let [0, 1, _, _, bitmap @ ..] = element {
            return bitmap.get(3).is_some_and(|versions| versions >> VERSION & 1 != 0);
        }
        let padding = element.len().next_multiple_of(8) - element.len();
        if elements.bytes(padding).is_none() {
            break;
        }
    }
    version >= VERSION
}

/// Subscribes to changes of ports, ended rules, and changes of rules by others.
fn ask_to_be_told(connection: &mut Connection) {
    connection.say_as(kind::SET_ASYNC, MONITOR_XID, |out| {
        // OFPACPT_…: packets in, ports, flows removed, groups and meters that others change; each for slaves,
        // then for other roles.
        let told =
            [(0u16, 0u32), (1, 0), (2, 0b111), (3, 0b111), (4, 0b11), (5, 0b11), (10, 0b11), (11, 0b11)];
        for (kind, reasons) in told {
            out.u16(kind);
            out.u16(8);
            out.u32(reasons);
        }
    });
    connection.say_as(kind::MULTIPART_REQUEST, MONITOR_XID, |out| {
        out.u16(part::FLOW_MONITOR);
        out.zeros(2 + 4);
        out.u32(1); // the monitor's number
        out.u32(port::ANY);
        out.u32(GROUP_ANY);
        out.u16(1 << 1 | 1 << 2 | 1 << 3); // added, removed, modified; ours abbreviated
        out.u8(TABLE_ALL);
        out.u8(0); // add the monitor
        ask::put_match(out, &[]);
    });
}

async fn learn_ports(connection: &mut Connection) -> Result<(), Lost> {
    let xid = connection.ask(part::PORT_DESC, |_| {});
    let mut more = true;
    while more {
        let (message, goes_on) = connection.part(part::PORT_DESC, xid).await?;
        more = goes_on;
        connection.add_ports(&message).ok_or(Lost::Garbled("a port"))?;
    }
    Ok(())
}

/// Identifies the switch's process by its number and start time, or else by its socket.
fn instance(pid: Option<i32>, socket: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let started = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The process name may contain any character; the start time is the 20th field after it.
        let started: u64 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
        Some(started << 22 ^ u64::from(pid.unsigned_abs()))
    };
    let of_socket = || {
        let made = socket.metadata().ok()?;
        Some(made.ino() << 32 ^ made.ctime().unsigned_abs() ^ made.ctime_nsec().unsigned_abs() << 20)
    };
    pid.filter(|pid| *pid > 0).and_then(started).or_else(of_socket).unwrap_or_default()
}
