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
fn what_is_there_is_read_and_what_differs_is_told_without_what_is_secret() {
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
