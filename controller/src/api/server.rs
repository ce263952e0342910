//! The server for operators: the socket of a process, with the access to it, and addresses of the network, one for each
//! door of a site. At the socket, and at the addresses of the first site, a header says for which site a request is, and
//! without one it is for the first. Another site's addresses are for it alone.
//!
//! Absent: the routes (`mod.rs`, `heat.rs`), the bounds of connections (`accept.rs`, `tls.rs`) and of a body (`source.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use axum::extract::Request;
use axum::http::HeaderName;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Router};
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::accept::{Listener, STOP_TIME, accept};
use super::authorization::Peer;
use super::door::{self, Door};
use super::error::ApiError;
use super::tls::{self, Remote};
use super::{Api, ApiConfig, authorization, heat, plain, router};
use crate::driver::DriverHandle;
use crate::pki::Pki;
use crate::site_name::SiteName;
use crate::store::Reader;

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
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {0} for the API: another program may listen there, or the address is not this machine's"
    )]
    Address(SocketAddr, #[source] io::Error),
    /// The path is not a socket, so it must not be replaced.
    #[error("{0} is there and is no socket: remove it, or give another --api-socket")]
    NotASocket(PathBuf),
    /// An error of the system.
    #[error("cannot make the API's socket {path}")]
    Io { path: PathBuf, source: io::Error },
}

/// The header that names the site of a request.
const SITE: HeaderName = HeaderName::from_static("muster-site");

/// The socket of a process. It is there from the first site that answers until [`Socket::close`].
#[derive(Clone)]
pub struct Socket(Arc<Shared>);

struct Shared {
    path: PathBuf,
    /// The names of the process's sites.
    names: Vec<SiteName>,
    /// The runtime that serves connections: it outlives the sites' own.
    runtime: Handle,
    open: Mutex<Open>,
    /// Told when connections are accepted no more.
    ended: Arc<Notify>,
}

#[derive(Default)]
struct Open {
    /// The routers of sites that answer now.
    routers: BTreeMap<SiteName, Router>,
    listening: Option<Listening>,
    /// Over the network, by the site and what is behind each address.
    remote: BTreeMap<(SiteName, Door), Listening>,
}

/// The site that an address of the network is of.
#[derive(Clone)]
struct AddressOf(SiteName);

struct Listening {
    /// Everything ends when this is dropped.
    running: watch::Sender<()>,
    task: JoinHandle<()>,
}

/// A site that answers. It answers no more when this is dropped.
pub struct ApiHandle {
    socket: Socket,
    site: SiteName,
    /// Requests under way hold a receiver each.
    running: watch::Sender<()>,
}

/// Answers requests to a site that this controller is active for.
///
/// # Errors
/// [`SocketError`]
pub fn serve(
    socket: &Socket,
    config: ApiConfig,
    driver: DriverHandle,
    reader: Reader,
    pki: Arc<Pki>,
) -> Result<ApiHandle, SocketError> {
    let site = config.site.clone();
    socket.serve(site.clone(), |stopped| {
        let settings = heat::Settings::of(&config);
        let api = router(Api::new(config, driver, reader, pki, stopped.clone()));
        let heat = heat::router(api.clone(), settings);
        door::behind(super::console::with(api.clone(), &site, stopped), door::onos(api), heat)
    })
}

impl Socket {
    /// For a process with these sites. Connections are served on `runtime`.
    pub fn new(path: PathBuf, names: Vec<SiteName>, runtime: Handle) -> Self {
        Self(Arc::new(Shared { path, names, runtime, open: Mutex::default(), ended: Arc::default() }))
    }

    /// Serves a site by a router, made with what changes when the site ends.
    pub(super) fn serve(
        &self,
        site: SiteName,
        router: impl FnOnce(watch::Receiver<()>) -> Router,
    ) -> Result<ApiHandle, SocketError> {
        let (running, stopped) = watch::channel(());
        let router = router(stopped.clone()).layer(Extension(Ending(stopped)));
        let mut open = self.lock();
        if open.listening.is_none() {
            open.listening = Some(self.listen()?);
        }
        open.routers.insert(site.clone(), router);
        Ok(ApiHandle { socket: self.clone(), site, running })
    }

    fn listen(&self) -> Result<Listening, SocketError> {
        let _entered = self.0.runtime.enter();
        let listener = bind(&self.0.path)?;
        let (running, stopped) = watch::channel(());
        let (path, socket, ending) =
            (self.0.path.clone(), Arc::downgrade(&self.0), EndOfSocket(Some(Arc::clone(&self.0.ended))));
        let router = Self::router(socket);
        let task = self.0.runtime.spawn(async move {
            let _ending = ending;
            accept(listener, router, stopped).await;
            // A socket that stays is replaced by the next start.
            drop(fs::remove_file(&path));
        });
        Ok(Listening { running, task })
    }

    /// Finds the site of each request.
    fn router(socket: Weak<Shared>) -> Router {
        Router::new().fallback(async move |request: Request| match socket.upgrade() {
            Some(shared) => Socket(shared).answer(request).await,
            None => Door::of(&request).refuse(ApiError::unavailable("the controller is stopping")),
        })
    }

    /// Answers at this address as well, as soon as it can be had: over TLS, unless the door is plain there. Nothing, if this
    /// door of the site has one already.
    pub fn listen_at(&self, site: SiteName, door: Door, address: SocketAddr, acceptor: TlsAcceptor) {
        let mut open = self.lock();
        let key = (site.clone(), door);
        if open.remote.contains_key(&key) {
            return;
        }
        let (running, mut stopped) = watch::channel(());
        let router =
            Self::router(Arc::downgrade(&self.0)).layer(Extension(door)).layer(Extension(AddressOf(site)));
        let ending = EndOfSocket(Some(Arc::clone(&self.0.ended)));
        let task = self.0.runtime.spawn(async move {
            let listener = tokio::select! {
                listener = tls::bind(door, address) => listener,
                _ended = stopped.changed() => return ending.end_in_order(),
            };
            if door.is_plain_at(address) {
                let router = router.layer(Extension(heat::Scheme::Http));
                accept(plain::OnThisMachine(listener), router, stopped).await;
            } else {
                let router = router.layer(Extension(heat::Scheme::Https));
                accept(Remote::new(listener, acceptor), router, stopped).await;
            }
            ending.end_in_order();
        });
        open.remote.insert(key, Listening { running, task });
    }

    async fn answer(&self, request: Request) -> Response {
        let door = Door::of(&request);
        let of = request.extensions().get::<AddressOf>().map_or_else(SiteName::default, |it| it.0.clone());
        let name = match request.headers().get(SITE).map(|name| name.to_str().unwrap_or_default().parse()) {
            None => of.clone(),
            Some(Ok(name)) => name,
            Some(Err(why)) => return door.refuse(ApiError::invalid(why)),
        };
        let is_remote = matches!(request.extensions().get::<Peer>(), Some(Peer::Remote(..)));
        if of != SiteName::default() && of != name {
            return door.refuse(ApiError::not_found(
                "this address is for one site alone: leave out the site's name",
            ));
        }
        let router = self.lock().routers.get(&name).cloned();
        match router {
            Some(router) => router.oneshot(request).await.into_response(),
            // It is nobody's business over the network which sites there are.
            None if is_remote => door.refuse(ApiError::later("that site is not served here at present")),
            None => door.refuse(self.absent(&name)),
        }
    }

    fn absent(&self, name: &SiteName) -> ApiError {
        if self.0.names.contains(name) {
            return ApiError::later(format!("site {name} starts, or changes its controller"));
        }
        let names: Vec<String> = self.0.names.iter().map(ToString::to_string).collect();
        ApiError::not_found(format!(
            "there is no site '{name}' here: this controller has {}",
            names.join(", ")
        ))
    }

    /// Waits until connections are accepted no more; before [`Socket::close`] only a bug causes that.
    pub async fn ended(&self) {
        self.0.ended.notified().await;
    }

    /// Accepts no more requests, gives those under way a moment, and removes the socket.
    pub async fn close(&self) {
        let listening = {
            let mut open = self.lock();
            let remote = std::mem::take(&mut open.remote).into_values();
            remote.chain(open.listening.take()).collect::<Vec<_>>()
        };
        close(listening).await;
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts no more, and gives requests under way a moment.
async fn close(listening: Vec<Listening>) {
    let (running, tasks): (Vec<_>, Vec<_>) = listening.into_iter().map(|it| (it.running, it.task)).unzip();
    drop(running);
    for task in tasks {
        // The task fails only if it panicked.
        drop(task.await);
    }
}

/// Held by the task that accepts connections: it may end by a panic.
struct EndOfSocket(Option<Arc<Notify>>);

impl EndOfSocket {
    /// The task ends because it was told to.
    fn end_in_order(mut self) {
        self.0 = None;
    }
}

impl Drop for EndOfSocket {
    fn drop(&mut self) {
        if let Some(ended) = &self.0 {
            ended.notify_one();
        }
    }
}

impl ApiHandle {
    /// Takes no more requests for the site, and gives those under way a moment.
    pub async fn stop(self) {
        let listening = self.forget();
        self.running.send_replace(());
        let requests = tokio::time::timeout(STOP_TIME, self.running.closed());
        drop(tokio::join!(requests, close(listening)));
    }

    /// Takes the site's addresses, too, for only the active controller listens there.
    fn forget(&self) -> Vec<Listening> {
        let mut open = self.socket.lock();
        open.routers.remove(&self.site);
        open.remote
            .extract_if(.., |(site, _), _| *site == self.site)
            .map(|(_, listening)| listening)
            .collect()
    }
}

impl Drop for ApiHandle {
    fn drop(&mut self) {
        drop(self.forget());
    }
}

/// Held by a site's router, and so by each of its requests.
#[derive(Clone)]
struct Ending(#[expect(dead_code, reason = "its end is what counts")] watch::Receiver<()>);

impl Listener for UnixListener {
    type Raw = tokio::net::UnixStream;
    type Stream = tokio::net::UnixStream;

    async fn accept(&self) -> io::Result<Self::Raw> {
        Ok(UnixListener::accept(self).await?.0)
    }

    async fn prepare(&self, stream: Self::Raw) -> Option<(Self::Stream, Peer)> {
        let peer = authorization::of_socket(&stream).await;
        Some((stream, peer))
    }
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
