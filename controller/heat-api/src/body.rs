//! Bodies of requests: only a caller who is known may send one, and few are worked on at a time.
//!
//! Absent: how a body is read (`controller/front/src/body.rs`), and what is in it (`request.rs`).

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use muster_front::{Bounds, Collected, NotCollected};
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::Heat;
use crate::caller::Asking;
use crate::fault::Fault;

/// Bodies that are worked on at a time; others wait. Each takes several times its bytes of memory.
pub const BODIES_MAX: usize = 4;
/// The longest wait for room, or for a place.
const PATIENCE: Duration = Duration::from_secs(30);

/// A body, and the right to hold it in memory.
pub struct Held {
    body: Collected,
    _place: OwnedSemaphorePermit,
}

impl Held {
    /// The body as its type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        serde_json::from_slice(&self.body.bytes)
            .map_err(|error| Fault::invalid(format!("the request's body is wrong: {error}")))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.body.bytes.trim_ascii().is_empty()
    }
}

/// Reads the body of a caller who is known.
pub async fn read(heat: &Heat, asking: &Asking, body: Body) -> Result<Held, Fault> {
    let caller = asking.admit().await?;
    let bounds = Bounds { most: heat.host.body_max, patience: PATIENCE };
    let body = heat.room.collect(&caller.name, body, bounds).await?;
    let place = timeout(PATIENCE, heat.work.clone().acquire_owned()).await;
    let place = place.map_err(|_elapsed| NotCollected::NoRoom)?.expect("nobody closes the semaphore");
    Ok(Held { body, _place: place })
}

impl From<NotCollected> for Fault {
    fn from(why: NotCollected) -> Self {
        let message = why.to_string();
        match why {
            NotCollected::TooLong(_) => Self::new(StatusCode::PAYLOAD_TOO_LARGE, message),
            NotCollected::Late => Self::new(StatusCode::REQUEST_TIMEOUT, message),
            NotCollected::Broken(_) => Self::invalid(message),
            NotCollected::NoRoom | NotCollected::ShareTaken => Self::later(message),
        }
    }
}
