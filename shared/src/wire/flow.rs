//! Messages of flow tables between version 1 and the model, with their bounds.
//!
//! Absent: what the messages mean (`model/flow/message.rs`).

use super::convert::{at_most, content_in, content_out, generation_in, generation_out};
use super::{WireError, trace, v1};
use crate::model::Content;
use crate::model::flow::{
    BUCKETS, Bridge, ENTRIES_PAGE, EntryState, FLOW_REASON_MAX, FOREIGN_PAGE, FOREIGN_TEXT_MAX, FlowAsk,
    FlowBatch, FlowCounters, FlowDown, FlowId, FlowRefusal, FlowState, FlowUp, ForeignRule, OPS_INLINE_MAX,
    Packed, STATES_MAX, STATS_PAGE, SwitchState, TableCounters,
};

/// A day: a change that may take longer to be confirmed is not guarded at all.
const CONFIRM_MAX_S: u32 = 24 * 3600;

pub(super) fn down_out(down: &FlowDown) -> v1::FlowDown {
    match down {
        FlowDown::Batch(batch) => v1::FlowDown::Batch {
            device: device_out(&batch.device),
            generation: generation_out(batch.generation),
            confirm_timeout_s: batch.confirm_timeout,
            ops: content_out(&batch.ops),
        },
        FlowDown::Ask { device, number, ask } => {
            v1::FlowDown::Ask { device: device_out(device), number: *number, ask: ask_out(ask) }
        }
        FlowDown::Forget { device, generation } => {
            v1::FlowDown::Forget { device: device_out(device), generation: generation_out(*generation) }
        }
    }
}

pub(super) fn down_in(down: v1::FlowDown) -> Result<FlowDown, WireError> {
    Ok(match down {
        v1::FlowDown::Batch { device, generation, confirm_timeout_s, ops } => {
            let ops = content_in(ops)?;
            if let Content::Inline(bytes) = &ops {
                at_most("operations", bytes.len(), OPS_INLINE_MAX)?;
            }
            FlowDown::Batch(FlowBatch {
                device: device_in(device)?,
                generation: generation_in(generation),
                confirm_timeout: confirm_timeout_s.map(|s| s.clamp(1, CONFIRM_MAX_S)),
                ops,
            })
        }
        v1::FlowDown::Ask { device, number, ask } => {
            FlowDown::Ask { device: device_in(device)?, number, ask: ask_in(ask)? }
        }
        v1::FlowDown::Forget { device, generation } => {
            FlowDown::Forget { device: device_in(device)?, generation: generation_in(generation) }
        }
    })
}

fn ask_out(ask: &FlowAsk) -> v1::FlowAsk {
    match ask {
        FlowAsk::Buckets => v1::FlowAsk::Buckets,
        FlowAsk::Entries(buckets) => v1::FlowAsk::Entries(buckets.clone()),
        FlowAsk::Stats => v1::FlowAsk::Stats,
        FlowAsk::Foreign => v1::FlowAsk::Foreign,
        FlowAsk::Look => v1::FlowAsk::Look,
        FlowAsk::Trace(question) => trace::question_out(question),
    }
}

fn ask_in(ask: v1::FlowAsk) -> Result<FlowAsk, WireError> {
    Ok(match ask {
        v1::FlowAsk::Buckets => FlowAsk::Buckets,
        v1::FlowAsk::Entries(buckets) => {
            let in_order = buckets.windows(2).all(|pair| pair[0] < pair[1]);
            if !in_order || buckets.last().is_some_and(|last| usize::from(*last) >= BUCKETS) {
                return Err(WireError::Bounds { field: "buckets" });
            }
            FlowAsk::Entries(buckets)
        }
        v1::FlowAsk::Stats => FlowAsk::Stats,
        v1::FlowAsk::Foreign => FlowAsk::Foreign,
        v1::FlowAsk::Look => FlowAsk::Look,
        v1::FlowAsk::Trace { in_port, packet } => {
            FlowAsk::Trace(Box::new(trace::question_in(in_port, packet)?))
        }
    })
}

pub(super) fn up_out(up: &FlowUp) -> v1::FlowUp {
    match up {
        FlowUp::States { states, complete } => states_out(states, *complete),
        FlowUp::Buckets { device, number, sums } => {
            v1::FlowUp::Buckets { device: device_out(device), number: *number, sums: sums.clone() }
        }
        FlowUp::Entries { device, number, entries, last } => v1::FlowUp::Entries {
            device: device_out(device),
            number: *number,
            entries: entries
                .iter()
                .map(|(id, digest, state)| (id.0, *digest, entry_state_out(*state)))
                .collect(),
            last: *last,
        },
        FlowUp::Stats { device, number, entries, tables, last } => v1::FlowUp::Stats {
            device: device_out(device),
            number: *number,
            entries: entries.iter().map(|it| (it.id.0, it.packets, it.bytes, it.duration)).collect(),
            tables: tables.iter().map(|it| (it.table, it.active, it.lookups, it.matches)).collect(),
            last: *last,
        },
        FlowUp::Foreign { device, number, rules, last } => v1::FlowUp::Foreign {
            device: device_out(device),
            number: *number,
            rules: rules
                .iter()
                .map(|it| {
                    (it.cookie, it.entry.as_ref().map(|packed| packed.bytes().to_vec()), it.text.clone())
                })
                .collect(),
            last: *last,
        },
        FlowUp::Traced { device, number, result } => v1::FlowUp::Traced {
            device: device_out(device),
            number: *number,
            result: trace::result_out(result),
        },
    }
}

pub(super) fn up_in(up: v1::FlowUp) -> Result<FlowUp, WireError> {
    Ok(match up {
        v1::FlowUp::States { states, complete } => {
            at_most("states", states.len(), STATES_MAX)?;
            let states = states.into_iter().map(|state| state_in(state, None));
            FlowUp::States { states: states.collect::<Result<_, _>>()?, complete }
        }
        v1::FlowUp::Buckets { device, number, sums } => {
            if sums.len() != BUCKETS {
                return Err(WireError::Bounds { field: "sums" });
            }
            FlowUp::Buckets { device: device_in(device)?, number, sums }
        }
        v1::FlowUp::Entries { device, number, entries, last } => {
            at_most("entries", entries.len(), ENTRIES_PAGE)?;
            let entries = entries
                .into_iter()
                .map(|(id, digest, state)| Ok::<_, WireError>((id_in(id)?, digest, entry_state_in(&state))))
                .collect::<Result<_, _>>()?;
            FlowUp::Entries { device: device_in(device)?, number, entries, last }
        }
        v1::FlowUp::Stats { device, number, entries, tables, last } => {
            at_most("counters", entries.len(), STATS_PAGE)?;
            at_most("tables", tables.len(), 255)?;
            let entries = entries
                .into_iter()
                .map(|(id, packets, bytes, duration)| {
                    Ok::<_, WireError>(FlowCounters { id: id_in(id)?, packets, bytes, duration })
                })
                .collect::<Result<_, _>>()?;
            let tables = tables
                .into_iter()
                .map(|(table, active, lookups, matches)| TableCounters { table, active, lookups, matches })
                .collect();
            FlowUp::Stats { device: device_in(device)?, number, entries, tables, last }
        }
        v1::FlowUp::Foreign { device, number, rules, last } => {
            at_most("foreign rules", rules.len(), FOREIGN_PAGE)?;
            let rules = rules.into_iter().map(foreign_in).collect::<Result<_, _>>()?;
            FlowUp::Foreign { device: device_in(device)?, number, rules, last }
        }
        v1::FlowUp::Traced { device, number, result } => {
            FlowUp::Traced { device: device_in(device)?, number, result: trace::result_in(result)? }
        }
        v1::FlowUp::NamedStates { states, complete } => {
            at_most("states", states.len(), STATES_MAX)?;
            let states = states.into_iter().map(|(state, entry)| state_in(state, entry));
            FlowUp::States { states: states.collect::<Result<_, _>>()?, complete }
        }
    })
}

fn foreign_in((cookie, packed, mut text): (u64, Option<Vec<u8>>, String)) -> Result<ForeignRule, WireError> {
    let entry =
        packed.map(|bytes| Packed::from_bytes(&bytes)).transpose().map_err(|_| WireError::Malformed)?;
    text.truncate(text.floor_char_boundary(FOREIGN_TEXT_MAX));
    Ok(ForeignRule { cookie, entry, text })
}

fn states_out(states: &[FlowState], complete: bool) -> v1::FlowUp {
    match states.iter().any(|state| state.entry.is_some()) {
        true => {
            let named = states.iter().map(|state| (state_out(state), state.entry.map(|id| id.0)));
            v1::FlowUp::NamedStates { states: named.collect(), complete }
        }
        false => v1::FlowUp::States { states: states.iter().map(state_out).collect(), complete },
    }
}

fn state_out(state: &FlowState) -> v1::FlowState {
    let refused = state.refused.as_ref();
    v1::FlowState {
        device: device_out(&state.device),
        decided: generation_out(state.decided),
        refused: refused.map(|it| (it.id.map(|id| id.0), it.reason.clone(), it.permanent)),
        root: state.root,
        entries: state.entries,
        wrong: state.wrong,
        foreign: state.foreign,
        switch: match state.switch {
            SwitchState::Absent => v1::SwitchState::Absent,
            SwitchState::Filling => v1::SwitchState::Filling,
            SwitchState::Watched => v1::SwitchState::Watched,
        },
        reason: state.reason.clone(),
    }
}

fn state_in(mut state: v1::FlowState, entry: Option<u64>) -> Result<FlowState, WireError> {
    state.reason.truncate(state.reason.floor_char_boundary(FLOW_REASON_MAX));
    let refused = state.refused.map(|(id, mut reason, permanent)| {
        reason.truncate(reason.floor_char_boundary(FLOW_REASON_MAX));
        Ok::<_, WireError>(FlowRefusal { id: id.map(id_in).transpose()?, reason, permanent })
    });
    Ok(FlowState {
        device: device_in(state.device)?,
        decided: generation_in(state.decided),
        refused: refused.transpose()?,
        root: state.root,
        entries: state.entries,
        wrong: state.wrong,
        foreign: state.foreign,
        switch: match state.switch {
            v1::SwitchState::Absent => SwitchState::Absent,
            v1::SwitchState::Filling => SwitchState::Filling,
            v1::SwitchState::Watched => SwitchState::Watched,
        },
        reason: state.reason,
        entry: entry.map(id_in).transpose()?,
    })
}

fn entry_state_out(state: EntryState) -> v1::EntryState {
    match state {
        EntryState::Present => v1::EntryState::Present,
        EntryState::Expired => v1::EntryState::Expired,
        EntryState::Wrong => v1::EntryState::Wrong,
    }
}

fn entry_state_in(state: &v1::EntryState) -> EntryState {
    match state {
        v1::EntryState::Present => EntryState::Present,
        v1::EntryState::Expired => EntryState::Expired,
        v1::EntryState::Wrong => EntryState::Wrong,
    }
}

pub(super) fn device_out(device: &Bridge) -> String {
    device.as_str().to_owned()
}

pub(super) fn device_in(device: String) -> Result<Bridge, WireError> {
    Bridge::try_from(device).map_err(|_| WireError::Bounds { field: "device" })
}

fn id_in(id: u64) -> Result<FlowId, WireError> {
    if FlowId::is_ours(id) { Ok(FlowId(id)) } else { Err(WireError::Bounds { field: "id of a flow rule" }) }
}
