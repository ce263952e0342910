//! Failures of systemd's operations.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// The reason why a request to systemd failed.
#[derive(Debug, Error)]
pub enum SystemdError {
    /// The server has another init, or none.
    #[error("systemd does not run on this node, and this needs it")]
    Absent,
    /// systemd without a bus.
    #[error("there is no {}: install dbus, which systemd is spoken to over", .socket.display())]
    NoBus { socket: PathBuf },
    /// The socket exists, but no usable peer answers.
    #[error("cannot talk to systemd at {}: {source}", .socket.display())]
    Connect {
        socket: PathBuf,
        /// The library's error.
        source: zbus::Error,
    },
    #[error("systemd does not {doing}: {message}")]
    Refused {
        /// The requested operation.
        doing: String,
        /// The error's name on D-Bus.
        name: String,
        message: String,
    },
    #[error("systemd was to {doing} and did not answer in time")]
    NoAnswer {
        /// The requested operation.
        doing: String,
    },
    /// The job goes on.
    #[error("systemd was to {doing} and has not ended after {} s", .within.as_secs())]
    TooLong {
        /// The requested operation.
        doing: String,
        /// The time waited.
        within: Duration,
    },
    #[error("systemd was to {doing}, and the conversation with it ended")]
    Closed {
        /// The requested operation.
        doing: String,
    },
    /// The conversation broke, or something in it could not be read.
    #[error("systemd was to {doing}: {source}")]
    Lost {
        /// The requested operation.
        doing: String,
        /// The library's error.
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

    /// There is no unit of that name, or no file for it.
    pub fn is_no_such_unit(&self) -> bool {
        let Self::Refused { name, .. } = self else { return false };
        ["org.freedesktop.systemd1.NoSuchUnit", "org.freedesktop.DBus.Error.FileNotFound"]
            .contains(&name.as_str())
    }

    /// A unit of that name exists already.
    pub fn is_unit_exists(&self) -> bool {
        matches!(self, Self::Refused { name, .. } if name == "org.freedesktop.systemd1.UnitExists")
    }
}
