//! The names of this host and of its users.

use nix::unistd::{Uid, User, gethostname};

/// The name that the kernel has; `localhost` where it has none that is a text.
pub fn host_name() -> String {
    gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "localhost".to_owned())
}

/// The user's name, or `uid 7` where nobody has that number. Looking it up may take time, as where a directory is asked.
pub fn user_name(uid: Uid) -> String {
    let user = User::from_uid(uid).ok().flatten();
    user.map_or_else(|| format!("uid {uid}"), |user| user.name)
}
