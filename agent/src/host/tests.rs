use std::fs;

use muster_agent_core::Applied;
use muster_host::files::Kept;
use muster_host::net::HostConfig;
use muster_shared::model::ContentDigest;
use muster_shared::{Epoch, Generation};
use uuid::Uuid;

use super::*;

fn file() -> Spec {
    Spec::File(File {
        path: "/etc/large".into(),
        content: Content::Inline(Vec::new()),
        mode: 0o644,
        owner: None,
        group: None,
        on_delete: OnDelete::Restore,
    })
}

fn entry(n: u128, kept: Option<ContentDigest>) -> Entry {
    let generation = Generation { epoch: Epoch(1), number: 1 };
    let before =
        kept.map(|digest| FileBefore::Present { mode: 0, uid: 0, gid: 0, content: Kept::Aside(digest) });
    Entry {
        before: before.map(|before| Before(before.encode())),
        applied: Some(Applied { generation, spec: file() }),
        ..Entry::new(ResourceId(Uuid::from_u128(n)))
    }
}

#[test]
fn what_was_kept_aside_goes_with_the_last_that_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host {
        files: Files::new(dir.path().to_owned()),
        network: Network::new(HostConfig::default()),
        contents: dir.path().to_owned(),
    };
    let (gone, needed) = (ContentDigest::of(b"gone"), ContentDigest::of(b"needed"));
    for digest in [gone, needed] {
        fs::write(dir.path().join(digest.to_string()), b"x").unwrap();
    }
    let there = |digest: ContentDigest| dir.path().join(digest.to_string()).exists();
    let unsure = Entry { applied: None, ..entry(3, Some(gone)) };
    host.sweep([&entry(1, Some(needed)), &unsure].into_iter()).unwrap();
    assert!(there(gone) && there(needed), "a failed job's record says nothing of its type");
    host.sweep([&entry(1, Some(needed)), &entry(2, None)].into_iter()).unwrap();
    assert!(!there(gone) && there(needed));
}
