//! The progress of an operation: a bar on a terminal, plain lines otherwise. Both go to stderr.
//!
//! Absent: what a resource waits for (`controller/engine/src/view/phase.rs`), and the event that a stack makes no progress
//! (`controller/engine/src/traversal/progress_check.rs`).

use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use muster_api::stack::{ActiveView, ProgressView, StackView};
use tokio::time::Instant;

use crate::output::{count, printable};

/// The pause between two redraws of the bar: the eye sees no more.
const REDRAW: Duration = Duration::from_millis(100);
/// The pause between two plain lines, so that a log stays readable.
const LINE: Duration = Duration::from_secs(1);
/// Resources named in a plain line.
const NAMED: usize = 4;

/// Draws what a watch tells.
pub struct Progress {
    terminal: bool,
    next: Option<Instant>,
    shown: String,
    waiting: Option<String>,
    fleet: Fleet,
}

/// Nodes that came and went since a traversal began, as far as reported.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Fleet {
    traversal: u64,
    joined: u64,
    left: u64,
}

impl Progress {
    /// Draws a bar if stderr is a terminal.
    pub fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            next: None,
            shown: String::new(),
            waiting: None,
            fleet: Fleet::default(),
        }
    }

    /// Shows a state of the stack, immediately or when [`Progress::due`] allows it.
    pub fn show(&mut self, view: &StackView) {
        let fleet = Fleet::of(view);
        if let Some(change) = fleet.change(self.fleet, view) {
            self.note(&change);
        }
        self.fleet = fleet;
        let text = if self.terminal { bar(view, width()) } else { line(view) };
        self.waiting = (text != self.shown).then_some(text);
        if self.next.is_none_or(|next| Instant::now() >= next) {
            self.flush();
        }
    }

    /// When [`Progress::flush`] is wanted; never, while nothing waits.
    pub fn due(&self) -> Option<Instant> {
        self.waiting.as_ref().and(self.next)
    }

    /// Shows what waits.
    pub fn flush(&mut self) {
        let Some(text) = self.waiting.take() else { return };
        let (before, after, pause) = if self.terminal { ("\r\x1b[K", "", REDRAW) } else { ("", "\n", LINE) };
        write(&format!("{before}{text}{after}"));
        self.next = Some(Instant::now() + pause);
        self.shown = text;
    }

    /// Prints a separate line above the bar.
    pub fn note(&mut self, text: &str) {
        self.clear();
        note(text);
    }

    /// Takes the bar away.
    pub fn clear(&mut self) {
        self.waiting = None;
        if self.terminal && !self.shown.is_empty() {
            write("\r\x1b[K");
        }
        self.shown.clear();
    }
}

impl Fleet {
    fn of(view: &StackView) -> Self {
        Self { traversal: view.traversal, joined: view.nodes_joined, left: view.nodes_left }
    }

    /// The reason why the number of remaining resources changed.
    fn change(self, before: Self, view: &StackView) -> Option<String> {
        let before = if before.traversal == self.traversal { before } else { Self::default() };
        let of = |now: u64, then: u64, did: &str| {
            Some(now.saturating_sub(then))
                .filter(|more| *more > 0)
                .map(|more| format!("{} {did}", count(more, "node")))
        };
        let changes: Vec<String> = of(self.joined, before.joined, "joined")
            .into_iter()
            .chain(of(self.left, before.left, "left"))
            .collect();
        let total = count(view.progress.total, "resource");
        (!changes.is_empty()).then(|| format!("{}: {}: {total} in all", title(view), changes.join(", ")))
    }
}

/// Prints a line for the user.
pub fn note(text: &str) {
    write(&format!("{}\n", printable(text)));
}

/// A closed stderr is no error, since nobody reads it.
fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _closed = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

fn width() -> usize {
    const USUAL: usize = 80;
    terminal_size::terminal_size_of(std::io::stderr()).map_or(USUAL, |(width, _)| usize::from(width.0))
}

fn counts(view: &StackView) -> String {
    let ProgressView { done, total, failed, .. } = view.progress;
    let mut text = format!("{done}/{total}");
    if failed > 0 {
        text += &format!(", {failed} failed");
    }
    text
}

fn title(view: &StackView) -> String {
    format!("{} {}", printable(&view.name), printable(&view.action))
}

/// The resources under way, such as `motd@web-1 running`.
fn active(view: &StackView) -> impl Iterator<Item = String> {
    view.active.iter().map(|ActiveView { name, node, phase, .. }| {
        let at = if node.is_empty() { String::new() } else { format!("@{}", printable(node)) };
        format!("{}{at} {}", printable(name), printable(phase))
    })
}

/// `web UPDATE: 12/40, 1 failed; motd@web-1 running, net@web-2 waiting, …`
fn line(view: &StackView) -> String {
    let mut text = format!("{}: {}", title(view), counts(view));
    let named: Vec<String> = active(view).take(NAMED + 1).collect();
    if !named.is_empty() {
        text.push_str("; ");
        text.push_str(&named[..named.len().min(NAMED)].join(", "));
        if named.len() > NAMED {
            text.push_str(", …");
        }
    }
    text
}

/// `web UPDATE [######··············] 12/40, 1 failed  motd@web-1 running, …`, cut to the width.
fn bar(view: &StackView, width: usize) -> String {
    const CELLS: u64 = 20;
    let ProgressView { done, total, .. } = view.progress;
    let filled = (done * CELLS).checked_div(total).unwrap_or(0).min(CELLS);
    let cells: String = (0..CELLS).map(|cell| if cell < filled { '#' } else { '·' }).collect();
    let running = active(view).collect::<Vec<_>>().join(", ");
    let text = format!("{} [{cells}] {}  {running}", title(view), counts(view));
    // The last column stays free: some terminals wrap when it is written to.
    let room = width.saturating_sub(1);
    if text.chars().count() <= room {
        return text.trim_end().to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(done: u64, total: u64, failed: u64, active: usize) -> StackView {
        let active = (0..active).map(|i| ActiveView {
            name: format!("r{i}"),
            node: "web-1".into(),
            phase: "running".into(),
            phase_seconds: 0,
        });
        StackView {
            name: "web".into(),
            action: "UPDATE".into(),
            active: active.collect(),
            progress: ProgressView { done, total, failed, in_flight: 0 },
            ..StackView::default()
        }
    }

    #[test]
    fn lines() {
        for (view, text) in [
            (view(0, 0, 0, 0), "web UPDATE: 0/0"),
            (view(1, 3, 0, 1), "web UPDATE: 1/3; r0@web-1 running"),
            (
                view(1, 9, 2, 5),
                "web UPDATE: 1/9, 2 failed; r0@web-1 running, r1@web-1 running, r2@web-1 running, r3@web-1 running, …",
            ),
            (
                StackView {
                    name: "a\u{1b}".into(),
                    action: "CREATE".into(),
                    active: vec![ActiveView {
                        name: "x".into(),
                        phase: "waiting".into(),
                        ..ActiveView::default()
                    }],
                    ..StackView::default()
                },
                "a\\u{1b} CREATE: 0/0; x waiting",
            ),
        ] {
            assert_eq!(line(&view), text);
        }
    }

    #[test]
    fn a_fleet_that_changes_is_told() {
        let fleet = |traversal, joined, left| Fleet { traversal, joined, left };
        let view = view(3, 10, 0, 0);
        for (before, now, wanted) in [
            (fleet(0, 0, 0), fleet(1, 0, 0), None),
            (fleet(1, 0, 0), fleet(1, 3, 0), Some("web UPDATE: 3 nodes joined: 10 resources in all")),
            (fleet(1, 3, 0), fleet(1, 3, 0), None),
            (
                fleet(1, 3, 0),
                fleet(1, 4, 2),
                Some("web UPDATE: 1 node joined, 2 nodes left: 10 resources in all"),
            ),
            (fleet(1, 3, 0), fleet(2, 1, 0), Some("web UPDATE: 1 node joined: 10 resources in all")),
        ] {
            assert_eq!(now.change(before, &view).as_deref(), wanted);
        }
    }

    #[test]
    fn bars_fit_their_terminal() {
        assert_eq!(bar(&view(0, 0, 0, 0), 80), "web UPDATE [····················] 0/0");
        assert_eq!(bar(&view(5, 10, 0, 1), 80), "web UPDATE [##########··········] 5/10  r0@web-1 running");
        assert_eq!(bar(&view(12, 10, 0, 0), 80), "web UPDATE [####################] 12/10");
        for width in 0..100 {
            assert!(bar(&view(5, 10, 1, 9), width).chars().count() <= width.max(1), "{width}");
        }
        assert!(bar(&view(5, 10, 1, 9), 60).ends_with('…'));
    }
}
