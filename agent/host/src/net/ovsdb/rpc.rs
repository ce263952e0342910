//! JSON-RPC 1.0 as RFC 7047 uses it: JSON values one after the other, nothing between them.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::{OvsdbError, Result};

/// An answer: 10,000 ports need about 4 MiB.
const MAX_MESSAGE: usize = 32 * 1024 * 1024;
/// The time limit of an answer: the database is local and answers at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Rpc {
    stream: UnixStream,
    received: Vec<u8>,
    scanner: Scanner,
    last_id: u64,
}

impl Rpc {
    pub async fn connect(socket: &Path) -> Result<Self> {
        let failed = |source| OvsdbError::Connect { path: socket.to_owned(), source };
        let connected = tokio::time::timeout(ANSWER_TIMEOUT, UnixStream::connect(socket)).await;
        let stream = connected.map_err(|_| timed_out())?.map_err(failed)?;
        Ok(Self { stream, received: Vec::new(), scanner: Scanner::default(), last_id: 0 })
    }

    /// Calls a method and waits for its result.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        tokio::time::timeout(ANSWER_TIMEOUT, self.call_unbounded(method, params))
            .await
            .map_err(|_| timed_out())?
    }

    async fn call_unbounded(&mut self, method: &str, params: Value) -> Result<Value> {
        let answer = self.answer(method, params).await?;
        let mut answer: Value = parsed(&answer)?;
        match answer["error"].take() {
            Value::Null => Ok(answer["result"].take()),
            error => Err(OvsdbError::Refused(error.to_string().chars().take(500).collect())),
        }
    }

    /// [`Rpc::call`] with a result that may be large: returns the whole answer, for the caller to take the
    /// needed parts.
    pub async fn call_for_much(&mut self, method: &str, params: Value) -> Result<Vec<u8>> {
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.answer(method, params)).await;
        answer.map_err(|_| timed_out())?
    }

    async fn answer(&mut self, method: &str, params: Value) -> Result<Vec<u8>> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"method": method, "params": params, "id": id})).await?;
        loop {
            let message = self.receive_any().await?;
            if parsed::<Head>(&message)?.id == id {
                return Ok(message);
            }
        }
    }

    /// Watches `cur_cfg` until it has reached `wanted`. The caller bounds the time.
    pub async fn wait_for_cur_cfg(&mut self, wanted: i64) -> Result<()> {
        let columns = json!({"Open_vSwitch": {"columns": ["cur_cfg"]}});
        let mut update = self.call("monitor", json!(["Open_vSwitch", "muster", columns])).await?;
        while !reached(&update, wanted) {
            let mut message = self.receive().await?;
            update = if message["method"] == "update" { message["params"][1].take() } else { Value::Null };
        }
        self.call("monitor_cancel", json!(["muster"])).await.map(drop)
    }

    async fn send(&mut self, message: &Value) -> Result<()> {
        self.stream.write_all(message.to_string().as_bytes()).await.map_err(OvsdbError::Lost)
    }

    /// The next message that is not a keepalive.
    pub async fn receive(&mut self) -> Result<Value> {
        parsed(&self.receive_any().await?)
    }

    async fn receive_any(&mut self) -> Result<Vec<u8>> {
        loop {
            let message = self.next_message().await?;
            if parsed::<Head>(&message)?.method.as_deref() != Some("echo") {
                return Ok(message);
            }
            let echo: Value = parsed(&message)?;
            let answer = json!({"result": echo["params"], "error": null, "id": echo["id"]});
            self.send(&answer).await?;
        }
    }

    async fn next_message(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some(end) = self.scanner.end_of_message(&self.received) {
                let rest = self.received.split_off(end);
                return Ok(std::mem::replace(&mut self.received, rest));
            }
            if self.received.len() > MAX_MESSAGE {
                return Err(OvsdbError::Answer(format!("more than {MAX_MESSAGE} bytes")));
            }
            let read = self.stream.read_buf(&mut self.received).await.map_err(OvsdbError::Lost)?;
            if read == 0 {
                return Err(OvsdbError::Lost(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

/// The purpose of a message.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    id: Value,
    method: Option<String>,
}

fn parsed<T: DeserializeOwned>(message: &[u8]) -> Result<T> {
    serde_json::from_slice(message).map_err(|error| OvsdbError::Answer(error.to_string()))
}

fn timed_out() -> OvsdbError {
    OvsdbError::Timeout(ANSWER_TIMEOUT.as_secs())
}

fn reached(update: &Value, wanted: i64) -> bool {
    let rows = update["Open_vSwitch"].as_object();
    rows.into_iter().flat_map(|rows| rows.values()).any(|row| row["new"]["cur_cfg"].as_i64() >= Some(wanted))
}

/// Finds where a JSON object ends, looking at each byte once.
#[derive(Default)]
pub(super) struct Scanner {
    seen: usize,
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Scanner {
    /// The length of the first whole object in `bytes`. Between calls, `bytes` may only grow until there
    /// is one.
    pub fn end_of_message(&mut self, bytes: &[u8]) -> Option<usize> {
        for (index, byte) in bytes.iter().enumerate().skip(self.seen) {
            self.seen = index + 1;
            match (self.in_text, self.escaped, byte) {
                (true, true, _) => self.escaped = false,
                (true, false, b'\\') => self.escaped = true,
                (_, _, b'"') => self.in_text = !self.in_text,
                (false, _, b'{' | b'[') => self.depth += 1,
                (false, _, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
                _ => continue,
            }
            if self.depth == 0 && matches!(byte, b'}' | b']') && !self.in_text {
                *self = Self::default();
                return Some(index + 1);
            }
        }
        None
    }
}
