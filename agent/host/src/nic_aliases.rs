//! The link of every alias of this server, for people: `nicN`, and the aliases of a mapping file.
//!
//! Active cards are numbered. A mapping can name further cards, and a card that it names keeps its alias. As
//! `mapped_nics` of os-net-config's `objects.py`.
//!
//! Absent: which cards are active, and their order (`net/nics.rs`).

use std::collections::BTreeMap;

/// The aliases and their links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    /// Alias → link.
    pub names: BTreeMap<String, String>,
    /// Parts of the mapping that were left out, and why.
    pub warnings: Vec<String>,
}

/// The aliases of the server: those of `mapping` whose link is among `links` (name → MAC address), then
/// `nicN` for the active cards that it does not name.
///
/// # Errors
/// Two aliases stand for one link, or an alias is the name of another link that is up.
pub fn mapped(
    mapping: &BTreeMap<String, String>,
    active: &[String],
    links: &BTreeMap<String, String>,
) -> Result<Mapped, String> {
    let mut found = Mapped::default();
    for (alias, wanted) in mapping {
        let mac = wanted.to_ascii_lowercase().replace('-', ":");
        let by_mac =
            || links.iter().find(|(_, of_link)| **of_link == mac && mac.len() == 17).map(|(name, _)| name);
        let Some(name) = links.get_key_value(wanted).map(|(name, _)| name).or_else(by_mac) else {
            found.warnings.push(format!("{alias}: there is no interface {wanted}"));
            continue;
        };
        if let Some((other, _)) = found.names.iter().find(|(_, taken)| *taken == name) {
            return Err(format!("{other} and {alias} both stand for {name}: check the mapping file"));
        }
        if active.contains(alias) && alias != name {
            return Err(format!("{alias} cannot stand for {name}: it is an interface itself"));
        }
        if !active.contains(name) {
            found.warnings.push(format!("{alias}: {name} is not an active network card"));
        }
        found.names.insert(alias.clone(), name.clone());
    }
    for (index, name) in active.iter().enumerate() {
        if found.names.values().any(|taken| taken == name) {
            continue;
        }
        let alias = format!("nic{}", index + 1);
        match found.names.get(&alias) {
            Some(taken) => {
                found.warnings.push(format!("{name} has no alias: {alias} stands for {taken}"));
            }
            None => {
                found.names.insert(alias, name.clone());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn a_mapping_counts_more_and_the_rest_keep_their_numbers() {
        let active = ["em1", "em2", "em3"].map(str::to_owned);
        let links = map(&[("em1", "a"), ("em2", "52:54:00:00:00:02"), ("em3", "c"), ("em4", "d")]);
        let mapping = map(&[
            ("nic1", "em3"),
            ("nic9", "52-54-00-00-00-02"),
            ("storage", "em4"),
            ("gone", "em7"),
            ("lost", "52:54:00:00:00:99"),
        ]);
        let found = mapped(&mapping, &active, &links).unwrap();
        // em1 would be nic1, which is taken; its number is not given to another.
        assert_eq!(found.names, map(&[("nic1", "em3"), ("nic9", "em2"), ("storage", "em4")]));
        assert_eq!(
            found.warnings,
            [
                "gone: there is no interface em7",
                "lost: there is no interface 52:54:00:00:00:99",
                "storage: em4 is not an active network card",
                "em1 has no alias: nic1 stands for em3",
            ]
        );
        let none = mapped(&BTreeMap::new(), &active, &links).unwrap();
        assert_eq!(none.names, map(&[("nic1", "em1"), ("nic2", "em2"), ("nic3", "em3")]));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let active = ["em1".to_owned(), "em2".to_owned()];
        let links = map(&[("em1", "a"), ("em2", "b")]);
        let twice = mapped(&map(&[("a1", "em1"), ("a2", "em1")]), &active, &links);
        assert!(twice.unwrap_err().contains("both stand for em1"));
        let shadow = mapped(&map(&[("em1", "em2")]), &active, &links);
        assert!(shadow.unwrap_err().contains("it is an interface itself"));
        assert!(mapped(&map(&[("em1", "em1")]), &active, &links).is_ok());
    }
}
