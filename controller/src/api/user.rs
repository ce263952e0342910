//! Users: made, listed, revoked. Decides how long a token may be valid. A secret is made here, shown once, and stored
//! nowhere.
//!
//! Absent: what a user may be called, and which tokens count (`controller/engine/src/user.rs`); who may do what
//! (`authorization.rs`).

use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::http::StatusCode;
use muster_api::user::{CallerView, CreateUser, Scope, UserCreated, UserRevoked, UserRow};
use muster_engine::Request;
use muster_engine::record::{Proof, UserRecord};
use muster_shared::user_token::UserToken;

use super::error::ApiError;
use super::token::{now, rfc3339};
use super::{Api, source};
use crate::random::{NoRandom, random};

/// A year: who works here longer gets another token.
const TTL_MAX: u64 = 365 * 86_400;

/// GET /v1/caller
pub async fn caller(api: Api) -> Json<CallerView> {
    let Scope { label, stacks } = api.scope;
    Json(CallerView { name: api.driver.caller().actor.clone(), role: api.role, scope: label, stacks })
}

/// POST /v1/users
pub async fn create(api: Api, body: Body) -> Result<(StatusCode, Json<UserCreated>), ApiError> {
    let CreateUser { name, role, ttl, scope: label, stacks, certificate } = source::json(&api, body).await?;
    if !(1..=TTL_MAX).contains(&ttl) {
        return Err(ApiError::invalid(format!("a user's token is good for 1 to {TTL_MAX} s")));
    }
    let Some(ca_fingerprint) = api.config.api_ca else {
        return Err(ApiError::conflict(
            "nobody could use a token: this site's API is not there over the network; set controller.api, or api in the \
             site's own section (docs/users.md)",
        ));
    };
    let (expires, scope) = (now() + ttl, Scope { label, stacks });
    if certificate {
        if !api.config.api_client_ca {
            return Err(ApiError::conflict(
                "no certificate of a user would be taken: set controller.api_client_ca (docs/users.md)",
            ));
        }
        let user = UserRecord { name: name.clone(), role, scope, proof: Proof::Certificate, expires };
        api.driver.request(Request::NewUser { user, wall: now() }).await?;
        let created = UserCreated { name, token: String::new(), expires: rfc3339(expires) };
        return Ok((StatusCode::CREATED, Json(created)));
    }
    let secret = random().map_err(|error: NoRandom| ApiError::internal(error.to_string()))?;
    let token = UserToken { name: name.clone(), ca_fingerprint, secret };
    let proof = Proof::Token(token.digest());
    let user = UserRecord { name: name.clone(), role, scope, proof, expires };
    api.driver.request(Request::NewUser { user, wall: now() }).await?;
    api.wrong_tokens.counts(token.digest(), Instant::now());
    let created = UserCreated { name, token: token.to_string(), expires: rfc3339(expires) };
    Ok((StatusCode::CREATED, Json(created)))
}

/// GET /v1/users
pub async fn list(api: Api) -> Result<Json<Vec<UserRow>>, ApiError> {
    let users = api.driver.query(|site| site.users()).await?;
    let row = |(row, expires)| UserRow { expires: rfc3339(expires), ..row };
    Ok(Json(users.into_iter().map(row).collect()))
}

/// DELETE /v1/users/{user}
pub async fn revoke(api: Api, Path(name): Path<String>) -> Result<Json<UserRevoked>, ApiError> {
    api.driver.request(Request::RevokeUser { name: name.clone() }).await?;
    Ok(Json(UserRevoked { name }))
}
