//! The requests of operators for existing stacks and nodes.

use muster_shared::model::Up;

use super::*;

#[tokio::test]
async fn revisions_say_what_made_them_and_which_is_current() {
    let world = World::new().await;
    world.create("web", EMPTY).await;
    world.ask("PUT /v1/stacks/web", &json!({"template": {"name": "other.yaml", "text": WAITING}})).await;
    world.ask("POST /v1/stacks/web/rollback", &json!({"to": 1})).await;
    let (_, list) = world.get("/v1/stacks/web/revisions").await;
    let rows: Vec<Value> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|r| json!([r["number"], r["made_by"], r["source_name"], r["complete"], r["current"]]))
        .collect();
    assert_eq!(
        rows,
        [
            json!([1, "CREATE", "t.yaml", true, false]),
            json!([2, "UPDATE", "other.yaml", false, false]),
            json!([3, "ROLLBACK to 1", "t.yaml", true, true]),
        ]
    );
    assert!(list[0]["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(world.get("/v1/stacks/web/failures").await, (200, json!([])));
    world.stop().await;
}

#[tokio::test]
async fn an_update_says_which_parameters_go_back_to_their_defaults() {
    let world = World::new().await;
    let template = json!({"name": "t.yaml", "text": EMPTY});
    let own = json!({"greeting": "hi", "secret": "s3cret"});
    let body = json!({"name": "web", "template": template, "parameters": own});
    assert_eq!(world.ask("POST /v1/stacks", &body).await.0, 202);
    let back = json!([
        "greeting: 'hi' → 'hello' (default); --existing keeps it",
        "secret: is back at its default (hidden); --existing keeps it"
    ]);
    for (body, wanted) in [
        (json!({"template": template, "existing": true}), json!([])),
        (json!({"template": template, "parameters": own}), json!([])),
        (json!({"template": template, "parameters": {"greeting": "hi"}}), json!([back[1]])),
        (json!({"template": template}), back.clone()),
        (json!({}), back.clone()),
    ] {
        let (status, preview) = world.ask("POST /v1/stacks/web/preview", &body).await;
        assert_eq!((status, &preview["warnings"]), (200, &wanted), "{body}");
    }
    let (status, answer) = world.ask("PUT /v1/stacks/web", &json!({"template": template})).await;
    assert_eq!((status, &answer["warnings"]), (202, &back));
    let (_, answer) = world.ask("PUT /v1/stacks/web", &json!({"template": template})).await;
    assert_eq!(answer["warnings"], json!([]), "there is nothing of its own any more");
    world.stop().await;
}

#[tokio::test]
async fn a_template_that_unhides_a_parameter_gets_no_kept_value() {
    let world = World::new().await;
    let hidden = "heat_template_version: 2018-08-31
parameters:
  secret: {type: string, hidden: true}
resources:
  a: {type: Muster::Dummy, properties: {node: web-1, values: {x: {get_param: secret}}}}
";
    let template = |text: &str| json!({"name": "t.yaml", "text": text});
    let environment = |value: &str| {
        let text = format!("parameter_defaults: {{secret: {value}}}");
        json!([{"name": "e", "text": text}])
    };
    let (by_hand, by_file) =
        (json!({"parameters": {"secret": "s3cret"}}), json!({"environments": environment("s3cret")}));
    let shown = hidden.replace(", hidden: true", "");
    let number = hidden.replace("string, hidden: true", "number");
    for (stack, with) in [("hand", &by_hand), ("file", &by_file)] {
        let mut body = with.clone();
        (body["name"], body["template"]) = (json!(stack), template(hidden));
        assert_eq!(world.ask("POST /v1/stacks", &body).await.0, 202);
        let (update, preview) =
            (format!("PUT /v1/stacks/{stack}"), format!("POST /v1/stacks/{stack}/preview"));
        for text in [&shown, &number] {
            for line in [&update, &preview] {
                let (status, answer) =
                    world.ask(line, &json!({"template": template(text), "existing": true})).await;
                assert_eq!(
                    (status, answer["error"]["message"].as_str().unwrap()),
                    (
                        400,
                        "the parameter 'secret' was hidden, and is not hidden in this template: its value is not kept so. Write 'hidden: true' there, or give the value again (-P)"
                    )
                );
            }
        }
        // Nor is it told by the warning of what goes back to a default.
        let defaulted = shown.replace("type: string", "type: string, default: hello");
        let (status, answer) = world.ask(&preview, &json!({"template": template(&defaulted)})).await;
        assert_eq!(status, 200, "{answer}");
        assert!(
            !answer.to_string().contains("secret:") && !answer.to_string().contains("s3cret"),
            "{answer}"
        );
        // An environment that is given does not replace a kept '-P', which goes over it, nor what it is merged with.
        let merged = "parameter_merge_strategies: {secret: merge}\nparameter_defaults: {secret: x}";
        let merged = json!([{"name": "f", "text": merged}]);
        for (environments, is_replaced) in [
            (json!([{"name": "f", "text": "parameter_defaults: {secret: new}"}]), stack == "file"),
            (merged, false),
        ] {
            let body = json!({"template": template(&shown), "existing": true, "environments": environments});
            let (status, answer) = world.ask(&preview, &body).await;
            assert_eq!(status, if is_replaced { 200 } else { 400 }, "{stack} {body}: {answer}");
        }
        // The value goes to another template that hides it, and a new one to any.
        let other = hidden.replace("  a:", "  b:");
        for (body, status) in [
            (json!({"template": template(&other), "existing": true}), 200),
            (json!({"template": template(&shown), "existing": true, "parameters": {"secret": "new"}}), 200),
            (
                json!({"template": template(&defaulted), "existing": true, "clear_parameters": ["secret"]}),
                if stack == "file" { 400 } else { 200 },
            ),
        ] {
            let (found, answer) = world.ask(&preview, &body).await;
            assert_eq!(found, status, "{answer}");
            assert!(!answer.to_string().contains("s3cret"), "{answer}");
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn a_parameter_that_is_missing_says_how_to_give_it() {
    let world = World::new().await;
    let text = EMPTY.replace("default: hello", "description: said");
    let template = json!({"name": "t.yaml", "text": text});
    let missing = "this parameter must be given, for it has no default: -P greeting=VALUE, or in an environment (-e FILE)";
    let (status, answer) = world.create("web", &text).await;
    assert_eq!((status, &answer["error"]["errors"][0]["message"]), (400, &json!(missing)));
    let body = json!({"name": "web", "template": template, "parameters": {"greeting": "hi"}});
    assert_eq!(world.ask("POST /v1/stacks", &body).await.0, 202);
    let (status, answer) = world.ask("PUT /v1/stacks/web", &json!({"template": template})).await;
    let kept = format!("{missing}, or --existing to keep the stack's own");
    assert_eq!((status, &answer["error"]["errors"][0]["message"]), (400, &json!(kept)));
    world.stop().await;
}

#[tokio::test]
async fn environments_are_kept_only_where_asked() {
    let world = World::new().await;
    let template = json!({"name": "t.yaml", "text": EMPTY});
    let says = |name: &str, greeting: &str| json!({"name": name, "text": format!("parameters: {{greeting: {greeting}}}")});
    let body =
        json!({"name": "web", "template": template, "environments": [says("a", "one"), says("b", "two")]});
    assert_eq!(world.ask("POST /v1/stacks", &body).await.0, 202);
    let long = format!("'{}'", "x".repeat(100));
    for (body, wanted) in [
        (json!({"existing": true, "clear_parameters": ["x".repeat(200)]}), &*long),
        (json!({"clear_parameters": ["greeting"]}), "no value is kept"),
        (
            json!({"existing": true, "clear_parameters": ["greting"]}),
            "the template has no parameter 'greting'",
        ),
        (
            json!({"existing": true, "clear_parameters": ["greeting"]}),
            "given by the environment 'a', which is kept",
        ),
    ] {
        let (status, answer) = world.ask("PUT /v1/stacks/web", &body).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(status == 400 && message.contains(wanted), "{body}: {answer}");
    }
    for (body, said) in [
        (json!({"existing": true}), "two"),
        (json!({"existing": true, "environments": [says("a", "three")]}), "three"),
        (
            json!({"existing": true, "environments": [says("b", "four")], "parameters": {"greeting": "five"}}),
            "five",
        ),
        (json!({"environments": [says("c", "six")]}), "six"),
        (json!({}), "hello"),
    ] {
        let (status, answer) = world.ask("PUT /v1/stacks/web", &body).await;
        assert_eq!(status, 202, "{answer}");
        assert_eq!(world.get("/v1/stacks/web/outputs").await.1[0]["value"], said, "{body}");
    }
    let wrong = json!({"environments": [{"name": "e.yaml", "text": "parameters: {greting: x}"}]});
    let (status, answer) = world.ask("PUT /v1/stacks/web", &wrong).await;
    let error = &answer["error"]["errors"][0];
    assert_eq!((status, &error["file"], &error["line"]), (400, &json!("e.yaml"), &json!(1)), "{answer}");
    world.stop().await;
}

#[tokio::test]
async fn a_node_that_is_there_was_last_seen_when_it_was_last_heard() {
    let world = World::new().await;
    world.join("web-1").await;
    let node: NodeId = "web-1".parse().unwrap();
    let seen = async || world.get("/v1/nodes/web-1").await.1["last_seen"].as_str().map(str::to_owned);
    let stored = || world.reader().last_seen().unwrap();
    assert_eq!(seen().await, None);
    world.events.connected(&node, 1);
    let connected = loop {
        if let Some(seen) = seen().await {
            break seen;
        }
    };
    let written = stored();
    loop {
        let messages = vec![Up::Heartbeat { drift: None }];
        world.events.received(&node, 1, messages, 0).await.unwrap();
        // A moment later by the clock, however fast it answers.
        if seen().await.is_some_and(|seen| seen > connected) {
            break;
        }
    }
    assert_eq!(stored(), written, "that is not written each time");
    world.stop().await;
}

#[tokio::test]
async fn cancel_is_for_what_is_in_progress() {
    let world = World::new().await;
    world.create("web", WAITING).await;
    let (status, view) = world.ask("POST /v1/stacks/web/cancel", &Value::Null).await;
    assert_eq!(
        (status, &view["status"], &view["status_reason"]),
        (200, &json!("FAILED"), &json!("cancelled"))
    );
    for (stack, status, class) in [("web", 409, "conflict"), ("other", 404, "not_found")] {
        let answer = world.ask(&format!("POST /v1/stacks/{stack}/cancel"), &Value::Null).await;
        assert_eq!((answer.0, &answer.1["error"]["class"]), (status, &json!(class)), "{}", answer.1);
    }
    world.stop().await;
}

#[tokio::test]
async fn hooks_are_cleared_once() {
    let world = World::new().await;
    let hook = "resource_registry: {resources: {motd: {hooks: pre-create}}}";
    let body = json!({"name": "web", "template": {"name": "t.yaml", "text": WAITING},
        "environments": [{"name": "e.yaml", "text": hook}]});
    assert_eq!(world.ask("POST /v1/stacks", &body).await.0, 202);
    let (_, row) = world.get("/v1/stacks/web/resources/motd").await;
    assert_eq!(row["phase"], "hook", "{row}");
    let (_, graph) = world.get("/v1/stacks/web/graph").await;
    let at = &graph["nodes"][0];
    assert_eq!(
        (&at["phase"], &at["hook"], &at["status_reason"]),
        (&json!("hook"), &json!("pre-create"), &row["status_reason"])
    );
    assert!(at["phase_seconds"].is_u64(), "{at}");
    let clear = |resource: &str| format!("POST /v1/stacks/web/resources/{resource}/clear-hook");
    for (resource, hook, status) in [
        ("motd", "post-create", 409),
        ("motd", "pre-creat", 400),
        ("mtod", "pre-create", 404),
        ("motd", "pre-create", 200),
        ("motd", "pre-create", 409),
    ] {
        let (code, answer) = world.ask(&clear(resource), &json!({"hook": hook})).await;
        assert_eq!(code, status, "{answer}");
    }
    assert_eq!(world.get("/v1/stacks/web/resources/motd").await.1["phase"], "node_away");
    world.stop().await;
}

#[tokio::test]
async fn what_waits_says_for_how_long_although_nothing_happens() {
    let world = World::new().await;
    world.create("web", WAITING).await;
    let waits = async {
        while world.get("/v1/stacks/web/resources/motd").await.1["phase_seconds"] == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), waits).await.unwrap();
    world.stop().await;
}

#[tokio::test]
async fn what_is_in_progress_is_neither_checked_nor_distrusted() {
    let world = World::new().await;
    world.create("web", WAITING).await;
    world.create("none", EMPTY).await;
    let unhealthy =
        |stack: &str, resource: &str| format!("POST /v1/stacks/{stack}/resources/{resource}/unhealthy");
    for (line, status) in [
        ("POST /v1/stacks/web/check".to_owned(), 409),
        ("POST /v1/stacks/other/check".to_owned(), 404),
        (unhealthy("web", "motd"), 409),
        (unhealthy("web", "mtod"), 404),
        (unhealthy("other", "motd"), 404),
        ("POST /v1/stacks/none/check".to_owned(), 202),
    ] {
        let (code, answer) = world.ask(&line, &Value::Null).await;
        assert_eq!(code, status, "{line} {answer}");
    }
    let (_, view) = world.get("/v1/stacks/none").await;
    assert_eq!(
        (&view["action"], &view["status"], &view["revision"]),
        (&json!("CHECK"), &json!("COMPLETE"), &json!(1))
    );
    world.ask("POST /v1/stacks/web/cancel", &Value::Null).await;
    let (status, row) = world.ask(&unhealthy("web", "motd"), &Value::Null).await;
    assert_eq!((status, &row["status"], &row["name"]), (200, &json!("FAILED"), &json!("motd")), "{row}");
    world.stop().await;
}

#[tokio::test]
async fn nodes_are_labelled_revoked_and_removed() {
    let world = World::new().await;
    world.join("web-1").await;
    world.create("web", WAITING).await;
    let labels = json!({"labels": {"role": "db", "zone": "a"}});
    let (status, node) = world.ask("PATCH /v1/nodes/web-1", &labels).await;
    assert_eq!((status, &node["labels"], &node["state"]), (200, &labels["labels"], &json!("offline")));
    let (_, node) = world.ask("PATCH /v1/nodes/web-1", &json!({"labels": {"zone": null}})).await;
    assert_eq!(node["labels"], json!({"role": "db"}));
    let (status, node) = world.ask("POST /v1/nodes/web-1/revoke", &Value::Null).await;
    assert_eq!((status, &node["state"]), (200, &json!("revoked")));
    for (line, body, status) in [
        ("PATCH /v1/nodes/web-1", json!({"labels": {"a b": "c"}}), 400),
        ("PATCH /v1/nodes/web-1", json!({"lables": {}}), 400),
        ("PATCH /v1/nodes/web-2", labels, 404),
        ("POST /v1/nodes/web-2/revoke", Value::Null, 404),
        ("POST /v1/nodes/WEB/revoke", Value::Null, 400),
        ("DELETE /v1/nodes/web-2", Value::Null, 404),
    ] {
        let answer = world.ask(line, &body).await;
        assert_eq!(answer.0, status, "{line} {}", answer.1);
    }
    let (status, removed) = world.ask("DELETE /v1/nodes/web-1", &Value::Null).await;
    assert_eq!(
        (status, removed),
        (200, json!({"name": "web-1", "lost": [], "lost_total": 0})),
        "no job ever left"
    );
    assert_eq!(world.get("/v1/nodes/web-1").await.0, 404);
    world.stop().await;
}

#[tokio::test]
async fn the_graph_has_rows_and_what_needs_what() {
    let world = World::new().await;
    let text = format!(
        "{WAITING}  other:\n    type: Muster::Dummy\n    depends_on: motd\n    properties: {{node: web-1}}\n"
    );
    world.create("web", &text).await;
    let (_, graph) = world.get("/v1/stacks/web/graph").await;
    let (motd, other) = (&graph["nodes"][0], &graph["nodes"][1]);
    assert_eq!(
        (&motd["name"], &motd["role"], &motd["phase"]),
        (&json!("motd"), &json!("forward"), &json!("node_away"))
    );
    assert_eq!(
        (&other["phase"], &other["ready"], &other["replaces"]),
        (&json!("waiting"), &json!(false), &Value::Null)
    );
    assert_eq!(graph["edges"], json!([{"resource_id": motd["id"], "needed_by": other["id"]}]));
    world.stop().await;
}

#[tokio::test]
async fn names_that_are_nearly_right_are_put_right() {
    let world = World::new().await;
    world.create("web", WAITING).await;
    for (line, message) in [
        ("GET /v1/stacks/wep", "no stack 'wep'; did you mean 'web'?"),
        ("GET /v1/stacks/wep/watch", "no stack 'wep'; did you mean 'web'?"),
        ("GET /v1/stacks/wep/template", "no stack 'wep'; did you mean 'web'?"),
        ("DELETE /v1/stacks/wep", "no stack 'wep'; did you mean 'web'?"),
        ("GET /v1/stacks/database", "no stack 'database'"),
        ("GET /v1/stacks/web/resources/mtod", "no resource 'mtod' in stack 'web'; did you mean 'motd'?"),
        ("GET /v1/nodes/web-1", "no node 'web-1'"),
    ] {
        let (status, answer) = world.ask(line, &Value::Null).await;
        assert_eq!((status, &answer["error"]["message"]), (404, &json!(message)), "{line}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_preview_says_what_would_become_of_each_and_changes_nothing() {
    let world = World::new().await;
    let secret = "\
heat_template_version: 2018-08-31
parameters:
  word: {type: string, hidden: true, default: hush}
resources:
  a: {type: Muster::Dummy, properties: {node: web-1, values: {x: {get_param: word}}}}
";
    let template = |text: &str| json!({"name": "t.yaml", "text": text});
    let (status, view) =
        world.ask("POST /v1/stacks/web/preview", &json!({"template": template(secret)})).await;
    assert_eq!((status, &view["counts"]["create"]), (200, &json!(1)), "{view}");
    assert_eq!(world.get("/v1/stacks").await.1, json!([]));

    world.create("web", secret).await;
    let before = world.get("/v1/stacks/web").await;
    let changed = secret.replace("  a:", "  b:");
    let (_, view) = world.ask("POST /v1/stacks/web/preview", &json!({"template": template(&changed)})).await;
    let rows: Vec<Value> =
        view["resources"].as_array().unwrap().iter().map(|row| json!([row["name"], row["change"]])).collect();
    assert_eq!(rows, [json!(["b", "create"])], "nothing of a was ever made");
    assert!(!view.to_string().contains("hush"), "{view}");
    let (_, view) = world
        .ask("POST /v1/stacks/web/preview", &json!({"existing": true, "parameters": {"word": "tell"}}))
        .await;
    assert!(!view.to_string().contains("tell") && !view.to_string().contains("hush"), "{view}");
    for (line, body, status) in [
        ("POST /v1/stacks/wep/preview", json!({}), 404),
        ("POST /v1/stacks/web/preview", json!({"template": template("resources: {}")}), 400),
        ("POST /v1/stacks/web/preview", json!({"templat": 1}), 400),
    ] {
        let answer = world.ask(line, &body).await;
        assert_eq!(answer.0, status, "{}", answer.1);
    }
    assert_eq!(world.get("/v1/stacks/web").await, before);
    assert_eq!(world.get("/v1/stacks/web/revisions").await.1.as_array().unwrap().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_preview_shows_what_differs_and_changes_nothing() {
    let world = World::new().await;
    let told = |greeting: &str, secret: &str| {
        format!(
            "heat_template_version: 2018-08-31
parameters:
  secret: {{type: string, hidden: true, default: {secret}}}
resources:
  motd:
    type: Muster::File
    properties: {{node: web-1, path: /etc/motd, content: {{list_join: [' ', [{greeting}, {{get_param: secret}}]]}}}}
"
        )
    };
    let body = |text: &str| json!({"template": {"name": "t.yaml", "text": text}});
    let (status, view) = world.ask("POST /v1/stacks/web/preview", &body(&told("hi", "hush"))).await;
    assert_eq!((status, &view["resources"][0]["change"]), (200, &json!("create")), "{view}");
    assert_eq!(view["warnings"], json!(["node web-1 has never joined and is waited for"]));
    let (status, _) = world.get("/v1/stacks/web").await;
    assert_eq!(status, 404, "nothing was made");
    world.create("web", &told("hi", "hush")).await;
    let (status, view) = world.ask("POST /v1/stacks/web/preview", &body(&told("ho", "hash"))).await;
    assert_eq!(
        (status, view["counts"].clone()),
        (200, json!({"create": 1})),
        "nothing was applied yet: {view}"
    );
    let text = view.to_string();
    assert!(text.contains("ho ******") && !text.contains("hash") && !text.contains("hush"), "{text}");
    let (status, _) = world.ask("POST /v1/stacks/web/preview", &body("resources: {")).await;
    assert_eq!(status, 400);
    let (_, view) = world.get("/v1/stacks/web").await;
    assert_eq!(view["revision"], 1);
    world.stop().await;
}

#[tokio::test]
async fn signals_are_taken_by_handles() {
    let world = World::new().await;
    let template = "heat_template_version: 2018-08-31
resources:
  h: {type: OS::Heat::WaitConditionHandle}
  w: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: h}, timeout: 600, count: 2}}
outputs: {at: {value: {get_attr: [h, endpoint]}}, data: {value: {get_attr: [w, data]}}}
";
    world.create("web", template).await;
    let (_, row) = world.get("/v1/stacks/web/resources/w").await;
    assert_eq!((&row["status"], &row["phase"]), (&json!("IN_PROGRESS"), &json!("signals")), "{row}");
    let signal = "POST /v1/stacks/web/resources/h/signal";
    let taken =
        |id: &str, again, signals| json!({"resource": "h", "id": id, "again": again, "signals": signals});
    assert_eq!(world.ask(signal, &Value::Null).await, (200, taken("1", false, 1)), "a body may be left out");
    assert_eq!(world.ask(signal, &json!({"id": 1, "data": "again"})).await, (200, taken("1", true, 1)));
    for (line, body, status, said) in [
        (signal, json!({"stat": 1}), 400, "unknown key 'stat'"),
        (signal, json!({"data": "x".repeat(70_000)}), 400, "over the limit of 65536"),
        (signal, json!({"data": "x".repeat(200_000)}), 400, "at most 131072 bytes"),
        ("POST /v1/stacks/web/resources/w/signal", json!({}), 400, "signal its handle 'h'"),
        ("POST /v1/stacks/web/resources/hh/signal", json!({}), 404, "did you mean 'h'"),
        ("POST /v1/stacks/other/resources/h/signal", json!({}), 404, "'other'"),
    ] {
        let (code, answer) = world.ask(line, &body).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(code == status && message.contains(said), "{line}: {code} {answer}");
    }
    let (code, answer) = ask(&world.socket(), signal, "{").await;
    assert!(code == 400 && answer.to_string().contains("no JSON"), "{answer}");
    assert_eq!(world.ask(signal, &json!({"id": "b"})).await, (200, taken("b", false, 2)));
    let (_, outputs) = world.get("/v1/stacks/web/outputs").await;
    assert_eq!(outputs[0]["value"], "/v1/stacks/web/resources/h/signal");
    assert_eq!(outputs[1]["value"], r#"{"1": "again", "b": null}"#);
    let (_, events) = world.get("/v1/stacks/web/events").await;
    let signals = events.as_array().unwrap().iter().filter(|event| event["action"] == "SIGNAL");
    let reasons: Vec<&str> = signals.map(|event| event["reason"].as_str().unwrap()).collect();
    let wanted = ["Signal 1 received", "Signal 2 received", "Signal 2 received"];
    assert_eq!(reasons, wanted.map(|reason| format!("status:SUCCESS reason:{reason}")));
    world.stop().await;
}

#[tokio::test]
async fn the_site_at_a_glance() {
    let world = World::new().await;
    for name in ["web-1", "web-2", "web-3"] {
        world.join(name).await;
    }
    world.events.connected(&"web-1".parse().unwrap(), 1);
    let on = json!({"on": true});
    assert_eq!(world.ask("POST /v1/nodes/web-2/maintenance", &on).await.0, 200);
    let hooks = "parameters: {}\nresource_registry: {resources: {motd: {hooks: pre-create}}}\n";
    let body = json!({"name": "web", "template": {"name": "t.yaml", "text": WAITING},
        "environments": [{"name": "e.yaml", "text": hooks}]});
    assert_eq!(world.ask("POST /v1/stacks", &body).await.0, 202);
    let mut site = loop {
        let (status, site) = world.get("/v1/status").await;
        assert_eq!(status, 200, "{site}");
        if site["agents"]["online"] == 1 {
            break site;
        }
    };
    let since = site.as_object_mut().unwrap().remove("since").unwrap();
    assert!(since.as_str().unwrap().ends_with('Z'), "{since}");
    let ca_left = site.as_object_mut().unwrap().remove("ca_left_s").unwrap();
    assert!(ca_left.as_u64().unwrap() > 19 * 365 * 86_400, "{ca_left}");
    assert_eq!(
        site,
        json!({"site": world.pki.site().to_string(), "role": "active", "epoch": 1, "restored": false,
            "store": "sqlite:/muster.db", "link": "direct", "link_problem": null, "read_only": null,
            "lease_problem": null,
            "controllers": [{"name": "c1", "role": "active", "since": since, "behind_s": 0}],
            "sites": [{"name": "default", "active": "c1"}],
            "agents": {"online": 1, "offline": 1, "maintenance": 1, "conflict": 0, "disk_full": 0},
            "waiting": {"restore": 0, "hooks": 1, "approvals": 0}})
    );
    world.stop().await;
}

#[tokio::test]
async fn lists_come_in_pages() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        assert_eq!(world.create(name, EMPTY).await.0, 202);
        world.join(&format!("web-{name}")).await;
    }
    let rows: String = ["x", "y", "z"]
        .iter()
        .map(|name| format!("  {name}: {{type: Muster::Dummy, properties: {{node: web-a}}}}\n"))
        .collect();
    let text = format!("heat_template_version: 2018-08-31\nresources:\n{rows}");
    assert_eq!(world.create("rows", &text).await.0, 202);
    let key = |list: &Value, key: &str| -> Vec<String> {
        let items = list.as_array().unwrap().iter();
        items.map(|item| item[key].as_str().map_or_else(|| item[key].to_string(), str::to_owned)).collect()
    };
    for (path, name, first, marker, rest) in [
        ("/v1/stacks?limit=2", "name", &["a", "b"][..], "b", &["c", "rows"][..]),
        ("/v1/nodes?limit=2", "name", &["web-a", "web-b"], "web-b", &["web-c"]),
        ("/v1/stacks/rows/resources?limit=2", "name", &["x", "y"], "y", &["z"]),
        ("/v1/stacks/rows/resources?all=true&limit=2", "name", &["x", "y"], "y", &["z"]),
        ("/v1/stacks/a/events?limit=1", "number", &["1"], "1", &["2"]),
    ] {
        let (status, page) = world.get(path).await;
        assert_eq!(
            (status, key(&page, name)),
            (200, first.iter().map(ToString::to_string).collect()),
            "{path}"
        );
        let (_, page) = world.get(&format!("{path}&marker={marker}")).await;
        assert_eq!(key(&page, name), rest, "{path}");
    }
    assert_eq!(key(&world.get("/v1/stacks/rows/resources").await.1, "name"), ["x", "y", "z"]);
    for path in [
        "/v1/stacks?limit=0",
        "/v1/nodes?limit=0",
        "/v1/nodes?marker=UPPER",
        "/v1/topology?key=a&marker=web-a/br0",
        "/v1/topology?devices=web-a/br0&marker=web-a/br0",
        "/v1/topology?devices=web-a",
        "/v1/stacks/rows/resources?limit=-1",
    ] {
        assert_eq!(world.get(path).await.0, 400, "{path}");
    }
    world.stop().await;
}

/// A wrong token is refused here, before an agent is asked, and the token is in no answer.
#[tokio::test]
async fn a_node_moves_with_a_token_of_another_site_alone() {
    let world = World::new().await;
    world.join("web-1").await;
    let own = |ttl| json!({"ttl": ttl, "uses": 1, "name": "web-1"});
    let (_, answer) = world.ask("POST /v1/tokens", &own(60)).await;
    let own: JoinToken = answer["token"].as_str().unwrap().parse().unwrap();
    let other = JoinToken { ca_fingerprint: [7; 32], ..own.clone() };
    let late = JoinToken { expires: 1, ..other.clone() };
    for (token, status, words) in [
        ("muster1-x".to_owned(), 400, "the join token is damaged"),
        (String::new(), 400, "this is not a join token"),
        (own.to_string(), 400, "the join token is of this site"),
        (late.to_string(), 400, "the join token has expired"),
        (other.to_string(), 409, "node 'web-1' is not connected"),
    ] {
        let (was, answer) = world.ask("POST /v1/nodes/web-1/move", &json!({"token": token})).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert_eq!(was, status, "{message}");
        assert!(message.contains(words) && (token.is_empty() || !message.contains(&token)), "{message}");
    }
    let (status, answer) = world.ask("POST /v1/nodes/web-9/move", &json!({"token": other.to_string()})).await;
    assert_eq!(status, 404, "{answer}");
    for body in [json!({}), json!({"token": 5}), json!({"token": "x", "site": "lab-b"})] {
        assert_eq!(world.ask("POST /v1/nodes/web-1/move", &body).await.0, 400, "{body}");
    }
    world.stop().await;
}
