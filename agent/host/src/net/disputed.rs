//! Links that network managers configure although they are Muster's.
//!
//! Absent: making a manager leave a link alone (`net/network_managers.rs`).

use std::collections::BTreeMap;

use muster_shared::model::network::{NetworkDocument, NicMapping};

use super::netlink::Netlink;
use super::{NetError, Network, chain, mapped};

/// Network managers beside Muster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disputed {
    /// The managers that run here.
    pub running: Vec<&'static str>,
    /// Links of Muster's that one of them still configures: the manager and the link.
    pub holders: Vec<(&'static str, String)>,
    /// A link that ifupdown brings up, and where that is written.
    pub refused: Option<String>,
}

impl Network {
    /// The managers that configure the links of these documents besides Muster. This tells them nothing.
    ///
    /// # Errors
    /// The kernel does not list its links, or a mapping does not fit them.
    pub async fn disputed(&self, documents: &[(NetworkDocument, NicMapping)]) -> Result<Disputed, NetError> {
        let Some(managers) = &self.neighbours else { return Ok(Disputed::default()) };
        let state = self.observe_host(&mut Netlink::open()?).await?;
        let mut ours = BTreeMap::new();
        for (document, mapping) in documents {
            let document = mapped(document, mapping, &state)?;
            let names = document.link_names().map(|name| name.as_str().to_owned());
            ours.extend(names.filter_map(|name| Some((state.links.get(&name)?.index, name))));
        }
        let names: Vec<&str> = ours.values().map(String::as_str).collect();
        Ok(Disputed {
            running: managers.running(),
            holders: managers.managing(&ours).await,
            refused: managers.check(&names).err().map(|error| chain(&error)),
        })
    }
}
