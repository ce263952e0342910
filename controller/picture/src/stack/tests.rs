use serde_json::{Value, json};

use super::*;

fn picture(answer: &Value) -> Picture {
    Picture::of(&serde_json::from_value(answer.clone()).unwrap())
}

fn answer() -> Value {
    serde_json::from_str(include_str!("../../testdata/stack.json")).unwrap()
}

/// Names that are none of a template's, from a controller that is none of ours.
fn hostile() -> Value {
    let mut answer = answer();
    answer["nodes"][1]["name"] = json!("a\"];\n</title><script>&'\\\u{1b}[2J\u{fffe}");
    answer["nodes"][1]["id"] = json!("1\\");
    answer["edges"][0]["resource_id"] = json!("1\\");
    answer
}

#[test]
fn dot() {
    insta::assert_snapshot!(picture(&answer()).dot());
}

#[test]
fn nothing_breaks_out_of_a_quoted_string_of_dot() {
    let text = picture(&hostile()).dot();
    crate::testing::is_quoted(&text);
    assert!(text.contains(r#"label="a\"];\\n</title><script>&'\\\\u{1b}[2J"#), "{text}");
    assert!(text.contains(r#"  "1\\" -> "3";"#), "{text}");
}

#[test]
fn svg() {
    insta::assert_snapshot!(picture(&answer()).svg());
}

#[test]
fn nothing_breaks_out_of_a_text_of_svg() {
    let text = picture(&hostile()).svg();
    assert!(!text.contains("<script") && !text.contains('\u{1b}') && !text.contains('\u{fffe}'), "{text}");
    assert!(text.contains("&lt;/title&gt;&lt;script&gt;&amp;&#39;"), "{text}");
    let opened = text.matches("<g>").count();
    assert_eq!((opened, text.matches("</g>").count()), (4, 5));
}

#[test]
fn a_large_graph_is_drawn_in_part_and_says_so() {
    let row = |index: usize| {
        let status = if index == 4999 { "FAILED" } else { "COMPLETE" };
        json!({"id": index.to_string(), "name": format!("r{index:05}"), "role": "forward", "action": "CREATE",
            "status": status, "ready": status == "COMPLETE"})
    };
    let edge = |index: usize| json!({"resource_id": (index % 30).to_string(), "needed_by": (30 + index / 30).to_string()});
    let answer = json!({"name": "web", "nodes": (0..5000).map(row).collect::<Vec<_>>(),
        "edges": (0..20_000).map(edge).collect::<Vec<_>>()});
    let text = picture(&answer).svg();
    assert!(text.contains("1000 of 5000 resources are drawn"), "{}", &text[..2000]);
    assert!(text.contains("5000 of ") && text.contains("arrows are drawn"));
    assert!(text.contains(">r04999<"), "what failed is drawn");
    assert_eq!(text.matches("<g>").count(), 1000);
}
