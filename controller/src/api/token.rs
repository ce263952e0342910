//! Join tokens: made, listed, revoked. Decides how long one may be valid. A secret is made here, shown once, and stored
//! nowhere.
//!
//! Absent: who may join with a token, how often and how fast (`controller/engine/src/node/join_token.rs`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::Path;
use axum::http::StatusCode;
use muster_api::node::{CreateToken, TokenCreated, TokenRevoked, TokenRow};
use muster_engine::view::TokenView;
use muster_engine::{NewToken, Request};
use muster_shared::join::{ADDRESSES_MAX, Address, JoinToken, TokenId, TokenSecret};
use muster_shared::rate::RateError;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::error::ApiError;
use super::{Api, ApiConfig, source};
use crate::random::{NoRandom, random};

/// A year: a token that lives longer is a password on a wall.
const TTL_MAX: u64 = 365 * 86_400;
/// The limit of a node's name.
const PATTERN_MAX: usize = 253;

/// POST /v1/tokens
pub async fn create(api: Api, body: Body) -> Result<(StatusCode, Json<TokenCreated>), ApiError> {
    let CreateToken { ttl, uses, name, labels, rate } = source::json(&api, body).await?;
    let rate = rate.map(|rate| rate.parse()).transpose();
    let rate = rate.map_err(|error: RateError| ApiError::invalid(format!("rate: {error}")))?;
    check(ttl, name.as_deref())?;
    let expires = now() + ttl;
    let no_random = |error: NoRandom| ApiError::internal(error.to_string());
    let (id, secret) = (random::<8>().map_err(no_random)?, random::<16>().map_err(no_random)?);
    let token = JoinToken {
        site: api.pki.site().clone(),
        addresses: addresses(&api.config)?,
        ca_fingerprint: api.pki.fingerprint(),
        id: TokenId(id),
        secret: TokenSecret(secret),
        expires,
        broker: api.config.broker.clone(),
    };
    let secret_hash = token.secret.digest();
    let request = NewToken { id, secret_hash, expires, uses, name, labels, rate };
    api.driver.request(Request::NewToken { token: request, wall: now() }).await?;
    tracing::info!(token = %token.id, "join token made");
    let created =
        TokenCreated { token: token.to_string(), id: token.id.to_string(), expires: rfc3339(expires) };
    Ok((StatusCode::CREATED, Json(created)))
}

/// GET /v1/tokens
pub async fn list(api: Api) -> Result<Json<Vec<TokenRow>>, ApiError> {
    let now = now();
    let row = |TokenView { id, expires, uses_left, name, labels, rate }| TokenRow {
        id,
        expires: rfc3339(expires),
        uses_left,
        name,
        labels,
        rate,
    };
    let tokens = api.driver.query(|site| site.token_views()).await?;
    Ok(Json(tokens.into_iter().filter(|token| token.expires >= now).map(row).collect()))
}

/// DELETE /v1/tokens/{id}
pub async fn revoke(api: Api, Path(id): Path<String>) -> Result<Json<TokenRevoked>, ApiError> {
    let id: TokenId = id.parse().map_err(|_| {
        ApiError::invalid(
            "that is not the id of a token: want 16 hex digits, as 'muster node tokens' shows them",
        )
    })?;
    api.driver.request(Request::RevokeToken { id: id.0 }).await?;
    tracing::info!(token = %id, "join token revoked");
    Ok(Json(TokenRevoked { id: id.to_string(), revoked: true }))
}

/// The engine checks labels.
fn check(ttl: u64, name: Option<&str>) -> Result<(), ApiError> {
    if !(1..=TTL_MAX).contains(&ttl) {
        return Err(ApiError::invalid(format!("a token is good for 1 to {TTL_MAX} s")));
    }
    let in_pattern = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.' | b'*');
    if let Some(name) =
        name.filter(|name| !(1..=PATTERN_MAX).contains(&name.len()) || !name.bytes().all(in_pattern))
    {
        let name: String = name.chars().take(PATTERN_MAX).flat_map(char::escape_default).collect();
        return Err(ApiError::invalid(format!(
            "'{name}' is no node's name or pattern: want lower-case letters, digits, '-', '.' and '*'"
        )));
    }
    Ok(())
}

/// The addresses at which the agent finds a controller of the site: the brokers, or this controller and the standbys.
fn addresses(config: &ApiConfig) -> Result<Vec<Address>, ApiError> {
    let all = match config.broker {
        Some(_) => config.addresses.clone(),
        None => config.tenure.addresses(&config.addresses),
    };
    all.iter()
        .take(ADDRESSES_MAX)
        .map(|address| {
            address.parse().map_err(|error| ApiError::internal(format!("controller.addresses: {error}")))
        })
        .collect()
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// A time beyond the calendar is shown as a number; [`check`] refuses such times.
pub fn rfc3339(unix: u64) -> String {
    i64::try_from(unix)
        .ok()
        .and_then(|unix| OffsetDateTime::from_unix_timestamp(unix).ok())
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_else(|| unix.to_string())
}
