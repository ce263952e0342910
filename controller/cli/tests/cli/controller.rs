//! A controller that answers from a script, for what a real one cannot be made to do on time.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tempfile::TempDir;

/// The controller's answer to a request.
pub enum Act {
    /// Answers with a status code and a body.
    Answer(u16, Value),
    /// Refuses: to be asked again after so many seconds.
    Busy(u64),
    /// Keeps the asker waiting until it gives up.
    Hang,
    /// Breaks the connection off; the next request comes on a new one.
    Break,
}

/// A script under way.
pub struct Controller {
    folder: TempDir,
    thread: JoinHandle<Vec<String>>,
}

impl Controller {
    /// Listens; each request gets the next act.
    pub fn with(script: Vec<Act>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(socket(&folder)).unwrap();
        let thread = std::thread::spawn(move || {
            let mut requests = Vec::new();
            let mut connection = None;
            for act in script {
                // The command may go on with another connection.
                let open = connection.take().and_then(still_open);
                let mut stream = open.unwrap_or_else(|| BufReader::new(listener.accept().unwrap().0));
                requests.push(request(&mut stream));
                match act {
                    Act::Answer(status, body) => {
                        answer(&mut stream, status, "", &body);
                        connection = Some(stream);
                    }
                    Act::Busy(seconds) => {
                        let error = json!({"class": "unavailable", "message": "it is busy", "errors": []});
                        let head = format!("retry-after: {seconds}\r\n");
                        answer(&mut stream, 503, &head, &json!({"error": error}));
                        connection = Some(stream);
                    }
                    Act::Hang => assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0),
                    Act::Break => {}
                }
            }
            requests
        });
        Self { folder, thread }
    }

    /// For `--url`.
    pub fn url(&self) -> String {
        format!("unix://{}", socket(&self.folder).display())
    }

    /// `METHOD path`, for another site `@SITE`, and the body of each request, with blanks in between.
    pub fn requests(self) -> Vec<String> {
        self.thread.join().unwrap()
    }
}

fn answer(stream: &mut BufReader<UnixStream>, status: u16, head: &str, body: &Value) {
    let body = body.to_string();
    let length = body.len();
    write!(stream.get_mut(), "HTTP/1.1 {status} X\r\n{head}content-length: {length}\r\n\r\n{body}").unwrap();
}

/// Waits for the next request, or for the connection's end.
fn still_open(mut stream: BufReader<UnixStream>) -> Option<BufReader<UnixStream>> {
    let is_over = stream.fill_buf().unwrap_or_default().is_empty();
    (!is_over).then_some(stream)
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("api.sock")
}

fn request(stream: &mut BufReader<UnixStream>) -> String {
    let mut length = 0;
    let (mut first, mut site) = (None, String::new());
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "a whole request");
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("muster-site:") {
            site = format!(" @{}", value.trim());
        }
        first.get_or_insert_with(|| line.trim_end_matches(" HTTP/1.1").to_owned());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    format!("{}{site} {}", first.unwrap(), String::from_utf8(body).unwrap()).trim_end().to_owned()
}
