use super::environment;
use crate::{Environment, EnvironmentFile, Mapping};

/// The mapping of a type in a resource: a type, `file KEY`, the error, or `-` for itself.
fn mapped(all: &Environment, kind: &str, resource: &str) -> String {
    match all.mapping(kind, resource, &[]) {
        Ok(None) => "-".to_owned(),
        Ok(Some(Mapping::Type(kind))) => kind,
        Ok(Some(Mapping::File { key, .. })) => format!("file {key}"),
        Err(error) => error.to_string(),
    }
}

/// The examples of Heat's guide and of its own tests, then what they leave open.
#[test]
fn types_stand_for_types_and_files() {
    for (texts, kind, resource, wanted) in [
        (
            &["{OS::Networking::FloatingIP: OS::Nova::FloatingIP}"][..],
            "OS::Networking::FloatingIP",
            "ip",
            "OS::Nova::FloatingIP",
        ),
        (&["{'OS::Network*': 'OS::Neutron*'}"], "OS::Network::Port", "p", "OS::Neutron::Port"),
        (
            &["{'OS::Networking::*': 'OS::Neutron::*'}"],
            "OS::Networking::FloatingIp",
            "p",
            "OS::Neutron::FloatingIp",
        ),
        (&["{'OS::*': 'OS::Heat::None'}"], "OS::Nova::Server", "p", "OS::Heat::None"),
        // The target of a wildcard is not mapped by that wildcard again.
        (&["{'OS::*': 'OS::Heat::None'}"], "OS::Heat::None", "p", "-"),
        (
            &["{AWS::EC2::Instance: 'file:///path/to/my_instance.yaml'}"],
            "AWS::EC2::Instance",
            "i",
            "file file:///path/to/my_instance.yaml",
        ),
        (
            &[
                "{resources: {my_db_server: {OS::DBInstance: 'file:///home/mine/all_my_cool_templates/db.yaml'}}}",
            ],
            "OS::DBInstance",
            "my_db_server",
            "file file:///home/mine/all_my_cool_templates/db.yaml",
        ),
        (&["{resources: {my_db_server: {OS::DBInstance: db.yaml}}}"], "OS::DBInstance", "other", "-"),
        (
            &[
                "{resources: {my_fip: {OS::Networking::FloatingIP: ip.yaml}}, OS::Networking::FloatingIP: OS::Nova::FloatingIP}",
            ],
            "OS::Networking::FloatingIP",
            "my_fip",
            "file ip.yaml",
        ),
        // Chains, across the levels.
        (&["{A::B: B::C, B::C: C::D, C::D: d.template}"], "A::B", "r", "file d.template"),
        (&["{A::B: B::C, resources: {r: {B::C: D::E}}}"], "A::B", "r", "D::E"),
        (&["{A::B: B::C, resources: {r: {B::C: D::E}}}"], "A::B", "s", "B::C"),
        (&["{'A::*': 'B::*', B::X: x.yaml}"], "A::X", "r", "file x.yaml"),
        (&["{'A::*': a.yaml}"], "A::X", "r", "file a.yaml"),
        // The nearer line counts.
        (&["{'A::*': A1::X, 'A::B::*': A2::X, A::B::C: A3::X}"], "A::B::C", "r", "A3::X"),
        (&["{'A::*': A1::X, 'A::B::*': A2::X, A::B::C: A3::X}"], "A::B::D", "r", "A2::X"),
        (&["{'A::*': A1::X, 'A::B::*': A2::X, A::B::C: A3::X}"], "A::C", "r", "A1::X"),
        (&["{'A::*': A1::X, A::B: A::B}"], "A::B", "r", "-"),
        (
            &["{A::B: C::D, resources: {'r*': {A::B: E::F}, 'r1*': {A::B: G::H}, r12: {A::B: I::J}}}"],
            "A::B",
            "r2",
            "E::F",
        ),
        (
            &["{A::B: C::D, resources: {'r*': {A::B: E::F}, 'r1*': {A::B: G::H}, r12: {A::B: I::J}}}"],
            "A::B",
            "r11",
            "G::H",
        ),
        (
            &["{A::B: C::D, resources: {'r*': {A::B: E::F}, 'r1*': {A::B: G::H}, r12: {A::B: I::J}}}"],
            "A::B",
            "r12",
            "I::J",
        ),
        (&["{resources: {s: {'*': {c: {A::B: E::F}}}}}"], "A::B", "s/3/c", "E::F"),
        (&["{resources: {s: {'*': {c: {A::B: E::F}}}}}"], "A::B", "s/3", "-"),
        // Later over earlier; null withdraws.
        (&["{A::B: C::D}", "{A::B: E::F}"], "A::B", "r", "E::F"),
        (&["{A::B: C::D}", "{A::B: ~}"], "A::B", "r", "-"),
        (&["{A::B: C::D, 'A::*': E::F}", "{'A::*': ~}"], "A::B", "r", "-"),
        (&["{A::B: C::D, B::B: E::F}", "{'A::*': ~}"], "B::B", "r", "E::F"),
        (&["{resources: {r: {A::B: C::D}}}", "{resources: {r: {A::B: ~}}}"], "A::B", "r", "-"),
        (&["{resources: {r: {A::B: C::D}}}", "{resources: {s: {A::B: E::F}}}"], "A::B", "r", "C::D"),
        // A file stands for itself.
        (&["{'*': OS::Heat::None}"], "web.yaml", "r", "-"),
        (&["{'*': OS::Heat::None}"], "My::Web", "r", "OS::Heat::None"),
        // Types that stand for each other.
        (
            &["{A::B: B::C,\n B::C: C::D, C::D: B::C}"],
            "A::B",
            "r",
            "e1:1:27: resource_registry.A::B: a cycle of types: A::B -> B::C -> C::D -> B::C",
        ),
        (
            &["{resources: {r: {A::B: B::C}}, B::C: A::B}"],
            "A::B",
            "r",
            "e1:1:43: resource_registry.resources.r.A::B: a cycle of types: A::B -> B::C -> A::B",
        ),
    ] {
        let texts: Vec<String> = texts.iter().map(|text| format!("resource_registry: {text}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(
            mapped(&environment(&texts).unwrap(), kind, resource),
            wanted,
            "{texts:?} {kind} {resource}"
        );
    }
}

#[test]
fn a_chain_of_types_is_bounded() {
    let all = environment(&["resource_registry: {'A*': 'AA*'}"]).unwrap();
    let why = mapped(&all, "A::B", "r");
    assert!(
        why.starts_with("e1:1:27: resource_registry.A*: too long a chain of types: A::B -> AA::B -> AAA::B"),
        "{why}"
    );
}

/// As in Heat: a template that stands for a type may use the type.
#[test]
fn within_a_template_its_type_is_itself() {
    let all = environment(&["resource_registry: {OS::Nova::Server: server.yaml, 'OS::Nova::*': any.yaml}"])
        .unwrap();
    let of = |within: &[_]| all.mapping("OS::Nova::Server", "r", within).unwrap();
    let Some(Mapping::File { key, entry: own }) = of(&[]) else { panic!("{:?}", of(&[])) };
    assert_eq!(key, "server.yaml");
    let Some(Mapping::File { key, entry: any }) = of(&[own]) else { panic!("{:?}", of(&[own])) };
    assert_eq!(key, "any.yaml");
    assert_eq!(of(&[own, any]), None);
}

/// Relative to the environment's own folder, or to the one that is named.
#[test]
fn files_are_beside_the_environment() {
    for (key, text, wanted) in [
        ("env.yaml", "{A::B: a.yaml}", "a.yaml"),
        ("envs/env.yaml", "{A::B: a.yaml}", "envs/a.yaml"),
        ("../envs/env.yaml", "{A::B: ../a.yaml}", "../a.yaml"),
        ("/etc/envs/env.yaml", "{A::B: ./b//a.yaml}", "/etc/envs/b/a.yaml"),
        ("envs/env.yaml", "{A::B: /srv/a.yaml}", "/srv/a.yaml"),
        ("envs/env.yaml", "{A::B: 'file:///srv/a.yaml'}", "file:///srv/a.yaml"),
        ("envs/env.yaml", "{A::B: a.yaml, base_url: ../lib}", "lib/a.yaml"),
        ("envs/env.yaml", "{A::B: a.yaml, base_url: 'file:///srv/lib/'}", "file:///srv/lib/a.yaml"),
        ("envs/env.yaml", "{A::B: a.yaml, base_url: 'https://x.example/t'}", "https://x.example/t/a.yaml"),
        ("envs/env.yaml", "{base_url: x, resources: {r: {A::B: a.yaml, base_url: y}}}", "envs/x/y/a.yaml"),
        ("envs/env.yaml", "{base_url: x, resources: {r: {A::B: a.yaml}}}", "envs/x/a.yaml"),
    ] {
        let text = format!("resource_registry: {text}");
        let all = Environment::parse([EnvironmentFile { name: "e", key, text: &text }]).unwrap();
        assert_eq!(mapped(&all, "A::B", "r"), format!("file {wanted}"), "{key} {text}");
        let keys: Vec<String> = all.mentions().map(|mention| mention.key).collect();
        assert_eq!(keys, [wanted]);
    }
}
