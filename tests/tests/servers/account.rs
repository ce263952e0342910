//! `Muster::User` and `Muster::Group` with real shadow-utils: made, changed, compared, refused, restored.

use crate::one_server::{Installed, Kind};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA me@example.com";
/// The hash of nobody's password.
const HASH: &str = "$6$c2FsdA$MUSTERHIDDENHASHMUSTERHIDDENHASH";

/// The controller reports what others change, and leaves it to them.
const USER: Kind = Kind { head: "type: Muster::User, drift_policy: report", outputs: "" };
const GROUP: Kind = Kind { head: "type: Muster::Group, drift_policy: report", outputs: "" };

/// The accounts, without the day on which a password was changed.
fn accounts(server: &Installed) -> String {
    server.sh("sort /etc/passwd /etc/group; cut -d : -f 1,2 /etc/shadow | sort")
}

fn field(server: &Installed, file: &str, name: &str, number: u8) -> String {
    server.sh(&format!("grep '^{name}:' /etc/{file} | cut -d : -f {number}")).trim().to_owned()
}

#[test]
fn accounts_come_change_and_go_and_no_hash_is_readable() {
    let server = Installed::start("users");
    let before = accounts(&server);
    server.works("ops", GROUP, "name: ops, gid: 4711");
    server.works(
        "web",
        USER,
        "name: web, uid: 4712, shell: /bin/sh, comment: Web server, groups: [ops, adm]",
    );
    assert_eq!(
        server.sh("id -u web; id -nG web").split_whitespace().collect::<Vec<_>>(),
        ["4712", "web", "adm", "ops"]
    );
    assert_eq!(field(&server, "passwd", "web", 5), "Web server");
    server.sh("test -d /home/web");
    server.works("system", USER, "name: daemon-x, system: true, home: /srv/x, group: ops");
    server.sh("test ! -e /srv/x; [ $(id -u daemon-x) -lt 1000 ]; [ $(id -gn daemon-x) = ops ]");

    // Password and keys; a link that the user put in the way leads nowhere but where the user may write.
    server.sh("mkdir /root/kept; chmod 755 /root; ln -s /root/kept /home/web/.ssh");
    let keys = format!("name: web, uid: 4712, groups: [adm], authorized_keys: ['{KEY}']");
    let said = server.refuses("web", USER, &keys);
    assert!(said.contains("the authorized keys of web") && said.contains("Permission denied"), "{said}");
    assert!(said.contains("(what was there before this job is back)"), "{said}");
    assert_eq!(server.sh("ls -A /root/kept; id -nG web"), "web adm ops\n");
    server.sh("rm /home/web/.ssh");
    server.works("web", USER, &format!("{keys}, password_hash: '{HASH}', locked: false"));
    assert_eq!(field(&server, "shadow", "web", 2), HASH);
    assert_eq!(server.sh("cat /home/web/.ssh/authorized_keys"), format!("{KEY}\n"));
    assert_eq!(
        server.sh("stat -c '%a %U' /home/web/.ssh /home/web/.ssh/authorized_keys"),
        "700 web\n600 web\n"
    );
    server.works("web", USER, &format!("{keys}, password_hash: '{HASH}', locked: true"));
    assert_eq!(field(&server, "shadow", "web", 2), format!("!{HASH}"));

    // What somebody changes is found; the hash is in no answer, log or argument.
    server.sh(
        "usermod -s /bin/bash -G '' web; echo x >>/home/web/.ssh/authorized_keys; usermod -p '$6$a$b' web",
    );
    server.fails("muster stack check web --wait");
    let shown = server.sh("muster resource show web one -o json; muster stack events web -o json");
    for word in [
        "its groups are '', and should be 'adm'",
        "its password is another",
        "its authorized keys are others",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    server.sh("muster stack update web --existing --wait");
    assert_eq!(field(&server, "shadow", "web", 2), format!("!{HASH}"));
    for shown in
        ["journalctl --no-pager", "muster stack events web -o json", "muster resource show web one -o json"]
    {
        server.fails(&format!("{shown} | grep MUSTERHIDDENHASH"));
    }

    // Under a process of its own nothing moves, and the superuser is nobody's.
    server.sh("setpriv --reuid 4712 --regid 4712 --clear-groups sleep 1000 >/dev/null 2>&1 &");
    server.until("it sleeps", "pgrep -u web sleep");
    let said = server.refuses("web", USER, "name: web, uid: 4799");
    assert!(said.contains("web runs process") && said.contains("(sleep)"), "{said}");
    assert_eq!(server.sh("id -u web"), "4712\n");
    server.sh("pkill -u web sleep; usermod -o -u 0 daemon-x");
    let said = server.refuses("system", USER, "name: daemon-x, system: true, comment: x");
    assert!(said.contains("daemon-x has the number 0"), "{said}");
    server.sh("sed -i s/^daemon-x:x:0:/daemon-x:x:4800:/ /etc/passwd");
    let said = server.refuses("taken", GROUP, "name: other, gid: 4711");
    assert!(said.contains("groupadd says:") && said.contains("already exists"), "{said}");

    server.delete(&["web", "system", "taken", "ops"]);
    assert_eq!(accounts(&server), before);
    server.sh("test -d /home/web");
}

#[test]
fn of_an_account_that_was_there_what_it_was_comes_back() {
    let server = Installed::start("users");
    server.sh(&format!(
        "groupadd -g 4701 old; useradd -m -u 4702 -g old -G adm -c Old -s /bin/sh -p '{HASH}' old; groupadd -g 4703 team; gpasswd -M old team"
    ));
    let before = accounts(&server);
    server.works(
        "old",
        USER,
        "name: old, uid: 4710, groups: [], comment: New, home: /srv, shell: /bin/bash, locked: true",
    );
    server.works("team", GROUP, "name: team, gid: 4711, members: [root]");
    assert_eq!(field(&server, "group", "team", 4), "root");
    assert_eq!(server.sh("id -u old; id -nG old"), "4710\nold\n");
    server.delete(&["team", "old"]);
    assert_eq!(accounts(&server), before);
    server.works("old", USER, "name: old, comment: Kept, on_delete: keep");
    server.delete(&["old"]);
    assert_eq!(field(&server, "passwd", "old", 5), "Kept");
}
