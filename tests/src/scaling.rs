//! The growth of a fleet beyond one machine: costs of one server, counted; the arithmetic of many; and the tables of
//! `docs/scaling.md` that are made from both.

mod arithmetic;
mod bed;
mod count;
mod tables;
mod tally;

pub use self::arithmetic::{Allowed, Machine};
pub use self::count::{Cost, costs};
pub use self::tables::renew;
