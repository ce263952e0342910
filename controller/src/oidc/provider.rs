//! The addresses and keys of a provider, as it publishes them. Decides when they are asked for again: after an hour,
//! and for a key that is not known, though not more than once a minute.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use openidconnect::core::{
    CoreAuthDisplay, CoreClaimName, CoreClaimType, CoreClient, CoreClientAuthMethod, CoreGrantType,
    CoreIdToken, CoreIdTokenVerifier, CoreJsonWebKey, CoreJsonWebKeySet, CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm, CoreJwsSigningAlgorithm, CoreResponseMode, CoreResponseType,
    CoreSubjectIdentifierType,
};
use openidconnect::{
    AdditionalProviderMetadata, AuthType, ClaimsVerificationError, ClientId, ClientSecret,
    DeviceAuthorizationUrl, DiscoveryError, EndpointMaybeSet, EndpointNotSet, EndpointSet, IssuerUrl, Nonce,
    ProviderMetadata,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::fetch::Fetch;
use super::{OidcError, short};

/// The age at which a provider's description is asked for again.
const FRESH: Duration = Duration::from_secs(3600);
/// The least time between two questions for keys: anybody can send a token with a key that does not exist.
const RENEW_PAUSE: Duration = Duration::from_secs(60);
/// A provider that did not answer is not asked again for this time: whoever logs in meanwhile hears it at once.
const AWAY_PAUSE: Duration = Duration::from_secs(5);
/// Signatures with a provider's own key; none with a secret that the client has as well.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// The address for logins on another machine, which not every provider has.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Devices {
    device_authorization_endpoint: Option<DeviceAuthorizationUrl>,
}

impl AdditionalProviderMetadata for Devices {}

type Metadata = ProviderMetadata<
    Devices,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

/// This client at the provider.
type Client = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// The description of a provider by itself.
#[derive(Clone)]
pub struct Discovered {
    pub client: Client,
    pub device_url: Option<DeviceAuthorizationUrl>,
    client_id: ClientId,
    issuer: IssuerUrl,
    keys: CoreJsonWebKeySet,
}

/// A provider that answers, or not.
pub struct Provider {
    issuer: IssuerUrl,
    client_id: ClientId,
    secret: Option<ClientSecret>,
    fetch: Fetch,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    discovered: Option<(Discovered, Instant)>,
    /// When it was asked last, also if whoever wanted to know did not wait for the answer.
    asked: Option<Instant>,
    /// When it did not answer, and why.
    away: Option<(String, Instant)>,
}

impl Provider {
    pub fn new(
        issuer: String,
        client_id: String,
        secret: Option<ClientSecret>,
        fetch: Fetch,
    ) -> anyhow::Result<Self> {
        let issuer = IssuerUrl::new(issuer).context("oidc.issuer is no URL")?;
        Ok(Self { issuer, client_id: ClientId::new(client_id), secret, fetch, state: Mutex::default() })
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The client that asks the provider.
    pub fn http(&self) -> &Fetch {
        &self.fetch
    }

    /// The description of the provider; asked for if it is not known, or old.
    pub async fn discovered(&self) -> Result<Discovered, OidcError> {
        let mut state = self.state.lock().await;
        match &state.discovered {
            Some((discovered, at)) if at.elapsed() < FRESH => Ok(discovered.clone()),
            Some(_) | None => self.discover(&mut state).await,
        }
    }

    /// Asks for the keys again, if that is not too soon. Whether there may be others now.
    pub async fn renew(&self) -> Result<bool, OidcError> {
        let mut state = self.state.lock().await;
        if state.asked.is_some_and(|at| at.elapsed() < RENEW_PAUSE) {
            return Ok(false);
        }
        self.discover(&mut state).await.map(|_| true)
    }

    async fn discover(&self, state: &mut State) -> Result<Discovered, OidcError> {
        if let Some((why, at)) = &state.away
            && at.elapsed() < AWAY_PAUSE
        {
            return Err(OidcError::Away(why.clone()));
        }
        state.asked = Some(Instant::now());
        match Metadata::discover_async(self.issuer.clone(), self.http()).await {
            Ok(metadata) => {
                let discovered = self.client(metadata);
                state.discovered = Some((discovered.clone(), Instant::now()));
                state.away = None;
                Ok(discovered)
            }
            Err(error) => {
                let why = match &error {
                    DiscoveryError::Request(error) => error.to_string(),
                    DiscoveryError::Response(status, ..) => {
                        format!("{} answers {status}", self.issuer.as_str())
                    }
                    other => short(other),
                };
                tracing::warn!(issuer = %self.issuer.as_str(), why, "the identity provider cannot be asked");
                state.away = Some((why.clone(), Instant::now()));
                Err(OidcError::Away(why))
            }
        }
    }

    fn client(&self, metadata: Metadata) -> Discovered {
        let device_url = metadata.additional_metadata().device_authorization_endpoint.clone();
        let keys = metadata.jwks().clone();
        let methods = metadata.token_endpoint_auth_methods_supported().cloned().unwrap_or_default();
        // Without a list of them there is this one, as OpenID Connect Discovery says.
        let takes_basic = methods.is_empty() || methods.contains(&CoreClientAuthMethod::ClientSecretBasic);
        let client =
            CoreClient::from_provider_metadata(metadata, self.client_id.clone(), self.secret.clone())
                .set_auth_type(if takes_basic { AuthType::BasicAuth } else { AuthType::RequestBody });
        Discovered {
            client,
            device_url,
            client_id: self.client_id.clone(),
            issuer: self.issuer.clone(),
            keys,
        }
    }
}

impl Discovered {
    /// When the token was issued, in seconds since 1970. Without a nonce, the token is of a login that the controller did
    /// not begin, or of one that has none.
    pub fn verify(&self, token: &CoreIdToken, nonce: Option<&Nonce>) -> Result<i64, ClaimsVerificationError> {
        let verifier = CoreIdTokenVerifier::new_public_client(
            self.client_id.clone(),
            self.issuer.clone(),
            self.keys.clone(),
        )
        .set_allowed_algs(ALGORITHMS);
        let claims = match nonce {
            Some(nonce) => token.claims(&verifier, nonce)?,
            None => token.claims(&verifier, |_: Option<&Nonce>| Ok(()))?,
        };
        // The crate leaves that to its callers: a token that another client got may name this one as an audience.
        match claims.authorized_party() {
            Some(party) if *party != self.client_id => {
                Err(ClaimsVerificationError::InvalidAudience("it was issued to another client".to_owned()))
            }
            Some(_) | None => Ok(claims.issue_time().timestamp()),
        }
    }
}
