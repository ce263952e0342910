//! Intents as bytes, because there may be hundreds of thousands. An intent is unpacked when it is
//! looked at.

use std::sync::Arc;

use crate::intent::Intent;

/// Capacity for a usual intent. Without it the bytes move five times while they grow.
const USUAL: usize = 256;

/// An intent in postcard's format. A clone shares the bytes. Equal intents have equal bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptIntent(Arc<[u8]>);

impl KeptIntent {
    pub fn new(intent: &Intent) -> Self {
        let bytes = postcard::to_extend(intent, Vec::with_capacity(USUAL));
        Self(bytes.expect("an intent has no map of unknown length").into())
    }

    pub fn unpack(&self) -> Intent {
        postcard::from_bytes(&self.0).expect("packed by new()")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use muster_shared::model::flow::{Action, Criterion, DeviceName, Field};
    use proptest::prelude::*;

    use super::KeptIntent;
    use crate::host::HostId;
    use crate::intent::{Constraints, Intent, Kind, LinkTypes, Threshold};
    use crate::topology::ConnectPoint;

    fn device() -> impl Strategy<Value = DeviceName> {
        (0..9, 0..3).prop_map(|(node, bridge)| format!("n{node}/br{bridge}").parse().unwrap())
    }

    fn point() -> impl Strategy<Value = ConnectPoint> {
        (device(), "[a-zé]{1,15}")
            .prop_map(|(device, port)| ConnectPoint { device, port: port.into_boxed_str() })
    }

    fn points() -> impl Strategy<Value = Vec<ConnectPoint>> {
        proptest::collection::vec(point(), 1..5)
    }

    fn kind() -> impl Strategy<Value = Kind> {
        let host = any::<[u8; 6]>().prop_map(|[_, b, c, d, e, f]| HostId::new([2, b, c, d, e, f]).unwrap());
        prop_oneof![
            (point(), point()).prop_map(|(from, to)| Kind::PointToPoint { from, to }),
            (point(), points()).prop_map(|(from, to)| Kind::SinglePointToMultiPoint { from, to }),
            (points(), point()).prop_map(|(from, to)| Kind::MultiPointToSinglePoint { from, to }),
            (points(), points(), points()).prop_map(|(ends, from, to)| {
                let links = ends.iter().cloned().zip(ends.iter().rev().cloned()).collect();
                Kind::LinkCollection { links, from, to }
            }),
            (host.clone(), host).prop_map(|(one, two)| Kind::HostToHost { one, two }),
        ]
    }

    fn constraints() -> impl Strategy<Value = Constraints> {
        let names = || proptest::collection::btree_set("[a-z]{0,9}".prop_map(String::into_boxed_str), 0..3);
        let types = prop_oneof![names().prop_map(LinkTypes::Only), names().prop_map(LinkTypes::Without)];
        let numbers = (any::<Option<u64>>(), any::<Option<u64>>(), any::<[bool; 4]>());
        let keep = (proptest::collection::vec(device(), 0..4), proptest::option::of(types), points());
        (numbers, keep).prop_map(|((bandwidth, latency, flags), (waypoints, link_types, points))| {
            Constraints {
                bandwidth,
                latency,
                obstacles: waypoints.iter().cloned().collect(),
                waypoints,
                obstacle_links: points
                    .iter()
                    .map(|point| (point.clone(), points[0].clone()))
                    .collect::<BTreeSet<_>>(),
                link_types,
                annotations: bandwidth
                    .and_then(|most| Threshold::new(most as f64))
                    .map_or_else(BTreeMap::new, |most| BTreeMap::from([("metric".into(), most)])),
                vlan: flags[0],
                partial_failure: flags[1],
                protection: flags[2],
                asymmetric: flags[3],
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_kept_comes_back(kind in kind(), constraints in constraints(), priority: u16, value: u128, mask: Option<u128>) {
            let selector = vec![Criterion::Field { field: Field::Ipv4Dst, value, mask }];
            let intent = Intent { kind, priority, selector, treatment: vec![Action::PopVlan], constraints };
            let kept = KeptIntent::new(&intent);
            prop_assert_eq!(&kept.unpack(), &intent);
            prop_assert_eq!(kept, KeptIntent::new(&intent));
        }
    }
}
