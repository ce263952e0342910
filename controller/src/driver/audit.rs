//! What the audit says of a request: who asked for which change of what, and what was answered. Decides which requests
//! have a row, and that a row has names alone: values of parameters, signals and rules may be secret.
//!
//! The row is a change of the commit that makes the answer true, so there is none without the other. A request that was
//! refused has a row, too, unless nothing can be written.
//!
//! Absent: how long rows are kept (`store/audit.rs`), and who a caller is (`api/caller.rs`).

use std::borrow::Cow;
use std::fmt::Display;

use muster_api::site::Verdict;
use muster_engine::record::AuditRecord;
use muster_engine::{Answer, JoinAsk, Refusal, Request};
use muster_flow::FlowWrite;
use muster_shared::join::TokenId;

/// The most characters of a text in a row: a list of names, or a refusal.
const TEXT_MAX: usize = 500;

/// Who asks, and on which way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// A user of the system or of Muster.
    pub actor: String,
    /// The way: this machine, or an address.
    pub from: String,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    caller: Caller,
    action: &'static str,
    target: String,
    what: String,
}

impl Asked {
    /// `None`: the request changes nothing.
    pub(super) fn new(caller: &Caller, request: &Request) -> Option<Self> {
        let (action, target, what) = meaning(request)?;
        let caller = match request {
            Request::Join(ask) => {
                Caller { actor: format!("token {}", TokenId(ask.token_id)), ..caller.clone() }
            }
            _ => caller.clone(),
        };
        Some(Self { caller, action, target: short(target), what: short(what) })
    }

    /// For the journal, and what collects it.
    pub(super) fn log(&self, answer: &Result<Answer, Refusal>) {
        log(&self.record(answer));
    }

    /// With its answer.
    pub(super) fn record(&self, answer: &Result<Answer, Refusal>) -> AuditRecord {
        let Self { caller: Caller { actor, from }, action, target, what } = self;
        let (what, result) = match answer {
            Ok(Answer::Stack { revision, .. }) if *revision > 0 => {
                let comma = if what.is_empty() { "" } else { ", " };
                (format!("revision {revision}{comma}{what}"), "ok".to_owned())
            }
            Ok(Answer::Flows { operation, rules, .. }) => {
                (format!("operation {operation}: {rules} rules"), "ok".to_owned())
            }
            Ok(_) => (what.clone(), "ok".to_owned()),
            Err(refusal) => (what.clone(), short(format!("refused: {refusal}"))),
        };
        AuditRecord {
            actor: actor.clone(),
            from: from.clone(),
            action: Cow::Borrowed(action),
            target: target.clone(),
            what,
            result,
        }
    }
}

/// Of a caller who was not let in with a request.
pub(super) fn refused(caller: &Caller, action: String, path: &str, why: &str) -> AuditRecord {
    let Caller { actor, from } = caller.clone();
    let (target, result) = (short(path.to_owned()), short(format!("refused: {why}")));
    AuditRecord { actor, from, action: action.into(), target, what: String::new(), result }
}

pub(super) fn log(record: &AuditRecord) {
    let AuditRecord { actor, from, action, target, what, result } = record;
    tracing::info!(target: "muster_audit", actor, from, %action, of = target, what, result);
}

/// The words of the command line, what the request is about, and what is asked for. `None`: it changes nothing.
fn meaning(request: &Request) -> Option<(&'static str, String, String)> {
    let row = |action, target: &dyn Display, what: String| Some((action, target.to_string(), what));
    let nothing = String::new;
    match request {
        Request::Create { name, source, .. } => {
            row("stack create", name, format!("from {}", source.text.name))
        }
        Request::Update { name, source, .. } => {
            row("stack update", name, format!("from {}", source.text.name))
        }
        Request::Delete { name } => row("stack delete", name, nothing()),
        Request::Rollback { name, to } => {
            row("stack rollback", name, to.map_or_else(nothing, |to| format!("to revision {to}")))
        }
        Request::Check { name } => row("stack check", name, nothing()),
        Request::Unhealthy { stack, resource } => {
            row("resource unhealthy", &format!("{stack}/{resource}"), nothing())
        }
        Request::Cancel { name } => row("stack cancel", name, nothing()),
        Request::Rollout { name, action, resource } => {
            let of = resource.as_ref().map_or_else(nothing, |resource| format!(" of {resource}"));
            row("stack rollout", name, format!("{}{of}", action.as_str()))
        }
        Request::ClearHook { stack, resource, hook } => {
            row("resource clear-hook", &format!("{stack}/{resource}"), hook.as_str().to_owned())
        }
        Request::Signal { stack, resource, .. } => {
            row("resource signal", &format!("{stack}/{resource}"), nothing())
        }
        Request::NewToken { token, .. } => {
            let of = token.name.as_deref().unwrap_or("any node");
            row("node token", &TokenId(token.id), format!("for {of}, {} times", token.uses))
        }
        Request::RevokeToken { id } => row("node token-revoke", &TokenId(*id), nothing()),
        Request::NewUser { user, .. } => {
            row("user create", &user.name, format!("role {}", user.role.as_str()))
        }
        Request::RevokeUser { name } => row("user revoke", name, nothing()),
        Request::Join(JoinAsk { name, agent_version, .. }) => {
            row("join", name, format!("muster-agent {agent_version}"))
        }
        Request::LabelNode { node, labels } => row("node label", node, names(labels.keys())),
        Request::Maintenance { node, on } => {
            row("node maintenance", node, if *on { "on" } else { "off" }.to_owned())
        }
        Request::RevokeNode { node } => row("node revoke", node, nothing()),
        Request::RemoveNode { node } => row("node remove", node, nothing()),
        Request::MoveNode { node, token } => row("node move", node, format!("to site {}", token.site)),
        Request::ApplyFlows { stages, .. } => {
            let devices = stages.iter().flatten().map(|FlowWrite { device, .. }| device);
            row("flow apply", &names(devices), nothing())
        }
        Request::DeleteFlows { device, ids, .. } => {
            row("flow delete", device, format!("{} rules", ids.len()))
        }
        Request::PurgeFlows { device, forget, .. } => {
            row("flow purge", device, if *forget { "from the table alone" } else { "" }.to_owned())
        }
        Request::ReconcileFlows { device, .. } => row("flow reconcile", device, nothing()),
        Request::SubmitIntents { intents } => {
            row("intent submit", &names(intents.iter().map(|(key, _)| key)), nothing())
        }
        Request::WithdrawIntents { keys } => row("intent withdraw", &names(keys), nothing()),
        Request::PurgeIntents { keys } => row("intent purge", &names(keys), nothing()),
        Request::Restored { verdict, ids, node } => {
            let action = match verdict {
                Verdict::Adopt => "restore adopt",
                Verdict::Remove => "restore remove",
            };
            let target = ids.as_ref().map_or_else(|| "all".to_owned(), names);
            row(action, &target, node.as_ref().map_or_else(nothing, |node| format!("on {node}")))
        }
        Request::Facts { .. }
        | Request::FlowStats { .. }
        | Request::SampleFlows
        | Request::ForeignFlows { .. } => None,
    }
}

/// As many names as a row has room for.
fn names(names: impl IntoIterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for name in names {
        if text.len() > TEXT_MAX {
            break;
        }
        let comma = if text.is_empty() { "" } else { ", " };
        text += &format!("{comma}{name}");
    }
    text
}

fn short(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(TEXT_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
