//! `Muster::User` and `Muster::Group` with real shadow-utils: made, changed, compared, refused, put back.

use muster_testbed::SystemdServer;
use muster_tests::site::{PACKAGES, Packages};
use serde_json::Value;

use crate::one_server::join;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA me@example.com";
/// Of nobody's password.
const HASH: &str = "$6$c2FsdA$MUSTERHIDDENHASHMUSTERHIDDENHASH";

struct Bed {
    server: SystemdServer,
}

impl Bed {
    fn start() -> Self {
        let server = SystemdServer::start("users");
        Packages::make("deb", "0.1.0").install(&server, &PACKAGES);
        join(&server);
        Self { server }
    }

    /// A stack of one resource, made or changed, to its end; its status and why.
    fn apply(&self, stack: &str, kind: &str, properties: &str) -> (String, String) {
        let template = format!(
            "heat_template_version: 2018-08-31\nresources:\n  \
             account: {{type: Muster::{kind}, drift_policy: report, properties: {{node: pack, {properties}}}}}\n"
        );
        self.server.sh(&format!(
            "cat >/root/{stack}.yaml <<'TEMPLATE'\n{template}TEMPLATE
            verb=create; ! muster stack show {stack} >/dev/null 2>&1 || verb=update
            muster stack $verb {stack} -t /root/{stack}.yaml"
        ));
        let is_over = format!("! muster stack show {stack} -o json | grep -q IN_PROGRESS");
        self.server.until(&format!("{stack} is over"), &is_over);
        let shown = self.json(&format!("muster resource show {stack} account -o json"));
        let text = |key: &str| shown[key].as_str().unwrap_or_default().to_owned();
        (text("status"), text("status_reason"))
    }

    #[track_caller]
    fn works(&self, stack: &str, kind: &str, properties: &str) {
        let (status, reason) = self.apply(stack, kind, properties);
        assert_eq!(status, "COMPLETE", "{properties}: {reason}");
    }

    #[track_caller]
    fn fails(&self, stack: &str, kind: &str, properties: &str) -> String {
        let (status, reason) = self.apply(stack, kind, properties);
        assert_eq!(status, "FAILED", "{properties}");
        reason
    }

    fn delete(&self, stack: &str) {
        self.server.sh(&format!("muster stack delete {stack} --wait"));
    }

    fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.server.sh(command)).unwrap()
    }

    /// All accounts, without the day on which a password was changed.
    fn accounts(&self) -> String {
        self.server.sh("sort /etc/passwd /etc/group; cut -d : -f 1,2 /etc/shadow | sort")
    }

    fn field(&self, file: &str, name: &str, number: u8) -> String {
        self.server.sh(&format!("grep '^{name}:' /etc/{file} | cut -d : -f {number}")).trim().to_owned()
    }
}

#[test]
fn accounts_come_change_are_compared_and_go_and_no_hash_is_anywhere_to_be_read() {
    let bed = Bed::start();
    let before = bed.accounts();
    bed.works("ops", "Group", "name: ops, gid: 4711");
    bed.works("web", "User", "name: web, uid: 4712, shell: /bin/sh, comment: Web server, groups: [ops, adm]");
    assert_eq!(
        bed.server.sh("id -u web; id -nG web").split_whitespace().collect::<Vec<_>>(),
        ["4712", "web", "adm", "ops"]
    );
    assert_eq!(bed.field("passwd", "web", 5), "Web server");
    bed.server.sh("test -d /home/web");
    bed.works("system", "User", "name: daemon-x, system: true, home: /srv/x, group: ops");
    bed.server.sh("test ! -e /srv/x; [ $(id -u daemon-x) -lt 1000 ]; [ $(id -gn daemon-x) = ops ]");

    // Password and keys; a link that the user put in the way leads nowhere but where the user may write.
    bed.server.sh("mkdir /root/kept; chmod 755 /root; ln -s /root/kept /home/web/.ssh");
    let keys = format!("name: web, uid: 4712, groups: [adm], authorized_keys: ['{KEY}']");
    let said = bed.fails("web", "User", &keys);
    assert!(said.contains("the authorized keys of web") && said.contains("Permission denied"), "{said}");
    assert!(said.contains("(what was there before this job is back)"), "{said}");
    assert_eq!(bed.server.sh("ls -A /root/kept; id -nG web"), "web adm ops\n");
    bed.server.sh("rm /home/web/.ssh");
    bed.works("web", "User", &format!("{keys}, password_hash: '{HASH}', locked: false"));
    assert_eq!(bed.field("shadow", "web", 2), HASH);
    assert_eq!(bed.server.sh("cat /home/web/.ssh/authorized_keys"), format!("{KEY}\n"));
    assert_eq!(
        bed.server.sh("stat -c '%a %U' /home/web/.ssh /home/web/.ssh/authorized_keys"),
        "700 web\n600 web\n"
    );
    bed.works("web", "User", &format!("{keys}, password_hash: '{HASH}', locked: true"));
    assert_eq!(bed.field("shadow", "web", 2), format!("!{HASH}"));

    // What somebody changes is found; the hash is in no answer, log or argument.
    bed.server.sh(
        "usermod -s /bin/bash -G '' web; echo x >>/home/web/.ssh/authorized_keys; usermod -p '$6$a$b' web",
    );
    bed.server.fails("muster stack check web --wait");
    let shown = bed.server.sh("muster resource show web account -o json; muster stack events web -o json");
    for word in [
        "its groups are '', and should be 'adm'",
        "its password is another",
        "its authorized keys are others",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    bed.server.sh("muster stack update web --existing --wait");
    assert_eq!(bed.field("shadow", "web", 2), format!("!{HASH}"));
    for shown in [
        "journalctl --no-pager",
        "muster stack events web -o json",
        "muster resource show web account -o json",
    ] {
        bed.server.fails(&format!("{shown} | grep MUSTERHIDDENHASH"));
    }

    // Under a process of its own nothing moves, and the superuser is nobody's.
    bed.server.sh("setpriv --reuid 4712 --regid 4712 --clear-groups sleep 1000 >/dev/null 2>&1 &");
    bed.server.until("it sleeps", "pgrep -u web sleep");
    let said = bed.fails("web", "User", "name: web, uid: 4799");
    assert!(said.contains("web runs process") && said.contains("(sleep)"), "{said}");
    assert_eq!(bed.server.sh("id -u web"), "4712\n");
    bed.server.sh("pkill -u web sleep; usermod -o -u 0 daemon-x");
    let said = bed.fails("system", "User", "name: daemon-x, system: true, comment: x");
    assert!(said.contains("daemon-x has the number 0"), "{said}");
    bed.server.sh("sed -i s/^daemon-x:x:0:/daemon-x:x:4800:/ /etc/passwd");
    let said = bed.fails("taken", "Group", "name: other, gid: 4711");
    assert!(said.contains("groupadd says:") && said.contains("already exists"), "{said}");

    for stack in ["web", "system", "taken", "ops"] {
        bed.delete(stack);
    }
    assert_eq!(bed.accounts(), before);
    bed.server.sh("test -d /home/web");
}

#[test]
fn of_an_account_that_was_there_what_it_was_comes_back() {
    let bed = Bed::start();
    bed.server.sh(&format!(
        "groupadd -g 4701 old; useradd -m -u 4702 -g old -G adm -c Old -s /bin/sh -p '{HASH}' old; groupadd -g 4703 team; gpasswd -M old team"
    ));
    let before = bed.accounts();
    bed.works(
        "old",
        "User",
        "name: old, uid: 4710, groups: [], comment: New, home: /srv, shell: /bin/bash, locked: true",
    );
    bed.works("team", "Group", "name: team, gid: 4711, members: [root]");
    assert_eq!(bed.field("group", "team", 4), "root");
    assert_eq!(bed.server.sh("id -u old; id -nG old"), "4710\nold\n");
    bed.delete("team");
    bed.delete("old");
    assert_eq!(bed.accounts(), before);
    bed.works("old", "User", "name: old, comment: Kept, on_delete: keep");
    bed.delete("old");
    assert_eq!(bed.field("passwd", "old", 5), "Kept");
}
