//! Bonds: their options by the numbers of the kernel's attributes.
//!
//! Absent: which options a document may have (`shared/src/model/network/bond.rs`).

use muster_shared::model::network::{BondOptions, LinkName};
use rtnetlink::packet_core::{DefaultNla, Nla};
use rtnetlink::packet_route::link::{InfoBond, LinkAttribute};
use rtnetlink::{LinkBond, LinkMessageBuilder};

use super::{Netlink, Result, octets, within};

/// `IFLA_BOND_PRIMARY`
const PRIMARY: u16 = 11;

impl Netlink {
    /// Makes a bond without members, down. Without a MAC address, the bond takes that of its first member, or
    /// one of udev's.
    pub async fn create_bond(&mut self, name: &str, options: &BondOptions, mac: Option<&str>) -> Result<()> {
        let mut message = message(name, options);
        if let Some(mac) = mac {
            message = message.address(octets(mac)?);
        }
        self.create(message.build()).await
    }

    /// Sets options that a bond accepts also while it has members.
    pub async fn set_bond(&mut self, name: &str, options: &BondOptions) -> Result<()> {
        self.change_bond(name, message(name, options)).await
    }

    /// Sets the member that the bond prefers, or none.
    pub async fn set_primary(&mut self, name: &str, primary: Option<&str>) -> Result<()> {
        let index = match primary {
            Some(primary) => self.index(primary).await?,
            None => 0,
        };
        self.change_bond(name, LinkMessageBuilder::<LinkBond>::new(name).primary(index)).await
    }

    async fn change_bond(&mut self, name: &str, message: LinkMessageBuilder<LinkBond>) -> Result<()> {
        let mut message = message.build();
        message.header.index = self.index(name).await?;
        // With the name in the message, the kernel would rename the link, which it refuses for a link that
        // is up.
        message.attributes.retain(|attribute| !matches!(attribute, LinkAttribute::IfName(_)));
        within(self.handle.link().change(message).execute()).await
    }
}

fn message(name: &str, options: &BondOptions) -> LinkMessageBuilder<LinkBond> {
    let mut message = LinkMessageBuilder::<LinkBond>::new(name);
    for (number, value) in &options.values {
        let width = BondOptions::width(*number).unwrap_or(4);
        let bytes = value.to_ne_bytes();
        let width = usize::from(width);
        let bytes = if cfg!(target_endian = "big") { &bytes[4 - width..] } else { &bytes[..width] };
        message = message.append_info_data(InfoBond::Other(DefaultNla::new(*number, bytes.to_vec())));
    }
    message
}

/// The options that documents can set, and the number of the preferred member's link.
pub(super) fn read(infos: &[InfoBond]) -> (BondOptions, Option<u32>) {
    let mut options = BondOptions::default();
    let mut primary = None;
    for info in infos {
        let mut bytes = vec![0; info.value_len()];
        info.emit_value(&mut bytes);
        let Some(value) = number(&bytes) else { continue };
        match info.kind() {
            PRIMARY => primary = Some(value).filter(|index| *index != 0),
            kind if BondOptions::width(kind).is_some() => drop(options.values.insert(kind, value)),
            _ => {}
        }
    }
    (options, primary)
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(match *bytes {
        [one] => u32::from(one),
        [a, b] => u32::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
        _ => return None,
    })
}

/// The link name, if documents can express it.
pub(super) fn named(name: Option<&String>) -> Option<LinkName> {
    LinkName::new(name?).ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rtnetlink::packet_route::link::{BondFailOverMac, BondMode};

    use super::*;

    #[test]
    fn options_are_the_kernels_attributes() {
        let infos = [
            InfoBond::Mode(BondMode::Ieee8023Ad),
            InfoBond::MiiMon(100),
            InfoBond::FailOverMac(BondFailOverMac::Follow),
            InfoBond::AdActorSysPrio(65_535),
            InfoBond::ArpIpTarget(vec![Ipv4Addr::LOCALHOST]),
            InfoBond::Primary(3),
        ];
        let (options, primary) = read(&infos);
        assert_eq!(options.values, [(1, 4), (3, 100), (13, 2), (24, 65_535)].into());
        assert_eq!(primary, Some(3));
        assert_eq!(
            options.describe(),
            "mode=802.3ad miimon=100 fail_over_mac=follow ad_actor_sys_prio=65535"
        );
        for info in &infos[..4] {
            let width = BondOptions::width(info.kind()).map(usize::from);
            assert_eq!(width, Some(info.value_len()), "{info:?}");
        }
        assert_eq!(read(&[InfoBond::Primary(0)]).1, None);
    }
}
