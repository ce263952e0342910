//! The page's text.

use std::fmt::Write as _;

use super::PLOT;
use super::measurement::Measurement;
use super::rows::{Bound, Figure, Found, Row, Unit};

/// The texts before and after the raw lines.
pub const RAW_BEGINS: &str = "\n```json\n";
pub const RAW_ENDS: &str = "```\n";

const HEAD: &str = "# Benchmarks\n
`make bench` measures Muster on one machine, and writes this page. Change no line of it by hand.\n";

const METHOD: &str = "## Method
`tests/bench/all.sh PART…` measures parts and prints a line of JSON for each measurement. With `--into docs` it also
puts the lines on this page. Each line replaces the older one of its kind, so one part can be measured again. `make bench`
does that with all parts.

- Programs are release builds; the agent is the small one that packages have.
- Controller, agents, brokers and databases run on the same machine, over loopback or in network namespaces. They share its
  processors with what loads them.
- A commit of Muster is durable before its effect leaves, also where it is compared with itself over another link or
  database. Heat has its database in memory.
- A ratio is of two figures of one run. Trust it before a figure that stands alone: other work on the machine slows both.
- `muster-sim fleet` has thousands of agents in few processes, with their real machines and their real connections over
  TLS. Disk and server of such an agent are in memory. Its handshakes cost as much as the controller's, on the same
  processors. A controller has no door for plain TCP, so there is no figure without them.
- A file descriptor is needed for each connection, so the system's limit (`ulimit -Hn`) bounds the number of agents.
- A bound is what we hold ourselves to. A figure that misses it is marked, and nothing fails by it.
";

/// The whole page.
pub fn page(found: &[Found<'_>], measurements: &[Measurement]) -> String {
    let mut page = format!("{HEAD}\n## Machine\n{}\n\n## Figures\n", machine(measurements));
    page.push_str("| what | figure | bound | part | measured |\n|---|---|---|---|---|\n");
    for Found { row, measured } in found {
        let Row { what, unit, bound, .. } = row;
        let (figure, date) = match measured {
            None => ("not measured".to_owned(), ""),
            Some(Figure { number, date }) => {
                let missed = bound.is_some_and(|bound| bound.used(*number) > 1.0);
                let figure = unit.say(*number);
                (if missed { format!("**{figure}**: missed") } else { figure }, date.as_str())
            }
        };
        let bound = match *bound {
            None => String::new(),
            Some(Bound::AtMost(most)) => format!("at most {}", unit.say(most)),
            Some(Bound::AtLeast(least)) => format!("at least {}", unit.say(least)),
        };
        writeln!(page, "| {what} | {figure} | {bound} | `{}` | {date} |", row.part())
            .expect("a string takes all");
    }
    write!(
        page,
        "\nHow much of its bound each figure uses; 1 is the bound, and less is better:\n\n![How much of its bound each \
         figure uses]({PLOT})\n\n{METHOD}\n## Raw lines\n`part` is the argument of `tests/bench/all.sh`. Names end in their \
         unit.\n{RAW_BEGINS}"
    )
    .expect("a string takes all");
    for measurement in measurements {
        page.push_str(measurement.line());
        page.push('\n');
    }
    page.push_str(RAW_ENDS);
    page
}

/// The machine in a sentence.
fn machine(measurements: &[Measurement]) -> String {
    let machine = measurements.iter().rev().find(|it| it.text("bench") == "machine");
    let number = |name| machine.and_then(|machine| machine.number(name));
    let (Some(machine), Some(processors), Some(memory), Some(fsync)) =
        (machine, number("processors"), number("memory_bytes"), number("fsync_s"))
    else {
        return "The machine was not described.".to_owned();
    };
    format!(
        "{processors} processors, {} of memory, Linux {}. A write of 4 KiB and its fsync take {}.",
        Unit::Bytes.say(memory),
        machine.text("kernel"),
        Unit::Seconds.say(fsync)
    )
}

impl Unit {
    /// A number with its unit, in three digits.
    pub fn say(self, number: f64) -> String {
        match self {
            Self::Seconds if number < 0.1 => Self::Milliseconds.say(number * 1e3),
            Self::Seconds => format!("{} s", digits(number)),
            Self::Milliseconds => format!("{} ms", digits(number)),
            Self::Bytes if number < 1e3 => format!("{} bytes", digits(number)),
            Self::Bytes if number < 1e6 => format!("{} KB", digits(number / 1e3)),
            Self::Bytes if number < 1e9 => format!("{} MB", digits(number / 1e6)),
            Self::Bytes => format!("{} GB", digits(number / 1e9)),
            Self::Percent => format!("{} %", digits(number)),
            Self::PerSecond => format!("{} per second", digits(number)),
            Self::PerMinute => format!("{} per minute", digits(number)),
            Self::Times => format!("{} ×", digits(number)),
            Self::Count => digits(number),
        }
    }
}

/// Three digits, or all that are before the point; thousands have commas.
fn digits(number: f64) -> String {
    let before = if number.abs() < 1.0 { 0 } else { number.abs().log10() as usize + 1 };
    let decimals = 3_usize.saturating_sub(before.max(1));
    let text = format!("{number:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    let (whole, rest) = text.find('.').map_or((text, ""), |at| text.split_at(at));
    let mut grouped = String::new();
    for (index, digit) in whole.char_indices() {
        let left = whole.len() - index;
        if index > 0 && left % 3 == 0 && digit.is_ascii_digit() {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_their_unit() {
        let table = [
            (Unit::Seconds, 2.0, "2 s"),
            (Unit::Seconds, 12.345, "12.3 s"),
            (Unit::Seconds, 0.0123, "12.3 ms"),
            (Unit::Milliseconds, 0.061, "0.06 ms"),
            (Unit::Bytes, 512.0, "512 bytes"),
            (Unit::Bytes, 27_400.0, "27.4 KB"),
            (Unit::Bytes, 2.5e9, "2.5 GB"),
            (Unit::PerSecond, 1_234_567.8, "1,234,568 per second"),
            (Unit::Times, 0.25, "0.25 ×"),
            (Unit::Percent, 0.0, "0 %"),
            (Unit::Count, 100.0, "100"),
        ];
        for (unit, number, wanted) in table {
            assert_eq!(unit.say(number), wanted);
        }
    }
}
