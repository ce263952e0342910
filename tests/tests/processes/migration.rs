//! The pages for those who come from other programs, with the commands as they stand there: docs/from-heat.md, from-onos.md,
//! from-ansible.md and from-salt.md. Muster's own API of Heat stands for the Heat that a stack comes from.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_testbed::{Namespace, Ran, Running, eventually, port};
use muster_tests::site::{Agent, Site, binary};

use crate::flows::FlowServer;

/// The server's name on those pages.
const SERVER: &str = "web-1.example.org";

/// A page's blocks that do something, with the word behind `sh` or the name of the file.
struct Page(Vec<Block>);

enum Block {
    Run { part: String, script: String },
    Write { file: String, text: String },
}

/// The surroundings of the commands.
struct Desk<'s> {
    site: &'s Site,
    /// The folder of the reader.
    folder: PathBuf,
    /// The words of the page, and their values here.
    places: Vec<(String, String)>,
}

fn page(name: &str) -> Page {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    let text = fs::read_to_string(file).unwrap();
    let (mut blocks, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let body: String =
            lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect();
        let (kind, word) = kind.split_once(' ').unwrap_or((kind, ""));
        match kind {
            "sh" => blocks.push(Block::Run { part: word.to_owned(), script: body }),
            "yaml" | "json" => blocks.push(Block::Write { file: word.to_owned(), text: body }),
            // Shown, as what there is in the other program.
            "" => {}
            other => panic!("{name} has a block of {other}"),
        }
    }
    assert!(blocks.iter().any(|block| matches!(block, Block::Run { .. })), "{name} has commands");
    Page(blocks)
}

impl<'s> Desk<'s> {
    fn new(site: &'s Site, places: &[(&str, String)]) -> Self {
        let folder = site.path().join("desk");
        fs::create_dir_all(folder.join("bin")).unwrap();
        symlink(binary("muster"), folder.join("bin/muster")).unwrap();
        let places = places.iter().map(|(there, here)| ((*there).to_owned(), here.clone())).collect();
        Self { site, folder, places }
    }

    fn here(&self, text: &str) -> String {
        self.places.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there, here))
    }

    /// Does what the page says, in its order; of commands those of this part.
    fn follow(
        &self,
        page: &Page,
        part: &str,
        machine: Option<&Namespace>,
        variables: &[(&str, &str)],
    ) -> String {
        let mut said = String::new();
        for block in &page.0 {
            match block {
                Block::Write { file, text } => fs::write(self.folder.join(file), self.here(text)).unwrap(),
                Block::Run { part: of, script } if of == part => {
                    said += &self.sh(script, machine, variables).expect(0).stdout;
                }
                Block::Run { .. } => {}
            }
        }
        said
    }

    fn sh(&self, script: &str, machine: Option<&Namespace>, variables: &[(&str, &str)]) -> Ran {
        let mut shell = machine.map_or_else(|| Command::new("sh"), |machine| machine.command("sh"));
        shell.args(["-ec", &self.here(script)]).current_dir(&self.folder);
        let path = std::env::var("PATH").unwrap();
        shell.env("PATH", format!("{}:{path}", self.folder.join("bin").display()));
        shell.env("MUSTER_URL", self.site.url());
        shell.envs(variables.iter().copied());
        Running::start(shell).finish()
    }
}

/// The places of files on a server whose agent is a process on this machine.
fn files_at(folder: &Path) -> Vec<(&'static str, String)> {
    let of = |name: &str| folder.join(name).display().to_string();
    vec![("/etc/motd", of("motd")), ("/etc/issue.d/web.issue", of("web.issue"))]
}

#[test]
fn a_stack_of_heat_moves_and_its_server_is_not_touched() {
    let mut site = Site::start();
    let port = port();
    site.configure(&format!("[controller]\nheat_api = '127.0.0.1:{port}'\n"));
    site.kill();
    site.restart();
    eventually("Heat's API is there", || TcpStream::connect(("127.0.0.1", port)).ok());
    let agent = site.join(SERVER);
    let motd = agent.file("motd");
    // What a nested template of Heat names is a file of the client's.
    let client = site.path().join("client/nested");
    fs::create_dir_all(&client).unwrap();
    fs::write(client.join("text"), "good morning\n").unwrap();
    let one = format!(
        "heat_template_version: 2018-08-31\nresources:\n  file:\n    type: Muster::File\n    deletion_policy: Retain\n    \
         properties: {{node: {SERVER}, path: {}, content: {{get_file: text}}}}\n",
        motd.display()
    );
    fs::write(client.join("one.yaml"), one).unwrap();
    let template = client.parent().unwrap().join("web.yaml");
    fs::write(
        &template,
        "heat_template_version: 2018-08-31\nparameters: {password: {type: string, hidden: true, default: geheim}}\n\
         resources: {one: {type: nested/one.yaml}}\n",
    )
    .unwrap();
    site.ok(&["stack", "create", "web", "-t", template.to_str().unwrap(), "--wait"]);
    let token = site.ok(&["user", "create", "anna", "--role", "operator"]).trim().to_owned();
    let endpoint = format!("http://127.0.0.1:{port}/v1/any");
    let variables = [("OS_ENDPOINT", endpoint.as_str()), ("OS_TOKEN", token.as_str())];

    let desk = Desk::new(&site, &[(" -e web/environment.yaml", String::new())]);
    let page = page("from-heat.md");
    let said = desk.follow(&page, "read", None, &variables);
    assert!(said.contains("web/template.yaml\n") && said.contains("muster stack create web"), "{said}");
    assert!(!said.contains(&token) && !said.contains("geheim"), "{said}");
    // Again: what is there is not changed.
    let again = desk.sh("muster import heat --stack web", None, &variables).expect(2);
    assert!(again.stderr.contains("web is there already"), "{}", again.stderr);
    let unknown = desk.sh("muster import heat --stack other -d x", None, &variables).expect(1);
    assert!(unknown.stderr.contains("other"), "{}", unknown.stderr);
    let nobody = [("OS_ENDPOINT", endpoint.as_str()), ("OS_TOKEN", "nobody")];
    let refused = desk.sh("muster import heat --stack web -d x", None, &nobody).expect(1);
    assert!(
        refused.stderr.contains("openstack token issue") && !desk.folder.join("x").exists(),
        "{}",
        refused.stderr
    );

    // The client's files and the stack go; what it made stays, as when a server leaves Heat.
    fs::remove_dir_all(client.parent().unwrap()).unwrap();
    site.ok(&["stack", "delete", "web", "--wait"]);
    let before = fs::metadata(&motd).unwrap();
    let said = desk.follow(&page, "take", None, &variables);
    assert!(said.contains("COMPLETE"), "{said}");
    let after = fs::metadata(&motd).unwrap();
    assert_eq!(
        (before.ino(), before.mtime_nsec(), before.ctime_nsec()),
        (after.ino(), after.mtime_nsec(), after.ctime_nsec())
    );
    assert_eq!(site.json(&["stack", "show", "web"])["status"], "COMPLETE");
}

/// The file is one that Heat wrote.
#[test]
fn an_exported_stack_is_read_without_heat() {
    let site = Site::start();
    let desk = Desk::new(&site, &[]);
    let exported = Path::new(env!("CARGO_MANIFEST_DIR")).join("heat-import/export.json");
    fs::copy(exported, desk.folder.join("web.json")).unwrap();
    let said = desk.follow(&page("from-heat.md"), "file", None, &[]);
    assert!(said.contains("web/hidden.yaml\n") && !said.contains("geheim"), "{said}");
}

#[test]
fn a_playbook_becomes_a_template() {
    let site = Site::start();
    let agent = site.join(SERVER);
    let desk = Desk::new(&site, &files_at(agent.file("").as_path()));
    let page = page("from-ansible.md");
    desk.follow(&page, "", None, &[]);
    assert_eq!(agent.content("motd").unwrap(), format!("hi from {SERVER}\n"));
    assert_eq!(agent.content("web.issue").unwrap(), "hi\n");
    // As the playbook leaves them.
    adopts(&desk, &page, &agent, [("motd", &format!("hello from {SERVER}\n")), ("web.issue", "hello\n")]);
}

/// Follows the page where another program has made these files: they stay as they are.
fn adopts(desk: &Desk<'_>, page: &Page, agent: &Agent, files: [(&str, &str); 2]) {
    desk.site.ok(&["stack", "delete", "web", "--wait"]);
    let made = files.map(|(name, content)| {
        assert_eq!(agent.content(name), None);
        fs::write(agent.file(name), content).unwrap();
        fs::metadata(agent.file(name)).unwrap()
    });
    desk.follow(page, "adopt", None, &[]);
    for ((name, content), made) in files.into_iter().zip(made) {
        assert_eq!(agent.content(name).as_deref(), Some(content));
        let now = fs::metadata(agent.file(name)).unwrap();
        assert_eq!((now.ino(), now.ctime_nsec()), (made.ino(), made.ctime_nsec()), "{name} was touched");
    }
    assert_eq!(desk.site.json(&["stack", "show", "web"])["status"], "COMPLETE");
}

#[test]
fn a_state_of_salt_becomes_a_template() {
    let site = Site::start();
    let agent = site.join(SERVER);
    let desk = Desk::new(&site, &files_at(agent.file("").as_path()));
    let page = page("from-salt.md");
    desk.follow(&page, "", None, &[]);
    assert_eq!(
        (agent.content("motd").unwrap(), agent.content("web.issue").unwrap()),
        ("hi\n".to_owned(), "hi\n".to_owned())
    );
    adopts(&desk, &page, &agent, [("motd", "hello\n"), ("web.issue", "hello\n")]);
}

#[test]
fn flows_and_intents_of_onos_move() {
    let mut server = FlowServer::start();
    ["p1", "p2"].iter().for_each(|port| drop(server.namespace.ip(&format!("link set {port} up"))));
    let hub = Namespace::HUB;
    server.site.configure(&format!("[controller]\nonos_api = '{hub}:8181'\naddresses = ['{hub}:8883']\n"));
    server.site.kill();
    server.site.restart();
    server.site.until_node("web-1", "online");
    let desk = Desk::new(&server.site, &[(SERVER, "web-1".to_owned()), ("ctl.example.org", hub.to_string())]);
    fs::copy(server.site.ca(), desk.folder.join("ca.crt")).unwrap();
    eventually("the bridge and its ports are known", || {
        let topology = server.site.json(&["topology", "show"]);
        topology.to_string().contains("p2").then_some(())
    });
    desk.follow(&page("from-onos.md"), "", Some(&server.namespace), &[]);
    let rules = server.site.json(&["flow", "list", "web-1/br0"]);
    assert!(rules.as_array().unwrap().iter().any(|rule| rule["priority"] == 40_000), "{rules}");
    eventually("the intent is INSTALLED", || {
        let intents = server.site.json(&["intent", "list"]);
        (intents[0]["key"] == "org.example.site/p1-to-p2" && intents[0]["state"] == "INSTALLED").then_some(())
    });
}
