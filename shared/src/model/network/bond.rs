//! `bonding_options` of a bond of the kernel, and a team's runner as the bonding mode that does the same.
//!
//! Absent: the kernel's bonds (`agent/host/src/net/netlink/bond.rs`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::clip;
use super::value::{quoted, text};
use super::{LinkName, NetworkError};

/// The options of a bond, in the kernel's numbering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BondOptions {
    /// Number of the attribute (`IFLA_BOND_…`) → its value.
    pub values: BTreeMap<u16, u32>,
    /// The member that is preferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<LinkName>,
}

/// `IFLA_BOND_MODE`
const MODE: u16 = 1;
/// `IFLA_BOND_MIIMON`
const MIIMON: u16 = 3;

/// `IFLA_BOND_FAIL_OVER_MAC`
const FAIL_OVER_MAC: u16 = 13;

/// Name, number of the attribute, its bytes, the words for 0, 1, 2 and so on.
type BondOptionSpec = (&'static str, u16, u8, &'static [&'static str]);

const MODES: &[&str] =
    &["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"];
/// Their places in [`MODES`].
const ROUND_ROBIN: u32 = 0;
const ACTIVE_BACKUP: u32 = 1;
const LACP: u32 = 4;
const TLB: u32 = 5;
const ALB: u32 = 6;
const VALIDATE: &[&str] = &["none", "active", "backup", "all", "filter", "filter_active", "filter_backup"];
const POLICIES: &[&str] = &["layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"];

static KNOWN: [BondOptionSpec; 24] = [
    ("mode", MODE, 1, MODES),
    ("miimon", MIIMON, 4, &[]),
    ("updelay", 4, 4, &[]),
    ("downdelay", 5, 4, &[]),
    ("use_carrier", 6, 1, &[]),
    ("arp_interval", 7, 4, &[]),
    ("arp_validate", 9, 4, VALIDATE),
    ("arp_all_targets", 10, 4, &["any", "all"]),
    ("primary_reselect", 12, 1, &["always", "better", "failure"]),
    ("fail_over_mac", FAIL_OVER_MAC, 1, &["none", "active", "follow"]),
    ("xmit_hash_policy", 14, 1, POLICIES),
    ("resend_igmp", 15, 4, &[]),
    ("num_grat_arp", 16, 1, &[]),
    ("num_unsol_na", 16, 1, &[]),
    ("num_peer_notif", 16, 1, &[]),
    ("all_slaves_active", 17, 1, &[]),
    ("min_links", 18, 4, &[]),
    ("lp_interval", 19, 4, &[]),
    ("packets_per_slave", 20, 4, &[]),
    ("lacp_rate", 21, 1, &["slow", "fast"]),
    ("ad_select", 22, 1, &["stable", "bandwidth", "count"]),
    ("ad_actor_sys_prio", 24, 2, &[]),
    ("ad_user_port_key", 25, 2, &[]),
    ("tlb_dynamic_lb", 27, 1, &[]),
];
const REFUSED: [&str; 3] = ["arp_ip_target", "ad_actor_system", "active_slave"];

/// Runners of `teamd`, and the modes that do the same.
const RUNNERS: [(&str, u32); 5] =
    [("roundrobin", 0), ("activebackup", 1), ("loadbalance", 2), ("broadcast", 3), ("lacp", 4)];

type Parsed<T> = Result<T, NetworkError>;

impl BondOptions {
    /// The bytes of an attribute's value; `None` for one that documents cannot set.
    pub fn width(number: u16) -> Option<u8> {
        KNOWN.iter().find(|(_, known, ..)| *known == number).map(|(_, _, width, _)| *width)
    }

    /// The members have the bond's MAC address, instead of the bond that of a member (`fail_over_mac`).
    pub fn has_one_mac(&self) -> bool {
        self.values.get(&FAIL_OVER_MAC).is_none_or(|value| *value == 0)
    }

    /// The options of `wanted` that differ here, by number, without the preferred member.
    pub fn differing<'a>(&'a self, wanted: &'a Self) -> impl Iterator<Item = (u16, u32)> + 'a {
        let differs = |(number, value): &(&u16, &u32)| self.values.get(number) != Some(*value);
        wanted.values.iter().filter(differs).map(|(number, value)| (*number, *value))
    }

    /// Whether the option can be set only while a bond is made, or has neither members nor traffic.
    pub fn is_fixed(number: u16) -> bool {
        // mode, fail_over_mac, lacp_rate, ad_select, ad_actor_sys_prio, ad_user_port_key, tlb_dynamic_lb
        matches!(number, MODE | FAIL_OVER_MAC | 21 | 22 | 24 | 25 | 27)
    }

    /// The options with which the bond can be made again. The kernel reports all options of a bond, but
    /// refuses to create one with options that its mode does not use, whatever their value.
    pub fn of_its_mode(&self) -> Self {
        let value = |number: u16| self.values.get(&number).copied().unwrap_or_default();
        let (mode, monitors) = (value(MODE), value(MIIMON) != 0);
        let takes = |number: &u16| match number {
            // updelay, downdelay
            4 | 5 => monitors,
            // arp_interval, arp_validate: a link is monitored either by these or by MII.
            7 | 9 => !monitors && !matches!(mode, LACP | TLB | ALB),
            // packets_per_slave
            20 => mode == ROUND_ROBIN,
            // lacp_rate, ad_actor_sys_prio, ad_user_port_key
            21 | 24 | 25 => mode == LACP,
            // tlb_dynamic_lb
            27 => matches!(mode, TLB | ALB),
            _ => true,
        };
        let primary = self.primary.clone().filter(|_| matches!(mode, ACTIVE_BACKUP | TLB | ALB));
        let values = self.values.iter().filter(|(number, _)| takes(number));
        Self { values: values.map(|(number, value)| (*number, *value)).collect(), primary }
    }

    /// The options in the notation of a document.
    pub fn describe(&self) -> String {
        let word = |(number, value): (&u16, &u32)| {
            let known = KNOWN.iter().find(|(_, known, ..)| known == number);
            let (name, .., words) = known.unwrap_or(&("?", 0, 0, &[]));
            let value = usize::try_from(*value)
                .ok()
                .and_then(|at| words.get(at))
                .map_or_else(|| value.to_string(), |word| (*word).to_owned());
            format!("{name}={value}")
        };
        let primary = self.primary.iter().map(|primary| format!("primary={primary}"));
        self.values.iter().map(word).chain(primary).collect::<Vec<_>>().join(" ")
    }
}

/// `mode=active-backup miimon=100 primary=em2`
pub(super) fn options(path: &str, value: &Value) -> Parsed<BondOptions> {
    let mut options = BondOptions::default();
    let invalid = |problem: String| NetworkError::invalid(path, problem);
    for word in text(path, value)?.split_ascii_whitespace() {
        let (name, value) =
            word.split_once('=').ok_or_else(|| invalid(format!("{} has no '='", quoted(word))))?;
        if name == "primary" {
            options.primary = Some(LinkName::new(value).map_err(invalid)?);
            continue;
        }
        let Some((_, number, width, words)) = KNOWN.iter().find(|(known, ..)| *known == name) else {
            if REFUSED.contains(&name) {
                return Err(NetworkError::unsupported(path, format!("'{name}'"), "leave it out"));
            }
            let known = KNOWN.iter().map(|(known, ..)| *known).chain(["primary"]);
            return Err(NetworkError::unknown(path, "bonding option", name, known));
        };
        let most = if *width == 4 { u32::MAX } else { (1 << (8 * u32::from(*width))) - 1 };
        let of_word = words.iter().position(|word| *word == value).and_then(|at| u32::try_from(at).ok());
        let in_words =
            |number: &u32| words.is_empty() || usize::try_from(*number).is_ok_and(|at| at < words.len());
        let number_of = value.parse::<u32>().ok().filter(|number| *number <= most && in_words(number));
        let wanted = || match words.is_empty() {
            true => format!("a number up to {most}"),
            false => format!("one of {}", words.join(", ")),
        };
        let value = of_word
            .or(number_of)
            .ok_or_else(|| invalid(format!("{name}: {} is wanted, not {}", wanted(), quoted(value))))?;
        if options.values.insert(*number, value).is_some() {
            return Err(invalid(format!("{} stands for what was given already", quoted(name))));
        }
    }
    used(path, options)
}

/// The kernel refuses options that the mode does not use, but only after the earlier bond has been removed.
/// So this refuses them, and leaves out values of 0, which ask for nothing.
fn used(path: &str, options: BondOptions) -> Parsed<BondOptions> {
    let taken = options.of_its_mode();
    let mut unused = options;
    unused.values.retain(|number, value| *value != 0 && !taken.values.contains_key(number));
    unused.primary.take_if(|_| taken.primary.is_some());
    if unused == BondOptions::default() {
        return Ok(taken);
    }
    let value = |number: u16| taken.values.get(&number).copied().unwrap_or_default();
    let mode = BondOptions { values: BTreeMap::from([(MODE, value(MODE))]), primary: None }.describe();
    let monitor = if value(MIIMON) == 0 { "without miimon" } else { "with miimon" };
    let problem = format!("a bond with {mode} and {monitor} takes no {}; leave that out", unused.describe());
    Err(NetworkError::invalid(path, problem))
}

/// Parses a team's JSON, `{"runner": {"name": "activebackup"}}`, or options of a bond. Newer kernels have no
/// teams, so a bond is made.
pub(super) fn team(path: &str, value: &Value) -> Parsed<BondOptions> {
    let written = text(path, value)?;
    if !written.trim_start().starts_with('{') {
        return options(path, value);
    }
    let json: Value = serde_json::from_str(written)
        .map_err(|error| NetworkError::invalid(path, format!("not JSON: {error}")))?;
    let more = json
        .as_object()
        .into_iter()
        .flatten()
        .find(|(key, _)| !matches!(key.as_str(), "runner" | "link_watch"));
    if let Some((key, _)) = more {
        return Err(NetworkError::unsupported(path, format!("'{}' of a team", clip(key)), "leave it out"));
    }
    let name = json["runner"]["name"].as_str().unwrap_or_default();
    let mode = RUNNERS.iter().find(|(runner, _)| *runner == name).map(|(_, mode)| *mode);
    let mode = mode.ok_or_else(|| {
        let known = RUNNERS.map(|(runner, _)| runner);
        NetworkError::not_one_of(path, name, &known)
    })?;
    Ok(BondOptions { values: BTreeMap::from([(MODE, mode), (MIIMON, 100)]), primary: None })
}
