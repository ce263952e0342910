//! The running agent, against a controller that does what the test says.

#![allow(clippy::unwrap_used, reason = "all of this is test code, also what stands outside a test function")]

mod controller;

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use controller::{Controller, Seen, now};

/// Ends with the value.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Agent {
    fn join(state: &Path, token: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster-agent"));
        command.arg("--state-dir").arg(state.join("state")).args(["join", token, "--name", "web-1.test"]);
        command.env_clear().env("NOTIFY_SOCKET", state.join("notify")).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn terminate(mut self) -> ExitStatus {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        self.0.wait().unwrap()
    }
}

fn notified(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let length = socket.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..length].to_vec()).unwrap().trim().to_owned()
}

#[test]
fn systemd_hears_that_it_is_ready_and_sigterm_ends_it_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    let controller = Controller::start(|_| now() + 3600);
    let agent = Agent::join(dir.path(), &controller.token());
    assert_eq!(notified(&socket), "READY=1");
    let Seen::Joined(first) = controller.next() else { panic!("it joins first") };
    assert_eq!(controller.next(), Seen::Node(first));
    assert!(agent.terminate().success());
    assert_eq!(notified(&socket), "STOPPING=1");
}

#[test]
fn an_agent_renews_an_expired_certificate_and_uses_it() {
    let dir = tempfile::tempdir().unwrap();
    let _socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    let controller = Controller::start(|grants| if grants == 0 { now() } else { now() + 3600 });
    let agent = Agent::join(dir.path(), &controller.token());
    let Seen::Joined(first) = controller.next() else { panic!("it joins first") };
    let Seen::Renewed(second) = controller.next() else { panic!("then it renews") };
    assert_ne!(first, second);
    assert_eq!(controller.next(), Seen::Node(second), "it connects with the new one");
    assert!(agent.terminate().success());
}

#[test]
fn a_clock_years_ahead_renews_once_for_each_connection() {
    let dir = tempfile::tempdir().unwrap();
    let _socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    // To the agent every certificate is too old.
    let controller = Controller::start(|_| now() - 1);
    let agent = Agent::join(dir.path(), &controller.token());
    assert!(matches!(controller.next(), Seen::Joined(_)));
    let Seen::Renewed(second) = controller.next() else { panic!("then it renews") };
    assert_eq!(controller.next(), Seen::Node(second), "whether it is valid is for the controller to say");
    assert!(agent.terminate().success());
}

/// In a network where packets to the resolver vanish; needs root, as namespaces do.
#[test]
fn a_resolver_that_does_not_answer_does_not_hold_the_end_up() {
    let dir = tempfile::tempdir().unwrap();
    let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    let controller = Controller::start(|_| now() + 3600);
    let agent = Agent::join(dir.path(), &controller.token_at("localhost"));
    assert_eq!(notified(&socket), "READY=1");
    assert!(agent.terminate().success());
    assert_eq!(notified(&socket), "STOPPING=1");

    let resolvers = dir.path().join("resolv.conf");
    std::fs::write(&resolvers, "nameserver 192.0.2.1\noptions timeout:30 attempts:5\n").unwrap();
    let switch = dir.path().join("nsswitch.conf");
    std::fs::write(&switch, "hosts: dns\n").unwrap();
    let script = format!(
        "ip link set lo up && ip route add 192.0.2.1 dev lo && mount --bind {} /etc/resolv.conf && \
         mount --bind {} /etc/nsswitch.conf && exec {} --state-dir {}",
        resolvers.display(),
        switch.display(),
        env!("CARGO_BIN_EXE_muster-agent"),
        dir.path().join("state").display(),
    );
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-ec", &script]).env("NOTIFY_SOCKET", dir.path().join("notify"));
    let agent = Agent(command.stderr(Stdio::null()).spawn().unwrap());
    assert_eq!(notified(&socket), "READY=1", "it does not wait for a name for ever");
    assert!(agent.terminate().success());
}
