//! Full disks: nothing acknowledged is lost, and everything goes on once there is room again.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_testbed::eventually;
use muster_tests::site::{Place, Site};
use tempfile::TempDir;

use crate::layers::until_complete;

/// A small file system; gone with the value.
pub struct Disk {
    dir: TempDir,
}

impl Disk {
    pub fn new(size: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let options = format!("size={size},mode=700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "muster-test"]).arg(dir.path());
        assert!(mount.status().unwrap().success(), "cannot mount: run as root");
        Self { dir }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// To the last byte.
    pub fn fill(&self) {
        let mut file =
            OpenOptions::new().create(true).append(true).open(self.dir.path().join("fill")).unwrap();
        for chunk in [vec![0; 1 << 16], vec![0; 1]] {
            while file.write_all(&chunk).is_ok() {}
        }
    }

    /// So that this is left.
    fn fill_but(&self, bytes: u64) {
        let ran = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(self.dir.path()).output().unwrap();
        let text = String::from_utf8(ran.stdout).unwrap();
        let (blocks, size) = text.trim().split_once(' ').unwrap();
        let free = blocks.parse::<u64>().unwrap() * size.parse::<u64>().unwrap();
        let fill = vec![0; usize::try_from(free - bytes).unwrap()];
        fs::write(self.dir.path().join("fill"), fill).unwrap();
    }

    /// As the kernel makes it after errors; nobody may write there at that moment.
    pub fn make_read_only(&self) {
        let remounted =
            Command::new("mount").args(["-o", "remount,ro"]).arg(self.dir.path()).status().unwrap();
        assert!(remounted.success(), "somebody writes");
    }

    pub fn free(&self) {
        fs::remove_file(self.dir.path().join("fill")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazy: a process of the test may be about to end only now.
        let _ = Command::new("umount").arg("--lazy").arg(self.dir.path()).status();
    }
}

fn file_stack(site: &Site, path: &Path, padding: usize) -> String {
    site.file(&format!(
        "heat_template_version: 2018-08-31\ndescription: {}\nresources:\n  \
         slow: {{type: Muster::Dummy, properties: {{node: web-1, seconds: 1}}}}\n  \
         file: {{type: Muster::File, depends_on: slow, properties: {{node: web-1, path: {}, content: x}}}}\n",
        "x".repeat(padding),
        path.display()
    ))
}

#[test]
fn of_the_controller() {
    let disk = Disk::new("8m");
    let site = Site::with_data(&disk.path());
    let web1 = site.join("web-1");
    // Accepted while there was room, in progress when it ends.
    site.ok(&["stack", "create", "s0", "-t", &file_stack(&site, &web1.file("s0"), 10)]);
    disk.fill();
    // The database may still have pages to fill: asked until it refuses.
    let mut accepted = vec!["s0".to_owned()];
    let refused = eventually("the controller refuses", || {
        let name = format!("s{}", accepted.len());
        let template = file_stack(&site, &web1.file(&name), 100_000);
        let ran = site.muster(&["stack", "create", &name, "-t", &template]);
        if ran.status == 0 {
            accepted.push(name);
            return None;
        }
        Some(ran)
    });
    let ran = refused.refused(1, &["cannot write", "full"]);
    assert!(!ran.stderr.contains("4.yaml"), "it is not the template's fault: {}", ran.stderr);
    // Reads still work, and say how it is.
    let nodes = site.muster(&["node", "list"]);
    assert!(nodes.stdout.contains("online"), "{}", nodes.stdout);
    assert!(nodes.stderr.starts_with("warning: ") && nodes.stderr.contains("full"), "{}", nodes.stderr);
    let status = site.json(&["status"]);
    assert!(status["read_only"].as_str().is_some_and(|why| why.contains("full")), "{status}");
    assert_eq!(status["agents"]["online"], 1, "{status}");
    let list = site.json(&["stack", "list"]);
    assert_eq!(list.as_array().unwrap().len(), accepted.len(), "{list}");
    site.muster(&["stack", "delete", "s0"]).refused(1, &["cannot write"]);
    site.muster(&["node", "token", "--any-name"]).refused(1, &["cannot write"]);
    site.json(&["resource", "list", "s0"]);

    disk.free();
    let next = file_stack(&site, &web1.file("next"), 10);
    eventually("it can be written again", || {
        (site.muster(&["stack", "create", "next", "-t", &next]).status == 0).then_some(())
    });
    accepted.push("next".to_owned());
    for name in &accepted {
        until_complete(&site, name);
        assert_eq!(web1.content(name).as_deref(), Some("x"), "{name}");
        assert_eq!(site.physical_ids(name, "file").len(), 1, "{name}");
    }
    assert_eq!(web1.listing().len(), accepted.len());
    assert_eq!(site.json(&["stack", "list"]).as_array().unwrap().len(), accepted.len());
}

#[test]
fn of_an_agent() {
    let disk = Disk::new("2m");
    let site = Site::start();
    let state = disk.path().join("web-1");
    let mut web1 = site.join_at("web-1", Place { state: Some(state), ..Place::default() });
    disk.fill();
    let template = file_stack(&site, &web1.file("file"), 10);
    site.ok(&["stack", "create", "s", "-t", &template]);
    eventually("the agent says so", || web1.daemon.log().contains("No space left").then_some(()));
    assert!(web1.daemon.ended().is_none(), "the agent has ended");
    assert_eq!(web1.listing(), [""; 0], "something was done that the ledger does not know");
    disk.free();
    eventually("the file is there", || web1.content("file"));
    eventually("the stack is COMPLETE", || {
        let view = site.json(&["stack", "show", "s"]);
        (view["status"] == "COMPLETE").then_some(())
    });
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(web1.listing(), [""; 0]);
}

/// Room for records, and for half of a content.
#[test]
fn of_an_agent_that_fetches() {
    let disk = Disk::new("6m");
    let site = Site::start();
    let state = disk.path().join("web-1");
    let web1 = site.join_at("web-1", Place { state: Some(state.clone()), ..Place::default() });
    let text = crate::content::content(1 << 17);
    let template = crate::content::stack(&site, &web1.file("large"), &text);
    disk.fill_but(1 << 20);
    site.ok(&["stack", "create", "s", "-t", &template]);
    let row = || site.json(&["resource", "show", "s", "large"]);
    let fetched = || {
        let files = fs::read_dir(state.join("fetch")).unwrap();
        // One may go while it is looked at.
        files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum::<u64>()
    };
    let tried = eventually("it is tried more often than what fails", || {
        let row = row();
        assert_ne!(row["status"], "FAILED", "{row}");
        // Pauses of 1, 2 and 4 s are between the tries after which others fail.
        (row["phase"] == "backoff" && row["phase_seconds"].as_u64() > Some(4)).then_some(row)
    });
    let reason = tried["status_reason"].as_str().unwrap_or_default();
    assert!(reason.contains("cannot fetch the content") && reason.contains("No space left"), "{reason}");
    assert!(fetched() > 1 << 19, "what was fetched is gone: {} bytes", fetched());
    assert_eq!(site.json(&["node", "show", "web-1"])["state"], "online", "it can record jobs");
    disk.free();
    until_complete(&site, "s");
    assert!(web1.content("large").as_ref() == Some(&text), "the content differs");
    eventually("nothing is left of it", || (fetched() == 0).then_some(()));
}
