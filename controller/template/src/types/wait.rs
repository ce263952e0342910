//! `OS::Heat::WaitCondition` and its handle: properties, and the attributes that only a cloud has.
//!
//! Absent: signals, and when the condition is met or fails (`controller/engine/src/traversal/signal.rs`).

use serde_json::Value;

use super::value::{integer, text};
use super::{Kind, Place, Property, PropertyError, PropertyType, RenderedProperties, TypeInfo};
use crate::virtual_resource::{VirtualResource, WaitCondition};

/// The most signals of one handle, and the most to wait for: one of each node of a large site.
pub const SIGNALS_MAX: u32 = 10_000;

/// Heat's bound: twelve hours.
const TIMEOUT_MAX: u64 = 43_200;
/// Heat's words, without `NO_SIGNAL`: a condition must wait for something.
const TRANSPORTS: [&str; 5] =
    ["CFN_SIGNAL", "HEAT_SIGNAL", "TEMP_URL_SIGNAL", "TOKEN_SIGNAL", "ZAQAR_SIGNAL"];

pub(super) const CONDITION: TypeInfo = TypeInfo::new(
    "OS::Heat::WaitCondition",
    "waits until signals have come to its handle",
    &CONDITION_PROPERTIES,
    Place::Controller(condition),
)
.attributes(&[("data", "what signals brought, as JSON text: the data of each by its id")]);

pub(super) const HANDLE: TypeInfo = TypeInfo::new(
    "OS::Heat::WaitConditionHandle",
    "takes signals, which a wait condition waits for",
    &HANDLE_PROPERTIES,
    Place::Controller(|_| Ok(VirtualResource::WaitHandle)),
)
.attributes(&[("endpoint", "where in the API signals are sent to")]);

static CONDITION_PROPERTIES: [Property; 3] = [
    Property::optional("count", |value| count(value).map(drop))
        .is(PropertyType::Integer, "how many signals of SUCCESS are waited for")
        .default("1")
        .range(1, SIGNALS_MAX as u64),
    Property::required("handle", |value| text(value).map(drop))
        .is(PropertyType::String, "its handle: {get_resource: NAME of an OS::Heat::WaitConditionHandle}")
        .replaces(),
    Property::required("timeout", |value| timeout(value).map(drop))
        .is(PropertyType::Integer, "seconds until it fails")
        .range(1, TIMEOUT_MAX)
        .replaces(),
];

static HANDLE_PROPERTIES: [Property; 1] = [Property::optional("signal_transport", transport)
    .is(PropertyType::String, "taken for Heat's sake: signals come by the API")
    .default("\"TOKEN_SIGNAL\"")
    .one_of(&TRANSPORTS)];

fn condition(given: &RenderedProperties<'_>) -> Result<VirtualResource, PropertyError> {
    Ok(VirtualResource::Wait(WaitCondition {
        handle: given.required("handle", text)?,
        timeout: given.required("timeout", timeout)?,
        count: given.get("count", count)?.unwrap_or(1),
    }))
}

fn count(value: &Value) -> Result<u32, PropertyError> {
    bounded(value, SIGNALS_MAX.into())
}

fn timeout(value: &Value) -> Result<u32, PropertyError> {
    bounded(value, TIMEOUT_MAX)
}

fn bounded(value: &Value, most: u64) -> Result<u32, PropertyError> {
    let number = integer(value, 1, most)?;
    u32::try_from(number).map_err(|_| PropertyError::new("too large"))
}

fn transport(value: &Value) -> Result<(), PropertyError> {
    let name = text(value)?;
    if TRANSPORTS.contains(&&*name) {
        return Ok(());
    }
    let near = crate::error::suggestion_or_all(&name, &TRANSPORTS);
    Err(PropertyError::new(format!("unknown transport '{}'{near}", crate::error::cut(&name))))
}

/// The reason why an attribute of Heat is missing here; `None` if Heat does not have it either.
pub(crate) fn refused_attribute(kind: Kind, attribute: &str) -> Option<&'static str> {
    match (kind, attribute) {
        (Kind::WaitConditionHandle, "curl_cli" | "signal" | "token") => Some(
            "servers do not reach the controller's API and have no tokens for it: send signals where the controller is, \
             with 'muster resource signal STACK HANDLE' or to its attribute 'endpoint'",
        ),
        _ => None,
    }
}
