//! Names of routing tables, in the file that `ip` reads.
//!
//! Lines of others stay as they are, including one that already gives a wanted name. Our lines carry a mark,
//! and only those are removed again. A missing file is made: the kernel's own names need none.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::resolver;

/// The file has a few hundred bytes; a larger one is not accepted.
const MAX_BYTES: u64 = 256 * 1024;
const MARK: &str = "# muster";
const MODE: u32 = 0o644;

/// The names with their numbers; empty if the file is missing or cannot be read.
pub(super) fn read(path: &Path) -> BTreeMap<String, u32> {
    let content = text(path).unwrap_or_default();
    content.lines().filter_map(entry).map(|(id, name)| (name.to_owned(), id)).collect()
}

/// Gives `name` its number, or takes our line of it away.
pub(super) fn set(path: &Path, name: &str, id: Option<u32>) -> io::Result<()> {
    let before = text(path)?;
    let ours = |line: &&str| line.trim_end().ends_with(MARK) && entry(line).is_some_and(|(_, it)| it == name);
    let mut lines: Vec<String> = before.lines().filter(|line| !ours(line)).map(str::to_owned).collect();
    let there =
        lines.iter().filter_map(|line| entry(line)).any(|(number, it)| it == name && Some(number) == id);
    if let Some(id) = id.filter(|_| !there) {
        lines.push(format!("{id}\t{name}\t{MARK}"));
    }
    let mut content = lines.join("\n");
    if content.is_empty() {
        return resolver::set(path, None, MODE);
    }
    content.push('\n');
    if content == before {
        return Ok(());
    }
    let mode = fs::metadata(path).map_or(MODE, |meta| meta.permissions().mode() & 0o7777);
    resolver::set(path, Some(&content), mode)
}

fn text(path: &Path) -> io::Result<String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
        Ok(meta) if meta.len() > MAX_BYTES => Err(io::Error::other("larger than any such file")),
        Ok(_) => fs::read_to_string(path),
    }
}

/// Parses a line such as `200 custom # comment`.
fn entry(line: &str) -> Option<(u32, &str)> {
    let line = line.split('#').next()?;
    let mut words = line.split_ascii_whitespace();
    let number = words.next()?;
    let id = match number.strip_prefix("0x") {
        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok()?,
        None => number.parse().ok()?,
    };
    Some((id, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_line_comes_and_goes() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("rt_tables");
        let content = || fs::read_to_string(&path).ok();
        set(&path, "custom", Some(200)).unwrap();
        set(&path, "custom", Some(200)).unwrap();
        assert_eq!(content().as_deref(), Some("200\tcustom\t# muster\n"));
        set(&path, "custom", None).unwrap();
        assert_eq!(content(), None, "it was not there before");

        let theirs = "#\n255\tlocal\n0x64 theirs # custom\n";
        fs::write(&path, theirs).unwrap();
        set(&path, "custom", Some(200)).unwrap();
        set(&path, "theirs", Some(100)).unwrap();
        assert_eq!(content().unwrap(), format!("{theirs}200\tcustom\t# muster\n"));
        let wanted =
            [("local", 255), ("theirs", 100), ("custom", 200)].map(|(name, id)| (name.to_owned(), id));
        assert_eq!(read(&path), wanted.into());
        set(&path, "custom", Some(201)).unwrap();
        set(&path, "theirs", None).unwrap();
        set(&path, "custom", None).unwrap();
        assert_eq!(content().unwrap(), theirs);
    }
}
