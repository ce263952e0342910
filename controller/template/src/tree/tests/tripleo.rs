//! TripleO's templates of a cloud, on servers that are there.

use super::*;

#[test]
fn a_function_of_parameters_decides_what_stays() {
    let inner = "parameters: {policy: {type: string, default: ''}}\n\
                 conditions: {keeps: {equals: [{get_param: policy}, retain]}}\n\
                 resources:\n  \
                 a: {type: Muster::Dummy, deletion_policy: {get_param: policy}}\n  \
                 b: {type: Muster::Dummy, deletion_policy: {if: [keeps, Retain, Delete]}}\n  \
                 c: {type: Muster::Dummy}\n";
    let root = "parameters: {policy: {type: string, default: delete}}\n\
                resources:\n  \
                n: {type: n.yaml, properties: {policy: {get_param: policy}}}\n  \
                own: {type: Muster::Dummy, deletion_policy: {get_param: policy}}\n  \
                all: {type: n.yaml, properties: {policy: delete}, deletion_policy: {get_param: policy}}\n";
    for (policy, stay) in
        [("delete", vec![]), ("retain", vec!["all", "all/a", "all/b", "all/c", "n/a", "n/b", "own"])]
    {
        let tree = given(root, &[("n.yaml", inner)], "", json!({"policy": policy})).unwrap();
        let stays: Vec<&str> =
            (0..tree.len()).filter(|index| tree.retains(*index)).map(|index| tree.name(index)).collect();
        assert_eq!(stays, stay, "{policy}");
    }
    // The policy is part of a resource: an update that changes it visits the resource.
    let of = |policy: &str| {
        let tree = given(root, &[("n.yaml", inner)], "", json!({"policy": policy})).unwrap();
        tree.definition(tree.index_of("own").unwrap())
    };
    assert_ne!(of("delete"), of("retain"));
}

#[test]
fn a_policy_that_no_parameter_gives_is_refused() {
    let text = "parameters: {p: {type: string}}\n\
                resources: {own: {type: Muster::Dummy, deletion_policy: {get_param: p}}}\n";
    let nested = "resources: {n: {type: n.yaml, properties: {p: %}}}\n";
    for (policy, message) in
        [("snapshot", "the policy 'snapshot' is not supported"), ("kept", "unknown policy 'kept'")]
    {
        let place = "resources.own.deletion_policy: ";
        let plain = given(text, &[], "", json!({"p": policy})).err().unwrap();
        assert!(plain.starts_with(&format!("root:3:57: {place}{message}")), "{plain}");
        let below = grown(&nested.replace('%', policy), &[("n.yaml", text)], "").err().unwrap();
        assert!(below.starts_with(&format!("n.yaml:3:57: {place}{message}")), "{below}");
    }
    let late = "resources:\n  a: {type: Muster::Dummy}\n  \
                own: {type: Muster::Dummy, deletion_policy: {get_attr: [a, x]}}\n";
    assert!(grown(late, &[], "").is_err());
}

#[test]
fn constraints_of_services_are_one_warning() {
    let inner = "parameters:\n  \
                 image: {type: string, default: x, constraints: [{custom_constraint: glance.image}]}\n";
    let root = "parameters:\n  \
                flavor: {type: string, default: '', constraints: [{custom_constraint: nova.flavor}]}\n  \
                key: {type: string, default: k, constraints: [{custom_constraint: nova.keypair, description: d}]}\n\
                resources: {n: {type: n.yaml}, m: {type: n.yaml}}\n";
    let tree = grown(root, &[("n.yaml", inner)], "").unwrap();
    let wanted = "constraints that ask a service of OpenStack are not checked: glance.image, nova.flavor, nova.keypair";
    assert_eq!(tree.warnings(), [wanted]);
    let wrong = grown(&root.replace("nova.flavor", "novva.flavor"), &[("n.yaml", inner)], "").err().unwrap();
    assert!(wrong.contains("unknown constraint 'novva.flavor'"), "{wrong}");
}

#[test]
fn firstboot_configs_are_inert() {
    let root = "resources:\n  \
                none: {type: OS::Heat::MultipartMime}\n  \
                script: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: 'true'}}\n  \
                cloud: {type: OS::Heat::CloudConfig, properties: {cloud_config: {users: [default]}}}\n  \
                mime:\n    type: OS::Heat::MultipartMime\n    properties:\n      parts:\n      \
                - {config: {get_resource: script}, subtype: x-shellscript}\n      \
                - {config: {get_resource: cloud}, type: text, filename: users}\n\
                outputs:\n  \
                id: {value: {get_resource: mime}}\n  \
                config: {value: {get_attr: [cloud, config]}}\n";
    let tree = grown(root, &[], "").unwrap();
    assert_eq!(outputs(&tree)["id"], json!("id-of-mime"));
    assert_eq!(outputs(&tree)["config"], json!("#cloud-config\n{\"users\":[\"default\"]}\n"));
    for (old, new, wanted) in [
        ("type: text", "type: texts", "parts[1].type: unknown type 'texts'"),
        ("subtype", "subtypes", "parts[0]: unknown key 'subtypes'; did you mean 'subtype'?"),
    ] {
        let error = grown(&root.replace(old, new), &[], "").err().unwrap();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn a_deployed_server_has_any_name_until_something_is_deployed() {
    let of = |name: &str| {
        grown(
            &format!(
                "resources:\n  s:\n    type: OS::Heat::DeployedServer\n    properties:\n      name: {name}\n      \
                 metadata: {{a: 1}}\n      \
                 deployment_swift_data: {{container: c, object: o}}\n      \
                 software_config_transport: POLL_TEMP_URL\n\
                 outputs:\n  name: {{value: {{get_attr: [s, name]}}}}\n  \
                 collect: {{value: {{get_attr: [s, os_collect_config]}}}}\n"
            ),
            &[],
            "",
        )
    };
    for name in ["web-1", "Web_1", "web 1.example"] {
        let tree = of(name).unwrap();
        assert_eq!(outputs(&tree)["name"], json!(name));
        assert_eq!(outputs(&tree)["collect"], json!({}));
    }
    assert!(of("''").err().unwrap().contains("properties.name: a server's name has 1 to 255 characters"));
    let deployed = "resources: {d: {type: OS::Heat::SoftwareDeployment, properties: {server: Web_1 }}}\n";
    assert!(grown(deployed, &[], "").err().unwrap().contains("resources.d.properties.server: "));
}

#[test]
fn ports_and_subnets_know_their_networks_former_name() {
    let root = |name: &str| {
        format!(
            "resources:\n  \
             net: {{type: OS::Neutron::Net, properties: {{name: ctlplane}}}}\n  \
             sub: {{type: OS::Neutron::Subnet, properties: {{{name}: {{get_resource: net}}, cidr: 10.0.0.0/24}}}}\n  \
             port: {{type: OS::Neutron::Port, properties: {{{name}: ctlplane}}}}\n  \
             ports:\n    type: OS::Heat::ResourceGroup\n    properties:\n      \
             count: 1\n      resource_def: {{type: OS::Neutron::Port, properties: {{{name}: ctlplane}}}}\n"
        )
    };
    let (today, former) = (root("network"), root("network_id"));
    let [today, former] = [today, former].map(|text| grown(&text, &[], "").unwrap());
    assert_eq!(shown(&today), shown(&former));
    assert!(shown(&former).contains(&"port OS::Neutron::Port < net sub".to_owned()), "{:?}", shown(&former));
    let made = crate::spec(Kind::Port, &json!({"network_id": "ctlplane"})).unwrap();
    assert_eq!(made, crate::spec(Kind::Port, &json!({"network": "ctlplane"})).unwrap());
    let neither = grown("resources: {p: {type: OS::Neutron::Port}}\n", &[], "").err().unwrap();
    assert!(neither.contains("OS::Neutron::Port needs the property 'network'"), "{neither}");
}

#[test]
fn a_star_inside_a_type_is_part_of_its_name() {
    let environment = "resource_registry:\n  A::Tasks::*PreConfig: OS::Heat::None\n  A::B: OS::Heat::None\n";
    let tree = grown("resources: {a: {type: A::B}}\n", &[], environment).unwrap();
    assert_eq!(tree.kind(0), Kind::None);
    let wild =
        grown("resources: {a: {type: A::Tasks::ControllerPreConfig}}\n", &[], environment).err().unwrap();
    assert!(wild.contains("unknown resource type 'A::Tasks::ControllerPreConfig'"), "{wild}");
    let named = grown("resources: {a: {type: 'A::Tasks::*PreConfig'}}\n", &[], environment).unwrap();
    assert_eq!(named.kind(0), Kind::None);
    let environment = Environment::parse([("e", environment)]).unwrap();
    let warnings: Vec<String> = environment.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("e:2:3: resource_registry.A::Tasks::*PreConfig: only a '*' at the end"));
}
