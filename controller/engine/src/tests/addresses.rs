//! The site's address plan, as stacks use it.

use serde_json::{Value, json};

use super::bed::{Bed, node, options, parse, stack, under};
use crate::{Request, Source, SourceText};

fn source(resources: &str, outputs: &str) -> Source {
    let template =
        format!("heat_template_version: 2018-08-31\nresources: {{{resources}}}\noutputs: {{{outputs}}}\n");
    parse(SourceText { name: "t".into(), template, ..SourceText::default() })
}

/// The subnet's and the port's names sort before the network's. Their types alone say which one
/// needs which.
const NET: &str = "z: {type: OS::Neutron::Net, properties: {name: ctlplane}}, \
     m: {type: OS::Neutron::Subnet, properties: {name: sub, network: ctlplane, cidr: 10.0.0.0/24, \
         allocation_pools: [{start: 10.0.0.10, end: 10.0.0.12}], dns_nameservers: [10.0.0.2]}}";
const IP: &str = "ip: {value: {get_attr: [a, fixed_ips, 0, ip_address]}}, \
     sub: {value: {get_attr: [a, subnets, 0, cidr]}}, net: {value: {get_attr: [a, network, name]}}";

fn port(more: &str) -> String {
    format!("a: {{type: OS::Neutron::Port, properties: {{network: ctlplane{more}}}}}")
}

fn output(bed: &Bed, name: &str, key: &str) -> Value {
    let view = bed.engine.view().stack_view(&name.parse().unwrap()).unwrap();
    view.outputs
        .iter()
        .find(|output| output.key == key)
        .map(|output| output.value.clone())
        .unwrap_or_default()
}

fn create(bed: &mut Bed, name: &str, source: Source) -> String {
    bed.ask(Request::Create { name: name.parse().unwrap(), source, options: options() }).unwrap();
    bed.idle();
    status(bed, name)
}

fn status(bed: &Bed, name: &str) -> String {
    let view = bed.engine.view().stack_view(&name.parse().unwrap()).unwrap();
    format!("{}_{}: {}", view.action, view.status, view.status_reason)
}

#[test]
fn an_address_survives_updates_and_restarts_and_is_exclusive() {
    let mut bed = Bed::new(1);
    let first = stack().to_string();
    assert_eq!(create(&mut bed, &first, source(&format!("{NET}, {}", port("")), IP)), "CREATE_COMPLETE: ");
    assert_eq!(output(&bed, &first, "ip"), "10.0.0.10");
    assert_eq!([output(&bed, &first, "sub"), output(&bed, &first, "net")], ["10.0.0.0/24", "ctlplane"]);
    assert_eq!(create(&mut bed, "other", source(&port(""), IP)), "CREATE_COMPLETE: ");
    assert_eq!(output(&bed, "other", "ip"), "10.0.0.11");
    bed.restart();
    bed.update(source(
        &format!(
            "{NET}, {}, b: {{type: OS::Neutron::Port, properties: {{network: ctlplane}}}}",
            port(", name: mine")
        ),
        IP,
    ))
    .unwrap();
    bed.idle();
    assert_eq!(status(&bed, &first), "UPDATE_COMPLETE: ");
    assert_eq!(output(&bed, &first, "ip"), "10.0.0.10");
    let full = create(&mut bed, "third", source(&port(""), IP));
    assert!(full.contains("no address is free: sub (10.0.0.0/24) has 3 addresses in use"), "{full}");
    bed.delete().unwrap();
    bed.idle();
    let held = status(&bed, &first);
    assert!(
        held.starts_with("DELETE_FAILED") && held.contains("still has ports, such as 10.0.0.11"),
        "{held}"
    );
    for name in ["other", "third"] {
        bed.ask(Request::Delete { name: name.parse().unwrap() }).unwrap();
        bed.idle();
    }
    bed.delete().unwrap();
    bed.idle();
    assert!(bed.view().is_none());
}

#[test]
fn a_port_that_is_made_anew_has_the_same_address() {
    let mut bed = Bed::new(1);
    let fixed = port(", fixed_ips: [{ip_address: 10.0.0.77}]");
    let whole = || source(&format!("{NET}, {fixed}"), IP);
    bed.create(whole()).unwrap();
    bed.unhealthy("a").unwrap();
    bed.update(whole()).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_eq!(output(&bed, stack().as_str(), "ip"), "10.0.0.77");
    bed.restart();
    let taken = create(&mut bed, "other", source(&fixed, IP));
    assert!(taken.contains("10.0.0.77 of sub (10.0.0.0/24) is in use by the port"), "{taken}");
}

#[test]
fn a_network_that_could_not_go_is_still_there_for_an_update() {
    let mut bed = Bed::new(1);
    let first = stack().to_string();
    let whole = || source(&format!("{NET}, {}", port("")), IP);
    assert_eq!(create(&mut bed, &first, whole()), "CREATE_COMPLETE: ");
    assert_eq!(create(&mut bed, "other", source(&port(""), IP)), "CREATE_COMPLETE: ");
    for restarts in [false, true] {
        bed.delete().unwrap();
        bed.idle();
        assert!(status(&bed, &first).starts_with("DELETE_FAILED"), "{}", status(&bed, &first));
        if restarts {
            bed.restart();
        }
        let network = bed.resource("z").physical_id;
        bed.update(whole()).unwrap();
        bed.idle();
        assert_eq!(status(&bed, &first), "UPDATE_COMPLETE: ");
        assert_eq!(bed.resource("z").physical_id, network);
        assert_eq!(output(&bed, "other", "ip"), "10.0.0.11");
    }
}

#[test]
fn a_network_freed_later_no_longer_holds_up_its_operation() {
    let mut bed = Bed::new(2);
    let dummy =
        |name: &str, node: u32| format!("{name}: {{type: Muster::Dummy, properties: {{node: node-{node}}}}}");
    bed.create(source(&format!("{NET}, {}", dummy("d", 1)), "")).unwrap();
    bed.idle();
    assert_eq!(create(&mut bed, "other", source(&port(""), IP)), "CREATE_COMPLETE: ");
    bed.delete_first(source(&dummy("e", 0), ""), false).unwrap();
    bed.fail_next(&node(1), true);
    let first = stack().to_string();
    assert!(status(&bed, &first).contains("2 resources failed: d: refused; m: "), "{}", status(&bed, &first));
    bed.ask(Request::Delete { name: "other".parse().unwrap() }).unwrap();
    // The row that holds up the first stage is lost, so the stage is looked at again.
    bed.ask(Request::RemoveNode { node: node(1) }).unwrap();
    bed.idle();
    assert_eq!(status(&bed, &first), "UPDATE_COMPLETE: ");
}

#[test]
fn a_network_that_is_missing_is_an_error() {
    let mut bed = Bed::new(1);
    let missing = create(&mut bed, "lone", source(&port(""), IP));
    assert!(
        missing.contains("there is no network 'ctlplane': declare it as OS::Neutron::Net in this or another stack (known: none)"),
        "{missing}"
    );
}

#[test]
fn what_is_wrong_with_a_subnet_is_told_with_its_place() {
    let template = "heat_template_version: 2018-08-31
resources:
  m:
    type: OS::Neutron::Subnet
    properties:
      network: ctlplane
      cidr: 10.0.0.0/24
      allocation_pools: [{start: 10.0.0.9, end: 10.0.1.1}]
";
    let text = SourceText { name: "t.yaml".into(), template: template.into(), ..SourceText::default() };
    let mut bed = Bed::new(1);
    let refused = Source::parse(text)
        .map_err(|errors| errors.to_string())
        .and_then(|source| bed.create(source).map(drop).map_err(|refusal| refusal.to_string()));
    let why = refused.expect_err("the pool ends outside");
    assert!(
        why.contains("t.yaml:")
            && why.contains("the allocation pool 10.0.0.9-10.0.1.1 is not in 10.0.0.0/24"),
        "{why}"
    );
    assert_eq!(json!(bed.view().is_none()), json!(true));
}

/// Another stack's network has a hidden name.
#[test]
fn what_another_stack_hides_is_masked_in_what_the_plan_says() {
    let made = |name: &str| {
        let template = "heat_template_version: 2018-08-31
parameters: {secret: {type: string, hidden: true}}
resources:
  n: {type: OS::Neutron::Net, properties: {name: {get_param: secret}}}
";
        let parameters = [("secret".to_owned(), name.into())].into();
        parse(SourceText { name: "t".into(), template: template.into(), parameters, ..SourceText::default() })
    };
    let mut bed = Bed::new(1);
    assert_eq!(create(&mut bed, "nets", made("net-s3cret")), "CREATE_COMPLETE: ");
    assert!(create(&mut bed, "asks", source(&port(""), "")).starts_with("CREATE_FAILED"));
    let reason = |bed: &Bed| {
        let rows = bed.engine.view().resource_views(&"asks".parse().unwrap(), false).unwrap();
        assert!(!bed.tables.reasons.join(" ").contains("s3cret"), "{:?}", bed.tables.reasons);
        rows[0].status_reason.clone()
    };
    assert!(reason(&bed).contains("there is no network 'ctlplane'"), "{}", reason(&bed));
    assert!(reason(&bed).ends_with("(known: ******)"), "{}", reason(&bed));
    bed.restart();
    let again = Request::Update {
        name: "asks".parse().unwrap(),
        source: source(&port(", name: p"), ""),
        options: options(),
    };
    bed.ask(again).unwrap();
    bed.idle();
    assert!(reason(&bed).contains("'muster stack check nets' makes it known again"), "{}", reason(&bed));
    bed.ask(Request::Check { name: "nets".parse().unwrap() }).unwrap();
    bed.idle();
    let again = Request::Update {
        name: "asks".parse().unwrap(),
        source: source(&port(", name: q"), ""),
        options: options(),
    };
    bed.ask(again).unwrap();
    bed.idle();
    assert!(reason(&bed).ends_with("(known: ******)"), "{}", reason(&bed));
}

/// Another stack's network and subnet have names with a hidden value as a part.
#[test]
fn a_port_masks_another_stacks_hidden_network_names() {
    let made = |name: &str, hidden: bool| {
        let template = format!(
            "heat_template_version: 2018-08-31
parameters: {{secret: {{type: string, hidden: {hidden}}}}}
resources:
  n: {{type: OS::Neutron::Net, properties: {{name: {{list_join: ['-', [net, {{get_param: secret}}]]}}}}}}
  s: {{type: OS::Neutron::Subnet, properties: {{network: {{get_resource: n}}, name: {{get_param: secret}}, cidr: 10.0.0.0/24}}}}
"
        );
        let parameters = [("secret".to_owned(), name.into())].into();
        parse(SourceText { name: "t".into(), template, parameters, ..SourceText::default() })
    };
    let asking = |network: &str, more: &str| {
        let dummy = "d: {type: Muster::Dummy, properties: {node: node-0, values: {a: {get_attr: [a, network, name]}, \
             b: {str_split: ['-', {get_attr: [a, network, name]}, 1]}, c: x}}}";
        let resources = format!(
            "a: {{type: OS::Neutron::Port, properties: {{network: '{network}'}}}}, {}",
            dummy.replace("c: x", &format!("c: x{more}"))
        );
        source(
            &resources,
            "all: {value: {get_attr: [a, network]}}, part: {value: {str_split: ['-', {get_attr: [a, network, name]}, 1]}}, \
             sub: {value: {get_attr: [a, subnets]}}, told: {value: {get_attr: [d, b]}}, ip: {value: {get_attr: [a, fixed_ips, 0, ip_address]}}",
        )
    };
    let asks = || "asks".parse().unwrap();
    let update = |bed: &mut Bed, name: &str, source: Source| {
        bed.ask(Request::Update { name: name.parse().unwrap(), source, options: options() }).unwrap();
        bed.idle();
        assert!(status(bed, name).starts_with("UPDATE_COMPLETE"), "{}", status(bed, name));
    };
    let seen = |bed: &Bed, network: &str| {
        let outputs = ["all", "part", "sub", "told", "ip"].map(|key| output(bed, "asks", key).to_string());
        let preview = bed
            .engine
            .view()
            .preview(&asks(), &asking(network, "y, e: {get_attr: [a, network, name]}"), None, &options())
            .unwrap();
        let rows = bed.engine.view().resource_views(&asks(), false).unwrap();
        format!("{outputs:?} {preview:?} {rows:?} {:?}", bed.tables.reasons)
    };
    let mut bed = Bed::new(1);
    // The name is shown while it is no secret.
    assert_eq!(create(&mut bed, "nets", made("s3cret1", false)), "CREATE_COMPLETE: ");
    let id =
        bed.engine.view().resource_views(&"nets".parse().unwrap(), false).unwrap()[0].physical_id.clone();
    assert_eq!(create(&mut bed, "asks", asking(&id, "")), "CREATE_COMPLETE: ");
    assert_eq!(output(&bed, "asks", "part"), "s3cret1");
    // From now on the name is a secret, also in the port's stack.
    update(&mut bed, "nets", made("s3cret1", true));
    let hidden = seen(&bed, &id);
    assert!(!hidden.contains("s3cret1") && hidden.contains("******"), "{hidden}");
    assert!(
        output(&bed, "asks", "ip").as_str().unwrap().starts_with("10.0.0."),
        "what is not hidden is told"
    );
    for round in 0..2 {
        update(&mut bed, "asks", asking(&id, &format!("z{round}")));
        let hidden = seen(&bed, &id);
        assert!(!hidden.contains("net-s3cret1") && !hidden.contains("s3cret1"), "{hidden}");
        // The server gets the name all the same.
        assert_eq!(bed.reality()[0].1["a"], "net-s3cret1");
        // After a restart the values of neither stack are known.
        bed.restart();
        bed.connect(&node(0));
    }
    // A new name is a new secret. Texts that the port showed before stay secret.
    update(&mut bed, "nets", made("an0ther", true));
    assert!(!seen(&bed, &id).contains("s3cret1"), "{}", seen(&bed, &id));
    update(&mut bed, "asks", asking(&id, "end"));
    bed.restart();
    let hidden = seen(&bed, &id);
    assert!(!hidden.contains("an0ther") && !hidden.contains("s3cret1"), "{hidden}");
}

/// The new revision gives a network another hidden name, which its row does not have yet.
#[test]
fn what_a_network_hid_before_is_masked_after_a_restart_too() {
    let made = |name: &str| {
        let template = "heat_template_version: 2018-08-31
parameters: {secret: {type: string, hidden: true}}
resources:
  n:
    type: OS::Neutron::Net
    properties: {name: {list_join: ['-', [net, {get_param: secret}]]}, tags: [{get_param: secret}]}
  s: {type: OS::Neutron::Subnet, properties: {network: {get_resource: n}, name: s, cidr: 10.0.0.0/24}}
";
        let parameters = [("secret".to_owned(), name.into())].into();
        let text =
            SourceText { name: "t".into(), template: template.into(), parameters, ..SourceText::default() };
        under(parse(text), "n: {hooks: pre-update}")
    };
    let mut bed = Bed::new(1);
    let nets = stack().to_string();
    assert_eq!(create(&mut bed, &nets, made("s3cret1")), "CREATE_COMPLETE: ");
    let id = bed.resource("n").physical_id;
    bed.update(made("an0ther")).unwrap();
    bed.idle();
    assert_eq!(bed.resource("n").phase, "hook");
    bed.restart();
    let asks = source(
        &format!("a: {{type: OS::Neutron::Port, properties: {{network: '{id}'}}}}"),
        "net: {value: {get_attr: [a, network, name]}}, tags: {value: {get_attr: [a, network, tags]}}",
    );
    assert_eq!(create(&mut bed, "asks", asks), "CREATE_COMPLETE: ");
    for key in ["net", "tags"] {
        let told = output(&bed, "asks", key).to_string();
        assert!(told.contains("******") && !told.contains("s3cret1"), "{key}: {told}");
    }
}

/// TripleO takes the ranges of a network from its tags.
#[test]
fn a_port_tells_the_tags_of_its_network() {
    let net = |tags: &str| {
        source(
            &format!(
                "n: {{type: OS::Neutron::Net, properties: {{name: ctlplane{tags}}}}}, s: {{type: OS::Neutron::Subnet, \
                 properties: {{network: {{get_resource: n}}, cidr: 10.0.0.0/24}}}}"
            ),
            "show: {value: {get_attr: [n, show, tags]}}",
        )
    };
    let asks = || source(&port(""), "tags: {value: {get_attr: [a, network, tags]}}");
    let mut bed = Bed::new(1);
    assert_eq!(create(&mut bed, "nets", net("")), "CREATE_COMPLETE: ");
    assert_eq!(create(&mut bed, "asks", asks()), "CREATE_COMPLETE: ");
    assert_eq!((output(&bed, "nets", "show"), output(&bed, "asks", "tags")), (json!([]), json!([])));

    let update = |bed: &mut Bed, name: &str, source: Source| {
        bed.ask(Request::Update { name: name.parse().unwrap(), source, options: options() }).unwrap();
        bed.idle();
        assert!(status(bed, name).starts_with("UPDATE_COMPLETE"), "{}", status(bed, name));
    };
    let id =
        bed.engine.view().resource_views(&"nets".parse().unwrap(), false).unwrap()[0].physical_id.clone();
    update(&mut bed, "nets", net(", tags: [10.0.0.0/24, 10.0.1.0/24]"));
    let views = bed.engine.view().resource_views(&"nets".parse().unwrap(), false).unwrap();
    assert_eq!(views[0].physical_id, id, "in place");
    // The plan is made again from what is stored.
    bed.restart();
    bed.connect(&node(0));
    assert_eq!(create(&mut bed, "later", asks()), "CREATE_COMPLETE: ");
    let tags = json!(["10.0.0.0/24", "10.0.1.0/24"]);
    assert_eq!((output(&bed, "nets", "show"), output(&bed, "later", "tags")), (tags.clone(), tags));
}
