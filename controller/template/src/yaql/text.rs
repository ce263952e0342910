//! The functions of yaql over texts. HOT's own are in `render/text.rs`.

use std::collections::BTreeSet;

use super::arguments::Arguments;
use super::collection::is;
use super::evaluate::Evaluated;
use super::query::size;
use super::value::Y;

/// `None`: the function is not of this kind.
pub(super) fn call(args: &Arguments<'_>) -> Option<Evaluated> {
    Some(match args.name {
        "str" => args.want(1, 1).and_then(|()| shown(args)),
        "isString" => is(args, |value| matches!(value, Y::Text(_))),
        "isEmpty" => is(args, |value| !value.is_true()),
        "toUpper" => changed(args, |text| text.to_uppercase()),
        "toLower" => changed(args, |text| text.to_lowercase()),
        "trim" | "trimLeft" | "trimRight" | "norm" => trim(args),
        "split" | "rightSplit" => split(args),
        "join" => join(args),
        "replace" => replace(args),
        "substring" => substring(args),
        "startsWith" | "endsWith" => begins(args),
        "indexOf" | "lastIndexOf" => index_of(args),
        "format" => super::format::format(args),
        "characters" if args.of.is_none() => characters(args),
        "toCharArray" => args.want(1, 1).and_then(|()| args.text(0)).and_then(|text| {
            args.evaluator.list(text.chars().map(|c| Y::text(c.encode_utf8(&mut [0; 4]))).collect())
        }),
        _ => return None,
    })
}

fn shown(args: &Arguments<'_>) -> Evaluated {
    let value = args.value(0)?;
    args.evaluator.spend(value.weight())?;
    args.evaluator.text(value.shown())
}

fn changed(args: &Arguments<'_>, change: impl Fn(&str) -> String) -> Evaluated {
    args.want(1, 1)?;
    args.text(0).and_then(|text| args.evaluator.text(change(&text)))
}

fn trim(args: &Arguments<'_>) -> Evaluated {
    args.want(1, 2)?;
    let text = args.text(0)?;
    let chars = args.optional(1)?;
    let is_trimmed = |c: char| match &chars {
        Some(Y::Text(chars)) => chars.contains(c),
        _ => c.is_whitespace(),
    };
    let trimmed = match args.name {
        "trimLeft" => text.trim_start_matches(is_trimmed),
        "trimRight" => text.trim_end_matches(is_trimmed),
        _ => text.trim_matches(is_trimmed),
    };
    if args.name == "norm" && trimmed.is_empty() {
        return Ok(Y::Null);
    }
    args.evaluator.text(trimmed.to_owned())
}

fn split(args: &Arguments<'_>) -> Evaluated {
    args.want(1, 3)?;
    let text = match args.value(0)? {
        Y::Text(text) => text,
        other @ (Y::Null | Y::Bool(_) | Y::Int(_) | Y::Float(_) | Y::List(_) | Y::Map(_) | Y::Regex(_)) => {
            return Err(args.wants("text", &other));
        }
    };
    args.evaluator.step(text.len() / 8)?;
    let separator = args.optional(1)?.filter(|value| !matches!(value, Y::Null));
    let most = match args.optional(2)? {
        None => usize::MAX,
        Some(Y::Int(n)) if n >= 0 => usize::try_from(n).unwrap_or(usize::MAX).saturating_add(1),
        Some(Y::Int(_)) => usize::MAX,
        Some(other) => return Err(args.wants("a whole number", &other)),
    };
    let parts: Vec<&str> = match &separator {
        None => text.split_whitespace().collect(),
        Some(Y::Text(separator)) if separator.is_empty() => return Err("yaql: an empty separator".into()),
        Some(Y::Text(separator)) if args.name == "rightSplit" => {
            let mut parts: Vec<&str> = text.rsplitn(most, &**separator).collect();
            parts.reverse();
            parts
        }
        Some(Y::Text(separator)) => text.splitn(most, &**separator).collect(),
        Some(other) => return Err(args.wants("text as separator", other)),
    };
    args.evaluator.spend(text.len())?;
    args.evaluator.list(parts.into_iter().map(Y::text).collect())
}

/// `list.join(separator)` and `separator.join(list)`
fn join(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 2)?;
    let (list, separator) = match (args.value(0)?, args.value(1)?) {
        (Y::List(list), Y::Text(separator)) | (Y::Text(separator), Y::List(list)) => (list, separator),
        (other, _) => return Err(args.wants("a list and a separator", &other)),
    };
    let mut out = String::new();
    for (index, item) in list.items.iter().enumerate() {
        args.evaluator.spend(separator.len() + item.weight())?;
        if index > 0 {
            out.push_str(&separator);
        }
        out.push_str(&item.shown());
    }
    Ok(Y::Text(out.into()))
}

fn replace(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 4)?;
    let mut text = args.text(0)?.to_string();
    if let Y::Map(map) = args.value(1)? {
        let most = if args.count() > 2 && args.int(2)? >= 0 { args.size(2)? } else { usize::MAX };
        for (old, new) in &map.entries {
            text = replaced(args, &text, old, &new.shown(), most)?;
        }
        return Ok(Y::Text(text.into()));
    }
    let most = if args.count() > 3 && args.int(3)? >= 0 { args.size(3)? } else { usize::MAX };
    replaced(args, &text, &args.text(1)?, &args.text(2)?, most).map(|text| Y::Text(text.into()))
}

fn replaced(args: &Arguments<'_>, text: &str, old: &str, new: &str, most: usize) -> Result<String, String> {
    if old.is_empty() {
        return Err("yaql: an empty text cannot be replaced".into());
    }
    let places = text.matches(old).count().min(most);
    args.evaluator.step(1 + text.len() / 64)?;
    args.evaluator.spend(text.len().saturating_add(places.saturating_mul(new.len())))?;
    Ok(text.replacen(old, new, most))
}

fn substring(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 3)?;
    let (text, start) = (args.text(0)?, args.int(1)?);
    let length = i128::try_from(text.chars().count()).unwrap_or(i128::MAX);
    let start = if start < 0 { (start + length).max(0) } else { start };
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let count = if args.count() > 2 && args.int(2)? >= 0 { args.size(2)? } else { usize::MAX };
    args.evaluator.text(text.chars().skip(start).take(count).collect())
}

fn begins(args: &Arguments<'_>) -> Evaluated {
    args.want(2, usize::MAX)?;
    let text = args.text(0)?;
    for index in 1..args.count() {
        let part = args.text(index)?;
        if if args.name == "startsWith" { text.starts_with(&*part) } else { text.ends_with(&*part) } {
            return Ok(Y::Bool(true));
        }
    }
    Ok(Y::Bool(false))
}

/// `text.indexOf(part, start, length)`: the index in characters.
fn index_of(args: &Arguments<'_>) -> Evaluated {
    args.want(2, 4)?;
    let (text, part) = (args.text(0)?, args.text(1)?);
    args.evaluator.step(text.len() / 8)?;
    let whole = i128::try_from(text.chars().count()).unwrap_or(i128::MAX);
    let start = if args.count() > 2 { args.int(2)? } else { 0 };
    let start = if start < 0 { start + whole } else { start };
    let end = match if args.count() > 3 { args.int(3)? } else { -1 } {
        length if length < 0 => whole,
        length => start.saturating_add(length).clamp(0, whole),
    };
    let start = start.max(0);
    if start > end {
        return Ok(Y::Int(-1));
    }
    // Both are within the text.
    let byte = |at: i128| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte)
    };
    let (first, last) = (byte(start), byte(end));
    let within = &text[first..last];
    let found = if args.name == "indexOf" { within.find(&*part) } else { within.rfind(&*part) };
    Ok(found.map_or(Y::Int(-1), |at| size(text[..first + at].chars().count())))
}

/// The distinct characters of the classes that are asked for, in their order.
fn characters(args: &Arguments<'_>) -> Evaluated {
    const PARAMETERS: [&str; 12] = [
        "digits",
        "hexdigits",
        "asciiLowercase",
        "asciiUppercase",
        "asciiLetters",
        "letters",
        "octdigits",
        "punctuation",
        "printable",
        "lowercase",
        "uppercase",
        "whitespace",
    ];
    let is_space = |c: char| matches!(c, '\t'..='\r' | ' ');
    let mut found = BTreeSet::new();
    for (name, index) in PARAMETERS.into_iter().zip(args.placed(PARAMETERS)?) {
        if !args.flag(index)? {
            continue;
        }
        found.extend(('\0'..='\x7f').filter(|c| match name {
            "digits" => c.is_ascii_digit(),
            "hexdigits" => c.is_ascii_hexdigit(),
            "asciiLowercase" | "lowercase" => c.is_ascii_lowercase(),
            "asciiUppercase" | "uppercase" => c.is_ascii_uppercase(),
            "asciiLetters" | "letters" => c.is_ascii_alphabetic(),
            "octdigits" => matches!(c, '0'..='7'),
            "punctuation" => c.is_ascii_punctuation(),
            "printable" => c.is_ascii_graphic() || is_space(*c),
            _ => is_space(*c),
        }));
    }
    args.evaluator.list(found.into_iter().map(|c| Y::text(c.encode_utf8(&mut [0; 4]))).collect())
}
