//! What is installed beside the binaries says what is true of them.
#![allow(clippy::unwrap_used, reason = "these are tests, also outside of their functions")]

use std::path::{Path, PathBuf};

use muster_controller::config::Settings;

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(file)
}

/// The file with its settings switched on.
fn uncommented(file: &str) -> String {
    let text = std::fs::read_to_string(packaging(file)).unwrap();
    let setting = |line: &str| {
        let name = line.strip_prefix('#')?.split_once(" = ")?.0;
        name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_').then(|| line[1..].to_owned())
    };
    text.lines().map(|line| setting(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[test]
fn the_controllers_default_file_has_every_setting_with_its_default() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, uncommented("controller.toml")).unwrap();
    let none = std::iter::empty();
    let given = Settings::read(Some(file.path()), none.clone()).unwrap();
    assert_eq!(format!("{given:?}"), format!("{:?}", Settings::default()));
    let shown = format!("{given:?}");
    for section in [&shown[..], &format!("{:?}", given.limits), &format!("{:?}", given.log)] {
        let words = section.split([' ', '{', ',']).filter_map(|word| word.strip_suffix(':'));
        for name in words.filter(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')) {
            assert!(
                uncommented("controller.toml").contains(name),
                "{name} is not in packaging/controller.toml"
            );
        }
    }
    assert!(Settings::read(Some(&packaging("controller.toml")), none).is_ok(), "as it is installed");
}
