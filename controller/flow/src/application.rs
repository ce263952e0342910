//! Applications: names that operators give rules which belong together, as programs beside Muster have them. Decides how
//! many names there are; a name stays, so that its number is never another one's.
//!
//! Absent: who may have a rule of an application (`owner.rs`: every operator), and ONOS's names (`controller/onos-api`).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::device::Flows;
use crate::owner::Owner;
use crate::record::FlowChange;
use crate::site::Refused;

/// Names of a site: each is kept for ever, and a program that invents them has an end.
const APPLICATIONS_MAX: usize = 1000;
/// The most bytes of a name.
const NAME_MAX: usize = 100;

/// Names by number.
pub type Applications = BTreeMap<u64, Box<str>>;

impl Flows {
    /// Names of applications, for whoever describes owners.
    pub fn applications(&self) -> Arc<Applications> {
        Arc::clone(&self.applications)
    }

    /// The owner of this name. A new name is kept from now on.
    ///
    /// # Errors
    /// The text is no name, or there are too many.
    pub fn application(&mut self, name: &str) -> Result<Owner, Refused> {
        if let Some((number, _)) = self.applications.iter().find(|(_, known)| &***known == name) {
            return Ok(Owner::application(*number));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_name) {
            return Err(Refused::Invalid(format!(
                "an application's name has 1 to {NAME_MAX} letters, digits, '.', '_' and '-'"
            )));
        }
        if self.applications.len() >= APPLICATIONS_MAX {
            return Err(Refused::Conflict(format!(
                "the site has {APPLICATIONS_MAX} names of applications already: use one of them"
            )));
        }
        let number = self.applications.last_key_value().map_or(1, |(last, _)| last + 1);
        Arc::make_mut(&mut self.applications).insert(number, name.into());
        self.change(FlowChange::Application { number, name: name.into() });
        Ok(Owner::application(number))
    }
}
