//! Whether a speed was requested from an interface, as opposed to its present speed: an interface that
//! negotiates has no speed without a carrier, and otherwise the speed that the other end agrees to. Pure.
//!
//! The kernel turns a requested speed into advertised modes. Without negotiation the speed itself counts,
//! which some drivers do not report without a carrier.

use super::Settings;

pub(in super::super) const AUTONEG: &str = "link/autoneg";
pub(in super::super) const SPEED: &str = "link/speed";
pub(in super::super) const DUPLEX: &str = "link/duplex";
/// The prefix of a mode's name, such as `1000baseT/Full`: its value is 1 if advertised.
pub(in super::super) const MODES: &str = "modes/";

/// Whether a setting was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Asked {
    Yes,
    /// A different value was requested.
    No,
    /// The interface does not tell at present.
    Untold,
}

/// Whether the setting was requested, judging by all settings that the interface reports.
pub(in super::super) fn is_asked(now: Option<&Settings>, key: &str, value: u32) -> Asked {
    let yes = |is: bool| if is { Asked::Yes } else { Asked::No };
    let Some(now) = now else { return Asked::No };
    let is_result = matches!(key, SPEED | DUPLEX);
    if is_result && negotiates(now) {
        let advertised = now.iter().filter(|(_, on)| **on == 1).filter_map(|(name, _)| mode(name));
        let of_each: Vec<u32> =
            advertised.map(|(speed, duplex)| if key == SPEED { speed } else { duplex }).collect();
        return yes(!of_each.is_empty() && of_each.iter().all(|has| *has == value));
    }
    match now.get(key) {
        Some(has) => yes(*has == value),
        None if is_result && now.contains_key(AUTONEG) => Asked::Untold,
        None => Asked::No,
    }
}

/// The settings that restore a link: its advertised modes, or its speed if it does not negotiate.
pub(in super::super) fn to_put_back(now: &Settings) -> impl Iterator<Item = (&String, &u32)> {
    let negotiates = negotiates(now);
    let counts = move |name: &str| match name {
        SPEED | DUPLEX => !negotiates,
        name if name.starts_with(MODES) => negotiates,
        _ => true,
    };
    now.iter().filter(move |(name, _)| counts(name))
}

/// Whether this is a setting of the link itself: those are read together and restored together.
pub(in super::super) fn is_of_link(name: &str) -> bool {
    name.starts_with("link/") || name.starts_with(MODES)
}

fn negotiates(now: &Settings) -> bool {
    now.get(AUTONEG) == Some(&1) && now.keys().any(|name| mode(name).is_some())
}

/// The speed in Mbit/s, and 1 for full duplex. `None` for names that are no mode, such as `TP` or `Pause`.
fn mode(name: &str) -> Option<(u32, u32)> {
    let (speed, rest) = name.strip_prefix(MODES)?.split_once("base")?;
    Some((speed.parse().ok()?, u32::from(!rest.ends_with("/Half"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethtool_compares_the_requested_speed_not_the_negotiated_one() {
        const ALL: &[&str] =
            &["10baseT/Half", "10baseT/Full", "100baseT/Half", "100baseT/Full", "1000baseT/Full"];
        const GIGABIT: &[&str] = &["1000baseT/Full"];
        const HUNDRED: &[&str] = &["100baseT/Half", "100baseT/Full"];
        let (yes, no, untold) = (Asked::Yes, Asked::No, Asked::Untold);
        for (autoneg, advertised, told, speed, duplex, why) in [
            (1, ALL, Some((1000, 1)), no, no, "it has it now, and may have another tomorrow"),
            (1, ALL, None, no, no, "no cable"),
            (1, GIGABIT, Some((1000, 1)), yes, yes, "asked for and there"),
            (1, GIGABIT, None, yes, yes, "asked for, no cable"),
            (1, HUNDRED, Some((100, 0)), no, no, "another speed, of both kinds"),
            (1, &[][..], None, no, no, "nothing advertised"),
            (0, ALL, Some((1000, 1)), yes, yes, "forced"),
            (0, ALL, Some((100, 0)), no, no, "forced to another"),
            (0, ALL, None, untold, untold, "forced, without a carrier"),
        ] {
            let mut now: Settings = ALL
                .iter()
                .map(|name| (format!("modes/{name}"), u32::from(advertised.contains(name))))
                .collect();
            now.extend([("modes/TP".to_owned(), 1), (AUTONEG.to_owned(), autoneg)]);
            if let Some((speed, duplex)) = told {
                now.extend([(SPEED.to_owned(), speed), (DUPLEX.to_owned(), duplex)]);
            }
            let found = (is_asked(Some(&now), SPEED, 1000), is_asked(Some(&now), DUPLEX, 1));
            assert_eq!(found, (speed, duplex), "{why}");
            assert_eq!(is_asked(Some(&now), AUTONEG, autoneg), yes, "{why}");
            let back: Settings = to_put_back(&now).map(|(name, value)| (name.clone(), *value)).collect();
            assert_eq!(back.contains_key("modes/1000baseT/Full"), autoneg == 1, "{why}");
            assert_eq!(
                back.get(SPEED),
                told.map(|(speed, _)| speed).filter(|_| autoneg == 0).as_ref(),
                "{why}"
            );
        }
        // A tap device negotiates nothing and has no modes; others tell nothing at all.
        let tap = Settings::from([(AUTONEG.to_owned(), 0), (SPEED.to_owned(), 10)]);
        assert_eq!((is_asked(Some(&tap), SPEED, 10), is_asked(Some(&tap), SPEED, 100)), (yes, no));
        assert_eq!((is_asked(Some(&Settings::new()), SPEED, 10), is_asked(None, SPEED, 10)), (no, no));
    }
}
