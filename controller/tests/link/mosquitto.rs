//! Mosquitto's own command-line clients.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use muster_shared::topic;
use rcgen::KeyPair;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::world::{Node, PATIENCE, World, random};

/// The options that connect as a node.
fn command(world: &World, program: &str, node: &Node) -> Command {
    let file = |name: &str, content: String| -> PathBuf {
        let path = world.path().join(format!("{}.{name}", node.id));
        std::fs::write(&path, content).unwrap();
        path
    };
    let mut command = Command::new(program);
    command
        .args(["-V", "mqttv5", "-h", "localhost", "-i", node.id.as_str()])
        .args(["-p", &world.address().port().to_string()])
        .arg("--cafile")
        .arg(file("ca", pem("CERTIFICATE", world.pki.ca_der())))
        .arg("--cert")
        .arg(file("crt", pem("CERTIFICATE", &node.certificate)))
        .arg("--key")
        .arg(file("key", KeyPair::serialize_pem(&node.key)))
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn pem(label: &str, der: &[u8]) -> String {
    // OpenSSL takes one long line of base64 badly, so lines of 64.
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for (i, group) in der.chunks(3).enumerate() {
        if i % 16 == 0 {
            text.push('\n');
        }
        let bits =
            group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for letter in 0..4 {
            match letter <= group.len() {
                true => text.push(LETTERS[(bits >> (18 - 6 * letter)) as usize & 63].into()),
                false => text.push('='),
            }
        }
    }
    format!("-----BEGIN {label}-----{text}\n-----END {label}-----\n")
}

fn spawn(mut command: Command) -> Child {
    command.spawn().unwrap_or_else(|error| {
        panic!(
            "cannot run {:?} ({error}): install the package mosquitto-clients",
            command.as_std().get_program()
        )
    })
}

async fn output(command: Command) -> Output {
    timeout(PATIENCE, spawn(command).wait_with_output()).await.expect("an end").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn mosquitto_pub_publishes() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    let (good, bad) = (world.path().join("good"), world.path().join("bad"));
    std::fs::write(&good, node.seal.greet(random()).unwrap().packet()).unwrap();
    std::fs::write(&bad, [1; 66]).unwrap();
    for qos in ["0", "1"] {
        for (file, refused) in [(&good, 0), (&bad, 1)] {
            let before = world.refused.counts()["version"];
            let mut publish = command(&world, "mosquitto_pub", &node);
            publish.args(["-q", qos, "-t", &topic::up(world.site(), &node.id), "-f"]).arg(file);
            let output = output(publish).await;
            // It does not wait until the packet is looked at.
            let counted = async {
                while world.refused.counts()["version"] - before < refused {
                    tokio::task::yield_now().await;
                }
            };
            timeout(PATIENCE, counted).await.expect("a packet that is counted");
            world.driver.saw_only(&node.id);
            assert!(output.status.success() || refused == 1, "{output:?}");
        }
    }
    assert_eq!(world.refused.counts().values().sum::<u64>(), 2);
}

/// A message to a node needs a session, which these clients cannot begin.
#[tokio::test(flavor = "multi_thread")]
async fn mosquitto_sub_subscribes() {
    let mut world = World::start().await;
    let node = world.node("web-1");
    for qos in ["0", "1", "2"] {
        let mut subscribe = command(&world, "mosquitto_sub", &node);
        subscribe.args(["-d", "-q", qos, "-t", &topic::down(world.site(), &node.id), "-W", "30", "-E"]);
        let output = output(subscribe).await;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // QoS 2 is granted as 1.
        let granted = format!("Subscribed (mid: 1): {}", if qos == "0" { 0 } else { 1 });
        assert!(output.status.success() && said.contains(&granted), "{said}");
        world.driver.saw_only(&node.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mosquitto_is_told_why_not() {
    let mut world = World::start().await;
    let (node, other) = (world.node("web-1"), world.node("web-2"));
    // mosquitto_pub takes the last id it is given.
    let mut posing = command(&world, "mosquitto_pub", &node);
    posing.args(["-i", other.id.as_str(), "-t", &topic::up(world.site(), &other.id), "-m", "x"]);
    let output_of = output(posing).await;
    assert!(!output_of.status.success());
    let said = String::from_utf8_lossy(&output_of.stderr).into_owned();
    assert!(said.contains("Client Identifier not valid"), "{said}");
    world.driver.saw_nothing();

    let mut foreign = command(&world, "mosquitto_sub", &node);
    foreign.args(["-d", "-t", &topic::down(world.site(), &other.id), "-W", "30", "-E"]);
    let output_of = output(foreign).await;
    let said = String::from_utf8_lossy(&[output_of.stdout, output_of.stderr].concat()).into_owned();
    assert!(said.contains("DISCONNECT (135)"), "{said}");
}
