//! The bundle's file: a .tar.gz for its owner alone, there as a whole or not at all.

use std::fs::File as Handle;
use std::io::Result;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};
use tempfile::NamedTempFile;

use super::contents::File;

/// The folder that all files are in.
pub const FOLDER: &str = "muster-support";

/// Writes it; its size. A file of that name is an error, unless it is to be replaced.
pub fn write(path: &Path, files: &[File], replace: bool) -> Result<u64> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Mode 0600.
    let mut file = NamedTempFile::new_in(folder)?;
    let mut archive = Builder::new(GzEncoder::new(file.as_file_mut(), Compression::default()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    for File { name, text } in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now);
        archive.append_data(&mut header, format!("{FOLDER}/{name}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish()?;
    file.as_file().sync_all()?;
    let size = file.as_file().metadata()?.len();
    if replace { file.persist(path) } else { file.persist_noclobber(path) }.map_err(|failed| failed.error)?;
    Handle::open(folder)?.sync_all()?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{ErrorKind, Read as _};
    use std::os::unix::fs::PermissionsExt as _;

    use flate2::read::GzDecoder;
    use tar::Archive;

    use super::*;

    #[test]
    fn a_bundle_can_be_read_and_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.tar.gz");
        let files = [File { name: "stacks/web/events.json".to_owned(), text: "[]\n".to_owned() }];
        let size = write(&path, &files, false).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.len(), metadata.permissions().mode() & 0o777), (size, 0o600));
        let mut archive = Archive::new(GzDecoder::new(fs::File::open(&path).unwrap()));
        let mut entry = archive.entries().unwrap().next().unwrap().unwrap();
        assert_eq!(entry.path().unwrap(), Path::new("muster-support/stacks/web/events.json"));
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        assert_eq!(text, "[]\n");

        fs::write(&path, "mine").unwrap();
        assert_eq!(write(&path, &files, false).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        write(&path, &files, true).unwrap();
        assert_ne!(fs::read(&path).unwrap(), b"mine");
        // Nothing else is left.
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write(&dir.path().join("nowhere/b"), &files, false).is_err());
    }
}
