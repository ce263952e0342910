use std::fs;
use std::path::Path;

use crate::{muster, outcome};

const TEMPLATE: &str = "\
heat_template_version: 2018-08-31
parameters:
  greeting: {type: string, description: what it says}
  port: {type: number, default: 1}
resources:
  motd:
    type: Muster::File
    properties:
      node: web-1
      path: /etc/motd
      content: {get_param: greeting}
";

fn written(folder: &Path, text: &str) -> String {
    fs::write(folder.join("t.yaml"), text).unwrap();
    folder.join("t.yaml").display().to_string()
}

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in [
        "",
        "stack",
        "stack fly",
        "stack create web",
        "stack create 1web -t x.yaml",
        "stack create web -t x.yaml -P nonsense",
        "stack create web -t x.yaml --timeout 0",
        "stack create web -t x.yaml --timeout 2000d",
        "stack create web -t x.yaml -e",
        "stack cancel",
        "stack graph web -o png",
        "stack update web --converge=no",
        "stack delete web --timeout 5",
        "node show UPPER",
        "node token",
        "node token --uses 5 --label role=web",
        "node token --name web-1 --any-name",
        "node token --ttl soon",
        "node token --uses 0",
        "node token --rate 10",
        "node token --rate 0/s",
        "node move web-1",
        "node move web-1 --site lab-b --token muster1-x",
        "node move web-1 --site LAB",
        "node list -l =x",
        "node list -l role<in",
        "node label web-1",
        "node label web-1 role",
        "resource clear-hook web motd create",
        "resource list",
        "intent submit",
        "intent submit -f x --timeout 5",
        "intent withdraw",
        "intent purge",
        "intent list --state GONE",
        "topology show -o png",
        "intent list -o svg",
        "resource signal web",
        "resource signal web ready --data {",
        "resource signal web ready --data {} -f x",
        "resource signal web ready -f /nowhere/signal.json",
        "completion tcsh",
        "stack list -o xml",
        "type show",
        "type show Muster::Fil",
        "template functions --version 2018-08-30",
    ] {
        let (code, stdout, stderr) = outcome(&mut muster(arguments));
        assert_eq!(code, Some(2), "{arguments}: {stderr}");
        assert_eq!(stdout, "", "{arguments}");
        assert!(stderr.starts_with("error: ") || stderr.contains("Usage: muster"), "{arguments}: {stderr}");
    }
}

#[test]
fn a_selector_of_another_tool_is_refused_with_an_example() {
    let (code, stdout, stderr) = outcome(muster("node list -l").arg("role in (a)"));
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("'role in (a)' is not a selector: want k=v"), "{stderr}");
    assert!(stderr.contains("such as role=web,zone!=b"), "{stderr}");
}

#[test]
fn a_template_comes_from_stdin_and_not_from_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, stderr) = outcome(muster("stack validate -t").arg(folder.path()));
    let wanted = format!("error: {}: it is a directory; name a file in it\n", folder.path().display());
    assert_eq!((code, stderr), (Some(2), wanted));
    let output = muster("stack validate -t -").write_stdin(TEMPLATE).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && stdout.starts_with("stdin is valid: 1 resources\n"), "{stdout}");
}

#[test]
fn a_token_is_for_a_name_or_says_that_it_is_for_any() {
    let (code, stdout, stderr) = outcome(&mut muster("node token --url unix:///nonexistent"));
    assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(2), "", 1), "{stderr}");
    assert!(stderr.contains("--name web-1.example.org") && stderr.contains("--any-name"), "{stderr}");
}

#[test]
fn other_places_are_refused_and_another_machine_needs_a_token() {
    for url in ["https://controller:port", "http://x", "nonsense"] {
        let (code, _, stderr) = outcome(muster("stack list --url").arg(url));
        assert_eq!(code, Some(2), "{url}");
        assert!(stderr.starts_with(&format!("error: --url '{url}': ")), "{stderr}");
    }
    let (code, _, stderr) = outcome(muster("stack list").env("MUSTER_URL", "https://x"));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("muster login https://x"), "{stderr}");
    let (code, _, stderr) = outcome(muster("stack list --url https://x").env("MUSTER_TOKEN", "a-secret"));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("MUSTER_TOKEN") && !stderr.contains("a-secret"), "{stderr}");
}

#[test]
fn no_controller_ends_with_4() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("unix://{}/api.sock", folder.path().display());
    for arguments in [
        "stack list",
        "node token --any-name",
        "stack delete web --wait",
        "resource list web",
        "stack events web --follow",
    ] {
        let (code, stdout, stderr) = outcome(muster(arguments).env("MUSTER_URL", &url));
        assert_eq!(code, Some(4), "{arguments}: {stderr}");
        assert_eq!(stdout, "");
        assert!(stderr.starts_with("error: cannot reach the controller at "), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_bad_file_is_found_before_the_controller_is_asked() {
    let (code, _, stderr) =
        outcome(&mut muster("stack create web -t /nonexistent/t.yaml --url unix:///nonexistent"));
    assert_eq!(
        (code, stderr.as_str()),
        (Some(2), "error: /nonexistent/t.yaml: No such file or directory (os error 2)\n")
    );
}

#[test]
fn a_valid_template() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), TEMPLATE);
    let (code, stdout, stderr) = outcome(muster("stack validate -P port=7 -t").arg(&file));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(
        stdout,
        format!(
            "{file} is valid: 1 resources\nrequired parameter not given: greeting (string)  what it says\n"
        )
    );
    let (code, stdout, _) = outcome(muster("stack validate -P greeting=hi -t").arg(&file));
    assert_eq!((code, stdout), (Some(0), format!("{file} is valid: 1 resources\n")));
    let (code, stdout, _) = outcome(muster("stack validate -o json -t").arg(&file));
    let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, Some(0));
    assert_eq!(answer["valid"], true);
    assert_eq!(answer["missing_parameters"], serde_json::json!(["greeting"]));
}

#[test]
fn environments_give_values_and_have_places() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), TEMPLATE);
    let environment = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let good = environment(
        "a.yaml",
        "parameters: {greeting: hi}\nresource_registry: {resources: {mo*: {hooks: pre-create}}}\n",
    );
    let bad = environment("b.yaml", "parameters: {port: x}\n");
    let worse = environment("c.yaml", "event_sinks: [{type: zaqar-queue}]\nparameters: {prot: 1}\n");
    let validate = |environments: &[&str]| {
        let mut command = muster("stack validate -t");
        command.arg(&file);
        for name in environments {
            command.args(["-e", name]);
        }
        outcome(&mut command)
    };
    assert_eq!(validate(&[&good]), (Some(0), format!("{file} is valid: 1 resources\n"), String::new()));
    let (code, stdout, stderr) = validate(&[&good, &bad]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.starts_with(&format!("error: {bad}:1:20: parameters.port: want a number")), "{stderr}");
    let (code, _, stderr) = validate(&[&worse]);
    assert_eq!(code, Some(2));
    assert!(stderr.starts_with(&format!("error: {worse}:1:1: event_sinks: ")), "{stderr}");
    let maps = environment("d.yaml", "resource_registry: {'Muster::*': OS::Heat::None}\n");
    assert_eq!(
        validate(&[&good, &maps]),
        (Some(0), format!("{file} is valid: 1 resources\n"), String::new())
    );
    let maps = environment("e.yaml", "resource_registry: {'Muster::*': OS::Heat::Nothing}\n");
    let (code, _, stderr) = validate(&[&good, &maps]);
    assert_eq!(code, Some(2));
    assert!(
        stderr.starts_with(&format!("error: {file}:6:3: resources.motd: unknown resource type")),
        "{stderr}"
    );
    let lost = environment("l.yaml", "resource_registry: {'Muster::File': lost.yaml}\n");
    let (code, _, stderr) = validate(&[&lost]);
    assert_eq!(code, Some(2));
    let place = format!("error: {lost}:1:37: resource_registry.Muster::File: cannot read ");
    assert!(stderr.starts_with(&place), "{stderr}");
    let (code, _, stderr) = validate(&["/nonexistent/e.yaml"]);
    assert_eq!(
        (code, stderr.as_str()),
        (Some(2), "error: /nonexistent/e.yaml: No such file or directory (os error 2)\n")
    );
}

#[test]
fn bad_templates_end_with_2_and_their_places() {
    let folder = tempfile::tempdir().unwrap();
    for (text, arguments, wanted) in [
        (
            TEMPLATE.replace("get_param: greeting", "get_param: greating"),
            "",
            ":11:16: resources.motd.properties.content",
        ),
        (TEMPLATE.replace("Muster::File", "Muster::Fil"), "", ":7:11: resources.motd.type: "),
        (TEMPLATE.replace("content:", "contents:"), "", ":11:7: resources.motd.properties"),
        (TEMPLATE.replace("  motd:", " - motd:"), "", ":"),
        (TEMPLATE.to_owned(), " -P port=x", "error: -P port: want a number, got text ("),
        (TEMPLATE.to_owned(), " -P prot=1", "unknown parameter 'prot'; did you mean 'port'?"),
        (String::new(), "", ":1:1: the template is empty"),
    ] {
        let file = written(folder.path(), &text);
        let (code, stdout, stderr) = outcome(muster(&format!("stack validate{arguments} -t")).arg(&file));
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
        let named = [format!("error: {file}"), "error: -P ".to_owned()];
        let is_named = |line: &str| named.iter().any(|start| line.starts_with(start));
        assert!(stderr.lines().all(is_named), "{stderr}");
        assert!(stderr.contains(wanted), "{wanted}: {stderr}");
    }
}

#[test]
fn what_there_is_is_told_without_a_controller() {
    let json = |arguments: &str| -> serde_json::Value {
        let (code, stdout, stderr) =
            outcome(&mut muster(&format!("{arguments} -o json --url unix:///nonexistent")));
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments}");
        serde_json::from_str(&stdout).unwrap()
    };
    let names = |list: &serde_json::Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    let types = names(&json("type list"));
    assert!(types.is_sorted() && types.iter().any(|name| name == "Muster::File"), "{types:?}");
    for name in &types {
        let shown = json(&format!("type show {name}"));
        assert_eq!(shown["name"], name.as_str());
        assert!(shown["properties"].is_array() && shown["attributes"].is_array(), "{shown}");
    }
    let (code, _, stderr) = outcome(&mut muster("type show Muster::Fil"));
    let wanted = "error: there is no type 'Muster::Fil'; did you mean 'Muster::File'?; 'muster type list' has all of them\n";
    assert_eq!((code, stderr.as_str()), (Some(2), wanted));
    let all = names(&json("template functions"));
    let functions = |version: &str| names(&json(&format!("template functions --version {version}")));
    assert_eq!(functions("wallaby"), all);
    assert_eq!(functions("2016-10-14"), functions("newton"));
    // As in Heat's guide.
    let has = |version: &str, name: &str| functions(version).iter().any(|found| found == name);
    for (name, before, since) in [
        ("digest", "2014-10-16", "2015-04-30"),
        ("map_merge", "2015-10-15", "2016-04-08"),
        ("yaql", "2016-04-08", "newton"),
        ("filter", "newton", "ocata"),
        ("make_url", "ocata", "pike"),
        ("str_replace_vstrict", "ocata", "pike"),
    ] {
        assert!(!has(before, name) && has(since, name), "{name}");
    }
    let conditions = json("template functions --version newton");
    let row =
        |name: &str| conditions.as_array().unwrap().iter().find(|row| row["name"] == name).cloned().unwrap();
    assert_eq!(
        (&row("equals")["since"], &row("equals")["in_conditions"]),
        (&serde_json::Value::Null, &"2016-10-14".into())
    );
    let (code, stdout, _) = outcome(&mut muster("template functions --version 2013-05-23"));
    assert_eq!(code, Some(0));
    assert!(stdout.starts_with("FUNCTION ") && stdout.contains("{get_resource: RESOURCE}"), "{stdout}");
    let (_, _, stderr) = outcome(&mut muster("template functions --version rocki"));
    assert!(stderr.contains("unknown version; did you mean 'rocky'?"), "{stderr}");
}

#[test]
fn completion_and_man_pages() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, stdout, _) = outcome(&mut muster(&format!("completion {shell}")));
        assert_eq!(code, Some(0));
        assert!(stdout.contains("token-revoke"), "{shell}");
        assert!(stdout.contains("node"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (code, _, stderr) = outcome(muster("generate man").arg(folder.path().join("man")));
    assert_eq!(code, Some(0), "{stderr}");
    let page = fs::read_to_string(folder.path().join("man/muster-stack-create.1")).unwrap();
    assert!(page.contains("muster stack create web"), "{page}");
    let (code, _, stderr) = outcome(muster("generate completion").arg(folder.path().join("c")));
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(fs::read_dir(folder.path().join("c")).unwrap().count(), 3);
}

#[test]
fn validate_counts_the_errors_it_does_not_print() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.yaml");
    let wrong: String = (0..23).map(|n| format!("  r{n}: {{type: Muster::Fil}}\n")).collect();
    fs::write(&file, format!("heat_template_version: 2018-08-31\nresources:\n{wrong}")).unwrap();
    let (code, _, stderr) = outcome(muster("stack validate -t").arg(&file));
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!((code, lines.len()), (Some(2), 21), "{stderr}");
    assert!(lines[20].ends_with(": and 3 more errors"), "{stderr}");
    // What is only missing is no error, however much it is; a wrong value beside it is.
    let missing: String = (0..30).map(|n| format!("  p{n}: {{type: string}}\n")).collect();
    let text = format!(
        "heat_template_version: 2018-08-31\nparameters:\n{missing}  z: {{type: number, default: x}}\n"
    );
    fs::write(&file, &text).unwrap();
    let (code, _, stderr) = outcome(muster("stack validate -t").arg(&file));
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!((code, lines.len()), (Some(2), 1), "{stderr}");
    assert!(stderr.contains("parameters.z.default: want a number, got text"), "{stderr}");
    fs::write(&file, text.replace("default: x", "default: 1")).unwrap();
    let (code, stdout, stderr) = outcome(muster("stack validate -t").arg(&file));
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
}

/// Each place, by line; exit code 1 where there is one.
#[test]
fn lint_names_what_surprises() {
    let folder = tempfile::tempdir().unwrap();
    let text = "heat_template_version: wallaby\noutputs:\n  o: {value: [yes, 0644]}# both\n  p:\n    value: 1\n    value: 2\n";
    let path = written(folder.path(), text);
    let (code, out, error) = outcome(muster("template lint").arg(&path));
    assert_eq!(code, Some(1), "{error}");
    let lines: Vec<&str> = out.lines().map(|line| line.strip_prefix(&format!("{path}:")).unwrap()).collect();
    assert_eq!(
        lines,
        [
            "3:15: outputs.o.value[0]: yes is true; quote it if text is meant",
            "3:20: outputs.o.value[1]: 0644 is the octal number 420; quote it if text is meant",
            "3:26: a comment begins here, though no blank is before '#'",
            "6:5: outputs.p.value: this key is given twice, and this one counts; the first is at 5:5",
        ]
    );
    assert_eq!(error, format!("error: {path}: 4 places are read in another way than they look\n"));

    let (code, out, _) = outcome(muster("template lint -o json").arg(&path));
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, found.as_array().unwrap().len()), (Some(1), 4));
    assert_eq!((&found[1]["kind"], &found[1]["line"]), (&"octal".into(), &3.into()));

    let clean = written(folder.path(), TEMPLATE);
    let (code, out, error) = outcome(muster("template lint").arg(clean));
    assert_eq!((code, out.as_str(), error.as_str()), (Some(0), "", ""));
    let no_yaml = written(folder.path(), "a: [b\n");
    let (code, _, error) = outcome(muster("template lint").arg(no_yaml));
    assert_eq!(code, Some(2));
    assert!(error.contains("not valid YAML"), "{error}");
}
