//! The state of `muster top` and the effect of its keys, without a terminal and without a controller.
//!
//! Absent: how it looks (`top/view.rs`), and which questions are asked (`top/question.rs`).

use std::collections::BTreeMap;

use muster_api::node::NodeView;
use muster_api::site::{Role, StatusView};
use muster_api::stack::{ActiveView, RolloutView, StackRow, StackView};

use super::question::Answers;
use super::silence::Silence;
use crate::failure::Failure;
use crate::output::count;

/// Failed stacks that are named.
const NAMED: usize = 5;
/// A CA's certificate that ends within these seconds is worth a line: 30 days.
const CA_LEFT_MIN: u64 = 30 * 24 * 3600;
/// Nodes listed as slow: about a screen.
const SLOW_MAX: usize = 30;

/// A key, as far as it means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Quit,
    Up,
    Down,
    NextPane,
    LastPane,
    Open,
    Back,
    Help,
}

/// A list on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    #[default]
    Operations,
    Rollouts,
    Nodes,
}

/// The view that fills the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Screen {
    #[default]
    Site,
    /// The resources in progress in a stack.
    Stack(String),
    Help,
}

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Warning,
    Bad,
}

/// An alert that an operator should see at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    pub tone: Tone,
    pub title: &'static str,
    pub text: String,
}

/// A node that others wait for, or that is quiet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowNode {
    pub node: String,
    /// The stack of the job that runs there.
    pub stack: Option<String>,
    pub what: String,
}

#[derive(Default)]
pub struct State {
    pub status: StatusView,
    /// Nodes in each state, and `total`.
    pub nodes: BTreeMap<String, u64>,
    /// Stacks whose operation is under way.
    pub running: Vec<StackRow>,
    /// The views of the first of those stacks.
    pub views: Vec<StackView>,
    /// There are more than were asked for.
    pub has_more_running: bool,
    failed: Vec<String>,
    /// There are more than were asked for.
    has_more_failed: bool,
    silence: Silence,
    /// The reason why the view may be outdated.
    problem: Option<String>,
    has_answers: bool,
    pub screen: Screen,
    pub pane: Pane,
    /// The chosen row of each list, by the order of [`Pane`].
    chosen: [usize; 3],
    is_over: bool,
}

impl State {
    /// The node that the next page begins after.
    pub fn marker(&self) -> Option<&str> {
        self.silence.marker()
    }

    /// The operator has seen enough.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Nothing has been heard of the controller yet.
    pub fn is_waiting(&self) -> bool {
        !self.has_answers && self.problem.is_none()
    }

    /// Takes what the controller answered. After a failure all stays as it was last known.
    pub fn take(&mut self, answers: Result<Answers, Failure>) {
        let answers = match answers {
            Ok(answers) => answers,
            Err(failure) => return self.problem = Some(failure.lines.join("; ")),
        };
        let Answers { status, nodes, running, failed, views, page } = answers;
        (self.problem, self.has_answers) = (None, true);
        (self.status, self.nodes, self.views) = (status, nodes, views);
        (self.running, self.has_more_running) = (running.rows, running.has_more);
        self.failed = failed.rows.into_iter().map(|stack| stack.name).collect();
        self.has_more_failed = failed.has_more;
        self.silence.take(page);
        for (pane, chosen) in [Pane::Operations, Pane::Rollouts, Pane::Nodes].into_iter().zip(self.chosen) {
            self.chosen[pane as usize] = chosen.min(self.rows(pane).saturating_sub(1));
        }
    }

    /// Does what a key means.
    pub fn press(&mut self, key: Key) {
        match (key, &self.screen) {
            (Key::Quit, _) => self.is_over = true,
            (Key::Help, Screen::Help) => self.screen = Screen::Site,
            (Key::Help, _) => self.screen = Screen::Help,
            (Key::Back | Key::Open, Screen::Stack(_) | Screen::Help) => self.screen = Screen::Site,
            (Key::Open, Screen::Site) => {
                if let Some(stack) = self.chosen_stack() {
                    self.screen = Screen::Stack(stack);
                }
            }
            (Key::Up, Screen::Site) => self.choose(|row| row.saturating_sub(1)),
            (Key::Down, Screen::Site) => self.choose(|row| row.saturating_add(1)),
            (Key::NextPane, Screen::Site) => {
                self.pane = match self.pane {
                    Pane::Operations => Pane::Rollouts,
                    Pane::Rollouts => Pane::Nodes,
                    Pane::Nodes => Pane::Operations,
                }
            }
            (Key::LastPane, Screen::Site) => {
                self.pane = match self.pane {
                    Pane::Operations => Pane::Nodes,
                    Pane::Rollouts => Pane::Operations,
                    Pane::Nodes => Pane::Rollouts,
                }
            }
            (Key::Back, Screen::Site) => {}
            (Key::Up | Key::Down | Key::NextPane | Key::LastPane, Screen::Stack(_) | Screen::Help) => {}
        }
    }

    /// The chosen row of a list.
    pub fn chosen(&self, pane: Pane) -> usize {
        self.chosen[pane as usize]
    }

    fn choose(&mut self, row: impl FnOnce(usize) -> usize) {
        let last = self.rows(self.pane).saturating_sub(1);
        let chosen = &mut self.chosen[self.pane as usize];
        *chosen = row(*chosen).min(last);
    }

    fn rows(&self, pane: Pane) -> usize {
        match pane {
            Pane::Operations => self.running.len(),
            Pane::Rollouts => self.rollouts().count(),
            Pane::Nodes => self.slow_nodes().len(),
        }
    }

    fn chosen_stack(&self) -> Option<String> {
        let row = self.chosen(self.pane);
        match self.pane {
            Pane::Operations => self.running.get(row).map(|stack| stack.name.clone()),
            Pane::Rollouts => self.rollouts().nth(row).map(|(stack, _)| stack.name.clone()),
            Pane::Nodes => self.slow_nodes().into_iter().nth(row).and_then(|node| node.stack),
        }
    }

    /// Each rollout with its stack.
    pub fn rollouts(&self) -> impl Iterator<Item = (&StackView, &RolloutView)> {
        self.views.iter().flat_map(|view| view.rollouts.iter().map(move |rollout| (view, rollout)))
    }

    /// The stacks under way whose rollouts are known, while there are others.
    pub fn viewed_of_more(&self) -> Option<usize> {
        let viewed = self.running.iter().filter(|stack| self.view(&stack.name).is_some()).count();
        (viewed < self.running.len()).then_some(viewed)
    }

    /// The view of a stack that is looked at.
    pub fn view(&self, stack: &str) -> Option<&StackView> {
        self.views.iter().find(|view| view.name == stack)
    }

    /// Jobs that run longest, then the nodes of which nothing was heard for the longest time.
    pub fn slow_nodes(&self) -> Vec<SlowNode> {
        let mut jobs: Vec<(&StackView, &ActiveView)> =
            self.views.iter().flat_map(|view| view.active.iter().map(move |job| (view, job))).collect();
        jobs.retain(|(_, job)| job.phase == "running" && !job.node.is_empty());
        jobs.sort_by_key(|(_, job)| std::cmp::Reverse(job.phase_seconds));
        let jobs = jobs.into_iter().map(|(view, job)| SlowNode {
            node: job.node.clone(),
            stack: Some(view.name.clone()),
            what: format!("{} has been running for {} s", job.name, job.phase_seconds),
        });
        let silent = self.silence.nodes().iter().map(|NodeView { name, state, last_seen, .. }| SlowNode {
            node: name.clone(),
            stack: None,
            what: format!("{state}, last heard {}", last_seen.as_deref().unwrap_or("never")),
        });
        jobs.take(SLOW_MAX / 2).chain(silent).take(SLOW_MAX).collect()
    }

    /// The nodes that [`State::slow_nodes`] does not know of yet.
    pub fn unseen_nodes(&self) -> u64 {
        self.nodes.get("total").copied().unwrap_or_default().saturating_sub(self.silence.seen())
    }

    /// The worst first.
    pub fn alerts(&self) -> Vec<Alert> {
        let alert = |tone, title, text: String| Alert { tone, title, text };
        let bad = |title, why: &Option<String>| why.clone().map(|why| alert(Tone::Bad, title, why));
        let status = &self.status;
        let mut alerts: Vec<Alert> = [
            bad("OUTDATED", &self.problem),
            bad("READ-ONLY", &status.read_only),
            bad("NO LINK", &status.link_problem),
            bad("LEASE", &status.lease_problem),
        ]
        .into_iter()
        .flatten()
        .collect();
        if status.agents.conflict > 0 {
            let nodes = count(status.agents.conflict, "node");
            alerts.push(alert(Tone::Bad, "CONFLICT", format!("{nodes} with two agents: muster node list")));
        }
        if status.agents.disk_full > 0 {
            let nodes = count(status.agents.disk_full, "node");
            alerts.push(alert(Tone::Bad, "DISK FULL", format!("{nodes}: muster node list")));
        }
        if !self.failed.is_empty() {
            let mut names = self.failed.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            if self.failed.len() > NAMED {
                names += ", …";
            }
            let stacks = at_least(self.failed.len(), self.has_more_failed);
            alerts.push(alert(
                Tone::Warning,
                "FAILED",
                format!("{stacks}: {names}; muster stack failures NAME"),
            ));
        }
        if let Some(left) = status.ca_left_s.filter(|left| *left < CA_LEFT_MIN) {
            let days = count(left / (24 * 3600), "day");
            alerts.push(alert(Tone::Warning, "CA", format!("its certificate ends in {days}: muster doctor")));
        }
        if status.restored {
            let text = "the store is older than what agents hold: muster restore list".to_owned();
            alerts.push(alert(Tone::Warning, "RESTORED", text));
        }
        if status.waiting.hooks > 0 {
            alerts.push(alert(Tone::Warning, "FOR YOU", count(status.waiting.hooks, "hook")));
        }
        if self.has_answers && status.role == Role::Standby {
            let text = "this controller stands by: nodes and stacks are the active one's".to_owned();
            alerts.push(alert(Tone::Warning, "STANDBY", text));
        }
        alerts
    }
}

/// Sorts stacks: those with the most left to do first.
pub fn most_left_first(stacks: &mut [StackRow]) {
    let left = |stack: &StackRow| stack.progress.total.saturating_sub(stack.progress.done);
    stacks.sort_by_key(|stack| (std::cmp::Reverse(left(stack)), stack.name.clone()));
}

/// `3 stacks`, or `at least 1000 stacks`.
pub fn at_least(stacks: usize, has_more: bool) -> String {
    let least = if has_more { "at least " } else { "" };
    format!("{least}{}", count(stacks as u64, "stack"))
}

#[cfg(test)]
mod tests {
    use super::super::question::Stacks;
    use super::*;
    use crate::top::sample;

    #[test]
    fn keys_choose_and_open() {
        use Key::{Back, Down, Help, LastPane, NextPane, Open, Quit, Up};
        let stack = |name: &str| Screen::Stack(name.to_owned());
        for (keys, pane, row, screen) in [
            (&[][..], Pane::Operations, 0, Screen::Site),
            (&[Down, Down, Down, Up, Down], Pane::Operations, 1, Screen::Site),
            (&[Up], Pane::Operations, 0, Screen::Site),
            (&[Open], Pane::Operations, 0, stack("fleet")),
            (&[Down, Open, Down], Pane::Operations, 1, stack("web")),
            (&[Open, Back], Pane::Operations, 0, Screen::Site),
            (&[NextPane, Open], Pane::Rollouts, 0, stack("fleet")),
            (&[LastPane], Pane::Nodes, 0, Screen::Site),
            (&[NextPane, NextPane, Open], Pane::Nodes, 0, stack("fleet")),
            // A node that is silent has no stack.
            (&[LastPane, Down, Down, Down, Open], Pane::Nodes, 3, Screen::Site),
            (&[NextPane, NextPane, NextPane, LastPane], Pane::Nodes, 0, Screen::Site),
            (&[Help, Down], Pane::Operations, 0, Screen::Help),
            (&[Help, Help], Pane::Operations, 0, Screen::Site),
            (&[Open, Help, Back], Pane::Operations, 0, Screen::Site),
        ] {
            let mut state = sample::site();
            keys.iter().for_each(|key| state.press(*key));
            assert_eq!((state.pane, state.chosen(pane), &state.screen), (pane, row, &screen), "{keys:?}");
            assert!(!state.is_over());
            state.press(Quit);
            assert!(state.is_over());
        }
    }

    #[test]
    fn a_choice_follows_a_list_that_becomes_shorter() {
        let mut state = sample::site();
        state.press(Key::Down);
        state.take(Ok(Answers::default()));
        assert_eq!(state.chosen(Pane::Operations), 0);
        state.press(Key::Open);
        assert_eq!(state.screen, Screen::Site);
    }

    #[test]
    fn after_a_failure_all_stays_and_says_so() {
        let mut state = State::default();
        assert!(state.is_waiting());
        state.take(Err(Failure::unreachable("cannot reach the controller")));
        assert!(!state.is_waiting());
        let mut state = sample::site();
        let before = state.running.len();
        state.take(Err(Failure::unreachable("cannot reach the controller")));
        assert_eq!(state.running.len(), before);
        let first = state.alerts().into_iter().next().unwrap();
        assert_eq!((first.title, &*first.text), ("OUTDATED", "cannot reach the controller"));
        state.take(Ok(Answers::default()));
        assert_eq!(state.alerts(), []);
    }

    #[test]
    fn each_alert_has_its_cause() {
        type Change = fn(&mut Answers);
        let changes: [(&str, Change); 10] = [
            ("READ-ONLY", |answers| answers.status.read_only = Some("full".to_owned())),
            ("NO LINK", |answers| answers.status.link_problem = Some("away".to_owned())),
            ("LEASE", |answers| answers.status.lease_problem = Some("away".to_owned())),
            ("CONFLICT", |answers| answers.status.agents.conflict = 1),
            ("DISK FULL", |answers| answers.status.agents.disk_full = 2),
            ("FAILED", |answers| {
                answers.failed.rows = vec![StackRow::default()];
            }),
            ("CA", |answers| answers.status.ca_left_s = Some(CA_LEFT_MIN - 1)),
            ("RESTORED", |answers| answers.status.restored = true),
            ("FOR YOU", |answers| answers.status.waiting.hooks = 1),
            ("STANDBY", |answers| answers.status.role = Role::Standby),
        ];
        for (title, change) in changes {
            let (mut state, mut answers) = (State::default(), Answers::default());
            change(&mut answers);
            state.take(Ok(answers));
            assert_eq!(state.alerts().iter().map(|alert| alert.title).collect::<Vec<_>>(), [title]);
        }
    }
    #[test]
    fn a_list_that_is_cut_says_so() {
        let mut state = sample::site();
        assert_eq!((state.viewed_of_more(), state.has_more_running), (None, false));
        let stacks = |names: &[&str], has_more| {
            let row = |name: &&str| StackRow { name: (*name).to_owned(), ..StackRow::default() };
            Stacks { rows: names.iter().map(row).collect(), has_more }
        };
        let view = |name: &str| StackView { name: name.to_owned(), ..StackView::default() };
        state.take(Ok(Answers {
            running: stacks(&["a", "b", "c"], true),
            failed: stacks(&["d"], true),
            views: vec![view("a"), view("open")],
            ..Answers::default()
        }));
        assert_eq!(state.viewed_of_more(), Some(1));
        assert_eq!(state.alerts()[0].text, "at least 1 stack: d; muster stack failures NAME");
        assert_eq!(at_least(state.running.len(), state.has_more_running), "at least 3 stacks");
    }
}
