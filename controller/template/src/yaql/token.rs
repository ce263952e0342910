//! An expression's text → its words.

use serde_json::Number;

use crate::error::cut;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// `name`
    Name(Box<str>),
    /// `$`, `$1`, `$name`: what follows the sign
    Variable(Box<str>),
    Text(Box<str>),
    Number(Number),
    /// Operators and brackets.
    Sign(&'static str),
}

/// The longer ones first.
const SIGNS: [&str; 26] = [
    "=>", "->", "?.", "!=", "=~", "!~", "<=", ">=", "(", ")", "[", "]", "{", "}", ",", ".", "+", "-", "*",
    "/", "=", "<", ">", "!", "&", "|",
];

/// Tokens with their places, in characters from 1.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, usize)>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut column = 1;
    loop {
        let trimmed = rest.trim_start();
        column += rest[..rest.len() - trimmed.len()].chars().count();
        rest = trimmed;
        let Some(first) = rest.chars().next() else { return Ok(found) };
        let (token, length) = match first {
            '\'' | '"' | '`' => quoted(rest, first).map_err(|message| at(column, &message))?,
            '$' => {
                let length = 1 + word(&rest[1..]);
                (Token::Variable(rest[1..length].into()), length)
            }
            '0'..='9' => number(rest).map_err(|message| at(column, &message))?,
            _ if first.is_alphabetic() || first == '_' => {
                let length = word(rest);
                (Token::Name(rest[..length].into()), length)
            }
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Token::Sign(sign), sign.len()),
                None => return Err(at(column, &format!("'{first}' means nothing here"))),
            },
        };
        found.push((token, column));
        column += rest[..length].chars().count();
        rest = &rest[length..];
    }
}

pub(super) fn at(column: usize, message: &str) -> String {
    format!("yaql, character {column}: {message}")
}

/// Bytes of the name that begins here.
fn word(text: &str) -> usize {
    text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())
}

fn number(text: &str) -> Result<(Token, usize), String> {
    let mut length = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    // A point before a name accesses a member: `1.str()`.
    if let Some(rest) = text[length..].strip_prefix('.')
        && rest.starts_with(|c: char| c.is_ascii_digit())
    {
        length += 1 + rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    }
    let digits = &text[..length];
    let number = if digits.contains('.') {
        digits.parse::<f64>().ok().and_then(Number::from_f64)
    } else {
        digits.parse::<i64>().ok().map(Number::from)
    };
    number
        .map(|number| (Token::Number(number), length))
        .ok_or_else(|| format!("the number {} is too large", cut(digits)))
}

fn quoted(text: &str, mark: char) -> Result<(Token, usize), String> {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((index, c)) = chars.next() {
        match c {
            _ if c == mark => return Ok((Token::Text(out.into()), index + 1)),
            '\\' => {
                let Some((_, next)) = chars.next() else { break };
                match next {
                    // Between backquotes only these are escaped.
                    _ if mark == '`' && next != '`' && next != '\\' => out.extend(['\\', next]),
                    'u' | 'x' => {
                        let count = if next == 'u' { 4 } else { 2 };
                        let digits: String = chars.clone().take(count).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == count);
                        match code.and_then(char::from_u32) {
                            Some(c) => {
                                out.push(c);
                                chars.nth(count - 1);
                            }
                            None => out.extend(['\\', next]),
                        }
                    }
                    'n' => out.push('\n'),
                    'r' => out.push('\r'),
                    't' => out.push('\t'),
                    '\\' | '\'' | '"' | '`' => out.push(next),
                    _ => out.extend(['\\', next]),
                }
            }
            _ => out.push(c),
        }
    }
    Err(format!("a {mark} is missing at the end of the text"))
}
