//! `muster top`: the site on a terminal, asked for every two seconds.
//!
//! Keys and answers change the state, and a frame is a function of it. However the program ends, by a key, a signal or a
//! panic, the terminal is as it was before.
//!
//! Absent: what is shown (`top/view.rs`), what keys do (`top/state.rs`), what is asked (`top/question.rs`).

mod question;
#[cfg(test)]
mod sample;
mod silence;
mod state;
mod view;

use std::io::{IsTerminal as _, stdin, stdout};
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::select;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::sleep;

use crate::client::Client;
use crate::failure::Failure;
use crate::output::Format;
use question::{Answers, ask};
use state::{Key, Screen, State};
use view::Palette;

/// Between an answer and the next question.
const PAUSE: Duration = Duration::from_secs(2);
/// Events of the terminal that wait to be handled; more wait in the kernel.
const EVENTS: usize = 64;

/// A question, for the next refresh.
#[derive(Default)]
struct Question {
    marker: Option<String>,
    open: Option<String>,
}

/// Does it.
pub async fn run(client: &mut Client, format: Format) -> Result<(), Failure> {
    if format != Format::Table {
        return Err(Failure::usage("muster top prints no document; use 'muster status -o json'"));
    }
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if !stdin().is_terminal() || !stdout().is_terminal() || is_dumb {
        return Err(Failure::usage("muster top needs a terminal; elsewhere use 'muster status'"));
    }
    let has_colours = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let mut ends = ends().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let mut screen = Screenful::take()?;
    let (questions, mut asked) = mpsc::channel::<Question>(1);
    let (answers, mut answered) = mpsc::channel(1);
    let asking = async {
        while let Some(Question { marker, open }) = asked.recv().await {
            let answer = ask(client, marker.as_deref(), open.as_deref()).await;
            if answers.send(answer).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    let showing = async {
        let mut view = View { state: State::default(), palette: Palette { has_colours }, events: events() };
        view.run(&mut screen, &questions, &mut answered, &mut ends).await
    };
    // Showing ends first.
    select! {
        ended = showing => ended,
        ended = asking => ended,
    }
}

/// The terminal, in the way that a view needs it; as before when it is dropped.
struct Screenful(DefaultTerminal);

impl Screenful {
    /// A panic gives the terminal back before it prints its message.
    fn take() -> Result<Self, Failure> {
        ratatui::try_init().map(Self).map_err(|error| cannot_draw(&error))
    }
}

impl Drop for Screenful {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

struct View {
    state: State,
    palette: Palette,
    events: Receiver<Event>,
}

impl View {
    async fn run(
        &mut self,
        screen: &mut Screenful,
        questions: &mpsc::Sender<Question>,
        answered: &mut Receiver<Result<Answers, Failure>>,
        ends: &mut [Signal; 3],
    ) -> Result<(), Failure> {
        let mut is_asked = false;
        let mut pause = Box::pin(sleep(Duration::ZERO));
        let [terminated, hung_up, interrupted] = ends;
        while !self.state.is_over() {
            let draw = |frame: &mut ratatui::Frame<'_>| view::draw(frame, &self.state, self.palette);
            screen.0.draw(draw).map_err(|error| cannot_draw(&error))?;
            select! {
                event = self.events.recv() => match event {
                    Some(Event::Key(pressed)) => {
                        let before = self.state.screen.clone();
                        key(pressed).into_iter().for_each(|key| self.state.press(key));
                        // A stack that was opened is asked for at once.
                        if before != self.state.screen && !is_asked {
                            pause.set(sleep(Duration::ZERO));
                        }
                    }
                    // A new size, and what was not asked for.
                    Some(_) => {}
                    // The terminal is gone.
                    None => break,
                },
                answer = answered.recv() => {
                    let Some(answer) = answer else { break };
                    self.state.take(answer);
                    is_asked = false;
                    pause.set(sleep(PAUSE));
                }
                () = &mut pause, if !is_asked => {
                    is_asked = true;
                    // The one place is free: there was no question.
                    if questions.send(self.question()).await.is_err() {
                        break;
                    }
                }
                _ = terminated.recv() => break,
                _ = hung_up.recv() => break,
                _ = interrupted.recv() => break,
            }
        }
        Ok(())
    }

    fn question(&self) -> Question {
        let open = match &self.state.screen {
            Screen::Stack(name) => Some(name.clone()),
            Screen::Site | Screen::Help => None,
        };
        Question { marker: self.state.marker().map(ToOwned::to_owned), open }
    }
}

fn cannot_draw(error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot draw on this terminal: {error}; use 'muster status'"))
}

/// The signals that end the view.
fn ends() -> std::io::Result<[Signal; 3]> {
    Ok([signal(SignalKind::terminate())?, signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?])
}

/// The terminal's events. Their thread ends with the process: it waits in a read that nothing else ends.
fn events() -> Receiver<Event> {
    let (sender, events) = mpsc::channel(EVENTS);
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                break;
            }
        }
    });
    events
}

fn key(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    Some(match (event.code, event.modifiers) {
        (KeyCode::Char('c'), KeyModifiers::CONTROL) | (KeyCode::Char('q'), _) => Key::Quit,
        (KeyCode::Up | KeyCode::Char('k'), _) => Key::Up,
        (KeyCode::Down | KeyCode::Char('j'), _) => Key::Down,
        (KeyCode::Tab | KeyCode::Right, _) => Key::NextPane,
        (KeyCode::BackTab | KeyCode::Left, _) => Key::LastPane,
        (KeyCode::Enter, _) => Key::Open,
        (KeyCode::Esc | KeyCode::Backspace, _) => Key::Back,
        (KeyCode::Char('?' | 'h'), _) => Key::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_terminal() {
        for (code, modifiers, wanted) in [
            (KeyCode::Char('q'), KeyModifiers::NONE, Some(Key::Quit)),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, Some(Key::Quit)),
            (KeyCode::Char('c'), KeyModifiers::NONE, None),
            (KeyCode::Up, KeyModifiers::NONE, Some(Key::Up)),
            (KeyCode::Char('j'), KeyModifiers::NONE, Some(Key::Down)),
            (KeyCode::Tab, KeyModifiers::NONE, Some(Key::NextPane)),
            (KeyCode::BackTab, KeyModifiers::SHIFT, Some(Key::LastPane)),
            (KeyCode::Enter, KeyModifiers::NONE, Some(Key::Open)),
            (KeyCode::Esc, KeyModifiers::NONE, Some(Key::Back)),
            (KeyCode::Char('?'), KeyModifiers::SHIFT, Some(Key::Help)),
        ] {
            assert_eq!(key(KeyEvent::new(code, modifiers)), wanted, "{code:?}");
        }
        let released = KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(key(released), None);
    }
}
