//! The socket: access to it, the number of connections, and their time limits.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::{Api, ApiConfig, router};
use crate::driver::DriverHandle;
use crate::pki::Pki;
use crate::store::Reader;

/// The most connections at a time: every operator and watch has one; further ones wait in the
/// socket's backlog.
const CONNECTIONS_MAX: usize = 512;
/// The time limit for a request's head, and for an idle connection.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// The time for requests under way when the controller stops.
const STOP_TIME: Duration = Duration::from_secs(1);
/// The pause after the system refused a connection, mostly for want of open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The mode: owner and group read and write.
const MODE: u32 = 0o660;
/// The group that may use the socket, in addition to root.
const GROUP: &str = "muster";

/// The reason why the socket cannot be opened.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Another process listens on the socket.
    #[error("another controller listens on {0}: stop it, or give this one another --api-socket")]
    InUse(PathBuf),
    /// The path is not a socket, so it must not be replaced.
    #[error("{0} is there and is no socket: remove it, or give another --api-socket")]
    NotASocket(PathBuf),
    /// An error of the system.
    #[error("cannot make the API's socket {path}")]
    Io { path: PathBuf, source: io::Error },
}

pub struct ApiHandle {
    /// Everything ends when this is dropped.
    running: watch::Sender<()>,
    task: JoinHandle<()>,
}

/// Opens the socket and answers requests from then on.
///
/// # Errors
/// [`SocketError`]
pub fn serve(
    config: ApiConfig,
    driver: DriverHandle,
    reader: Reader,
    pki: Arc<Pki>,
) -> Result<ApiHandle, SocketError> {
    let path = config.socket.clone();
    serve_router(path, |stopped| router(Api::new(config, driver, reader, pki, stopped)))
}

/// Serves a router, made with what changes when the server stops.
pub(super) fn serve_router(
    path: PathBuf,
    router: impl FnOnce(watch::Receiver<()>) -> Router,
) -> Result<ApiHandle, SocketError> {
    let listener = bind(&path)?;
    let (running, stopped) = watch::channel(());
    let router = router(stopped.clone());
    let task = tokio::spawn(async move {
        accept(&listener, router, stopped).await;
        // A socket that stays is replaced by the next start.
        drop(fs::remove_file(&path));
    });
    Ok(ApiHandle { running, task })
}

impl ApiHandle {
    /// Waits until the server has ended without an order, which only a bug causes.
    pub async fn ended(&mut self) {
        // However it ended.
        drop((&mut self.task).await);
    }

    /// Accepts no more requests, gives those under way a moment, and removes the socket.
    pub async fn stop(self) {
        drop(self.running);
        // The task fails only if it panicked.
        drop(self.task.await);
    }
}

async fn accept(listener: &UnixListener, router: Router, mut stopped: watch::Receiver<()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place.expect("the semaphore is never closed"), listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            _ended = stopped.changed() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the API");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the API broke off");
            }
            drop(place);
        });
    }
    drop(tokio::time::timeout(STOP_TIME, graceful.shutdown()).await);
}

/// Makes the socket under another name, sets its mode, and moves it into place: the socket never has a wrong
/// mode, and a stale one is replaced at once.
fn bind(path: &Path) -> Result<UnixListener, SocketError> {
    let io = |source| SocketError::Io { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => return Err(SocketError::NotASocket(path.to_owned())),
        Ok(_) if UnixStream::connect(path).is_ok() => return Err(SocketError::InUse(path.to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(io(error)),
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(io)?;
    }
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}", std::process::id()));
    let fresh = PathBuf::from(fresh);
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&fresh).map_err(io)?;
    let placed = fs::set_permissions(&fresh, fs::Permissions::from_mode(MODE)).and_then(|()| {
        give_to_group(&fresh);
        fs::rename(&fresh, path)
    });
    match placed {
        Ok(()) => Ok(listener),
        Err(error) => {
            drop(fs::remove_file(&fresh));
            Err(io(error))
        }
    }
}

/// Without such a group, only root can use the socket.
fn give_to_group(path: &Path) {
    let Ok(Some(group)) = nix::unistd::Group::from_name(GROUP) else { return };
    if let Err(error) = chown(path, None, Some(group.gid.as_raw())) {
        tracing::warn!(%error, "cannot give the API's socket to the group {GROUP}: only this user can use it");
    }
}
