//! The listings of a machine's packet filters: which programs are asked for them, in turn.
//!
//! Tables without a chain for packets of this machine are left out: those with flow rules may be large.

use serde_json::Value;

use crate::finding::Finding;

use super::{Packet, Rules, Verdict, iptables, nft};

/// Both programs that save rules of iptables, as nftables and as itself.
const OF_NFT: [(&str, &str); 2] = [("iptables", "iptables-nft-save"), ("ip6tables", "ip6tables-nft-save")];
const LEGACY: [(&str, &str); 2] =
    [("iptables-legacy", "iptables-legacy-save"), ("ip6tables-legacy", "ip6tables-legacy-save")];

/// The files in which the kernel lists the filter tables of iptables itself, of IPv4 and of IPv6.
const LEGACY_TABLES: [&str; 2] = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"];
/// Present while the kernel has loaded nftables as a module.
const MODULE: &str = "/sys/module/nf_tables";
/// Endings of a module's file.
const ENDINGS: [&str; 4] = ["", ".xz", ".zst", ".gz"];

/// The packet filters that the kernel has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    nftables: Nftables,
    /// The filter tables of iptables itself, of IPv4 and of IPv6.
    legacy: [bool; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Nftables {
    /// Nft would load the module.
    #[default]
    NotLoaded,
    /// No module is loaded, and none is there to be loaded: nftables are part of the kernel, or there are none.
    Unknown,
    Loaded,
}

impl Loaded {
    /// Looks, by the paths of files that are there, and by their contents.
    pub fn find(exists: impl Fn(&str) -> bool, read: impl Fn(&str) -> Option<String>) -> Self {
        let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
        let module = format!("/lib/modules/{}/kernel/net/netfilter/nf_tables.ko", release.trim());
        let nftables = match exists(MODULE) {
            true => Nftables::Loaded,
            false if ENDINGS.iter().any(|ending| exists(&format!("{module}{ending}"))) => Nftables::NotLoaded,
            false => Nftables::Unknown,
        };
        let has_filter =
            |list: &str| read(list).is_some_and(|tables| tables.lines().any(|table| table == "filter"));
        Self { nftables, legacy: LEGACY_TABLES.map(has_filter) }
    }
}

/// The programs that list the rules are not there, or fail.
pub fn unlisted(check: &'static str) -> Finding {
    Finding::warning(
        check,
        "the kernel filters packets, and its rules cannot be listed",
        "apt install nftables (or iptables, or with dnf), and run this command again",
    )
}

/// The rules as the programs have listed them.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    nft: Vec<Value>,
    /// The program that changes them, and the text.
    iptables: Vec<(&'static str, String)>,
}

impl Listing {
    /// Asks the programs, each with its arguments, for what is loaded. None, if nft is not there, or another one that
    /// must be asked.
    pub async fn read(
        loaded: Loaded,
        ask: impl AsyncFn(&'static str, Vec<String>) -> Option<String>,
    ) -> Option<Self> {
        let mut listing = Self::default();
        if loaded.nftables != Nftables::NotLoaded {
            let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
            let json = async |arguments: &[&str]| {
                serde_json::from_str::<Value>(&ask("nft", words(arguments)).await?).ok()
            };
            let chains = match (json(&["-j", "list", "chains"]).await, loaded.nftables) {
                (Some(chains), _) => chains,
                (None, Nftables::Loaded) => return None,
                (None, Nftables::Unknown | Nftables::NotLoaded) => Value::Null,
            };
            for (family, table) in nft::tables(&chains) {
                let table = json(&["-j", "list", "table", &family, &table]).await?;
                // Made by iptables, in a form that only its own program shows. Without that program, nft's counts.
                let saved = match (nft::has_foreign(&table), family.as_str()) {
                    (true, "ip") => OF_NFT.first(),
                    (true, "ip6") => OF_NFT.get(1),
                    _ => None,
                };
                let known = |name: &str| listing.iptables.iter().any(|(other, _)| *other == name);
                match saved {
                    Some((name, _)) if known(name) => {}
                    Some((name, program)) => match ask(program, Vec::new()).await {
                        Some(text) => listing.iptables.push((name, text)),
                        None => listing.nft.push(table),
                    },
                    None => listing.nft.push(table),
                }
            }
        }
        for ((name, program), _) in LEGACY.into_iter().zip(loaded.legacy).filter(|(_, loaded)| *loaded) {
            listing.iptables.push((name, ask(program, Vec::new()).await?));
        }
        Some(listing)
    }

    /// The fates of a connection's first packet, and of what answers it.
    pub fn both_ways(&self, packet: &Packet) -> [Verdict; 2] {
        [packet, &packet.answer()].map(|packet| self.rules(packet).verdict(packet))
    }

    /// The rules, judged for a packet.
    fn rules(&self, packet: &Packet) -> Rules {
        let mut rules = Rules::default();
        for listing in &self.nft {
            rules.add(nft::chains(listing, packet));
        }
        for (program, text) in &self.iptables {
            rules.add(iptables::chains(text, program, packet));
        }
        rules
    }
}
