//! Functions over texts, and `make_url`.

use serde_json::json;

use super::{gives, says};

#[test]
fn str_replace_puts_values_in() {
    gives(&[
        (
            "{str_replace: {template: 'http://host/MyApplication', params: {host: 10.0.0.1}}}",
            json!("http://10.0.0.1/MyApplication"),
        ),
        ("{str_replace: {template: 'foobar foo', params: {foo: X, foobar: Y}}}", json!("Y X")),
        (
            "{str_replace: {template: {get_file: f.txt}, params: {f: {get_param: site}}}}",
            json!(
                "content o{\"dns\": [\"10.0.0.53\", \"10.0.1.53\"], \"name\": {\"short\": \"lab\"}, \"none\": null, \"pairs\": [[\"k\", \"v\"], [\"l\", \"w\"]]} {\"dns\": [\"10.0.0.53\", \"10.0.1.53\"], \"name\": {\"short\": \"lab\"}, \"none\": null, \"pairs\": [[\"k\", \"v\"], [\"l\", \"w\"]]}"
            ),
        ),
        ("{str_replace: {template: 'a b', params: {get_param: [site, name]}}}", json!("a b")),
    ]);
    says(&[
        ("{str_replace: {template: x}}", ".str_replace: str_replace wants both 'template' and 'params'"),
        ("{str_replace: [x]}", ".str_replace: want {template: …, params: …}, got a list"),
        ("{str_replace: {template: [x], params: {}}}", ".str_replace: want text as 'template', got a list"),
        ("{str_replace: {template: x, params: [a]}}", ".str_replace: want a map as 'params', got a list"),
        ("{str_replace: {template: x, params: {'': a}}}", ".str_replace: an empty text cannot be replaced"),
        (
            "{str_replace: {template: x, params: {get_param: list}}}",
            ".str_replace: want a map as 'params', got a list",
        ),
    ]);
}

#[test]
fn str_replace_strict_wants_every_text() {
    gives(&[
        ("{str_replace_strict: {template: 'a b', params: {a: x, b: ''}}}", json!("x ")),
        ("{str_replace_strict: {template: 'a', params: {}}}", json!("a")),
    ]);
    says(&[
        (
            "{str_replace_strict: {template: 'a b', params: {a: x, c: y, dd: z}}}",
            ".str_replace_strict: the template does not have 'dd', 'c'",
        ),
        // Within a longer one it is not found.
        (
            "{str_replace_strict: {template: 'foobar', params: {foo: x, foobar: y}}}",
            ".str_replace_strict: the template does not have 'foo'",
        ),
    ]);
}

#[test]
fn str_replace_vstrict_wants_values() {
    gives(&[(
        "{str_replace_vstrict: {template: 'a b c', params: {a: 0, b: false, c: [1]}}}",
        json!("0 False [1]"),
    )]);
    for empty in ["''", "null", "[]", "{}"] {
        says(&[(
            &*format!("{{str_replace_vstrict: {{template: 'a b', params: {{a: {empty}, b: x}}}}}}"),
            ".str_replace_vstrict: 'a' has an empty value",
        )]);
    }
    says(&[(
        "{str_replace_vstrict: {template: 'a', params: {a: x, b: y}}}",
        ".str_replace_vstrict: the template does not have 'b'",
    )]);
}

#[test]
fn str_split_gives_parts() {
    gives(&[
        // Heat's documentation
        ("{str_split: [',', 'string,to,split']}", json!(["string", "to", "split"])),
        ("{str_split: [',', 'string,to,split', 0]}", json!("string")),
        // Heat's code
        ("{str_split: [',', 'string,to,split', '2']}", json!("split")),
        ("{str_split: [',', 'string,to,split', -1]}", json!("split")),
        ("{str_split: [', ', 'a, b']}", json!(["a", "b"])),
        ("{str_split: [',', '']}", json!([""])),
        ("{str_split: [',', null]}", json!(null)),
        ("{str_split: [' ', {get_param: text}, 1]}", json!("text")),
    ]);
    says(&[
        ("{str_split: [',', 'a,b', 2]}", ".str_split[2]: the index is 2; want 0 to 1"),
        ("{str_split: [',', 'a,b', -3]}", ".str_split[2]: the index is -3; want 0 to 1"),
        ("{str_split: [',', 'a,b', x]}", ".str_split[2]: want an index, got text"),
        ("{str_split: ['', 'a,b']}", ".str_split[0]: the delimiter is empty"),
        ("{str_split: [',', [a]]}", ".str_split[1]: want text to split, got a list"),
        ("{str_split: [',']}", ".str_split: want [DELIMITER, TEXT, INDEX], got too few items"),
        ("{str_split: 'a,b'}", ".str_split: want [DELIMITER, TEXT, INDEX], got text"),
        ("{str_split: [',', {get_param: text}, 1]}", ".str_split[2]: the index is 1; want 0 to 0"),
    ]);
}

#[test]
fn list_join_makes_texts() {
    gives(&[
        // Heat's documentation
        ("{list_join: [', ', [one, two, and three]]}", json!("one, two, and three")),
        ("{list_join: [', ', [one, two], [three, four]]}", json!("one, two, three, four")),
        ("{list_join: ['-', {get_param: list}]}", json!("a-b-c")),
        ("{list_join: ['-', [{b: 1, a: [x]}, null]]}", json!("{\"a\": [\"x\"], \"b\": 1}-")),
    ]);
    says(&[
        ("{list_join: ['-']}", ".list_join: want [DELIMITER, LIST, …], got too few items"),
        ("{list_join: [[a], [b]]}", ".list_join: want text as delimiter, got a list"),
        ("{list_join: ['-', x]}", ".list_join: want a list to join, got text"),
        ("{list_join: ['-', {get_param: text}]}", ".list_join[1]: want a list to join, got text"),
    ]);
}

#[test]
fn make_url_escapes_its_parts() {
    gives(&[
        // Heat's documentation, with the host filled in
        (
            "{make_url: {scheme: http, host: 'fd00::7', port: 8080, path: /hello, query: {recipient: world}, fragment: greeting}}",
            json!("http://[fd00::7]:8080/hello?recipient=world#greeting"),
        ),
        // Heat's own tests
        (
            "{make_url: {scheme: http, host: example.com, port: '80', path: /foo/bar, query: {foo: bar&baz, blarg: wib=ble}, fragment: quux}}",
            json!("http://example.com:80/foo/bar?blarg=wib%3Dble&foo=bar%26baz#quux"),
        ),
        ("{make_url: {scheme: file, path: /foo/bar}}", json!("file:///foo/bar")),
        (
            "{make_url: {scheme: http, username: 'wibble:wibble', password: 'blarg/ 1', host: example.com}}",
            json!("http://wibble%3Awibble:blarg%2F%201@example.com"),
        ),
        ("{make_url: {username: u, host: '[::1]', path: x y}}", json!("//u@[::1]/x%20y")),
        ("{make_url: {password: p, host: h}}", json!("//:p@h")),
        (
            "{make_url: {path: '/a b/ü', query: {q: '/a b', n: 5, t: true}}}",
            json!("/a%20b/%C3%BC?n=5&q=/a+b&t=True"),
        ),
        ("{make_url: {}}", json!("")),
        ("{make_url: {host: {get_param: which}, port: {get_param: number}}}", json!("//short:3")),
    ]);
    says(&[
        ("{make_url: {hots: x}}", ".make_url: unknown key 'hots' of make_url; did you mean 'host'?"),
        (
            "{make_url: {hots: {get_param: text}}}",
            ".make_url: unknown key 'hots' of make_url; did you mean 'host'?",
        ),
        ("{make_url: {port: 0}}", ".make_url: want a number from 1 to 65535 as 'port'"),
        ("{make_url: {port: 65536}}", ".make_url: want a number from 1 to 65535 as 'port'"),
        ("{make_url: {port: http}}", ".make_url: want a number from 1 to 65535 as 'port'"),
        ("{make_url: {host: [a]}}", ".make_url: want text as 'host', got a list"),
        ("{make_url: {host: {get_param: list}}}", ".make_url: want text as 'host', got a list"),
        ("{make_url: {query: a=b}}", ".make_url: want a map as 'query', got text"),
        ("{make_url: {scheme: 'http:'}}", ".make_url: want the 'scheme' without ':'"),
        (
            "{make_url: x}",
            ".make_url: want a map of scheme, username, password, host, port, path, query, fragment, got text",
        ),
    ]);
}
