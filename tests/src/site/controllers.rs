//! Several controllers of one site, in a PostgreSQL database, each with a data directory of its own.

use std::ffi::OsStr;
use std::fs;

use muster_testbed::{Ran, Running, eventually};
use serde_json::Value;
use tempfile::TempDir;

use super::{Link, Site, binary};

/// Seconds.
const LEASE: u64 = 6;

/// The controllers; the first one was active first.
pub struct Controllers {
    pub all: Vec<Site>,
    /// The time that a lease is good for, in seconds.
    pub lease: u64,
}

impl Controllers {
    /// One for each URL of the database: the first is active, and the others stand by. A machine that is busy with other
    /// tests may hold a controller up for seconds: the lease is longer than that.
    pub fn start(urls: &[String]) -> Self {
        Self::with_lease(urls, LEASE)
    }

    /// The same with a lease of so many seconds.
    pub fn with_lease(urls: &[String], lease: u64) -> Self {
        let mut controllers = Self { all: Vec::new(), lease };
        for url in urls {
            controllers.add(url);
        }
        controllers
    }

    /// One more, which gets the data key from the first. It stands by, unless it is alone.
    pub fn add(&mut self, url: &str) -> &Site {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        if let Some(first) = self.all.first() {
            fs::create_dir(&data).unwrap();
            fs::copy(first.data.join("secrets.key"), data.join("secrets.key")).unwrap();
        }
        let (name, lease) = (format!("c{}", self.all.len() + 1), self.lease.to_string());
        let variables = [
            ("MUSTER_STORE__URL", OsStr::new(url)),
            ("MUSTER_STORE__LEASE", OsStr::new(&lease)),
            ("MUSTER_CONTROLLER__NAME", OsStr::new(&name)),
        ];
        let site = Site::with(dir, data, None, None, &variables, Link::Direct);
        self.all.push(site);
        let site = self.all.last().expect("it was pushed just now");
        if self.all.len() == 1 {
            site.until_role("active");
        } else {
            site.until_role("standby");
            self.all[self.until_active()].until_controller(&name, "standby");
        }
        site
    }

    /// Waits until one says that it is active.
    pub fn until_active(&self) -> usize {
        let is_active = |site: &Site| site.role().as_deref() == Some("active");
        eventually("a controller is active", || self.all.iter().position(is_active))
    }

    /// Waits until a controller other than the first is active, which may answer nobody.
    pub fn until_successor(&self) -> usize {
        let is_active = |site: &Site| site.role().as_deref() == Some("active");
        eventually("a successor is active", || self.all[1..].iter().position(is_active).map(|at| at + 1))
    }
}

impl Site {
    /// `muster-controller` with this controller's settings and these arguments.
    pub fn controller(&self, url: &str, arguments: &[&str]) -> Ran {
        let mut command = std::process::Command::new(binary("muster-controller"));
        command
            .arg("--config")
            .arg(self.dir.path().join("controller.toml"))
            .arg("--data-dir")
            .arg(&self.data);
        command.env("MUSTER_STORE__LEASE", LEASE.to_string()).args(["--store", url]).args(arguments);
        Running::start(command).finish()
    }

    /// As `status` says it; none while nobody answers.
    pub fn role(&self) -> Option<String> {
        Some(self.status()?["role"].as_str()?.to_owned())
    }

    /// `status -o json`; none while nobody answers.
    pub fn status(&self) -> Option<Value> {
        let ran = self.muster(&["status", "-o", "json"]);
        if ran.status == 0 { serde_json::from_str(&ran.stdout).ok() } else { None }
    }

    /// Waits until it says that it is this.
    pub fn until_role(&self, role: &str) {
        eventually(&format!("the controller is {role}"), || (self.role()? == role).then_some(()));
    }

    /// Waits until it lists a controller of this name as this.
    pub fn until_controller(&self, name: &str, role: &str) {
        eventually(&format!("{name} is listed as {role}"), || {
            let status = self.status()?;
            let listed = status["controllers"].as_array()?.iter().find(|other| other["name"] == name)?;
            (listed["role"] == role).then_some(())
        });
    }
}
