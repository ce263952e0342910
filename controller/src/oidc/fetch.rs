//! Requests to the provider: HTTPS, one connection each, no redirects. Decides how long a request may take, and how
//! large an answer may be.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::body::{Body, to_bytes};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::client::conn::http1::handshake;
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The time for a request, from the connection to the last byte of the answer. Somebody waits for it.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// The most bytes of an answer: descriptions, keys and tokens are a few KiB.
const ANSWER_MAX: usize = 256 * 1024;
const PORT: u16 = 443;

/// The reason why there is no answer.
#[derive(Debug, Error)]
pub enum FetchError {
    #[error("{0} is no https:// address")]
    Address(String),
    #[error("{host}: {source}")]
    Connect {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("{host} broke off")]
    Http {
        host: String,
        #[source]
        source: hyper::Error,
    },
    #[error("the answer of {0} is larger than {ANSWER_MAX} bytes, or broke off")]
    Body(String),
    #[error("{host} did not answer within {} s", ANSWER_TIME.as_secs())]
    Time { host: String },
}

/// Asks servers whose certificate is of these CAs.
#[derive(Clone)]
pub struct Fetch {
    tls: Arc<ClientConfig>,
}

impl Fetch {
    /// Trusts the CAs in this file; without one, those of this machine.
    pub fn new(ca: Option<&Path>) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        match ca {
            Some(path) => {
                let wrong =
                    || format!("oidc.ca {}: want a file of PEM with the CA's certificate", path.display());
                for certificate in CertificateDer::pem_file_iter(path).with_context(wrong)? {
                    roots.add(certificate.with_context(wrong)?).with_context(wrong)?;
                }
                anyhow::ensure!(!roots.is_empty(), "{}: there is none in it", wrong());
            }
            None => {
                let (found, _) =
                    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                anyhow::ensure!(
                    found > 0,
                    "this machine has no CAs (Debian's package ca-certificates): name the provider's with oidc.ca"
                );
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: Arc::new(config) })
    }

    /// Sends a request and reads its answer.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, FetchError> {
        let (host, port) = address(&request)?;
        let shown = host.clone();
        match timeout(ANSWER_TIME, self.ask(host, port, request)).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(FetchError::Time { host: shown }),
        }
    }

    async fn ask(&self, host: String, port: u16, request: HttpRequest) -> Result<HttpResponse, FetchError> {
        let broken = |source| FetchError::Connect { host: host.clone(), source };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, port)).await.map_err(broken)?;
        let name = ServerName::try_from(bare.to_owned()).map_err(|error| broken(io::Error::other(error)))?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await.map_err(broken)?;
        let named = host.clone();
        let http = move |source| FetchError::Http { host: named.clone(), source };
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(&http)?;
        let request = of_origin(request, &host, port);
        // The connection ends with its sender, which goes with the request.
        let asked = async move {
            let (head, body) = sender.send_request(request).await.map_err(&http)?.into_parts();
            let body = to_bytes(Body::new(body), ANSWER_MAX).await;
            let body = body.map_err(|_| FetchError::Body(host.clone()))?;
            Ok(HttpResponse::from_parts(head, body.to_vec()))
        };
        // What breaks the connection breaks the request as well.
        tokio::join!(asked, connection).0
    }
}

impl AsyncHttpClient<'_> for Fetch {
    type Error = FetchError;
    type Future = BoxFuture<'static, Result<HttpResponse, FetchError>>;

    fn call(&self, request: HttpRequest) -> Self::Future {
        let fetch = self.clone();
        async move { fetch.send(request).await }.boxed()
    }
}

fn address(request: &HttpRequest) -> Result<(String, u16), FetchError> {
    let uri = request.uri();
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(host)) => Ok((host.to_owned(), uri.port_u16().unwrap_or(PORT))),
        _ => Err(FetchError::Address(uri.to_string())),
    }
}

/// With the path alone, as a server wants it.
fn of_origin(request: HttpRequest, host: &str, port: u16) -> hyper::Request<Body> {
    let (mut head, body) = request.into_parts();
    let named = if port == PORT { host.to_owned() } else { format!("{host}:{port}") };
    if let Ok(value) = HeaderValue::from_str(&named) {
        head.headers.insert(HOST, value);
    }
    if let Some(path) = head.uri.path_and_query().cloned() {
        head.uri = path.into();
    }
    hyper::Request::from_parts(head, Body::from(body))
}
