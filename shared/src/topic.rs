//! The topics, fixed and few. No topic contains a job's id, so that a broker's tables stay small.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_as_documented() {
        let (site, node) = ("lab".parse().expect("site"), "web-1.example.org".parse().expect("node"));
        assert_eq!(down(&site, &node), "muster/v1/lab/web-1.example.org/down");
        assert_eq!(up(&site, &node), "muster/v1/lab/web-1.example.org/up");
        assert_eq!(join_request(&site, "0af3"), "muster/v1/lab/join/0af3/request");
        assert_eq!(join_answer(&site, "0af3"), "muster/v1/lab/join/0af3/answer");
    }
}
