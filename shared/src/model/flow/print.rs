//! Entries as JSON, in the notation of flow files: printed entries parse to the same entries.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value, json};

use crate::mac;

use super::{
    Action, Criterion, Ct, Entry, Field, FieldKind, Group, GroupKind, Instruction, Meter, Output, Port, Rule,
};

/// Flags of `ct_state` by bit, as Open vSwitch names them.
pub(super) const CT_STATES: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
/// Flags of TCP by bit.
pub(super) const TCP_FLAGS: [&str; 9] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"];
/// The bit in a VLAN field that means "there is a tag".
pub(super) const VLAN_PRESENT: u128 = 0x1000;

impl Entry {
    /// The entry as in a flow file, without the device.
    pub fn to_json(&self) -> Map<String, Value> {
        match self {
            Entry::Rule(rule) => rule.to_json(),
            Entry::Group(group) => object(group_json(group)),
            Entry::Meter(meter) => object(meter_json(meter)),
        }
    }
}

impl Rule {
    /// The rule as in a flow file, without the device.
    pub fn to_json(&self) -> Map<String, Value> {
        object(json!({
            "table": self.table,
            "priority": self.priority,
            "selector": self.selector_json(),
            "treatment": self.treatment_json(),
            "idle_timeout": self.idle_timeout,
            "hard_timeout": self.hard_timeout,
        }))
    }

    /// The selector alone.
    pub fn selector_json(&self) -> Value {
        let criterion = |criterion: &Criterion| match criterion {
            Criterion::InPort(port) => ("in_port".to_owned(), json!(port_text(port))),
            Criterion::Field { field, value, mask } => {
                (field.name().to_owned(), value_json(*field, *value, *mask))
            }
        };
        Value::Object(self.selector.iter().map(criterion).collect())
    }

    /// The treatment alone.
    pub fn treatment_json(&self) -> Value {
        Value::Array(self.treatment.iter().map(instruction_json).collect())
    }
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

fn group_json(group: &Group) -> Value {
    let buckets: Vec<Value> = group
        .buckets
        .iter()
        .map(|bucket| {
            let mut map = Map::new();
            if group.kind == GroupKind::Select {
                map.insert("weight".into(), json!(bucket.weight));
            }
            if let Some(port) = &bucket.watch_port {
                map.insert("watch_port".into(), json!(port_text(port)));
            }
            map.insert("treatment".into(), bucket.treatment.iter().map(action_json).collect());
            Value::Object(map)
        })
        .collect();
    json!({"group": group.number, "type": group.kind.as_str(), "buckets": buckets})
}

fn meter_json(meter: &Meter) -> Value {
    let bands: Vec<Value> = meter
        .bands
        .iter()
        .map(|band| {
            let mut map = Map::from_iter([("rate".to_owned(), json!(band.rate))]);
            if band.burst != 0 {
                map.insert("burst".into(), json!(band.burst));
            }
            if let Some(levels) = band.dscp_remark {
                map.insert("dscp_remark".into(), json!(levels));
            }
            Value::Object(map)
        })
        .collect();
    json!({"meter": meter.number, "unit": if meter.packets { "packets" } else { "kilobits" }, "bands": bands})
}

impl GroupKind {
    /// The word in a flow file.
    pub fn as_str(self) -> &'static str {
        match self {
            GroupKind::All => "all",
            GroupKind::Select => "select",
            GroupKind::Indirect => "indirect",
            GroupKind::FastFailover => "fast_failover",
        }
    }
}

pub(super) fn port_text(port: &Port) -> &str {
    match port {
        Port::Named(name) => name,
        Port::Local => "LOCAL",
    }
}

fn instruction_json(instruction: &Instruction) -> Value {
    match instruction {
        Instruction::Do(action) => action_json(action),
        Instruction::Meter(number) => json!({"meter": number}),
        Instruction::GotoTable(table) => json!({"goto_table": table}),
        Instruction::WriteMetadata { value, mask } => {
            json!({"write_metadata": number_json((*value).into(), mask.map(u128::from))})
        }
        Instruction::ClearActions => json!({"clear_actions": true}),
        Instruction::WriteActions(actions) => {
            json!({"write_actions": actions.iter().map(action_json).collect::<Vec<_>>()})
        }
    }
}

fn action_json(action: &Action) -> Value {
    match action {
        Action::Output(output) => json!({"output": match output {
            Output::Port(port) => port_text(port),
            Output::InPort => "IN_PORT",
            Output::Normal => "NORMAL",
            Output::All => "ALL",
            Output::Flood => "FLOOD",
            Output::Controller => "CONTROLLER",
        }}),
        Action::Group(number) => json!({"group": number}),
        Action::SetQueue(queue) => json!({"set_queue": queue}),
        Action::Resubmit(table) => json!({"resubmit": table}),
        Action::Set { field, value, mask } => Value::Object(Map::from_iter([(
            format!("set_{}", field.name()),
            value_json(*field, *value, *mask),
        )])),
        Action::PushVlan(kind) => json!({"push_vlan": kind}),
        Action::PopVlan => json!({"pop_vlan": true}),
        Action::PushMpls(kind) => json!({"push_mpls": kind}),
        Action::PopMpls(kind) => json!({"pop_mpls": kind}),
        Action::DecTtl => json!({"dec_ttl": true}),
        Action::DecMplsTtl => json!({"dec_mpls_ttl": true}),
        Action::Ct(ct) => json!({"ct": ct_json(ct)}),
    }
}

fn ct_json(ct: &Ct) -> Value {
    let mut map = Map::new();
    for (name, is_set) in [("commit", ct.commit), ("force", ct.force)] {
        if is_set {
            map.insert(name.into(), json!(true));
        }
    }
    if ct.zone != 0 {
        map.insert("zone".into(), json!(ct.zone));
    }
    if let Some(table) = ct.table {
        map.insert("table".into(), json!(table));
    }
    if let Some((value, mask)) = ct.mark {
        map.insert("mark".into(), number_json(value.into(), mask.map(u128::from)));
    }
    Value::Object(map)
}

/// The value in the notation of a flow file, for messages.
pub(super) fn value_text(field: Field, value: u128, mask: Option<u128>) -> String {
    let value = value_json(field, value, mask);
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn value_json(field: Field, value: u128, mask: Option<u128>) -> Value {
    match field.kind() {
        FieldKind::Number => number_json(value, mask),
        FieldKind::Mac => json!(with_mask(mac::text_of_field(value), mask.map(mac::text_of_field))),
        FieldKind::Ipv4 => json!(address(ipv4(value), mask, 32, ipv4)),
        FieldKind::Ipv6 => json!(address(ipv6(value), mask, 128, ipv6)),
        FieldKind::Vlan => match (value, mask) {
            (0, None) => json!("none"),
            (VLAN_PRESENT, Some(VLAN_PRESENT)) => json!("any"),
            (value, None) if value >= VLAN_PRESENT => number_json(value - VLAN_PRESENT, None),
            (value, mask) => json!(format!("{value:#x}/{:#x}", mask.unwrap_or(field.all_bits()))),
        },
        FieldKind::CtState => flags(&CT_STATES, field, value, mask),
        FieldKind::TcpFlags => flags(&TCP_FLAGS, field, value, mask),
    }
}

fn number_json(value: u128, mask: Option<u128>) -> Value {
    match (u64::try_from(value), mask) {
        (Ok(value), None) => json!(value),
        (_, mask) => json!(with_mask(format!("{value:#x}"), mask.map(|mask| format!("{mask:#x}")))),
    }
}

fn flags(names: &[&str], field: Field, value: u128, mask: Option<u128>) -> Value {
    match mask {
        Some(mask) if mask >> names.len() == 0 => {
            let flag = |(bit, name): (usize, &&str)| {
                let sign = if value >> bit & 1 == 1 { '+' } else { '-' };
                (mask >> bit & 1 == 1).then(|| format!("{sign}{name}"))
            };
            json!(names.iter().enumerate().filter_map(flag).collect::<String>())
        }
        mask => json!(format!("{value:#x}/{:#x}", mask.unwrap_or(field.all_bits()))),
    }
}

fn with_mask(value: String, mask: Option<String>) -> String {
    mask.map_or(value.clone(), |mask| format!("{value}/{mask}"))
}

fn address(value: String, mask: Option<u128>, bits: u32, text: fn(u128) -> String) -> String {
    let Some(mask) = mask else { return value };
    let from_the_left = mask << (128 - bits);
    match from_the_left.leading_ones() == mask.count_ones() {
        true => format!("{value}/{}", mask.count_ones()),
        false => format!("{value}/{}", text(mask)),
    }
}

fn ipv4(value: u128) -> String {
    Ipv4Addr::from_bits(u32::try_from(value).unwrap_or_default()).to_string()
}

fn ipv6(value: u128) -> String {
    Ipv6Addr::from_bits(value).to_string()
}
