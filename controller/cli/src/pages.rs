//! Long lists, page by page: each request asks for a thousand items, and each page is printed when
//! it arrives.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::{Client, escaped};
use crate::failure::Failure;
use crate::output::{Column, Format, Rows, print, read};
use crate::yaml;

/// Items of a page.
const PAGE: usize = 1000;

/// A list in pages, each of which begins after the last item of the page before.
pub struct Pages<T> {
    /// The path, with its query if there is one.
    path: String,
    /// The part of an item that the next request names as the marker.
    marker: fn(&T) -> &str,
    last: Option<String>,
    is_over: bool,
}

impl<T: DeserializeOwned> Pages<T> {
    /// The list at `path`, with the `marker` of an item.
    pub fn of(path: String, marker: fn(&T) -> &str) -> Self {
        Self { path, marker, last: None, is_over: false }
    }

    /// The next page; `None` after the last.
    pub async fn next(&mut self, client: &mut Client) -> Result<Option<Vec<Value>>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        let join = if self.path.contains('?') { '&' } else { '?' };
        let mut at = format!("{}{join}limit={PAGE}", self.path);
        if let Some(last) = &self.last {
            at.push_str(&format!("&marker={}", escaped(last)));
        }
        let Value::Array(items) = client.get(&at).await? else {
            return Err(Failure::failed("the controller answered no list"));
        };
        let last: Option<T> = items.last().map(read).transpose()?;
        let last = last.as_ref().map(self.marker).filter(|marker| !marker.is_empty()).map(ToOwned::to_owned);
        self.is_over = items.len() < PAGE || last.is_none() || last == self.last;
        self.last = last;
        Ok(Some(items))
    }

    /// Prints all of it.
    pub async fn print(
        mut self,
        client: &mut Client,
        format: Format,
        columns: &[Column<T>],
    ) -> Result<(), Failure> {
        let mut list = List::new(format, columns);
        while let Some(items) = self.next(client).await? {
            list.print(&items)?;
        }
        list.end()
    }
}

/// A list being printed: a table, or one document of all pages.
pub struct List<'c, T> {
    format: Format,
    columns: &'c [Column<T>],
    rows: Rows,
    is_begun: bool,
}

impl<'c, T: DeserializeOwned> List<'c, T> {
    /// Nothing is printed yet: the first page may be refused.
    pub fn new(format: Format, columns: &'c [Column<T>]) -> Self {
        Self { format, columns, rows: Rows::default(), is_begun: false }
    }

    /// Prints a page.
    pub fn print(&mut self, items: &[Value]) -> Result<(), Failure> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        match self.format {
            Format::Table => {
                let items = items.iter().map(read).collect::<Result<Vec<T>, Failure>>()?;
                print(&self.rows.table(self.columns, &items, is_first))
            }
            Format::Json => {
                let text = items.iter().enumerate().map(|(index, item)| {
                    let before = if is_first && index == 0 { "[\n  " } else { ",\n  " };
                    format!("{before}{}", format!("{item:#}").replace('\n', "\n  "))
                });
                self.is_begun = !is_first || !items.is_empty();
                print(&text.collect::<String>())
            }
            Format::Yaml => {
                self.is_begun = !is_first || !items.is_empty();
                if items.is_empty() { Ok(()) } else { print(&yaml::document(&json!(items))) }
            }
        }
    }

    /// Ends the list.
    pub fn end(self) -> Result<(), Failure> {
        match (self.format, self.is_begun) {
            (Format::Table, true) => Ok(()),
            (Format::Table, false) => print(&Rows::default().table(self.columns, &[], true)),
            (Format::Json, true) => print("\n]\n"),
            (Format::Json | Format::Yaml, false) => print("[]\n"),
            (Format::Yaml, true) => Ok(()),
        }
    }
}
