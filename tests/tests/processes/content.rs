//! Contents that are too large for a message travel in chunks, are verified, and go on where they stopped.

use std::fs;
use std::path::Path;

use muster_testbed::{Namespace, eventually};
use muster_tests::site::{OneServer, Site};

use crate::layers::until_complete;

/// Differs everywhere, so that a chunk in the wrong place shows.
pub fn content(lines: usize) -> String {
    (0..lines).map(|line| format!("{line:015}\n")).collect()
}

/// A stack of one file with this text.
pub fn stack(site: &Site, path: &Path, text: &str) -> String {
    fs::write(site.path().join("large.txt"), text).unwrap();
    site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  \
         large: {{type: Muster::File, properties: {{node: web-1, path: {}, content: {{get_file: large.txt}}}}}}\n",
        path.display()
    ))
}

#[test]
fn a_mebibyte_arrives_whole_and_changes_whole() {
    let site = Site::start();
    let web1 = site.join("web-1");
    let text = content(1 << 16);
    assert_eq!(text.len(), 1 << 20);
    let template = stack(&site, &web1.file("large"), &text);
    site.ok(&["stack", "create", "s", "-t", &template, "--wait"]);
    assert!(web1.content("large").as_ref() == Some(&text), "the content differs");
    let changed = text.replace("00000000000777", "changed 777777");
    stack(&site, &web1.file("large"), &changed);
    site.ok(&["stack", "update", "s", "-t", &template, "--wait"]);
    assert!(web1.content("large").as_ref() == Some(&changed), "the content differs");
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(web1.listing(), [""; 0]);
    assert_eq!(site.query("SELECT count(*) FROM contents"), [["0"]]);
}

#[test]
fn a_fetch_goes_on_where_a_kill_stopped_it() {
    const SIZE: u64 = 8 << 20;
    let one = OneServer::new();
    let mut web1 = one.join();
    let OneServer { mut site, .. } = one;
    let hub = |site: &Site| sent(site.hub());
    // So slow that it can be met in the middle.
    let slow = "tc qdisc add dev to2 root handle 1: htb default 1";
    site.hub().run(slow);
    site.namespace
        .as_ref()
        .unwrap()
        .run("tc class add dev to2 parent 1: classid 1:1 htb rate 24mbit burst 64k");
    let text = content(usize::try_from(SIZE / 16).unwrap());
    let template = stack(&site, &web1.file("large"), &text);
    let before = hub(&site);
    site.ok(&["stack", "create", "s", "-t", &template]);
    let half = |site: &Site, part: u64| {
        eventually("a part has come", || (hub(site) - before > SIZE * part / 4).then_some(()));
    };
    half(&site, 1);
    web1.daemon.kill();
    web1.daemon.restart();
    half(&site, 2);
    site.kill();
    site.restart();
    until_complete(&site, "s");
    assert!(web1.content("large").as_ref() == Some(&text), "the content differs");
    let all = hub(&site) - before;
    // From the beginning each time it would be 1 + 1/4 + 1/4 at least and about 1.75.
    assert!(all < SIZE * 5 / 4, "{all} bytes were sent for {SIZE}");
    site.ok(&["stack", "delete", "s", "--wait"]);
}

/// Bytes that the hub has sent to server 2.
fn sent(hub: &Namespace) -> u64 {
    let text = hub.ip("-s -j link show dev to2");
    let links: serde_json::Value = serde_json::from_str(&text).unwrap();
    links[0]["stats64"]["tx"]["bytes"].as_u64().unwrap()
}
