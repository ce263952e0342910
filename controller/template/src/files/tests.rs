use std::collections::BTreeMap;

use super::{gather, resolve};
use crate::{Environment, EnvironmentFile, Limits, parse, parse_file};

#[test]
fn names_have_one_key() {
    for (base, name, wanted) in [
        ("", "a.yaml", "a.yaml"),
        ("", "./a//b/../c", "a/c"),
        ("", "../a", "../a"),
        ("", "a/../../b", "../b"),
        ("nets/vlan.yaml", "scripts/up", "nets/scripts/up"),
        ("nets/vlan.yaml", "../motd", "motd"),
        ("nets/vlan.yaml", "../../motd", "../motd"),
        ("../site/x.yaml", "../../motd", "../../motd"),
        ("../site/x.yaml", "y", "../site/y"),
        ("nets/vlan.yaml", "/etc/motd", "/etc/motd"),
        ("", "/etc/../../motd", "/motd"),
        ("/srv/a.yaml", "b/c", "/srv/b/c"),
        ("/srv/a.yaml", "../../../c", "/c"),
        ("", "file:///etc/./motd", "file:///etc/motd"),
        ("file:///srv/a.yaml", "../b", "file:///b"),
        ("file:///srv/a.yaml", "/b", "file:///b"),
        ("https://x.example/t/a.yaml", "../../b", "https://x.example/b"),
        ("https://x.example/t/a.yaml", "/b", "https://x.example/b"),
        ("https://x.example/t/a.yaml", "file:///b", "file:///b"),
        ("https://x.example", "b", "https://x.example/b"),
        ("", "a b:c//d", "a b:c/d"),
        ("", "", ""),
    ] {
        let key = resolve(base, name);
        assert_eq!(key, wanted, "{base} {name}");
        assert_eq!(resolve("", &key), wanted, "a key is its own");
    }
}

/// Files by key, and how often each was asked for.
struct Disk(BTreeMap<&'static str, &'static str>, BTreeMap<String, u32>);

impl Disk {
    fn new(files: &[(&'static str, &'static str)]) -> Self {
        Self(files.iter().copied().collect(), BTreeMap::new())
    }

    fn gather(&mut self, root: &str, registry: &str) -> Result<Vec<String>, String> {
        let text = format!("resource_registry: {registry}");
        let environment =
            Environment::parse([EnvironmentFile { name: "E", key: "envs/e.yaml", text: &text }]);
        let fetch = |key: &str| {
            *self.1.entry(key.to_owned()).or_default() += 1;
            self.0.get(key).map(|text| (*text).to_owned()).ok_or_else(|| format!("no {key}"))
        };
        let found = gather(Some(("T", root)), &environment.unwrap(), |key| format!("<{key}>"), fetch);
        found.map(|files| files.into_keys().collect()).map_err(|errors| errors.to_string())
    }
}

#[test]
fn all_that_is_named_is_found_and_read_once() {
    let root = "
resources:
  a: {type: My::File, properties: {content: {get_file: files/motd}, other: [{get_file: ./files/motd}]}}
  b: {type: nets/b.yaml}
  c: {type: OS::Heat::ResourceGroup, properties: {resource_def: {type: ./c.template, properties: {x: {get_file: x}}}}}
  d: {type: OS::Heat::ResourceChain, properties: {resources: [d.yaml, OS::Heat::None, c.template]}}
outputs: {o: {value: {get_file: out}}}
";
    let mut disk = Disk::new(&[
        ("files/motd", "{get_file: not-looked-into}"),
        (
            "nets/b.yaml",
            "resources: {r: {type: ../nets/b.yaml, p: {get_file: ../files/motd}, q: {get_file: own}}}",
        ),
        ("nets/own", "\u{1}"),
        ("c.template", "resources: {r: {type: d.yaml}}"),
        ("d.yaml", "resources: {r: {type: c.template}}"),
        ("x", ""),
        ("out", ""),
        ("envs/e1.yaml", "resources: {r: {type: deep/e2.yaml}}"),
        (
            "envs/deep/e2.yaml",
            "resources: {r: {type: ../../nets/b.yaml, s: {unknown_function: {get_file: f}}}}",
        ),
        ("envs/deep/f", ""),
    ]);
    let found =
        disk.gather(root, "{A::B: e1.yaml, A::C: OS::Heat::None, resources: {x: {y: {A::B: ../d.yaml}}}}");
    let all: Vec<String> = disk.0.keys().map(|key| (*key).to_owned()).collect();
    assert_eq!(found, Ok(all));
    assert!(disk.1.values().all(|times| *times == 1), "{:?}", disk.1);
}

#[test]
fn a_file_may_be_content_and_template() {
    let root = "resources: {a: {p: {get_file: t.yaml}}, b: {type: t.yaml}}";
    let mut disk = Disk::new(&[("t.yaml", "r: {get_file: x}"), ("x", "")]);
    assert_eq!(disk.gather(root, "{}"), Ok(vec!["t.yaml".to_owned(), "x".to_owned()]));
}

#[test]
fn what_is_missing_has_its_places() {
    let root = "resources:\n  a: {p: {get_file: f}}\n  b: {type: b.yaml}\n  c: {type: b.yaml}\n  d: {type: bad.yaml}\n  e: {type: n.yaml}";
    let mut disk = Disk::new(&[("bad.yaml", "a: ["), ("n.yaml", "r:\n  type: m.yaml")]);
    assert_eq!(
        disk.gather(root, "{A::B: e1.yaml}").unwrap_err(),
        "T:2:21: resources.a.p.get_file: no f\n\
         T:3:13: resources.b.type: no b.yaml\n\
         T:4:13: resources.c.type: no b.yaml\n\
         <bad.yaml>:2:1: a: not valid YAML: while parsing a node, did not find expected node content\n\
         <n.yaml>:2:9: r.type: no m.yaml\n\
         E:1:27: resource_registry.A::B: no envs/e1.yaml"
    );
    assert!(disk.gather("a: [", "{}").unwrap_err().starts_with("T:2:1: "));
}

#[test]
fn files_are_bounded() {
    let root: String = (0..=Limits::FILES).map(|n| format!("- get_file: f{n}\n")).collect();
    let why = gather(Some(("T", &format!("r:\n{root}"))), &Environment::default(), str::to_owned, |_| {
        Ok(String::new())
    });
    let why = why.unwrap_err().to_string();
    assert!(why.contains("get_file: a stack is made of at most 1000 files, and this is one more"), "{why}");
    let large = " ".repeat(Limits::TEXT + 1);
    let root = "r: [{type: t.yaml}, {get_file: t.yaml}]";
    let why = gather(Some(("T", root)), &Environment::default(), str::to_owned, |_| Ok(&*large));
    assert_eq!(
        why.unwrap_err().to_string(),
        "T:1:12: r[0].type: the template has 16777217 bytes; at most 16 MiB are allowed"
    );
    // A template that names another without end.
    let endless = |key: &str| Ok(format!("r: {{type: n/{}}}", key.rsplit('/').next().unwrap()));
    let why = gather(Some(("T", "r: {type: t.yaml}")), &Environment::default(), str::to_owned, endless);
    assert!(why.unwrap_err().to_string().contains("at most 1000 files"));
}

#[test]
fn a_template_looks_its_files_up_from_where_it_is() {
    let text = "
heat_template_version: 2018-08-31
resources:
  r: {type: 'Muster::File', properties: {node: n, path: /f, content: {get_file: ./f}}}
";
    let files = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), (*key).to_owned())).collect();
    assert!(parse("t", text, &files(&["f"])).is_ok());
    assert!(parse("t", text, &files(&["./f"])).is_ok(), "the root's may have the names in its text");
    assert!(parse_file("a/t.yaml", text, &files(&["a/f"]), Limits::TEXT, &|_| false).is_ok());
    let why = parse_file("a/t.yaml", text, &files(&["f", "./f"]), Limits::TEXT, &|_| false)
        .unwrap_err()
        .to_string();
    assert!(
        why.starts_with(
            "a/t.yaml:4:70: resources.r.properties.content.get_file: the file './f' was not given"
        ),
        "{why}"
    );
}

proptest::proptest! {
    #[test]
    fn a_key_is_in_its_shortest_form(base in "[a-c./:]{0,12}", name in "(file://|https://h|://|/|)[a-c./: é]{0,12}") {
        let key = resolve(&base, &name);
        proptest::prop_assert_eq!(resolve("", &key), key.clone());
        let (root, path) = super::split(&key);
        proptest::prop_assert!(root.is_empty() || root.ends_with('/'), "{}", key);
        let parts: Vec<&str> = path.split('/').filter(|_| !path.is_empty()).collect();
        proptest::prop_assert!(!parts.iter().any(|part| matches!(*part, "" | ".")), "{}", key);
        let down = parts.iter().skip_while(|part| **part == ".." && root.is_empty());
        proptest::prop_assert!(!down.into_iter().any(|part| *part == ".."), "{}", key);
    }
}

/// Texts that are hostile to a parser do not harm the search for files.
#[test]
fn hostile_templates_are_refused() {
    let bomb: String = (0..30)
        .map(|n| {
            format!(
                "a{n}: &a{n} [{}]\n",
                vec![if n == 0 { "x".into() } else { format!("*a{}", n - 1) }; 9].join(", ")
            )
        })
        .collect();
    // One section, so that its anchors are known to it all.
    let bomb = format!("r:\n  {}", bomb.replace('\n', "\n  "));
    let deep = format!("r: {}{}", "[".repeat(100), "]".repeat(100));
    for (text, wanted) in
        [(&*bomb, "anchors and aliases copy more than"), (&*deep, "nested more than 64 levels deep")]
    {
        let fetch = |_: &str| Ok(text);
        let why = gather(Some(("T", "r: {type: t.yaml}")), &Environment::default(), str::to_owned, fetch)
            .unwrap_err();
        assert!(why.0[0].file == "t.yaml" && why.0[0].message.contains(wanted), "{why}");
    }
}
