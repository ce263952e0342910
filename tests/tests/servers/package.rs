//! `Muster::Package` with a real apt on a real systemd: packages and their repository are the test's own, on the server itself.

use muster_testbed::SystemdServer;

use crate::deployments::no_run_is_left;
use crate::one_server::{Installed, Kind};

/// On the server: `deb NAME VERSION POSTINST [FIELD]...` makes a package of the repository, `index` says what is in it.
const REPOSITORY: &str = r#"
mkdir -p /srv/repo
cat >/usr/local/bin/deb <<'SCRIPT'
#!/bin/sh
set -e
name=$1 version=$2 postinst=$3; shift 3
root=$(mktemp -d); chmod 755 "$root"
mkdir -p "$root/DEBIAN" "$root/opt/$name"
echo "$version" >"$root/opt/$name/version"
[ "$name" != big ] || head -c 400000 /dev/urandom >"$root/opt/$name/content"
{ printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: a test <test@example.com>\n' "$name" "$version"
  for field; do echo "$field"; done; echo 'Description: a test'; } >"$root/DEBIAN/control"
printf '#!/bin/sh\n%s\n' "$postinst" >"$root/DEBIAN/postinst"; chmod 755 "$root/DEBIAN/postinst"
dpkg-deb -Znone --build "$root" "/srv/repo/${name}_$version.deb" >/dev/null
rm -r "$root"
SCRIPT
cat >/usr/local/bin/index <<'SCRIPT'
#!/bin/sh
set -e
cd /srv/repo; rm -f Packages
for file in *.deb; do
  dpkg-deb -f "$file"
  printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$file" "$(stat -c %s "$file")" "$(sha256sum "$file" | cut -d ' ' -f 1)"
done >Packages
SCRIPT
chmod 755 /usr/local/bin/deb /usr/local/bin/index
rm -rf /etc/apt/sources.list.d/* /var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list
deb lib 1 :
deb web 1 : 'Depends: lib'
deb web 2 : 'Depends: lib'
deb web 3 'echo no port is free; exit 4' 'Depends: lib, new'
deb new 1 :
deb extra 1 : 'Depends: web'
deb rival 1 : 'Conflicts: web'
deb big 1 :
deb hang 1 :
deb hang 2 'while :; do sleep 1; done'
deb slow 1 'echo configured >>/root/slow; touch /root/there; while [ ! -e /root/go ]; do sleep 0.05; done'
index
"#;

pub const PACKAGE: Kind =
    Kind { head: "type: Muster::Package", outputs: "version: {value: {get_attr: [one, version]}}" };

/// Dpkg's state of the test's own packages: name, version, what is wanted, what is.
fn packages(server: &SystemdServer) -> String {
    let format = "${Package} ${Version} ${db:Status-Want} ${db:Status-Status},";
    let names = "lib web new extra rival big hang slow";
    let listed = server.sh(&format!("dpkg-query -W -f '{format}' {names} 2>/dev/null || :"));
    let is_there =
        |row: &&str| !row.is_empty() && !row.ends_with("config-files") && !row.ends_with("not-installed");
    listed.split(',').filter(is_there).collect::<Vec<_>>().join(", ")
}

const LIB: &str = "lib 1 install installed";

#[test]
fn a_package_is_versioned_held_restored_on_failure_and_removed() {
    let server = Installed::start("debs");
    server.sh(REPOSITORY);
    let with = |web: &str| format!("{LIB}, web {web} installed");
    assert_eq!(packages(&server), "");

    // apt does not know of it yet: its lists are made new.
    server.works("web", PACKAGE, "name: web, version: '1'");
    assert_eq!(packages(&server), with("1 install"));
    assert_eq!(server.json("muster stack outputs web -o json")[0]["value"], "1");
    server.works("web", PACKAGE, "name: web, version: '2', held: true");
    assert_eq!(packages(&server), with("2 hold"));

    // What somebody changes is found, and mended by the next update.
    server.sh("apt-mark unhold web");
    server.fails("muster stack check web --wait");
    let shown = server.json("muster resource show web one -o json");
    assert!(shown["status_reason"].to_string().contains("web: it is not held"), "{shown}");
    server.works("web", PACKAGE, "name: web, version: '2', held: true, timeout: 600");
    assert_eq!(packages(&server), with("2 hold"));

    // Its own script fails: what it brought along goes, and the version of before is back, held as it was.
    let said = server.refuses("web", PACKAGE, "name: web, version: '3', held: true");
    assert!(said.contains("'apt-get install web=3' ended with status 100"), "{said}");
    assert!(said.contains("no port is free"), "{said}");
    assert!(said.contains("(what was there before this job is back)"), "{said}");
    assert_eq!(packages(&server), with("2 hold"));
    assert_eq!(server.sh("cat /opt/web/version"), "2\n");

    let said = server.refuses("web", PACKAGE, "name: web, version: '9'");
    assert!(said.contains("no repository of this server has version 9 of web; there is 3, 2, 1"), "{said}");
    let said = server.refuses("none", PACKAGE, "name: no-such-thing");
    assert!(said.contains("no repository of this server has a package no-such-thing"), "{said}");
    // Downwards.
    server.works("web", PACKAGE, "name: web, version: '1', held: false");
    assert_eq!(packages(&server), with("1 install"));
    // Whom it would take along is said, and stays.
    let said = server.refuses("rival", PACKAGE, "name: rival");
    assert!(said.contains("to install rival would remove web as well"), "{said}");
    server.works("extra", PACKAGE, "name: extra");
    let said = server.refuses("lib", PACKAGE, "name: lib, state: absent");
    assert!(said.contains("to remove lib would remove") && said.contains("extra"), "{said}");
    assert!(packages(&server).starts_with("extra 1"), "{}", packages(&server));
    server.delete(&["extra"]);
    assert_eq!(packages(&server), with("1 install"));
    // What was there before these stacks was nothing.
    server.delete(&["web", "none", "rival", "lib"]);
    assert_eq!(packages(&server), LIB, "what came along stays");

    // What was there comes back: in its version, and also where it was to be absent.
    server.sh("apt-get install -y -qq web=1");
    server.works("web", PACKAGE, "name: web, version: '2'");
    server.delete(&["web"]);
    assert_eq!(packages(&server), with("1 install"));
    server.works("web", PACKAGE, "name: web, state: absent");
    assert_eq!(packages(&server), LIB);
    server.delete(&["web"]);
    assert_eq!(packages(&server), with("1 install"));
    server.works("web", PACKAGE, "name: web, version: '2', on_delete: keep");
    server.delete(&["web"]);
    assert_eq!(packages(&server), with("2 install"));
}

#[test]
fn package_jobs_await_locks_and_survive_full_disks_and_kills() {
    let server = Installed::start("debs");
    server.sh(REPOSITORY);
    // Somebody else installs: who that is is said when the time is over, and waited for when it is not.
    let dpkg_begins = "rm -f /root/there /root/go /root/slow
        systemd-run --quiet --unit=other dpkg -i /srv/repo/slow_1.deb";
    server.sh(dpkg_begins);
    server.until("dpkg is in the middle", "test -e /root/there");
    let said = server.refuses("web", PACKAGE, "name: web, version: '2', timeout: 1");
    assert!(
        said.contains("packages were locked by process") && said.contains("(dpkg) for all of 1 s"),
        "{said}"
    );
    server.begin("web", PACKAGE, "name: web, version: '2', timeout: 600");
    server.until("it waits", "muster resource show web one -o json | grep -q '\"running\"'");
    assert_eq!(packages(&server), "slow 1 install half-configured");
    server.sh("touch /root/go");
    assert_eq!(server.end("web")["status"], "COMPLETE");
    let all = format!("{LIB}, slow 1 install installed, web 2 install installed");
    assert_eq!(packages(&server), all);

    // What they bring while it waits stays, also when it fails.
    server.sh(&format!("dpkg -r slow; {dpkg_begins}"));
    server.until("dpkg is in the middle", "test -e /root/there");
    server.begin("web", PACKAGE, "name: web, version: '3', timeout: 600");
    server.until("it waits", "muster resource show web one -o json | grep -q '\"running\"'");
    server.sh("touch /root/go");
    assert_eq!(server.end("web")["status"], "FAILED");
    assert_eq!(packages(&server), all);

    // dpkg itself is killed in the middle, as by a power cut: what it left is ended first.
    server.sh(&format!("dpkg -r slow web; {dpkg_begins}"));
    server.until("dpkg is in the middle", "test -e /root/there");
    server.sh("systemctl kill --signal=KILL other; while systemctl is-active other; do sleep 0.05; done; touch /root/go");
    server.sh("ls /var/lib/dpkg/updates | grep -q .");
    server.works("web", PACKAGE, "name: web, version: '2', timeout: 500");
    assert_eq!(packages(&server), all);
    server.until("it is told", "journalctl -u muster-agent | grep -q 'dpkg had been interrupted before'");

    // The agent is killed in the middle: the installation goes on without it, once.
    server.sh("dpkg -r slow; rm -f /root/there /root/go /root/slow");
    server.begin("slow", PACKAGE, "name: slow");
    server.until("its script runs", "test -e /root/there");
    server.sh("systemctl kill --signal=KILL muster-agent; touch /root/go");
    assert_eq!(server.end("slow")["status"], "COMPLETE");
    assert_eq!(server.sh("cat /root/slow"), "configured\n");
    no_run_is_left(&server);

    // A script that does not end before the time does: the version of before is back.
    server.sh("apt-get install -y -qq hang=1");
    let said = server.refuses("hang", PACKAGE, "name: hang, version: '2', timeout: 10");
    assert!(
        said.contains("took longer than its time")
            && said.contains("(what was there before this job is back)"),
        "{said}"
    );
    assert_eq!(server.sh("dpkg-query -W -f '${Version} ${db:Status-Status}' hang"), "1 installed");
    server.delete(&["hang"]);
    server.sh("dpkg -r hang");

    // The agent would cut itself off.
    let said = server.refuses("own", PACKAGE, "name: muster-agent, state: absent");
    assert!(said.contains("muster-agent is the package of the agent that runs here"), "{said}");
    server.sh("systemctl is-active muster-agent; dpkg -s muster-agent");

    // A full disk.
    server.sh("mkdir /opt/big; mount -t tmpfs -o size=64k small /opt/big");
    let said = server.refuses("big", PACKAGE, "name: big");
    assert!(said.contains("No space left on device"), "{said}");
    assert_eq!(packages(&server), all);
    server.sh("umount /opt/big");
    server.works("big", PACKAGE, "name: big, timeout: 600");
    server.delete(&["big", "own", "slow", "web"]);
    assert_eq!(packages(&server), LIB);
}
