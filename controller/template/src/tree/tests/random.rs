//! Random nests, against a naive recursion.

use proptest::prelude::*;

use super::*;

/// The content of a generated template; nothing of the expander is used.
#[derive(Clone, Debug)]
enum Nest {
    Leaf,
    Stack(Vec<(String, Nest)>),
    Group(usize, Box<Nest>),
    Chain(usize, Box<Nest>),
}

fn nest() -> impl Strategy<Value = Nest> {
    Just(Nest::Leaf).prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::btree_map("[a-d]", inner.clone(), 0..4)
                .prop_map(|map| Nest::Stack(map.into_iter().collect())),
            (0usize..12, inner.clone()).prop_map(|(count, inner)| Nest::Group(count, Box::new(inner))),
            (0usize..3, inner).prop_map(|(count, inner)| Nest::Chain(count, Box::new(inner))),
        ]
    })
}

impl Nest {
    /// The type, with properties, and the templates it needs.
    fn written(&self, files: &mut Vec<(String, String)>) -> (String, String) {
        match self {
            Nest::Leaf => ("OS::Heat::None".into(), "{}".into()),
            Nest::Stack(resources) => {
                let text = text(resources, files);
                let name = format!("{}.yaml", files.len());
                files.push((name.clone(), text));
                (name, "{}".into())
            }
            Nest::Group(count, inner) => {
                let (kind, properties) = inner.written(files);
                let definition = format!("{{type: '{kind}', properties: {properties}}}");
                ("OS::Heat::ResourceGroup".into(), format!("{{count: {count}, resource_def: {definition}}}"))
            }
            Nest::Chain(count, inner) => {
                let (kind, properties) = inner.written(files);
                let types = vec![format!("'{kind}'"); *count].join(", ");
                let properties = format!("{{resources: [{types}], resource_properties: {properties}}}");
                ("OS::Heat::ResourceChain".into(), properties)
            }
        }
    }

    fn names(&self, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        match self {
            Nest::Leaf => {}
            Nest::Stack(resources) => {
                resources.iter().for_each(|(name, inner)| inner.names(&format!("{path}/{name}"), found));
            }
            Nest::Group(count, inner) | Nest::Chain(count, inner) => {
                (0..*count).for_each(|at| inner.names(&format!("{path}/{at}"), found));
            }
        }
    }
}

fn text(resources: &[(String, Nest)], files: &mut Vec<(String, String)>) -> String {
    let one = |(name, nest): &(String, Nest)| {
        let (kind, properties) = nest.written(files);
        format!("{name}: {{type: '{kind}', properties: {properties}}}")
    };
    let all: Vec<String> = resources.iter().map(one).collect();
    format!("resources: {{{}}}", all.join(", "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_has_what_is_written_and_nothing_else(resources in prop::collection::btree_map("[a-d]", nest(), 1..4)) {
        let resources: Vec<(String, Nest)> = resources.into_iter().collect();
        let mut files = Vec::new();
        let root = text(&resources, &mut files);
        let files: Vec<(&str, &str)> = files.iter().map(|(key, text)| (&**key, &**text)).collect();
        let tree = grown(&root, &files, "{}").unwrap();
        let mut wanted = Vec::new();
        resources.iter().for_each(|(name, nest)| nest.names(name, &mut wanted));
        wanted.sort();
        let names: Vec<&str> = (0..tree.len()).map(|index| tree.name(index)).collect();
        prop_assert_eq!(&names, &wanted);
        let again = grown(&root, &files, "{}").unwrap();
        prop_assert_eq!(shown(&tree), shown(&again));
        prop_assert!(has_an_order(&tree), "needs go round");
        for index in 0..tree.len() {
            prop_assert_eq!(tree.definition(index), again.definition(index));
            prop_assert_eq!(tree.index_of(tree.name(index)), Some(index));
            if let Some((up, _)) = tree.name(index).rsplit_once('/') {
                let up = tree.index_of(up).unwrap();
                prop_assert!(tree.requires(up).contains(&u32::try_from(index).unwrap()));
            }
        }
    }
}

/// Whether all can be made, each after those it needs.
fn has_an_order(tree: &Tree) -> bool {
    let mut ready = vec![false; tree.len()];
    loop {
        let mut moved = false;
        for at in 0..tree.len() {
            if !ready[at] && tree.requires(at).iter().all(|need| ready[*need as usize]) {
                (ready[at], moved) = (true, true);
            }
        }
        if !moved {
            return ready.into_iter().all(|ready| ready);
        }
    }
}
