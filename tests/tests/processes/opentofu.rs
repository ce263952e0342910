//! The requests of `examples/opentofu`, as its provider makes them by its documentation: the file's expressions are
//! evaluated, a real controller answers over TLS, and an agent does it. OpenTofu and its providers themselves are not here.

use std::path::{Path, PathBuf};

use hcl::eval::{Context, Evaluate as _, FuncArgs, FuncDef, ParamType};
use hcl::{Block, Body, Expression, Value};
use muster_testbed::{Running, command, eventually, port};
use muster_tests::site::Site;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/opentofu")
}

/// `main.tf` with values for its variables.
struct Configuration {
    body: Body,
    context: Context<'static>,
}

fn jsonencode(arguments: FuncArgs) -> Result<Value, String> {
    serde_json::to_string(&arguments[0]).map(Value::from).map_err(|error| error.to_string())
}

fn jsondecode(arguments: FuncArgs) -> Result<Value, String> {
    let text = arguments[0].as_str().ok_or("no text")?;
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn file(arguments: FuncArgs) -> Result<Value, String> {
    let path = arguments[0].as_str().ok_or("no path")?;
    std::fs::read_to_string(path).map(Value::from).map_err(|error| format!("{path}: {error}"))
}

fn merge(arguments: FuncArgs) -> Result<Value, String> {
    let mut all = hcl::Map::new();
    for argument in arguments.iter() {
        all.extend(argument.as_object().ok_or("no object")?.clone());
    }
    Ok(Value::Object(all))
}

fn function(parameters: usize, function: fn(FuncArgs) -> Result<Value, String>) -> FuncDef {
    (0..parameters).fold(FuncDef::builder(), |builder, _| builder.param(ParamType::Any)).build(function)
}

fn object(members: &[(&str, Value)]) -> Value {
    Value::Object(members.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

impl Configuration {
    /// With these values; other variables have their defaults.
    fn read(given: &[(&str, &str)]) -> Self {
        let text = std::fs::read_to_string(folder().join("main.tf")).unwrap();
        let body = hcl::parse(&text).unwrap();
        let mut context = Context::new();
        context.declare_func("jsonencode", function(1, jsonencode));
        context.declare_func("jsondecode", function(1, jsondecode));
        context.declare_func("file", function(1, file));
        context.declare_func("merge", function(2, merge));
        context.declare_var("path", object(&[("module", folder().display().to_string().into())]));
        let mut variables = hcl::Map::new();
        for block in body.blocks().filter(|block| block.identifier() == "variable") {
            let name = block.labels()[0].as_str();
            let value = given.iter().find(|(key, _)| *key == name).map(|(_, value)| Value::from(*value));
            let default = || argument(block, "default").map(|default| default.evaluate(&context).unwrap());
            variables.insert(name.to_owned(), value.or_else(default).unwrap());
        }
        for (key, _) in given {
            assert!(variables.contains_key(*key), "main.tf has no variable {key}");
        }
        context.declare_var("var", Value::Object(variables));
        let mut it = Self { body, context };
        // In their order: each may name those before.
        let mut locals = hcl::Map::new();
        let block = it.block(&["locals"]).clone();
        for attribute in block.body().attributes() {
            locals.insert(attribute.key().to_owned(), attribute.expr().evaluate(&it.context).unwrap());
            it.context.declare_var("local", Value::Object(locals.clone()));
        }
        it
    }

    fn block(&self, path: &[&str]) -> &Block {
        find(&self.body, path).unwrap_or_else(|| panic!("main.tf has no {path:?}"))
    }

    fn value(&self, block: &Block, key: &str) -> Value {
        argument(block, key).unwrap_or_else(|| panic!("no {key}")).evaluate(&self.context).unwrap()
    }

    fn text(&self, block: &Block, key: &str) -> String {
        self.value(block, key).as_str().unwrap().to_owned()
    }
}

/// A block by its identifier and labels.
fn find<'b>(body: &'b Body, path: &[&str]) -> Option<&'b Block> {
    body.blocks().find(|block| {
        let labels = block.labels().iter().map(|label| label.as_str());
        std::iter::once(block.identifier()).chain(labels).eq(path.iter().copied())
    })
}

fn argument<'b>(block: &'b Block, key: &str) -> Option<&'b Expression> {
    block.body().attributes().find(|attribute| attribute.key() == key).map(|attribute| attribute.expr())
}

/// The provider's operations on an object: its arguments, as its documentation has them.
struct Provider<'c> {
    of: &'c Configuration,
    object: &'c Block,
}

impl Provider<'_> {
    /// The status and the body of an answer.
    fn ask(&self, method: &str, path: &str, data: Option<&str>) -> (u32, serde_json::Value) {
        let provider = self.of.block(&["provider", "restapi"]);
        let mut curl = command(None, "curl");
        curl.args(["-s", "-X", method, "-w", "\n%{http_code}"]);
        curl.arg("--cacert").arg(self.of.text(provider, "root_ca_file"));
        for (name, value) in self.of.value(provider, "headers").as_object().unwrap() {
            curl.arg("-H").arg(format!("{name}: {}", value.as_str().unwrap()));
        }
        curl.args(data.map(|data| ["--data-binary", data]).into_iter().flatten());
        curl.arg(format!("{}{path}", self.of.text(provider, "uri")));
        let answer = Running::start(curl).finish().expect(0).stdout;
        let (body, status) = answer.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")))
    }

    /// `path/{id}`, where the id is a value of `data`.
    fn path(&self) -> String {
        let data: serde_json::Value = serde_json::from_str(&self.of.text(self.object, "data")).unwrap();
        let id = data[self.of.text(self.object, "id_attribute")].as_str().unwrap().to_owned();
        format!("{}/{id}", self.of.text(self.object, "path"))
    }

    fn create(&self) -> (u32, serde_json::Value) {
        let data = self.of.text(self.object, "data");
        self.ask("POST", &self.of.text(self.object, "path"), Some(&data))
    }

    fn update(&self) -> (u32, serde_json::Value) {
        self.ask("PUT", &self.path(), Some(&self.of.text(self.object, "update_data")))
    }
}

#[test]
fn the_requests_of_the_opentofu_example_are_answered() {
    let mut site = Site::start();
    let address = format!("127.0.0.1:{}", port());
    site.configure(&format!("[controller]\napi = '{address}'\n"));
    site.kill();
    site.restart();
    let agent = site.join("web-1.example.org");
    let token = site.ok(&["user", "create", "tofu", "--role", "operator"]).trim().to_owned();
    let (url, ca) = (format!("https://{address}"), site.ca().display().to_string());
    let motd = agent.file("motd").display().to_string();
    let with = |greeting: &str| {
        Configuration::read(&[
            ("muster_url", url.as_str()),
            ("muster_token", token.as_str()),
            ("muster_ca", ca.as_str()),
            ("node", agent.name.as_str()),
            ("path", motd.as_str()),
            ("greeting", greeting),
        ])
    };
    let hello = with("hello");
    let stack = hello.block(&["resource", "restapi_object", "stack"]);
    let provider = Provider { of: &hello, object: stack };
    eventually("the API answers", || {
        let mut curl = command(None, "curl");
        curl.args(["-s", "--cacert", &ca, &url]);
        (Running::start(curl).finish().status == 0).then_some(())
    });

    // A plan of a stack that is not there, then an apply; the provider reads what it has made.
    assert_eq!(provider.ask("GET", &provider.path(), None).0, 404);
    assert_eq!(provider.create().0, 202);
    let (status, read) = provider.ask("GET", &provider.path(), None);
    assert_eq!((status, read["name"].as_str()), (200, Some("web")), "{read}");
    let complete = |of: &Configuration| {
        eventually("the check holds", || {
            let check = of.block(&["check", "stack"]);
            let data = find(check.body(), &["data", "http", "stack"]).unwrap();
            let path = of.text(data, "url").strip_prefix(&url).unwrap().to_owned();
            let stack = of.block(&["resource", "restapi_object", "stack"]);
            assert!(of.text(data, "ca_cert_pem").starts_with("-----BEGIN CERTIFICATE-----"));
            let (_, answer) = Provider { of, object: stack }.ask("GET", &path, None);
            let body = object(&[("response_body", answer.to_string().into())]);
            let mut context = of.context.clone();
            context.declare_var("data", object(&[("http", object(&[("stack", body)]))]));
            let condition = argument(find(check.body(), &["assert"]).unwrap(), "condition").unwrap();
            condition.evaluate(&context).unwrap().as_bool().unwrap().then_some(())
        });
    };
    complete(&hello);
    assert_eq!(agent.content("motd").as_deref(), Some("hello"));

    // A changed variable, and the same once more.
    let morning = with("good morning");
    let stack = morning.block(&["resource", "restapi_object", "stack"]);
    let changed = Provider { of: &morning, object: stack };
    for _ in 0..2 {
        let (status, answer) = changed.update();
        assert_eq!(status, 202, "{answer}");
        eventually("the file has changed", || {
            (agent.content("motd").as_deref() == Some("good morning")).then_some(())
        });
        complete(&morning);
    }

    // The name belongs to the path of an update.
    let (status, answer) = changed.ask("PUT", &changed.path(), Some(&morning.text(stack, "data")));
    assert_eq!(status, 400, "{answer}");
    assert_eq!(changed.ask("DELETE", &changed.path(), None).0, 202);
    eventually("it is gone", || (changed.ask("GET", &changed.path(), None).0 == 404).then_some(()));
    assert_eq!(agent.content("motd"), None);
}
