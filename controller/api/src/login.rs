//! Logins with OpenID Connect, by which somebody gets a user's token.
//!
//! Absent: which ID tokens count (`controller/src/oidc.rs`).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::user::Role;

/// GET /v1/login
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoginView {
    /// The identity provider; none without `[oidc]`.
    pub issuer: Option<String>,
}

/// POST /v1/login/browser
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginInBrowser {
    /// The address to which the provider sends the browser back. The provider knows which addresses it may be.
    pub redirect_uri: String,
}

/// A login that goes on in this browser. All but the address is for whoever began it alone.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BrowserLogin {
    /// The provider's page.
    pub address: String,
    /// The text that must come back with the code.
    pub state: String,
    /// The text that the ID token must have.
    pub nonce: String,
    /// The secret without which the code is worth nothing.
    pub verifier: String,
}

/// A login that goes on in a browser on any machine.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceLogin {
    /// The provider's page.
    pub address: String,
    /// The same with the code filled in, if the provider has that.
    pub address_with_code: Option<String>,
    /// The code that the person types there.
    pub user_code: String,
    /// For the login itself: a secret.
    pub device_code: String,
    /// The lifetime in seconds.
    pub expires_in: u64,
    /// Seconds between two tries to log in.
    pub interval: u64,
}

/// POST /v1/login
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LogIn {
    /// An ID token for the controller's client; only with `oidc.id_tokens`.
    IdToken(String),
    /// The device code of a login on another machine.
    DeviceCode(String),
    /// The code of a login in this browser.
    Browser(BrowserCode),
}

/// The code from the provider's page, and the values that the login began with.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BrowserCode {
    /// From the provider.
    pub code: String,
    /// As the login began.
    pub nonce: String,
    /// As the login began.
    pub verifier: String,
    /// As the login began.
    pub redirect_uri: String,
}

/// A login that is done, or not yet.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoggedIn {
    /// Seconds after which to ask again, where the person has not confirmed it yet; nothing else is there then.
    pub wait: Option<u64>,
    /// The user's name.
    pub name: String,
    /// The user's role.
    pub role: Role,
    /// For each further request. It is shown this once.
    pub token: String,
    /// RFC 3339 UTC.
    pub expires: String,
}

macro_rules! without_secrets {
    ($($type:ident),*) => {
        $(impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($type)).finish_non_exhaustive()
            }
        })*
    };
}

without_secrets!(BrowserLogin, DeviceLogin, LogIn, BrowserCode, LoggedIn);
