use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use nix::mount::{MsFlags, mount, umount};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

use super::*;

/// Far longer than the kernel takes to tell of a change.
const COMES: Duration = Duration::from_secs(20);
/// Longer than it takes: what it tells of is there before `sethostname` returns.
const QUIET: Duration = Duration::from_millis(100);

/// A server of its own: the machine that this runs on keeps its name.
struct Server {
    dir: TempDir,
    name: ServerName,
}

impl Server {
    fn path(&self) -> PathBuf {
        self.dir.path().join("hostname")
    }

    fn has(&self) -> (String, Option<String>) {
        let kernel = gethostname().unwrap().into_string().unwrap();
        (kernel, fs::read_to_string(self.path()).ok())
    }

    async fn apply(&self, name: &str) -> Result<()> {
        let is = self.name.observe().await?;
        self.name.reach(&self.name.plan(name, &is)?).await
    }

    /// Beside the file, and nothing of ours.
    fn is_tidy(&self) -> bool {
        fs::read_dir(self.dir.path()).unwrap().all(|entry| entry.unwrap().file_name() == "hostname")
    }
}

/// In a UTS namespace, whose thread ends with it.
fn on_a_server<F: Future<Output = ()>>(
    kernel: &str,
    file: Option<&str>,
    test: impl FnOnce(Server) -> F + Send,
) {
    std::thread::scope(|threads| {
        let thread = threads.spawn(|| {
            unshare(CloneFlags::CLONE_NEWUTS).unwrap();
            sethostname(kernel).unwrap();
            let (dir, aside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
            let name =
                ServerName::new(Some(dir.path().join("hostname")), Files::new(aside.path().to_owned()));
            let server = Server { dir, name };
            if let Some(file) = file {
                fs::write(server.path(), file).unwrap();
            }
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(test(server));
        });
        thread.join().unwrap();
    });
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn it_is_set_in_the_kernel_and_in_the_file_and_put_back() {
    let machine = gethostname().unwrap();
    for before in [None, Some("old\n"), Some("old"), Some("# by hand\n\nold\n"), Some(""), Some("other\n")] {
        on_a_server("old", before, async |server| {
            let was = server.name.observe().await.unwrap();
            server.apply("web-1.example.com").await.unwrap();
            let wanted = ("web-1.example.com".to_owned(), Some("web-1.example.com\n".to_owned()));
            assert_eq!(server.has(), wanted);
            assert_eq!(server.name.check("web-1.example.com").await.unwrap(), [""; 0]);
            let inode = fs::metadata(server.path()).unwrap().ino();
            server.apply("web-1.example.com").await.unwrap();
            assert_eq!(fs::metadata(server.path()).unwrap().ino(), inode, "a second time changes nothing");
            for _ in 0..2 {
                server.name.reach(&was).await.unwrap();
                assert_eq!(server.has(), ("old".to_owned(), before.map(str::to_owned)));
            }
            assert!(server.is_tidy());
        });
    }
    assert_eq!(gethostname().unwrap(), machine, "only the namespaces' names were changed");
}

#[test]
fn the_hostname_file_keeps_its_mode_and_a_comment_if_correct() {
    // The comment stays only if the name is correct already.
    on_a_server("old", Some("# asset 7\nweb-1\n"), async |server| {
        fs::set_permissions(server.path(), Permissions::from_mode(0o640)).unwrap();
        server.apply("web-1").await.unwrap();
        assert_eq!(server.has(), ("web-1".into(), Some("# asset 7\nweb-1\n".into())));
        server.apply("web-2").await.unwrap();
        assert_eq!((server.has().1.as_deref(), mode(&server.path())), (Some("web-2\n"), 0o640));
    });
    on_a_server("old", None, async |server| {
        server.apply("web-1").await.unwrap();
        assert_eq!(mode(&server.path()), 0o644);
    });
}

#[test]
fn a_crashed_hostname_change_is_completed_or_restored() {
    let left_behind = ".hostname.muster-00000000-0000-0000-0000-000000000000";
    // A temporary file is there; the file is new and the kernel's name is not; both are.
    for (temporary, file, kernel) in
        [(true, "old\n", "old"), (false, "new\n", "old"), (true, "new\n", "old"), (false, "new\n", "new")]
    {
        for forward in [true, false] {
            on_a_server("old", Some("old\n"), async |server| {
                let was = server.name.observe().await.unwrap();
                let wanted = server.name.plan("new", &was).unwrap();
                fs::write(server.path(), file).unwrap();
                sethostname(kernel).unwrap();
                if temporary {
                    fs::write(server.dir.path().join(left_behind), "ne").unwrap();
                }
                let (to, name) = if forward { (&wanted, "new") } else { (&was, "old") };
                server.name.reach(to).await.unwrap();
                assert_eq!(server.has(), (name.to_owned(), Some(format!("{name}\n"))));
                assert!(server.is_tidy());
            });
        }
    }
    on_a_server("new", Some("new\n"), async |server| {
        fs::write(server.dir.path().join(left_behind), "ne").unwrap();
        server.name.leave().await.unwrap();
        assert_eq!(server.has(), ("new".into(), Some("new\n".into())));
        assert!(server.is_tidy());
    });
}

#[test]
fn what_differs_is_said() {
    on_a_server("web-1", Some("web-1\n"), async |server| {
        let path = server.path().display().to_string();
        sethostname("foreign").unwrap();
        let found = server.name.check("web-1").await.unwrap();
        assert_eq!(found, ["the kernel's host name is 'foreign', and should be 'web-1'"]);
        fs::remove_file(server.path()).unwrap();
        let found = server.name.check("web-1").await.unwrap().join(", ");
        assert!(found.contains(&format!("{path} is not there, and should be so: has 'web-1'")), "{found}");
        fs::write(server.path(), "other\n").unwrap();
        let found = server.name.check("web-1").await.unwrap().join(", ");
        assert!(found.contains(&format!("{path} has 'other'")), "{found}");
    });
}

#[test]
fn a_hostname_watch_sees_changes_of_its_own_server_only() {
    on_a_server("old", None, async |_server| {
        let mut renames = Renames::open().unwrap();
        for name in ["foreign", "another", "old"] {
            on_a_server("neighbour", None, async |_server| ());
            let early = tokio::time::timeout(QUIET, renames.next()).await;
            assert!(early.is_err(), "the neighbour's name is none of ours");
            sethostname(name).unwrap();
            tokio::time::timeout(COMES, renames.next()).await.expect("told").unwrap();
        }
    });
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let refused = async |server: &Server, name: &str, want: &str, permanent: bool| {
        let error = server.apply(name).await.unwrap_err();
        assert!(error.to_string().contains(want) && error.is_permanent() == permanent, "{error}");
        assert_eq!(server.has().0, "old");
    };
    on_a_server("old", Some("old\n"), async |server| {
        refused(&server, "web_1", "the host name 'web_1' has an underscore in it", true).await;
        refused(&server, "a\nb", "the host name 'a\\nb' has '\\n' in it", true).await;
        assert_eq!(server.has().1.as_deref(), Some("old\n"));
        fs::write(server.path(), "x".repeat(100_000)).unwrap();
        refused(&server, "web-1", "is too large for a host name's file", true).await;
        fs::remove_file(server.path()).unwrap();
        symlink("/nowhere", server.path()).unwrap();
        refused(&server, "web-1", "there is a symbolic link, which Muster leaves alone", true).await;
        assert_eq!(fs::read_link(server.path()).unwrap(), Path::new("/nowhere"));
    });
}

/// As a container's engine does it. The file comes first, so that nothing was changed.
#[test]
fn a_mounted_hostname_file_leaves_file_and_kernel_unchanged() {
    on_a_server("old", Some("old\n"), async |server| {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&Path>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        mount(Some(&server.path()), &server.path(), none, MsFlags::MS_BIND, none).unwrap();
        let was = server.name.observe().await.unwrap();
        let error = server.apply("web-1").await.unwrap_err().to_string();
        assert!(error.contains("hostname: cannot write it"), "{error}");
        assert_eq!(server.has(), ("old".into(), Some("old\n".into())));
        assert!(server.is_tidy());
        server.name.reach(&was).await.unwrap();
        umount(&server.path()).unwrap();
    });
}
