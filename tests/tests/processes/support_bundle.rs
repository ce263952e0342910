//! `muster support-bundle`: all that somebody who helps needs, and no secret.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use muster_tests::site::Site;

use crate::terminal::Terminal;

/// In every secret, and in what never goes in.
const MARKER: &str = "mArKeR";

/// A stack that fails, with a secret in its parameters, a resource and an output.
fn failed_stack(site: &Site) {
    let template = site.file(&format!(
        "heat_template_version: 2018-08-31
description: a template with a {MARKER}
parameters:
  password: {{type: string, hidden: true}}
  greeting: {{type: string, default: {MARKER}-shown}}
resources:
  thing: {{type: Muster::Dummy, properties: {{node: web-1, values: {{a: {{get_param: password}}}}}}}}
  bad:
    type: Muster::Dummy
    depends_on: thing
    properties: {{node: web-1, values: {{a: {{get_param: greeting}}}}, fail: true}}
outputs:
  text: {{value: {{get_param: greeting}}}}
"
    ));
    let environment = site.file(&format!("parameters: {{password: {MARKER}-hidden}}\n"));
    site.muster(&["stack", "create", "web", "-t", &template, "-e", &environment, "--wait"])
        .refused(1, &["FAILED"]);
}

/// The controller's settings for the command, with secrets in them and beside them.
fn settings(site: &Site) -> String {
    let (config, password) = (site.path().join("bundle.toml"), site.path().join("password"));
    fs::write(&password, format!("{MARKER}-file\n")).unwrap();
    let text = format!(
        "# {MARKER}\n[controller]\ndata_dir = '{}'\n[link]\nurl = 'mqtts://x:1'\npassword_file = '{}'\n\
         [store]\nurl = 'postgres://muster:{MARKER}@db/muster'\n[other]\ntoken = '{MARKER}'\n",
        site.database().parent().unwrap().display(),
        password.display()
    );
    fs::write(&config, text).unwrap();
    config.to_str().unwrap().to_owned()
}

/// The files below, with their paths in it.
fn files(folder: &Path, below: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(folder, &path));
        } else {
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            all.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    all
}

fn unpacked(bundle: &Path) -> Vec<(String, String)> {
    let folder = bundle.with_extension("unpacked");
    fs::create_dir(&folder).unwrap();
    let status = Command::new("tar").arg("-xzf").arg(bundle).arg("-C").arg(&folder).status().unwrap();
    assert!(status.success());
    files(&folder.join("muster-support"), &folder.join("muster-support"))
}

#[test]
fn a_bundle_has_all_but_secrets() {
    let mut site = Site::start();
    let _web1 = site.join("web-1");
    failed_stack(&site);
    let (bundle, config) = (site.path().join("b.tar.gz"), settings(&site));
    let path = bundle.to_str().unwrap();
    let written = site.json(&["support-bundle", path, "--yes", "--config", &config]);
    assert_eq!(fs::metadata(&bundle).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(written["bytes"].as_u64().unwrap(), fs::metadata(&bundle).unwrap().len());

    let files = unpacked(&bundle);
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let wanted = [
        "controller-settings.json",
        "devices.json",
        "doctor.json",
        "doctor.txt",
        "drift.json",
        "intents.json",
        "left-out.txt",
        "machine.json",
        "metrics.txt",
        "node-counts.json",
        "nodes.json",
        "stacks.json",
        "stacks/web/events.json",
        "stacks/web/failures.json",
        "stacks/web/graph.json",
        "stacks/web/stack.json",
        "status.json",
        "version.json",
    ];
    // The journal is where there is one.
    assert_eq!(names.iter().copied().filter(|name| *name != "journal.txt").collect::<Vec<_>>(), wanted);
    let listed: BTreeSet<&str> =
        written["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(listed, names);
    for (name, text) in &files {
        assert!(!text.contains(MARKER), "{name}: {text}");
    }
    let text = |name: &str| &*files.iter().find(|file| file.0 == name).unwrap().1;
    for (name, words) in [
        ("nodes.json", "\"web-1\""),
        ("stacks.json", "\"FAILED\""),
        ("stacks/web/failures.json", "\"bad\""),
        ("stacks/web/events.json", "\"CREATE\""),
        ("stacks/web/graph.json", "\"thing\""),
        ("doctor.txt", "1 operation has failed: web (CREATE)"),
        ("metrics.txt", "muster_nodes{state=\"online\"} 1"),
        ("controller-settings.json", "\"postgres://muster:******@db/muster\""),
        ("controller-settings.json", "/password\""),
        ("version.json", env!("CARGO_PKG_VERSION")),
        ("machine.json", "Linux"),
    ] {
        assert!(text(name).contains(words), "no {words} in {name}: {}", text(name));
    }

    // What is there stays.
    let before = fs::read(&bundle).unwrap();
    site.muster(&["support-bundle", path, "--yes"]).refused(2, &["b.tar.gz exists; --force replaces it"]);
    assert_eq!(fs::read(&bundle).unwrap(), before);

    // Without a controller there is a bundle as well.
    site.kill();
    site.ok(&["support-bundle", path, "--yes", "--force"]);
    fs::remove_dir_all(bundle.with_extension("unpacked")).unwrap();
    let files = unpacked(&bundle);
    let left_out = &files.iter().find(|(name, _)| name == "left-out.txt").unwrap().1;
    assert!(left_out.contains("all that the controller knows: cannot reach the controller"), "{left_out}");
    assert!(files.iter().any(|(name, text)| name == "doctor.txt" && text.contains("cannot reach")));
}

#[test]
fn a_bundle_is_written_only_when_it_is_wanted() {
    let site = Site::start();
    let bundle = site.path().join("b.tar.gz");
    let path = bundle.to_str().unwrap();
    site.muster(&["support-bundle", path]).refused(2, &["--yes writes without asking"]);
    for (answer, status) in [("n\n", 1), ("\n", 1), ("y\n", 0)] {
        let mut terminal = Terminal::start(&site, &format!("support-bundle {path}"));
        terminal.until_shown("[y/N]");
        assert!(terminal.shown().contains("status.json"));
        assert!(!bundle.exists());
        terminal.press(answer);
        let (ended, shown) = terminal.finish();
        assert_eq!((ended, bundle.exists()), (status, status == 0), "{shown}");
    }
    let missing = site.path().join("nowhere/b.tar.gz");
    site.muster(&["support-bundle", missing.to_str().unwrap(), "--yes"])
        .refused(1, &["cannot write", "No such file"]);
}
