//! HOT's functions: first version, syntax, meaning. The parser of templates uses this same table.
//!
//! Absent: how a value is computed (`render.rs`), and the functions within `yaql` (`yaql.rs`).

use crate::version::Version;

#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The name in templates.
    pub name: &'static str,
    /// The first version that has the function as a value.
    pub since: Option<Version>,
    /// The first version that has the function in conditions.
    pub in_conditions: Option<Version>,
    /// The syntax in templates.
    pub syntax: &'static str,
    pub meaning: &'static str,
}

impl Function {
    /// The first version that has the function anywhere.
    pub fn first(&self) -> Version {
        let versions = self.since.into_iter().chain(self.in_conditions);
        versions.min().expect("every function is somewhere")
    }
}

/// The functions, by name.
pub fn functions() -> &'static [Function] {
    &TABLE
}

pub(crate) fn find(name: &str) -> Option<&'static Function> {
    TABLE.binary_search_by(|function| function.name.cmp(name)).ok().map(|index| &TABLE[index])
}

const fn value(name: &'static str, since: Version, syntax: &'static str, meaning: &'static str) -> Function {
    Function { name, since: Some(since), in_conditions: None, syntax, meaning }
}

const fn condition(name: &'static str, syntax: &'static str, meaning: &'static str) -> Function {
    Function { name, since: None, in_conditions: Some(Version::Newton), syntax, meaning }
}

const fn both(
    name: &'static str,
    versions: (Version, Version),
    syntax: &'static str,
    meaning: &'static str,
) -> Function {
    Function { name, since: Some(versions.0), in_conditions: Some(versions.1), syntax, meaning }
}

/// Sorted by name.
static TABLE: [Function; 26] = [
    condition("and", "{and: [CONDITION, CONDITION, …]}", "whether all of them hold"),
    both(
        "contains",
        (Version::Pike, Version::Pike),
        "{contains: [VALUE, LIST]}",
        "whether the list has the value; also of a text in a text",
    ),
    value(
        "digest",
        Version::Kilo,
        "{digest: [ALGORITHM, TEXT]}",
        "md5, sha1, sha224, sha256, sha384 or sha512 of a text, in hex",
    ),
    condition("equals", "{equals: [VALUE, VALUE]}", "whether two values are the same"),
    value("filter", Version::Ocata, "{filter: [VALUES, LIST]}", "the list without those values"),
    value(
        "get_attr",
        Version::Icehouse,
        "{get_attr: [RESOURCE, ATTRIBUTE, KEY, …]}",
        "an attribute of a resource, or what is under those keys in it",
    ),
    value(
        "get_file",
        Version::Icehouse,
        "{get_file: NAME}",
        "the content of a file that comes with the template",
    ),
    value(
        "get_node",
        Version::Icehouse,
        "{get_node: [NODE, FACT, KEY, …]}",
        "Muster's own: name, labels or a fact of a node, or what is under those keys in it; waits until it is known",
    ),
    both(
        "get_param",
        (Version::Icehouse, Version::Newton),
        "{get_param: NAME} or {get_param: [NAME, KEY, …]}",
        "the value of a parameter, or what is under those keys in it",
    ),
    value("get_resource", Version::Icehouse, "{get_resource: RESOURCE}", "the id of a resource"),
    value(
        "if",
        Version::Newton,
        "{if: [CONDITION, VALUE, OTHERWISE]}",
        "one of two values; since wallaby the item or property is left out where the last is not given",
    ),
    value("list_concat", Version::Pike, "{list_concat: [LIST, LIST, …]}", "the lists as one; null is none"),
    value(
        "list_concat_unique",
        Version::Pike,
        "{list_concat_unique: [LIST, LIST, …]}",
        "the lists as one in which no value is twice: the last of equal ones stays",
    ),
    value(
        "list_join",
        Version::Icehouse,
        "{list_join: [DELIMITER, LIST, …]}",
        "the items of the lists as one text; maps and lists among them become JSON",
    ),
    value(
        "make_url",
        Version::Pike,
        "{make_url: {scheme: …, username: …, password: …, host: …, port: …, path: …, query: {KEY: VALUE}, fragment: …}}",
        "an address, each part escaped as it must be",
    ),
    value(
        "map_merge",
        Version::Mitaka,
        "{map_merge: [MAP, MAP, …]}",
        "the maps as one; of equal keys the last counts",
    ),
    value(
        "map_replace",
        Version::Newton,
        "{map_replace: [MAP, {keys: {OLD: NEW}, values: {OLD: NEW}}]}",
        "the map with other keys and values; a new key that is there already is an error",
    ),
    condition("not", "{not: CONDITION}", "whether it does not hold"),
    condition("or", "{or: [CONDITION, CONDITION, …]}", "whether one of them holds"),
    value(
        "repeat",
        Version::Kilo,
        "{repeat: {template: …, for_each: {TEXT: LIST}, permutations: true}}",
        "the template once for each item, or for each combination of items, with TEXT replaced",
    ),
    value(
        "resource_facade",
        Version::Icehouse,
        "{resource_facade: metadata | deletion_policy | update_policy}",
        "in a nested stack: what its resource in the outer template says",
    ),
    value(
        "str_replace",
        Version::Icehouse,
        "{str_replace: {template: TEXT, params: {TEXT: VALUE}}}",
        "the template with each of the texts replaced, the longest first; maps and lists become JSON",
    ),
    value(
        "str_replace_strict",
        Version::Ocata,
        "{str_replace_strict: {template: TEXT, params: {TEXT: VALUE}}}",
        "as str_replace; a text that is not in the template is an error",
    ),
    value(
        "str_replace_vstrict",
        Version::Pike,
        "{str_replace_vstrict: {template: TEXT, params: {TEXT: VALUE}}}",
        "as str_replace_strict; an empty value is an error too",
    ),
    value(
        "str_split",
        Version::Liberty,
        "{str_split: [DELIMITER, TEXT]} or {str_split: [DELIMITER, TEXT, INDEX]}",
        "the parts of a text, or one of them",
    ),
    both(
        "yaql",
        (Version::Newton, Version::Pike),
        "{yaql: {expression: TEXT, data: …}}",
        "what the expression makes of the data, which is $.data in it",
    ),
];
