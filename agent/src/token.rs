//! The source of a server's join token. Every user of the server can see the arguments of its processes, and
//! the agent keeps running after it has joined: a file or a credential is a better source than an argument.
//!
//! Absent: what is in a token (`shared/src/join.rs`), and whether it lets a server join
//! (`controller/engine/src/node/join_token.rs`).

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use muster_shared::join::JoinToken;

use crate::WrongInput;

/// The systemd credential that is looked for.
pub const CREDENTIAL: &str = "muster.token";

/// The most bytes of a token's line; a token with the longest site and addresses is shorter.
const LINE_MAX: u64 = 16 * 1024;

/// The source of the token, which is the first line of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    Argument(String),
    Stdin,
    /// A file.
    File(PathBuf),
    /// The systemd credential [`CREDENTIAL`].
    Credential,
}

impl TokenSource {
    /// Reads the token. `credentials` is the directory that systemd gives a unit, if any.
    ///
    /// # Errors
    /// There is no text, or it is not a token.
    pub fn read(&self, credentials: Option<&Path>) -> anyhow::Result<JoinToken> {
        let text = match self {
            TokenSource::Argument(text) => text.clone(),
            TokenSource::Stdin => first_line(Ok(io::stdin()), "standard input")?,
            TokenSource::File(path) => first_line(File::open(path), &path.display().to_string())?,
            TokenSource::Credential => {
                let path = credentials.map(|folder| folder.join(CREDENTIAL)).filter(|path| path.exists());
                let Some(path) = path else {
                    let ways = format!(
                        "join needs the token that 'muster node token' prints: with --token - on standard input, with \
                         --token-file FILE, or as the systemd credential '{CREDENTIAL}'"
                    );
                    return Err(WrongInput(ways).into());
                };
                first_line(File::open(&path), &path.display().to_string())?
            }
        };
        Ok(text.parse()?)
    }
}

fn first_line(source: io::Result<impl Read>, name: &str) -> Result<String, WrongInput> {
    let mut line = String::new();
    let read = source.and_then(|source| BufReader::new(source.take(LINE_MAX)).read_line(&mut line));
    match read {
        Err(error) => Err(WrongInput(format!("cannot read the join token from {name}: {error}"))),
        Ok(_) if line.trim().is_empty() => {
            Err(WrongInput(format!("{name} has no join token: it must be on the first line")))
        }
        Ok(_) => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_first_line() {
        let long = format!("{}\n", "a".repeat(2 * LINE_MAX as usize));
        for (text, wanted) in [
            (&b"T"[..], Ok("T")),
            (b"T\nmore", Ok("T\n")),
            (b"", Err("standard input has no join token: it must be on the first line")),
            (b" \nT", Err("standard input has no join token: it must be on the first line")),
            (
                b"\xff\n",
                Err("cannot read the join token from standard input: stream did not contain valid UTF-8"),
            ),
            (long.as_bytes(), Ok(&long[..LINE_MAX as usize])),
        ] {
            let line = first_line(Ok(text), "standard input").map_err(|error| error.to_string());
            assert_eq!(line.as_deref().map_err(String::as_str), wanted);
        }
        let missing = TokenSource::File("/no/such".into()).read(None).unwrap_err().to_string();
        assert_eq!(
            missing,
            "cannot read the join token from /no/such: No such file or directory (os error 2)"
        );
    }
}
