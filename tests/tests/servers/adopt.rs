//! A server that others have configured is described, and taken over: nothing on it changes.

use crate::one_server::Installed;

/// Links, a bridge and a route that others have made, and people's accounts.
const CONFIGURED: &str = "
    ip link add up0 type veth peer name up1; ip link set up0 up; ip link set up1 up
    ip address add 198.51.100.2/24 brd + dev up0; ip route add 203.0.113.0/24 via 198.51.100.1 proto static
    ip link add br0 type bridge; ip link add m0 type veth peer name m1
    ip link set m0 master br0; ip link set m0 up; ip link set m1 up; ip link set br0 up
    ip address add 10.7.0.1/16 brd + dev br0
    groupadd -g 4711 ops; useradd -u 4712 -G ops -m -s /bin/sh -c 'Anna (on call)' anna
    ln -sf ../usr/share/zoneinfo/Etc/UTC /etc/localtime; printf 'of others\\n' >/etc/others; echo kept >/etc/kept
    printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' >/etc/systemd/system/others.service
    systemctl daemon-reload; systemctl enable --now others.service 2>/dev/null";

/// The state that a stack of the description could change.
const STATE: &str = "ip -o address show | sed 's/valid_lft.*//; s/ tentative//'; ip route show; ip -o link show | sed 's/^[0-9]*: //'
    sort /etc/passwd /etc/group; cut -d : -f 1,2 /etc/shadow | sort; readlink /etc/localtime; hostname; cat /etc/others
    stat -c '%n %a %U %i %Y' /etc/passwd /etc/group /etc/others";

fn template(resources: &str) -> String {
    format!("cat >/root/more.yaml <<'END'\nheat_template_version: 2018-08-31\nresources:\n{resources}END\n")
}

#[test]
fn adopting_and_releasing_a_server_changes_nothing() {
    let server = Installed::start("adopt");
    server.sh(CONFIGURED);
    let before = server.sh(STATE);

    let said = server.sh("muster adopt pack -o /root/pack.yaml");
    assert!(said.contains("muster stack create NAME -t /root/pack.yaml --adopt --wait"), "{said}");
    let text = server.sh("cat /root/pack.yaml");
    for words in [
        "# What pack is like.",
        "#   data0: Muster has it already",
        "type: linux_bridge",
        "- ip_netmask: \"198.51.100.2/24\"",
        "next_hop: \"198.51.100.1\"",
        "  user_anna:\n    type: Muster::User\n    depends_on: [group_ops, group_anna]",
        "timezone: Etc/UTC",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("$6$") && !text.contains("$y$"), "no password: {text}");
    server.fails("muster adopt pack -o /root/pack.yaml");
    server.fails("muster adopt nobody");
    server.sh("muster stack validate -t /root/pack.yaml");
    assert_eq!(server.json("muster adopt pack -o json")["name"], "pack");

    server.sh("muster stack create pack -t /root/pack.yaml --adopt --wait");
    assert_eq!(server.sh(STATE), before, "nothing changes when it is taken over");
    let rows = server.json("muster resource list pack -o json");
    let rows = rows.as_array().unwrap();
    assert!(rows.iter().all(|row| row["action"] == "ADOPT" && row["status"] == "COMPLETE"), "{rows:?}");

    // Now it is the stack's: what the template says from here on is made.
    server.sh("sed 's|/bin/sh|/bin/bash|' /root/pack.yaml >/root/new.yaml; muster stack update pack -t /root/new.yaml --wait");
    assert_eq!(server.sh("getent passwd anna | cut -d : -f 7"), "/bin/bash\n");
    server.sh("muster stack update pack -t /root/pack.yaml --wait");

    // What is not as a template has it fails, and stays: a file, and a link that would lose an address.
    server.sh("ip link add up2 type veth peer name up3; ip link set up2 up
        ip address add 192.0.2.3/24 dev up2; ip address add 10.99.0.4/24 dev up2");
    let others = "ip -o address show dev up2; cat /etc/others; systemctl show -P InvocationID -P NRestarts others.service";
    let as_others_made_it = server.sh(others);
    server.sh(&template(
        r#"  file: {type: Muster::File, properties: {node: pack, path: /etc/others, content: "other\n"}}
  absent: {type: Muster::File, properties: {node: pack, path: /etc/absent, content: "x"}}
  kept: {type: Muster::File, properties: {node: pack, path: /etc/kept, content: "kept\n"}}
  unit:
    type: Muster::Unit
    properties: {node: pack, name: others.service, active: started, enabled: true, content: "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"}
  net: {type: Muster::NetworkConfig, properties: {node: pack, network_config: [{type: interface, name: up2, addresses: [{ip_netmask: 192.0.2.3/24}]}]}}
"#,
    ));
    let create = "muster stack create more -t /root/more.yaml --adopt --wait";
    let failed =
        server.sh(&format!("! {create} >/root/said 2>&1; cat /root/said; muster stack failures more"));
    for what in ["/etc/others: ", "remove the address 10.99.0.4/24 from up2"] {
        let why = format!("the server differs from the template, and was not changed: {what}");
        assert!(failed.contains(&why), "{why}: {failed}");
    }
    server.sh("for name in kept unit; do muster resource show more $name -o json | grep -q ADOPT; done
        muster resource show more unit -o json | grep -q COMPLETE; test ! -e /etc/absent");
    assert_eq!(server.sh(others), as_others_made_it, "a unit that runs is not started again");
    server.sh("sed 's/other\\\\n/of others\\\\n/; /absent/d; /net:/d' /root/more.yaml >/root/true.yaml
        muster stack update more -t /root/true.yaml --adopt --wait; muster stack delete more --wait");
    assert_eq!(server.sh(others), as_others_made_it);

    server.sh("ip link del up2; muster stack delete pack --wait");
    let stat_less =
        |state: &str| state.lines().filter(|line| !line.starts_with("/etc/")).collect::<Vec<_>>().join("\n");
    assert_eq!(stat_less(&server.sh(STATE)), stat_less(&before), "it is let go as it was");
}
