//! Wait conditions and their handles: signals and their bounds, timeouts, and operations during a wait.

use std::time::Duration;

use serde_json::{Value, json};

use super::bed::{Bed, options, parse, stack, under};
use crate::row::notes::Notes;
use crate::{Answer, Hook, Options, Refusal, Request, Signal, Source, SourceText};

/// A handle, a condition with these properties, and a resource that needs the data of the signals.
fn waiting(properties: &str) -> Source {
    with("", properties)
}

fn with(more: &str, properties: &str) -> Source {
    let template = format!(
        "heat_template_version: 2018-08-31
resources:
  h: {{type: OS::Heat::WaitConditionHandle}}
  w: {{type: OS::Heat::WaitCondition, properties: {{handle: {{get_resource: h}}, {properties}}}}}
  v: {{type: OS::Heat::Value, properties: {{value: {{get_attr: [w, data]}}}}}}
  {more}
outputs: {{v: {{value: {{get_attr: [v, value]}}}}}}
"
    );
    parse(SourceText { name: "t".into(), template, ..SourceText::default() })
}

fn signal(bed: &mut Bed, body: Value) -> Result<Answer, Refusal> {
    send(bed, "h", Signal::from_json(body).unwrap())
}

fn send(bed: &mut Bed, resource: &str, signal: Signal) -> Result<Answer, Refusal> {
    bed.ask(Request::Signal { stack: stack(), resource: resource.into(), signal })
}

fn output(bed: &Bed) -> Value {
    bed.view().unwrap().outputs[0].value.clone()
}

fn reason(bed: &Bed, name: &str) -> String {
    bed.resource(name).status_reason
}

#[test]
fn a_condition_waits_for_as_many_signals_as_it_says() {
    let mut bed = Bed::new(0);
    bed.create(waiting("timeout: 60, count: 2")).unwrap();
    let row = bed.resource("w");
    assert_eq!(
        (&*row.action, &*row.status, &*row.phase, &*row.observed),
        ("CREATE", "IN_PROGRESS", "signals", "unknown")
    );
    assert_eq!(row.status_reason, "0 of 2 signals received: they are sent with 'muster resource signal s h'");
    assert_eq!(bed.view().unwrap().active[0].name, "w");
    assert_eq!(
        signal(&mut bed, json!({})),
        Ok(Answer::Signalled { id: "1".into(), again: false, signals: 1 })
    );
    bed.pass(Duration::from_secs(59));
    let row = bed.resource("w");
    assert_eq!((&*row.phase, row.phase_seconds), ("signals", 59));
    assert!(row.status_reason.starts_with("1 of 2 signals"), "{}", row.status_reason);
    signal(&mut bed, json!({"id": "b", "status": "SUCCESS", "reason": "fine", "data": {"k": [1, null]}}))
        .unwrap();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert_eq!(output(&bed), r#"{"1": null, "b": {"k": [1, null]}}"#, "as Heat writes JSON");
    let row = bed.resource("w");
    assert_eq!(
        (&*row.status, &*row.observed, &*row.status_reason, &*row.phase),
        ("COMPLETE", "in_sync", "", "")
    );
    assert!(bed.tables.events.contains(&"h SIGNAL_COMPLETE".into()));
    assert!(bed.tables.reasons.contains(&"status:SUCCESS reason:Signal 1 received".into()));
    assert!(bed.tables.reasons.contains(&"status:SUCCESS reason:fine".into()));
    assert_eq!(bed.engine.poll_timeout().map(|(_, why)| why), None, "no time is left to run");
}

#[test]
fn the_same_id_takes_the_place_of_the_first() {
    let mut bed = Bed::new(0);
    bed.create(waiting("timeout: 60, count: 2")).unwrap();
    for data in ["a", "b"] {
        signal(&mut bed, json!({"id": 7, "data": data})).unwrap();
    }
    assert_eq!(bed.resource("w").phase, "signals", "one signal");
    // Heat counts the same way: the second signal has the id 2, whatever id the first gave.
    let counted = Ok(Answer::Signalled { id: "2".into(), again: false, signals: 2 });
    assert_eq!(signal(&mut bed, json!({})), counted);
    assert_eq!(output(&bed), r#"{"2": null, "7": "b"}"#);
    let late = signal(&mut bed, json!({"id": "7", "data": "c"}));
    assert_eq!(
        late,
        Ok(Answer::Signalled { id: "7".into(), again: true, signals: 2 }),
        "text or number is one"
    );
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    // The attribute has the present signals of the handle.
    bed.update(with(
        "u: {type: OS::Heat::Value, properties: {value: {get_attr: [w, data]}}}",
        "timeout: 60, count: 2",
    ))
    .unwrap();
    assert_eq!(output(&bed), r#"{"2": null, "7": "b"}"#, "what did not change is not looked at");
    let kept =
        |name: &str| bed.tables.rows.values().find(|row| &*row.name == name).unwrap().spec.clone().unwrap();
    assert_eq!(kept("u").unpack().attribute("value").unwrap(), r#"{"2": null, "7": "c"}"#);
}

#[test]
fn a_failure_fails_the_condition_with_its_reason() {
    let mut bed = Bed::new(0);
    bed.create(waiting("timeout: 60, count: 3")).unwrap();
    signal(&mut bed, json!({})).unwrap();
    signal(&mut bed, json!({"status": "FAILURE", "reason": "no room", "id": "x"})).unwrap();
    assert_eq!((bed.status(), reason(&bed, "w")), ("CREATE_FAILED".into(), "no room".into()));
    assert_eq!(bed.view().unwrap().status_reason, "w: no room");
    // A signal with the same id replaces the failed one, and the next operation looks again.
    signal(&mut bed, json!({"id": "x"})).unwrap();
    signal(&mut bed, json!({})).unwrap();
    assert_eq!(bed.status(), "CREATE_FAILED", "what has failed has failed");
    bed.update(waiting("timeout: 60, count: 3")).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn its_time_ends() {
    let mut bed = Bed::new(0);
    bed.create(waiting("timeout: 60, count: 3")).unwrap();
    signal(&mut bed, json!({"reason": "one"})).unwrap();
    signal(&mut bed, json!({"reason": "two"})).unwrap();
    bed.pass(Duration::from_millis(59_999));
    assert_eq!(bed.status(), "CREATE_IN_PROGRESS");
    bed.pass(Duration::from_millis(1));
    let why = "timed out after 60 s: 2 of 3 signals received - one;two";
    assert_eq!((bed.status(), reason(&bed, "w")), ("CREATE_FAILED".into(), why.into()));
    // The next operation keeps the signals that came, and its time starts over.
    bed.update(waiting("timeout: 60, count: 3")).unwrap();
    bed.pass(Duration::from_secs(59));
    assert_eq!(bed.status(), "UPDATE_IN_PROGRESS");
    signal(&mut bed, json!({})).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

/// The stack times out first. A later signal completes it, as a late job does.
#[test]
fn a_stack_that_timed_out_is_completed_by_a_late_signal() {
    let mut bed = Bed::new(0);
    let options = Options { timeout: Duration::from_secs(30), ..options() };
    bed.ask(Request::Create { name: stack(), source: waiting("timeout: 60"), options }).unwrap();
    bed.pass(Duration::from_secs(30));
    let view = bed.view().unwrap();
    assert_eq!(view.status_reason, "timed out after 30 s; not ended: w (0 of 1 signals received)");
    signal(&mut bed, json!({})).unwrap();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn a_restart_neither_begins_the_time_anew_nor_forgets_signals() {
    let mut bed = Bed::new(0);
    bed.create(waiting("timeout: 600, count: 2")).unwrap();
    bed.pass(Duration::from_secs(100));
    signal(&mut bed, json!({"data": "kept"})).unwrap();
    // The store adds the time during which no controller ran.
    for away in [100, 200] {
        for row in bed.tables.rows.values_mut() {
            row.progress.waited = row.progress.waited.map(|_| Duration::from_secs(away));
        }
        bed.restart();
        let row = bed.resource("w");
        assert_eq!(
            (&*row.action, &*row.status, &*row.phase, row.phase_seconds),
            ("CREATE", "IN_PROGRESS", "signals", away)
        );
    }
    let told = bed.tables.events.iter().filter(|event| *event == "w CREATE_IN_PROGRESS").count();
    assert_eq!(told, 1, "it went on");
    bed.pass(Duration::from_secs(399));
    assert_eq!(bed.status(), "CREATE_IN_PROGRESS");
    bed.pass(Duration::from_secs(1));
    assert_eq!(reason(&bed, "w"), "timed out after 600 s: 1 of 2 signals received - Signal 1 received");
    bed.restart();
    signal(&mut bed, json!({})).unwrap();
    bed.update(waiting("timeout: 600, count: 2")).unwrap();
    assert_eq!(
        (bed.status(), output(&bed)),
        ("UPDATE_COMPLETE".into(), json!(r#"{"1": "kept", "2": null}"#))
    );
}

/// The time ended while no controller ran. Senders that could not reach it get a moment.
#[test]
fn after_a_long_absence_it_waits_a_moment_still() {
    let mut bed = Bed::new(0);
    bed.create(waiting("timeout: 60")).unwrap();
    for row in bed.tables.rows.values_mut() {
        row.progress.waited = row.progress.waited.map(|_| Duration::from_secs(1000));
    }
    bed.restart();
    bed.pass(Duration::from_secs(29));
    assert_eq!(bed.status(), "CREATE_IN_PROGRESS");
    signal(&mut bed, json!({})).unwrap();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn a_cancelled_condition_waits_no_more_until_it_is_wanted_again() {
    let mut bed = Bed::new(0);
    bed.create(waiting("timeout: 60")).unwrap();
    bed.cancel().unwrap();
    let row = bed.resource("w");
    assert_eq!((bed.status().as_str(), &*row.status, &*row.phase), ("CREATE_FAILED", "FAILED", ""));
    assert_eq!(bed.engine.poll_timeout().map(|(_, why)| why), None);
    signal(&mut bed, json!({})).unwrap();
    assert_eq!(bed.resource("w").status, "FAILED");
    bed.restart();
    bed.update(waiting("timeout: 60")).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn an_update_while_it_waits_goes_on_or_begins_anew() {
    let mut bed = Bed::new(0);
    bed.create(waiting("timeout: 60, count: 2")).unwrap();
    bed.pass(Duration::from_secs(40));
    // The condition is unchanged: the wait goes on.
    let more = "x: {type: OS::Heat::Value, properties: {value: 1}}";
    bed.update(with(more, "timeout: 60, count: 2")).unwrap();
    assert_eq!(bed.resource("w").phase_seconds, 40);
    let id = bed.resource("w").physical_id;
    // A new count changes the condition in place, and the time starts over.
    bed.update(with(more, "timeout: 60, count: 3")).unwrap();
    let row = bed.resource("w");
    assert_eq!((&*row.physical_id, row.phase_seconds, &*row.phase), (&*id, 0, "signals"));
    signal(&mut bed, json!({})).unwrap();
    // A new timeout replaces the condition.
    bed.update(with(more, "timeout: 50, count: 3")).unwrap();
    let row = bed.resource("w");
    assert!(row.physical_id != id && row.phase == "signals");
    assert!(row.status_reason.starts_with("1 of 3"), "signals stay with the handle: {}", row.status_reason);
    // The condition is no longer wanted.
    bed.update(parse(SourceText {
        name: "t".into(),
        template: "heat_template_version: 2018-08-31\nresources: {x: {type: OS::Heat::Value, properties: {value: 1}}}\n".into(),
        ..SourceText::default()
    }))
    .unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_eq!(bed.engine.poll_timeout().map(|(_, why)| why), None);
}

#[test]
fn what_it_needs_changes_while_it_waits() {
    let mut bed = Bed::new(1);
    let dummy = |value: &str| {
        let more =
            format!("d: {{type: Muster::Dummy, properties: {{node: node-0, values: {{k: {value}}}}}}}");
        let source = with(&more, "timeout: 60");
        let text = (*source.text).clone();
        let template =
            text.template.replace("OS::Heat::WaitCondition, ", "OS::Heat::WaitCondition, depends_on: d, ");
        parse(SourceText { template, ..text })
    };
    bed.create(dummy("a")).unwrap();
    bed.idle();
    assert_eq!(bed.resource("w").phase, "signals");
    bed.update(dummy("b")).unwrap();
    let row = bed.resource("w");
    assert_eq!((&*row.phase, row.waits_for), ("waiting", vec!["d".to_owned()]));
    bed.idle();
    assert_eq!((bed.status().as_str(), &*bed.resource("w").phase), ("UPDATE_IN_PROGRESS", "signals"));
    signal(&mut bed, json!({})).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn deleted_while_it_waits() {
    for restarted in [false, true] {
        let mut bed = Bed::new(0);
        bed.create(waiting("timeout: 60")).unwrap();
        if restarted {
            bed.restart();
        }
        bed.delete().unwrap();
        assert_eq!(bed.status(), "gone");
        assert!(bed.tables.rows.is_empty());
        assert_eq!(bed.engine.poll_timeout().map(|(_, why)| why), None);
    }
}

#[test]
fn a_failed_update_is_rolled_back() {
    let mut bed = Bed::new(0);
    bed.create(waiting("timeout: 60")).unwrap();
    signal(&mut bed, json!({})).unwrap();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    let options = Options { rollback: true, ..options() };
    bed.ask(Request::Update {
        name: stack(),
        source: waiting("timeout: 60, count: 2"),
        options: options.clone(),
    })
    .unwrap();
    assert_eq!(bed.status(), "UPDATE_IN_PROGRESS");
    bed.pass(Duration::from_secs(60));
    assert_eq!(bed.status(), "ROLLBACK_COMPLETE", "one signal is there");
    // The failed update is rolled back.
    let update = || Request::Update {
        name: stack(),
        source: waiting("timeout: 60, count: 2"),
        options: options.clone(),
    };
    bed.ask(update()).unwrap();
    signal(&mut bed, json!({"id": "x", "status": "FAILURE", "reason": "no"})).unwrap();
    assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
    signal(&mut bed, json!({"id": 1, "status": "FAILURE", "reason": "nor that"})).unwrap();
    bed.ask(update()).unwrap();
    assert_eq!(bed.status(), "ROLLBACK_FAILED", "none of SUCCESS is left");
    for id in ["1", "x"] {
        signal(&mut bed, json!({"id": id})).unwrap();
    }
    bed.rollback(Some(1)).unwrap();
    assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
    // An operator rolls back during the wait.
    bed.ask(Request::Update { name: stack(), source: waiting("timeout: 60, count: 3"), options }).unwrap();
    assert_eq!(bed.status(), "UPDATE_IN_PROGRESS");
    bed.rollback(None).unwrap();
    assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
}

#[test]
fn hooks_stand_before_and_behind_it() {
    let mut bed = Bed::new(0);
    bed.create(under(waiting("timeout: 60"), "w: {hooks: [pre-create, post-create]}")).unwrap();
    assert_eq!(bed.resource("w").phase, "hook");
    bed.pass(Duration::from_secs(1000));
    bed.clear("w", Hook::PreCreate).unwrap();
    assert_eq!(bed.resource("w").phase, "signals", "the time begins when it waits");
    bed.pass(Duration::from_secs(59));
    signal(&mut bed, json!({})).unwrap();
    assert_eq!(bed.resource("w").phase, "hook");
    bed.pass(Duration::from_secs(1000));
    bed.clear("w", Hook::PostCreate).unwrap();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn signals_have_bounds() {
    let mut bed = Bed::new(0);
    bed.create(waiting("timeout: 60, count: 10000")).unwrap();
    let large = json!({"data": "x".repeat(65 * 1024)});
    let said = signal(&mut bed, large).unwrap_err().to_string();
    assert!(said.contains("over the limit of 65536"), "{said}");
    let mut taken = 0;
    let said = loop {
        match signal(&mut bed, json!({"data": "x".repeat(64_000)})) {
            Ok(_) => taken += 1,
            Err(refusal) => break refusal.to_string(),
        }
    };
    assert!(taken == 16 && said.contains("more than 1048576 bytes"), "{taken} {said}");
    signal(&mut bed, json!({"id": 1, "data": "small"})).unwrap();
    signal(&mut bed, json!({"data": "now there is room"})).unwrap();

    let mut bed = Bed::new(0);
    bed.create(waiting("timeout: 60, count: 10000")).unwrap();
    signal(&mut bed, json!({"id": "of all"})).unwrap();
    let kept = bed.tables.rows.values_mut().find(|row| &*row.name == "h").unwrap();
    let Some(Notes::Signals(signals)) = &mut kept.progress.notes else { panic!("{:?}", kept.progress.notes) };
    let one = signals["of all"].clone();
    signals.extend((3..10_001).map(|id| (id.to_string(), one.clone())));
    bed.restart();
    assert!(
        bed.resource("w").status_reason.starts_with("9999 of 10000"),
        "{}",
        bed.resource("w").status_reason
    );
    signal(&mut bed, json!({"id": "last"})).unwrap();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    let said = signal(&mut bed, json!({})).unwrap_err().to_string();
    assert!(said.contains("10000 signals, which is its limit"), "{said}");
}

#[test]
fn what_takes_no_signal_says_why() {
    let mut bed = Bed::new(0);
    let said = |bed: &mut Bed, resource: &str| send(bed, resource, Signal::default()).unwrap_err();
    assert!(matches!(said(&mut bed, "h"), Refusal::NotFound(_)), "no stack");
    bed.create(under(waiting("timeout: 60"), "h: {hooks: pre-create}")).unwrap();
    let early = said(&mut bed, "h");
    assert!(matches!(&early, Refusal::Conflict(why) if why.contains("not there yet")), "{early}");
    bed.clear("h", Hook::PreCreate).unwrap();
    let condition = said(&mut bed, "w").to_string();
    assert!(
        condition.contains("OS::Heat::WaitCondition, which takes no signals: signal its handle 'h'"),
        "{condition}"
    );
    let other = said(&mut bed, "v").to_string();
    assert!(other.contains("OS::Heat::Value, which takes no signals"), "{other}");
    assert!(matches!(said(&mut bed, "x"), Refusal::NotFound(_)));
    for (body, wanted) in [
        (json!([1]), "want a map"),
        (json!({"stauts": "SUCCESS"}), "did you mean 'status'"),
        (json!({"status": "DONE"}), "SUCCESS or FAILURE"),
        (json!({"id": ""}), "as 'id'"),
        (json!({"id": {"a": 1}}), "as 'id'"),
        (json!({"reason": 1}), "text as 'reason'"),
    ] {
        let said = Signal::from_json(body).unwrap_err();
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_handle_that_is_none_fails_the_condition() {
    let mut bed = Bed::new(0);
    let source = waiting("timeout: 60");
    let text = (*source.text).clone();
    let template = text.template.replace("{get_resource: h}", "somewhere");
    bed.create(parse(SourceText { template, ..text })).unwrap();
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert!(reason(&bed, "w").contains("'handle' must be {get_resource: NAME}"), "{}", reason(&bed, "w"));
}

/// A handle in a nested stack is signalled by its path, and the endpoint shows that path.
#[test]
fn a_handle_in_a_group_is_signalled_by_its_path() {
    let nested = "heat_template_version: 2018-08-31
resources:
  h: {type: OS::Heat::WaitConditionHandle}
  w: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: h}, timeout: 60}}
outputs:
  at: {value: {get_attr: [h, endpoint]}}
  data: {value: {get_attr: [w, data]}}
";
    let template = "heat_template_version: 2018-08-31
resources: {g: {type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {type: n.yaml}}}}
outputs: {at: {value: {get_attr: [g, at]}}, data: {value: {get_attr: [g, data]}}}
";
    let text = SourceText {
        name: "t".into(),
        template: template.into(),
        files: [("n.yaml".to_owned(), nested.to_owned())].into(),
        ..SourceText::default()
    };
    let mut bed = Bed::new(0);
    bed.create(parse(text)).unwrap();
    for member in 0..2 {
        let signal = Signal { data: json!(member), ..Signal::default() };
        send(&mut bed, &format!("g/{member}/h"), signal).unwrap();
    }
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    let outputs = bed.view().unwrap().outputs;
    assert_eq!(outputs[0].value[1], "/v1/stacks/s/resources/g%2F1%2Fh/signal");
    assert_eq!(outputs[1].value, json!([r#"{"1": 0}"#, r#"{"1": 1}"#]));
}

#[test]
fn an_unhealthy_condition_is_made_again() {
    let mut bed = Bed::new(0);
    let options = Options { timeout: Duration::from_secs(10), ..options() };
    bed.ask(Request::Create { name: stack(), source: waiting("timeout: 60"), options }).unwrap();
    bed.pass(Duration::from_secs(10));
    bed.unhealthy("w").unwrap();
    assert_eq!(bed.resource("w").status_reason, "marked unhealthy by an operator");
    let id = bed.resource("w").physical_id;
    bed.update(waiting("timeout: 60")).unwrap();
    signal(&mut bed, json!({})).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_ne!(bed.resource("w").physical_id, id);
}

/// Reasons in signals are for people, so values of hidden parameters are masked.
#[test]
fn reasons_are_masked() {
    let template = "heat_template_version: 2018-08-31
parameters: {p: {type: string, hidden: true, default: hush-hush}}
resources:
  h: {type: OS::Heat::WaitConditionHandle}
  w: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: h}, timeout: 60}}
  v: {type: OS::Heat::Value, properties: {value: {get_param: p}}}
";
    let mut bed = Bed::new(0);
    bed.create(parse(SourceText { name: "t".into(), template: template.into(), ..SourceText::default() }))
        .unwrap();
    signal(&mut bed, json!({"status": "FAILURE", "reason": "login with hush-hush failed"})).unwrap();
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert_eq!(reason(&bed, "w"), "login with ****** failed");
    assert!(
        bed.tables.reasons.iter().all(|reason| !reason.contains("hush-hush")),
        "{:?}",
        bed.tables.reasons
    );
}
