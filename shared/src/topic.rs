//! The topics, fixed and few. No topic contains a job's id, so that a broker's tables stay small.
//!
//! Absent: who may read and write which topic (`controller/src/link/embedded/client.rs`;
//! `examples/mosquitto/acl`).

use crate::{NodeId, SiteId};

/// The topic of messages from the controller to one node.
pub fn down(site: &SiteId, node: &NodeId) -> String {
    format!("muster/v1/{site}/{node}/down")
}

/// The topic of messages from one node to the controller.
pub fn up(site: &SiteId, node: &NodeId) -> String {
    format!("muster/v1/{site}/{node}/up")
}

/// A joining agent's request; `nonce` is its client id.
pub fn join_request(site: &SiteId, nonce: &str) -> String {
    format!("muster/v1/{site}/join/{nonce}/request")
}

/// The controller's answer to [`join_request`].
pub fn join_answer(site: &SiteId, nonce: &str) -> String {
    format!("muster/v1/{site}/join/{nonce}/answer")
}

/// Over a broker: what the controller tells all nodes at once.
pub fn notices(site: &SiteId) -> String {
    format!("muster/v1/{site}/controller")
}

/// The filter of every node's [`up`].
pub fn all_up(site: &SiteId) -> String {
    format!("muster/v1/{site}/+/up")
}

/// The filter of every [`join_request`].
pub fn all_join_requests(site: &SiteId) -> String {
    format!("muster/v1/{site}/join/+/request")
}

/// A topic to which the controller subscribes over a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToController<'a> {
    /// A node's [`up`].
    Up(NodeId),
    /// A [`join_request`] with this nonce.
    JoinRequest(&'a str),
}

/// Reads a topic of this site; `None` for any other.
pub fn to_controller<'a>(site: &SiteId, topic: &'a str) -> Option<ToController<'a>> {
    match within(site, topic)?[..] {
        [node, "up"] => node.parse().ok().map(ToController::Up),
        ["join", nonce, "request"] => Some(ToController::JoinRequest(nonce)),
        _ => None,
    }
}

/// A topic to which the controller publishes over a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromController<'a> {
    /// A node's [`down`].
    Down(NodeId),
    /// A [`join_answer`] with this nonce.
    JoinAnswer(&'a str),
    /// [`notices`].
    Notices,
}

/// Reads a topic of this site; `None` for any other.
pub fn from_controller<'a>(site: &SiteId, topic: &'a str) -> Option<FromController<'a>> {
    match within(site, topic)?[..] {
        [node, "down"] => node.parse().ok().map(FromController::Down),
        ["join", nonce, "answer"] => Some(FromController::JoinAnswer(nonce)),
        ["controller"] => Some(FromController::Notices),
        _ => None,
    }
}

/// The levels below the site's own.
fn within<'a>(site: &SiteId, topic: &'a str) -> Option<Vec<&'a str>> {
    let rest = topic.strip_prefix("muster/v1/")?.strip_prefix(site.as_str())?.strip_prefix('/')?;
    Some(rest.split('/').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> SiteId {
        "lab".parse().expect("site")
    }

    #[test]
    fn topics_are_as_documented() {
        let (site, node) = (site(), "web-1.example.org".parse().expect("node"));
        assert_eq!(down(&site, &node), "muster/v1/lab/web-1.example.org/down");
        assert_eq!(up(&site, &node), "muster/v1/lab/web-1.example.org/up");
        assert_eq!(join_request(&site, "0af3"), "muster/v1/lab/join/0af3/request");
        assert_eq!(join_answer(&site, "0af3"), "muster/v1/lab/join/0af3/answer");
        assert_eq!(notices(&site), "muster/v1/lab/controller");
        assert_eq!(all_up(&site), "muster/v1/lab/+/up");
        assert_eq!(all_join_requests(&site), "muster/v1/lab/join/+/request");
    }

    #[test]
    fn the_controller_reads_topics_of_its_site_only() {
        let node: NodeId = "web-1.example.org".parse().expect("node");
        let join: NodeId = "join".parse().expect("node");
        for (topic, wanted) in [
            ("muster/v1/lab/web-1.example.org/up", Some(ToController::Up(node))),
            ("muster/v1/lab/join/up", Some(ToController::Up(join))),
            ("muster/v1/lab/join/0af3/request", Some(ToController::JoinRequest("0af3"))),
            ("muster/v1/lab/web-1/down", None),
            ("muster/v1/lab/join/0af3/answer", None),
            ("muster/v1/lab2/web-1/up", None),
            ("muster/v1/la/web-1/up", None),
            ("muster/v1/lab/Web_1/up", None),
            ("muster/v1/lab/web-1/up/more", None),
            ("muster/v1/lab//up", None),
            ("muster/v1/lab", None),
            ("", None),
        ] {
            assert_eq!(to_controller(&site(), topic), wanted, "{topic}");
        }
    }
    #[test]
    fn what_the_controller_says_is_of_its_site_only() {
        let node: NodeId = "web-1".parse().expect("node");
        for (topic, wanted) in [
            ("muster/v1/lab/web-1/down", Some(FromController::Down(node))),
            ("muster/v1/lab/join/0af3/answer", Some(FromController::JoinAnswer("0af3"))),
            ("muster/v1/lab/controller", Some(FromController::Notices)),
            ("muster/v1/lab/web-1/up", None),
            ("muster/v1/lab/+/down", None),
            ("muster/v1/lab/join/0af3/request", None),
            ("muster/v1/lab2/controller", None),
            ("muster/v1/lab", None),
        ] {
            assert_eq!(from_controller(&site(), topic), wanted, "{topic}");
        }
    }
}
