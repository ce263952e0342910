//! Files that templates and environments name are sent along from the operator's disk, wherever they lie there.

use std::fs;

use muster_tests::site::{Agent, Site};

/// A bundle of files as operators keep them: stacks, environments and contents in folders of their own.
struct Bundle {
    site: Site,
    web1: Agent,
}

impl Bundle {
    fn new() -> Self {
        let site = Site::start();
        let web1 = site.join("web-1");
        let bundle = Self { site, web1 };
        bundle.write(
            "stacks/web/root.yaml",
            &format!(
                "heat_template_version: 2018-08-31\nparameters: {{motd: {{type: string}}}}\nresources:\n  \
                 motd: {{type: Muster::File, properties: {{node: web-1, path: {}, content: {{get_param: motd}}}}}}\n  \
                 deep: {{type: Muster::File, properties: {{node: web-1, path: {}, content: {{get_file: ./parts/../parts/deep/text}}}}}}\n  \
                 up: {{type: Muster::File, properties: {{node: web-1, path: {}, content: {{get_file: ../../contents/up}}}}}}\n",
                bundle.web1.file("motd").display(),
                bundle.web1.file("deep").display(),
                bundle.web1.file("up").display(),
            ),
        );
        bundle.write("stacks/web/parts/deep/text", "deep\n");
        bundle.write("contents/up", "up\n");
        bundle.write("envs/prod/site.yaml", "parameter_defaults: {motd: prod}\n");
        bundle
    }

    fn path(&self, name: &str) -> String {
        self.site.path().join("bundle").join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn contents(&self) -> [Option<String>; 3] {
        ["motd", "deep", "up"].map(|name| self.web1.content(name))
    }

    #[track_caller]
    fn has(&self, motd: &str, deep: &str, up: &str) {
        assert_eq!(self.contents(), [motd, deep, up].map(|text| Some(text.to_owned())));
    }
}

/// Nested stacks in folders of their own, by file and by type, each with a file beside it.
#[test]
fn nested_templates_find_what_is_beside_them() {
    let bundle = Bundle::new();
    let nested = |name: &str| {
        format!(
            "heat_template_version: 2018-08-31\nparameters: {{tail: {{type: string, default: nobody}}}}\nresources:\n  \
             file:\n    type: Muster::File\n    properties:\n      node: web-1\n      path: {}\n      \
             content: {{list_join: ['', [{{get_file: text}}, {{get_param: tail}}]]}}\n",
            bundle.web1.file(name).display()
        )
    };
    bundle.write("stacks/web/parts/nested.yaml", &nested("by-file"));
    bundle.write("stacks/web/parts/text", "beside parts, ");
    bundle.write("library/mapped.yaml", &nested("by-type"));
    bundle.write("library/text", "beside library, ");
    bundle.write(
        "envs/prod/nested.yaml",
        "parameter_defaults: {tail: default}\nresource_registry: {My::Text: ../../library/mapped.yaml}\n",
    );
    bundle.write(
        "stacks/web/nested.yaml",
        "heat_template_version: 2018-08-31\nresources:\n  \
         by_file: {type: parts/nested.yaml, properties: {tail: root}}\n  \
         by_type: {type: 'My::Text'}\n",
    );
    let (site, root) = (&bundle.site, bundle.path("stacks/web/nested.yaml"));
    let environment = bundle.path("envs/prod/nested.yaml");
    site.ok(&["stack", "validate", "-t", &root, "-e", &environment]);
    site.ok(&["stack", "create", "s", "-t", &root, "-e", &environment, "--wait"]);
    let contents = || ["by-file", "by-type"].map(|name| bundle.web1.content(name).unwrap_or_default());
    assert_eq!(contents(), ["beside parts, root", "beside library, default"]);
    assert_eq!(site.resource("s", "by_file/file")["status"], "COMPLETE");
    // What is beside them has changed, and is read anew with the template alone.
    bundle.write("library/text", "changed, ");
    site.ok(&["stack", "update", "s", "--existing", "--wait"]);
    assert_eq!(contents(), ["beside parts, root", "beside library, default"]);
    // The environment alone is given anew: its files have absolute keys then.
    site.ok(&["stack", "update", "s", "-e", &environment, "--wait"]);
    assert_eq!(contents(), ["beside parts, root", "changed, default"]);
    let ran = site.muster(&["stack", "create", "t", "-t", &root]).expect(2);
    assert!(ran.stderr.starts_with(&format!("error: {root}:4:")), "{}", ran.stderr);
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(bundle.web1.listing(), [""; 0]);
}

#[test]
fn a_bundle_of_folders_is_applied_and_kept_with_the_stack() {
    let bundle = Bundle::new();
    let (site, root) = (&bundle.site, bundle.path("stacks/web/root.yaml"));
    let environment = bundle.path("envs/prod/site.yaml");
    site.ok(&["stack", "create", "s", "-t", &root, "-e", &environment, "--wait"]);
    bundle.has("prod", "deep\n", "up\n");
    // The stack has its files: nothing is read anew without the template.
    bundle.write("contents/up", "changed\n");
    site.ok(&["stack", "update", "s", "--existing", "-P", "motd=hi", "--wait"]);
    bundle.has("hi", "deep\n", "up\n");
    site.ok(&["stack", "update", "s", "-t", &root, "-e", &environment, "--wait"]);
    bundle.has("prod", "deep\n", "changed\n");
    // One that is missing is said before anything changes, and a pipe is not waited for.
    let before = bundle.contents();
    let missing = bundle.path("stacks/web/parts/deep/text");
    fs::remove_file(&missing).unwrap();
    for (reason, make) in [("No such file or directory", None), ("it is no regular file", Some("mkfifo"))] {
        if let Some(program) = make {
            assert!(std::process::Command::new(program).arg(&missing).status().unwrap().success());
        }
        for verb in ["update", "preview"] {
            let ran = site.muster(&["stack", verb, "s", "-t", &root, "-e", &environment]).expect(2);
            let place = format!("error: {root}:5:");
            assert!(ran.stderr.starts_with(&place) && ran.stderr.contains(reason), "{}", ran.stderr);
            assert!(
                ran.stderr.contains("resources.deep.properties.content.get_file: cannot read"),
                "{}",
                ran.stderr
            );
        }
    }
    assert_eq!(bundle.contents(), before);
    assert_eq!(site.json(&["stack", "show", "s"])["revision"], 3);
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(bundle.web1.listing(), [""; 0]);
}
