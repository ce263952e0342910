//! Whose epochs servers obey. An epoch is one start of one store: its bits tell it from another start with its number, of a
//! copy of the store. The engine's word that the site is restored is not taken for it: what a server has said is.

use muster_shared::model::Down;
use muster_shared::{EpochId, NodeId};

use super::super::world::World;

impl World {
    /// What is wrong with an epoch that a server's agent obeys from now on: the number of the one before, and another
    /// start.
    pub fn obeys_two(&self, at: usize, epoch: EpochId) -> Option<String> {
        let machine = &self.machines[at];
        let before = machine.disk.epoch;
        let both = before.bits.zip(epoch.bits).filter(|_| before.number == epoch.number);
        let (name, number) = (&machine.name, epoch.number.0);
        both.filter(|(before, now)| before != now)
            .map(|_| format!("{name} obeys two controllers, each of them in its epoch {number}"))
    }

    /// What is wrong with messages that welcome a node: the store that goes on never gave the epoch that the node said, and
    /// the site is not restored, nor was it since the disk went back.
    ///
    /// A server of a node that was welcomed may have gone back to a lower epoch: it may as well have yet to record this one.
    pub fn welcomes_what_it_never_gave(
        &mut self,
        node: &NodeId,
        connection: u64,
        messages: &[Down],
    ) -> Option<String> {
        let welcome = messages.iter().find_map(|message| match message {
            Down::Welcome(welcome) => Some(welcome.epoch),
            _ => None,
        })?;
        let was_welcomed = !self.history.held.welcomed.insert(node.clone());
        let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        let said =
            processes.filter(|process| process.line == Some(connection)).map(|it| it.said_epoch).next()?;
        let is_given = said.bits.is_none_or(|bits| self.shared.borrow().tables.bits.contains(&bits));
        let is_known = self.history.held.is_known() || self.is_restored();
        let may_be_late = was_welcomed && said.number < welcome.number;
        (!is_given && !is_known && !may_be_late).then(|| {
            let (theirs, ours) = (said.number.0, welcome.number.0);
            format!("epoch {ours} welcomes {node}, which obeyed an epoch {theirs} that the store never gave")
        })
    }
}
