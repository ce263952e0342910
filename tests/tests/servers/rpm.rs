//! The life of the RPM packages on one server. It is a Debian with `rpm`, so dependencies are not looked at; scriptlets talk to
//! its systemd.

use muster_testbed::SystemdServer;
use muster_tests::site::{PACKAGES, Packages};

use crate::one_server::{ADDRESS, FILE, converged, gone, join, not_yet_enabled};

#[test]
fn installed_verified_upgraded_and_erased() {
    let (old, new) = (Packages::make("rpm", "0.1.0"), Packages::make("rpm", "0.2.0"));
    let server = SystemdServer::start("pack");
    for (packages, verb) in [(&old, "old"), (&new, "new")] {
        for name in PACKAGES {
            server.copy(&packages.file(name), &format!("/run/{verb}/{name}.rpm"));
        }
    }
    let listed = server.sh("rpm -qpl /run/old/*.rpm");
    for path in
        ["/usr/sbin/muster-agent", "/etc/muster/agent.toml", "/usr/lib/systemd/system/muster-network.service"]
    {
        assert!(listed.lines().any(|line| line == path), "{listed}");
    }

    server.sh("rpm -i --nodeps /run/old/*.rpm; rpm -V --nodeps muster-agent muster-controller muster");
    server.sh("systemctl is-enabled muster-network.service; getent group muster");
    not_yet_enabled(&server);
    join(&server);

    server.sh("echo '# mine' >>/etc/muster/agent.toml; systemctl show -P MainPID muster-agent >/run/before");
    server.sh("rpm -U --nodeps /run/new/*.rpm; tail -n 1 /etc/muster/agent.toml | grep -qx '# mine'");
    assert_eq!(
        server.sh("rpm -q --qf '%{VERSION} ' muster-agent muster-controller muster").trim(),
        "0.2.0 0.2.0 0.2.0"
    );
    server.fails("systemctl show -P MainPID muster-agent | cmp -s - /run/before");
    converged(&server);

    server.sh("rpm -e muster-agent muster-controller muster");
    server.sh(&format!("{ADDRESS}; {FILE}"));
    gone(&server);
    server.sh("test -f /etc/muster/agent.toml.rpmsave; test -d /var/lib/muster-agent/ledger; test ! -e /usr/sbin/muster-agent");
}
