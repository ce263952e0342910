//! Things of a server that others change, and how they left them.

use std::collections::BTreeMap;

use muster_shared::model::{ContentDigest, Spec};
use muster_shared::{MonoTime, ResourceId};

use super::super::dice::Dice;
use super::super::host::{FileState, Host};

/// A thing that others can change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// The file with this path.
    File(String),
    /// The dummy of this resource.
    Dummy(ResourceId),
}

/// The state of a thing; none: it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// A file.
    File(Option<FileState>),
    Dummy(Option<BTreeMap<String, String>>),
}

/// Changes a thing each time it is corrected.
#[derive(Clone, Debug)]
pub struct Foe {
    /// The end of the fight.
    pub until: MonoTime,
    pub leaves: Left,
}

/// The changes that others have made to a server.
#[derive(Clone, Debug, Default)]
pub struct Others {
    /// The fights over things.
    pub foes: BTreeMap<Thing, Foe>,
    /// Things as others left them, where no job has written since.
    left: BTreeMap<Thing, Left>,
    /// The times when others last did something to each thing.
    touched: BTreeMap<Thing, MonoTime>,
}

impl Thing {
    /// The one that is made of it.
    pub fn of(resource: ResourceId, spec: &Spec) -> Option<Self> {
        match spec {
            Spec::File(file) => Some(Self::File(file.path.clone())),
            Spec::Dummy(_) => Some(Self::Dummy(resource)),
            Spec::Network(_)
            | Spec::Hostname(_)
            | Spec::Deployment(_)
            | Spec::Unit(_)
            | Spec::Sysctl(_)
            | Spec::Package(_)
            | Spec::User(_)
            | Spec::Group(_)
            | Spec::Timezone(_) => None,
        }
    }
}

impl Left {
    /// Draws a state that no plan wants.
    pub fn draw(thing: &Thing, dice: &mut Dice) -> Self {
        let is_gone = dice.one_in(3);
        let text = format!("by hand {}", dice.below(10_000));
        match thing {
            _ if is_gone => match thing {
                Thing::File(_) => Self::File(None),
                Thing::Dummy(_) => Self::Dummy(None),
            },
            Thing::File(_) => {
                Self::File(Some(FileState { digest: ContentDigest::of(text.as_bytes()), mode: 0o666 }))
            }
            Thing::Dummy(_) => Self::Dummy(Some([("k".to_owned(), text)].into())),
        }
    }
}

impl Others {
    /// Forgets that somebody changed the thing.
    pub fn forget(&mut self, thing: &Thing) {
        self.left.remove(thing);
    }

    /// Returns the time when others last did something to the thing.
    pub fn touched(&self, thing: &Thing) -> Option<MonoTime> {
        self.touched.get(thing).copied()
    }
}

impl Host {
    /// The present state.
    pub fn there(&self, thing: &Thing) -> Left {
        match thing {
            Thing::File(path) => Left::File(self.files.get(path).copied()),
            Thing::Dummy(resource) => Left::Dummy(self.dummies.get(resource).cloned()),
        }
    }

    /// Changes the thing as somebody else would.
    pub(super) fn leave(&mut self, thing: &Thing, left: Left, now: MonoTime) {
        match (thing, left.clone()) {
            (Thing::File(path), Left::File(Some(file))) => drop(self.files.insert(path.clone(), file)),
            (Thing::File(path), _) => drop(self.files.remove(path)),
            (Thing::Dummy(resource), Left::Dummy(Some(values))) => {
                drop(self.dummies.insert(*resource, values));
            }
            (Thing::Dummy(resource), _) => drop(self.dummies.remove(resource)),
        }
        self.others.left.insert(thing.clone(), left);
        self.others.touched.insert(thing.clone(), now);
    }

    /// Whatever it is now counts as what others left.
    pub fn is_as_others_left_it(&mut self, thing: &Thing) {
        let left = self.there(thing);
        self.others.left.insert(thing.clone(), left);
    }

    /// Whether the thing is as somebody left it.
    pub fn is_left(&self, thing: &Thing) -> bool {
        self.others.left.get(thing).is_some_and(|left| *left == self.there(thing))
    }

    /// Whether the thing is as this resource made it, whatever others did to it since.
    pub(super) fn is_made(&self, thing: &Thing, by: ResourceId) -> bool {
        match thing {
            Thing::File(path) => self.made_by.get(path) == Some(&by),
            Thing::Dummy(_) => self.dummies.contains_key(&by) || self.is_left(thing),
        }
    }

    /// Returns whether the thing is as any resource made it, whatever others did to it since.
    pub(super) fn is_made_by_anybody(&self, thing: &Thing) -> bool {
        match thing {
            Thing::File(path) => self.made_by.contains_key(path),
            Thing::Dummy(by) => self.is_made(thing, *by),
        }
    }
}
