//! `yaql`: a query language for the data of a template, with most of its standard library, evaluated within bounds;
//! other functions, and sequences without an end that nothing cuts, are refused while the template is read.
//!
//! Sets are lists without equal items, in the order of their first ones, and maps are in the order of their keys.

mod arguments;
mod collection;
mod edit;
mod evaluate;
mod format;
mod number;
mod operator;
mod parse;
mod query;
mod regex;
mod sequence;
mod text;
mod token;
mod value;

pub(crate) use evaluate::evaluate;
pub(crate) use parse::{Expression, parse};

use crate::error::{cut, suggestion};

/// Levels of an expression and of a value: every walk recurses this deep at most.
const DEPTH: usize = 64;

/// Functions of this build.
pub(crate) const FUNCTIONS: &[&str] = &[
    "abs",
    "accumulate",
    "add",
    "aggregate",
    "all",
    "any",
    "append",
    "assert",
    "bitwiseAnd",
    "bitwiseNot",
    "bitwiseOr",
    "bitwiseXor",
    "bool",
    "call",
    "characters",
    "coalesce",
    "concat",
    "contains",
    "containsKey",
    "containsValue",
    "count",
    "cycle",
    "defaultIfEmpty",
    "delete",
    "deleteAll",
    "dict",
    "difference",
    "distinct",
    "endsWith",
    "enumerate",
    "escapeRegex",
    "filter",
    "first",
    "flatten",
    "float",
    "format",
    "generate",
    "generateMany",
    "get",
    "groupBy",
    "hex",
    "indexOf",
    "indexWhere",
    "insert",
    "insertMany",
    "int",
    "intersect",
    "isBoolean",
    "isDict",
    "isEmpty",
    "isInteger",
    "isList",
    "isNumber",
    "isRegex",
    "isSet",
    "isString",
    "items",
    "join",
    "keys",
    "last",
    "lastIndexOf",
    "lastIndexWhere",
    "len",
    "let",
    "limit",
    "list",
    "map",
    "matches",
    "max",
    "mergeWith",
    "min",
    "norm",
    "orderBy",
    "orderByDescending",
    "pow",
    "range",
    "reduce",
    "regex",
    "remove",
    "repeat",
    "replace",
    "replaceBy",
    "replaceMany",
    "reverse",
    "rightSplit",
    "round",
    "search",
    "searchAll",
    "select",
    "selectAllCases",
    "selectCase",
    "selectMany",
    "sequence",
    "set",
    "shiftBitsLeft",
    "shiftBitsRight",
    "sign",
    "single",
    "skip",
    "skipWhile",
    "slice",
    "sliceWhere",
    "split",
    "splitAt",
    "splitWhere",
    "startsWith",
    "str",
    "substring",
    "sum",
    "switch",
    "switchCase",
    "symmetricDifference",
    "take",
    "takeWhile",
    "thenBy",
    "thenByDescending",
    "toCharArray",
    "toDict",
    "toList",
    "toLower",
    "toSet",
    "toUpper",
    "trim",
    "trimLeft",
    "trimRight",
    "union",
    "values",
    "where",
    "with",
    "zip",
    "zipLongest",
];

/// Functions of yaql that are not supported.
const REFUSED: &[&str] = &[
    "datetime",
    "def",
    "examine",
    "isDatetime",
    "isTimespan",
    "lambda",
    "localtz",
    "memorize",
    "mergeSort",
    "now",
    "randint",
    "random",
    "send",
    "timespan",
    "unpack",
    "utctz",
    "yaql",
];

/// Whether there is such a function; if not, what to say.
fn check(name: &str) -> Result<(), String> {
    if FUNCTIONS.contains(&name) {
        Ok(())
    } else if REFUSED.contains(&name) {
        Err(format!("the yaql function '{name}' is not supported"))
    } else {
        Err(format!(
            "there is no yaql function '{}'{}",
            cut(name),
            suggestion(name, FUNCTIONS.iter().copied())
        ))
    }
}
