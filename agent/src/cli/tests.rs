use super::*;

fn parsed(line: &str) -> Result<Cli, String> {
    parse(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
}

fn apply(confirm: Option<(Target, u64)>) -> Verb {
    let confirm = confirm.map(|(target, seconds)| Confirm { target, within: Duration::from_secs(seconds) });
    Verb::NetApply { file: "f".into(), confirm, watched: false }
}

fn join(check: bool, name: Option<&str>) -> Verb {
    join_by(TokenSource::Argument("T".into()), check, name)
}

fn join_by(token: TokenSource, check: bool, name: Option<&str>) -> Verb {
    Verb::Join { token, name: name.map(str::to_owned), check }
}

#[test]
fn flags_before_or_after_a_verb() {
    for (line, verb) in [
        ("", Verb::Run),
        ("join T", join(false, None)),
        ("join T --name web-1 --check", join(true, Some("web-1"))),
        ("--check --name=web-1 join T", join(true, Some("web-1"))),
        ("join", join_by(TokenSource::Credential, false, None)),
        ("join --token -", join_by(TokenSource::Stdin, false, None)),
        ("--token=T join", join(false, None)),
        ("join --token-file /t --check", join_by(TokenSource::File("/t".into()), true, None)),
        ("doctor", Verb::Doctor(Output::Table)),
        ("doctor -o json", Verb::Doctor(Output::Json)),
        ("--output=table doctor", Verb::Doctor(Output::Table)),
        ("net show", Verb::NetShow),
        ("net apply -c f", apply(None)),
        ("net apply -c f --confirm gateway", apply(Some((Target::Gateway, 120)))),
        (
            "--confirm-timeout 7 net apply --confirm=10.0.0.1 -c f",
            apply(Some((Target::Host("10.0.0.1".into()), 7))),
        ),
        ("net boot", Verb::NetBoot),
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
        ("jion T", "unknown verb 'jion': want join, doctor, net or flow; see --help"),
        ("join A B", "join takes one token, as 'muster node token' prints it"),
        ("join A --token -", "join takes one token, as 'muster node token' prints it"),
        ("join --token - --token-file f", "join takes one token, as 'muster node token' prints it"),
        ("--token -", "--token, --token-file, --name and --check belong to join"),
        ("doctor -o xml", "-o 'xml': want table or json"),
        ("doctor now", "doctor takes no further words"),
        ("doctor --check", "--token, --token-file, --name and --check belong to join"),
        ("net show -o json", "-o belongs to doctor"),
        ("net", "net takes one of apply, boot, export, plan, show"),
        ("net export", "net export needs either -c FILE or --from-ledger"),
        ("net export -c f --from-ledger", "net export needs either -c FILE or --from-ledger"),
        ("net export -c f --format nm", "--format 'nm': want networkd, networkmanager, ifupdown or auto"),
        ("net plan -c f --into /", "--format, --from-ledger and --into belong to 'net export'"),
        ("net apply", "net apply needs -c FILE"),
        ("net show -c f", "-c belongs to 'net apply', 'net plan' and 'net export'"),
        (
            "net plan -c f --confirm gateway",
            "--confirm and --confirm-timeout belong to 'net apply', the second one to the first",
        ),
        (
            "net apply -c f --confirm-timeout 9",
            "--confirm and --confirm-timeout belong to 'net apply', the second one to the first",
        ),
        ("net apply -c f --confirm-timeout 0", "--confirm-timeout takes 1 to 3600 seconds"),
        (
            "net apply -c f --confirm h:x",
            "--confirm 'h:x': want gateway, an address, a host name, or HOST:PORT",
        ),
        ("--name web-1", "--token, --token-file, --name and --check belong to join"),
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
    for flag in [
        "--config",
        "--state-dir",
        "--check-config",
        "--name",
        "--check ",
        "-c FILE",
        "--help",
        "--version",
        "--confirm ",
        "--confirm-timeout",
        "--format",
        "--from-ledger",
        "--into",
    ] {
        assert!(HELP.contains(flag), "{flag}");
    }
}
