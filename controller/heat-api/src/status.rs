//! How the state of a stack and of a resource reads in Heat: `CREATE_COMPLETE`, and a reason.

use muster_api::resource::ResourceView;

/// Heat's `stack_status`.
pub fn of_stack(action: &str, status: &str) -> String {
    format!("{action}_{status}")
}

/// Heat's `resource_status`; of a resource that has not begun `INIT_COMPLETE`, as in Heat.
pub fn of_resource(row: &ResourceView) -> String {
    match &*row.status {
        "INIT" => "INIT_COMPLETE".to_owned(),
        status => format!("{}_{status}", row.action),
    }
}

/// Heat gives a reason always.
pub fn reason(action: &str, status: &str, reason: &str) -> String {
    match status {
        _ if !reason.is_empty() => reason.to_owned(),
        "COMPLETE" => format!("Stack {action} completed successfully"),
        "IN_PROGRESS" => format!("Stack {action} started"),
        _ => String::new(),
    }
}
