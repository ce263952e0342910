//! `Muster::Package` with a real dnf (4.14) and rpm on a real systemd: a Debian without apt, whose database of rpm knows the test's own
//! packages alone.

use crate::one_server::Installed;
use crate::package::PACKAGE;

/// On the server: `package NAME VERSION WHEN SCRIPT [FIELD]...` makes a package of the repository.
pub const REPOSITORY: &str = r#"
rm /usr/bin/apt-get /etc/dnf/plugins/local.conf /etc/yum.repos.d/* 2>/dev/null || :
mkdir -p /srv/repo /etc/yum.repos.d /etc/rpm /etc/dnf/vars
# As rpm has it elsewhere; here it would be in everybody's home.
echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros
echo 1 >/etc/dnf/vars/releasever
printf '[ours]\nname=ours\nbaseurl=file:///srv/repo\ngpgcheck=0\nmetadata_expire=0\n' >/etc/yum.repos.d/ours.repo
cat >/usr/local/bin/package <<'SCRIPT'
#!/bin/sh
set -e
name=$1 version=$2 when=$3 script=$4; shift 4
spec=$(mktemp)
{ printf 'Name: %s\nVersion: %s\nRelease: 1\nSummary: a test\nLicense: none\nBuildArch: noarch\n' "$name" "$version"
  for field; do echo "$field"; done
  printf '%%description\na test\n%%install\nmkdir -p %%{buildroot}/opt/%s\necho %s >%%{buildroot}/opt/%s/version\n' "$name" "$version" "$name"
  [ "$name" != big ] || echo 'head -c 400000 /dev/urandom >%{buildroot}/opt/big/content'
  printf '%%%s\n%s\n%%files\n/opt/%s\n' "$when" "$script" "$name"; } >"$spec"
rpmbuild --quiet -bb --define '_rpmdir /srv/repo' --define '_build_name_fmt %%{NAME}-%%{VERSION}.rpm' \
  --define '_topdir /root/build' "$spec" >/root/build.log 2>&1
SCRIPT
chmod 755 /usr/local/bin/package
package base 1 post : 'Provides: /bin/sh'
rpm -i --nodeps /srv/repo/base-1.rpm
package lib 1 post :
package web 1 post : 'Requires: lib'
package web 2 post : 'Requires: lib'
package web 3 pre 'echo no port is free; exit 4' 'Requires: lib, new'
package new 1 post :
package extra 1 post : 'Requires: web'
package rival 1 post : 'Conflicts: web'
package big 1 post :
package hang 1 post :
package hang 2 post 'touch /root/there; while :; do sleep 1; done'
package slow 1 post 'echo configured >>/root/slow; touch /root/there; while [ ! -e /root/go ]; do sleep 0.05; done'
createrepo_c -q /srv/repo
"#;

/// The state of the test's own packages by rpm, and the locks.
fn packages(server: &Installed) -> String {
    let installed = "rpm -qa --qf '%{NAME} %{VERSION}\n' lib web new extra rival big hang slow | sort";
    let rows = server.sh(&format!("{installed}; dnf -q versionlock list 2>/dev/null || :"));
    rows.lines().map(str::trim).filter(|row| !row.is_empty()).collect::<Vec<_>>().join(", ")
}

#[test]
fn what_a_package_is_to_be_it_becomes_by_dnf_or_says_why_not() {
    let server = Installed::start("rpms");
    server.sh(REPOSITORY);
    assert_eq!(packages(&server), "");

    server.works("web", PACKAGE, "name: web, version: '1'");
    assert_eq!(packages(&server), "lib 1, web 1");
    assert_eq!(server.json("muster stack outputs web -o json")[0]["value"], "0:1-1");
    server.works("web", PACKAGE, "name: web, version: 2-1, held: true");
    let held = "lib 1, web 2, web-0:2-1.*";
    assert_eq!(packages(&server), held);
    server.sh("dnf -q versionlock delete web");
    server.fails("muster stack check web --wait");
    let shown = server.json("muster resource show web one -o json");
    assert!(shown["status_reason"].to_string().contains("web: it is not held"), "{shown}");
    server.works("web", PACKAGE, "name: web, version: '2', held: true, timeout: 600");
    assert_eq!(packages(&server), held);

    // Its own script fails: the version of before is there, held as it was, and why is said. What came along stays.
    let said = server.refuses("web", PACKAGE, "name: web, version: '3', held: true");
    assert!(said.contains("'dnf install web-0:3-1' ended with status 1; it ends: no port is free"), "{said}");
    assert!(said.contains("(what was there before this job is back)"), "{said}");
    assert_eq!(packages(&server), "lib 1, new 1, web 2, web-0:2-1.*");
    let said = server.refuses("web", PACKAGE, "name: web, version: '9', held: true");
    assert!(said.contains("no repository of this server has version 9 of web; there is 0:"), "{said}");
    let said = server.refuses("none", PACKAGE, "name: no-such-thing");
    assert!(said.contains("no repository of this server has a package no-such-thing"), "{said}");
    let said = server.refuses("rival", PACKAGE, "name: rival");
    assert!(said.contains("rival-1-1.noarch conflicts with web"), "{said}");
    // Downwards.
    server.works("web", PACKAGE, "name: web, version: '1', held: false");
    assert_eq!(packages(&server), "lib 1, new 1, web 1");
    server.works("extra", PACKAGE, "name: extra");
    let said = server.refuses("lib", PACKAGE, "name: lib, state: absent");
    assert!(said.contains("to remove lib would remove web-1-1.noarch as well"), "{said}");
    server.delete(&["extra", "web", "none", "rival", "lib"]);
    assert_eq!(packages(&server), "lib 1, new 1");
    // What was there comes back, also where it was to be absent.
    server.sh("dnf install -y -q web-1");
    server.works("web", PACKAGE, "name: web, version: '2'");
    server.delete(&["web"]);
    assert_eq!(packages(&server), "lib 1, new 1, web 1");
    server.works("web", PACKAGE, "name: web, state: absent");
    assert_eq!(packages(&server), "lib 1, new 1");
    server.delete(&["web"]);
    assert_eq!(packages(&server), "lib 1, new 1, web 1");

    // Somebody else installs.
    server.sh("systemd-run --quiet --unit=other dnf install -y -q slow");
    server.until("rpm is in the middle", "test -e /root/there");
    let said = server.refuses("new", PACKAGE, "name: new, state: absent, timeout: 1");
    assert!(
        said.contains("packages were locked by process") && said.contains("(dnf) for all of 1 s"),
        "{said}"
    );
    server.begin("new", PACKAGE, "name: new, state: absent, timeout: 600");
    server.until("it waits", "muster resource show new one -o json | grep -q '\"running\"'");
    server.sh("touch /root/go");
    assert_eq!(server.end("new")["status"], "COMPLETE");
    assert_eq!(packages(&server), "lib 1, slow 1, web 1");

    // The agent is killed in the middle: the installation goes on without it, once.
    server.sh("dnf remove -y -q slow; rm /root/there /root/go /root/slow");
    server.begin("slow", PACKAGE, "name: slow");
    server.until("its script runs", "test -e /root/there");
    server.sh("systemctl kill --signal=KILL muster-agent; touch /root/go");
    assert_eq!(server.end("slow")["status"], "COMPLETE");
    assert_eq!(server.sh("cat /root/slow"), "configured\n");

    // All of it is killed, as by a power cut: rpm has two versions of it then. The next change leaves one.
    server.sh("dnf install -y -q hang-1; rm /root/there");
    server.sh("systemd-run --quiet --unit=cut dnf install -y -q hang-2");
    server.until("its script runs", "test -e /root/there");
    server.sh("systemctl kill --signal=KILL cut; while systemctl is-active cut; do sleep 0.05; done");
    server.works("hang", PACKAGE, "name: hang, version: '1'");
    assert_eq!(packages(&server), "hang 1, lib 1, slow 1, web 1");

    // A full disk, and no plugin for holding.
    server.sh("mkdir /opt/big; mount -t tmpfs -o size=64k small /opt/big");
    let said = server.refuses("big", PACKAGE, "name: big");
    assert!(said.contains("more space needed on the /opt/big filesystem"), "{said}");
    server.sh("umount /opt/big; echo enabled=0 >>/etc/dnf/plugins/versionlock.conf");
    server.sh("sed -i s/enabled.*=.*1/enabled=0/ /etc/dnf/plugins/versionlock.conf");
    let said = server.refuses("big", PACKAGE, "name: big, held: true");
    assert!(said.contains("No such command: versionlock"), "{said}");
    assert_eq!(packages(&server), "hang 1, lib 1, slow 1, web 1");
}
