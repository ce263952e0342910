//! The way to a controller: its socket on this machine, or TLS to another one with a user's token. Decides which URLs
//! there are, and which controller is trusted: one whose certificate is of the CA that the token names, or of the one that
//! the user names.
//!
//! Absent: where the URL and the token come from (`context.rs`).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use muster_shared::user_token::UserToken;
use muster_tls::{Root, Trust, client_config_with};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::ca::Ca;
use crate::failure::Failure;
use crate::identity::Identity;

/// The port of the API over the network, where the URL has none.
const PORT: u16 = 8443;
/// The time for a connection, with its handshake.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// A connection's sending end.
pub type Sender = SendRequest<Full<Bytes>>;

/// The connection to a controller.
#[derive(Clone)]
pub enum Way {
    /// This machine's.
    Socket(PathBuf),
    /// Another machine's.
    Tls(Remote),
}

/// A controller on another machine.
#[derive(Clone)]
pub struct Remote {
    host: String,
    port: u16,
    credentials: Credentials,
}

/// The credentials of both ends of a connection.
#[derive(Clone, Default)]
pub struct Credentials {
    pub token: Option<UserToken>,
    /// None: the site's, which the token names; without a token those of this machine.
    pub ca: Option<Ca>,
    pub identity: Option<Identity>,
}

impl Way {
    /// The way that a URL names.
    pub fn new(url: &str, credentials: Credentials) -> Result<Self, Failure> {
        match url.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Socket(PathBuf::from(path))),
            Some(("https", _)) => {
                let (host, port) = remote(url)?;
                if credentials.token.is_none() && credentials.identity.is_none() {
                    return Err(Failure::usage(format!(
                        "{url} needs a user's token: muster login {url}, or the token in MUSTER_TOKEN"
                    )));
                }
                Ok(Self::Tls(Remote { host, port, credentials }))
            }
            _ => Err(Failure::usage(format!(
                "--url '{url}': want unix:///PATH/OF/SOCKET or https://HOST:PORT"
            ))),
        }
    }

    /// The way that a URL names, for somebody who logs in.
    pub fn unknown(url: &str, ca: Option<Ca>) -> Result<Self, Failure> {
        let (host, port) = remote(url)?;
        Ok(Self::Tls(Remote { host, port, credentials: Credentials { ca, ..Credentials::default() } }))
    }

    /// The user's token, where one is needed.
    pub fn token(&self) -> Option<&UserToken> {
        match self {
            Self::Socket(_) => None,
            Self::Tls(remote) => remote.credentials.token.as_ref(),
        }
    }

    /// For messages.
    pub fn shown(&self) -> String {
        match self {
            Self::Socket(path) => path.display().to_string(),
            Self::Tls(Remote { host, port, .. }) => host_and_port(host, *port),
        }
    }

    /// A certificate that is not taken is refused in place of the first answer.
    pub fn hint_without_answer(&self) -> &'static str {
        match self {
            Self::Tls(remote) if remote.credentials.identity.is_some() => {
                "; is the certificate of --cert of the CA in controller.api_client_ca there, and not expired?"
            }
            Self::Socket(_) | Self::Tls(_) => "",
        }
    }

    pub async fn connect(&self) -> Result<Sender, Failure> {
        match self {
            Self::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| no_socket(path, &error))?;
                self.over(TokioIo::new(stream)).await
            }
            Self::Tls(remote) => {
                let config = remote.config()?;
                match timeout(CONNECT_TIME, remote.connect(config)).await {
                    Ok(Ok(stream)) => self.over(TokioIo::new(stream)).await,
                    Ok(Err(error)) => Err(Failure::unreachable(remote.no_way(&error))),
                    Err(_elapsed) => Err(Failure::unreachable(format!(
                        "cannot reach the controller at {}: no connection within {} s",
                        self.shown(),
                        CONNECT_TIME.as_secs()
                    ))),
                }
            }
        }
    }

    async fn over(&self, stream: impl Read + Write + Unpin + Send + 'static) -> Result<Sender, Failure> {
        let (sender, connection) = handshake(stream).await.map_err(|error| {
            Failure::unreachable(format!("cannot reach the controller at {}: {error}", self.shown()))
        })?;
        // The connection's errors also appear in its requests.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }
}

impl Remote {
    fn trust(&self) -> Result<Trust, Failure> {
        let Credentials { token, ca, .. } = &self.credentials;
        match (ca, token) {
            (Some(ca), _) => ca.trust(),
            (None, Some(token)) => Ok(Trust::Controller(Root::Fingerprint(token.ca_fingerprint))),
            (None, None) => Ca::System.trust(),
        }
    }

    fn config(&self) -> Result<ClientConfig, Failure> {
        let identity = self.credentials.identity.as_ref().map(Identity::read).transpose()?;
        client_config_with(self.trust()?, identity).map_err(|error| {
            Failure::usage(format!("--cert and --key cannot be used: {error}; is it the certificate's key?"))
        })
    }

    async fn connect(&self, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let name = ServerName::try_from(self.host.clone()).map_err(std::io::Error::other)?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    fn no_way(&self, error: &std::io::Error) -> String {
        let Self { host, port, credentials } = self;
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let hint = match (tls, &credentials.ca, &credentials.token) {
            (Some(rustls::Error::InvalidCertificate(_)), None, Some(_)) => {
                "; what answers there is not the controller that the token is for, or shows a certificate of another CA \
                 (controller.api_certificate): then 'muster login --ca FILE|system', or MUSTER_CA, names that CA"
                    .to_owned()
            }
            (Some(rustls::Error::InvalidCertificate(_)), ca, _) => {
                let ca = ca.as_ref().unwrap_or(&Ca::System);
                format!("; its certificate is to be for this host, and of a CA of '{ca}' (--ca, MUSTER_CA)")
            }
            (Some(_), ..) => String::new(),
            (None, ..) => "; is controller.api set there, and no firewall between?".to_owned(),
        };
        format!("cannot reach the controller at {}: {error}{hint}", host_and_port(host, *port))
    }
}

/// The name of a controller's context, made of its URL.
pub fn shown(url: &str) -> Result<String, Failure> {
    let (host, port) = remote(url)?;
    Ok(host_and_port(&host, port))
}

fn remote(url: &str) -> Result<(String, u16), Failure> {
    let found = url.strip_prefix("https://").and_then(address);
    found.ok_or_else(|| Failure::usage(format!("--url '{url}': want https://HOST or https://HOST:PORT")))
}

fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Host and port; a path is refused.
fn address(text: &str) -> Option<(String, u16)> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, PORT),
    };
    let host = host.strip_prefix('[').map_or(host, |host| host.strip_suffix(']').unwrap_or(host));
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '_');
    (!host.is_empty() && host.chars().all(fits)).then(|| (host.to_owned(), port))
}

/// The reason why there is no connection, and the remedy.
fn no_socket(socket: &Path, error: &std::io::Error) -> Failure {
    let socket = socket.display();
    Failure::unreachable(match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "cannot reach the controller at {socket}: you may not use its socket, which belongs to root and the group \
             'muster'; add yourself to that group ('usermod -aG muster YOU', then log in again), or use sudo"
        ),
        _ => format!("cannot reach the controller at {socket}: {error}; is muster-controller running?"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn urls() {
        let known = || {
            let token = UserToken { name: "anna".into(), ca_fingerprint: [0; 32], secret: [0; 32] };
            Credentials { token: Some(token), ..Credentials::default() }
        };
        for (url, shown) in [
            ("unix:///run/muster/api.sock", Ok("/run/muster/api.sock")),
            ("https://c1.example.org", Ok("c1.example.org:8443")),
            ("https://c1:9000/", Ok("c1:9000")),
            ("https://[2001:db8::1]:9000", Ok("[2001:db8::1]:9000")),
            ("https://[2001:db8::1]", Ok("[2001:db8::1]:8443")),
            ("https://192.0.2.1", Ok("192.0.2.1:8443")),
            ("https://c1/path", Err(Exit::Usage)),
            ("https://", Err(Exit::Usage)),
            ("https://c1:port", Err(Exit::Usage)),
            ("http://c1", Err(Exit::Usage)),
            ("unix://relative", Err(Exit::Usage)),
            ("/run/muster/api.sock", Err(Exit::Usage)),
            ("", Err(Exit::Usage)),
        ] {
            let way = Way::new(url, known()).map(|way| way.shown()).map_err(|failure| failure.exit);
            assert_eq!(way, shown.map(ToOwned::to_owned), "{url}");
        }
        let failure = Way::new("https://c1", Credentials::default()).err().unwrap();
        assert!(failure.lines[0].contains("muster login https://c1"), "{:?}", failure.lines);
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
            let failure = no_socket(Path::new("/run/muster/api.sock"), &kind.into());
            assert_eq!(failure.exit, Exit::Unreachable);
            let line = &failure.lines[0];
            assert!(line.starts_with("cannot reach the controller at /run/muster/api.sock: "), "{line}");
            assert!(line.ends_with(wanted), "{line}");
        }
    }
}
