//! `[telemetry]`: the collector of OpenTelemetry that gets traces.
//!
//! Absent: which spans there are (`telemetry/operations.rs`).

use anyhow::Context as _;
use serde::Deserialize;

use crate::telemetry::Endpoint;

/// `[telemetry]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySettings {
    /// `http://HOST:4318`; empty: there are no traces.
    otlp: String,
}

impl TelemetrySettings {
    /// The endpoint to which spans are sent. `None`: nowhere.
    ///
    /// # Errors
    /// The setting is wrong; the error says what is wanted.
    pub fn endpoint(&self) -> anyhow::Result<Option<Endpoint>> {
        if self.otlp.is_empty() {
            return Ok(None);
        }
        self.otlp.parse().map(Some).map_err(anyhow::Error::msg).context("telemetry.otlp is wrong")
    }
}
