//! The operations on a resource of any type: the trait that each type implements, and a type-erased form in
//! which the state before Muster is bytes.
//!
//! Absent: types whose changes are guarded, because they can cut the node off, and software deployments:
//! `agent/src/host.rs` dispatches these itself.

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

/// A desired state, and the operations that reach it on this server. Each may be repeated, since a crash may
/// come at any point.
pub trait Resource {
    /// The state before Muster, as the ledger keeps it.
    type Before: Serialize + DeserializeOwned;
    /// The reason why the resource is not as desired.
    type Fault: Fault;

    /// The present state, for [`Resource::restore`]. Changes nothing.
    fn observe(&self, tools: &Tools) -> impl Future<Output = Result<Self::Before, Self::Fault>>;

    /// Completes the record of an earlier owner, which takes precedence over the present state, with the
    /// parts that it lacks.
    fn complete(
        &self,
        _tools: &Tools,
        known: Self::Before,
    ) -> impl Future<Output = Result<Self::Before, Self::Fault>> {
        async { Ok(known) }
    }

    /// Makes the desired state and reads it back.
    fn apply(
        &self,
        tools: &Tools,
        run: &RunId,
        before: Self::Before,
    ) -> impl Future<Output = Result<Applied<Self::Before>, Self::Fault>>;

    /// The record with which [`Resource::apply`] changes nothing of a state that is as desired already. Most types
    /// change nothing in any case.
    fn adopted(&self, before: Self::Before) -> Self::Before {
        before
    }

    /// Restores the state before Muster, or leaves the present one if the desired state asks for that.
    fn restore(
        &self,
        tools: &Tools,
        run: &RunId,
        before: Self::Before,
    ) -> impl Future<Output = Result<(), Self::Fault>>;

    /// Compares and changes nothing. Returns the differences in words, without secrets.
    fn check(&self, tools: &Tools) -> impl Future<Output = Result<Vec<String>, Self::Fault>>;

    /// The places whose changes can be watched.
    fn places(&self, tools: &Tools) -> Places;

    /// Files that determine the whole state; empty if the state depends on more.
    fn decisive(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// A state that was applied.
#[derive(Debug)]
pub struct Applied<B> {
    /// The record of the time before from now on, where that changed.
    pub before: Option<B>,
    /// Attributes that only the node knows, for the controller.
    pub attributes: BTreeMap<String, String>,
    /// Warnings for the agent's log.
    pub warnings: Vec<String>,
}

impl<B> Applied<B> {
    /// A result with these attributes.
    pub fn new<const N: usize>(attributes: [(&str, String); N]) -> Self {
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value)).into();
        Self { before: None, attributes, warnings: Vec::new() }
    }
}

/// The reason why a resource is not as desired.
pub trait Fault: Error + 'static {
    /// A retry cannot help.
    fn is_permanent(&self) -> bool;
}

impl<F: Fault> From<F> for Box<dyn Fault> {
    fn from(fault: F) -> Self {
        Box::new(fault)
    }
}

/// The record of the state before Muster cannot be read, or not be stored.
#[derive(Debug, Error)]
pub enum RecordFault {
    #[error("the record of what was there before Muster is damaged: restore it by hand")]
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

/// The error of an adoption: somebody changed the resource after it was compared.
#[derive(Debug, Error)]
#[error("it was changed after it was compared: {0}")]
pub struct ChangedMeanwhile(pub String);

impl Fault for ChangedMeanwhile {
    fn is_permanent(&self) -> bool {
        true
    }
}

type Done<'a, T> = LocalBoxFuture<'a, Result<T, Box<dyn Fault>>>;

/// A [`Resource`] of any type. The state before Muster is packed.
pub trait AnyResource {
    /// As [`Resource::observe`], or as [`Resource::complete`] with a known state.
    fn observe<'a>(&'a self, tools: &'a Tools, known: Option<&'a [u8]>) -> Done<'a, Vec<u8>>;
    /// As [`Resource::apply`].
    fn apply<'a>(
        &'a self,
        tools: &'a Tools,
        run: RunId,
        before: Option<&'a [u8]>,
    ) -> Done<'a, Applied<Vec<u8>>>;
    /// Takes a state over that is as desired, and changes nothing.
    fn adopt<'a>(
        &'a self,
        tools: &'a Tools,
        run: RunId,
        before: Option<&'a [u8]>,
    ) -> Done<'a, Applied<Vec<u8>>>;
    /// As [`Resource::restore`].
    fn restore<'a>(&'a self, tools: &'a Tools, run: RunId, before: Option<&'a [u8]>) -> Done<'a, ()>;
    /// See [`Resource::check`].
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
        async move { packed(Resource::apply(self, tools, &run, read(before)?).await?) }.boxed_local()
    }

    fn adopt<'a>(
        &'a self,
        tools: &'a Tools,
        run: RunId,
        before: Option<&'a [u8]>,
    ) -> Done<'a, Applied<Vec<u8>>> {
        async move {
            let differ = Resource::check(self, tools).await?;
            if !differ.is_empty() {
                return Err(ChangedMeanwhile(differ.join(", ")).into());
            }
            let before = self.adopted(read(before)?);
            packed(Resource::apply(self, tools, &run, before).await?)
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

fn packed<B: Serialize>(applied: Applied<B>) -> Result<Applied<Vec<u8>>, Box<dyn Fault>> {
    let Applied { before, attributes, warnings } = applied;
    let before = before.map(|before| packed::pack(&before)).transpose().map_err(RecordFault::from)?;
    Ok(Applied { before, attributes, warnings })
}

fn read<B: DeserializeOwned>(before: Option<&[u8]>) -> Result<B, RecordFault> {
    before.and_then(packed::unpack).ok_or(RecordFault::Damaged)
}
