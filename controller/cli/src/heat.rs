//! Asks a running Heat, by its API version 1, for a stack's template, environment and files. Nothing but GET is sent.
//!
//! The token goes to the endpoint that the operator named, over TLS or to this machine, and nowhere else: a redirect is
//! read for the stack's id, and not followed.
//!
//! Absent: what becomes of the stack (`controller/heat-import`).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::handshake;
use hyper::header::{ACCEPT, HOST, HeaderValue, LOCATION};
use hyper::rt::{Read, Write};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use muster_heat_import::Exported;
use muster_tls::client_config_with;
use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;
use serde_json::{Map, Value};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::ca::Ca;
use crate::client::escaped;
use crate::failure::Failure;
use crate::output::printable;

/// The largest answer taken: Muster's own API takes as much.
pub const ANSWER_MAX: usize = 256 << 20;
/// The time for a connection with its handshake, and for an answer: Heat reads a large stack for seconds.
const TIMES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(120));
/// Heat's port, where the URL has none.
const PORT: u16 = 8004;
/// The header of OpenStack with somebody's token.
const TOKEN: &str = "x-auth-token";

/// The address of Heat, and the token.
pub struct Endpoint {
    is_tls: bool,
    host: String,
    port: u16,
    /// Version and project, without a slash at the end.
    path: String,
    token: Option<HeaderValue>,
    ca: Ca,
}

impl Endpoint {
    /// The endpoint of a URL such as `https://HOST:8004/v1/PROJECT`.
    pub fn new(url: &str, token: Option<String>, ca: Option<PathBuf>) -> Result<Self, Failure> {
        let wrong =
            || Failure::usage(format!("--endpoint '{}': want https://HOST:PORT/v1/PROJECT", printable(url)));
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_tls = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(wrong()),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (authority, PORT),
        };
        let host = host.strip_prefix('[').map_or(host, |host| host.strip_suffix(']').unwrap_or(host));
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '_');
        let path_fits = |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '\\');
        if host.is_empty() || !host.chars().all(fits) || !path.chars().all(path_fits) {
            return Err(wrong());
        }
        let is_here =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !is_tls && token.is_some() && !is_here {
            return Err(Failure::usage(
                "over plain HTTP anybody between could read the token: take https://, or run 'openstack stack export' \
                 where Heat is and import its file with --file",
            ));
        }
        let token = token.map(|token| {
            let mut value = HeaderValue::from_str(token.trim())
                .map_err(|_| Failure::usage("the token in OS_TOKEN has bytes that no token has"))?;
            value.set_sensitive(true);
            Ok::<_, Failure>(value)
        });
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            port,
            path: path.trim_end_matches('/').to_owned(),
            token: token.transpose()?,
            ca: ca.map_or(Ca::System, Ca::File),
        })
    }

    async fn get(&self, of: &str) -> Result<Answer, Failure> {
        let connected = timeout(TIMES.0, async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            if !self.is_tls {
                return Ok((Some(stream), None));
            }
            let config = client_config_with(
                self.ca.trust().map_err(|failure| std::io::Error::other(failure.lines.join("; ")))?,
                None,
            )
            .map_err(std::io::Error::other)?;
            let name = ServerName::try_from(self.host.clone()).map_err(std::io::Error::other)?;
            let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
            Ok::<_, std::io::Error>((None, Some(stream)))
        });
        let (plain, tls) = match connected.await {
            Ok(connected) => connected.map_err(|error| self.no_way(&error))?,
            Err(_elapsed) => {
                return Err(self.no_way(&format!("no connection within {} s", TIMES.0.as_secs())));
            }
        };
        let asked = async {
            match (plain, tls) {
                (Some(stream), _) => self.ask(TokioIo::new(stream), of).await,
                (None, Some(stream)) => self.ask(TokioIo::new(stream), of).await,
                (None, None) => Err(self.no_way(&"no connection")),
            }
        };
        timeout(TIMES.1, asked).await.unwrap_or_else(|_elapsed| {
            Err(Failure::timed_out(format!("{self} has not answered for {} s", TIMES.1.as_secs())))
        })
    }

    async fn ask(
        &self,
        stream: impl Read + Write + Unpin + Send + 'static,
        of: &str,
    ) -> Result<Answer, Failure> {
        let (mut sender, connection) =
            handshake::<_, Empty<Bytes>>(stream).await.map_err(|error| self.no_way(&error))?;
        // The connection's errors also appear in its requests.
        tokio::spawn(async move { drop(connection.await) });
        let target = if self.path.is_empty() { of.to_owned() } else { format!("/{}{of}", self.path) };
        let mut request = Request::get(target)
            .header(HOST, format!("{}:{}", self.bracketed(), self.port))
            .header(ACCEPT, "application/json");
        if let Some(token) = &self.token {
            request = request.header(TOKEN, token.clone());
        }
        let request = request.body(Empty::new()).map_err(|error| Failure::usage(error.to_string()))?;
        let response = sender.send_request(request).await.map_err(|error| self.no_way(&error))?;
        let status = response.status();
        let location = response.headers().get(LOCATION).and_then(|it| it.to_str().ok()).map(str::to_owned);
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
        let body =
            body.map_err(|error| Failure::failed(format!("{self}: the answer is cut off: {error}")))?;
        Ok(Answer { status, location, body: body.to_bytes() })
    }

    fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    fn no_way(&self, error: &dyn fmt::Display) -> Failure {
        Failure::unreachable(format!("cannot reach {self}: {error}"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Heat at {}:{}", self.bracketed(), self.port)
    }
}

struct Answer {
    status: StatusCode,
    location: Option<String>,
    body: Bytes,
}

/// The stack of that name or id.
pub async fn stack(endpoint: &Endpoint, name: &str) -> Result<Exported, Failure> {
    let found = endpoint.get(&path(&["stacks", name])).await?;
    let (name, id) = match (found.status.is_redirection(), &found.location) {
        (true, Some(location)) => place(location),
        (true, None) => None,
        // Heat also answers an id with the stack itself.
        (false, _) => {
            let shown = value(endpoint, &found)?;
            let text = |key: &str| shown["stack"][key].as_str().map(str::to_owned);
            text("stack_name").zip(text("id"))
        }
    }
    .ok_or_else(|| Failure::failed(format!("{endpoint}: its answer names no stack")))?;
    let of = |what: &str| path(&["stacks", &name, &id, what]);
    let template = value(endpoint, &endpoint.get(&of("template")).await?)?;
    let environment = value(endpoint, &endpoint.get(&of("environment")).await?)?;
    let files = match value(endpoint, &endpoint.get(&of("files")).await?)? {
        Value::Object(files) => files,
        Value::Null => Map::new(),
        _ => return Err(Failure::failed(format!("{endpoint}: the stack's files are no map"))),
    };
    Ok(Exported { name, template, environment, files })
}

fn path(segments: &[&str]) -> String {
    segments.iter().fold(String::new(), |path, segment| path + "/" + &escaped(segment))
}

/// Name and id, of an address such as `https://heat/v1/p/stacks/web/0a1b`.
fn place(location: &str) -> Option<(String, String)> {
    let (_, rest) = location.split_once("/stacks/")?;
    let decoded = |part: &str| percent_decode_str(part).decode_utf8().ok().map(|text| text.into_owned());
    let mut parts = rest.split(['/', '?']);
    let (name, id) = (decoded(parts.next()?)?, decoded(parts.next()?)?);
    (!name.is_empty() && !id.is_empty()).then_some((name, id))
}

fn value(endpoint: &Endpoint, answer: &Answer) -> Result<Value, Failure> {
    let document = serde_json::from_slice::<Value>(&answer.body);
    if answer.status.is_success() {
        return document
            .map_err(|error| Failure::failed(format!("{endpoint}: its answer is not JSON: {error}")));
    }
    let said = document.ok().and_then(|it| it["error"]["message"].as_str().map(str::to_owned));
    let hint = match answer.status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "; OS_TOKEN is to be a token of that project: openstack token issue -f value -c id"
        }
        _ => "",
    };
    let said = said.unwrap_or_else(|| answer.status.to_string());
    Err(Failure::failed(format!("{endpoint}: {}{hint}", printable(&said))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, token: Option<&str>) -> String {
        Endpoint::new(url, token.map(str::to_owned), None).err().unwrap().lines[0].clone()
    }

    #[test]
    fn endpoints() {
        let endpoint = Endpoint::new("https://heat.example.org/v1/p/", None, None).unwrap();
        assert_eq!((endpoint.is_tls, endpoint.port, endpoint.path.as_str()), (true, 8004, "v1/p"));
        let endpoint = Endpoint::new("http://[::1]:8005/v1/p", Some("t".to_owned()), None).unwrap();
        assert_eq!(
            (endpoint.host.as_str(), endpoint.port, endpoint.to_string().as_str()),
            ("::1", 8005, "Heat at [::1]:8005")
        );
        for url in ["heat", "ftp://h/", "https://", "https://a b/v1", "https://h:x/", "https://h/v1?x"] {
            assert!(refused(url, None).starts_with("--endpoint"), "{url}");
        }
        assert!(refused("http://heat.example.org/v1/p", Some("t")).contains("could read the token"));
        assert!(Endpoint::new("http://heat.example.org/v1/p", None, None).is_ok());
        let odd = refused("https://h/v1", Some("geh\neim"));
        assert!(odd.contains("OS_TOKEN") && !odd.contains("eim"), "{odd}");
    }

    #[test]
    fn a_redirect_names_the_stack() {
        let of = |location: &str| place(location).map(|(name, id)| format!("{name} {id}"));
        assert_eq!(of("https://h:8004/v1/p/stacks/web/0a-1b").as_deref(), Some("web 0a-1b"));
        assert_eq!(of("/v1/p/stacks/a%20b/1?x").as_deref(), Some("a b 1"));
        for location in ["", "/v1/p/stacks/", "/v1/p/stacks/web", "/v1/p/stacks//1", "/v1/p/stacks/%ff/1"] {
            assert_eq!(of(location), None, "{location}");
        }
    }
}
