//! Requests for traces: where a packet goes, and whether the packets of an intent arrive.
//!
//! Absent: how a packet is followed (`controller/intent/src/trace.rs`), and the words of a packet
//! (`controller/template/src/packet.rs`).

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use muster_api::query::Trace;
use muster_api::trace::{IntentProof, TraceView};
use muster_engine::{Answer, Request};
use muster_intent::topology::ConnectPoint;
use muster_shared::model::flow::Port;
use muster_template::packet;

use super::error::ApiError;
use super::{Api, query};

/// GET /v1/trace?from=&packet=
pub async fn trace(
    api: Api,
    asked: Result<Query<Trace>, QueryRejection>,
) -> Result<Json<TraceView>, ApiError> {
    let asked = query(asked)?;
    let (from, packet) = (point(&asked.from)?, packet(&asked.packet)?);
    match api.driver.request(Request::Trace { from, packet }).await? {
        Answer::Traced(view) => Ok(Json(*view)),
        _ => Err(ApiError::internal("the engine did not say where the packet goes")),
    }
}

/// GET /v1/intents/{key}/verify
pub async fn verify(api: Api, Path(key): Path<String>) -> Result<Json<IntentProof>, ApiError> {
    match api.driver.request(Request::VerifyIntent { key: key.into() }).await? {
        Answer::Proved(proof) => Ok(Json(*proof)),
        _ => Err(ApiError::internal("the engine did not say whether packets arrive")),
    }
}

fn point(text: &str) -> Result<ConnectPoint, ApiError> {
    let parsed = text.split_once(':').and_then(|(device, port)| {
        let device = device.parse().ok()?;
        Port::is_name(port).then(|| ConnectPoint { device, port: port.into() })
    });
    parsed.ok_or_else(|| {
        let shown: String = text.chars().take(80).flat_map(char::escape_default).collect();
        ApiError::invalid(format!("'{shown}' is no port: want NODE/BRIDGE:INTERFACE, such as web-1/br0:eth1"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_device_and_an_interface() {
        let shown = |text: &str| point(text).map(|it| it.to_string()).map_err(|error| error.message);
        assert_eq!(shown("web-1/br0:eth1").as_deref(), Ok("web-1/br0 port eth1"));
        for wrong in ["web-1/br0", "web-1:eth1", "web-1/br0:", "web-1/br0:a b", ""] {
            assert!(shown(wrong).unwrap_err().ends_with("such as web-1/br0:eth1"), "{wrong}");
        }
    }
}
