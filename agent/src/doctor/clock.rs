//! Whether something keeps this server's clock right. How far it is off is the controller's to say: `muster doctor`.

use std::io;

use muster_shared::finding::Finding;

const CHECK: &str = "clock";

/// As the kernel says it.
pub fn finding(is_synchronised: io::Result<bool>) -> Finding {
    let remedy =
        "run chrony or systemd-timesyncd: 'timedatectl set-ntp true'; 'chronyc tracking' shows its state";
    match is_synchronised {
        Ok(true) => Finding::ok(CHECK, "the clock is synchronised"),
        Ok(false) => Finding::warning(CHECK, "nothing synchronises this server's clock", remedy),
        Err(error) => Finding::warning(
            CHECK,
            format!("the kernel does not say whether the clock is synchronised: {error}"),
            remedy,
        ),
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity;

    use super::*;

    #[test]
    fn a_clock_that_nobody_keeps_is_a_warning() {
        assert_eq!(finding(Ok(true)).state, Severity::Ok);
        assert_eq!(finding(Ok(false)).state, Severity::Warning);
        assert_eq!(finding(Err(io::ErrorKind::PermissionDenied.into())).state, Severity::Warning);
    }
}
