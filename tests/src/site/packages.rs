//! Packages of the programs under test, as `make packages` makes them but for glibc: this machine's.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_testbed::{Running, Server};
use tempfile::TempDir;

use super::binary;

/// The names of all three.
pub const PACKAGES: [&str; 3] = ["muster-agent", "muster-controller", "muster"];

/// Packages of one version; gone with the value.
pub struct Packages {
    version: String,
    dir: TempDir,
}

impl Packages {
    /// Makes the packages of one kind, `deb` or `rpm`.
    pub fn make(kind: &str, version: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/packages");
        let mut command = Command::new(script);
        command.args(["--version", version, "--only", kind, "--fast"]).arg(dir.path());
        command.args(["muster", "muster-controller", "muster-agent"].map(binary));
        Running::start(command).finish().expect(0);
        Self { version: version.to_owned(), dir }
    }

    /// The file of one.
    pub fn file(&self, name: &str) -> PathBuf {
        let files = std::fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let named = |path: &PathBuf| {
            let file = path.file_name().unwrap().to_str().unwrap();
            ["-", "_"].iter().any(|joint| file.starts_with(&format!("{name}{joint}{}", self.version)))
        };
        files.into_iter().find(named).unwrap_or_else(|| panic!("no package of {name}"))
    }

    /// Puts Debian packages into a server, for `dpkg -i`; their paths there.
    pub fn copy(&self, server: &Server, names: &[&str]) -> String {
        let there: Vec<_> = names
            .iter()
            .map(|name| {
                let path = format!("/run/packages/{name}-{}.deb", self.version);
                server.copy(&self.file(name), &path);
                path
            })
            .collect();
        there.join(" ")
    }

    /// Installs these in a server; what dpkg said.
    pub fn install(&self, server: &Server, names: &[&str]) -> String {
        let files = self.copy(server, names);
        server.sh(&format!("DEBIAN_FRONTEND=noninteractive dpkg -i {files} 2>&1; rm {files}"))
    }
}
