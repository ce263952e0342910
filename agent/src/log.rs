//! Logs to stderr, human or JSON; the level can be changed while running. Where stderr is systemd's journal, a line for
//! people begins with its priority, as the journal takes it: `journalctl -p warning`.
//!
//! Absent: fields of the journal. Its protocol would cost more than the log is worth on a server of one node.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use tracing::{Event, Level as Severity, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, fmt, reload};

use crate::settings::LogFormat;

/// Changes the level.
pub type Level = reload::Handle<LevelFilter, Registry>;

/// Begins to log.
pub fn start(level: LevelFilter, format: LogFormat) -> Level {
    let (filter, handle) = reload::Layer::new(level);
    let layer = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = fmt::format().with_target(false).with_ansi(false);
    // Only a second call can fail, and this is the only one.
    let _ = match format {
        LogFormat::Human if is_of_journal() => {
            registry.with(layer.with_ansi(false).event_format(WithPriority(lines))).try_init()
        }
        LogFormat::Human => registry.with(layer.with_ansi(false)).try_init(),
        LogFormat::Json => registry.with(layer.json()).try_init(),
    };
    handle
}

/// As systemd says of a service: the device and the inode of the journal's stream.
fn is_of_journal() -> bool {
    let Ok(stderr) = fs::metadata("/proc/self/fd/2") else { return false };
    std::env::var("JOURNAL_STREAM").is_ok_and(|stream| stream == format!("{}:{}", stderr.dev(), stderr.ino()))
}

/// Lines of a format, each with its priority.
struct WithPriority<F>(F);

impl<S, N, F> FormatEvent<S, N> for WithPriority<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        writer.write_str(match *event.metadata().level() {
            Severity::ERROR => "<3>",
            Severity::WARN => "<4>",
            Severity::INFO => "<6>",
            Severity::DEBUG | Severity::TRACE => "<7>",
        })?;
        self.0.format_event(context, writer, event)
    }
}

/// The reason of a failed job for this server's log: without quoted text, since a property may be a secret.
/// Only the controller knows the secrets, and shows the rest.
pub fn unquoted(reason: &str) -> String {
    let opens = |(at, _): &(usize, &str)| !reason[..*at].ends_with(char::is_alphanumeric);
    let Some((from, _)) = reason.match_indices('\'').find(opens) else { return reason.to_owned() };
    // The quoted text may contain such a mark, or was cut short.
    match reason.rfind('\'').filter(|upto| *upto > from) {
        Some(upto) => format!("{}'…{}", &reason[..from], &reason[upto..]),
        None => format!("{}'…", &reason[..from]),
    }
}

#[cfg(test)]
mod tests {
    use super::unquoted;

    #[test]
    fn what_is_quoted_is_left_out() {
        for (reason, shown) in [
            ("/x: there is no user 'hunter22' on this node", "/x: there is no user '…' on this node"),
            ("'a' is not 'b': no", "'…': no"),
            ("'a' b' c", "'…' c"),
            ("want 'a", "want '…"),
            ("the switch's own", "the switch's own"),
            ("", ""),
        ] {
            assert_eq!(unquoted(reason), shown);
        }
    }
}
