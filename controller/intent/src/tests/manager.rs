//! What the manager makes of requests, of devices that refuse, and of a network that changes. The cases are those of
//! ONOS's tests of its intent manager, clean-up, installer and tracker (`docs/intents.md`).

mod changes;
mod refusals;
mod requests;
mod room;
