//! The questions of `muster top` to the controller for a refresh: as many requests for ten thousand nodes as for ten.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::Method;
use muster_api::node::NodeView;
use muster_api::site::{Role, StatusView};
use muster_api::stack::{StackRow, StackView};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::silence::PAGE;
use super::state::most_left_first;
use crate::client::{Client, escaped, path};
use crate::failure::Failure;
use crate::output::read;

/// For one answer. A controller that is well needs milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Stacks of one status that are listed, in one page.
const STACKS_MAX: usize = 1000;
/// Stacks under way that are looked at, each with a request: those with the most left to do.
const VIEWS_MAX: usize = 5;

/// The answers of the controller for one refresh.
#[derive(Default)]
pub struct Answers {
    pub status: StatusView,
    pub nodes: BTreeMap<String, u64>,
    pub running: Stacks,
    pub failed: Stacks,
    pub views: Vec<StackView>,
    pub page: Vec<NodeView>,
}

/// Stacks of one status, by name.
#[derive(Default)]
pub struct Stacks {
    pub rows: Vec<StackRow>,
    /// There are more than were asked for.
    pub has_more: bool,
}

/// Asks for all of it. `marker` is the node that the page of nodes begins after, `open` a stack that is on the screen.
pub async fn ask(client: &mut Client, marker: Option<&str>, open: Option<&str>) -> Result<Answers, Failure> {
    let status: StatusView = get(client, &path(["status"])).await?;
    // Nodes and stacks are the active one's.
    if status.role == Role::Standby {
        return Ok(Answers { status, ..Answers::default() });
    }
    let nodes = get(client, &path(["counts", "nodes"])).await?;
    let mut running = stacks(client, "IN_PROGRESS").await?;
    most_left_first(&mut running.rows);
    let failed = stacks(client, "FAILED").await?;
    let mut names: Vec<String> = running.rows.iter().map(|stack| stack.name.clone()).collect();
    names.truncate(VIEWS_MAX);
    names.extend(open.filter(|open| !names.iter().any(|name| name == open)).map(ToOwned::to_owned));
    let mut views = Vec::new();
    for name in names {
        match get(client, &path(["stacks", &name])).await {
            Ok(view) => views.push(view),
            // It has just gone.
            Err(failure) if failure.missing => {}
            Err(failure) => return Err(failure),
        }
    }
    let marker = marker.map(|marker| format!("&marker={}", escaped(marker))).unwrap_or_default();
    let page = get(client, &format!("{}?limit={PAGE}{marker}", path(["nodes"]))).await?;
    Ok(Answers { status, nodes, running, failed, views, page })
}

/// The controller chooses: a stack that is looked for may be behind many others.
async fn stacks(client: &mut Client, status: &str) -> Result<Stacks, Failure> {
    let wanted = format!("{}?status={status}&limit={STACKS_MAX}", path(["stacks"]));
    let rows: Vec<StackRow> = get(client, &wanted).await?;
    Ok(Stacks { has_more: rows.len() >= STACKS_MAX, rows })
}

async fn get<T: DeserializeOwned>(client: &mut Client, path: &str) -> Result<T, Failure> {
    match timeout(ANSWER_WITHIN, client.send_once(Method::GET, path, None)).await {
        Ok(answer) => answer.and_then(|answer| read(&answer)),
        Err(_) => Err(Failure::unreachable(format!(
            "the controller has not answered for {} s",
            ANSWER_WITHIN.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;
    use std::sync::{Arc, Mutex};
    use std::thread;

    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;
    use crate::controller_connection::{Credentials, Way};

    /// A controller with eight stacks under way and a failed one. It notes what it is asked for.
    struct Controller {
        client: Client,
        asked: Arc<Mutex<Vec<String>>>,
        _directory: TempDir,
    }

    impl Controller {
        fn start() -> Self {
            let directory = TempDir::new().unwrap();
            let socket = directory.path().join("api.sock");
            let listener = UnixListener::bind(&socket).unwrap();
            let asked = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&asked);
            // The thread ends with the client's connection.
            thread::spawn(move || {
                let (stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let mut stream = stream;
                while let Some(first) = lines.next() {
                    lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
                    let path = first.split(' ').nth(1).unwrap().to_owned();
                    let body = answer(&path).to_string();
                    noted.lock().unwrap().push(path);
                    let length = body.len();
                    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
                }
            });
            let way = Way::new(&format!("unix://{}", socket.display()), Credentials::default());
            let Ok(way) = way else { panic!("the URL of a socket is refused") };
            Self { client: Client::over(way), asked, _directory: directory }
        }
    }

    fn answer(path: &str) -> Value {
        let running = |done: u64| {
            let progress = json!({"done": done, "total": 10});
            json!({"name": format!("run-{done}"), "status": "IN_PROGRESS", "progress": progress})
        };
        match path {
            "/v1/status" => json!({"role": "active"}),
            "/v1/counts/nodes" => json!({"total": 1}),
            "/v1/stacks?status=IN_PROGRESS&limit=1000" => (1..=8).rev().map(running).collect(),
            "/v1/stacks?status=FAILED&limit=1000" => json!([{"name": "db", "status": "FAILED"}]),
            "/v1/nodes?limit=1000" => json!([{"name": "web-1"}]),
            _ => json!({"name": path.trim_start_matches("/v1/stacks/")}),
        }
    }

    #[tokio::test]
    async fn stacks_are_asked_for_by_status() {
        let mut controller = Controller::start();
        let Ok(answers) = ask(&mut controller.client, None, Some("open")).await else { panic!("no answers") };
        let viewed: Vec<&str> = answers.views.iter().map(|view| view.name.as_str()).collect();
        assert_eq!(viewed, ["run-1", "run-2", "run-3", "run-4", "run-5", "open"]);
        assert_eq!((answers.running.rows.len(), answers.running.has_more), (8, false));
        assert_eq!(answers.failed.rows[0].name, "db");
        let asked = controller.asked.lock().unwrap();
        // A list of all stacks would have the first thousand of their names.
        assert!(
            asked.iter().filter(|path| path.starts_with("/v1/stacks?")).all(|path| path.contains("status="))
        );
        assert_eq!(asked.len(), 11, "{asked:?}");
    }
}
