//! A site with one server.

use muster_testbed::{Namespace, Switch};

use super::{Agent, Place, Site};

/// A controller in a namespace, and a server that reaches it over `up0` and whose node is `web-1`.
pub struct OneServer {
    pub site: Site,
    /// Outlives what runs in it.
    pub server: Namespace,
}

impl OneServer {
    /// The server is on the controller's own network, as `10.77.0.2`.
    pub fn new() -> Self {
        let site = Site::in_namespace();
        let server = site.hub().server(2);
        Self { site, server }
    }

    /// The node, joined and online.
    pub fn join(&self) -> Agent {
        self.site.join_at("web-1", self.place())
    }

    /// [`OneServer::join`] with this switch, which is in the server.
    pub fn join_with(&self, switch: &Switch) -> Agent {
        self.site.join_at("web-1", Place { switch: Some(switch), ..self.place() })
    }

    /// Returns the place of the server's agent.
    pub fn place(&self) -> Place<'_> {
        Place { namespace: Some(&self.server), ..Place::default() }
    }
}

impl Default for OneServer {
    fn default() -> Self {
        Self::new()
    }
}
