use tempfile::TempDir;

use super::*;

const GOLDEN_ROWS: &str = include_str!("testdata/rows.toml");
const GOLDEN_LINES: &str = include_str!("testdata/lines.jsonl");
const GOLDEN_PAGE: &str = include_str!("testdata/page.md");

fn read(text: &str) -> Vec<Measurement> {
    Measurement::read_all("lines", text).unwrap()
}

fn lines(measurements: &[Measurement]) -> Vec<&str> {
    measurements.iter().map(Measurement::line).collect()
}

#[test]
fn the_golden_page() {
    let page = Page::with(&rows(GOLDEN_ROWS).unwrap(), &read(GOLDEN_LINES)).unwrap();
    assert_eq!(page.text, GOLDEN_PAGE, "the page is now:\n{}", page.text);
}

#[test]
fn the_plot_has_a_bar_for_each_figure_with_a_bound() {
    let page = Page::with(&rows(GOLDEN_ROWS).unwrap(), &read(GOLDEN_LINES)).unwrap();
    assert!(page.plot.starts_with("<svg ") && page.plot.trim_end().ends_with("</svg>"), "{}", page.plot);
    let is_named = |name: &str| page.plot.lines().any(|line| line.trim() == name);
    assert!(is_named("update with one held bound") && is_named("jobs with a missed bound"), "{}", page.plot);
    assert!(!is_named("size without a bound") && !is_named("not measured"), "{}", page.plot);
    let bars = |color: &str| page.plot.matches(&format!("fill=\"{color}\"")).count();
    assert_eq!((bars("#4682B4"), bars("#C83C32")), (2, 1), "held and missed");
}

#[test]
fn a_page_without_figures_has_a_plot() {
    let page = Page::of(&[]).unwrap();
    assert!(page.text.contains("The machine was not described.") && page.plot.contains("</svg>"));
}

#[test]
fn all_rows_name_their_part() {
    let rows = rows(ROWS).unwrap();
    assert!(rows.len() > 30 && rows.iter().all(|row| !row.part().is_empty()));
}

#[test]
fn a_newer_line_replaces_one_of_its_kind() {
    let old = r#"
        {"part":"idle","agents":1000,"percent":2.0}
        {"part":"idle","agents":10000,"percent":9.0}
        {"part":"links","link":"direct","jobs_per_s":5.0}
    "#;
    let new = r#"
        {"part":"idle","agents":10000,"percent":1.0}
        {"part":"agent","rss_bytes":1}
    "#;
    let merged = merge(read(old), read(new));
    let wanted = [
        r#"{"part":"agent","rss_bytes":1}"#,
        r#"{"part":"idle","agents":1000,"percent":2.0}"#,
        r#"{"part":"idle","agents":10000,"percent":1.0}"#,
        r#"{"part":"links","link":"direct","jobs_per_s":5.0}"#,
    ];
    assert_eq!(lines(&merged), wanted);
}

#[test]
fn lines_of_one_kind_in_one_run_all_stay() {
    let new = "{\"part\":\"new\",\"a\":1}\n{\"part\":\"new\",\"a\":2}";
    assert_eq!(merge(Vec::new(), read(new)).len(), 2);
}

#[test]
fn a_broken_line_is_named() {
    for (broken, why) in [("{\"a\":", "this is not JSON"), ("[1]", "a measurement is a JSON object")] {
        let error = Measurement::read_all("lines.json", &format!("{{}}\n\n{broken}\n")).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.starts_with("lines.json, line 3: ") && error.contains(why), "{error}");
    }
}

#[test]
fn a_page_is_continued() {
    let dir = TempDir::new().unwrap();
    let (file, page) = (dir.path().join("lines"), dir.path().join(PAGE));
    let put = |text: &str| {
        fs::write(&file, text).unwrap();
        run(&file, dir.path())
    };
    put("{\"part\":\"new\",\"of\":\"nothing we know\"}").unwrap();
    put("{\"part\":\"agent\",\"bench\":\"agent\",\"rss_bytes\":7000000,\"date\":\"2026-01-02\"}").unwrap();
    let text = fs::read_to_string(&page).unwrap();
    assert!(
        text.contains("| memory of an idle agent | 7 MB | at most 8 MB | `agent` | 2026-01-02 |"),
        "{text}"
    );
    assert!(text.contains("\n{\"part\":\"new\",\"of\":\"nothing we know\"}\n"), "{text}");
    let again = Page::again(&text).unwrap();
    assert_eq!((&again.text, &again.plot), (&text, &fs::read_to_string(dir.path().join(PLOT)).unwrap()));

    let error = format!("{:#}", put("no line").unwrap_err());
    assert!(error.contains("line 1"), "{error}");
    assert_eq!(fs::read_to_string(&page).unwrap(), text, "a broken line changes nothing");
    fs::write(&page, "# Somebody else's page\n").unwrap();
    let error = format!("{:#}", put("{}").unwrap_err());
    assert!(error.contains("benchmarks.md cannot be continued: the page has no raw lines"), "{error}");
}
