//! Masks texts that look like secrets before a text or a document goes into a bundle.
//!
//! The controller masks hidden parameters itself. This mask is for secrets that nobody declared: passwords in settings and
//! URLs, tokens and keys in logs, output of scripts. It would rather take too much than too little.
//!
//! Absent: which texts and documents there are (`support_bundle/site.rs`, `support_bundle/machine.rs`).

use regex::{Captures, Regex};
use serde_json::Value;

/// In place of a secret, as the controller has it.
const MASK: &str = "******";
/// Characters in a row that keys and tokens have and words have not.
const RUN_MIN: usize = 32;
/// Hexadecimal digits of a key; ids have fewer.
const HEX_MIN: usize = 64;
/// A run with a slash among so few characters is a path.
const PATH_SEGMENT: usize = 12;
const BEGIN: &str = "-----BEGIN ";
const KEY_END: &str = "PRIVATE KEY-----";

pub struct Mask {
    /// `user:password@` of a URL
    user_of_url: Regex,
    /// A password's hash, as crypt(3) has it
    hash: Regex,
    bearer: Regex,
    /// Runs of characters that may be a key or a token
    run: Regex,
    /// A name that says that its value is secret
    name: Regex,
    /// Such a name, and what is between it and its value
    assignment: Regex,
}

impl Mask {
    pub fn new() -> Self {
        let regex = |pattern: &str| Regex::new(pattern).expect("each pattern is a constant with a test");
        let secret = "(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|\
                      credential|authorization|cookie)";
        // Short words count as a whole part of a name alone: `DB_PASS`, and neither `bypass` nor `passed`.
        let word = r"(?:pass|pwd)(?:[_-]?\d+)?|(?:psk|community|r[ow]community)(?:[_-][\w-]*)?";
        let part = format!(r"(?:[\w.-]*[_.-])?(?:{word})|[\w.-]*[_-]key");
        Self {
            user_of_url: regex(r#"([A-Za-z][A-Za-z0-9+.-]*://[^\s:/@"']*):[^\s"']*@"#),
            hash: regex(r#"\$(?:1|2[abxy]?|5|6|7|y|gy|sha1|argon2\w*)\$[^\s"',:]+"#),
            bearer: regex(r"(?i)\b(bearer)\s+[\w.~+/=-]{8,}"),
            run: regex(&format!("[A-Za-z0-9+/_-]{{{RUN_MIN},}}={{0,2}}")),
            name: regex(&format!("(?i){secret}|^(?:{part})$")),
            assignment: regex(&format!(
                r#"(?i)([\w.-]*{secret}[\w-]*|\b(?<part>{part}))\\*["']?\s*(?<separator>[=:])[ \t]*"#
            )),
        }
    }

    /// A text of lines, such as a log.
    pub fn text(&self, text: &str) -> String {
        let text = without_private_keys(text);
        let text = self.user_of_url.replace_all(&text, format!("$1:{MASK}@"));
        let text = self.hash.replace_all(&text, MASK);
        let text = self.bearer.replace_all(&text, format!("$1 {MASK}"));
        let text =
            self.run.replace_all(
                &text,
                |run: &Captures<'_>| {
                    if is_key(&run[0]) { MASK.to_owned() } else { run[0].to_owned() }
                },
            );
        self.without_assigned(&text)
    }

    /// A document: values under secret names, and what its texts have.
    pub fn document(&self, document: &mut Value) {
        match document {
            Value::String(text) => *text = self.text(text),
            Value::Array(list) => list.iter_mut().for_each(|value| self.document(value)),
            Value::Object(map) => {
                for (name, value) in map {
                    let is_path = |value: &Value| value.as_str().is_some_and(|text| is_path(name, text));
                    if self.name.is_match(name) && !value.is_null() && !value.is_boolean() && !is_path(value)
                    {
                        *value = Value::from(MASK);
                    } else {
                        self.document(value);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Without the values in `password=…`, `"token": …` and the like.
    fn without_assigned(&self, text: &str) -> String {
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        while let Some(found) = self.assignment.captures_at(text, at) {
            let (whole, name) = (found.get(0).expect("a match has a whole"), &found[1]);
            out.push_str(&text[at..whole.end()]);
            at = whole.end();
            let value = value(&text[at..], &found["separator"]);
            let before = &text[..whole.start()];
            // A module's path of Rust, before the message of a log: `api::token: …`
            let is_module = before.ends_with("::") || text[at..].starts_with(':');
            // The path of a key's file, before what went wrong with it: `/etc/ssh/host_key: …`
            let is_file = found.name("part").is_some() && &found["separator"] == ":" && before.ends_with('/');
            let is_elsewhere = is_path(name, value.trim_matches(['\\', '"', '\'']));
            if !is_module && !is_file && !is_elsewhere && !value.is_empty() {
                out.push_str(MASK);
                at += value.len();
            }
        }
        out.push_str(&text[at..]);
        out
    }
}

/// The value that a rest begins with: in quotation marks, which a document in a document has escaped; or a word after `=`,
/// a line after `:`.
fn value<'a>(rest: &'a str, separator: &str) -> &'a str {
    let line = rest.split('\n').next().unwrap_or_default();
    let escapes = line.len() - line.trim_start_matches('\\').len();
    if matches!(line.as_bytes().get(escapes), Some(b'"' | b'\'')) {
        let (mark, inner) = line.split_at(escapes + 1);
        let is_end = |at: &usize| escapes > 0 || !inner[..*at].ends_with('\\');
        let end = inner.match_indices(mark).map(|(at, _)| at).find(is_end);
        return &line[..end.map_or(line.len(), |end| mark.len() + end + mark.len())];
    }
    let is_over = |c: char| c.is_whitespace() || [',', ';', '&'].contains(&c);
    let end = if separator == "=" { line.find(is_over) } else { None };
    &line[..end.unwrap_or(line.len())]
}

/// `password_file` and the like: where a secret is, unless somebody has put the secret itself there. `PWD` of a shell
/// and of sudo's lines is a directory.
fn is_path(name: &str, value: &str) -> bool {
    let has_path =
        name.to_ascii_lowercase().ends_with("_file") && (value.is_empty() || value.starts_with('/'));
    has_path || name == "PWD" && value.starts_with('/')
}

fn is_key(run: &str) -> bool {
    let has = |is: fn(&u8) -> bool| run.as_bytes().iter().any(is);
    let is_hex = run.len() >= HEX_MIN && run.bytes().all(|c| c.is_ascii_hexdigit());
    let is_path = run.matches('/').count() > run.len() / PATH_SEGMENT;
    is_hex
        || !is_path && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit)
}

/// Without PEM blocks of private keys, also those whose begin or end was cut off.
fn without_private_keys(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(mark) = rest.find(KEY_END) {
        let after = mark + KEY_END.len();
        let dashes = rest[..mark].rfind("-----").unwrap_or(mark);
        if rest[dashes..].starts_with(BEGIN) {
            out.push_str(&rest[..dashes]);
            let end = rest[after..].find(KEY_END).map_or(rest.len(), |end| after + end + KEY_END.len());
            rest = &rest[end..];
        } else {
            rest = &rest[after..];
        }
        out.push_str(MASK);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A join token, a key in base64, a key in hexadecimal digits.
    const TOKEN: &str = "muster1-AaBb0123456789-_AaBb0123456789AaBb0123456789";
    const BASE64: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg+x/4rQ==";
    const HEX: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    #[test]
    fn secrets_of_texts() {
        let mask = Mask::new();
        for (text, wanted) in [
            // As settings and logs assign them.
            ("password = \"a b\" # x", "password = ****** # x"),
            ("join_password: a b\nuser: c", "join_password: ******\nuser: c"),
            ("PGPASSWORD=geheim psql", "PGPASSWORD=****** psql"),
            ("Authorization: Basic dTpw", "Authorization: ******"),
            (r#"{"level":"INFO","token":"a\"b","at":1}"#, r#"{"level":"INFO","token":******,"at":1}"#),
            (r#"body="{\"api_key\":\"a\",\"b\":1}""#, r#"body="{\"api_key\":******,\"b\":1}""#),
            ("secret='never ends\nnext", "secret=******\nnext"),
            ("url?password=a&user=b", "url?password=******&user=b"),
            ("client_secret=a, x=1", "client_secret=******, x=1"),
            // By a part of their name.
            ("DB_PASS=hunter2 run", "DB_PASS=****** run"),
            ("MYSQL_PWD=x MYSQL_HOST=db", "MYSQL_PWD=****** MYSQL_HOST=db"),
            ("run --pass=x --user=y", "run --pass=****** --user=y"),
            ("    psk=\"a b\"\n    key_mgmt=WPA-PSK", "    psk=******\n    key_mgmt=WPA-PSK"),
            ("wpa_psk: x", "wpa_psk: ******"),
            ("encryption_key=x, b=1", "encryption_key=******, b=1"),
            ("tls-crypt-key: x y", "tls-crypt-key: ******"),
            (r#"{"community":"x","at":1}"#, r#"{"community":******,"at":1}"#),
            ("snmp.community = x", "snmp.community = ******"),
            ("rocommunity: x", "rocommunity: ******"),
            // Words that only look like such a name.
            ("labels key: value", "labels key: value"),
            ("passed: 3, bypass=1, compass=north", "passed: 3, bypass=1, compass=north"),
            ("monkey=1 keys=2 key_id=3", "monkey=1 keys=2 key_id=3"),
            ("communities=1 upwd=2", "communities=1 upwd=2"),
            ("sudo: PWD=/root ; USER=root", "sudo: PWD=/root ; USER=root"),
            ("PWD=geheim", "PWD=******"),
            ("/etc/ssh/host_key: no such file", "/etc/ssh/host_key: no such file"),
            // By their form.
            ("postgres://muster:p%40:/w@db/muster", "postgres://muster:******@db/muster"),
            ("x Bearer abcd.efgh-1 y", "x Bearer ****** y"),
            ("root:$6$salt$hash:1", "root:******:1"),
            // Where a secret is, and what is none.
            ("password_file = \"/etc/muster/pw\"", "password_file = \"/etc/muster/pw\""),
            ("password_file = hunter2", "password_file = ******"),
            ("muster_controller::api::token: revoke id=7", "muster_controller::api::token: revoke id=7"),
            ("a token was revoked; 3 tokens", "a token was revoked; 3 tokens"),
            ("https://muster.example.org:8443/a@b", "https://muster.example.org:******@b"),
            ("stack 0f0c9a52-1d0e-4a4f-9c59-0d3f0a1b2c3d", "stack 0f0c9a52-1d0e-4a4f-9c59-0d3f0a1b2c3d"),
            ("/srv/Backup/2026/muster/site/Data/x1", "/srv/Backup/2026/muster/site/Data/x1"),
        ] {
            assert_eq!(mask.text(text), wanted, "{text}");
        }
        for secret in [TOKEN, BASE64, HEX] {
            assert_eq!(mask.text(&format!("got {secret} from web-1")), "got ****** from web-1");
        }
    }

    #[test]
    fn private_keys_of_texts() {
        let mask = Mask::new();
        let (begin, end) = ("-----BEGIN EC PRIVATE KEY-----", "-----END EC PRIVATE KEY-----");
        for (text, wanted) in [
            (format!("a\n{begin}\nabc\ndef\n{end}\nb {begin} x {end} c"), "a\n******\nb ****** c"),
            (format!("a {begin}\nabc"), "a ******"),
            (format!("abc\n{end}\nb"), "******\nb"),
            ("-----BEGIN CERTIFICATE-----\nabc\n".to_owned(), "-----BEGIN CERTIFICATE-----\nabc\n"),
        ] {
            assert_eq!(mask.text(&text), wanted.to_owned(), "{text}");
        }
    }

    #[test]
    fn secrets_of_documents() {
        let mut document = json!({"link": {"user": "u", "password": "p", "password_file": "/etc/pw"},
            "store": {"url": "postgres://u:p@h/d", "key_file": "/etc/key"}, "tokens": [1, "a"], "secret": {"a": 1},
            "token": null, "hidden_token": true, "name": "web", "list": ["password=p q"], "n": 7,
            "join_password_file": "geheim", "DB_PASS": "a", "wpa-psk": "b", "community": "c", "encryption_key": 1,
            "key": "d", "passed": 2, "bypass": "e"});
        Mask::new().document(&mut document);
        assert_eq!(
            document,
            json!({"link": {"user": "u", "password": MASK, "password_file": "/etc/pw"},
                "store": {"url": "postgres://u:******@h/d", "key_file": "/etc/key"}, "tokens": MASK, "secret": MASK,
                "token": null, "hidden_token": true, "name": "web", "list": ["password=****** q"], "n": 7,
                "join_password_file": MASK, "DB_PASS": MASK, "wpa-psk": MASK, "community": MASK, "encryption_key": MASK,
                "key": "d", "passed": 2, "bypass": "e"})
        );
    }
}
