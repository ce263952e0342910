//! Bonds: their options by the numbers of the kernel's attributes.

use muster_shared::model::network::{BondOptions, LinkName};
use rtnetlink::packet_core::{DefaultNla, Nla};
use rtnetlink::packet_route::link::InfoBond;
use rtnetlink::{LinkBond, LinkMessageBuilder};

use super::{Netlink, Result, within};

/// `IFLA_BOND_PRIMARY`
const PRIMARY: u16 = 11;

impl Netlink {
    /// A bond without members, down.
    pub async fn create_bond(&mut self, name: &str, options: &BondOptions) -> Result<()> {
        let mut message = LinkMessageBuilder::<LinkBond>::new(name);
        for (number, value) in &options.values {
            let width = BondOptions::width(*number).unwrap_or(4);
            let bytes = value.to_ne_bytes();
            let width = usize::from(width);
            let bytes = if cfg!(target_endian = "big") { &bytes[4 - width..] } else { &bytes[..width] };
            message = message.append_info_data(InfoBond::Other(DefaultNla::new(*number, bytes.to_vec())));
        }
        self.create(message.build()).await
    }

    /// The member that the bond prefers.
    pub async fn set_primary(&mut self, name: &str, primary: &str) -> Result<()> {
        let index = self.index(primary).await?;
        let mut message = LinkMessageBuilder::<LinkBond>::new(name).primary(index).build();
        message.header.index = self.index(name).await?;
        within(self.handle.link().change(message).execute()).await
    }
}

/// What documents can set, and the number of the preferred member's link.
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

/// By its name, which may be of a link that documents cannot name.
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
