use super::*;

fn number(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn trusted(full_size: FullSize) -> Reached {
    Reached::Trusted { shown: vec!["muster-controller".into(), "muster site a".into()], full_size }
}

fn well() -> Reached {
    trusted(FullSize::Arrives(1448))
}

fn nothing() -> Reached {
    Reached::Nothing { why: "Connection refused".into() }
}

fn untrusted(distrust: Distrust) -> Reached {
    Reached::Untrusted { distrust, shown: vec!["muster site b".into()] }
}

/// An address that is a number.
fn at(text: &str, reached: Reached) -> Facts {
    Facts { address: text.into(), is_number: true, looks: Ok(vec![(number(text), reached)]) }
}

fn named(looks: Result<Vec<(SocketAddr, Reached)>, String>) -> Facts {
    Facts { address: "ctl:8883".into(), is_number: false, looks }
}

fn states(facts: &[Facts]) -> Vec<(&'static str, Severity)> {
    let findings = findings(facts, Peer::Controller, "a");
    findings.iter().map(|finding| (finding.check, finding.state)).collect()
}

#[test]
fn each_outcome_of_a_look_has_its_finding() {
    use Severity::{Error, Ok, Warning};
    for (reached, peer, state, words, remedy) in [
        (well(), Peer::Controller, Ok, "'muster-controller' of 'muster site a'", ""),
        (
            nothing(),
            Peer::Controller,
            Error,
            "no connection to 10.0.0.1:8883: Connection refused",
            "TCP port 8883",
        ),
        (
            Reached::Tcp { why: "no answer".into() },
            Peer::Broker,
            Error,
            "does not speak TLS",
            "'ss -ltnp sport = :8883'",
        ),
        (
            untrusted(Distrust::OtherIssuer),
            Peer::Controller,
            Error,
            "'muster site b': this server belongs to site a",
            "join again",
        ),
        (
            untrusted(Distrust::OtherIssuer),
            Peer::Broker,
            Error,
            "another CA is trusted for brokers",
            "another broker listens",
        ),
        (untrusted(Distrust::OtherName), Peer::Broker, Error, "has not this name", "docs/brokers.md"),
        (
            untrusted(Distrust::Clock("it is 1970".into())),
            Peer::Controller,
            Error,
            "it is 1970",
            "timedatectl",
        ),
        (untrusted(Distrust::Other("bad".into())), Peer::Controller, Error, "refused: bad", "openssl"),
    ] {
        let finding = &findings(&[at("10.0.0.1:8883", reached.clone())], peer, "a")[0];
        assert!(finding.state == state && finding.found.contains(words), "{reached:?}: {finding:?}");
        assert!(finding.remedy.as_deref().unwrap_or_default().contains(remedy), "{finding:?}");
    }
    for (full_size, state, words) in [
        (FullSize::Arrives(1448), Ok, "packets with 1448 bytes"),
        (FullSize::TooLarge(32768), Ok, "any size"),
        (FullSize::Lost(8948), Error, "packets with 8948 bytes of TCP are lost"),
        (FullSize::Unknown("x".into()), Warning, "is not known: x"),
    ] {
        let finding = &findings(&[at("10.0.0.1:8883", trusted(full_size))], Peer::Controller, "a")[1];
        assert!(finding.state == state && finding.found.contains(words), "{finding:?}");
    }
}

#[test]
fn one_address_that_works_is_enough() {
    use Severity::{Error, Ok, Warning};
    let (a, b) = ("10.0.0.1:8883", "10.0.0.2:8883");
    let unknown = || named(Err("Name or service not known".into()));
    for (facts, wanted) in [
        (vec![], vec![("controller", Error)]),
        (vec![at(a, nothing())], vec![("controller", Error)]),
        (
            vec![at(a, nothing()), at(b, well())],
            vec![("controller", Warning), ("controller", Ok), ("mtu", Ok)],
        ),
        (vec![unknown()], vec![("name", Error)]),
        (vec![named(Result::Ok(vec![]))], vec![("name", Error)]),
        (vec![unknown(), at(b, well())], vec![("name", Warning), ("controller", Ok), ("mtu", Ok)]),
        (vec![unknown(), at(b, nothing())], vec![("name", Error), ("controller", Error)]),
        // A name with two numbers, of which one is silent.
        (
            vec![named(Result::Ok(vec![(number(a), nothing()), (number(b), well())]))],
            vec![("name", Ok), ("controller", Warning), ("controller", Ok), ("mtu", Ok)],
        ),
        // Small packets alone do not make an address work.
        (
            vec![at(a, trusted(FullSize::Lost(1448))), at(b, nothing())],
            vec![("controller", Ok), ("mtu", Error), ("controller", Error)],
        ),
    ] {
        assert_eq!(states(&facts), wanted, "{facts:?}");
    }
}
