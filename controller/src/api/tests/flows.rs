//! Flow tables over HTTP, with nodes that never come.

use muster_shared::seal::PacketError;

use super::*;

const FILE: &str = "\
rules:
- {device: web-1/br0, priority: 100, selector: {eth_type: 0x0800, ipv4_dst: 10.0.0.0/24}, treatment: [{output: p2}]}
- {device: web-1/br0, table: 1, priority: 7, treatment: []}
";

impl World {
    async fn apply(&self, query: &str, file: &str) -> (u16, Value) {
        ask(&self.socket(), &format!("POST /v1/flows{query}"), file).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_applied_listed_shown_and_deleted() {
    let world = World::new().await;
    world.join("web-1").await;
    let (status, answer) = world.apply("?name=f.yaml", FILE).await;
    let warnings = ["node web-1 is away and is waited for"];
    let wanted = json!({"operation": 1, "rules": 2, "devices": 1, "warnings": warnings});
    assert_eq!((status, &answer), (200, &wanted));
    let (status, operation) = world.get("/v1/flows/operations/1").await;
    assert_eq!(
        (status, operation),
        (
            200,
            json!({"operation": 1, "action": "APPLY", "state": "IN_PROGRESS", "stage": 1, "stages": 1, "done": 0,
                "total": 2, "errors": []})
        )
    );
    let (_, devices) = world.get("/v1/devices").await;
    assert_eq!((&devices[0]["device"], &devices[0]["pending_add"]), (&json!("web-1/br0"), &json!(2)));
    assert_eq!(world.get("/v1/devices/web-1/br0").await.1, devices[0]);
    let (_, rules) = world.get("/v1/devices/web-1/br0/flows?table=0&state=PENDING_ADD").await;
    let rule = &rules[0];
    assert_eq!(rules.as_array().unwrap().len(), 1);
    assert_eq!(
        (&rule["state"], &rule["owner"], &rule["priority"], &rule["packets"], &rule["kind"]),
        (&json!("PENDING_ADD"), &json!("the operator"), &json!(100), &Value::Null, &json!("rule"))
    );
    let id = rule["id"].as_str().unwrap();
    let (status, shown) = world.get(&format!("/v1/devices/web-1/br0/flows/{id}")).await;
    assert_eq!((status, &shown["on_device"]), (200, &Value::Null));
    assert!(shown["since"].is_string(), "{shown}");
    let lines: Vec<&str> =
        shown["explanation"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(lines[0].contains("the operator") && lines[1].starts_with("PENDING_ADD since "), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("web-1 is away")), "{lines:?}");
    let (status, answer) = world.ask("DELETE /v1/devices/web-1/br0/flows", &json!({"ids": [id]})).await;
    assert_eq!((status, &answer["operation"], &answer["rules"]), (200, &json!(2), &json!(1)));
    let (_, stats) = world.get("/v1/devices/web-1/br0/stats").await;
    assert_eq!(
        stats,
        json!({"device": "web-1/br0", "tables": [], "age": null,
            "owners": [{"owner": "the operator", "rules": 2, "packets": 0, "bytes": 0}]})
    );
    let (status, answer) = world.ask("POST /v1/devices/web-1/br0/purge?forget=true", &Value::Null).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(world.get("/v1/flows/operations/1?wait=5").await.1["state"], "FAILED");
    assert_eq!(world.get("/v1/devices").await.1, json!([]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_with_its_place_and_changes_nothing() {
    let world = World::new().await;
    world.join("web-1").await;
    let bad = FILE.replace("10.0.0.0/24", "10.0.0.0/99");
    let (status, answer) = world.apply("?name=f.yaml", &bad).await;
    let error = &answer["error"];
    assert_eq!((status, &error["message"]), (400, &json!("the flow file is not valid")));
    assert_eq!((&error["errors"][0]["file"], &error["errors"][0]["line"]), (&json!("f.yaml"), &json!(2)));
    for (line, status, said) in [
        ("GET /v1/devices/web-1/br0/flows", 404, "no flow rules of device"),
        ("GET /v1/devices/web-2/br0/flows", 404, "did you mean web-1?"),
        ("GET /v1/devices/web-1/br0/flows?state=GONE", 400, "want one of"),
        ("GET /v1/devices/web-1/br0/flows/zz", 400, "16 hexadecimal digits"),
        ("GET /v1/devices/web-1/br0/flows/4d55000000000001", 404, "no flow rules of device"),
        ("GET /v1/devices/web-1/a-name-that-is-far-too-long/flows", 400, "is not a device"),
        ("POST /v1/devices/web-1/br0/reconcile", 404, "no flow rules of device"),
        ("POST /v1/devices/web-1/br0/reconcile?foreign=eat", 400, "leave, show or import"),
        ("GET /v1/flows/operations/7?wait=1", 404, "no operation 7"),
        ("POST /v1/flows?guard=perhaps", 400, "guard"),
    ] {
        let (got, answer) = world.ask(line, &Value::Null).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(got == status && message.contains(said), "{line}: {got} {answer}");
    }
    let rule = |n| format!("- {{device: web-1/br0, priority: {n}}}\n");
    let (status, answer) =
        world.apply("", &format!("rules:\n{}", (0..101).map(rule).collect::<String>())).await;
    let message = answer["error"]["errors"][0]["message"].as_str().unwrap();
    assert!(
        status == 400 && message.contains("more than 100") && message.contains("limits.flow_rules"),
        "{answer}"
    );
    assert_eq!(world.get("/v1/devices").await.1, json!([]));
    let (status, answer) = world.apply("", &FILE.replace("web-1", "web-9")).await;
    assert_eq!((status, answer["warnings"].as_array().unwrap().len()), (200, 1));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_told() {
    let world = World::new().await;
    world.join("web-1").await;
    world.apply("", FILE).await;
    (0..3).for_each(|_| world.refused.count(PacketError::Repeated));
    let text = raw(&world.socket(), "GET /metrics").await;
    for line in [
        "content-type: text/plain; version=0.0.4; charset=utf-8",
        "# TYPE muster_flow_rules gauge",
        "muster_flow_rules{device=\"web-1/br0\",state=\"PENDING_ADD\"} 2",
        "muster_nodes{state=\"offline\"} 1",
        "# TYPE muster_refused_packets_total counter",
        "muster_refused_packets_total{reason=\"repeated\"} 3",
        "muster_refused_packets_total{reason=\"seal\"} 0",
        "muster_flow_batches_total{device=\"web-1/br0\"} 0",
        "muster_driver_answers 1",
        "muster_store_writable 1",
        "muster_link_up 1",
        "muster_driver_queue_length{queue=\"requests\"} 0",
        "muster_rollouts{state=\"paused\"} 0",
        "muster_intents{state=\"FAILED\"} 0",
        "muster_intents_broken 0",
        "muster_jobs_total{outcome=\"timed_out\"} 0",
    ] {
        assert!(
            text.contains(&format!("\n{line}\n")) || text.contains(&format!("\n{line}\r\n")),
            "{line}: {text}"
        );
    }
    world.stop().await;
}

/// The controller's own figures are there when the driver is not.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_told_without_a_driver() {
    let world = World::new().await;
    world.driver.stop().await;
    let text = raw(&world.socket(), "GET /metrics").await;
    for line in [
        "muster_controller_active 1",
        "muster_driver_answers 0",
        "muster_refused_packets_total{reason=\"seal\"} 0",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }
    assert!(text.contains("\nmuster_store_commit_duration_seconds_count "), "{text}");
    assert!(!text.contains("muster_nodes"), "{text}");
    world.stop().await;
}

/// The whole answer.
async fn raw(socket: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let request = format!("{line} HTTP/1.1\r\nhost: muster\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}
