//! `yaql`: an expression that is a literal text is parsed along with the template.
//!
//! Absent: the language itself (`controller/template/src/yaql.rs`).

use serde_json::Value;

use super::{Fault, Scope};
use crate::Limits;
use crate::expression::{Expr, describe};
use crate::text::weight;
use crate::yaql;

impl Scope<'_> {
    pub(super) fn yaql(
        &self,
        expression: &Expr,
        data: &Expr,
        parsed: Option<&yaql::Expression>,
    ) -> Result<Value, Fault> {
        let wrong = |message: String| Fault::new(expression.at, message).within_key("expression");
        let read;
        let parsed = match parsed {
            Some(parsed) => parsed,
            None => {
                let text = self.value(expression).map_err(|fault| fault.within_key("expression"))?;
                let Value::String(text) = text else {
                    return Err(wrong(format!("want text as 'expression', got {}", describe(&text))));
                };
                read = yaql::parse(&text).map_err(wrong)?;
                &read
            }
        };
        let data = self.value(data).map_err(|fault| fault.within_key("data"))?;
        let value = yaql::evaluate(parsed, &data, Limits::STEPS, self.left.get()).map_err(wrong)?;
        self.spend(expression.at, weight(&value))?;
        Ok(value)
    }
}
