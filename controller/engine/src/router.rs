//! Hands each input to the part that its subject belongs to, and runs the todos that follow from it.

use std::collections::BTreeSet;

use muster_flow::Asked;
use muster_shared::MonoTime;

use crate::engine::{Effect, Engine, Input};
use crate::record::Change;
use crate::request::{Answer, Refusal, Request};
use crate::timer::TimerKey;
use crate::todo::Todo;

impl Engine {
    /// Handles a request of `actor`: events that follow at once, or once its revision is read, name them.
    pub fn handle_of(&mut self, now: MonoTime, actor: &str, input: Input) {
        self.graph_mut().ctx.actor = Some(actor.into());
        self.handle(now, input);
    }

    pub fn handle(&mut self, now: MonoTime, input: Input) {
        self.graph_mut().ctx.goes_on(now);
        // After a stall, a message that ends a due wait may still be unread. So timers fire on a
        // timeout only.
        let fires = matches!(input, Input::Timeout);
        match input {
            Input::Request { id, request } => self.request(id, *request),
            Input::Connected { node, connection } => self.traversals.connected(&node, connection),
            Input::Disconnected { node, connection } => self.traversals.disconnected(&node, connection),
            Input::Received { node, connection, message } => self.received(&node, connection, message),
            Input::RevisionLoaded { load, source } => self.revision_loaded(load, source),
            Input::Timeout => {}
        }
        if fires {
            self.traversals.jobs.enter_slice();
        }
        self.run_agenda();
        if fires {
            self.run_timers();
        }
        self.graph_mut().ctx.actor = None;
    }

    fn run_timers(&mut self) {
        self.run_own_timers();
        loop {
            let is_due = |due: Option<MonoTime>| due.is_some_and(|due| due <= self.graph().ctx.now);
            if is_due(self.flows.next_due()) {
                self.with_flows(|flows, turn| flows.timeout(turn));
            } else if is_due(self.intents.ports.next_due()) {
                self.with_ports(|ports, turn| ports.timeout(turn));
            } else if is_due(self.intents.traces.next_due()) {
                self.traces_due();
            } else if is_due(self.intents.proofs.next_due()) {
                self.proof_due();
            } else if is_due(self.traversals.jobs.fetches.timeout()) {
                self.traversals.jobs.serve_fetches();
            } else {
                return;
            }
            self.run_agenda();
            self.run_own_timers();
        }
    }

    fn run_own_timers(&mut self) {
        while let Some((due, key)) = self.graph_mut().ctx.next_timer() {
            match key {
                TimerKey::Task(slot) => self.traversals.jobs.task_due(slot, due),
                TimerKey::Pause(slot) => self.pause_due(slot, due),
                TimerKey::Stack(stack, traversal) => self.traversals.stack_due(stack, traversal),
                TimerKey::ProgressCheck(stack) => self.traversals.progress_check_due(stack, due),
                TimerKey::DriftEvent(slot) => self.traversals.jobs.drift_event_due(slot, due),
                TimerKey::Correct(slot) => self.traversals.jobs.correct(slot),
                TimerKey::Facts(node) => self.traversals.answer_facts(node),
                TimerKey::Move(node) => self.traversals.move_due(node),
                TimerKey::Survey(node) => self.graph_mut().survey_due(node),
                TimerKey::Intents => self.intents_due(),
                TimerKey::Fit(stack) => self.traversals.fit_due(stack, due),
                TimerKey::Rollouts(stack) => self.traversals.jobs.rollouts_due(stack, due),
            }
            self.run_agenda();
        }
    }

    /// The next effect. Removals of stacks come first, because a new stack may have the name of a
    /// removed one. Then come changes of stacks and rows, each once.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if let Some(change) = self.graph_mut().first_change() {
            return Some(Effect::Persist(change));
        }
        if let Some(change) = self.flows.poll_change() {
            return Some(Effect::Persist(Change::Flow(change)));
        }
        if let Some(change) = self.intents.next_change() {
            return Some(Effect::Persist(change));
        }
        if let Some(change) = self.graph_mut().ctx.journal.next_change() {
            return Some(Effect::Persist(change));
        }
        if let Some(record) = self.graph_mut().restored.changed() {
            return Some(Effect::Persist(Change::Restored(record.map(Box::new))));
        }
        let effect = self.graph_mut().ctx.journal.next_effect();
        if effect.is_none() {
            self.graph_mut().ctx.slices.all_taken();
        }
        effect
    }

    /// When to call [`Engine::handle`] with [`Input::Timeout`], and why.
    pub fn poll_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let flows = self.flows.next_due().map(|due| (due, "a device is due"));
        let ports = self.intents.ports.next_due().map(|due| (due, "an agent has listened for long enough"));
        let traces = self.intents.traces.next_due().map(|due| (due, "an agent has not answered a trace"));
        let proofs = self.intents.proofs.next_due().map(|due| (due, "the next intent is verified"));
        let fetches = self.traversals.jobs.fetches.timeout().map(|due| (due, "another node may fetch"));
        let ctx = &self.graph().ctx;
        let slice = ctx.slices.has_next().then_some((ctx.now, "a stack enters its rows"));
        ctx.timers
            .next()
            .into_iter()
            .chain(flows)
            .chain(ports)
            .chain(fetches)
            .chain(slice)
            .chain(traces)
            .chain(proofs)
            .min()
    }

    fn run_agenda(&mut self) {
        let mut ends = BTreeSet::new();
        loop {
            match self.graph_mut().ctx.agenda.pop_front() {
                Some(Todo::Visit(slot)) => self.traversals.visit(slot),
                // A traversal cannot end while one of its rows waits for a visit.
                Some(Todo::CheckEnd(stack)) => drop(ends.insert(stack)),
                Some(Todo::Pump(node)) => self.traversals.jobs.pump(node),
                Some(Todo::PumpStack(stack)) => self.traversals.jobs.pump_stack(stack),
                Some(Todo::Fit(stack)) => self.traversals.fit(stack),
                Some(Todo::Rollouts(stack)) => self.traversals.jobs.look_at_rollouts(stack),
                Some(Todo::Correct(slot)) => self.traversals.jobs.correct(slot),
                Some(Todo::Restart(stack)) => self.traversals.jobs.mark_units(stack),
                Some(Todo::Begin(job)) => self.flow_job_begins(job),
                Some(Todo::Write(slot)) => self.write_flows(slot),
                Some(Todo::FlowJobEnded(job, how)) => self.traversals.jobs.flow_job_ended(job, how),
                Some(Todo::Unsendable(slot)) => self.traversals.jobs.unsendable(slot),
                Some(Todo::RollBack(stack)) => self.roll_back_if_owed(stack),
                Some(Todo::Realise { slot, kind, action, spec }) => self.realise(slot, kind, action, spec),
                Some(Todo::Unmake(slot)) => self.unmake(slot),
                Some(Todo::Expand(slot)) => self.expand(slot),
                Some(Todo::HideFlows { node, owner, applied }) => self.flows.hide(&node, owner, applied),
                Some(Todo::RevealFlows { node, owner }) => self.flows.reveal(&node, owner),
                Some(Todo::Away(node)) => {
                    self.with_flows(|flows, _| flows.away(&node));
                    // Its devices stay as they are, and new paths avoid them.
                    self.with_ports(|ports, turn| ports.away(turn.manager, &node));
                    self.traces_away(&node);
                }
                Some(Todo::CompareAnew(node)) => self.flows.compare_anew(&node),
                Some(Todo::Left(node)) => self.with_ports(|ports, turn| ports.left(turn, &node)),
                None if self.run_intents() => {}
                None => match ends.pop_first() {
                    Some(stack) => self.traversals.check_end(stack),
                    None => return,
                },
            }
        }
    }

    fn request(&mut self, id: u64, request: Request) {
        self.give_names_back(&request);
        if let Err(refusal) = self.traversals.is_whole(&request) {
            return self.graph_mut().answer(id, Err(refusal));
        }
        self.traversals.enter_at_once(&request);
        let answer = match request {
            Request::Create { name, source, options } => self.create(name, source, options),
            Request::Update { name, source, options } => self.update(&name, source, options),
            Request::Delete { name } => self.delete(&name),
            Request::Rollback { name, to } => match self.rollback(&name, to, Some(id)) {
                Ok(Some(answer)) => Ok(answer),
                Ok(None) => return, // answered when the revision is loaded
                Err(refusal) => Err(refusal),
            },
            Request::Cancel { name } => self.traversals.jobs.cancel(&name),
            Request::Rollout { name, action, resource } => {
                self.traversals.jobs.steer_rollout(&name, action, resource.as_deref())
            }
            Request::ClearHook { stack, resource, hook } => {
                self.graph_mut().clear_hook(&stack, &resource, hook)
            }
            Request::Check { name } => match self.traversals.jobs.check_stack(&name, id) {
                Ok(()) => return, // answered when the revision is loaded
                Err(refusal) => Err(refusal),
            },
            Request::Facts { node } => match self.traversals.ask_facts(&node, id) {
                Ok(Some(answer)) => Ok(answer),
                Ok(None) => return, // answered when the node has
                Err(refusal) => Err(refusal),
            },
            Request::ApplyFlows { stages, confirm_timeout, application } => {
                self.apply_flows(stages, confirm_timeout, application.as_deref())
            }
            Request::DeleteFlows { device, ids, confirm_timeout } => self
                .with_flows(|flows, turn| flows.delete(turn, device, ids, confirm_timeout))
                .map_or_else(|refused| Err(refused.into()), |begun| Ok(begun.into())),
            Request::PurgeFlows { device, forget, confirm_timeout } => self
                .with_flows(|flows, turn| flows.purge(turn, device, forget, confirm_timeout))
                .map_or_else(|refused| Err(refused.into()), |begun| Ok(begun.into())),
            Request::ReconcileFlows { device, foreign } => {
                let done = self.with_flows(|flows, turn| flows.reconcile(turn, &device, foreign));
                done.map(|()| Answer::Done).map_err(Refusal::from)
            }
            Request::FlowStats { device } => {
                match self.with_flows(|flows, turn| flows.ask_stats(turn, &device, id)) {
                    Ok(Asked::Ready) => Ok(Answer::Done),
                    Ok(Asked::Waits) => return, // answered when the node has
                    Err(refused) => Err(refused.into()),
                }
            }
            Request::SampleFlows => {
                self.with_flows(|flows, turn| flows.sample(turn.now));
                Ok(Answer::Done)
            }
            Request::SubmitIntents { intents } => self.submit_intents(intents),
            Request::Trace { from, packet } => match self.trace(id, from, packet) {
                Ok(()) => return, // answered when the packet is at its ends
                Err(refusal) => Err(refusal),
            },
            Request::VerifyIntent { key } => match self.verify_intent(id, &key) {
                Ok(()) => return, // answered when its packets are at their ends
                Err(refusal) => Err(refusal),
            },
            Request::WithdrawIntents { keys } => self.withdraw_intents(keys),
            Request::PurgeIntents { keys } => self.purge_intents(keys),
            Request::ForeignFlows { device } => {
                match self.with_flows(|flows, turn| flows.ask_foreign(turn, &device, id)) {
                    Ok(Asked::Ready) => Ok(Answer::Done),
                    Ok(Asked::Waits) => return, // answered when the node has
                    Err(refused) => Err(refused.into()),
                }
            }
            Request::Signal { stack, resource, signal } => {
                self.traversals.jobs.signal(&stack, &resource, signal)
            }
            Request::Unhealthy { stack, resource } => self.traversals.jobs.mark_unhealthy(&stack, &resource),
            Request::NewToken { token, wall } => self.graph_mut().new_token(token, wall),
            Request::RevokeToken { id } => self.graph_mut().revoke_token(id),
            Request::NewUser { user, wall } => self.graph_mut().new_user(user, wall),
            Request::LogIn { login, wall } => self.graph_mut().log_in(login, wall),
            Request::RevokeUser { name } => self.graph_mut().revoke_user(name),
            Request::Join(ask) => self.traversals.join(ask),
            Request::LabelNode { node, labels } => self.traversals.jobs.label_node(&node, labels),
            Request::Maintenance { node, on } => self.traversals.jobs.maintain_node(&node, on),
            Request::RevokeNode { node } => self.traversals.revoke_node(&node),
            Request::RemoveNode { node } => self.traversals.remove_node(&node).map(|lost| {
                let lost_total = lost.len() as u64;
                let lost = self.view().lost_views(lost.into_iter());
                Answer::NodeRemoved { node, lost, lost_total }
            }),
            Request::Survey { node } => match self.graph_mut().survey(&node, id) {
                Ok(()) => return, // answered when the agent has looked
                Err(refusal) => Err(refusal),
            },
            Request::MoveNode { node, token } => match self.move_node(&node, token, id) {
                Ok(()) => return, // answered when the agent has
                Err(refusal) => Err(refusal),
            },
            Request::Restored { verdict, ids, node } => self.decide_held(verdict, ids, node.as_ref()),
        };
        self.graph_mut().answer(id, answer);
    }
}
