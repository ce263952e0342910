//! The kept part of an output: its end, since that shows the error.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;

use super::record::Output;

/// The most bytes kept of standard output and of standard error, and the most of an output: the report of a
/// run with four of them fits a message of 256 KiB.
pub const OUTPUT_MAX: usize = 32 * 1024;

/// The last bytes of a stream.
pub(super) struct Tail {
    kept: VecDeque<u8>,
    max: usize,
    left_out: u64,
}

impl Tail {
    /// At most `max` bytes.
    pub(super) fn of(max: usize) -> Self {
        Self { kept: VecDeque::new(), max, left_out: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        let excess = self.kept.len().saturating_sub(self.max);
        self.kept.drain(..excess);
        self.left_out += excess as u64;
    }

    /// Nothing is left out.
    pub(super) fn is_whole(&self) -> bool {
        self.left_out == 0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.kept.into()
    }

    /// The output as text, within the bound even where one byte became three; the text says how much
    /// is missing.
    pub(super) fn text(mut self) -> String {
        let text = text(self.kept.make_contiguous());
        if self.left_out == 0 && text.len() <= OUTPUT_MAX {
            return text;
        }
        let word = format!("[{} bytes before this are left out]\n", self.left_out);
        let mut from = text.len() - (OUTPUT_MAX - word.len()).min(text.len());
        while !text.is_char_boundary(from) {
            from += 1;
        }
        word + &text[from..]
    }
}

/// The output at `path`, if the run left one.
pub(super) fn read(path: &Path) -> io::Result<Option<Output>> {
    // Opens even a FIFO at once.
    let file = match File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(OUTPUT_MAX as u64 + 1).read_to_end(&mut bytes)?;
    let text = text(&bytes);
    let is_whole = bytes.len() <= OUTPUT_MAX && text.len() <= OUTPUT_MAX;
    Ok(Some(if is_whole { Output::Text(text) } else { Output::TooLarge(meta.len()) }))
}

/// Output as text: invalid UTF-8 and NULs are replaced.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(pieces: &[&[u8]]) -> String {
        let mut tail = Tail::of(OUTPUT_MAX);
        pieces.iter().for_each(|piece| tail.push(piece));
        tail.text()
    }

    #[test]
    fn what_fits_is_whole_and_of_more_the_end_is_kept() {
        assert_eq!(kept(&[b"a", b"", b"b\n"]), "ab\n");
        assert_eq!(kept(&[b"\xff\0\xc3\xa4"]), "\u{fffd}\u{fffd}ä");
        assert_eq!(kept(&[&[b'a'; OUTPUT_MAX]]).len(), OUTPUT_MAX);
        for pieces in [
            [&[b'a'; 3 * OUTPUT_MAX][..], b"end"],
            [&[0xff; OUTPUT_MAX], b"end"],
            [&[b'a'; OUTPUT_MAX], b"end"],
        ] {
            let text = kept(&pieces);
            assert!(text.starts_with('[') && text.ends_with("end"), "{text}");
            assert!(text.len() <= OUTPUT_MAX, "{}", text.len());
        }
    }

    #[test]
    fn an_output_is_a_file_within_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.a");
        assert_eq!(read(&path).unwrap(), None);
        std::fs::write(&path, "blue\n").unwrap();
        assert_eq!(read(&path).unwrap(), Some(Output::Text("blue\n".into())));
        std::fs::write(&path, vec![b'a'; OUTPUT_MAX + 1]).unwrap();
        assert_eq!(read(&path).unwrap(), Some(Output::TooLarge(OUTPUT_MAX as u64 + 1)));
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&path).is_err());
    }
}
