//! Whether a condition is true, which is known from parameters alone; and `if`, the stack's name, and
//! `resource_facade`.
//!
//! Absent: what follows for the resources (`controller/template/src/existence.rs`).

use serde_json::Value;

use super::{Fault, Scope, Step};
use crate::error::Place;
use crate::expression::{Call, Expr, ExprKind, FacadePart, Logic, Pseudo, describe};

const NO_STACK: &str = "this is not known before the stack has a name";

impl Scope<'_> {
    pub(super) fn holds(&self, condition: &Expr) -> Result<bool, Fault> {
        match &condition.kind {
            ExprKind::Bool(holds) => Ok(*holds),
            ExprKind::Call(call) => {
                if let Call::Condition { .. } | Call::Logic { .. } = &**call {
                    self.holds_call(condition.at, call)
                } else {
                    let value = self.value(condition)?;
                    value.as_bool().ok_or_else(|| {
                        let message = format!("want true or false, got {}", describe(&value));
                        Fault::new(condition.at, message).within_key(call.name())
                    })
                }
            }
            ExprKind::Null
            | ExprKind::Number(_)
            | ExprKind::Text(_)
            | ExprKind::List(_)
            | ExprKind::Map(_)
            | ExprKind::Invalid => {
                Err(Fault::new(condition.at, format!("want a condition, got {}", condition.describe())))
            }
        }
    }

    pub(super) fn holds_call(&self, at: Place, call: &Call) -> Result<bool, Fault> {
        if let Call::Condition { condition } = call {
            return match self.parameters.condition(*condition) {
                Some(holds) => holds.map_err(|error| Fault::Elsewhere(Box::new(error))),
                None => self.undecided(at, *condition),
            };
        }
        let Call::Logic { operator, conditions } = call else { return Ok(false) };
        if *operator == Logic::Not {
            let holds = conditions.first().map_or(Ok(false), |condition| self.holds(condition));
            return holds.map(|holds| !holds).map_err(|fault| fault.within_key("not"));
        }
        for (index, condition) in conditions.iter().enumerate() {
            let within = |fault: Fault| fault.within(|| Step::Item(index)).within_key(call.name());
            let holds = self.holds(condition).map_err(within)?;
            if holds == (*operator == Logic::Or) {
                return Ok(holds);
            }
        }
        Ok(*operator == Logic::And)
    }

    /// The error of a condition without a value: what it names is not there, or is not known yet.
    fn undecided(&self, at: Place, condition: u32) -> Result<bool, Fault> {
        match self.template.conditions.get(condition as usize) {
            Some(condition) if condition.lazy => {
                let holds =
                    self.template.holds(&condition.value, self.parameters, &["conditions", &condition.name]);
                holds.map_err(|error| Fault::Elsewhere(Box::new(error)))
            }
            _ => Err(Fault::new(at, NO_STACK)),
        }
    }

    /// `None` if the condition does not hold and there is no value for that.
    pub(super) fn choice(&self, condition: &Expr, values: &[Expr]) -> Result<Option<Value>, Fault> {
        let holds = self.holds(condition).map_err(|fault| fault.within(|| Step::Item(0)))?;
        let chosen = usize::from(!holds);
        let Some(value) = values.get(chosen) else { return Ok(None) };
        self.optional(value).map_err(|fault| fault.within(|| Step::Item(chosen + 1)))
    }

    /// Whether a resource exists.
    pub(super) fn exists(&self, resource: u32) -> Result<bool, Fault> {
        match self.template.resources[resource as usize].condition() {
            None => Ok(true),
            Some(condition) => self.holds(condition),
        }
    }

    pub(super) fn pseudo(&self, at: Place, pseudo: Pseudo) -> Result<Value, Fault> {
        let Some(stack) = self.parameters.stack() else {
            return Err(Fault::new(at, NO_STACK).within_key("get_param"));
        };
        let value = match pseudo {
            Pseudo::StackName => &stack.name,
            Pseudo::StackId => &stack.id,
        };
        self.spend(at, value.len())?;
        Ok(Value::String(value.clone()))
    }

    pub(super) fn facade(&self, at: Place, part: FacadePart) -> Result<Value, Fault> {
        let Some(facade) = self.parameters.facade() else {
            return Err(Fault::new(at, "only a nested stack has a resource in an outer template"));
        };
        let facade = facade.map_err(|error| Fault::Elsewhere(Box::new(error)))?;
        let value = match part {
            FacadePart::Metadata => &facade.metadata,
            FacadePart::DeletionPolicy => &facade.deletion_policy,
            FacadePart::UpdatePolicy => &facade.update_policy,
        };
        self.spend(at, crate::text::weight(value))?;
        Ok(value.clone())
    }
}
