use serde_json::json;

use super::*;

/// As in Heat: what is false in a condition gives way, also to a value of another kind.
#[test]
fn what_is_empty_gives_way() {
    for empty in [json!(null), json!(0), json!(false), json!(""), json!([]), json!({})] {
        for new in [json!(null), json!(1), json!("a"), json!([1]), json!({"a": 1})] {
            let (old, given) = (json!({"k": empty, "x": 1}), json!({"k": new}));
            let merged = merge(ParameterType::Json, Strategy::DeepMerge, old, given);
            let kept = if new.is_null() { &empty } else { &new };
            assert_eq!(merged, Ok(json!({"k": kept, "x": 1})), "{empty} {new}");
        }
    }
}
