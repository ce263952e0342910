//! The files of a bundle, bounded and masked. Invariant: nothing is in them that has not passed the mask.

use serde_json::Value;

use super::mask::Mask;

/// The largest file. A thousand nodes are about 500 kB.
const FILE_MAX: usize = 5 << 20;
/// The most bytes of the files before they are compressed: compressed, they fit into a mail or a ticket.
const TOTAL_MAX: usize = 50 << 20;
/// Room in that for the list of what was left out: a line for each of some hundred files.
const LEFT_OUT_MAX: usize = 64 << 10;

/// A file of the bundle.
pub struct File {
    /// The file's path in the bundle.
    pub name: String,
    pub text: String,
}

/// The part of a long text that stays.
#[derive(Clone, Copy)]
pub enum Part {
    First,
    Last,
}

pub struct Contents {
    mask: Mask,
    files: Vec<File>,
    left_out: Vec<String>,
    room: usize,
}

/// A file that is a list of documents, one a line, as far as there is room.
pub struct List<'c> {
    contents: &'c mut Contents,
    name: String,
    text: String,
    count: usize,
    is_full: bool,
}

impl Contents {
    pub fn new() -> Self {
        Self::with_room(TOTAL_MAX - LEFT_OUT_MAX)
    }

    fn with_room(room: usize) -> Self {
        Self { mask: Mask::new(), files: Vec::new(), left_out: Vec::new(), room }
    }

    /// Says that something is missing, and why.
    pub fn leave_out(&mut self, what: &str, why: &str) {
        let why = self.mask.text(why);
        self.left_out.push(format!("{what}: {why}"));
    }

    /// A text; of a long one this part.
    pub fn text(&mut self, name: &str, text: &str, part: Part) {
        let text = self.mask.text(text);
        let max = self.file_max();
        let stays = match part {
            _ if text.len() <= max => text.as_str(),
            Part::First => &text[..text.floor_char_boundary(max)],
            Part::Last => &text[text.ceil_char_boundary(text.len() - max)..],
        };
        let stays = stays.to_owned();
        if stays.len() < text.len() {
            let part = match part {
                Part::First => "first",
                Part::Last => "last",
            };
            self.leave_out(
                name,
                &format!("only the {part} {} of {} bytes are here", stays.len(), text.len()),
            );
        }
        self.add(name, stays);
    }

    /// A document as JSON; one that is too large is left out.
    pub fn document(&mut self, name: &str, mut document: Value) {
        self.mask.document(&mut document);
        let text = format!("{document:#}\n");
        if text.len() > self.file_max() {
            return self.leave_out(name, &format!("{} bytes are too many", text.len()));
        }
        self.add(name, text);
    }

    /// A list, to be filled.
    pub fn list(&mut self, name: &str) -> List<'_> {
        List { contents: self, name: name.to_owned(), text: String::new(), count: 0, is_full: false }
    }

    /// The files, the last of which says what was left out, and that list.
    pub fn end(mut self) -> (Vec<File>, Vec<String>) {
        let mut text = self.left_out.join("\n");
        text.truncate(text.floor_char_boundary(LEFT_OUT_MAX - 1));
        let text = if text.is_empty() { "Nothing was left out.\n".to_owned() } else { text + "\n" };
        self.files.push(File { name: "left-out.txt".to_owned(), text });
        (self.files, self.left_out)
    }

    fn file_max(&self) -> usize {
        self.room.min(FILE_MAX)
    }

    fn add(&mut self, name: &str, text: String) {
        self.room -= text.len();
        self.files.push(File { name: name.to_owned(), text });
    }
}

impl List<'_> {
    /// False if there is no room for it, or for any after it.
    pub fn push(&mut self, mut item: Value) -> bool {
        const BRACKETS: usize = "[\n\n]\n".len();
        self.contents.mask.document(&mut item);
        let line = format!("{}{item}", if self.count == 0 { "" } else { ",\n" });
        self.is_full |= self.text.len() + line.len() + BRACKETS > self.contents.file_max();
        if !self.is_full {
            self.text.push_str(&line);
            self.count += 1;
        }
        !self.is_full
    }

    /// The file is complete, or as complete as it gets because of this.
    pub fn end(self, cut: Option<&str>) {
        let Self { contents, name, text, count, is_full } = self;
        let text = if count == 0 { "[]\n".to_owned() } else { format!("[\n{text}\n]\n") };
        let is_full = is_full || text.len() > contents.room;
        if let Some(why) = cut.or(is_full.then_some("there is no room for more")) {
            contents.leave_out(&name, &format!("only the first {count} are here: {why}"));
        }
        // An empty list has brackets.
        if text.len() <= contents.room {
            contents.add(&name, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_bounded_and_masked() {
        let mut contents = Contents::with_room(100);
        contents.document("a", json!({"token": "geheim"}));
        contents.document("b", json!("x".repeat(200)));
        let mut list = contents.list("c");
        assert!(list.push(json!({"password": "geheim"})) && list.push(json!(1)));
        assert!(!list.push(json!("x".repeat(100))) && !list.push(json!(2)));
        list.end(None);
        contents.text("d", &"öä".repeat(50), Part::Last);
        contents.text("e", "x", Part::First);
        contents.leave_out("f", "password=geheim");
        let (files, left_out) = contents.end();
        let text = |name: &str| &*files.iter().find(|file| file.name == name).unwrap().text;
        assert_eq!(text("a"), "{\n  \"token\": \"******\"\n}\n");
        assert_eq!(text("c"), "[\n{\"password\":\"******\"},\n1\n]\n");
        // 47 bytes are left, and letters are not cut.
        assert_eq!((text("d"), text("e")), (&"öä".repeat(12)[2..], "x"));
        assert_eq!(
            left_out,
            [
                "b: 203 bytes are too many",
                "c: only the first 2 are here: there is no room for more",
                "d: only the last 46 of 200 bytes are here",
                "f: password=******",
            ]
        );
        assert_eq!(text("left-out.txt"), left_out.join("\n") + "\n");
    }

    #[test]
    fn nothing_left_out_is_said_as_well() {
        let mut contents = Contents::new();
        contents.list("empty").end(None);
        let (files, left_out) = contents.end();
        assert_eq!((files[0].text.as_str(), files[1].text.as_str()), ("[]\n", "Nothing was left out.\n"));
        assert!(left_out.is_empty());
    }
}
