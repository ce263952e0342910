//! The manager with requests, refusing devices and a changing network. The cases are those of
//! ONOS's tests of its intent manager, clean-up, installer and tracker (`docs/intents.md`).

mod changes;
mod refusals;
mod requests;
mod room;
