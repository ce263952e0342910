//! Values and statements in PostgreSQL's form.

use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::super::value::{Value, ValueRef};

/// PostgreSQL's texts have no NUL: this stands for one.
const NUL: &str = "\u{2400}";

/// A value for a statement. What it becomes follows from the type of its place, as in SQLite.
#[derive(Debug)]
pub(super) struct Param(Value<'static>);

impl Param {
    pub fn new(value: &Value<'_>) -> Self {
        Self(value.borrowed().owned())
    }

    /// About its bytes on the wire.
    pub fn size(&self) -> usize {
        8 + match &self.0 {
            Value::Null | Value::Integer(_) => 8,
            Value::Text(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
        }
    }
}

/// Writes a value as its place wants it. An error does not show the value: it may be secret.
pub(super) fn put(
    value: ValueRef<'_>,
    kind: &Type,
    out: &mut BytesMut,
) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
    match (value, kind) {
        (ValueRef::Null, _) => return Ok(IsNull::Yes),
        (ValueRef::Integer(number), &Type::INT8) => out.put_i64(number),
        (ValueRef::Integer(number), &Type::INT4) => out.put_i32(i32::try_from(number)?),
        (ValueRef::Integer(number), &Type::TEXT) => out.put_slice(number.to_string().as_bytes()),
        (ValueRef::Text(text), &Type::TEXT) => put_text(text, out),
        (ValueRef::Text(text), &Type::BYTEA) => out.put_slice(text.as_bytes()),
        (ValueRef::Blob(bytes), &Type::BYTEA) => out.put_slice(bytes),
        (value, kind) => return Err(format!("{value:?} cannot be a {kind}").into()),
    }
    Ok(IsNull::No)
}

fn put_text(text: &str, out: &mut BytesMut) {
    if text.contains('\0') {
        out.put_slice(text.replace('\0', NUL).as_bytes());
    } else {
        out.put_slice(text.as_bytes());
    }
}

impl ToSql for Param {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        put(self.0.borrowed(), kind, out)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'r> FromSql<'r> for ValueRef<'r> {
    fn from_sql(kind: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => Self::Integer(i64::from_be_bytes(raw.try_into()?)),
            Type::INT4 => Self::Integer(i32::from_be_bytes(raw.try_into()?).into()),
            Type::BOOL => Self::Integer(i64::from(raw != [0])),
            Type::TEXT | Type::VARCHAR | Type::NAME => Self::Text(std::str::from_utf8(raw)?),
            Type::BYTEA => Self::Blob(raw),
            _ => return Err(format!("a {kind} is not read here").into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// The statement with PostgreSQL's placeholders: `$1` for `?1`, and the next number for a bare `?`.
pub(super) fn translated(sql: &str) -> String {
    numbered(sql, "$")
}

/// The statement with this before the number of each placeholder.
pub(super) fn numbered(sql: &str, mark: &str) -> String {
    let mut text = String::with_capacity(sql.len() + 16);
    let (mut is_quoted, mut bare) = (false, 0);
    let mut rest = sql.chars().peekable();
    while let Some(c) = rest.next() {
        is_quoted ^= c == '\'';
        if c != '?' || is_quoted {
            text.push(c);
            continue;
        }
        text.push_str(mark);
        if !rest.peek().is_some_and(char::is_ascii_digit) {
            bare += 1;
            text.push_str(&bare.to_string());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_translated_outside_of_texts() {
        for (sql, wanted) in [
            ("SELECT a FROM t WHERE b = ?1 AND c = ?12", "SELECT a FROM t WHERE b = $1 AND c = $12"),
            ("INSERT INTO t VALUES (?, ?, ?)", "INSERT INTO t VALUES ($1, $2, $3)"),
            ("SELECT '?1', 'it''s ?', ?1", "SELECT '?1', 'it''s ?', $1"),
            ("SELECT 1", "SELECT 1"),
        ] {
            assert_eq!(translated(sql), wanted);
        }
    }

    #[test]
    fn a_value_becomes_what_its_place_wants() {
        let put = |value: Value<'_>, kind: &Type| {
            let mut out = BytesMut::new();
            Param::new(&value).to_sql(kind, &mut out).map(|_| out.to_vec()).ok()
        };
        assert_eq!(put(Value::Integer(-2), &Type::INT8), Some((-2i64).to_be_bytes().to_vec()));
        assert_eq!(put(Value::Integer(12), &Type::TEXT), Some(b"12".to_vec()));
        assert_eq!(put(Value::Integer(i64::MAX), &Type::INT4), None);
        assert_eq!(put(Value::Text("{}".into()), &Type::BYTEA), Some(b"{}".to_vec()));
        assert_eq!(put(Value::Text("a\0b".into()), &Type::TEXT), Some("a\u{2400}b".as_bytes().to_vec()));
        assert_eq!(put(Value::Blob(vec![1].into()), &Type::TEXT), None);
        let secret = format!("{:?}", Param::new(&Value::Text("s3cret".into())));
        assert!(!secret.contains("s3cret"), "{secret}");
    }

    #[test]
    fn bytes_of_the_server_are_a_value_or_an_error() {
        let read = |kind: &Type, raw: &'static [u8]| ValueRef::from_sql(kind, raw).ok();
        assert_eq!(read(&Type::INT8, &[0, 0, 0, 0, 0, 0, 1, 0]), Some(ValueRef::Integer(256)));
        assert_eq!(read(&Type::BOOL, &[1]), Some(ValueRef::Integer(1)));
        assert_eq!(read(&Type::TEXT, b"abc"), Some(ValueRef::Text("abc")));
        for (kind, raw) in [(Type::INT8, &[0][..]), (Type::TEXT, &[255]), (Type::FLOAT8, &[0; 8])] {
            assert_eq!(read(&kind, raw), None, "{kind}");
        }
    }
}
