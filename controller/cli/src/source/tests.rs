use std::fs;

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

#[test]
fn files_are_found_beside_the_template() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("files")).unwrap();
    fs::write(folder.path().join("files/motd"), "hi\n").unwrap();
    fs::write(folder.path().join("t.yaml"), TEMPLATE).unwrap();
    let source = read(&folder.path().join("t.yaml")).unwrap();
    assert_eq!(source.files, BTreeMap::from([("files/motd".to_owned(), "hi\n".to_owned())]));
}

#[test]
fn an_unreadable_file_is_an_error_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.yaml");
    fs::write(&path, TEMPLATE).unwrap();
    let failure = read(&path).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    let [line] = &failure.lines[..] else { panic!("{failure:?}") };
    assert!(line.starts_with(&format!("{}:8:", path.display())), "{line}");
    assert!(line.contains("resources.motd.properties.content.get_file: cannot read"), "{line}");
    assert!(line.contains("files/motd: No such file"), "{line}");
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
        let failure = read(path).unwrap_err();
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
fn urls_are_not_fetched() {
    assert!(located(Path::new("a"), "https://example.org/motd").is_err());
    assert_eq!(located(Path::new("a"), "file:///etc/motd").unwrap(), Path::new("/etc/motd"));
    assert_eq!(located(Path::new("a"), "b/c").unwrap(), Path::new("a/b/c"));
}

#[test]
fn parameters_split_at_the_first_equals_sign() {
    assert_eq!(parameter("a=b=c").unwrap(), ("a".to_owned(), "b=c".to_owned()));
    assert_eq!(parameter("a=").unwrap(), ("a".to_owned(), String::new()));
    assert!(parameter("a").is_err());
    assert!(parameter("=b").is_err());
}
