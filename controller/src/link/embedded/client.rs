//! The identity of a client of the embedded broker, and its topics. They are as in the ACL of `examples/mosquitto`,
//! with one difference: at the router a joiner's topics are those of its place ([`JoinPlaces`]).

use std::sync::Arc;

use muster_shared::topic::{self, FromController, ToController};
use muster_shared::{NodeId, SiteId};

use super::join_places::{JoinPlace, JoinPlaces};

/// A client that was let in.
pub(super) struct Client {
    site: SiteId,
    who: Who,
}

enum Who {
    Controller { name: String, places: Arc<JoinPlaces> },
    Node(NodeId),
    Joiner { nonce: String, place: JoinPlace },
}

/// The fate of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// To this topic at the router.
    To(String),
    /// The receiver is gone.
    Nobody,
    /// Not this client's to write.
    Refused,
}

impl Client {
    pub(super) fn controller(site: &SiteId, name: String, places: Arc<JoinPlaces>) -> Self {
        Self { site: site.clone(), who: Who::Controller { name, places } }
    }

    pub(super) fn node(site: &SiteId, node: NodeId) -> Self {
        Self { site: site.clone(), who: Who::Node(node) }
    }

    pub(super) fn joiner(site: &SiteId, nonce: String, place: JoinPlace) -> Self {
        Self { site: site.clone(), who: Who::Joiner { nonce, place } }
    }

    /// The id that it must have in its CONNECT.
    pub(super) fn client_id(&self) -> &str {
        match &self.who {
            Who::Controller { name, .. } => name,
            Who::Node(node) => node.as_str(),
            Who::Joiner { nonce, .. } => nonce,
        }
    }

    /// The client's id at the router. No node has the name of another kind's.
    pub(super) fn router_id(&self) -> String {
        match &self.who {
            Who::Controller { .. } => "controller".to_owned(),
            Who::Node(node) => format!("node:{node}"),
            Who::Joiner { place, .. } => format!("join:{}", place.number()),
        }
    }

    /// Whether its connection is short.
    pub(super) fn is_joiner(&self) -> bool {
        matches!(self.who, Who::Joiner { .. })
    }

    pub(super) fn write(&self, topic: &str) -> Write {
        let site = &self.site;
        let may = match &self.who {
            Who::Controller { places, .. } => match topic::from_controller(site, topic) {
                Some(FromController::Down(_) | FromController::Notices) => true,
                Some(FromController::JoinAnswer(nonce)) => {
                    return places.number_of(nonce).map_or(Write::Nobody, |number| {
                        Write::To(topic::join_answer(site, &number.to_string()))
                    });
                }
                None => false,
            },
            Who::Node(node) => topic == topic::up(site, node),
            Who::Joiner { nonce, place } => {
                if topic != topic::join_request(site, nonce) {
                    return Write::Refused;
                }
                return Write::To(topic::join_request(site, &place.number().to_string()));
            }
        };
        if may { Write::To(topic.to_owned()) } else { Write::Refused }
    }

    /// The filter at the router; `None` if it is not this client's to read.
    pub(super) fn read(&self, filter: &str) -> Option<String> {
        let site = &self.site;
        let may = match &self.who {
            Who::Controller { .. } => {
                filter == topic::all_up(site) || filter == topic::all_join_requests(site)
            }
            Who::Node(node) => filter == topic::down(site, node) || filter == topic::notices(site),
            Who::Joiner { nonce, place } => {
                let is_its_own = filter == topic::join_answer(site, nonce);
                return is_its_own.then(|| topic::join_answer(site, &place.number().to_string()));
            }
        };
        may.then(|| filter.to_owned())
    }

    /// The topic of a message from the router, as this client knows it.
    pub(super) fn hear(&self, topic: &str) -> String {
        match &self.who {
            Who::Controller { places, .. } => {
                let nonce = match topic::to_controller(&self.site, topic) {
                    Some(ToController::JoinRequest(number)) => {
                        number.parse().ok().and_then(|it| places.nonce_at(it))
                    }
                    Some(ToController::Up(_)) | None => None,
                };
                // Where the joiner is gone already, the topic of its place is nobody's: the request does not open.
                nonce.map_or_else(|| topic.to_owned(), |nonce| topic::join_request(&self.site, &nonce))
            }
            Who::Node(_) => topic.to_owned(),
            Who::Joiner { nonce, .. } => topic::join_answer(&self.site, nonce),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_topics_and_no_others() {
        let site: SiteId = "lab".parse().unwrap();
        let places = Arc::<JoinPlaces>::default();
        let _first = places.take("somebodyelse").unwrap();
        let nonce = "0123456789abcdef";
        let joiner = Client::joiner(&site, nonce.into(), places.take(nonce).unwrap());
        let controller = Client::controller(&site, "controller@lab".into(), Arc::clone(&places));
        let web1 = Client::node(&site, "web-1".parse().unwrap());
        assert_eq!(
            [&controller, &web1, &joiner].map(Client::router_id),
            ["controller", "node:web-1", "join:1"].map(str::to_owned)
        );
        // Topic, and what controller, web-1 and the joiner do there: (w)rite, (r)ead, (n)obody is there.
        for (topic, wanted) in [
            ("web-1/up", ["", "w", ""]),
            ("web-2/up", ["", "", ""]),
            ("web-1/down", ["w", "r", ""]),
            ("web-2/down", ["w", "", ""]),
            ("+/up", ["r", "", ""]),
            ("+/down", ["", "", ""]),
            ("#", ["", "", ""]),
            ("controller", ["w", "r", ""]),
            ("join/+/request", ["r", "", ""]),
            ("join/0123456789abcdef/request", ["", "", "w"]),
            ("join/0123456789abcdef/answer", ["w", "", "r"]),
            ("join/fedcba9876543210/request", ["", "", ""]),
            ("join/fedcba9876543210/answer", ["n", "", ""]),
            ("join/0/answer", ["n", "", ""]),
        ] {
            let topic = format!("muster/v1/lab/{topic}");
            let found = [&controller, &web1, &joiner].map(|client| {
                let write = match client.write(&topic) {
                    Write::To(_) => "w",
                    Write::Nobody => "n",
                    Write::Refused => "",
                };
                format!("{write}{}", client.read(&topic).map_or("", |_| "r"))
            });
            assert_eq!(found, wanted.map(str::to_owned), "{topic}");
        }
        for client in [&controller, &web1, &joiner] {
            assert_eq!(client.write("muster/v1/other/controller"), Write::Refused);
            assert_eq!(client.read("$share/group/muster/v1/lab/+/up"), None);
        }
    }

    #[test]
    fn a_joiner_has_the_topics_of_its_place_at_the_router() {
        let site: SiteId = "lab".parse().unwrap();
        let places = Arc::<JoinPlaces>::default();
        let nonce = "0123456789abcdef";
        let joiner = Client::joiner(&site, nonce.into(), places.take(nonce).unwrap());
        let controller = Client::controller(&site, "controller@lab".into(), places);
        let (asks, answers) = (topic::join_request(&site, nonce), topic::join_answer(&site, nonce));
        assert_eq!(joiner.write(&asks), Write::To("muster/v1/lab/join/0/request".into()));
        assert_eq!(joiner.read(&answers).as_deref(), Some("muster/v1/lab/join/0/answer"));
        assert_eq!(controller.hear("muster/v1/lab/join/0/request"), asks);
        assert_eq!(controller.write(&answers), Write::To("muster/v1/lab/join/0/answer".into()));
        assert_eq!(joiner.hear("muster/v1/lab/join/0/answer"), answers);
        drop(joiner);
        assert_eq!(controller.hear("muster/v1/lab/join/0/request"), "muster/v1/lab/join/0/request");
        assert_eq!(controller.write(&answers), Write::Nobody);
    }
}
