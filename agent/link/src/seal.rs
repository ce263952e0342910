//! The seal of this node, and what its last session over a direct link has left for the next one. Both live as long as
//! the process.
//!
//! Absent: how a session begins with that (`shared/src/seal/greeting.rs`), and how old it may be
//! (`shared/src/seal/resumption.rs`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_shared::MonoTime;
use muster_shared::seal::{Again, Greeting, PacketError, Random, Seal, Session};

/// See the module's head.
pub struct NodeSeal {
    seal: Arc<Seal>,
    again: Mutex<Option<Again>>,
}

impl<S: Into<Arc<Seal>>> From<S> for NodeSeal {
    fn from(seal: S) -> Self {
        Self { seal: seal.into(), again: Mutex::default() }
    }
}

impl NodeSeal {
    /// Greets a controller; `takes_again`: it has said that a session may begin with what the one before has left.
    ///
    /// # Errors
    /// [`PacketError::Seal`] for an unsound key of the controller.
    pub fn greet(&self, random: Random, takes_again: bool, now: MonoTime) -> Result<Greeting, PacketError> {
        // Gone from here on, whatever comes of the greeting.
        let again = self.lock().take().filter(|again| !again.is_old(now));
        match takes_again {
            true => self.seal.greet_again(random, again),
            false => self.seal.greet(random),
        }
    }

    /// The session, if this is the answer to the greeting.
    ///
    /// # Errors
    /// [`PacketError`]: it is not.
    pub fn accept(&self, greeting: &Greeting, packet: &[u8], now: MonoTime) -> Result<Session, PacketError> {
        let mut session = greeting.accept(&self.seal, packet)?;
        *self.lock() = session.take_again(now);
        Ok(session)
    }

    /// A single statement changes it: a panic elsewhere leaves it whole.
    fn lock(&self) -> MutexGuard<'_, Option<Again>> {
        self.again.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_shared::seal::{ControllerEnd, Opened, SealSecret};

    use super::*;

    /// The kinds of greetings: their second bytes.
    const WHOLE: u8 = 1;
    const AGAIN: u8 = 4;

    /// As old as anything gets.
    const OLD: Duration = Duration::from_secs(12 * 3600);

    fn seal(mine: u8, theirs: u8) -> Seal {
        let [mine, theirs] = [mine, theirs].map(|byte| SealSecret::from_bytes([byte; 32]));
        Seal::new(&mine, &theirs.public(), &"lab".parse().unwrap(), &"web-1".parse().unwrap())
    }

    /// Connects at this time; returns the kind of the greeting.
    fn connect(node: &NodeSeal, fresh: u8, takes_again: bool, now: MonoTime) -> u8 {
        let greeting = node.greet([fresh; 32], takes_again, now).unwrap();
        // A controller that has nothing takes each greeting, and leaves what the node asks for.
        let mut end = ControllerEnd::following(seal(2, 1), None);
        let opened = end.open(greeting.packet(), || Some([fresh + 1; 32])).unwrap();
        let Opened::Greeting { answer } = opened else { panic!("an answer") };
        node.accept(&greeting, &answer, now).unwrap();
        greeting.packet()[1]
    }

    #[test]
    fn a_session_follows_the_last_one_of_a_direct_link() {
        let second = Duration::from_secs(1);
        for (what, takes_again, after, kind) in [
            ("at once", [true, true], Duration::ZERO, AGAIN),
            ("before it is old", [true, true], OLD - second, AGAIN),
            ("when it is old", [true, true], OLD, WHOLE),
            ("to a controller that does not take it", [true, false], Duration::ZERO, WHOLE),
            ("after a session through a broker", [false, true], Duration::ZERO, WHOLE),
        ] {
            let node = NodeSeal::from(seal(1, 2));
            assert_eq!(connect(&node, 10, takes_again[0], MonoTime(OLD)), WHOLE, "{what}");
            assert_eq!(node.lock().is_some(), takes_again[0], "{what}");
            assert_eq!(connect(&node, 20, takes_again[1], MonoTime(OLD + after)), kind, "{what}");
            assert_eq!(node.lock().is_some(), takes_again[1], "{what}");
        }
    }

    #[test]
    fn what_a_session_left_goes_with_the_next_greeting() {
        for takes_again in [true, false] {
            let node = NodeSeal::from(seal(1, 2));
            connect(&node, 10, true, MonoTime::default());
            node.greet([20; 32], takes_again, MonoTime::default()).unwrap();
            assert!(node.lock().is_none());
        }
    }
}
