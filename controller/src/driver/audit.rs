//! The row of a request in the audit: the actor, the change, its object, and the answer. Decides which requests have a
//! row, and that a row has names alone: values of parameters, signals and rules may be secret.
//!
//! The row is a change of the commit that makes the answer true, so there is none without the other. A request that was
//! refused has a row, too, unless nothing can be written; of refusals that anybody can cause, so many in a minute.
//!
//! Absent: how long rows are kept (`store/audit.rs`), and who a caller is (`api/authorization.rs`).

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::time::Duration;

use muster_api::site::Verdict;
use muster_engine::record::AuditRecord;
use muster_engine::{Answer, JoinAsk, Refusal, Request, Shown};
use muster_flow::FlowWrite;
use muster_shared::MonoTime;
use muster_shared::join::TokenId;

use crate::audit_journal::to_journal;
use crate::telemetry::TraceContext;

/// The most characters of a text in a row: a list of names, or a refusal.
const TEXT_MAX: usize = 500;

/// The most characters of a path that somebody asked for who was not let in.
const PATH_MAX: usize = 100;
/// Rows that one minute has for refusals of a kind which somebody without the right can cause at any pace; the journal has
/// all of them.
const REFUSED_MAX: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Kinds of refusals that are counted at a time; those of earlier minutes go.
const KINDS_MAX: usize = 1000;

/// The caller, with their way in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// A user of the system or of Muster.
    pub actor: String,
    /// The way: this machine, or an address.
    pub from: String,
    /// The credential that was shown; nothing on this machine. It must count still when the request is taken up.
    pub shown: Option<Shown>,
    /// The request's place in a trace, if there are traces.
    pub trace: Option<TraceContext>,
}

/// A client whose request was refused for its credential.
#[derive(Debug)]
pub(super) struct NotLetIn {
    pub caller: Caller,
    /// The request's name in the API.
    pub action: String,
    pub path: String,
    pub why: String,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Asked {
    caller: Caller,
    action: &'static str,
    target: String,
    what: String,
    /// The kind of a caller who is not known yet: refusals of such requests are bounded.
    stranger: Option<Kind>,
}

/// The most characters shown of a name that nobody has checked.
const CLAIMED_MAX: usize = 64;

/// The actor of somebody who is not known, with the name that was claimed.
pub fn stranger(name: &str) -> String {
    let claimed: String = name.chars().take(CLAIMED_MAX).flat_map(char::escape_default).collect();
    format!("unknown ({claimed})")
}

/// Refusals that somebody without the right can cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Refusals of servers that may not join.
    Joins,
    /// Refusals of tokens that do not count, and of logins.
    Strangers,
    /// Refusals of a user whose role is too small.
    User(String),
}

/// The requests that are not answered, and what the audit says of them and of those who were not let in.
#[derive(Debug, Default)]
pub(super) struct Audit {
    open: BTreeMap<u64, Option<Asked>>,
    /// For the next commit, oldest first.
    not_let_in: VecDeque<AuditRecord>,
    /// When the minute of a kind began, and how many refusals it had.
    minutes: BTreeMap<Kind, (MonoTime, u32)>,
}

impl Audit {
    /// A request was taken up; what a caller changes has a row.
    pub fn opens(&mut self, id: u64, caller: Option<&Caller>, request: &Request) {
        self.open.insert(id, caller.and_then(|caller| Asked::new(caller, request)));
    }

    /// The row of an answer that is to be committed.
    pub fn row(&mut self, id: u64, answer: &Result<Answer, Refusal>, now: MonoTime) -> Option<AuditRecord> {
        let asked = self.open.get(&id)?.as_ref()?;
        let record = asked.record(answer);
        let stranger = asked.stranger.clone().filter(|_| answer.is_err());
        stranger.is_none_or(|kind| self.has_room(kind, now)).then_some(record)
    }

    /// The answer leaves.
    pub fn answered(&mut self, id: u64, answer: &Result<Answer, Refusal>) {
        if let Some(asked) = self.open.remove(&id).flatten() {
            to_journal(&asked.record(answer));
        }
    }

    /// No request is answered but with this refusal, of which there is no row.
    pub fn give_up(&mut self, refusal: &Refusal) -> Vec<u64> {
        let open = std::mem::take(&mut self.open);
        open.into_iter()
            .map(|(id, asked)| {
                if let Some(asked) = asked {
                    to_journal(&asked.record(&Err(refusal.clone())));
                }
                id
            })
            .collect()
    }

    /// Notes a refused client: the next commit has a row of it, if the minute has room.
    pub fn not_let_in(&mut self, who: &NotLetIn, now: MonoTime) {
        let kind = match who.caller.shown {
            Some(_) => Kind::User(who.caller.actor.clone()),
            None => Kind::Strangers,
        };
        if self.has_room(kind, now) {
            self.not_let_in.push_back(who.record());
        }
    }

    /// A request that its caller may not make: the journal has it, and the next commit, if the minute has room.
    pub fn refused(&mut self, caller: &Caller, request: &Request, refusal: &Refusal, now: MonoTime) {
        let Some(asked) = Asked::new(caller, request) else { return };
        let record = asked.record(&Err(refusal.clone()));
        to_journal(&record);
        if self.has_room(Kind::User(caller.actor.clone()), now) {
            self.not_let_in.push_back(record);
        }
    }

    /// The rows of those who were not let in since the last commit.
    pub fn take_not_let_in(&mut self) -> VecDeque<AuditRecord> {
        std::mem::take(&mut self.not_let_in)
    }

    fn has_room(&mut self, kind: Kind, now: MonoTime) -> bool {
        if self.minutes.len() >= KINDS_MAX {
            self.minutes.retain(|_, (began, _)| now.since(*began) < MINUTE);
        }
        let minute = self.minutes.entry(kind).or_insert((now, 0));
        if now.since(minute.0) >= MINUTE {
            *minute = (now, 0);
        }
        minute.1 = minute.1.saturating_add(1);
        minute.1 <= REFUSED_MAX
    }
}

impl NotLetIn {
    fn record(&self) -> AuditRecord {
        let Self { caller: Caller { actor, from, .. }, action, path, why } = self;
        AuditRecord {
            actor: actor.clone(),
            from: from.clone(),
            action: Cow::Owned(action.clone()),
            target: short(path.clone(), PATH_MAX),
            what: String::new(),
            result: short(format!("refused: {why}"), TEXT_MAX),
        }
    }

    /// For the journal, which has each.
    pub fn log(&self) {
        to_journal(&self.record());
    }
}

/// For the journal: a request that could not be taken up.
pub(super) fn log_refusal(caller: &Caller, request: &Request, refusal: &Refusal) {
    if let Some(asked) = Asked::new(caller, request) {
        to_journal(&asked.record(&Err(refusal.clone())));
    }
}

impl Asked {
    /// `None`: the request changes nothing.
    fn new(caller: &Caller, request: &Request) -> Option<Self> {
        let (action, target, what) = meaning(request)?;
        let (caller, stranger) = match request {
            Request::Join(ask) => {
                let actor = format!("token {}", TokenId(ask.token_id));
                (Caller { actor, ..caller.clone() }, Some(Kind::Joins))
            }
            Request::LogIn { .. } => (caller.clone(), Some(Kind::Strangers)),
            _ => (caller.clone(), None),
        };
        Some(Self { caller, action, target: short(target, TEXT_MAX), what: short(what, TEXT_MAX), stranger })
    }

    /// With its answer.
    fn record(&self, answer: &Result<Answer, Refusal>) -> AuditRecord {
        let Self { caller: Caller { actor, from, .. }, action, target, what, .. } = self;
        let (what, result) = match answer {
            Ok(Answer::Stack { revision, difference, .. }) if *revision > 0 => {
                let revision = format!("revision {revision}");
                // The text of the caller comes last, for a long one is cut.
                let parts = [revision.as_str(), difference, what].into_iter().filter(|part| !part.is_empty());
                (short(parts.collect::<Vec<_>>().join(", "), TEXT_MAX), "ok".to_owned())
            }
            Ok(Answer::Flows { operation, rules, .. }) => {
                (format!("operation {operation}: {rules} rules"), "ok".to_owned())
            }
            Ok(_) => (what.clone(), "ok".to_owned()),
            Err(refusal) => (what.clone(), short(format!("refused: {refusal}"), TEXT_MAX)),
        };
        // A name that the login was refused for may be another user's.
        let actor = match (&self.stranger, answer) {
            (Some(Kind::Strangers), Err(_)) => stranger(actor),
            (Some(_) | None, _) => actor.clone(),
        };
        AuditRecord {
            actor,
            from: from.clone(),
            action: Cow::Borrowed(action),
            target: target.clone(),
            what,
            result,
        }
    }
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
            let of = if user.scope.is_whole() { nothing() } else { format!(", {}", user.scope) };
            row("user create", &user.name, format!("role {}{of}", user.role.as_str()))
        }
        Request::LogIn { login, .. } => row("login", &login.name, format!("role {}", login.role.as_str())),
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
        | Request::Survey { .. }
        | Request::FlowStats { .. }
        | Request::SampleFlows
        | Request::ForeignFlows { .. }
        | Request::Trace { .. }
        | Request::VerifyIntent { .. } => None,
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

fn short(mut text: String, most: usize) -> String {
    if let Some((at, _)) = text.char_indices().nth(most) {
        text.truncate(at);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
