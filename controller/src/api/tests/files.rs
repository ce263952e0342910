//! Files that come with templates and environments: which are taken, kept and missed.

use muster_shared::StackName;

use super::*;

const TEMPLATE: &str = "heat_template_version: 2018-08-31\noutputs: {o: {value: {get_file: f}}}\n";

impl World {
    /// The keys of a stack's files.
    fn files(&self) -> Vec<String> {
        let name: StackName = "web".parse().unwrap();
        let reader = self.reader();
        reader.source(&name, None).unwrap().unwrap().1.files.into_keys().collect()
    }
}

fn environment(name: &str, key: &str, registry: &str) -> Value {
    json!({"name": name, "key": key, "text": format!("resource_registry: {registry}")})
}

#[tokio::test]
async fn files_are_kept_as_long_as_something_names_them() {
    let world = World::new().await;
    let template = json!({"name": "t.yaml", "text": TEMPLATE, "files": {"f": "one"}});
    let site = environment("site", "envs/site.yaml", "{'A::B': own/b.yaml}");
    let own = json!({"envs/own/b.yaml": "resources: {r: {type: c.yaml}}", "envs/own/c.yaml": "r: {get_file: ../d}", "envs/d": "d"});
    let body = json!({"name": "web", "template": template, "environments": [site], "files": own});
    let (status, answer) = world.ask("POST /v1/stacks", &body).await;
    assert_eq!(status, 202, "{answer}");
    let all = ["envs/d", "envs/own/b.yaml", "envs/own/c.yaml", "f"];
    assert_eq!(world.files(), all);
    let two = json!({"name": "t.yaml", "text": TEMPLATE, "files": {"f": "two"}});
    let written = json!({"name": "t.yaml", "text": TEMPLATE.replace("get_file: f", "get_file: ./f"), "files": {"./f": "four"}});
    let other = environment("other", "/srv/other.yaml", "{'A::C': c.yaml}");
    let others = json!({"/srv/c.yaml": ""});
    for (body, said, wanted) in [
        (json!({"existing": true}), "one", &all[..]),
        (json!({"existing": true, "template": two}), "two", &all),
        (json!({"existing": true, "files": {"f": "three"}}), "three", &all),
        (
            json!({"existing": true, "environments": [other], "files": others}),
            "three",
            &["/srv/c.yaml", "envs/d", "envs/own/b.yaml", "envs/own/c.yaml", "f"],
        ),
        (json!({"environments": [other], "files": others}), "three", &["/srv/c.yaml", "f"]),
        (json!({}), "three", &["f"]),
        (json!({"template": written}), "four", &["./f"]),
        (json!({}), "four", &["./f"]),
    ] {
        let (status, answer) = world.ask("PUT /v1/stacks/web", &body).await;
        assert_eq!(status, 202, "{body} {answer}");
        assert_eq!(world.files(), wanted, "{body}");
        assert_eq!(world.get("/v1/stacks/web/outputs").await.1[0]["value"], said, "{body}");
    }
    world.stop().await;
}

/// The controller never looks for a file itself.
#[tokio::test]
async fn what_is_not_given_is_missed() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("f");
    std::fs::write(&here, "secret").unwrap();
    let absolute = TEMPLATE.replace("get_file: f", &format!("get_file: {}", here.display()));
    let text = |text: &str| json!({"name": "t.yaml", "text": text});
    let site = environment("site", "envs/site.yaml", "\n  A::B: own/b.yaml");
    for (body, place, message) in [
        (
            json!({"name": "web", "template": text(TEMPLATE)}),
            json!(["t.yaml", 2, 22, "outputs.o.value.get_file"]),
            "the file 'f' was not given with the template",
        ),
        (
            json!({"name": "web", "template": text(&absolute)}),
            json!(["t.yaml", 2, 22, "outputs.o.value.get_file"]),
            "was not given with the template",
        ),
        (
            json!({"name": "web", "template": text(EMPTY), "environments": [site], "files": {"envs/own/c.yaml": ""}}),
            json!(["site", 2, 9, "resource_registry.A::B"]),
            "the file 'envs/own/b.yaml' was not given with the environment; did you mean 'envs/own/c.yaml'?",
        ),
    ] {
        let (status, answer) = world.ask("POST /v1/stacks", &body).await;
        let error = &answer["error"]["errors"][0];
        assert_eq!(status, 400, "{answer}");
        assert_eq!(json!([error["file"], error["line"], error["column"], error["path"]]), place, "{answer}");
        assert!(error["message"].as_str().unwrap().contains(message), "{answer}");
    }
    for files in [json!(["f"]), json!({"f": 1}), json!({"f": null}), json!("f")] {
        let body = json!({"name": "web", "template": text(TEMPLATE), "files": files});
        let (status, answer) = world.ask("POST /v1/stacks", &body).await;
        assert_eq!(status, 400, "{answer}");
        assert!(
            answer["error"]["message"].as_str().unwrap().contains("the request's body is wrong"),
            "{answer}"
        );
    }
    assert_eq!(world.get("/v1/stacks/web").await.0, 404);
    world.stop().await;
}
