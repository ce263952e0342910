//! Words for people: counts, times, and texts that control no terminal.

/// A text on one line.
pub fn word(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { printable(text) }
}

/// `1 resource`, `2 resources`
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Control characters escaped: what others wrote must not drive this terminal.
pub fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
        out
    })
}

/// `node_away 35 s`, `hook pre-update 2 min 5 s`: the wait of a row, and its duration. Empty if the row does
/// not wait.
pub fn phase_since(phase: &str, hook: Option<&str>, seconds: u64) -> String {
    if phase.is_empty() {
        return String::new();
    }
    let hook = hook.filter(|_| phase == "hook").map(printable);
    [Some(printable(phase)), hook, Some(span(seconds))].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// `5 s`, `2 min 5 s`, `3 h 2 min`, `2 d 3 h`: as exact as anyone asks.
pub fn span(seconds: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)];
    let first = UNITS.iter().position(|(_, size)| seconds >= *size).unwrap_or(3);
    let parts = UNITS[first..].iter().take(2).scan(seconds, |rest, (unit, size)| {
        let count = *rest / size;
        *rest %= size;
        Some((count, unit))
    });
    let parts = parts.enumerate().filter(|(index, (count, _))| *index == 0 || *count > 0);
    parts.map(|(_, (count, unit))| format!("{count} {unit}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (seconds, wanted) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (125, "2 min 5 s"),
            (3600, "1 h"),
            (10_925, "3 h 2 min"),
            (86_400, "1 d"),
            (90_061, "1 d 1 h"),
            (u64::MAX, "213503982334601 d 7 h"),
        ] {
            assert_eq!(span(seconds), wanted);
        }
    }
}
