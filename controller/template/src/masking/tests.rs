use serde_json::json;

use super::*;

fn secrets(values: &[Value]) -> Secrets {
    Secrets::of(values.iter())
}

#[test]
fn long_ones_anywhere_short_ones_as_words() {
    for (hidden, text, shown) in [
        (json!("hunter22"), "password=hunter22;xhunter22x", "password=******;x******x"),
        (json!("1234"), "port 12345", "port ******5"),
        (json!(8080), "10.0.0.1:8080", "10.0.0.1:******"),
        (json!("abc"), "abc, abcd and (abc)", "******, abcd and (******)"),
        (json!(7), "7 of 17 after 7s", "****** of 17 after 7s"),
        (json!("a"), "a banana", "****** banana"),
        (json!("é"), "é, été", "******, été"),
        (json!(""), "all of it", "all of it"),
        (json!(" "), "all of it", "all of it"),
        (json!(true), "true", "true"),
        (json!(null), "null", "null"),
        (json!("true"), "it is true", "it is ******"),
        (json!("*****"), "****** and *****", "******* and ******"),
        (json!("say \"hi\"\nnow"), r#"{"a":"say \"hi\"\nnow"}"#, r#"{"a":"******"}"#),
        (json!("tab\there"), "'tab\\there'", "'******'"),
        (json!("a secret line\nand another\n"), "in 'and another'", "in '******'"),
        (json!("key\n"), "the key is", "the ****** is"),
        (
            json!({"user": "admin", "more": ["s3cret", 4711, "x"]}),
            "admin s3cret 4711 x xx",
            "****** ****** ****** ****** xx",
        ),
        (json!("correct horse battery"), "got 'correct horse b", "got '******"),
        (json!("correct horse battery"), "got correct horse b…", "got ******…"),
        (json!("correct horse battery"), "that is correct", "that is correct"),
        (json!("x".repeat(200)), &format!("'{}…'", "x".repeat(80)), "'******…'"),
    ] {
        assert_eq!(secrets(std::slice::from_ref(&hidden)).mask(text), shown, "{hidden} in {text}");
    }
}

#[test]
fn a_longer_secret_is_masked_whole_and_a_mask_is_not_remasked() {
    let both = secrets(&[json!("abcd"), json!("abcdefgh"), json!("***")]);
    assert_eq!(both.mask("abcdefgh abcd"), "****** ******");
    let parts = secrets(&[json!("abcd")]).and(&secrets(&[json!("abcdefgh"), json!(true)]));
    assert_eq!(parts.mask("abcdefgh abcd"), "****** ******");
    assert_eq!(parts.mask_value(json!(true)), json!(MASK));
    assert_eq!(parts.and(&Secrets::default()).mask("abcd"), MASK);
    assert_eq!(Secrets::default().and(&parts).mask("abcd"), MASK);
}

#[test]
fn values_are_masked_with_their_keys_and_keep_their_form() {
    let hidden = secrets(&[json!("hunter22"), json!(42), json!(false)]);
    let value = json!({"hunter22": ["x hunter22", 42, 421, true, false, null, 4.2], "b": {"c": "42"}});
    assert_eq!(
        hidden.mask_value(value),
        json!({MASK: ["x ******", MASK, 421, true, MASK, null, 4.2], "b": {"c": MASK}})
    );
    let shown = json!({"a": [1, true, "x"]});
    assert_eq!(Secrets::default().mask_value(shown.clone()), shown);
}

#[test]
fn with_too_many_nothing_is_shown() {
    let many: Vec<Value> = (0..5000).map(|n| json!(format!("secret-{n}"))).collect();
    let secrets = secrets(&many);
    assert_eq!((secrets.mask("anything").as_str(), secrets.mask("").as_str()), (MASK, ""));
    assert_eq!(secrets.mask_value(json!([1, true])), json!([MASK, MASK]));
}

#[test]
fn they_are_in_no_log() {
    assert_eq!(format!("{:?}", secrets(&[json!("hunter22")])), "Secrets");
}

#[test]
fn those_that_are_in_a_text_are_found() {
    let secrets = secrets(&[json!("hunter22"), json!(7), json!("line 1\nline 2 of it")]);
    assert_eq!(secrets.found_in("xhunter22x 7 hunter22"), ["hunter22", "hunter22"]);
    assert_eq!(secrets.found_in("of line 2 of it"), ["line 2 of it"]);
    assert!(secrets.found_in("hunter").is_empty() && Secrets::default().found_in("x").is_empty());
}
