//! The values that go into statements and come out of rows: four kinds, which every database has.

use std::borrow::Cow;
use std::sync::Arc;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef as SqliteRef};

/// A value on its way into a statement. Its `Debug` form does not show it: it may be secret.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) enum Value<'v> {
    Null,
    Integer(i64),
    Text(Cow<'v, str>),
    Blob(Cow<'v, [u8]>),
}

/// A value of a row. Not shown either.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum ValueRef<'r> {
    Null,
    Integer(i64),
    Text(&'r str),
    Blob(&'r [u8]),
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.borrowed().fmt(f)
    }
}

impl std::fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Integer(_) => "an integer",
            Self::Text(_) => "a text",
            Self::Blob(_) => "a blob",
        })
    }
}

impl ValueRef<'_> {
    pub fn owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(number),
            Self::Text(text) => Value::Text(Cow::Owned(text.to_owned())),
            Self::Blob(bytes) => Value::Blob(Cow::Owned(bytes.to_owned())),
        }
    }
}

impl Value<'_> {
    pub fn borrowed(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => SqliteRef::Null,
            Self::Integer(number) => SqliteRef::Integer(*number),
            Self::Text(text) => SqliteRef::Text(text.as_bytes()),
            Self::Blob(bytes) => SqliteRef::Blob(bytes),
        }))
    }
}

/// Goes into a statement.
pub(in crate::store) trait ToValue {
    fn to_value(&self) -> Value<'_>;
}

impl ToValue for Value<'_> {
    fn to_value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
            Self::Blob(bytes) => Value::Blob(Cow::Borrowed(bytes)),
        }
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value<'_> {
        (**self).to_value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::to_value)
    }
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl ToValue for $kind {
            fn to_value(&self) -> Value<'_> {
                Value::Integer(i64::from(*self))
            }
        }
    )*};
}
integers!(bool, u8, u16, u32, i32, i64);

macro_rules! texts {
    ($($kind:ty),*) => {$(
        impl ToValue for $kind {
            fn to_value(&self) -> Value<'_> {
                Value::Text(Cow::Borrowed(self))
            }
        }
    )*};
}
texts!(str, String, Box<str>, Arc<str>, Cow<'_, str>);

impl ToValue for [u8] {
    fn to_value(&self) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}

/// Comes out of a row.
pub(in crate::store) trait FromValue: Sized {
    /// For errors: what the column should hold.
    const WANTED: &'static str;

    /// `None`: the value is another one.
    fn from_value(value: ValueRef<'_>) -> Option<Self>;
}

impl<T: FromValue> FromValue for Option<T> {
    const WANTED: &'static str = T::WANTED;

    fn from_value(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

macro_rules! from_integers {
    ($($kind:ty),*) => {$(
        impl FromValue for $kind {
            const WANTED: &'static str = concat!("an integer (", stringify!($kind), ")");

            fn from_value(value: ValueRef<'_>) -> Option<Self> {
                match value {
                    ValueRef::Integer(number) => Self::try_from(number).ok(),
                    ValueRef::Null | ValueRef::Text(_) | ValueRef::Blob(_) => None,
                }
            }
        }
    )*};
}
from_integers!(u8, u16, u32, u64, i64);

impl FromValue for bool {
    const WANTED: &'static str = "0 or 1";

    fn from_value(value: ValueRef<'_>) -> Option<Self> {
        i64::from_value(value).map(|number| number != 0)
    }
}

macro_rules! from_texts {
    ($($kind:ty),*) => {$(
        impl FromValue for $kind {
            const WANTED: &'static str = "a text";

            fn from_value(value: ValueRef<'_>) -> Option<Self> {
                match value {
                    ValueRef::Text(text) => Some(text.into()),
                    ValueRef::Null | ValueRef::Integer(_) | ValueRef::Blob(_) => None,
                }
            }
        }
    )*};
}
from_texts!(String, Box<str>, Arc<str>);

impl FromValue for Vec<u8> {
    const WANTED: &'static str = "a blob";

    fn from_value(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Blob(bytes) => Some(bytes.to_owned()),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Text(_) => None,
        }
    }
}

impl<const N: usize> FromValue for [u8; N] {
    const WANTED: &'static str = "a blob of its fixed size";

    fn from_value(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Blob(bytes) => bytes.try_into().ok(),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Text(_) => None,
        }
    }
}
