use std::os::unix::fs::symlink;

use muster_shared::model::{Content, OnDelete};
use nix::unistd::chown;
use uuid::Uuid;

use super::before::{INLINE_MAX, KEPT_MAX};
use super::*;

struct Folder {
    dir: tempfile::TempDir,
    files: Files,
}

const RESOURCE: ResourceId = ResourceId(Uuid::from_u128(7));

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("aside")).unwrap();
        let files = Files::new(dir.path().join("aside"));
        Self { dir, files }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str) -> File {
        File {
            path: self.path(name).to_str().unwrap().to_owned(),
            content: Content::Inline(Vec::new()),
            mode: 0o640,
            owner: None,
            group: None,
            on_delete: OnDelete::Restore,
        }
    }

    async fn apply(&self, file: &File, content: &[u8]) -> Result<(), FileError> {
        self.files.apply(RESOURCE, file, Source::Bytes(content)).await
    }

    /// Every name in the directory.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & PERMISSION_BITS
}

#[tokio::test]
async fn made_changed_and_taken_away() {
    let folder = Folder::new();
    let file = folder.file("motd");
    let before = folder.files.capture(&file).await.unwrap();
    assert!(before == FileBefore::Absent);
    folder.apply(&file, b"hello").await.unwrap();
    assert_eq!(fs::read(folder.path("motd")).unwrap(), b"hello");
    assert_eq!(mode(&folder.path("motd")), 0o640);
    folder.apply(&File { mode: 0o4755, ..file.clone() }, b"hello, you").await.unwrap();
    assert_eq!(fs::read(folder.path("motd")).unwrap(), b"hello, you");
    assert_eq!(mode(&folder.path("motd")), 0o4755);
    folder.files.restore(RESOURCE, &file, &before).await.unwrap();
    assert_eq!(folder.names(), ["aside"]);
    folder.files.restore(RESOURCE, &file, &before).await.expect("again, as after a crash");
}

#[tokio::test]
async fn what_is_equal_is_not_written() {
    let folder = Folder::new();
    let file = folder.file("motd");
    folder.apply(&file, b"hello").await.unwrap();
    let inode = fs::metadata(folder.path("motd")).unwrap().ino();
    folder.apply(&file, b"hello").await.unwrap();
    assert_eq!(fs::metadata(folder.path("motd")).unwrap().ino(), inode);
    folder.apply(&File { mode: 0o600, ..file }, b"hello").await.unwrap();
    assert_eq!(mode(&folder.path("motd")), 0o600);
}

#[tokio::test]
async fn what_was_there_comes_back_small_and_large() {
    for size in [0, 5, INLINE_MAX as usize, INLINE_MAX as usize + 1, 3 * PIECE + 1] {
        let folder = Folder::new();
        let file = folder.file("motd");
        let old: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        fs::write(folder.path("motd"), &old).unwrap();
        fs::set_permissions(folder.path("motd"), Permissions::from_mode(0o604)).unwrap();
        let before = folder.files.capture(&file).await.unwrap();
        assert_eq!(before.aside().is_some(), size as u64 > INLINE_MAX, "{size}");
        let before = FileBefore::decode(&before.encode()).unwrap();
        folder.apply(&file, b"new").await.unwrap();
        folder.files.keep_only(before.aside().as_slice()).unwrap();
        folder.files.restore(RESOURCE, &file, &before).await.unwrap();
        assert!(fs::read(folder.path("motd")).unwrap() == old, "{size}");
        assert_eq!(mode(&folder.path("motd")), 0o604);
        folder.files.keep_only(&[]).unwrap();
        assert_eq!(fs::read_dir(folder.path("aside")).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn content_aside_that_is_damaged_is_not_put_back() {
    let folder = Folder::new();
    let file = folder.file("motd");
    fs::write(folder.path("motd"), vec![1; INLINE_MAX as usize + 1]).unwrap();
    let before = folder.files.capture(&file).await.unwrap();
    folder.apply(&file, b"new").await.unwrap();
    let aside = folder.path("aside").join(before.aside().unwrap().to_string());
    fs::write(&aside, b"damaged").unwrap();
    let error = folder.files.restore(RESOURCE, &file, &before).await.unwrap_err();
    assert!(matches!(error, FileError::BeforeLost { .. }) && error.is_permanent(), "{error}");
    assert_eq!(fs::read(folder.path("motd")).unwrap(), b"new");
}

#[tokio::test]
async fn what_is_no_regular_file_is_left_alone() {
    let folder = Folder::new();
    fs::write(folder.path("secret"), b"secret").unwrap();
    symlink(folder.path("secret"), folder.path("link")).unwrap();
    symlink(folder.path("nowhere"), folder.path("dangling")).unwrap();
    fs::create_dir(folder.path("directory")).unwrap();
    nix::unistd::mkfifo(&folder.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (name, what) in [
        ("link", "a symbolic link"),
        ("dangling", "a symbolic link"),
        ("directory", "a directory"),
        ("pipe", "a device"),
    ] {
        let file = folder.file(name);
        let errors = [
            folder.files.capture(&file).await.err().unwrap(),
            folder.apply(&file, b"new").await.unwrap_err(),
            folder.files.restore(RESOURCE, &file, &FileBefore::Absent).await.unwrap_err(),
        ];
        for error in errors {
            assert!(error.is_permanent() && error.to_string().contains(what), "{error}");
        }
    }
    assert_eq!(fs::read(folder.path("secret")).unwrap(), b"secret");
    assert_eq!(folder.names(), ["aside", "dangling", "directory", "link", "pipe", "secret"]);
}

const NOBODY: u32 = 65534;

fn directory(path: &Path, owner: u32, group: u32, mode: u32) {
    fs::create_dir(path).unwrap();
    chown(path, Some(Uid::from_raw(owner)), Some(Gid::from_raw(group))).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A user who owns the directory replaces it while root corrects a file in it.
#[tokio::test]
async fn a_link_in_place_of_the_directory_leads_nowhere() {
    let folder = Folder::new();
    directory(&folder.path("conf.d"), NOBODY, NOBODY, 0o755);
    fs::create_dir(folder.path("system")).unwrap();
    let file = File { owner: Some(NOBODY.to_string()), ..folder.file("conf.d/app.service") };
    let before = folder.files.capture(&file).await.unwrap();
    folder.apply(&file, b"mine").await.unwrap();
    assert_eq!(fs::read(folder.path("conf.d/app.service")).unwrap(), b"mine");

    fs::rename(folder.path("conf.d"), folder.path("aside/conf.d")).unwrap();
    symlink(folder.path("system"), folder.path("conf.d")).unwrap();
    nix::unistd::fchownat(
        nix::fcntl::AT_FDCWD,
        &folder.path("conf.d"),
        Some(Uid::from_raw(NOBODY)),
        None,
        nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW,
    )
    .unwrap();
    let errors = [
        folder.apply(&file, b"mine").await.unwrap_err(),
        folder.files.check(&file).await.unwrap_err(),
        folder.files.capture(&file).await.err().unwrap(),
        folder.files.restore(RESOURCE, &file, &before).await.unwrap_err(),
        folder.files.make_directory_of(&folder.file("conf.d/more/file")).unwrap_err(),
    ];
    for error in errors {
        let link = format!("{} is a symbolic link", folder.path("conf.d").display());
        assert!(error.is_permanent() && error.to_string().contains(&link), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path("system")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_directory_that_others_can_write_is_refused_by_its_name() {
    let folder = Folder::new();
    for (name, owner, group, mode, says) in [
        ("theirs", NOBODY, 0, 0o700, Some("(chown root ")),
        ("group", 0, NOBODY, 0o775, Some("(chmod g-w ")),
        ("all", 0, 0, 0o777, Some("(chmod o-w ")),
        ("root's group", 0, 0, 0o775, None),
        ("sticky", 0, 0, 0o1777, None),
        ("sticky/theirs", NOBODY, 0, 0o755, Some("(chown root ")),
        ("sticky/ours", 0, 0, 0o755, None),
    ] {
        let path = folder.path(name);
        directory(&path, owner, group, mode);
        directory(&path.join("below"), 0, 0, 0o755);
        for file in [folder.file(&format!("{name}/motd")), folder.file(&format!("{name}/below/motd"))] {
            let applied = folder.apply(&file, b"hello").await.map_err(|error| error.to_string());
            match (says, applied) {
                (None, Ok(())) => {}
                (Some(says), Err(error)) => {
                    assert!(error.contains(&format!("{says}{}", path.display())), "{error}");
                    assert!(!Path::new(&file.path).exists());
                }
                (_, applied) => panic!("{}: {applied:?}", file.path),
            }
        }
    }
    let owned = File { owner: Some(NOBODY.to_string()), ..folder.file("theirs/motd") };
    folder.apply(&owned, b"hello").await.expect("the directory's owner is the file's");
}

/// As `/var/run` and `/bin` are.
#[tokio::test]
async fn a_link_that_only_root_can_have_made_is_followed() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("usr/etc")).unwrap();
    symlink("usr/../usr/./etc", folder.path("relative")).unwrap();
    symlink(folder.path("relative"), folder.path("absolute")).unwrap();
    symlink("loop", folder.path("loop")).unwrap();
    directory(&folder.path("sticky"), 0, 0, 0o1777);
    symlink(folder.path("usr"), folder.path("sticky/link")).unwrap();
    for (name, path) in [("relative", "usr/etc/a"), ("absolute", "usr/etc/b")] {
        let file = folder.file(&format!("{name}/{}", &path[8..]));
        folder.apply(&file, b"hello").await.unwrap();
        assert_eq!(fs::read(folder.path(path)).unwrap(), b"hello");
    }
    assert!(matches!(folder.apply(&folder.file("loop/motd"), b"").await, Err(FileError::Io { .. })));
    let shared = folder.apply(&folder.file("sticky/link/motd"), b"").await.unwrap_err();
    assert!(matches!(shared, FileError::Led { way: WriteHazard::Link, .. }), "{shared}");
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let folder = Folder::new();
    let file = folder.file("no/such/motd");
    let error = folder.apply(&file, b"new").await.unwrap_err();
    let directory = folder.path("no/such");
    assert!(error.to_string().contains(&format!("the directory {} does not", directory.display())));
    assert!(error.is_permanent());
    assert!(folder.files.capture(&file).await.is_err());
    folder.files.restore(RESOURCE, &file, &FileBefore::Absent).await.expect("gone is gone");
    fs::write(folder.path("plain"), b"").unwrap();
    let error = folder.apply(&folder.file("plain/motd"), b"new").await.unwrap_err();
    assert!(matches!(error, FileError::NoDirectory { .. }), "{error}");
}

#[tokio::test]
async fn owners_by_name_and_number() {
    let folder = Folder::new();
    let me = User::from_uid(geteuid()).unwrap().unwrap();
    let numbers = (me.uid.to_string(), getegid().to_string());
    for (owner, group) in [(me.name.clone(), numbers.1.clone()), numbers] {
        let file = File { owner: Some(owner), group: Some(group), ..folder.file("motd") };
        folder.apply(&file, b"hello").await.unwrap();
    }
    for file in [
        File { owner: Some("nobody-of-that-name".into()), ..folder.file("motd2") },
        File { group: Some("nobody-of-that-name".into()), ..folder.file("motd2") },
    ] {
        let error = folder.apply(&file, b"hello").await.unwrap_err();
        assert!(matches!(error, FileError::NoOwner { .. }), "{error}");
    }
    assert_eq!(folder.names(), ["aside", "motd"]);
}

#[tokio::test]
async fn what_a_crash_left_behind_goes() {
    let folder = Folder::new();
    let long = "n".repeat(NAME_MAX);
    for name in ["motd", long.as_str()] {
        let file = folder.file(name);
        let leftover = folder.path(temporary(Path::new(&file.path), RESOURCE).to_str().unwrap());
        fs::write(&leftover, b"half").unwrap();
        folder.apply(&file, b"whole").await.unwrap();
        assert!(!leftover.exists());
        fs::write(&leftover, b"half").unwrap();
        folder.apply(&file, b"whole").await.unwrap();
        assert!(!leftover.exists(), "also where nothing else is to be done");
        fs::write(&leftover, b"half").unwrap();
        folder.files.restore(RESOURCE, &file, &FileBefore::Absent).await.unwrap();
        assert_eq!(folder.names(), ["aside"]);
    }
}

/// A link put where the temporary file goes must not lead anywhere.
#[tokio::test]
async fn a_planted_link_is_not_followed() {
    let folder = Folder::new();
    let file = folder.file("motd");
    fs::write(folder.path("secret"), b"secret").unwrap();
    symlink(folder.path("secret"), folder.path(temporary(Path::new(&file.path), RESOURCE).to_str().unwrap()))
        .unwrap();
    folder.apply(&file, b"new").await.unwrap();
    assert_eq!(fs::read(folder.path("secret")).unwrap(), b"secret");
    assert_eq!(folder.names(), ["aside", "motd", "secret"]);
}

#[tokio::test]
async fn what_was_there_can_be_kept() {
    let folder = Folder::new();
    let file = File { on_delete: OnDelete::Keep, ..folder.file("motd") };
    folder.apply(&file, b"new").await.unwrap();
    folder.files.restore(RESOURCE, &file, &FileBefore::Absent).await.unwrap();
    assert_eq!(fs::read(folder.path("motd")).unwrap(), b"new");
}

#[tokio::test]
async fn a_copy_that_fails_leaves_nothing_in_the_state_directory() {
    let folder = Folder::new();
    let file = folder.file("large");
    let large = fs::File::create(folder.path("large")).unwrap();
    large.set_len(KEPT_MAX + 1).unwrap();
    let error = folder.files.capture(&file).await.map(|_| ()).unwrap_err();
    assert!(error.is_permanent() && error.to_string().contains("move it away"), "{error}");
    // Grows while it is copied, or the disk is full: the copy stops.
    let mut handle = Handle::open("/dev/zero").unwrap();
    assert!(
        folder.files.keep_aside(Path::new("/dev/zero"), &mut (&mut handle).take(KEPT_MAX + 1)).await.is_err()
    );
    assert_eq!(fs::read_dir(folder.path("aside")).unwrap().count(), 0);
}

#[tokio::test]
async fn what_a_crash_left_behind_goes_also_where_the_file_is_kept() {
    let folder = Folder::new();
    let file = File { on_delete: OnDelete::Keep, ..folder.file("motd") };
    folder.apply(&file, b"new").await.unwrap();
    fs::write(folder.path(temporary(&folder.path("motd"), RESOURCE).to_str().unwrap()), b"half").unwrap();
    folder.files.restore(RESOURCE, &file, &FileBefore::Absent).await.unwrap();
    assert_eq!(folder.names(), ["aside", "motd"]);
}

#[tokio::test]
async fn a_check_says_what_differs_and_changes_nothing() {
    let folder = Folder::new();
    let file = File { content: Content::Inline(b"hello\n".to_vec()), ..folder.file("motd") };
    let path = folder.path("motd");
    assert_eq!(folder.files.check(&file).await.unwrap(), [FileDifference::Missing]);
    assert_eq!(folder.names(), ["aside"]);
    folder.apply(&file, b"hello\n").await.unwrap();
    assert_eq!(folder.files.check(&file).await.unwrap(), []);
    let stored = Content::Stored { digest: ContentDigest::of(b"hello\n"), size: 6 };
    let fetched = File { content: stored, ..file.clone() };
    assert_eq!(folder.files.check(&fetched).await.unwrap(), [], "its digest is enough");

    fs::write(&path, b"hullo\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    for file in [&file, &fetched] {
        let found = folder.files.check(file).await.unwrap();
        assert_eq!(found, [FileDifference::Content, FileDifference::Mode { is: 0o600 }]);
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["its content differs", "its mode is 0600"]);
    }
    assert_eq!((fs::read(&path).unwrap().as_slice(), mode(&path)), (&b"hullo\n"[..], 0o600));

    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(folder.files.check(&file).await.unwrap(), [FileDifference::Kind("a directory")]);
    fs::remove_dir(&path).unwrap();
    let below = File { path: folder.path("aside/none/motd").to_str().unwrap().to_owned(), ..file.clone() };
    assert_eq!(folder.files.check(&below).await.unwrap(), [FileDifference::Missing]);
    let nobody = File { owner: Some("no-such-user".into()), ..file };
    assert!(matches!(folder.files.check(&nobody).await, Err(FileError::NoOwner { .. })));
}
