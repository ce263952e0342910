//! Properties of a unit that is made over D-Bus.

use zbus::Variant;

/// A property's value in its D-Bus form; see org.freedesktop.systemd1(5) for the type of each property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Property {
    /// `s`: `Description`, `Type`, `WorkingDirectory`, `StandardOutputFile`, `KillMode` and so on.
    Text(String),
    /// `as`: `Environment`, `After`.
    Texts(Vec<String>),
    /// `b`: `RemainAfterExit`.
    Flag(bool),
    /// `i`: `Nice`, `KillSignal`.
    Signed(i32),
    /// `u`: `UMask`.
    Small(u32),
    /// `t`: `MemoryMax`; times in microseconds, as `RuntimeMaxUSec`.
    Number(u64),
    /// `a(sasb)`: `ExecStart`.
    Commands(Vec<Command>),
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// An absolute path.
    pub path: String,
    /// The arguments, with the program's name as the first.
    pub arguments: Vec<String>,
    /// A failure of the command does not fail the unit.
    pub may_fail: bool,
}

impl Property {
    pub(super) fn variant(&self) -> Variant<'_> {
        match self {
            Self::Text(text) => Variant::new(text.as_str()),
            Self::Texts(texts) => Variant::new(texts.clone()),
            Self::Flag(flag) => Variant::new(*flag),
            Self::Signed(number) => Variant::new(*number),
            Self::Small(number) => Variant::new(*number),
            Self::Number(number) => Variant::new(*number),
            Self::Commands(commands) => {
                let commands = commands.iter().cloned();
                let each = commands.map(|command| (command.path, command.arguments, command.may_fail));
                Variant::new(each.collect::<Vec<_>>())
            }
        }
    }
}
