//! Several controllers of one site, in a PostgreSQL database, each with a data directory of its own.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use muster_testbed::{PortWay, Ran, Running, eventually, port};
use serde_json::Value;
use tempfile::TempDir;

use super::{Site, binary, mosquitto};

/// The controllers; the first one was active first.
pub struct Controllers {
    pub all: Vec<Site>,
    /// The time that a lease is good for, in seconds.
    pub lease: u64,
    /// Names of the sites beside the default one.
    sites: Vec<String>,
    /// The port at which agents know the first one, if that is not its own.
    first_port: Option<u16>,
    /// Jobs that a node has at a time, as text; the default otherwise.
    in_flight: Option<String>,
    /// Whether Mosquitto is between them and the agents; the first one's site has it.
    has_broker: bool,
    /// The section for the link, of each.
    link: String,
    /// The port at which the second one reaches the broker, if that is not the broker's own.
    broker_port_of_second: Option<u16>,
}

impl Controllers {
    /// Seconds. A machine that is busy with other tests may hold a controller up for as long.
    pub const LEASE: u64 = 6;

    /// Starts a controller for each URL of the database: the first is active, and the others stand by.
    pub fn start(urls: &[String]) -> Self {
        Self::none(Self::LEASE).with_all(urls)
    }

    /// The same with Mosquitto between the controllers and the agents.
    pub fn over_mosquitto(urls: &[String]) -> Self {
        Self { has_broker: true, ..Self::none(Self::LEASE) }.with_all(urls)
    }

    /// The same, where the second one reaches the broker on this way.
    pub fn over_mosquitto_by(way: &PortWay, urls: &[String]) -> Self {
        let all = Self { has_broker: true, broker_port_of_second: Some(way.port), ..Self::none(Self::LEASE) };
        let all = all.with_all(urls);
        way.leads_to(all.all[0].broker.as_ref().expect("the first one has it").address());
        all
    }

    /// With a lease of so many seconds, and so many jobs at a time for a node; agents come to the first one on this way.
    pub fn behind(way: &PortWay, urls: &[String], lease: u64, in_flight: usize) -> Self {
        let in_flight = Some(in_flight.to_string());
        let all = Self { first_port: Some(way.port), in_flight, ..Self::none(lease) }.with_all(urls);
        way.leads_to(&all.all[0].address);
        all
    }

    fn none(lease: u64) -> Self {
        Self {
            all: Vec::new(),
            lease,
            sites: Vec::new(),
            first_port: None,
            in_flight: None,
            has_broker: false,
            link: String::new(),
            broker_port_of_second: None,
        }
    }

    /// Each with these sites beside the default one.
    pub fn of_sites(urls: &[String], sites: &[&str]) -> Self {
        let sites = sites.iter().map(|site| (*site).to_owned()).collect();
        Self { sites, ..Self::none(Self::LEASE) }.with_all(urls)
    }

    fn with_all(mut self, urls: &[String]) -> Self {
        for url in urls {
            self.add(url);
        }
        self
    }

    /// Adds a controller, which gets the data keys from the first. A second one stands by for the default site.
    pub fn add(&mut self, url: &str) -> &Site {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        if let Some(first) = self.all.first() {
            let folders = self.sites.iter().map(|site| format!("sites/{site}"));
            for folder in [String::new()].into_iter().chain(folders) {
                fs::create_dir_all(data.join(&folder)).unwrap();
                let key = Path::new(&folder).join("secrets.key");
                fs::copy(first.data.join(&key), data.join(&key)).unwrap();
            }
        }
        let site = |name: &String| {
            let [listen, api] = [port(), port()].map(|port| format!("127.0.0.1:{port}"));
            format!("[[sites]]\nname = \"{name}\"\nlisten = \"{listen}\"\napi = \"{api}\"\n")
        };
        let sites: String = self.sites.iter().map(site).collect();
        let broker = (self.has_broker && self.all.is_empty()).then(|| mosquitto::Plan::new(dir.path(), None));
        if let Some(plan) = &broker {
            self.link = plan.settings();
        }
        let mut link = self.link.clone();
        if let ([first], Some(port)) = (&self.all[..], self.broker_port_of_second) {
            let broker = first.broker.as_ref().expect("the first one has it");
            link = link.replace(broker.address(), &format!("127.0.0.1:{port}"));
        }
        let (name, lease) = (format!("c{}", self.all.len() + 1), self.lease.to_string());
        let mut variables = vec![
            ("MUSTER_STORE__URL", OsStr::new(url)),
            ("MUSTER_STORE__LEASE", OsStr::new(&lease)),
            ("MUSTER_CONTROLLER__NAME", OsStr::new(&name)),
        ];
        let seen_at = self.first_port.filter(|_| self.all.is_empty()).map(|port| format!("127.0.0.1:{port}"));
        variables.extend(
            self.in_flight.iter().map(|jobs| ("MUSTER_LIMITS__IN_FLIGHT_PER_NODE", OsStr::new(jobs))),
        );
        variables.extend(seen_at.iter().map(|at| ("MUSTER_CONTROLLER__ADDRESSES", OsStr::new(at))));
        let site = Site::configured(dir, data, None, None, &variables, &format!("{sites}{link}"));
        self.all.push(site);
        if let Some(plan) = broker {
            let first = &mut self.all[0];
            // The broker needs the site's CA.
            first.until_role("active");
            first.broker = Some(plan.start(&first.data.join("pki"), None));
        }
        let site = self.all.last().expect("it was pushed just now");
        if self.all.len() == 1 {
            site.until_role("active");
            self.sites.iter().for_each(|name| site.in_site(name, |site| site.until_role("active")));
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

    /// Waits until a controller other than the first says that it is active. The first one no longer says so.
    pub fn until_successor(&self) -> usize {
        let successor = self.until_successor_of_silent();
        assert_ne!(self.all[0].role().as_deref(), Some("active"), "two say that they are active");
        successor
    }

    /// The same where the first one answers nobody.
    pub fn until_successor_of_silent(&self) -> usize {
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
        command
            .env("MUSTER_STORE__LEASE", Controllers::LEASE.to_string())
            .args(["--store", url])
            .args(arguments);
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
