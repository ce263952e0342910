//! An agent that has lost what it knew: what it made is made again.

use std::fs;
use std::path::PathBuf;

use muster_testbed::eventually;
use muster_tests::site::Site;

#[test]
fn what_a_lost_ledger_knew_is_made_again() {
    let site = Site::start();
    let mut web1 = site.join("web-1");
    let template = site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  \
         file: {{type: Muster::File, properties: {{node: web-1, path: {}, content: x}}}}\n  \
         dummy: {{type: Muster::Dummy, properties: {{node: web-1, values: {{a: \"1\"}}}}}}\n",
        web1.file("x").display()
    ));
    site.ok(&["stack", "create", "s", "-t", &template, "--wait"]);
    let ids = |site: &Site| ["file", "dummy"].map(|name| site.physical_ids("s", name));
    let before = ids(&site);
    web1.daemon.kill();
    fs::remove_dir_all(web1.state.join("ledger")).unwrap();
    fs::remove_file(web1.file("x")).unwrap();
    web1.daemon.restart();
    eventually("the file is back", || web1.content("x"));
    eventually("all is COMPLETE", || {
        let rows = site.json(&["resource", "list", "s"]);
        rows.as_array().unwrap().iter().all(|row| row["observed"] == "in_sync").then_some(())
    });
    assert_eq!(ids(&site), before);
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(web1.listing(), [""; 0]);
}

#[test]
fn an_own_file_of_a_lost_ledger_goes_with_its_stack() {
    let site = Site::start();
    let mut web1 = site.join("web-1");
    fs::write(web1.file("foreign"), "theirs").unwrap();
    let file = |name: &str| {
        format!(
            "{name}: {{type: Muster::File, properties: {{node: web-1, path: {}, content: x}}}}",
            web1.file(name).display()
        )
    };
    let template = site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  {}\n  {}\n",
        file("mine"),
        file("foreign")
    ));
    site.ok(&["stack", "create", "s", "-t", &template, "--wait"]);
    web1.daemon.kill();
    fs::remove_dir_all(web1.state.join("ledger")).unwrap();
    // Someone has changed it since.
    fs::write(web1.file("foreign"), "theirs").unwrap();
    web1.daemon.restart();
    eventually("it is ours again", || (web1.content("foreign").as_deref() == Some("x")).then_some(()));
    eventually("all is COMPLETE", || {
        let rows = site.json(&["resource", "list", "s"]);
        rows.as_array().unwrap().iter().all(|row| row["observed"] == "in_sync").then_some(())
    });
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!((web1.content("mine"), web1.content("foreign").as_deref()), (None, Some("theirs")));
}

#[test]
fn a_record_that_cannot_be_read_is_put_aside_and_comes_again() {
    let site = Site::start();
    let mut web1 = site.join("web-1");
    let template = site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  \
         file: {{type: Muster::File, properties: {{node: web-1, path: {}, content: x}}}}\n",
        web1.file("x").display()
    ));
    site.ok(&["stack", "create", "s", "-t", &template, "--wait"]);
    web1.daemon.kill();
    // Not what it was writing when it was killed.
    let is_whole = |path: &PathBuf| path.extension().is_none();
    let files = || fs::read_dir(web1.state.join("ledger")).unwrap().map(|entry| entry.unwrap().path());
    let records = || files().filter(is_whole);
    for record in records() {
        let mut bytes = fs::read(&record).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x55;
        fs::write(record, bytes).unwrap();
    }
    web1.daemon.restart();
    // Until the agent has started, the row and the record are as they were.
    let put_aside = || fs::read_dir(web1.state.join("corrupt")).map_or(0, Iterator::count);
    eventually("the record is put aside", || (put_aside() == 1).then_some(()));
    eventually("it is known again", || {
        let row = site.resource("s", "file");
        (records().count() == 1 && row["observed"] == "in_sync").then_some(())
    });
    assert_eq!(put_aside(), 1);
    assert_eq!(web1.content("x").as_deref(), Some("x"));
    assert_eq!(site.physical_ids("s", "file").len(), 1);
    site.ok(&["stack", "delete", "s", "--wait"]);
}
