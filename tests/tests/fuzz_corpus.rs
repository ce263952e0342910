//! The fuzz targets without a fuzzer: every seed in `fuzz/seeds`, and mutations of them that are the same in
//! every run.
#![allow(clippy::unwrap_used, reason = "these are tests, also outside of their functions")]

use std::path::{Path, PathBuf};

use muster_tests::fuzz::{TARGETS, Target};

/// For each target; a few seconds in all.
const MUTATIONS: u64 = 20_000;
/// Longer than every seed grows by a handful of edits.
const LENGTH_MAX: usize = 16 * 1024;
/// Tokens that break readers: ends of ranges, signs of syntax, long lengths.
const TOKENS: [&[u8]; 20] = [
    b"\0",
    b"\xff",
    b"\x80",
    b"\x7f",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"{",
    b"}",
    b"[",
    b"]",
    b": ",
    b"- ",
    b"\n",
    b"&a ",
    b"*a",
    b"!",
    b"\"",
    b"\xc3\xa9",
    b"-1",
    b"1e999",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let folder = folder().join("seeds").join(target.name);
    names(&folder).iter().map(|name| std::fs::read(folder.join(name)).unwrap()).collect()
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

fn mutate(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(16)).min(bytes.len());
        match random.below(7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, TOKENS[random.below(TOKENS.len())].iter().copied())),
            3 => {
                let piece = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            4 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                drop(bytes.splice(at.., other[from..].iter().copied()));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = (random.next() & 0xff) as u8;
                }
            }
        }
    }
    bytes.truncate(LENGTH_MAX);
    bytes
}

fn exercise(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| (target.run)(seed));
    let mut random = Random(0);
    for number in 0..MUTATIONS {
        let bytes = mutate(&mut random, &seeds);
        let run = std::panic::AssertUnwindSafe(|| (target.run)(&bytes));
        if let Err(panic) = std::panic::catch_unwind(run) {
            let escaped: String = bytes.iter().flat_map(|byte| byte.escape_ascii()).map(char::from).collect();
            eprintln!("{name}, mutation {number}: b\"{escaped}\"");
            std::panic::resume_unwind(panic);
        }
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            exercise(stringify!($name));
        })*
        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

targets! {
    wire_packet wire_down wire_up join_request join_answer join_token mqtt template tree environment flow_file flow_ops intent_file network_document node_name
    openflow lldp
}

#[test]
fn every_target_is_fuzzed_tested_and_has_seeds() {
    let mut wanted: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(TESTED, wanted);
    wanted.sort_unstable();
    assert_eq!(names(&folder().join("seeds")), wanted);
    let files: Vec<String> = wanted.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names(&folder().join("fuzz_targets")), files);
    let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    for name in wanted {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml lacks {name}");
    }
}

/// Seeds that are refused at the first byte would test nothing.
#[test]
fn the_golden_seeds_are_understood() {
    use muster_shared::join::{JoinAnswer, JoinRequest, JoinToken};
    use muster_shared::model::flow::{OpsRef, Packed, read_ops};
    use muster_shared::model::network::NetworkDocument;
    use muster_shared::model::{Down, Up};
    use muster_shared::wire::read_body;
    use muster_template::{FlowFile, FlowLimits, IntentFile, IntentLimits};

    let all = |name: &str, good: fn(&[u8]) -> bool| {
        let target = TARGETS.iter().find(|target| target.name == name).unwrap();
        let folder = folder().join("seeds").join(name);
        let files = names(&folder);
        for (file, seed) in files.iter().zip(seeds(target)).filter(|(file, _)| !file.starts_with("bad-")) {
            assert!(good(&seed), "{name}/{file}");
        }
    };
    all("wire_down", |seed| read_body::<Down>(seed).is_ok());
    all("wire_up", |seed| read_body::<Up>(seed).is_ok());
    all("join_request", |seed| JoinRequest::decode(seed).is_ok());
    all("join_answer", |seed| JoinAnswer::decode(seed).is_ok());
    all("join_token", |seed| String::from_utf8_lossy(seed).parse::<JoinToken>().is_ok());
    all("mqtt", |seed| muster_controller::link::direct::count_packets(seed) > 0);
    all("network_document", |seed| NetworkDocument::from_json(&String::from_utf8_lossy(seed)).is_ok());
    all("tree", |seed| {
        let opened = muster_tests::fuzz::open(&String::from_utf8_lossy(seed));
        opened.inspect_err(|errors| eprintln!("{errors}")).is_ok_and(|tree| tree.len() > 5)
    });
    all("flow_file", |seed| {
        let text = String::from_utf8_lossy(seed);
        FlowFile::parse("f", &text, FlowLimits::default()).is_ok()
    });
    all("intent_file", |seed| {
        let text = String::from_utf8_lossy(seed);
        IntentFile::parse("i", &text, IntentLimits::default()).is_ok_and(|file| file.intents.len() > 1)
    });
    all("flow_ops", |seed| {
        let mut entries = read_ops(seed).map(|op| match op {
            Ok(OpsRef::Put { packed, .. }) => Packed::read(packed).is_ok(),
            other => other.is_ok(),
        });
        entries.all(|is_good| is_good)
    });
    all("lldp", |seed| muster_host::lldp::Frame::read(seed).is_ok());
    all("openflow", |seed| muster_host::openflow::read_anything(seed) > 0);
    all("environment", |seed| {
        let text = String::from_utf8_lossy(seed);
        muster_template::Environment::parse(text.split('\0').map(|text| ("e", text))).is_ok()
    });
    all("template", |seed| {
        let files = [("file".to_owned(), String::new())].into();
        let text = String::from_utf8_lossy(seed);
        muster_template::parse("t", text.split('\0').next().unwrap_or_default(), &files).is_ok()
    });
}
