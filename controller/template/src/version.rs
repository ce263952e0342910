//! HOT's versions, in order: a later one has all features of an earlier one.
//!
//! Absent: which function needs which version (`function_list.rs`), and the refusal of other features (`resolve.rs`).

use std::fmt;

/// `heat_template_version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// `2013-05-23`, Icehouse
    Icehouse,
    /// `2014-10-16`, Juno
    Juno,
    /// `2015-04-30`, Kilo
    Kilo,
    /// `2015-10-15`, Liberty
    Liberty,
    /// `2016-04-08`, Mitaka
    Mitaka,
    /// `2016-10-14` or `newton`
    Newton,
    /// `2017-02-24` or `ocata`
    Ocata,
    /// `2017-09-01` or `pike`
    Pike,
    /// `2018-03-02` or `queens`
    Queens,
    /// `2018-08-31` or `rocky`
    Rocky,
    /// `2021-04-16` or `wallaby`
    Wallaby,
}

/// Date and, since Newton, code name.
const TABLE: [(Version, &str, Option<&str>); 11] = [
    (Version::Icehouse, "2013-05-23", None),
    (Version::Juno, "2014-10-16", None),
    (Version::Kilo, "2015-04-30", None),
    (Version::Liberty, "2015-10-15", None),
    (Version::Mitaka, "2016-04-08", None),
    (Version::Newton, "2016-10-14", Some("newton")),
    (Version::Ocata, "2017-02-24", Some("ocata")),
    (Version::Pike, "2017-09-01", Some("pike")),
    (Version::Queens, "2018-03-02", Some("queens")),
    (Version::Rocky, "2018-08-31", Some("rocky")),
    (Version::Wallaby, "2021-04-16", Some("wallaby")),
];

impl Version {
    /// The version of a date or a code name.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE
            .iter()
            .find(|(_, date, code)| *date == name || *code == Some(name))
            .map(|(version, ..)| *version)
    }

    /// The last of all.
    pub const NEWEST: Self = Self::Wallaby;

    pub fn date(self) -> &'static str {
        self.row().1
    }

    /// The names that a template may use, in order.
    pub fn names() -> Vec<&'static str> {
        TABLE.iter().flat_map(|(_, date, code)| std::iter::once(*date).chain(*code)).collect()
    }

    fn row(self) -> &'static (Self, &'static str, Option<&'static str>) {
        TABLE.iter().find(|(version, ..)| *version == self).expect("every version is in the table")
    }
}

/// The form is that of `2018-08-31 (rocky)`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, date, code) = self.row();
        match code {
            Some(code) => write!(f, "{date} ({code})"),
            None => f.write_str(date),
        }
    }
}
