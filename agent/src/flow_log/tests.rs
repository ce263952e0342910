use muster_shared::model::flow::{Ops, Rule};

use super::*;

fn number(number: u64) -> Generation {
    Generation { epoch: Epoch(1), number }
}

fn id(n: u64) -> FlowId {
    FlowId(0x4d55 << 48 | n)
}

fn rule(priority: u16, hard_timeout: u16) -> Packed {
    let rule = Rule {
        table: 0,
        priority,
        selector: Vec::new(),
        treatment: Vec::new(),
        idle_timeout: 0,
        hard_timeout,
    };
    Packed::new(&Entry::Rule(rule)).unwrap()
}

fn ops(puts: &[(u64, u16)], removes: &[u64]) -> Vec<u8> {
    let mut ops = Ops::default();
    puts.iter().for_each(|(n, timeout)| ops.put(id(*n), &rule(*n as u16, *timeout)));
    removes.iter().for_each(|n| ops.remove(id(*n)));
    ops.into_bytes()
}

fn open(dir: &Path) -> (FlowLog, Loaded) {
    FlowLog::open(&dir.join("br0"), &"br0".parse().unwrap()).unwrap()
}

fn ids(loaded: &Loaded) -> Vec<u64> {
    loaded.kept.iter().map(|it| it.id.0 & 0xffff).collect()
}

fn entry(log: &FlowLog, it: &TableEntry) -> Vec<u8> {
    let mut bytes = vec![0; usize::from(it.length)];
    log.file().read_exact_at(&mut bytes, u64::from(it.at)).unwrap();
    bytes
}

#[test]
fn what_was_decided_is_there_again_and_what_was_not_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, loaded) = open(dir.path());
    assert_eq!((loaded.decided, loaded.kept.len()), (Generation::default(), 0));
    let appended = log.append(number(1), &ops(&[(1, 0), (2, 9)], &[]), false).unwrap();
    assert_eq!(appended[1].digest, rule(2, 9).digest());
    log.decide(number(1), None).unwrap();
    log.append(number(2), &ops(&[(3, 0)], &[1]), false).unwrap();
    let bad = FlowRefusal { id: Some(id(3)), reason: "no port".into(), permanent: true };
    log.decide(number(2), Some(&bad)).unwrap();
    log.expire(&[id(2)]).unwrap();
    log.filled(77).unwrap();
    log.append(number(3), &ops(&[(4, 0)], &[]), true).unwrap();
    drop(log);
    let (log, loaded) = open(dir.path());
    assert_eq!((ids(&loaded), loaded.decided), (vec![1, 2], number(2)));
    assert_eq!(loaded.refused, Some(bad));
    assert_eq!(loaded.kept[1].state, EntryState::Expired);
    assert_eq!(entry(&log, &loaded.kept[1]), rule(2, 9).bytes());
    assert_eq!((log.stamps().len(), log.instance()), (1, Some(77)));
    let undecided = loaded.undecided.unwrap();
    assert_eq!((undecided.generation, undecided.guarded, undecided.ops.len()), (number(3), true, 1));
}

#[test]
fn a_torn_end_is_cut_wherever_it_was_torn() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(dir.path());
    log.append(number(1), &ops(&[(1, 0)], &[]), false).unwrap();
    let whole = log.decide(number(1), None).unwrap();
    log.append(number(2), &ops(&[(2, 0)], &[]), false).unwrap();
    drop(log);
    let bytes = fs::read(dir.path().join("br0")).unwrap();
    for length in whole as usize..bytes.len() {
        fs::write(dir.path().join("br0"), &bytes[..length]).unwrap();
        let (mut log, loaded) = open(dir.path());
        assert_eq!((ids(&loaded), loaded.undecided, loaded.log), (vec![1], None, whole));
        log.append(number(2), &ops(&[(3, 0)], &[]), false).unwrap();
        log.decide(number(2), None).unwrap();
        drop(log);
        assert_eq!(ids(&open(dir.path()).1), [1, 3]);
    }
}

#[test]
fn a_bit_that_flips_ends_the_log_there() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(dir.path());
    log.append(number(1), &ops(&[(1, 0)], &[]), false).unwrap();
    let whole = log.decide(number(1), None).unwrap() as usize;
    log.append(number(2), &ops(&[(2, 0)], &[]), false).unwrap();
    drop(log);
    let bytes = fs::read(dir.path().join("br0")).unwrap();
    for at in whole..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        fs::write(dir.path().join("br0"), &bytes).unwrap();
        let (_, loaded) = open(dir.path());
        assert_eq!((ids(&loaded), loaded.undecided), (vec![1], None), "at {at}");
    }
}

#[test]
fn written_anew_it_says_the_same_and_is_smaller() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(dir.path());
    for n in 1..=50 {
        log.append(number(n), &ops(&[(1, 5), (2, 0), (n, 7)], &[])[..], false).unwrap();
        log.decide(number(n), None).unwrap();
    }
    log.expire(&[id(1)]).unwrap();
    log.filled(5).unwrap();
    drop(log);
    let (mut log, before) = open(dir.path());
    let stamps = log.stamps();
    let compacted = log.compact(&before.kept, before.decided, None).unwrap();
    assert!(compacted.log < before.log / 2);
    let at = compacted.at.clone();
    drop(log);
    let (log, after) = open(dir.path());
    assert_eq!(after.kept.iter().map(|it| it.at).collect::<Vec<_>>(), at);
    let without =
        |loaded: &Loaded| loaded.kept.iter().map(|it| TableEntry { at: 0, ..*it }).collect::<Vec<_>>();
    assert_eq!((without(&after), after.decided), (without(&before), before.decided));
    assert_eq!((log.stamps(), log.instance()), (stamps, Some(5)));
    assert_eq!(entry(&log, &after.kept[0]), rule(1, 5).bytes());
}

#[test]
fn what_was_forgotten_is_and_the_order_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(dir.path());
    log.append(number(1), &ops(&[(1, 0)], &[]), false).unwrap();
    log.decide(number(1), None).unwrap();
    log.forget(number(4)).unwrap();
    let (_, loaded) = open(dir.path());
    assert_eq!((loaded.kept.len(), loaded.decided, loaded.forgotten), (0, number(4), true));
}

#[test]
fn malformed_operations_are_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, loaded) = open(dir.path());
    let refused = log.append(number(1), &[9; 40], false).unwrap_err();
    assert!(refused.permanent, "{refused:?}");
    assert_eq!(fs::metadata(dir.path().join("br0")).unwrap().len(), loaded.log);
}

/// The log is rewritten on a disk that has room for all of it but its last record.
#[test]
fn a_full_disk_leaves_the_flow_log_and_its_entries_intact() {
    const PAGE: usize = 4096;
    let dir = tempfile::tempdir().unwrap();
    // A file system of this thread's own.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
    let run = |words: &str| {
        let mut words = words.split(' ');
        let status = std::process::Command::new(words.next().unwrap()).args(words).status().unwrap();
        assert!(status.success());
    };
    let at = dir.path().to_str().unwrap();
    run("mount --make-rprivate /");
    run(&format!("mount -t tmpfs -o size=1m tmpfs {at}"));
    let (mut log, _) = open(dir.path());
    let many: Vec<(u64, u16)> = (1..500).map(|n| (n, 0)).collect();
    log.append(number(1), &ops(&many, &[]), false).unwrap();
    log.decide(number(1), None).unwrap();
    log.filled(77).unwrap();
    drop(log);
    let (mut log, loaded) = open(dir.path());
    // So long a reason that what comes before the start of the switch fills a page.
    let anew = |log: &mut FlowLog, reason: usize| {
        let refused = FlowRefusal { id: None, reason: "x".repeat(reason), permanent: false };
        log.compact(&loaded.kept, loaded.decided, Some(&refused))
    };
    let instance = HEAD + packed_head(&Head::Instance(77)).len();
    let size = anew(&mut log, PAGE).unwrap().log as usize - instance;
    let reason = PAGE + size.next_multiple_of(PAGE) - size;
    drop(log);
    fs::remove_file(dir.path().join("br0")).unwrap();
    let (mut log, _) = open(dir.path());
    log.append(number(1), &ops(&many, &[]), false).unwrap();
    log.decide(number(1), None).unwrap();
    log.filled(77).unwrap();
    let old = fs::metadata(dir.path().join("br0")).unwrap().len() as usize;
    let pages = old.div_ceil(PAGE) + size.div_ceil(PAGE);
    run(&format!("mount -o remount,size={} {at}", pages * PAGE));
    anew(&mut log, reason).unwrap_err();
    for kept in &loaded.kept {
        assert_eq!(entry(&log, kept), rule(kept.id.0 as u16, 0).bytes());
    }
    run(&format!("mount -o remount,size=1m {at}"));
    anew(&mut log, reason).unwrap();
    drop(log);
    let (log, loaded) = open(dir.path());
    assert_eq!((loaded.kept.len(), log.instance()), (499, Some(77)));
}
