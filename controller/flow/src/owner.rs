//! Two owners want one rule: who is refused, and with which words. An entry belongs to one owner. [`OwnerCheck`]
//! refuses each request for an entry of another owner, and says what operators can do.
//!
//! Absent: which rules are the same one (`Entry::id`, `shared/src/model/flow/packed.rs`), and two resources that
//! want one rule: the claims of the site keep these apart.

use muster_intent::manager::IntentNo;
use muster_shared::model::flow::{DeviceName, FlowId};

use crate::entry::Kept;
use crate::record::FlowMark;
use crate::site::Site;

/// The owner of an entry: the row of a resource, an intent, an application, or 0 for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u64);

impl Owner {
    /// Entries of `muster flow apply`, imported ones, and those that a resource left to operators.
    pub const OPERATOR: Owner = Owner(0);

    /// The numbers of intents start above those of applications.
    const INTENTS: u64 = 1 << 62;
    /// The numbers of applications start above those of rows.
    const APPLICATIONS: u64 = 1 << 61;

    /// Entries of operators that have this name.
    pub(crate) fn application(number: u64) -> Owner {
        Owner(Self::APPLICATIONS | number)
    }

    /// The number of the application, if the owner is one.
    pub fn as_application(self) -> Option<u64> {
        let is_one = self.0 & Self::APPLICATIONS != 0 && self.as_intent().is_none();
        is_one.then_some(self.0 & !Self::APPLICATIONS)
    }

    pub fn intent(no: IntentNo) -> Owner {
        Owner(Self::INTENTS | no.0)
    }

    /// The intent, if the owner is one.
    pub fn as_intent(self) -> Option<IntentNo> {
        let is_one = self.0 & Self::INTENTS != 0 && !self.is_unnamed_operator();
        is_one.then_some(IntentNo(self.0 & !Self::INTENTS))
    }

    /// Whether operators own the entry, under no name.
    pub fn is_unnamed_operator(self) -> bool {
        self == Self::OPERATOR
    }

    /// Whether operators own the entry, under whatever name.
    pub fn is_any_operator(self) -> bool {
        self.is_unnamed_operator() || self.as_application().is_some()
    }

    fn is_resource(self) -> bool {
        !self.is_any_operator() && self.as_intent().is_none()
    }
}

/// The one who asks for an entry, and the purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker<'a> {
    /// An operator puts the entry.
    OperatorPuts,
    /// An operator removes the entry.
    OperatorRemoves,
    /// The resource of this name puts the entry.
    Resource(&'a str),
    /// The intent puts the entry.
    Intent(IntentNo),
}

impl Asker<'_> {
    /// Whether the asker may have an entry that the table has.
    fn may_have(self, kept: &Kept) -> bool {
        // An entry that an intent removes may come back if its bridge keeps it.
        let goes = kept.removing && kept.owner.as_intent().is_none();
        match self {
            Asker::OperatorPuts | Asker::OperatorRemoves => kept.owner.is_any_operator(),
            // An expired entry is held too, whether its agent knows that or not.
            Asker::Resource(_) => kept.owner.is_resource() || goes || kept.mark == FlowMark::Failed,
            Asker::Intent(no) => kept.owner == Owner::intent(no) || goes,
        }
    }

    /// Whether a resource's claim keeps the asker from a rule that the table does not have yet. A
    /// resource that asks has the claim itself.
    fn heeds_claims(self) -> bool {
        !matches!(self, Asker::Resource(_))
    }
}

/// Checks the owners of a device's entries.
pub(crate) struct OwnerCheck<'a> {
    site: &'a dyn Site,
    device: &'a DeviceName,
    /// [`Site::has_claims`] of the node, asked once for all entries.
    has_claims: bool,
}

impl<'a> OwnerCheck<'a> {
    pub fn new(site: &'a dyn Site, device: &'a DeviceName) -> Self {
        Self { site, device, has_claims: site.has_claims(&device.node) }
    }

    /// The reason, for operators, why the asker cannot have an entry: it belongs to another owner.
    /// `kept` is the entry in the table, if the table has it.
    pub fn refusal(&self, id: FlowId, kept: Option<&Kept>, asker: Asker<'_>) -> Option<String> {
        let held = kept.filter(|kept| !asker.may_have(kept)).map(|kept| kept.owner);
        let has_claims = self.has_claims && asker.heeds_claims();
        let claimant = || has_claims.then(|| self.site.claimant(self.device, id))?;
        let owner = held.or_else(claimant)?;
        Some(self.text(id, owner, kept.is_some_and(|kept| kept.removing), asker))
    }

    fn text(&self, id: FlowId, owner: Owner, is_removing: bool, asker: Asker<'_>) -> String {
        let (device, whose) = (self.device, self.site.describe(owner));
        let is_intent = owner.as_intent().is_some();
        match asker {
            Asker::OperatorPuts | Asker::OperatorRemoves if self.site.is_lost(owner) => format!(
                "rule {id} on {device} belongs to {whose}, which cleans it up when it is back; if it never is: \
                 'muster flow purge --forget {device}'"
            ),
            Asker::OperatorPuts => {
                let todo = match is_intent {
                    true => "give the rule or the intent another priority",
                    false => "take it out of the template, or out of the file",
                };
                format!(
                    "the operator asks for rule {id} on {device}, which belongs to {whose}: one rule has one \
                     owner; {todo}"
                )
            }
            Asker::OperatorRemoves => {
                let todo = match is_intent {
                    true => "withdraw the intent",
                    false => "take it out of the stack's template and update the stack",
                };
                format!("rule {id} on {device} belongs to {whose}: {todo}")
            }
            Asker::Resource(name) => {
                let todo = match is_intent {
                    true if is_removing => "wait until the bridge has let go of it".to_owned(),
                    true => "withdraw the intent".to_owned(),
                    false => format!("'muster flow delete {device} {id}'"),
                };
                format!(
                    "resource {name} asks for rule {id} on {device}, which belongs to {whose}: one rule has one \
                     owner; take it out of the template, or {todo}"
                )
            }
            Asker::Intent(_) => format!(
                "rule {id} belongs to {whose}: one rule has one owner; give the intent another priority or selector"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
