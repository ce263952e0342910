//! Muster as installed from its packages, on servers with a real systemd: in namespaces and as a virtual machine.
//! Needs root.
#![allow(clippy::unwrap_used, reason = "these are tests, also outside of their functions")]

mod account;
mod adopt;
mod boot;
mod debian;
mod deployments;
mod from_tripleo;
mod journal;
mod leases;
mod links;
mod machine;
mod network_manager;
mod one_server;
mod package;
mod package_dnf;
mod rpm;
mod systemd;
mod unit;
mod upgrade;
