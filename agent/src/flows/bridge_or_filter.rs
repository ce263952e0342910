//! The holder of a device's rules: a bridge of Open vSwitch, or the node's own packet filter, behind
//! one interface.

use std::error::Error;
use std::future::Ready;
use std::path::Path;

use muster_host::nftables::{self, Nftables};
use muster_host::openflow::{self, Compared, Desired, Event, Lost, Ops, Outcome};
use muster_shared::model::flow::{DeviceName, FlowCounters, FlowId, ForeignRule, TableCounters};

/// The connected switch.
pub enum Switch {
    Bridge(Box<openflow::Switch>),
    Filter(Box<Nftables>),
}

/// A rule to be removed.
#[derive(Clone)]
pub enum Extraneous {
    Bridge(openflow::Extraneous),
    Filter(nftables::Extraneous),
}

impl Switch {
    /// The reason why not, in words.
    pub async fn connect(rundir: &Path, name: &DeviceName) -> Result<Self, String> {
        if name.is_nftables() {
            let filter = Nftables::open(name).map_err(|lost| chain(&lost))?;
            return Ok(Self::Filter(Box::new(filter)));
        }
        let bridge = &name.bridge;
        match openflow::Switch::connect(rundir, name).await {
            Ok(switch) => Ok(Self::Bridge(Box::new(switch))),
            Err(lost @ Lost::Connect { .. }) => {
                Err(format!("no bridge {bridge} on this node: {}", chain(&lost)))
            }
            Err(lost) => Err(chain(&lost)),
        }
    }

    /// The instance of the switch. The packet filter's is constant: the number only matters for entries that
    /// end by time, and it has none.
    pub fn instance(&self) -> u64 {
        match self {
            Self::Bridge(switch) => switch.instance(),
            Self::Filter(_) => 1,
        }
    }

    pub async fn event(&mut self) -> Event {
        match self {
            Self::Bridge(switch) => switch.event().await,
            Self::Filter(filter) => match filter.changed().await {
                Ok(()) => Event::Changed { foreign_only: false },
                Err(lost) => Event::Gone(lost),
            },
        }
    }

    /// Entries that ended by themselves and were not reported yet.
    pub fn take_ended(&mut self) -> Vec<FlowId> {
        match self {
            Self::Bridge(switch) => switch.take_ended(),
            Self::Filter(_) => Vec::new(),
        }
    }

    pub async fn apply(
        &mut self,
        ops: &mut dyn Ops,
        commit: Ready<Result<(), String>>,
    ) -> Result<Outcome, Lost> {
        match self {
            Self::Bridge(switch) => switch.apply(ops, commit).await,
            Self::Filter(filter) => filter.apply(ops, commit).await,
        }
    }

    pub async fn compare(&mut self, desired: &dyn Desired) -> Result<Compared<Extraneous>, Lost> {
        fn with<E>(compared: Compared<E>, wrap: fn(E) -> Extraneous) -> Compared<Extraneous> {
            let Compared { missing, altered, unsayable, extraneous, more_extraneous, foreign } = compared;
            let extraneous = extraneous.into_iter().map(wrap).collect();
            Compared { missing, altered, unsayable, extraneous, more_extraneous, foreign }
        }
        match self {
            Self::Bridge(switch) => Ok(with(switch.compare(desired).await?, Extraneous::Bridge)),
            Self::Filter(filter) => Ok(with(filter.compare(desired).await?, Extraneous::Filter)),
        }
    }

    /// The reason why some of them remain, if known.
    pub async fn strip(&mut self, extraneous: &[Extraneous]) -> Result<Option<String>, Lost> {
        match self {
            Self::Bridge(switch) => {
                let of_bridge = extraneous.iter().filter_map(|it| match it {
                    Extraneous::Bridge(it) => Some(it.clone()),
                    Extraneous::Filter(_) => None,
                });
                switch.strip(&of_bridge.collect::<Vec<_>>()).await.map(|()| None)
            }
            Self::Filter(filter) => {
                let of_filter = extraneous.iter().filter_map(|it| match it {
                    Extraneous::Filter(it) => Some(it.clone()),
                    Extraneous::Bridge(_) => None,
                });
                filter.strip(&of_filter.collect::<Vec<_>>()).await
            }
        }
    }

    pub async fn stats(
        &mut self,
        page: &mut dyn FnMut(Vec<FlowCounters>),
    ) -> Result<Vec<TableCounters>, Lost> {
        match self {
            Self::Bridge(switch) => switch.stats(page).await,
            Self::Filter(filter) => filter.stats(page).await,
        }
    }

    pub async fn foreign(&mut self, max: usize) -> Result<Vec<ForeignRule>, Lost> {
        match self {
            Self::Bridge(switch) => switch.foreign(max).await,
            Self::Filter(filter) => Ok(filter.foreign()),
        }
    }
}

/// An error with its causes.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
