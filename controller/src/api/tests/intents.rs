//! Intents over HTTP: what is wrong is said, and changes nothing.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_intents_is_said_with_its_place() {
    let world = World::new().await;
    let file = "intents:\n- {key: a, type: point_to_point, from: {device: a/br0, port: h}, to: {device: a/br0, port: h}}\n";
    let (status, answer) = ask(&world.socket(), "POST /v1/intents?name=i.yaml", file).await;
    let error = &answer["error"];
    assert_eq!((status, &error["message"]), (400, &json!("the intent file is not valid")));
    let place = &error["errors"][0];
    assert_eq!(
        (&place["file"], &place["line"], &place["path"]),
        (&json!("i.yaml"), &json!(2), &json!("intents[0].to"))
    );
    for (line, body, status, said) in [
        ("GET /v1/intents?state=GONE", Value::Null, 400, "want one of INSTALL_REQ"),
        ("GET /v1/intents?stat=FAILED", Value::Null, 400, "stat"),
        ("GET /v1/intents/all%2Fof%20it", Value::Null, 404, "'all/of it'"),
        ("PATCH /v1/intents", json!({"withdraw": []}), 400, "0 keys"),
        ("PATCH /v1/intents", json!({"keys": ["a"]}), 400, "keys"),
        ("DELETE /v1/intents", json!({"withdraw": ["a"]}), 400, "withdraw"),
        ("POST /v1/watch/intents?wait=1", json!({"keys": []}), 400, "0 keys"),
        ("POST /v1/watch/intents?wait=1&state=there", json!({"keys": ["a"]}), 400, "want one of"),
        ("GET /v1/topology?intents=many", Value::Null, 400, "intents"),
        ("GET /v1/topology?key=a", Value::Null, 404, "'a'"),
    ] {
        let (got, answer) = world.ask(line, &body).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(got == status && message.contains(said), "{line}: {got} {answer}");
    }
    assert_eq!(world.get("/v1/intents").await, (200, json!([])));
    let nothing = json!({"devices": [], "links": [], "hosts": [], "intents": []});
    assert_eq!(world.get("/v1/topology?intents=10").await, (200, nothing));
    world.stop().await;
}

const FILE: &str = "\
intents:
- {key: a/b, type: point_to_point, from: {device: web-1/br0, port: h}, to: {device: web-2/br0, port: h}}
- {key: c, type: point_to_point, from: {device: web-2/br0, port: h}, to: {device: web-1/br0, port: h}}
";

/// No node has reported these bridges.
#[tokio::test(flavor = "multi_thread")]
async fn intents_are_submitted_waited_for_shown_withdrawn_and_purged() {
    let world = World::new().await;
    let (status, answer) = ask(&world.socket(), "POST /v1/intents", FILE).await;
    assert_eq!((status, answer), (200, json!({"keys": ["a/b", "c"], "warnings": []})));
    let both = json!({"keys": ["a/b", "c", "a/b"]});
    let (status, watched) = world.ask("POST /v1/watch/intents?wait=20&state=INSTALLED", &both).await;
    let counts = |it: &Value| [&it["ended"], &it["done"], &it["failed"], &it["total"]].map(Clone::clone);
    assert_eq!((status, counts(&watched)), (200, [json!(true), json!(2), json!(2), json!(2)]));
    let named = &watched["intents"][0];
    assert_eq!((&named["key"], &named["state"]), (&json!("a/b"), &json!("FAILED")));
    assert!(named["reason"].as_str().unwrap().contains("web-1/br0"), "{named}");

    let (_, list) = world.get("/v1/intents?state=failed").await;
    assert_eq!(
        (&list[0], list.as_array().unwrap().len()),
        (
            &json!({"key": "a/b", "type": "point_to_point", "state": "FAILED", "request": "INSTALL_REQ", "errors": 0,
                "reason": named["reason"], "owner": "the operator"}),
            2
        )
    );
    assert_eq!(world.get("/v1/intents?state=INSTALLED").await, (200, json!([])));
    let (status, one) = world.get("/v1/intents/a%2Fb").await;
    assert_eq!(
        (status, &one["state"], &one["paths"], &one["rules"], &one["owner"], &one["from"]),
        (
            200,
            &json!("FAILED"),
            &json!([]),
            &json!([]),
            &json!("the operator"),
            &json!({"device": "web-1/br0", "port": "h"})
        )
    );

    let (status, answer) = world.ask("POST /v1/intents/a%2Fb/withdraw", &Value::Null).await;
    assert_eq!((status, &answer["keys"]), (200, &json!(["a/b"])));
    let (status, answer) = world.ask("PATCH /v1/intents", &json!({"withdraw": ["c", "nope"]})).await;
    assert_eq!((status, answer["error"]["class"].as_str()), (404, Some("not_found")), "{answer}");
    let (_, watched) = world.ask("POST /v1/watch/intents?state=WITHDRAWN", &both).await;
    assert_eq!(
        counts(&watched),
        [json!(true), json!(2), json!(1), json!(2)],
        "none of them was withdrawn: {watched}"
    );
    assert_eq!(world.ask("PATCH /v1/intents", &json!({"withdraw": ["c"]})).await.0, 200);
    let (_, watched) = world.ask("POST /v1/watch/intents?wait=20&state=WITHDRAWN", &both).await;
    assert_eq!(counts(&watched), [json!(true), json!(2), json!(0), json!(2)]);

    assert_eq!(world.ask("DELETE /v1/intents/a%2Fb", &Value::Null).await.0, 200);
    assert_eq!(world.ask("DELETE /v1/intents", &json!({"keys": ["c"]})).await.0, 200);
    assert_eq!(world.get("/v1/intents").await, (200, json!([])));
    let (_, watched) = world.ask("POST /v1/watch/intents?wait=20&state=INSTALLED", &both).await;
    assert_eq!(
        counts(&watched),
        [json!(true), json!(2), json!(2), json!(2)],
        "what was purged is not installed"
    );
    world.stop().await;
}
