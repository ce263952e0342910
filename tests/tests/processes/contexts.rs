//! One account with two controllers: commands are for the one in use, or for the one that is named.

use std::fs;

use muster_testbed::{Ran, Running, command, port};
use muster_tests::site::{Site, binary};
use serde_json::{Value, json};

/// A site with a stack of this name, and its address.
fn site(stack: &str) -> (Site, String) {
    let (mut site, address) = (Site::start(), format!("127.0.0.1:{}", port()));
    site.configure(&format!("[controller]\napi = '{address}'\n"));
    site.kill();
    site.restart();
    let template = site.file("heat_template_version: 2018-08-31\n");
    site.ok(&["stack", "create", stack, "-t", &template, "--wait"]);
    (site, address)
}

#[test]
fn commands_are_for_the_context_in_use() {
    let ((north, at_north), (south, at_south)) = (site("north"), site("south"));
    let home = north.path().join("home");
    fs::create_dir(&home).unwrap();
    let muster = |variables: &[(&str, &str)], arguments: &[&str]| -> Ran {
        let mut muster = command(None, binary("muster"));
        for unset in
            ["MUSTER_URL", "MUSTER_TOKEN", "MUSTER_CA", "MUSTER_CERT", "MUSTER_KEY", "XDG_CONFIG_HOME"]
        {
            muster.env_remove(unset);
        }
        muster.env("HOME", &home).envs(variables.iter().copied()).args(arguments);
        Running::start(muster).finish()
    };
    let stacks = |rest: &[&str]| -> String {
        let ran = muster(&[], &[rest, &["stack", "list", "-o", "json"]].concat()).expect(0);
        let list: Value = serde_json::from_str(&ran.stdout).unwrap();
        list[0]["name"].as_str().unwrap().to_owned()
    };
    for (site, address, user) in [(&north, &at_north, "anna"), (&south, &at_south, "ben")] {
        let token = site.ok(&["user", "create", user, "--role", "operator"]);
        muster(&[("MUSTER_TOKEN", token.trim())], &["login", &format!("https://{address}")]).expect(0);
    }
    let listed = || -> Value {
        let ran = muster(&[], &["context", "list", "-o", "json"]).expect(0);
        let mut rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
        rows.sort_by_key(|row| row["user"].as_str().unwrap().to_owned());
        rows.iter().map(|row| json!([row["name"], row["user"], row["in_use"]])).collect()
    };
    assert_eq!(
        listed(),
        json!([[at_north, "anna", false], [at_south, "ben", true]]),
        "the last login is in use"
    );
    assert_eq!(stacks(&[]), "south");

    muster(&[], &["context", "use", &at_north]).expect(0);
    assert_eq!(listed(), json!([[at_north, "anna", true], [at_south, "ben", false]]));
    assert_eq!(stacks(&[]), "north");
    assert_eq!(
        stacks(&["--url", &format!("https://{at_south}")]),
        "south",
        "the other one, where it is named"
    );
    muster(&[], &["context", "use", "nowhere:1"])
        .refused(2, &["no context 'nowhere:1'", &at_north, &at_south]);
    assert_eq!(stacks(&[]), "north", "nothing was changed");

    muster(&[], &["context", "remove", &at_north]).expect(0);
    assert_eq!(listed(), json!([[at_south, "ben", false]]));
    muster(&[], &["context", "use", &at_north]).refused(2, &[&at_north]);
    muster(&[], &["context", "use", &at_south]).expect(0);
    assert_eq!(stacks(&[]), "south");
}

#[test]
fn schemas_are_printed_without_a_controller() {
    let muster = |arguments: &[&str]| {
        let mut muster = command(None, binary("muster"));
        muster.args(["--url", "unix:///nowhere"]).args(arguments);
        Running::start(muster).finish()
    };
    let schema =
        |name: &str| -> Value { serde_json::from_str(&muster(&["schema", name]).expect(0).stdout).unwrap() };
    let (template, network) = (schema("template"), schema("network"));
    for schema in [&template, &network] {
        assert!(schema["$schema"].as_str().unwrap().starts_with("https://json-schema.org/"), "{schema}");
    }
    let (template, network) = (template.to_string(), network.to_string());
    for word in ["heat_template_version", "Muster::File", "OS::Heat::Value", "depends_on", "for_each"] {
        assert!(template.contains(&format!("\"{word}\"")), "{word}");
    }
    for word in ["ovs_bridge", "linux_bond", "vlan", "use_dhcp", "addresses"] {
        assert!(network.contains(&format!("\"{word}\"")), "{word}");
    }
    assert_eq!(schema("template").to_string(), template, "the same each time");
    muster(&["schema", "stack"]).refused(2, &["unrecognized subcommand 'stack'"]);
}
