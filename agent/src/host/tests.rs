use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use muster_agent_core::{Applied, Holding, Order};
use muster_host::account::Accounts;
use muster_host::files::{Files, StoredContent};
use muster_host::net::HostConfig;
use muster_host::package::Packages;
use muster_host::sysctl::Sysctls;
use muster_host::systemd::Systemd;
use muster_host::unit::Units;
use muster_shared::model::{ContentDigest, Hostname};
use muster_shared::{Attempt, Epoch, Generation};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{gethostname, sethostname};
use uuid::Uuid;

use super::*;

fn file() -> Spec {
    Spec::File(File {
        path: "/etc/large".into(),
        content: Content::Inline(Vec::new()),
        mode: 0o644,
        owner: None,
        group: None,
        on_delete: OnDelete::Restore,
    })
}

fn entry(n: u128, kept: Option<ContentDigest>) -> Entry {
    let generation = Generation { epoch: Epoch(1), number: 1 };
    let before = kept.map(|digest| FileBefore::Present {
        mode: 0,
        uid: 0,
        gid: 0,
        content: StoredContent::File(digest),
    });
    Entry {
        holding: before.map(|before| Holding {
            before: Before::new(before.encode()),
            claims: Vec::new(),
            since: Order(1),
            over: BTreeMap::new(),
        }),
        applied: Some(Applied { generation, spec: file() }),
        ..Entry::new(ResourceId(Uuid::from_u128(n)))
    }
}

/// A host that keeps everything in this directory.
pub fn host(dir: &Path) -> Host {
    let files = Files::new(dir.to_owned());
    Host {
        name: ServerName::new(Some(dir.join("hostname")), files.clone()),
        tools: Tools {
            accounts: Accounts,
            files: files.clone(),
            packages: Packages::new(Runner::new(dir.join("runs"), "/nowhere".into(), None)),
            sysctls: Sysctls::new(Some(dir.to_owned()), files.clone()),
            units: Units::new(Systemd::new(dir.to_owned()), files),
        },
        network: Network::new(HostConfig::default()),
        hooks: HookDirectories::default(),
        runs: Runner::new(dir.join("runs"), "/nowhere".into(), None),
        documents: Documents::new(dir.join("state")),
        state: dir.join("state"),
        server: Default::default(),
        contents: dir.to_owned(),
        seen: PrintCache::default(),
        owners: Owners::default(),
    }
}

#[test]
fn what_was_kept_aside_goes_with_the_last_that_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let (gone, needed) = (ContentDigest::of(b"gone"), ContentDigest::of(b"needed"));
    for digest in [gone, needed] {
        fs::write(dir.path().join(digest.to_string()), b"x").unwrap();
    }
    let there = |digest: ContentDigest| dir.path().join(digest.to_string()).exists();
    let unsure = Entry { applied: None, ..entry(3, Some(gone)) };
    host.sweep([&entry(1, Some(needed)), &unsure].into_iter()).unwrap();
    assert!(there(gone) && there(needed), "a failed job's record says nothing of its type");
    host.sweep([&entry(1, Some(needed)), &entry(2, None)].into_iter()).unwrap();
    assert!(!there(gone) && there(needed));
}

#[tokio::test]
async fn a_check_compares_with_what_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let dummy = |pairs: &[(&str, &str)]| {
        let values = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Spec::Dummy(Dummy { values, ..Dummy::default() })
    };
    let wanted = dummy(&[("a", "1"), ("b", "secret")]);
    for (kept, want) in [
        (Some(wanted.clone()), Found::AsDesired),
        (None, Found::Differs { missing: true, reason: "nothing of it is kept here".into() }),
        (
            Some(dummy(&[("a", "2"), ("c", "1")])),
            Found::Differs { missing: false, reason: "other values are kept of a, b, c".into() },
        ),
    ] {
        assert_eq!(host.check(ResourceId(Uuid::from_u128(1)), &wanted, kept.as_ref(), None).await, Ok(want));
    }
    let missing = host.check(ResourceId(Uuid::from_u128(1)), &file(), None, None).await.unwrap();
    assert_eq!(missing, Found::Differs { missing: true, reason: "/etc/large: it is not there".into() });
}

#[tokio::test]
async fn an_agent_without_a_ledger_takes_a_matching_file_for_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    let path = dir.path().join("motd");
    let Spec::File(mut wanted) = file() else { unreachable!() };
    wanted.path = path.to_str().unwrap().into();
    let large = vec![b'x'; 100_000];
    for (there, content, own, absent) in [
        (&b"hello"[..], &b"hello"[..], true, true),
        (b"hello", b"hello", false, false),
        (b"another's", b"hello", true, false),
        (&large, &large, true, true),
    ] {
        fs::write(&path, there).unwrap();
        let content = match content.len() {
            ..100 => Content::Inline(content.to_vec()),
            size => Content::Stored { digest: ContentDigest::of(content), size: size as u64 },
        };
        let spec = Spec::File(File { content, ..wanted.clone() });
        let before = host.capture(ResourceId(Uuid::from_u128(1)), &spec, Vec::new(), own).await.unwrap();
        assert_eq!(FileBefore::decode(before.written()) == Some(FileBefore::Absent), absent, "{own}");
        let known = Before::new(b"known".to_vec());
        assert_eq!(
            host.capture(ResourceId(Uuid::from_u128(1)), &spec, vec![known.clone()], own).await.unwrap(),
            known
        );
    }
}

#[tokio::test]
async fn a_second_owner_of_a_file_by_another_path_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    fs::create_dir(dir.path().join("etc")).unwrap();
    std::os::unix::fs::symlink("etc", dir.path().join("link")).unwrap();
    let motd = |path: &str| {
        let Spec::File(file) = file() else { unreachable!() };
        Spec::File(File { path: dir.path().join(path).to_str().unwrap().into(), ..file })
    };
    let [first, second] = [1, 2].map(|n| ResourceId(Uuid::from_u128(n)));
    host.applied(first, Some(&motd("etc/motd")));
    let refused = host.capture(second, &motd("link/motd"), Vec::new(), false).await.unwrap_err();
    assert!(
        refused.retry == Retry::Never && refused.reason.contains("etc/motd: one file has one owner"),
        "{refused:?}"
    );
    host.applied(first, None);
    host.capture(second, &motd("link/motd"), Vec::new(), false).await.unwrap();
}

#[test]
fn what_others_have_back_is_not_put_back() {
    let links = |names: &[&str]| {
        let absent = |name: &&str| ((*name).to_owned(), muster_host::net::snapshot::Before::Absent);
        Snapshot { links: names.iter().map(absent).collect(), ..Snapshot::default() }
    };
    for (theirs, left) in [
        (vec![], vec!["eth1", "eth4"]),
        (vec![vec!["eth1", "eth2"]], vec!["eth4"]),
        (vec![vec!["eth1"], vec!["eth4"]], vec![]),
    ] {
        let theirs: Vec<Before> = theirs.iter().map(|names| encoded(&links(names)).unwrap()).collect();
        assert_eq!(without(links(&["eth1", "eth4"]), &theirs), Ok(links(&left)));
    }
    assert!(without(links(&[]), &[Before::new(b"?".to_vec())]).is_err());
}

fn name_job(number: u64, action: Action, name: &str, on_delete: OnDelete) -> Job {
    let hostname = Hostname { hostname: name.into(), confirm_timeout: 30, on_delete };
    Job {
        resource: ResourceId(Uuid::from_u128(7)),
        generation: Generation { epoch: Epoch(1), number },
        attempt: Attempt(1),
        action,
        timeout: Duration::from_secs(60),
        spec: Spec::Hostname(hostname),
    }
}

/// With a name of its own: this machine keeps its one.
fn in_a_namespace(test: impl AsyncFnOnce() + Send) {
    std::thread::scope(|threads| {
        let thread = threads.spawn(|| {
            unshare(CloneFlags::CLONE_NEWUTS).unwrap();
            sethostname("old").unwrap();
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test());
        });
        thread.join().unwrap();
    });
}

#[test]
fn a_host_name_is_guarded_and_put_back() {
    in_a_namespace(async || {
        let dir = tempfile::tempdir().unwrap();
        let (host, file) = (host(dir.path()), dir.path().join("hostname"));
        let has = || (gethostname().unwrap().into_string().unwrap(), fs::read_to_string(&file).ok());
        let named = |name: &str| (name.to_owned(), Some(format!("{name}\n")));
        let create = name_job(1, Action::Create, "web-1", OnDelete::Restore);
        let before = host.capture(create.resource, &create.spec, Vec::new(), false).await.unwrap();
        let undo = host.guard(&create, Some(before.clone()), &[]).await.unwrap();
        let ran = host.run(&create, Some(before.clone()), Vec::new()).await.unwrap();
        assert_eq!((ran.touched, ran.observed.attributes["hostname"].as_str()), (true, "web-1"));
        assert_eq!(has(), named("web-1"));
        host.restore(&undo).await.unwrap();
        assert_eq!(has(), ("old".to_owned(), None));

        host.run(&create, Some(before.clone()), Vec::new()).await.unwrap();
        let again = host.run(&create, Some(before.clone()), Vec::new()).await.unwrap();
        assert!(!again.touched, "nothing is to be confirmed where nothing changed");
        let update = name_job(2, Action::Update, "web-2", OnDelete::Restore);
        assert_eq!(
            host.capture(update.resource, &update.spec, vec![before.clone()], false).await.unwrap(),
            before
        );
        let undo = host.guard(&update, Some(before.clone()), &[]).await.unwrap();
        host.run(&update, Some(before.clone()), Vec::new()).await.unwrap();
        assert_eq!(
            host.check(ResourceId(Uuid::from_u128(1)), &update.spec, None, None).await.unwrap(),
            Found::AsDesired
        );
        let other = host.check(ResourceId(Uuid::from_u128(1)), &create.spec, None, None).await.unwrap();
        assert!(matches!(other, Found::Differs { missing: false, .. }), "{other:?}");
        host.restore(&undo).await.unwrap();
        assert_eq!(has(), named("web-1"));

        // At boot the file has given the name already, and what was not confirmed is restored.
        host.apply_at_boot(&create.spec, Some(&before)).await.unwrap();
        assert_eq!(has(), named("web-1"));
        let keep = name_job(3, Action::Delete, "web-1", OnDelete::Keep);
        assert!(!host.run(&keep, Some(before.clone()), Vec::new()).await.unwrap().touched);
        assert_eq!(has(), named("web-1"));
        let delete = name_job(3, Action::Delete, "web-1", OnDelete::Restore);
        let undo = host.guard(&delete, Some(before.clone()), &[]).await.unwrap();
        assert!(host.run(&delete, None, Vec::new()).await.is_err(), "what was there before is not known");
        assert_eq!(has(), named("web-1"));
        host.run(&delete, Some(before), Vec::new()).await.unwrap();
        assert_eq!(has(), ("old".to_owned(), None));
        host.restore(&undo).await.unwrap();
        assert_eq!(has(), named("web-1"));
        let damaged = host.restore(&Before::new(b"{\"Hostname\":".to_vec())).await.unwrap_err();
        assert!(damaged.contains("damaged"), "{damaged}");
        assert!(host.fallback(&create.spec).await.is_err());
    });
}

/// Needs root.
#[tokio::test]
async fn a_file_without_room_waits_for_it() {
    let none: Option<&str> = None;
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path());
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let small = dir.path().join("small");
    fs::create_dir(&small).unwrap();
    mount(Some("tmpfs"), &small, Some("tmpfs"), MsFlags::empty(), Some("size=64k")).unwrap();
    let Spec::File(file) = file() else { unreachable!() };
    let content = Content::Inline(vec![1; 128 * 1024]);
    let spec = Spec::File(File { path: small.join("large").to_str().unwrap().into(), content, ..file });
    let job = Job { spec, ..name_job(1, Action::Create, "none", OnDelete::Restore) };
    let refused = host.run(&job, None, Vec::new()).await.err().unwrap().error;
    assert_eq!(refused.retry, Retry::WhenRoom, "{}", refused.reason);
    assert_eq!(fs::read_dir(&small).unwrap().count(), 0);
}
