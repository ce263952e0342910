//! Links, addresses and routes of the kernel through rtnetlink.
//!
//! The socket belongs to the network namespace of the thread that opens it. Requests are idempotent: adding
//! an existing object, or removing an absent one, is no error.

mod bond;
mod dump;
mod facts;
mod follow;
mod read;
mod route;
mod rule;
mod tap;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures_util::TryStreamExt;
use muster_shared::mac;
use rtnetlink::packet_core::ErrorMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, CacheInfo};
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage};
use rtnetlink::sys::AsyncSocket;
use rtnetlink::{Handle, LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVlan, RouteMessageBuilder};
use thiserror::Error;

pub(crate) use follow::{Cable, Cables};

use super::state::{Address, Route};

/// The time limit of an answer: the kernel answers at once; a dump of a very large host takes about a second.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The lifetimes of a restored IPv6 address that had one, in seconds, preferred and valid: long enough for
/// the next advertisement, which sets the real lifetimes.
const GIVEN_LIFETIMES: (u32, u32) = (3_600, 7_200);

const ENODEV: i32 = 19;
const EEXIST: i32 = 17;
const ESRCH: i32 = 3;
const EADDRNOTAVAIL: i32 = 99;

/// An error of the kernel or of the exchange with it.
#[derive(Debug, Error)]
pub enum NetlinkError {
    #[error("{}{}", std::io::Error::from_raw_os_error(*code), detail.as_ref().map(|d| format!(": {d}")).unwrap_or_default())]
    Kernel {
        code: i32,
        /// The kernel's additional text.
        detail: Option<String>,
    },
    /// There is no such link.
    #[error("there is no interface {0}")]
    NoLink(String),
    /// The socket could not be opened.
    #[error("cannot open a netlink socket")]
    Socket(#[source] std::io::Error),
    /// The kernel gave no answer.
    #[error("the kernel did not answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout,
    /// The answer cannot be parsed, or is too long.
    #[error("{0}")]
    Answer(String),
}

impl NetlinkError {
    /// The errno, if the kernel gave one.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Kernel { code, .. } => Some(*code),
            Self::NoLink(_) => Some(ENODEV),
            Self::Socket(_) | Self::Timeout | Self::Answer(_) => None,
        }
    }
}

impl From<rtnetlink::Error> for NetlinkError {
    fn from(error: rtnetlink::Error) -> Self {
        match error {
            rtnetlink::Error::NetlinkError(message) => {
                Self::Kernel { code: message.raw_code().abs(), detail: extended_ack(&message) }
            }
            other => Self::Answer(other.to_string().chars().take(500).collect()),
        }
    }
}

/// The kernel's own words, after the 16 bytes of the request's header (NETLINK_CAP_ACK).
fn extended_ack(message: &ErrorMessage) -> Option<String> {
    extended_ack_in(message.header.get(16..)?)
}

/// Among the attributes of an error.
pub(super) fn extended_ack_in(mut rest: &[u8]) -> Option<String> {
    const MESSAGE: u16 = 1;
    while let [l0, l1, t0, t1, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(4..length)?;
        if u16::from_ne_bytes([t0, t1]) == MESSAGE {
            let text = value.split(|byte| *byte == 0).next()?;
            return Some(String::from_utf8_lossy(text).trim_end_matches('.').to_owned());
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}

type Result<T> = std::result::Result<T, NetlinkError>;

/// A connection to the kernel.
pub struct Netlink {
    handle: Handle,
    /// Indexes by name, cached until links come and go.
    indexes: BTreeMap<String, u32>,
}

impl Netlink {
    /// Opens a socket in this thread's namespace; needs a tokio runtime with I/O and time.
    pub fn open() -> Result<Self> {
        let (mut connection, handle, _) = rtnetlink::new_connection().map_err(NetlinkError::Socket)?;
        let socket = connection.socket_mut().socket_mut();
        // Only improves the kernel's error texts; an old kernel has none.
        let _ = socket.set_cap_ack(true).and_then(|()| socket.set_ext_ack(true));
        tokio::spawn(connection);
        Ok(Self { handle, indexes: BTreeMap::new() })
    }

    /// Forgets the cached indexes: links have come or gone.
    pub fn forget_links(&mut self) {
        self.indexes.clear();
    }

    /// The number of the link through which packets to `peer` leave; `None` without a route, or with
    /// several links.
    pub async fn link_to(&mut self, peer: IpAddr) -> Result<Option<u32>> {
        let builder = match peer {
            IpAddr::V4(peer) => RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(peer, 32).build(),
            IpAddr::V6(peer) => RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(peer, 128).build(),
        };
        let mut routes = Box::pin(self.handle.route().get(builder).execute());
        let route = within(routes.try_next()).await?;
        let attributes = route.map(|route| route.attributes).unwrap_or_default();
        Ok(attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        }))
    }

    /// The kernel's number of a link.
    pub async fn index(&mut self, name: &str) -> Result<u32> {
        if let Some(index) = self.indexes.get(name) {
            return Ok(*index);
        }
        let mut links = Box::pin(self.handle.link().get().match_name(name).execute());
        match within(links.try_next()).await {
            Ok(Some(link)) => {
                self.indexes.insert(name.to_owned(), link.header.index);
                Ok(link.header.index)
            }
            Ok(None) => Err(NetlinkError::NoLink(name.to_owned())),
            Err(error) if error.code() == Some(ENODEV) => Err(NetlinkError::NoLink(name.to_owned())),
            Err(error) => Err(error),
        }
    }

    /// A Linux bridge, down.
    pub async fn create_bridge(&mut self, name: &str) -> Result<()> {
        self.create(LinkMessageBuilder::<LinkBridge>::new(name).build()).await
    }

    /// An 802.1Q link, down.
    pub async fn create_vlan(&mut self, name: &str, device: &str, id: u16) -> Result<()> {
        let device = self.index(device).await?;
        self.create(LinkVlan::new(name, device, id).build()).await
    }

    async fn create(&mut self, message: LinkMessage) -> Result<()> {
        self.forget_links();
        done_by(within(self.handle.link().add(message).execute()).await, &[EEXIST])
    }

    pub async fn delete(&mut self, name: &str) -> Result<()> {
        let index = match self.index(name).await {
            Err(NetlinkError::NoLink(_)) => return Ok(()),
            index => index?,
        };
        self.forget_links();
        done_by(within(self.handle.link().del(index).execute()).await, &[ENODEV])
    }

    /// Into the bridge `master`, or out of any.
    pub async fn set_master(&mut self, name: &str, master: Option<&str>) -> Result<()> {
        let master = match master {
            Some(master) => self.index(master).await?,
            None => 0,
        };
        self.change(name, |link| link.controller(master)).await
    }

    /// `mtu` is in bytes.
    pub async fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<()> {
        self.change(name, |link| link.mtu(mtu)).await
    }

    /// `mac` with colons.
    pub async fn set_mac(&mut self, name: &str, mac: &str) -> Result<()> {
        let octets = octets(mac)?;
        self.change(name, |link| link.address(octets)).await
    }

    /// Administratively up or down.
    pub async fn set_up(&mut self, name: &str, up: bool) -> Result<()> {
        self.change(name, |link| if up { link.up() } else { link.down() }).await
    }

    async fn change(
        &mut self,
        name: &str,
        how: impl FnOnce(LinkMessageBuilder<LinkUnspec>) -> LinkMessageBuilder<LinkUnspec>,
    ) -> Result<()> {
        let message = how(LinkUnspec::new_with_index(self.index(name).await?)).build();
        within(self.handle.link().change(message).execute()).await
    }

    /// Adds an address. An IPv6 address that `moved` from another link of this host skips duplicate address
    /// detection, which would leave it unusable for a second.
    pub async fn add_address(&mut self, link: &str, address: &Address, moved: bool) -> Result<()> {
        let index = self.index(link).await?;
        let mut request = self.handle.address().add(index, address.net.addr(), address.net.prefix_len());
        adapt(request.message_mut(), address, moved);
        done_by(within(request.execute()).await, &[EEXIST])
    }

    /// Makes an existing address permanent, without a lifetime.
    pub async fn keep_address(&mut self, link: &str, address: &Address) -> Result<()> {
        let index = self.index(link).await?;
        let mut request = self.handle.address().add(index, address.net.addr(), address.net.prefix_len());
        adapt(request.message_mut(), address, false);
        within(request.replace().execute()).await
    }

    pub async fn remove_address(&mut self, link: &str, address: &Address) -> Result<()> {
        let index = match self.index(link).await {
            Err(NetlinkError::NoLink(_)) => return Ok(()),
            index => index?,
        };
        let mut request = self.handle.address().add(index, address.net.addr(), address.net.prefix_len());
        let mut message = std::mem::take(request.message_mut());
        adapt(&mut message, address, false);
        done_by(within(self.handle.address().del(message).execute()).await, &[EADDRNOTAVAIL])
    }

    pub async fn add_route(&mut self, link: &str, route: &Route) -> Result<()> {
        let message = self.route_message(link, route).await?;
        done_by(within(self.handle.route().add(message).execute()).await, &[EEXIST])
    }

    /// Replaces the route with the same key, at once: a packet always finds one of the two.
    pub async fn replace_route(&mut self, link: &str, route: &Route) -> Result<()> {
        let message = self.route_message(link, route).await?;
        done_by(within(self.handle.route().add(message).replace().execute()).await, &[EEXIST])
    }

    /// Removes exactly that route.
    pub async fn remove_route(&mut self, link: &str, route: &Route) -> Result<()> {
        let message = match self.route_message(link, route).await {
            // The route vanished with its link.
            Err(NetlinkError::NoLink(_)) => return Ok(()),
            message => message?,
        };
        done_by(within(self.handle.route().del(message).execute()).await, &[ESRCH])
    }

    async fn route_message(&mut self, link: &str, route: &Route) -> Result<RouteMessage> {
        let mut indexes = vec![self.index(link).await?];
        for hop in &route.hops {
            indexes.push(self.index(&hop.link).await?);
        }
        Ok(route::message(&indexes, route))
    }
}

fn octets(text: &str) -> Result<Vec<u8>> {
    let octets = mac::parse(text).map(Vec::from);
    octets.ok_or_else(|| NetlinkError::Answer(format!("{text} is no MAC address")))
}

async fn within<T>(request: impl Future<Output = std::result::Result<T, rtnetlink::Error>>) -> Result<T> {
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, request).await;
    Ok(answer.map_err(|_| NetlinkError::Timeout)??)
}

/// Treats errors that mean "already done" as success.
fn done_by(result: Result<()>, codes: &[i32]) -> Result<()> {
    match result {
        Err(NetlinkError::Kernel { code, .. }) if codes.contains(&code) => Ok(()),
        result => result,
    }
}

fn adapt(message: &mut AddressMessage, address: &Address, moved: bool) {
    message.header.scope = address.scope.into();
    let attributes = &mut message.attributes;
    attributes.retain(|attribute| !matches!(attribute, AddressAttribute::Broadcast(_)));
    attributes.extend(address.broadcast.0.map(AddressAttribute::Broadcast));
    if let Some(peer) = address.peer {
        attributes.retain(|attribute| !matches!(attribute, AddressAttribute::Address(_)));
        attributes.push(AddressAttribute::Address(peer));
    }
    let mut flags = AddressFlags::empty();
    flags.set(AddressFlags::Noprefixroute, address.noprefixroute);
    flags.set(AddressFlags::Nodad, moved && address.net.addr().is_ipv6());
    if !flags.is_empty() {
        attributes.push(AddressAttribute::Flags(flags));
    }
    if address.given {
        let mut lifetimes = CacheInfo::default();
        (lifetimes.ifa_preferred, lifetimes.ifa_valid) = GIVEN_LIFETIMES;
        attributes.push(AddressAttribute::CacheInfo(lifetimes));
    }
    if address.metric != 0 {
        attributes.push(AddressAttribute::RoutePriority(address.metric));
    }
}
