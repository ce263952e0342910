//! The demands on each page of the console: axe-core finds nothing in light and in dark colours, the page is not too
//! large, and no text of it was run. Pictures of some pages are kept for the manual.
//!
//! Absent: the contrast of pictures, which axe-core does not look at (`controller/picture/src/contrast.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_testbed::Running;
use serde_json::json;

use crate::browser::Browser;

/// A wheel of PyPI that has axe-core, the judge of accessible pages.
const AXE: &str = "axe-playwright-python==0.1.8";
const AXE_WITHIN: Duration = Duration::from_secs(300);
/// The most bytes of a page.
const PAGE_MAX: u64 = 2_000_000;
/// With this, pictures of the pages are written into `docs/console`.
const WRITE: &str = "MUSTER_WRITE_DOCUMENTS";
/// The pictures that `docs/console.md` shows.
const KEPT: [&str; 16] = [
    "login-oidc",
    "fleet",
    "fleet-dark",
    "node",
    "stack",
    "stack-dark",
    "preview",
    "resources",
    "events",
    "rollout",
    "device",
    "network",
    "intent",
    "traced",
    "verify",
    "audit",
];
/// axe-core, as a script.
fn axe(dir: &Path) -> String {
    let mut pip = Command::new("python3");
    pip.args(["-m", "venv"]).arg(dir.join("venv"));
    Running::start(pip).finish_within(AXE_WITHIN).expect(0);
    let mut pip = Command::new(dir.join("venv/bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
    pip.arg(dir.join("axe")).arg(AXE);
    Running::start(pip).finish_within(AXE_WITHIN).expect(0);
    fs::read_to_string(dir.join("axe/axe_playwright_python/axe.min.js")).unwrap()
}

/// The questions about each page.
pub struct Judge {
    axe: String,
    pictures: Option<PathBuf>,
}

impl Judge {
    pub fn new(dir: &Path) -> Self {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/console");
        let pictures = std::env::var_os(WRITE).map(|_| docs);
        Self { axe: axe(dir), pictures }
    }

    /// Anybody can read it, it is not too large, and no text of it was run.
    pub fn page(&self, browser: &Browser<'_>, name: &str) {
        assert_eq!(browser.violations(), json!([]), "{name}");
        browser.run(&self.axe, &[]);
        let mut grounds = Vec::new();
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            grounds.push(browser.run("return getComputedStyle(document.body).backgroundColor", &[]));
            let found = browser.run_later(
                "const done = arguments[arguments.length - 1];
                 axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
                    .then((found) => done(found.violations.map((it) => it.id + ': ' + it.nodes.map((node) => node.html + ' ' + node.failureSummary).join(' | '))))
                    .catch((error) => done(['' + error]));",
            );
            assert_eq!(found, json!([]), "{name}, {scheme}");
        }
        assert_ne!(grounds[0], grounds[1], "{name} has the same colours in light and dark");
        browser.prefer("");
        let taken = browser
            .run("return window.taken || document.querySelectorAll('main img, main script').length", &[]);
        assert_eq!(taken, 0, "{name}");
        let size = browser.run("return performance.getEntriesByType('navigation')[0].decodedBodySize", &[]);
        assert!(size.as_u64().unwrap() < PAGE_MAX, "{name}: {size} bytes");
        if let Some(folder) = self.pictures.as_ref().filter(|_| KEPT.contains(&name)) {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(format!("{name}.png")), browser.picture()).unwrap();
        }
    }
}
