//! The HTTP API on its Unix socket: one connection, requests one after another.
//!
//! A controller that is busy, or waits for its database, refuses with `Retry-After`: then nothing was done. Requests
//! are sent again after that time, for up to [`BUSY_MAX`], and a line says so.
//!
//! Absent: how long `--wait` waits (`wait.rs`), and TLS, tokens and other hosts: this version's controller listens on
//! its socket only.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use muster_api::error::{Class, Refusal, Refused};
use muster_shared::SiteId;
use muster_template::Errors;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use crate::failure::{Exit, Failure};
use crate::progress::note;

/// The socket of a controller whose settings name no other.
pub const DEFAULT_URL: &str = "unix:///run/muster/api.sock";

/// The largest answer taken: a million resources are listed in about half of it.
const ANSWER_MAX: usize = 1 << 30;

/// The time limit until the answer begins. A watch is answered within 25 s; the largest template takes a
/// few seconds.
const ANSWER_TIME: Duration = Duration::from_secs(120);
/// After this a line says that the answer is waited for.
const SLOW: Duration = Duration::from_secs(5);
/// The time for which a busy controller is asked again: a database that restarts or fails over needs less.
const BUSY_MAX: Duration = Duration::from_secs(60);
/// The least pause before that, whatever the controller says.
const BUSY_PAUSE: Duration = Duration::from_millis(250);

const JSON: &str = "application/json";

/// The header that names the site of a request.
const SITE: &str = "muster-site";

/// Every character but RFC 3986's unreserved ones.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A connection to one controller.
pub struct Client {
    socket: PathBuf,
    /// None: the default one.
    site: Option<SiteId>,
    /// When to ask a busy controller no more, by `--timeout`.
    end: Option<Instant>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// The path of a request: `/v1`, then these segments, each escaped.
pub fn path<const N: usize>(segments: [&str; N]) -> String {
    segments.iter().fold("/v1".to_owned(), |path, segment| path + "/" + &escaped(segment))
}

/// A text as part of a path or of a query.
pub fn escaped(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

impl Client {
    /// A client for `--url`; connects with the first request.
    pub fn new(url: &str) -> Result<Self, Failure> {
        let socket = match url.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => PathBuf::from(path),
            Some(("https", _)) => {
                return Err(Failure::usage(format!(
                    "--url '{url}': this version speaks to the controller on its own host only; use unix:///run/muster/api.sock"
                )));
            }
            _ => return Err(Failure::usage(format!("--url '{url}': want unix:///PATH/OF/SOCKET"))),
        };
        Ok(Self { socket, site: None, end: None, connection: None })
    }

    /// The same for this site of those at the controller.
    pub fn at_site(&self, site: SiteId) -> Self {
        Self { socket: self.socket.clone(), site: Some(site), end: self.end, connection: None }
    }

    /// A busy controller is asked no longer than `--timeout` says.
    pub fn wait_at_most(&mut self, seconds: Option<u64>) {
        self.end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    }

    /// GET.
    pub async fn get(&mut self, path: &str) -> Result<Value, Failure> {
        self.send(Method::GET, path, None).await
    }

    /// Any other method.
    pub async fn send(&mut self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        self.send_patiently(method, path, JSON, bytes(body)).await
    }

    /// Sends a text that the controller parses itself.
    pub async fn send_text(&mut self, method: Method, path: &str, text: Bytes) -> Result<Value, Failure> {
        self.send_patiently(method, path, "text/plain; charset=utf-8", text).await
    }

    /// As [`Client::send`], but without a line and without a second try: for those who wait by themselves.
    pub async fn send_once(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        self.send_bytes(method, path, JSON, bytes(body)).await
    }

    /// Asks a busy controller again.
    async fn send_patiently(
        &mut self,
        method: Method,
        path: &str,
        kind: &'static str,
        body: Bytes,
    ) -> Result<Value, Failure> {
        let (end, mut is_slow, mut busy_until) = (self.end, false, None);
        loop {
            let mut answer = std::pin::pin!(self.send_bytes(method.clone(), path, kind, body.clone()));
            let answer = match timeout(SLOW, &mut answer).await {
                Ok(answer) => answer,
                Err(_elapsed) => {
                    if !std::mem::replace(&mut is_slow, true) {
                        note(&format!(
                            "the controller has not answered for {} s; waiting for it",
                            SLOW.as_secs()
                        ));
                    }
                    answer.await
                }
            };
            let Err(failure @ Failure { retry_after: Some(after), .. }) = answer else { return answer };
            let (now, pause) = (Instant::now(), after.max(BUSY_PAUSE));
            let until = busy_until.unwrap_or_else(|| end.unwrap_or(now + BUSY_MAX).min(now + BUSY_MAX));
            if now + pause > until {
                return Err(failure.given_up());
            }
            if busy_until.replace(until).is_none() {
                let seconds = (until - now).as_secs_f64().ceil();
                note(&format!("{}; waiting for up to {seconds} s", failure.lines.join("; ")));
            }
            sleep(pause).await;
        }
    }

    async fn send_bytes(
        &mut self,
        method: Method,
        path: &str,
        kind: &'static str,
        body: Bytes,
    ) -> Result<Value, Failure> {
        let changes = method != Method::GET;
        let mut request =
            Request::builder().method(method).uri(path).header(HOST, "muster").header(CONTENT_TYPE, kind);
        if let Some(site) = &self.site {
            request = request.header(SITE, site.as_str());
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| Failure::usage(format!("cannot ask for '{path}': {error}")))?;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.socket).await?,
        };
        let lost = |error: &dyn std::fmt::Display| {
            let hint = if changes { "; it may have taken the request: look before trying again" } else { "" };
            Failure::unreachable(format!(
                "the controller at {} did not answer: {error}{hint}",
                self.socket.display()
            ))
        };
        let response = match timeout(ANSWER_TIME, connection.send_request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(lost(&error)),
            Err(elapsed) => return Err(lost(&elapsed)),
        };
        let retry_after = retry_after(response.headers());
        let (status, body) = match timeout(ANSWER_TIME, read(response)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(lost(&error)),
            Err(elapsed) => return Err(lost(&elapsed)),
        };
        self.connection = Some(connection);
        answer(status, &body).map_err(|failure| Failure { retry_after, ..failure })
    }
}

fn bytes(body: Option<&Value>) -> Bytes {
    body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()))
}

/// In seconds: a controller of Muster gives no date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

async fn connect(socket: &Path) -> Result<SendRequest<Full<Bytes>>, Failure> {
    let stream = UnixStream::connect(socket).await.map_err(|error| no_way(socket, &error))?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| {
        Failure::unreachable(format!("cannot reach the controller at {}: {error}", socket.display()))
    })?;
    // The connection's errors also appear in its requests.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// The reason why there is no connection, and the remedy.
fn no_way(socket: &Path, error: &std::io::Error) -> Failure {
    let socket = socket.display();
    Failure::unreachable(match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "cannot reach the controller at {socket}: you may not use its socket, which belongs to root and the group \
             'muster'; add yourself to that group ('usermod -aG muster YOU', then log in again), or use sudo"
        ),
        _ => format!("cannot reach the controller at {socket}: {error}; is muster-controller running?"),
    })
}

async fn read(
    response: Response<Incoming>,
) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await?;
    Ok((status, body.to_bytes()))
}

/// The document of an answer, or the failure that it reports.
fn answer(status: StatusCode, body: &[u8]) -> Result<Value, Failure> {
    if status.is_success() {
        if body.is_empty() {
            return Ok(Value::Null);
        }
        return serde_json::from_slice(body)
            .map_err(|error| Failure::failed(format!("the controller's answer is not JSON: {error}")));
    }
    let Ok(Refused { error: Refusal { class, message, errors } }) = serde_json::from_slice(body) else {
        let exit = if status == StatusCode::PAYLOAD_TOO_LARGE { Exit::Usage } else { Exit::Failed };
        let text = format!("the controller answered {status}; is something else listening there?");
        return Err(Failure { exit, ..Failure::failed(text) });
    };
    let exit = if class == Class::Invalid { Exit::Usage } else { Exit::Failed };
    if !errors.is_empty() {
        return Err(Failure { exit, ..Failure::from(Errors(errors)) });
    }
    let (passing, missing) = (class == Class::Unavailable, class == Class::NotFound);
    Err(Failure { exit, lines: vec![message], passing, retry_after: None, missing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_escaped() {
        assert_eq!(
            path(["stacks", "a.b", "resources", "x[web-1]/?#%é"]),
            "/v1/stacks/a.b/resources/x%5Bweb-1%5D%2F%3F%23%25%C3%A9"
        );
    }

    #[test]
    fn urls() {
        for (url, exit) in [
            ("unix:///run/muster/api.sock", None),
            ("https://controller:8443", Some(Exit::Usage)),
            ("http://controller", Some(Exit::Usage)),
            ("unix://relative", Some(Exit::Usage)),
            ("/run/muster/api.sock", Some(Exit::Usage)),
            ("", Some(Exit::Usage)),
        ] {
            assert_eq!(Client::new(url).err().map(|failure| failure.exit), exit, "{url}");
        }
    }

    #[test]
    fn a_closed_socket_says_what_to_do() {
        for (kind, wanted) in [
            (
                ErrorKind::PermissionDenied,
                "add yourself to that group ('usermod -aG muster YOU', then log in again), or use sudo",
            ),
            (ErrorKind::NotFound, "is muster-controller running?"),
            (ErrorKind::ConnectionRefused, "is muster-controller running?"),
        ] {
            let failure = no_way(Path::new("/run/muster/api.sock"), &kind.into());
            assert_eq!(failure.exit, Exit::Unreachable);
            let line = &failure.lines[0];
            assert!(line.starts_with("cannot reach the controller at /run/muster/api.sock: "), "{line}");
            assert!(line.ends_with(wanted), "{line}");
        }
    }

    #[test]
    fn answers_become_exit_codes() {
        let place = r#"{"file":"t.yaml","line":3,"column":5,"path":"resources.x","message":"no"}"#;
        for (status, body, exit, line) in [
            (
                404,
                r#"{"error":{"class":"not_found","message":"no stack 'x'","errors":[]}}"#,
                Exit::Failed,
                "no stack 'x'",
            ),
            (409, r#"{"error":{"class":"conflict","message":"there","errors":[]}}"#, Exit::Failed, "there"),
            (400, r#"{"error":{"class":"invalid","message":"bad","errors":[]}}"#, Exit::Usage, "bad"),
            (
                503,
                r#"{"error":{"class":"unavailable","message":"disk full","errors":[]}}"#,
                Exit::Failed,
                "disk full",
            ),
            (
                400,
                &format!(r#"{{"error":{{"class":"invalid","message":"m","errors":[{place}]}}}}"#),
                Exit::Usage,
                "t.yaml:3:5: resources.x: no",
            ),
            (
                502,
                "<html>",
                Exit::Failed,
                "the controller answered 502 Bad Gateway; is something else listening there?",
            ),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let failure = answer(status, body.as_bytes()).unwrap_err();
            assert_eq!((failure.exit, failure.lines), (exit, vec![line.to_owned()]), "{body}");
        }
        assert_eq!(answer(StatusCode::NO_CONTENT, b"").unwrap(), Value::Null);
        assert_eq!(answer(StatusCode::OK, b"{").unwrap_err().exit, Exit::Failed);
    }
}
