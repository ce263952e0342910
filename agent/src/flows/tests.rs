//! The task of a device, on a switch that answers what a test tells it to.

use std::cell::RefCell;
use std::io::ErrorKind;

use muster_agent_core::{NotApplied, Op};
use muster_shared::model::flow::{Entry, FlowId, Group, GroupKind, Ops, Packed};
use muster_shared::seal::SealPublic;
use muster_shared::{Epoch, Generation};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, yield_now};

use super::*;

const MULTIPART: u8 = 18;
const BARRIER: u8 = 20;
const BUNDLE: u8 = 33;
const FLOW: u8 = 1;
const GROUP_DESC: u8 = 7;
const MONITOR: u8 = 16;
const COMMIT: u8 = 4;

fn br0() -> Bridge {
    "br0".parse().unwrap()
}

fn number(number: u64) -> Generation {
    Generation { epoch: Epoch(1), number }
}

fn identity() -> Identity {
    Identity {
        site: "lab".parse().unwrap(),
        node: "web-1".parse().unwrap(),
        addresses: vec!["127.0.0.1:8883".parse().unwrap()],
        ca_der: Vec::new(),
        certificate_der: Vec::new(),
        key_der: Vec::new(),
        seal_secret: [0; 32],
        controller_seal: SealPublic([0; 32]),
        issued: 0,
        not_after: 0,
        broker: None,
    }
}

fn flows(dir: &Path) -> Flows {
    let logs = dir.join("flows");
    fs::create_dir_all(&logs).unwrap();
    Flows::new(logs, dir.to_owned(), identity(), dir.to_owned()).unwrap().0
}

fn group() -> Entry {
    Entry::Group(Group { number: 5, kind: GroupKind::All, buckets: Vec::new() })
}

/// A batch that puts that group: it is in the log.
fn append(flows: &mut Flows) -> Arc<Vec<Op>> {
    let entry = group();
    let mut ops = Ops::default();
    ops.put(entry.id(&"web-1/br0".parse().unwrap()), &Packed::new(&entry).unwrap());
    let ops = Content::Inline(ops.into_bytes());
    let append = FlowEffect::Append { generation: number(1), ops, guard: false };
    match flows.execute(&br0(), append, None) {
        Some(FlowInput::Appended { result: Ok(appended), .. }) => Arc::new(appended.ops),
        other => panic!("{other:?}"),
    }
}

/// A message of the agent's: kind, number, body.
type Message = (u8, [u8; 4], Vec<u8>);

/// The switch's side of a connection.
struct Peer(UnixStream);

impl Peer {
    async fn accept(listener: &UnixListener) -> Self {
        let mut peer = Self(listener.accept().await.unwrap().0);
        peer.say(0, [0; 4], &[]).await;
        peer
    }

    async fn receive(&mut self) -> Option<Message> {
        let mut head = [0; 8];
        self.0.read_exact(&mut head).await.ok()?;
        let mut body = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]])) - 8];
        self.0.read_exact(&mut body).await.ok()?;
        Some((head[1], [head[4], head[5], head[6], head[7]], body))
    }

    async fn say(&mut self, kind: u8, xid: [u8; 4], body: &[u8]) {
        let length = u16::try_from(body.len() + 8).unwrap().to_be_bytes();
        let message = [&[5, kind][..], &length, &xid, body].concat();
        if let Err(error) = self.0.write_all(&message).await {
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        }
    }

    /// As a switch with these entries, and nothing else; until it is asked something for which `until`
    /// is true.
    async fn answer(&mut self, groups: &[u8], until: impl Fn(u8, &[u8]) -> bool) -> Option<Message> {
        loop {
            let (kind, xid, body) = self.receive().await?;
            if until(kind, &body) {
                return Some((kind, xid, body));
            }
            match kind {
                MULTIPART if body[1] == MONITOR => {}
                MULTIPART => {
                    let entries = if body[1] == GROUP_DESC { groups } else { &[] };
                    let answer = [&body[..2], &[0; 6], entries].concat();
                    self.say(19, xid, &answer).await;
                }
                BARRIER => self.say(21, xid, &[]).await,
                BUNDLE => {
                    let answer = [&body[..5], &[body[5] + 1], &body[6..8]].concat();
                    self.say(BUNDLE, xid, &answer).await;
                }
                _ => {}
            }
        }
    }
}

/// Runs a test with the tables of a node, and where its switch listens.
fn with_flows(test: impl AsyncFnOnce(Flows, UnixListener)) {
    let dir = TempDir::new().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let listener = UnixListener::bind(dir.path().join("br0.mgmt")).unwrap();
        let mut flows = flows(dir.path());
        assert!(flows.execute(&br0(), FlowEffect::Watch, None).is_none());
        test(flows, listener).await;
    });
}

/// The result of work for the switch.
async fn said(flows: &mut Flows) -> FlowInput {
    flows.said().await.1
}

fn is_flow_question(kind: u8, body: &[u8]) -> bool {
    kind == MULTIPART && body[1] == FLOW
}

#[test]
fn what_is_cancelled_is_that_and_no_question() {
    with_flows(async |mut flows, listener| {
        append(&mut flows);
        let accepted = async { Peer::accept(&listener).await };
        let mut peer = accepted.await;
        let mut ask = |effect| assert!(flows.execute(&br0(), effect, None).is_none());
        ask(FlowEffect::Count { number: 1 });
        let (_, xid, body) = peer.answer(&[], is_flow_question).await.unwrap();
        // The table is being counted; a cancelled read waits behind it.
        let (kept, odd) = <(Arc<Vec<TableEntry>>, Arc<_>)>::default();
        ask(FlowEffect::Compare { number: 7, kept: Arc::clone(&kept), odd: Arc::clone(&odd) });
        ask(FlowEffect::Cancel { number: 7 });
        ask(FlowEffect::Compare { number: 8, kept, odd });
        for _ in 0..8 {
            yield_now().await;
        }
        peer.say(19, xid, &[&body[..2], &[0; 6][..]].concat()).await;
        let served = async { while peer.answer(&[], |_, _| false).await.is_some() {} };
        let heard = RefCell::new(Vec::new());
        let heard_all = async {
            while heard.borrow().len() < 3 {
                let input = said(&mut flows).await;
                heard.borrow_mut().push(match input {
                    FlowInput::Back => "back".to_owned(),
                    FlowInput::Counted { number, .. } => format!("counted {number}"),
                    FlowInput::Compared { number, .. } => format!("compared {number}"),
                    other => panic!("{other:?}"),
                });
            }
        };
        tokio::select! { () = served => {}, () = heard_all => {} }
        assert_eq!(heard.into_inner(), ["back", "counted 1", "compared 8"]);
    });
}

/// The switch took the change and the connection broke before it could say so.
#[test]
fn a_retried_change_is_not_refused_for_its_own_entries() {
    with_flows(async |mut flows, listener| {
        let ops = append(&mut flows);
        let there = [&[0, 8][..], &[0, 0], &[0, 0, 0, 5]].concat();
        let switch = async {
            let mut peer = Peer::accept(&listener).await;
            let is_commit = |kind: u8, body: &[u8]| kind == BUNDLE && body[5] == COMMIT;
            assert!(peer.answer(&[], is_commit).await.is_some());
            drop(peer);
            let mut peer = Peer::accept(&listener).await;
            while peer.answer(&there, |_, _| false).await.is_some() {}
        };
        let agent = async {
            let mut results = Vec::new();
            while results.len() < 2 {
                match said(&mut flows).await {
                    FlowInput::Back => {
                        let apply = FlowEffect::Apply { number: 1, ops: Arc::clone(&ops), take_over: true };
                        assert!(flows.execute(&br0(), apply, None).is_none());
                    }
                    FlowInput::Applied { result, .. } => results.push(result),
                    FlowInput::Gone { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            assert!(matches!(results[0], Err(NotApplied::Gone { .. })), "{results:?}");
            assert!(results[1].is_ok(), "{results:?}");
        };
        tokio::select! { () = switch => panic!("it hung up"), () = agent => {} }
    });
}

#[test]
fn what_needs_a_log_is_answered_also_where_there_is_none() {
    let dir = TempDir::new().unwrap();
    let mut flows = flows(dir.path());
    // The log cannot be opened, as on a disk that is full.
    fs::create_dir(dir.path().join("flows/br0")).unwrap();
    let ops = Content::Inline(Vec::new());
    let append = FlowEffect::Append { generation: number(1), ops, guard: false };
    let appended = flows.execute(&br0(), append, None);
    assert!(matches!(appended, Some(FlowInput::Appended { result: Err(_), .. })), "{appended:?}");
    let (kept, odd) = Default::default();
    let compared = flows.execute(&br0(), FlowEffect::Compare { number: 1, kept, odd }, None);
    assert!(matches!(compared, Some(FlowInput::Compared { number: 1, result: Err(_) })), "{compared:?}");
    let put = vec![TableEntry {
        id: FlowId(0),
        digest: 0,
        at: 0,
        length: 0,
        state: muster_shared::model::flow::EntryState::Present,
    }];
    let repaired = flows.execute(&br0(), FlowEffect::Repair { number: 2, put, remove: Vec::new() }, None);
    assert!(matches!(repaired, Some(FlowInput::Repaired { number: 2, result: Err(_) })), "{repaired:?}");
}
