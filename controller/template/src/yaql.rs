//! `yaql`: a query language for the data of a template. The supported part is what people's templates use,
//! evaluated within bounds; other functions are refused by name while the template is read.
//!
//! Sets are lists without equal items, and maps are in the order of their keys.

mod arguments;
mod collection;
mod evaluate;
mod number;
mod operator;
mod parse;
mod query;
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
    "aggregate",
    "all",
    "any",
    "append",
    "bool",
    "coalesce",
    "concat",
    "contains",
    "containsKey",
    "containsValue",
    "count",
    "defaultIfEmpty",
    "delete",
    "dict",
    "difference",
    "distinct",
    "endsWith",
    "enumerate",
    "first",
    "flatten",
    "float",
    "get",
    "groupBy",
    "indexOf",
    "indexWhere",
    "int",
    "intersect",
    "isBoolean",
    "isDict",
    "isEmpty",
    "isInteger",
    "isList",
    "isNumber",
    "isString",
    "items",
    "join",
    "keys",
    "last",
    "lastIndexOf",
    "len",
    "let",
    "limit",
    "list",
    "matches",
    "max",
    "mergeWith",
    "min",
    "orderBy",
    "orderByDescending",
    "range",
    "reduce",
    "regex",
    "replace",
    "reverse",
    "round",
    "select",
    "selectMany",
    "set",
    "single",
    "skip",
    "skipWhile",
    "split",
    "startsWith",
    "str",
    "substring",
    "sum",
    "switch",
    "take",
    "takeWhile",
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
    "norm",
    "rightSplit",
    "sign",
];

/// Functions of yaql that are not supported.
const REFUSED: &[&str] = &[
    "assert",
    "call",
    "characters",
    "cycle",
    "datetime",
    "def",
    "deleteAll",
    "examine",
    "format",
    "generate",
    "generateMany",
    "hex",
    "insert",
    "insertMany",
    "isDatetime",
    "isRegex",
    "isSet",
    "isTimespan",
    "lambda",
    "localtz",
    "memorize",
    "mergeSort",
    "now",
    "pow",
    "random",
    "randint",
    "repeat",
    "replaceBy",
    "escapeRegex",
    "search",
    "searchAll",
    "selectAllCases",
    "selectCase",
    "send",
    "sequence",
    "shiftBitsLeft",
    "shiftBitsRight",
    "slice",
    "sliceWhere",
    "splitAt",
    "splitWhere",
    "switchCase",
    "symmetricDifference",
    "thenBy",
    "thenByDescending",
    "timespan",
    "toCharArray",
    "utctz",
    "unpack",
    "zipLongest",
    "add",
    "remove",
    "yaql",
    "bitwiseAnd",
    "bitwiseOr",
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
