//! Questions of traces and their answers between version 1 and the model, with their bounds.
//!
//! Absent: what they mean (`model/flow/trace.rs`).

use super::convert::at_most;
use super::flow::{device_in, device_out};
use super::{WireError, v1};
use crate::model::flow::{
    FLOW_REASON_MAX, Field, Packet, Port, TRACE_STEPS_MAX, TRACE_TEXT_MAX, TraceQuestion, TraceStep,
};

pub(super) fn question_out(question: &TraceQuestion) -> v1::FlowAsk {
    v1::FlowAsk::Trace { in_port: question.in_port.to_string(), packet: question.packet.fields().collect() }
}

pub(super) fn question_in(in_port: String, packet: v1::Packet) -> Result<TraceQuestion, WireError> {
    Ok(TraceQuestion { in_port: port_in(in_port)?, packet: packet_in(packet)? })
}

pub(super) fn result_out(result: &Result<Vec<TraceStep>, String>) -> Result<Vec<v1::TraceStep>, String> {
    match result {
        Ok(steps) => Ok(steps.iter().map(step_out).collect()),
        Err(why) => Err(cut(why.clone(), FLOW_REASON_MAX)),
    }
}

pub(super) fn result_in(
    result: Result<Vec<v1::TraceStep>, String>,
) -> Result<Result<Vec<TraceStep>, String>, WireError> {
    match result {
        Ok(steps) => {
            at_most("steps of a trace", steps.len(), TRACE_STEPS_MAX)?;
            Ok(Ok(steps.into_iter().map(step_in).collect::<Result<_, _>>()?))
        }
        Err(why) => Ok(Err(cut(why, FLOW_REASON_MAX))),
    }
}

fn step_out(step: &TraceStep) -> v1::TraceStep {
    let bridge = device_out(step.bridge());
    match step {
        TraceStep::Rule { table, cookie, matches, .. } => v1::TraceStep::Rule {
            bridge,
            table: *table,
            cookie: *cookie,
            matches: cut(matches.clone(), TRACE_TEXT_MAX),
        },
        TraceStep::Miss { table, .. } => v1::TraceStep::Miss { bridge, table: *table },
        TraceStep::Output { port, packet, .. } => {
            v1::TraceStep::Output { bridge, port: port.to_string(), packet: packet.fields().collect() }
        }
        TraceStep::Controller { .. } => v1::TraceStep::Controller { bridge },
        TraceStep::Refused { why, .. } => {
            v1::TraceStep::Refused { bridge, why: cut(why.clone(), TRACE_TEXT_MAX) }
        }
        TraceStep::Unclear { action, .. } => {
            v1::TraceStep::Unclear { bridge, action: cut(action.clone(), TRACE_TEXT_MAX) }
        }
    }
}

fn step_in(step: v1::TraceStep) -> Result<TraceStep, WireError> {
    Ok(match step {
        v1::TraceStep::Rule { bridge, table, cookie, matches } => TraceStep::Rule {
            bridge: device_in(bridge)?,
            table,
            cookie,
            matches: cut(matches, TRACE_TEXT_MAX),
        },
        v1::TraceStep::Miss { bridge, table } => TraceStep::Miss { bridge: device_in(bridge)?, table },
        v1::TraceStep::Output { bridge, port, packet } => {
            TraceStep::Output { bridge: device_in(bridge)?, port: port_in(port)?, packet: packet_in(packet)? }
        }
        v1::TraceStep::Controller { bridge } => TraceStep::Controller { bridge: device_in(bridge)? },
        v1::TraceStep::Refused { bridge, why } => {
            TraceStep::Refused { bridge: device_in(bridge)?, why: cut(why, TRACE_TEXT_MAX) }
        }
        v1::TraceStep::Unclear { bridge, action } => {
            TraceStep::Unclear { bridge: device_in(bridge)?, action: cut(action, TRACE_TEXT_MAX) }
        }
    })
}

fn port_in(port: String) -> Result<Box<str>, WireError> {
    if Port::is_name(&port) { Ok(port.into()) } else { Err(WireError::Bounds { field: "port" }) }
}

fn packet_in(fields: v1::Packet) -> Result<Packet, WireError> {
    let in_order = fields.windows(2).all(|pair: &[(Field, u128)]| pair[0].0 < pair[1].0);
    let packet = Packet::from_fields(fields).filter(|_| in_order);
    packet.ok_or(WireError::Bounds { field: "packet" })
}

fn cut(mut text: String, max: usize) -> String {
    text.truncate(text.floor_char_boundary(max));
    text
}
