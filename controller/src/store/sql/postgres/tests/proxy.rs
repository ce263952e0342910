//! A socket before a server's own that loses a commit, or the answer to one.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

/// The event at the next commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trick {
    /// The server has it, and its answer does not arrive.
    LoseAnswer,
    /// As [`Trick::LoseAnswer`], and no other connection is made until [`Proxy::comes_back`].
    GoAway,
    /// The server never sees it.
    LoseCommit,
    /// From now on no answer of the server arrives, and with that to the commit the connection is lost.
    LoseAnswers,
}

/// The proxy; its threads end with the connections.
pub(super) struct Proxy {
    folder: TempDir,
    trick: Arc<Mutex<Option<Trick>>>,
    is_away: Arc<AtomicBool>,
}

/// As a simple query ends.
const COMMIT: &[u8] = b"COMMIT\0";

impl Proxy {
    pub fn start(server: &Path) -> Self {
        let folder = TempDir::new().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let (server, trick, is_away) = (server.join(".s.PGSQL.5432"), Arc::default(), Arc::default());
        let proxy = Self { folder, trick: Arc::clone(&trick), is_away: Arc::clone(&is_away) };
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if !is_away.load(Ordering::SeqCst) {
                    serve(client, &server, &trick, &is_away);
                }
            }
        });
        proxy
    }

    pub fn url(&self, database: &str) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://muster@{folder}/{database}")
    }

    pub fn play(&self, trick: Trick) {
        *self.trick.lock().unwrap() = Some(trick);
    }

    pub fn comes_back(&self) {
        self.is_away.store(false, Ordering::SeqCst);
    }

    pub fn played(&self) -> bool {
        self.trick.lock().unwrap().is_none()
    }
}

fn serve(
    mut client: UnixStream,
    server: &PathBuf,
    trick: &Arc<Mutex<Option<Trick>>>,
    is_away: &Arc<AtomicBool>,
) {
    let mut server = UnixStream::connect(server).unwrap();
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let lost = Arc::new(Mutex::new(false));
    let (is_lost, answers) = (Arc::clone(&lost), Arc::clone(trick));
    thread::spawn(move || {
        let (mut bytes, mut held) = ([0; 8192], Vec::new());
        while let Ok(count @ 1..) = from_server.read(&mut bytes) {
            if *answers.lock().unwrap() == Some(Trick::LoseAnswers) {
                held.extend_from_slice(&bytes[..count]);
                if held.windows(COMMIT.len()).any(|window| window == COMMIT) {
                    *answers.lock().unwrap() = None;
                    break;
                }
                continue;
            }
            // What the server says after the commit is lost, and with it the connection.
            let mut is_lost = is_lost.lock().unwrap();
            if *is_lost || to_client.write_all(&bytes[..count]).is_err() {
                *is_lost = true;
                break;
            }
        }
        drop(to_client.shutdown(Shutdown::Both));
    });
    let (trick, is_away) = (Arc::clone(trick), Arc::clone(is_away));
    thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            let is_commit = bytes[..count].windows(COMMIT.len()).any(|window| window == COMMIT);
            let is_played = |trick: &mut Trick| is_commit && *trick != Trick::LoseAnswers;
            match trick.lock().unwrap().take_if(is_played) {
                Some(Trick::LoseCommit) => break,
                Some(Trick::LoseAnswer) => *lost.lock().unwrap() = true,
                Some(Trick::GoAway) => {
                    is_away.store(true, Ordering::SeqCst);
                    *lost.lock().unwrap() = true;
                }
                Some(Trick::LoseAnswers) | None => {}
            }
            if server.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        drop(server.shutdown(Shutdown::Both));
    });
}
