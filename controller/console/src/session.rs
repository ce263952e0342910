//! Sessions: who is logged in with which browser. A session is known by a random id, of which a digest is kept; it has the
//! user's token, for the API asks for that with each request. It ends when it is not used, after a day's work in any case,
//! and with the controller.
//!
//! Absent: cookies and the form (`login.rs`), and whether the token still counts, which the API says.

use std::collections::BTreeMap;
use std::time::Duration;

/// A session that nobody uses for this long has ended.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// No session is longer.
pub const LONGEST: Duration = Duration::from_secs(12 * 3600);
/// The most sessions of one user: with a further one, the one that was not used for the longest time ends.
const OF_USER_MAX: usize = 16;
/// The most sessions in all.
const MAX: usize = 1024;

/// The value of the browser's cookie.
pub type Id = [u8; 32];

/// A user who is logged in.
#[derive(Clone)]
pub struct Session {
    /// The user's name.
    pub user: String,
    /// The user's token: what the API asks for.
    pub token: String,
    /// The key that each form must have: another site's page does not know it.
    pub form_key: String,
    begun: Duration,
    used: Duration,
}

impl Session {
    /// A session of a user with this token.
    pub fn new(user: String, token: String, form_key: String) -> Self {
        Self { user, token, form_key, begun: Duration::ZERO, used: Duration::ZERO }
    }

    fn has_ended(&self, now: Duration) -> bool {
        now.saturating_sub(self.used) > IDLE_MAX || now.saturating_sub(self.begun) > LONGEST
    }
}

/// Whether a request tells that somebody is at the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A click.
    Person,
    /// A page that is kept up to date.
    Page,
}

/// The sessions. `now` is the time since some moment.
#[derive(Default)]
pub struct Sessions(BTreeMap<[u8; 32], Session>);

impl Sessions {
    /// Begins a session.
    pub fn begin(&mut self, now: Duration, id: &Id, session: Session) {
        self.0.retain(|_, other| !other.has_ended(now));
        let of_user = self.0.values().filter(|other| other.user == session.user).count();
        if of_user >= OF_USER_MAX {
            self.end_oldest(|other| other.user == session.user);
        } else if self.0.len() >= MAX {
            self.end_oldest(|_| true);
        }
        self.0.insert(digest(id), Session { begun: now, used: now, ..session });
    }

    /// The session with this id, while it lasts.
    pub fn find(&mut self, now: Duration, id: &Id, by: Activity) -> Option<Session> {
        let session = self.0.get_mut(&digest(id))?;
        if session.has_ended(now) {
            self.end(id);
            return None;
        }
        if by == Activity::Person {
            session.used = now;
        }
        Some(session.clone())
    }

    /// The person of a session. Asking is no sign of life.
    pub fn user(&mut self, now: Duration, id: &Id) -> Option<String> {
        Some(self.find(now, id, Activity::Page)?.user)
    }

    /// Ends a session, if there is one.
    pub fn end(&mut self, id: &Id) {
        self.0.remove(&digest(id));
    }

    fn end_oldest(&mut self, which: impl Fn(&Session) -> bool) {
        let oldest =
            self.0.iter().filter(|(_, session)| which(session)).min_by_key(|(_, session)| session.used);
        if let Some(id) = oldest.map(|(id, _)| *id) {
            self.0.remove(&id);
        }
    }
}

/// The digest that is kept of an id: a reader of it cannot use the session.
fn digest(id: &Id) -> [u8; 32] {
    blake3::derive_key("muster 2026 console session", id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(user: &str) -> Session {
        Session::new(user.to_owned(), format!("token of {user}"), "key".to_owned())
    }

    fn minutes(count: u64) -> Duration {
        Duration::from_secs(60 * count)
    }

    #[test]
    fn a_session_lasts_while_somebody_uses_it() {
        for (uses, last, is_there) in [
            (&[][..], 30, true),
            (&[], 31, false),
            (&[(20, Activity::Person)], 50, true),
            (&[(20, Activity::Page)], 50, false),
            (&[(20, Activity::Person), (40, Activity::Person)], 71, false),
        ] {
            let mut sessions = Sessions::default();
            sessions.begin(Duration::ZERO, &[1; 32], session("anna"));
            for (at, by) in uses {
                assert!(sessions.find(minutes(*at), &[1; 32], *by).is_some());
            }
            assert_eq!(
                sessions.find(minutes(last), &[1; 32], Activity::Person).is_some(),
                is_there,
                "{uses:?} {last}"
            );
            assert!(sessions.find(minutes(last), &[2; 32], Activity::Person).is_none(), "another browser");
        }
        let mut sessions = Sessions::default();
        sessions.begin(Duration::ZERO, &[1; 32], session("anna"));
        let lasted = (0..24).all(|n| sessions.find(minutes(n * 30), &[1; 32], Activity::Person).is_some());
        assert!(lasted && sessions.find(minutes(12 * 60 + 1), &[1; 32], Activity::Person).is_none());
    }

    #[test]
    fn a_session_that_has_ended_is_not_there() {
        let mut sessions = Sessions::default();
        sessions.begin(Duration::ZERO, &[1; 32], session("anna"));
        sessions.end(&[1; 32]);
        assert!(sessions.find(Duration::ZERO, &[1; 32], Activity::Person).is_none());
    }

    #[test]
    fn there_are_only_so_many() {
        let mut sessions = Sessions::default();
        let id = |n: usize| {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&n.to_be_bytes());
            id
        };
        sessions.begin(Duration::ZERO, &id(9999), session("ben"));
        for n in 0..=OF_USER_MAX {
            sessions.begin(Duration::from_secs(n as u64), &id(n), session("anna"));
        }
        let now = Duration::from_secs(100);
        assert!(sessions.find(now, &id(0), Activity::Page).is_none(), "the oldest of that user has ended");
        assert!(sessions.find(now, &id(1), Activity::Page).is_some());
        assert!(sessions.find(now, &id(9999), Activity::Page).is_some(), "nobody else's");
        for n in 0..2 * MAX {
            sessions.begin(now, &id(10_000 + n), session(&format!("user {n}")));
        }
        assert_eq!(sessions.0.len(), MAX);
        assert!(sessions.find(now, &id(10_000 + 2 * MAX - 1), Activity::Page).is_some());
    }
}
