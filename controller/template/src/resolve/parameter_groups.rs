//! `parameter_groups`: checks that every parameter exists, and is in one group only.
//!
//! Absent: the reading of the section (`parameter_groups.rs` of the crate), and `OS::Heat::ResourceGroup`
//! (`tree/group_members.rs`).

use std::collections::BTreeMap;

use crate::error::{Path, Place, Sink, cut, suggestion};
use crate::parameter_groups::DraftGroup;
use crate::template::ParameterGroup;

pub(super) fn check(groups: &[DraftGroup], defined: &[&str], errors: &mut Sink) {
    let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
    let mut path = Path::default();
    path.key("parameter_groups");
    for (number, group) in groups.iter().enumerate() {
        let before = path.item(number);
        path.key("parameters");
        for (index, (name, at)) in group.parameters.iter().enumerate() {
            let inner = path.item(index);
            if defined.binary_search(&&**name).is_err() {
                let near = suggestion(name, defined.iter().copied());
                errors.push(*at, path.as_str(), format!("there is no parameter '{}'{near}", cut(name)));
            } else if let Some(first) = seen.insert(name, *at) {
                let message =
                    format!("the parameter '{}' is in a group already; the first is at {first}", cut(name));
                errors.push(*at, path.as_str(), message);
            }
            path.leave(inner);
        }
        path.leave(before);
    }
}

pub(super) fn finish(draft: DraftGroup) -> ParameterGroup {
    let DraftGroup { label, description, parameters } = draft;
    ParameterGroup { label, description, parameters: parameters.into_iter().map(|(name, _)| name).collect() }
}
