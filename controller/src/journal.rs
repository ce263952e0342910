//! Lines of the log as entries of systemd's journal, with a field for each value: `journalctl MUSTER_STACK=web`. The
//! text of an entry is the line as it would be on stderr, so that `journalctl` alone shows what is in the fields, too.
//!
//! The socket takes a field as `NAME=value` and a line feed; a value with a line feed has its length instead of the `=`, as
//! systemd's page on its native protocol says. `tracing-journald` does the same, but leaves values out of the text.
//!
//! Absent: what is on stderr where there is no journal (`run.rs`).

use std::fmt::{Debug, Write as _};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

const SOCKET: &str = "/run/systemd/journal/socket";
/// systemd says here which stream of a service is the journal's.
const STREAM: &str = "JOURNAL_STREAM";
/// The most bytes of a value; a datagram has room for three of them.
const VALUE_MAX: usize = 48 * 1024;
/// The most bytes of the journal's names of fields.
const NAME_MAX: usize = 64;

/// Writes to systemd's journal.
#[derive(Debug)]
pub struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

/// A line of the log: its text, and its fields as the socket takes them.
struct Entry {
    message: String,
    values: String,
    fields: Vec<u8>,
}

impl Journal {
    /// If stderr is the journal's, as systemd says of a service.
    pub fn of_stderr() -> Option<Self> {
        let stream = std::env::var(STREAM).ok()?;
        let stderr = fs::metadata("/proc/self/fd/2").ok()?;
        if !is_stream(&stream, stderr.dev(), stderr.ino()) {
            return None;
        }
        Self::at(PathBuf::from(SOCKET)).filter(|journal| journal.path.exists())
    }

    fn at(path: PathBuf) -> Option<Self> {
        Some(Self { socket: UnixDatagram::unbound().ok()?, path })
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut entry = Entry { message: String::new(), values: String::new(), fields: Vec::new() };
        event.record(&mut entry);
        let Entry { message, values, mut fields } = entry;
        // Values begin with a space, and some lines have values alone.
        let space = if message.is_empty() { "" } else { " " };
        let text = format!("{}:{space}{message}{values}", metadata.target());
        put(&mut fields, "MESSAGE", &text);
        put(&mut fields, "PRIORITY", priority(*metadata.level()));
        put(&mut fields, "SYSLOG_IDENTIFIER", "muster-controller");
        put(&mut fields, "MUSTER_TARGET", metadata.target());
        // By its path each time: the journal may have started again.
        if self.socket.send_to(&fields, &self.path).is_err() {
            eprintln!("{text}");
        }
    }
}

impl Entry {
    fn value(&mut self, field: &Field, value: &str, shown: &dyn Debug) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
            return;
        }
        // Into a string nothing fails.
        let _ = write!(self.values, " {}={shown:?}", field.name());
        put(&mut self.fields, &name(field.name()), value);
    }
}

impl Visit for Entry {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.value(field, value, &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.value(field, &format!("{value:?}"), value);
    }
}

/// `DEVICE:INODE` of a file.
fn is_stream(stream: &str, device: u64, inode: u64) -> bool {
    let parts = stream.split_once(':').map(|(device, inode)| (device.parse(), inode.parse()));
    parts == Some((Ok(device), Ok(inode)))
}

/// The syslog's priorities.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

/// `MUSTER_STACK` of `stack`.
fn name(field: &str) -> String {
    let upper = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    let mut name = "MUSTER_".to_owned();
    name.extend(field.chars().map(upper).take(NAME_MAX - name.len()));
    name
}

fn put(fields: &mut Vec<u8>, name: &str, value: &str) {
    let value = &value[..value.floor_char_boundary(VALUE_MAX)];
    fields.extend(name.as_bytes());
    if value.contains('\n') {
        fields.push(b'\n');
        fields.extend((value.len() as u64).to_le_bytes());
    } else {
        fields.push(b'=');
    }
    fields.extend(value.as_bytes());
    fields.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// The packets that the journal's socket gets of a log.
    fn told(log: impl FnOnce()) -> Vec<Vec<u8>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        journal.set_nonblocking(true).unwrap();
        let subscriber = tracing_subscriber::registry().with(Journal::at(path).unwrap());
        tracing::subscriber::with_default(subscriber, log);
        let next = || {
            let mut datagram = vec![0; 4 * VALUE_MAX];
            let length = journal.recv(&mut datagram).ok()?;
            datagram.truncate(length);
            Some(datagram)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_line_has_its_values_in_the_text_and_in_fields() {
        let entries = told(|| {
            let error = Error::other("the disk is full");
            tracing::warn!(target: "muster", stack = %"web", node = "web-1", tries = 3, %error, "a try {}", "failed");
        });
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        let text = String::from_utf8(entry.clone()).unwrap();
        let fields: Vec<&str> = text.lines().collect();
        assert_eq!(
            fields,
            [
                "MUSTER_STACK=web",
                "MUSTER_NODE=web-1",
                "MUSTER_TRIES=3",
                "MUSTER_ERROR=the disk is full",
                "MESSAGE=muster: a try failed stack=web node=\"web-1\" tries=3 error=the disk is full",
                "PRIORITY=4",
                "SYSLOG_IDENTIFIER=muster-controller",
                "MUSTER_TARGET=muster",
            ]
        );
    }

    #[test]
    fn a_value_makes_no_field_of_its_own() {
        let forged = "x\nPRIORITY=0\nMESSAGE=all is well";
        let entries = told(|| tracing::info!(target: "muster", of = forged, "asked"));
        let mut wanted = b"MUSTER_OF\n".to_vec();
        wanted.extend((forged.len() as u64).to_le_bytes());
        wanted.extend(forged.as_bytes());
        wanted.extend(b"\nMESSAGE=muster: asked of=\"x\\nPRIORITY=0\\nMESSAGE=all is well\"\nPRIORITY=6\n");
        assert!(entries[0].starts_with(&wanted), "{}", String::from_utf8_lossy(&entries[0]));
    }

    #[test]
    fn a_long_value_is_cut_where_a_character_ends() {
        let long = "ü".repeat(VALUE_MAX);
        let entries = told(|| tracing::info!(long, "asked"));
        assert!(entries.len() == 1 && entries[0].len() < 3 * VALUE_MAX, "{}", entries.len());
        assert!(String::from_utf8(entries[0].clone()).is_ok());
    }

    #[test]
    fn stderr_is_the_journal_if_systemd_says_so() {
        for (stream, is_it) in [
            ("8:42", true),
            ("8:43", false),
            ("9:42", false),
            ("", false),
            ("8", false),
            ("8:42:1", false),
            ("8:x", false),
        ] {
            assert_eq!(is_stream(stream, 8, 42), is_it, "{stream}");
        }
        assert_eq!(name("http.route"), "MUSTER_HTTP_ROUTE");
        assert_eq!(name(&"a".repeat(99)).len(), NAME_MAX);
    }
}
