//! Looks that change nothing: at what no job is at, and at the server itself.

use std::sync::Arc;

use muster_agent_core::{Look, Looked};

use super::{Done, Driver};

impl Driver {
    pub(super) fn look(&mut self, number: u64, looks: Vec<Look>) {
        let host = Arc::clone(&self.host);
        self.tasks.spawn_local(async move {
            let mut looked = Vec::with_capacity(looks.len());
            for Look { resource, generation, spec, before } in looks {
                let found = host.check(resource, &spec, Some(&spec), before).await;
                looked.push(Looked { resource, generation, found });
            }
            Done::Looked { number, looked }
        });
    }

    pub(super) fn gather(&mut self) {
        let host = Arc::clone(&self.host);
        self.tasks.spawn_local(async move {
            match host.server.facts(&host.network, env!("CARGO_PKG_VERSION")).await {
                Ok((facts, warnings)) => {
                    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                    Done::Gathered(Ok(Box::new(facts)))
                }
                Err(error) => Done::Gathered(Err(muster_host::net::chain(&error))),
            }
        });
    }
}
