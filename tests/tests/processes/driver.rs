//! A controller whose driver dies or hangs does not go on looking well. Debug builds break it at a signal
//! (`muster_controller::debug_signals`).

use std::ffi::OsStr;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use muster_testbed::{PATIENCE, eventually};
use muster_tests::site::Site;

/// Long beside the signs of a controller that is well: eight of them.
const SILENCE: Duration = Duration::from_secs(4);
/// For systemd, in microseconds: four signs in each. A driver that hangs is given four of them.
const WATCHDOG: &str = "2000000";
/// Signs that may still come of a driver that hangs: four for each of the times that it is given, and as many again.
const SIGNS_MAX: usize = 32;

#[test]
fn a_driver_panic_ends_the_controller_and_the_next_continues() {
    let mut site = Site::start();
    let _web1 = site.join("web-1");
    site.controller.signal("USR1");
    let status = eventually("the controller ends", || site.controller.ended());
    assert_eq!(status.code(), Some(1));
    let log = site.controller.log();
    assert!(log.contains("SIGUSR1 asks for it") && log.contains("error: the driver ended"), "{log}");
    site.restart();
    site.until_node("web-1", "online");
}

#[test]
fn the_watchdog_hears_nothing_of_a_driver_that_hangs() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    let site =
        Site::with_variables(&[("NOTIFY_SOCKET", path.as_os_str()), ("WATCHDOG_USEC", OsStr::new(WATCHDOG))]);
    systemd.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut said = [0; 256];
        let count = systemd.recv(&mut said).ok()?;
        Some(String::from_utf8_lossy(&said[..count]).trim().to_owned())
    };
    for expected in ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"] {
        assert_eq!(hear().as_deref(), Some(expected));
    }
    site.controller.signal("USR2");
    systemd.set_read_timeout(Some(SILENCE)).unwrap();
    let signs = std::iter::from_fn(hear).take(SIGNS_MAX).count();
    assert!(signs < SIGNS_MAX, "the watchdog is told that all is well");
}
