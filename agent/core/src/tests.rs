//! The machine against a disk, a host and a controller that do what the test says.

mod account;
mod adopt;
mod boot;
mod check;
mod confirm;
mod delivery;
mod disk_full;
mod fetching;
mod flow_node;
mod flows;
mod flows_guarded;
mod flows_meanwhile;
mod guarded;
mod interleavings;
mod local;
mod moving;
mod node;
mod ownership;
mod ports;
mod put_back;
mod reconnect;
mod restart;
mod retain;
mod stray;
mod taking_over;
mod watching;
