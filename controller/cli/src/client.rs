//! The HTTP API: one connection, requests one after another.
//!
//! A controller that is busy, or waits for its database, refuses with `Retry-After`: then nothing was done. Requests
//! are sent again after that time, for up to [`BUSY_MAX`], and a line says so.
//!
//! Absent: how long `--wait` waits (`wait.rs`), and the way to the controller (`controller_connection.rs`).

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode, body::Incoming};
use muster_api::error::{Class, Refusal, Refused};
use muster_shared::SiteId;
use muster_template::Errors;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::controller_connection::{Sender, Way};
use crate::failure::{Exit, Failure};
use crate::progress::note;

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

/// The header that names the trace of a request, and the variable with its value, as CI systems set it.
const TRACEPARENT: (&str, &str) = ("traceparent", "TRACEPARENT");

/// Every character but RFC 3986's unreserved ones.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A connection to one controller.
pub struct Client {
    way: Way,
    /// None: the default one.
    site: Option<SiteId>,
    /// When to ask a busy controller no more, by `--timeout`.
    end: Option<Instant>,
    connection: Option<Sender>,
}

/// As it came.
struct Answered {
    status: StatusCode,
    body: Bytes,
    retry_after: Option<Duration>,
}

/// The trace that this command is part of. A value that no header can have is another program's business.
fn trace() -> Option<HeaderValue> {
    HeaderValue::from_str(&std::env::var(TRACEPARENT.1).ok()?).ok()
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
    /// A client on this way; connects with the first request.
    pub fn over(way: Way) -> Self {
        Self { way, site: None, end: None, connection: None }
    }

    /// The same for this site of those at the controller.
    pub fn at_site(&self, site: SiteId) -> Self {
        Self { way: self.way.clone(), site: Some(site), end: self.end, connection: None }
    }

    /// A busy controller is asked no longer than `--timeout` says.
    pub fn wait_at_most(&mut self, seconds: Option<u64>) {
        self.end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    }

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

    /// GET of a text, once.
    pub async fn get_text(&mut self, path: &str) -> Result<String, Failure> {
        let Answered { status, body, retry_after } =
            self.exchange(Method::GET, path, JSON, Bytes::new()).await?;
        if status.is_success() {
            return Ok(String::from_utf8_lossy(&body).into_owned());
        }
        Err(answer(status, &body).map_or_else(
            |failure| Failure { retry_after, ..failure },
            |_| Failure::failed(format!("the controller answered {status}")),
        ))
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
        let Answered { status, body, retry_after } = self.exchange(method, path, kind, body).await?;
        answer(status, &body).map_err(|failure| Failure { retry_after, ..failure })
    }

    async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        kind: &'static str,
        body: Bytes,
    ) -> Result<Answered, Failure> {
        let changes = method != Method::GET;
        let mut request =
            Request::builder().method(method).uri(path).header(HOST, "muster").header(CONTENT_TYPE, kind);
        if let Some(site) = &self.site {
            request = request.header(SITE, site.as_str());
        }
        if let Some(trace) = trace() {
            request = request.header(TRACEPARENT.0, trace);
        }
        if let Some(token) = self.way.token() {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| Failure::usage(format!("cannot ask for '{path}': {error}")))?;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.way.connect().await?,
        };
        let lost = |error: &dyn std::fmt::Display| {
            let hint = if changes { "; it may have taken the request: look before trying again" } else { "" };
            let known = self.way.hint_without_answer();
            Failure::unreachable(format!(
                "the controller at {} did not answer: {error}{known}{hint}",
                self.way.shown()
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
        Ok(Answered { status, body, retry_after })
    }
}

fn bytes(body: Option<&Value>) -> Bytes {
    body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()))
}

/// In seconds: a controller of Muster gives no date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
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
