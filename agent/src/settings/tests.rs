use super::*;

fn read(file: &str, environment: &[(&str, &str)]) -> Result<Settings, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.toml");
    std::fs::write(&path, file).unwrap();
    let environment = environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Settings::read(Some(&path), environment).map_err(|error| format!("{error:#}"))
}

#[test]
fn the_environment_counts_more_than_the_file() {
    let file = "[agent]\nstate_dir = '/a'\n[host]\novs_datapath_type = 'netdev'\n[log]\nformat = 'json'\n";
    let settings = read(
        file,
        &[
            ("MUSTER_AGENT__STATE_DIR", "/b"),
            ("MUSTER_HOST__SEND_LLDP", "false"),
            ("MUSTER_LOG__LEVEL", "debug"),
            ("MUSTER_CONTROLLER__DATA_DIR", "/not/ours"),
            ("MUSTER_URL", "unix:///not/ours"),
        ],
    )
    .unwrap();
    assert_eq!(settings.agent.state_dir, Path::new("/b"));
    assert_eq!(settings.host.ovs_datapath_type.as_deref(), Some("netdev"));
    assert!(!settings.host.send_lldp);
    assert_eq!((settings.log.level.as_str(), settings.log.format), ("debug", LogFormat::Json));
}

#[test]
fn controller_addresses_are_a_list_or_comma_separated() {
    let file = "[agent]\ncontrollers = ['c1.example.org:8883', '[fd00::2]:8883']\n";
    let shown = |settings: Settings| -> Vec<String> {
        settings.agent.controllers.iter().map(ToString::to_string).collect()
    };
    assert_eq!(shown(read(file, &[]).unwrap()), ["c1.example.org:8883", "[fd00::2]:8883"]);
    let variable = [("MUSTER_AGENT__CONTROLLERS", "c3:1, c4:2")];
    assert_eq!(shown(read(file, &variable).unwrap()), ["c3:1", "c4:2"]);
}

#[test]
fn directories_of_hooks_are_those_of_heats_agents_or_a_list() {
    let shown = |settings: Settings| settings.host.hooks.0;
    let own = ["/usr/libexec/heat-config/hooks", "/var/lib/heat-config/hooks"].map(PathBuf::from);
    assert_eq!(shown(read("", &[]).unwrap()), own);
    let file = "[host]\nhooks = ['/a', '/b']\n";
    assert_eq!(shown(read(file, &[]).unwrap()), ["/a", "/b"].map(PathBuf::from));
    assert_eq!(shown(read(file, &[("MUSTER_HOST__HOOKS", "/c")]).unwrap()), [PathBuf::from("/c")]);
}

#[test]
fn nothing_need_be_set() {
    assert_eq!(read("", &[]).unwrap(), Settings::default());
    assert!(read("[host]\n", &[]).unwrap().host.send_lldp);
}

#[test]
fn what_is_wrong_is_named() {
    for (file, environment, wants) in [
        ("[agent]\nstate_dri = '/a'\n", vec![], ["state_dri", "state_dir"]),
        ("[agnet]\n", vec![], ["agnet", "agent"]),
        ("[host]\netc_hostnam = '/a'\n", vec![], ["etc_hostnam", "etc_hostname"]),
        ("[host]\ndhcp_client = 'pump'\n", vec![], ["pump", "host.dhcp_client"]),
        ("[host]\nsend_lldp = 'perhaps'\n", vec![], ["perhaps", "host.send_lldp"]),
        ("[host]\nhooks = ['hooks']\n", vec![], ["host.hooks", "absolute"]),
        ("[host]\nhooks = []\n", vec![], ["host.hooks", "1 to 8"]),
        ("[agent]\ncontrollers = ['c2']\n", vec![], ["'c2' is not an address", "agent.controllers"]),
        (
            "",
            vec![("MUSTER_AGENT__CONTROLLERS", "1:1,2:1,3:1,4:1,5:1,6:1,7:1,8:1,9:1")],
            ["at most 8", "controllers"],
        ),
        ("[log]\nlevel = 'loud'\n", vec![], ["log.level", "loud"]),
        ("[log]\nformat = 'xml'\n", vec![], ["xml", "log.format"]),
        ("[log\n", vec![], ["agent.toml", "1"]),
        ("", vec![("MUSTER_AGENT__STATE_DRI", "/a")], ["state_dri", "state_dir"]),
    ] {
        let error = read(file, &environment).unwrap_err();
        for want in wants {
            assert!(error.contains(want), "{file:?}: {error}");
        }
    }
    assert!(Settings::read(Some(Path::new("/no/such.toml")), std::iter::empty()).is_err());
}
