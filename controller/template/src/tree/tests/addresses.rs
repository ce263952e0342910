//! Resources that come before a port which only the tree knows as one.

use super::*;

const PORT: &str = "parameters: {network: {type: string, default: ctlplane}}\n\
    resources: {p: {type: OS::Neutron::Port, properties: {network: {get_param: network}}}}\n";
const AROUND: &str = "resources: {inner: {type: port.yaml}}\n";
const OWN: &str = "resources:\n  n: {type: OS::Neutron::Net, properties: {name: own}}\n  \
    s: {type: OS::Neutron::Subnet, properties: {network: own, cidr: 10.0.1.0/24}}\n  \
    p: {type: My::Port, properties: {network: {get_resource: n}}}\n";

/// `resource` beside a network of two subnets, and another one; what it needs.
fn needs(resource: &str, environment: &str) -> Vec<String> {
    let root = format!(
        "parameters: {{which: {{type: string, default: ctlplane}}}}\n\
         resources:\n  \
           net: {{type: OS::Neutron::Net, properties: {{name: ctlplane}}}}\n  \
           s4: {{type: OS::Neutron::Subnet, properties: {{network: {{get_resource: net}}, cidr: 10.0.0.0/24}}}}\n  \
           s6: {{type: OS::Neutron::Subnet, properties: {{network: ctlplane, cidr: 'fd00::/64'}}}}\n  \
           other: {{type: OS::Neutron::Subnet, properties: {{network: {{get_param: which}}, cidr: 10.9.0.0/24}}}}\n  \
           a: {resource}\n"
    );
    let files = [("port.yaml", PORT), ("around.yaml", AROUND), ("own.yaml", OWN)];
    shown(&grown(&root, &files, environment).unwrap())
}

#[test]
fn a_port_from_an_environment_or_template_follows_its_subnets() {
    const MAPPED: &str = "resource_registry: {My::Port: OS::Neutron::Port, My::Server: around.yaml}";
    for (resource, wanted) in [
        ("{type: My::Port, properties: {network: ctlplane}}", "a My::Port < net s4 s6"),
        ("{type: My::Port, properties: {network: {get_resource: net}}}", "a My::Port < net s4 s6"),
        ("{type: My::Port, properties: {network: {get_param: which}}}", "a My::Port < other"),
        ("{type: My::Port, properties: {network: elsewhere}}", "a My::Port < "),
        ("{type: port.yaml}", "a/p OS::Neutron::Port < net s4 s6"),
        (
            "{type: port.yaml, properties: {network: {get_resource: net}}}",
            "a/p OS::Neutron::Port < net s4 s6",
        ),
        ("{type: port.yaml, properties: {network: {get_param: which}}}", "a/p OS::Neutron::Port < other"),
        ("{type: My::Server}", "a/inner/p OS::Neutron::Port < net s4 s6"),
        (
            "{type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {type: My::Port, properties: {network: ctlplane}}}}",
            "a/1 My::Port < net s4 s6",
        ),
        (
            "{type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {type: OS::Neutron::Port, properties: {network: ctlplane}}}}",
            "a/1 OS::Neutron::Port < net s4 s6",
        ),
        ("{type: own.yaml}", "a/p My::Port < a/n a/s"),
    ] {
        let all = needs(resource, MAPPED);
        assert!(all.contains(&wanted.to_owned()), "{resource}: {all:#?}");
    }
    // In its own right the type is what the environment says.
    let all = needs("{type: My::Port}", "resource_registry: {My::Port: OS::Heat::None}");
    assert!(all.contains(&"a My::Port < ".to_owned()), "{all:#?}");
}

#[test]
fn what_subnets_wait_for_does_not_wait_for_them() {
    let root = "resources:\n  \
        a: {type: port.yaml}\n  \
        b: {type: port.yaml}\n  \
        c: {type: port.yaml}\n  \
        s: {type: OS::Neutron::Subnet, properties: {network: ctlplane, cidr: 10.0.0.0/24}, depends_on: b}\n  \
        t: {type: OS::Neutron::Subnet, properties: {network: ctlplane, cidr: 10.0.1.0/24}, depends_on: a}\n";
    let all = shown(&grown(root, &[("port.yaml", PORT)], "{}").unwrap());
    // The first of the two takes what does not lead back to it.
    for wanted in ["a/p OS::Neutron::Port < s", "b/p OS::Neutron::Port < ", "c/p OS::Neutron::Port < s t"] {
        assert!(all.contains(&wanted.to_owned()), "{all:#?}");
    }
}

/// Nine templates, each with thirty of the next: nobody would come to an end who looked at all of it.
#[test]
fn a_template_is_looked_at_once_however_often_it_is_used() {
    let names: Vec<String> = (1..10).map(|level| format!("t{level}.yaml")).collect();
    let text = |level: usize| match names.get(level) {
        None => PORT.to_owned(),
        Some(next) => {
            (0..30).fold("resources:\n".to_owned(), |text, at| format!("{text}  r{at}: {{type: {next}}}\n"))
        }
    };
    let texts: Vec<String> = (1..=names.len()).map(text).collect();
    let files: Vec<(&str, &str)> =
        names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let root = "resources:\n  \
        net: {type: OS::Neutron::Net, properties: {name: ctlplane}}\n  \
        s: {type: OS::Neutron::Subnet, properties: {network: ctlplane, cidr: 10.0.0.0/24}}\n  \
        a: {type: OS::Heat::ResourceGroup, properties: {count: 0, resource_def: {type: t1.yaml}}}\n";
    let all = shown(&grown(root, &files, "").unwrap());
    assert_eq!(all.len(), 3, "{all:#?}");
}
