//! `make_url`, escaped as Python's `urllib` does it for Heat.

use std::borrow::Cow;
use std::fmt::Write;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::error::{cut, suggestion};
use crate::expression::{Expr, ExprKind, describe};
use crate::text::python;

const PARTS: [&str; 8] = ["scheme", "username", "password", "host", "port", "path", "query", "fragment"];

/// The characters that Python's `quote` leaves besides letters and digits, and those left in each part of a URL.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b'~');
const PATH: &AsciiSet = &UNRESERVED.remove(b'/');
const HOST: &AsciiSet = &UNRESERVED.remove(b':');
const QUERY: &AsciiSet = &PATH.remove(b' ');

/// The schemes for which Python writes `//` before an empty host: `uses_netloc` of its `urllib.parse`.
const WITH_AUTHORITY: [&str; 25] = [
    "file", "ftp", "git", "git+ssh", "gopher", "http", "https", "imap", "mms", "nfs", "nntp", "prospero",
    "rsync", "rtsp", "rtspu", "sftp", "shttp", "snews", "svn", "svn+ssh", "telnet", "wais", "ws", "wss",
    "rtsps",
];

/// The error in the keys, as far as it can be found before any value is known.
pub(crate) fn unknown_part(argument: &Expr) -> Option<String> {
    if let ExprKind::Map(entries) = &argument.kind {
        entries.iter().find_map(|entry| unknown(&entry.key))
    } else {
        Some(format!("want a map of {}, got {}", PARTS.join(", "), argument.describe()))
    }
}

fn unknown(key: &str) -> Option<String> {
    (!PARTS.contains(&key))
        .then(|| format!("unknown key '{}' of make_url{}", cut(key), suggestion(key, PARTS)))
}

pub(super) fn make(argument: Value) -> Result<String, String> {
    let Value::Object(parts) = argument else {
        return Err(format!("want a map of {}, got {}", PARTS.join(", "), describe(&argument)));
    };
    if let Some(message) = parts.keys().find_map(|key| unknown(key)) {
        return Err(message);
    }
    let text = |name: &str| match parts.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(format!("want text as '{name}', got {}", describe(other))),
    };
    let scheme = text("scheme")?;
    if scheme.contains(':') {
        return Err("want the 'scheme' without ':'".into());
    }
    let authority = authority(text("username")?, text("password")?, text("host")?, port(parts.get("port"))?);
    let query = query(parts.get("query"))?;
    let (path, fragment) = (quote(text("path")?, PATH), quote(text("fragment")?, PATH));

    // Joins the parts as `urlunsplit` does.
    let mut url = String::new();
    if !scheme.is_empty() {
        url.push_str(scheme);
        url.push(':');
    }
    let has_slashes = path.starts_with("//");
    if !authority.is_empty() || (!has_slashes && WITH_AUTHORITY.contains(&scheme)) {
        url.push_str("//");
        url.push_str(&authority);
        if !path.is_empty() && !path.starts_with('/') {
            url.push('/');
        }
    }
    url.push_str(&path);
    for (mark, part) in [('?', &*query), ('#', &*fragment)] {
        if !part.is_empty() {
            url.push(mark);
            url.push_str(part);
        }
    }
    Ok(url)
}

fn authority(username: &str, password: &str, host: &str, port: Option<u16>) -> String {
    let mut out = String::new();
    if !username.is_empty() || !password.is_empty() {
        out.push_str(&quote(username, UNRESERVED));
        if !password.is_empty() {
            out.push(':');
            out.push_str(&quote(password, UNRESERVED));
        }
        out.push('@');
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let quoted = quote(bare, HOST);
    if quoted.contains(':') {
        out.push('[');
        out.push_str(&quoted);
        out.push(']');
    } else {
        out.push_str(&quoted);
    }
    if let Some(port) = port {
        out.push(':');
        out.push_str(&port.to_string());
    }
    out
}

fn port(value: Option<&Value>) -> Result<Option<u16>, String> {
    let number = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.is_empty() => return Ok(None),
        Some(Value::String(text)) => text.trim().parse::<u16>().ok(),
        Some(Value::Number(number)) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
        Some(other) => {
            return Err(format!("want a number from 1 to 65535 as 'port', got {}", describe(other)));
        }
    };
    match number {
        Some(number) if number > 0 => Ok(Some(number)),
        _ => Err("want a number from 1 to 65535 as 'port'".into()),
    }
}

fn query(value: Option<&Value>) -> Result<String, String> {
    let empty = Map::new();
    let map = match value {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(map)) => map,
        Some(other) => return Err(format!("want a map as 'query', got {}", describe(other))),
    };
    let mut out = String::new();
    for (key, value) in map {
        if !out.is_empty() {
            out.push('&');
        }
        let plus = |text: &str| quote(text, QUERY).replace(' ', "+");
        let value = value.as_str().map_or_else(|| python(value).into(), Cow::Borrowed);
        write!(out, "{}={}", plus(key), plus(&value)).expect("writing to a String does not fail");
    }
    Ok(out)
}

/// Escapes all bytes except letters, digits, and those that the set leaves.
fn quote<'t>(text: &'t str, set: &'static AsciiSet) -> Cow<'t, str> {
    utf8_percent_encode(text, set).into()
}
