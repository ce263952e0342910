//! An OpenID provider: oidc-provider of npm, with the settings of `tests/oidc-provider`. It takes any password.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_testbed::{Daemon, Namespace, Running, command, eventually};
use serde_json::Value;

use super::binary;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/oidc-provider");
/// npm fetches 100 small packages, if they are not there yet.
const WITHIN: Duration = Duration::from_secs(300);

/// A provider that runs for as long as the value lives.
pub struct OidcProvider {
    pub daemon: Daemon,
}

impl OidcProvider {
    /// Starts it on this machine; `provider.js` says what the settings are.
    pub fn start(machine: &Namespace, settings: &Value, dir: &Path) -> Self {
        let mut node = command(Some(machine), "node");
        node.arg(place().join("provider.js")).arg(settings.to_string());
        let daemon = Daemon::start("oidc-provider", node, dir);
        let provider = Self { daemon };
        eventually("the provider answers", || provider.daemon.log().contains("\nready").then_some(()));
        provider
    }
}

/// Returns the directory of the provider's packages, where `make test` puts them. Tests of several processes put them
/// there one after the other.
fn place() -> PathBuf {
    let place = binary("muster-controller").ancestors().nth(2).unwrap().join("oidc-provider");
    fs::create_dir_all(&place).unwrap();
    let others = fs::File::create(place.join("lock")).unwrap();
    others.lock().unwrap();
    for name in ["package.json", "package-lock.json", "provider.js"] {
        let (from, to) = (Path::new(FILES).join(name), place.join(name));
        // The provider of another test may be reading it.
        if fs::read(&to).ok() != fs::read(&from).ok() {
            fs::copy(from, to).unwrap();
        }
    }
    if !place.join("node_modules/oidc-provider/package.json").exists() {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&place);
        Running::start(npm).finish_within(WITHIN).expect(0);
    }
    place
}
