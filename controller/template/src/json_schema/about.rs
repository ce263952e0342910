//! The keys of templates, described in a line each. Types, properties and functions describe themselves.

/// The description of an owner's key, or of the owner itself, which is the empty key.
pub(super) fn of(owner: &str, key: &str) -> &'static str {
    match (owner, key) {
        ("template", "") => "a template: the desired state of a stack",
        ("template", key) => of_section(key),
        ("resource", key) => of_resource(key),
        ("parameter", key) => of_parameter(key),
        ("constraint", key) => of_constraint(key),
        ("rollout", key) => of_rollout(key),
        ("output", "") => "a value of the stack for operators and outer templates",
        ("output", "value") => "the value, most often of get_attr",
        ("output", "condition") => "the output has a value only where this holds",
        ("group", "") => "parameters that are shown together",
        ("group", "parameters") => "their names, in the order in which they are shown",
        ("update_policy", "") => "the members of a group are made and changed in batches",
        ("update_policy", "batch_create") => "batches in which members are made",
        ("update_policy", "rolling_update") => "batches in which members are changed",
        ("batches", "") => "how large batches are, and what is between them",
        ("batches", "max_batch_size") => "how many members are under way at once",
        ("batches", "min_in_service") => "how many members are not under way",
        ("batches", "pause_time") => "seconds between two batches",
        ("for_each", "") => "one resource for each node that a selector matches",
        ("for_each", "nodes") => "a selector of labels, such as role=web",
        ("need", "") => "a resource that comes first",
        ("need", "resource") => "its name",
        ("need", "scope") => "of two for_each: node is the member on the same node, all is every member",
        (_, "label") => "a short name for operators",
        (_, "description") => "a text for operators",
        _ => "",
    }
}

fn of_section(key: &str) -> &'static str {
    match key {
        "heat_template_version" => "the version of HOT, which says what functions there are",
        "description" => "what the stack is for",
        "parameters" => "values that an operator or an environment gives",
        "parameter_groups" => "how parameters are shown to operators",
        "conditions" => "named conditions, from parameters",
        "resources" => "what there shall be, by name",
        "outputs" => "values of the stack, by name",
        _ => "",
    }
}

fn of_resource(key: &str) -> &'static str {
    match key {
        "" => "a resource",
        "type" => "what it is: a type, a template's file, or what an environment maps",
        "properties" => "how it shall be",
        "depends_on" => "resources that must be ready first",
        "for_each" => "makes it for each node that a selector matches",
        "rollout" => "how changes go through the nodes of a for_each",
        "deletion_policy" => "whether the thing stays when the resource goes",
        "drift_policy" => "what becomes of changes by others: corrected, reported or ignored",
        "update_policy" => "batches of a group",
        "external_id" => "the id of a thing that others own: it is compared, and not changed",
        "condition" => "the resource exists only where this holds",
        "metadata" => "what a nested template reads with resource_facade",
        "description" => "a text for operators",
        _ => "",
    }
}

fn of_parameter(key: &str) -> &'static str {
    match key {
        "" => "a value that an operator or an environment gives",
        "type" => "what values are converted to",
        "default" => "the value where none is given; without it one must be given",
        "label" => "a short name for operators",
        "description" => "a text for operators",
        "hidden" => "the value is masked wherever it is shown",
        "immutable" => "no update may change the value",
        "constraints" => "what values are allowed",
        "tags" => "words for a search",
        _ => "",
    }
}

fn of_constraint(key: &str) -> &'static str {
    match key {
        "" => "what a value must be",
        "length" => "how many characters, items or keys",
        "range" => "the least and the greatest number",
        "modulo" => "numbers in steps from an offset",
        "allowed_values" => "the values themselves",
        "allowed_pattern" => "a regular expression that matches all of a value",
        "custom_constraint" => "a form by its name",
        "description" => "what an operator reads where a value is refused",
        "min" => "the least",
        "max" => "the greatest",
        "step" => "the distance of two numbers",
        "offset" => "the first number",
        _ => "",
    }
}

fn of_rollout(key: &str) -> &'static str {
    match key {
        "" => "takes a change through the members in batches",
        "batch" => "how many members are under way at once: a number, or a percentage such as 10%",
        "pause" => "seconds after a batch before the next",
        "max_failures" => "with one failure more nothing else begins: a number, or a percentage",
        "canary" => "how many members go first, of which none may fail: a number, or a percentage",
        "away" => "a member whose node is away: skip, wait or fail",
        _ => "",
    }
}
