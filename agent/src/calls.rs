//! The calls by which records come to the disk. Tests see them in their order, and refuse them as a disk does; otherwise
//! there is nothing here.

use std::io;
use std::path::Path;

/// What is about to be done.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), allow(dead_code))] // only tests look into it
pub enum Call<'a> {
    /// A file is made, or emptied.
    Create(&'a Path),
    /// Bytes are written to it.
    Write(&'a Path),
    /// What was written becomes durable.
    Sync(&'a Path),
    /// The first gets the second one's name.
    Rename(&'a Path, &'a Path),
    Remove(&'a Path),
    /// The names in a directory become durable.
    SyncDirectory(&'a Path),
}

/// Comes before each of them.
///
/// # Errors
/// In tests: it is not to be done.
#[cfg(not(test))]
pub fn before(_: Call<'_>) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub use tap::{Tap, before};

#[cfg(test)]
mod tap {
    use std::cell::RefCell;

    use super::{Call, io};

    type Look = Box<dyn FnMut(Call<'_>) -> io::Result<()>>;

    thread_local! {
        static LOOK: RefCell<Option<Look>> = const { RefCell::new(None) };
    }

    /// While it lives, each call of this thread is looked at.
    pub struct Tap(());

    impl Tap {
        pub fn new(look: impl FnMut(Call<'_>) -> io::Result<()> + 'static) -> Self {
            LOOK.with_borrow_mut(|it| *it = Some(Box::new(look)));
            Self(())
        }
    }

    impl Drop for Tap {
        fn drop(&mut self) {
            LOOK.with_borrow_mut(Option::take);
        }
    }

    pub fn before(call: Call<'_>) -> io::Result<()> {
        LOOK.with_borrow_mut(|look| look.as_mut().map_or(Ok(()), |look| look(call)))
    }
}
