//! Checks that servers obey one controller. An epoch is one start of one store. Its bits tell it from a start with the
//! same number of a copy of the store. The check does not trust the engine's mark that the site is restored, but what
//! servers have said.

use muster_shared::model::Down;
use muster_shared::{EpochId, NodeId};

use super::super::world::World;

impl World {
    /// Checks an epoch that a server's agent is about to obey: it must not be another start with the last number.
    pub fn obeys_two(&self, at: usize, epoch: EpochId) -> Option<String> {
        let machine = &self.machines[at];
        let before = machine.disk.epoch;
        let both = before.bits.zip(epoch.bits).filter(|_| before.number == epoch.number);
        let (name, number) = (&machine.name, epoch.number.0);
        both.filter(|(before, now)| before != now)
            .map(|_| format!("{name} obeys two controllers, each of them in its epoch {number}"))
    }

    /// Checks messages that welcome a node: the store has given the epoch that the node said, or the site is restored,
    /// or was since the disk went back.
    ///
    /// A node that was welcomed before is excused if it said a lower epoch: its server may have gone back, or may have
    /// yet to record this epoch.
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
