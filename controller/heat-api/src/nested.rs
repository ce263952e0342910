//! Nested stacks, as Heat's clients expect them. In Muster a group, a chain and a nested template are parts of one
//! graph, and what is in them is named by paths. Here what contains others has a stack of its own, and fails when one
//! of them fails.
//!
//! Absent: the ids of nested stacks (`id.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_api::resource::ResourceView;

/// A resource of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Item<'r> {
    /// `servers/0`
    pub path: &'r str,
    /// The resource's own row.
    pub row: Option<&'r ResourceView>,
    /// The row whose state it has: its own, or that of a resource in it which stands worse.
    pub decided_by: &'r ResourceView,
    /// Others are in it.
    pub contains: bool,
}

/// A name within what contains it.
pub fn last(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Paths of all that contain resources with these names.
pub fn containers<'n>(names: impl Iterator<Item = &'n str>) -> BTreeSet<&'n str> {
    names.flat_map(|name| name.match_indices('/').map(move |(at, _)| &name[..at])).collect()
}

/// The part of a path below another one.
pub fn below<'p>(path: &'p str, above: &str) -> Option<&'p str> {
    if above.is_empty() { Some(path) } else { path.strip_prefix(above)?.strip_prefix('/') }
}

/// The rows below a path, so many levels deep: 0 for those directly in it. By path.
pub fn items<'r>(rows: &'r [ResourceView], above: &str, depth: usize) -> Vec<Item<'r>> {
    let mut found: BTreeMap<&str, Item<'r>> = BTreeMap::new();
    for row in rows {
        let Some(rest) = below(&row.name, above) else { continue };
        let start = row.name.len() - rest.len();
        let ends = rest.match_indices('/').map(|(at, _)| start + at).chain([row.name.len()]);
        for end in ends.take(depth + 1) {
            let path = &row.name[..end];
            let is_own = end == row.name.len();
            let new = Item { path, row: None, decided_by: row, contains: false };
            let item = found.entry(path).or_insert(new);
            if is_own {
                item.row = Some(row);
            } else {
                item.contains = true;
            }
            let (there, here) = (weight(item.decided_by), weight(row));
            if here > there || (is_own && here == there) {
                item.decided_by = row;
            }
        }
    }
    found.into_values().collect()
}

/// A failed resource decides on what contains it, then one that something is done to, then one that has not begun.
fn weight(row: &ResourceView) -> u8 {
    match &*row.status {
        "FAILED" => 3,
        "IN_PROGRESS" => 2,
        "INIT" => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, status: &str) -> ResourceView {
        ResourceView { name: name.to_owned(), status: status.to_owned(), ..ResourceView::default() }
    }

    #[test]
    fn a_container_is_as_what_it_contains() {
        let rows = [
            row("alone", "COMPLETE"),
            row("servers", "INIT"),
            row("servers/0/config", "COMPLETE"),
            row("servers/0/deploy", "FAILED"),
            row("servers/1/config", "IN_PROGRESS"),
        ];
        let shown = |above: &str, depth| -> Vec<(String, String)> {
            let state = |item: &Item<'_>| match item.contains {
                false => item.decided_by.status.clone(),
                true => format!("({})", item.decided_by.status),
            };
            items(&rows, above, depth).iter().map(|item| (item.path.to_owned(), state(item))).collect()
        };
        let pairs = |wanted: &[(&str, &str)]| -> Vec<(String, String)> {
            wanted.iter().map(|(path, state)| ((*path).to_owned(), (*state).to_owned())).collect()
        };
        assert_eq!(shown("", 0), pairs(&[("alone", "COMPLETE"), ("servers", "(FAILED)")]));
        assert_eq!(
            shown("", 1),
            pairs(&[
                ("alone", "COMPLETE"),
                ("servers", "(FAILED)"),
                ("servers/0", "(FAILED)"),
                ("servers/1", "(IN_PROGRESS)")
            ])
        );
        assert_eq!(shown("", 9).len(), 7);
        assert_eq!(
            shown("servers/0", 0),
            pairs(&[("servers/0/config", "COMPLETE"), ("servers/0/deploy", "FAILED")])
        );
        assert_eq!(shown("serve", 9), []);
        assert_eq!(
            containers(rows.iter().map(|row| &*row.name)).into_iter().collect::<Vec<_>>(),
            ["servers", "servers/0", "servers/1"]
        );
    }
}
