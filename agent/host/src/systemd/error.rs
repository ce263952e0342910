//! What systemd did not do, and why.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// The reason why systemd did not do what it was asked for.
#[derive(Debug, Error)]
pub enum SystemdError {
    /// Another init, or none.
    #[error("systemd does not run on this node, and this needs it")]
    Absent,
    /// systemd without a bus.
    #[error("there is no {}: install dbus, which systemd is spoken to over", .socket.display())]
    NoBus { socket: PathBuf },
    /// The socket is there, and nobody answers as we can.
    #[error("cannot talk to systemd at {}: {source}", .socket.display())]
    Connect {
        socket: PathBuf,
        /// As the library says.
        source: zbus::Error,
    },
    #[error("systemd does not {doing}: {message}")]
    Refused {
        /// What was asked for.
        doing: String,
        /// The error's name on D-Bus.
        name: String,
        message: String,
    },
    #[error("systemd was to {doing} and did not answer in time")]
    NoAnswer {
        /// What was asked for.
        doing: String,
    },
    /// The job goes on.
    #[error("systemd was to {doing} and has not ended after {} s", .within.as_secs())]
    TooLong {
        /// What was asked for.
        doing: String,
        /// How long was waited.
        within: Duration,
    },
    #[error("systemd was to {doing}, and the conversation with it ended")]
    Closed {
        /// What was asked for.
        doing: String,
    },
    /// The conversation broke, or something in it could not be read.
    #[error("systemd was to {doing}: {source}")]
    Lost {
        /// What was asked for.
        doing: String,
        /// As the library says.
        source: zbus::Error,
    },
}

impl SystemdError {
    pub(super) fn of(doing: String, error: zbus::Error) -> Self {
        match error {
            zbus::Error::MethodError(name, message, _) => {
                let message = message.unwrap_or_else(|| name.to_string());
                Self::Refused { doing, name: name.to_string(), message }
            }
            zbus::Error::FDO(error) => {
                let text = error.to_string();
                let (name, message) = text.split_once(": ").unwrap_or((&text, &text));
                Self::Refused { doing, name: name.to_owned(), message: message.to_owned() }
            }
            zbus::Error::InputOutput(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                Self::NoAnswer { doing }
            }
            source => Self::Lost { doing, source },
        }
    }

    /// There is no unit of that name, or no file of it.
    pub fn is_no_such_unit(&self) -> bool {
        let Self::Refused { name, .. } = self else { return false };
        ["org.freedesktop.systemd1.NoSuchUnit", "org.freedesktop.DBus.Error.FileNotFound"]
            .contains(&name.as_str())
    }

    /// There is a unit of that name already.
    pub fn is_unit_exists(&self) -> bool {
        matches!(self, Self::Refused { name, .. } if name == "org.freedesktop.systemd1.UnitExists")
    }
}
