//! Paths of ONOS without a twin here: each answers 501 and what there is instead, before an API that nobody asks.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{Host, UNSUPPORTED, router};

/// The message of the answer to a request, which is 501.
pub async fn asked(method: Method, path: &str, document: &Value) -> String {
    let request = Request::builder().method(method).uri(format!("/onos/v1{path}"));
    let request = request.body(Body::from(document.to_string())).unwrap();
    let answer = router(Router::new(), Host { peer: |_| None }).oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_IMPLEMENTED, "{path}");
    let body = to_bytes(answer.into_body(), 1 << 16).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["code"], 501);
    body["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_path_without_a_twin_says_what_there_is() {
    for (path, why) in UNSUPPORTED {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            assert_eq!(asked(method, &path.replace(['{', '}', '*'], ""), &json!({})).await, *why);
        }
    }
}

/// As onos-netcfg asks: with a slash at the end, or a part of the configuration behind it.
#[tokio::test]
async fn a_network_configuration_is_declared_in_stacks() {
    let document = json!({"devices": {}, "links": {}});
    for path in ["/network/configuration", "/network/configuration/", "/network/configuration/links/a-b"] {
        let says = asked(Method::POST, path, &document).await;
        assert!(says.contains("Muster::TopologyLink, Muster::TopologyHost"), "{path}: {says}");
        assert_eq!(asked(Method::DELETE, path, &Value::Null).await, says);
    }
}
