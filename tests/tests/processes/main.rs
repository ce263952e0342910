//! A real controller, real agents and `muster` as an operator types it: what holds through kills, lost packets,
//! absence, full disks and bad input. Needs root for namespaces and mounts.
#![allow(clippy::unwrap_used, reason = "these are tests, also outside of their functions")]

mod ansible;
mod audit;
mod away;
mod bad_input;
mod brokers;
mod browser;
mod console;
mod content;
mod cut_off;
mod deployments;
mod disk;
mod doctor;
mod driver;
mod drop_in;
#[cfg(feature = "embedded")]
mod embedded;
mod failovers;
mod files;
mod fleet;
mod flows;
mod flows_nftables;
mod gone;
mod hostname;
mod intent_ring;
mod intents;
mod joining;
mod kill;
mod layers;
mod ledger;
mod local;
mod lossy;
mod main_path;
mod metrics;
mod moving;
mod network;
mod operating;
mod postgres;
mod restore;
mod rollout;
mod secrets;
mod signals;
mod sites;
mod stalls;
mod standbys;
mod support_bundle;
mod terminal;
mod top;
mod topology;
mod tracing;
mod tutorial;
mod users;
mod watching;
mod withdrawn;
