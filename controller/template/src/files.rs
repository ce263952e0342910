//! Files that come with a template: the references to them, and the key of each.
//!
//! A key is a path from the folder of the root template (`nets/vlan.yaml`, `../site/motd`), or an absolute
//! path or URL as it was written. Texts are never rewritten: a name is resolved against the key of the
//! template that contains it, on the operator's host and in the controller alike. Paths are treated as text:
//! `a/../b` is `b`, even if `a` is a link, as in a URL.
//!
//! Absent on purpose: reading. Contents come from the caller: on an operator's host, `controller/cli/src/source.rs`
//! reads them.

mod gather;
mod mention;

use std::collections::BTreeMap;

pub use gather::gather;
pub use mention::Mention;

/// The endings of templates' files, where these are types.
pub(crate) const TEMPLATE_ENDINGS: [&str; 2] = [".yaml", ".template"];

/// Whether a type's name is that of a template's file.
pub fn is_template(name: &str) -> bool {
    TEMPLATE_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The key of what a template (or environment) with the key `base` calls `name`. The root template's
/// is empty.
pub fn resolve(base: &str, name: &str) -> String {
    let (base_root, base_path) = split(base);
    let (root, path) = split(name);
    let folder = base_path.rsplit_once('/').map_or("", |(folder, _)| folder);
    match root {
        // A relative path is below the folder of the base.
        "" => normal(base_root, folder, path),
        // An absolute path in a template from a URL refers to that URL's host.
        "/" if base_root.contains("://") => normal(base_root, "", path),
        root => normal(root, "", path),
    }
}

/// The root of a key (empty, `/`, `file:///`, `https://host/`), and the path from there.
fn split(key: &str) -> (&str, &str) {
    let root = match key.find("://") {
        Some(scheme) if scheme > 0 && key[..scheme].bytes().all(|b| b.is_ascii_alphanumeric()) => {
            let host = scheme + "://".len();
            key[host..].find('/').map_or(key.len(), |end| host + end + 1)
        }
        _ => usize::from(key.starts_with('/')),
    };
    key.split_at(root)
}

/// The shortest form of a path, so that a file has one key.
fn normal(root: &str, folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            // Nothing is above a root, unlike above the root template's folder.
            ".." if !root.is_empty() => {}
            part => parts.push(part),
        }
    }
    // A host without a path, possibly without a name.
    let is_whole = root.ends_with('/') && !root.ends_with("://");
    let slash = if root.is_empty() || is_whole { "" } else { "/" };
    [root, slash, &parts.join("/")].concat()
}

/// The given files, as one template sees them.
pub(crate) struct TemplateFiles<'a> {
    base: &'a str,
    files: &'a BTreeMap<String, String>,
}

impl<'a> TemplateFiles<'a> {
    /// The files for the template with the key `base`.
    pub fn new(base: &'a str, files: &'a BTreeMap<String, String>) -> Self {
        Self { base, files }
    }

    /// The content of what the template calls `name`.
    pub fn get(&self, name: &str) -> Option<&'a String> {
        let resolved = self.files.get(&resolve(self.base, name));
        // The root's files may have been given under the names in its text.
        resolved.or_else(|| self.base.is_empty().then(|| self.files.get(name)).flatten())
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn keys(&self) -> impl Iterator<Item = &'a String> {
        self.files.keys()
    }
}

#[cfg(test)]
mod tests;
