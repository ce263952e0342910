use muster_shared::model::PasswordHash;
use tempfile::TempDir;

use super::*;

fn etc() -> (TempDir, Etc) {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("passwd", "root:x:0:0:root:/root:/bin/bash\nweb:x:998:990:Web:/srv/web:/bin/sh\nbroken:x:none\n");
    write("group", "root:x:0:\nweb:x:990:\nadm:x:4:syslog,web\nweb-admins:x:5:webb\n");
    write("shadow", "root:*:1::::::\nweb:!$6$salt$hash:1:0:99999:7:::\n");
    let etc = Etc::read_from(dir.path()).unwrap();
    (dir, etc)
}

fn user() -> User {
    User {
        name: "web".into(),
        uid: None,
        group: None,
        groups: None,
        home: None,
        shell: None,
        comment: None,
        system: true,
        password_hash: None,
        authorized_keys: None,
        locked: None,
        on_delete: OnDelete::Restore,
    }
}

#[test]
fn an_account_is_read_and_its_differences_hide_secrets() {
    let (_dir, etc) = etc();
    let is = etc.user("web").unwrap();
    assert_eq!(
        (is.uid, is.gid, is.home.as_str(), is.password.as_str()),
        (998, 990, "/srv/web", "!$6$salt$hash")
    );
    assert_eq!(is.groups, ["adm".to_owned()].into());
    assert!(etc.user("webb").is_none() && etc.user("broken").is_none());
    assert_eq!(etc.group("adm").unwrap().members.len(), 2);
    assert_eq!(etc.group_name(990).as_deref(), Some("web"));

    assert_eq!(differences(&etc, &user(), Some(&is)), [""; 0]);
    assert_eq!(differences(&etc, &user(), None), ["there is no such user"]);
    let hash = |hash: &str| Some(PasswordHash::new(hash.into()).unwrap());
    let same =
        User { password_hash: hash("$6$salt$hash"), locked: Some(true), group: Some("web".into()), ..user() };
    assert_eq!(differences(&etc, &same, Some(&is)), [""; 0]);
    let other = User {
        uid: Some(1000),
        group: Some("adm".into()),
        groups: Some(vec![]),
        home: Some("/home/web".into()),
        password_hash: hash("$6$salt$other"),
        locked: Some(false),
        authorized_keys: Some(vec!["ssh-ed25519 AAAA".into()]),
        ..user()
    };
    let said = differences(&etc, &other, Some(&is));
    assert_eq!(
        said,
        [
            "its home is '/srv/web', and should be '/home/web'",
            "its group is 'web', and should be 'adm'",
            "its uid is '998', and should be '1000'",
            "its groups are 'adm', and should be ''",
            "its password is another",
            "it is locked",
            "its authorized keys are others",
        ]
    );
}

#[test]
fn a_locked_password_stays_locked_unless_unlock_is_requested() {
    const NEW: &str = "$6$salt$new";
    let rows = [
        ("!", Some(NEW), None, Some(NEW)),
        ("!!", Some(NEW), None, Some(NEW)),
        ("!*", Some(NEW), None, Some(NEW)),
        ("!$6$a$b", Some(NEW), None, Some("!$6$salt$new")),
        ("!$6$a$b", Some("$6$a$b"), None, Some("!$6$a$b")),
        ("!$6$a$b", Some(NEW), Some(false), Some(NEW)),
        ("$6$a$b", Some(NEW), None, Some(NEW)),
        ("$6$a$b", None, Some(true), Some("!$6$a$b")),
        ("!!", None, None, Some("!!")),
        ("!!$6$a$b", None, Some(true), Some("!!$6$a$b")),
        ("*", None, None, Some("*")),
        ("!", None, Some(false), None),
    ];
    for (now, hash, locked, wanted) in rows {
        let password_hash = hash.map(|hash: &str| PasswordHash::new(hash.into()).unwrap());
        let field = password_field(&User { password_hash, locked, ..user() }, now);
        assert_eq!(field.ok().as_deref(), wanted, "{now} {hash:?} {locked:?}");
    }
}

#[test]
fn a_group_of_the_name_that_was_there_before_the_user_is_noted() {
    let (_dir, etc) = etc();
    assert_eq!(before(&etc, "adm", None).group, Some(4));
    assert_eq!(before(&etc, "web", etc.user("web")).group, None);
    assert_eq!(before(&etc, "webb", None).group, None);
}

/// A user who wants to keep their keys puts these in the way.
#[tokio::test]
async fn authorized_keys_replace_an_unreadable_path_and_restore_it() {
    use std::os::unix::fs::MetadataExt as _;

    let rows = [
        ("", Keys::Absent),
        ("mkdir .ssh; echo a >.ssh/authorized_keys", Keys::Are(b"a\n".into())),
        ("mkdir -p .ssh/authorized_keys/full", Keys::Unknown),
        ("mkdir .ssh; mkfifo .ssh/authorized_keys", Keys::Unknown),
        ("mkdir .ssh; ln -s /dev/zero .ssh/authorized_keys", Keys::Unknown),
        ("mkdir .ssh; ln -s authorized_keys .ssh/authorized_keys", Keys::Unknown),
        ("mkdir .ssh; head -c 131072 /dev/zero >.ssh/authorized_keys", Keys::Unknown),
        (
            "mkdir -p .ssh/authorized_keys .ssh/authorized_keys.muster/a .ssh/authorized_keys.muster-aside/b",
            Keys::Unknown,
        ),
        ("touch .ssh", Keys::Unknown),
    ];
    for (trap, was) in rows {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        let sh = |script: &str| {
            let out =
                std::process::Command::new("sh").args(["-c", script]).current_dir(home).output().unwrap();
            assert!(out.status.success(), "{script}");
            String::from_utf8(out.stdout).unwrap()
        };
        sh(trap);
        let meta = std::fs::metadata(home).unwrap();
        let (uid, gid) = (meta.uid(), meta.gid());
        let kind = "stat -c '%F %s' .ssh/authorized_keys 2>/dev/null || :";
        let before = sh(kind);
        assert_eq!(tool::read_keys(uid, gid, home).await, was, "{trap}");

        let keys = b"ssh-ed25519 AAAA\n";
        tool::write_keys("web", uid, gid, home, keys, was == Keys::Unknown).await.unwrap();
        assert_eq!(tool::read_keys(uid, gid, home).await, Keys::Are(keys.into()), "{trap}");
        assert_eq!(sh("stat -c %a .ssh/authorized_keys"), "600\n", "{trap}");
        tool::restore_keys("web", uid, gid, home, &was).await.unwrap();
        assert_eq!(sh(kind), before, "{trap}");
    }
    let meta = std::fs::metadata("/proc/self").unwrap();
    let fault = tool::write_keys("web", meta.uid(), meta.gid(), "/nonexistent", b"", false).await.err();
    assert!(matches!(fault, Some(AccountFault::NoHome { .. })), "{fault:?}");
}
