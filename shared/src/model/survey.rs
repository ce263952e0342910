//! **Survey**: what a server is like that others have configured, as desired states to take it over with.
//!
//! Absent: which states an agent finds (`agent/src/host/survey.rs`), and the template that is made of them
//! (`controller/engine/src/node/survey.rs`).

use super::Spec;

/// The most states in one survey: the users and groups of a server are most of them.
pub const SURVEYED_MAX: usize = 1024;
/// The most lines on what is left out.
pub const LEFT_OUT_MAX: usize = 256;
/// The most bytes of such a line. A longer one is cut.
pub const LEFT_OUT_LINE_MAX: usize = 512;
/// The most bytes of a survey: most of a packet, which has it together with its frame.
const BYTES_MAX: usize = 240 * 1024;

/// Desired states that the server has already. Never contains content or secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Applying any of them changes nothing on the server.
    pub specs: Vec<Spec>,
    /// The settings that are missing in it, and why; a line each.
    pub left_out: Vec<String>,
}

impl Survey {
    /// As much of the survey as one message holds. The first states are kept, and a line says how many are not.
    pub fn fit(mut self) -> Self {
        for line in &mut self.left_out {
            line.truncate(line.floor_char_boundary(LEFT_OUT_LINE_MAX));
        }
        let mut bytes = LEFT_OUT_MAX * LEFT_OUT_LINE_MAX / 2;
        let size = |spec: &Spec| postcard::to_stdvec(spec).map_or(BYTES_MAX, |bytes| bytes.len());
        let fits = self.specs.iter().take(SURVEYED_MAX).take_while(|spec| {
            bytes += size(spec);
            bytes <= BYTES_MAX
        });
        let kept = fits.count();
        let dropped = self.specs.len() - kept;
        self.specs.truncate(kept);
        if dropped > 0 {
            self.left_out.insert(0, format!("{dropped} more resources: one answer holds no more"));
        }
        let mut room = LEFT_OUT_MAX * LEFT_OUT_LINE_MAX / 2;
        let lines = self.left_out.iter().take(LEFT_OUT_MAX).take_while(|line| {
            let fits = line.len() <= room;
            room = room.saturating_sub(line.len());
            fits
        });
        let kept = lines.count();
        self.left_out.truncate(kept);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NetworkConfig, OnDelete, Timezone, Up};
    use crate::wire::{pack, read_body};

    fn network(bytes: usize) -> Spec {
        Spec::Network(NetworkConfig {
            document: "x".repeat(bytes),
            mapping: Default::default(),
            confirm_timeout: 120,
            on_delete: OnDelete::Restore,
        })
    }

    fn zone() -> Spec {
        Spec::Timezone(Timezone { timezone: "Europe/Rome".into(), on_delete: OnDelete::Restore })
    }

    #[test]
    fn what_one_answer_does_not_hold_is_counted() {
        let large = Survey { specs: vec![zone(), network(200 * 1024), zone()], left_out: vec![] }.fit();
        assert_eq!(large.specs, [zone()]);
        assert_eq!(large.left_out, ["2 more resources: one answer holds no more"]);
        let many = Survey { specs: vec![zone(); 2_000], left_out: vec!["ä".repeat(400); 2_000] }.fit();
        assert_eq!(many.specs.len(), SURVEYED_MAX);
        assert!(many.left_out.len() > 100 && many.left_out.len() <= LEFT_OUT_MAX);
        assert!(many.left_out.iter().all(|line| line.len() <= LEFT_OUT_LINE_MAX));
        let packets = pack(&[Up::Surveyed(many.clone())]).unwrap();
        assert_eq!(read_body::<Up>(packets[0].as_bytes()), Ok(vec![Up::Surveyed(many)]));
    }
}
