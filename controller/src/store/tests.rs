//! What is written is read again.

use muster_engine::NewToken;
use muster_engine::record::{Change, TokenRecord};

use super::{Sqlite, Store as _};

#[test]
fn a_token_is_kept_with_all_it_allows() {
    let folder = tempfile::tempdir().unwrap();
    let (database, key) = (folder.path().join("muster.db"), folder.path().join("key"));
    let token = |id: u8, name: Option<&str>, rate: Option<&str>| TokenRecord {
        token: NewToken {
            id: [id; 8],
            secret_hash: [id; 32],
            expires: 7,
            uses: 3,
            name: name.map(str::to_owned),
            labels: [("role".to_owned(), "web".to_owned())].into(),
            rate: rate.map(|rate| rate.parse().unwrap()),
        },
        uses_left: 2,
    };
    let tokens = [token(1, None, None), token(2, Some("web-*"), Some("30/m"))];
    let mut changes = tokens.iter().cloned().map(|token| Change::Token(Box::new(token)));
    Sqlite::open(&database, &key).unwrap().commit(&mut changes, &[]).unwrap();
    assert_eq!(Sqlite::open(&database, &key).unwrap().load().unwrap().tokens, tokens);
}
