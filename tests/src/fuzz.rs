//! The fuzz targets: each takes bytes from outside. cargo-fuzz runs them from `fuzz/`; `tests/fuzz_corpus.rs` runs the
//! same functions over `fuzz/seeds` and seeded mutations of it.
//!
//! A target must not panic, hang or take much memory, and what it can read must survive being written and read again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_controller::link::direct::count_packets;
use muster_shared::NodeId;
use muster_shared::join::{JoinAnswer, JoinRequest, JoinToken};
use muster_shared::model::flow::{Entry, OpsRef, Packed, read_ops};
use muster_shared::model::network::NetworkDocument;
use muster_shared::model::{Down, Up};
use muster_shared::seal::{Body, ControllerEnd, Opened, Seal, SealSecret};
use muster_shared::wire::{self, BODY_MAX, Message};
use muster_template::{
    Environment, Errors, FlowFile, FlowLimits, FlowStage, Hook, IntentFile, IntentLimits, Mapping,
    NoResources, Parameters, References, StackNames, Template, Tree, files, wish_json,
};
use serde_json::Value;

/// A function that reads bytes from outside.
pub struct Target {
    /// The name in `fuzz/fuzz_targets` and `fuzz/seeds`.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
}

/// The targets.
pub const TARGETS: [Target; 17] = [
    Target { name: "wire_packet", run: wire_packet },
    Target { name: "wire_down", run: wire_body::<Down> },
    Target { name: "wire_up", run: wire_body::<Up> },
    Target { name: "join_request", run: join_request },
    Target { name: "join_answer", run: join_answer },
    Target { name: "join_token", run: join_token },
    Target { name: "mqtt", run: mqtt },
    Target { name: "template", run: template },
    Target { name: "tree", run: tree },
    Target { name: "environment", run: environment },
    Target { name: "flow_file", run: flow_file },
    Target { name: "flow_ops", run: flow_ops },
    Target { name: "intent_file", run: intent_file },
    Target { name: "network_document", run: network_document },
    Target { name: "node_name", run: node_name },
    Target { name: "openflow", run: openflow },
    Target { name: "lldp", run: lldp },
];

/// The target of that name.
///
/// # Panics
/// If there is none: the caller is one of our own targets.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("every fuzz target is in the list");
    (target.run)(bytes);
}

/// Returns the seal of the node web-1, as one of both sides has it.
fn seal(mine: u8, theirs: u8) -> Seal {
    let theirs = SealSecret::from_bytes([theirs; 32]).public();
    let (site, node) = ("lab".parse().expect("a valid name"), "web-1".parse().expect("a valid name"));
    Seal::new(&SealSecret::from_bytes([mine; 32]), &theirs, &site, &node)
}

/// A packet as it comes from the link, before and after the greeting, and the same bytes sealed as they should be.
fn wire_packet(bytes: &[u8]) {
    let mut end = ControllerEnd::new(seal(1, 2));
    assert!(end.open(bytes, || Some([4; 32])).is_err(), "nobody can guess a seal");
    let greeting = seal(2, 1).greet([3; 32]).expect("a sound key");
    assert!(greeting.accept(&seal(2, 1), bytes).is_err(), "nobody can guess an answer");
    let Ok(Opened::Greeting { answer }) = end.open(greeting.packet(), || Some([4; 32])) else {
        panic!("a greeting is answered")
    };
    let mut agent = greeting.accept(&seal(2, 1), &answer).expect("its answer");
    assert!(end.open(bytes, || None).is_err() && agent.open(bytes).is_err(), "nobody can guess a session");
    let mut body = Body::with_room_for(bytes.len());
    body.extend(bytes);
    let opened = end.open(&agent.seal(body), || None);
    if bytes.len() <= BODY_MAX {
        assert_eq!(
            opened,
            Ok(Opened::Packet { body: bytes.to_vec(), begins: true }),
            "a seal changes nothing"
        );
    }
    // Other targets check the meaning; here bytes of anybody must do no harm.
    let _ = wire::read_body::<Up>(bytes);
}

fn wire_body<M: Message + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(messages) = wire::read_body::<M>(bytes) else { return };
    // A message may be written longer than it was read, and then fit no packet.
    let Ok(bodies) = wire::pack(&messages) else { return };
    let read = |body: &Body| wire::read_body(body.as_bytes()).expect("what was packed can be unpacked");
    let again: Vec<M> = bodies.iter().flat_map(read).collect();
    assert_eq!(again, messages);
}

fn join_request(bytes: &[u8]) {
    if let Ok(request) = JoinRequest::decode(bytes) {
        assert_eq!(JoinRequest::decode(&request.encode()), Ok(request));
    }
}

fn join_answer(bytes: &[u8]) {
    if let Ok(answer) = JoinAnswer::decode(bytes) {
        assert_eq!(JoinAnswer::decode(&answer.encode()), Ok(answer));
    }
}

fn join_token(bytes: &[u8]) {
    if let Ok(token) = String::from_utf8_lossy(bytes).parse::<JoinToken>() {
        assert_eq!(token.to_string().parse(), Ok(token));
    }
}

/// Everything a client of the MQTT port sends passes here.
fn mqtt(bytes: &[u8]) {
    // The smallest packet has two bytes.
    assert!(count_packets(bytes) <= bytes.len() / 2);
}

/// A template and, after a zero byte, the content of the file it may name.
fn template(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (text, file) = text.split_once('\0').unwrap_or((&text, "content"));
    let files = BTreeMap::from([("file".to_owned(), file.to_owned())]);
    // Either may fail; a template that parses has files that can be named.
    let named = muster_template::referenced_files("t.yaml", text);
    let mut fetched = BTreeSet::new();
    let gathered = files::gather(Some(("t.yaml", text)), &Environment::default(), str::to_owned, |key| {
        assert!(fetched.insert(key.to_owned()), "each file is fetched once");
        Ok(file)
    });
    let Ok(template) = muster_template::parse("t.yaml", text, &files) else { return };
    let Ok(named) = named else { panic!("a template that parses can be read") };
    assert!(named.iter().all(|name| files::resolve("", name) == "file"));
    if let Ok(all) = gathered {
        assert!(
            named.iter().all(|name| all.contains_key(&files::resolve("", name))),
            "what a template names is found"
        );
    }
    let Ok(parameters) = template.bind(&BTreeMap::new()) else { return };
    assert_eq!(render(&template, &parameters), render(&template, &parameters), "rendering is deterministic");
    let names = StackNames { name: "web".into(), id: "1".into() };
    let Ok(parameters) = template.name_stack(parameters, names) else { return };
    let whole = render(&template, &parameters);
    let exists =
        (0..template.resources.len()).filter(|index| template.exists(*index, &parameters) == Ok(true));
    let count = exists.count();
    let Ok(pruned) = template.pruned(&parameters) else { return };
    assert_eq!(pruned.resources.len(), count, "what exists is what is left");
    assert!(render(&pruned, &parameters).len() <= whole.len());
}

/// Reads a template, one that it may nest, and an environment, with a zero byte between them.
///
/// # Errors
/// Says what is wrong with the texts.
pub fn open(text: &str) -> Result<Tree, Errors> {
    let mut texts = text.splitn(3, '\0');
    let (root, nested) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
    let environment = Environment::parse(texts.next().map(|text| ("e.yaml", text)))?;
    let files = BTreeMap::from([("nested.yaml".to_owned(), nested.to_owned())]);
    let maps = |kind: &str| environment.maps(kind);
    let template = muster_template::parse_in("t.yaml", root, &files, 1 << 20, &maps)?;
    let parameters = template.bind_with(&environment, &BTreeMap::new())?;
    let tree = Tree::new(Arc::new(template), Arc::new(parameters), &environment, &files)?;
    tree.of_stack(StackNames { name: "web".into(), id: "1".into() })
}

fn tree(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // Large groups are right, and slow for what they show. The first line has the year of a version.
    let behind = text.split_once('\n').map_or("", |(_, behind)| behind);
    if behind.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 2) {
        return;
    }
    let Ok(tree) = open(&text) else { return };
    for index in 0..tree.len() {
        assert_eq!(tree.index_of(tree.name(index)), Some(index), "each name is of one resource");
        assert!(tree.requires(index).is_sorted_by(|one, next| one < next));
        assert!(tree.requires(index).iter().all(|needed| (*needed as usize) < tree.len()));
        let _ = tree.is_as_expanded(index, &Names);
    }
    assert!(is_without_cycles(&tree), "what waits for itself is never done");
    if tree.len() > 1000 {
        return;
    }
    let opened = rendered(&tree);
    assert_eq!(opened, rendered(&tree), "rendering is deterministic");
    let again = tree.with(&NoResources).expect("what could be opened can be opened again");
    assert_eq!(opened, rendered(&again), "opening is deterministic");
}

/// Takes away what needs nothing that is left, until nothing is left.
fn is_without_cycles(tree: &Tree) -> bool {
    let mut needs: Vec<usize> = (0..tree.len()).map(|index| tree.requires(index).len()).collect();
    let mut needed_by = vec![Vec::new(); tree.len()];
    for index in 0..tree.len() {
        for needed in tree.requires(index) {
            needed_by[*needed as usize].push(index);
        }
    }
    let mut free: Vec<usize> = (0..tree.len()).filter(|index| needs[*index] == 0).collect();
    let mut gone = 0;
    while let Some(index) = free.pop() {
        gone += 1;
        for after in &needed_by[index] {
            needs[*after] -= 1;
            if needs[*after] == 0 {
                free.push(*after);
            }
        }
    }
    gone == tree.len()
}

fn rendered(tree: &Tree) -> Vec<String> {
    let resources = (0..tree.len()).map(|index| match tree.render(index, &Names) {
        Ok(properties) => match muster_template::spec(tree.kind(index), &properties) {
            Ok(desired) => format!("{} {desired:?}", tree.name(index)),
            Err(error) => tree.property_error(index, &error).to_string(),
        },
        Err(error) => error.to_string(),
    });
    let outputs = (0..tree.outputs().len()).map(|index| format!("{:?}", tree.render_output(index, &Names)));
    resources.chain(outputs).collect()
}

/// Environments, with a zero byte between them.
fn environment(bytes: &[u8]) {
    const TEMPLATE: &str = "{heat_template_version: 2018-08-31, parameters: {p: {type: json, default: {}}}}";
    let text = String::from_utf8_lossy(bytes);
    let Ok(environment) = Environment::parse(text.split('\0').map(|text| ("e.yaml", text))) else { return };
    let waits = |name| environment.policies().of(name).waits_at(Hook::PreCreate);
    assert_eq!(waits("web-1"), waits("web-1"), "what is said is said again");
    for resource in ["web-1", "servers/0/config"] {
        if let Ok(Some(Mapping::Type(kind))) = environment.mapping("A::B", resource, &[]) {
            assert_eq!(environment.mapping(&kind, resource, &[]), Ok(None), "a chain of types has its end");
        }
    }
    for mention in environment.mentions() {
        assert_eq!(files::resolve("", &mention.key), mention.key, "a key is in its shortest form");
    }
    let template = muster_template::parse("t.yaml", TEMPLATE, &BTreeMap::new()).expect("a valid template");
    let given = BTreeMap::from([("p".to_owned(), Value::Array(Vec::new()))]);
    if template.bind_with(&environment, &BTreeMap::new()).is_ok() {
        let bound = template.bind_with(&environment, &given).expect("an unknown name would have been said");
        assert_eq!(bound.get("p"), Some(&given["p"]), "what is given goes over an environment");
    }
}

/// A flow file; what it asks for, written again, asks for the same.
fn flow_file(bytes: &[u8]) {
    let limits = FlowLimits { text: 1 << 20, entries: 1000 };
    let read = |text: &str| FlowFile::parse("f.yaml", text, limits);
    let Ok(file) = read(&String::from_utf8_lossy(bytes)) else { return };
    let written: Vec<Value> = file.stages.iter().map(written_stage).collect();
    let mut again = serde_json::Map::from_iter([("stages".to_owned(), Value::Array(written))]);
    again.extend(file.confirm_timeout.map(|seconds| ("confirm_timeout".to_owned(), seconds.into())));
    assert_eq!(read(&Value::Object(again).to_string()), Ok(file));
}

/// An intent file; what it asks for, written again, asks for the same.
fn intent_file(bytes: &[u8]) {
    let limits = IntentLimits { text: 1 << 20, intents: 1000 };
    let read = |text: &str| IntentFile::parse("i.yaml", text, limits);
    let Ok(file) = read(&String::from_utf8_lossy(bytes)) else { return };
    let written = file.intents.iter().map(|(key, wish)| {
        let mut map = wish_json(&wish.intent, wish.group.as_deref());
        map.insert("key".to_owned(), key.to_string().into());
        Value::Object(map)
    });
    assert_eq!(read(&serde_json::json!({"intents": written.collect::<Value>()}).to_string()), Ok(file));
}

fn written_stage(stage: &FlowStage) -> Value {
    let written = |part: &muster_template::FlowPart, packed: &Packed| {
        let mut map = packed.unpack().to_json();
        map.insert("device".into(), part.device.to_string().into());
        Value::Object(map)
    };
    stage.iter().flat_map(|part| part.entries.iter().map(|(_, packed)| written(part, packed))).collect()
}

/// A batch as an agent gets it.
fn flow_ops(bytes: &[u8]) {
    for op in read_ops(bytes) {
        let Ok(OpsRef::Put { packed, .. }) = op else { continue };
        let Ok(entry) = Packed::read(packed) else { continue };
        assert_eq!(Packed::new(&entry).expect("it was packed").bytes(), packed);
        // Canonical is less than right: what prints and parses at all must come to the same.
        if let Ok(again) = Entry::from_json(&Value::Object(entry.to_json())) {
            assert!(Packed::new(&again).is_ok(), "what is parsed is canonical");
        }
    }
}

/// Names only.
struct Names;

impl References for Names {
    fn resource_id(&self, index: u32) -> Option<String> {
        Some(format!("id-{index}"))
    }

    fn attribute(&self, _: u32, name: &str) -> Option<Value> {
        Some(Value::String(name.to_owned()))
    }
}

fn render(template: &Template, parameters: &Parameters) -> Vec<String> {
    let resources = template.resources.iter().enumerate().map(|(index, resource)| {
        match template.render(index, parameters, &Names) {
            Ok(properties) => match muster_template::spec(resource.kind, &properties) {
                Ok(spec) => format!("{spec:?} {:?}", spec.claims()),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        }
    });
    let outputs = (0..template.outputs().len())
        .map(|index| format!("{:?}", template.render_output(index, parameters, &Names)));
    resources.chain(outputs).collect()
}

fn network_document(bytes: &[u8]) {
    let Ok(document) = NetworkDocument::from_json(&String::from_utf8_lossy(bytes)) else { return };
    let links = document.link_names().count();
    assert_eq!(links, document.all().count());
    let same = document.clone().with_names(&BTreeMap::new()).expect("nothing was renamed");
    assert_eq!(same, document);
}

fn node_name(bytes: &[u8]) {
    if let Ok(name) = String::from_utf8_lossy(bytes).parse::<NodeId>() {
        assert_eq!(name.to_string().parse(), Ok(name));
    }
}

/// Reads a message of a switch.
fn openflow(bytes: &[u8]) {
    muster_host::openflow::read_anything(bytes);
}

fn lldp(bytes: &[u8]) {
    use muster_host::lldp::{Frame, Table};
    use muster_shared::model::NeighbourFacts;
    let Ok(frame) = Frame::read(bytes) else { return };
    assert_eq!(Frame::read(&frame.write([2; 6])), Ok(frame.clone()));
    let told = NeighbourFacts::from(&frame);
    let texts = [Some(told.chassis_id), Some(told.port_id), told.system_name, told.system_description];
    for text in texts.into_iter().chain([told.port_description]).flatten() {
        assert!(!text.is_empty() && !text.chars().any(char::is_control), "{text:?}");
    }
    let mut table = Table::default();
    let (is_over, beacon) = (frame.ttl == 0, frame.beacon);
    assert_ne!(table.hear(muster_shared::MonoTime::default(), frame), is_over);
    assert_eq!(table.beacons(), beacon.filter(|_| !is_over).as_slice());
}
