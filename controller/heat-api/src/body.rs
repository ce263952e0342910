//! Bodies of requests: how many bytes, for how long, and how many at a time. Only a caller who is known may send one.
//!
//! Absent: what is in a body (`request.rs`).

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::Heat;
use crate::caller::Asking;
use crate::fault::Fault;

/// Bodies that are worked on at a time; others wait. Each takes several times its bytes of memory.
pub const BODIES_MAX: usize = 4;
/// The unit in which room for bodies is counted.
pub const KIB: usize = 1024;
/// The time limit of a body.
const BODY_TIME: Duration = Duration::from_secs(60);
/// The longest wait for room, or for a place.
const PATIENCE: Duration = Duration::from_secs(30);

/// A body, and the right to hold it in memory.
pub struct Held {
    bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
    _place: OwnedSemaphorePermit,
}

impl Held {
    /// The body as its type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        serde_json::from_slice(&self.bytes)
            .map_err(|error| Fault::invalid(format!("the request's body is wrong: {error}")))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.trim_ascii().is_empty()
    }
}

/// Reads the body of a caller who is known.
pub async fn read(heat: &Heat, asking: &Asking, body: Body) -> Result<Held, Fault> {
    asking.admit().await?;
    let came = timeout(BODY_TIME, collect(heat, body)).await;
    let came = came.map_err(|_elapsed| {
        Fault::new(StatusCode::REQUEST_TIMEOUT, "the request's body did not arrive within 60 seconds")
    })?;
    let (bytes, room) = came?;
    let place = acquired(&heat.work, 1).await?;
    Ok(Held { bytes, _room: room, _place: place })
}

/// Collects a body. The right to hold its bytes grows with it.
async fn collect(heat: &Heat, mut body: Body) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Fault> {
    let most = heat.host.body_max;
    let too_large = || {
        let message = format!("the request's body is too long: at most {most} bytes are allowed");
        Fault::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let (mut bytes, mut held, mut held_kib) = (Vec::new(), None::<OwnedSemaphorePermit>, 0);
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame =
            frame.map_err(|error| Fault::invalid(format!("the request's body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        let size = bytes.len() + data.len();
        if size > most {
            return Err(too_large());
        }
        let more = acquired(&heat.room, size.div_ceil(KIB) - held_kib).await?;
        held_kib = size.div_ceil(KIB);
        match &mut held {
            Some(held) => held.merge(more),
            None => held = Some(more),
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, held))
}

async fn acquired(from: &std::sync::Arc<Semaphore>, count: usize) -> Result<OwnedSemaphorePermit, Fault> {
    let count = u32::try_from(count).map_err(|_| Fault::internal("a body of more than 4 TiB"))?;
    let permit = timeout(PATIENCE, from.clone().acquire_many_owned(count)).await;
    let permit = permit.map_err(|_elapsed| Fault::later("too many and too large requests wait already"))?;
    Ok(permit.expect("the semaphore is never closed"))
}
