//! The life of the Debian packages on one server that has all three: install, join, converge, upgrade, downgrade, remove,
//! reinstall, purge.

use std::collections::BTreeSet;

use muster_testbed::SystemdServer;
use muster_tests::site::{PACKAGES, Packages};

use crate::one_server::{
    ADDRESS, FILE, converged, gone, in_the_middle_of_a_job, join, killed_agent_is_back, not_yet_enabled,
    watched,
};

#[test]
fn installed_joined_upgraded_removed_and_purged() {
    let (old, new) = (Packages::make("deb", "0.1.0"), Packages::make("deb", "0.2.0"));
    let server = SystemdServer::start("pack");
    let before = files(&server);

    old.install(&server, &PACKAGES);
    as_installed(&server);
    join(&server);
    killed_agent_is_back(&server);
    watched(&server);

    server.sh("echo '# mine' >>/etc/muster/agent.toml; echo '# mine' >>/etc/muster/controller.toml");
    in_the_middle_of_a_job(&server, || drop(new.install(&server, &PACKAGES)));
    assert_eq!(versions(&server), "0.2.0-1 0.2.0-1 0.2.0-1");
    server.sh("tail -n 1 /etc/muster/agent.toml | grep -qx '# mine'; tail -n 1 /etc/muster/controller.toml | grep -qx '# mine'");
    converged(&server);

    let said = old.install(&server, &PACKAGES);
    assert!(said.contains("downgrading"), "{said}");
    converged(&server);

    // Removed while everything runs: what was configured stays.
    server.sh("apt-get remove -qq -y muster-agent muster-controller muster");
    server.sh(&format!("{ADDRESS}; {FILE}"));
    gone(&server);
    server.sh("test ! -L /usr/bin/os-net-config; echo theirs >/usr/bin/os-apply-config");
    server.sh(
        "test -f /etc/muster/agent.toml; test -d /var/lib/muster-agent/ledger; test -d /var/lib/muster/pki",
    );

    // What was enabled runs again, with what it knew; configuration that an operator took away stays away.
    server.sh("rm -r /etc/muster");
    new.install(&server, &PACKAGES);
    // What another package or an operator has under such a name is theirs.
    server.sh("grep -qx theirs /usr/bin/os-apply-config; rm /usr/bin/os-apply-config");
    server.sh("test ! -e /etc/muster/agent.toml");
    converged(&server);

    server.sh("apt-get purge -qq -y muster-agent muster-controller muster");
    server.sh(&format!("{ADDRESS}; {FILE}"));
    gone(&server);
    server.fails("getent group muster");
    server.fails("getent passwd muster");
    let mut left = files(&server);
    assert!(left.remove("/srv/motd"), "what the agent made stays");
    let left: Vec<_> = left.difference(&before).collect();
    assert!(left.is_empty(), "purge leaves {left:#?}");

    old.install(&server, &PACKAGES);
    as_installed(&server);
}

/// Paths of files and directories; without logs, dpkg's own records, and the copies that tools keep of /etc/group and /etc/passwd.
fn files(server: &SystemdServer) -> BTreeSet<String> {
    let list = server.sh(
        "find /etc /home /opt /root /srv /usr /var -xdev -not -path '/var/lib/dpkg*' -not -path '/var/log*' \
         -not -path '/var/cache*' -not -path '/var/lib/apt*' -not -path '/var/lib/systemd/timers*' -not -path '/etc/*-' -not -name .pwd.lock",
    );
    list.lines().map(str::to_owned).collect()
}

fn versions(server: &SystemdServer) -> String {
    server.sh("dpkg-query -W -f '${Version} ' muster-agent muster-controller muster").trim().to_owned()
}

fn as_installed(server: &SystemdServer) {
    server.sh("systemctl is-enabled muster-network.service; getent group muster");
    not_yet_enabled(server);
    server.sh("for program in muster muster-agent muster-controller; do $program --version; done");
    server.sh("os-net-config --version | grep -q '^18.1.0 '; test \"$(os-apply-config --key a --key-default b)\" = b");
    server.sh("muster-agent --check-config; muster-controller --check-config");
    let units = "muster-network.service muster-agent.service muster-controller.service";
    let said = server.exec(&["sh", "-c", &format!("systemd-analyze verify --man=no {units}")]).expect(0);
    assert!(!said.stderr.contains("muster"), "{}", said.stderr);
    // Before anything is joined, nothing fails and nothing runs.
    server.sh(&format!(
        "systemctl start {units}; systemctl stop muster-controller.service; rm -r /var/lib/muster"
    ));
    server.sh("[ -z \"$(systemctl --failed --no-legend)\" ]");
    server.fails("systemctl is-active muster-agent.service");
}
