//! The nodes of which nothing was heard for the longest time, found page by page: a refresh costs one page, however many
//! nodes there are.

use muster_api::node::NodeView;

/// Nodes of a page.
pub const PAGE: usize = 1000;
/// Nodes that are kept: about a screen.
const KEPT: usize = 30;

/// A walk over all nodes that begins again when it is through.
#[derive(Default)]
pub struct Silence {
    /// The last node of the page before.
    marker: Option<String>,
    /// The longest silence of this walk so far.
    found: Longest,
    /// The longest silence of the walk before, which was whole.
    whole: Option<Longest>,
}

#[derive(Default)]
struct Longest {
    nodes: Vec<NodeView>,
    seen: u64,
}

impl Silence {
    /// The node that the next page begins after.
    pub fn marker(&self) -> Option<&str> {
        self.marker.as_deref()
    }

    /// Takes the page after [`Silence::marker`].
    pub fn take(&mut self, page: Vec<NodeView>) {
        let is_last = page.len() < PAGE;
        self.marker = page.last().map(|node| node.name.clone()).filter(|_| !is_last);
        self.found.add(page);
        if is_last {
            self.whole = Some(std::mem::take(&mut self.found));
        }
    }

    /// Longest first.
    pub fn nodes(&self) -> &[NodeView] {
        &self.whole.as_ref().unwrap_or(&self.found).nodes
    }

    /// Nodes that were looked at for that.
    pub fn seen(&self) -> u64 {
        self.whole.as_ref().unwrap_or(&self.found).seen
    }
}

impl Longest {
    fn add(&mut self, page: Vec<NodeView>) {
        self.seen += page.len() as u64;
        // Nodes that were never connected are waited for elsewhere; those that were sent away are no surprise.
        let is_ours =
            |node: &NodeView| node.last_seen.is_some() && !matches!(&*node.state, "revoked" | "lost");
        self.nodes.extend(page.into_iter().filter(is_ours));
        // Times of one form and one zone sort as texts.
        self.nodes.sort_by(|a, b| (&a.last_seen, &a.name).cmp(&(&b.last_seen, &b.name)));
        self.nodes.truncate(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: usize, seen: Option<usize>) -> NodeView {
        let last_seen = seen.map(|seen| format!("2026-01-01T00:{:02}:{:02}Z", seen / 60, seen % 60));
        let (name, state) = (format!("n{number:05}"), "online".to_owned());
        NodeView { name, state, last_seen, ..NodeView::default() }
    }

    #[test]
    fn a_walk_in_pages_finds_the_longest_silence() {
        let mut silence = Silence::default();
        let names =
            |silence: &Silence| silence.nodes()[..2].iter().map(|node| node.name.clone()).collect::<Vec<_>>();
        silence.take((0..PAGE).map(|n| node(n, Some(PAGE - n))).collect());
        assert_eq!((silence.marker(), silence.seen()), (Some("n00999"), 1000));
        assert_eq!(names(&silence), ["n00999", "n00998"]);
        let mut last: Vec<NodeView> = vec![node(1000, Some(0)), node(1001, None)];
        last.push(NodeView { state: "revoked".to_owned(), ..node(1002, Some(0)) });
        silence.take(last);
        assert_eq!((silence.marker(), silence.seen()), (None, 1003));
        assert_eq!(names(&silence), ["n01000", "n00999"]);
        // The next walk shows nothing before it is through.
        silence.take((0..PAGE).map(|n| node(n, Some(n + 1))).collect());
        assert_eq!(names(&silence), ["n01000", "n00999"]);
        silence.take(Vec::new());
        assert_eq!(
            (names(&silence), silence.nodes().len()),
            (vec!["n00000".to_owned(), "n00001".to_owned()], KEPT)
        );
    }
}
