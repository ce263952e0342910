//! A fake switch says what it would do with a packet, from the rules that it holds.
//!
//! Absent: groups, meters and connections, which it calls unclear.

use muster_shared::model::flow::{
    Action, Bridge, Criterion, Instruction, Output, Packet, Port, Rule, TraceQuestion, TraceStep,
};

/// The steps of a packet through rules, each with its cookie.
pub fn steps(bridge: &Bridge, rules: &[(u64, Rule)], question: &TraceQuestion) -> Vec<TraceStep> {
    let mut steps = Vec::new();
    let mut packet = question.packet.clone();
    let mut next = Some(0);
    while let Some(table) = next.take() {
        let matching = rules
            .iter()
            .filter(|(_, rule)| rule.table == table && takes(bridge, rule, &question.in_port, &packet));
        let Some((cookie, rule)) = matching.max_by_key(|(cookie, rule)| (rule.priority, *cookie)) else {
            steps.push(TraceStep::Miss { bridge: bridge.clone(), table });
            break;
        };
        let (cookie, matches) = (*cookie, String::new());
        steps.push(TraceStep::Rule { bridge: bridge.clone(), table, cookie, matches });
        for instruction in &rule.treatment {
            match instruction {
                Instruction::Do(Action::Output(Output::Port(port))) => {
                    let (bridge, port) = (bridge.clone(), name(bridge, port).into());
                    steps.push(TraceStep::Output { bridge, port, packet: packet.clone() });
                }
                Instruction::Do(
                    action @ (Action::Set { .. } | Action::PushVlan(_) | Action::PopVlan | Action::DecTtl),
                ) => {
                    packet.apply(action);
                }
                Instruction::GotoTable(table) => next = Some(*table),
                Instruction::Meter(_) => {}
                other => {
                    let action = format!("{other:?}");
                    steps.push(TraceStep::Unclear { bridge: bridge.clone(), action });
                }
            }
        }
    }
    steps
}

fn takes(bridge: &Bridge, rule: &Rule, in_port: &str, packet: &Packet) -> bool {
    rule.selector.iter().all(|criterion| match criterion {
        Criterion::InPort(port) => name(bridge, port) == in_port,
        Criterion::Field { field, value, mask } => {
            packet.get(*field) & mask.unwrap_or(field.all_bits()) == *value
        }
    })
}

fn name<'a>(bridge: &'a Bridge, port: &'a Port) -> &'a str {
    match port {
        Port::Named(name) => name,
        Port::Local => bridge.as_str(),
    }
}
