use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use muster_template::{Limits, Tree, parse_in};
use tempfile::TempDir;

use super::*;
use crate::failure::Exit;

const TEMPLATE: &str = "\
heat_template_version: 2018-08-31
resources:
  motd:
    type: Muster::File
    properties:
      node: web-1
      path: /etc/motd
      content: {get_file: files/motd}
";

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn read(folder: &TempDir, template: &str, environments: &[&str]) -> Result<Source, Failure> {
    let environments: Vec<PathBuf> = environments.iter().map(|name| folder.path().join(name)).collect();
    Source::read(Some(&folder.path().join(template)), &environments)
}

/// The only error, with the folder left out.
#[track_caller]
fn refusal(folder: &TempDir, result: Result<Source, Failure>) -> String {
    let failure = result.err().unwrap();
    assert_eq!(failure.exit, Exit::Usage);
    let [line] = &failure.lines[..] else { panic!("{failure:?}") };
    line.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn files_are_found_beside_the_template() {
    let folder = folder(&[("files/motd", "hi\n"), ("t.yaml", TEMPLATE)]);
    let source = read(&folder, "t.yaml", &[]).unwrap();
    assert_eq!(source.files, BTreeMap::from([("files/motd".to_owned(), "hi\n".to_owned())]));
}

/// As Heat's client does it, and chains of resources as well: everything in the tree but `unused`.
#[test]
fn everything_that_is_named_is_gathered() {
    let folder = folder(&[
        (
            "stacks/root.yaml",
            "heat_template_version: 2018-08-31
resources:
  nested: {type: nested/one.yaml}
  again: {type: ./nested/../nested/one.yaml}
  group: {type: 'OS::Heat::ResourceGroup', properties: {resource_def: {type: ../common/member.yaml}}}
  chain: {type: 'OS::Heat::ResourceChain', properties: {resources: [nested/two.yaml, 'My::Type']}}
  file: {type: 'My::Type', properties: {content: {get_file: motd}, same: {get_file: ./motd}}}
",
        ),
        ("stacks/motd", "hi"),
        ("stacks/nested/one.yaml", "resources: {r: {type: two.yaml, p: {get_file: files/one}}}"),
        ("stacks/nested/two.yaml", "resources: {r: {type: one.yaml}, up: {type: ../root.yaml}}"),
        ("stacks/nested/files/one", "1"),
        ("common/member.yaml", "resources: {r: {p: {get_file: ../common/member.yaml}}}"),
        (
            "envs/site/env.yaml",
            "resource_registry: {'My::*': ../../common/my.yaml, resources: {a: {b: {'X::Y': own.yaml}}}}",
        ),
        ("envs/site/own.yaml", "r: {get_file: beside}"),
        ("envs/site/beside", "b"),
        ("common/my.yaml", ""),
        ("unused.yaml", "r: {get_file: nowhere}"),
    ]);
    let source = read(&folder, "stacks/root.yaml", &["envs/site/env.yaml"]).unwrap();
    assert_eq!(
        source.files.keys().collect::<Vec<_>>(),
        [
            "../common/member.yaml",
            "../common/my.yaml",
            "../envs/site/beside",
            "../envs/site/own.yaml",
            "motd",
            "nested/files/one",
            "nested/one.yaml",
            "nested/two.yaml",
            "root.yaml",
        ]
    );
    for (key, text) in &source.files {
        assert_eq!(fs::read_to_string(folder.path().join("stacks").join(key)).unwrap(), *text);
    }
    let sent = source.sent();
    assert_eq!(sent.environments[0].key.as_deref(), Some("../envs/site/env.yaml"));
    assert_eq!(sent.template.unwrap().files["motd"], "hi");
    assert!(sent.files.is_empty());
}

/// The origin of the stack's present template is unknown here.
#[test]
fn without_a_template_keys_are_absolute() {
    let folder = folder(&[
        ("envs/env.yaml", "resource_registry: {'My::Type': ../t/my.yaml}"),
        ("t/my.yaml", "r: {get_file: x/../f}"),
        ("t/f", "content"),
    ]);
    let at = |name: &str| format!("{}/{name}", folder.path().display());
    let source = Source::read(None, &[folder.path().join("envs/../envs/env.yaml")]).unwrap();
    assert_eq!(source.environments[0].key, at("envs/env.yaml"));
    assert_eq!(source.files.keys().collect::<Vec<_>>(), [&at("t/f"), &at("t/my.yaml")]);
    let sent = source.sent();
    assert!(sent.template.is_none());
    assert_eq!(sent.files[&at("t/f")], "content");
}

#[test]
fn an_unreadable_file_is_an_error_at_its_place() {
    let folder = folder(&[
        ("t.yaml", TEMPLATE),
        ("n.yaml", "resources:\n  r:\n    type: nested/m.yaml\n"),
        ("nested/m.yaml", "resources:\n  r: {get_file: ../f}\n"),
        ("bad.yaml", "resources:\n  r: {type: nested/bad.yaml}\n"),
        ("nested/bad.yaml", "resources: {\n"),
        ("ok.yaml", "resources: {}"),
        ("env.yaml", "resource_registry:\n  My::Type: nested/own.yaml\n"),
    ]);
    for (template, environments, wanted) in [
        (
            "t.yaml",
            &[][..],
            "t.yaml:8:27: resources.motd.properties.content.get_file: cannot read files/motd: No such file or directory (os error 2)",
        ),
        (
            "n.yaml",
            &[],
            "nested/m.yaml:2:17: resources.r.get_file: cannot read f: No such file or directory (os error 2)",
        ),
        (
            "ok.yaml",
            &["env.yaml"],
            "env.yaml:2:13: resource_registry.My::Type: cannot read nested/own.yaml: No such file or directory (os error 2)",
        ),
        (
            "bad.yaml",
            &[],
            "nested/bad.yaml:2:1: resources: not valid YAML: while parsing a node, did not find expected node content",
        ),
        ("ok.yaml", &["no.yaml"], "no.yaml: No such file or directory (os error 2)"),
        ("no.yaml", &["env.yaml"], "no.yaml: No such file or directory (os error 2)"),
    ] {
        assert_eq!(refusal(&folder, read(&folder, template, environments)), wanted);
    }
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let folder = folder(&[("t.yaml", TEMPLATE), ("files/real", "hi")]);
    let named = folder.path().join("files/motd");
    let reason = |wanted: &str| {
        let place = "t.yaml:8:27: resources.motd.properties.content.get_file: cannot read files/motd:";
        assert_eq!(refusal(&folder, read(&folder, "t.yaml", &[])), format!("{place} {wanted}"));
        fs::remove_file(&named).or_else(|_| fs::remove_dir(&named)).unwrap();
    };
    fs::create_dir(&named).unwrap();
    reason("it is a directory");
    let _socket = UnixListener::bind(&named).unwrap();
    reason("it is no regular file");
    symlink("/dev/zero", &named).unwrap();
    reason("it is no regular file");
    symlink("motd", &named).unwrap();
    reason("Too many levels of symbolic links (os error 40)");
    fs::write(&named, [0xff, 0xfe]).unwrap();
    reason("it is not UTF-8 text");
    // Of nothing but holes.
    File::create(&named).unwrap().set_len(FILES_MAX as u64 + 1).unwrap();
    reason("with it there are more than 256 MiB of files");
    symlink("real", &named).unwrap();
    assert_eq!(read(&folder, "t.yaml", &[]).unwrap().files["files/motd"], "hi");
}

#[test]
fn what_is_no_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.yaml");
    fs::write(&path, [0xff, 0xfe]).unwrap();
    for (path, part) in [
        (path.as_path(), "not UTF-8"),
        (folder.path(), "directory"),
        (&folder.path().join("absent.yaml"), "No such file"),
    ] {
        let failure = Source::read(Some(path), &[]).err().unwrap();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.lines[0].contains(part), "{failure:?}");
    }
}

/// The beginning of a text may be as valid as the whole.
#[test]
fn what_is_too_long_is_refused_and_not_cut() {
    assert_eq!(text_from(&b"12345"[..], 5).unwrap(), "12345");
    assert!(text_from(&b"123456"[..], 5).unwrap_err().contains("too large"));
}

#[test]
fn keys_have_their_places() {
    for (template, key, wanted) in [
        ("a/t.yaml", "b/c", Ok("a/b/c")),
        ("t.yaml", "../c", Ok("../c")),
        ("a/b/t.yaml", "../../../c", Ok("../c")),
        ("./t.yaml", "../c", Ok("../c")),
        ("../t.yaml", "../c", Ok("../../c")),
        ("/a/t.yaml", "../../c", Ok("/c")),
        ("a/t.yaml", "/etc/motd", Ok("/etc/motd")),
        ("a/t.yaml", "file:///etc/motd", Ok("/etc/motd")),
        (
            "a/t.yaml",
            "file://host/motd",
            Err("'file://host/motd' is on another host; copy the file beside the template and name it there"),
        ),
        (
            "a/t.yaml",
            "https://example.org/motd",
            Err("'https://example.org/motd' is a URL; copy the file beside the template and name it there"),
        ),
    ] {
        let found = Base::of(Some(Path::new(template))).path_of(key);
        assert_eq!(found, wanted.map(PathBuf::from).map_err(str::to_owned), "{template} {key}");
    }
}

#[test]
fn parameters_split_at_the_first_equals_sign() {
    assert_eq!(parameter("a=b=c").unwrap(), ("a".to_owned(), "b=c".to_owned()));
    assert_eq!(parameter("a=").unwrap(), ("a".to_owned(), String::new()));
    assert!(parameter("a").is_err());
    assert!(parameter("=b").is_err());
}

/// The files of TripleO's operators: each environment with the files it names, each template by itself.
#[test]
fn tripleo_is_gathered() {
    let samples =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|up| up.join("shared/samples/tripleo"));
    let Some(samples) = samples.into_iter().find(|samples| samples.is_dir()) else {
        println!("0 files: there are no samples here");
        return;
    };
    let mut seen = Vec::new();
    let mut open = vec![samples.clone()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { seen.push(path) }
        }
    }
    seen.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    let mut gathered = 0;
    for path in &seen {
        let text = fs::read_to_string(path).unwrap();
        let is_template = text.contains("heat_template_version");
        let read = if is_template {
            Source::read(Some(path), &[])
        } else {
            Source::read(None, std::slice::from_ref(path))
        };
        match read {
            Ok(source) => gathered += 1 + source.files.len(),
            // What the samples leave out is said with its place.
            Err(failure) => {
                for line in &failure.lines {
                    assert!(line.contains("cannot read") && line.contains("No such file"), "{line}");
                }
            }
        }
    }
    println!("{gathered} files of {} templates and environments", seen.len());
    assert!(gathered > 0);
}

/// The examples of this project are opened whole.
#[test]
fn examples_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let mut all: Vec<_> = found.into_iter().map(|path| (path, Vec::new())).collect();
    assert!(all.len() >= 3, "{all:?}");
    all.push((folder.join("roles/site.yaml"), vec![folder.join("roles/environment.yaml")]));
    for (template, environments) in all {
        let source = Source::read(Some(&template), &environments).unwrap();
        let text = source.template().unwrap();
        let maps = |kind: &str| source.environment.maps(kind);
        let parsed = parse_in(&text.name, &text.text, &source.files, Limits::TEXT, &maps).unwrap();
        let missing = parsed.missing_parameters(&source.environment, &BTreeMap::new()).join(", ");
        let given = match missing.as_str() {
            "" => BTreeMap::new(),
            "address" => parameters(&[("address".into(), "10.98.0.13/24".into())]),
            _ => panic!("{template:?} misses {missing}"),
        };
        let bound = parsed.bind_with(&source.environment, &given).unwrap();
        let tree = Tree::new(parsed.into(), bound.into(), &source.environment, &source.files).unwrap();
        assert!(!tree.is_empty(), "{template:?}");
    }
}
