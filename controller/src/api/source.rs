//! Bodies: read within bounds, parsed off the runtime's threads, templates included. The longest timeout of an
//! operation is here.
//!
//! Absent: how a body is read (`controller/front/src/body.rs`), what an update keeps of the stack's present source
//! (`existing.rs`), and whether the operation is accepted (`controller/engine/src/operation/acceptance.rs`).

use std::time::Duration;

use axum::body::{Body, to_bytes};
use muster_api::stack::{self, CreateStack, EnvironmentFile, UpdateStack};
use muster_engine::{EnvironmentText, Options, Refusal, Signal, Source, SourceText};
use muster_flow::{FlowOp, FlowWrite};
use muster_front::{Bounds, NotCollected};
use muster_intent::manager::Wish;
use muster_shared::StackName;
use muster_shared::model::flow::{FlowId, Packed};
use muster_template::{FlowFile, FlowLimits, FlowPart, IntentFile, IntentLimits};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::error::ApiError;
use super::existing::updated;
use super::{Api, blocking};
use crate::driver::Room;
use crate::store::Reader;

/// The time limit of a signal.
const BODY_TIME: Duration = Duration::from_secs(60);
/// The most bytes of a signal: the engine's limit, and the overhead of JSON.
const SIGNAL_MAX: usize = 128 * 1024;
/// A year: a longer time is a typing error.
const TIMEOUT_MAX: u64 = 365 * 86_400;

/// A body that was read, and the permit to hold it in memory.
pub struct Held {
    bytes: Vec<u8>,
    /// Bytes of a template in it.
    template_max: usize,
    /// Rules, groups and meters of a flow file.
    flow_rules_max: usize,
    room: Room,
    _permit: OwnedSemaphorePermit,
}

impl Held {
    /// The room of its bytes, which what is parsed from them keeps.
    pub fn take_room(&mut self) -> Room {
        self.room.take()
    }
}

/// Reads a body. Only one that is there takes a place of those that are parsed.
pub async fn read(api: &Api, body: Body) -> Result<Held, ApiError> {
    let bounds = Bounds { most: api.config.body_max, patience: api.patience };
    let body =
        api.room.collect(&api.driver.caller().actor, body, bounds).await.map_err(|why| not_read(&why))?;
    let permit = timeout(api.patience, api.bodies.clone().acquire_owned()).await;
    let permit =
        permit.map_err(|_elapsed| not_read(&NotCollected::NoRoom))?.expect("nobody closes the semaphore");
    let (template_max, flow_rules_max) = (api.config.template_max, api.config.flow_rules_max);
    Ok(Held { bytes: body.bytes, template_max, flow_rules_max, room: body.room, _permit: permit })
}

fn not_read(why: &NotCollected) -> ApiError {
    let message = why.to_string();
    match why {
        NotCollected::NoRoom | NotCollected::ShareTaken => ApiError::later(message),
        NotCollected::TooLong(_) => ApiError::invalid(format!("{message} (limits.api_body)")),
        NotCollected::Late | NotCollected::Broken(_) => ApiError::invalid(message),
    }
}

/// A signal: a body with its own bound, which may be absent.
pub async fn signal(body: Body) -> Result<Signal, ApiError> {
    let bytes = timeout(BODY_TIME, to_bytes(body, SIGNAL_MAX)).await;
    let bytes = bytes.map_err(|_elapsed| ApiError::invalid("the request's body did not arrive in time"))?;
    let bytes = bytes.map_err(|error| {
        ApiError::invalid(format!(
            "the signal cannot be read: {error}; at most {SIGNAL_MAX} bytes are allowed"
        ))
    })?;
    let body = match bytes.trim_ascii() {
        [] => Value::Null,
        bytes => serde_json::from_slice(bytes)
            .map_err(|error| ApiError::invalid(format!("the signal is no JSON: {error}")))?,
    };
    Signal::from_json(body).map_err(ApiError::invalid)
}

/// Parses a small body as its type.
pub async fn json<T: DeserializeOwned>(api: &Api, body: Body) -> Result<T, ApiError> {
    parse_json(&read(api, body).await?)
}

/// Reads the body of a create: name, source, options.
pub async fn create(held: Held) -> Result<(StackName, Source, Options), ApiError> {
    blocking(move || {
        let CreateStack { name, template, environments, mut files, parameters, options } = parse_json(&held)?;
        let options = how(options)?;
        let environments = environments.into_iter().map(environment).collect();
        files.extend(template.files);
        let text =
            SourceText { name: template.name, template: template.text, files, parameters, environments };
        Ok((name, Source::parse_within(text, held.template_max)?, options))
    })
    .await
}

/// An update, read and checked.
pub struct Updated {
    /// The new desired state of the stack.
    pub source: Source,
    pub options: Options,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
}

/// For an update. Absent parts come from the current revision.
pub async fn update(held: Held, name: StackName, reader: Reader) -> Result<Updated, ApiError> {
    blocking(move || {
        let mut body: UpdateStack = parse_json(&held)?;
        let options = Options { revision: body.revision, ..how(std::mem::take(&mut body.options))? };
        let is_needed = body.existing || body.template.is_none();
        let current = match current(&reader, &name) {
            // A complete new source repairs a stack whose revision cannot be read.
            Err(error) if is_needed => return Err(error),
            found => found.ok(),
        };
        let (source, warnings) = updated(current, body, held.template_max)?;
        Ok(Updated { source, options, warnings })
    })
    .await
}

/// A preview, read and checked.
pub struct Previewed {
    /// The desired state that the stack would have.
    pub source: Source,
    /// The current source; `None` if there is no such stack, or its revision cannot be read.
    pub current: Option<Source>,
    pub options: Options,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
}

/// As for an update; if the stack is `missing`, as for a create.
pub async fn preview(
    held: Held,
    name: StackName,
    missing: Option<Refusal>,
    reader: Reader,
) -> Result<Previewed, ApiError> {
    blocking(move || {
        let mut body: UpdateStack = parse_json(&held)?;
        let options = Options { revision: body.revision, ..how(std::mem::take(&mut body.options))? };
        let current = match missing {
            Some(refusal) if body.template.is_none() => return Err(refusal.into()),
            Some(_) => None,
            None => reader.source(&name, None)?.map(|(_, text)| text),
        };
        let (source, warnings) = updated(current.clone(), body, held.template_max)?;
        Ok(Previewed {
            source,
            current: current.and_then(|text| Source::parse(text).ok()),
            options,
            warnings,
        })
    })
    .await
}

/// A flow file: its stages, and its seconds for a guarded change, if it gives them.
pub async fn flows(held: Held, name: String) -> Result<(Vec<Vec<FlowWrite>>, Option<u32>), ApiError> {
    blocking(move || {
        let text = std::str::from_utf8(&held.bytes)
            .map_err(|error| ApiError::invalid(format!("the flow file is no UTF-8 text: {error}")))?;
        let limits = FlowLimits { entries: held.flow_rules_max, ..FlowLimits::default() };
        let file = FlowFile::parse(&name, text, limits).map_err(|errors| ApiError {
            message: "the flow file is not valid".into(),
            ..ApiError::from(errors)
        })?;
        let write = |part: FlowPart| {
            let put = |(id, packed): (FlowId, Packed)| FlowOp::Put { id, digest: packed.digest(), packed };
            let mut ops: Vec<(FlowId, FlowOp)> =
                part.entries.into_iter().map(|entry| (entry.0, put(entry))).collect();
            // In the order of the database, so that pages are written in sequence.
            ops.sort_by_key(|(id, _)| *id);
            FlowWrite { device: part.device, ops: ops.into_iter().map(|(_, op)| op).collect() }
        };
        let stages = file.stages.into_iter().map(|stage| stage.into_iter().map(write).collect());
        Ok((stages.collect(), file.confirm_timeout))
    })
    .await
}

/// An intent file: its intents by their keys.
pub async fn intents(held: Held, name: String) -> Result<Vec<(Box<str>, Wish)>, ApiError> {
    blocking(move || {
        let text = std::str::from_utf8(&held.bytes)
            .map_err(|error| ApiError::invalid(format!("the intent file is no UTF-8 text: {error}")))?;
        let file = IntentFile::parse(&name, text, IntentLimits::default()).map_err(|errors| ApiError {
            message: "the intent file is not valid".into(),
            ..ApiError::from(errors)
        })?;
        Ok(file.intents)
    })
    .await
}

fn parse_json<T: DeserializeOwned>(held: &Held) -> Result<T, ApiError> {
    serde_json::from_slice(&held.bytes)
        .map_err(|error| ApiError::invalid(format!("the request's body is wrong: {error}")))
}

fn current(reader: &Reader, name: &StackName) -> Result<SourceText, ApiError> {
    match reader.source(name, None)? {
        Some((_, text)) => Ok(text),
        None => Err(ApiError::not_found(format!("no stack '{name}'"))),
    }
}

pub(super) fn environment(EnvironmentFile { name, key, text }: EnvironmentFile) -> EnvironmentText {
    EnvironmentText { name, key, text }
}

fn how(asked: stack::Options) -> Result<Options, ApiError> {
    let stack::Options { rollback, require_nodes, delete_first, converge, adopt, timeout, max_nodes } = asked;
    let timeout = match timeout {
        None => Options::default().timeout,
        Some(seconds) if (1..=TIMEOUT_MAX).contains(&seconds) => Duration::from_secs(seconds),
        Some(seconds) => {
            let message = format!("options.timeout is {seconds} s: want 1 to {TIMEOUT_MAX}");
            return Err(ApiError::invalid(message));
        }
    };
    // Whose scope it is, the driver knows.
    let (scope, revision) = (None, None);
    Ok(Options {
        rollback,
        require_nodes,
        delete_first,
        converge,
        adopt,
        timeout,
        max_nodes,
        scope,
        revision,
    })
}
