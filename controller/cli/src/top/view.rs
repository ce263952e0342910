//! The frames of `muster top`: a frame is a function of the state, and of whether there are colours.

use muster_api::stack::{ActiveView, ProgressView, RolloutView, StackView};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table, TableState};

use super::state::{Alert, Pane, Screen, State, Tone, at_least};
use crate::output::{count, word};

/// Lines for alerts; those beyond are counted.
const ALERTS_MAX: usize = 6;
/// Columns of a bar of progress.
const BAR: u64 = 20;

const KEYS: &str = "q quit   Tab list   ↑↓ row   Enter resources in progress   ? help";
const HELP: &str = "\
q, Ctrl-C    quit
Tab          the next list; Shift-Tab, the one before
↑ ↓, k j     choose a row
Enter        the resources in progress of the row's stack, 20 at most
Esc          back
?            this help

The view asks the controller again every 2 s. Nodes come a thousand at a time: with
more than that, the list of nodes is complete after some refreshes. Rollouts and running
jobs are those of the 5 stacks with the most left to do.
OUTDATED means that the controller does not answer: the rest is what it said last.

In scripts, use 'muster status -o json'.";

/// Colours, or what stands for them where NO_COLOR is set.
#[derive(Clone, Copy)]
pub struct Palette {
    pub has_colours: bool,
}

impl Palette {
    fn tone(self, tone: Tone) -> Style {
        let (colour, plain) = match tone {
            Tone::Good => (Color::Green, Modifier::empty()),
            Tone::Warning => (Color::Yellow, Modifier::BOLD),
            Tone::Bad => (Color::Red, Modifier::BOLD),
        };
        if self.has_colours { Style::new().fg(colour) } else { Style::new().add_modifier(plain) }
    }
}

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, state: &State, palette: Palette) {
    let [title, body, keys] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Line::from(heading(state)).style(Modifier::BOLD), title);
    match &state.screen {
        Screen::Site if state.is_waiting() => {
            frame.render_widget(Paragraph::new("Waiting for the controller …"), body);
        }
        Screen::Site => site(frame, body, state, palette),
        Screen::Stack(name) => stack(frame, body, name, state.view(name)),
        Screen::Help => frame.render_widget(Paragraph::new(HELP).block(block("Help", false)), body),
    }
    frame.render_widget(Line::from(KEYS).style(Modifier::DIM), keys);
}

fn heading(state: &State) -> String {
    if state.is_waiting() {
        return "muster top".to_owned();
    }
    let status = &state.status;
    let stacks = at_least(state.running.len(), state.has_more_running);
    format!(
        "muster top   site {}   {}, epoch {}   {stacks} under way",
        word(&status.site),
        status.role.as_str(),
        status.epoch.0
    )
}

fn site(frame: &mut Frame<'_>, area: Rect, state: &State, palette: Palette) {
    let alerts = alerts(&state.alerts(), palette);
    let rollouts = state.rollouts().count() as u16;
    let has_rollouts = rollouts > 0 || state.viewed_of_more().is_some();
    let [above, fleet, operations, waves, nodes] = Layout::vertical([
        Constraint::Length(alerts.lines.len() as u16),
        Constraint::Length(2),
        Constraint::Fill(2),
        Constraint::Max(if has_rollouts { rollouts.saturating_add(3) } else { 0 }),
        Constraint::Fill(2),
    ])
    .areas(area);
    frame.render_widget(alerts, above);
    frame.render_widget(self::fleet(state, palette, fleet.width), fleet);
    show_operations(frame, operations, state);
    if has_rollouts {
        show_rollouts(frame, waves, state);
    }
    show_nodes(frame, nodes, state);
}

fn alerts(alerts: &[Alert], palette: Palette) -> Text<'static> {
    let line = |Alert { tone, title, text }: &Alert| {
        Line::from(vec![Span::styled(format!("{title:<10}"), palette.tone(*tone)), Span::raw(word(text))])
    };
    let mut lines: Vec<Line<'_>> = alerts.iter().take(ALERTS_MAX).map(line).collect();
    if alerts.len() > ALERTS_MAX {
        lines.push(Line::from(format!("and {} more: muster status", alerts.len() - ALERTS_MAX)));
    }
    Text::from(lines)
}

/// Nodes by state, and a bar of them.
fn fleet(state: &State, palette: Palette, width: u16) -> Text<'static> {
    let total = state.nodes.get("total").copied().unwrap_or_default();
    let mut states: Vec<(&str, u64)> = state
        .nodes
        .iter()
        .map(|(state, nodes)| (state.as_str(), *nodes))
        .filter(|(state, nodes)| *state != "total" && *nodes > 0)
        .collect();
    states.sort_by_key(|(state, _)| *state != "online");
    let style = |state: &str| match state {
        "online" => (palette.tone(Tone::Good), '█'),
        "conflict" | "disk_full" => (palette.tone(Tone::Bad), '!'),
        _ => (palette.tone(Tone::Warning), '░'),
    };
    let mut words = vec![Span::raw(count(total, "node"))];
    let mut bar = Vec::new();
    for (index, (name, nodes)) in states.into_iter().enumerate() {
        let (style, symbol) = style(name);
        words.push(Span::raw(if index == 0 { ": " } else { ", " }));
        words.push(Span::styled(format!("{nodes} {}", word(name)), style));
        // Each state is seen, however few nodes are in it.
        let columns = (u64::from(width) * nodes / total.max(1)).max(1) as usize;
        bar.push(Span::styled(symbol.to_string().repeat(columns), style));
    }
    Text::from(vec![Line::from(words), Line::from(bar)])
}

fn show_operations(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let rows = state.running.iter().map(|stack| {
        let ProgressView { done, total, in_flight, failed } = stack.progress;
        let cells = [
            word(&stack.name),
            word(&stack.action),
            bar(done, total),
            format!("{done}/{total}"),
            in_flight.to_string(),
            failed.to_string(),
            word(&stack.updated_at),
        ];
        Row::new(cells)
    });
    let table = Table::new(
        rows,
        [
            Constraint::Fill(1),
            Constraint::Length(8),
            Constraint::Length(BAR as u16),
            Constraint::Length(13),
            Constraint::Length(9),
            Constraint::Length(6),
            Constraint::Length(20),
        ],
    )
    .header(headings(["STACK", "ACTION", "PROGRESS", "DONE", "IN FLIGHT", "FAILED", "UPDATED"]));
    list(frame, area, table, state, Pane::Operations, "Operations under way".to_owned());
}

fn show_rollouts(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let rows = state.rollouts().map(|(stack, rollout)| {
        let RolloutView { resource, state, stage, total, done, in_flight, failed, next_in, .. } = rollout;
        let next = next_in.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s"));
        let (done, in_flight, failed) =
            (format!("{done}/{total}"), in_flight.to_string(), failed.to_string());
        Row::new([word(&stack.name), word(resource), word(state), word(stage), done, in_flight, failed, next])
    });
    let table = Table::new(
        rows,
        [
            Constraint::Fill(1),
            Constraint::Fill(1),
            Constraint::Length(9),
            Constraint::Length(7),
            Constraint::Length(13),
            Constraint::Length(9),
            Constraint::Length(6),
            Constraint::Length(6),
        ],
    )
    .header(headings(["STACK", "RESOURCE", "STATE", "STAGE", "DONE", "IN FLIGHT", "FAILED", "NEXT"]));
    let title = state.viewed_of_more().map_or_else(
        || "Rollouts".to_owned(),
        |viewed| {
            let running = at_least(state.running.len(), state.has_more_running);
            format!("Rollouts (cut: of {viewed} of {running} under way, those with the most left to do)")
        },
    );
    list(frame, area, table, state, Pane::Rollouts, title);
}

fn show_nodes(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let slow = state.slow_nodes();
    let rows = slow.iter().map(|node| {
        Row::new([word(&node.node), word(node.stack.as_deref().unwrap_or_default()), word(&node.what)])
    });
    let widths = [Constraint::Fill(2), Constraint::Fill(1), Constraint::Fill(3)];
    let table = Table::new(rows, widths).header(headings(["NODE", "STACK", "WHY"]));
    let title = match state.unseen_nodes() {
        0 => "Slowest nodes".to_owned(),
        unseen => format!("Slowest nodes ({} yet to be looked at)", unseen),
    };
    list(frame, area, table, state, Pane::Nodes, title);
}

/// Draws the resources in progress in a stack.
fn stack(frame: &mut Frame<'_>, area: Rect, name: &str, view: Option<&StackView>) {
    let Some(view) = view else {
        let text = format!("Stack {} is asked for, or gone.", word(name));
        return frame.render_widget(Paragraph::new(text).block(block(name, false)), area);
    };
    let ProgressView { done, total, in_flight, failed } = view.progress;
    let title = format!(
        "{} {} {}: {done}/{total}, {in_flight} in flight, {failed} failed",
        word(&view.name),
        word(&view.action),
        word(&view.status)
    );
    let rows = view.active.iter().map(|ActiveView { name, node, phase, phase_seconds }| {
        Row::new([word(name), word(node), word(phase), format!("{phase_seconds} s")])
    });
    let widths = [Constraint::Fill(2), Constraint::Fill(2), Constraint::Length(12), Constraint::Length(10)];
    let table = Table::new(rows, widths)
        .header(headings(["RESOURCE", "NODE", "PHASE", "FOR"]))
        .block(block(&title, true));
    frame.render_widget(table, area);
}

/// A table with its chosen row.
fn list(frame: &mut Frame<'_>, area: Rect, table: Table<'_>, state: &State, pane: Pane, title: String) {
    let has_focus = state.pane == pane;
    let chosen = if has_focus { Modifier::REVERSED } else { Modifier::empty() };
    let table = table.block(block(&title, has_focus)).row_highlight_style(chosen);
    let mut row = TableState::default().with_selected(state.chosen(pane));
    frame.render_stateful_widget(table, area, &mut row);
}

fn block(title: &str, has_focus: bool) -> Block<'static> {
    let mark = if has_focus { "▶ " } else { "" };
    Block::new().borders(Borders::TOP).title(format!("{mark}{title} "))
}

fn headings<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Modifier::DIM)
}

fn bar(done: u64, total: u64) -> String {
    let full = (BAR * done.min(total) / total.max(1)) as usize;
    "█".repeat(full) + &"·".repeat(BAR as usize - full)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::question::Answers;
    use super::super::state::Key;
    use super::*;
    use crate::failure::Failure;
    use crate::top::sample;

    const PLAIN: Palette = Palette { has_colours: false };

    fn terminal(state: &State, width: u16, height: u16, palette: Palette) -> Terminal<TestBackend> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state, palette)).unwrap();
        terminal
    }

    #[test]
    fn a_site_at_work() {
        insta::assert_snapshot!(terminal(&sample::site(), 110, 28, PLAIN).backend());
    }

    #[test]
    fn rollouts_that_are_cut_say_so() {
        let mut state = sample::site();
        let shown = |state: &State| terminal(state, 110, 28, PLAIN).backend().to_string();
        assert!(!shown(&state).contains("cut"));
        state.views.retain(|view| view.rollouts.is_empty());
        let text = shown(&state);
        assert!(text.contains("Rollouts (cut: of 1 of 2 stacks under way"), "{text}");
    }

    #[test]
    fn a_stack_that_was_opened() {
        let mut state = sample::site();
        state.press(Key::Open);
        insta::assert_snapshot!(terminal(&state, 90, 12, PLAIN).backend());
    }

    #[test]
    fn a_calm_site_that_no_longer_answers() {
        let mut state = State::default();
        state.take(Ok(Answers::default()));
        state.take(Err(Failure::unreachable("cannot reach the controller\u{1b}[2J")));
        insta::assert_snapshot!(terminal(&state, 90, 14, PLAIN).backend());
    }

    #[test]
    fn help_and_the_first_moment() {
        let mut state = State::default();
        insta::assert_snapshot!("waiting", terminal(&state, 40, 4, PLAIN).backend());
        state.press(Key::Help);
        insta::assert_snapshot!("help", terminal(&state, 90, 18, PLAIN).backend());
    }

    #[test]
    fn any_size_and_screen_can_be_drawn() {
        for (width, height) in [(0, 0), (1, 1), (5, 3), (20, 8), (300, 100)] {
            for keys in [&[][..], &[Key::Open], &[Key::Help], &[Key::NextPane, Key::NextPane]] {
                let mut state = sample::site();
                keys.iter().for_each(|key| state.press(*key));
                terminal(&state, width, height, PLAIN);
            }
        }
    }

    #[test]
    fn colours_are_there_unless_they_are_unwanted() {
        let has_colours = |palette| {
            let terminal = terminal(&sample::site(), 110, 28, palette);
            terminal.backend().buffer().content().iter().any(|cell| cell.fg != Color::Reset)
        };
        assert!(has_colours(Palette { has_colours: true }));
        assert!(!has_colours(PLAIN));
    }
}
