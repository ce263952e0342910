//! Fields of packets and of their metadata, with their names and sizes. Their order is that of a selector.

use serde::{Deserialize, Serialize};

/// The notation of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A number, decimal or 0x….
    Number,
    /// `52:54:00:12:34:56`
    Mac,
    /// `10.0.0.1`
    Ipv4,
    /// `2001:db8::1`
    Ipv6,
    /// 1 to 4094, or `none`, or `any`; the field has the bit 0x1000 for "there is a tag".
    Vlan,
    /// `+trk+est-new`
    CtState,
    /// `+syn-ack`
    TcpFlags,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $variant:ident $name:literal $bits:literal $kind:ident $mask:literal;)*) => {
        /// A field of the packet or of its metadata, under ONOS's names in `snake_case`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Field {
            $($(#[$doc])* $variant,)*
        }

        impl Field {
            /// The fields in order.
            pub const ALL: &[Field] = &[$(Field::$variant,)*];

            /// The field of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Field::$variant),)* _ => None }
            }

            /// The field's name in text.
            pub fn name(self) -> &'static str {
                match self { $(Field::$variant => $name,)* }
            }

            pub fn bits(self) -> u32 {
                match self { $(Field::$variant => $bits,)* }
            }

            /// The notation of the field's value.
            pub fn kind(self) -> FieldKind {
                match self { $(Field::$variant => FieldKind::$kind,)* }
            }

            /// Whether a selector may leave some of its bits out.
            pub fn is_maskable(self) -> bool {
                match self { $(Field::$variant => $mask,)* }
            }
        }
    };
}

fields! {
    /// Register 0; registers last as long as the packet's way through the tables.
    Reg0 "reg0" 32 Number true;
    /// Register 1.
    Reg1 "reg1" 32 Number true;
    /// Register 2.
    Reg2 "reg2" 32 Number true;
    /// Register 3.
    Reg3 "reg3" 32 Number true;
    /// Register 4.
    Reg4 "reg4" 32 Number true;
    /// Register 5.
    Reg5 "reg5" 32 Number true;
    /// Register 6.
    Reg6 "reg6" 32 Number true;
    /// Register 7.
    Reg7 "reg7" 32 Number true;
    /// Register 8.
    Reg8 "reg8" 32 Number true;
    /// Register 9.
    Reg9 "reg9" 32 Number true;
    /// Register 10.
    Reg10 "reg10" 32 Number true;
    /// Register 11.
    Reg11 "reg11" 32 Number true;
    /// Register 12.
    Reg12 "reg12" 32 Number true;
    /// Register 13.
    Reg13 "reg13" 32 Number true;
    /// Register 14.
    Reg14 "reg14" 32 Number true;
    /// Register 15.
    Reg15 "reg15" 32 Number true;
    /// Written by `write_metadata`.
    Metadata "metadata" 64 Number true;
    /// The id of the tunnel through which the packet came.
    TunnelId "tunnel_id" 64 Number true;
    /// The state of the packet's connection.
    CtState "ct_state" 32 CtState true;
    /// Zone of its connection.
    CtZone "ct_zone" 16 Number false;
    /// Mark of its connection.
    CtMark "ct_mark" 32 Number true;
    /// Destination MAC address.
    EthDst "eth_dst" 48 Mac true;
    /// Source MAC address.
    EthSrc "eth_src" 48 Mac true;
    /// EtherType, behind any VLAN tag.
    EthType "eth_type" 16 Number false;
    VlanVid "vlan_vid" 13 Vlan true;
    /// Priority in the VLAN tag.
    VlanPcp "vlan_pcp" 3 Number false;
    /// MPLS label.
    MplsLabel "mpls_label" 20 Number false;
    /// MPLS traffic class.
    MplsTc "mpls_tc" 3 Number false;
    /// MPLS bottom of stack.
    MplsBos "mpls_bos" 1 Number false;
    /// Differentiated services code point.
    IpDscp "ip_dscp" 6 Number false;
    /// Explicit congestion notification.
    IpEcn "ip_ecn" 2 Number false;
    /// IP protocol.
    IpProto "ip_proto" 8 Number false;
    /// Source IPv4 address.
    Ipv4Src "ipv4_src" 32 Ipv4 true;
    /// Destination IPv4 address.
    Ipv4Dst "ipv4_dst" 32 Ipv4 true;
    /// Source IPv6 address.
    Ipv6Src "ipv6_src" 128 Ipv6 true;
    /// Destination IPv6 address.
    Ipv6Dst "ipv6_dst" 128 Ipv6 true;
    /// IPv6 flow label.
    Ipv6Flabel "ipv6_flabel" 20 Number true;
    /// Source port.
    TcpSrc "tcp_src" 16 Number true;
    /// Destination port.
    TcpDst "tcp_dst" 16 Number true;
    /// TCP flags.
    TcpFlags "tcp_flags" 12 TcpFlags true;
    /// Source port.
    UdpSrc "udp_src" 16 Number true;
    /// Destination port.
    UdpDst "udp_dst" 16 Number true;
    /// Source port.
    SctpSrc "sctp_src" 16 Number true;
    /// Destination port.
    SctpDst "sctp_dst" 16 Number true;
    /// ICMP type.
    Icmpv4Type "icmpv4_type" 8 Number false;
    /// ICMP code.
    Icmpv4Code "icmpv4_code" 8 Number false;
    /// ICMPv6 type.
    Icmpv6Type "icmpv6_type" 8 Number false;
    /// ICMPv6 code.
    Icmpv6Code "icmpv6_code" 8 Number false;
    /// Target of neighbour discovery.
    Ipv6NdTarget "ipv6_nd_target" 128 Ipv6 true;
    /// Source MAC address in neighbour discovery.
    Ipv6NdSll "ipv6_nd_sll" 48 Mac true;
    /// Target MAC address in neighbour discovery.
    Ipv6NdTll "ipv6_nd_tll" 48 Mac true;
    /// ARP operation.
    ArpOp "arp_op" 16 Number false;
    /// ARP source IPv4 address.
    ArpSpa "arp_spa" 32 Ipv4 true;
    /// ARP target IPv4 address.
    ArpTpa "arp_tpa" 32 Ipv4 true;
    /// ARP source MAC address.
    ArpSha "arp_sha" 48 Mac true;
    /// ARP target MAC address.
    ArpTha "arp_tha" 48 Mac true;
}

impl Field {
    /// Every bit of it.
    pub fn all_bits(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }
}
