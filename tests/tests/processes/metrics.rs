//! Prometheus itself scrapes a controller over TLS with a viewer's token, as docs/operate.md says, loads the alert rules of
//! the package and answers the dashboard's queries.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_testbed::{Daemon, Running, command, eventually, port};
use muster_tests::site::{Link, Site, template_of_a_file};
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/operate.md");
const RULES: &str = include_str!("../../../packaging/prometheus/muster.rules.yml");
const DASHBOARD: &str = include_str!("../../../packaging/grafana/muster.json");
/// An address without a listener, as at a standby.
const STANDBY: &str = "127.0.0.1:1";

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/prometheus/muster.rules.yml")
}

/// The body of an answer; none where there is no server, or where it refuses.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split_whitespace().nth(1).is_some_and(|status| status == "200").then(|| body.to_owned())
}

/// `NAME TYPE` of each metric of an answer.
fn types(metrics: &str) -> BTreeSet<String> {
    metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(str::to_owned).collect()
}

/// The metrics that a text names, each as it is in an answer.
fn names<'t>(text: &'t str, known: &BTreeSet<String>) -> BTreeSet<&'t str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let metrics = words.filter(|word| word.starts_with("muster_") || word.starts_with("process_"));
    let is_histogram = |name: &str| known.contains(&format!("{name} histogram"));
    metrics
        .map(|name| name.strip_suffix("_bucket").filter(|name| is_histogram(name)).unwrap_or(name))
        .collect()
}

fn promtool(arguments: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("promtool {arguments}")]);
    Running::start(command).finish().expect(0);
}

/// The text of the page from after `begin` to before `end`.
fn of_page(begin: &str, end: &str) -> &'static str {
    PAGE.split_once(begin).unwrap().1.split_once(end).unwrap().0
}

/// The API of a site over TLS, and a viewer's token for it.
struct Api {
    /// `host:port`
    address: String,
    ca: PathBuf,
    token: PathBuf,
}

impl Api {
    /// Restarts the controller with an address, and makes the user of the page.
    fn open(site: &mut Site) -> Self {
        let address = format!("127.0.0.1:{}", port());
        site.configure(&format!("[controller]\napi = '{address}'\n"));
        site.kill();
        site.restart();
        let arguments: Vec<&str> = of_page("```sh\nmuster ", " > muster.token\n").split(' ').collect();
        let token = site.path().join("muster.token");
        fs::write(&token, site.ok(&arguments)).unwrap();
        Self { address, ca: site.ca(), token }
    }

    /// The answer of `/metrics`, as any client with the token gets it; none where there is no server yet.
    fn metrics(&self) -> Option<String> {
        let mut curl = command(None, "curl");
        let token = fs::read_to_string(&self.token).unwrap();
        curl.arg("-sf").arg("--cacert").arg(&self.ca);
        curl.arg("-H").arg(format!("Authorization: Bearer {}", token.trim()));
        curl.arg(format!("https://{}/metrics", self.address));
        let ran = Running::start(curl).finish();
        (ran.status == 0).then_some(ran.stdout)
    }
}

/// Prometheus with the settings of the page, and with a second job that has no token.
struct Prometheus {
    _daemon: Daemon,
    port: u16,
}

impl Prometheus {
    fn start(site: &Site, api: &Api) -> Self {
        let settings = of_page("```yaml prometheus.yml\n", "```")
            .replace("\"c1.example.org:8443\"", &format!("'{}', '{STANDBY}'", api.address))
            .replace("/etc/prometheus/muster-ca.crt", api.ca.to_str().unwrap())
            .replace("/etc/prometheus/muster.token", api.token.to_str().unwrap())
            .replace("/etc/prometheus/muster.rules.yml", rules().to_str().unwrap());
        let (jobs, rules) = settings.split_once("rule_files:").unwrap();
        let without_token = format!(
            "  - {{job_name: stranger, scheme: https, tls_config: {{ca_file: {}}}, static_configs: [{{targets: ['{}']}}]}}\n",
            api.ca.display(),
            api.address
        );
        let pace = "global: {scrape_interval: 1s, evaluation_interval: 1s}\n";
        let (file, port) = (site.path().join("prometheus.yml"), port());
        fs::write(&file, format!("{pace}{jobs}{without_token}rule_files:{rules}")).unwrap();
        promtool(&format!("check config {}", file.display()));
        let mut command = command(None, "prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", site.path().join("prometheus").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        Self { _daemon: Daemon::start("prometheus", command, site.path()), port }
    }

    /// The error of the last scrape of a job's first target, empty if it succeeded; none before the first.
    fn problem(&self, job: &str) -> Option<String> {
        let targets: Value = serde_json::from_str(&get(self.port, "/api/v1/targets")?).ok()?;
        let targets = targets["data"]["activeTargets"].as_array()?;
        let target = targets.iter().find(|target| target["labels"]["job"] == job)?;
        (target["health"] != "unknown").then(|| target["lastError"].as_str().unwrap().to_owned())
    }

    /// The answer, where Prometheus takes the query.
    fn query(&self, query: &str) -> Option<Vec<Value>> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer: Value =
            serde_json::from_str(&get(self.port, &format!("/api/v1/query?query={encoded}"))?).ok()?;
        answer["data"]["result"].as_array().cloned()
    }

    /// The first value of a query's answer.
    fn value(&self, query: &str) -> Option<String> {
        Some(self.query(query)?.first()?["value"][1].as_str()?.to_owned())
    }

    /// The rules that it has evaluated without an error, with the state of each.
    fn rules(&self) -> Vec<(String, String)> {
        let answer = get(self.port, "/api/v1/rules").unwrap_or_default();
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let groups = answer["data"]["groups"].as_array().into_iter().flatten();
        let rules = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten());
        let text = |rule: &Value, key: &str| rule[key].as_str().unwrap_or_default().to_owned();
        let evaluated = rules.filter(|rule| rule["health"] == "ok");
        evaluated.map(|rule| (text(rule, "name"), text(rule, "state"))).collect()
    }
}

/// Prometheus evaluates the rules over figures that stay as they are for two hours.
#[test]
fn alerts_fire_for_figures_that_stay() {
    let rows = [
        ("muster_rollouts{state=\"going\"}", 1, None),
        ("muster_rollouts{state=\"paused\"}", 1, Some("MusterRolloutStopped")),
        ("muster_rollouts{state=\"timed_out\"}", 1, Some("MusterRolloutStopped")),
        ("muster_rollouts{state=\"aborted\"}", 1, Some("MusterRolloutStopped")),
        ("muster_rollouts{state=\"timed_out\"}", 0, None),
        ("muster_intents{state=\"FAILED\"}", 1, Some("MusterIntentsFailed")),
        ("muster_intents{state=\"CORRUPT\"}", 1, Some("MusterIntentsFailed")),
        ("muster_intents{state=\"INSTALLED\"}", 1, None),
        ("muster_intents_broken", 1, Some("MusterIntentsBroken")),
        ("muster_intents_broken", 0, None),
    ];
    let mut tests = format!("rule_files: ['{}']\ntests:\n", rules().display());
    for (series, value, alert) in rows {
        let expected = alert
            .map_or_else(String::new, |alert| format!("{{labels: '{{alertname=\"{alert}\"}}', value: 1}}"));
        tests += &format!(
            "- interval: 1m
  input_series: [{{series: '{series}', values: '{value}x120'}}]
  promql_expr_test:
  - expr: 'count by (alertname) (ALERTS{{alertstate=\"firing\", alertname!=\"MusterNoActiveController\"}})'
    eval_time: 2h
    exp_samples: [{expected}]\n"
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("alerts.yml");
    fs::write(&file, tests).unwrap();
    promtool(&format!("test rules {}", file.display()));
}

#[test]
fn prometheus_scrapes_a_controller() {
    let mut site = Site::over(Link::Direct);
    let api = Api::open(&mut site);
    let web1 = site.join("web-1");
    let template = site.file(&template_of_a_file("web-1", &web1.root.join("motd")));
    site.ok(&["stack", "create", "web", "-t", &template, "-P", "text=hello", "--wait"]);
    let metrics = eventually("the metrics are there", || api.metrics());
    let file = site.path().join("metrics");
    fs::write(&file, &metrics).unwrap();
    promtool(&format!("check metrics <{}", file.display()));
    for line in [
        "muster_controller_active 1",
        "muster_driver_answers 1",
        "muster_store_writable 1",
        "muster_nodes{state=\"online\"} 1",
        "muster_agent_connections{state=\"welcomed\"} 1",
        "muster_jobs_total{outcome=\"completed\"} 1",
        "muster_drifted_resources 0",
        "muster_stacks{action=\"CREATE\",status=\"COMPLETE\"} 1",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
    let all = types(&metrics);
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows = rows.filter(|(name, _)| name.starts_with("muster_") || name.starts_with("process_"));
    let documented: BTreeSet<String> =
        rows.map(|(name, rest)| format!("{name} {}", rest.split_once(" |").unwrap().0)).collect();
    assert_eq!(documented, all, "docs/operate.md");

    promtool(&format!("check rules {}", rules().display()));
    let known: BTreeSet<&str> = all.iter().filter_map(|it| Some(it.split_once(' ')?.0)).collect();
    for text in [RULES, DASHBOARD] {
        let unknown: Vec<&str> = names(text, &all).difference(&known).copied().collect();
        assert!(unknown.is_empty(), "no such metrics: {unknown:?}");
    }

    let prometheus = Prometheus::start(&site, &api);
    let value = eventually("it has scraped", || prometheus.value("sum(muster_nodes{state=\"online\"})"));
    assert_eq!(value, "1");
    let problem = eventually("a scrape without a token ends", || prometheus.problem("stranger"));
    assert!(problem.contains("401"), "{problem}");
    assert_eq!(prometheus.value("up{job=\"stranger\"}").as_deref(), Some("0"));
    let wanted = RULES.matches("- alert:").count();
    eventually("all rules are evaluated, and none complains of a site that is well, with a standby", || {
        let rules = prometheus.rules();
        (rules.len() == wanted && rules.iter().all(|(_, state)| state == "inactive")).then_some(())
    });
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        let query =
            target["expr"].as_str().unwrap().replace("$job", "muster").replace("$__rate_interval", "1m");
        assert!(prometheus.query(&query).is_some(), "{query}");
    }
    assert_eq!(prometheus.value("sum(muster_stacks{status=\"FAILED\"}) or vector(0)").as_deref(), Some("0"));

    site.controller.stop();
    eventually("the alert is raised", || {
        let is_raised =
            |(name, state): &(String, String)| name == "MusterNoActiveController" && state != "inactive";
        prometheus.rules().iter().any(is_raised).then_some(())
    });
}
