//! A switch that behaves as no switch should: what it can do to a change.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use muster_host::openflow::Outcome;
use muster_shared::model::flow::Entry;

use crate::rules::{rule, to};
use crate::table::put;
use crate::with_switch_in;

const HELLO: u8 = 0;
const ERROR: u8 = 1;
const MULTIPART: u8 = 18;
const BARRIER: u8 = 20;
const BUNDLE: u8 = 33;
const CLOSE: u16 = 2;
const COMMIT: u16 = 4;

/// A message as it came: kind, number, body.
struct Message(u8, u32, Vec<u8>);

struct OddSwitch(UnixStream);

impl OddSwitch {
    fn receive(&mut self) -> Option<Message> {
        let mut head = [0; 8];
        self.0.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let mut body = vec![0; length - 8];
        self.0.read_exact(&mut body).ok()?;
        Some(Message(head[1], u32::from_be_bytes([head[4], head[5], head[6], head[7]]), body))
    }

    fn say(&mut self, kind: u8, xid: u32, body: &[u8]) {
        let length = u16::try_from(body.len() + 8).unwrap();
        let head = [&[5, kind][..], &length.to_be_bytes(), &xid.to_be_bytes()].concat();
        // The other end may have hung up.
        let _ = self.0.write_all(&[&head, body].concat());
    }
}

/// Runs `work` with a connection to a switch that has one port `p1`, no rules, and answers as `answer` says, which is
/// given what it does not answer by itself. What the switch was asked of bundles.
fn with_odd_switch(
    mut answer: impl FnMut(&mut OddSwitch, &Message) + Send + 'static,
    work: impl AsyncFnOnce(&mut muster_host::openflow::Switch),
) -> Receiver<u16> {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("br0.mgmt")).unwrap();
    let (tell, asked) = channel();
    let switch = thread::spawn(move || {
        let mut switch = OddSwitch(listener.accept().unwrap().0);
        switch.say(HELLO, 0, &[]);
        while let Some(message) = switch.receive() {
            let Message(kind, xid, body) = &message;
            match *kind {
                MULTIPART => {
                    let mut reply = [&body[..2], &[0; 6]].concat();
                    if body[..2] == [0, 13] {
                        let mut port = vec![0, 0, 0, 1, 0, 72, 0, 0];
                        port.resize(72, 0);
                        port[16..18].copy_from_slice(b"p1");
                        reply.extend(port);
                    }
                    if body[..2] != [0, 16] {
                        switch.say(19, *xid, &reply);
                    }
                }
                BARRIER => switch.say(21, *xid, &[]),
                BUNDLE => {
                    let what = u16::from_be_bytes([body[4], body[5]]);
                    tell.send(what).unwrap();
                    answer(&mut switch, &message);
                    let reply = [&body[..4], &(what + 1).to_be_bytes(), &body[6..8]].concat();
                    switch.say(BUNDLE, *xid, &reply);
                }
                _ => {}
            }
        }
    });
    with_switch_in(dir.path(), work);
    switch.join().unwrap();
    asked
}

/// Open vSwitch gives a bundle up after ten seconds without a message, and takes the next message for the beginning of
/// another of the same number.
#[test]
fn a_bundle_that_was_given_up_halfway_is_not_committed() {
    let mut opened = 0;
    let give_up = move |switch: &mut OddSwitch, message: &Message| match message {
        Message(_, xid, body) if body[4..6] == [0, 0] => opened = *xid,
        Message(_, _, body) if body[4..6] == CLOSE.to_be_bytes() => {
            switch.say(ERROR, opened, &[0, 17, 0, 14]);
        }
        _ => {}
    };
    let asked = with_odd_switch(give_up, async |switch| {
        let rules = [Entry::Rule(rule(1, &[], &[to("p1")])), Entry::Rule(rule(2, &[], &[to("p1")]))];
        let outcome = switch.apply(&mut put(&rules), async { Ok(()) }).await.unwrap();
        let Outcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
        assert!(refusal.reason.contains("OFPBFC_TIMEOUT"), "{refusal:?}");
        assert!(!refusal.permanent && refusal.id.is_none(), "{refusal:?}");
    });
    assert!(!asked.iter().any(|what| what == COMMIT));
}
