//! Moves to other sites, as bytes.

use super::*;
use crate::join::{JoinToken, TOKEN_MAX, TokenId, TokenSecret};
use crate::model::MoveOutcome;

pub fn down() -> Down {
    Down::Move(Box::new(token()))
}

pub fn ups() -> [Up; 2] {
    [Up::Moved(MoveOutcome::Left), Up::Moved(MoveOutcome::Stays { reason: "expired".into() })]
}

fn token() -> JoinToken {
    JoinToken {
        site: "lab-b".parse().unwrap(),
        addresses: vec!["c1.example.org:8883".parse().unwrap()],
        ca_fingerprint: [6; 32],
        id: TokenId([0xab; 8]),
        secret: TokenSecret([0x5e; 16]),
        expires: 300,
        broker: None,
    }
}

#[test]
fn a_move_out_of_bounds_is_refused() {
    let read = |body: v1::Down| read_body::<Down>(&postcard::to_stdvec(&vec![body]).unwrap());
    for text in ["x".repeat(TOKEN_MAX + 1), "muster1-x".into(), String::new()] {
        assert_eq!(read(v1::Down::Move(text)), Err(WireError::Bounds { field: "token" }));
    }
    let shown = format!("{:?}", Down::Move(Box::new(token())));
    assert!(shown.contains("lab-b") && !shown.contains("94, 94"), "{shown}");
}
