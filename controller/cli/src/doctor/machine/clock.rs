//! Whether something keeps the machine's clock right: all times of the site are the controller's.

use std::path::Path;

use muster_shared::finding::Finding;

use super::program::ask;

/// Nothing, where systemd is not there to say it.
pub async fn check() -> Option<Finding> {
    let arguments = ["show", "--property=NTPSynchronized", "--value"];
    finding(ask(Path::new("/usr/bin/timedatectl"), &arguments).await?.trim())
}

fn finding(said: &str) -> Option<Finding> {
    const CHECK: &str = "clock";
    match said {
        "yes" => Some(Finding::ok(CHECK, "the clock is synchronised")),
        "no" => Some(Finding::warning(
            CHECK,
            "nothing synchronises this machine's clock",
            "run chrony or systemd-timesyncd: 'timedatectl set-ntp true'",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity::{Ok, Warning};

    use super::*;

    #[test]
    fn what_timedatectl_says() {
        for (said, state) in [("yes", Some(Ok)), ("no", Some(Warning)), ("", None)] {
            assert_eq!(finding(said).map(|finding| finding.state), state, "{said}");
        }
    }
}
