//! The calls that write records to disk. Tests observe their order and make them fail; otherwise the
//! functions are empty.

use std::io;
use std::path::Path;

/// A call that is about to be made.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), allow(dead_code))] // only tests look into it
pub enum Call<'a> {
    /// A file is made, or emptied.
    Create(&'a Path),
    /// Bytes are written to it.
    Write(&'a Path),
    /// The written data becomes durable.
    Sync(&'a Path),
    /// The first path is renamed to the second.
    Rename(&'a Path, &'a Path),
    Remove(&'a Path),
    /// The names in a directory become durable.
    SyncDirectory(&'a Path),
}

/// Runs before each call.
///
/// # Errors
/// In tests: the call fails.
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
