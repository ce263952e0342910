//! Ways to a server that can be cut, as a network is: what is sent meanwhile arrives when they are mended.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use socket2::Socket;
use tempfile::TempDir;

/// The name of a server's socket at PostgreSQL's usual port.
const SOCKET: &str = ".s.PGSQL.5432";
/// Between two looks whether the way is cut.
const LOOK: Duration = Duration::from_millis(20);

/// A way to a PostgreSQL server. Its threads end with the connections; those that are cut off for good, with the test.
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
                let server = server.clone();
                serve(client.into(), move || UnixStream::connect(server), Arc::clone(&at));
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

/// A way to a server of this machine that listens at a port. It has a port of its own.
pub struct PortWay {
    pub port: u16,
    server: Arc<OnceLock<String>>,
    gate: Arc<Gate>,
}

impl PortWay {
    /// To a server that is not known yet.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (gate, server): (Arc<Gate>, Arc<OnceLock<String>>) = Default::default();
        let (at, to) = (Arc::clone(&gate), Arc::clone(&server));
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let to = Arc::clone(&to);
                serve(client.into(), move || TcpStream::connect(to.wait()), Arc::clone(&at));
            }
        });
        Self { port, server, gate }
    }

    /// The server listens at this address: `host:port`.
    pub fn leads_to(&self, server: &str) {
        self.server.set(server.to_owned()).expect("a way leads to one server");
    }

    /// Nothing passes any more.
    pub fn cut(&self) {
        self.gate.set(true);
    }

    pub fn mend(&self) {
        self.gate.set(false);
    }
}

fn serve<S: Into<Socket>>(
    client: Socket,
    connect: impl FnOnce() -> io::Result<S> + Send + 'static,
    gate: Arc<Gate>,
) {
    thread::spawn(move || {
        gate.pass();
        let Ok(server) = connect().map(Into::into) else { return };
        let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let back = Arc::clone(&gate);
        thread::spawn(move || carry(from, to, &back));
        carry(client, server, &gate);
    });
}

/// Carries bytes in one direction until the end of it.
fn carry(mut from: Socket, mut to: Socket, gate: &Gate) {
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
