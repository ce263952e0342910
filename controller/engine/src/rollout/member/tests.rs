//! Transitions of a member: a row for each event, a column for each state.

use std::time::Duration;

use super::*;

const BEFORE: u64 = 1;
const NOW: u64 = 2;

fn at(seconds: u64) -> MonoTime {
    MonoTime::default() + Duration::from_secs(seconds)
}

/// `held` and so on, with `-` for a lost member, `!` for a failed one, `*` for one in the present
/// batch. `gone` has begun, and `passed` is passed over; `absent'` and `gone'` are away since now.
fn read(text: &str) -> Member {
    let word = text.trim_end_matches(['-', '!', '*', '\'']);
    let since = at(if text.contains('\'') { NOW } else { BEFORE });
    let gone = |passed_over| State::Begun { gone: Some(Gone { since, passed_over }) };
    let state = match word {
        "idle" => State::Idle,
        "held" => State::Held,
        "absent" => State::Absent { since },
        "missed" => State::Missed,
        "begun" => State::Begun { gone: None },
        "gone" => gone(false),
        "passed" => gone(true),
        "leaving" => State::Leaving,
        other => panic!("no state is called {other}"),
    };
    let counts = match () {
        () if text.contains('-') => Counts::Lost,
        () if text.contains('!') => Counts::Failed,
        () => Counts::Nothing,
    };
    Member { state, counts, in_batch: text.contains('*') }
}

fn standing(text: &str) -> Standing {
    let has = |what: char| text.contains(what);
    Standing { is_member: has('m'), is_ready: has('r'), works: has('w'), is_there: !has('a') }
}

/// Events by their names in a table. `laid-mwa`: laid out, as a member with work whose node is
/// away; `r` is ready.
fn event(name: &str) -> Event {
    match name {
        "wanted" => Event::Wanted(None),
        "wanted-away" => Event::Wanted(Some(at(NOW))),
        "under-way" => Event::UnderWay(None),
        "under-way-away" => Event::UnderWay(Some(at(NOW))),
        "begins" => Event::Begins,
        "ends-well" => Event::EndsWell,
        "fails" => Event::Fails,
        "node-gone" => Event::NodeGone(at(NOW)),
        "node-back" => Event::NodeBack,
        "misses" => Event::Misses,
        "passed-over" => Event::PassedOver,
        "leaves" => Event::Leaves,
        "job-well" => Event::JobEnds(Ended::Well),
        "job-failed" => Event::JobEnds(Ended::Failed),
        "job-untold" => Event::JobEnds(Ended::Untold),
        "job-unbegun" => Event::JobEnds(Ended::Unbegun),
        "next-batch" => Event::NextBatch,
        other => match other.strip_prefix("laid-") {
            Some(text) => Event::LaidOut(standing(text), at(NOW)),
            None => panic!("no event is called {other}"),
        },
    }
}

/// Columns are states, rows the states after an event: `.` is unchanged, and `+` proves that the
/// revision does not fail everywhere.
fn check(rules: Rules, table: &str) {
    let mut lines = table.lines().map(str::split_whitespace).filter(|words| words.clone().count() > 0);
    let states: Vec<&str> = lines.next().unwrap().collect();
    for mut words in lines {
        let name = words.next().unwrap();
        let becomes: Vec<&str> = words.collect();
        assert_eq!(becomes.len(), states.len(), "{name}");
        for (state, becomes) in states.iter().zip(becomes) {
            let (before, event) = (read(state), event(name));
            let after = match becomes.trim_end_matches('+') {
                "." => before,
                after => read(after),
            };
            assert_eq!(before.after(event, rules), after, "{state}, {name}");
            assert_eq!(before.proves(event), becomes.ends_with('+'), "{state}, {name}");
        }
    }
}

const RULES: Rules = Rules { away: Away::Skip, canary: false };

#[test]
fn each_event_in_each_state() {
    check(
        RULES,
        "                idle    idle-   idle!*  held    held-   absent   missed  begun*   gone*    passed   begun!*  leaving*
        wanted          held    held-   held!*  .       .       held     held    .        .        .        .        held*
        wanted-away     absent' absent'- absent'!* absent' absent'- absent' absent' .      .        .        .        absent'*
        under-way       begun*  begun*  begun!* begun*  begun*  begun*   begun*  .        .        .        .        begun*
        under-way-away  gone'*  gone'*  gone'!* gone'*  gone'*  gone'*   gone'*  gone'*   .        .        gone'!*  gone'*
        begins          begun*  begun*  begun!* begun*  begun*  begun*   begun*  .        begun*   begun*   .        begun*
        ends-well       .       idle    idle*   idle    idle    idle     idle    idle*+   idle*+   idle+    idle*+   idle*
        fails           .       .       .       idle    idle-   idle     idle    idle!*   idle!*   idle!    idle!*   idle!*
        node-gone       .       .       .       absent' absent'- .       .       gone'*   .        .        gone'!*  .
        node-back       .       .       .       .       .       held     held    .        begun*   begun    .        .
        misses          .       .       .       .       .       missed   .       .        .        .        .        .
        passed-over     .       .       .       .       .       .        .       .        passed   .        .        .
        leaves          .       .       .       .       .       .        .       leaving* leaving* leaving  leaving!* .
        job-well        .       .       .       .       .       .        .       .        .        .        .        idle*+
        job-failed      .       .       .       .       .       .        .       .        .        .        .        idle!*
        job-untold      .       .       .       .       .       .        .       .        .        .        .        idle-*
        job-unbegun     .       .       .       .       .       .        .       .        .        .        .        idle
        next-batch      .       .       idle!   .       .       .        .       begun    gone     .        begun!   idle-",
    );
}

#[test]
fn each_state_when_it_is_laid_out() {
    check(
        RULES,
        "           idle    idle-     idle!*  held  held-     absent  missed  begun*    gone*     passed    begun!*   leaving*  leaving!*
        laid-mr    .       idle+     .       idle  idle+     idle    idle    idle*+    idle*+    idle+     idle*+    idle*+    idle*+
        laid-mw    .       begun     .       idle  begun     idle    idle    .         begun*    begun     .         begun*    begun!*
        laid-mwa   .       gone'     .       idle  gone'     idle    idle    gone'*    .         .         gone'!*   gone'*    gone'!*
        laid-m     .       .         .       idle  idle-     idle    idle    .         begun*    begun     .         idle-*    idle!*
        laid-ma    .       .         .       idle  idle-     idle    idle    gone'*    .         .         gone'!*   idle-*    idle!*
        laid-w     .       leaving   idle!   idle  leaving   idle    idle    leaving*  leaving*  leaving   leaving!* .         .
        laid-      .       .         idle!   idle  idle-     idle    idle    idle-     idle-     idle-     idle!     idle-     idle!",
    );
}

#[test]
fn what_the_rules_change() {
    check(
        Rules { away: Away::Wait, canary: false },
        "              idle  held  begun*  gone*
        wanted-away    held  .     .       .
        node-gone      .     .     gone'*  .",
    );
    check(
        Rules { away: Away::Fail, canary: false },
        "              gone*    gone!*   passed!
        passed-over    passed!  passed!  .
        node-back      begun*   begun*   begun",
    );
    check(
        Rules { away: Away::Fail, canary: true },
        "              gone*     leaving*  leaving!*
        passed-over    passed!*  .         .
        job-well       .         idle+     idle+
        job-failed     .         idle!*    idle!*
        job-untold     .         idle-     idle!
        job-unbegun    .         idle      idle",
    );
}
