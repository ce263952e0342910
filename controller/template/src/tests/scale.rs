//! Large and hostile shapes: bounds hold, nothing recurses as deep as the input says.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::{Limits, Template, parse, parse_within};

fn read(text: &str) -> Result<Template, String> {
    parse("t", text, &BTreeMap::new()).map_err(|errors| errors.to_string())
}

fn chain(n: usize) -> String {
    let mut text = String::from("heat_template_version: 2018-08-31\nresources:\n");
    for i in 0..n {
        write!(text, "  r{i}:\n    type: Muster::Dummy\n    properties: {{values: {{a: \"{i}\"}}}}\n")
            .unwrap();
        if i > 0 {
            writeln!(text, "    depends_on: r{}", i - 1).unwrap();
        }
    }
    text
}

#[test]
fn a_chain_of_twenty_thousand() {
    let template = read(&chain(20_000)).unwrap();
    assert_eq!(template.resources.len(), 20_000);
    let last = template.index_of("r19999").unwrap();
    let before = u32::try_from(template.index_of("r19998").unwrap()).unwrap();
    assert_eq!(*template.resources[last].requires, [before]);
}

#[test]
fn a_cycle_of_twenty_thousand_is_shortened() {
    let text = chain(20_000).replace(
        "  r0:\n    type: Muster::Dummy\n",
        "  r0:\n    type: Muster::Dummy\n    depends_on: r19999\n",
    );
    let error = read(&text).unwrap_err();
    assert!(error.contains("resources.r0: dependency cycle: r0 -> r19999 -> "), "{error}");
    assert!(error.contains("… 19984 more …") && error.ends_with(" -> r0"), "{error}");
    assert!(error.len() < 400, "{error}");
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!("heat_template_version: 2018-08-31\noutputs: {{o: {{value: {open}{close}}}}}\n")
    };
    assert!(read(&nested(Limits::DEPTH - 3)).is_ok());
    for levels in [Limits::DEPTH, 200, 1000, 100_000] {
        let error = read(&nested(levels)).unwrap_err();
        assert!(error.contains("64 levels") || error.contains("recursion"), "{levels}: {error}");
    }
    let blocks = format!(
        "heat_template_version: 2018-08-31\noutputs:\n  o:\n    value:\n      {}x\n",
        "- ".repeat(100_000)
    );
    assert!(read(&blocks).unwrap_err().contains("64 levels"));
    assert!(read(&"- ".repeat(100_000)).is_err());
    assert!(read(&"? ".repeat(10_000)).is_err());
    assert!(read(&"a: ".repeat(10_000)).is_err());
}

#[test]
fn a_billion_laughs_are_refused() {
    let mut text = String::from(
        "heat_template_version: 2018-08-31\noutputs:\n  o:\n    value:\n      - &a0 [lol, lol]\n",
    );
    for i in 1..40 {
        writeln!(text, "      - &a{i} [*a{}, *a{}]", i - 1, i - 1).unwrap();
    }
    let error = read(&text).unwrap_err();
    assert!(error.contains("anchors and aliases copy more than"), "{error}");
}

/// The most memory that this process has had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the time is printed, and decides nothing")]
fn anchors_and_aliases_of_16_mib_are_refused() {
    // About ten times what a template of this size takes; each shape asks for a thousand times as much.
    const MEMORY: u64 = 2 * 1024 * 1024;
    let head = "heat_template_version: 2018-08-31\noutputs:\n  o:\n    value:\n";
    let fill = |text: &mut String, line: &dyn Fn(usize) -> String, room: usize| {
        for index in 0.. {
            let line = line(index);
            if text.len() + line.len() + room > Limits::TEXT {
                break;
            }
            text.push_str(&line);
        }
    };
    let mut doubled = head.to_owned();
    let padding = "x".repeat(100);
    fill(&mut doubled, &|index| format!("      - &b{index} {padding}\n"), 4096);
    doubled.push_str("      - &a0 [lol, lol]\n");
    for i in 1..40 {
        writeln!(doubled, "      - &a{i} [*a{}, *a{}]", i - 1, i - 1).unwrap();
    }
    let mut repeated = format!("{head}      - &t {}\n", "x".repeat(1024 * 1024));
    fill(&mut repeated, &|_| "      - [*t, *t, *t, *t, *t, *t, *t, *t]\n".to_owned(), 0);
    let mut chained = format!("{head}      - &a0 [x, x]\n");
    fill(&mut chained, &|index| format!("      - &a{} [*a{index}, *a{index}]\n", index + 1), 0);
    for (shape, text) in [("doubled", doubled), ("repeated", repeated), ("chained", chained)] {
        assert!(text.len() <= Limits::TEXT && text.len() > Limits::TEXT - 8192, "{shape}: {}", text.len());
        let (before, begun) = (peak(), std::time::Instant::now());
        let error = read(&text).unwrap_err();
        let taken = begun.elapsed();
        let more = peak() - before;
        println!("{shape}: refused after {taken:?}, {more} KiB more");
        assert!(error.contains("anchors and aliases copy more than"), "{shape}: {error}");
        assert!(more < MEMORY, "{shape}: {more} KiB");
    }
}

#[test]
fn size_and_number_of_errors_are_bounded() {
    let error = read(&" ".repeat(Limits::TEXT + 1)).unwrap_err();
    assert!(error.contains("at most 16 MiB"), "{error}");
    let large = format!("heat_template_version: 2018-08-31\n{}", "#\n".repeat(Limits::TEXT / 2));
    assert!(read(&large).is_err());
    assert!(parse_within("t", &large, &BTreeMap::new(), large.len()).is_ok());
    let mut text = String::from("heat_template_version: 2018-08-31\n");
    for i in 0..1000 {
        writeln!(text, "section{i}: 1").unwrap();
    }
    let errors = parse("t", &text, &BTreeMap::new()).unwrap_err();
    assert_eq!(errors.0.len(), Limits::ERRORS + 1);
    assert!(errors.to_string().ends_with("\nt: and 980 more errors"), "{errors}");
}

#[test]
fn rendering_is_bounded() {
    let mut value = "aaaaaaaaaa".to_owned();
    for _ in 0..10 {
        value = format!("{{str_replace: {{template: {value}, params: {{a: aaaaaaaaaaaaaaaaaaaa}}}}}}");
    }
    let text = format!("heat_template_version: 2018-08-31\noutputs: {{o: {{value: {value}}}}}\n");
    let template = read(&text).unwrap();
    let parameters = template.bind(&BTreeMap::new()).unwrap();
    let error = template
        .render_output(0, &parameters, &super::ResourceTable(&template, &BTreeMap::new()))
        .unwrap_err();
    assert!(error.to_string().contains("renders to more than 64 MiB"), "{error}");
}

#[test]
fn many_params_need_no_stack() {
    let n = 5_000;
    let keys: Vec<String> = (0..n).map(|i| format!("k{i:05}")).collect();
    let params: Vec<String> = keys.iter().map(|key| format!("{key}: v")).collect();
    let text = format!(
        "heat_template_version: 2018-08-31\noutputs: {{o: {{value: {{str_replace: {{template: '{}', params: {{{}}}}}}}}}}}\n",
        keys.join(" "),
        params.join(", ")
    );
    let template = read(&text).unwrap();
    let parameters = template.bind(&BTreeMap::new()).unwrap();
    let value =
        template.render_output(0, &parameters, &super::ResourceTable(&template, &BTreeMap::new())).unwrap();
    assert_eq!(value, vec!["v"; n].join(" "));
}
