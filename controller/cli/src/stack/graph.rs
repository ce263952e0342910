//! `stack graph`: the dependencies, as a table, a document, Graphviz's language or a drawing.
//!
//! Absent: how dependencies arise (`controller/template/src/resolve/walk.rs`), and pictures
//! (`controller/picture`).

use muster_picture::drawing::layout::layers;
use muster_picture::stack::Picture;

use super::Graph;
use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Output, print, read, rows, view};

/// The most names in one cell of the table.
const NAMED: usize = 8;

/// Does it.
pub async fn run(asked: Graph, client: &mut Client) -> Result<(), Failure> {
    let answer = client.get(&path(["stacks", asked.name.as_str(), "graph"])).await?;
    match asked.output {
        Output::Document(format) => view(format, &answer, |graph| table(&Picture::of(graph))),
        Output::Dot => print(&Picture::of(&read(&answer)?).dot()),
        Output::Svg => print(&Picture::of(&read(&answer)?).svg()),
        Output::File(_) => Err(Output::is_for_others()),
    }
}

/// A line for each row, after those of its dependencies.
fn table(picture: &Picture) -> String {
    let nodes = &picture.nodes;
    let layers = layers(nodes.len(), &picture.edges);
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    picture.edges.iter().for_each(|(from, to)| needs[*to].push(*from));
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|index| layers[*index]);
    let heading = ["RESOURCE", "NODE", "STATE", "NEEDS"].map(ToOwned::to_owned).to_vec();
    let filled = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let line = |index: usize| {
        let node = &nodes[index];
        let mut named: Vec<String> =
            needs[index].iter().take(NAMED).map(|needed| nodes[*needed].label()).collect();
        named.sort();
        if needs[index].len() > NAMED {
            named.push(format!("{} more", needs[index].len() - NAMED));
        }
        vec![node.label(), filled(&node.node), node.state_with(&node.since), filled(&named.join(", "))]
    };
    rows(std::iter::once(heading).chain(order.into_iter().map(line)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer() -> Value {
        serde_json::from_str(include_str!("../../../picture/testdata/stack.json")).unwrap()
    }

    #[test]
    fn the_table_has_what_is_needed_above_what_needs_it() {
        let mut answer = answer();
        answer["nodes"][2]["phase"] = json!("hook");
        answer["nodes"][2]["hook"] = json!("pre-create");
        assert_eq!(
            table(&Picture::of(&read(&answer).unwrap())),
            "\
RESOURCE         NODE   STATE                             NEEDS
net              web-1  CREATE COMPLETE                   -
motd             web-1  CREATE IN_PROGRESS, running 35 s  net
motd (clean-up)  web-1  CREATE COMPLETE                   net
zone             web-1  INIT, hook pre-create 0 s         motd
"
        );
        assert_eq!(
            table(&Picture::of(&muster_api::resource::GraphView::default())),
            "RESOURCE  NODE  STATE  NEEDS\n"
        );
    }
}
