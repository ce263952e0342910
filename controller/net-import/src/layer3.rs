//! Routes and rules as a network document writes them, and name servers, of which a document takes three.

use muster_shared::model::network::MAX_DNS_SERVERS;
use serde_json::{Map, Value, json};

/// A route before it is written.
#[derive(Default)]
pub(crate) struct Route {
    /// `default`, or an address with or without the length of its prefix.
    pub to: String,
    pub via: Option<String>,
    pub metric: Option<u32>,
    pub table: Option<u32>,
    pub source: Option<String>,
    pub onlink: bool,
}

impl Route {
    /// The route, or why a document cannot say it.
    pub fn written(self) -> Result<Value, &'static str> {
        let Some(via) = self.via.filter(|via| !via.is_empty()) else {
            return Err("a route of a network document has a gateway");
        };
        let mut route = Map::from_iter([("next_hop".to_owned(), json!(via))]);
        match self.to.as_str() {
            "default" | "0.0.0.0/0" | "::/0" | "" => route.insert("default".into(), json!(true)),
            to => route.insert("ip_netmask".into(), json!(with_prefix(to))),
        };
        let mut number = |key: &str, value: Option<u32>| {
            value.map(|value| route.insert(key.to_owned(), json!(value)));
        };
        number("metric", self.metric);
        number("table", self.table);
        let source = self.source.map(|source| format!("src {source}"));
        let options: Vec<String> =
            source.into_iter().chain(self.onlink.then(|| "onlink".to_owned())).collect();
        if !options.is_empty() {
            route.insert("route_options".into(), json!(options.join(" ")));
        }
        Ok(Value::Object(route))
    }
}

/// An address with the length of its prefix: of one without, all of its bits.
pub(crate) fn with_prefix(address: &str) -> String {
    match address {
        _ if address.contains('/') => address.to_owned(),
        _ if address.contains(':') => format!("{address}/128"),
        _ => format!("{address}/32"),
    }
}

/// A policy rule: the words of `ip rule` with their values, in this order.
pub(crate) fn rule(words: &[(&str, Option<String>)]) -> Value {
    let said = words.iter().filter_map(|(word, value)| Some(format!("{word} {}", value.as_ref()?)));
    json!({"rule": said.collect::<Vec<_>>().join(" ")})
}

/// Name servers that the document has so far.
#[derive(Default)]
pub(crate) struct Servers {
    taken: Vec<String>,
}

impl Servers {
    /// The servers of the list that the document takes, each once.
    pub fn take(&mut self, path: &str, servers: Vec<String>, left_out: &mut Vec<String>) -> Vec<String> {
        let mut fresh = Vec::new();
        for server in servers {
            if self.taken.contains(&server) {
                continue;
            }
            if self.taken.len() < MAX_DNS_SERVERS {
                self.taken.push(server.clone());
                fresh.push(server);
            } else {
                left_out.push(format!(
                    "{path}: {server} is one name server too many: a resolver asks the first {MAX_DNS_SERVERS}"
                ));
            }
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_written_as_documents_have_them() {
        let via = |to: &str, via: &str| Route { to: to.into(), via: Some(via.into()), ..Route::default() };
        let written = |route: Route| route.written().map(|route| route.to_string());
        assert_eq!(
            written(via("default", "192.0.2.1")).unwrap(),
            r#"{"default":true,"next_hop":"192.0.2.1"}"#
        );
        assert_eq!(
            written(via("::/0", "2001:db8::1")).unwrap(),
            r#"{"default":true,"next_hop":"2001:db8::1"}"#
        );
        let full = Route {
            metric: Some(5),
            table: Some(100),
            source: Some("192.0.2.9".into()),
            onlink: true,
            ..via("198.51.100.7", "192.0.2.1")
        };
        assert_eq!(
            written(full).unwrap(),
            r#"{"ip_netmask":"198.51.100.7/32","metric":5,"next_hop":"192.0.2.1","route_options":"src 192.0.2.9 onlink","table":100}"#
        );
        assert!(Route { to: "default".into(), ..Route::default() }.written().is_err());
    }

    #[test]
    fn three_name_servers_are_taken_in_all() {
        let (mut servers, mut left_out) = (Servers::default(), Vec::new());
        let of = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        assert_eq!(servers.take("a", of(&["1.1.1.1", "2.2.2.2"]), &mut left_out).len(), 2);
        assert_eq!(servers.take("b", of(&["2.2.2.2", "3.3.3.3", "4.4.4.4"]), &mut left_out), ["3.3.3.3"]);
        assert_eq!(left_out, ["b: 4.4.4.4 is one name server too many: a resolver asks the first 3"]);
    }
}
