//! `ethtool_opts`, compared with what ethtool(8) says.

use serde_json::{Value, json};

use crate::server::NetworkServer;
use crate::{document, kept, no_mapping, settled};

fn with(link: &str, options: &str) -> Value {
    json!([{"type": "interface", "name": link, "ethtool_opts": options}])
}

#[test]
fn what_ethtool_sets_is_read_back_and_put_back() {
    let (server, peer) = (NetworkServer::new(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    server.ip("tuntap add name tap0 mode tap multi_queue");
    // Among the kernel's own interfaces, a cable has features and channels, a tap device has speed and coalescing.
    for (link, first, second, told) in [
        (
            "eth1",
            "-K ${DEVICE} tso off gro on rx-gro-list on; --set-channels eth1 rx 1 tx 1;",
            "-K $DEVICE tso off",
            vec![
                ("-k", "tcp-segmentation-offload: off"),
                ("-k", "generic-receive-offload: on"),
                ("-k", "rx-gro-list: on"),
            ],
        ),
        (
            "tap0",
            "speed 1000 duplex half; -C ${DEVICE} rx-frames 7",
            "speed 2500 autoneg off",
            vec![("", "Speed: 1000Mb/s"), ("", "Duplex: Half"), ("-c", "rx-frames: 7")],
        ),
    ] {
        let (first, second) = (document(with(link, first)), document(with(link, second)));
        let says = |what: &str| {
            let words = format!("ethtool {what} {link}");
            let said = server.run(&words.split_whitespace().collect::<Vec<_>>().join(" "));
            said.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let all = || (says("-k"), says(""), if link == "tap0" { says("-c") } else { String::new() });
        let before_all = all();
        server.inside(async |network| {
            let at_first = settled(network.observe().await.unwrap());
            let before = kept(network.snapshot(&first, &no_mapping(), None).await.unwrap());
            let undo = kept(network.undo(&first, &no_mapping(), &before).await.unwrap());
            let applied = network.apply(&first, &no_mapping(), &before).await.unwrap();
            assert!(applied.changed());
            for (what, wanted) in &told {
                let said = says(what);
                assert!(said.contains(wanted), "{link}: {wanted} in {said}");
            }
            assert_eq!(network.apply(&first, &no_mapping(), &before).await.unwrap().steps, []);
            assert_eq!(network.check(&first, &no_mapping(), &before).await.unwrap(), []);
            network.restore(&undo).await.unwrap();
            assert_eq!(all(), before_all, "undone");

            network.apply(&first, &no_mapping(), &before).await.unwrap();
            if link == "eth1" {
                server.run("ethtool -K eth1 tso on");
                let found = network.check(&first, &no_mapping(), &before).await.unwrap();
                let wanted = "network_config[0].ethtool_opts: wanted features/tx-tcp-";
                assert!(found[0].to_string().starts_with(wanted), "{found:?}");
            }
            let before = network.snapshot(&second, &no_mapping(), Some(before)).await.unwrap();
            let later = network.apply(&second, &no_mapping(), &before).await.unwrap().before;
            network.restore(&later).await.unwrap();
            assert_eq!(settled(network.observe().await.unwrap()), at_first);
        });
        assert_eq!(all(), before_all, "{link}");
    }
}

#[test]
fn what_an_interface_lacks_or_its_driver_refuses_is_said() {
    let (server, peer) = (NetworkServer::new(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    server.inside(async |network| {
        for (options, wanted) in [
            (
                "-G ${DEVICE} rx-mini 4096; -A ${DEVICE} rx on",
                "network_config[0].ethtool_opts: eth1 has no '-A rx' that can be set",
            ),
            (
                "-K ${DEVICE} xyzzy on",
                "network_config[0].ethtool_opts: eth1 has no '-K xyzzy' that can be set",
            ),
            ("-L ${DEVICE} rx 99", "cannot set channels/rx 99 of eth1"),
        ] {
            let document = document(with("eth1", options));
            let before = network.snapshot(&document, &no_mapping(), None).await.unwrap();
            let error = network.apply(&document, &no_mapping(), &before).await.unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    });
}
