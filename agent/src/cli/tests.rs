use super::*;

fn parsed(line: &str) -> Result<Cli, String> {
    parse(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
}

fn join(check: bool, name: Option<&str>) -> Verb {
    Verb::Join { token: "T".into(), name: name.map(str::to_owned), check }
}

#[test]
fn flags_before_or_after_a_verb() {
    for (line, verb) in [
        ("", Verb::Run),
        ("join T", join(false, None)),
        ("join T --name web-1 --check", join(true, Some("web-1"))),
        ("--check --name=web-1 join T", join(true, Some("web-1"))),
        ("net show", Verb::NetShow),
        ("net apply -c f", Verb::NetApply("f".into())),
        ("-c f net plan", Verb::NetPlan("f".into())),
        ("--check-config", Verb::CheckConfig),
        ("net --help", Verb::Help),
        ("-V", Verb::Version),
    ] {
        for line in
            [format!("--state-dir /s --config /c {line}"), format!("{line} --state-dir=/s --config /c")]
        {
            let cli = parsed(&line).unwrap();
            assert_eq!(cli.verb, verb, "{line}");
            if !matches!(verb, Verb::Help | Verb::Version) {
                assert_eq!((cli.config, cli.state_dir), (Some("/c".into()), Some("/s".into())), "{line}");
            }
        }
    }
}

#[test]
fn wrong_usage_says_what_is_right() {
    for (line, want) in [
        ("jion T", "unknown verb 'jion': want join or net; see --help"),
        ("join", "join takes one TOKEN, as 'muster node token' prints it"),
        ("join A B", "join takes one TOKEN, as 'muster node token' prints it"),
        ("net", "net takes one of apply, plan, show"),
        ("net export -c f", "net takes one of apply, plan, show"),
        ("net apply", "net apply needs -c FILE"),
        ("net show -c f", "-c belongs to 'net apply' and 'net plan'"),
        ("--name web-1", "--name and --check belong to join"),
        ("--check-config join T", "--check-config stands alone"),
        ("--frobnicate", "invalid option '--frobnicate'"),
        ("--config", "missing argument for option '--config'"),
    ] {
        assert_eq!(parsed(line).unwrap_err(), want, "{line}");
    }
}

/// The help fits a terminal, and names every flag there is.
#[test]
fn help_is_readable() {
    assert!(HELP.lines().all(|line| line.chars().count() <= 100));
    for flag in
        ["--config", "--state-dir", "--check-config", "--name", "--check ", "-c FILE", "--help", "--version"]
    {
        assert!(HELP.contains(flag), "{flag}");
    }
}
