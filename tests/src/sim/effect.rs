//! The effects of an agent, carried out on its server's disk, host and connection.

use muster_agent_core::{ContentStep, Effect, Input, WriteId};
use muster_shared::model::{Action, DriftState, Job, Outcome, ReportKey, Up};

use super::bus::{said, summed};
use super::drift::Thing;
use super::host::Host;
use super::job_fate::Work;
use super::world::World;

impl World {
    /// A delete needs no record between its turn and its first step: it is withdrawn if that has arrived by then.
    fn reads_before_it_begins(&mut self, at: usize, job: &Job) {
        let process = self.machines[at].process.as_ref().filter(|_| job.action == Action::Delete);
        if process.is_some_and(|process| process.unread_withdrawal(job)) {
            let (name, key) = (&self.machines[at].name, job.key());
            self.violate(format!("{name} begins the delete {key:?}, whose withdrawal had arrived"));
        }
    }

    pub fn agent_effect(&mut self, at: usize, effect: Effect) {
        self.note(|world| format!("{} {}", world.machines[at].name, shown(&effect)));
        if let Some(what) = counted(&effect) {
            self.shared.borrow_mut().counts.add(what);
        }
        if let Some(key) = begun(&effect) {
            self.has_its_turn(at, key);
        }
        match effect {
            Effect::Connect => self.agent_connects(at),
            Effect::Disconnect { .. } => {
                let Some(process) = &mut self.machines[at].process else { return };
                process.attempt += 1;
                process.hangs_up();
                if let Some(line) = process.line.take() {
                    let notice = self.dice.net.millis(1, 100);
                    self.line_ends(line, None, Some(notice));
                }
                self.tell_agent(at, Input::Disconnected { reason: "closed by this side".into() });
            }
            Effect::Flow { device, effect } => self.flow_effect(at, &device, effect),
            Effect::Send(up) => {
                if let Up::Flow(up) = &up {
                    self.tells_what_is_durable(at, up);
                }
                let machine = &mut self.machines[at];
                let Some(process) = &mut machine.process else { return };
                if let Up::Drift(drifts) = &up {
                    let wrong = machine.host.untrue(drifts, process.agent.entries(), self.now);
                    wrong.into_iter().for_each(|wrong| self.shared.borrow_mut().violate(wrong));
                }
                // Only an agent that obeys says this.
                let obeys = matches!(up, Up::Ledger { .. });
                if let Up::Hello(hello) = &up {
                    process.said_epoch = hello.epoch;
                }
                let clock = self.shared.borrow().clocks.beside(&up, &mut machine.clock);
                process.said.push(up);
                process.said.extend(clock);
                if obeys && process.greeted != machine.disk.epoch {
                    let (name, epoch) = (machine.name.clone(), process.greeted.number.0);
                    self.violate(format!("{name} obeys epoch {epoch}, which it has not written down"));
                }
            }
            Effect::Write { write, entry } => {
                self.takes_place(at, &entry);
                let wrong = self.says_what_ran(at, &entry);
                wrong.into_iter().for_each(|wrong| self.violate(wrong));
                let has_run = self.has_run(at, entry.resource);
                if let Some(process) = self.machines[at].process.as_mut().filter(|_| has_run) {
                    process.ended.push(*entry.clone());
                }
                // A disk that is full may have taken it all the same.
                let taken = !self.machines[at].disk.full || self.dice.disks.one_in(4);
                if taken {
                    let disk = &mut self.machines[at].disk;
                    if disk.ends_retained(&entry) {
                        // Its agent does not know it any more, whatever is asked of it next.
                        self.retained.push(entry.resource);
                        let held = disk.given_up_to(entry.resource);
                        self.machines[at].host.falls_to(entry.resource, &held);
                    }
                    self.machines[at].disk.write(*entry);
                }
                self.written(at, write, taken);
            }
            Effect::Remove(resource) => {
                self.machines[at].places.forgets(resource);
                self.machines[at].disk.remove(resource);
            }
            Effect::WriteEpoch { write, epoch } => {
                let wrong = self.obeys_two(at, epoch);
                wrong.into_iter().for_each(|wrong| self.violate(wrong));
                let taken = !self.machines[at].disk.full;
                if taken {
                    self.machines[at].disk.epoch = epoch;
                }
                self.written(at, write, taken);
            }
            Effect::Capture { key, spec, known, own } => {
                let after = self.dice.hosts.millis(0, 20);
                self.work_later(at, after, Work::Capture(key, Box::new(spec), known, own));
            }
            Effect::Run { job, before, theirs } => {
                if job.spec.confirm_within().is_none() {
                    self.reads_before_it_begins(at, &job);
                }
                self.job_begins(at, *job, before, theirs);
            }
            Effect::Guard { job, before, theirs } => {
                self.reads_before_it_begins(at, &job);
                let after = self.dice.hosts.millis(0, 50);
                let own = before.as_ref().map(|before| Host::without(before, &theirs));
                self.work_later(at, after, Work::Guard(job, own));
            }
            Effect::Restore { key, undo } => {
                let after = self.dice.hosts.millis(1, 2000);
                self.work_later(at, after, Work::Restore(key, undo));
            }
            Effect::Fallback { key, spec } => {
                let after = self.dice.hosts.millis(1, 2000);
                self.work_later(at, after, Work::Fallback(key, Box::new(spec)));
            }
            Effect::Check { job, applied, .. } => {
                let after = self.dice.hosts.millis(0, 200);
                if let Some(process) = &mut self.machines[at].process {
                    process.checks.insert(job.key(), (*job.clone(), applied.is_some()));
                }
                self.work_later(at, after, Work::Check(job.key()));
            }
            Effect::Look { number, looks } => {
                let after = self.dice.watch.millis(0, 20);
                self.work_later(at, after, Work::Look(number, looks));
            }
            Effect::FindRoom => {
                let found = match self.machines[at].disk.full {
                    true => Err("no space left on device".into()),
                    false => Ok(()),
                };
                self.tell_agent(at, Input::Room(found));
            }
            Effect::Gather => {
                let after = self.dice.watch.millis(0, 5);
                self.work_later(at, after, Work::Gather);
            }
            Effect::Cancel(key) => {
                if let Some(process) = &mut self.machines[at].process {
                    process.runs.remove(&key);
                    process.checks.remove(&key);
                }
                self.script_is_cancelled(at, key);
                self.job_ended(at, key);
            }
            Effect::Content { digest, step } => self.content(at, digest, step),
            Effect::KeepContents(kept) => {
                self.machines[at].disk.contents.retain(|digest, _| kept.contains(digest));
            }
            Effect::Watch { resource, spec } => {
                let Some(process) = &mut self.machines[at].process else { return };
                match spec.and_then(|spec| Thing::of(resource, &spec)) {
                    Some(thing) => drop(process.watched.insert(resource, thing)),
                    None => drop(process.watched.remove(&resource)),
                }
            }
            // A simulated server gets no documents, and there is one site.
            Effect::Survey { .. } => self.violate("nobody asks for a survey".into()),
            Effect::Join { .. } | Effect::ChangeSite { .. } => {
                let name = &self.machines[at].name;
                self.violate(format!("{name} moves to another site, which nobody asked for"));
            }
            Effect::LocalEnded(_) | Effect::Warn(_) => {}
        }
    }

    fn written(&mut self, at: usize, write: WriteId, taken: bool) {
        let result = if taken { Ok(()) } else { Err("no space left on device".to_owned()) };
        if let Some(process) = &mut self.machines[at].process {
            process.written.push((write, result));
        }
    }
}

/// The job that has its turn.
fn begun(effect: &Effect) -> Option<ReportKey> {
    match effect {
        Effect::Capture { key, .. } => Some(*key),
        Effect::Run { job, .. } | Effect::Guard { job, .. } | Effect::Check { job, .. } => Some(job.key()),
        _ => None,
    }
}

fn shown(effect: &Effect) -> String {
    match effect {
        Effect::Content { digest, step: ContentStep::Append { offset, bytes } } => {
            format!("appends to {digest} at {offset}: {}", summed(bytes))
        }
        Effect::Write { write, entry } => format!("writes {} #{}", entry.resource, write.0),
        Effect::Run { job, .. } => {
            format!("runs {:?} {} {}.{}", job.action, job.resource, job.generation, job.attempt.0)
        }
        Effect::Send(Up::Report(report)) => {
            format!(
                "reports {} {}.{} {:?}",
                report.key.resource, report.key.generation, report.key.attempt.0, report.outcome
            )
        }
        Effect::Send(up) => format!("says {}", said(up)),
        other => format!("{other:?}"),
    }
}

/// The name under which an effect is counted.
fn counted(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Run { job, .. } => format!("agent runs {:?}", job.action),
        Effect::Check { .. } => "agent checks".into(),
        Effect::Look { .. } => "agent looks".into(),
        Effect::Send(Up::Drift(drifts)) if drifts.iter().all(|drift| drift.state == DriftState::InSync) => {
            "agent says in sync".into()
        }
        Effect::Send(Up::Drift(drifts)) if drifts.iter().any(|drift| drift.state == DriftState::Missing) => {
            "agent says missing".into()
        }
        Effect::Send(Up::Drift(_)) => "agent says drifted".into(),
        Effect::Send(Up::Facts(_)) => "agent says facts".into(),
        Effect::Capture { known, .. } if known.is_empty() => "agent captures".into(),
        Effect::Capture { .. } => "agent captures what it takes over".into(),
        Effect::Guard { .. } => "agent guards".into(),
        Effect::Restore { .. } => "agent restores".into(),
        Effect::Fallback { .. } => "agent falls back".into(),
        Effect::Send(Up::Challenge { .. }) => "agent asks for a confirmation".into(),
        Effect::Cancel(_) => "agent cancels".into(),
        Effect::Remove(_) => "agent forgets".into(),
        Effect::LocalEnded(_) => "agent answers on its server".into(),
        Effect::Warn(_) => "agent warns".into(),
        Effect::WriteEpoch { .. } => "agent writes an epoch".into(),
        Effect::Join { .. } | Effect::ChangeSite { .. } => "agent moves to another site".into(),
        Effect::Disconnect { .. } => "agent disconnects".into(),
        Effect::Content { step: ContentStep::Verify, .. } => "agent has fetched".into(),
        Effect::Send(Up::Progress(_)) => "agent says progress".into(),
        Effect::Send(Up::Ledger { .. }) => "agent sends its ledger".into(),
        Effect::Send(Up::Report(report)) => format!(
            "outcome {}",
            match &report.outcome {
                Outcome::Done(_) => "done",
                Outcome::Failed { permanent: false, .. } => "failed",
                Outcome::Failed { permanent: true, .. } => "failed for good",
                Outcome::Withdrawn => "withdrawn",
                Outcome::Superseded { .. } => "superseded",
                Outcome::Differs { .. } => "differs",
                Outcome::NoRoom { .. } => "found no room",
            }
        ),
        _ => return None,
    })
}
