//! Finds the known name that is nearest to an unknown one.

/// The longest name that can be a misspelt one, in letters.
const NAME_MAX: usize = 64;

/// The number of insertions, deletions, substitutions and exchanges of neighbouring letters between
/// two names.
pub fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(a, b)
}

/// The known name that differs from `name` in at most a third of its letters, and in at most four, ignoring
/// case. `None` if there is no such name.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    if length > NAME_MAX {
        return None;
    }
    let bound = (length / 3).clamp(1, 4);
    known
        .into_iter()
        // A difference of one letter is one of at most four bytes.
        .filter(|candidate| {
            let letter = if name.is_ascii() && candidate.is_ascii() { 1 } else { 4 };
            candidate.len().abs_diff(name.len()) <= bound * letter
        })
        .map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= bound)
        .min()
        .map(|(_, candidate)| candidate)
}

/// `; did you mean 'X'?` with the nearest name, or an empty text if none is near.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

/// [`suggestion`]; where no name is near, all of them.
pub fn suggestion_or_all(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("; did you mean '{near}'?"),
        None => format!("; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered() {
        let known = ["rollout", "rollback", "retain", "group", "grüne"];
        for (name, near) in [
            ("rolout", Some("rollout")),
            ("Rollback", Some("rollback")),
            ("ratein", Some("retain")),
            ("gorup", Some("group")),
            ("grune", Some("grüne")),
            ("x", None),
            ("", None),
            (&"r".repeat(NAME_MAX + 1), None),
        ] {
            assert_eq!(nearest(name, known), near, "{name}");
        }
        assert_eq!(suggestion("gruop", known), "; did you mean 'group'?");
        assert_eq!(suggestion_or_all("zzz", &["a", "b"]), "; known are a, b");
    }
}
