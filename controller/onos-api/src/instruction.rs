//! ONOS's instructions and the treatments of flow files. One table has those that set a field, in both directions; the
//! others are written out. Decides the order of a treatment: ONOS gives meters and tables in any.
//!
//! Absent: what a step needs of the selector (`shared/src/model/flow/parse/prerequisite.rs`).

use muster_shared::model::flow::Field;
use serde_json::{Map, Value, json};

use crate::criterion::plain;
use crate::document::{Part, Read, shown};
use crate::network::Bridge;

/// The EtherTypes that ONOS takes where a document gives none.
const VLAN_TAG: u64 = 0x8100;
const MPLS: u64 = 0x8847;

/// The form in which ONOS writes what is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Number,
    /// Upper-case.
    Mac,
    /// An address without a length.
    Address,
}

/// An instruction that sets a field: type, subtype, field, key, form.
type Setter = (&'static str, &'static str, Field, &'static str, Form);

const SETTERS: &[Setter] = &[
    ("L2MODIFICATION", "ETH_SRC", Field::EthSrc, "mac", Form::Mac),
    ("L2MODIFICATION", "ETH_DST", Field::EthDst, "mac", Form::Mac),
    ("L2MODIFICATION", "VLAN_ID", Field::VlanVid, "vlanId", Form::Number),
    ("L2MODIFICATION", "VLAN_PCP", Field::VlanPcp, "vlanPcp", Form::Number),
    ("L2MODIFICATION", "MPLS_LABEL", Field::MplsLabel, "label", Form::Number),
    ("L2MODIFICATION", "TUNNEL_ID", Field::TunnelId, "tunnelId", Form::Number),
    ("L3MODIFICATION", "IPV4_SRC", Field::Ipv4Src, "ip", Form::Address),
    ("L3MODIFICATION", "IPV4_DST", Field::Ipv4Dst, "ip", Form::Address),
    ("L3MODIFICATION", "IPV6_SRC", Field::Ipv6Src, "ip", Form::Address),
    ("L3MODIFICATION", "IPV6_DST", Field::Ipv6Dst, "ip", Form::Address),
    ("L3MODIFICATION", "IPV6_FLABEL", Field::Ipv6Flabel, "flowLabel", Form::Number),
    ("L3MODIFICATION", "IP_DSCP", Field::IpDscp, "ipDscp", Form::Number),
    ("L4MODIFICATION", "TCP_SRC", Field::TcpSrc, "tcpPort", Form::Number),
    ("L4MODIFICATION", "TCP_DST", Field::TcpDst, "tcpPort", Form::Number),
    ("L4MODIFICATION", "UDP_SRC", Field::UdpSrc, "udpPort", Form::Number),
    ("L4MODIFICATION", "UDP_DST", Field::UdpDst, "udpPort", Form::Number),
];

/// Instructions without a value: type, subtype, word of a flow file.
const PLAIN: &[(&str, &str, &str)] = &[
    ("L2MODIFICATION", "VLAN_POP", "pop_vlan"),
    ("L2MODIFICATION", "DEC_MPLS_TTL", "dec_mpls_ttl"),
    ("L3MODIFICATION", "DEC_TTL", "dec_ttl"),
];

/// Instructions with an EtherType: type, subtype, word, the EtherType where none is given.
const TAGS: &[(&str, &str, &str, u64)] = &[
    ("L2MODIFICATION", "VLAN_PUSH", "push_vlan", VLAN_TAG),
    ("L2MODIFICATION", "MPLS_PUSH", "push_mpls", MPLS),
    ("L2MODIFICATION", "MPLS_POP", "pop_mpls", MPLS),
];

/// Instructions with a number: type, word, key.
const NUMBERED: &[(&str, &str, &str)] = &[
    ("GROUP", "group", "groupId"),
    ("METER", "meter", "meterId"),
    ("TABLE", "goto_table", "tableId"),
    ("QUEUE", "set_queue", "queueId"),
];

const OPTICAL: &str = "it is for optical networks, which Muster has not";

/// Instructions that mean nothing here: type, subtype or nothing, why.
pub const REFUSED: &[(&str, &str, &str)] = &[
    ("L0MODIFICATION", "OCH", OPTICAL),
    ("L1MODIFICATION", "ODU_SIGID", OPTICAL),
    ("L2MODIFICATION", "MPLS_BOS", "the bottom of the stack follows from the labels that are pushed"),
    ("L3MODIFICATION", "TTL_IN", "Open vSwitch copies no TTL between headers"),
    ("L3MODIFICATION", "TTL_OUT", "Open vSwitch copies no TTL between headers"),
    ("PROTOCOL_INDEPENDENT", "", "it is for P4 switches, which Muster has not"),
    ("EXTENSION", "", "it is for one driver of ONOS, and no document says what it means"),
    ("STAT_TRIGGER", "", "switches report no counters by themselves; GET /onos/v1/flows has them"),
];

/// Every instruction that has a word: type, subtype, words.
#[cfg(test)]
pub fn said() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    let fixed = [
        ("OUTPUT", "", "output".to_owned()),
        ("NOACTION", "", "no step at all: packets are dropped".to_owned()),
    ];
    fixed
        .into_iter()
        .chain(NUMBERED.iter().map(|(kind, word, _)| (*kind, "", (*word).to_owned())))
        .chain(
            SETTERS
                .iter()
                .map(|(kind, subtype, field, ..)| (*kind, *subtype, format!("set_{}", field.name()))),
        )
        .chain(PLAIN.iter().map(|(kind, subtype, word)| (*kind, *subtype, (*word).to_owned())))
        .chain(TAGS.iter().map(|(kind, subtype, word, _)| (*kind, *subtype, (*word).to_owned())))
}

/// A treatment in the words of flow files, from `{"instructions": […], "deferred": […], "clearDeferred"}`. With it
/// where each step came from.
pub fn treatment(part: Option<Part<'_>>, bridge: &Bridge) -> Read<(Vec<Value>, Vec<String>)> {
    let Some(part) = part else { return Ok((Vec::new(), Vec::new())) };
    part.only(&["instructions", "deferred", "clearDeferred"])?;
    let list = |key| -> Read<_> { part.get(key)?.map(|list| list.items()).transpose() };
    let immediate = steps(&list("instructions")?.unwrap_or_default(), bridge)?;
    let deferred = steps(&list("deferred")?.unwrap_or_default(), bridge)?;
    let clear = part.get("clearDeferred")?.map(|clear| clear.is_true()).transpose()?.unwrap_or(false);
    let of = |wanted: Rank| {
        immediate
            .iter()
            .filter(move |step| step.rank == wanted)
            .map(|step| (step.word.clone(), step.place.clone()))
    };
    let mut all: Vec<(Value, String)> = of(Rank::Meter).chain(of(Rank::Action)).collect();
    if clear {
        all.push((json!({"clear_actions": true}), part.place_of("clearDeferred")));
    }
    if !deferred.is_empty() {
        let actions: Vec<Value> = deferred.into_iter().map(|step| step.word).collect();
        all.push((json!({ "write_actions": actions }), part.place_of("deferred")));
    }
    all.extend(of(Rank::Table));
    Ok(all.into_iter().unzip())
}

/// Actions alone, as buckets of groups have them.
pub fn actions(part: Option<Part<'_>>, bridge: &Bridge) -> Read<Vec<Value>> {
    let Some(part) = part else { return Ok(Vec::new()) };
    part.only(&["instructions", "deferred", "clearDeferred"])?;
    if part.get("deferred")?.is_some_and(|list| list.value().as_array().is_none_or(|list| !list.is_empty())) {
        return Err(part.wrong("a bucket of a group has no deferred instructions"));
    }
    let list = part.get("instructions")?.map(|list| list.items()).transpose()?.unwrap_or_default();
    Ok(steps(&list, bridge)?.into_iter().map(|step| step.word).collect())
}

/// The rank of a step in a treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    Meter,
    Action,
    Table,
}

struct Step {
    rank: Rank,
    word: Value,
    place: String,
}

fn steps(list: &[Part<'_>], bridge: &Bridge) -> Read<Vec<Step>> {
    let mut outputs = Vec::new();
    for part in list.iter().filter(|part| is_output(part)) {
        outputs.extend(decoded(part, bridge)?);
    }
    let mut all = Vec::new();
    for part in list {
        let kind = part.value()["type"].as_str();
        let rank = match kind {
            Some("METER") => Rank::Meter,
            Some("TABLE") => Rank::Table,
            Some(_) | None => Rank::Action,
        };
        for word in decoded(part, bridge)? {
            // A queue has its port; with an OUTPUT there, too, packets would leave twice.
            let is_twice = kind == Some("QUEUE") && outputs.contains(&word);
            if !is_twice {
                all.push(Step { rank, word, place: part.path().to_owned() });
            }
        }
    }
    Ok(all)
}

/// Whether an instruction sends packets to a port.
pub fn is_output(part: &Part<'_>) -> bool {
    part.value()["type"] == "OUTPUT"
}

/// Steps of a flow file, from an instruction.
fn decoded(part: &Part<'_>, bridge: &Bridge) -> Read<Vec<Value>> {
    let kind = part.need("type")?;
    let kind = kind.text()?;
    let subtype = part.get("subtype")?.map(|subtype| subtype.text()).transpose()?.unwrap_or_default();
    let named = match subtype {
        "" => kind.to_owned(),
        subtype => format!("{kind} {subtype}"),
    };
    if let Some((.., why)) =
        REFUSED.iter().find(|(known, sub, _)| *known == kind && (sub.is_empty() || *sub == subtype))
    {
        return Err(part.wrong(format!("{} is not supported: {why}", shown(&named))));
    }
    match kind {
        "NOACTION" => return part.only(&["type"]).map(|()| Vec::new()),
        "OUTPUT" => {
            part.only(&["type", "port"])?;
            return Ok(vec![json!({"output": bridge.output(&part.need("port")?)?})]);
        }
        "QUEUE" => {
            part.only(&["type", "queueId", "port"])?;
            let queue = json!({"set_queue": part.need("queueId")?.number(u32::MAX.into())?});
            let port = part.get("port")?.map(|port| bridge.output(&port)).transpose()?;
            return Ok([queue].into_iter().chain(port.map(|port| json!({"output": port}))).collect());
        }
        _ => {}
    }
    if let Some((_, word, key)) = NUMBERED.iter().find(|(known, ..)| *known == kind) {
        part.only(&["type", key])?;
        return Ok(vec![json!({*word: part.need(key)?.number(u32::MAX.into())?})]);
    }
    if let Some((_, _, field, key, form)) =
        SETTERS.iter().find(|(known, sub, ..)| *known == kind && *sub == subtype)
    {
        part.only(&["type", "subtype", key])?;
        let value = part.need(key)?;
        let most = u64::try_from(field.all_bits()).unwrap_or(u64::MAX);
        let value = match form {
            Form::Number => json!(value.number(if *field == Field::VlanVid { 4095 } else { most })?),
            Form::Mac => json!(value.text()?.to_ascii_lowercase()),
            Form::Address => json!(value.text()?),
        };
        return Ok(vec![Value::Object(Map::from_iter([(format!("set_{}", field.name()), value)]))]);
    }
    if let Some((.., word)) = PLAIN.iter().find(|(known, sub, _)| *known == kind && *sub == subtype) {
        part.only(&["type", "subtype"])?;
        return Ok(vec![json!({*word: true})]);
    }
    if let Some((_, _, word, default)) =
        TAGS.iter().find(|(known, sub, ..)| *known == kind && *sub == subtype)
    {
        part.only(&["type", "subtype", "ethernetType"])?;
        let kind = match part.get("ethernetType")? {
            Some(kind) => kind.number(0xffff)?,
            None => *default,
        };
        return Ok(vec![json!({*word: kind})]);
    }
    Err(part.wrong(format!("ONOS reads no instruction '{}'", shown(&named))))
}

/// ONOS's treatment of one in the words of flow files.
pub fn instructions(treatment: Option<&Value>, bridge: &Bridge) -> Value {
    let steps = match treatment {
        Some(Value::Array(steps)) => steps.as_slice(),
        // Something hidden is in it.
        Some(hidden @ Value::String(_)) => {
            return json!({"instructions": [unspeakable("treatment", hidden)], "deferred": []});
        }
        Some(_) | None => &[],
    };
    let (mut immediate, mut deferred, mut clear) = (Vec::new(), Vec::new(), false);
    for step in steps {
        let Some((word, value)) = step.as_object().and_then(|step| step.iter().next()) else { continue };
        match (word.as_str(), value) {
            ("write_actions", Value::Array(actions)) => {
                deferred.extend(
                    actions
                        .iter()
                        .filter_map(Value::as_object)
                        .flatten()
                        .map(|(word, value)| encoded(word, value, bridge)),
                );
            }
            ("clear_actions", _) => clear = true,
            _ => immediate.push(encoded(word, value, bridge)),
        }
    }
    let mut all = json!({"instructions": immediate, "deferred": deferred});
    if clear {
        all["clearDeferred"] = json!(true);
    }
    all
}

/// An instruction for which ONOS has no words.
fn unspeakable(word: &str, value: &Value) -> Value {
    json!({"type": "EXTENSION", "extension": {word: value}})
}

fn encoded(word: &str, value: &Value, bridge: &Bridge) -> Value {
    if word == "output" {
        return json!({"type": "OUTPUT", "port": bridge.port(&plain(value))});
    }
    if let Some((kind, _, key)) = NUMBERED.iter().find(|(_, known, _)| *known == word) {
        // ONOS has these as numbers, and the others as text.
        let number = if matches!(*key, "groupId" | "queueId") { value.clone() } else { json!(plain(value)) };
        return json!({"type": kind, *key: number});
    }
    if let Some((kind, subtype, ..)) = PLAIN.iter().find(|(.., known)| *known == word) {
        return json!({"type": kind, "subtype": subtype});
    }
    if let Some((kind, subtype, ..)) = TAGS.iter().find(|(_, _, known, _)| *known == word) {
        let number = value.as_u64().unwrap_or_default();
        return json!({"type": kind, "subtype": subtype, "ethernetType": format!("{number:#06x}")});
    }
    let set = word
        .strip_prefix("set_")
        .and_then(|name| SETTERS.iter().find(|(_, _, field, ..)| field.name() == name));
    match (set, plain(value)) {
        // A part of a field.
        (Some(_), text) if text.contains('/') => unspeakable(word, value),
        (Some((kind, subtype, _, key, Form::Mac)), text) => {
            json!({"type": kind, "subtype": subtype, *key: text.to_ascii_uppercase()})
        }
        (Some((kind, subtype, _, key, _)), _) => json!({"type": kind, "subtype": subtype, *key: value}),
        (None, _) => unspeakable(word, value),
    }
}
