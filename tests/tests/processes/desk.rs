//! `muster` as a user of another machine than the controller's types it.

use std::fs;
use std::path::PathBuf;

use muster_testbed::{Namespace, Ran, Running, command};
use muster_tests::site::{Site, binary};
use serde_json::Value;

/// A person's account on another machine than the controller.
pub struct Desk<'a> {
    machine: &'a Namespace,
    pub home: PathBuf,
}

impl<'a> Desk<'a> {
    pub fn new(machine: &'a Namespace, site: &Site, name: &str) -> Self {
        let home = site.path().join(format!("home-{name}"));
        fs::create_dir(&home).unwrap();
        Self { machine, home }
    }

    pub fn muster_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
        let mut muster = command(Some(self.machine), binary("muster"));
        for unset in [
            "MUSTER_URL",
            "MUSTER_TOKEN",
            "MUSTER_CA",
            "MUSTER_CERT",
            "MUSTER_KEY",
            "MUSTER_SITE",
            "XDG_CONFIG_HOME",
        ] {
            muster.env_remove(unset);
        }
        muster.env("HOME", &self.home).envs(variables.iter().copied()).args(arguments);
        Running::start(muster).finish()
    }

    pub fn muster(&self, arguments: &[&str]) -> Ran {
        self.muster_with(&[], arguments)
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.muster(&[arguments, &["-o", "json"]].concat()).expect(0);
        serde_json::from_str(&ran.stdout).unwrap()
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}
