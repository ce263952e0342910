//! The clock of this machine: tells an operator that one is wrong, where the controller's certificate is not valid now.
//!
//! A controller renews its certificate long before it ends. If one is not valid by this server's clock, one of
//! the two clocks is wrong.
//!
//! Absent: the report of this server's clock (`agent/src/driver/clock.rs`), and how far a clock may be off
//! (`controller/engine/src/node/clock.rs`).

use std::error::Error;
use std::io;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::time::utc;
use nix::time::{ClockId, clock_gettime};
use rustls::CertificateError;
use rustls::pki_types::UnixTime;

/// The time since the machine's boot: it goes on while the machine sleeps.
pub(crate) fn since_boot() -> MonoTime {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has this clock");
    MonoTime(Duration::from(time))
}

/// For the operator, where the controller's certificate was refused for its time.
pub(crate) fn wrong_clock(error: &(dyn Error + 'static)) -> Option<String> {
    let (now, what, then) = match certificate_error(error)? {
        CertificateError::NotValidYetContext { time, not_before } => (time, "begins", not_before),
        CertificateError::ExpiredContext { time, not_after } => (time, "ended", not_after),
        _ => return None,
    };
    let at = |time: &UnixTime| utc(time.as_secs());
    Some(format!(
        "this server's clock says {}, and the controller's certificate {what} {}: one of the two clocks is wrong; set it \
         (chronyc makestep, timedatectl), then this server connects by itself",
        at(now),
        at(then)
    ))
}

/// The reason why a certificate was refused, if that is what went wrong.
pub(crate) fn certificate_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a CertificateError> {
    // An I/O error holds the one of TLS, and does not give it as its source.
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let inner = inner.map(|inner| inner as &(dyn Error + 'static));
    match inner.unwrap_or(error).downcast_ref::<rustls::Error>() {
        Some(rustls::Error::InvalidCertificate(error)) => Some(error),
        Some(_) => None,
        None => certificate_error(error.source()?),
    }
}
