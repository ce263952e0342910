//! Logs to stderr, human or JSON; the level can be changed while running.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

use crate::settings::LogFormat;

/// Changes the level.
pub type Level = reload::Handle<LevelFilter, Registry>;

/// Begins to log.
pub fn start(level: LevelFilter, format: LogFormat) -> Level {
    let (filter, handle) = reload::Layer::new(level);
    let layer = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    // Only a second call can fail, and this is the only one.
    let _ = match format {
        LogFormat::Human => registry.with(layer.with_ansi(false)).try_init(),
        LogFormat::Json => registry.with(layer.json()).try_init(),
    };
    handle
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
