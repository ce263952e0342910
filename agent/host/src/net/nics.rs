//! `nic1`, `nic2`, …: the server's active NICs, in os-net-config's order.
//!
//! A NIC counts if it has a device and is no virtual function; it is active if it is up and has a carrier.
//! NICs on the board (`em*`, `eth*`, `eno*`) come first, and 2 before 10. The devices are looked up in a
//! directory like `/sys/class/net`, which can be replaced where links have no devices.
//!
//! Absent: the aliases of a mapping file (for people `agent/host/src/nic_aliases.rs`, for a document
//! `shared/src/model/network/mapping.rs`).

use std::fs;
use std::path::Path;

use super::state::Link;

/// Names of NICs of the board begin so.
const EMBEDDED: [&str; 3] = ["em", "eth", "eno"];

/// The NICs among `links`, in their order.
pub(super) fn numbered<'a>(sys: &Path, links: impl Iterator<Item = (&'a String, &'a Link)>) -> Vec<String> {
    let mut nics: Vec<String> =
        links.filter(|(name, link)| counts(&sys.join(name), link)).map(|(name, _)| name.clone()).collect();
    nics.sort_by_cached_key(|name| (!EMBEDDED.iter().any(|prefix| name.starts_with(prefix)), natural(name)));
    nics
}

fn counts(nic: &Path, link: &Link) -> bool {
    let read = |file: &str| fs::read_to_string(nic.join(file)).ok();
    let is = |file: &str, wanted: &str| read(file).is_some_and(|found| found.trim() == wanted);
    // The mounted `/sys` may belong to another namespace.
    let same = read("ifindex").is_none_or(|index| index.trim() == link.index.to_string());
    same && nic.join("device").exists()
        && !nic.join("device/physfn").exists()
        && nic.join("address").exists()
        && is("operstate", "up")
}

/// Letters and numbers in turn, numbers by their value.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, behind) = rest.split_at(letters);
        let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        let (number, behind) = behind.split_at(digits);
        parts.push((text.to_ascii_lowercase(), number.parse().unwrap_or(0)));
        rest = behind;
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn nics_are_numbered_as_os_net_config_does() {
        let sys = tempfile::TempDir::new().unwrap();
        let nic = |name: &str, operstate: &str, files: &[&str]| {
            let nic = sys.path().join(name);
            fs::create_dir_all(nic.join("device")).unwrap();
            fs::write(nic.join("operstate"), format!("{operstate}\n")).unwrap();
            fs::write(nic.join("address"), "52:54:00:00:00:01\n").unwrap();
            files.iter().for_each(|file| fs::write(nic.join(file), "9\n").unwrap());
        };
        for name in ["enp3s10", "enp3s2", "em10", "em2", "eth0", "wlp1s0"] {
            nic(name, "up", &[]);
        }
        nic("eno1", "down", &[]);
        nic("ens5v0", "up", &["device/physfn"]);
        nic("elsewhere", "up", &["ifindex"]);
        nic("here", "up", &["ifindex"]);
        fs::create_dir_all(sys.path().join("br0")).unwrap();
        let entries = fs::read_dir(sys.path()).unwrap();
        let mut links: BTreeMap<String, Link> = entries
            .map(|entry| {
                (entry.unwrap().file_name().into_string().unwrap(), Link { index: 9, ..Link::default() })
            })
            .collect();
        links.get_mut("elsewhere").unwrap().index = 8;
        links.remove("em10");
        let found = numbered(sys.path(), links.iter());
        assert_eq!(found, ["em2", "eth0", "enp3s2", "enp3s10", "here", "wlp1s0"]);
    }
}
