//! The message about a type that Muster does not have: a cloud's, one of another program, or a typing error.

use crate::error::{cut, suggestion};
use crate::types::Kind;

/// The beginnings of types that no environment need map: an unknown one is a typing error.
pub(crate) const OWN: [&str; 2] = ["OS::Heat::", "Muster::"];

/// The error for an unknown type.
pub(crate) fn unknown_type(name: &str) -> String {
    if name == "OS::Heat::Stack" {
        return "OS::Heat::Stack is not supported, for its template is a text of another site: name the template's file \
                as the type"
            .to_owned();
    }
    if name == "OS::Heat::UpdateWaitConditionHandle" {
        return "OS::Heat::UpdateWaitConditionHandle is not supported, for every update would wait for all signals again: \
                use an OS::Heat::WaitConditionHandle, and another name for it where all signals must be sent again"
            .to_owned();
    }
    let near = suggestion(name, Kind::ALL.map(Kind::name));
    let of = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let hint = match () {
        () if of(&["OS::TripleO::"]) => "give the environment whose 'resource_registry' says what it is",
        () if of(&OWN) && !near.is_empty() => "",
        () if of(&["OS::", "AWS::"]) => {
            "what only a cloud has is mapped to a template or to OS::Heat::None by 'resource_registry' in an \
             environment"
        }
        () if near.is_empty() => {
            "'muster type list' has all types, and 'resource_registry' in an environment may say what others are"
        }
        () => "",
    };
    let between = match (near.is_empty(), hint.is_empty()) {
        (_, true) => "",
        (true, false) => "; ",
        (false, false) => " Or: ",
    };
    format!("unknown resource type '{}'{near}{between}{hint}", cut(name))
}
