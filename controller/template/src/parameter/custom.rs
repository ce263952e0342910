//! Custom constraints: those of Heat that need no service of OpenStack.

use std::net::IpAddr;

use super::cron::is_cron;
use crate::error::{cut, suggestion_or_all};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Custom {
    CronExpression,
    DnsDomain,
    DnsName,
    IpAddr,
    IpOrCidr,
    Iso8601,
    MacAddr,
    NetCidr,
    RelDnsName,
    /// A question to a service of OpenStack: any text will do.
    Unchecked,
}

const TABLE: [(&str, Custom, &str); 9] = [
    ("cron_expression", Custom::CronExpression, "a cron expression such as '0 3 * * *'"),
    ("dns_domain", Custom::DnsDomain, "a domain that ends with '.'"),
    ("dns_name", Custom::DnsName, "a DNS name"),
    ("ip_addr", Custom::IpAddr, "an IP address"),
    ("ip_or_cidr", Custom::IpOrCidr, "an IP address or a network such as 10.0.0.0/24"),
    ("iso_8601", Custom::Iso8601, "a time such as 2026-01-31T12:00:00Z"),
    ("mac_addr", Custom::MacAddr, "a MAC address"),
    ("net_cidr", Custom::NetCidr, "a network such as 10.0.0.0/24"),
    ("rel_dns_name", Custom::RelDnsName, "a DNS name that does not end with '.'"),
];
/// Refused names, with reasons.
const REFUSED: [(&str, &str); 3] = [
    ("expiration", "a template is read again later, when the time has come"),
    ("test_constr", "it only waits"),
    ("timezone", "there is no list of time zones here"),
];
/// The services of OpenStack whose constraints Heat has.
const SERVICES: [&str; 16] = [
    "barbican",
    "blazar",
    "cinder",
    "designate",
    "glance",
    "ironic",
    "keystone",
    "magnum",
    "manila",
    "mistral",
    "neutron",
    "nova",
    "octavia",
    "sahara",
    "trove",
    "zaqar",
];
/// The longest DNS name, and the longest part of one.
const FQDN_MAX: usize = 255;
const LABEL_MAX: usize = 63;

/// The names in templates.
pub(crate) fn names() -> [&'static str; TABLE.len()] {
    TABLE.map(|(name, ..)| name)
}

impl Custom {
    pub fn from_name(name: &str) -> Result<Self, String> {
        if let Some((_, custom, _)) = TABLE.iter().find(|(known, ..)| *known == name) {
            return Ok(*custom);
        }
        if let Some((_, why)) = REFUSED.iter().find(|(known, _)| *known == name) {
            return Err(format!("the constraint '{name}' is not supported: {why}"));
        }
        match name.split_once('.') {
            Some((service, what)) if SERVICES.contains(&service) && !what.is_empty() => Ok(Self::Unchecked),
            _ => {
                let near = suggestion_or_all(name, &names());
                Err(format!("unknown constraint '{}'{near}", cut(name)))
            }
        }
    }

    pub fn wanted(self) -> &'static str {
        if self == Self::Unchecked {
            return "anything";
        }
        TABLE.iter().find(|(_, custom, _)| *custom == self).expect("every constraint is in the table").2
    }

    pub fn allows(self, text: &str) -> bool {
        match self {
            Custom::CronExpression => text.is_empty() || is_cron(text),
            Custom::DnsDomain => text.is_empty() || (is_dns_name(text) && text.ends_with('.')),
            Custom::DnsName => is_dns_name(text),
            Custom::Unchecked => true,
            Custom::IpAddr => text.parse::<IpAddr>().is_ok(),
            Custom::IpOrCidr => text.parse::<IpAddr>().is_ok() || is_network(text),
            Custom::Iso8601 => is_time(text),
            Custom::MacAddr => is_mac(text),
            Custom::NetCidr => is_network(text),
            Custom::RelDnsName => {
                text.is_empty() || (is_dns_name(text) && !text.ends_with('.') && text.len() <= FQDN_MAX - 3)
            }
        }
    }
}

fn is_network(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else { return false };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    let is_number = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
    is_number && prefix.parse::<u8>().is_ok_and(|prefix| prefix <= most)
}

/// A MAC address: six bytes, in one of the common notations.
fn is_mac(text: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    let split = |by: char, parts: usize, digits: usize| {
        let mut found = text.split(by);
        found.clone().count() == parts && found.all(|part| part.len() == digits && is_hex(part))
    };
    split(':', 6, 2) || split('-', 6, 2) || split('.', 3, 4) || (text.len() == 12 && is_hex(text))
}

/// As in Heat: one point at the end is allowed; the last of several parts is not a number.
fn is_dns_name(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    let trimmed = text.strip_suffix('.').unwrap_or(text);
    let labels: Vec<&str> = trimmed.split('.').collect();
    let is_label = |label: &&str| {
        (1..=LABEL_MAX).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last_is_number = labels.last().is_some_and(|label| label.bytes().all(|b| b.is_ascii_digit()));
    trimmed.len() <= FQDN_MAX && labels.iter().all(is_label) && !(labels.len() > 1 && last_is_number)
}

/// `2026-01-31`, `2026-01-31T12:00:00.5+01:00`; the shorter and the ones without signs between too.
fn is_time(text: &str) -> bool {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    is_date(date) && time.is_none_or(|time| date.len() >= 8 && is_clock(time))
}

fn number(text: &str, least: u32, most: u32) -> bool {
    let is_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_digits && text.parse::<u32>().is_ok_and(|n| (least..=most).contains(&n))
}

fn is_date(date: &str) -> bool {
    let parts: Vec<&str> = match date.len() {
        8 if date.is_ascii() && !date.contains('-') => vec![&date[..4], &date[4..6], &date[6..]],
        _ => date.split('-').collect(),
    };
    let days = |year: &str, month: &str| {
        let year: u32 = year.parse().unwrap_or(0);
        match month.parse::<u32>() {
            Ok(2) if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
            Ok(2) => 28,
            Ok(4 | 6 | 9 | 11) => 30,
            _ => 31,
        }
    };
    match parts.as_slice() {
        [year] => year.len() == 4 && number(year, 1, 9999),
        [year, month] => year.len() == 4 && number(year, 1, 9999) && number(month, 1, 12),
        [year, month, day] => {
            year.len() == 4
                && number(year, 1, 9999)
                && number(month, 1, 12)
                && number(day, 1, days(year, month))
        }
        _ => false,
    }
}

fn is_clock(text: &str) -> bool {
    let (clock, zone) = match text.find(['Z', '+', '-']) {
        Some(index) => text.split_at(index),
        None => (text, ""),
    };
    let fields = |text: &str| -> Vec<String> {
        if text.contains(':') {
            return text.split(':').map(str::to_owned).collect();
        }
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(2).map(|pair| pair.iter().collect()).collect()
    };
    let (whole, fraction) = match clock.split_once(['.', ',']) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (clock, None),
    };
    let is_clock = whole.as_bytes().get(..2).is_some_and(|hour| hour.iter().all(u8::is_ascii_digit));
    let is_clock = is_clock
        && match fields(whole).as_slice() {
            [hour] => fraction.is_none() && number(hour, 0, 23),
            [hour, minute] => number(hour, 0, 23) && number(minute, 0, 59),
            [hour, minute, second] => number(hour, 0, 23) && number(minute, 0, 59) && number(second, 0, 59),
            _ => false,
        };
    let is_zone = match zone {
        "" | "Z" => true,
        _ => match fields(&zone[1..]).as_slice() {
            [hour] => number(hour, 0, 23),
            [hour, minute] => number(hour, 0, 23) && number(minute, 0, 59),
            _ => false,
        },
    };
    is_clock
        && is_zone
        && fraction.is_none_or(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}
