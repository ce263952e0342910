//! A desired state as the properties that a template gives it by: for people, who compare two of them.

use serde_json::{Map, Value, json};

use super::account::{Group, User};
use super::deployment::{Deployment, OnInterrupt};
use super::package::{Package, Presence};
use super::spec::{
    Action, Content, ContentDigest, Dummy, FailOn, File, Hostname, NetworkConfig, OnDelete, Spec,
};
use super::unit::{Unit, UnitActive};

/// Longer contents are shown by digest and size.
const CONTENT_SHOWN: usize = 4096;

impl Spec {
    /// Property → value. What was not given and has no default is left out.
    pub fn properties(&self) -> Map<String, Value> {
        let value = match self {
            Spec::Dummy(dummy) => of_dummy(dummy),
            Spec::File(file) => of_file(file),
            Spec::Network(network) => of_network(network),
            Spec::Hostname(hostname) => of_hostname(hostname),
            Spec::Deployment(deployment) => of_deployment(deployment),
            Spec::Unit(unit) => of_unit(unit),
            Spec::Package(package) => of_package(package),
            Spec::User(user) => of_user(user),
            Spec::Group(group) => of_group(group),
            Spec::Sysctl(sysctl) => json!({
                "key": sysctl.key,
                "value": sysctl.value,
                "on_delete": of_on_delete(sysctl.on_delete),
            }),
        };
        match value {
            Value::Object(map) => map.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        }
    }
}

fn of_dummy(dummy: &Dummy) -> Value {
    let fail = dummy.fail.map(|fail| match fail {
        FailOn::Any => json!(true),
        FailOn::Action(Action::Create) => json!("create"),
        FailOn::Action(Action::Update) => json!("update"),
        FailOn::Action(Action::Delete) => json!("delete"),
        FailOn::Action(Action::Check) => json!("check"),
        FailOn::Action(Action::Retain) => json!("retain"),
    });
    let seconds = std::time::Duration::from_millis(dummy.milliseconds).as_secs_f64();
    json!({"values": dummy.values, "seconds": seconds, "fail": fail})
}

fn of_file(file: &File) -> Value {
    json!({
        "path": file.path,
        "content": of_content(&file.content),
        "mode": format!("{:04o}", file.mode),
        "owner": file.owner,
        "group": file.group,
        "on_delete": of_on_delete(file.on_delete),
    })
}

fn of_content(content: &Content) -> Value {
    let stored = |digest: ContentDigest, size: u64| json!({"digest": digest.to_string(), "size": size});
    match content {
        Content::Inline(bytes) if bytes.len() <= CONTENT_SHOWN => match std::str::from_utf8(bytes) {
            Ok(text) => json!(text),
            Err(_) => stored(ContentDigest::of(bytes), bytes.len() as u64),
        },
        Content::Inline(bytes) => stored(ContentDigest::of(bytes), bytes.len() as u64),
        Content::Stored { digest, size } => stored(*digest, *size),
    }
}

fn of_network(network: &NetworkConfig) -> Value {
    let document = serde_json::from_str(&network.document);
    json!({
        "network_config": document.unwrap_or_else(|_| json!(network.document)),
        "mapping": network.mapping,
        "confirm_timeout": network.confirm_timeout,
        "on_delete": of_on_delete(network.on_delete),
    })
}

fn of_hostname(hostname: &Hostname) -> Value {
    json!({
        "hostname": hostname.hostname,
        "confirm_timeout": hostname.confirm_timeout,
        "on_delete": of_on_delete(hostname.on_delete),
    })
}

fn of_deployment(deployment: &Deployment) -> Value {
    let steps = deployment.steps.iter().map(|step| {
        json!({
            "actions": step.actions.iter().map(|action| action.name()).collect::<Vec<_>>(),
            "group": step.group.name(),
            "config": of_content(&step.config),
        })
    });
    let outputs = deployment.outputs.iter().map(|output| {
        let name = json!({"name": output.name});
        if output.error_output { json!({"name": output.name, "error_output": true}) } else { name }
    });
    json!({
        "name": deployment.name,
        "configs": steps.collect::<Vec<_>>(),
        "input_values": deployment.inputs,
        "outputs": outputs.collect::<Vec<_>>(),
        "timeout": deployment.timeout,
        "on_interrupt": match deployment.on_interrupt {
            OnInterrupt::Rerun => "rerun",
            OnInterrupt::Fail => "fail",
        },
    })
}

/// Without what it is restarted for: that is digests of what may be secret.
fn of_unit(unit: &Unit) -> Value {
    let text = |text: &String| of_content(&Content::Inline(text.clone().into_bytes()));
    let drop_ins: Map<String, Value> =
        unit.drop_ins.iter().map(|(name, content)| (name.clone(), text(content))).collect();
    json!({
        "name": unit.name,
        "content": unit.content.as_ref().map(text),
        "drop_ins": if drop_ins.is_empty() { Value::Null } else { Value::Object(drop_ins) },
        "enabled": unit.enabled,
        "active": unit.active.map(|active| match active {
            UnitActive::Started => "started",
            UnitActive::Stopped => "stopped",
        }),
        "masked": unit.masked,
        "settle": unit.settle,
        "on_delete": of_on_delete(unit.on_delete),
    })
}

/// Without what its password is.
fn of_user(user: &User) -> Value {
    json!({
        "name": user.name,
        "uid": user.uid,
        "group": user.group,
        "groups": user.groups,
        "home": user.home,
        "shell": user.shell,
        "comment": user.comment,
        "system": user.system,
        "password_hash": user.password_hash.as_ref().map(|_| "<hidden>"),
        "authorized_keys": user.authorized_keys,
        "locked": user.locked,
        "on_delete": of_on_delete(user.on_delete),
    })
}

fn of_group(group: &Group) -> Value {
    json!({
        "name": group.name,
        "gid": group.gid,
        "system": group.system,
        "members": group.members,
        "on_delete": of_on_delete(group.on_delete),
    })
}

fn of_package(package: &Package) -> Value {
    json!({
        "name": package.name,
        "version": package.version,
        "state": match package.state {
            Presence::Present => "present",
            Presence::Absent => "absent",
        },
        "held": package.held,
        "timeout": package.timeout,
        "on_delete": of_on_delete(package.on_delete),
    })
}

fn of_on_delete(on_delete: OnDelete) -> &'static str {
    match on_delete {
        OnDelete::Restore => "restore",
        OnDelete::Keep => "keep",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let long = "x".repeat(CONTENT_SHOWN + 1);
        let digest = ContentDigest::of(long.as_bytes()).to_string();
        assert_eq!(file(&long)["content"], json!({"digest": digest, "size": CONTENT_SHOWN + 1}));
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
}
