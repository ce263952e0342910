//! ONOS's groups and the groups of flow files. Decides that a group's cookie is its number: Muster knows a group by that.

use muster_api::flow::FlowView;
use serde_json::{Value, json};

use crate::application;
use crate::document::{Part, Read, number_of, shown};
use crate::instruction::{actions, instructions};
use crate::network::{Bridge, Network};
use crate::rule::said;

/// Numbers of groups end there in OpenFlow.
const NUMBER_MAX: u64 = 0xffff_ff00;
/// Types by ONOS's name and by that of flow files.
const TYPES: [(&str, &str); 4] =
    [("ALL", "all"), ("SELECT", "select"), ("INDIRECT", "indirect"), ("FAILOVER", "fast_failover")];
const KEYS: [&str; 12] = [
    "type",
    "deviceId",
    "appId",
    "appCookie",
    "groupId",
    "givenGroupId",
    "buckets",
    "id",
    "state",
    "life",
    "packets",
    "bytes",
];

/// A group of a flow file, and its number.
pub fn decoded(part: &Part<'_>, network: &Network, bridge: &Bridge) -> Read<(Value, u64)> {
    part.only(&[KEYS.as_slice(), &["referenceCount"]].concat())?;
    network.of_path(part, bridge)?;
    let kind = part.need("type")?;
    let name = kind.text()?;
    let kind = match TYPES.iter().find(|(onos, _)| *onos == name) {
        Some((_, own)) => *own,
        None if name == "CLONE" => {
            return Err(kind.wrong("CLONE is not supported: it is for P4 switches, which Muster has not"));
        }
        None => return Err(kind.wrong(format!("ONOS has no type of groups '{}'", shown(name)))),
    };
    // In ONOS's order.
    let mut given = None;
    for key in ["id", "groupId", "givenGroupId"] {
        given = given.or(part.get(key)?);
    }
    let cookie = part.get("appCookie")?;
    if let Some(cookie) =
        cookie.as_ref().filter(|it| !it.value().as_str().is_some_and(|it| it.starts_with("0x")))
    {
        return Err(cookie.wrong("want a text with a hexadecimal number, such as 0x1"));
    }
    let number = match given {
        Some(given) => given.number(NUMBER_MAX)?,
        None => {
            let cookie = part.need("appCookie")?;
            cookie.number(NUMBER_MAX).map_err(|wrong| {
                cookie.wrong(format!("without an id the cookie is the group's number: {}", wrong.why))
            })?
        }
    };
    let buckets = part.need("buckets")?.items()?;
    let buckets = buckets.iter().map(|bucket| one(bucket, bridge, kind)).collect::<Read<Vec<_>>>()?;
    Ok((json!({"device": bridge.name, "group": number, "type": kind, "buckets": buckets}), number))
}

fn one(part: &Part<'_>, bridge: &Bridge, kind: &str) -> Read<Value> {
    part.only(&["type", "treatment", "weight", "watchPort", "watchGroup", "packets", "bytes", "bucketId"])?;
    let mut bucket = json!({"treatment": actions(part.get("treatment")?, bridge)?});
    match kind {
        "select" => bucket["weight"] = json!(part.need("weight")?.number(u16::MAX.into())?),
        "fast_failover" => {
            if let Some(group) = part.get("watchGroup")? {
                return Err(group.wrong("watchGroup is not supported: give a watchPort"));
            }
            bucket["watch_port"] = json!(bridge.in_port(&part.need("watchPort")?)?);
        }
        _ => {}
    }
    Ok(bucket)
}

/// ONOS's group.
pub fn encoded(flow: &FlowView, bridge: &Bridge) -> Value {
    let own = said(flow.entry.group_type.as_ref());
    let kind = TYPES.iter().find(|(_, known)| *known == own).map_or(own.as_str(), |(onos, _)| onos);
    let bucket = |bucket: &Value| {
        let mut shown = json!({
            "type": kind,
            "weight": bucket.get("weight").and_then(Value::as_i64).unwrap_or(-1),
            "packets": 0,
            "bytes": 0,
            "treatment": instructions(bucket.get("treatment"), bridge),
        });
        if let Some(port) = bucket.get("watch_port").and_then(Value::as_str) {
            shown["watchPort"] = json!(bridge.port(port));
        }
        shown
    };
    let buckets: Vec<Value> =
        flow.entry.buckets.as_ref().and_then(Value::as_array).into_iter().flatten().map(bucket).collect();
    json!({
        "id": number(flow),
        "state": flow.state,
        "life": flow.duration.unwrap_or_default(),
        "packets": flow.packets.unwrap_or_default(),
        "bytes": flow.bytes.unwrap_or_default(),
        "referenceCount": 0,
        "type": kind,
        "deviceId": bridge.id,
        "appId": application::of_owner(flow.owner.as_deref()),
        "appCookie": format!("{:#x}", number(flow)),
        "buckets": buckets,
    })
}

/// The number of a group, which is its cookie.
pub fn number(flow: &FlowView) -> u64 {
    flow.entry.group.as_ref().and_then(Value::as_u64).unwrap_or_default()
}

/// The number that a cookie in a path is.
pub fn of_cookie(cookie: &str) -> Option<u64> {
    number_of(cookie)
}
