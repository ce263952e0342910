//! ONOS's criteria and the selectors of flow files. One table has both directions, and why a criterion means nothing here.
//!
//! Absent: which field needs which other one (`shared/src/model/flow/parse/prerequisite.rs`).

use muster_shared::model::flow::Field;
use serde_json::{Map, Value, json};

use crate::document::{Part, Read, shown};
use crate::network::Bridge;

/// `vlanId` for "no tag", as a signed and as an unsigned number.
const NO_VLAN: [i64; 2] = [-1, 0xffff];
/// `vlanId` for "some tag".
const ANY_VLAN: u64 = 0x1000;

/// The form in which ONOS writes the value of a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Number,
    /// `0x800`
    EthType,
    /// Upper-case.
    Mac,
    /// An address with a length.
    Prefix,
    /// An IPv6 address.
    Address,
    /// A number, or [`NO_VLAN`], or [`ANY_VLAN`].
    Vlan,
    /// true or false.
    Bit,
}

/// The meaning of a criterion here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// `in_port`
    InPort,
    Field {
        field: Field,
        form: Form,
        key: &'static str,
        /// The key of the mask, where ONOS has one.
        mask: Option<&'static str>,
    },
    /// Nothing, and why.
    Refused(&'static str),
}

const OPTICAL: &str = "it is for optical networks, which Muster has not";

const fn field(field: Field, form: Form, key: &'static str) -> Meaning {
    Meaning::Field { field, form, key, mask: None }
}

const fn masked(field: Field, form: Form, key: &'static str, mask: &'static str) -> Meaning {
    Meaning::Field { field, form, key, mask: Some(mask) }
}

/// Every criterion that ONOS reads from JSON, in its order.
pub const CRITERIA: &[(&str, Meaning)] = &[
    ("IN_PORT", Meaning::InPort),
    ("IN_PHY_PORT", Meaning::Refused("Open vSwitch has no such field")),
    ("METADATA", field(Field::Metadata, Form::Number, "metadata")),
    ("ETH_DST", field(Field::EthDst, Form::Mac, "mac")),
    ("ETH_DST_MASKED", masked(Field::EthDst, Form::Mac, "mac", "macMask")),
    ("ETH_SRC", field(Field::EthSrc, Form::Mac, "mac")),
    ("ETH_SRC_MASKED", masked(Field::EthSrc, Form::Mac, "mac", "macMask")),
    ("ETH_TYPE", field(Field::EthType, Form::EthType, "ethType")),
    ("VLAN_VID", field(Field::VlanVid, Form::Vlan, "vlanId")),
    ("VLAN_PCP", field(Field::VlanPcp, Form::Number, "priority")),
    (
        "INNER_VLAN_VID",
        Meaning::Refused(
            "Open vSwitch matches the outer VLAN tag alone: pop it in one table and match in a later one",
        ),
    ),
    (
        "INNER_VLAN_PCP",
        Meaning::Refused(
            "Open vSwitch matches the outer VLAN tag alone: pop it in one table and match in a later one",
        ),
    ),
    ("IP_DSCP", field(Field::IpDscp, Form::Number, "ipDscp")),
    ("IP_ECN", field(Field::IpEcn, Form::Number, "ipEcn")),
    ("IP_PROTO", field(Field::IpProto, Form::Number, "protocol")),
    ("IPV4_SRC", field(Field::Ipv4Src, Form::Prefix, "ip")),
    ("IPV4_DST", field(Field::Ipv4Dst, Form::Prefix, "ip")),
    ("TCP_SRC", field(Field::TcpSrc, Form::Number, "tcpPort")),
    ("TCP_SRC_MASKED", masked(Field::TcpSrc, Form::Number, "tcpPort", "tcpMask")),
    ("TCP_DST", field(Field::TcpDst, Form::Number, "tcpPort")),
    ("TCP_DST_MASKED", masked(Field::TcpDst, Form::Number, "tcpPort", "tcpMask")),
    ("UDP_SRC", field(Field::UdpSrc, Form::Number, "udpPort")),
    ("UDP_SRC_MASKED", masked(Field::UdpSrc, Form::Number, "udpPort", "udpMask")),
    ("UDP_DST", field(Field::UdpDst, Form::Number, "udpPort")),
    ("UDP_DST_MASKED", masked(Field::UdpDst, Form::Number, "udpPort", "udpMask")),
    ("SCTP_SRC", field(Field::SctpSrc, Form::Number, "sctpPort")),
    ("SCTP_SRC_MASKED", masked(Field::SctpSrc, Form::Number, "sctpPort", "sctpMask")),
    ("SCTP_DST", field(Field::SctpDst, Form::Number, "sctpPort")),
    ("SCTP_DST_MASKED", masked(Field::SctpDst, Form::Number, "sctpPort", "sctpMask")),
    ("ICMPV4_TYPE", field(Field::Icmpv4Type, Form::Number, "icmpType")),
    ("ICMPV4_CODE", field(Field::Icmpv4Code, Form::Number, "icmpCode")),
    ("IPV6_SRC", field(Field::Ipv6Src, Form::Prefix, "ip")),
    ("IPV6_DST", field(Field::Ipv6Dst, Form::Prefix, "ip")),
    ("IPV6_FLABEL", field(Field::Ipv6Flabel, Form::Number, "flowLabel")),
    ("ICMPV6_TYPE", field(Field::Icmpv6Type, Form::Number, "icmpv6Type")),
    ("ICMPV6_CODE", field(Field::Icmpv6Code, Form::Number, "icmpv6Code")),
    ("IPV6_ND_TARGET", field(Field::Ipv6NdTarget, Form::Address, "targetAddress")),
    ("IPV6_ND_SLL", field(Field::Ipv6NdSll, Form::Mac, "mac")),
    ("IPV6_ND_TLL", field(Field::Ipv6NdTll, Form::Mac, "mac")),
    ("MPLS_LABEL", field(Field::MplsLabel, Form::Number, "label")),
    ("MPLS_BOS", field(Field::MplsBos, Form::Bit, "bos")),
    ("IPV6_EXTHDR", Meaning::Refused("Open vSwitch has no such field")),
    ("OCH_SIGID", Meaning::Refused(OPTICAL)),
    ("OCH_SIGTYPE", Meaning::Refused(OPTICAL)),
    ("TUNNEL_ID", field(Field::TunnelId, Form::Number, "tunnelId")),
    ("ODU_SIGID", Meaning::Refused(OPTICAL)),
    ("ODU_SIGTYPE", Meaning::Refused(OPTICAL)),
    ("PROTOCOL_INDEPENDENT", Meaning::Refused("it is for P4 switches, which Muster has not")),
    ("EXTENSION", Meaning::Refused("it is for one driver of ONOS, and no document says what it means")),
];

/// Criteria that ONOS has, and shows without a value.
const WITHOUT_A_VALUE: &[(&str, Field)] = &[
    ("ARP_OP", Field::ArpOp),
    ("ARP_SPA", Field::ArpSpa),
    ("ARP_TPA", Field::ArpTpa),
    ("ARP_SHA", Field::ArpSha),
    ("ARP_THA", Field::ArpTha),
    ("MPLS_TC", Field::MplsTc),
    ("TCP_FLAGS", Field::TcpFlags),
];

/// A selector in the words of flow files, from `{"criteria": […]}`. With it which criterion each word came of.
pub fn selector(part: Option<Part<'_>>, bridge: Option<&Bridge>) -> Read<(Value, Vec<(String, usize)>)> {
    let (mut words, mut origins) = (Map::new(), Vec::new());
    let Some(part) = part else { return Ok((Value::Object(words), origins)) };
    part.only(&["criteria"])?;
    let criteria = part.get("criteria")?.map(|list| list.items()).transpose()?.unwrap_or_default();
    for (n, criterion) in criteria.iter().enumerate() {
        let (word, value) = decoded(criterion, bridge)?;
        if words.insert(word.to_owned(), value).is_some() {
            return Err(criterion.wrong(format!("a second criterion for {word}")));
        }
        origins.push((word.to_owned(), n));
    }
    Ok((Value::Object(words), origins))
}

/// A word of flow files and its value, from a criterion.
fn decoded(part: &Part<'_>, bridge: Option<&Bridge>) -> Read<(&'static str, Value)> {
    let name = part.need("type")?;
    let name = name.text()?;
    let Some((name, meaning)) = CRITERIA.iter().find(|(known, _)| *known == name) else {
        return Err(part.wrong(format!("ONOS reads no criterion '{}'", shown(name))));
    };
    match *meaning {
        Meaning::Refused(why) => Err(part.wrong(format!("{name} is not supported: {why}"))),
        Meaning::InPort => {
            part.only(&["type", "port"])?;
            let port = part.need("port")?;
            let Some(bridge) = bridge else {
                return Err(
                    part.wrong("IN_PORT has no place here: the intent's points say where packets come in")
                );
            };
            Ok(("in_port", json!(bridge.in_port(&port)?)))
        }
        Meaning::Field { field, form, key, mask } => {
            let keys = ["type", key, mask.unwrap_or(key)];
            part.only(&keys)?;
            let value = read(&part.need(key)?, field, form)?;
            let Some(mask) = mask else { return Ok((field.name(), value)) };
            let mask = read(&part.need(mask)?, field, form)?;
            Ok((field.name(), json!(format!("{}/{}", plain(&value), plain(&mask)))))
        }
    }
}

/// A value as flow files have it.
fn read(part: &Part<'_>, field: Field, form: Form) -> Read<Value> {
    let most = u64::try_from(field.all_bits()).unwrap_or(u64::MAX);
    Ok(match form {
        Form::Number => json!(part.number(most)?),
        Form::EthType => match part.negative_16_bits() {
            Some(kind) => json!(kind),
            None => json!(part.number(most)?),
        },
        Form::Mac => json!(part.text()?.to_ascii_lowercase()),
        Form::Prefix | Form::Address => json!(part.text()?),
        Form::Vlan if part.value().as_i64().is_some_and(|vlan| NO_VLAN.contains(&vlan)) => json!("none"),
        Form::Vlan => match part.number(ANY_VLAN)? {
            ANY_VLAN => json!("any"),
            vlan => json!(vlan),
        },
        Form::Bit => json!(u8::from(part.is_true()?)),
    })
}

/// ONOS's selector of one in the words of flow files.
pub fn criteria(selector: Option<&Value>, bridge: &Bridge) -> Value {
    let all: Vec<Value> = match selector {
        Some(Value::Object(words)) => {
            words.iter().map(|(word, value)| encoded(word, value, bridge)).collect()
        }
        // Something hidden is in it.
        Some(hidden @ Value::String(_)) => vec![unspeakable("selector", hidden)],
        Some(_) | None => Vec::new(),
    };
    json!({ "criteria": all })
}

/// A criterion for which ONOS has no words.
fn unspeakable(word: &str, value: &Value) -> Value {
    json!({"type": "EXTENSION", "extension": {word: value}})
}

fn encoded(word: &str, value: &Value, bridge: &Bridge) -> Value {
    if word == "in_port" {
        return json!({"type": "IN_PORT", "port": bridge.number(&plain(value))});
    }
    let text = plain(value);
    let (value_of, mask_of) = match text.split_once('/') {
        Some((value, mask)) => (value, Some(mask)),
        None => (text.as_str(), None),
    };
    let of_word = CRITERIA.iter().filter_map(|(name, meaning)| match meaning {
        Meaning::Field { field, form, key, mask } if field.name() == word => {
            Some((*name, *form, *key, *mask))
        }
        Meaning::Field { .. } | Meaning::InPort | Meaning::Refused(_) => None,
    });
    for (name, form, key, mask_key) in of_word {
        let said = match (form, mask_of, mask_key) {
            (Form::Prefix, _, _) => prefix(&text).map(|prefix| json!({"type": name, key: prefix})),
            (Form::Vlan, _, _) => vlan(value).map(|vlan| json!({"type": name, key: vlan})),
            (_, None, None) => written(value_of, form).map(|value| json!({"type": name, key: value})),
            (_, Some(mask), Some(mask_key)) => written(value_of, form)
                .zip(written(mask, form))
                .map(|(value, mask)| json!({"type": name, key: value, mask_key: mask})),
            (_, Some(_), None) | (_, None, Some(_)) => None,
        };
        if let Some(said) = said {
            return said;
        }
    }
    match WITHOUT_A_VALUE.iter().find(|(_, field)| field.name() == word) {
        Some((name, _)) => json!({"type": name, word: value}),
        None => unspeakable(word, value),
    }
}

fn written(text: &str, form: Form) -> Option<Value> {
    let number = || crate::document::number_of(text);
    Some(match form {
        Form::Number => json!(number()?),
        Form::EthType => json!(format!("{:#x}", number()?)),
        Form::Mac => json!(text.to_ascii_uppercase()),
        Form::Prefix | Form::Address => json!(text),
        Form::Vlan => json!(number()?),
        Form::Bit => json!(number()? == 1),
    })
}

fn vlan(value: &Value) -> Option<Value> {
    match value.as_str() {
        Some("none") => Some(json!(NO_VLAN[0])),
        Some("any") => Some(json!(ANY_VLAN)),
        Some(_) => None,
        None => Some(value.clone()),
    }
}

/// An address with its length; none, where its mask has none.
fn prefix(text: &str) -> Option<String> {
    match text.split_once('/') {
        Some((_, length)) => length.parse::<u8>().ok().map(|_| text.to_owned()),
        None => Some(format!("{text}/{}", if text.contains(':') { 128 } else { 32 })),
    }
}

/// A text as it is, and anything else as JSON.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}
