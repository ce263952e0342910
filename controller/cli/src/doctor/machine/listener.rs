//! Whether anything listens at the port for agents, by the kernel's list of sockets.

use std::fs;

use muster_api::site::Role;
use muster_shared::finding::Finding;

/// The kernel's word for a socket that listens.
const LISTENS: &str = "0A";

/// Nothing, where the list cannot be read.
pub fn check(port: u16, role: Role) -> Option<Finding> {
    let lists: Vec<String> =
        ["/proc/net/tcp", "/proc/net/tcp6"].iter().filter_map(|list| fs::read_to_string(list).ok()).collect();
    let listens = lists.iter().any(|list| has_listener(list, port));
    (!lists.is_empty()).then(|| finding(port, role, listens))
}

fn finding(port: u16, role: Role, listens: bool) -> Finding {
    const CHECK: &str = "listener";
    match (listens, role) {
        (true, _) => Finding::ok(CHECK, format!("TCP port {port} is listened on")),
        (false, Role::Active) => Finding::error(
            CHECK,
            format!("nothing listens on TCP port {port}, where agents connect"),
            "look at controller.listen in controller.toml, then systemctl restart muster-controller",
        ),
        (false, Role::Standby) => {
            Finding::ok(CHECK, format!("nothing listens on TCP port {port} until this controller is active"))
        }
    }
}

/// `0: 00000000:22B3 00000000:0000 0A …`: the number of the line, both ends, the state.
fn has_listener(list: &str, port: u16) -> bool {
    list.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (own, state) = (words.next(), words.nth(1));
        let own = own.and_then(|own| own.rsplit_once(':')).map(|(_, port)| u16::from_str_radix(port, 16));
        own == Some(Ok(port)) && state == Some(LISTENS)
    })
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity::{Error, Ok};

    use super::*;

    const LIST: &str = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
        0: 00000000:22B3 00000000:0000 0A 00000000:00000000 00:00000000\n   \
        1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000\n   \
        2: 00000000000000000000000000000000:20FB 00000000000000000000000000000000:0000 0A 0\n";

    #[test]
    fn a_socket_that_listens_is_found_by_its_port() {
        for (port, listens) in [(0x22b3, true), (0x1f90, false), (0x20fb, true), (0xd431, false), (1, false)]
        {
            assert_eq!(has_listener(LIST, port), listens, "{port}");
        }
        assert_eq!(finding(8883, Role::Active, true).state, Ok);
        assert_eq!(finding(8883, Role::Active, false).state, Error);
        assert_eq!(finding(8883, Role::Standby, false).state, Ok);
    }
}
