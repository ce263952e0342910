//! Scenarios that nobody has thought of: a stack whose template changes here and there from one operation to the
//! next. What they are is a scenario file, so that one that fails can be kept.

use serde_json::{Map, Value, json};

use super::Variant;
use super::order::Dice;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
/// Operations in one scenario: as many as interfere with each other.
const OPERATIONS_MAX: usize = 7;

/// A resource, as far as the next template may keep it.
#[derive(Clone)]
struct Resource {
    x: usize,
    forced: usize,
    /// The resources that it would need, by name, and the kind of each need. A name that is absent or comes later is
    /// left out.
    needs: Vec<(&'static str, usize)>,
}

struct Design {
    /// Each may need those before it.
    order: Vec<&'static str>,
    resources: Vec<(&'static str, Resource)>,
}

/// The file and one of its family.
pub fn scenario(seed: u64) -> (Value, Variant) {
    let mut dice = Dice::new(seed);
    let mut design = Design { order: NAMES.to_vec(), resources: Vec::new() };
    design.turn_round(&mut dice);
    for name in NAMES {
        if dice.roll(4) > 0 {
            let resource = Resource::new(&mut dice);
            design.resources.push((name, resource));
        }
    }
    let mut steps = vec![json!({"op": "create", "stack": "s", "template": design.template()})];
    let mut arrivals = Vec::new();
    for _ in 0..1 + dice.roll(OPERATIONS_MAX) {
        steps.push(match dice.roll(20) {
            0..=2 => json!({"op": "rollback", "stack": "s"}),
            3 | 4 => json!({"op": "cancel", "stack": "s"}),
            5 | 6 => json!({"op": "delete", "stack": "s"}),
            kind => {
                design.change(&mut dice);
                let template = design.template();
                match kind {
                    7 | 8 => json!({"op": "create", "stack": "s", "template": template}),
                    9..=12 => {
                        json!({"op": "update", "stack": "s", "template": template, "delete_first": true})
                    }
                    _ => json!({"op": "update", "stack": "s", "template": template}),
                }
            }
        });
        arrivals.push((dice.roll(4) > 0).then(|| dice.roll(12)));
    }
    let order = (dice.roll(8) > 0).then(|| dice.roll(1 << 30) as u64);
    (json!({"name": format!("random-{seed}"), "steps": steps}), Variant { arrivals, order })
}

impl Resource {
    fn new(dice: &mut Dice) -> Self {
        let mut needs = Vec::new();
        for name in NAMES {
            if dice.roll(3) == 0 {
                needs.push((name, dice.roll(4)));
            }
        }
        Self { x: dice.roll(3), forced: dice.roll(4), needs }
    }
}

impl Design {
    fn turn_round(&mut self, dice: &mut Dice) {
        for at in (1..self.order.len()).rev() {
            self.order.swap(at, dice.roll(at + 1));
        }
    }

    /// A little, mostly.
    fn change(&mut self, dice: &mut Dice) {
        if dice.roll(8) == 0 {
            self.turn_round(dice);
        }
        for name in NAMES {
            let at = self.resources.iter().position(|(other, _)| *other == name);
            match (at, dice.roll(10)) {
                (Some(at), 0) => drop(self.resources.remove(at)),
                (Some(at), 1) => self.resources[at].1.x = dice.roll(3),
                (Some(at), 2) => self.resources[at].1.forced = dice.roll(4),
                (Some(at), 3) => self.resources[at].1 = Resource::new(dice),
                (None, 0..=2) => {
                    let resource = Resource::new(dice);
                    self.resources.push((name, resource));
                }
                _ => {}
            }
        }
    }

    fn template(&self) -> Value {
        let place = |name: &str| self.order.iter().position(|other| *other == name);
        let mut resources = Map::new();
        for (name, resource) in &self.resources {
            let mut values = Map::new();
            let mut after = Vec::new();
            values.insert("x".into(), resource.x.to_string().into());
            if resource.forced > 0 {
                values.insert("!k".into(), resource.forced.to_string().into());
            }
            for (need, how) in &resource.needs {
                let there = self.resources.iter().any(|(other, _)| other == need);
                if !there || place(need) >= place(name) {
                    continue;
                }
                match how {
                    0 => drop(values.insert(format!("r{need}"), json!({"get_resource": need}))),
                    1 => drop(values.insert(format!("v{need}"), json!({"get_attr": [need, "x"]}))),
                    2 => drop(values.insert(format!("!v{need}"), json!({"get_attr": [need, "x"]}))),
                    _ => after.push(*need),
                }
            }
            let mut text = json!({"type": "Muster::Dummy", "properties": {"values": values}});
            if !after.is_empty() {
                text["depends_on"] = json!(after);
            }
            resources.insert((*name).to_owned(), text);
        }
        json!({"heat_template_version": "2018-08-31", "resources": resources})
    }
}
