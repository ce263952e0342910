//! The order of moves: as they were sent, or as a seed says.

use crate::node::Withdrawn;

/// The moves that can be next.
pub(super) struct Choices {
    /// A message to the node is under way.
    pub down: bool,
    /// The number of messages to the engine that are under way.
    pub up: usize,
    /// A job runs.
    pub running: bool,
    /// The number of jobs that wait at the node.
    pub waiting: usize,
}

/// The next move. A number is the place among those that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The oldest message to the node arrives.
    Down,
    /// This message to the engine arrives.
    Up(usize),
    /// The job that runs ends.
    Finish,
    /// The running job fails.
    Fail {
        /// The job has made all its changes before.
        done: bool,
    },
    /// This job begins.
    Start(usize),
}

/// The source of the next move.
#[derive(Clone, Debug)]
pub(super) enum Order {
    /// Messages arrive at once; jobs run one after the other as they were sent.
    AsSent,
    /// Messages arrive at once; any job that waits may be the next.
    AnyJob(Dice),
    /// Messages and jobs wait as long as the dice say, reports overtake each other, and some jobs fail at first.
    Anyhow(Dice),
}

impl Order {
    /// Whether nothing but jobs takes time.
    pub fn is_prompt(&self) -> bool {
        !matches!(self, Order::Anyhow(_))
    }

    pub fn choose(&mut self, choices: &Choices) -> Option<Choice> {
        if let Order::Anyhow(dice) = self {
            return choose_any(dice, choices);
        }
        if choices.down {
            return Some(Choice::Down);
        }
        if choices.up > 0 {
            return Some(Choice::Up(0));
        }
        if choices.running {
            return Some(Choice::Finish);
        }
        let at = match self {
            Order::AnyJob(dice) if choices.waiting > 0 => dice.roll(choices.waiting),
            Order::AnyJob(_) | Order::AsSent | Order::Anyhow(_) => 0,
        };
        (choices.waiting > 0).then_some(Choice::Start(at))
    }

    /// Draws how the node takes withdrawals, and how many jobs it is given at a time.
    pub fn temper(&mut self) -> (Withdrawn, usize) {
        let Order::Anyhow(dice) = self else { return (Withdrawn::RunsOn, usize::MAX) };
        let withdrawn = [Withdrawn::RunsOn, Withdrawn::StopsBefore, Withdrawn::StopsAfter][dice.roll(3)];
        (withdrawn, [1, 2, 3, usize::MAX][dice.roll(4)])
    }
}

/// Often enough that most runs have a few, seldom enough that most jobs of a run go through.
const FAILS_ONE_IN: usize = 8;

fn choose_any(dice: &mut Dice, choices: &Choices) -> Option<Choice> {
    let mut can = Vec::new();
    if choices.down {
        can.push(Choice::Down);
    }
    if choices.up > 0 {
        can.push(Choice::Up(dice.roll(choices.up)));
    }
    if choices.running {
        can.push(match dice.roll(FAILS_ONE_IN) {
            0 => Choice::Fail { done: dice.roll(2) == 0 },
            _ => Choice::Finish,
        });
    } else if choices.waiting > 0 {
        can.push(Choice::Start(dice.roll(choices.waiting)));
    }
    (!can.is_empty()).then(|| can[dice.roll(can.len())])
}

/// Random numbers that are the same for the same seed on every machine: SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Below `sides`, which is not 0.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The remainder of 31 bits by a handful: as even as it has to be.
        ((z >> 33) as usize) % sides
    }
}
