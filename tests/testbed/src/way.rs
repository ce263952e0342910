//! A way to a PostgreSQL server that can be cut, as a network is: what is sent meanwhile arrives when it is mended.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// The name of a server's socket at PostgreSQL's usual port.
const SOCKET: &str = ".s.PGSQL.5432";
/// Between two looks whether the way is cut.
const LOOK: Duration = Duration::from_millis(20);

/// The way. Its threads end with the connections; those that are cut off for good, with the test.
pub struct Way {
    folder: TempDir,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_cut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    /// Waits while the way is cut.
    fn pass(&self) {
        let is_cut = self.is_cut.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(is_cut, |is_cut| *is_cut));
    }

    fn set(&self, is_cut: bool) {
        *self.is_cut.lock().unwrap_or_else(PoisonError::into_inner) = is_cut;
        self.changed.notify_all();
    }
}

impl Way {
    /// To the server whose socket is in this directory.
    pub fn to(server: &Path) -> Self {
        let folder = TempDir::new().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let gate: Arc<Gate> = Arc::default();
        let (server, at) = (server.join(SOCKET), Arc::clone(&gate));
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                serve(client, server.clone(), Arc::clone(&at));
            }
        });
        Self { folder, gate }
    }

    /// The directory of its socket.
    pub fn socket_dir(&self) -> &Path {
        self.folder.path()
    }

    /// Nothing passes any more.
    pub fn cut(&self) {
        self.gate.set(true);
    }

    pub fn mend(&self) {
        self.gate.set(false);
    }
}

fn serve(client: UnixStream, server: PathBuf, gate: Arc<Gate>) {
    thread::spawn(move || {
        gate.pass();
        let Ok(server) = UnixStream::connect(server) else { return };
        let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let back = Arc::clone(&gate);
        thread::spawn(move || carry(from, to, &back));
        carry(client, server, &gate);
    });
}

/// Carries bytes in one direction until the end of it.
fn carry(mut from: UnixStream, mut to: UnixStream, gate: &Gate) {
    from.set_read_timeout(Some(LOOK)).unwrap();
    let mut bytes = [0; 16 * 1024];
    loop {
        match from.read(&mut bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => gate.pass(),
            Ok(count @ 1..) => {
                gate.pass();
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            Ok(0) | Err(_) => break,
        }
    }
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}
