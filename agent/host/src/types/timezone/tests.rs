//! Below a root of the test's own.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;
use uuid::Uuid;

use super::*;

const OWNER: ResourceId = ResourceId(Uuid::nil());
const BERLIN: &str = "Europe/Berlin";

/// A server with two zones and another file.
struct Server {
    dir: TempDir,
    files: Files,
}

impl Server {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let zones = dir.path().join(ZONES);
        for folder in [dir.path().join("etc"), dir.path().join("aside"), zones.join("Europe")] {
            fs::create_dir_all(folder).unwrap();
        }
        for (name, content) in [("UTC", "TZif2"), (BERLIN, "TZif2"), ("leapseconds", "# none")] {
            fs::write(zones.join(name), content).unwrap();
        }
        let files = Files::new(dir.path().join("aside"));
        Self { dir, files }
    }

    fn zone(&self) -> Zone<'_> {
        Zone { root: self.dir.path(), files: &self.files }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn link(&self) -> Option<PathBuf> {
        fs::read_link(self.path(LOCALTIME)).ok()
    }

    async fn check(&self, timezone: &str) -> Vec<String> {
        self.zone().differences(&self.zone().observe().await.unwrap(), timezone)
    }

    /// Nothing of a crash is left.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("etc")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn a_zone_comes_drifts_and_goes() {
    let server = Server::new();
    symlink("/usr/share/zoneinfo/UTC", server.path(LOCALTIME)).unwrap();
    fs::write(server.path(NAME_FILE), "Etc/UTC\n").unwrap();
    let before = server.zone().observe().await.unwrap();
    let differ = server.check(BERLIN).await;
    assert_eq!(
        differ,
        ["/etc/localtime is UTC, and should be Europe/Berlin", "/etc/timezone does not name Europe/Berlin"]
    );
    server.zone().apply(OWNER, BERLIN).await.unwrap();
    assert_eq!(server.link().unwrap(), Path::new("../usr/share/zoneinfo/Europe/Berlin"));
    assert_eq!(fs::read(server.path(LOCALTIME)).unwrap(), b"TZif2", "the link leads to the zone");
    assert_eq!(fs::read_to_string(server.path(NAME_FILE)).unwrap(), "Europe/Berlin\n");
    assert!(server.check(BERLIN).await.is_empty());

    fs::remove_file(server.path(LOCALTIME)).unwrap();
    assert_eq!(server.check(BERLIN).await, ["/etc/localtime is not there, and should be Europe/Berlin"]);
    // Left by a run that was killed in the middle.
    symlink("UTC", server.path(&format!("etc/.localtime.muster-{OWNER}"))).unwrap();
    server.zone().apply(OWNER, BERLIN).await.unwrap();
    assert!(server.check(BERLIN).await.is_empty());

    server.zone().reach(OWNER, &before).await.unwrap();
    assert!(server.zone().observe().await.unwrap() == before);
    assert_eq!(server.names(), ["localtime", "timezone"]);
}

#[tokio::test]
async fn a_copy_of_a_zone_and_nothing_come_back() {
    for content in [Some("TZif2 a copy"), None] {
        let server = Server::new();
        if let Some(content) = content {
            fs::write(server.path(LOCALTIME), content).unwrap();
        }
        let before = server.zone().observe().await.unwrap();
        server.zone().apply(OWNER, "UTC").await.unwrap();
        assert!(server.link().is_some() && server.check("UTC").await.is_empty());
        assert_eq!(server.names(), ["localtime"], "no /etc/timezone is made");
        server.zone().reach(OWNER, &before).await.unwrap();
        assert_eq!(fs::read_to_string(server.path(LOCALTIME)).ok().as_deref(), content);
        assert_eq!(server.link(), None);
    }
}

#[tokio::test]
async fn an_unknown_zone_changes_nothing() {
    let server = Server::new();
    symlink("../usr/share/zoneinfo/UTC", server.path(LOCALTIME)).unwrap();
    for unknown in ["Mars/Olympus", "Europe", "leapseconds"] {
        let fault = server.zone().apply(OWNER, unknown).await.unwrap_err();
        assert!(matches!(&fault, ZoneFault::Missing(name) if name == unknown), "{fault}");
    }
    assert!(server.check("UTC").await.is_empty());
}

#[tokio::test]
async fn a_fault_puts_the_link_back() {
    let server = Server::new();
    symlink("../usr/share/zoneinfo/UTC", server.path(LOCALTIME)).unwrap();
    fs::write(server.path(NAME_FILE), "UTC\n").unwrap();
    let before = server.zone().observe().await.unwrap();
    // The file cannot be replaced: what a run leaves beside it is a directory.
    fs::create_dir(server.path(&format!("etc/.timezone.muster-{OWNER}"))).unwrap();
    server.zone().apply(OWNER, BERLIN).await.unwrap_err();
    assert!(server.zone().observe().await.unwrap() == before);
}

#[tokio::test]
async fn what_is_kept_stays() {
    let server = Server::new();
    server.zone().apply(OWNER, BERLIN).await.unwrap();
    server.zone().leave(OWNER).await.unwrap();
    assert!(server.check(BERLIN).await.is_empty());
}
