//! Join tokens: which server may join with which token, how often and how fast.
//!
//! Absent: how long one is valid. The default is the command line's (`controller/cli/src/node.rs`), the most is the
//! API's (`controller/src/api/token.rs`).

mod pace;

use std::collections::BTreeMap;

use muster_shared::pattern::matches_host;
use muster_shared::{MonoTime, NodeId};

use self::pace::Pace;
use crate::node::requests::{LABELS_MAX, check_label};
use crate::record::{Change, TokenRecord};
use crate::request::{JoinAsk, NewToken, Refusal};

/// Open tokens. Making one looks at all of them.
pub(crate) const TOKENS_MAX: usize = 10_000;

/// Id of a token in the store.
type TokenId = [u8; 8];

#[derive(Debug, Default)]
pub(crate) struct Tokens {
    open: BTreeMap<TokenId, TokenRecord>,
    /// The pace of joins with each used token that has a rate.
    paces: BTreeMap<TokenId, Pace>,
}

impl Tokens {
    pub fn load(&mut self, record: TokenRecord) {
        self.open.insert(record.token.id, record);
    }

    pub fn iter(&self) -> impl Iterator<Item = &TokenRecord> {
        self.open.values()
    }

    /// Checks a new token, as far as it does not depend on nodes.
    ///
    /// # Errors
    /// The token is invalid, or too many are open.
    pub fn check(&self, token: &NewToken, most: usize) -> Result<(), Refusal> {
        if self.open.len() >= most {
            return Err(Refusal::Conflict(format!(
                "{most} join tokens are open: revoke some with 'muster node token-revoke'"
            )));
        }
        if token.uses == 0 || token.labels.len() > LABELS_MAX {
            return Err(Refusal::Invalid(format!(
                "a token has at least one use and at most {LABELS_MAX} labels"
            )));
        }
        token.labels.iter().try_for_each(|(key, value)| check_label(key, value))
    }

    /// Opens a token. Returns the change to persist.
    pub fn add(&mut self, token: NewToken) -> Change {
        let record = TokenRecord { uses_left: token.uses, token };
        self.open.insert(record.token.id, record.clone());
        Change::Token(Box::new(record))
    }

    /// Closes a token. `None`: it is not open.
    pub fn remove(&mut self, id: TokenId) -> Option<Change> {
        self.paces.remove(&id);
        self.open.remove(&id).map(|_| Change::TokenRemoved(id))
    }

    /// Closes tokens that expired before `wall`, in seconds since 1970.
    pub fn remove_expired(&mut self, wall: u64) -> Vec<Change> {
        self.remove_if(|token| token.expires < wall)
    }

    /// Closes tokens for this node only.
    pub fn remove_bound_to(&mut self, node: &NodeId) -> Vec<Change> {
        self.remove_if(|token| token.name.as_deref() == Some(node.as_str()))
    }

    fn remove_if(&mut self, goes: impl Fn(&NewToken) -> bool) -> Vec<Change> {
        let going = self.open.values().map(|record| &record.token).filter(|token| goes(token));
        let going: Vec<TokenId> = going.map(|token| token.id).collect();
        going.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Whether a server may join with its token. `has_joined`: a node of this name has joined, or
    /// was removed and something may be left on it.
    ///
    /// # Errors
    /// The token is not open, has expired, or is for another name; or its secret is wrong. A node that moves here has
    /// a name that is taken.
    pub fn admits(&self, ask: &JoinAsk, has_joined: bool) -> Result<(), Refusal> {
        let refuse = |why: &str| Err(Refusal::Conflict(why.to_owned()));
        let Some(TokenRecord { token, .. }) = self.open.get(&ask.token_id) else {
            return refuse("the join token is unknown, expired, revoked or used up: ask for a new one");
        };
        if token.secret_hash != ask.secret.digest() {
            return refuse("the join token's secret is wrong: copy the token whole");
        }
        if ask.wall > token.expires {
            return refuse("the join token has expired: ask for a new one");
        }
        if let Some(pattern) = token.name.as_deref().filter(|p| !matches_host(p, ask.name.as_str())) {
            let stops = if pattern.contains('*') { " ('*' stops at dots)" } else { "" };
            return Err(Refusal::Conflict(format!(
                "the join token is for '{pattern}', not for '{}'{stops}: give this server such a name (--name), or \
                 make a token for its name",
                ask.name
            )));
        }
        // A token for its name lets a node join again, and would let another server take its place.
        if has_joined && ask.moves {
            return Err(Refusal::Conflict(format!(
                "this site has a node '{0}' already, so no other can move here under that name: if it is gone, or was left \
                 by a move that did not end, remove it first: muster node remove {0}",
                ask.name
            )));
        }
        if has_joined && token.name.as_deref() != Some(ask.name.as_str()) {
            return Err(Refusal::Conflict(format!(
                "'{}' has joined before: to join again it needs a token for that name (--name {})",
                ask.name, ask.name
            )));
        }
        Ok(())
    }

    /// Uses an open token once. Returns its labels and the change to persist.
    ///
    /// # Errors
    /// The rate of the token is used up. Says when to ask again.
    pub fn take(
        &mut self,
        id: TokenId,
        now: MonoTime,
    ) -> Result<(BTreeMap<String, String>, Change), Refusal> {
        let Some(record) = self.open.get_mut(&id) else {
            return Err(Refusal::NotFound("no such token: see 'muster node tokens'".into()));
        };
        if let Some(rate) = record.token.rate
            && let Err(after) = self.paces.entry(id).or_default().take(rate, now)
        {
            let why = format!("the join token lets {rate} join, and others come first");
            return Err(Refusal::Later { why, after });
        }
        record.uses_left = record.uses_left.saturating_sub(1);
        let labels = record.token.labels.clone();
        let change = Change::Token(Box::new(record.clone()));
        let used_up = if record.uses_left == 0 { self.remove(id) } else { None };
        Ok((labels, used_up.unwrap_or(change)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_shared::join::TokenSecret;
    use muster_shared::seal::SealPublic;

    use super::*;

    fn token(id: u8, name: Option<&str>, uses: u32) -> NewToken {
        NewToken {
            id: [id; 8],
            secret_hash: TokenSecret([id; 16]).digest(),
            expires: 100,
            uses,
            name: name.map(str::to_owned),
            labels: [("rack".to_owned(), format!("r{id}"))].into(),
            rate: None,
        }
    }

    fn ask(id: u8, secret: u8, name: &str, wall: u64) -> JoinAsk {
        JoinAsk {
            token_id: [id; 8],
            secret: TokenSecret([secret; 16]),
            name: name.parse().unwrap(),
            seal_public: SealPublic([1; 32]),
            agent_version: "1".into(),
            moves: false,
            wall,
        }
    }

    #[test]
    fn a_token_admits_whom_it_is_for() {
        let mut tokens = Tokens::default();
        tokens.add(token(1, None, 1));
        tokens.add(token(2, Some("web-*"), 1));
        tokens.add(token(3, Some("web-1"), 1));
        for (what, ask, has_joined, refused) in [
            ("for any name", ask(1, 1, "db", 100), false, None),
            ("no such", ask(9, 9, "db", 0), false, Some("unknown")),
            ("another's secret", ask(1, 2, "db", 0), false, Some("secret is wrong")),
            ("too late", ask(1, 1, "db", 101), false, Some("has expired")),
            ("the pattern", ask(2, 2, "web-7", 0), false, None),
            ("beyond a dot", ask(2, 2, "web-7.example", 0), false, Some("stops at dots")),
            ("another name", ask(3, 3, "web-2", 0), false, Some("not for 'web-2'")),
            ("again, with any token", ask(2, 2, "web-1", 0), true, Some("has joined before")),
            ("again, with its own", ask(3, 3, "web-1", 0), true, None),
            ("from another site", JoinAsk { moves: true, ..ask(3, 3, "web-1", 0) }, false, None),
            ("with a name of here", JoinAsk { moves: true, ..ask(3, 3, "web-1", 0) }, true, Some("already")),
        ] {
            match (tokens.admits(&ask, has_joined), refused) {
                (Ok(()), None) => {}
                (Err(why), Some(part)) => assert!(why.to_string().contains(part), "{what}: {why}"),
                (other, _) => panic!("{what}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_token_is_used_as_often_and_as_fast_as_it_says() {
        let mut tokens = Tokens::default();
        tokens.add(NewToken { rate: Some("1/s".parse().unwrap()), ..token(1, None, 2) });
        let at = |seconds| MonoTime(Duration::from_secs(seconds));
        let (labels, change) = tokens.take([1; 8], at(0)).unwrap();
        assert_eq!(labels["rack"], "r1");
        assert!(matches!(change, Change::Token(record) if record.uses_left == 1));
        assert!(matches!(tokens.take([1; 8], at(0)), Err(Refusal::Later { .. })), "too fast");
        assert!(matches!(tokens.take([1; 8], at(1)), Ok((_, Change::TokenRemoved(_)))), "the last use");
        assert!(matches!(tokens.take([1; 8], at(9)), Err(Refusal::NotFound(_))), "used up");
    }

    #[test]
    fn tokens_go_that_nobody_can_use() {
        let mut tokens = Tokens::default();
        tokens.add(NewToken { expires: 50, ..token(1, None, 1) });
        tokens.add(token(2, Some("web-1"), 1));
        tokens.add(token(3, Some("web-*"), 1));
        assert_eq!(tokens.remove_expired(51).len(), 1);
        assert_eq!(tokens.remove_bound_to(&"web-1".parse().unwrap()).len(), 1);
        assert!(tokens.remove([3; 8]).is_some() && tokens.remove([3; 8]).is_none());
        assert!(tokens.check(&token(4, None, 1), 1).is_ok() && tokens.check(&token(4, None, 0), 1).is_err());
        tokens.add(token(4, None, 1));
        assert!(
            tokens.check(&token(5, None, 1), 1).unwrap_err().to_string().contains("1 join tokens are open")
        );
    }
}
