//! Network documents that a program on this server (`os-net-config`) hands to the agent that runs here, and the
//! question of `muster-agent doctor` how the agent stands with its controller.
//!
//! One request and one answer over `<state-dir>/local.sock`, each a length and JSON. Only the agent's own user
//! and root can use the socket.
//!
//! Absent: whether a document is taken (`agent/core/src/jobs/local_document.rs`), and whether it is kept
//! (`agent/core/src/jobs/confirm.rs`).

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::link_state::{LinkState, SharedLinkState};
use crate::state_dir::{StateDir, StateError};

/// The socket's name in the state directory.
const SOCKET: &str = "local.sock";
/// A document from the controller has to fit a message of this size as well.
pub const DOCUMENT_MAX: usize = 256 * 1024;
/// The size of a message, including the mapping, with every character escaped.
const MESSAGE_MAX: u32 = 1024 * 1024;
/// The most clients at one time: the machine refuses more than one document, and each client may hold
/// a message.
const CLIENTS_MAX: usize = 4;
/// A client sends its request at once.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// The agent answers a question at once, unless its thread is busy.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// An agent that has just been started listens a moment later: tries, so far apart.
const TRIES: u32 = 50;
const AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The document, as JSON text.
    pub document: String,
    /// Alias → name or MAC address.
    pub mapping: BTreeMap<String, String>,
    /// Seconds until the change is undone if it is not confirmed; the agent's setting if absent.
    pub confirm_timeout: Option<u32>,
}

/// A message of a client. A document is alone in its message, as older agents expect it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Message {
    Document(Request),
    Question { ask: Question },
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Question {
    LinkState,
}

/// The fate of the document.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The document is in force.
    Kept {
        /// The state was changed.
        changed: bool,
    },
    Failed {
        reason: String,
        /// The former state is not restored, and no fallback is in force.
        not_back: bool,
    },
}

/// A request, and where its answer goes.
pub struct PendingRequest {
    pub request: Request,
    /// Dropped without an answer: the agent ends.
    pub answer: oneshot::Sender<Answer>,
}

/// The agent's end. Dropping it ends the listening.
pub struct Listener {
    given: mpsc::Receiver<PendingRequest>,
    path: PathBuf,
    task: AbortHandle,
}

impl Listener {
    /// Within a local set.
    ///
    /// # Errors
    /// The path is too long for a socket, or the system refuses.
    pub fn open(state_dir: &Path, link_state: SharedLinkState) -> io::Result<Self> {
        let path = state_dir.join(SOCKET);
        // The process that left the socket is gone, since the directory is locked.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let (tell, given) = mpsc::channel(1);
        let task = tokio::task::spawn_local(listen(listener, tell, link_state)).abort_handle();
        Ok(Self { given, path, task })
    }

    pub async fn given(&mut self) -> PendingRequest {
        match self.given.recv().await {
            Some(given) => given,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
        // A remaining socket does no harm: nobody listens there.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn listen(listener: UnixListener, tell: mpsc::Sender<PendingRequest>, link_state: SharedLinkState) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (tell, link_state) = (tell.clone(), link_state.clone());
                tokio::task::spawn_local(async move {
                    if let Err(error) = serve(stream, tell, &link_state).await {
                        tracing::warn!(%error, "a request made on this server was not heard");
                    }
                    drop(place);
                });
            }
            // A temporary failure, such as a lack of descriptors.
            Err(_) => sleep(AGAIN).await,
        }
    }
}

async fn serve(
    mut stream: UnixStream,
    tell: mpsc::Sender<PendingRequest>,
    link_state: &SharedLinkState,
) -> io::Result<()> {
    let user = stream.peer_cred()?.uid();
    if user != 0 && user != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::other(format!("user {user} may not")));
    }
    let late = |_| io::Error::other("it was not said in time");
    let request = match timeout(REQUEST_WITHIN, receive(&mut stream)).await.map_err(late)?? {
        Message::Document(request) => request,
        Message::Question { ask: Question::LinkState } => return send(&mut stream, &link_state.get()).await,
    };
    let (answer, answered) = oneshot::channel();
    if tell.send(PendingRequest { request, answer }).await.is_ok()
        && let Ok(answer) = answered.await
    {
        // The client may be gone: its document is processed all the same.
        send(&mut stream, &answer).await?;
    }
    Ok(())
}

/// Nothing if no agent runs here.
///
/// # Errors
/// An agent runs here and does not take it, or has ended meanwhile.
pub async fn hand_over(state_dir: &Path, request: &Request) -> anyhow::Result<Option<Answer>> {
    if request.document.len() > DOCUMENT_MAX {
        bail!("the document has {} bytes, the agent takes at most {DOCUMENT_MAX}", request.document.len());
    }
    let Some(mut stream) = connect(state_dir).await? else { return Ok(None) };
    send(&mut stream, request).await.context("cannot hand the document to the agent")?;
    let answer = receive(&mut stream).await.context(
        "the agent ended before the change was confirmed: what was there before is restored, at the latest when it is \
         started",
    )?;
    Ok(Some(answer))
}

/// The state of the link between the agent that runs here and its controller.
///
/// # Errors
/// No agent listens here, or it does not answer.
pub async fn link_state(state_dir: &Path) -> io::Result<LinkState> {
    agent_link_state(state_dir).await.map(|(_, link_state)| link_state)
}

/// The process of the agent that runs here, and how it stands with its controller.
///
/// # Errors
/// No agent listens here, or it does not answer.
pub async fn agent_link_state(state_dir: &Path) -> io::Result<(i32, LinkState)> {
    let asked = async {
        let mut stream = UnixStream::connect(state_dir.join(SOCKET)).await?;
        let process = stream.peer_cred()?.pid().ok_or(io::ErrorKind::Unsupported)?;
        send(&mut stream, &Message::Question { ask: Question::LinkState }).await?;
        Ok((process, receive(&mut stream).await?))
    };
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer");
    timeout(ANSWER_WITHIN, asked).await.map_err(|_| late())?
}

async fn connect(state_dir: &Path) -> anyhow::Result<Option<UnixStream>> {
    let path = state_dir.join(SOCKET);
    for _ in 0..TRIES {
        match UnixStream::connect(&path).await {
            Ok(stream) => return Ok(Some(stream)),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {}
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
        if !state_dir.exists() {
            return Ok(None);
        }
        match StateDir::open(state_dir) {
            Ok(_) => return Ok(None),
            Err(StateError::Locked { .. }) => sleep(AGAIN).await,
            Err(error) => return Err(error.into()),
        }
    }
    bail!("{}: an agent runs here and does not listen: see its log", path.display())
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= MESSAGE_MAX);
    let length = length.ok_or_else(|| io::Error::other(format!("{} bytes are too many", bytes.len())))?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(&bytes).await
}

async fn receive<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<T> {
    let length = stream.read_u32().await?;
    if length > MESSAGE_MAX {
        return Err(io::Error::other(format!("{length} bytes are too many")));
    }
    let mut bytes = Vec::new();
    stream.take(length.into()).read_to_end(&mut bytes).await?;
    if bytes.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

#[cfg(test)]
mod tests {
    use tokio::task::LocalSet;

    use super::*;

    fn request() -> Request {
        let mapping = [("nic1".to_owned(), "eth0".to_owned())].into_iter().collect();
        Request { document: "[]".into(), mapping, confirm_timeout: Some(3) }
    }

    #[tokio::test]
    async fn a_document_goes_over_and_its_answer_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let run = async {
            assert_eq!(hand_over(dir.path(), &request()).await.unwrap(), None, "no agent runs here");
            let _state = StateDir::open(dir.path()).unwrap();
            let mut listener = Listener::open(dir.path(), SharedLinkState::default()).unwrap();
            let answer = Answer::Failed { reason: "no".into(), not_back: false };
            let mine = request();
            let (got, ()) = tokio::join!(hand_over(dir.path(), &mine), async {
                let given = listener.given().await;
                assert_eq!(given.request, request());
                given.answer.send(Answer::Failed { reason: "no".into(), not_back: false }).unwrap();
            });
            assert_eq!(got.unwrap(), Some(answer));
        };
        LocalSet::new().run_until(run).await;
    }

    #[tokio::test]
    async fn a_question_is_answered_beside_documents() {
        let dir = tempfile::tempdir().unwrap();
        let run = async {
            let absent = link_state(dir.path()).await.unwrap_err();
            assert_eq!(absent.kind(), io::ErrorKind::NotFound, "no agent runs here");
            let state = SharedLinkState::default();
            let _listener = Listener::open(dir.path(), state.clone()).unwrap();
            assert_eq!(link_state(dir.path()).await.unwrap(), LinkState::Connecting);
            state.connected("10.0.0.1", 7);
            let connected = LinkState::Connected { remote: "10.0.0.1".into(), since: 7, greeted: false };
            assert_eq!(link_state(dir.path()).await.unwrap(), connected);
        };
        LocalSet::new().run_until(run).await;
    }

    /// Agents of before read nothing else.
    #[test]
    fn a_document_is_alone_in_its_message() {
        let message = serde_json::to_value(Message::Document(request())).unwrap();
        assert_eq!(message, serde_json::to_value(request()).unwrap());
        let question = Message::Question { ask: Question::LinkState };
        assert_eq!(serde_json::to_string(&question).unwrap(), r#"{"ask":"link_state"}"#);
    }

    #[tokio::test]
    async fn an_agent_that_ends_in_between_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let run = async {
            let _state = StateDir::open(dir.path()).unwrap();
            let mut listener = Listener::open(dir.path(), SharedLinkState::default()).unwrap();
            let mine = request();
            let (got, ()) = tokio::join!(hand_over(dir.path(), &mine), async {
                drop(listener.given().await);
            });
            assert!(got.unwrap_err().to_string().contains("the agent ended"));
        };
        LocalSet::new().run_until(run).await;
    }

    #[tokio::test]
    async fn what_is_too_long_or_no_message_is_not_heard() {
        let dir = tempfile::tempdir().unwrap();
        let run = async {
            let mut listener = Listener::open(dir.path(), SharedLinkState::default()).unwrap();
            for bytes in [&u32::MAX.to_be_bytes()[..], b"\0\0\0\x02{]", b"\0\0\0\x09[]"] {
                let mut stream = UnixStream::connect(dir.path().join(SOCKET)).await.unwrap();
                stream.write_all(bytes).await.unwrap();
                stream.shutdown().await.unwrap();
                let mut rest = Vec::new();
                // Closed, or reset with what was not read.
                let _ = stream.read_to_end(&mut rest).await;
                assert!(rest.is_empty());
            }
            let long = Request { document: " ".repeat(DOCUMENT_MAX + 1), ..request() };
            assert!(hand_over(dir.path(), &long).await.unwrap_err().to_string().contains("at most"));
            tokio::select! {
                _ = listener.given() => panic!("nothing was given"),
                () = tokio::task::yield_now() => {}
            }
        };
        LocalSet::new().run_until(run).await;
    }
}
