//! The settings that `docs/postgresql.md` and `docs/brokers.md` show are settings of the controller.

use std::fs;

use muster_controller::config::Settings;

use super::conformance::root;

/// The blocks of a page that begin with "```toml", without the margin of the list that they are in.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut before = "";
    for part in page.split("```toml") {
        if !before.is_empty() {
            let margin = before.rsplit('\n').next().unwrap();
            let lines = part.split_once("```").unwrap().0.lines().skip(1);
            let lines = lines.map(|line| line.strip_prefix(margin).unwrap_or(line).to_owned() + "\n");
            blocks.push(lines.collect());
        }
        before = part;
    }
    blocks
}

#[test]
fn settings_of_the_pages_on_databases_and_brokers_are_settings() {
    for (page, section, wanted) in [("docs/postgresql.md", "[store]", 1), ("docs/brokers.md", "[link]", 2)] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let blocks = blocks(&text);
        assert_eq!(blocks.len(), wanted, "{page}");
        let sections = text.lines().filter(|line| line.trim() == section).count();
        assert_eq!(sections, wanted, "{page} has settings that are in no block of TOML");
        for block in blocks {
            let settings: Settings =
                toml::from_str(&block).unwrap_or_else(|error| panic!("{page}: {error}\n{block}"));
            settings.link.way().unwrap();
            let is_other = format!("{settings:?}") != format!("{:?}", Settings::default());
            assert!(is_other, "{page}: it sets nothing\n{block}");
        }
    }
}
