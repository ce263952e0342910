//! A headless Chromium on a machine of its own, driven over WebDriver as a person would use it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use fantoccini::wd::Capabilities;
use fantoccini::{Client, ClientBuilder, Locator};
use muster_testbed::{Daemon, Namespace, command, eventually, look};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// The port of chromedriver in the machine's namespace.
const PORT: u16 = 9515;
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Keys, as WebDriver has them.
pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";

/// A browser with a profile of its own. It ends with the value.
pub struct Browser<'a> {
    machine: &'a Namespace,
    runtime: Runtime,
    client: Client,
    _driver: Daemon,
}

impl<'a> Browser<'a> {
    /// On this machine, with its files in `dir`; for somebody who likes it dark, or light. One at a time on a machine.
    pub fn start(machine: &'a Namespace, dir: &Path, is_dark: bool) -> Self {
        let profile = dir.join("profile");
        fs::create_dir_all(&profile).unwrap();
        let mut driver = command(Some(machine), "chromedriver");
        driver.arg(format!("--port={PORT}")).env("HOME", dir);
        let driver = Daemon::start("chromedriver", driver, dir);
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-quic",
            "--no-first-run",
            "--window-size=1280,900",
            &format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)),
            &format!("--user-data-dir={}", profile.display()),
        ];
        // The site's CA is none of the browser's.
        let wanted = json!({"acceptInsecureCerts": true, "goog:chromeOptions": {"args": arguments}});
        let Value::Object(wanted) = wanted else { unreachable!() };
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = machine.inside(|| {
            eventually("chromedriver answers", || TcpStream::connect(("127.0.0.1", PORT)).ok());
            let connecting = async {
                let mut builder =
                    ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new());
                builder.capabilities(Capabilities::from_iter(wanted));
                builder.connect(&format!("http://127.0.0.1:{PORT}")).await
            };
            runtime.block_on(connecting).unwrap()
        });
        Self { machine, runtime, client, _driver: driver }
    }

    /// Shows pages in `light` or `dark` colours; those that the browser began with, if the scheme is empty. WebDriver
    /// has no such command, so this is one of chromedriver's own.
    pub fn prefer(&self, scheme: &str) {
        let session = self.within(async |client| client.session_id().await).unwrap().unwrap();
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let body = json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}}).to_string();
        let request = format!(
            "POST /session/{session}/goog/cdp/execute HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let status = self.machine.inside(|| {
            let mut stream = TcpStream::connect(("127.0.0.1", PORT)).unwrap();
            stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut status = String::new();
            BufReader::new(stream).read_line(&mut status).unwrap();
            status
        });
        assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
    }

    fn within<T: Send>(&self, work: impl AsyncFnOnce(Client) -> T + Send) -> T {
        let (runtime, client) = (&self.runtime, self.client.clone());
        self.machine.inside(|| runtime.block_on(work(client)))
    }

    /// Loads a page.
    pub fn go(&self, url: &str) {
        self.within(async |client| client.goto(url).await).unwrap();
    }

    /// Clicks on a button or link with these words, and waits for the page that it leads to.
    pub fn press(&self, words: &str) {
        self.leave(|| self.click(words));
    }

    /// Does what leads to another page, and waits for that page. Before it has come, a look may see the page before, and a
    /// script may end with that page. A page that leads on by a script counts as well.
    pub fn leave(&self, act: impl FnOnce()) {
        self.run("window.isLeft = true", &[]);
        let left = self.url();
        act();
        assert!(look(|| self.has_come().then_some(())).is_some(), "nothing has led away from {left}");
    }

    /// Whether another page than the one that is left is there, whole. Between two pages, no page answers.
    fn has_come(&self) -> bool {
        let script = "return !window.isLeft && document.readyState === 'complete'";
        let answer = self.within(async |client| client.execute(script, Vec::new()).await);
        answer.is_ok_and(|answer| answer == true)
    }

    fn click(&self, words: &str) {
        let xpath = format!("//button[normalize-space()='{words}'] | //a[normalize-space()='{words}']");
        let mut last = String::new();
        // A page that is kept up to date may replace the button meanwhile. A click whose answer was lost has led on: on the next
        // page, it would be another click.
        let clicked = look(|| {
            let click = async |client: Client| client.find(Locator::XPath(&xpath)).await?.click().await;
            let clicked = self.within(click).map_err(|error| last = error.to_string()).ok();
            clicked.or_else(|| self.has_come().then_some(()))
        });
        assert!(clicked.is_some(), "{words} cannot be clicked: {last}\n{}", self.text("body"));
    }

    /// Types into a field, in place of what is in it.
    pub fn fill(&self, css: &str, text: &str) {
        self.within(async |client| {
            let field = client.find(Locator::Css(css)).await?;
            field.clear().await?;
            field.send_keys(text).await
        })
        .unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    /// Types where the focus is.
    pub fn type_keys(&self, keys: &str) {
        self.within(async |client| client.active_element().await?.send_keys(keys).await).unwrap();
    }

    /// Returns what the page's policy has kept the page from since it was loaded.
    pub fn violations(&self) -> Value {
        self.run_later(
            "const done = arguments[arguments.length - 1], seen = [];
             const observer = new ReportingObserver((reports) => seen.push(...reports), {types: ['csp-violation'], buffered: true});
             observer.observe();
             setTimeout(() => {
                seen.push(...observer.takeRecords());
                observer.disconnect();
                done(seen.map((report) => report.body.effectiveDirective + ' ' + report.body.blockedURL));
             }, 0);",
        )
    }

    /// The text that a person reads there.
    pub fn text(&self, css: &str) -> String {
        self.run(
            "const it = document.querySelector(arguments[0]); return it ? it.innerText : ''",
            &[css.into()],
        )
        .as_str()
        .unwrap()
        .to_owned()
    }

    /// Waits until the page says this.
    pub fn until(&self, words: &str) {
        let said = look(|| self.text("body").contains(words).then_some(()));
        assert!(said.is_some(), "{} never said {words:?}:\n{}", self.url(), self.text("body"));
    }

    /// Loads a page until it says this: a controller that is busy asks to come again.
    pub fn open(&self, url: &str, words: &str) {
        let come = || {
            self.go(url);
            self.text("body").contains(words).then_some(())
        };
        assert!(look(come).is_some(), "{url} never said {words:?}:\n{}", self.text("body"));
    }

    /// The page's address.
    pub fn url(&self) -> String {
        self.within(async |client| client.current_url().await).unwrap().to_string()
    }

    /// The value that a script returns.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.within(async |client| client.execute(script, arguments.to_vec()).await).unwrap()
    }

    /// The value that a script hands to its last argument.
    pub fn run_later(&self, script: &str) -> Value {
        self.within(async |client| client.execute_async(script, Vec::new()).await).unwrap()
    }

    /// A picture of the window, as PNG.
    pub fn picture(&self) -> Vec<u8> {
        self.within(async |client| client.screenshot().await).unwrap()
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        // chromedriver ends the browser with its session; it may be gone already.
        drop(self.within(async |client| tokio::time::timeout(Duration::from_secs(10), client.close()).await));
    }
}
