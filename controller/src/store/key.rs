//! The data key, which seals the database, and its file.
//!
//! ```text
//!   secrets.key        64 hexadecimal digits, for the owner's eyes only
//!   secrets.key.new    the key that follows, while the database is being sealed anew
//! ```
//!
//! The database records the id of its key ([`KeyId`]); this decides which of two keys is valid, and not the
//! existence of files. A key is made only for a database without sealed values.
//!
//! Absent: the sealed values and their places (`sealed`).

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use chacha20poly1305::aead::AeadInPlace as _;
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use rustls::crypto::ring::default_provider;
use thiserror::Error;
use zeroize::Zeroizing;

/// The key's default path within the data directory.
pub const KEY_FILE: &str = "secrets.key";

/// The most bytes of a key file, which is a line of 64 digits; a much longer file is another one.
const FILE_MAX: u64 = 4096;
const NONCE: usize = 24;
const TAG: usize = 16;
/// Nonces fetched from the system at a time: a call for each would cost as much as a seal.
const NONCES: usize = 64;
/// The first byte of each sealed value.
const FORMAT: u8 = 1;

/// The reason why the data key cannot be used.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The database was sealed with a key that is not there.
    #[error(
        "{path}: the key {id}, with which the database is sealed, is not there: restore it from where it is kept; \
         no other opens the database"
    )]
    Missing {
        /// The expected path.
        path: PathBuf,
        id: KeyId,
    },
    /// The key differs from the one that sealed the database.
    #[error("{path} is the key {found}, but the database is sealed with {wanted}: put that one there")]
    Wrong {
        path: PathBuf,
        /// The key in it.
        found: KeyId,
        wanted: KeyId,
    },
    /// Others can read it.
    #[error(
        "{path} has mode {mode:04o}: others may read it; chmod 0600 it, and consider 'muster-controller rekey'"
    )]
    Exposed { path: PathBuf, mode: u32 },
    /// The file does not hold 64 hexadecimal digits.
    #[error("{path} is no key: want one line of 64 hexadecimal digits; restore it from where it is kept")]
    Damaged { path: PathBuf },
    /// An error of the disk.
    #[error("{path} cannot be read or written: {source}")]
    Io { path: PathBuf, source: io::Error },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random,
}

/// Names a key without saying anything of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId([u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", HEXLOWER.encode_display(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for KeyId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(drop)?;
        bytes.try_into().map(Self).map_err(drop)
    }
}

/// The sealed value belongs to another key, was altered, or was in another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotOurs;

/// The data key, ready for use; clones share it. Never shown.
#[derive(Clone)]
pub struct DataKey(Arc<Key>);

struct Key {
    bytes: Zeroizing<[u8; 32]>,
    seal: XChaCha20Poly1305,
    names: Zeroizing<[u8; 32]>,
    id: KeyId,
    nonces: Mutex<Nonces>,
}

struct Nonces {
    bytes: [u8; NONCE * NONCES],
    left: usize,
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKey {}", self.0.id)
    }
}

impl DataKey {
    /// Makes a key from 32 random bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let derived = |context: &str| Zeroizing::new(blake3::derive_key(context, &bytes));
        let seal = XChaCha20Poly1305::new((&*derived("muster 2026 store seal")).into());
        let mut id = [0; 8];
        id.copy_from_slice(&derived("muster 2026 store key id")[..8]);
        Self(Arc::new(Key {
            seal,
            names: derived("muster 2026 store content names"),
            id: KeyId(id),
            nonces: Mutex::new(Nonces { bytes: [0; NONCE * NONCES], left: 0 }),
            bytes: Zeroizing::new(bytes),
        }))
    }

    /// A new random key.
    ///
    /// # Errors
    /// [`KeyError::Random`]
    pub fn random() -> Result<Self, KeyError> {
        let mut bytes = [0; 32];
        fill(&mut bytes)?;
        Ok(Self::from_bytes(bytes))
    }

    pub fn id(&self) -> KeyId {
        self.0.id
    }

    /// Encrypts; the result can be opened only with the same `place`.
    pub(super) fn seal(&self, place: &[u8], plain: &[u8]) -> Result<Vec<u8>, KeyError> {
        let nonce = self.nonce()?;
        let mut sealed = Vec::with_capacity(1 + NONCE + plain.len() + TAG);
        sealed.push(FORMAT);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let tag = self
            .0
            .seal
            .encrypt_in_place_detached((&nonce).into(), place, &mut sealed[1 + NONCE..])
            .expect("far below the cipher's 256 GiB");
        sealed.extend_from_slice(&tag);
        Ok(sealed)
    }

    /// Decrypts and authenticates.
    pub(super) fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, NotOurs> {
        let (&format, rest) = sealed.split_first().ok_or(NotOurs)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE>().ok_or(NotOurs)?;
        let (body, tag) = rest.split_last_chunk::<TAG>().ok_or(NotOurs)?;
        if format != FORMAT {
            return Err(NotOurs);
        }
        let mut plain = body.to_vec();
        let opened = self.0.seal.decrypt_in_place_detached(nonce.into(), place, &mut plain, tag.into());
        opened.map(|()| plain).map_err(|_| NotOurs)
    }

    /// The name of a content in the database: it does not reveal the bytes of a short one to guessing.
    pub(super) fn name(&self, digest: &[u8; 32]) -> [u8; 32] {
        *blake3::keyed_hash(&self.0.names, digest).as_bytes()
    }

    fn nonce(&self) -> Result<[u8; NONCE], KeyError> {
        // A thread that panicked here has its nonce, or took none.
        let mut nonces = self.0.nonces.lock().unwrap_or_else(PoisonError::into_inner);
        if nonces.left == 0 {
            fill(&mut nonces.bytes)?;
            nonces.left = NONCES;
        }
        nonces.left -= 1;
        let at = nonces.left * NONCE;
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&nonces.bytes[at..at + NONCE]);
        Ok(nonce)
    }
}

fn fill(bytes: &mut [u8]) -> Result<(), KeyError> {
    default_provider().secure_random.fill(bytes).map_err(|_| KeyError::Random)
}

/// The file of the data key.
#[derive(Clone, Debug)]
pub struct KeyFile(PathBuf);

impl KeyFile {
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The key of a database that is sealed with `sealed_with`; if the database has no sealed values,
    /// possibly a new key. Completes an interrupted change of keys.
    ///
    /// # Errors
    /// [`KeyError`]; then no key is made, and none is lost.
    pub fn open(&self, sealed_with: Option<KeyId>) -> Result<DataKey, KeyError> {
        let (path, next) = (&self.0, self.next());
        if let Some(wanted) = sealed_with {
            if matches!(read(&next), Ok(Some(key)) if key.id() == wanted) {
                self.use_next()?;
            } else if next.exists() && matches!(read(path), Ok(Some(key)) if key.id() == wanted) {
                self.abandon()?;
            }
        }
        match (read(path)?, sealed_with) {
            (Some(key), Some(wanted)) if key.id() != wanted => {
                Err(KeyError::Wrong { path: path.clone(), found: key.id(), wanted })
            }
            (Some(key), _) => Ok(key),
            (None, Some(id)) => Err(KeyError::Missing { path: path.clone(), id }),
            (None, None) => {
                let key = DataKey::random()?;
                self.prepare(&key)?;
                self.use_next()?;
                Ok(key)
            }
        }
    }

    /// The key of this name, in whichever of the two files it is. Nothing is changed: a change of keys may be
    /// under way.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn find(&self, wanted: KeyId) -> Result<DataKey, KeyError> {
        if let Ok(Some(next)) = read(&self.next())
            && next.id() == wanted
        {
            return Ok(next);
        }
        match read(&self.0)? {
            Some(key) if key.id() == wanted => Ok(key),
            Some(key) => Err(KeyError::Wrong { path: self.0.clone(), found: key.id(), wanted }),
            None => Err(KeyError::Missing { path: self.0.clone(), id: wanted }),
        }
    }

    /// Durably writes the next key beside the present one.
    ///
    /// # Errors
    /// [`KeyError::Io`]
    pub fn prepare(&self, key: &DataKey) -> Result<(), KeyError> {
        self.abandon()?;
        let next = self.next();
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
            let mut line = Zeroizing::new(String::with_capacity(65));
            HEXLOWER_PERMISSIVE.encode_append(&*key.0.bytes, &mut line);
            line.push('\n');
            file.write_all(line.as_bytes())?;
            file.sync_all()?;
            self.sync_folder()
        };
        write().map_err(|source| KeyError::Io { path: next.clone(), source })
    }

    /// Replaces the present key by the next one.
    ///
    /// # Errors
    /// [`KeyError::Io`]
    pub fn use_next(&self) -> Result<(), KeyError> {
        let rename = || fs::rename(self.next(), &self.0).and_then(|()| self.sync_folder());
        rename().map_err(|source| KeyError::Io { path: self.0.clone(), source })
    }

    /// The key that was to follow does not.
    ///
    /// # Errors
    /// [`KeyError::Io`]
    pub fn abandon(&self) -> Result<(), KeyError> {
        let next = self.next();
        match fs::remove_file(&next) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(KeyError::Io { path: next, source })
            }
            _ => Ok(()),
        }
    }

    fn next(&self) -> PathBuf {
        let mut next = self.0.clone().into_os_string();
        next.push(".new");
        next.into()
    }

    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.0.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// `None`: there is no such file.
fn read(path: &Path) -> Result<Option<DataKey>, KeyError> {
    let failed = |source| KeyError::Io { path: path.to_owned(), source };
    let damaged = || KeyError::Damaged { path: path.to_owned() };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let found = file.metadata().map_err(failed)?;
    if found.mode() & 0o077 != 0 {
        return Err(KeyError::Exposed { path: path.to_owned(), mode: found.mode() & 0o7777 });
    }
    if !found.is_file() || found.len() > FILE_MAX {
        return Err(damaged());
    }
    let mut text = Zeroizing::new(String::with_capacity(FILE_MAX as usize));
    if let Err(error) = (&mut file).take(FILE_MAX).read_to_string(&mut text) {
        return Err(if error.kind() == io::ErrorKind::InvalidData { damaged() } else { failed(error) });
    }
    let bytes = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).map_err(|_| damaged())?;
    let bytes: [u8; 32] = Zeroizing::new(bytes).as_slice().try_into().map_err(|_| damaged())?;
    Ok(Some(DataKey::from_bytes(bytes)))
}

#[cfg(test)]
mod tests;
