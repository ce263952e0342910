//! What the agent does to a resource, whichever its type: the trait that each type implements, and its face without
//! types, for which what was there before Muster is bytes.
//!
//! Absent: types whose changes are guarded, because they can cut the node off, and software deployments.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::packed;
use crate::run::RunId;
use crate::types::Tools;
use crate::watch::Places;

/// A desired state, and what makes it so on this server. All of it may be repeated: a crash may have come at any point.
pub trait Resource {
    /// What was there before Muster, as the ledger keeps it.
    type Before: Serialize + DeserializeOwned;
    /// Why it is not as it should be.
    type Fault: Fault;

    /// What is there, to be put back with [`Resource::restore`]. Nothing is changed.
    fn observe(&self, tools: &Tools) -> impl Future<Output = Result<Self::Before, Self::Fault>>;

    /// What an earlier owner of the thing knew counts more than what is there; here it takes in what it does not know of.
    fn complete(
        &self,
        _tools: &Tools,
        known: Self::Before,
    ) -> impl Future<Output = Result<Self::Before, Self::Fault>> {
        async { Ok(known) }
    }

    /// Makes it so and reads it back.
    fn apply(
        &self,
        tools: &Tools,
        run: &RunId,
        before: Self::Before,
    ) -> impl Future<Output = Result<Applied<Self::Before>, Self::Fault>>;

    /// Puts back what was there before, or leaves what is there where that is asked for.
    fn restore(
        &self,
        tools: &Tools,
        run: &RunId,
        before: Self::Before,
    ) -> impl Future<Output = Result<(), Self::Fault>>;

    /// Compares and changes nothing; in words where it differs, without what is secret.
    fn check(&self, tools: &Tools) -> impl Future<Output = Result<Vec<String>, Self::Fault>>;

    /// Where something of it can be seen to change.
    fn places(&self, tools: &Tools) -> Places;

    /// Files that are all that its state depends on; none where it depends on more.
    fn decisive(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// A state that was applied.
#[derive(Debug)]
pub struct Applied<B> {
    /// The record of the time before from now on, where that changed.
    pub before: Option<B>,
    /// What only the node knows of it, and what the controller keeps.
    pub attributes: BTreeMap<String, String>,
    /// For the agent's log.
    pub warnings: Vec<String>,
}

impl<B> Applied<B> {
    /// One with these attributes.
    pub fn new<const N: usize>(attributes: [(&str, String); N]) -> Self {
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value)).into();
        Self { before: None, attributes, warnings: Vec::new() }
    }
}

/// Why something is not as it should be.
pub trait Fault: Error + 'static {
    /// Trying again cannot help.
    fn is_permanent(&self) -> bool;
}

impl<F: Fault> From<F> for Box<dyn Fault> {
    fn from(fault: F) -> Self {
        Box::new(fault)
    }
}

/// What was there before Muster cannot be read, or not be kept.
#[derive(Debug, Error)]
pub enum RecordFault {
    #[error("the record of what was there before Muster is damaged: put it back by hand")]
    Damaged,
    /// The content is too large.
    #[error(transparent)]
    TooLarge(#[from] std::io::Error),
}

impl Fault for RecordFault {
    fn is_permanent(&self) -> bool {
        true
    }
}

type Done<'a, T> = LocalBoxFuture<'a, Result<T, Box<dyn Fault>>>;

/// A [`Resource`] whatever its type is. What was there before is packed.
pub trait AnyResource {
    /// As [`Resource::observe`], or as [`Resource::complete`] where something is known.
    fn observe<'a>(&'a self, tools: &'a Tools, known: Option<&'a [u8]>) -> Done<'a, Vec<u8>>;
    /// As [`Resource::apply`].
    fn apply<'a>(
        &'a self,
        tools: &'a Tools,
        run: RunId,
        before: Option<&'a [u8]>,
    ) -> Done<'a, Applied<Vec<u8>>>;
    /// As [`Resource::restore`].
    fn restore<'a>(&'a self, tools: &'a Tools, run: RunId, before: Option<&'a [u8]>) -> Done<'a, ()>;
    /// As [`Resource::check`].
    fn check<'a>(&'a self, tools: &'a Tools) -> Done<'a, Vec<String>>;
    /// As [`Resource::places`].
    fn places(&self, tools: &Tools) -> Places;
    /// As [`Resource::decisive`].
    fn decisive(&self) -> Vec<PathBuf>;
}

impl<R: Resource> AnyResource for R {
    fn observe<'a>(&'a self, tools: &'a Tools, known: Option<&'a [u8]>) -> Done<'a, Vec<u8>> {
        async move {
            let before = match known {
                Some(known) => self.complete(tools, read(Some(known))?).await?,
                None => Resource::observe(self, tools).await?,
            };
            Ok(packed::pack(&before).map_err(RecordFault::from)?)
        }
        .boxed_local()
    }

    fn apply<'a>(
        &'a self,
        tools: &'a Tools,
        run: RunId,
        before: Option<&'a [u8]>,
    ) -> Done<'a, Applied<Vec<u8>>> {
        async move {
            let Applied { before, attributes, warnings } =
                Resource::apply(self, tools, &run, read(before)?).await?;
            let before = before.map(|before| packed::pack(&before)).transpose().map_err(RecordFault::from)?;
            Ok(Applied { before, attributes, warnings })
        }
        .boxed_local()
    }

    fn restore<'a>(&'a self, tools: &'a Tools, run: RunId, before: Option<&'a [u8]>) -> Done<'a, ()> {
        async move { Ok(Resource::restore(self, tools, &run, read(before)?).await?) }.boxed_local()
    }

    fn check<'a>(&'a self, tools: &'a Tools) -> Done<'a, Vec<String>> {
        async move { Ok(Resource::check(self, tools).await?) }.boxed_local()
    }

    fn places(&self, tools: &Tools) -> Places {
        Resource::places(self, tools)
    }

    fn decisive(&self) -> Vec<PathBuf> {
        Resource::decisive(self)
    }
}

fn read<B: DeserializeOwned>(before: Option<&[u8]>) -> Result<B, RecordFault> {
    before.and_then(packed::unpack).ok_or(RecordFault::Damaged)
}
