//! Time and memory to read, check and open a template of many resources; lines of JSON.
//!
//! `cargo bench -p muster-engine --bench template [-- RESOURCES…]`; every figure is of the machine it ran on and judges
//! nothing. Each document has a process of its own, so that what one leaves behind is not counted for the next.

#![expect(clippy::disallowed_methods, reason = "a bench has a clock")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use muster_engine::{Source, SourceText};

/// Resources where none are asked for.
const RESOURCES: [usize; 2] = [10_000, 100_000];
/// The fastest of so many counts.
const RUNS: usize = 5;
const SHAPES: [&str; 3] = ["short", "files", "computed"];
/// Marks the process that measures one document.
const ONE: &str = "--one";

/// A resource of a shape; `at` is its number.
fn resource(text: &mut String, shape: &str, at: usize) {
    let before = at.saturating_sub(1);
    match shape {
        // As small as they come: what is kept of each weighs most beside it.
        "short" => writeln!(text, "  r{at}: {{type: Muster::Dummy}}"),
        "files" => writeln!(
            text,
            "  file-{at}:\n    type: Muster::File\n    depends_on: file-{before}\n    properties:\n      node: web-{}.example.org\n      \
             path: /etc/service/part-{at}.conf\n      mode: \"0644\"\n      content: |\n        # Part {at} of the service.\n        \
             listen = 192.0.2.1\n        workers = 4\n",
            at % 1000
        ),
        _ => writeln!(
            text,
            "  made-{at}:\n    type: Muster::Dummy\n    properties:\n      node: {{get_param: node}}\n      values:\n        text: {{str_replace: \
             {{template: NAME of {at}, params: {{NAME: {{get_param: name}}}}}}}}\n        before: {{get_attr: [made-{before}, text]}}\n"
        ),
    }
    .expect("a string takes it");
}

fn document(shape: &str, resources: usize) -> String {
    let mut text = "heat_template_version: 2018-08-31\nparameters:\n  node: {type: string, default: web-1.example.org}\n  \
                    name: {type: string, default: web}\nresources:\n"
        .to_owned();
    for at in 0..resources {
        // The first has none before it.
        resource(&mut text, if at == 0 { "short" } else { shape }, at);
    }
    match shape {
        "short" => text,
        "files" => text.replacen("  r0: {type: Muster::Dummy}", "  file-0: {type: Muster::Dummy}", 1),
        _ => text.replacen(
            "  r0: {type: Muster::Dummy}",
            "  made-0: {type: Muster::Dummy, properties: {values: {text: x}}}",
            1,
        ),
    }
}

/// Bytes, of a line of this process's status.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line =
        status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect("a field of it");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
}

fn measure(shape: &str, resources: usize) {
    let text = document(shape, resources);
    let bytes = text.len();
    let source = SourceText { name: "bench.yaml".into(), template: text, ..SourceText::default() };
    // The program's own pages are not the document's.
    let small =
        SourceText { name: "small.yaml".into(), template: document(shape, 10), ..SourceText::default() };
    black_box(Source::parse(small).expect("a valid template"));
    let before = status("VmRSS");
    let parse = || {
        let copy = source.clone();
        let began = Instant::now();
        let parsed = Source::parse(copy).expect("a valid template");
        (began.elapsed(), parsed)
    };
    let (first, kept) = parse();
    let (peak, after) = (status("VmHWM"), status("VmRSS"));
    assert_eq!(kept.tree.len(), resources);
    drop(kept);
    let fastest = (1..RUNS).map(|_| black_box(parse()).0).fold(first, Duration::min);
    println!(
        "{{\"template\":\"{shape}\",\"resources\":{resources},\"bytes\":{bytes},\"parse_s\":{:.3},\"peak_bytes\":{},\"kept_bytes\":{},\
         \"peak_per_byte\":{:.1}}}",
        fastest.as_secs_f64(),
        peak - before,
        after - before,
        (peak - before) as f64 / bytes as f64,
    );
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` only wants to know whether it starts.
    if words.iter().any(|word| word == "--test" || word == "--list") {
        return;
    }
    if let [mark, shape, resources] = &words[..]
        && mark == ONE
    {
        return measure(shape, resources.parse().expect("a number"));
    }
    let mut asked: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if asked.is_empty() {
        asked.extend(RESOURCES);
    }
    let program = std::env::current_exe().expect("this program's own file");
    for resources in asked {
        for shape in SHAPES {
            let status = Command::new(&program).args([ONE, shape, &resources.to_string()]).status();
            assert!(status.expect("it starts").success());
        }
    }
}
