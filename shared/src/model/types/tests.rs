use serde_json::json;

use super::*;
use crate::model::{Action, Content, OnDelete};

#[test]
fn as_a_template_gives_them() {
    let dummy = Dummy {
        values: [("a".to_owned(), "1".to_owned())].into(),
        milliseconds: 250,
        fail: Some(FailOn::Action(Action::Update)),
    };
    let shown = Value::Object(Spec::Dummy(dummy).properties());
    assert_eq!(shown, json!({"values": {"a": "1"}, "seconds": 0.25, "fail": "update"}));
    let file = |content: &str| {
        Spec::File(File {
            path: "/etc/motd".into(),
            content: Content::Inline(content.into()),
            mode: 0o644,
            owner: None,
            group: Some("adm".into()),
            on_delete: OnDelete::Restore,
        })
        .properties()
    };
    assert_eq!(
        Value::Object(file("hi")),
        json!({"path": "/etc/motd", "content": "hi", "mode": "0644", "group": "adm", "on_delete": "restore"})
    );
    let long = "x".repeat(4097);
    let digest = ContentDigest::of(long.as_bytes()).to_string();
    assert_eq!(file(&long)["content"], json!({"digest": digest, "size": 4097}));
    let network = NetworkConfig {
        document: "[{\"type\": \"interface\"}]".into(),
        mapping: [("nic1".to_owned(), "eth0".to_owned())].into(),
        confirm_timeout: 30,
        on_delete: OnDelete::Keep,
    };
    let hostname = Hostname { hostname: "web-1".into(), confirm_timeout: 120, on_delete: OnDelete::Keep };
    let shown = Value::Object(Spec::Hostname(hostname).properties());
    assert_eq!(shown, json!({"hostname": "web-1", "confirm_timeout": 120, "on_delete": "keep"}));
    let shown = Value::Object(Spec::Network(network).properties());
    assert_eq!(
        shown,
        json!({"network_config": [{"type": "interface"}], "mapping": {"nic1": "eth0"}, "confirm_timeout": 30,
            "on_delete": "keep"})
    );
}
