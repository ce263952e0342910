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
    // Only a second call can fail, and there is one.
    let _ = match format {
        LogFormat::Human => registry.with(layer.with_ansi(false)).try_init(),
        LogFormat::Json => registry.with(layer.json()).try_init(),
    };
    handle
}
