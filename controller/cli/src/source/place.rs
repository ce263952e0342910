//! Converts between keys and paths on this host. Keys are relative to the folder of the template; if the
//! stack keeps its present template, that folder is unknown here, and keys are absolute.

use std::path::{Component, Path, PathBuf, absolute};

use muster_template::files::resolve;

use crate::failure::Failure;

/// The folder that keys are relative to.
pub(super) struct Base {
    /// The folder as the operator wrote it; `None` if keys are absolute.
    folder: Option<PathBuf>,
}

impl Base {
    pub fn of(template: Option<&Path>) -> Self {
        let folder = |template: &Path| template.parent().unwrap_or(Path::new("")).to_path_buf();
        Self { folder: template.map(folder) }
    }

    /// The key of a file that the operator names.
    pub fn key_of(&self, file: &Path) -> Result<String, Failure> {
        let wrong = |why: &str| Failure::usage(format!("{}: {why}", file.display()));
        let whole = |path: &Path| -> Result<String, Failure> {
            let path = absolute(path).map_err(|error| wrong(&error.to_string()))?;
            let text = path.to_str().ok_or_else(|| wrong("its path is not UTF-8 text"))?;
            Ok(resolve("", text))
        };
        let file = whole(file)?;
        let Some(folder) = &self.folder else { return Ok(file) };
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Ok(relative(&whole(here)?, &file))
    }

    /// The path of the file with this key, or why there is none.
    pub fn path_of(&self, key: &str) -> Result<PathBuf, String> {
        if let Some(path) = key.strip_prefix("file://") {
            return match path.starts_with('/') {
                true => Ok(PathBuf::from(path)),
                false => Err(format!(
                    "'{key}' is on another host; copy the file beside the template and name it there"
                )),
            };
        }
        if key.contains("://") {
            return Err(format!("'{key}' is a URL; copy the file beside the template and name it there"));
        }
        let mut path = self.folder.clone().unwrap_or_default();
        for part in Path::new(key).components() {
            // Paths are treated as text, like the key itself: 'a/../b' is 'b' even if 'a' is a link.
            match (part, path.components().next_back()) {
                (Component::ParentDir, Some(Component::Normal(_))) => drop(path.pop()),
                (Component::ParentDir, Some(Component::CurDir)) => path = PathBuf::from(".."),
                (Component::ParentDir, Some(Component::RootDir)) => {}
                _ => path.push(part),
            }
        }
        Ok(path)
    }

    /// The file's name for the places of errors.
    pub fn shown(&self, key: &str) -> String {
        self.path_of(key).map_or_else(|_| key.to_owned(), |path| path.display().to_string())
    }
}

/// The relative path from a folder to a file, both absolute and in their shortest form.
fn relative(folder: &str, file: &str) -> String {
    let parts = |path: &'_ str| -> Vec<String> {
        path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let (folder, file) = (parts(folder), parts(file));
    let same = folder.iter().zip(&file).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", folder.len() - same);
    let down = file[same..].iter().map(String::as_str);
    up.chain(down).collect::<Vec<_>>().join("/")
}
