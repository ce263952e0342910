//! Cron expressions as Heat takes them: what croniter, its library, reads.
//!
//! A sixth field counts seconds and comes last, where others have it first
//! ([decision 0042](../../../../docs/decisions/0042-hand-written-readers.md)). Absent: when an expression is due.

/// A field's range and, if it has names, the number of the first and the names from there on.
struct Field {
    range: (u32, u32),
    names: (u32, &'static [&'static str]),
    /// Returns whether an item of another form is valid.
    also: fn(&str, &Field) -> bool,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Minute, hour, day of the month, month, day of the week, second.
const FIELDS: [Field; 6] = [
    Field::of(0, 59),
    Field::of(0, 23),
    // `l`: the last day.
    Field { also: |item, _| item == "l", ..Field::of(1, 31) },
    Field { names: (1, &MONTHS), ..Field::of(1, 12) },
    Field { names: (0, &DAYS), also: is_nth_day, ..Field::of(0, 7) },
    Field::of(0, 59),
];
const WHOLE: [&str; 7] = ["@annually", "@daily", "@hourly", "@midnight", "@monthly", "@weekly", "@yearly"];

/// Whether the text is a cron expression.
pub(super) fn is_cron(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let given: Vec<&str> = text.split_whitespace().collect();
    let fits = |(text, field): (&&str, &Field)| text.split(',').all(|item| field.has(item));
    WHOLE.contains(&text.as_str()) || ((5..=6).contains(&given.len()) && given.iter().zip(&FIELDS).all(fits))
}

/// `fri#2`: the second Friday; `l5`: the last Friday.
fn is_nth_day(item: &str, day: &Field) -> bool {
    match item.split_once('#') {
        Some((name, nth)) => day.value(name).is_some() && number(nth).is_some_and(|n| (1..=5).contains(&n)),
        None => item.strip_prefix('l').and_then(number).is_some_and(|n| n <= day.range.1),
    }
}

impl Field {
    const fn of(least: u32, most: u32) -> Self {
        Self { range: (least, most), names: (0, &[]), also: |_, _| false }
    }

    /// `*`, a value or a range, each with a step if wanted.
    fn has(&self, item: &str) -> bool {
        let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
        let fits = match range.split_once('-') {
            Some((from, to)) => self.value(from).zip(self.value(to)).is_some_and(|(from, to)| from <= to),
            None => range == "*" || self.value(range).is_some(),
        };
        let is_whole = step.is_none_or(|step| number(step).is_some_and(|step| step > 0));
        (fits && is_whole) || (self.also)(item, self)
    }

    fn value(&self, text: &str) -> Option<u32> {
        let (first, names) = self.names;
        let named = (first..).zip(names).find(|(_, name)| **name == text).map(|(number, _)| number);
        named.or_else(|| number(text).filter(|n| (self.range.0..=self.range.1).contains(n)))
    }
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expectations are those of croniter 1.4.1.
    #[test]
    fn expressions_are_those_of_croniter() {
        for text in [
            "0 3 * * *",
            " 0 3 * * * ",
            "00 03 * * *",
            "*/5 0-6,12 1 jan mon-fri",
            "0 0 1 1 * 30",
            "* * * * * */90",
            "*/5,7 * * * *",
            "1/5 * * * *",
            "5-5 * * * *",
            "0-59/2 * * * *",
            "0 0 L * *",
            "0 0 1,l * *",
            "0 0 * jan/2 *",
            "* * * JAN-mar *",
            "0 0 * * 5-7",
            "0 0 * * sun-sat",
            "0 0 * * fri#2,mon#1",
            "* * * * 0#5",
            "0 0 * * L5",
            "@daily",
            "@Hourly",
        ] {
            assert!(is_cron(text), "{text}");
        }
        for text in [
            "60 * * * *",
            "+1 * * * *",
            "* * * *",
            "* * * * * * *",
            "a * * * *",
            "? * * * *",
            "*/0 * * * *",
            "1-5/ * * * *",
            "*-5 * * * *",
            "5-1 * * * *",
            "1, * * * *",
            "0 24 * * *",
            "0 22-2 * * *",
            "0 0 0 1 1",
            "0 0 1-40 * *",
            "0 0 1W * *",
            "0 0 L-3 * *",
            "0 0 L/2 * *",
            "0 0 1 13 *",
            "0 0 1 1 * 60",
            "* * * * * l",
            "0 0 * * 8",
            "0 0 * * 7-1",
            "0 0 * * fri-mon",
            "0 0 * * L",
            "0 0 * * Lfri",
            "0 0 * * mon#0",
            "0 0 * * mon#6",
            "0 0 * * 5L",
            "@reboot",
            "@daily *",
        ] {
            assert!(!is_cron(text), "{text}");
        }
    }
}
